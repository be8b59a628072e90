"""The offline audit: the example graph over five servers, how time grows with size, and a single process beside it."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import psutil

from benchmarks.audit_snapshots import example, synthetic
from benchmarks.report import Figure

SIZES = (100_000, 1_000_000)
"""Arcs. Ten million take some hours on two cores: `python -m benchmarks.audits 10000000`."""


def measure(*, quick: bool) -> list[Figure]:
    """Audit snapshots as a user would, Spark's start included."""
    figures = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if not quick:
            example(folder / "example")
            seconds, peak = audit_in_spark(folder / "example", folder / "out")
            alone, _ = audit_in_one_process(folder / "example")
            note = f"{peak / 1e9:.1f} GB at the peak; a single process: {alone:.0f} s"
            figures.append(Figure("full audit of the example over 5 servers, local[2]", seconds, 180, "s", note=note))
        figures += growth(folder, SIZES[:1] if quick else SIZES)
    return figures


def growth(folder: Path, sizes: tuple[int, ...]) -> list[Figure]:
    """Audit synthetic graphs of these numbers of arcs."""
    figures = []
    first = None
    for size in sizes:
        snapshots = folder / f"synthetic-{size}"
        synthetic(snapshots, size)
        # The single process asks no questions of an auditor, either.
        seconds, peak = audit_in_spark(snapshots, folder / "out", "--no-questions")
        alone, alone_peak = audit_in_one_process(snapshots)
        rate = seconds / size
        first = rate if first is None else first
        note = (
            f"{seconds:.0f} s, {peak / 1e9:.1f} GB at the peak; "
            f"a single process: {alone:.0f} s, {alone_peak / 1e9:.1f} GB"
        )
        what = f"audit of {size:,} synthetic arcs: time an arc, to that of {sizes[0]:,}"
        figures.append(Figure(what, rate / first, 2, "x", note=note))
    return figures


def audit_in_spark(snapshots: Path, out: Path, *options: str) -> tuple[float, int]:
    """Seconds, and bytes of memory of all its processes at the peak."""
    options = ("--out", str(out), "--master", "local[2]", "--memory", "4g", *options)
    return _run([sys.executable, "-m", "spark_graph_jobs", str(snapshots), *options])


def audit_in_one_process(snapshots: Path) -> tuple[float, int]:
    """The same of the audit without Spark."""
    return _run([sys.executable, "-m", "benchmarks.single_process_audit", str(snapshots)])


def _run(command: list[str]) -> tuple[float, int]:
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    ended = threading.Event()
    peak = 0

    def watch() -> None:
        nonlocal peak
        while not ended.wait(0.5):
            peak = max(peak, _memory_of(process.pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    status = process.wait()
    ended.set()
    watcher.join()
    assert status == 0, f"{command[2]} ended with status {status}"
    return time.perf_counter() - started, peak


def _memory_of(pid: int) -> int:
    total = 0
    try:
        whole = psutil.Process(pid)
        for process in (whole, *whole.children(recursive=True)):
            total += int(process.memory_info().rss)
    except psutil.NoSuchProcess:
        pass
    return total


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        for figure in growth(Path(place), tuple(int(size) for size in sys.argv[1:])):
            print(f"{figure.what}: {figure.value:.2f} ({figure.note})")
