"""Reads that hold while the database cannot be written, although the state in memory is ahead of the stored one.

The unwritten rows name the nodes that they touch. An answer holds without these rows if no path that it follows leads
through a touched node, now or before:

- about the nodes above a node (its memberships): no ancestor of the node, nor the node itself, is touched;
- about the nodes below a group: the group is no ancestor of a touched node. Had it been one before, the first arc of
  the path that was left would be among the rows, and touch a node that is still below the group. Other servers' arcs
  are not among the rows, so this rule is used only if there are no other servers.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from pyroaring import BitMap

from namegraph import CoreQueries, NodeId, NodeIndex
from nameserver.driver.run_loop import RunLoop
from shadowtree.v1 import name_service_pb2 as messages

TOUCHED_LIMIT = 10_000
"""Touched nodes above which, as after an import, all nodes count as touched. Finding out would take seconds."""


class ReadsWhileUnwritable:
    """Judge of reads by the names that they ask about, as the requests have them."""

    def __init__(self, *, core: CoreQueries, run_loop: RunLoop, is_alone: Callable[[], bool]) -> None:
        self._core = core
        self._run_loop = run_loop
        self._is_alone = is_alone
        self._of_step = -1
        self._touched = BitMap()
        self._written = BitMap()
        """Nodes whose own row is to be written: created, deleted, or with other ancestors."""
        self._above: BitMap | None = None
        """Touched nodes and all their ancestors. None if too many nodes are touched."""

    def check(self, request: messages.CheckRequest) -> bool:
        """Return True if a check holds.

        A path from the group to the member lies below the group and above the member.
        """
        if self._holds_below(request.group):
            return True
        return self._holds_above(request.member) and self._is_there_for_sure(request.group)

    def memberships(self, request: messages.ListMembershipsRequest) -> bool:
        """Return True if a list of memberships holds.

        It depends on the nodes above the member, direct memberships too.
        """
        return self._holds_above(request.member)

    def resolve(self, request: messages.ResolveRequest) -> bool:
        """Return True if a resolution holds.

        It depends on the nodes below the groups. The way of a walk depends on more.
        """
        if request.targets:
            exceptions = chain(request.excluding, *(target.excluding for target in request.targets))
            return all(map(self._holds_below, chain((target.group for target in request.targets), exceptions)))
        return not request.walk and self._holds_below(request.group)

    def _holds_above(self, name: str) -> bool:
        self._look()
        node = self._core.graph.index.get(NodeId(name))
        if self._above is None or node is None:
            return False
        return self._core.ancestors.of(node).isdisjoint(self._touched) and node not in self._touched

    def _holds_below(self, name: str) -> bool:
        self._look()
        node = self._core.graph.index.get(NodeId(name))
        return self._above is not None and node is not None and node not in self._above and self._is_alone()

    def _is_there_for_sure(self, name: str) -> bool:
        """Return True if a name is a group in both states, or in neither."""
        node = self._core.graph.index.get(NodeId(name))
        return node is not None and node not in self._written

    def _look(self) -> None:
        """Find the touched nodes, once after each step."""
        if self._of_step == self._run_loop.step_count:
            return
        self._of_step = self._run_loop.step_count
        core, touched, written = self._core, BitMap(), BitMap()
        for records in self._run_loop.undurable_records_seen():
            written.update(record.node for record in records.nodes)
            touched.update(record.parent for record in records.arcs)
            touched.update(record.child for record in records.arcs)
        touched |= written
        self._touched, self._written = touched, written
        self._above = None
        if len(touched) <= TOUCHED_LIMIT:
            self._above = BitMap.union(touched, *(core.ancestors.of(NodeIndex(node)) for node in touched))
