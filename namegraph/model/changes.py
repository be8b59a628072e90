"""Changes that one update made to the groups whose home is one server, and the origin of the update.

The record of changes serves auditors and programs that follow a group. No answer about the graph depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

import msgspec
from msgspec import Struct

from namegraph.model.names import DOMAIN_LIMIT, LOCAL_PART_LIMIT, NodeId, ServerId
from namegraph.model.rows import RequestId

LISTED_LIMIT = 1_000
"""Changes of one update that are listed one by one. A larger update is recorded by counts alone; followers of a group
read the group anew."""

CALLER_LENGTH_LIMIT = 200

PRINCIPAL_LENGTH_LIMIT = LOCAL_PART_LIMIT + DOMAIN_LIMIT + 1
"""Largest length of a principal, which is a name like those of members."""


class Origin(Struct, frozen=True, array_like=True):
    """Origin of an update, as reported by the server that accepted it. An update that a server began itself has no
    request id."""

    request_id: RequestId = RequestId("")
    told_at: int = 0
    """Milliseconds since 1970 (UTC) on that server's clock. 0 if not known."""
    caller: str = ""
    """Caller that asked for the update. Empty if not known."""
    server: ServerId = ServerId("")
    """The server that was asked."""
    principal: str = ""
    """Principal of the caller. Empty if a server acted by itself, or is of a version that does not tell."""
    how: str = ""
    """Means by which the caller was identified."""
    credential: str = ""
    """Public name of the credential: id of a key, or fingerprint of a certificate. Empty without a credential."""
    via: str = ""
    """Server that identified the caller and passed the call on. Empty if the asked server did so itself."""

    def is_legal(self) -> bool:
        """Return True if a correct server could send this value."""
        names = (self.principal, self.via)
        texts = (self.request_id, self.caller, self.how, self.credential)
        return all(len(text) <= PRINCIPAL_LENGTH_LIMIT and text.isprintable() for text in names) and all(
            len(text) <= CALLER_LENGTH_LIMIT and text.isprintable() for text in texts
        )


NO_ORIGIN = Origin()
"""Origin of updates that servers begin by themselves."""


class ChangeKind(IntEnum):
    """Kind of change to a group."""

    CREATED = 1
    DELETED = 2
    JOINED = 3
    LEFT = 4


class RecordedChange(Struct, frozen=True, array_like=True):
    """A change of a group, or of a direct member of it, by an update."""

    kind: ChangeKind
    group: NodeId
    member: NodeId | None = None
    """Member that joined or left. None for a change of the group itself."""
    is_group: bool = False
    """True if the member is a group."""


class ChangeSet(Struct, frozen=True, array_like=True):
    """All changes that one update made to a server's groups: counts, and each change if they are not too many."""

    created: int = 0
    deleted: int = 0
    joined: int = 0
    left: int = 0
    listed: tuple[RecordedChange, ...] = ()
    """Groups first, then members that left, then members that joined."""

    def __len__(self) -> int:
        return self.created + self.deleted + self.joined + self.left

    @property
    def is_listed(self) -> bool:
        """True if each change is listed by itself."""
        return len(self) == len(self.listed)

    def encode(self) -> bytes:
        """Encode the value for `decode_changes`."""
        return _ENCODER.encode(self)


def change_set(
    groups: Iterable[tuple[NodeId, bool]],
    left: Iterable[tuple[NodeId, NodeId, bool]],
    joined: Iterable[tuple[NodeId, NodeId, bool]],
) -> ChangeSet:
    """Build the `ChangeSet` of a few groups and arcs.

    `groups`: each group, and True if it is there now. `left`, `joined`: each arc as parent, child, and True if the
    child is a group.
    """
    known = list(groups)
    deleted = [RecordedChange(ChangeKind.DELETED, group) for group, is_present in known if not is_present]
    created = [RecordedChange(ChangeKind.CREATED, group) for group, is_present in known if is_present]
    gone = [RecordedChange(ChangeKind.LEFT, *arc) for arc in left]
    come = [RecordedChange(ChangeKind.JOINED, *arc) for arc in joined]
    counts = len(created), len(deleted), len(come), len(gone)
    return ChangeSet(*counts, (*deleted, *created, *gone, *come))


def decode_changes(encoded: bytes) -> ChangeSet:
    """Decode the output of `ChangeSet.encode`. Raises `msgspec.MsgspecError`."""
    return _DECODER.decode(encoded)


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(ChangeSet)
