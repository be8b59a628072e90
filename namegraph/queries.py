"""What may be asked of a server's core between two steps: for the shell, the resolver and checkers. Changes nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from namegraph.graph.ancestor_sets import AncestorSets
from namegraph.graph.duplication_control import source_names
from namegraph.graph.name_graph import ArcState, NameGraph
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import JoinArc, LeaveArc
from namegraph.model.ownership import OwnershipTable
from namegraph.model.priorities import Priority, revision_of
from namegraph.model.refusals import RefusedError
from namegraph.model.rows import NodeIndex, RequestId
from namegraph.model.slices import Slices, at_once
from namegraph.reconcile.suspended_arcs import SuspendedArcs, suspended_arcs, suspended_with_subnet
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.snapshot.reader import Snapshot
from namegraph.state.context import ServerContext
from namegraph.state.incarnations import Incarnations
from namegraph.state.peer_table import PeerTable
from namegraph.state.request_log import RequestLog
from namegraph.state.uncertainty import Uncertainty, is_certain
from namegraph.update.admission import no_group_here
from namegraph.update.arc_authority import End, authority_over, marked
from namegraph.update.causal_reads import Wait, waits_for
from namegraph.update.coordinator import Coordinator
from namegraph.update.forgetting import Forgetting
from namegraph.update.order_queue import Entries
from namegraph.views.view_change import ViewChange
from namegraph.wire.message_parts import ArcId, UpdateId, ViewId

LONG_FROM_OPERATIONS = 500
"""So many operations of one update take some milliseconds; so do as many arcs of a group that is deleted with force."""


class CoreQueries:
    """The reading half of `ServerCore`, which holds all that is named here and changes it by `step` alone."""

    server: ServerId
    graph: NameGraph
    peers: PeerTable
    incarnations: Incarnations
    records: AncestryStore
    entries: Entries
    told_revision: str | None
    """What `revision` says instead of the newest update of this server."""

    _context: ServerContext
    _table: OwnershipTable
    _coordinator: Coordinator
    _forgetting: Forgetting
    _views: ViewChange
    _outcomes: RequestLog
    _certainty: Uncertainty | None = None
    """What there is to say nearly always, of one site."""
    _turns_wait_since: float | None
    """The time of the last step, where that began no turn, because it took a cut."""

    @property
    def ancestors(self) -> AncestorSets:
        """The ancestor sets of all nodes that are known here."""
        return self._context.ancestors

    @property
    def subnets(self) -> tuple[Subnet, ...]:
        """The subnets this server owns, sorted."""
        return self._table.owned_by(self.server)

    @property
    def peer_addresses(self) -> Mapping[Subnet, str]:
        """Where the servers of other subnets are reached, by subnet."""
        return self.peers.addresses

    @property
    def servers_met(self) -> list[ServerId]:
        """All other servers that are known by name, sorted."""
        return [server for server in self._table.servers() if server != self.server]

    def has_met(self, server: ServerId) -> bool:
        """Whether it is this server, or one that introduced itself."""
        return self._context.has_met(server)

    def speaks(self, server: ServerId, version: int) -> bool:
        """Whether a server is known to understand what came with a version of the protocol."""
        return self._context.speaks(server, version)

    @property
    def is_parted(self) -> bool:
        """Whether some server that was met is in another view, or nowhere."""
        return self._context.is_parted

    @property
    def view(self) -> str:
        """Names the view that this server is in; the same text at all that are in it."""
        view = self._context.view
        return f"{view.number}@{view.leader}" if view.number else ""

    @property
    def view_number(self) -> int:
        """The number of that view, 0 for the first one: later views have higher numbers."""
        return self._context.view.number

    @property
    def view_change_in_progress(self) -> bool:
        """Whether a new view is being agreed on: updates over several servers wait."""
        return self._context.view_change_in_progress

    @property
    def is_steady(self) -> bool:
        """Whether servers neither agree on a view nor settle what was done while they were apart."""
        context = self._context
        return context.view_active and context.is_healed and not context.view_change_in_progress

    @property
    def has_large_updates(self) -> bool:
        """Whether an import is under way over several servers, or an update that is large for this one.

        It has many operations, or affects very many nodes. Any letter about it may be the one that has it carried out.
        """
        return self.entries.affects_many or self.entries.largest > LONG_FROM_OPERATIONS

    @property
    def is_healed(self) -> bool:
        """Whether all is known here that was done while servers were apart, and what this one may have forgotten."""
        return self._context.is_healed and not self._context.unreconciled_servers()

    @property
    def in_doubt_about(self) -> Collection[NodeId]:
        """What updates were to change that this server dropped, when it was cut off from who knows their outcome."""
        return dict.fromkeys(name for one in self._context.doubts.missed for name in sorted(one.nodes))

    def uncertainty(self, unheard: Collection[ServerId] = ()) -> Uncertainty:
        """What others may know better; `unheard`: who may have gone on without this server, as is known outside it."""
        context = self._context
        if not unheard and is_certain(context):
            if self._certainty is None or self._certainty.context is not context:
                self._certainty = Uncertainty(context)
            return self._certainty
        # What this server coordinates itself, it has answered nobody for.
        orphaned = self.entries.missed(
            lambda one: one in unheard or (context.view_change_in_progress and one != context.server)
        )
        return Uncertainty(context, orphaned, unheard)

    @property
    def members(self) -> tuple[ServerId, ...]:
        """The servers of the view; empty while no server was ever lost."""
        return tuple(self._context.members)

    @property
    def overdue(self) -> list[ServerId]:
        """Servers that are away for longer than the limit: what was left is not kept for them; sorted."""
        return sorted(filter(self._context.absences.is_overdue, self._context.absent()))

    def is_in_view(self, server: ServerId) -> bool:
        """Whether a server agrees with this one on being within reach."""
        return self._context.is_in_view(server)

    def is_answered_by_child(self, operation: JoinArc | LeaveArc) -> bool:
        """Whether the home of an arc's child answers a client who asks for this, not that of its parent."""
        asked = marked(self._context, operation)
        return isinstance(asked, JoinArc | LeaveArc) and authority_over(self._context, asked).rule.answers is End.CHILD

    @property
    def standing(self) -> tuple[ViewId, bool]:
        """What tells, of suspended arcs that stay the same, whether they are rejected."""
        return self._context.view, self._context.is_healed

    def suspended_children(self, node: NodeIndex, some: Collection[NodeIndex] | None = None) -> list[NodeIndex]:
        """The children of suspended arcs that leave a node, but for rejected ones: those count for no answer.

        `some`: of these children of such arcs; None: of all.
        """
        return self._context.suspended_children(node, some)

    def suspended_parents(self, node: NodeIndex) -> list[NodeIndex]:
        """The parents of suspended arcs that enter a node, but for rejected ones."""
        return self._context.suspended_parents(node)

    def may_be_group(self, node: NodeIndex) -> bool:
        """Whether more is known here of a group than what it was taken for by arcs that are rejected."""
        return not (self.graph.suspended and self._context.is_only_rejected(node))

    def has_answered(self, request_id: str) -> bool:
        """Whether this server remembers an outcome of this request id."""
        return self._outcomes.digest_of_first(RequestId(request_id)) is not None

    def suspended_with_subnet(self, subnet: Subnet) -> Slices[list[ArcId]]:
        """The suspended arcs between nodes of this server and those of another one's subnet; in no order."""
        return suspended_with_subnet(lambda: self._context, subnet)

    def suspended_arcs(self) -> list[tuple[ArcId, str]]:
        """The suspended arcs with an end here, sorted, and why they are."""
        return at_once(self.list_suspended(limit=len(self.graph.suspended))).listed

    def list_suspended(self, *, limit: int) -> Slices[SuspendedArcs]:
        """Some of them, the rejected ones first, and how many there are."""
        return suspended_arcs(lambda: self._context, self._views.healing.rejected, limit=limit)

    def suspended_counts(self) -> tuple[int, int]:
        """How many of the suspended arcs wait for another server, and how many are rejected."""
        rejected = len(self._views.healing.rejected)
        return max(0, len(self.graph.suspended) - rejected), rejected

    def coordinated_updates(self) -> list[tuple[RequestId, str]]:
        """The updates that this server coordinates: what they were asked for as, and how far they are."""
        return self._coordinator.phases()

    @property
    def revision(self) -> str:
        """Names the newest update that was committed here, or what is to be told instead."""
        if self.told_revision is not None:
            return self.told_revision
        return revision_of(Priority(self._context.counter, self.server), coordinator=self.server)

    @property
    def next_deadline(self) -> float | None:
        """When a `Tick` is due, on the clock of `step`'s `now`."""
        if self._turns_wait_since is not None:
            return self._turns_wait_since
        deadlines = (self._coordinator.next_deadline(), self._forgetting.next_look)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @property
    def in_doubt(self) -> list[UpdateId]:
        """The updates that this server is ready for and whose outcome it does not know, sorted."""
        return sorted(self.entries.ready)

    def has_decided(self, update_id: UpdateId) -> bool:
        """Whether this server coordinates an update that is decided, and not done everywhere."""
        return self._coordinator.has_decided(update_id)

    def home_of(self, node: NodeId) -> ServerId:
        """The server that owns a node that exists here."""
        return self._context.home_of(node)

    def homes_of(self, nodes: Iterable[NodeIndex]) -> list[ServerId]:
        """As `home_of`, for very many nodes."""
        return self._context.homes_of_nodes(nodes)

    def owns(self, node: NodeIndex) -> bool:
        """Whether a node that is known here lives here."""
        return self._context.owns(node)

    def owned(self, nodes: range) -> bytearray:
        """Of each node of these numbers, as far as they were given, in their order: 1 where it lives here, else 0."""
        return self._context.owned(nodes)

    @property
    def ownership_changes(self) -> int:
        """How often a subnet got an owner, or lost it: nodes may live elsewhere since."""
        return self._table.changes

    def owner_of(self, subnet: Subnet) -> ServerId | None:
        """The server that owns a subnet, where it was met."""
        return self._table.owner_of(subnet)

    def owner_of_name(self, name: NodeId) -> ServerId | None:
        """The server that owns a name's subnet, where it was met."""
        return self._table.home_of(name)

    def owners_of_names(self, names: Iterable[NodeId]) -> list[ServerId | None]:
        """As `owner_of_name`, for many names, in their order."""
        return self._table.homes_of(names)

    def knows_subnet_of(self, name: NodeId) -> bool:
        """Whether a server is known to own the name's subnet."""
        return self._table.home_of(name) is not None or self._table.is_expected(name)

    def no_group(self, group: NodeId, *, unheard: Collection[ServerId] = ()) -> RefusedError:
        """The refusal for a group that this server does not know: UNAVAILABLE where others may know of it."""
        return no_group_here(group, self.uncertainty(unheard))

    def renamed_to(self, name: NodeId) -> NodeId | None:
        """The present name of a group that had this name; None if it is not known, or a group has this name."""
        renames, graph = self._context.renames, self.graph
        if not renames or graph.group(name) is not None:
            return None
        node = graph.index.get(name)
        # Of another server's group that is above nodes of this one, its arcs are known.
        return None if node is not None and graph.children[node] else renames.newest(name)

    def arcs_judged_elsewhere(self, group: NodeIndex) -> dict[ServerId, list[ArcId]]:
        """The normal arcs from a group of this server of which other servers compute who must not cross them.

        By the homes of their children, in order: this server owns no component of what they lead to.
        """
        graph, context = self.graph, self._context
        found: dict[ServerId, list[ArcId]] = {}
        for child, arc in graph.children[group].items():
            is_normal = graph.arc_state(arc) is ArcState.NORMAL
            if is_normal and not any(map(context.owns, graph.components(child))):
                arc_id = ArcId(graph.ids[group], graph.ids[child])
                found.setdefault(context.home_of(arc_id.child), []).append(arc_id)
        return {server: sorted(found[server]) for server in sorted(found)}

    def rd_record(self, arc: ArcId) -> tuple[NodeId, ...]:
        """Who must not cross an arc to a node of this server: the minimal ones, each by its smallest component; sorted.

        Nobody where there is no such normal arc. Their ancestors must not cross it either.
        """
        graph = self.graph
        parent, child = graph.index.get(arc.parent), graph.index.get(arc.child)
        record = None if parent is None or child is None else graph.parents[child].get(parent)
        if record is None or graph.arc_state(record) is not ArcState.NORMAL:
            return ()
        return source_names(graph, self.ancestors, record)

    def is_on_loop(self, group: NodeId) -> bool:
        """Whether a group that is owned here is a component of a virtual node."""
        node = self.graph.group(group)
        return node is not None and node in self.graph.virtual_node_of

    def snapshot(self) -> Snapshot:
        """Begin to read the whole state; the snapshot must be told of every step until it is finished."""
        return Snapshot(
            context=self._context,
            records=self.records,
            entries=self.entries,
            coordinator=self._coordinator,
        )

    def is_idle(self) -> bool:
        """Whether no update is under way here."""
        return not self.entries.by_update and not self._coordinator.under_way()

    def is_finishing(self) -> bool:
        """Whether an update is under way that servers which are there will bring to its end."""
        return any(update_id.coordinator not in self._context.lost for update_id in self.entries.by_update)

    def waits_for(self, revision: str) -> Wait:
        """Whether the state here reflects a revision; raises `RefusedError` where it never can."""
        return waits_for(
            revision,
            context=self._context,
            incarnations=self.incarnations,
            entries=self.entries,
            coordinator=self._coordinator,
        )
