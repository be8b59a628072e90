"""Encoding of messages as bytes, with the view to which they belong. Long messages are compressed."""

from __future__ import annotations

import zlib
from typing import Any, TypeGuard, get_args

import msgspec
from msgspec import Struct

from namegraph.model.undecodable import UNDECODABLE
from namegraph.wire.arc_sets import FEW
from namegraph.wire.by_fields import FieldDecoder, encode_by_fields
from namegraph.wire.inflation import TooLargeError, compressed, inflated
from namegraph.wire.message_parts import FIRST_VIEW, ArcList, RecordList, ViewId
from namegraph.wire.update_messages import (
    Abort,
    Commit,
    Done,
    Drop,
    Final,
    Holding,
    Order,
    OrderFor,
    Ready,
    Refuse,
    TakeCut,
    UpdateOutcome,
    Vote,
)
from namegraph.wire.view_messages import (
    ArcDigest,
    DigestReply,
    ForgetLeft,
    IncomingSuspended,
    LeftForgotten,
    MemberReconciled,
    Open,
    SuspendIncoming,
    ViewMessage,
    ViewReconciled,
)

InView = (
    Order
    | OrderFor
    | Vote
    | Final
    | Abort
    | Holding
    | Drop
    | Ready
    | Refuse
    | Commit
    | Done
    | TakeCut
    | SuspendIncoming
    | IncomingSuspended
    | Open
    | ArcDigest
    | DigestReply
    | ForgetLeft
    | LeftForgotten
    | MemberReconciled
    | ViewReconciled
)
"""Messages that count only among members of one view."""


Message = InView | ViewMessage


class Enclosed(Struct, frozen=True, array_like=True, tag=True):
    """An encoded message, and the view in which it counts."""

    view: ViewId
    encoded: bytes


_DECODER = msgspec.msgpack.Decoder(Message | Enclosed)


_OUTCOME_DECODER = FieldDecoder(UpdateOutcome)


_ENCODER = msgspec.msgpack.Encoder(order="deterministic")


_IN_VIEW = frozenset(get_args(InView))


class NotAMessageError(ValueError):
    """Bytes that no server of this version sends."""


def encode(message: Message, view: ViewId = FIRST_VIEW) -> bytes:
    """Return the message as bytes, sent in a view. A long message is compressed, because names recur in it."""
    encoded = _ENCODER.encode(message)
    if not isinstance(message, Commit):  # Its outcome is compressed already.
        encoded = compressed(encoded)
    if view == FIRST_VIEW or not counts_in_view(message):
        return encoded
    return _ENCODER.encode(Enclosed(view, encoded))


def counts_in_view(message: Message) -> TypeGuard[InView]:
    """Return True if a message counts only among members of one view. A look-up is faster than a union of so many
    types."""
    return message.__class__ in _IN_VIEW


def decode(encoded: bytes) -> Message:
    """Decode the output of `encode`, with all types checked. Raises `NotAMessageError`."""
    return decode_in_view(encoded)[1]


def decode_in_view(encoded: bytes) -> tuple[ViewId, Message]:
    """Decode a message and the view in which it was sent. `FIRST_VIEW` for a message that belongs to no view."""
    found = _decode(encoded)
    if not isinstance(found, Enclosed):
        return FIRST_VIEW, found
    inner = _decode(found.encoded)
    if isinstance(inner, Enclosed):
        raise NotAMessageError("a message inside two envelopes")
    return found.view, inner


def encode_outcome(outcome: UpdateOutcome) -> bytes:
    """Return the outcome as bytes, compressed if it is long."""
    is_listed = isinstance(outcome.arcs, ArcList) and isinstance(outcome.relay, RecordList)
    if is_listed and len(outcome.groups) + len(outcome.renamed) + len(outcome.bases) < FEW:
        return compressed(_ENCODER.encode(outcome))
    return compressed(encode_by_fields(outcome))


def decode_outcome(encoded: bytes) -> UpdateOutcome:
    """Decode the output of `encode_outcome`, with all types checked. Raises `NotAMessageError`."""
    found: UpdateOutcome = _read(_OUTCOME_DECODER, encoded)
    return found


def _decode(encoded: bytes) -> Message | Enclosed:
    found: Message | Enclosed = _read(_DECODER, encoded)
    return found


def _read(decoder: msgspec.msgpack.Decoder[Any] | FieldDecoder[Any], encoded: bytes) -> Any:
    try:
        return decoder.decode(inflated(encoded))
    except (*UNDECODABLE, TooLargeError, zlib.error) as error:
        raise NotAMessageError(str(error)) from None
