"""Resolutions at servers that judge their callers: members over told arcs, and groups that are hidden."""

import pytest

from namegraph import ANONYMOUS, OPERATOR, Preset
from shadowtree.v1 import name_service_pb2 as messages
from tests.fakes.askers import REFUSED, Asker
from tests.fakes.name_servers import NameServers

A, B = "a.example", "b.example"
ANN, BOB, EVE, ZOE = f"ann@{A}", f"bob@{B}", f"eve@{B}", f"zoe@{B}"
TOP, OPEN, TEAM, SECRET, UNDER = f"top@{A}", f"open@{A}", f"team@{A}", f"secret@{A}", f"under@{A}"
NEAR, FAR, CLOSED = f"near@{B}", f"far@{B}", f"closed@{B}"
ORDERED = messages.ResolveRequest.CONSISTENCY_ORDERED


@pytest.fixture
async def servers():
    """top@a has secret@a, open@a and near@b; secret@a has under@a with ann@a, and far@b with eve@b; open@a is on a loop
    with top@a and has zoe@b; near@b has bob@b."""
    async with NameServers(A, B) as servers:
        names = servers[A].client
        for group in (TOP, OPEN, TEAM, SECRET, UNDER, NEAR, FAR, CLOSED):
            await names.create_group(group)
        for parent, child in (
            (TOP, SECRET), (TOP, OPEN), (TOP, NEAR), (SECRET, UNDER), (SECRET, FAR), (UNDER, ANN), (FAR, EVE),
            (OPEN, ZOE), (OPEN, TOP), (NEAR, BOB), (TEAM, OPEN), (TEAM, CLOSED), (CLOSED, EVE),
        ):  # fmt: skip
            await names.join(parent, child)
        await servers[A].set_policy(SECRET, Preset.SECRET)
        await servers[B].set_policy(CLOSED, Preset.SECRET)
        for server in servers:
            server.protect()
        yield servers


async def test_without_closed_groups_the_answer_is_whole(servers):
    for principal, server in ((ANONYMOUS, A), (ZOE, B), (ANN, A)):
        asker = Asker(servers[server], principal)
        assert await asker.resolve(NEAR) == ([BOB], [], [], [])
        assert await asker.resolve(UNDER) == ([ANN], [], [], [])
        assert await asker.resolve(NEAR, UNDER) == ([ANN, BOB], [], [], [])


async def test_members_below_a_closed_group_are_not_told(servers):
    # near@b is of another server, which might lead to what is closed.
    expected = ([ZOE], [NEAR, OPEN, SECRET, TOP], [(NEAR, 0), (SECRET, 0)], [])
    for principal, server in ((ANONYMOUS, A), (ZOE, B), (ANN, A)):
        assert await Asker(servers[server], principal).resolve(TOP) == expected


async def test_an_operator_is_told_what_is_of_its_server(servers):
    found = await Asker(servers[A], OPERATOR).resolve(TOP)
    assert found == ([ANN, BOB, EVE, ZOE], [FAR, NEAR, OPEN, SECRET, TOP, UNDER], [], [])


async def test_another_server_tells_nothing_of_its_part_if_a_group_there_is_closed(servers):
    found = await Asker(servers[A], OPERATOR).resolve(TEAM)
    groups = sorted((CLOSED, NEAR, OPEN, SECRET, TOP, UNDER, FAR))
    assert found == ([ANN, ZOE], groups, [(CLOSED, 0), (FAR, 0), (NEAR, 0)], [])


@pytest.mark.parametrize(
    "fields", [{"consistency": ORDERED}, {"walk": True}, {"counts": True}], ids=["ordered", "walk", "counts"]
)
async def test_answers_that_rest_on_all_arcs_are_refused(servers, fields):
    found = await Asker(servers[A], ANN).resolve(TOP, **fields)
    assert found[:2] == (REFUSED, "PERMISSION_DENIED")
    found = await Asker(servers[A], ANN).resolve(TOP, NEAR)
    assert found[:2] == (REFUSED, "PERMISSION_DENIED")


@pytest.mark.parametrize(("principal", "server"), [(ANONYMOUS, A), (ZOE, B), (BOB, B)])
async def test_a_group_out_of_view_is_resolved_as_a_missing_one(servers, principal, server):
    await servers[A].set_policy(SECRET, Preset.SECRET, view=["nobody"])
    asker = Asker(servers[server], principal)
    for fields in ({}, {"direct": True}, {"counts": True}, {"consistency": ORDERED}):
        of_secret, of_missing = await asker.resolve(SECRET, **fields), await asker.resolve(f"missing@{A}", **fields)
        assert of_secret[:2] == (REFUSED, "NOT_FOUND")
        assert of_secret[2] == of_missing[2].replace("missing@", "secret@")
    of_secret, of_missing = await asker.resolve(SECRET, NEAR), await asker.resolve(f"missing@{A}", NEAR)
    assert of_secret == (REFUSED, "NOT_FOUND", of_missing[2].replace("missing@", "secret@"))


async def test_direct_members_need_read(servers):
    assert await Asker(servers[A], ANN).resolve(TOP, direct=True) == ([], [NEAR, OPEN, SECRET], [], [])
    assert (await Asker(servers[A], ANN).resolve(SECRET, direct=True))[:2] == (REFUSED, "PERMISSION_DENIED")


async def test_a_kept_part_is_told_to_no_caller_that_may_not_know_it(servers):
    assert (await Asker(servers[A], OPERATOR).resolve(TOP))[0] == [ANN, BOB, EVE, ZOE]
    assert (await Asker(servers[A], ANN).resolve(TOP))[0] == [ZOE]
    await servers[B].set_policy(NEAR, Preset.SECRET)
    assert BOB not in (await Asker(servers[A], OPERATOR).resolve(TOP))[0]
