"""What a checker raises."""

from __future__ import annotations


class InvariantViolatedError(AssertionError):
    """Names the invariant and the nodes for which it does not hold."""
