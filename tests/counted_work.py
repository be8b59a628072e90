"""Counts the work of a call in instructions of Python, or in calls, which no load of the machine changes."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


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
