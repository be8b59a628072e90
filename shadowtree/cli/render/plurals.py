"""Numbers with their nouns."""

from __future__ import annotations


def counted(number: int, one: str, many: str = "") -> str:
    """Return the number and the noun that fits it, such as "1 group", "2 groups"; `many`: "" for `one` with an s."""
    return f"{number} {one if number == 1 else many or one + 's'}"
