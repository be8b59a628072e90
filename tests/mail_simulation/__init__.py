"""The course of mail from seeds: the gateway's own rules, and all around them in memory.

distribution.py  one gateway: a spool, a name server and a mail server that fail
shares.py        three gateways that pass shares to one another
__main__.py      thousands of seeds of both, on all cores: `python -m tests.mail_simulation --help`
"""
