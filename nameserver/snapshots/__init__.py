"""Snapshots: the whole state of one server for other programs, from the running core or from its database."""
