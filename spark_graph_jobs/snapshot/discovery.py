"""Finds the snapshots in a folder and says which can be judged, before Spark touches them.

What is wrong with one is said by name, and the audit goes on with the others. It is then *partial*: it may find errors,
but never says that all is well.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from spark_graph_jobs.finding import Finding, Severity, shell_line
from spark_graph_jobs.snapshot.schema import (
    DELIVERIES,
    DELIVERIES_SCHEMA,
    MANIFEST,
    MESSAGE_TABLES,
    SCHEMA_VERSION,
    TABLES,
)

AUDIT: Final = "snapshots"
CHECKS: Final = (
    "Every server has a snapshot that can be read, all are of one cut or of none, and no subnet has two owners."
)


def _again(folder: Path) -> str:
    return shell_line("audit", "snapshot", "--out", str(folder))


class UnreadableError(Exception):
    """A snapshot, or a part of one, that cannot be used; the text says which and why."""


@dataclass(frozen=True, slots=True)
class MessageEnds:
    """What the manifest says of messages."""

    log_last: int
    log_cut: int
    numbered: int
    """The highest number that a mailbox was given."""


@dataclass(frozen=True, slots=True)
class Taken:
    """How a snapshot was taken."""

    at: datetime
    """Time of its last row, in UTC, by the clock of the machine that took it."""
    by: str
    """Program and version."""
    address: str | None
    """Address of the server. None for a database."""
    options: Mapping[str, str | float | bool | None]

    @property
    def source(self) -> str:
        """The address, or the configuration whose database was read."""
        return self.address or f"database of {self.options.get('config', '?')}"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the manifest of one server says."""

    server: str
    folder: Path
    subnets: tuple[str, ...]
    revision: str
    cut: str | None
    """What names the cut, where it is part of one."""
    peers: tuple[tuple[str, tuple[str, ...]], ...]
    """(server, its subnets) of all others it knows."""
    rows: Mapping[str, int]
    database_failure: str | None
    messages: MessageEnds | None = None
    """None: it says nothing of messages."""
    taken: Taken | None = None
    """None: the program that took it was older, and did not write that down."""


@dataclass(frozen=True, slots=True)
class Missing:
    """A server that others know, and that has no snapshot here that can be read."""

    server: str
    subnets: tuple[str, ...]
    """As the others have it, sorted."""
    known_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Collection:
    """The snapshots that can be judged together, and what was wrong with what was given."""

    snapshots: tuple[Snapshot, ...]
    """Sorted by server."""
    findings: tuple[Finding, ...]
    is_partial: bool
    """Whether anything that should be there is not, so that "consistent" cannot be said."""
    deliveries: Path | None
    """A delivery log, where there is one."""
    missing: tuple[Missing, ...] = ()
    """Sorted by server."""
    lacks_servers: bool = False
    """Whether there may be nodes of which nothing here tells: a server is missing, or a folder cannot be read."""

    @property
    def is_cut(self) -> bool:
        """Whether all show one instant."""
        return bool(self.snapshots) and all(
            snapshot.cut is not None and snapshot.cut == self.snapshots[0].cut for snapshot in self.snapshots
        )

    @property
    def taken_between(self) -> tuple[datetime, datetime] | None:
        """The times of the first and the last snapshot; None where one of them lacks its time."""
        times = [None if snapshot.taken is None else snapshot.taken.at for snapshot in self.snapshots]
        known = [time for time in times if time is not None]
        return (min(known), max(known)) if known and len(known) == len(times) else None

    @property
    def arcs(self) -> int:
        """Rows of arcs, each at every server that holds it."""
        return sum(snapshot.rows["arcs"] for snapshot in self.snapshots)


