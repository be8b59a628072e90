"""Questions that may be asked of a server's core between two steps, for the shell, the resolver and checkers. Read
only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext

from namegraph.graph.ancestor_sets import AncestorSets
from namegraph.graph.duplication_control import source_names
from namegraph.graph.name_graph import ArcState, NameGraph
from namegraph.model.group_details import NO_DETAILS, GroupDetails
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import JoinArc, LeaveArc
from namegraph.model.ownership import OwnershipTable
from namegraph.model.policies import Policy, Privilege, ServerPolicy
from namegraph.model.priorities import Revision
from namegraph.model.refusals import RefusedError
from namegraph.model.rows import NodeIndex, RequestId
from namegraph.model.slices import Slices, at_once
from namegraph.reconcile.suspended_arcs import SuspendedArcs, suspended_arcs, suspended_with_subnet
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.rights.callers import CallerFacts
from namegraph.snapshot.reader import SnapshotReading
from namegraph.state.context import ServerContext
from namegraph.state.incarnations import Incarnations
from namegraph.state.peer_table import PeerTable
from namegraph.state.request_log import RequestLog, own_request_id
from namegraph.state.uncertainty import Uncertainty, is_certain
from namegraph.state.wait_limits import AttentiveClock, WaitLimits
from namegraph.update.admission import no_group_here
from namegraph.update.arc_authority import End, authority_over, marked
from namegraph.update.caller_rights import CallerRights, groups_to_tell
from namegraph.update.causal_reads import Wait, waits_for
from namegraph.update.coordinator import Coordinator
from namegraph.update.forgetting import Forgetting
from namegraph.update.operation_rights import missing_group, require_privilege
from namegraph.update.order_queue import Entries
from namegraph.views.view_change import ViewChange
from namegraph.wire.message_parts import ArcId, UpdateId, ViewId

LONG_FROM_OPERATIONS = 500
"""Operations of one update that take some milliseconds. As many arcs of a group deleted with force take as long."""


class CoreQueries:
    """The reading half of `ServerCore`, which holds all state that is named here and changes it by `step` alone."""

    server: ServerId
    graph: NameGraph
    peers: PeerTable
    incarnations: Incarnations
    records: AncestryStore
    entries: Entries

    _context: ServerContext
    _table: OwnershipTable
    _coordinator: Coordinator
    _forgetting: Forgetting
    _views: ViewChange
    _outcomes: RequestLog
    _certainty: Uncertainty | None = None
    """Cached `Uncertainty` of one site, valid in the common case that nothing is uncertain."""
    _turns_wait_since: float | None
    """Time of the last step if it began no turn because it took a cut. Else None."""
    _wait_limits: WaitLimits | None
    _attentive: AttentiveClock

    def kept(self, *, latest: bool = False) -> AbstractContextManager[CoreQueries]:
        """Return this state as it is, for as long as a context lasts.

        A core itself goes on with the next step, so a user that waits in between looks for changes. `latest`: see
        `CommittedState.kept`.
        """
        del latest
        return nullcontext(self)

    @property
    def ancestors(self) -> AncestorSets:
        """Ancestor sets of all nodes that are known here."""
        return self._context.ancestors

    @property
    def subnets(self) -> tuple[Subnet, ...]:
        """Subnets that this server owns, sorted."""
        return self._table.owned_by(self.server)

    @property
    def peer_addresses(self) -> Mapping[Subnet, str]:
        """Addresses of the servers of other subnets, by subnet."""
        return self.peers.addresses

    @property
    def servers_met(self) -> list[ServerId]:
        """All other servers that are known by name, sorted."""
        return [server for server in self._table.servers() if server != self.server]

    def has_met(self, server: ServerId) -> bool:
        """Return True for this server and for each server that introduced itself."""
        return self._context.has_met(server)

    def speaks(self, server: ServerId, version: int) -> bool:
        """Return True if a server is known to speak at least this version of the protocol."""
        return self._context.speaks(server, version)

    @property
    def is_parted(self) -> bool:
        """True if some server that was met is in another view, or in none."""
        return self._context.is_parted

    @property
    def view(self) -> str:
        """Name of the view that this server is in. All its members have the same text."""
        view = self._context.view
        return f"{view.number}@{view.leader}" if view.number else ""

    @property
    def view_number(self) -> int:
        """Number of the view. 0 for the first one; later views have higher numbers."""
        return self._context.view.number

    @property
    def view_change_in_progress(self) -> bool:
        """True if a new view is being agreed on. Updates over several servers wait."""
        return self._context.view_change_in_progress

    @property
    def is_steady(self) -> bool:
        """True if servers neither agree on a view nor settle changes that were made while they were apart."""
        context = self._context
        return context.view_active and context.is_healed and not context.view_change_in_progress

    @property
    def has_large_updates(self) -> bool:
        """True if an import is under way over several servers, or an update that is large for this one.

        Such an update has many operations, or affects very many nodes. Any letter about it may cause its execution.
        """
        return self.entries.affects_many or self.entries.largest > LONG_FROM_OPERATIONS

    @property
    def is_healed(self) -> bool:
        """True if this server knows all changes made while servers were apart, and all state that it may have lost
        itself."""
        return self._context.is_healed and not self._context.unreconciled_servers()

    @property
    def in_doubt_about(self) -> Collection[NodeId]:
        """Nodes that dropped updates were to change. This server was cut off from the servers that know their
        outcome."""
        return dict.fromkeys(name for one in self._context.doubts.missed for name in sorted(one.nodes))

    def uncertainty(self, unheard: Collection[ServerId] = ()) -> Uncertainty:
        """Return the uncertainty of this server.

        `unheard`: servers that may have gone on without this one, as is known outside the core.
        """
        context = self._context
        if not unheard and is_certain(context):
            if self._certainty is None or self._certainty.context is not context:
                self._certainty = Uncertainty(context)
            return self._certainty
        # Updates that this server coordinates are left out, because it has answered no caller about them.
        orphaned = self.entries.missed(
            lambda one: one in unheard or (context.view_change_in_progress and one != context.server)
        )
        return Uncertainty(context, orphaned, unheard)

    @property
    def members(self) -> tuple[ServerId, ...]:
        """Servers of the view. Empty while no server was ever lost."""
        return tuple(self._context.members)

    @property
    def overdue(self) -> list[ServerId]:
        """Servers that are away for longer than the limit, sorted. No tombstones are kept for them."""
        return sorted(filter(self._context.absences.is_overdue, self._context.absent()))

    def is_in_view(self, server: ServerId) -> bool:
        """Return True if a server is in the view of this one."""
        return self._context.is_in_view(server)

    def is_answered_by_child(self, operation: JoinArc | LeaveArc) -> bool:
        """Return True if the home of an arc's child, not that of its parent, answers a client that asks for this."""
        asked = marked(self._context, operation)
        return isinstance(asked, JoinArc | LeaveArc) and authority_over(self._context, asked).rule.answers is End.CHILD

    @property
    def standing(self) -> tuple[ViewId, bool]:
        """State that decides, for unchanged suspended arcs, if they are rejected."""
        return self._context.view, self._context.is_healed

    def suspended_children(self, node: NodeIndex, some: Collection[NodeIndex] | None = None) -> list[NodeIndex]:
        """Return the children of suspended arcs that leave a node. Rejected arcs are left out, because they count for
        no answer.

        `some`: restricts the result to these children of such arcs. None: all.
        """
        return self._context.suspended_children(node, some)

    def suspended_parents(self, node: NodeIndex) -> list[NodeIndex]:
        """Return the parents of suspended arcs that enter a node. Rejected arcs are left out."""
        return self._context.suspended_parents(node)

    def may_be_group(self, node: NodeIndex) -> bool:
        """Return True unless a group is known here only by rejected arcs that take it for one."""
        return not (self.graph.suspended and self._context.is_only_rejected(node))

    def has_answered(self, request_id: str, principal: str = "") -> bool:
        """Return True if this server remembers an outcome of this request id of a principal."""
        return self._outcomes.digest_of_first(self._own_request_id(RequestId(request_id), principal)) is not None

    def _own_request_id(self, request_id: RequestId, principal: str) -> RequestId:
        """Return the id under which a request is remembered. A server that judges nobody keeps no principals apart."""
        return own_request_id(request_id, "" if self._context.server_policy is None else principal)

    def suspended_with_subnet(self, subnet: Subnet) -> Slices[list[ArcId]]:
        """Return the suspended arcs between nodes of this server and those of another server's subnet, in no order."""
        return suspended_with_subnet(self._context, subnet)

    def suspended_arcs(self) -> list[tuple[ArcId, str]]:
        """Return the suspended arcs with an end here, sorted, each with the reason."""
        return at_once(self.list_suspended(limit=len(self.graph.suspended))).listed

    def list_suspended(self, *, limit: int) -> Slices[SuspendedArcs]:
        """Return up to `limit` suspended arcs, rejected ones first, and their total number."""
        return suspended_arcs(self._context, self._views.healing.rejected, limit=limit)

    def suspended_counts(self) -> tuple[int, int]:
        """Return the number of suspended arcs that wait for another server, and the number of rejected ones."""
        rejected = len(self._views.healing.rejected)
        return max(0, len(self.graph.suspended) - rejected), rejected

    def coordinated_updates(self) -> list[tuple[RequestId, str]]:
        """Return the updates that this server coordinates: request id and phase."""
        return self._coordinator.phases()

    @property
    def revision(self) -> str:
        """Revision of the newest update that was committed here."""
        return Revision(self._context.counter, self.server, self.server).as_text()

    @property
    def next_deadline(self) -> float | None:
        """Time at which a `Tick` is due, on the clock of `step`'s `now`. None if none is due."""
        if self._turns_wait_since is not None:
            return self._turns_wait_since
        look_at = None if self._wait_limits is None else self._attentive.due(self._wait_limits)
        deadlines = (self._coordinator.next_deadline(), self._forgetting.next_look, look_at)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    @property
    def in_doubt(self) -> list[UpdateId]:
        """Updates that this server is ready for and whose outcome it does not know, sorted."""
        return sorted(self.entries.ready)

    def has_decided(self, update_id: UpdateId) -> bool:
        """Return True if this server coordinates an update that is decided, and not done everywhere."""
        return self._coordinator.has_decided(update_id)

    def home_of(self, node: NodeId) -> ServerId:
        """Return the server that owns a node that exists here."""
        return self._context.home_of(node)

    def homes_of(self, nodes: Iterable[NodeIndex]) -> list[ServerId]:
        """Return `home_of` for very many nodes."""
        return self._context.homes_of_nodes(nodes)

    def owns(self, node: NodeIndex) -> bool:
        """Return True if a node that is known here lives here."""
        return self._context.owns(node)

    def owned(self, nodes: range) -> bytearray:
        """Return 1 for each node of this range that lives here, else 0, in order. Numbers that were never given are
        left out."""
        return self._context.owned(nodes)

    @property
    def ownership_changes(self) -> int:
        """Number of times that a subnet got or lost an owner. Nodes may have another home since."""
        return self._table.changes

    def owner_of(self, subnet: Subnet) -> ServerId | None:
        """Return the server that owns a subnet. None if it was not met."""
        return self._table.owner_of(subnet)

    def owner_of_name(self, name: NodeId) -> ServerId | None:
        """Return the server that owns a name's subnet. None if it was not met."""
        return self._table.home_of(name)

    def owners_of_names(self, names: Iterable[NodeId]) -> list[ServerId | None]:
        """Return `owner_of_name` for many names, in their order."""
        return self._table.homes_of(names)

    def knows_subnet_of(self, name: NodeId) -> bool:
        """Return True if a server is known to own the name's subnet."""
        return self._table.home_of(name) is not None or self._table.is_expected(name)

    def no_group(self, group: NodeId, *, unheard: Collection[ServerId] = ()) -> RefusedError:
        """Return the refusal for a group that this server does not know. UNAVAILABLE if another server may know it."""
        return no_group_here(group, self.uncertainty(unheard))

    def renamed_to(self, name: NodeId) -> NodeId | None:
        """Return the present name of a group that had this name. None if it is not known, or if a group has this
        name."""
        renames, graph = self._context.renames, self.graph
        if not renames or graph.group(name) is not None:
            return None
        node = graph.index.get(name)
        # Another server's group above nodes of this one is known by its arcs.
        return None if node is not None and graph.children[node] else renames.newest(name)

    def details_of(self, group: NodeId) -> GroupDetails:
        """Return the details of a group of this server."""
        return self._context.details.get(group, NO_DETAILS)

    def policy_of(self, group: NodeId) -> Policy | None:
        """Return the policy of a group of this server. None for a group without one, which is open."""
        return self._context.policies.of(group)

    @property
    def server_policy(self) -> ServerPolicy | None:
        """Policy of this server and its subnets. None if every caller may do everything."""
        return self._context.server_policy

    def rights_of(self, facts: CallerFacts) -> CallerRights:
        """Return the rights of a caller at this server, for one answer."""
        return CallerRights(self._context, self.records, facts)

    def require_privilege(self, facts: CallerFacts, privilege: Privilege, group: NodeId) -> None:
        """Raise `RefusedError` if a caller lacks a privilege of a group of this server.

        Nothing is refused for a missing group, or at a server without a policy.
        """
        if self._context.server_policy is not None:
            require_privilege(self._context, self.records, facts, privilege, (group,))

    def missing_group(self, group: NodeId) -> RefusedError:
        """Return the refusal for a group of this server that does not exist, or that the caller may not view."""
        return missing_group(group, self._context)

    def groups_told_of(self, principal: NodeId, server: ServerId) -> tuple[NodeId, ...]:
        """Return the groups of this server that contain a principal of this server and are in a group of another one,
        sorted."""
        return groups_to_tell(self._context, self.records, principal, server)

    def arcs_judged_elsewhere(self, group: NodeIndex) -> dict[ServerId, list[ArcId]]:
        """Return the normal arcs from a group of this server whose blocked originators other servers compute.

        The arcs are sorted, by the homes of their children. This server owns no component of the nodes to which
        they lead.
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
        """Return the minimal originators that must not cross an arc to a node of this server, each by its smallest
        component, sorted.

        Empty if there is no such normal arc. The ancestors of these originators must not cross it either.
        """
        graph = self.graph
        parent, child = graph.index.get(arc.parent), graph.index.get(arc.child)
        record = None if parent is None or child is None else graph.parents[child].get(parent)
        if record is None or graph.arc_state(record) is not ArcState.NORMAL:
            return ()
        return source_names(graph, self.ancestors, record)

    def is_on_loop(self, group: NodeId) -> bool:
        """Return True if a group that is owned here is a component of a virtual node."""
        node = self.graph.group(group)
        return node is not None and node in self.graph.virtual_node_of

    def snapshot(self) -> SnapshotReading:
        """Begin to read the whole state, which must stay as it is until the end: see `kept`."""
        return SnapshotReading(
            context=self._context,
            records=self.records,
            entries=self.entries,
            coordinator=self._coordinator,
        )

    def is_idle(self) -> bool:
        """Return True if no update is under way here."""
        return not self.entries.by_update and not self._coordinator.under_way()

    def is_finishing(self) -> bool:
        """Return True if an update is under way whose coordinator is within reach, so that it will come to its end."""
        return any(update_id.coordinator not in self._context.lost for update_id in self.entries.by_update)

    def waits_for(self, revision: str) -> Wait:
        """Return the event for which a read at a revision must wait. Raises `RefusedError` if the state here can never
        reflect it."""
        return waits_for(
            revision,
            context=self._context,
            incarnations=self.incarnations,
            entries=self.entries,
            coordinator=self._coordinator,
        )
