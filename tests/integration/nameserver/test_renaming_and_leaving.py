"""Groups are renamed, and members leave everywhere, through any of several servers."""

import pytest

import shadowtree
from tests.fakes.name_servers import NameServers

A, B, C, NEW = "a@a.example", "b@b.example", "c@c.example", "new@a.example"
ANN, GUEST = "ann@b.example", "guest@elsewhere.example"
SUBNETS = ("a.example", "b.example", "c.example")


@pytest.fixture
async def servers():
    """a -> b -> c -> a, a loop over three servers. ann and guest are in all of them."""
    async with NameServers(*SUBNETS) as all_servers:
        names = all_servers["a.example"].client
        for group in (A, B, C):
            await names.create_group(group)
        for parent, child in ((A, B), (B, C), (C, A)):
            await names.join(parent, child)
        for group in (A, B, C):
            await names.join(group, ANN)
            await names.join(group, GUEST)
        yield all_servers


@pytest.fixture
def clients(servers):
    return [servers[subnet].client for subnet in SUBNETS]


@pytest.mark.parametrize("number", range(3))
async def test_any_server_renames_a_group_with_its_companions(clients, number):
    names = clients[number]
    await names.create_group("a+owners@a.example")
    await names.join("a+owners@a.example", ANN)
    change = await names.rename_group(A, NEW)
    for other in clients:
        found = await other.resolve(NEW, groups=True, at_least_revision=change.revision)
        assert (found.processes, found.groups) == ((ANN, GUEST), (B, C, NEW))
        assert (await other.memberships(A)).groups == ()
        assert (await other.groups("a.example")).groups == ("new+owners@a.example", NEW)


async def test_every_question_about_the_old_name_is_told_the_new_one(clients):
    await clients[0].rename_group(A, NEW)
    for names in clients:
        for ask in (
            lambda names=names: names.resolve(A),
            lambda names=names: names.resolve(A, direct=True),
            lambda names=names: names.resolve([A, B]),
            lambda names=names: names.resolve(B, excluding=[A]),
            lambda names=names: names.resolve(A, consistency="ordered"),
            lambda names=names: names.check(A, ANN),
            lambda names=names: names.check(A, GUEST),
            lambda names=names: names.check(A, "nobody@a.example"),
            lambda names=names: names.describe(A),
            lambda names=names: names.join(A, ANN),
            lambda names=names: names.join(B, A),
            lambda names=names: names.join(B, A, "group"),
            lambda names=names: names.leave(A, ANN),
            lambda names=names: names.delete_group(A),
            lambda names=names: names.rename_group(A, "other@a.example"),
        ):
            with pytest.raises(shadowtree.GroupNotFound, match=f"renamed to {NEW}") as caught:
                await ask()
            assert caught.value.facts["renamed_to"] == NEW
        pairs = [(B, ANN), (A, ANN)]
        with pytest.raises(shadowtree.GroupNotFound, match=f"renamed to {NEW}"):
            _ = [each async for each in names.check_many(pairs)]


@pytest.mark.parametrize("number", range(3))
@pytest.mark.parametrize("member", [ANN, GUEST, A])
async def test_any_server_lets_a_member_leave_everywhere(clients, number, member):
    names = clients[number]
    direct = (await names.memberships(member, direct=True)).groups
    found = await names.leave_everywhere(member)
    assert found.left == direct
    for other in clients:
        left = await other.memberships(member, direct=True, at_least_revision=found.revision)
        assert left.groups == ()


@pytest.mark.parametrize("member", [ANN, GUEST])
async def test_only_the_groups_of_a_subnet_are_left(clients, member):
    assert (await clients[0].leave_everywhere(member, "C.Example")).left == (C,)
    assert (await clients[1].memberships(member, direct=True)).groups == (A, B)
    with pytest.raises(shadowtree.UnknownSubnet):
        await clients[0].leave_everywhere(member, "nowhere.example")


async def test_nothing_is_left_while_a_server_that_may_know_of_more_is_away(servers, clients):
    await servers.cut_off("c.example")
    for names in clients[:2]:
        for member in (ANN, GUEST):
            with pytest.raises(shadowtree.Unavailable) as caught:
                await names.leave_everywhere(member)
            assert caught.value.unreachable == ("c.example",)
            assert {A, B} <= {*(await names.memberships(member, direct=True)).groups}
    for member in (ANN, GUEST):
        assert (await clients[0].leave_everywhere(member, "b.example")).left == (B,)
        with pytest.raises(shadowtree.Unavailable):
            await clients[0].leave_everywhere(member, "c.example")


async def test_a_repeated_request_is_not_done_twice(clients):
    for number, names in enumerate(clients):
        again = {"request_id": f"once {number}"}
        first = await names.leave_everywhere(ANN, **again)
        assert first.left == (A, B, C)
        await names.join(A, ANN)
        assert await names.leave_everywhere(ANN, **again) == first
        for group in (B, C):
            await names.join(group, ANN)


async def test_a_name_that_joined_before_its_group_existed_is_taken_over_through_any_server(clients):
    for number, names in enumerate(clients):
        late = f"late{number}@a.example"
        for group in (A, B, C):
            await names.join(group, late)
        with pytest.raises(shadowtree.NameInUse, match="in use") as caught:
            await names.create_group(late)
        assert caught.value.facts["servers"].split() == [*SUBNETS]
        change = await names.create_group(late, take_over=True)
        await names.join(late, f"only{number}@b.example")
        for other in clients:
            found = await other.memberships(f"only{number}@b.example", at_least_revision=change.revision)
            assert found.groups == (A, B, C, late)
            assert (await other.memberships(late, direct=True)).groups == (A, B, C)
        with pytest.raises(shadowtree.GroupExists):
            await names.create_group(late, take_over=True)
        assert (await names.create_group(late, take_over=True, if_missing=True)).unchanged == (1,)
