"""Checks among organisations: a "yes" needs the word of the home of each arc, a "no" that of both homes."""

from dataclasses import replace

import pytest

import shadowtree
from nameserver.reads.confirmed_arcs import REMEMBERED_SECONDS
from nameserver.reads.local_check import LocalChecks, PairFinding
from nameserver.reads.part_rules import require_own_nodes
from nameserver.wire.resolve_part import NotAPartError
from resolver.parts import InDoubt, Parts, ServerPart, Unchanged
from resolver.plans import OnwardNodes
from tests.fakes.name_servers import NameServers

A, B, C, H = "a.example", "b.example", "c.example", "h.example"
ADMINS, TEAM, STAFF, LAB = f"admins@{A}", f"team@{B}", f"staff@{H}", f"lab@{C}"
ANN, MALLORY, BOB = f"ann@{H}", f"mallory@{H}", f"bob@{A}"


@pytest.fixture
async def servers():
    """admins@a -> team@b -> staff@h -> ann@h, and admins@a -> lab@c -> bob@a; no server believes another one."""
    async with NameServers(A, B, C, H) as servers:
        names = servers[A].client
        for group in (ADMINS, TEAM, STAFF, LAB):
            await names.create_group(group)
        for parent, child in ((ADMINS, TEAM), (TEAM, STAFF), (STAFF, ANN), (ADMINS, LAB), (LAB, BOB)):
            await names.join(parent, child)
        for server in servers:
            server.unbelieved = frozenset(servers.by_subnet) - {server.core.server}
        servers.calls()
        yield servers


def lie(monkeypatch, liar, *, finding, pathname=()):
    """Let one server give a finding about all pairs, with a pathname."""
    findings, true_pathname = LocalChecks.findings, LocalChecks.pathname

    def forged(self, groups, members, *, settles):
        if self._core.server == liar:
            return bytearray([finding]) * len(groups)
        return findings(self, groups, members, settles=settles)

    def forged_pathname(self, group, member):
        return list(pathname) if self._core.server == liar else true_pathname(self, group, member)

    monkeypatch.setattr(LocalChecks, "findings", forged)
    monkeypatch.setattr(LocalChecks, "pathname", forged_pathname)


async def everywhere(servers, group, member):
    """Return the answers of all servers, by Check and by CheckBulk. None for an uncertain answer."""
    found = set()
    for server in servers:
        try:
            found.add((await server.client.check(group, member)).is_member)
        except shadowtree.Unavailable:
            found.add(None)
        found.update([check.is_member async for check in server.client.check_many([(group, member)])])
    return found


@pytest.mark.parametrize(
    ("group", "member", "answer"),
    [
        (ADMINS, ANN, True),
        (ADMINS, STAFF, True),
        (TEAM, ANN, True),
        (ADMINS, BOB, True),
        (LAB, BOB, True),
        (STAFF, ANN, True),
        (ADMINS, MALLORY, False),
        (TEAM, BOB, False),
        (STAFF, BOB, False),
        (ADMINS, "nobody@nowhere.example", False),
    ],
)
async def test_honest_servers_give_one_answer_everywhere(servers, group, member, answer):
    assert await everywhere(servers, group, member) == {answer}
    assert [server.contradicted for server in servers] == [[]] * 4


async def test_a_yes_is_explained_by_a_confirmed_pathname(servers):
    for server in servers:
        explained = await server.client.check(ADMINS, ANN, explain=True)
        assert explained.pathname == (ADMINS, TEAM, STAFF, ANN)


async def test_a_yes_is_confirmed_by_the_homes_of_its_arcs_and_then_remembered(servers):
    assert (await servers[C].client.check(ADMINS, ANN)).is_member
    assert servers.calls() == {A: ["ConfirmArcs"], B: ["ConfirmArcs"], H: ["CheckPart"]}
    assert (await servers[C].client.check(ADMINS, ANN)).is_member
    assert servers.calls() == {H: ["CheckPart"]}


async def test_a_confirmed_arc_is_asked_for_again_after_some_seconds(servers, monkeypatch):
    """The home of ann goes on telling a membership that has ended."""
    checking = servers[C]
    assert (await checking.client.check(ADMINS, ANN)).is_member
    lie(monkeypatch, H, finding=PairFinding.BELOW, pathname=(ADMINS, TEAM, STAFF, ANN))
    await servers[A].client.leave(ADMINS, TEAM)
    clock = checking.run_loop._clock
    monkeypatch.setattr(checking.run_loop, "_clock", lambda: clock() + REMEMBERED_SECONDS)
    with pytest.raises(shadowtree.Unavailable):
        await checking.client.check(ADMINS, ANN)


async def test_a_member_of_this_server_is_asked_about_elsewhere_only_for_arcs_of_others(servers):
    """bob@a is in admins@a by way of lab@c alone."""
    assert (await servers[A].client.check(ADMINS, BOB)).is_member
    assert servers.calls() == {C: ["ConfirmArcs"]}
    await servers[A].client.join(ADMINS, BOB)
    servers.calls()
    assert (await servers[A].client.check(ADMINS, BOB)).is_member
    assert not (await servers[A].client.check(ADMINS, f"other@{A}")).is_member
    assert servers.calls() == {}


