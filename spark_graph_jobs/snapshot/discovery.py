"""Find the snapshots in a folder and decide which can be judged, before Spark reads them.

A defect of a snapshot is reported by the snapshot's name, and the audit continues with the others. The audit is then
*partial*: it may find errors, but never reports that everything is consistent.
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


MANIFEST_BYTES_LIMIT: Final = 64 * 1024 * 1024
"""Maximum size of a manifest, in bytes. A manifest with 1,000 peers of 20,000 subnets has some megabytes."""
ROWS_OF_A_BYTE: Final = 10
"""Maximum number of rows for each byte of a table's file. No two rows are alike; the shortest rows take half a byte."""
VALUES_OF_A_BYTE: Final = 100
"""Maximum number of values of a column for each byte of the file. The lists of many rows may be alike."""
NUMBER_LIMIT: Final = 2**63
"""Exclusive upper bound of the numbers in a manifest: Spark has no larger numbers."""
TEXT_LIMIT: Final = 10_000
"""Maximum number of characters of a text in a manifest."""

_WRONG: Final = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""Errors that content of the wrong form raises when it is read."""


def _again(folder: Path) -> str:
    return shell_line("audit", "snapshot", "--follow", "--out", str(folder))


class UnreadableError(Exception):
    """A snapshot, or a part of one, that cannot be used. The text names it and gives the reason."""


@dataclass(frozen=True, slots=True)
class MessageEnds:
    """Numbers about messages in the manifest."""

    log_last: int
    log_cut: int
    numbered: int
    """Highest number that was given to a mailbox."""
    log_gone: int = 0
    """Number of entries after the cut that were removed. The manifest has it only if it is not 0."""


@dataclass(frozen=True, slots=True)
class TakenHow:
    """Provenance of a snapshot."""

    at: datetime
    """Time of its last row, in UTC, by the clock of the machine that took the snapshot."""
    by: str
    """Program and version."""
    address: str | None
    """Address of the server. None for a database."""
    options: Mapping[str, str | float | bool | None]

    @property
    def source(self) -> str:
        """Address of the server, or configuration whose database was read."""
        return self.address or f"database of {self.options.get('config', '?')}"


@dataclass(frozen=True, slots=True)
class ServerSnapshot:
    """Contents of the manifest of one server."""

    server: str
    folder: Path
    subnets: tuple[str, ...]
    revision: str
    cut: str | None
    """Name of the cut. None if the snapshot is not part of one."""
    peers: tuple[tuple[str, tuple[str, ...]], ...]
    """Other servers that the server knows, as (server, its subnets)."""
    rows: Mapping[str, int]
    database_failure: str | None
    messages: MessageEnds | None = None
    """Numbers about messages. None if the snapshot has no tables of messages."""
    taken: TakenHow | None = None
    """Provenance. None if an older program took the snapshot and did not record it."""

    @property
    def schemas(self) -> Mapping[str, pa.Schema]:
        """Schema of each table of the snapshot."""
        return TABLES if self.messages is None else TABLES | MESSAGE_TABLES


@dataclass(frozen=True, slots=True)
class UnreadServer:
    """A server that other servers know, without a readable snapshot in the folder."""

    server: str
    subnets: tuple[str, ...]
    """Subnets of the server by the other servers' tables, sorted."""
    known_by: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Collection:
    """The snapshots that can be judged together, and the defects of the given folder."""

    snapshots: tuple[ServerSnapshot, ...]
    """Snapshots, sorted by server."""
    findings: tuple[Finding, ...]
    is_partial: bool
    """True if expected data is missing, so that the verdict cannot be "consistent"."""
    deliveries: Path | None
    """Delivery log. None if there is none."""
    missing: tuple[UnreadServer, ...] = ()
    """Missing servers, sorted by server."""
    lacks_servers: bool = False
    """True if there may be nodes in no snapshot, because a server is missing or a folder cannot be read."""

    @property
    def is_cut(self) -> bool:
        """True if all snapshots show one instant."""
        return bool(self.snapshots) and all(
            snapshot.cut is not None and snapshot.cut == self.snapshots[0].cut for snapshot in self.snapshots
        )

    @property
    def taken_between(self) -> tuple[datetime, datetime] | None:
        """Times of the first and the last snapshot. None if a snapshot lacks its time."""
        times = [None if snapshot.taken is None else snapshot.taken.at for snapshot in self.snapshots]
        known = [time for time in times if time is not None]
        return (min(known), max(known)) if known and len(known) == len(times) else None

    @property
    def arcs(self) -> int:
        """Number of rows of arcs, each counted at every server that holds it."""
        return sum(snapshot.rows["arcs"] for snapshot in self.snapshots)


