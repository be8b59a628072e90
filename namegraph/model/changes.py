"""What one update changed of the groups that are at home at one server, and where it came from.

The record of changes is told to auditors and to programs that follow a group. No answer about the graph rests on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import msgspec
from msgspec import Struct

from namegraph.model.names import NodeId, ServerId
from namegraph.model.rows import RequestId

LISTED_LIMIT = 1_000
"""An update that changes more than this is told by its counts alone: whoever follows a group reads it anew."""

CALLER_LENGTH_LIMIT = 200


class Origin(Struct, frozen=True, array_like=True):
    """Where an update came from, as the server says that took it. What a server did by itself has no request id."""

    request_id: RequestId = RequestId("")
    told_at: int = 0
    """Milliseconds since 1970 (UTC) on that server's clock; 0 where it is not known."""
    caller: str = ""
    """Who asked for it, as far as known; empty where not."""
    server: ServerId = ServerId("")
    """The server that was asked."""

    def is_legal(self) -> bool:
        """Whether it is such as a correct server sends."""
        return all(len(text) <= CALLER_LENGTH_LIMIT and text.isprintable() for text in (self.request_id, self.caller))


NO_ORIGIN = Origin()
"""Of what servers do by themselves."""


class ChangeKind(IntEnum):
    """What happened to a group."""

    CREATED = 1
    DELETED = 2
    JOINED = 3
    LEFT = 4


class RecordedChange(Struct, frozen=True, array_like=True):
    """One thing that an update changed: a group, or a direct member of it."""

    kind: ChangeKind
    group: NodeId
    member: NodeId | None = None
    """Who joined or left."""
    is_group: bool = False
    """Whether that member is a group."""


class ChangeSet(Struct, frozen=True, array_like=True):
    """All that one update changed of a server's groups: counts, and each change where they are not too many."""

    created: int = 0
    deleted: int = 0
    joined: int = 0
    left: int = 0
    listed: tuple[RecordedChange, ...] = ()
    """Groups first, then members that left, then those that joined."""

    def __len__(self) -> int:
        return self.created + self.deleted + self.joined + self.left

    @property
    def is_listed(self) -> bool:
        """Whether each change is told by itself."""
        return len(self) == len(self.listed)

    def encode(self) -> bytes:
        """As `decode_changes` reads it."""
        return _ENCODER.encode(self)


def change_set(
    groups: Iterable[tuple[NodeId, bool]],
    left: Iterable[tuple[NodeId, NodeId, bool]],
    joined: Iterable[tuple[NodeId, NodeId, bool]],
) -> ChangeSet:
    """Of groups and whether they are there now, and of arcs: parent, child, whether that is a group; few of them."""
    known = list(groups)
    deleted = [RecordedChange(ChangeKind.DELETED, group) for group, is_present in known if not is_present]
    created = [RecordedChange(ChangeKind.CREATED, group) for group, is_present in known if is_present]
    gone = [RecordedChange(ChangeKind.LEFT, *arc) for arc in left]
    come = [RecordedChange(ChangeKind.JOINED, *arc) for arc in joined]
    counts = len(created), len(deleted), len(come), len(gone)
    return ChangeSet(*counts, (*deleted, *created, *gone, *come))


def decode_changes(encoded: bytes) -> ChangeSet:
    """Read what `ChangeSet.encode` wrote; raises `msgspec.MsgspecError`."""
    return _DECODER.decode(encoded)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(ChangeSet)
