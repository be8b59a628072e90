"""Simulations of mail from seeds: the gateway's own rules, with everything around them in memory.

distribution.py  one gateway: a spool, a name server and a mail server that fail
giving_up.py     servers that stay away for days: reports to authors and owners
shares.py        three gateways that pass shares to one another
__main__.py      thousands of seeds of each, on all cores: `python -m tests.mail_simulation --help`
"""
