"""All that readers may see of a graph, and of a server, as plain values that nothing changes afterwards."""

from namegraph.graph.ancestor_sets import AncestorSets
from namegraph.model.rows import NodeIndex


def graph_as_read(graph):
    """Return the part of a graph that readers see."""
    return {
        "ids": list(graph.ids),
        "index": dict(graph.index),
        "kinds": bytes(graph.kinds),
        "versions": (list(graph.versions), dict(graph.version_servers)),
        "tombstones": dict(graph.tombstones),
        "children": [dict(arcs) for arcs in graph.children],
        "parents": [dict(arcs) for arcs in graph.parents],
        "states": {(arc.parent, arc.child): graph.arc_state(arc) for arc in graph.present_arcs()},
        "suspended": dict(graph.suspended),
        "apart": [dict(side.items()) for side in (graph.suspended_from, graph.suspended_into)],
        "recorded": {node: sorted(graph.recorded_children(NodeIndex(node))) for node in range(len(graph.ids))},
        "virtual nodes": {number: (vn.vnid, vn.components) for number, vn in graph.virtual_nodes.items()},
        "virtual node of": {node: vn.number for node, vn in graph.virtual_node_of.items()},
        "changes": (graph.update_count, graph.group_changes, list(graph.changed_tails)),
    }


def sets_as_read(graph, ancestors):
    """Return the ancestor set of every node, with True for each controlled node."""
    nodes = range(len(graph.ids))
    return [(set(ancestors.of(node)), ancestors.is_controlled(node)) for node in map(NodeIndex, nodes)]


def server_as_read(core):
    """Return every answer of `namegraph.queries`, about every node."""
    graph = core.graph
    uncertain = core.uncertainty()
    return {
        "graph": graph_as_read(graph),
        "sets": sets_as_read(graph, AncestorSets(graph)),
        "kept sets": sets_as_read(graph, core.ancestors),
        "place": (core.view, core.members, core.is_steady, core.is_healed, core.revision),
        "doubts": (
            list(core.in_doubt),
            list(core.in_doubt_about),
            sorted(uncertain.behind),
            sorted(uncertain.of_own_arcs()),
        ),
        "uncertain": {
            name: (uncertain.above(name), uncertain.below(name), uncertain.exists(name)) for name in graph.ids
        },
        "records": ({node: dict(above) for node, above in _arcs_above(core)}, sorted(core.records.leaving)),
        "apart": [arc for arc, _ in core.suspended_arcs()],
        "homes": [core.home_of(name) for name in graph.ids],
        "owned": {server: core._table.owned_by(server) for server in core._table.servers()},
        "large": core.has_large_updates,
    }


def _arcs_above(core):
    return [(node, core.graph.parents[node]) for node in core.records.above]
