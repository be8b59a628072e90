"""What the core makes durable: the rows it writes and the state it starts from.

A step's records become durable together or not at all, and before any message or reply of that step leaves. The core
numbers nodes itself (`NodeIndex`, dense from 0), so that rows, bitmaps and arcs stay small. The number of a name that
is forgotten is given to another one.
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
"""Chosen by a client for one write; repeating it returns the first answer."""


class NodeKind(IntEnum):
    """What a known id stands for at present."""

    ABSENT = 0
    GROUP = 1
    PROCESS = 2


class NodeRecord(NamedTuple):
    """One node. `virtual_node` is the number of the virtual node it is a component of, or None.

    A row whose `node_id` is `@` says that the number is free.
    """

    node: NodeIndex
    node_id: NodeId
    kind: NodeKind
    virtual_node: int | None
    version: int
    """Counter of the final priority of the last update that changed this node's ancestry record."""
    version_server: ServerId | None
    """Server of that priority; None: the one whose state this is."""


class ArcRecord(NamedTuple):
    """One arc parent -> child of the external group view; kept as a tombstone (`present` false) once left.

    A row of version 0 says that an arc of which no end is owned is no longer known: the row of its key is deleted.
    """

    parent: NodeIndex
    child: NodeIndex
    cost: int
    version: int
    """How often this arc was joined or left, 1 for the first join."""
    writer: int
    """Counter of the final priority of the update that wrote it."""
    present: bool
    suspended: bool


class VirtualNodeRecord(NamedTuple):
    """One virtual node: its id is (smallest component, final priority of the update that made it).

    A row that is not `present` says that it is gone: the row of its number is deleted.
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
    """Order in which outcomes were decided; the oldest are forgotten first."""
    digest: str
    """Tells a repeated request from another one under the same id."""
    outcome: str
    """JSON, as `namegraph.state.request_log` writes and reads it."""


class ChangeRecord(NamedTuple):
    """What one update changed of the groups at home here. No answer about the graph rests on it."""

    number: int
    """Order in which this server committed them, from 1, without gaps; the oldest are forgotten first."""
    counter: int
    """Counter of the update's final priority."""
    revision: str
    request_id: RequestId
    told_at: int
    """Milliseconds since 1970 (UTC) on the clock of the server that was asked; 0 where it is not known."""
    caller: str
    """Who asked for it, as far as known; empty where not."""
    server: ServerId
    """The server that was asked."""
    changes: bytes
    """As `namegraph.model.changes` writes and reads them."""


class LogRecord(NamedTuple):
    """One parcel of messages in the log of a server: kept until all that it waits for have passed it."""

    position: int
    """Rises by one with each parcel of this server, from 1. Its place in the log."""
    audience: int
    """The number of the bitmap of mailboxes that get it; 0: nobody here does."""
    encoded: bytes
    """The parcel, as it travels."""


class ProtocolRow(NamedTuple):
    """What one part of the update protocol must know again after a crash, as that part encodes it."""

    part: str
    """Which part wrote it."""
    key: str
    value: bytes | None
    """None deletes the row."""


@dataclass(slots=True)
class Records:
    """Rows to make durable in one transaction; a later row of the same key replaces an earlier one."""

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
    """New entries of the log; their positions rise."""
    cut_log_through: int | None = None
    """Entries of the log at this position and below are forgotten."""
    log_gone: list[int] = field(default_factory=list)
    """Positions of further entries of the log that are forgotten. They may be among `log`."""
    counter: int | None = None
    """The priority counter, where it rose."""

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
        """How many rows are of the graph itself."""
        return len(self.nodes) + len(self.arcs) + len(self.virtual_nodes)

    def is_empty(self) -> bool:
        """Whether nothing needs to be made durable."""
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
    """Everything durable, as a server reads it when it starts. The iterables are read once, in this order.

    `nodes` come sorted by number without gaps; `arcs` and `virtual_node_changes` in any order, tombstones included.
    """

    server: ServerId
    counter: int
    nodes: Iterable[NodeRecord]
    virtual_nodes: Iterable[VirtualNodeRecord]
    arcs: Iterable[ArcRecord]
    outcomes: Iterable[OutcomeRecord]
    protocol: Iterable[ProtocolRow] = ()
    """In any order; without values that are None."""
    last_change: int = 0
    """The number of the newest `ChangeRecord`; the others are not read at a start."""
    change_sizes: Sequence[tuple[int, int]] = ()
    """For each hundred (`FORGET_EVERY`) of numbers, sorted: `number // 100`, and the bytes of what these changed."""
