"""Long lists for people: the first few, and the number of the rest."""

from __future__ import annotations

SHOWN = 3
"""Number of names shown. A server may own hundreds of subnets, a message have thousands of recipients. JSON has all."""


def first_few(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the first names, and the number of the rest."""
    more = len(names) - SHOWN
    return (*names[:SHOWN], f"... {more:,} more") if more > 0 else names
