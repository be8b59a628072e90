"""A cluster against a brute-force model: wherever nodes live, it acts and answers like one server."""

from collections import Counter

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from namegraph.model.names import NodeId, subnet_of
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed
from namegraph.model.refusals import Refusal
from namegraph.model.rows import NodeKind
from tests.brute_force import Model, expected_effects
from tests.placements import FOREIGN, subnet
from tests.universe import Universe

GROUPS = tuple("stuvwxyz")
PROCESSES = ("ann", "bob")
ELSEWHERE = ("cid",)
"""Names whose subnet has no owner."""

NAMES = (*GROUPS, *PROCESSES, *ELSEWHERE)
UNKNOWN = "nobody"
SERVERS = (1, 2, 3, 5, len(GROUPS))
DEALT_IN_TURN = range(len(NAMES) + 1)
"""Placement on as many servers as there are groups: one group each."""

groups = st.sampled_from(GROUPS)
names = st.sampled_from(NAMES)
kinds = st.sampled_from(ChildKind)
costs = st.sampled_from((0, 0, 0, 1, 2))
joins = st.builds(JoinArc, groups, groups, st.just(ChildKind.AUTO), costs)
any_joins = st.builds(JoinArc, names, names, kinds, costs)
any_leaves = st.builds(LeaveArc, groups, names, kinds)
creations = st.builds(CreateGroup, names)
deletions = st.builds(DeleteGroup, groups, st.booleans())
operations = st.one_of(joins, any_joins, any_leaves, creations, deletions)


