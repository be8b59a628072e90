"""The state of a core that readers use: its state between steps, also during a long step and until that step is
durable.

    loop's thread     hold --> reads, of the state before --------------> let_go
    another thread        \\--- step, which changes the core ---/

A held state shares with the core everything that the step does not change (`namegraph.model.moments`), so holding takes
no time. Between steps readers use the core itself.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from copy import copy
from itertools import chain
from typing import Any

from namegraph.core import ServerCore
from namegraph.events import (
    AddPeer,
    ConfigurePeer,
    Event,
    ImportCommand,
    Lane,
    PeerLost,
    PeerMessage,
    PeerMet,
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

_CHANGING_PEERS = (AddPeer, RemovePeer, ConfigurePeer)
_ENDING_VIEW = (PeerLost, PeerMet, PeerRestored, Restored, RetirePeer)


class CommittedState(CoreQueries):
    """A core as its readers see it: the state before the first long step that is not durable."""

    def __init__(self, core: ServerCore) -> None:
        self._core = core
        self._held: deque[CoreQueries] = deque()
        """State before each of these steps, the earliest first."""
        self._show()

    def may_take_long(self, event: Event) -> bool:
        """Return True if the step of an event may take more than some milliseconds. It must then leave the loop's
        thread."""
        core = self._core
        if isinstance(event, (PeerReceived, Tick)):
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

    def hold(self) -> None:
        """Hold the present state before a long step. Readers see no later state until the step is durable."""
        core = self._core
        context = copy(core._context)
        context.__dict__.update({name: copy(value) for name, value in vars(context).items() if isinstance(value, dict)})
        context.doubts = core._context.doubts.hold()
        context.graph = core.graph.hold()
        context.ancestors = core.ancestors.hold(context.graph)
        held = CoreQueries()
        held.__dict__.update(_parts_of(core))
        held.graph, held._context = context.graph, context
        held.records = core.records.hold(context)
        held.entries = core.entries.hold(context, held.records)
        held.told_revision = core.revision
        self._held.append(held)
        self._show()

    def let_go(self, *, earliest: bool) -> list[list[Any]]:
        """End a hold, and return the objects to free, some at a time. They may be very many.

        `earliest`: True if the earliest long step is durable. False if the latest one left nothing to be made
        durable.
        """
        held = self._held.popleft() if earliest else self._held.pop()
        self._show()
        core = self._core
        if not self._held:
            core.records.end_holds()
            core.ancestors.end_holds()
        return [*core.graph.let_go(held.graph), held.ancestors.replaced]

    @property
    def revision(self) -> str:
        """Revision of the newest update that was committed here, or the text to tell in its place."""
        is_later = self._held and self._core.told_revision is None
        return self._held[0].revision if is_later else self._core.revision

    def _show(self) -> None:
        self.__dict__.update(_parts_of(self._held[0] if self._held else self._core))


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
    return {name: value for name, value in vars(queries).items() if name in CoreQueries.__annotations__}
