"""Iterative graph algorithms: one interface with two implementations, GraphFrames and the driver."""
