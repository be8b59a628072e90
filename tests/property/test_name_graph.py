"""One core against a brute-force model: random requests in random order make no difference between them."""

from collections import Counter
from contextlib import ExitStack
from itertools import pairwise
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from namegraph.graph.ancestor_sets import CACHE_LIMIT_BYTES, AncestorSets
from namegraph.graph.name_graph import ArcState
from namegraph.model.names import NodeId
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.outcomes import Committed, EffectKind
from namegraph.model.refusals import Reason, Refusal
from namegraph.model.rows import NodeKind
from resolver.census import Census
from resolver.membership import MembershipResolver
from simulation.checks.invariants import check_all
from tests.brute_force import Model, expected_effects
from tests.cores import CoreUnderTest

SUBNETS = ("a.example", "b.example")
GROUPS = [NodeId(f"{name}@{SUBNETS[place % 2]}") for place, name in enumerate("stuvwxyz")]
PROCESSES = [NodeId(name) for name in ("ann@a.example", "bob@b.example", "cid@far.example")]
HOMELESS = NodeId("group@far.example")
UNKNOWN = NodeId("nobody@a.example")
NAMES = [*GROUPS, *PROCESSES, HOMELESS]
PATHNAME_LIMIT = 1_000

groups = st.sampled_from(GROUPS)
names = st.sampled_from(NAMES)
kinds = st.sampled_from(ChildKind)
costs = st.sampled_from((0, 0, 0, 1, 2))
operations = st.one_of(
    st.builds(CreateGroup, names),
    st.builds(DeleteGroup, groups, st.booleans()),
    st.builds(JoinArc, groups, groups, st.just(ChildKind.AUTO), costs),
    st.builds(JoinArc, names, names, kinds, costs),
    st.builds(LeaveArc, groups, names, kinds),
)
rows = st.tuples(groups, names, st.sampled_from((1, 1, 2)))


def snapshot(core):
    """Return all of a core's state except its caches."""
    graph = core.graph
    return {
        "ids": list(graph.ids),
        "index": dict(graph.index),
        "kinds": bytes(graph.kinds),
        "versions": list(graph.versions),
        "children": [dict(arcs) for arcs in graph.children],
        "parents": [dict(arcs) for arcs in graph.parents],
        "tombstones": dict(graph.tombstones),
        "virtual_nodes": {number: (vn.vnid, vn.components) for number, vn in graph.virtual_nodes.items()},
        "virtual_node_of": {node: vn.number for node, vn in graph.virtual_node_of.items()},
        "counts": Census(core).counts(),
        "revision": core.revision,
    }


def since_start(core):
    """Return the state by which readers know that a copy is stale. It starts anew with the server."""
    graph = core.graph
    return graph.update_count, graph.group_changes, list(graph.changed_tails), graph.next_virtual_node


def named_arcs(core):
    """(parent, child) -> the arc's record, tombstones included."""
    graph = core.graph
    arcs = [*graph.present_arcs(), *graph.tombstones.values()]
    return {(graph.ids[arc.parent], graph.ids[arc.child]): arc for arc in arcs}


def check_answers(resolver, model):
    """Require the model's answer to every question about every name."""
    for group in sorted(model.groups):
        members = model.members[group]
        plan = resolver.resolve(group)
        assert list(plan.processes) == sorted(members & model.processes)
        assert list(plan.groups) == sorted(members & model.groups)
        check_walk(resolver, model, group)
        for name in [*NAMES, UNKNOWN]:
            assert resolver.check(group, name) is (name in members)
            check_proof(resolver.explain(group, name), model, group, name)
    for name in [*NAMES, UNKNOWN]:
        assert resolver.memberships(name) == sorted(group for group in model.groups if name in model.members[group])
    assert resolver.groups(subnet=None, after=None, limit=100) == sorted(model.groups)
    exported = {(row.parent, row.child): row.kind for row in resolver.export(subnet=None) if row.child}
    assert exported == model.view.arcs


def check_walk(resolver, model, group):
    reached = {group}
    for step in resolver.walk(group):
        assert step.tail in reached, "a walk goes on from where it is"
        assert step.head not in reached, f"{step.head} was visited twice"
        assert step.kind is model.kind(step.head)
        states = {model.states.get((step.tail, step.head))}
        if step.state is ArcState.SHADOW:
            states.add(model.states.get((step.head, step.tail)))
        assert step.state in states & {ArcState.NORMAL, ArcState.SHADOW}
        reached.add(step.head)
    assert reached == model.members[group] | {group}


