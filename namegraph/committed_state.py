"""The state of a core that readers see: the newest durable one, whatever steps were taken since.

    first step of a batch    hold --> readers see the state before the batch
    the batch is durable     let_go --> readers see the state after it

    steps     | batch 1  | batch 2       |
    flushes              | batch 1       | batch 2
    readers   the state before 1         | after 1       | after 2

A held state shares with the core everything that no step changes (`namegraph.model.moments`), so holding takes no
time. While all is durable, readers use the core itself. A reader that goes on over several turns of the event loop
keeps the state that it began with (`kept`).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

from namegraph.core import ServerCore
from namegraph.events import (
    AddPeer,
    CheckpointCame,
    ConfigurePeer,
    Event,
    ImportCommand,
    KeepAccess,
    KeepCheckpoint,
    Lane,
    NoteEvents,
    PeerLost,
    PeerMessage,
    PeerMet,
    PeerPosts,
    PeerReceived,
    PeerRestored,
    ReadCommand,
    RemovePeer,
    Restored,
    RetirePeer,
    Tick,
    UpdateCommand,
)
from namegraph.model.names import NodeId
from namegraph.model.operations import DeleteGroup
from namegraph.model.rows import NodeIndex
from namegraph.queries import LONG_FROM_OPERATIONS, CoreQueries
from namegraph.update.composite import names_in_composite
from namegraph.update.locality import heads_in
from namegraph.update.order_queue import LARGE_FROM_NODES
from namegraph.wire.codec import NotAMessageError, decode_in_view
from namegraph.wire.inflation import may_inflate
from namegraph.wire.update_messages import Order

LONG_FROM_BYTES = 64 * 1024
"""Size from which a letter makes thousands of objects."""

LONG_FROM_NODES = 10_000
"""Number of names that take some milliseconds to look through."""

LONG_FROM_ARCS = 2_000
"""Number of arcs between servers that take more than some milliseconds when a view ends, or heals."""

_PARTS = tuple(CoreQueries.__annotations__)

_OF_AUDIT_LOG = (NoteEvents, KeepCheckpoint, CheckpointCame, KeepAccess)
_CHANGING_PEERS = (AddPeer, RemovePeer, ConfigurePeer)
_ENDING_VIEW = (PeerLost, PeerMet, PeerRestored, Restored, RetirePeer)


class HeldState(CoreQueries):
    """The state of a core at a moment. It stays as it is until its last user leaves it."""

    def __init__(self, core: ServerCore) -> None:
        self.__dict__.update(_parts_of(core))
        self._certainty = None
        self._context = core._context.hold()
        self.graph, self._table = self._context.graph, self._context.table
        self.records = core.records.hold(self._context)
        self.entries = core.entries.hold(self._context, self.records)

    @property
    def replaced(self) -> list[list[Any]]:
        """Objects that only this state still has, to be freed some at a time."""
        return [*self.graph.replaced, self._context.ancestors.replaced]


class CommittedState(CoreQueries):
    """A core as its readers see it: its newest durable state."""

    def __init__(self, core: ServerCore) -> None:
        self._core = core
        self._held: deque[HeldState] = deque()
        """State before each batch that is not durable, the earliest first."""
        self._users: Counter[HeldState] = Counter()
        """Users of each held state: its batch, and readers that keep it."""
        self.free: Callable[..., None] = lambda *_lists: None
        """Callback that gets lists of objects to free. They may be very many."""
        self._show()

    def may_take_long(self, event: Event) -> bool:
        """Return True if the step of an event may take more than some milliseconds. It must then leave the loop's
        thread."""
        core = self._core
        if isinstance(event, (PeerReceived, Tick, *_OF_AUDIT_LOG)):
            return False
        if isinstance(event, ImportCommand) or core.has_large_updates:
            return True
        if isinstance(event, _CHANGING_PEERS):
            return len(core.graph.ids) > LONG_FROM_NODES
        if isinstance(event, UpdateCommand) and _size(event, core) > LONG_FROM_OPERATIONS:
            return True
        if isinstance(event, PeerMessage) and event.lane is Lane.LETTERS and _is_large(event.encoded):
            return True
        if _follows_many(event, core):
            return True
        return (isinstance(event, _ENDING_VIEW) or not core.is_steady) and _has_much_between_servers(core)

    def changes(self, event: Event) -> bool:
        """Return False if the step of an event changes nothing that readers see: it is about messages to groups, or
        about the audit log."""
        if isinstance(event, PeerMessage):
            return event.lane is Lane.LETTERS
        if isinstance(event, PeerReceived):
            return self._core.cuts_wait
        return not isinstance(event, (PeerPosts, *_OF_AUDIT_LOG))

    def hold(self, *, for_long_step: bool = False) -> None:
        """Hold the present state, before the first step of a batch. Readers see no later state until `let_go`.

        `for_long_step`: True if the step will run in another thread.
        """
        held = HeldState(self._core)
        if for_long_step:
            self._core.ancestors.keep_readers_apart()
        self._users[held] += 1
        self._held.append(held)
        self._show()

    def let_go(self, *, earliest: bool) -> None:
        """End a hold.

        `earliest`: True if the earliest batch is durable. False if the steps since the latest hold left nothing to
        be made durable.
        """
        held = self._held.popleft() if earliest else self._held.pop()
        self._show()
        self._leave(held)

    @contextmanager
    def kept(self, *, latest: bool = False) -> Iterator[CoreQueries]:
        """Keep the state that readers see at present: it stays as it is until the end of the context.

        `latest`: True for the state after the last step, which may not be durable yet.
        """
        held = self._held[0] if self._held and not latest else HeldState(self._core)
        self._users[held] += 1
        try:
            yield held
        finally:
            self._leave(held)

    def _leave(self, held: HeldState) -> None:
        self._users[held] -= 1
        if not self._users[held]:
            del self._users[held]
            if not self._users:
                self._end_holds()
            self.free(*held.replaced)

    def _end_holds(self) -> None:
        core = self._core
        for each in (core._context, core.records, core.entries):
            each.end_holds()

    def _show(self) -> None:
        self.__dict__.update(vars(self._held[0]) if self._held else _parts_of(self._core))


def _is_large(letter: bytes) -> bool:
    return len(letter) > LONG_FROM_BYTES or may_inflate(letter)


def _size(command: UpdateCommand, core: ServerCore) -> int:
    """Return the number of operations of an update, including those into which deletions with force expand."""
    graph, size = core.graph, len(command.operations) + len(command.elsewhere)
    for name in names_in_composite(command.composite):
        node = graph.index.get(name)
        if node is not None:
            size += 2 * (len(graph.children[node]) + len(graph.parents[node]))
    if size <= LONG_FROM_OPERATIONS:
        for operation in command.operations:
            node = graph.index.get(operation.group) if isinstance(operation, DeleteGroup) and operation.force else None
            if node is not None:
                size += len(graph.children[node]) + len(graph.parents[node])
    return size


def _follows_many(event: Event, core: ServerCore) -> bool:
    """Return True if an event begins an update, or an ordered reading, that affects very many nodes here."""
    if core._context.is_alone or len(core.graph.ids) <= LARGE_FROM_NODES:
        return False  # A letter need not be decoded then.
    index = core.graph.index
    return _are_above_many((index[name] for name in _heads_of(event) if name in index), core)


def _are_above_many(nodes: Iterable[NodeIndex], core: ServerCore) -> bool:
    """Return True if very many nodes lie below. The cost is bounded by the limit of "very many"."""
    graph = core.graph
    return len(graph.ids) > LARGE_FROM_NODES and graph.descendants(nodes, limit=LARGE_FROM_NODES) is None


def _heads_of(event: Event) -> Collection[NodeId]:
    match event:
        case UpdateCommand(operations=operations):
            return (*heads_in(operations), *names_in_composite(event.composite))
        case ReadCommand(group=group):
            return (group,)
        case PeerMessage(lane=Lane.LETTERS, encoded=encoded):
            try:
                _, message = decode_in_view(encoded)
            except NotAMessageError:
                return ()
            return message.cover.entry_nodes if isinstance(message, Order) else ()
        case _:
            return ()


def _has_much_between_servers(core: ServerCore) -> bool:
    """Return True if very many arcs are suspended, or lead to and from other servers, or enter nodes above very many
    nodes."""
    graph = core.graph
    count = len(graph.suspended)
    leaving = core.records.leaving.values()
    entering = [graph.children[node] for node in core.records.above]
    for arcs in chain(leaving, entering):
        if count > LONG_FROM_ARCS:
            return True
        count += len(arcs)
    heads = chain((child for _, child in graph.suspended), chain.from_iterable(entering))
    return count > LONG_FROM_ARCS or _are_above_many(heads, core)


def _parts_of(queries: CoreQueries) -> dict[str, Any]:
    """Return the parts of a core on which reads depend."""
    found = vars(queries)
    return {name: found[name] for name in _PARTS if name in found}
