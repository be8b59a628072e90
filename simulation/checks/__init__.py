"""Invariants of a cluster, at rest and under way."""
