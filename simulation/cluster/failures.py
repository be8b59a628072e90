"""What a core at fault raises, and which faults are alike."""

from __future__ import annotations

import re

FAULTS = (AssertionError, LookupError, TypeError, ValueError)
"""What is raised where a core is at fault."""

_LABEL = re.compile(r"([A-Z][A-Z0-9]|stuck|messages|queue|audience)(?=:)|a walk from \S+ (missed|does not end)")


def kind_of(error: BaseException) -> str:
    """Names what went wrong, so that a smaller run that fails can be told from one that fails in another way."""
    label = _LABEL.match(str(error))
    words = "" if label is None else " ".join(filter(None, label.groups()))
    return f"{type(error).__name__} {words}".rstrip()


def is_alike(found: str, kind: str) -> bool:
    """Whether what went wrong is of a kind; a type alone is the kind of all its failures."""
    return found == kind or found.startswith(f"{kind} ")
