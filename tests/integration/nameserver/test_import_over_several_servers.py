"""Any server takes a whole graph; the home of its first parent brings it to all as one update."""

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from nameserver.routing import import_chunks
from shadowtree.v1 import name_service_pb2 as m
from tests.fakes.name_servers import NameServers

GROUP, PROCESS = 1, 2
ROWS = [
    ("a1@a.example", "b1@b.example", GROUP),
    ("a1@a.example", "ann@c.example", PROCESS),
    ("b1@b.example", "c1@c.example", GROUP),
    ("b1@b.example", "guest@elsewhere.example", PROCESS),
    ("c1@c.example", "a1@a.example", GROUP),
    ("b2@b.example", "c2@c.example", GROUP),
]
ALONE = "alone@c.example"


@pytest.fixture
async def servers():
    async with NameServers("a.example", "b.example", "c.example") as all_servers:
        yield all_servers


def chunk_of(rows, groups=(), request_id="mine"):
    numbers = {}
    chunk = m.ImportChunk(
        request_id=request_id,
        parents=[numbers.setdefault(parent, len(numbers)) for parent, _, _ in rows],
        children=[numbers.setdefault(child, len(numbers)) for _, child, _ in rows],
        kinds=bytes(kind for _, _, kind in rows),
        groups=[numbers.setdefault(group, len(numbers)) for group in groups],
    )
    chunk.names.extend(numbers)
    return chunk


async def bring(server, rows=ROWS, groups=(ALONE,), request_id="mine"):
    return await server.names.Import(iter([chunk_of(rows, groups, request_id)]), timeout=20)


async def refused(call):
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    info = error_details_pb2.ErrorInfo()
    assert rpc_status.from_call(caught.value).details[0].Unpack(info)
    return info.reason, dict(info.metadata), caught.value.details()


async def exported(server):
    return [(arc.parent, arc.child) async for arc in server.client.export()]


async def test_the_home_of_the_first_parent_brings_it_to_all(servers):
    summary = await bring(servers["b.example"])
    assert (summary.arcs, summary.groups_created, summary.already_there) == (6, 6, 0)
    assert servers.calls() == {"a.example": ["Import"]}
    rows = sorted([*((parent, child) for parent, child, _ in ROWS), (ALONE, ""), ("c2@c.example", "")])
    for server in servers:
        assert await exported(server) == rows


async def test_a_loop_over_several_homes_comes_through_an_import(servers):
    summary = await bring(servers["b.example"])
    for server in servers:
        check = await server.client.check("a1@a.example", "a1@a.example", at_least_revision=summary.revision)
        assert check.is_member


async def test_repeated_through_another_server_under_the_same_id_it_is_answered_alike(servers):
    first = await bring(servers["a.example"])
    for server in servers:
        assert await bring(server) == first


async def test_repeated_under_another_id_it_finds_everything_there(servers):
    await bring(servers["a.example"])
    again = await bring(servers["c.example"], request_id="other")
    assert (again.arcs, again.groups_created, again.already_there) == (0, 0, 6)


async def test_a_graph_of_one_other_home_goes_there(servers):
    rows = [("c1@c.example", "c2@c.example", GROUP), ("c2@c.example", "ann@c.example", PROCESS)]
    through_a = await bring(servers["a.example"], rows, ())
    assert servers.calls() == {"c.example": ["Import"]}
    assert await bring(servers["c.example"], rows, ()) == through_a
    assert servers.calls() == {}


async def test_it_travels_in_pieces(servers, monkeypatch):
    monkeypatch.setattr(import_chunks, "NAMES_OF_A_PIECE", 2)
    monkeypatch.setattr(import_chunks, "ARCS_OF_A_PIECE", 1)
    await bring(servers["a.example"])
    assert len(await exported(servers["a.example"])) == 8


@pytest.mark.parametrize(
    ("rows", "groups", "reason"),
    [
        ([*ROWS, ("b1@b.example", "g@elsewhere.example", GROUP)], (), "UNKNOWN_SUBNET"),
        (ROWS, ("g@elsewhere.example",), "UNKNOWN_SUBNET"),
        ([*ROWS, ("b1@b.example", "b1@b.example", GROUP)], (), "SELF_ARC"),
        ([*ROWS, ("b1@b.example", "a1@a.example", PROCESS)], (), "WRONG_KIND"),
    ],
)
async def test_a_graph_that_cannot_be_is_refused_and_nothing_is_done(servers, rows, groups, reason):
    for server in servers:
        assert (await refused(bring(server, rows, groups)))[0] == reason
    assert await exported(servers["a.example"]) == []


async def test_a_home_out_of_reach_is_noticed_before_anything_is_done(servers):
    await servers.cut_off("c.example")
    reason, facts, _ = await refused(bring(servers["a.example"]))
    assert (reason, facts["unreachable"]) == ("UNAVAILABLE", "c.example")
    assert servers.calls() == {}
    assert (await servers["a.example"].client.groups("a.example")).groups == ()


async def test_what_one_home_cannot_do_is_done_nowhere(servers):
    # What is a process at its home cannot become a group.
    names = servers["c.example"].client
    await names.create_group("other@c.example")
    await names.join("other@c.example", "c1@c.example", kind="process")
    before = await exported(servers["a.example"])
    reason, facts, message = await refused(bring(servers["a.example"]))
    assert (reason, facts["group"]) == ("NAME_IN_USE", "c1@c.example")
    assert message.startswith("c1@c.example is a process that is in use (in ")
    assert await exported(servers["a.example"]) == before
    await names.leave("other@c.example", "c1@c.example")
    summary = await bring(servers["a.example"], request_id="again")
    assert (summary.arcs, summary.already_there) == (6, 0)
    assert len(await exported(servers["b.example"])) == 9