def read_collection(folder: Path, left_out: Mapping[str, str] | None = None) -> Collection:
    """Read the manifests below `folder` and check the files against them; raise `UnreadableError` if it is no folder.

    `left_out`: defects of snapshots or of the delivery log that were found meanwhile, by name in `folder`.
    """
    left_out = left_out or {}
    if not folder.is_dir():
        raise UnreadableError(f"{folder} is no folder")
    found: dict[str, ServerSnapshot] = {}
    findings = []
    is_unreadable = False
    for place in sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")):
        if not (place / MANIFEST).exists() and not any((place / f"{table}.parquet").exists() for table in TABLES):
            continue
        try:
            _refuse(left_out.get(place.name))
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
    unreadable_log = list(_judge_deliveries(deliveries, left_out.get(deliveries.name)))
    is_partial = bool(findings or absent or mixed or unreadable_log)
    findings += [*absent, *mixed, *_claimed_twice(snapshots), *_failures(snapshots), *unreadable_log]
    has_log = deliveries.exists() and not unreadable_log
    log = deliveries if has_log else None
    return Collection(snapshots, tuple(findings), is_partial, log, missing, lacks_servers)


def read_snapshot(folder: Path) -> ServerSnapshot:
    """Read the manifest of one server and check that each file is whole, or raise `UnreadableError`."""
    content = _read_manifest(folder / MANIFEST)
    version = content.get("schema_version") if isinstance(content, dict) else None
    if version != SCHEMA_VERSION:
        raise UnreadableError(
            f"its schema version is {version}, and this audit reads {SCHEMA_VERSION}: take another snapshot with the "
            "`shadowtree` that runs this audit"
        )
    try:
        messages = _message_ends(content.get("messages"))
        schemas = TABLES if messages is None else TABLES | MESSAGE_TABLES
        snapshot = ServerSnapshot(
            server=_text(content["server"]),
            folder=folder,
            subnets=tuple(map(_text, content["subnets"])),
            revision=_text(content["revision"]),
            cut=None if content["cut"] is None else _text(content["cut"]),
            peers=tuple((_text(peer["server"]), tuple(map(_text, peer["subnets"]))) for peer in content["peers"]),
            rows={table: _number(content["rows"][table]) for table in schemas},
            database_failure=None if content["database_failure"] is None else _text(content["database_failure"]),
            messages=messages,
            taken=_taken(content),
        )
    except _WRONG as error:
        raise UnreadableError(f"its {MANIFEST} lacks or misstates {_shown(error)}") from error
    for table, schema in schemas.items():
        rows = _rows_in(folder / f"{table}.parquet", schema)
        if rows != snapshot.rows[table]:
            raise UnreadableError(f"{table}.parquet has {rows} rows, and the manifest says {snapshot.rows[table]}")
    return snapshot


def _message_ends(content: Mapping[str, int] | None) -> MessageEnds | None:
    if content is None:
        return None
    log_last, log_cut, numbered = (_number(content[name]) for name in ("log_last", "log_cut", "mailboxes_numbered"))
    return MessageEnds(log_last, log_cut, numbered, _number(content.get("log_gone", 0)))