def check_proof(chain, model, group, member):
    if member not in model.members[group]:
        assert chain == []
        return
    assert (chain[0], chain[-1]) == (group, member)
    assert all(arc in model.arcs for arc in pairwise(chain))
    assert len(chain) == model.proof_length(group, member) + 1


def check_descriptions(resolver, model, made_at):
    """Require each group's description to match the model. `made_at`: counter of the update that made each virtual
    node.
    """

    def label(derived):
        return f"{min(derived)}#{made_at[derived]}.{min(SUBNETS)}" if derived in made_at else min(derived)

    for group in sorted(model.groups):
        told = resolver.describe(group, pathname_limit=PATHNAME_LIMIT, told={})
        derived = model.derived[group]
        if len(derived) == 1:
            assert told.virtual_node is None
        else:
            assert told.virtual_node.components == tuple(sorted(derived))
            assert told.virtual_node.vnid == label(derived)
        assert [(arc.node_id, arc.kind, arc.state) for arc in told.parents] == [
            (parent, NodeKind.GROUP, model.states[parent, child])
            for parent, child in sorted(model.arcs)
            if child == group
        ]
        assert [(arc.node_id, arc.kind, arc.state) for arc in told.children] == [
            (child, model.kind(child), model.states[parent, child])
            for parent, child in sorted(model.arcs)
            if parent == group
        ]
        assert not told.rd_records_truncated
        records = sorted(
            (
                child,
                label(source),
                label(model.derived[child]),
                parent,
                tuple(sorted(model.ancestor_sets[min(source)])),
            )
            for (parent, child), blocked in model.blocked.items()
            if parent == group
            for source in model.sources(blocked)
        )
        assert [(r.child, r.source, r.sink, r.parent, r.ancestors) for r in told.rd_records] == records
        expected = {tuple(label(node) for node in path) for path in model.pathnames(group)}
        assert told.pathnames_truncated is (len(expected) > PATHNAME_LIMIT)
        if not told.pathnames_truncated:
            assert list(told.pathnames) == sorted(expected)
        few = resolver.describe(group, pathname_limit=1, told={})
        assert few.pathnames_truncated is (len(expected) > 1)
        assert set(few.pathnames) <= expected


def check_ancestor_sets(core, model):
    """Require equal sets from a cache that is too small for any set, one for only some, and the one kept through
    updates.
    """
    tiny = AncestorSets(core.graph, cache_limit_bytes=1)
    small = AncestorSets(core.graph, cache_limit_bytes=700)
    fresh = AncestorSets(core.graph)
    for name, node in core.graph.index.items():
        expected = {core.graph.index[above] for above in model.ancestor_sets.get(name, {name})}
        for sets in (tiny, small, fresh, core.ancestors):
            assert set(sets.of(node)) == expected
            assert sets.is_controlled(node) is (name in model.controlled)


def without_control(effects):
    return {key: count for key, count in effects.items() if key[0] not in (EffectKind.CONTROLLED, EffectKind.RELEASED)}


