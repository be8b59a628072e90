"""Proofs of identity: certificates of servers and users, and the authorities that may vouch for them."""
