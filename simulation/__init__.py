"""Proof by simulation: the protocol's invariants as functions that tests, the simulator and the audit share."""
