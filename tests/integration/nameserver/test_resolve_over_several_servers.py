"""Resolutions of groups whose members are spread over servers: the same answer from any, each server asked once."""

import asyncio

import pytest

from shadowtree import InvalidRequest, Unavailable
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


async def test_the_walk_comes_to_every_node_once_over_arcs_of_all_servers(servers):
    found = await servers["c.example"].client.resolve(A, walk=True)
    heads = [step.target for step in found.walk]
    assert sorted(heads) == sorted({*EVERYBODY, B, C})
    assert {(step.source, step.target, step.state) for step in found.walk} >= {(A, B, "normal"), (B, C, "shadow")}


async def test_what_is_out_of_reach_is_named(servers):
    servers.cut_off("c.example")
    found = await servers["a.example"].client.resolve(A, groups=True)
    assert found.unreachable == (C,)
    assert found.processes == ("ann@a.example", "zoe@elsewhere.example")


async def test_a_resolution_whose_root_is_out_of_reach_is_refused(servers):
    servers.cut_off("a.example")
    with pytest.raises(Unavailable):
        await servers["b.example"].client.resolve(A, timeout=2)


async def test_an_ordered_resolution_does_not_say_that_it_is_whole_while_a_server_is_out_of_reach(servers):
    servers.cut_off("c.example")
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
    while not all(task.done() for task in changing):
        for consistency in ("datagram", "ordered"):
            found = await servers["b.example"].client.resolve(A, consistency=consistency, timeout=20)
            assert set(found.processes) - {f"m@{subnet}" for subnet in servers.by_subnet} == set(EVERYBODY)
            assert not found.in_transition
    await asyncio.gather(*changing)
