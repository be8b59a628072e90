"""Writer of snapshots: a folder for each server. The manifest is written last, so a folder with a manifest is whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from urllib.parse import quote

import pyarrow.parquet as pq

from shadowtree.client.foreign_text import printable
from shadowtree.client.snapshots.schema import DETAILS_TABLE, MANIFEST, MESSAGE_TABLES, POLICIES_TABLE, TABLES
from shadowtree.client.snapshots.tables import SnapshotCollector, SnapshotTables
from shadowtree.results import Snapshot
from shadowtree.v1 import admin_pb2
from shadowtree.vocabulary import Address

ROWS_OF_A_GROUP = 250_000
"""Rows of a row group, which Spark reads as one task at least."""


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """The source of a snapshot, for its manifest."""

    address: Address | None = None
    """Address of the server that was read; None for a database."""
    options: Mapping[str, str | float | bool | None] = field(default_factory=dict)
    """Options with which it was read, by name."""


def write_snapshot(
    chunks: Iterable[admin_pb2.SnapshotChunk],
    folder: Path,
    *,
    origin: SnapshotSource | None = None,
    on_caught_up: Callable[[], None] | None = None,
    progress: Callable[[int], None] | None = None,
) -> Snapshot:
    """Write the chunks from a server into its folder, inside `folder`; an existing snapshot is replaced.

    `on_caught_up` is called when the server waits for the cut. `progress` is told the number of rows so far.
    """
    collector = SnapshotCollector()
    for chunk in chunks:
        collector.add(chunk)
        if chunk.is_caught_up and on_caught_up is not None:
            on_caught_up()
        if progress is not None:
            progress(collector.rows)
    return write_tables(collector.finish(), folder, origin)


def write_encoded(chunks: Iterable[bytes], folder: Path, origin: SnapshotSource) -> Snapshot:
    """Write a snapshot from serialized chunks; see `write_snapshot`."""
    return write_snapshot(map(admin_pb2.SnapshotChunk.FromString, chunks), folder, origin=origin)


def write_tables(found: SnapshotTables, folder: Path, origin: SnapshotSource | None = None) -> Snapshot:
    """Write the tables of one server into its folder, inside `folder`."""
    place = folder / _folder_name(found.manifest["server"])
    place.mkdir(parents=True, exist_ok=True)
    (place / MANIFEST).unlink(missing_ok=True)
    for name in MESSAGE_TABLES.keys() - found.tables.keys():
        (place / f"{name}.parquet").unlink(missing_ok=True)
    rows = {}
    for name, table in found.tables.items():
        pq.write_table(table, place / f"{name}.parquet", compression="zstd", row_group_size=ROWS_OF_A_GROUP)
        rows[name] = table.num_rows
    source = origin or SnapshotSource()
    manifest = {
        **found.manifest,
        "taken_at": found.taken_at.isoformat(timespec="milliseconds"),
        "taken_by": f"shadowtree {version('shadowtree')}",
        "address": source.address,
        "options": dict(source.options),
        "rows": rows,
    }
    (place / MANIFEST).write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    server, revision = printable(manifest["server"]), printable(manifest["revision"])
    return Snapshot(server, revision, manifest["consistency"], str(place), rows["nodes"], rows["arcs"])


def forget_snapshots(folder: Path) -> None:
    """Delete the snapshots in a folder, and nothing else."""
    for manifest in sorted(folder.glob(f"*/{MANIFEST}")):
        manifest.unlink()
        for name in (*TABLES, DETAILS_TABLE, POLICIES_TABLE, *MESSAGE_TABLES):
            (manifest.parent / f"{name}.parquet").unlink(missing_ok=True)
        if not any(manifest.parent.iterdir()):
            manifest.parent.rmdir()


def _folder_name(server: str) -> str:
    """Return a name that stays inside the folder and is legal on every system, for any name of a server."""
    return quote(server, safe=" @") if server.strip(". ") else f"server {quote(server)}"
