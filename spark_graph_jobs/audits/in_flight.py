"""Updates under way: ordered and not finished, in doubt, or stale.

At rest there are none, and the other audits assume rest. A participant waits for its coordinator alone. Therefore
comparing the rows of both shows whether an update will ever end.

Source: docs/protocol-updates.md, "An update, from command to answer"; docs/protocol-partitions.md, "In doubt".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pyarrow.parquet as pq

from spark_graph_jobs.finding import Finding, Severity
from spark_graph_jobs.snapshot.discovery import Collection

AUDIT: Final = "updates"
CHECKS: Final = (
    "No update is stale: each server that waits for an outcome waits for a coordinator that knows the update."
)

FIX: Final = "shadowtree status"


def audit(collection: Collection) -> list[Finding]:
    """Return a warning for each update under way, and an error for each that the awaited coordinator does not know.

    Snapshots that are not a cut may show an update at one server that had ended when the other was read: then it is a
    warning too.
    """
    rows: list[tuple[str, dict[str, Any]]] = [
        (snapshot.server, row)
        for snapshot in collection.snapshots
        if snapshot.rows["updates"]
        for row in pq.read_table(snapshot.folder / "updates.parquet").to_pylist()
    ]
    run = {(server, row["update"]) for server, row in rows if row["role"] == "coordinator"}
    there = {snapshot.server for snapshot in collection.snapshots}
    return list(_judge(rows, run, there, is_cut=collection.is_cut))


def _judge(
    rows: list[tuple[str, dict[str, Any]]], run: set[tuple[str, str]], there: set[str], *, is_cut: bool
) -> Iterator[Finding]:
    for server, row in rows:
        coordinator = row["coordinator"]
        is_known = coordinator not in there or (coordinator, row["update"]) in run
        is_stale = row["role"] == "participant" and not is_known
        where = f"{row['state']} at {server}, its {row['role']}"
        message = f"stale: {where}, and its coordinator does not know it" if is_stale else f"under way: {where}"
        waits = tuple(f"waits for {other}" for other in row["waits_for"])
        severity = Severity.ERROR if is_stale and is_cut else Severity.WARNING
        yield Finding(AUDIT, severity, row["update"], message, (f"coordinator: {coordinator}", *waits), FIX)