@pytest.mark.parametrize(
    "pathname",
    [
        (ADMINS, MALLORY),
        (ADMINS, TEAM, MALLORY),
        (ADMINS, LAB, STAFF, MALLORY),
        (STAFF, MALLORY),
        (),
        (ADMINS, "no name", MALLORY),
        (ADMINS, f"x@{H}", MALLORY),
        (MALLORY, ADMINS),
    ],
)
async def test_a_forged_yes_is_no_yes_anywhere_but_at_the_liar(servers, monkeypatch, pathname):
    lie(monkeypatch, H, finding=PairFinding.BELOW, pathname=pathname)
    for server in (servers[A], servers[B], servers[C]):
        with pytest.raises(shadowtree.Unavailable) as refused:
            await server.client.check(ADMINS, MALLORY)
        assert H in refused.value.unreachable
        assert [check.is_member async for check in server.client.check_many([(ADMINS, MALLORY)])] == [None]


async def test_a_server_that_is_contradicted_is_counted(servers, monkeypatch):
    lie(monkeypatch, H, finding=PairFinding.BELOW, pathname=(ADMINS, MALLORY))
    with pytest.raises(shadowtree.Unavailable):
        await servers[B].client.check(ADMINS, MALLORY)
    assert servers[B].contradicted == [H]


async def test_a_forged_yes_about_an_own_group_of_the_liar_is_its_own_matter(servers, monkeypatch):
    lie(monkeypatch, H, finding=PairFinding.BELOW, pathname=(STAFF, MALLORY))
    assert (await servers[A].client.check(STAFF, MALLORY)).is_member


async def test_a_no_of_the_members_home_needs_that_of_the_groups_home(servers, monkeypatch):
    """The home of ann denies her memberships; that of her group knows the arc to her."""
    await servers[B].client.join(TEAM, ANN)
    lie(monkeypatch, H, finding=PairFinding.NOT_BELOW)
    for server in (servers[A], servers[B], servers[C]):
        assert (await server.client.check(TEAM, ANN)).is_member


async def test_without_the_home_of_an_arc_or_of_the_group_nothing_is_certain(servers):
    await servers.cut_off(A)
    for group, member in ((ADMINS, ANN), (ADMINS, MALLORY)):
        with pytest.raises(shadowtree.Unavailable) as refused:
            await servers[C].client.check(group, member)
        assert A in refused.value.unreachable
    assert (await servers[C].client.check(TEAM, ANN)).is_member


async def test_believed_servers_are_asked_as_before(servers):
    for server in servers:
        server.unbelieved = frozenset()
    assert (await servers[C].client.check(ADMINS, ANN)).is_member
    assert not (await servers[C].client.check(ADMINS, MALLORY)).is_member
    assert servers.calls() == {H: ["CheckPart", "CheckPart"]}


async def test_a_resolution_over_organisations_is_that_of_believed_servers(servers):
    for server in servers:
        assert (await server.client.resolve(ADMINS)).processes == (ANN, BOB)


@pytest.mark.parametrize("forged", [{"groups": (LAB,)}, {"processes": (BOB,)}, {"processes": ("no name",)}])
async def test_a_server_that_tells_nodes_of_another_one_is_left_out_of_a_resolution(servers, monkeypatch, forged):
    answer = Parts.answer

    def forging(self, request, prepared=None):
        told = answer(self, request, prepared)
        if self._core.server == H and isinstance(told, ServerPart):
            return replace(told, **forged)
        return told

    monkeypatch.setattr(Parts, "answer", forging)
    found = await servers[A].client.resolve(ADMINS)
    assert found.processes == (BOB,)
    assert found.unreachable == (STAFF,)


OWNERS = {"a.example": "a.example", "h.example": "h.example"}


def judge(part):
    slices = require_own_nodes(part, H, lambda names: [OWNERS.get(name.rpartition("@")[2]) for name in names])
    for _ in slices:
        pass


@pytest.mark.parametrize(
    "part",
    [
        Unchanged(),
        InDoubt(None),
        ServerPart("v", (ANN, "x@nowhere.example"), (STAFF,)),
        ServerPart("v", (), (), onward=(OnwardNodes(A, (ADMINS,), (BOB,)),), apart=(OnwardNodes(A, (ADMINS,), ()),)),
    ],
)
def test_a_server_may_tell_its_own_nodes_processes_of_no_server_and_where_its_arcs_lead(part):
    judge(part)


@pytest.mark.parametrize(
    "part",
    [
        ServerPart("v", (BOB,), ()),
        ServerPart("v", (), ("x@nowhere.example",)),
        ServerPart("v", (), (ADMINS,)),
        ServerPart("v", ("Ann@H.EXAMPLE",), ()),
        ServerPart("v", (), (), onward=(OnwardNodes(A, (STAFF,), ()),)),
        ServerPart("v", (), (), onward=(OnwardNodes(A, (), ("x@nowhere.example",)),)),
        ServerPart("v", (), (), apart=(OnwardNodes(A, (), (ANN,)),)),
    ],
)
def test_any_other_node_makes_a_part_useless(part):
    with pytest.raises(NotAPartError):
        judge(part)
