"""One node of three that replicate a list with PySyncObj (Raft). The first node appends and prints the times.

    python -m benchmarks.replicated_log FOLDER NUMBER COUNT ADDRESS ADDRESS ADDRESS

Node 0 appends COUNT payloads with many under way, then some one after the other. It prints a line `ready`, waits for a
line of input, and prints two numbers: the seconds until all are committed, and the median seconds until a single
payload is applied at another node and committed here. The other nodes end when their input ends.
"""

from __future__ import annotations

import statistics
import sys
import time
from pathlib import Path
from queue import SimpleQueue

from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated

PAYLOAD = "x" * 200
UNDER_WAY = 1_000
SINGLE = 100


class ReplicatedLog(SyncObj):
    """Payloads in the order on which the cluster agrees."""

    def __init__(self, own: str, others: list[str], journal: Path) -> None:
        # The tick period is also the least time of a single entry.
        super().__init__(own, others, SyncObjConf(journalFile=str(journal), autoTickPeriod=0.001))
        self.payloads: list[str] = []

    @replicated
    def append(self, payload: str) -> None:
        """Append one payload."""
        self.payloads.append(payload)


def main(folder: str, number: str, count: str, *addresses: str) -> None:
    """Run one node."""
    own = addresses[int(number)]
    log = ReplicatedLog(own, [other for other in addresses if other != own], Path(folder) / f"{number}.journal")
    while not log.isReady():
        time.sleep(0.01)
    print("ready", flush=True)
    sys.stdin.readline()
    if number == "0":
        print(_seconds_for_many(log, int(count)), _seconds_for_one(log), flush=True)
        sys.stdin.readline()
    log.destroy()


def _seconds_for_many(log: ReplicatedLog, count: int) -> float:
    ended: SimpleQueue[object] = SimpleQueue()

    def done(_result: object, error: object) -> None:
        ended.put(error)

    started = time.perf_counter()
    for sent in range(count):
        if sent >= UNDER_WAY:
            _require_success(ended.get())
        log.append(PAYLOAD, callback=done)
    for _ in range(min(count, UNDER_WAY)):
        _require_success(ended.get())
    return time.perf_counter() - started


def _seconds_for_one(log: ReplicatedLog) -> float:
    times = []
    for _ in range(SINGLE):
        started = time.perf_counter()
        log.append(PAYLOAD, sync=True, timeout=60)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def _require_success(error: object) -> None:
    if error != FAIL_REASON.SUCCESS:
        raise RuntimeError(f"PySyncObj did not append: {error}")


if __name__ == "__main__":
    main(*sys.argv[1:])
