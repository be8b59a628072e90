"""Everything that audits claim to find, planted: each fault breaks one `Cluster`, and says what must be found of it."""

from dataclasses import dataclass
from typing import Any

from pyroaring import BitMap

FAULTS = {}


@dataclass(frozen=True)
class Fault:
    """A fault: the function that plants it, and the findings that it causes."""

    plant: Any
    found: frozenset
    """(audit, short subject) of findings that must be there."""
    besides: frozenset
    """Audits that may have more to say of the same cluster, because what was planted has consequences."""
    severities: frozenset
    """Severities of all its findings together."""


def fault(*found, besides=(), severities=("error",)):
    """Register a function that plants a fault into a cluster; its name says which."""

    def register(plant):
        FAULTS[plant.__name__] = Fault(plant, frozenset(found), frozenset(besides), frozenset(severities))
        return plant

    return register


# States of arcs, and shadow trees (I1, I2)


@fault(("virtual nodes", "left@a -> shared@c"))
def normal_arc_that_fades(cluster):
    cluster.arc_row("a", "left@a -> shared@c")["state"] = "fade"


@fault(("virtual nodes", "left@a -> shared@c"))
def normal_arc_on_a_tree(cluster):
    cluster.arc_row("c", "left@a -> shared@c")["state"] = "shadow"


@fault(("virtual nodes", "x@a -> y@b"), ("virtual nodes", "x@a"))
def tree_edge_that_fades(cluster):
    cluster.arc_row("b", "x@a -> y@b")["state"] = "fade"


@fault(("virtual nodes", "y@b -> x@a"), ("virtual nodes", "x@a"))
def edge_off_the_tree_that_shadows(cluster):
    cluster.arc_row("c", "y@b -> x@a")["state"] = "shadow"


@fault(("virtual nodes", "z@c -> x@a"), ("virtual nodes", "x@a"))
def arc_of_a_loop_that_is_normal(cluster):
    cluster.arc_row("a", "z@c -> x@a")["state"] = "normal"


@fault(("virtual nodes", "x@a -> y@b"), ("virtual nodes", "x@a"))
def tree_edge_that_is_normal(cluster):
    cluster.arc_row("a", "x@a -> y@b")["state"] = "normal"


@fault(("virtual nodes", "left@a -> shared@c"))
def normal_arc_that_fades_at_all_servers(cluster):
    for server in ("a", "b", "c"):
        cluster.arc_row(server, "left@a -> shared@c")["state"] = "fade"


@fault(("virtual nodes", "z@c -> x@a"), ("virtual nodes", "y@b -> z@c"))
def another_tree_at_all_servers(cluster):
    """Plant another spanning tree at all servers. All agree, but the order of arcs determines a different tree."""
    for server in ("a", "b", "c"):
        cluster.arc_row(server, "y@b -> z@c")["state"] = "fade"
        cluster.arc_row(server, "z@c -> x@a")["state"] = "shadow"


@fault(("virtual nodes", "top@a -> left@a"))
def arc_without_state(cluster):
    cluster.arc_row("a", "top@a -> left@a")["state"] = None


@fault(("virtual nodes", "right@b -> shared@c"))
def state_suspended_of_an_arc_that_is_not(cluster):
    cluster.arc_row("b", "right@b -> shared@c")["state"] = "suspended"


@fault(("virtual nodes", "x@a -> y@b"), ("virtual nodes", "x@a"))
def state_suspended_of_a_tree_edge_that_is_not(cluster):
    cluster.arc_row("c", "x@a -> y@b")["state"] = "suspended"


@fault(("virtual nodes", "y@b -> x@a"), besides=("agreement",), severities=("error", "warning"))
def suspended_arc_of_another_state(cluster):
    for server in ("a", "b", "c"):
        cluster.arc_row(server, "y@b -> x@a").update(suspended=True, state="suspended")
    cluster.arc_row("b", "y@b -> x@a")["state"] = "fade"


@fault(("virtual nodes", "top@a -> z@c"))
def tombstone_with_a_state(cluster):
    cluster.arc_row("c", "top@a -> z@c")["state"] = "normal"


@fault(("virtual nodes", "x@a"), ("ancestry", "x@a -> y@b"))
def missing_tree_edge(cluster):
    """Remove an arc from a third server's records of the loop."""
    cluster.remove("c", "arcs", cluster.arc_row("c", "x@a -> y@b"))


