"""Finds out how long a server's event loop was held: what a caller who comes at the wrong moment must wait for.

A *turn* is all that the loop does between two looks at its sockets. A `LoopWatch` measures the processor time of the
loop's thread in every turn. What other programs do meanwhile does not count.

`python tests/loop_watch.py REPORT serve ...` is the command line with a watch on it: at its end the file
`REPORT-<process id>.json` lists the long turns.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import os
import sys
import threading
import time
from collections import Counter
from operator import itemgetter
from pathlib import Path
from types import FrameType

SHOWN_FROM_SECONDS = 0.010
LOOK_SECONDS = 0.003
"""Between two looks of the second thread."""

FRAMES_SHOWN = 30


class LoopWatch:
    """Measures the turns of the event loop of the thread that makes it; one for a process.

    Of a long turn it notes the steps of the core that were in it, and which functions a second thread saw at work.
    """

    def __init__(self, report: Path) -> None:
        """Begins at once; writes the report when the process ends."""
        self._report = report
        self._turns: list[dict[str, object]] = []
        self._thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._thread)
        self._begun: float | None = None
        """The processor time of the loop's thread when the turn under way began; None between turns."""
        self._begun_at = 0.0
        self._seen: Counter[str] = Counter()
        self._steps: list[tuple[str, float]] = []
        self._watch_turns()
        threading.Thread(target=self._look_for_ever, daemon=True).start()
        atexit.register(self._write)

    def step_taken(self, what: str, seconds: float) -> None:
        """Note a step of the core in the turn under way."""
        self._steps.append((what, seconds))

    def _write(self) -> None:
        self._report.write_text(json.dumps(sorted(self._turns, key=itemgetter("cpu"), reverse=True)))

    def _watch_turns(self) -> None:
        watch = self
        run_handle = asyncio.Handle._run
        run_once = asyncio.BaseEventLoop._run_once

        def watched_handle(handle: asyncio.Handle) -> None:
            if watch._begun is None and threading.get_ident() == watch._thread:
                watch._begun_at = time.monotonic()
                watch._begun = time.thread_time()
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
        seconds = time.thread_time() - self._begun
        self._begun = None
        if seconds >= SHOWN_FROM_SECONDS:
            took = time.monotonic() - self._begun_at
            self._turns.append(
                {
                    "at": self._begun_at,
                    "cpu": seconds,
                    "clock": took,
                    "steps": [step for step in self._steps if step[1] >= SHOWN_FROM_SECONDS / 10],
                    "seen": self._seen.most_common(),
                }
            )
        self._steps = []
        self._seen = Counter()

    def _look_for_ever(self) -> None:
        while True:
            time.sleep(LOOK_SECONDS)
            begun = self._begun
            if begun is not None and time.clock_gettime(self._clock) - begun >= SHOWN_FROM_SECONDS:
                frame = sys._current_frames().get(self._thread)
                if frame is not None:
                    self._seen[_place(frame)] += 1


def _place(frame: FrameType | None) -> str:
    """The innermost functions of the project at work, the outermost of them first."""
    found: list[str] = []
    while frame is not None and len(found) < FRAMES_SHOWN:
        code = frame.f_code
        file = Path(code.co_filename)
        if "site-packages" not in file.parts and "asyncio" not in file.parts and file.name != "loop_watch.py":
            found.append(f"{file.stem}.{code.co_name}:{frame.f_lineno}")
        frame = frame.f_back
    return " > ".join(reversed(found))


def watch_server(report: str) -> None:
    """Watch the server that this thread is going to run: its turns, and the steps of the core in them."""
    from nameserver.driver.run_loop import RunLoop

    watch = LoopWatch(Path(report))
    step = RunLoop._step

    def watched_step(run_loop: RunLoop, event: object) -> None:
        begun = time.thread_time()
        try:
            step(run_loop, event)
        finally:
            size = len(getattr(event, "encoded", b""))
            what = f"{type(event).__name__} of {size:,} bytes" if size else type(event).__name__
            watch.step_taken(what, time.thread_time() - begun)

    RunLoop._step = watched_step  # type: ignore[method-assign]


def _main() -> None:
    del sys.path[0]
    watch_server(f"{sys.argv[1]}-{os.getpid()}.json")
    sys.argv[:] = ["shadowtree", *sys.argv[2:]]
    from shadowtree.cli.main import run

    run()


if __name__ == "__main__":
    _main()
