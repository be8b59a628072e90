"""Invariants of a cluster at rest. Each function compares the private states of the servers with the true graph.

A foreign process lives on each server where it was joined. Here it is a node of each of them (`name` on `server`).

Source: docs/protocol.md, "The invariants".
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from namegraph import (
    ArcId,
    ArcRecord,
    ArcState,
    NodeId,
    NodeIndex,
    NodeKind,
    Outcome,
    ServerCore,
    ServerId,
    UpdateCommand,
    blocked_originators,
)
from namegraph.reconcile.suspended_arcs import UNEXPLAINED
from namegraph.wire.message_parts import Vnid
from simulation.oracle.serial_model import ArcName, TrueGraph
from simulation.oracle.violation import InvariantViolatedError

Servers = Mapping[ServerId, ServerCore]

PASSING = frozenset(
    {
        "coordinated",
        "doubt",
        "doubts of members",
        "early letter",
        "entering",
        "entry",
        "entry cover",
        "held",
        "offered",
        "outbox",
        "parcel",
        "post again",
        "post outbox",
        "post unmet",
        "record ahead",
        "undelivered",
        "unmet",
        "update",
    }
)
"""Parts of the durable state with rows for updates and messages under way, or for servers that are away."""


def check_quiet(servers: Servers, commands: Mapping[int, UpdateCommand], answers: Mapping[int, Outcome]) -> None:
    """Require that no update is stuck and that every caller was answered."""
    for server, core in servers.items():
        left = sorted(core.entries.by_update)
        _require("stuck", core.is_idle(), f"{server} has entries {left}")
    unanswered = [ticket for ticket in commands if ticket not in answers]
    _require("stuck", not unanswered, f"callers {unanswered} were not answered")


def check_settled(servers: Servers) -> None:
    """Require that no arc between present servers is suspended, except for rejected arcs that one end explains.

    No server waits for knowledge of other servers, and no row is left of updates and messages that were under way.
    """
    explained, rejected = set[ArcId](), set[ArcId]()
    for server, core in servers.items():
        waiting = [arc for arc, why in core.suspended_arcs() if not why.startswith("rejected")]
        _require("stuck", not waiting, f"{server} has suspended {waiting}")
        rejected.update(arc for arc, _ in core.suspended_arcs())
        explained.update(arc for arc, why in core.suspended_arcs() if not why.endswith(UNEXPLAINED))
        _require("stuck", core.is_healed, f"{server} is not healed with {core.members}")
        uncertainty = core.uncertainty()
        _require("stuck", not uncertainty.behind, f"{server} has not caught up with {uncertainty.behind}")
        _require("stuck", not uncertainty.missed, f"{server} is in doubt of {uncertainty.missed}")
        left = sorted(part for part in PASSING if core.durable.maps.get(part))
        _require("forgetting", not left, f"{server} still has rows of {left}")
    _require("stuck", rejected == explained, f"nobody says why {sorted(rejected - explained)} are rejected")


def check_all(servers: Servers, truth: TrueGraph, groups: Set[NodeId] | None = None) -> None:
    """Check every invariant of all servers together. Without `groups`, the set of groups is not checked."""
    if groups is not None:
        check_groups(servers, groups)
    check_arcs(servers, truth)
    check_virtual_nodes(servers, truth)
    check_ancestry(servers, truth)
    check_duplication_control(servers, truth)
    check_walks(servers, truth)


def check_groups(servers: Servers, groups: Set[NodeId]) -> None:
    """I8: the home of each group knows it, and knows no other group."""
    for server, core in servers.items():
        graph = core.graph
        found = {
            name
            for name, node in graph.index.items()
            if graph.kind(node) is NodeKind.GROUP and core.home_of(name) == server
        }
        expected = {group for group in groups if core.home_of(group) == server}
        _require("I8", found == expected, f"{server} differs in the groups {sorted(found ^ expected)}")


def check_arcs(servers: Servers, truth: TrueGraph) -> None:
    """I7 and I8: both homes of each arc have the same record of it, and no further arc is recorded."""
    ends: dict[ArcName, list[ArcRecord]] = {}
    for server, core in servers.items():
        graph = core.graph
        expected = {arc for arc in truth.arcs if server in _homes(core, arc)}
        found = set()
        for parent, arcs in enumerate(graph.children):
            for child, arc in arcs.items():
                name = (graph.ids[parent], graph.ids[child])
                if server not in _homes(core, name):
                    continue
                found.add(name)
                ends.setdefault(name, []).append(arc)
                at_child = graph.parents[child].get(NodeIndex(parent))
                _require("I7", at_child == arc, f"{server} holds {name} as {arc} and as {at_child}")
                _require("I8", name not in truth.arcs or arc.cost == truth.arcs[name], f"{server}: cost of {name}")
        _require("I8", found == expected, f"{server} differs in {sorted(found ^ expected)}")
    for name, copies in ends.items():
        versions = {(arc.cost, arc.version, arc.writer) for arc in copies}
        _require("I7", len(versions) == 1, f"the homes of {name} hold {sorted(versions)}")


def check_virtual_nodes(servers: Servers, truth: TrueGraph) -> None:
    """I2, I3, I7: virtual nodes are the loops, and all their servers know the same components, vnid and shadow tree."""
    known: dict[Vnid, tuple[frozenset[NodeId], frozenset[ArcName]]] = {}
    for server, core in servers.items():
        graph = core.graph
        for found in graph.virtual_nodes.values():
            vnid = Vnid(found.smallest, found.made_at)
            inside = frozenset(graph.ids[node] for node in found.components)
            _require(
                "I3", all(truth.loop_of(node) == inside for node in inside), f"{server}: {vnid} has {sorted(inside)}"
            )
            tree = frozenset((graph.ids[parent], graph.ids[child]) for parent, child in graph.shadow_tree(found))
            _require("I2", len(tree) == len(inside) - 1 and tree <= truth.arcs.keys(), f"{server}: tree of {vnid}")
            same = known.setdefault(vnid, (inside, tree))
            _require("I7", same == (inside, tree), f"{server} knows {vnid} as {inside, tree}, others as {same}")
        for name, node in graph.index.items():
            if core.records.is_held(node):
                on_loop = node in graph.virtual_node_of
                _require("I3", on_loop == (len(truth.loop_of(name)) > 1), f"{server}: {name} on a loop: {on_loop}")
    loops = {inside for inside, _ in known.values()}
    _require("I7", len(loops) == len(known), "one loop has several vnids")


def check_ancestry(servers: Servers, truth: TrueGraph) -> None:
    """I5: each server holds the true ancestry of its own nodes, with costs and versions, and no more."""
    for server, core in servers.items():
        graph = core.graph
        owned = [name for name in graph.index if core.home_of(name) == server]
        expected: dict[NodeId, dict[NodeId, int]] = {}
        pending = list(owned)
        while pending:
            name = pending.pop()
            if name in expected:
                continue
            parents = [p for p in truth.parents.get(name, ()) if server in _homes(core, (p, name)) or name not in owned]
            if core.knows_subnet_of(name) is False:
                parents = [parent for parent in parents if core.home_of(parent) == server]
            expected[name] = {parent: truth.arcs[parent, name] for parent in parents}
            pending += parents
        for name, node in graph.index.items():
            if core.records.is_held(node):
                _require("I5", name in expected, f"{server} holds a record of {name}, which is above nothing")
                held = {graph.ids[parent]: arc.cost for parent, arc in graph.parents[node].items()}
                _require("I5", held == expected[name], f"{server} holds {name} with {held}, not {expected[name]}")
                at_home = servers[core.home_of(name)] if core.knows_subnet_of(name) else core
                true_version = at_home.records.version_of(at_home.graph.index[name])
                version = core.records.version_of(node)
                _require("I5", version == true_version, f"{server} holds {name} at {version}, not {true_version}")
                for parent, arc in graph.parents[node].items():
                    true = _arc_at_home(servers, core, graph.ids[parent], name)
                    _require("I5", (arc.version, arc.writer) == true, f"{server}: {arc} of {name} is not {true}")
        missing = [name for name in expected if name not in graph.index]
        missing += [name for name in expected if not missing and not core.records.is_held(graph.index[name])]
        _require("I5", not missing, f"{server} has no record of {missing}")
        for name in owned:
            above = {graph.ids[node] for node in core.ancestors.of(graph.index[name])}
            true_above = truth.above(expected[name]) | {name}
            _require("I5", above == true_above, f"{server}: above {name}: {above ^ true_above}")


def check_duplication_control(servers: Servers, truth: TrueGraph) -> None:
    """The home of each node blocks the originators of the rule at the normal arcs into the node, and names their
    sources.

    A foreign process is delivered once by each server: no server knows all arcs into it.
    """
    blocked = truth.blocked()
    for server, core in servers.items():
        found = {arc: nodes for arc, nodes in blocked_at(core).items() if core.knows_subnet_of(arc.child)}
        for arc, originators in found.items():
            _require("RD", tuple(arc) in blocked, f"{server} takes {arc} for a normal arc")
            expected = blocked[arc.parent, arc.child]
            _require("RD", originators == expected, f"{server} blocks {originators} at {arc}, not {expected}")
            sources = core.rd_record(arc)
            _require("RD", truth.above(sources) == expected, f"{server} says that {sources} block {arc}")
        entering = [arc for arc in blocked if core.knows_subnet_of(arc[1]) and core.home_of(arc[1]) == server]
        missing = [arc for arc in entering if ArcId(*arc) not in found]
        _require("RD", not missing, f"{server} does not know of the arcs {missing} to its nodes")


def check_walks(servers: Servers, truth: TrueGraph) -> None:
    """I4: a walk over private states, without memory, visits each node that its originator reaches exactly once.

    A foreign process is visited once at each server that reaches it.
    """
    some = next(iter(servers.values()))
    blocked = {arc: originators for core in servers.values() for arc, originators in blocked_at(core).items()}
    for originator in sorted({parent for parent, _ in truth.arcs}):
        expected: list[tuple[ServerId, NodeId]] = []
        for node in truth.below([originator]):
            if some.knows_subnet_of(node):
                expected.append((some.home_of(node), node))
            else:
                reaching = truth.below([originator])
                homes = {some.home_of(parent) for parent in truth.parents[node] if parent in reaching}
                expected += [(home, node) for home in homes]
        visited = _walk(servers, blocked, originator, limit=len(expected) + 1)
        _require("I4", sorted(visited) == sorted(expected), f"from {originator} visited {visited}, reached {expected}")


def blocked_at(core: ServerCore) -> dict[ArcId, set[NodeId]]:
    """Return the originators that a server blocks at the normal arcs into its nodes and its foreign processes."""
    graph = core.graph
    found = {}
    for arc in (arc for into in graph.parents for arc in into.values()):
        name = ArcId(graph.ids[arc.parent], graph.ids[arc.child])
        if _homes(core, name)[1] == core.server and graph.arc_state(arc) is ArcState.NORMAL:
            found[name] = {graph.ids[node] for node in blocked_originators(graph, core.ancestors, arc)}
    return found


def _walk(
    servers: Servers, blocked: Mapping[ArcId, set[NodeId]], originator: NodeId, *, limit: int
) -> list[tuple[ServerId, NodeId]]:
    home = next(iter(servers.values())).home_of(originator)
    visited: list[tuple[ServerId, NodeId]] = []
    pending: list[tuple[ServerId, NodeId, NodeId | None]] = [(home, originator, None)]
    while pending and len(visited) < limit:
        server, name, came_from = pending.pop()
        visited.append((server, name))
        core = servers[server]
        graph = core.graph
        node = graph.index[name]
        onward: list[tuple[NodeId, NodeId | None]] = []
        for child, arc in graph.children[node].items():
            state = graph.arc_state(arc)
            arc_name = ArcId(name, graph.ids[child])
            if state is ArcState.NORMAL and originator not in blocked[arc_name]:
                onward.append((arc_name.child, None))
            elif state is ArcState.SHADOW and arc_name.child != came_from:
                onward.append((arc_name.child, name))
        for parent, arc in graph.parents[node].items():
            if graph.arc_state(arc) is ArcState.SHADOW and graph.ids[parent] != came_from:
                onward.append((graph.ids[parent], name))
        for head, over in onward:
            to = core.home_of(head) if core.knows_subnet_of(head) else server
            pending.append((to, head, over))
    return visited


def _homes(core: ServerCore, arc: ArcName) -> tuple[ServerId, ServerId]:
    """Return the homes of the two ends of an arc, which any core knows."""
    parent = core.home_of(arc[0])
    return parent, core.home_of(arc[1]) if core.knows_subnet_of(arc[1]) else parent


def _arc_at_home(servers: Servers, core: ServerCore, parent: NodeId, child: NodeId) -> tuple[int, int]:
    graph = servers[core.home_of(parent)].graph
    arc = graph.children[graph.index[parent]][graph.index[child]]
    return arc.version, arc.writer


def _require(invariant: str, holds: bool, what: str) -> None:
    if not holds:
        raise InvariantViolatedError(f"{invariant}: {what}")
