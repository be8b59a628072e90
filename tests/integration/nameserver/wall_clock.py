"""A wall clock of a process's own, which tests can set forward and back while it runs. The monotonic clock stays.

A library with which the process is started (libfaketime) sets it, so everything in the process sees the same time:
Python, gRPC, SQLite. The package only brings that library, and no module of it is imported.
"""

from __future__ import annotations

import platform
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

NEEDED = "libfaketime is not there: pip install libfaketime, on Linux with an x86-64 processor"


class WallClock:
    """`environment` is what a process needs to go by it."""

    def __init__(self, file):
        self._file = file
        self.turn(0)
        self.environment = {
            "LD_PRELOAD": str(_library()),
            "FAKETIME_TIMESTAMP_FILE": str(file),
            "FAKETIME_NO_CACHE": "1",
            "DONT_FAKE_MONOTONIC": "1",
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }

    def turn(self, seconds):
        """Let it be so far before, or behind, the true time, at once."""
        fresh = self._file.with_suffix(".new")
        fresh.write_text(f"{seconds:+d}\n")
        fresh.replace(self._file)


def _library():
    spec = find_spec("libfaketime")
    if spec is None or (sys.platform, platform.machine()) != ("linux", "x86_64"):
        pytest.skip(NEEDED)
    (folder,) = spec.submodule_search_locations
    return Path(folder) / "vendor/libfaketime/src/libfaketime.so.1"