def _taken(content: Mapping[str, Any]) -> TakenHow | None:
    if "taken_at" not in content:
        return None
    at = datetime.fromisoformat(content["taken_at"])
    if at.tzinfo is None:
        raise ValueError("taken_at, which has no time zone")
    options = content["options"]
    if not isinstance(options, dict):
        raise TypeError("options, which are no object")
    address = None if content["address"] is None else _text(content["address"])
    shown = {_text(name): _option(value) for name, value in options.items()}
    return TakenHow(at.astimezone(UTC), _text(content["taken_by"]), address, shown)


def _read_manifest(path: Path) -> Any:
    """Return the decoded JSON of a manifest, whatever its form. Raises `UnreadableError`."""
    try:
        if path.exists() and not path.is_file():
            raise UnreadableError(f"its {MANIFEST} is no regular file")
        with path.open("rb") as file:
            content = file.read(MANIFEST_BYTES_LIMIT + 1)
        if len(content) > MANIFEST_BYTES_LIMIT:
            raise UnreadableError(f"its {MANIFEST} has more than {MANIFEST_BYTES_LIMIT // 1024**2} MiB")
        return json.loads(content.decode())
    except FileNotFoundError:
        raise UnreadableError(f"it has no {MANIFEST}: writing it was not finished") from None
    except RecursionError:
        raise UnreadableError(f"its {MANIFEST} cannot be read: it is nested too deeply") from None
    except (OSError, ValueError) as error:
        raise UnreadableError(f"its {MANIFEST} cannot be read: {_shown(error)}") from error


def _text(value: object) -> str:
    """Return a text that can be printed and written. Raises `TypeError`, `ValueError`."""
    if not isinstance(value, str):
        raise TypeError(f"a text, which is {type(value).__name__}")
    if len(value) > TEXT_LIMIT:
        raise ValueError(f"a text, which has {len(value):,} characters")
    value.encode()
    return value


def _number(value: object) -> int:
    """Return a number that is not negative. Raises `TypeError`, `ValueError`."""
    if not isinstance(value, int) or isinstance(value, bool):
        raise TypeError(f"a number, which is {type(value).__name__}")
    if not 0 <= value < NUMBER_LIMIT:
        raise ValueError("a number, which is negative or too large")
    return value


def _option(value: object) -> str | float | bool | None:
    """Return the value of an option. Raises `TypeError`, `ValueError`."""
    if value is None or isinstance(value, bool | int | float):
        return value
    return _text(value)


def _shown(error: BaseException) -> str:
    """Return the text of an error as one short printable line."""
    text = str(error) or type(error).__name__
    return "".join(character if character.isprintable() else "?" for character in text)[:300]


def _rows_in(path: Path, schema: pa.Schema) -> int:
    if path.exists() and not path.is_file():
        raise UnreadableError(f"{path.name} is no regular file")
    try:
        file = pq.ParquetFile(path)
    except FileNotFoundError:
        raise UnreadableError(f"{path.name} is missing") from None
    except (OSError, MemoryError, pa.ArrowException, *_WRONG) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0]
        raise UnreadableError(f"{path.name} is truncated or damaged: {first}") from error
    with file:
        _require_size(path, file.metadata)
        found = {field.name: field.type for field in file.schema_arrow}
        for field in schema:
            if field.name not in found or not _are_alike(found[field.name], field.type):
                kind = found.get(field.name, "missing")
                raise UnreadableError(f"column {field.name} of {path.name} is {kind}, not {field.type}")
        return int(file.metadata.num_rows)


def _require_size(path: Path, metadata: pq.FileMetaData) -> None:
    """Raise `UnreadableError` if a file expands to far more than its size.

    A few bytes can encode 300 million repetitions.
    """
    size = path.stat().st_size
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    rows = max(metadata.num_rows, sum(group.num_rows for group in groups))
    values = max(
        (sum(group.column(number).num_values for group in groups) for number in range(metadata.num_columns)), default=0
    )
    for count, what, each in ((rows, "rows", ROWS_OF_A_BYTE), (values, "values in a column", VALUES_OF_A_BYTE)):
        if count > each * size:
            raise UnreadableError(f"{path.name} has {count:,} {what} in {size:,} bytes: more than {each} for each byte")


