"""Exceptions of a core at fault, and the comparison of failures."""

from __future__ import annotations

import re

FAULTS = (AssertionError, LookupError, TypeError, ValueError)
"""Exceptions that a core at fault raises."""

_LABEL = re.compile(r"([A-Z][A-Z0-9]|stuck|messages|queue|audience)(?=:)|a walk from \S+ (missed|does not end)")


def kind_of(error: BaseException) -> str:
    """Name the kind of a failure, to tell whether a smaller run fails in the same way."""
    label = _LABEL.match(str(error))
    words = "" if label is None else " ".join(filter(None, label.groups()))
    return f"{type(error).__name__} {words}".rstrip()


def is_alike(found: str, kind: str) -> bool:
    """True if a failure is of a kind. An exception type alone matches every failure of that type."""
    return found == kind or found.startswith(f"{kind} ")
