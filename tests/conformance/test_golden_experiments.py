"""The join and leave experiments of NG appendix B, step by step, with the state that must hold after each."""

import pytest

from namegraph.ancestry import pathnames
from namegraph.duplication import controlled_arcs
from namegraph.graph import ArcState
from namegraph.names import NodeId
from namegraph.records import NodeIndex, NodeKind
from resolver.membership import MembershipResolver
from simulation.invariants import ExternalView, check_all
from tests.conformance.experiments import EXPERIMENTS, in_one_order
from tests.cores import CoreUnderTest


def gid(name):
    return NodeId(f"{name}@x.example")


def plain(name):
    return name.partition("@")[0]


def derived(core, node):
    return "+".join(sorted(plain(core.graph.ids[component]) for component in core.graph.components(node)))


def state_of(core):
    """What the golden file records of a server, in its form."""
    graph = core.graph
    groups = [NodeIndex(node) for node in range(len(graph.ids)) if graph.kind(node) is NodeKind.GROUP]
    arcs = {(arc.parent, arc.child): graph.arc_state(arc) for arc in graph.present_arcs()}
    labels = {graph.label(node): derived(core, node) for node in groups}
    in_use = [node for node in groups if graph.parents[node] or graph.children[node]]
    controlled = {}
    for node in in_use:
        blocked = {derived(core, o) for found in controlled_arcs(graph, core.ancestors, node) for o in found.blocked}
        if blocked:
            controlled[derived(core, node)] = sorted(blocked)
    resolver = MembershipResolver(core)
    return {
        "virtual_nodes": sorted(
            sorted(plain(graph.ids[component]) for component in virtual_node.components)
            for virtual_node in graph.virtual_nodes.values()
        ),
        "normal_arcs": sorted(
            [plain(graph.ids[p]), plain(graph.ids[c])] for (p, c), state in arcs.items() if state is ArcState.NORMAL
        ),
        "internal_arcs": sorted(
            [plain(graph.ids[p]), plain(graph.ids[c])]
            for (p, c), state in arcs.items()
            if state in (ArcState.SHADOW, ArcState.FADE)
        ),
        "pathnames": {
            derived(core, node): sorted([labels[label] for label in path] for path in pathnames(graph, node))
            for node in in_use
        },
        "controlled_sinks": controlled,
        "reaches": {
            plain(graph.ids[node]): sorted(
                {plain(member) for member in resolver.resolve(graph.ids[node]).groups} | {plain(graph.ids[node])}
            )
            for node in in_use
        },
    }


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda experiment: experiment["experiment"])
def test_every_step_of_the_experiment_leaves_the_expected_state(experiment):
    server = CoreUnderTest("x.example")
    arcs = {}
    for step in experiment["steps"]:
        parent, child = gid(step["parent"]), gid(step["child"])
        for group in (parent, child):
            if group not in server.core.graph.index:
                server.create(group)
        if step["op"] == "join":
            server.join(parent, child)
            arcs[parent, child] = NodeKind.GROUP
        else:
            server.leave(parent, child)
            del arcs[parent, child]
        assert state_of(server.core) == in_one_order(step), f"after step {step['step']}"
        check_all(server.core, ExternalView(frozenset(server.core.graph.index), arcs))
