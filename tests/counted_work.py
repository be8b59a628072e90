"""Counts the work of a call in instructions of Python, or in calls, which no load of the machine changes."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from types import FrameType

ROOT = Path(__file__).parents[1]


def instructions(call: Callable[[], object]) -> int:
    """Return how many instructions of Python a call takes, those of what it calls included."""
    count = 0

    def trace(frame: FrameType, event: str, _argument: object) -> object:
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


def calls(call: Callable[[], object]) -> int:
    """Return how many functions, of Python and of C, a call calls."""
    count = 0

    def note(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal count
        count += event in {"call", "c_call"}

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    # The last call is that of `setprofile`.
    return count - 1


@contextmanager
def calls_by_package() -> Iterator[Counter[str]]:
    """Count the calls of this thread in a block, by package of the project: of its functions, and of C by these.

    All other calls are counted with an empty name.
    """
    count: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event in {"call", "c_call"}:
            count[_package_of(frame.f_code.co_filename)] += 1

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        yield count
    finally:
        sys.setprofile(before)


@cache
def _package_of(file: str) -> str:
    path = Path(file)
    return path.relative_to(ROOT).parts[0] if path.is_relative_to(ROOT) else ""
