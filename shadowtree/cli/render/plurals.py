"""Numbers with their nouns."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, one: str, many: str = "") -> str:
    """Return the number and the noun that fits it, such as "1 group", "2 groups"; `many`: "" for `one` with an s."""
    return f"{number} {_fitting(number, one, many)}"


def counted_for_people(number: int, one: str, many: str = "") -> str:
    """Return the number and the fitting noun, with commas between thousands, such as "2,000 groups"."""
    return f"{number:,} {_fitting(number, one, many)}"


def listed(names: Sequence[str]) -> str:
    """Return the names as a list in a sentence: "a", "a and b", "a, b and c"."""
    *others, last = names
    return f"{', '.join(others)} and {last}" if others else last


def _fitting(number: int, one: str, many: str) -> str:
    return one if number == 1 else many or f"{one}s"