# Virtual nodes (I3, I7)


@fault(*(("virtual nodes", name) for name in ("x@a", "y@b", "z@c")))
def stale_vnid(cluster):
    stale = f"{cluster.name('x@a')}#0.old"
    cluster.virtual_node("b")["vnid"] = stale
    for name in ("x@a", "y@b", "z@c"):
        cluster.node_row("b", name)["vnid"] = stale


@fault(("virtual nodes", "x@a"))
def virtual_node_named_after_another_component(cluster):
    cluster.virtual_node("a")["smallest"] = cluster.name("y@b")


@fault(("virtual nodes", "x@a"))
def virtual_node_that_forgets_a_component(cluster):
    cluster.virtual_node("c")["components"].remove(cluster.number("c", "y@b"))


@fault(
    ("levels", "x@a -> y@b"),
    ("virtual nodes", "x@a"),
    besides=("virtual nodes", "ancestry", "levels"),
)
def loop_without_a_virtual_node(cluster):
    cluster.remove("b", "virtual_nodes", cluster.virtual_node("b"))
    for name in ("x@a", "y@b", "z@c"):
        cluster.node_row("b", name)["vnid"] = None


@fault(("virtual nodes", "x@a"), besides=("virtual nodes", "ancestry", "levels"))
def virtual_node_of_what_is_no_loop(cluster):
    """Let one server take a group above the loop for a component."""
    vnid = cluster.virtual_node("c")["vnid"]
    row = cluster.node_row("c", "shared@c")
    row["vnid"], row["level"] = vnid, cluster.node_row("c", "x@a")["level"]
    components = cluster.virtual_node("c")["components"]
    components.append(row["node"])
    components.sort()


# Levels (I3)


@fault(("levels", "left@a -> shared@c"), ("levels", "left@a"), ("ancestry", "left@a"), besides=("levels",))
def wrong_level_at_one_server(cluster):
    cluster.node_row("a", "left@a")["level"] = 50


@fault(("levels", "left@a -> shared@c"), ("ancestry", "left@a"), besides=("levels", "ancestry"))
def wrong_level_at_all_servers(cluster):
    for server in cluster.snapshots:
        cluster.node_row(server, "left@a")["level"] = 50


@fault(("levels", "z@c"), besides=("levels", "ancestry"))
def component_of_another_level(cluster):
    cluster.node_row("c", "z@c")["level"] += 1


@fault(("levels", "m@a"), besides=("ancestry",))
def no_level(cluster):
    cluster.node_row("a", "m@a")["level"] = None


# Ancestry (I5)


@fault(("ancestry", "shared@c"), besides=("ancestry",))
def ancestor_too_few(cluster):
    _change_set(cluster, "c", "shared@c", lambda found: found.discard(cluster.number("c", "top@a")))


@fault(("ancestry", "p@b"))
def ancestor_too_many(cluster):
    _change_set(cluster, "b", "p@b", lambda found: found.add(999_999))


@fault(("ancestry", "m@a"))
def no_ancestor_set(cluster):
    cluster.remove("a", "ancestors", cluster.set_row("a", "m@a"))


@fault(("ancestry", "m@a"))
def two_ancestor_sets(cluster):
    rows = cluster.snapshots["a"].rows["ancestors"]
    rows.append(dict(cluster.set_row("a", "m@a")))


@fault(("ancestry", "top@a -> left@a"), besides=("ancestry",))
def ancestry_record_that_is_missing(cluster):
    """Remove one server's knowledge that top@a is above its nodes."""
    cluster.node_row("c", "top@a")["held"] = False


@fault(("ancestry", "lonely@a"))
def superfluous_ancestry_record(cluster):
    rows = cluster.snapshots["b"].rows
    number = 500_000 + int(cluster.tag[1:])
    own = dict(cluster.node_row("a", "lonely@a"))
    rows["nodes"].append({**own, "node": number, "owned": False})
    rows["ancestors"].append({"node": number, "ancestors": BitMap([number]).serialize()})


@fault(("ancestry", "right@b"))
def stale_ancestry_record(cluster):
    cluster.node_row("c", "right@b")["version_counter"] = 0


@fault(("ancestry", "right@b -> left@a"), ("ancestry", "left@a"), besides=("levels", "virtual nodes"))
def arc_that_only_a_record_has(cluster):
    parent, child = cluster.ends("c", "right@b -> left@a")
    row = {**cluster.arc_row("c", "top@a -> left@a"), "parent": parent, "child": child}
    cluster.snapshots["c"].rows["arcs"].append(row)


