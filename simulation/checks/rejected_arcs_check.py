"""Check of the answers of servers with rejected arcs at rest: true answers, without the rejected arcs.

The answers of other servers are checked by `cluster_invariants` and `resolvers`, since they follow from their states.

Source: docs/protocol-partitions.md, "Rejected" and "Answers while servers are apart".
"""

from __future__ import annotations

from namegraph import NodeId, ServerCore
from resolver.membership import MembershipResolver
from simulation.checks.cluster_invariants import Servers
from simulation.oracle.serial_model import TrueGraph
from simulation.oracle.violation import InvariantViolatedError


def check_told(servers: Servers, truth: TrueGraph) -> None:
    """Compare answers of servers with suspended arcs, which are all rejected by now, with the true graph."""
    for core in servers.values():
        if core.graph.suspended:
            _check_server(core, truth)


def _check_server(core: ServerCore, truth: TrueGraph) -> None:
    server, graph, resolver = core.server, core.graph, MembershipResolver(core)
    groups = resolver.groups(subnet=None, after=None, limit=len(graph.ids))
    written = {(row.parent, row.child) for row in resolver.export(subnet=None) if row.child}
    expected = {arc for arc in truth.arcs if core.home_of(arc[0]) == server}
    _require(written == expected, f"{server} exports {sorted(written ^ expected)} wrongly")
    _require(not core.uncertainty().of_own_arcs(), f"{server} takes arcs of its groups for uncertain")
    for group in groups:
        _require(not resolver.resolve(group).apart, f"{server} cannot enter all below {group}")
    ends = {graph.ids[end] for arc in graph.suspended for end in arc}
    for end in sorted(ends):
        _require(not core.uncertainty().above(end), f"{server} takes what is above {end} for uncertain")
        is_known = core.home_of(end) == server and core.knows_subnet_of(end)
        above = _above(truth, end)
        told = set(resolver.memberships(end))
        _require(told == above if is_known else told <= above, f"{server} tells of {end} that it is in {sorted(told)}")
        wrong = [group for group in groups if resolver.check(group, end) and group not in above]
        _require(not wrong, f"{server} tells that {end} is in {wrong}")


def _above(truth: TrueGraph, node: NodeId) -> set[NodeId]:
    return truth.above(truth.parents.get(node, ()))


def _require(holds: bool, what: str) -> None:
    if not holds:
        raise InvariantViolatedError(f"rejected: {what}")
