"""Sanitizer of texts from servers: replaces characters that would act on a terminal, or begin another line.

Legal names contain none of these characters, so they stay unchanged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from functools import cache
from operator import attrgetter
from typing import Any, TypeVar

from shadowtree.printable_text import REPLACEMENT, are_printable, printable

__all__ = ["REPLACEMENT", "are_printable", "cleaned", "printable"]

_Value = TypeVar("_Value")


def cleaned(value: _Value) -> _Value:
    """Return a result of a call with all its texts made `printable`; the same object if nothing is replaced."""
    found: _Value = _cleaned(value)
    return found


def _cleaned(value: Any) -> Any:
    kind: Any = type(value)
    names, values_of = _fields_of(kind)
    if names:
        changed = {}
        for name, old in zip(names, values_of(value), strict=False):
            # Most fields of most answers are empty, or printable texts.
            if old and not (type(old) is str and old.isprintable()):
                new = _cleaned(old)
                if new is not old:
                    changed[name] = new
        return replace(value, **changed) if changed else value
    if isinstance(value, str):
        return printable(value)
    if isinstance(value, tuple):
        if value and isinstance(value[0], str) and are_printable(value):
            return value
        if set(map(type, value)) == {int}:
            return value
        found = tuple(map(_cleaned, value))
        return value if all(new is old for new, old in zip(found, value, strict=True)) else found
    return value


@cache
def _fields_of(kind: Any) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """Return the names of a dataclass's fields, and a function that returns their values and one more.

    There are no names for another class.
    """
    names = tuple(field.name for field in fields(kind)) if is_dataclass(kind) else ()
    # A getter of one attribute would return no tuple.
    return names, attrgetter(*names, "__class__")
