"""Numbers with their nouns."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """Return a number and its noun. `many`: plural, by default `one` with an "s"."""
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
