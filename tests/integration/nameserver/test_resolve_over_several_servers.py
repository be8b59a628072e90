"""Resolutions of groups with members at several servers: the same answer from any server, each server asked once."""

import asyncio
import itertools
from dataclasses import replace

import pytest

from nameserver.reads import distributed_resolve, peer_queries
from nameserver.transport.peer_link import ANSWER_BYTES_LIMIT
from nameserver.wire.target_sets import SET_GROUPS_LIMIT
from shadowtree import GroupNotFound, InvalidName, InvalidRequest, MemberOf, Target, Unavailable
from tests.fakes.name_servers import NameServers

A, B, C = "a@a.example", "b@b.example", "c@c.example"
ARCS = [
    (A, B),
    (B, C),
    (C, B),
    (A, C),
    (B, "ann@a.example"),
    (C, "ann@a.example"),
    (C, "carl@c.example"),
    (B, "zoe@elsewhere.example"),
    (C, "zoe@elsewhere.example"),
]
EVERYBODY = ("ann@a.example", "carl@c.example", "zoe@elsewhere.example")


@pytest.fixture
async def servers():
    """a -> (b <-> c) over three servers, and processes of every sort in them."""
    async with NameServers("a.example", "b.example", "c.example") as all_servers:
        names = all_servers["a.example"].client
        for group in (A, B, C):
            await names.create_group(group)
        for parent, child in ARCS:
            await names.join(parent, child)
        all_servers.calls()
        yield all_servers


@pytest.mark.parametrize("consistency", ["datagram", "ordered"])
async def test_every_server_gives_the_same_answer(servers, consistency):
    for server in servers:
        found = await server.client.resolve(A, groups=True, consistency=consistency)
        assert (found.processes, found.groups) == (EVERYBODY, (B, C))
        assert not found.unreachable
        assert not found.in_transition
        on_loop = await server.client.resolve(B, groups=True, consistency=consistency)
        assert on_loop.groups == (B, C)


async def test_each_server_is_asked_once_a_walk_and_one_walk_is_enough_once_it_was_agreed(servers):
    root = servers["a.example"].client
    await root.resolve(A)
    assert servers.calls() == {"b.example": ["ResolvePart"] * 2, "c.example": ["ResolvePart"] * 2}
    await root.resolve(A)
    assert servers.calls() == {"b.example": ["ResolvePart"], "c.example": ["ResolvePart"]}


async def test_a_change_elsewhere_is_seen_by_the_next_resolution(servers):
    root = servers["a.example"].client
    await root.resolve(A)
    change = await servers["b.example"].client.join(C, "new@c.example")
    found = await root.resolve(A, at_least_revision=change.revision)
    assert "new@c.example" in found.processes
    await servers["b.example"].client.leave(C, "new@c.example")
    assert (await root.resolve(A)).processes == EVERYBODY


async def test_a_part_that_is_too_large_for_a_message_leaves_its_server_out_alone(servers, monkeypatch):
    sent = peer_queries.part_chunks

    def too_large(answer, revision, basis):
        yield from sent(answer, revision, basis)
        if "carl@c.example" in getattr(answer, "processes", ()):
            yield bytes(ANSWER_BYTES_LIMIT + 1)

    monkeypatch.setattr(peer_queries, "part_chunks", too_large)
    found = await servers["a.example"].client.resolve(A, groups=True)
    assert found.unreachable == (C,)
    assert B in found.groups
    assert "ann@a.example" in found.processes
    assert "carl@c.example" not in found.processes


async def test_a_server_that_changes_its_part_in_each_walk_is_named_and_the_rest_is_told(servers, monkeypatch):
    """Every letter of it is legal: only the version of its part differs each time."""
    monkeypatch.setattr(distributed_resolve, "CHANGING_SECONDS", 0.2)
    numbers, sent = itertools.count(), peer_queries.part_chunks

    def changing(answer, revision, basis):
        if "carl@c.example" in getattr(answer, "processes", ()):
            answer = replace(answer, version=f"{next(numbers)}")
        return sent(answer, revision, basis)

    monkeypatch.setattr(peer_queries, "part_chunks", changing)
    found = await servers["a.example"].client.resolve(A, groups=True, timeout=60)
    assert (found.unreachable, found.in_transition) == ((C,), False)
    assert found.groups == (B,)
    assert "ann@a.example" in found.processes
    monkeypatch.undo()
    assert (await servers["a.example"].client.resolve(A)).processes == EVERYBODY


async def test_an_answer_is_confirmed_by_each_of_its_servers_once_until_one_of_them_changes(servers):
    root, other = servers["a.example"].client, servers["c.example"].client
    basis = (await root.resolve(A)).basis
    servers.calls()
    assert await root.confirm(basis)
    assert servers.calls() == {"b.example": ["TellBasis"], "c.example": ["TellBasis"]}
    assert await other.confirm(basis), "whoever is asked"
    await other.create_group("new@c.example")
    assert not await root.confirm(basis)
    assert await root.confirm((await root.resolve(A)).basis)


