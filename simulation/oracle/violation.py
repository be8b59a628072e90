"""The exception of all checks."""

from __future__ import annotations


class InvariantViolatedError(AssertionError):
    """Names the invariant and the nodes for which it does not hold."""
