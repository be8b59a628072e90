"""Callers: each is found once a call, by what its listener and its credential prove."""