class NameGraphMachine(RuleBasedStateMachine):
    """Random updates. After each, everything that can be asked is compared with the model."""

    compares_control = True
    forgets_at_once = False

    @initialize(cache_limit_bytes=st.sampled_from((1, 400, 1_500, CACHE_LIMIT_BYTES)))
    def start(self, cache_limit_bytes):
        self.cache_limit_bytes = cache_limit_bytes
        self.server = CoreUnderTest(*SUBNETS, forgets_at_once=self.forgets_at_once)
        self.seldom_asked = CoreUnderTest(*SUBNETS, forgets_at_once=self.forgets_at_once)
        """Takes the same updates, but hardly any question, so that its ancestor sets are seldom all there."""
        self.model = Model(frozenset(SUBNETS))
        self.made_at = {}
        self.counter = 0
        self.imports = 0
        self.requests = []
        self.versions = Counter()
        self.changed = True
        self._attach()
        self._submit(*(CreateGroup(group) for group in GROUPS))

    def _attach(self):
        core = self.server.core
        core._context.ancestors = AncestorSets(core.graph, cache_limit_bytes=self.cache_limit_bytes)
        self.resolver = MembershipResolver(core)

    # What clients do

    @rule(group=names)
    def create(self, group):
        self._submit(CreateGroup(group))

    @rule(group=names, force=st.booleans())
    def delete(self, group, force):
        self._submit(DeleteGroup(group, force))

    @rule(parent=groups, child=groups, cost=costs)
    def join_groups(self, parent, child, cost):
        self._submit(JoinArc(parent, child, ChildKind.GROUP, cost))

    @rule(parent=groups, child=groups, cost=costs)
    def join_groups_again(self, parent, child, cost):
        self._submit(JoinArc(parent, child, ChildKind.AUTO, cost))

    @rule(parent=names, child=names, kind=kinds)
    def join_anything(self, parent, child, kind):
        self._submit(JoinArc(parent, child, kind))

    @precondition(lambda self: self.model.arcs)
    @rule(place=st.integers(0, 50), kind=st.sampled_from((ChildKind.AUTO, ChildKind.AUTO, ChildKind.GROUP)))
    def leave_what_is_there(self, place, kind):
        arcs = sorted(self.model.arcs)
        self._submit(LeaveArc(*arcs[place % len(arcs)], kind))

    @rule(parent=names, child=names, kind=kinds)
    def leave_anything(self, parent, child, kind):
        self._submit(LeaveArc(parent, child, kind))

    @rule(batch=st.lists(operations, max_size=10))
    def apply_what_can_be_done(self, batch):
        self._submit(*self.model.valid(batch))

    @rule(batch=st.lists(operations, max_size=5))
    def apply_anything(self, batch):
        self._submit(*batch)

    @rule(loops=st.lists(st.lists(groups, min_size=2, max_size=5, unique=True), min_size=1, max_size=3))
    def close_several_loops(self, loops):
        arcs = [arc for loop in loops for arc in zip(loop, [*loop[1:], loop[0]], strict=True)]
        self._submit(*self.model.valid(JoinArc(parent, child) for parent, child in arcs))

    @precondition(lambda self: self.model.arcs)
    @rule(places=st.lists(st.integers(0, 50), min_size=2, max_size=8))
    def leave_several(self, places):
        arcs = sorted(self.model.arcs)
        self._submit(*self.model.valid(LeaveArc(*arcs[place % len(arcs)]) for place in places))

    @rule(parent=groups, child=names, cost=costs, again=st.booleans())
    def leave_and_join_in_one(self, parent, child, cost, again):
        there = [LeaveArc(parent, child), JoinArc(parent, child, cost=cost), LeaveArc(parent, child)]
        self._submit(*self.model.valid(there if again else there[:2]))

    @rule(name=st.sampled_from([*GROUPS, *PROCESSES]), kept=st.integers(0, 3))
    def become_another_kind(self, name, kept):
        parents = sorted(parent for parent, child in self.model.arcs if child == name)
        if self.model.kind(name) is NodeKind.GROUP:
            change = [DeleteGroup(name, force=True)]
        else:
            change = [*(LeaveArc(parent, name) for parent in parents), CreateGroup(name)]
        self._submit(*self.model.valid([*change, *(JoinArc(parent, name) for parent in parents[:kept])]))

    @rule(table=st.lists(rows, max_size=12), alone=st.lists(groups, max_size=3, unique=True), fits=st.booleans())
    def bring(self, table, alone, fits):
        if fits:
            kept = []
            for row in table:
                if isinstance(self.model.brought([*kept, row], alone), Model):
                    kept.append(row)
            table = kept
        expected = self.model.brought(table, alone)
        before = self._everything()
        self.imports += 1
        request = f"import {self.imports}"
        outcome = self.server.bring(table, groups=alone, request_id=request)
        assert self.seldom_asked.bring(table, groups=alone, request_id=request) == outcome
        if not isinstance(expected, Model):
            assert outcome.reason in expected
            self._require_untouched(before, remembered=1)
            return
        assert isinstance(outcome, Committed), outcome
        assert outcome.effects == ()
        assert outcome.counts.arcs == len(expected.arcs) - len(self.model.arcs)
        assert outcome.counts.groups_created == len(expected.groups - self.model.groups)
        assert outcome.counts.already_there == len(table) - outcome.counts.arcs
        self._accept(expected, outcome)
        assert self.server.bring(table, groups=alone, request_id=request) == outcome

    @precondition(lambda self: self.requests)
    @rule(place=st.integers(0, 50))
    def repeat_a_request(self, place):
        request_id, batch, first = self.requests[place % len(self.requests)]
        self._require_no_effect(lambda: self.server.ask(*batch, request_id=request_id, now=9.0, deadline=1.0), first)

    @precondition(lambda self: self.requests)
    @rule(place=st.integers(0, 50))
    def use_a_request_id_again(self, place):
        request_id, batch, _ = self.requests[place % len(self.requests)]
        other = [*batch, CreateGroup(UNKNOWN)]
        self._require_no_effect(lambda: self.server.ask(*other, request_id=request_id), Reason.INVALID_REQUEST)

    @rule(group=groups)
    def come_too_late(self, group):
        late = DeleteGroup(group, force=True)
        self._require_no_effect(lambda: self.server.ask(late, now=2.0, deadline=1.0), Reason.DEADLINE_EXCEEDED)

    @rule(name=names, is_control_asked=st.booleans())
    def ask_one_question(self, name, is_control_asked):
        node = self.seldom_asked.core.graph.index.get(name)
        if node is None:
            return
        ancestors, ids = self.seldom_asked.core.ancestors, self.seldom_asked.core.graph.ids
        if is_control_asked:
            assert ancestors.is_controlled(node) is (name in self.model.controlled)
        else:
            assert {ids[above] for above in ancestors.of(node)} == self.model.ancestor_sets.get(name, {name})

    @rule()
    def restart(self):
        before = snapshot(self.server.core)
        self.server.restart()
        if not self.forgets_at_once:
            after = snapshot(self.server.core)
            assert {key: value for key, value in after.items() if value != before[key]} == {}
        self._attach()
        self.changed = True

    # What must hold

    @invariant()
    def everything_is_as_the_model_says(self):
        if not self.changed:
            return
        self.changed = False
        core, model = self.server.core, self.model
        check_all(core, model.view)
        check_answers(self.resolver, model)
        check_answers(MembershipResolver(core), model)
        check_descriptions(self.resolver, model, self.made_at)
        check_ancestor_sets(core, model)
        assert core.revision == f"{self.counter}@{min(SUBNETS)}"
        assert core.graph.virtual_node_count == len(model.loops)
        for arc, record in named_arcs(core).items():
            assert record.present is (arc in model.arcs)
            assert record.version % 2 == record.present, "an arc's version counts how often it was joined or left"
            assert self.forgets_at_once or record.version >= self.versions[arc]
            self.versions[arc] = record.version
            assert not record.present or record.cost == model.arcs[arc][1]

    def _submit(self, *batch):
        expected = self.model.after(batch)
        before = self._everything()
        request_id = f"request {len(self.requests)}"
        outcome = self.server.ask(*batch, request_id=request_id)
        assert self.seldom_asked.ask(*batch, request_id=request_id) == outcome
        self.requests.append((request_id, batch, outcome))
        if not isinstance(expected, Model):
            reason, number = expected
            assert isinstance(outcome, Refusal), outcome
            assert outcome.reason is reason
            assert outcome.facts.get("operation") == (str(number) if len(batch) > 1 else None)
            self._require_untouched(before, remembered=1)
            return
        assert isinstance(outcome, Committed), outcome
        effects = Counter((effect.kind, effect.groups) for effect in outcome.effects)
        wanted = expected_effects(self.model, expected)
        if not self.compares_control:
            effects, wanted = without_control(effects), without_control(wanted)
        assert effects == wanted
        assert all(effect.servers == (min(SUBNETS),) for effect in outcome.effects)
        self._accept(expected, outcome)

    def _accept(self, model, outcome):
        self.counter += 1
        assert outcome.revision == self.server.core.revision == f"{self.counter}@{min(SUBNETS)}"
        self.made_at = {loop: self.made_at.get(loop, self.counter) for loop in model.loops}
        self.model = model
        self.changed = True

    def _require_no_effect(self, ask, expected):
        before = self._everything()
        outcome = ask()
        assert (outcome.reason if isinstance(expected, Reason) else outcome) == expected
        self._require_untouched(before, remembered=0)

    def _everything(self):
        core, records = self.server.core, self.server.records
        rows = len(records.nodes), len(records.arcs), len(records.virtual_nodes), records.counter
        return snapshot(core), since_start(core), rows, len(records.outcomes)

    def _require_untouched(self, before, *, remembered):
        if self.forgets_at_once:
            # Whatever is remembered of an update lets something else be forgotten: the answers stay.
            self.changed = True
            return
        *state, outcomes = self._everything()
        assert state == list(before[:-1]), "a refused update left a trace"
        assert outcomes == before[-1] + remembered


