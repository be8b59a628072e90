"""A graph that is held stays as it was, whatever is done to it since, and costs nothing once it is let go."""

from operator import is_

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from namegraph.model.names import NodeId
from namegraph.model.operations import CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.rows import NodeIndex
from tests.cores import CoreUnderTest
from tests.large_dictionaries import LargeDictionaries
from tests.reads import graph_as_read, sets_as_read

SUBNET = "a.example"
GROUPS = [NodeId(f"{name}@{SUBNET}") for name in "stuvwxyz"]
PROCESSES = [NodeId(f"{name}@far.example") for name in ("ann", "bob")]

groups = st.sampled_from(GROUPS)
names = st.sampled_from([*GROUPS, *PROCESSES])
operations = st.one_of(
    st.builds(CreateGroup, groups),
    st.builds(DeleteGroup, groups, st.booleans()),
    st.builds(JoinArc, groups, names, cost=st.integers(0, 1)),
    st.builds(LeaveArc, groups, names),
)
rows = st.tuples(groups, names).filter(lambda arc: arc[0] != arc[1]).map(lambda arc: (*arc, 1 + (arc[1] in PROCESSES)))


class HeldGraphs(RuleBasedStateMachine):
    """Updates of one server, some of which are refused, while any number of readers hold what was there before."""

    def __init__(self):
        super().__init__()
        self.server = CoreUnderTest(SUBNET)
        self.held = []
        """(the graph and the sets that are held, what was to be read when they were), the earliest first."""

    @property
    def graph(self):
        return self.server.core.graph

    @initialize(table=st.lists(rows, max_size=20))
    def begin(self, table):
        self.server.bring(table, groups=GROUPS[:4])

    @rule(batch=st.lists(operations, min_size=1, max_size=4))
    def update(self, batch):
        self.server.ask(*batch)

    @rule(batch=st.lists(st.builds(JoinArc, groups, groups), min_size=1, max_size=6))
    def join(self, batch):
        for join in batch:
            self.server.ask(join)

    @rule(table=st.lists(rows, max_size=10), alone=st.lists(groups, max_size=2, unique=True))
    def bring(self, table, alone):
        self.server.bring(table, groups=alone)

    @precondition(lambda self: len(self.held) < 4)
    @rule()
    def hold(self):
        graph, ancestors = self.graph, self.server.core.ancestors
        held = graph.hold()
        sets = ancestors.hold(held)
        self.held.append((held, sets, graph_as_read(graph), sets_as_read(graph, ancestors)))

    @precondition(lambda self: self.held)
    @rule(place=st.sampled_from((0, -1)))
    def let_go(self, place):
        self.held.pop(place)
        if not self.held:
            self.graph.end_holds()
            self.server.core.ancestors.end_holds()

    @rule(name=names)
    def fill(self, name):
        node = self.graph.index.get(name)
        if node is not None:
            self.server.core.ancestors.of(node)

    @invariant()
    def what_is_held_is_as_it_was(self):
        for held, sets, graph_then, sets_then in self.held:
            assert graph_as_read(held) == graph_then
            assert sets_as_read(held, sets) == sets_then
            assert all(name not in held.index for name in self.graph.ids[len(held.ids) :])

    @invariant()
    def the_graph_itself_is_right(self):
        self.server.check_invariants()

    @invariant()
    def nothing_is_copied_while_nobody_holds_the_graph(self):
        graph = self.graph
        if not self.held:
            before = [*graph.children, *graph.parents]
            nodes = [NodeIndex(node) for node in range(len(graph.ids))]
            now = [*map(graph.children.to_change, nodes), *map(graph.parents.to_change, nodes)]
            assert all(map(is_, before, now))


class HeldGraphsOfLargeNodes(LargeDictionaries, HeldGraphs):
    """The same, where nearly all nodes have so many arcs that each change is noted."""


TestHeldGraphs = HeldGraphs.TestCase
TestHeldGraphsOfLargeNodes = HeldGraphsOfLargeNodes.TestCase


def test_of_the_arcs_that_are_held_only_those_of_changed_nodes_are_copied_and_once():
    server = CoreUnderTest(SUBNET)
    server.bring([(GROUPS[0], GROUPS[1], 1), (GROUPS[1], GROUPS[2], 1)], groups=GROUPS)
    graph = server.core.graph
    held = graph.hold()
    server.join(GROUPS[0], GROUPS[2])
    changed = graph.children[graph.index[GROUPS[0]]]
    server.join(GROUPS[0], GROUPS[3])
    assert graph.children[graph.index[GROUPS[0]]] is changed
    shared = [graph.ids[node] for node in range(len(GROUPS)) if graph.children[node] is held.children[node]]
    assert shared == [name for name in graph.ids if name != GROUPS[0]]
    entered = [graph.ids[node] for node in range(len(GROUPS)) if graph.parents[node] is not held.parents[node]]
    assert sorted(entered) == GROUPS[2:4]
