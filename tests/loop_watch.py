"""Finds out how much a server's event loop does in one turn: a caller may have to wait for all of it.

A *turn* is all that the loop does between two looks at its sockets. A `LoopWatch` measures every turn of the loop's
thread by a `Meter`. `CallsMeter` counts calls of functions, which are the same on every machine and beside every load.
`SecondsMeter` takes the processor time of the thread.

`python tests/loop_watch.py REPORT serve ...` is the command line with a watch on it: at its end the file
`REPORT-<process id>.json` lists the turns that took long.
"""

from __future__ import annotations

import asyncio
import atexit
import cProfile
import itertools
import json
import os
import sys
import threading
import time
from collections import Counter
from operator import itemgetter
from pathlib import Path
from types import FrameType
from typing import Protocol

FRAMES_SHOWN = 30


class Meter(Protocol):
    """Measures what the thread that made it does."""

    shown_from: float
    """The least of a turn that is reported."""

    def read(self) -> float:
        """Return the work of the thread since it began."""

    def take_places(self) -> list[tuple[str, int]]:
        """Return the places where the thread was seen at work since the last call, the most frequent place first."""


class _Places:
    """Places where a thread is at work, as sampled by a second thread."""

    LOOK_SECONDS = 0.003
    """Between two looks of the second thread."""

    def __init__(self) -> None:
        self._thread = threading.get_ident()
        self._seen: Counter[str] = Counter()
        threading.Thread(target=self._look_for_ever, daemon=True).start()

    def take(self) -> list[tuple[str, int]]:
        """Return the places seen since the last call, the most frequent one first."""
        found, self._seen = self._seen.most_common(), Counter()
        return found

    def _look_for_ever(self) -> None:
        while True:
            time.sleep(self.LOOK_SECONDS)
            frame = sys._current_frames().get(self._thread)
            if frame is not None:
                self._seen[_place(frame)] += 1


class CallsMeter:
    """Counts the functions that a thread calls, Python's and C's: one or two for each node, arc or row it handles.

    A call of C that handles many items counts as one. A profiler asks its timer at the begin and the end of each call.
    The timer is a counter, so that all of this is done in C. The thread takes some times as long meanwhile.
    """

    shown_from = 10_000

    def __init__(self) -> None:
        self._places = _Places()
        self._count = itertools.count().__next__
        self._profiler = cProfile.Profile(timer=self._count, timeunit=1.0, subcalls=False)
        self._profiler.enable()

    def read(self) -> float:
        """Calls so far."""
        return self._count() / 2

    def take_places(self) -> list[tuple[str, int]]:
        """Places that the second thread saw."""
        return self._places.take()


class SecondsMeter:
    """Takes the processor time of a thread."""

    shown_from = 0.010

    def __init__(self) -> None:
        self._places = _Places()

    def read(self) -> float:
        """Seconds so far, of the thread that asks."""
        return time.thread_time()

    def take_places(self) -> list[tuple[str, int]]:
        """Places that the second thread saw."""
        return self._places.take()


class LoopWatch:
    """Measures the turns of the event loop of the thread that makes it. One for a process.

    For a long turn it records the steps of the core in the turn, and the functions that were seen at work.
    """

    def __init__(self, report: Path, meter: Meter) -> None:
        """Begins at once; writes the report when the process ends."""
        self._report = report
        self._meter = meter
        self._turns: list[dict[str, object]] = []
        self._thread = threading.get_ident()
        self._begun: float | None = None
        """The meter when the turn under way began; None between turns."""
        self._begun_at = 0.0
        self._steps: list[tuple[str, float]] = []
        self._watch_turns()
        atexit.register(self._write)

    def step_taken(self, what: str, amount: float) -> None:
        """Note a step of the core in the turn under way."""
        self._steps.append((what, amount))

    def _write(self) -> None:
        sys.setprofile(None)
        self._report.write_text(json.dumps(sorted(self._turns, key=itemgetter("amount"), reverse=True)))

    def _watch_turns(self) -> None:
        watch = self
        run_handle = asyncio.Handle._run
        run_once = asyncio.BaseEventLoop._run_once

        def watched_handle(handle: asyncio.Handle) -> None:
            if watch._begun is None and threading.get_ident() == watch._thread:
                watch._begun_at = time.monotonic()
                watch._begun = watch._meter.read()
            run_handle(handle)

        def watched_turn(loop: asyncio.BaseEventLoop) -> None:
            run_once(loop)
            if threading.get_ident() == watch._thread:
                watch._end_turn()

        asyncio.Handle._run = watched_handle  # type: ignore[method-assign]
        asyncio.BaseEventLoop._run_once = watched_turn  # type: ignore[method-assign]

    def _end_turn(self) -> None:
        if self._begun is None:
            return
        amount = self._meter.read() - self._begun
        self._begun = None
        places = self._meter.take_places()
        if amount >= self._meter.shown_from:
            self._turns.append(
                {
                    "at": self._begun_at,
                    "amount": amount,
                    "steps": [step for step in self._steps if step[1] >= self._meter.shown_from / 10],
                    "seen": places,
                }
            )
        self._steps = []


def _place(frame: FrameType | None) -> str:
    """Return the innermost functions of the project at work, the outermost of them first."""
    found: list[str] = []
    while frame is not None and len(found) < FRAMES_SHOWN:
        code = frame.f_code
        file = Path(code.co_filename)
        if "site-packages" not in file.parts and "asyncio" not in file.parts and file.name != "loop_watch.py":
            found.append(f"{file.stem}.{code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " > ".join(reversed(found))


def watch_server(report: str, meter: Meter) -> None:
    """Watch the server that this thread is going to run: its turns, and the steps of the core in them."""
    from nameserver.driver.run_loop import RunLoop

    watch = LoopWatch(Path(report), meter)
    step = RunLoop._step

    def watched_step(run_loop: RunLoop, event: object) -> None:
        begun = meter.read()
        try:
            step(run_loop, event)
        finally:
            size = len(getattr(event, "encoded", b""))
            what = f"{type(event).__name__} of {size:,} bytes" if size else type(event).__name__
            watch.step_taken(what, meter.read() - begun)

    RunLoop._step = watched_step  # type: ignore[method-assign]


def _main() -> None:
    del sys.path[0]
    watch_server(f"{sys.argv[1]}-{os.getpid()}.json", SecondsMeter())
    sys.argv[:] = ["shadowtree", *sys.argv[2:]]
    from shadowtree.cli.main import run

    run()


if __name__ == "__main__":
    _main()
