"""What the parts of the update protocol share on one server: its graph, its counter, and where its messages go.

Messages of a server to itself never leave: they wait in `loopback` and are handled before the step ends. What
takes seconds is a letter like others instead (`send_via_log`): those to other servers leave before it is handled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable

from namegraph.graph.ancestor_sets import AncestorSets
from namegraph.graph.name_graph import NameGraph
from namegraph.model.names import NodeId, ServerId
from namegraph.model.ownership import OwnershipTable
from namegraph.model.peer_faults import PeerFault
from namegraph.model.priorities import Priority
from namegraph.model.protocol_versions import OLDEST_PROTOCOL_VERSION
from namegraph.model.refusals import Reason, RefusedError, refuse
from namegraph.model.rows import ArcRecord, NodeIndex
from namegraph.state.absences import Absences
from namegraph.state.change_log import ChangeLog
from namegraph.state.durable_maps import ARCS, PRESENCE, SERVERS, SUBNETS, DurableMap, DurableState
from namegraph.state.forgotten_arcs import ForgottenArcs
from namegraph.state.group_versions import GroupVersions
from namegraph.state.in_doubt import UpdatesInDoubt
from namegraph.state.renames import Renames
from namegraph.state.view_phase import ViewPhase
from namegraph.wire.codec import Message
from namegraph.wire.message_parts import FIRST_VIEW, ArcId, Cohort, ViewId

CAUGHT_UP = "caught up"
"""Rows: one for each server that this one has healed with since it went back to an older copy of its database."""
UNCONFIRMED = "unconfirmed"
"""Rows: one for each arc that the home of its parent knows nothing of."""
UNCONFIRMED_BELOW = "unconfirmed below"
"""Rows: one for each arc that the home of its child knows nothing of."""
LEFT_APART = "left apart"
"""Rows: one for each arc that this server left while the home of its other end was in another view."""

REMOVED = "removed subnet"
"""Rows: one for each subnet of a server that was removed."""

NEVER = Priority(0, ServerId(""))
"""Below every priority: the version of what no update has changed."""


class ServerContext:
    """One server's place in the protocol."""

    def __init__(
        self, *, server: ServerId, table: OwnershipTable, graph: NameGraph, durable: DurableState | None = None
    ) -> None:
        """`durable`: what the server was started with, where it was not started afresh."""
        self.server = server
        self.durable = durable = DurableState() if durable is None else durable
        self.table = table
        self.graph = graph
        self.ancestors = AncestorSets(graph)
        self.counter = 0
        self.counter_at_start = 0
        """That of the database when the server started."""
        self.change_log = ChangeLog()
        self.has_gone_back = False
        """Whether the database of this server ever turned out to be an older copy of itself."""
        self.caught_up_with = DurableMap(durable, CAUGHT_UP, SERVERS, PRESENCE)
        """Where it did: the servers that it has healed with since."""
        self.group_versions = GroupVersions(durable)
        self.forgotten = ForgottenArcs(durable)
        self.absences = Absences(durable)
        self.renames = Renames(durable)
        self.removed = DurableMap(durable, REMOVED, SUBNETS, PRESENCE)
        """Subnets of other servers that an operator has taken out of the table; what was left with them is kept."""
        self.doubts = UpdatesInDoubt(durable)
        self.unilateral_leaves = DurableMap(durable, LEFT_APART, ARCS, PRESENCE)
        """Arcs that this server left by itself, until it has healed with the home of their other end.

        That was in another view then, or knew nothing of the arc.

        Each end may have left the same arc by itself, one of them more often than the other. Both know the arc as gone
        then, at different versions. Joined anew, it would be newer than what one end knew of it, and older than what
        the other one did. So the ends settle these arcs too (protocol.md section 7, *Heal*).
        """
        self.outbox: list[tuple[ServerId, Message, ViewId]] = []
        """Receiver, message, and the view it was sent in."""
        self.loopback: deque[Message] = deque()
        self.faults: list[tuple[ServerId, PeerFault]] = []
        """What other servers did wrong, as it is found in this step where their messages fit together or do not."""
        self.lost: dict[ServerId, str] = {}
        """Servers out of reach, and why."""
        self.versions: dict[ServerId, int] = {}
        """Of the protocol, by the servers that were met since this one started."""
        self.retired: dict[ServerId, None] = {}
        """Of these, those that are gone for good, as an operator says."""
        self.view: ViewId = FIRST_VIEW
        self.members: dict[ServerId, Cohort] = {}
        """Who is in the view, and where each comes from. In the first view it is whoever was met."""
        self.origin = Cohort(FIRST_VIEW, ServerId(""))
        """What the state of this server comes from, for the next view."""
        self.view_floor = NEVER
        """Above the priorities of all updates of views before, below those of all updates of this one."""
        self.promised: ViewId = FIRST_VIEW
        """The highest view that was proposed here and accepted."""
        self.phase = ViewPhase.FIRST
        """How far the view is. `ViewChange` alone changes it, and all else that is known of the view."""
        self.unconfirmed = DurableMap(durable, UNCONFIRMED, ARCS, PRESENCE)
        """Suspended arcs into nodes of this server that were joined here while their parents' homes were away."""

        self.unconfirmed_below = DurableMap(durable, UNCONFIRMED_BELOW, ARCS, PRESENCE)
        """Suspended arcs from nodes of this server that were joined here while their children's homes were away."""

    @property
    def is_alone(self) -> bool:
        """Whether no other server is known."""
        return not self.table.has_several_servers

    def unreconciled_servers(self) -> list[str]:
        """Who may know what this server forgot when it went back to an older copy of its database.

        Servers, and the subnets of those that were not met since; nobody where it never did.
        """
        if not self.has_gone_back:
            return []
        others = (server for server in self.table.servers() if server != self.server)
        return [*(server for server in others if server not in self.caught_up_with), *self.table.expected()]

    @property
    def view_active(self) -> bool:
        """Whether updates of clients may begin: all members have suspended what is to be."""
        return self.phase is not ViewPhase.SUSPENDING

    @property
    def is_healed(self) -> bool:
        """Whether no arc can be known to one of its ends alone, because of what was done while they were apart."""
        return self.phase is ViewPhase.HEALED or self.phase is ViewPhase.FIRST

    @property
    def view_change_in_progress(self) -> bool:
        """Whether a new view is being agreed on: nothing of the present one goes on."""
        return self.promised != self.view

    @property
    def is_parted(self) -> bool:
        """Whether some server that was met is in another view, or nowhere."""
        return self.view != FIRST_VIEW and not self.members.keys() >= self.table.subnets_by_server.keys()

    def absent(self) -> list[ServerId]:
        """The servers that were met and are in another view, or nowhere."""
        if not self.is_parted:
            return []
        return [server for server in self.table.subnets_by_server if server not in self.members]

    def is_in_view(self, server: ServerId) -> bool:
        """Whether updates may involve a server."""
        return self.view == FIRST_VIEW or server in self.members

    def speaks(self, server: ServerId, version: int) -> bool:
        """Whether a server is known to understand what came with a version of the protocol."""
        return self.versions.get(server, OLDEST_PROTOCOL_VERSION) >= version

    def is_away(self, server: ServerId) -> bool:
        """Whether a server is out of reach, or in another view."""
        return server in self.lost or not self.is_in_view(server)

    def has_met(self, server: ServerId) -> bool:
        """Whether it is this server, or one that introduced itself. Others may know servers that are not known here."""
        return server == self.server or server in self.table.subnets_by_server

    def out_of_reach(self, server: ServerId) -> RefusedError:
        """The refusal of an update that needs a server which is away, or is not known here."""
        unknown = f"not known to {self.server}, which needs its address too"
        why = self.lost.get(server, "no connection" if self.has_met(server) else unknown)
        return refuse(
            Reason.UNAVAILABLE,
            f"the server {server} is out of reach ({why}); nothing was done",
            unreachable=server,
            server=server,
        )

    def has_diverged(self, server: ServerId) -> bool:
        """Whether what a server knows does not fit what is known here: it comes from elsewhere."""
        return self.view != FIRST_VIEW and self.members.get(server) != self.members[self.server]

    @property
    def cohort_leader(self) -> ServerId:
        """The server that speaks for all servers of this one's origin: the smallest."""
        return min((server for server in self.members if not self.has_diverged(server)), default=self.server)

    def go_back(self) -> None:
        """Learn that the database is an older copy of itself.

        The other end may have heard of what the copy knows as joined alone, and have left it; not of what was joined
        since this server started on the copy.
        """
        self.has_gone_back = True
        self.caught_up_with.clear()
        for joined_alone in (self.unconfirmed, self.unconfirmed_below):
            for arc in [arc for arc in joined_alone if self._written_at(arc) <= self.counter_at_start]:
                del joined_alone[arc]
        self.forgotten.went_back(self.counter_at_start)

    def _written_at(self, arc: ArcId) -> int:
        """The counter of the update that wrote a suspended arc; 0 for one that is none."""
        graph = self.graph
        parent, child = graph.index.get(arc.parent), graph.index.get(arc.child)
        if parent is None or child is None or (parent, child) not in graph.suspended:
            return 0
        return graph.suspended[parent, child].writer

    def catch_up(self) -> None:
        """The view is healed: what others in it know is known here too."""
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
        """A group of this server was created or deleted: others may not know, or know of arcs that it missed.

        While nobody is away that matters only once one was deleted: who coordinated that may not hear that it is done.
        """
        if self.renames and is_present:
            self.renames.forget_used((group,))
        elif self.renames:
            self.renames.forget_deleted(group)
        is_again = not is_present or self.group_versions.is_noted(group)
        if self.is_parted or not self.is_healed or (is_again and not self.is_alone):
            self.group_versions.note(group, final, is_present=is_present)

    def send(self, to: ServerId, message: Message) -> None:
        """Let a message of the view leave when the step's records are durable; who is not in it gets none."""
        if to == self.server:
            self.loopback.append(message)
        elif self.is_in_view(to):
            self.outbox.append((to, message, self.view))

    def post(self, to: ServerId, message: Message) -> None:
        """As `send`, for messages about views: the receiver may be in another view."""
        if to == self.server:
            self.loopback.append(message)
        else:
            self.outbox.append((to, message, self.view))

    def send_via_log(self, to: ServerId, message: Message) -> None:
        """As `send`; this server handles its own message in a later step too, once it is durable."""
        self.outbox.append((to, message, self.view))

    def see(self, priority: Priority) -> None:
        """Let the counter rise above a priority."""
        self.counter = max(self.counter, priority.counter)

    def next_priority(self) -> Priority:
        """A priority above all that were seen here."""
        self.counter += 1
        return Priority(self.counter, self.server)

    def home_below(self, *, parent: NodeId, child: NodeId) -> ServerId:
        """The home of the child of an arc: a foreign process lives where its parent does."""
        home = self.table.home_of(child)
        return self.home_of(parent) if home is None else home

    def homes_of(self, arc: ArcId) -> tuple[ServerId, ServerId]:
        """The homes of the parent and of the child of an arc."""
        return self.home_of(arc.parent), self.home_below(parent=arc.parent, child=arc.child)

    def other_home_of(self, arc: ArcId) -> ServerId:
        """The home of that end of an arc of this server which is not here; this server, where both are."""
        above, below = self.homes_of(arc)
        return above if below == self.server else below

    def version_before(self, arc: ArcId) -> int:
        """The version of an arc with an end here that is not there: at which it was left, or above which it is new."""
        graph = self.graph
        parent, child = graph.index.get(arc.parent), graph.index.get(arc.child)
        if parent is not None and child is not None and (parent, child) in graph.tombstones:
            return graph.tombstones[parent, child].version
        return self.forgotten.floor(self.other_home_of(arc))

    def home_of(self, node: NodeId) -> ServerId:
        """The home of a group, or of a node that is known here: what has no home lives here."""
        home = self.table.home_of(node)
        return self.server if home is None else home

    def homes_of_nodes(self, nodes: Iterable[NodeIndex]) -> list[ServerId]:
        """As `home_of`, for very many nodes."""
        homes = self.table.homes_of(map(self.graph.ids.__getitem__, nodes))
        return [self.server if home is None else home for home in homes]

    def is_suspended(self, parent: NodeId, child: NodeId) -> bool:
        """Whether an arc is known here and suspended."""
        index = self.graph.index
        return parent in index and child in index and (index[parent], index[child]) in self.graph.suspended

    def is_rejected(self, arc: ArcRecord) -> bool:
        """Whether a suspended arc cannot be: the homes of its ends settled all between them, and did not join it."""
        if not self.is_healed:
            return False
        ids = self.graph.ids
        return self.is_in_view(self.home_of(ids[arc.parent])) and self.is_in_view(self.home_of(ids[arc.child]))

    def suspended_children(self, node: NodeIndex, some: Collection[NodeIndex] | None = None) -> list[NodeIndex]:
        """The children of suspended arcs that leave a node, but for rejected ones: those count for no answer.

        `some`: of these children of such arcs; None: of all.
        """
        return self._apart_from(node, self.graph.suspended_from.get(node, ()) if some is None else some)

    def suspended_parents(self, node: NodeIndex) -> list[NodeIndex]:
        """The parents of suspended arcs that enter a node, but for rejected ones."""
        return self._apart_from(node, self.graph.suspended_into.get(node, ()))

    def _apart_from(self, node: NodeIndex, others: Collection[NodeIndex]) -> list[NodeIndex]:
        """As `is_rejected`, for the arcs between one node and very many others."""
        ids = self.graph.ids
        if not (others and self.is_healed and self.is_in_view(self.home_of(ids[node]))):
            return list(others)
        homes = self.homes_of_nodes(others)
        in_view = [home for home in dict.fromkeys(homes) if self.is_in_view(home)]
        return [other for other, home in zip(others, homes, strict=True) if home not in in_view]

    def is_only_rejected(self, node: NodeIndex) -> bool:
        """Whether all that is known here of a node of another server are arcs that are rejected."""
        graph = self.graph
        if not (node in graph.suspended_from or node in graph.suspended_into) or self.owns(node):
            return False
        return not (
            graph.children[node] or graph.parents[node] or self.suspended_children(node) or self.suspended_parents(node)
        )

    def is_in_doubt(self, arc: ArcId, *, writer: int | None = None) -> bool:
        """Whether an update in doubt may have joined or left an arc with an end here.

        What it covers here are its parents that live here, and the children of its arcs. `writer`: whether it may be
        the one of this counter, which is said to have done so.
        """
        ends = (arc.parent, arc.child) if self.home_of(arc.parent) == self.server else (arc.child,)
        return self.doubts.concern(*ends, writer=writer)

    def is_unconfirmed(self, parent: NodeId, child: NodeId) -> bool:
        """Whether an arc was joined here, at its child's home, and its parent's home has not joined it yet."""
        return bool(self.unconfirmed) and ArcId(parent, child) in self.unconfirmed

    def set_unconfirmed(self, arc: ArcId, *, is_so: bool) -> None:
        """Remember, or forget, that the home of an arc's parent has not joined it."""
        if is_so:
            self.unconfirmed[arc] = None
        else:
            del self.unconfirmed[arc]

    def owns(self, node: NodeIndex) -> bool:
        """Whether a node that is known here lives here."""
        home = self.table.home_of(self.graph.ids[node])
        return home is None or home == self.server

    def owned(self, nodes: range) -> bytearray:
        """Of each node of these numbers, as far as they were given, in their order: 1 where it lives here, else 0."""
        ids = self.graph.ids[nodes.start : nodes.stop]
        return bytearray(home is None or home == self.server for home in self.table.homes_of(ids))

    def id_of(self, node: NodeIndex) -> NodeId:
        """The id of a node."""
        return self.graph.ids[node]
