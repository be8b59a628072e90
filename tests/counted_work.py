"""Counts the work of a call in instructions of Python, which no load of the machine changes."""

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