async def test_an_answer_of_one_server_rests_on_that_one_alone(servers):
    root = servers["a.example"].client
    await root.create_group("own@a.example")
    await root.join("own@a.example", "yan@elsewhere.example")
    basis = (await root.resolve(["own@a.example"], excluding=["own@a.example"])).basis
    await servers["c.example"].client.create_group("new@c.example")
    servers.calls()
    assert await root.confirm(basis)
    assert not servers.calls()


async def test_what_cannot_be_told_of_a_server_is_not_confirmed_and_what_is_incomplete_has_no_basis(servers):
    root = servers["a.example"].client
    basis = (await root.resolve(A)).basis
    assert (await root.resolve(A, named_servers=[])).basis == ""
    assert (await root.resolve(A, consistency="ordered")).basis == ""
    await servers.cut_off("c.example")
    assert not await root.confirm(basis)
    assert (await root.resolve(A)).basis == ""


@pytest.mark.parametrize(
    "basis", ["", " ", "/", "a.example/", "a.example/x", "nobody.example/1 a.example/1", "x" * 20_000]
)
async def test_what_is_no_basis_does_not_hold(servers, basis):
    assert not await servers["a.example"].client.confirm(basis)


async def test_a_basis_that_is_too_long_is_refused(servers):
    with pytest.raises(InvalidRequest):
        await servers["a.example"].client.confirm("x" * 20_001)


async def test_the_walk_comes_to_every_node_once_over_arcs_of_all_servers(servers):
    found = await servers["c.example"].client.resolve(A, walk=True)
    heads = [step.target for step in found.walk]
    assert sorted(heads) == sorted({*EVERYBODY, B, C})
    assert {(step.source, step.target, step.state) for step in found.walk} >= {(A, B, "normal"), (B, C, "shadow")}


async def test_what_is_out_of_reach_is_named(servers):
    await servers.cut_off("c.example")
    found = await servers["a.example"].client.resolve(A, groups=True)
    assert found.unreachable == (C,)
    assert found.processes == ("ann@a.example", "zoe@elsewhere.example")


async def test_a_resolution_whose_root_is_out_of_reach_is_refused(servers):
    await servers.cut_off("a.example")
    with pytest.raises(Unavailable):
        await servers["b.example"].client.resolve(A, timeout=2)


async def test_an_ordered_resolution_does_not_say_that_it_is_whole_while_a_server_is_out_of_reach(servers):
    await servers.cut_off("c.example")
    found = await servers["a.example"].client.resolve(A, consistency="ordered", timeout=20)
    assert found.unreachable and "carl@c.example" not in found.processes


async def test_an_ordered_resolution_does_not_walk(servers):
    with pytest.raises(InvalidRequest):
        await servers["a.example"].client.resolve(A, walk=True, consistency="ordered")


async def test_resolutions_while_others_change_the_graph_miss_nobody_who_stays(servers):
    async def change(server, member):
        for _ in range(10):
            await server.client.join(C, member)
            await server.client.leave(C, member)

    changing = [asyncio.ensure_future(change(server, f"m@{subnet}")) for subnet, server in servers.by_subnet.items()]
    complete = 0
    while not all(task.done() for task in changing) or not complete:
        for consistency in ("datagram", "ordered"):
            found = await servers["b.example"].client.resolve(A, consistency=consistency, timeout=20)
            assert not found.in_transition
            # Servers may lose one another for a while on a very busy machine. The answer names what it lacks then.
            if not found.unreachable:
                complete += 1
                assert set(found.processes) - {f"m@{subnet}" for subnet in servers.by_subnet} == set(EVERYBODY)
    await asyncio.gather(*changing)


# Sets of groups


async def test_a_set_has_each_member_once_with_the_first_group_that_has_it_from_any_server(servers):
    for server in servers:
        found = await server.client.resolve([C, A], groups=True)
        assert (found.processes, found.groups) == (EVERYBODY, (B, C))
        assert set(found.members) == {MemberOf(name, C) for name in (*EVERYBODY, B, C)}
        assert (found.group, found.targets) == (C, (Target(C), Target(A)))
        assert not found.unreachable


async def test_who_is_below_an_exception_is_left_out_and_a_guest_wherever_it_is_excepted(servers):
    root = servers["a.example"].client
    await root.create_group("list@a.example")
    await root.create_group("muted@c.example")
    for member in ("ann@a.example", "zoe@elsewhere.example", "yan@elsewhere.example", "carl@c.example"):
        await root.join("list@a.example", member)
    for member in ("zoe@elsewhere.example", "carl@c.example"):
        await root.join("muted@c.example", member)
    for server in servers:
        found = await server.client.resolve("list@a.example", excluding=["muted@c.example"])
        assert found.processes == ("ann@a.example", "yan@elsewhere.example")
        mixed = await server.client.resolve([Target("list@a.example", ["muted@c.example"]), B])
        assert mixed.processes == ("ann@a.example", "carl@c.example", "yan@elsewhere.example", "zoe@elsewhere.example")
        assert [member.group for member in mixed.members] == ["list@a.example", B, "list@a.example", B]