def _are_alike(found: pa.DataType, expected: pa.DataType) -> bool:
    """Return True if two types are equal, ignoring names and nullability of the elements of lists."""
    if pa.types.is_list(expected):
        return bool(pa.types.is_list(found) and found.value_type == expected.value_type)
    return bool(found == expected)


def _left_out(name: str, why: str, folder: Path) -> Finding:
    return Finding(AUDIT, Severity.WARNING, name, f"left out: {why}", (str(folder / name),), _again(folder))


def _missing(snapshots: Sequence[ServerSnapshot]) -> Iterator[UnreadServer]:
    """Yield the servers that other servers know and that have no snapshot."""
    known: dict[str, dict[str, tuple[str, ...]]] = {}
    for snapshot in snapshots:
        for peer, subnets in snapshot.peers:
            known.setdefault(peer, {})[snapshot.server] = subnets
    there = {snapshot.server for snapshot in snapshots}
    for server in sorted(known.keys() - there):
        named = {subnet for subnets in known[server].values() for subnet in subnets}
        yield UnreadServer(server, tuple(sorted(named)), tuple(known[server]))


def _tell_missing(missing: Iterable[UnreadServer], folder: Path) -> Iterator[Finding]:
    for each in missing:
        evidence = tuple(f"{other} knows it" for other in each.known_by)
        message = "there is no snapshot of this server that can be read; what leads to it cannot be judged"
        yield Finding(AUDIT, Severity.WARNING, each.server, message, evidence, _again(folder))


def _tell_nothing(snapshots: Sequence[ServerSnapshot], folder: Path) -> Iterator[Finding]:
    if not snapshots:
        message = "there is no snapshot here that can be read"
        yield Finding(AUDIT, Severity.WARNING, str(folder), message, (), _again(folder))


def _silent(snapshots: Sequence[ServerSnapshot], folder: Path) -> Iterator[Finding]:
    """Report snapshots without tables of messages, if other snapshots have them."""
    if all(snapshot.messages is None for snapshot in snapshots):
        return
    for snapshot in snapshots:
        if snapshot.messages is None:
            message = "its snapshot says nothing of messages; what it logged of them cannot be judged"
            yield Finding(AUDIT, Severity.WARNING, snapshot.server, message, (), _again(folder))


def _mixed(snapshots: Sequence[ServerSnapshot], folder: Path) -> Iterator[Finding]:
    """Report snapshots of different cuts, which show no common instant."""
    cuts = {snapshot.cut for snapshot in snapshots}
    if len(cuts) <= 1:
        return
    evidence = tuple(
        f"{snapshot.server}: {snapshot.cut or 'no cut'}, revision {snapshot.revision or 'none'}"
        for snapshot in snapshots
    )
    message = "the snapshots are of different cuts; they show no one instant"
    yield Finding(AUDIT, Severity.WARNING, "cut", message, evidence, _again(folder))


def _claimed_twice(snapshots: Sequence[ServerSnapshot]) -> Iterator[Finding]:
    """Report subnets with more than one owner, by the owners' claims and by the tables of other servers."""
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


def _failures(snapshots: Iterable[ServerSnapshot]) -> Iterator[Finding]:
    for snapshot in snapshots:
        if snapshot.database_failure is not None:
            message = f"its database failed: {snapshot.database_failure}"
            yield Finding(AUDIT, Severity.ERROR, snapshot.server, message, (), "shadowtree status")


def _refuse(why: str | None) -> None:
    """Raise `UnreadableError` if there is a reason."""
    if why is not None:
        raise UnreadableError(why)


def _judge_deliveries(path: Path, left_out: str | None) -> Iterator[Finding]:
    if path.exists():
        try:
            _refuse(left_out)
            _rows_in(path, DELIVERIES_SCHEMA)
        except UnreadableError as error:
            yield Finding(AUDIT, Severity.WARNING, path.name, f"left out: {error}", (str(path),))
