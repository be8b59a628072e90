"""The audit log of a server: its rows as JSON lines, and whether such lines are whole.

    {"shadowtree_audit_log": 1, "server": "ubc.example"}
    {"number": 1, "counter": 1, ..., "changes": [...], ..., "previous": "00...", "hash": "5f..."}

A row is verified from its line alone: JSON gives back the MessagePack bytes that the hash covers.

Source: docs/audit-log.md, "The bytes of a row".
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import fields, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from namegraph import CHAIN_BEGINNING, Checkpoint, ServerId
from shadowtree.client.foreign_text import cleaned, printable
from shadowtree.errors import BadFile
from shadowtree.results import AuditCheckpoint, AuditRow, AuditVerdict
from shadowtree.v1 import admin_pb2

FORM: Final = 1
"""Number of this form of the lines."""

HEADER: Final = "shadowtree_audit_log"

LINE_LIMIT_BYTES: Final = 64 * 1024 * 1024
"""Longest line that is read. A row lists at most 1,000 changes, whose names have some hundred characters each."""

CHECKPOINT_LINE_LIMIT_BYTES: Final = 10_000
"""Longest line of a file of checkpoints. Longer lines are no checkpoints."""

_FIELDS: Final = tuple(field.name for field in fields(AuditRow))
_COVERED: Final = _FIELDS[:-2]
"""Fields that the hash covers, in the order of its bytes."""

_UNREADABLE: Final = (ValueError, TypeError, OverflowError, RecursionError, msgspec.MsgspecError)
"""Errors of bytes that no server wrote."""


# -- lines


def rows_of(chunk: admin_pb2.AuditLogChunk) -> Iterator[AuditRow]:
    """Return the rows of one message."""
    for row in chunk.rows:
        yield AuditRow(
            row.number,
            row.counter,
            row.revision,
            row.request_id,
            row.told_at_ms,
            row.caller,
            row.server,
            _readable(row.changes),
            row.kind,
            row.principal,
            row.how,
            row.credential,
            row.via,
            row.decision,
            row.rule,
            row.previous.hex(),
            row.hash.hex(),
        )


def _readable(encoded: bytes) -> Any:
    try:
        value = msgspec.msgpack.decode(encoded)
        json.dumps(value, allow_nan=False)
    except _UNREADABLE:
        return {"undecodable": encoded.hex()}
    return value


def cleaned_row(row: AuditRow) -> AuditRow:
    """Return a row for people and programs: without characters that act on a terminal. No hash is computed of it."""
    return replace(cleaned(row), changes=_cleaned_value(row.changes))


def _cleaned_value(value: Any) -> Any:
    match value:
        case str():
            return printable(value)
        case list():
            return [_cleaned_value(each) for each in value]
        case dict():
            return {_cleaned_value(name): _cleaned_value(each) for name, each in value.items()}
        case _:
            return value


def header_line(server: str) -> str:
    """Return the first line of a file."""
    return json.dumps({HEADER: FORM, "server": server})


def line_of(row: AuditRow) -> str:
    """Return the line of a row. All characters beyond ASCII are escaped, so that none acts on a terminal."""
    return json.dumps({name: getattr(row, name) for name in _FIELDS})


# -- verification


def is_genuine(checkpoint: AuditCheckpoint) -> bool:
    """Return False if the signature of a checkpoint is wrong. A checkpoint without a signature may be genuine."""
    if not checkpoint.signature:
        return True
    try:
        signed = Checkpoint(
            ServerId(checkpoint.server),
            checkpoint.sequence,
            bytes.fromhex(checkpoint.hash),
            checkpoint.at,
            checkpoint.before,
        ).signed_bytes()
        key = Ed25519PublicKey.from_public_bytes(bytes.fromhex(checkpoint.key))
        key.verify(bytes.fromhex(checkpoint.signature), signed)
    except (InvalidSignature, ValueError):
        return False
    return True


def verify_file(path: Path, checkpoints: Iterable[AuditCheckpoint] = ()) -> AuditVerdict:
    """Verify a file of an audit log. Raises `BadFile` if it cannot be read, or is no such file."""
    try:
        with path.open("rb") as file:
            return verify_lines(iter(lambda: file.readline(LINE_LIMIT_BYTES + 1), b""), checkpoints, name=str(path))
    except OSError as error:
        raise BadFile.at(str(path), None, f"cannot read it: {error.strerror or error}") from None


def verify_lines(
    lines: Iterable[bytes], checkpoints: Iterable[AuditCheckpoint] = (), *, name: str = "-"
) -> AuditVerdict:
    """Verify lines of an audit log. `checkpoints` of other servers are passed over. `name`: name of the file.

    Raises `BadFile` if the first line is not that of an audit log.
    """
    source = iter(lines)
    server = _server_of(next(source, b""), name)
    chain = _Chain([each for each in checkpoints if each.server == server])
    try:
        for place, line in enumerate(source, start=2):
            chain.add(_row_of(line, place, max(chain.expected, 1)))
        chain.end()
    except _WrongRowError as wrong:
        return chain.verdict(server, wrong)
    return chain.verdict(server)


class _WrongRowError(Exception):
    def __init__(self, number: int, why: str) -> None:
        super().__init__(why)
        self.number, self.why = number, why


def _server_of(line: bytes, name: str) -> str:
    try:
        header = json.loads(line)
        form, server = header[HEADER], header["server"]
    except (KeyError, *_UNREADABLE):
        raise BadFile.at(name, 1, "this is no audit log that `shadowtree audit-log export` wrote") from None
    if form != FORM or not isinstance(server, str):
        raise BadFile.at(name, 1, f"this form of an audit log ({printable(str(form))[:20]}) is not known here")
    return printable(server)


def _row_of(line: bytes, place: int, expected: int) -> AuditRow:
    if len(line) > LINE_LIMIT_BYTES:
        raise _WrongRowError(expected, f"line {place} has more than {LINE_LIMIT_BYTES} bytes")
    try:
        row = AuditRow(**json.loads(line, object_pairs_hook=_once))
    except _UNREADABLE:
        raise _WrongRowError(expected, f"line {place} is no row") from None
    if type(row.number) is not int or not isinstance(row.hash, str) or not isinstance(row.previous, str):
        raise _WrongRowError(expected, f"line {place} is no row")
    return row


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object. Raises `ValueError` for a name that comes twice: readers would see different values."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError
    return found


class _Chain:
    """Rows of a file, as far as they were read."""

    def __init__(self, checkpoints: Iterable[AuditCheckpoint]) -> None:
        self._checkpoints: dict[int, list[AuditCheckpoint]] = {}
        for each in checkpoints:
            self._checkpoints.setdefault(each.sequence, []).append(each)
        self.expected = 0
        """Number of the next row. 0 before the first row."""
        self._first = 0
        self._rows = 0
        self._before_chain = 0
        self._hash = ""
        """Hash of the last row. Empty before the chain."""
        self._fit = 0
        self._fit_row = 0

    def add(self, row: AuditRow) -> None:
        """Take the next row. Raises `_WrongRowError`."""
        self._require_place(row)
        if row.hash:
            self._require_hash(row)
        elif self._hash or row.previous:
            raise _WrongRowError(row.number, f"row {row.number} has no hash")
        else:
            self._before_chain += 1
        self._require_checkpoints(row)
        self._first = self._first or row.number
        self._rows += 1
        self._hash = row.hash
        self.expected = row.number + 1

    def _require_place(self, row: AuditRow) -> None:
        if not self.expected or row.number == self.expected:
            return
        raise _WrongRowError(self.expected, f"row {self.expected} is missing: row {row.number} stands in its place")

    def _require_hash(self, row: AuditRow) -> None:
        beginning = CHAIN_BEGINNING.hex()
        if self._hash:
            before = self._hash
        else:
            is_beginning = row.number == 1 or self._before_chain
            before = beginning if is_beginning else row.previous
        if row.previous != before:
            raise _WrongRowError(row.number, f"row {row.number} does not follow the row before it")
        try:
            covered = msgspec.msgpack.encode([getattr(row, name) for name in _COVERED])
            digest = sha256(bytes.fromhex(before) + covered).hexdigest()
        except _UNREADABLE:
            digest = ""
        if digest != row.hash:
            raise _WrongRowError(row.number, f"row {row.number} was changed: its hash is not that of its contents")

    def _require_checkpoints(self, row: AuditRow) -> None:
        for checkpoint in self._checkpoints.pop(row.number, ()):
            if checkpoint.hash != row.hash:
                since = f"a row from {self._fit_row + 1} on" if self._fit_row else "an earlier row"
                raise _WrongRowError(
                    row.number,
                    f"{printable(checkpoint.kept_by)} keeps another hash of row {row.number}: this row or {since} "
                    "was changed and all hashes computed anew, or the server went back to an older copy of its "
                    "database",
                )
            self._fit += 1
            self._fit_row = row.number

    def end(self) -> None:
        """Judge the end. Raises `_WrongRowError` if a checkpoint of a later row is known."""
        later = {number: each for number, each in self._checkpoints.items() if number >= max(self.expected, 1)}
        if later:
            newest = max(later)
            last = f"it ends with row {self.expected - 1}" if self.expected else "it has no row"
            raise _WrongRowError(
                max(self.expected, 1),
                f"the end is missing: {last}, and {printable(later[newest][0].kept_by)} keeps a checkpoint of row "
                f"{newest}",
            )

    def verdict(self, server: str, wrong: _WrongRowError | None = None) -> AuditVerdict:
        """Return what was found."""
        return AuditVerdict(
            server=server,
            is_whole=wrong is None,
            rows=self._rows,
            first=self._first,
            last=self.expected - 1 if self.expected else 0,
            before_chain=self._before_chain,
            checkpoints=self._fit,
            checkpoint_row=self._fit_row,
            wrong_row=0 if wrong is None else wrong.number,
            why="" if wrong is None else wrong.why,
        )


def read_checkpoint_file(path: Path) -> tuple[AuditCheckpoint, ...]:
    """Read a file that `shadowtree audit-log checkpoints --format json` wrote. Raises `BadFile`."""
    found = []
    try:
        with path.open("rb") as file:
            for place, line in enumerate(iter(lambda: file.readline(CHECKPOINT_LINE_LIMIT_BYTES), b""), start=1):
                try:
                    found.append(msgspec.json.decode(line, type=AuditCheckpoint))
                except _UNREADABLE:
                    raise BadFile.at(str(path), place, "this is no checkpoint") from None
    except OSError as error:
        raise BadFile.at(str(path), None, f"cannot read it: {error.strerror or error}") from None
    return tuple(found)