async def test_a_set_asks_each_server_once_a_walk_and_one_walk_is_enough_once_it_was_agreed(servers):
    root = servers["a.example"].client
    for walks in (2, 1):
        await root.resolve([A, B], excluding=[C])
        assert servers.calls() == {subnet: ["ResolvePart"] * walks for subnet in ("b.example", "c.example")}


async def test_one_group_is_asked_for_as_ever_however_it_is_written(servers):
    root = servers["b.example"].client
    found = await root.resolve([A])
    assert (found.processes, found.targets, found.members) == (EVERYBODY, (), ())
    assert servers.calls()["a.example"] == ["Resolve"]


@pytest.mark.parametrize(("targets", "excluding"), [([A, "no@c.example"], []), ([A, B], ["no@c.example"])])
async def test_a_group_of_a_set_that_its_home_does_not_know_is_named(servers, targets, excluding):
    with pytest.raises(GroupNotFound) as caught:
        await servers["a.example"].client.resolve(targets, excluding=excluding)
    assert caught.value.facts["group"] == "no@c.example"
    with pytest.raises(GroupNotFound, match="knows no server that owns the subnet"):
        await servers["a.example"].client.resolve([A, "g@nobody.example"])


async def test_of_a_set_the_homes_out_of_reach_are_named_and_why(servers):
    await servers.cut_off("c.example")
    found = await servers["a.example"].client.resolve([A, B], excluding=[C])
    assert found.unreachable == (C,)
    assert found.processes == ("ann@a.example", "zoe@elsewhere.example"), "nobody is known to be excepted"
    assert len(found.why_unreachable) == 1
    assert not found.is_complete


async def test_what_cannot_be_asked_of_a_set_is_refused(servers):
    root = servers["a.example"].client
    for options in ({"walk": True}, {"consistency": "ordered"}):
        with pytest.raises(InvalidRequest, match="datagram consistency alone"):
            await root.resolve([A, B], **options)
    with pytest.raises(InvalidRequest, match=f"at most {SET_GROUPS_LIMIT:,}"):
        await root.resolve([f"g{number}@a.example" for number in range(SET_GROUPS_LIMIT + 1)])
    with pytest.raises(InvalidRequest, match="at least one group"):
        await root.resolve([])
    with pytest.raises(InvalidName):
        await root.resolve([A, "nobody"])


async def test_sets_while_others_change_the_graph_miss_nobody_who_stays_and_tell_nobody_who_is_excepted(servers):
    async def change(server, member):
        for _ in range(10):
            await server.client.join(C, member)
            await server.client.leave(C, member)

    root = servers["b.example"].client
    await root.create_group("muted@b.example")
    await root.join("muted@b.example", "zoe@elsewhere.example")
    changing = [asyncio.ensure_future(change(server, f"m@{subnet}")) for subnet, server in servers.by_subnet.items()]
    while not all(task.done() for task in changing):
        found = await root.resolve([A, C], excluding=["muted@b.example"], timeout=20)
        assert set(found.processes) - {f"m@{subnet}" for subnet in servers.by_subnet} == {
            "ann@a.example",
            "carl@c.example",
        }
        assert not found.in_transition
    await asyncio.gather(*changing)


# Counts


async def test_who_is_not_to_be_named_is_counted_where_that_server_is_the_one_to_know(servers):
    root = servers["a.example"].client
    for member in ("abe@a.example", "cy@c.example"):
        await root.join(C, member)
    found = await root.resolve(A, named_servers=["a.example"])
    assert found.processes == ("abe@a.example", "ann@a.example")
    assert found.elsewhere == ()
    assert sorted((each.server, each.count) for each in found.counts) == [("b.example", 1), ("c.example", 2)]
    both = await root.resolve([B, A], named_servers=["a.example", "c.example"])
    assert set(both.processes) == {*EVERYBODY, "abe@a.example", "cy@c.example"}
    assert both.elsewhere == ("zoe@elsewhere.example",), "b has her, too"
    assert both.counts == ()
    assert set(both.members) == {MemberOf(name, B) for name in both.processes}


async def test_no_name_of_another_servers_process_is_told_where_it_is_counted(servers):
    root = servers["a.example"].client
    await servers["c.example"].client.join(C, "cy@c.example")
    found = await root.resolve([A], excluding=["b@b.example"], named_servers=[])
    assert (found.processes, found.counts) == ((), ())
    assert "cy@c.example" not in str(await root.resolve(C, named_servers=[]))


async def test_counts_say_what_is_out_of_reach(servers):
    await servers.cut_off("c.example")
    found = await servers["a.example"].client.resolve(A, named_servers=["a.example"])
    assert found.unreachable == (C,)
    assert [(each.server, each.count) for each in found.counts] == [("b.example", 1)]