class PlacementMachine(RuleBasedStateMachine):
    """Random updates in a random placement. After each, everything that can be asked is compared with the model.

    Rules speak plain names; `ids` has the full ones.
    """

    @initialize(
        servers=st.sampled_from(SERVERS),
        deal=st.one_of(st.just(DEALT_IN_TURN), st.tuples(*(st.integers(0, 7) for _ in DEALT_IN_TURN))),
        seed=st.integers(0, 1_000),
    )
    def start(self, servers, deal, seed):
        self.servers = servers
        self.ids = {
            name: NodeId(f"{name}@{FOREIGN if name in ELSEWHERE else subnet(number % servers)}")
            for name, number in zip([*NAMES, UNKNOWN], deal, strict=True)
        }
        subnets = [subnet(number) for number in range(servers)]
        self.universe = Universe(*subnets, seed=seed)
        self.model = Model(frozenset(subnets))
        self.requests = []
        self.vnids = {}
        self.changed = True
        for group in GROUPS:
            self._submit(CreateGroup(group))

    # What clients do

    @rule(operation=operations)
    def ask_anything(self, operation):
        self._submit(operation)

    @rule(join=joins)
    def join_groups(self, join):
        self._submit(replace(join, kind=ChildKind.GROUP))

    @rule(join=joins)
    def join_groups_again(self, join):
        self._submit(join)

    @rule(join=any_joins)
    def join_anything(self, join):
        self._submit(join)

    @precondition(lambda self: self.model.arcs)
    @rule(place=st.integers(0, 50), kind=st.sampled_from((ChildKind.AUTO, ChildKind.AUTO, ChildKind.GROUP)))
    def leave_what_is_there(self, place, kind):
        self._submit_placed(self._leave(place, kind))

    @rule(batch=st.lists(operations, max_size=10))
    def apply_what_can_be_done(self, batch):
        self._submit_placed(*self.model.valid(self._placed(batch)))

    @rule(batch=st.lists(operations, min_size=2, max_size=5))
    def apply_anything(self, batch):
        self._submit(*batch)

    @rule(loops=st.lists(st.lists(groups, min_size=2, max_size=5, unique=True), min_size=1, max_size=3))
    def close_several_loops(self, loops):
        arcs = [arc for loop in loops for arc in zip(loop, [*loop[1:], loop[0]], strict=True)]
        self._submit_placed(*self.model.valid(self._placed(JoinArc(parent, child) for parent, child in arcs)))

    @precondition(lambda self: self.model.arcs)
    @rule(places=st.lists(st.integers(0, 50), min_size=2, max_size=8))
    def leave_several(self, places):
        self._submit_placed(*self.model.valid(map(self._leave, places)))

    @rule(group=groups)
    def delete_with_all_arcs(self, group):
        self._submit(DeleteGroup(group, force=True))

    @rule(arcs=st.lists(st.tuples(groups, st.sampled_from((*GROUPS, *PROCESSES)), costs), max_size=8))
    def join_at_once(self, arcs):
        """Submit several joins without waiting, each an update of its own. All can be done, in any order."""
        wanted = self._placed(JoinArc(parent, child, cost=cost) for parent, child, cost in arcs)
        joined = self.model.valid(wanted)
        tickets = [self.universe.submit(join) for join in joined]
        self.universe.cluster.run()
        for ticket in tickets:
            assert isinstance(self.universe.cluster.answers[ticket], Committed)
        if joined:
            self._accept(self.model.after(joined))

    @precondition(lambda self: self.requests)
    @rule(place=st.integers(0, 50))
    def repeat_a_request(self, place):
        request_id, batch, first = self.requests[place % len(self.requests)]
        assert self.universe.ask(*batch, request_id=request_id) == first
        self.changed = True

    @rule()
    def restart(self):
        self.universe.restart()
        self.changed = True

    # What must hold

    @invariant()
    def everything_is_as_the_model_says(self):
        if not self.changed:
            return
        self.changed = False
        universe, model = self.universe, self.model
        assert universe.groups() == model.groups
        assert universe.arcs() == {arc: cost for arc, (_, cost) in model.arcs.items()}
        universe.check_invariants()
        assert universe.virtual_nodes() == model.loops
        assert universe.arc_states() == model.states
        assert universe.blocked() == {arc: names for arc, names in model.blocked.items() if universe.home(arc[1])}
        self._check_answers()

    def _check_answers(self):
        universe, model = self.universe, self.model
        for group in sorted(model.groups):
            members = model.members[group]
            answer = universe.resolve(group)
            assert answer.processes == sorted(members & model.processes)
            assert answer.groups == sorted(members & model.groups)
            assert universe.pathnames(group) == model.pathnames(group)
            self._check_description(group)
            for member in self.ids.values():
                assert universe.check(group, member) is (member in members)
        for member in self.ids.values():
            groups_of = sorted(group for group in model.groups if member in model.members[group])
            assert universe.memberships(member) == groups_of

    def _check_description(self, group):
        told, model = self.universe.describe(group, pathname_limit=0), self.model
        derived = model.derived[group]
        assert (None if told.virtual_node is None else set(told.virtual_node.components)) == (
            derived if derived in model.loops else None
        )
        assert [(arc.node_id, arc.kind, arc.state) for arc in told.parents] == [
            (parent, NodeKind.GROUP, model.states[parent, group])
            for parent, child in sorted(model.arcs)
            if child == group
        ]
        assert [(arc.node_id, arc.kind, arc.state) for arc in told.children] == [
            (child, model.kind(child), model.states[group, child])
            for parent, child in sorted(model.arcs)
            if parent == group
        ]

    def _submit(self, *batch):
        self._submit_placed(*self._placed(batch))

    def _submit_placed(self, *batch):
        if not batch:
            return
        expected = self.model.after(batch)
        request_id = f"request {len(self.requests)}"
        outcome = self.universe.ask(*batch, request_id=request_id)
        self.requests.append((request_id, batch, outcome))
        self.changed = True
        if not isinstance(expected, Model):
            self._check_refusal(outcome, batch, *expected)
            return
        assert isinstance(outcome, Committed), outcome
        self._check_effects(outcome.effects, expected_effects(self.model, expected, self.universe.servers))
        self._accept(expected)

    def _check_refusal(self, outcome, batch, reason, number):
        assert isinstance(outcome, Refusal), outcome
        assert outcome.facts.get("operation") == (str(number) if len(batch) > 1 else None)
        assert outcome.reason is reason

    def _check_effects(self, effects, expected):
        assert Counter((effect.kind, effect.groups) for effect in effects) == expected
        for effect in effects:
            owners = {subnet_of(name) for name in effect.groups}.intersection(self.universe.servers)
            if all(self.universe.home(name) for name in effect.groups):
                assert effect.servers == tuple(sorted(owners))
            else:
                assert owners <= set(effect.servers) <= self.universe.servers.keys()

    def _accept(self, model):
        self.model = model
        self.changed = True

    def _placed(self, batch):
        return [self._place(operation) for operation in batch]

    def _place(self, operation):
        match operation:
            case CreateGroup(group) | DeleteGroup(group):
                return replace(operation, group=self.ids[group])
            case JoinArc(parent, child) | LeaveArc(parent, child):
                return replace(operation, parent=self.ids[parent], child=self.ids[child])

    def _leave(self, place, kind=ChildKind.AUTO):
        arcs = sorted(self.model.arcs)
        return LeaveArc(*arcs[place % len(arcs)], kind)


TestEveryPlacement = PlacementMachine.TestCase
