"""Rosters in the text of a file: objects of Mailman's REST API, with the line each begins on.

A file holds any number of objects, one behind the other, with or without line ends between. Answers of the API (objects
with `entries`) and JSON arrays stand for their elements. Answers may therefore be put together in one file as they
came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Final

from mailing.rules.rosters import RosterError, Rosters, entry_of

_ENTRIES: Final = "entries"
_ANSWER_KEYS: Final = frozenset({"start", "total_size"})
"""Keys of an answer that may have no entries."""
_DECODER: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_BETWEEN_KEY_AND_VALUE: Final = re.compile(r"[ \t\r\n:]*")
_BETWEEN_VALUES: Final = re.compile(r"[ \t\r\n,]*")

_Values = Generator[tuple[int, object], None, int]
"""Values and their lines. The generator returns the position behind them."""


def read_rosters(text: str) -> Rosters:
    """Return the rosters in a text. Raises `RosterError` with the line of the first invalid object."""
    found = Rosters()
    for line, value in _values(text):
        found.add(entry_of(value, line))
    return found


@dataclass(slots=True)
class _Lines:
    """Line of each of many positions, which come in order."""

    text: str
    line: int = 1
    position: int = 0

    def at(self, position: int) -> int:
        self.line += self.text.count("\n", self.position, position)
        self.position = position
        return self.line


def _values(text: str) -> Iterator[tuple[int, object]]:
    lines, position = _Lines(text), _after(_BETWEEN_VALUES, text, 0)
    while position < len(text):
        if text[position] == "[":
            position = yield from _elements(text, position, lines, may_be_answers=True)
        elif text[position] == "{":
            position = yield from _object(text, position, lines)
        else:
            raise RosterError("this is no JSON: an object is wanted, { or [ begins one", lines.at(position))
        position = _after(_BETWEEN_VALUES, text, position)


def _object(text: str, start: int, lines: _Lines) -> _Values:
    """Yield one object, or the entries of an answer of the API."""
    line = lines.at(start)
    found, end = _value(text, start, lines)
    if not isinstance(found, dict) or not (_ENTRIES in found or found.keys() >= _ANSWER_KEYS):
        yield line, found
    elif isinstance(found.get(_ENTRIES), list):
        yield from _entries(text, start, lines)
    return end


def _entries(text: str, start: int, lines: _Lines) -> Iterator[tuple[int, object]]:
    """Yield the entries of an answer.

    The answer is known to be sound, and is read once more for the lines of its entries.
    """
    position = _after(_SPACE, text, start + 1)
    while not text.startswith("}", position):
        key, position = _value(text, position, lines)
        position = _after(_BETWEEN_KEY_AND_VALUE, text, position)
        if key == _ENTRIES:
            position = yield from _elements(text, position, lines, may_be_answers=False)
        else:
            _, position = _value(text, position, lines)
        position = _after(_BETWEEN_VALUES, text, position)


def _elements(text: str, start: int, lines: _Lines, *, may_be_answers: bool) -> _Values:
    """Yield the elements of an array. `may_be_answers`: True to yield the entries of answers among them."""
    position, is_first = _after(_SPACE, text, start + 1), True
    while not text.startswith("]", position):
        if not is_first:
            position = _past_comma(text, position, lines)
        is_first = False
        if may_be_answers:
            position = yield from _object(text, position, lines)
        else:
            line = lines.at(position)
            value, position = _value(text, position, lines)
            yield line, value
        position = _after(_SPACE, text, position)
    return position + 1


def _value(text: str, position: int, lines: _Lines) -> tuple[object, int]:
    try:
        return _DECODER.raw_decode(text, position)
    except json.JSONDecodeError as error:
        why = "it ends too early (cut off?)" if error.pos >= len(text.rstrip()) else error.msg
        raise RosterError(f"this is no JSON: {why}", lines.at(error.pos)) from None
    except (ValueError, RecursionError):
        raise RosterError("this is no JSON of Mailman: too deep, or a number too long", lines.at(position)) from None


def _past_comma(text: str, position: int, lines: _Lines) -> int:
    """Return the position behind a required comma and space."""
    if not text.startswith(",", position):
        why = "a comma is wanted" if position < len(text) else "it ends too early (cut off?)"
        raise RosterError(f"this is no JSON: {why}", lines.at(position))
    return _after(_SPACE, text, position + 1)


def _after(pattern: re.Pattern[str], text: str, position: int) -> int:
    found = pattern.match(text, position)
    return position if found is None else found.end()
