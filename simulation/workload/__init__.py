"""Clients: what they ask for, and what they must be told."""
