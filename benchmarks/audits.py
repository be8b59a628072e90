"""The offline audit: the example graph over five servers, growth of time with size, and a single process beside it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

import psutil

from benchmarks.audit_snapshots import example, synthetic
from benchmarks.report import Figure

SIZES = (100_000, 1_000_000)
"""Numbers of arcs. For ten million: `python -m benchmarks.audits 100000 1000000 10000000`."""


@dataclass(frozen=True)
class Taken:
    """Time and memory of one program, all its processes together."""

    seconds: float
    cpu_seconds: float
    peak: int
    """Peak memory in bytes."""

    def __str__(self) -> str:
        load = os.getloadavg()[0]
        return (
            f"{self.seconds:.0f} s, {self.cpu_seconds:.0f} s of processor time, {self.peak / 1e9:.1f} GB at the peak, "
            f"load {load:.0f}"
        )


def measure(*, quick: bool) -> list[Figure]:
    """Audit snapshots as a user would, including Spark's start."""
    figures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not quick:
            example(folder / "example")
            for kind, options in (("full audit", ("--no-questions",)), ("audit with all questions", ())):
                taken = audit_in_spark(folder / "example", folder / "out", *options)
                what = f"{kind} of the example over 5 servers, local[2]"
                figures.append(Figure(what, taken.seconds, 180, "s", note=str(taken)))
            alone = audit_in_one_process(folder / "example")
            figures[0] = replace(figures[0], note=f"{figures[0].note}; a single process: {alone}")
        figures += growth(folder, SIZES[:1] if quick else SIZES)
    return figures


def growth(folder: Path, sizes: tuple[int, ...]) -> list[Figure]:
    """Audit synthetic graphs of these numbers of arcs."""
    figures = []
    first = None
    for size in sizes:
        snapshots = folder / f"synthetic-{size}"
        synthetic(snapshots, size)
        # The single process answers no questions of an auditor either.
        taken = audit_in_spark(snapshots, folder / "out", "--no-questions")
        alone = audit_in_one_process(snapshots)
        rate = taken.cpu_seconds / size
        first = rate if first is None else first
        what = f"audit of {size:,} synthetic arcs: processor time an arc, to that of {sizes[0]:,}"
        figures.append(Figure(what, rate / first, 2, "x", note=f"{taken}; a single process: {alone}"))
        shutil.rmtree(snapshots)
    return figures


def audit_in_spark(snapshots: Path, out: Path, *options: str) -> Taken:
    """Measure the audit, including Spark's start."""
    options = ("--out", str(out), "--master", "local[2]", "--memory", "4g", *options)
    return _run([sys.executable, "-m", "spark_graph_jobs", str(snapshots), *options])


def audit_in_one_process(snapshots: Path) -> Taken:
    """Measure the audit without Spark."""
    return _run([sys.executable, "-m", "benchmarks.single_process_audit", str(snapshots)])


def _run(command: list[str]) -> Taken:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ended = threading.Event()
    peak = 0
    cpu_seconds: dict[int, float] = {}

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.5):
            peak = max(peak, _look_at(process.pid, cpu_seconds))

    watcher = threading.Thread(target=watch)
    watcher.start()
    status = process.wait()
    ended.set()
    watcher.join()
    assert status == 0, f"{command[2]} ended with status {status}"
    return Taken(time.perf_counter() - started, sum(cpu_seconds.values()), peak)


def _look_at(pid: int, cpu_seconds: dict[int, float]) -> int:
    """Return the memory of a process and its descendants, and update the processor time that each has used so far."""
    total = 0
    try:
        whole = psutil.Process(pid)
        for process in (whole, *whole.children(recursive=True)):
            total += int(process.memory_info().rss)
            times = process.cpu_times()
            cpu_seconds[process.pid] = times.user + times.system
    except psutil.NoSuchProcess:
        pass
    return total


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for figure in growth(Path(place), tuple(int(size) for size in sys.argv[1:])):
            print(f"{figure.what}: {figure.value:.2f} ({figure.note})")
