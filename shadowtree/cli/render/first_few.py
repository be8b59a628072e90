"""Long lists as people are told them: the first few, and how many more there are."""

from __future__ import annotations

SHOWN = 3
"""Where people read: a server may own hundreds of subnets, and a message have thousands of recipients. JSON has all."""


def first_few(names: tuple[str, ...]) -> tuple[str, ...]:
    """Names as people are told: the first, and how many more there are."""
    more = len(names) - SHOWN
    return (*names[:SHOWN], f"... {more:,} more") if more > 0 else names
