"""The course of mail from seeds: the gateway's own rules, and all around them in memory.

distribution.py  one gateway: a spool, a name server and a mail server that fail
giving_up.py     servers that stay away for days: who is told of what
shares.py        three gateways that pass shares to one another
__main__.py      thousands of seeds of each, on all cores: `python -m tests.mail_simulation --help`
"""