class TightLimitsMachine(NameGraphMachine):
    """The same machine with every limit so low that the paths for large graphs are taken."""

    compares_control = False

    def __init__(self):
        super().__init__()
        self.patches = ExitStack()
        for limit, value in (
            ("namegraph.graph.apply_delta.AFFECTED_COMPARED_LIMIT", 2),
            ("namegraph.graph.name_graph.CHANGED_TAILS_LISTED_LIMIT", 1),
            ("namegraph.graph.virtual_node_changes.ANCESTOR_SETS_USED_LIMIT", 0),
            ("namegraph.graph.ancestor_sets.FORGOTTEN_AT_ONCE", 1),
            ("namegraph.graph.ancestor_sets.NODES_FOLLOWED_LIMIT", 1),
        ):
            self.patches.enter_context(patch(limit, value))

    def teardown(self):
        self.patches.close()


class ForgettingMachine(TightLimitsMachine):
    """The same machine where unneeded state is forgotten at once. No answer may differ."""

    forgets_at_once = True


TestNameGraph = NameGraphMachine.TestCase
TestNameGraphThatForgets = ForgettingMachine.TestCase
TestNameGraphWithTightLimits = TightLimitsMachine.TestCase


def state_of(server):
    """Return the state that must not depend on the order or the grouping of updates."""
    graph = server.core.graph
    resolver = MembershipResolver(server.core)
    return {
        "loops": {tuple(sorted(graph.ids[node] for node in vn.components)) for vn in graph.virtual_nodes.values()},
        "states": {
            (graph.ids[arc.parent], graph.ids[arc.child]): (graph.arc_state(arc), arc.cost)
            for arc in graph.present_arcs()
        },
        "kinds": {name: graph.kind(node) for name, node in graph.index.items()},
        "answers": {
            group: (resolver.resolve(group).processes, resolver.resolve(group).groups, tuple(resolver.walk(group)))
            for group in resolver.groups(subnet=None, after=None, limit=100)
        },
        "memberships": {name: resolver.memberships(name) for name in NAMES},
    }


