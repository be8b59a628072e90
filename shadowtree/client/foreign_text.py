"""What servers send is the text of others: here it loses what would act on a terminal, or begin another line.

Names that are legal hold none of these characters, so they come through as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, Final, TypeVar, cast

REPLACEMENT: Final = "\N{REPLACEMENT CHARACTER}"

_UNWANTED: Final = re.compile(
    # Controls and ends of lines; surrogates and private use; and the characters of format, which Unicode has scattered.
    "[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\uf8ff\U000f0000-\U0010ffff"
    "\xad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff"
    "\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0001\U000e0020-\U000e007f]"
)

_Value = TypeVar("_Value")


def printable(text: str) -> str:
    """The text with each such character replaced."""
    return text if text.isprintable() else _UNWANTED.sub(REPLACEMENT, text)


def are_printable(texts: Iterable[str]) -> bool:
    """Whether none of the texts holds such a character."""
    together = "".join(texts)
    return together.isprintable() or _UNWANTED.search(together) is None


def cleaned(value: _Value) -> _Value:
    """A result of a call with all its texts made `printable`: the very same where nothing is to be replaced."""
    return cast(_Value, _cleaned(value))


def _cleaned(value: Any) -> Any:
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, tuple):
        if value and isinstance(value[0], str) and are_printable(value):
            return value
        if set(map(type, value)) == {int}:
            return value
        found = tuple(map(_cleaned, value))
        return value if all(new is old for new, old in zip(found, value, strict=True)) else found
    if is_dataclass(value) and not isinstance(value, type):
        changed = {}
        for name in _names_of_fields(type(value)):
            old = getattr(value, name)
            new = _cleaned(old)
            if new is not old:
                changed[name] = new
        return replace(value, **changed) if changed else value
    return value


@cache
def _names_of_fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