@fault(("ancestry", "top@a -> right@b"), ("ancestry", "right@b"), besides=("ancestry",))
def record_that_lacks_an_arc(cluster):
    cluster.remove("c", "arcs", cluster.arc_row("c", "top@a -> right@b"))


# Agreement (I7)


@fault(("agreement", "left@a -> shared@c"), besides=("virtual nodes",))
def arc_that_the_home_of_the_parent_has_not(cluster):
    cluster.arc_row("a", "left@a -> shared@c")["is_truth"] = False


@fault(("agreement", "right@b -> shared@c"), besides=("ancestry",))
def arc_that_the_home_of_the_child_has_not(cluster):
    cluster.remove("c", "arcs", cluster.arc_row("c", "right@b -> shared@c"))


@fault(("agreement", "top@a -> right@b"))
def another_version(cluster):
    cluster.arc_row("b", "top@a -> right@b")["version"] = 3


@fault(("agreement", "top@a -> right@b"))
def another_writer(cluster):
    cluster.arc_row("c", "top@a -> right@b")["writer"] = 9


@fault(("agreement", "shared@c -> x@a"))
def another_cost(cluster):
    cluster.arc_row("b", "shared@c -> x@a")["cost"] = 9


@fault(("agreement", "top@a -> z@c"))
def tombstones_of_two_versions(cluster):
    cluster.arc_row("c", "top@a -> z@c")["version"] = 4


@fault(("agreement", "top@a -> z@c"))
def arc_left_at_one_home_only(cluster):
    row = cluster.arc_row("a", "top@a -> z@c")
    row |= {"present": True, "state": "normal", "version": 1, "is_record": False}


@fault(("agreement", "top@a"), besides=("agreement",))
def group_with_two_homes(cluster):
    cluster.node_row("b", "top@a").update(home="b", owned=True)


@fault(("agreement", "p@b"), besides=("agreement", "ancestry"))
def process_with_two_homes(cluster):
    cluster.node_row("c", "p@b").update(home="c", owned=True)


@fault(("agreement", "right@b"), besides=("agreement",))
def home_that_another_server_has_wrong(cluster):
    cluster.node_row("c", "right@b")["home"] = "a"


@fault(("agreement", "guest@people.example"), besides=("agreement", "ancestry"))
def foreign_process_that_is_taken_for_native(cluster):
    cluster.node_row("c", "guest@people.example").update(home="b")


@fault(("agreement", "p@b"), besides=("agreement",))
def process_that_is_a_group_elsewhere(cluster):
    cluster.node_row("c", "p@b")["kind"] = "group"


@fault(("agreement", "y@b -> p@b"), ("agreement", "z@c -> p@b"))
def dangling_child(cluster):
    cluster.node_row("b", "p@b")["kind"] = "absent"


@fault(("agreement", "right@b -> shared@c"), besides=("agreement", "virtual nodes"))
def dangling_parent(cluster):
    cluster.node_row("b", "right@b")["kind"] = "absent"


@fault(("agreement", "z@c -> guest@people.example"), besides=("ancestry",))
def foreign_member_without_a_record(cluster):
    cluster.arc_row("c", "z@c -> guest@people.example")["is_record"] = False


@fault(("agreement", "y@b -> x@a"), severities=("warning",))
def suspended_arc(cluster):
    for server in cluster.snapshots:
        cluster.arc_row(server, "y@b -> x@a").update(suspended=True, state="suspended")


# Updates


@fault(("updates", "u"))
def stale_update(cluster):
    _under_way(cluster, "b", role="participant", state="ready")


@fault(("updates", "u"), severities=("warning",))
def update_in_doubt(cluster):
    _under_way(cluster, "b", role="participant", state="ready")
    _under_way(cluster, "a", role="coordinator", state="ordered")


def _change_set(cluster, server, short, change):
    row = cluster.set_row(server, short)
    found = BitMap.deserialize(row["ancestors"])
    change(found)
    row["ancestors"] = found.serialize()


def _under_way(cluster, server, *, role, state):
    row = {"update": f"u-{cluster.tag}@a", "coordinator": "a", "role": role, "state": state, "waits_for": ["a"]}
    cluster.snapshots[server].rows["updates"].append({**row, "priority_counter": 5, "priority_server": "a"})
