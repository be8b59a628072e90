"""Graphs for audits: many small clusters side by side in one collection of snapshots, so that Spark starts once."""

from dataclasses import dataclass
from random import Random

from spark_graph_jobs.snapshot.synthetic import SyntheticArc

OWNERS = {"a.x": "a", "b.x": "b", "c.x": "c"}


def random_cluster(tag, random):
    """Arcs of a random graph with loops, parallel arcs, shared, native and foreign processes, and tombstones.

    Every name has the tag in it, so that clusters do not touch and a finding tells whose it is.
    """
    subnets = random.sample(sorted(OWNERS), random.randint(1, len(OWNERS)))
    groups = [f"g{number}-{tag}@{random.choice(subnets)}" for number in range(random.randint(2, 14))]
    processes = [f"p{number}-{tag}@{random.choice([*subnets, 'people.example'])}" for number in range(5)]
    arcs = {}
    for _ in range(random.randint(1, 3 * len(groups))):
        parent = random.choice(groups)
        is_group = random.random() < 0.7
        child = random.choice(groups if is_group else processes)
        if child != parent:
            cost, version = random.choice([1, 1, 1, 2]), random.choice([1, 1, 1, 3, 2])
            arcs[parent, child] = SyntheticArc(parent, child, is_group, cost, version)
    return list(arcs.values())


def random_clusters(count, seed):
    random = Random(seed)
    return [arc for number in range(count) for arc in random_cluster(f"r{number:03}", random)]


@dataclass(frozen=True)
class Cluster:
    """One small graph that has everything: a sink above a loop over three servers, members, a guest, a tombstone.

    top@a -> left@a -> shared@c -> [ x@a -> y@b -> z@c -> x@a, y@b -> x@a ] -> p@b (over y and z), guest (over z)
    top@a -> right@b -> shared@c        left@a -> m@a, top@a -> m@a        top@a -> z@c was left
    """

    tag: str
    snapshots: dict
    """Snapshots of all clusters together."""

    def name(self, short):
        local, _, domain = short.partition("@")
        return f"{local}-{self.tag}@{domain if '.' in domain else domain + '.x'}"

    def arc(self, short):
        parent, child = short.split(" -> ")
        return f"{self.name(parent)} -> {self.name(child)}"

    def node_row(self, server, short):
        rows = self.snapshots[server].rows["nodes"]
        return next(row for row in rows if row["id"] == self.name(short))

    def number(self, server, short):
        return self.node_row(server, short)["node"]

    def ends(self, server, short):
        parent, child = short.split(" -> ")
        return self.number(server, parent), self.number(server, child)

    def rows_of_arc(self, table, server, short):
        ends = self.ends(server, short)
        return [row for row in self.snapshots[server].rows[table] if (row["parent"], row["child"]) == ends]

    def arc_row(self, server, short):
        (row,) = self.rows_of_arc("arcs", server, short)
        return row

    def set_row(self, server, short):
        """Return the row of the ancestor set of a node that is in no virtual node, or names its virtual node."""
        rows = self.snapshots[server].rows["ancestors"]
        return next(row for row in rows if row["node"] == self.number(server, short))

    def virtual_node(self, server):
        rows = self.snapshots[server].rows["virtual_nodes"]
        return next(row for row in rows if row["smallest"] == self.name("x@a"))

    def remove(self, server, table, row):
        self.snapshots[server].rows[table].remove(row)


def whole_cluster(tag):
    """Return the arcs of a `Cluster`."""
    cluster = Cluster(tag, {})
    groups = (
        "top@a -> left@a, top@a -> right@b, left@a -> shared@c, right@b -> shared@c, shared@c -> x@a, x@a -> y@b, "
        "y@b -> z@c, z@c -> x@a, y@b -> x@a, left@a -> m@a, top@a -> m@a"
    )
    processes = "y@b -> p@b, z@c -> p@b, z@c -> guest@people.example"
    arcs = [SyntheticArc(*cluster.arc(text).split(" -> ")) for text in groups.split(", ")]
    arcs += [SyntheticArc(*cluster.arc(text).split(" -> "), is_group=False) for text in processes.split(", ")]
    return [*arcs, SyntheticArc(cluster.name("top@a"), cluster.name("z@c"), version=2)]
