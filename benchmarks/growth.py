"""State that a real server keeps of former members: answers to requests, and tombstones that wait to be forgotten."""

from __future__ import annotations

import tempfile
from pathlib import Path

from benchmarks.report import Figure
from benchmarks.servers import connected
from shadowtree import Client, Join, Leave

SUBNET = "bench.example"
GROUP = f"crowd@{SUBNET}"
BATCH = 5_000
WARM_UP_BATCHES = 2


def measure(*, quick: bool) -> list[Figure]:
    """Measure members that join and leave, each under a name of its own."""
    batches = 4 if quick else 20
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with connected(folder, subnets=[SUBNET]) as (server, client):
            client.create_group(GROUP)
            _come_and_go(client, range(WARM_UP_BATCHES))
            memory = server.resident_bytes()
            _come_and_go(client, range(WARM_UP_BATCHES, WARM_UP_BATCHES + batches))
            each_in_memory = (server.resident_bytes() - memory) / (batches * BATCH)
        # The server has ended, so all its data is in this one file.
        each_on_disk = (folder / "names.db").stat().st_size / ((WARM_UP_BATCHES + batches) * BATCH)
    return [
        Figure("kept in memory of each member that has left for good", each_in_memory, 1_000, "bytes"),
        Figure("kept on disk of each member that has left for good", each_on_disk, 250, "bytes"),
    ]


def _come_and_go(client: Client, batches: range) -> None:
    for batch in batches:
        members = [f"{batch}-{number}@{SUBNET}" for number in range(BATCH)]
        client.apply([Join(GROUP, member) for member in members])
        client.apply([Leave(GROUP, member) for member in members])
