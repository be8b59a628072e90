"""Direct members and direct memberships, asked of any server, also while one server is out of reach."""

import pytest

import shadowtree
from nameserver.reads.memberships import MembershipCalls
from shadowtree.v1 import name_service_pb2 as m
from tests.fakes.name_servers import NameServers

TOP, MIDDLE, LOW, SIDE = "top@a.example", "middle@b.example", "low@c.example", "side@a.example"
ANN, BOB, GUEST = "ann@c.example", "bob@b.example", "guest@elsewhere.example"
ARCS = ((TOP, MIDDLE), (MIDDLE, LOW), (LOW, TOP), (TOP, ANN), (LOW, ANN), (MIDDLE, BOB), (SIDE, GUEST), (LOW, GUEST))


@pytest.fixture
async def servers():
    """top -> middle -> low -> top, a loop over three servers."""
    async with NameServers("a.example", "b.example", "c.example") as all_servers:
        names = all_servers["a.example"].client
        for group in (TOP, MIDDLE, LOW, SIDE):
            await names.create_group(group)
        for parent, child in ARCS:
            await names.join(parent, child)
        yield all_servers


@pytest.fixture
def clients(servers):
    return [servers[subnet].client for subnet in ("a.example", "b.example", "c.example")]


async def test_every_server_tells_the_direct_members_of_a_group_on_a_loop(clients):
    for names in clients:
        for group in (TOP, MIDDLE, LOW):
            found = await names.resolve(group, groups=True, direct=True)
            children = {child for parent, child in ARCS if parent == group}
            assert {*found.processes, *found.groups} == children
            assert found.groups == tuple(sorted(children & {TOP, MIDDLE, LOW}))
            assert found.is_complete


async def test_every_server_tells_the_groups_that_somebody_is_directly_in(clients):
    for names in clients:
        for member in (TOP, MIDDLE, LOW, ANN, BOB, GUEST, "nobody@elsewhere.example"):
            found = await names.memberships(member, direct=True)
            assert found.groups == tuple(sorted(parent for parent, child in ARCS if child == member))
            assert found.unreachable == ()


async def test_what_a_server_out_of_reach_may_know_is_named(servers, clients):
    await servers.cut_off("c.example")
    servers.calls()
    for names in clients[:2]:
        assert (await names.memberships(BOB, direct=True)).unreachable == ()
        of_ann = await names.memberships(ANN, direct=True)
        assert (of_ann.groups, of_ann.unreachable) == ((TOP,), ("c.example",))
        of_guest = await names.memberships(GUEST, direct=True)
        assert (of_guest.groups, of_guest.unreachable) == ((SIDE,), ("c.example",))
        of_top = await names.memberships(TOP, direct=True)
        assert of_top.unreachable == ("c.example",)
        assert (await names.resolve(TOP, groups=True, direct=True)).processes == (ANN,)
        of_middle = await names.resolve(MIDDLE, groups=True, direct=True)
        assert (of_middle.processes, of_middle.groups, of_middle.unreachable) == ((BOB,), (LOW,), (LOW,))
        assert (await names.resolve(MIDDLE, direct=True)).is_complete
        with pytest.raises(shadowtree.Unavailable) as caught:
            await names.resolve(LOW, direct=True)
        assert caught.value.unreachable == ("c.example",)


async def test_what_does_not_go_with_direct_members_is_refused(clients):
    for names in clients:
        for arguments in (
            {"walk": True},
            {"consistency": "ordered"},
            {"excluding": [SIDE]},
            {"named_servers": ["a.example"]},
        ):
            with pytest.raises(shadowtree.InvalidRequest):
                await names.resolve(TOP, direct=True, **arguments)
        with pytest.raises(shadowtree.InvalidRequest):
            await names.resolve([TOP, SIDE], direct=True)
        with pytest.raises(shadowtree.GroupNotFound):
            await names.resolve(ANN, direct=True)


async def test_a_server_of_the_last_release_is_no_source_of_direct_memberships(monkeypatch):
    """It does not know the field, and tells of all groups."""
    as_it_is = MembershipCalls.list_memberships

    async def without_the_field_at_b(self, request, context):
        is_of_b = self._core.server == "b.example"
        return await as_it_is(self, m.ListMembershipsRequest(member=request.member) if is_of_b else request, context)

    monkeypatch.setattr(MembershipCalls, "list_memberships", without_the_field_at_b)
    async with NameServers("a.example", "b.example") as servers:
        first, second = servers["a.example"].client, servers["b.example"].client
        await first.create_group(TOP)
        await first.join(TOP, BOB)
        found = await first.memberships(BOB, direct=True)
        assert (found.groups, found.unreachable) == ((TOP,), ("b.example",))
        with pytest.raises(shadowtree.ShadowtreeError, match="older than this client"):
            await second.memberships(BOB, direct=True)
