"""Long lists as people are told them: the first few, and how many more there are."""

from __future__ import annotations

SUBNETS_SHOWN = 3
"""Of a peer, where people read: a server may own hundreds. JSON has all."""


def first_few(subnets: tuple[str, ...]) -> tuple[str, ...]:
    """The subnets of a peer as people are told: the first, and how many more there are."""
    more = len(subnets) - SUBNETS_SHOWN
    return (*subnets[:SUBNETS_SHOWN], f"... {more:,} more") if more > 0 else subnets
