"""The first answer to every request id, so that a repeated request is not a second update.

Refusals are remembered like commits. A repetition gets the outcome of the first request, whatever changed since.
The oldest outcomes are forgotten when they are too many; a later repetition is a new request.
"""

from __future__ import annotations

import hashlib
import json
from array import array
from collections import deque
from collections.abc import Iterable
from dataclasses import asdict

from namegraph.events import ImportCommand, SetDetails, UpdateCommand, Write
from namegraph.model.names import NodeId, ServerId
from namegraph.model.outcomes import Committed, EffectKind, GraphEffect, ImportCounts, Outcome
from namegraph.model.refusals import Reason, Refusal
from namegraph.model.rows import OutcomeRecord, Records, RequestId
from namegraph.rights.principals import ANONYMOUS
from namegraph.state.pending_requests import id_was_used

OUTCOMES_LIMIT = 100_000
"""Outcomes that are remembered: at 1,000 updates a second, those of the last minute and a half."""

OUTCOMES_SIZE_LIMIT = 64 * 1024 * 1024
"""Bytes of all remembered outcomes together."""

REQUEST_ID_LENGTH_LIMIT = 200


_PRINCIPAL_BYTES = 8
"""Bytes of the digest that stands for a principal."""


def own_request_id(request_id: RequestId, principal: str) -> RequestId:
    """Return the id under which the outcome of a principal's request is remembered.

    No principal repeats, or uses up, the request ids of another one. Callers that prove nothing share theirs. The line
    end keeps the two kinds apart: no id of a caller holds one.
    """
    if principal in ("", ANONYMOUS):
        return request_id
    scope = hashlib.blake2b(principal.encode(), digest_size=_PRINCIPAL_BYTES).hexdigest()
    return RequestId(f"{scope}\n{request_id}")


class RequestLog:
    """Outcomes by request id, oldest first.

    They are very many, and few are asked for. Each is kept as one string of bytes, in half the memory of its
    record.
    """

    def __init__(self, records: Iterable[OutcomeRecord] = ()) -> None:
        self._packed: dict[RequestId, bytes] = {}
        self._oldest: deque[RequestId] = deque()
        """All request ids, the oldest first."""
        self._size = 0
        self._next_sequence = 0
        for record in sorted(records, key=lambda record: record.sequence):
            self._add(record)

    def first_answer(self, request_id: RequestId, digest: str) -> Outcome | None:
        """Return the outcome of this request. None if it was not made before.

        Raises `RefusedError` if the id was used for another request.
        """
        record = self._find(request_id)
        if record is None:
            return None
        if record.digest != digest:
            raise id_was_used(request_id)
        return decode_outcome(record.outcome)

    def digest_of_first(self, request_id: RequestId) -> str | None:
        """Return the digest of the request that was made under this id. None if there was none."""
        record = self._find(request_id)
        return None if record is None else record.digest

    def remember(self, request_id: RequestId, digest: str, outcome: Outcome, records: Records) -> None:
        """Keep an outcome. Its rows are added to `records`."""
        record = OutcomeRecord(request_id, self._next_sequence, digest, encode_outcome(outcome))
        self._add(record)
        records.outcomes.append(record)
        while len(self._packed) > OUTCOMES_LIMIT or (self._size > OUTCOMES_SIZE_LIMIT and len(self._packed) > 1):
            oldest = self._oldest.popleft()
            packed = self._packed.pop(oldest)
            self._size -= len(packed)
            records.forget_outcomes_through = _unpack(oldest, packed).sequence

    def complete(self, request_id: RequestId, outcome: Outcome | None, records: Records) -> None:
        """Replace an outcome by a more complete one, if it is still remembered."""
        before = self._find(request_id)
        if before is None or outcome is None:
            return
        record = before._replace(outcome=encode_outcome(outcome))
        self._keep(record)
        records.outcomes.append(record)

    def _find(self, request_id: RequestId) -> OutcomeRecord | None:
        packed = self._packed.get(request_id)
        return None if packed is None else _unpack(request_id, packed)

    def _add(self, record: OutcomeRecord) -> None:
        if record.request_id not in self._packed:
            self._oldest.append(record.request_id)
        self._keep(record)
        self._next_sequence = record.sequence + 1

    def _keep(self, record: OutcomeRecord) -> None:
        self._size -= len(self._packed.get(record.request_id, b""))
        packed = self._packed[record.request_id] = _pack(record)
        self._size += len(packed)


def _pack(record: OutcomeRecord) -> bytes:
    """Return all fields but the request id as bytes. Neither a digest nor JSON has a line end."""
    return f"{record.sequence}\n{record.digest}\n{record.outcome}".encode()


def _unpack(request_id: RequestId, packed: bytes) -> OutcomeRecord:
    sequence, digest, outcome = packed.decode().split("\n", 2)
    return OutcomeRecord(request_id, int(sequence), digest, outcome)


def digest_of(command: Write) -> str:
    """Return a digest that tells a repeated request from another one. Equal operations have equal digests."""
    digest = hashlib.blake2b(digest_size=12)
    match command:
        case UpdateCommand():
            digest.update(repr(command.composite or command.operations).encode())
            if command.details:
                digest.update(repr(sorted((group, each.given()) for group, each in command.details.items())).encode())
        case SetDetails():
            changes = sorted((group, sorted(each.items())) for group, each in command.changes.items())
            digest.update(repr((changes, command.if_none)).encode())
        case ImportCommand():
            digest.update("\n".join(command.names).encode())
            for column in (command.parents, command.children, command.groups):
                digest.update(b"|")
                digest.update(array("I", column))
            digest.update(command.kinds)
    return digest.hexdigest()


def encode_outcome(outcome: Outcome) -> str:
    """Return an outcome as JSON."""
    match outcome:
        case Committed():
            value: dict[str, object] = {
                "revision": outcome.revision,
                "effects": [[effect.kind, effect.groups, effect.servers] for effect in outcome.effects],
                "counts": None if outcome.counts is None else asdict(outcome.counts),
            }
            if outcome.unchanged:
                value["unchanged"] = _runs(outcome.unchanged)
            if outcome.left:
                value["left"] = outcome.left
        case Refusal():
            value = {"reason": outcome.reason, "message": outcome.message, "facts": dict(outcome.facts)}
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def decode_outcome(text: str) -> Outcome:
    """Read the output of `encode_outcome`."""
    value = json.loads(text)
    if "reason" in value:
        return Refusal(Reason(value["reason"]), value["message"], value["facts"])
    effects = tuple(
        GraphEffect(EffectKind(kind), tuple(map(NodeId, groups)), tuple(map(ServerId, servers)))
        for kind, groups, servers in value["effects"]
    )
    counts = value["counts"]
    return Committed(
        value["revision"],
        effects,
        None if counts is None else ImportCounts(**counts),
        unchanged=tuple(place for first, last in value.get("unchanged", ()) for place in range(first, last + 1)),
        left=tuple(map(NodeId, value.get("left", ()))),
    )


def _runs(places: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the last of each run of sorted places. An update that was not needed at all is one run."""
    runs: list[tuple[int, int]] = []
    for place in places:
        if runs and place == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], place)
        else:
            runs.append((place, place))
    return runs