def read_collection(folder: Path) -> Collection:
    """Read the manifests below `folder` and check what they promise; raise `UnreadableError` where it is no folder."""
    if not folder.is_dir():
        raise UnreadableError(f"{folder} is no folder")
    found: dict[str, Snapshot] = {}
    findings = []
    is_unreadable = False
    for place in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
        if not (place / MANIFEST).exists() and not any((place / f"{table}.parquet").exists() for table in TABLES):
            continue
        try:
            snapshot = read_snapshot(place)
        except UnreadableError as error:
            findings.append(_left_out(place.name, str(error), folder))
            is_unreadable = True
            continue
        if snapshot.server in found:
            other = found[snapshot.server].folder.name
            findings.append(_left_out(place.name, f"{snapshot.server} has a snapshot already, in {other}", folder))
        else:
            found[snapshot.server] = snapshot
    snapshots = tuple(found[server] for server in sorted(found))
    missing = tuple(_missing(snapshots))
    lacks_servers = bool(missing) or is_unreadable or not snapshots
    absent = [*_tell_missing(missing, folder), *_tell_nothing(snapshots, folder), *_silent(snapshots, folder)]
    mixed = list(_mixed(snapshots, folder))
    deliveries = folder / DELIVERIES
    unreadable_log = list(_judge_deliveries(deliveries))
    is_partial = bool(findings or absent or mixed or unreadable_log)
    findings += [*absent, *mixed, *_claimed_twice(snapshots), *_failures(snapshots), *unreadable_log]
    has_log = deliveries.exists() and not unreadable_log
    log = deliveries if has_log else None
    return Collection(snapshots, tuple(findings), is_partial, log, missing, lacks_servers)


