"""Forgetting: drop tombstones that no server needs any more, and names that stand for nothing.

    both ends live here:   tombstone --> forgotten, once no update under way is older

    home of the parent        -- ForgetLeft --->    home of the child: forgets an arc known in the same state
                              <-- LeftForgotten --  the home of the parent forgets it too

    a node is blank --> its name is forgotten, its number is free --> another name gets the number

A tombstone says at which version an arc was left. Every holder of an older state of the arc needs it: the home of
the other end, a coordinator that could not tell its outcome, an update under way (`commit_rules_ancestry`). No such
holder exists while all servers are in one healed view, and all older updates are over. The exception is a server
that goes back to an older copy of its database; for it, `ForgottenArcs` keeps two numbers.

A server that is away for too long (`Absences`) is not waited for. The other servers forget arcs shared with it
without asking. When it is back, its statements count as those of an older copy. Tombstones that an update in doubt
concerns are kept, because its coordinator alone knows the outcome.

A forgotten name is like a name that was never heard of. The number of names and rows therefore follows the number
of nodes, however many come and go.

Source: docs/protocol-updates.md, "Forgetting".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

from namegraph.model.names import ServerId, subnet_of
from namegraph.model.priorities import Priority
from namegraph.model.protocol_versions import FORGETTING_VERSION
from namegraph.model.rows import ArcKey, NodeIndex, NodeKind
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.state.context import ServerContext
from namegraph.update.order_queue import Entries
from namegraph.wire.message_parts import ArcId, LeftArc, ViewId
from namegraph.wire.view_messages import ForgetLeft, LeftForgotten

FORGOTTEN_FROM = 1_000
"""Tombstones and names that wait before any is forgotten. The limit keeps looks and letters few."""

LOOKED_AT_ONCE = 100
"""Tombstones, and names, that one step looks at, in some milliseconds."""

LOOKED_AT_MOST = 150
"""Most tombstones, and names, that one step looks at if many wait, in some milliseconds. A step looks at a quarter of
the waiting ones, up to this limit."""

LOOKED_AGAIN_SECONDS = 0.02
"""Seconds until the next look, after a look that left more to forget."""


class Forgetting:
    """The tombstones and names that one server may forget."""

    def __init__(self, context: ServerContext, records: AncestryStore, entries: Entries) -> None:
        self._context = context
        self._graph = context.graph
        self._records = records
        self._entries = entries
        self.begins_at = FORGOTTEN_FROM
        self._shared: dict[ServerId, dict[ArcKey, None]] = {}
        """Tombstones of arcs from here, by the home of their child, which was not asked yet to forget them."""
        self._entering: dict[ServerId, dict[ArcKey, None]] = {}
        """Tombstones of arcs to here, by the home of their parent, which asks to forget them."""
        self._kept: dict[ServerId, dict[ArcKey, None]] = {}
        """Tombstones that the home of the child was asked to forget and keeps, by that home. The next request repeats
        them."""
        self._asked: dict[ServerId, ViewId] = {}
        """Servers that were asked and have not answered, with the view of the request."""
        self._stuck = 0
        """Number of idle nodes that could not be forgotten at the last look."""
        self.next_look: float | None = None
        """Time of the next look without another event. None: no look before the next change."""

    def advance(self, now: float) -> None:
        """Forget some tombstones and names, at the end of a step."""
        waiting, self.next_look = self._waiting, None
        if waiting < self.begins_at and not any(map(self._may_ask, self._shared)):
            return
        if self._records.is_settled and self._is_whole:
            self._look(_portion(waiting))
            if self.begins_at <= self._waiting < waiting:
                self.next_look = now + LOOKED_AGAIN_SECONDS

    @property
    def _waiting(self) -> int:
        """Number of tombstones and names that wait to be looked at."""
        graph = self._graph
        return len(graph.buried) + len(graph.idle) - self._stuck + len(self._context.group_versions)

    def _look(self, at_once: int) -> None:
        self._forget_arcs(at_once)
        self._forget_group_times(at_once)
        for server in self._shared:
            if self._may_ask(server):
                self._ask(server)
        if any(entry.sinks is not None for entry in self._entries.ready.values()):
            return  # Entries refer to nodes by number.
        self._forget_names(at_once)

    def agree(self, sender: ServerId, asked: ForgetLeft) -> None:
        """Agree, as the home of children, to forget arcs that are known here in the same state, or not at all."""
        is_whole, before = self._is_whole, self._before
        agreed = tuple(left for left in asked.arcs if is_whole and self._may_forget(left, before))
        if agreed:
            self._forget(sender, agreed, floor=asked.floor)
        self._context.send(sender, LeftForgotten(agreed, self._context.forgotten.floor(sender)))

    def agreed(self, sender: ServerId, answer: LeftForgotten) -> None:
        """Forget, as the home of parents, the arcs that the home of children has forgotten."""
        self._asked.pop(sender, None)
        before = self._before
        agreed = [left for left in answer.arcs if self._may_forget(left, before)]
        if agreed:
            self._forget(sender, agreed, floor=answer.floor)

    @property
    def _is_whole(self) -> bool:
        """True if all servers are in one healed view, so that no other server holds an older state of an arc.

        Overdue servers do not count: their state is treated as that of an older copy.
        """
        context = self._context
        return (
            context.is_healed
            and all(map(context.absences.is_overdue, context.absent()))
            and not context.view_change_in_progress
            # State that was lost with a newer database is reported by name, so names must stay known.
            and not context.unreconciled_servers()
        )

    @property
    def _before(self) -> int | None:
        """Counter below which no update under way has its place. None if no update is under way."""
        return self._entries.lowest_counter

    def _may_forget(self, left: LeftArc, before: int | None) -> bool:
        """Return True if an arc is known here in this state, or not at all, and no update under way is older."""
        graph = self._graph
        parent, child = graph.index.get(left.arc.parent), graph.index.get(left.arc.child)
        if before is not None and left.writer >= before:
            return False
        if self._context.is_in_doubt(left.arc):
            return False
        if parent is None or child is None:
            return True
        tombstone = graph.tombstones.get((parent, child))
        if tombstone is not None:
            return (tombstone.version, tombstone.writer) == (left.version, left.writer)
        return not (
            child in graph.children[parent] or parent in graph.parents[child] or (parent, child) in graph.suspended
        )

    def _forget(self, server: ServerId, arcs: Iterable[LeftArc], *, floor: int = 0) -> None:
        graph, arcs = self._graph, list(arcs)
        self._context.forgotten.note(server, arcs, floor=floor)
        ends = [(graph.index.get(left.arc.parent), graph.index.get(left.arc.child)) for left in arcs]
        there = [(one, other) for one, other in ends if one is not None and other is not None]
        self._records.forget_arcs(arc for arc in there if arc in graph.tombstones)
        for shared in (self._shared, self._kept, self._entering):
            for arc in there:
                shared.get(server, {}).pop(arc, None)

    def _forget_arcs(self, at_once: int) -> None:
        """Forget tombstones of arcs for which no other server has to be asked. Sort the rest by that server."""
        graph, context, before = self._graph, self._context, self._before
        overdue = context.absent()
        self._look_again_at_arcs_with(overdue)
        alone: dict[ServerId, list[LeftArc]] = {}
        for ends in list(islice(graph.buried, at_once)):
            if before is not None and graph.tombstones[ends].writer >= before:
                break
            left, server = self._left_arc(ends), self._other_home(ends)
            del graph.buried[ends]
            if context.is_in_doubt(left.arc):
                graph.buried[ends] = None  # It is looked at again later.
            elif server is None:
                continue
            elif server == context.server or server in overdue:
                alone.setdefault(server, []).append(left)
            elif context.owns(ends[0]):
                shared = self._shared.setdefault(server, {})
                shared.update(self._kept.pop(server, {}))
                shared[ends] = None
            else:
                self._entering.setdefault(server, {})[ends] = None
        for server, arcs in alone.items():
            self._forget(server, arcs)
            if server in overdue:
                context.forgotten.gone_back(server)
                for left in arcs:
                    context.unilateral_leaves.pop(left.arc, None)

    def _look_again_at_arcs_with(self, overdue: Iterable[ServerId]) -> None:
        graph = self._graph
        for server in overdue:
            for known in (self._shared, self._kept, self._entering):
                graph.buried.update((ends, None) for ends in known.pop(server, {}) if ends in graph.tombstones)

    def _forget_group_times(self, at_once: int) -> None:
        """Forget the times at which groups of this server were deleted. No update from before these times can still
        come.

        Each earlier update of these groups had its entry here. This server's vote gives each later one a higher
        priority.
        """
        versions, before = self._context.group_versions, self._before
        if versions:
            after_all = self._context.counter + 1
            bound = after_all if before is None else min(before, after_all)
            latest = versions.forget_some(
                Priority(bound, ServerId("")), looked_at=at_once, is_in_doubt=self._context.doubts.concern
            )
            for server in self._context.absent() if latest else ():
                # The absent server may have joined arcs with groups that were deleted.
                self._context.forgotten.note_overdue(server, writer=latest)

    def _other_home(self, ends: ArcKey) -> ServerId | None:
        """Return the server of the other end of an arc with an end here. This server if both ends are here.

        None if no end is here any more, or if the server of the other end was removed and may come back.
        """
        context, ids = self._context, self._graph.ids
        if any(subnet_of(ids[end]) in context.removed for end in ends) or not any(map(context.owns, ends)):
            return None
        return context.other_home_of(ArcId(ids[ends[0]], ids[ends[1]]))

    def _left_arc(self, ends: ArcKey) -> LeftArc:
        (parent, child), ids = ends, self._graph.ids
        tombstone = self._graph.tombstones[ends]
        return LeftArc(ArcId(ids[parent], ids[child]), tombstone.version, tombstone.writer)

    def _may_ask(self, server: ServerId) -> bool:
        """Return True if the home of children should be asked: enough arcs wait, and it would understand and answer."""
        context = self._context
        return (
            len(self._shared[server]) >= self.begins_at
            and self._asked.get(server) != context.view
            and not context.is_away(server)
            and context.speaks(server, FORGETTING_VERSION)
        )

    def _ask(self, server: ServerId) -> None:
        """Ask the home of children to forget tombstones."""
        context, shared = self._context, self._shared[server]
        taken = list(islice(shared, _portion(len(shared))))
        asked = tuple(self._to_ask(server, taken))
        for ends in taken:
            del shared[ends]
            if ends in self._graph.tombstones:
                self._kept.setdefault(server, {})[ends] = None
        if asked:
            self._asked[server] = context.view
            context.send(server, ForgetLeft(asked, context.forgotten.floor(server)))

    def _to_ask(self, server: ServerId, taken: Iterable[ArcKey]) -> Iterator[LeftArc]:
        before = self._before
        for ends in taken:
            is_there = ends in self._graph.tombstones and self._context.owns(ends[0])
            if is_there and self._other_home(ends) == server:
                left = self._left_arc(ends)
                is_older = before is None or left.writer < before
                if is_older and left.arc not in self._context.unilateral_leaves:
                    yield left

    def _forget_names(self, at_once: int) -> None:
        graph, before, forgotten = self._graph, self._before, list[NodeIndex]()
        for node in list(islice(graph.idle, at_once)):
            del graph.idle[node]
            if graph.kinds[node] != NodeKind.ABSENT or graph.is_free(node):
                continue
            is_older = before is None or graph.versions[node] < before
            is_free = is_older and graph.is_blank(node) and not self._records.knows(node)
            if is_free and not self._entries.is_affected(node):
                forgotten.append(node)
            elif not graph.has_tombstone(node):
                graph.idle[node] = None  # It is looked at again later. A dropped tombstone puts it here as well.
        self._stuck = 0 if forgotten else len(graph.idle)
        self._records.forget_names(forgotten)


def _portion(waiting: int) -> int:
    """Return the number of waiting items that one step looks at."""
    return min(LOOKED_AT_MOST, max(LOOKED_AT_ONCE, waiting // 4))
