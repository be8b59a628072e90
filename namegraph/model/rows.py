"""Durable rows of the core: the rows that it writes, and the state from which it starts.

A step's records become durable together or not at all, and before any message or reply of that step leaves. The
core numbers nodes itself (`NodeIndex`, dense from 0), so that rows, bitmaps and arcs stay small. The number of a
forgotten name is given to another name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NamedTuple, NewType

from namegraph.model.names import NodeId, ServerId

NodeIndex = NewType("NodeIndex", int)
"""The number of a node on this server."""

ArcKey = tuple[NodeIndex, NodeIndex]
"""An arc by the numbers of its parent and its child."""

RequestId = NewType("RequestId", str)
"""Id that a client chooses for one write. Repeating the id returns the first answer."""


class NodeKind(IntEnum):
    """Present kind of a known id."""

    ABSENT = 0
    GROUP = 1
    PROCESS = 2


class NodeRecord(NamedTuple):
    """One node. `virtual_node` is the number of the virtual node that contains it, or None.

    A row whose `node_id` is `@` says that the number is free.
    """

    node: NodeIndex
    node_id: NodeId
    kind: NodeKind
    virtual_node: int | None
    version: int
    """Counter of the final priority of the last update that changed this node's ancestry record."""
    version_server: ServerId | None
    """Server of that priority. None: the server that owns this state."""


class ArcRecord(NamedTuple):
    """One arc parent -> child of the external group view. After a leave it is kept as a tombstone (`present` false).

    Version 0 says that an arc without an owned end is no longer known: the row of its key is deleted.
    """

    parent: NodeIndex
    child: NodeIndex
    cost: int
    version: int
    """Number of times that this arc was joined or left. The first join is 1."""
    writer: int
    """Counter of the final priority of the update that wrote it."""
    present: bool
    suspended: bool


class VirtualNodeRecord(NamedTuple):
    """One virtual node. Its id is (smallest component, final priority of the update that made it).

    A row that is not `present` says that the virtual node is gone: the row of its number is deleted.
    """

    number: int
    """Number on this server, not used again while the server runs."""
    smallest: NodeId
    counter: int
    server: ServerId
    present: bool


class OutcomeRecord(NamedTuple):
    """The first answer to a request id."""

    request_id: RequestId
    sequence: int
    """Order in which outcomes were decided. The oldest are forgotten first."""
    digest: str
    """Digest of the request, which tells a repeated request from another request under the same id."""
    outcome: str
    """JSON, as `namegraph.state.request_log` writes and reads it."""


class ChangeRecord(NamedTuple):
    """Row of the audit log: changes that one update made to the groups whose home is this server, or another event.

    No answer about the graph depends on these rows.
    """

    number: int
    """Order in which this server wrote the rows, from 1, without gaps. The oldest are forgotten first."""
    counter: int
    """Counter of the update's final priority. For another event, the counter of this server at that time."""
    revision: str
    """Revision of the update. Empty for another event."""
    request_id: RequestId
    told_at: int
    """Milliseconds since 1970 (UTC) on the clock of the server that was asked. 0 if not known."""
    caller: str
    """Address of the caller that asked. Empty if not known."""
    server: ServerId
    """The server that was asked."""
    changes: bytes
    """The changes, as `namegraph.model.changes` writes and reads them. For another event, its facts, as
    `namegraph.model.audit_chain` writes and reads them."""
    kind: str = "update"
    """Kind of the row: `update`, or the kind of the event."""
    principal: str = ""
    """Principal of the caller. Empty if a server acted by itself, and in rows before the chain."""
    how: str = ""
    """Means by which the caller was identified."""
    credential: str = ""
    """Public name of the credential: id of a key, or fingerprint of a certificate. Empty without a credential."""
    via: str = ""
    """Server that identified the caller and passed the call on. Empty if the asked server did so itself."""
    decision: str = ""
    """`allowed` or `refused`. Empty if nothing was to be decided."""
    rule: str = ""
    """Rule by which that was decided. Empty if no rule was asked."""
    previous: bytes = b""
    """Hash of the row before this one. Empty in rows before the chain."""
    hash: bytes = b""
    """Hash of this row. Empty in rows before the chain."""


