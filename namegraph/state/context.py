"""Shared state of the update protocol on one server: its graph, its counter, and its outgoing messages.

Messages of a server to itself never leave. Such messages wait in `loopback` and are handled before the step ends. A
message whose handling takes seconds is sent as an ordinary letter instead (`send_via_log`); letters to other
servers leave before it is handled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable
from functools import cached_property

from namegraph.graph.ancestor_sets import AncestorSets
from namegraph.graph.name_graph import NameGraph
from namegraph.model.group_details import NO_DETAILS, GroupDetails
from namegraph.model.moments import Table, shallow
from namegraph.model.names import NodeId, ServerId
from namegraph.model.ownership import OwnershipTable
from namegraph.model.peer_faults import PeerFault
from namegraph.model.policies import ServerPolicy
from namegraph.model.priorities import Priority
from namegraph.model.protocol_versions import OLDEST_PROTOCOL_VERSION
from namegraph.model.refusals import Reason, RefusedError, refuse
from namegraph.model.rows import ArcRecord, NodeIndex
from namegraph.state.absences import Absences
from namegraph.state.change_log import ChangeLog
from namegraph.state.durable_maps import ARCS, NODES, PRESENCE, SERVERS, SUBNETS, DurableMap, DurableState, packed
from namegraph.state.forgotten_arcs import ForgottenArcs
from namegraph.state.group_versions import GroupVersions
from namegraph.state.in_doubt import UpdatesInDoubt
from namegraph.state.policies import PolicyRows
from namegraph.state.renames import Renames
from namegraph.state.view_phase import ViewPhase
from namegraph.wire.codec import Message
from namegraph.wire.message_parts import FIRST_VIEW, ArcId, Cohort, ViewId

CAUGHT_UP = "caught up"
"""Rows: one for each server that this one has healed with since it went back to an older copy of its database."""
UNCONFIRMED = "unconfirmed"
"""Rows: one for each arc that the home of its parent does not know."""
UNCONFIRMED_BELOW = "unconfirmed below"
"""Rows: one for each arc that the home of its child does not know."""
LEFT_APART = "left apart"
"""Rows: one for each arc that this server left while the home of its other end was in another view."""

REMOVED = "removed subnet"
"""Rows: one for each subnet of a server that was removed."""

DETAILS = "group details"
"""Rows: one for each group of this server that has details."""

NEVER = Priority(0, ServerId(""))
"""Priority below all others: the version of a record that no update has changed."""


class ServerContext:
    """One server's state in the protocol."""

    server_policy: ServerPolicy | None = None
    """Policy of this server and its subnets. None for a server that is not protected: every caller may do everything,
    and policies of groups are kept without effect."""

    def __init__(
        self, *, server: ServerId, table: OwnershipTable, graph: NameGraph, durable: DurableState | None = None
    ) -> None:
        """`durable`: the state from which the server starts. None for a fresh start."""
        self.server = server
        self.durable = durable = DurableState() if durable is None else durable
        self.table = table
        self.graph = graph
        self.ancestors = AncestorSets(graph)
        self.counter = 0
        self.counter_at_start = 0
        """The counter in the database when the server started."""
        self.change_log = ChangeLog()
        self.has_gone_back = False
        """True if the database of this server ever turned out to be an older copy of itself."""
        self.caught_up_with = DurableMap(durable, CAUGHT_UP, SERVERS, PRESENCE)
        """Servers that this one has healed with since it went back to an older copy."""
        self.group_versions = GroupVersions(durable)
        self.forgotten = ForgottenArcs(durable)
        self.absences = Absences(durable)
        self.renames = Renames(durable)
        # Details of groups of this server, for the groups that have some. They are no part of the update protocol.
        self.details = DurableMap(durable, DETAILS, NODES, packed(GroupDetails))
        self.policies = PolicyRows(durable)
        # Subnets of other servers that an operator removed from the table. The tombstones of arcs with them are kept.
        self.removed = DurableMap(durable, REMOVED, SUBNETS, PRESENCE)
        self.doubts = UpdatesInDoubt(durable)
        self.unilateral_leaves = DurableMap(durable, LEFT_APART, ARCS, PRESENCE)
        """Arcs that this server left by itself, until it has healed with the home of their other end. At the time of
        the leave, that home was in another view, or did not know the arc.

        Each end may have left the same arc by itself, one more often than the other. Both then know the arc as
        gone, at different versions. A new join would be newer than the state at one end, and older than the state
        at the other. The ends settle these arcs for that reason (docs/protocol-partitions.md, "Healing").
        """
        self.outbox: list[tuple[ServerId, Message, ViewId]] = []
        """(receiver, message, view in which it was sent)."""
        self.loopback: deque[Message] = deque()
        self.faults: list[tuple[ServerId, PeerFault]] = []
        """Faults of other servers that are found in this step, when their messages are checked against each other."""
        self.lost: dict[ServerId, str] = {}
        """Servers out of reach, with the reason."""
        self.versions: dict[ServerId, int] = {}
        """Version of the protocol of each server that was met since this one started."""
        self.retired: dict[ServerId, None] = {}
        """Servers outside the view that are gone for good, as an operator says."""
        self.view: ViewId = FIRST_VIEW
        self.members: dict[ServerId, Cohort] = {}
        """Servers of the view, with the cohort of each. In the first view: all servers that were met."""
        self.origin = Cohort(FIRST_VIEW, ServerId(""))
        """Cohort of this server's state, for the next view."""
        self.view_floor = NEVER
        """Bound between views: above the priorities of all updates of earlier views, below those of this view."""
        self.promised: ViewId = FIRST_VIEW
        """Highest view that was proposed here and accepted."""
        self.phase = ViewPhase.FIRST
        """Phase of the view. `ViewChange` alone changes it, and all other state of the view."""
        self.unconfirmed = DurableMap(durable, UNCONFIRMED, ARCS, PRESENCE)
        """Suspended arcs into nodes of this server that were joined here while their parents' homes were away."""

        self.unconfirmed_below = DurableMap(durable, UNCONFIRMED_BELOW, ARCS, PRESENCE)
        """Suspended arcs from nodes of this server that were joined here while their children's homes were away."""

    @cached_property
    def _tables(self) -> tuple[str, ...]:
        """Names of the attributes that are tables."""
        return tuple(name for name, part in vars(self).items() if isinstance(part, Table))

    def hold(self) -> ServerContext:
        """Return the present context, for readers: with the graph and the ancestor sets as they are.

        Servers that are lost, and versions of the protocol, are read as they are later: they are no state.
        """
        held = shallow(self)
        for name in self._tables:
            setattr(held, name, getattr(self, name).hold())
        held.members, held.retired = self.members.copy(), self.retired.copy()
        held.table, held.doubts, held.renames = self.table.hold(), self.doubts.hold(), self.renames.hold()
        held.policies = self.policies.hold()
        held.graph = self.graph.hold()
        held.ancestors = self.ancestors.hold(held.graph)
        return held

    def end_holds(self) -> None:
        """Note that nobody reads held contexts any more."""
        for name in self._tables:
            getattr(self, name).end_moments()
        for each in (self.doubts, self.renames, self.policies, self.graph, self.ancestors):
            each.end_holds()

    @property
    def is_alone(self) -> bool:
        """True if no other server is known."""
        return not self.table.has_several_servers

    def unreconciled_servers(self) -> list[str]:
        """Return the servers that may know state that this server lost by going back to an older copy of its database.

        Servers, and the subnets of servers that were not met since. Empty if this server never went back.
        """
        if not self.has_gone_back:
            return []
        others = (server for server in self.table.servers() if server != self.server)
        return [*(server for server in others if server not in self.caught_up_with), *self.table.expected()]

    @property
    def view_active(self) -> bool:
        """True if updates of clients may begin: all members have suspended the arcs that they had to."""
        return self.phase is not ViewPhase.SUSPENDING

    @property
    def is_healed(self) -> bool:
        """True if no arc can be known to one of its ends alone because of changes while servers were apart."""
        return self.phase is ViewPhase.HEALED or self.phase is ViewPhase.FIRST

    @property
    def view_change_in_progress(self) -> bool:
        """True if a new view is being agreed on. No update of the present view goes on then."""
        return self.promised != self.view

    @property
    def is_parted(self) -> bool:
        """True if some server that was met is in another view, or in none."""
        return self.view != FIRST_VIEW and not self.members.keys() >= self.table.subnets_by_server.keys()

    def absent(self) -> list[ServerId]:
        """Return the servers that were met and are in another view, or in none."""
        if not self.is_parted:
            return []
        return [server for server in self.table.subnets_by_server if server not in self.members]

    def is_in_view(self, server: ServerId) -> bool:
        """Return True if updates may involve a server."""
        return self.view == FIRST_VIEW or server in self.members

    def speaks(self, server: ServerId, version: int) -> bool:
        """Return True if a server is known to speak at least this version of the protocol."""
        return self.versions.get(server, OLDEST_PROTOCOL_VERSION) >= version

    def is_away(self, server: ServerId) -> bool:
        """Return True if a server is out of reach, or in another view."""
        return server in self.lost or not self.is_in_view(server)

    def has_met(self, server: ServerId) -> bool:
        """Return True for this server and for each server that introduced itself. Peers may know servers that are
        unknown here."""
        return server == self.server or server in self.table.subnets_by_server

    def out_of_reach(self, server: ServerId) -> RefusedError:
        """Return the refusal of an update that needs a server which is away, or is not known here."""
        unknown = f"not known to {self.server}, which needs its address too"
        why = self.lost.get(server, "no connection" if self.has_met(server) else unknown)
        return refuse(
            Reason.UNAVAILABLE,
            f"the server {server} is out of reach ({why}); nothing was done",
            unreachable=server,
            server=server,
        )

    def has_diverged(self, server: ServerId) -> bool:
        """Return True if the state of a server comes from another cohort, so that it does not fit the state here."""
        return self.view != FIRST_VIEW and self.members.get(server) != self.members[self.server]

    @property
    def cohort_leader(self) -> ServerId:
        """The smallest server of this one's cohort, which speaks for all of them."""
        return min((server for server in self.members if not self.has_diverged(server)), default=self.server)

    def go_back(self) -> None:
        """Record that the database is an older copy of itself.

        The other end may have heard of arcs that the copy holds as joined alone, and may have left them. This does
        not hold for arcs joined since this server started on the copy.
        """
        self.has_gone_back = True
        self.caught_up_with.clear()
        for joined_alone in (self.unconfirmed, self.unconfirmed_below):
            for arc in [arc for arc in joined_alone if self._written_at(arc) <= self.counter_at_start]:
                del joined_alone[arc]
        self.forgotten.went_back(self.counter_at_start)

    def _written_at(self, arc: ArcId) -> int:
        """Return the counter of the update that wrote a suspended arc. 0 if the arc is not suspended."""
        graph = self.graph
        parent, child = graph.index.get(arc.parent), graph.index.get(arc.child)
        if parent is None or child is None or (parent, child) not in graph.suspended:
            return 0
        return graph.suspended[parent, child].writer

    def catch_up(self) -> None:
        """Record that the view is healed: this server knows all that the other members know."""
        if self.has_gone_back:
            new = [server for server in self.members if server not in self.caught_up_with]
            self.caught_up_with.update(dict.fromkeys(new))
        self.doubts.told_by(self.members)
        for server in self.members:
            self.absences.is_over(server)
            self.forgotten.healed(server)
        for arc in [arc for arc in self.unilateral_leaves if self.is_in_view(self.other_home_of(arc))]:
            del self.unilateral_leaves[arc]

    def note_group(self, group: NodeId, final: Priority, *, is_present: bool) -> None:
        """Record that a group of this server was created or deleted. Other servers may not know that, or may know arcs
        of the group that are unknown here.

        While no server is away, only deletions are noted, and later changes of the same groups: the coordinator of
        a deletion may miss its `Done`.
        """
        if not is_present:
            self.set_details(group, NO_DETAILS)
            self.policies.forget(group)
        if self.renames and is_present:
            self.renames.forget_used((group,))
        elif self.renames:
            self.renames.forget_deleted(group)
        is_again = not is_present or self.group_versions.is_noted(group)
        if self.is_parted or not self.is_healed or (is_again and not self.is_alone):
            self.group_versions.note(group, final, is_present=is_present)

    def set_details(self, group: NodeId, details: GroupDetails) -> None:
        """Set the details of a group of this server."""
        if details != NO_DETAILS:
            self.details[group] = details
        elif group in self.details:
            del self.details[group]

    def note_renames(self, renames: Collection[tuple[NodeId, NodeId]]) -> None:
        """Let old names, and still older ones, lead to the new names of groups, and move what is kept of the groups.

        Call this before the old names are deleted: what leads to a deleted name is forgotten.
        """
        self.renames.note(renames)
        for old, new in renames:
            if old in self.details:
                self.details[new] = self.details.pop(old)
            self.policies.rename(old, new)

    def send(self, to: ServerId, message: Message) -> None:
        """Send a message of the view once the step's records are durable. Servers outside the view get none."""
        if to == self.server:
            self.loopback.append(message)
        elif self.is_in_view(to):
            self.outbox.append((to, message, self.view))

    def post(self, to: ServerId, message: Message) -> None:
        """Send a message about views, like `send`. The receiver may be in another view."""
        if to == self.server:
            self.loopback.append(message)
        else:
            self.outbox.append((to, message, self.view))

    def send_via_log(self, to: ServerId, message: Message) -> None:
        """Send a message, like `send`. This server handles a message to itself in a later step, once it is durable."""
        self.outbox.append((to, message, self.view))

    def see(self, priority: Priority) -> None:
        """Raise the counter to at least that of a priority."""
        self.counter = max(self.counter, priority.counter)

    def next_priority(self) -> Priority:
        """Return a priority above all that were seen here."""
        self.counter += 1
        return Priority(self.counter, self.server)

    def home_below(self, *, parent: NodeId, child: NodeId) -> ServerId:
        """Return the home of the child of an arc. A foreign process lives where its parent does."""
        home = self.table.homes[child]
        return self.home_of(parent) if home is None else home

    def homes_of(self, arc: ArcId) -> tuple[ServerId, ServerId]:
        """Return the homes of the parent and of the child of an arc."""
        return self.home_of(arc.parent), self.home_below(parent=arc.parent, child=arc.child)

    def other_home_of(self, arc: ArcId) -> ServerId:
        """Return the home of the other end of an arc of this server. This server if both ends are here."""
        above, below = self.homes_of(arc)
        return above if below == self.server else below

    def version_before(self, arc: ArcId) -> int:
        """Return the version of a missing arc with an end here: the version of its tombstone, or the floor of new
        versions."""
        graph = self.graph
        parent, child = graph.index.get(arc.parent), graph.index.get(arc.child)
        if parent is not None and child is not None and (parent, child) in graph.tombstones:
            return graph.tombstones[parent, child].version
        return self.forgotten.floor(self.other_home_of(arc))

    def home_of(self, node: NodeId) -> ServerId:
        """Return the home of a group, or of a node that is known here. A node whose subnet has no owner lives here."""
        home = self.table.homes[node]
        return self.server if home is None else home

    def homes_of_nodes(self, nodes: Iterable[NodeIndex]) -> list[ServerId]:
        """Return `home_of` for very many nodes."""
        homes = self.table.homes_of(map(self.graph.ids.__getitem__, nodes))
        return [self.server if home is None else home for home in homes]

    def is_suspended(self, parent: NodeId, child: NodeId) -> bool:
        """Return True if an arc is known here and suspended."""
        index = self.graph.index
        return parent in index and child in index and (index[parent], index[child]) in self.graph.suspended

    def is_rejected(self, arc: ArcRecord) -> bool:
        """Return True if a suspended arc cannot be joined: the homes of its ends settled all arcs, and did not join
        it."""
        if not self.is_healed:
            return False
        ids = self.graph.ids
        return self.is_in_view(self.home_of(ids[arc.parent])) and self.is_in_view(self.home_of(ids[arc.child]))

    def suspended_children(self, node: NodeIndex, some: Collection[NodeIndex] | None = None) -> list[NodeIndex]:
        """Return the children of suspended arcs that leave a node. Rejected arcs are left out, because they count for
        no answer.

        `some`: restricts the result to these children of such arcs. None: all.
        """
        return self._apart_from(node, self.graph.suspended_from.get(node, ()) if some is None else some)

    def suspended_parents(self, node: NodeIndex) -> list[NodeIndex]:
        """Return the parents of suspended arcs that enter a node. Rejected arcs are left out."""
        return self._apart_from(node, self.graph.suspended_into.get(node, ()))

    def _apart_from(self, node: NodeIndex, others: Collection[NodeIndex]) -> list[NodeIndex]:
        """Return the nodes of `others` whose suspended arc to or from `node` is not rejected (`is_rejected`). They may
        be very many."""
        ids = self.graph.ids
        if not (others and self.is_healed and self.is_in_view(self.home_of(ids[node]))):
            return list(others)
        homes = self.homes_of_nodes(others)
        in_view = [home for home in dict.fromkeys(homes) if self.is_in_view(home)]
        return [other for other, home in zip(others, homes, strict=True) if home not in in_view]

    def is_only_rejected(self, node: NodeIndex) -> bool:
        """Return True if rejected arcs are all that is known here of a node of another server."""
        graph = self.graph
        if not (node in graph.suspended_from or node in graph.suspended_into) or self.owns(node):
            return False
        return not (
            graph.children[node] or graph.parents[node] or self.suspended_children(node) or self.suspended_parents(node)
        )

    def is_in_doubt(self, arc: ArcId, *, writer: int | None = None) -> bool:
        """Return True if an update in doubt may have joined or left an arc with an end here.

        An update covers here its parents that live here, and the children of its arcs. `writer`: counter of the
        update that reportedly wrote the arc. If given, return True only if an update in doubt may be that one.
        """
        ends = (arc.parent, arc.child) if self.home_of(arc.parent) == self.server else (arc.child,)
        return self.doubts.concern(*ends, writer=writer)

    def is_unconfirmed(self, parent: NodeId, child: NodeId) -> bool:
        """Return True if an arc was joined here, at its child's home, and its parent's home has not joined it yet."""
        return bool(self.unconfirmed) and ArcId(parent, child) in self.unconfirmed

    def set_unconfirmed(self, arc: ArcId, *, is_so: bool) -> None:
        """Remember, or forget, that the home of an arc's parent has not joined it."""
        if is_so:
            self.unconfirmed[arc] = None
        else:
            del self.unconfirmed[arc]

    def owns(self, node: NodeIndex) -> bool:
        """Return True if a node that is known here lives here."""
        home = self.table.homes[self.graph.ids[node]]
        return home is None or home == self.server

    def owned(self, nodes: range) -> bytearray:
        """Return 1 for each node of this range that lives here, else 0, in order. Numbers that were never given are
        left out."""
        ids = self.graph.ids[nodes.start : nodes.stop]
        return bytearray(home is None or home == self.server for home in self.table.homes_of(ids))

    def id_of(self, node: NodeIndex) -> NodeId:
        """Return the id of a node."""
        return self.graph.ids[node]
