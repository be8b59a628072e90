"""Sanitizer of texts from servers: replaces characters that would act on a terminal, or begin another line.

Legal names contain none of these characters, so they stay unchanged.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from functools import cache
from typing import Any, TypeVar, cast

from shadowtree.printable_text import REPLACEMENT, are_printable, printable

__all__ = ["REPLACEMENT", "are_printable", "cleaned", "printable"]

_Value = TypeVar("_Value")


def cleaned(value: _Value) -> _Value:
    """Return a result of a call with all its texts made `printable`; the same object if nothing is replaced."""
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
            new = _cleaned(old) if old else old  # Most fields of most answers are empty.
            if new is not old:
                changed[name] = new
        return replace(value, **changed) if changed else value
    return value


@cache
def _names_of_fields(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))
