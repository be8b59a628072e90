"""The chain of hashes over the record of changes, which makes it an audit log.

    hash of row n = SHA-256(hash of row n-1, followed by the canonical bytes of row n)

A changed, removed, inserted or moved row breaks the chain at that row. A checkpoint, which another server keeps, also
shows that the end of the log was cut off or that the whole chain was computed anew.

Source: docs/audit-log.md, "The bytes of a row".
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

import msgspec

from namegraph.model.names import ServerId
from namegraph.model.rows import ChangeRecord

CHAIN_BEGINNING = bytes(32)
"""Hash before the first row of a chain."""

UPDATE = "update"
"""Kind of the rows that tell what an update changed. Rows of all other kinds tell events."""

ALLOWED = "allowed"
REFUSED = "refused"

FACT_LENGTH_LIMIT = 1_000
"""Largest length of a text among the facts of an event, twice that of a name. A longer text is cut off."""

FACTS_LIMIT = 20
"""Most facts of an event."""

CHECKPOINT_TEXT = b"shadowtree audit checkpoint 1\n"
"""Beginning of the bytes that are signed. A signature of another kind of text never fits a checkpoint."""

KEY_BYTES = 32
SIGNATURE_BYTES = 64
"""Sizes of an Ed25519 public key and signature (RFC 8032, section 5.1)."""

Fact = str | int | None
"""Value of a fact of an event. A truth value is the number 0 or 1."""


class Checkpoint(msgspec.Struct, frozen=True, array_like=True):
    """State of the audit log of a server at one of its rows, for other servers to keep."""

    server: ServerId
    sequence: int
    """Number of the row."""
    hash: bytes
    """Hash of the row."""
    at: int
    """Milliseconds since 1970 on the clock of the server."""
    before: int = 0
    """Number of the row of the server's checkpoint before this one. 0 if there is none."""
    key: bytes = b""
    """Ed25519 public key of the server. Empty if the checkpoint is not signed."""
    signature: bytes = b""

    def signed_bytes(self) -> bytes:
        """Return the bytes that the signature covers."""
        return CHECKPOINT_TEXT + _ENCODER.encode((self.server, self.sequence, self.hash, self.at, self.before))

    def is_legal(self) -> bool:
        """Return True if a correct server could send this value. The signature is not verified."""
        has_sizes = (len(self.key), len(self.signature)) in ((0, 0), (KEY_BYTES, SIGNATURE_BYTES))
        has_numbers = 0 <= self.before < self.sequence < 2**63 and 0 <= self.at < 2**63
        return has_sizes and has_numbers and len(self.hash) == len(CHAIN_BEGINNING)


def canonical_bytes(record: ChangeRecord) -> bytes:
    """Return the bytes of a row that its hash covers: all fields but the last two, as one MessagePack array."""
    return _ENCODER.encode((*record[:_CHANGES], msgspec.Raw(record.changes), *record[_CHANGES + 1 : -2]))


def chained(record: ChangeRecord, previous: bytes) -> ChangeRecord:
    """Return a row with its place in the chain. `previous`: hash of the row before it."""
    digest = sha256(previous)
    digest.update(canonical_bytes(record))
    # This takes half the time of `_replace`, and each update writes a row.
    return tuple.__new__(ChangeRecord, (*record[:-2], previous, digest.digest()))


def encode_facts(facts: Mapping[str, Fact]) -> bytes:
    """Encode the facts of an event, sorted by name."""
    kept = sorted(facts.items())[:FACTS_LIMIT]
    return _ENCODER.encode({name: _bounded(value) for name, value in kept})


def decode_facts(encoded: bytes) -> dict[str, Fact]:
    """Decode the output of `encode_facts`. Raises `msgspec.MsgspecError`."""
    return _FACTS.decode(encoded)


def _bounded(value: Fact) -> Fact:
    match value:
        case str():
            return printable(value)[:FACT_LENGTH_LIMIT]
        case bool():
            return int(value)
        case _:
            return value


def printable(text: str) -> str:
    """Return a text with a question mark in place of each character that cannot be printed."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "?" for each in text)


_CHANGES = ChangeRecord._fields.index("changes")
_ENCODER = msgspec.msgpack.Encoder()
_FACTS = msgspec.msgpack.Decoder(dict[str, str | int | None])
