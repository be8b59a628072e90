"""Updates in doubt: this server was ready for them when it was cut off from their coordinator.

    Ready --> (a view without the coordinator, in which no member knows the outcome) --> in doubt --> (it has told)

The server drops such an update with the view, so that all other work can go on. But the coordinator may have done
the update, and answered its client. The server therefore remembers the nodes that the update was to change. No
answer that touches it is complete until the coordinator has told the outcome.

Source: docs/protocol-partitions.md, "Answers while servers are apart" and "In doubt". A ready participant never decides
alone.
While faults last, no wrong answer is given without saying that it is incomplete.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Iterator
from itertools import chain
from typing import NamedTuple

from namegraph.model.moments import Table, shallow
from namegraph.model.names import NodeId, ServerId
from namegraph.state.durable_maps import SERVERS, UPDATES, DurableMap, DurableState, packed
from namegraph.wire.message_parts import Cover, SharedDoubt, UpdateId

DOUBT = "doubt"
"""Rows: nodes that an update in doubt was to change here, by update."""
DOUBTS_OF_MEMBERS = "doubts of members"
"""Rows: updates that another member of the view is in doubt of, by member."""

SHARED_NODES_LIMIT = 10_000
"""Most names of one update that other members are told. An import may have half a million."""


class Doubt(NamedTuple):
    """Possible effect of an update in doubt here: changed nodes and created groups, both sorted."""

    nodes: tuple[NodeId, ...]
    groups: tuple[NodeId, ...]
    """Groups that the update may have created."""
    since: int = 0
    """Counter of the update's place when this server was ready. Arcs that the update wrote have this counter or a
    higher one."""


class Missed(NamedTuple):
    """An update that may have been done without this server, which was ready for it."""

    update_id: UpdateId
    cover: Cover
    """Nodes that the update was to change here."""
    creates: Callable[[NodeId], bool]
    """Predicate: True for a group that the update was to create."""
    since: int
    """Counter of the update's place. Arcs that it wrote have this counter or a higher one."""
    is_of_any: bool = False
    """True if it may have changed any node: its nodes are too many to be listed."""

    @property
    def coordinator(self) -> ServerId:
        """Server that knows the outcome."""
        return self.update_id.coordinator

    @property
    def nodes(self) -> Iterator[NodeId]:
        """Nodes that the update was to change here. A node may come twice."""
        return chain(*self.cover)

    @property
    def size(self) -> int:
        """Number of these nodes."""
        return len(self.cover.ends) + len(self.cover.entry_nodes)

    def holds(self, name: NodeId) -> bool:
        """Return True if the update was to change anything at a node."""
        return self.is_of_any or name in self.cover.ends or name in self.cover.entry_nodes


class UpdatesInDoubt:
    """The updates in doubt of one server, and of the other members of its view.

    Nodes above a node of another server are known from that server. The updates in doubt of that server make
    answers of this server uncertain, too.
    """

    def __init__(self, durable: DurableState) -> None:
        self._doubts = DurableMap(durable, DOUBT, UPDATES, packed(Doubt))
        self._missed = Table[UpdateId, Missed](
            (update_id, _missed(update_id, doubt)) for update_id, doubt in self._doubts.items()
        )
        """Updates in doubt, in the form for questions. Derived from `_doubts`."""
        self._of_members = DurableMap(durable, DOUBTS_OF_MEMBERS, SERVERS, packed(tuple[SharedDoubt, ...]))
        self._missed_by_member = Table[ServerId, list[Missed]](
            (server, _missed_there(doubts)) for server, doubts in self._of_members.items()
        )
        """Updates in doubt of members, in the form for questions. Derived from `_of_members`."""

    def hold(self) -> UpdatesInDoubt:
        """Return the present updates in doubt, for reading."""
        held = shallow(self)
        held._missed, held._missed_by_member = self._missed.hold(), self._missed_by_member.hold()
        return held

    def end_holds(self) -> None:
        """Note that nobody reads held updates any more."""
        self._missed.end_moments()
        self._missed_by_member.end_moments()

    @property
    def are_any(self) -> bool:
        """True if this server, or another member of the view, is in doubt of an update."""
        return bool(self._missed or (self._missed_by_member and any(self._missed_by_member.values())))

    @property
    def missed(self) -> Collection[Missed]:
        """The updates in doubt of this server. Most often empty."""
        return self._missed.values()

    @property
    def missed_by_members(self) -> list[Missed]:
        """Updates that other members of the view are in doubt of. Most often empty."""
        return list(chain.from_iterable(self._missed_by_member.values()))

    def shared_with(self, members: Container[ServerId]) -> tuple[SharedDoubt, ...]:
        """Return the updates in doubt that the members of a view must know. Members tell the outcome of their own
        updates."""
        return tuple(
            SharedDoubt(update_id, doubt.nodes if len(doubt.nodes) <= SHARED_NODES_LIMIT else ())
            for update_id, doubt in sorted(self._doubts.items())
            if update_id.coordinator not in members
        )

    def note_shared(self, member: ServerId, doubts: tuple[SharedDoubt, ...]) -> None:
        """Record all updates that another member of the view is in doubt of."""
        if doubts or member in self._of_members:
            self._of_members[member] = doubts
            self._missed_by_member[member] = _missed_there(doubts)

    def view_ended(self) -> None:
        """Forget the updates that other members are in doubt of. The next view is not healed before they have told
        again."""
        self._of_members.clear()
        self._missed_by_member.clear()

    def concern(self, *nodes: NodeId, writer: int | None = None) -> bool:
        """Return True if one of these updates was to change anything at all of `nodes`.

        `writer`: if given, the update must also be one that may have written the state of this counter.
        """
        return any(
            (writer is None or one.since <= writer) and all(map(one.holds, nodes)) for one in self._missed.values()
        )

    def creators_of(self, group: NodeId) -> list[ServerId]:
        """Return the coordinators of those updates that may have created a group."""
        return [one.coordinator for one in self._missed.values() if one.creates(group)]

    def note(self, missed: Missed) -> None:
        """Note an update that was dropped without its outcome."""
        nodes = sorted(set(missed.nodes))
        doubt = Doubt(tuple(nodes), tuple(filter(missed.creates, nodes)), missed.since)
        self._doubts[missed.update_id] = doubt
        self._missed[missed.update_id] = _missed(missed.update_id, doubt)

    def told_by(self, coordinators: Container[ServerId]) -> bool:
        """Forget the updates of these coordinators, because their outcome is known here. Return True if there were
        any."""
        over = [update_id for update_id in self._doubts if update_id.coordinator in coordinators]
        for update_id in over:
            del self._doubts[update_id], self._missed[update_id]
        return bool(over)


def _missed(update_id: UpdateId, doubt: Doubt) -> Missed:
    cover = Cover(frozenset(doubt.nodes), frozenset())
    return Missed(update_id, cover, frozenset(doubt.groups).__contains__, doubt.since)


def _missed_there(doubts: Iterable[SharedDoubt]) -> list[Missed]:
    return [_missed(update_id, Doubt(nodes, ()))._replace(is_of_any=not nodes) for update_id, nodes in doubts]
