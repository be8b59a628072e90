"""Longest turn of a server's event loop during large operations, in processor time of the loop's thread.

`tests/loop_watch.py` measures all turns. The test `test_loop_stalls.py` has more scenes, and counts calls instead.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import shadowtree
from benchmarks.builds import NOW
from benchmarks.report import Figure
from benchmarks.servers import CALL_SECONDS, EXAMPLE, example_subnets, name_servers
from shadowtree import Client

LONGEST_MS = 20
MEMBERS = 250_000
QUICK_MEMBERS = 30_000
BATCH = 20_000
CROWD, TOP, THERE = "crowd@a.example", "top@a.example", "there@b.example"


def measure(*, quick: bool) -> list[Figure]:
    """Measure one figure for each scene."""
    members = QUICK_MEMBERS if quick else MEMBERS

    def import_and_list(client: Client, _: Path) -> None:
        client.import_file(EXAMPLE)
        assert sum(1 for _ in client.groups()) > 0

    def walk_and_update_above(client: Client, folder: Path) -> None:
        client.import_file(_crowd(folder, members))
        assert len(client.resolve(CROWD, walk=True).walk) == members
        for parent in (TOP, THERE):
            client.create_group(parent)
            client.join(parent, CROWD)
        assert client.check(TOP, "p0@a.example")

    def delete_and_apply(client: Client, folder: Path) -> None:
        client.import_file(_crowd(folder, members))
        client.delete_group(CROWD, force=True)
        client.create_group(CROWD)
        client.apply([shadowtree.Join(CROWD, f"p{number}@a.example") for number in range(BATCH)])

    two = [["a.example"], ["b.example"]]
    return [
        _figure("an import of the example, and a list of its groups", [example_subnets()], import_and_list),
        _figure(f"a walk to {members:,} members, and updates above them", two, walk_and_update_above),
        _figure(f"a group of {members:,} is deleted; a batch of {BATCH:,}", two, delete_and_apply),
    ]


def _crowd(folder: Path, members: int) -> Path:
    rows = folder / "rows.tsv"
    rows.write_text("".join(f"{CROWD}\tp{number}@a.example\tmember\n" for number in range(members)))
    return rows


def _figure(what: str, shares: Sequence[Sequence[str]], scene: Callable[[Client, Path], None]) -> Figure:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with _watched(folder, shares) as address, Client(address, timeout=CALL_SECONDS) as client:
            scene(client, folder)
        turns = [turn for report in folder.glob("report-*.json") for turn in json.loads(report.read_text())]
    longest = max(turns, key=lambda turn: turn["amount"], default={"amount": 0, "seen": []})
    note = f"in {longest['seen'][0][0].rpartition(' > ')[2]}" if longest["seen"] else "none over 10 ms"
    return Figure(what, longest["amount"] * 1e3, LONGEST_MS, "ms", note=note)


@contextmanager
def _watched(folder: Path, shares: Sequence[Sequence[str]]) -> Iterator[str]:
    program = (sys.executable, str(NOW.folder / "tests" / "loop_watch.py"), str(folder / "report"))
    with name_servers(folder, shares, program=program) as servers:
        yield servers[0].address