class LogRecord(NamedTuple):
    """One parcel of messages in the log of a server, kept until all readers that wait for it have passed it."""

    position: int
    """Place in the log, from 1. Each parcel of this server has the next place."""
    audience: int
    """Number of the bitmap of mailboxes that get the parcel. 0 if no mailbox of this server gets it."""
    encoded: bytes
    """The parcel, in the form in which it travels."""


class ProtocolRow(NamedTuple):
    """State that one part of the update protocol needs after a crash, as that part encodes it."""

    part: str
    """Part that wrote the row."""
    key: str
    value: bytes | None
    """None deletes the row."""


@dataclass(slots=True)
class Records:
    """Rows to make durable in one transaction. A later row of the same key replaces an earlier row."""

    nodes: list[NodeRecord] = field(default_factory=list)
    arcs: list[ArcRecord] = field(default_factory=list)
    virtual_nodes: list[VirtualNodeRecord] = field(default_factory=list)
    outcomes: list[OutcomeRecord] = field(default_factory=list)
    protocol: list[ProtocolRow] = field(default_factory=list)
    forget_outcomes_through: int | None = None
    """Outcomes of this sequence number and below are forgotten."""
    changes: list[ChangeRecord] = field(default_factory=list)
    forget_changes_through: int | None = None
    """Changes of this number and below are forgotten."""
    log: list[LogRecord] = field(default_factory=list)
    """New entries of the log, by rising position."""
    cut_log_through: int | None = None
    """Entries of the log at this position and below are forgotten."""
    log_gone: list[int] = field(default_factory=list)
    """Positions of further entries of the log that are forgotten. They may be among `log`."""
    counter: int | None = None
    """The priority counter. None if it did not rise."""

    def extend(self, later: Records) -> None:
        """Append the rows of a later step (group commit)."""
        self.nodes += later.nodes
        self.arcs += later.arcs
        self.virtual_nodes += later.virtual_nodes
        self.outcomes += later.outcomes
        self.protocol += later.protocol
        if later.forget_outcomes_through is not None:
            self.forget_outcomes_through = later.forget_outcomes_through
        self.changes += later.changes
        if later.forget_changes_through is not None:
            self.forget_changes_through = later.forget_changes_through
        self.log += later.log
        if later.cut_log_through is not None:
            self.cut_log_through = later.cut_log_through
        self.log_gone += later.log_gone
        if later.counter is not None:
            self.counter = later.counter

    def graph_row_count(self) -> int:
        """Return the number of rows of the graph itself."""
        return len(self.nodes) + len(self.arcs) + len(self.virtual_nodes)

    def is_empty(self) -> bool:
        """Return True if nothing has to be made durable."""
        return (
            not (self.nodes or self.arcs or self.virtual_nodes or self.outcomes or self.protocol or self.changes)
            and not (self.log or self.log_gone)
            and self.cut_log_through is None
            and self.counter is None
            and self.forget_changes_through is None
            and self.forget_outcomes_through is None
        )


@dataclass(frozen=True, slots=True)
class StoredState:
    """Everything durable, as a server reads it at its start. The iterables are read once, in this order.

    `nodes` come sorted by number without gaps. `arcs` and `virtual_node_changes` come in any order, tombstones
    included.
    """

    server: ServerId
    counter: int
    nodes: Iterable[NodeRecord]
    virtual_nodes: Iterable[VirtualNodeRecord]
    arcs: Iterable[ArcRecord]
    outcomes: Iterable[OutcomeRecord]
    protocol: Iterable[ProtocolRow] = ()
    """Rows in any order. No value is None."""
    last_change: int = 0
    """Number of the newest `ChangeRecord`. The other records are not read at a start."""
    change_sizes: Sequence[tuple[int, int]] = ()
    """(`number // 100`, bytes of these records) for each hundred (`FORGET_EVERY`) of numbers, sorted."""
    last_change_hash: bytes = b""
    """Hash of the newest `ChangeRecord`. Empty if there is none, or if it was written before the chain."""