def read_snapshot(folder: Path) -> Snapshot:
    """Read the manifest of one server and check that each file is whole, or raise `UnreadableError`."""
    try:
        content = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise UnreadableError(f"it has no {MANIFEST}: writing it was not finished") from None
    except (OSError, ValueError) as error:
        raise UnreadableError(f"its {MANIFEST} cannot be read: {error}") from error
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise UnreadableError(
            f"its schema version is {version}, and this audit reads {SCHEMA_VERSION}: take another snapshot with the "
            "`shadowtree` that runs this audit"
        )
    try:
        messages = _message_ends(content.get("messages"))
        schemas = TABLES if messages is None else TABLES | MESSAGE_TABLES
        snapshot = Snapshot(
            server=str(content["server"]),
            folder=folder,
            subnets=tuple(map(str, content["subnets"])),
            revision=str(content["revision"]),
            cut=None if content["cut"] is None else str(content["cut"]),
            peers=tuple((str(peer["server"]), tuple(map(str, peer["subnets"]))) for peer in content["peers"]),
            rows={table: int(content["rows"][table]) for table in schemas},
            database_failure=None if content["database_failure"] is None else str(content["database_failure"]),
            messages=messages,
            taken=_taken(content),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise UnreadableError(f"its {MANIFEST} lacks or misstates {error}") from error
    for table, schema in schemas.items():
        rows = _rows_in(folder / f"{table}.parquet", schema)
        if rows != snapshot.rows[table]:
            raise UnreadableError(f"{table}.parquet has {rows} rows, and the manifest says {snapshot.rows[table]}")
    return snapshot


def _message_ends(content: Mapping[str, int] | None) -> MessageEnds | None:
    if content is None:
        return None
    return MessageEnds(int(content["log_last"]), int(content["log_cut"]), int(content["mailboxes_numbered"]))


def _taken(content: Mapping[str, Any]) -> Taken | None:
    if "taken_at" not in content:
        return None
    at = datetime.fromisoformat(content["taken_at"])
    if at.tzinfo is None:
        raise ValueError("taken_at, which has no time zone")
    options = content["options"]
    if not isinstance(options, dict):
        raise TypeError("options, which are no object")
    address = None if content["address"] is None else str(content["address"])
    return Taken(at.astimezone(UTC), str(content["taken_by"]), address, options)


def _rows_in(path: Path, schema: pa.Schema) -> int:
    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError:
        raise UnreadableError(f"{path.name} is missing") from None
    except (OSError, pa.ArrowException) as error:
        raise UnreadableError(f"{path.name} is truncated or damaged: {str(error).splitlines()[0]}") from error
    with file:
        found = {field.name: field.type for field in file.schema_arrow}
        for field in schema:
            if field.name not in found or not _are_alike(found[field.name], field.type):
                kind = found.get(field.name, "missing")
                raise UnreadableError(f"column {field.name} of {path.name} is {kind}, not {field.type}")
        return int(file.metadata.num_rows)


def _are_alike(found: pa.DataType, expected: pa.DataType) -> bool:
    """Whether two types are one, but for the names and nullability of what is inside lists."""
    if pa.types.is_list(expected):
        return bool(pa.types.is_list(found) and found.value_type == expected.value_type)
    return bool(found == expected)


def _left_out(name: str, why: str, folder: Path) -> Finding:
    return Finding(AUDIT, Severity.WARNING, name, f"left out: {why}", (str(folder / name),), _again(folder))


def _missing(snapshots: Sequence[Snapshot]) -> Iterator[Missing]:
    """Servers that others know and that have no snapshot."""
    known: dict[str, dict[str, tuple[str, ...]]] = {}
    for snapshot in snapshots:
        for peer, subnets in snapshot.peers:
            known.setdefault(peer, {})[snapshot.server] = subnets
    there = {snapshot.server for snapshot in snapshots}
    for server in sorted(known.keys() - there):
        named = {subnet for subnets in known[server].values() for subnet in subnets}
        yield Missing(server, tuple(sorted(named)), tuple(known[server]))


def _tell_missing(missing: Iterable[Missing], folder: Path) -> Iterator[Finding]:
    for each in missing:
        evidence = tuple(f"{other} knows it" for other in each.known_by)
        message = "there is no snapshot of this server that can be read; what leads to it cannot be judged"
        yield Finding(AUDIT, Severity.WARNING, each.server, message, evidence, _again(folder))


def _tell_nothing(snapshots: Sequence[Snapshot], folder: Path) -> Iterator[Finding]:
    if not snapshots:
        message = "there is no snapshot here that can be read"
        yield Finding(AUDIT, Severity.WARNING, str(folder), message, (), _again(folder))


def _silent(snapshots: Sequence[Snapshot], folder: Path) -> Iterator[Finding]:
    """Snapshots that say nothing of messages beside others that do."""
    if all(snapshot.messages is None for snapshot in snapshots):
        return
    for snapshot in snapshots:
        if snapshot.messages is None:
            message = "its snapshot says nothing of messages; what it logged of them cannot be judged"
            yield Finding(AUDIT, Severity.WARNING, snapshot.server, message, (), _again(folder))


def _mixed(snapshots: Sequence[Snapshot], folder: Path) -> Iterator[Finding]:
    """Snapshots of different cuts: they show no instant."""
    cuts = {snapshot.cut for snapshot in snapshots}
    if len(cuts) <= 1:
        return
    evidence = tuple(
        f"{snapshot.server}: {snapshot.cut or 'no cut'}, revision {snapshot.revision or 'none'}"
        for snapshot in snapshots
    )
    message = "the snapshots are of different cuts; they show no one instant"
    yield Finding(AUDIT, Severity.WARNING, "cut", message, evidence, _again(folder))


def _claimed_twice(snapshots: Sequence[Snapshot]) -> Iterator[Finding]:
    """Subnets that several servers say they own, or that one owns and another takes for a third's."""
    claims: dict[str, dict[str, list[str]]] = {}
    for snapshot in snapshots:
        for subnet in snapshot.subnets:
            claims.setdefault(subnet, {}).setdefault(snapshot.server, []).append("says so itself")
        for peer, subnets in snapshot.peers:
            for subnet in subnets:
                claims.setdefault(subnet, {}).setdefault(peer, []).append(f"{snapshot.server} says so")
    for subnet in sorted(claims):
        owners = claims[subnet]
        if len(owners) > 1:
            evidence = tuple(f"{server}: {', '.join(who)}" for server, who in sorted(owners.items()))
            message = f"is claimed for several servers: {', '.join(sorted(owners))}"
            fix = shell_line("peers", "remove", names=(subnet,))
            yield Finding(AUDIT, Severity.ERROR, subnet, message, evidence, fix)


def _failures(snapshots: Iterable[Snapshot]) -> Iterator[Finding]:
    for snapshot in snapshots:
        if snapshot.database_failure is not None:
            message = f"its database failed: {snapshot.database_failure}"
            yield Finding(AUDIT, Severity.ERROR, snapshot.server, message, (), "shadowtree status")


def _judge_deliveries(path: Path) -> Iterator[Finding]:
    if path.exists():
        try:
            _rows_in(path, DELIVERIES_SCHEMA)
        except UnreadableError as error:
            yield Finding(AUDIT, Severity.WARNING, path.name, f"left out: {error}", (str(path),))
