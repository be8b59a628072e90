"""Decisions of the mail gateway: forms of addresses, answers to lookups, rights to post. Pure functions."""