table_rows = st.tuples(groups, st.sampled_from([*GROUPS, *PROCESSES])).filter(lambda arc: arc[0] != arc[1])


@given(arcs=st.lists(table_rows, unique=True, max_size=40), split=st.integers(0, 40), data=st.data())
def test_an_import_and_a_batch_give_the_graph_of_their_arcs_one_by_one_in_any_order(arcs, split, data):
    one_by_one, in_a_batch, imported, in_two_imports = (CoreUnderTest(*SUBNETS) for _ in range(4))
    for parent, child in data.draw(st.permutations(arcs), label="order"):
        for group in {parent, child}.intersection(GROUPS).difference(one_by_one.core.graph.index):
            one_by_one.create(group)
        one_by_one.join(parent, child)
    mentioned = sorted({name for arc in arcs for name in arc}.intersection(GROUPS))
    batch = [*map(CreateGroup, mentioned), *(JoinArc(parent, child) for parent, child in arcs)]
    if batch:
        in_a_batch.do(*batch)
    table = [(parent, child, 1 if child in GROUPS else 2) for parent, child in arcs]
    assert imported.bring(table).counts.arcs == len(arcs)
    in_two_imports.bring(table[:split])
    counts = in_two_imports.bring(table[: split + 5] + table[split:]).counts
    assert counts.already_there == len(table[: split + 5] + table[split:]) - len(table[split:])
    expected = state_of(one_by_one)
    assert state_of(in_a_batch) == expected
    assert state_of(imported) == expected
    assert state_of(in_two_imports) == expected


@given(first=st.lists(table_rows, unique=True, max_size=40), second=st.lists(table_rows, unique=True, max_size=15))
def test_leaving_all_at_once_gives_the_graph_of_leaving_one_by_one(first, second):
    table = [(parent, child, 1 if child in GROUPS else 2) for parent, child in [*first, *second]]
    at_once, one_by_one = CoreUnderTest(*SUBNETS), CoreUnderTest(*SUBNETS)
    for server in (at_once, one_by_one):
        server.bring(table, groups=GROUPS)
    if second:
        at_once.do(*(LeaveArc(parent, child) for parent, child in second))
    for parent, child in reversed(second):
        one_by_one.leave(parent, child)
    assert state_of(at_once) == state_of(one_by_one)
