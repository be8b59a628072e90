"""Random graphs over random placements: several servers together give the answers of one server alone."""

from collections import Counter

import networkx
from hypothesis import given
from hypothesis import strategies as st

from namegraph.model.names import NodeId, subnet_of
from namegraph.model.operations import CreateGroup, JoinArc
from namegraph.model.target_sets import Target
from resolver.membership import MembershipResolver
from tests.cores import CoreUnderTest
from tests.several_servers import Servers

SUBNETS = ("a.example", "b.example", "c.example", "d.example", "e.example")
FOREIGN = ("yan@far.example", "zoe@far.example")


@st.composite
def placed_graphs(draw):
    """(subnets, groups, {(parent, child): cost}): children are groups, native or foreign processes."""
    subnets = SUBNETS[: draw(st.integers(1, len(SUBNETS)))]
    homes = st.sampled_from(subnets)
    groups = [NodeId(f"g{number}@{draw(homes)}") for number in range(draw(st.integers(1, 9)))]
    processes = [NodeId(f"p{number}@{draw(homes)}") for number in range(3)] + list(map(NodeId, FOREIGN))
    arcs = st.tuples(st.sampled_from(groups), st.sampled_from([*groups, *groups, *processes]))
    drawn = draw(st.dictionaries(arcs, st.integers(0, 2), max_size=25))
    return subnets, groups, {arc: cost for arc, cost in drawn.items() if arc[0] != arc[1]}


def joins(arcs):
    return [JoinArc(parent, child, cost=cost) for (parent, child), cost in arcs.items()]


@given(placed_graphs())
def test_the_parts_unite_to_what_is_reached_without_duplicates_and_with_one_request_for_each_server(placed):
    subnets, groups, arcs = placed
    servers = Servers(*subnets, groups=groups)
    if arcs:
        servers.do(*joins(arcs))
    graph = networkx.DiGraph(list(arcs))
    graph.add_nodes_from(groups)
    for originator in groups:
        reached = networkx.descendants(graph, originator)
        if any(originator in loop and len(loop) > 1 for loop in networkx.strongly_connected_components(graph)):
            reached.add(originator)
        homes = {subnet_of(name) for name in reached if subnet_of(name) in subnets} | {subnet_of(originator)}

        first, resolved, told = servers.resolve(originator)
        assert sorted([*resolved.processes, *resolved.groups]) == sorted(reached)
        assert set(resolved.groups) == reached.intersection(groups)
        assert not resolved.unreachable
        if told:
            reports = Counter(name for part in told for name in [*part.processes, *part.groups])
            assert {name for name, count in reports.items() if count > 1} <= set(FOREIGN)
            assert resolved.duplicates == sum(reports.values()) - len(reports)
            assert first.walks == min(2, len(homes))
        assert first.requests == first.walks * (len(homes) - 1)

        again, same, told = servers.resolve(originator)
        assert same is resolved
        assert told == []
        assert again.walks == 1
        assert again.requests == len(homes) - 1


@given(placed_graphs())
def test_the_walk_put_together_from_all_servers_is_the_walk_of_one_server(placed):
    subnets, groups, arcs = placed
    alone = CoreUnderTest(*subnets)
    alone.do(*map(CreateGroup, groups))
    servers = Servers(*subnets, groups=groups)
    if arcs:
        alone.do(*joins(arcs))
        servers.do(*joins(arcs))
    resolver = MembershipResolver(alone.core)
    for originator in groups:
        _, resolved, _ = servers.resolve(originator, with_steps=True)
        assert list(resolved.walk) == list(resolver.walk(originator))


@given(placed_graphs(), st.data())
def test_a_set_has_whom_some_target_has_and_none_of_its_exceptions_and_each_name_travels_as_for_one_group(placed, data):
    subnets, groups, arcs = placed
    servers = Servers(*subnets, groups=groups)
    if arcs:
        servers.do(*joins(arcs))
    some = st.lists(st.sampled_from(groups), max_size=2, unique=True).map(lambda names: tuple(sorted(names)))
    targets = tuple(data.draw(st.lists(st.builds(Target, st.sampled_from(groups), some), min_size=1, max_size=4)))
    members = {name: set(members_of(servers, name)) for target in targets for name in (target.name, *target.excluding)}
    expected = {}
    for place, target in enumerate(targets):
        for member in members[target.name].difference(*(members[name] for name in target.excluding)):
            expected.setdefault(member, place)
    root = data.draw(st.sampled_from(sorted(servers.parts)))

    first, resolved, told = servers.resolve_set(targets, root=root)
    firsts = (*resolved.process_firsts, *resolved.group_firsts)
    names = (*resolved.processes, *resolved.groups)
    if len(targets) > 1 or targets[0].excluding:
        assert dict(zip(names, firsts, strict=True)) == expected
    assert sorted(names) == sorted(expected)
    assert list(resolved.processes) == sorted(resolved.processes)
    reports = Counter(name for part in told for name in [*part.processes, *part.groups])
    assert {name for name, count in reports.items() if count > 1} <= set(FOREIGN)

    again, same, told = servers.resolve_set(targets, root=root)
    assert (same, told, again.walks) == (resolved, [], 1)
    assert again.requests == first.requests // first.walks


def members_of(servers, group):
    _, resolved, _ = servers.resolve(group)
    return [*resolved.processes, *resolved.groups]
