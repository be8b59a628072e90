"""Import of a whole graph, and restart with it after a crash."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from benchmarks.report import Figure
from benchmarks.servers import EXAMPLE, connected, example_subnets
from shadowtree import Client


def measure(*, quick: bool) -> list[Figure]:
    """Import the example graph into SQLite, and restart after kill -9."""
    import_times, restart_times, peaks, files = [], [], [], []
    for _ in range(1 if quick else 3):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            subnets = example_subnets()
            with connected(folder, subnets=subnets) as (server, client):
                started = time.perf_counter()
                summary = client.import_file(EXAMPLE)
                import_times.append(time.perf_counter() - started)
                assert summary.arcs == 454_565, summary
                peaks.append(server.peak_resident_bytes() / 1e6)
                group = client.groups().groups[0]
                server.kill()
            started = time.perf_counter()
            with connected(folder, subnets=subnets) as (_, client):
                client.resolve(group)
                restart_times.append(time.perf_counter() - started)
                assert client.status().arcs == 454_565
            files.append(sum(file.stat().st_size for file in folder.glob("names.db*")) / 1e6)
    import_times.sort()
    restart_times.sort()
    middle = len(import_times) // 2
    return [
        Figure("import of the example graph, over gRPC into SQLite", import_times[middle], 10, "s"),
        Figure("  the server's memory at its peak", max(peaks), 500, "MB"),
        Figure("  its database, all files of it", max(files), None, "MB"),
        Figure("restart after kill -9, to the first answer", restart_times[middle], 5, "s"),
    ]


def import_example(client: Client) -> None:
    """Import the example graph for another topic."""
    client.import_file(EXAMPLE)
