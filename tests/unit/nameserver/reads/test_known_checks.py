"""Checks by the short way: they answer as the long way does, or leave the answer to it."""

import asyncio
from itertools import product
from types import SimpleNamespace

import grpc
import pytest

from nameserver.calls.places import REQUEST_BYTES_LIMIT, SMALL_REQUEST_BYTES, Places, RequestBytes, admitted_shortly
from nameserver.reads.known_checks import KNOWN_PAIRS_LIMIT, KnownCode
from nameserver.telemetry.calls_under_way import CallsUnderWay
from shadowtree.v1 import name_service_pb2 as m
from tests.fakes.name_servers import NameServers

A, B = "a.example", "b.example"
ARCS = [
    (f"top@{A}", f"mid@{A}"),
    (f"mid@{A}", f"low@{A}"),
    (f"low@{A}", f"mid@{A}"),
    (f"low@{A}", f"ann@{A}"),
    (f"low@{A}", "stranger@people.example"),
    (f"other@{A}", f"bob@{A}"),
]
GROUPS = [f"top@{A}", f"mid@{A}", f"low@{A}", f"other@{A}", f"none@{A}", f"TOP@{A.upper()}", f"ann@{A}", "no name", ""]
MEMBERS = [*GROUPS, f"bob@{A}", f"Bob@{A}", f"nobody@{A}", "stranger@people.example", "somebody@people.example"]


async def make_graph(server):
    for group in sorted({group for group, _ in ARCS}):
        await server.client.create_group(group)
    for arc in ARCS:
        await server.client.join(*arc)
    await server.run_loop.until_durable()


async def long_way(server, request):
    """Return Check's answer by the handler without a short way, or the code and text of its error."""
    try:
        return await server.names.Check(request)
    except grpc.aio.AioRpcError as error:
        return error.code(), error.details()


def short_way(server, request):
    found = server.short_ways["Check"](request.SerializeToString())
    return None if found is None else m.CheckResponse.FromString(found)


def known_by_short_way(server, request):
    """Return the answers and the revision."""
    response = m.CheckKnownResponse.FromString(server.short_ways["CheckKnown"](request.SerializeToString()))
    return response.answers, response.revision


@pytest.mark.parametrize("subnets", [(A,), (A, B)], ids=["alone", "two servers"])
async def test_both_ways_answer_alike(subnets):
    async with NameServers(*subnets) as servers:
        server = servers[A]
        await make_graph(server)
        revision = (await server.client.create_group(f"late@{A}")).revision
        await server.run_loop.until_durable()
        answered = 0
        for group, member in product(GROUPS, MEMBERS):
            for at_least in ("", revision):
                request = m.CheckRequest(group=group, member=member, at_least_revision=at_least)
                expected, found = await long_way(server, request), short_way(server, request)
                assert found is None or found == expected, request
                answered += found is not None
        known = [f"top@{A}", f"mid@{A}", f"low@{A}", f"other@{A}", f"late@{A}", f"ann@{A}", f"bob@{A}"]
        # All that needs nobody else goes the short way: groups that exist, and members of this server.
        assert answered >= 2 * 4 * len(known[:4] + known[5:])


@pytest.mark.parametrize("subnets", [(A,), (A, B)], ids=["alone", "two servers"])
async def test_pairs_together_are_answered_as_one_by_one(subnets):
    async with NameServers(*subnets) as servers:
        server = servers[A]
        await make_graph(server)
        pairs = list(product(GROUPS, MEMBERS))
        groups, members = zip(*pairs, strict=True)
        request = m.CheckKnownRequest(groups=groups, members=members)
        response = await server.names.CheckKnown(request)
        assert server.short_ways["CheckKnown"](request.SerializeToString()) == response.SerializeToString()
        assert len(response.answers) == len(pairs)
        for (group, member), answer in zip(pairs, response.answers, strict=True):
            expected = await long_way(server, m.CheckRequest(group=group, member=member))
            if answer in (KnownCode.YES, KnownCode.NO):
                assert expected == m.CheckResponse(is_member=answer == KnownCode.YES, revision=response.revision)
            is_foreign = member.endswith("people.example") and len(subnets) > 1
            assert (answer == KnownCode.OTHERS_KNOW_MORE) is is_foreign


async def test_the_short_way_answers_by_what_is_durable_while_more_is_being_written():
    async with NameServers(A) as servers:
        server = servers[A]
        await make_graph(server)
        request = m.CheckRequest(group=f"top@{A}", member=f"bob@{A}")
        together = m.CheckKnownRequest(groups=[request.group], members=[request.member])
        before = (await long_way(server, request)).revision  # The ancestors of bob are known from this line on.
        writing = asyncio.ensure_future(server.client.join(f"top@{A}", f"other@{A}"))
        while not server.run_loop.undurable_records():
            await asyncio.sleep(0)
        assert short_way(server, request) == m.CheckResponse(is_member=False, revision=before)
        assert known_by_short_way(server, together) == (bytes([KnownCode.NO]), before)
        after = (await writing).revision
        assert await long_way(server, request) == m.CheckResponse(is_member=True, revision=after)
        assert short_way(server, request) == m.CheckResponse(is_member=True, revision=after)
        assert known_by_short_way(server, together) == (bytes([KnownCode.YES]), after)


@pytest.mark.parametrize(
    "asked",
    [
        {"explain": True},
        {"at_least_revision": "77@a.example"},
        {"at_least_revision": "no revision"},
    ],
)
async def test_what_may_wait_or_says_more_goes_the_long_way(asked):
    async with NameServers(A) as servers:
        await make_graph(servers[A])
        request = m.CheckRequest(group=f"top@{A}", member=f"ann@{A}", **asked)
        assert short_way(servers[A], request) is None
        columns = {"groups": [request.group], "members": [request.member]}
        if not request.explain:
            response = await servers[A].names.CheckKnown(
                m.CheckKnownRequest(**columns, at_least_revision=request.at_least_revision)
            )
            assert response.answers == bytes([KnownCode.UNANSWERED])
        assert all(way(b"\xff") is None for way in servers[A].short_ways.values())


async def test_what_others_may_know_better_goes_the_long_way():
    async with NameServers(A, B) as servers:
        server = servers[A]
        await make_graph(server)
        await servers[B].client.create_group(f"above@{B}")
        await servers[B].client.join(f"above@{B}", f"top@{A}")
        request = m.CheckRequest(group=f"other@{A}", member=f"ann@{A}")
        assert await long_way(server, request) == short_way(server, request)
        server.out_of_reach.add(B)
        assert short_way(server, request) is None
        response = await server.names.CheckKnown(m.CheckKnownRequest(groups=[request.group], members=[request.member]))
        assert response.answers == bytes([KnownCode.UNANSWERED])


async def test_a_request_that_is_too_long_or_torn_is_refused():
    async with NameServers(A) as servers:
        for groups, members, code in (
            (["g@a.example"], [], grpc.StatusCode.INVALID_ARGUMENT),
            (
                [f"g@{A}"] * (KNOWN_PAIRS_LIMIT + 1),
                [f"m@{A}"] * (KNOWN_PAIRS_LIMIT + 1),
                grpc.StatusCode.RESOURCE_EXHAUSTED,
            ),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as raised:
                await servers[A].names.CheckKnown(m.CheckKnownRequest(groups=groups, members=members))
            assert raised.value.code() is code


class Told:
    """Notes what it is told of calls."""

    def __init__(self):
        self.heard = []

    def began(self, context):
        self.heard.append("began")

    def ended(self, context, code, seconds):
        self.heard.append(code)


async def test_a_call_that_went_the_short_way_is_told_as_any_other():
    calls, told = CallsUnderWay(), Told()
    calls.followers.append(lambda service, method, kind: told)

    async def long(request, context):
        return b"long"

    handlers = {"Check": grpc.unary_unary_rpc_method_handler(long)}
    followed = calls.followed("Names", handlers, {"Check": lambda request: request or None})
    assert await followed["Check"].unary_unary(b"short", SimpleNamespace()) == b"short"
    assert await followed["Check"].unary_unary(b"", SimpleNamespace()) == b"long"
    assert told.heard == ["began", grpc.StatusCode.OK] * 2
    assert calls.count == 0


def test_no_call_goes_the_short_way_that_the_long_way_would_refuse():
    places, request_bytes = Places(1), RequestBytes()
    answer = admitted_shortly(lambda request: request, places=places, request_bytes=request_bytes)
    assert answer(b"request") == b"request"
    with places.one():
        assert answer(b"request") is None
    assert answer(b"request") == b"request"
    whole, rest = divmod(REQUEST_BYTES_LIMIT - 3, SMALL_REQUEST_BYTES - 1)
    for size in (*[SMALL_REQUEST_BYTES - 1] * whole, rest):
        request_bytes.add(size)
    assert answer(b"request") is None
