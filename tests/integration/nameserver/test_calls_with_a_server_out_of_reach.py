"""With one server out of reach, the others answer as far as they can, and name the missing server."""

import pytest

import shadowtree
from shadowtree.v1 import name_service_pb2 as m
from tests.fakes.name_servers import NameServers

TOP, MIDDLE, LOW = "top@a.example", "middle@b.example", "low@c.example"
ALONE, EMPTY, OVER = "alone@b.example", "empty@a.example", "over@a.example"
ANN, CY, BOB, GUEST = "ann@c.example", "cy@c.example", "bob@b.example", "guest@elsewhere.example"


@pytest.fixture
async def servers():
    """top -> middle -> low -> ann, guest; middle -> cy; alone -> guest; c is out of reach."""
    async with NameServers("a.example", "b.example", "c.example") as all_servers:
        names = all_servers["a.example"].client
        for group in (TOP, MIDDLE, LOW, ALONE, EMPTY):
            await names.create_group(group)
        for parent, child in ((TOP, MIDDLE), (MIDDLE, LOW), (MIDDLE, CY), (LOW, ANN), (LOW, GUEST), (ALONE, GUEST)):
            await names.join(parent, child)
        await all_servers.cut_off("c.example")
        all_servers.calls()
        yield all_servers


@pytest.fixture
def reached(servers):
    return [servers["a.example"].client, servers["b.example"].client]


async def test_a_call_for_its_groups_is_refused_and_names_it(servers, reached):
    for names in reached:
        for call in (
            lambda names=names: names.create_group("new@c.example"),
            lambda names=names: names.join(LOW, BOB),
            lambda names=names: names.describe(LOW),
            lambda names=names: names.resolve(LOW),
            lambda names=names: names.groups("c.example"),
        ):
            with pytest.raises(shadowtree.Unavailable) as caught:
                await call()
            assert caught.value.unreachable == ("c.example",)
    with pytest.raises(shadowtree.Unavailable):
        _ = [arc async for arc in reached[0].export("c.example")]


async def test_lists_and_exports_hold_the_rest_and_say_what_is_missing(servers, reached, tmp_path):
    for names in reached:
        listed = await names.groups()
        assert (listed.groups, listed.unreachable) == ((ALONE, EMPTY, MIDDLE, TOP), ("c.example",))
        with pytest.raises(shadowtree.Unavailable) as caught:
            await names.export_file(tmp_path / "graph.tsv")
        assert caught.value.unreachable == ("c.example",)
        exported = await names.export_file(tmp_path / "graph.tsv", partial=True)
        assert exported == shadowtree.ExportSummary(5, ("c.example",))
        assert [path.name for path in tmp_path.iterdir()] == ["graph.tsv.partial"]
        arcs = names.export()
        assert [(await anext(arcs)).parent for _ in range(5)] == [ALONE, EMPTY, MIDDLE, MIDDLE, TOP]
        with pytest.raises(shadowtree.Unavailable) as caught:
            await anext(arcs)
        assert caught.value.unreachable == ("c.example",)


async def test_spellings_hold_what_is_known_and_name_who_may_know_of_more(servers, reached):
    for names in reached:
        found = await names.spellings(["Guest@elsewhere.example"])
        assert (found.processes, found.unreachable) == (((GUEST,),), ("c.example",))


@pytest.mark.parametrize(
    ("group", "member", "answer"),
    [
        # Its arcs to processes out of reach still prove it.
        (TOP, CY, True),
        (MIDDLE, CY, True),
        (ALONE, GUEST, True),
        # Below the group all is within reach.
        (ALONE, ANN, False),
        (ALONE, "nobody@elsewhere.example", False),
        (EMPTY, "nobody@c.example", False),
        (TOP, BOB, False),
        (MIDDLE, TOP, False),
        (LOW, BOB, False),
        # Below the group something is out of reach, where only that server could tell.
        (TOP, ANN, None),
        (TOP, GUEST, None),
        # A group there may have left, or be deleted.
        (TOP, LOW, None),
        (MIDDLE, LOW, None),
        (MIDDLE, "nobody@elsewhere.example", None),
        # Whether this group exists, only that server knows.
        ("unknown@c.example", BOB, None),
    ],
)
async def test_a_check_is_uncertain_only_where_that_server_could_change_the_answer(
    servers, reached, group, member, answer
):
    for names in reached:
        (check,) = [check async for check in names.check_many([(group, member)])]
        assert check.is_member is answer
        assert check.unreachable == (("c.example",) if answer is None else ())
        if answer is None:
            with pytest.raises(shadowtree.Unavailable) as caught:
                await names.check(group, member, explain=True)
            assert caught.value.unreachable == ("c.example",)
        else:
            found = await names.check(group, member, explain=True)
            assert (found.is_member, bool(found.pathname)) == (answer, answer)


@pytest.mark.parametrize("member", [ANN, LOW, "nobody@c.example", "nobody@elsewhere.example"])
async def test_who_is_in_no_group_below_is_no_member_whoever_is_out_of_reach(servers, reached, member):
    names = servers["a.example"].client
    await names.create_group(OVER)
    await names.join(OVER, ALONE)
    for names in reached:
        assert (await names.check(OVER, member)).is_member is False
        asked = [(OVER, member), (TOP, member), (OVER, GUEST)]
        answers = [check.is_member async for check in names.check_many(asked)]
        assert answers == [False, None, True]
    # As soon as something of the silent server is below, it may know better.
    await servers["b.example"].client.join(ALONE, MIDDLE)
    for names in reached:
        with pytest.raises(shadowtree.Unavailable):
            await names.check(OVER, member)


async def test_a_group_that_is_whole_without_the_server_out_of_reach_is_checked_by_resolving_it(servers):
    names = servers["a.example"].client
    await names.create_group(OVER)
    await names.join(OVER, ALONE)
    await names.check(OVER, "nobody@elsewhere.example")
    servers.calls()
    for member, is_below in (("nobody@elsewhere.example", False), (GUEST, True)):
        assert (await names.check(OVER, member)).is_member is is_below
        assert servers.calls() == {"b.example": ["ResolvePart"]}


async def test_an_unknown_group_of_a_server_within_reach_is_still_not_found(servers, reached):
    for names in reached:
        for member in (ANN, GUEST, BOB):
            with pytest.raises(shadowtree.GroupNotFound):
                await names.check("unknown@b.example", member)


async def test_memberships_hold_what_others_know_and_name_who_was_silent(servers, reached):
    for names in reached:
        found = await names.memberships(LOW)
        assert (found.groups, found.unreachable) == ((MIDDLE, TOP), ("c.example",))
        found = await names.memberships(GUEST)
        assert (found.groups, found.unreachable) == ((ALONE,), ("c.example",))
        found = await names.memberships(MIDDLE)
        assert (found.groups, found.unreachable) == ((TOP,), ())


async def test_a_foreign_member_of_a_group_that_is_all_here_costs_no_call(servers):
    names = servers["b.example"].client
    assert not await names.check(ALONE, "nobody@elsewhere.example")
    assert await names.check(ALONE, GUEST)
    assert servers.calls() == {}


async def test_a_server_that_was_never_met_is_named_by_its_subnet():
    async with NameServers("a.example", "b.example", unmet=["far.example"]) as servers:
        names = servers["a.example"].client
        await names.create_group(TOP)
        await names.create_group(MIDDLE)
        await names.join(TOP, MIDDLE)
        listed = await names.groups()
        assert (listed.groups, listed.unreachable) == ((MIDDLE, TOP), ("far.example",))
        found = await names.memberships("someone@far.example")
        assert (found.groups, found.unreachable) == ((), ("far.example",))
        with pytest.raises(shadowtree.Unavailable) as caught:
            await names.check("unknown@far.example", MIDDLE)
        assert caught.value.unreachable == ("far.example",)
        # It has nothing below this group.
        for member in ("someone@far.example", GUEST):
            assert (await names.check(TOP, member)).is_member is False
        with pytest.raises(shadowtree.Unavailable) as caught:
            await names.create_group("new@far.example")
        assert caught.value.unreachable == ("far.example",)


async def test_servers_that_disagree_about_an_owner_refuse_instead_of_asking_in_circles():
    async with NameServers("a.example", "b.example", unmet=["c.example"]) as servers:
        a, b = servers["a.example"], servers["b.example"]
        # Each takes the other for the owner.
        a.core.peers.met(b.core.server, ["c.example"])
        b.core.peers.met(a.core.server, ["c.example"])
        with pytest.raises(shadowtree.Unavailable, match="which it is not") as caught:
            await a.client.describe(LOW)
        assert caught.value.facts == {"name": LOW, "server": "b.example"}
        assert servers.calls() == {"b.example": ["DescribeGroup"]}


async def test_garbage_from_a_peer_counts_as_silence(servers, monkeypatch):
    class Garbled:
        """A channel to a server that answers with what is no message."""

        def unary_unary(self, *_):
            async def answer(request, **_):
                return b"\xff\xff\xff"

            return answer

        def unary_stream(self, *_):
            return lambda request, **_: GarbledStream()

    class GarbledStream:
        async def __aiter__(self):
            yield b"\xff\xff\xff"

        def cancel(self):
            pass

    b = servers["b.example"]
    b.out_of_reach.clear()
    monkeypatch.setattr(servers["a.example"], "channel", Garbled())
    listed = await b.client.groups()
    assert (listed.groups, listed.unreachable) == ((ALONE, LOW, MIDDLE), ("a.example",))
    found = await b.client.memberships(GUEST)
    assert (found.groups, found.unreachable) == ((ALONE, LOW, MIDDLE, TOP), ("a.example",))
    with pytest.raises(shadowtree.Unavailable) as caught:
        await b.client.check(EMPTY, BOB)
    assert caught.value.unreachable == ("a.example",)


async def test_a_page_token_goes_on_at_another_server(servers, reached):
    servers["a.example"].out_of_reach.clear()
    servers["b.example"].out_of_reach.clear()
    found, token = [], ""
    for turn in range(5):
        page = await list(servers)[turn % 3].names.ListGroups(m.ListGroupsRequest(page_size=1, page_token=token))
        found += page.groups
        token = page.next_page_token
    assert found == [ALONE, EMPTY, LOW, MIDDLE, TOP]
    assert token == ""


@pytest.mark.parametrize(
    ("group", "member", "answer"),
    [(LOW, ANN, True), (LOW, GUEST, True), (MIDDLE, ANN, None), (TOP, ANN, None), (TOP, LOW, None), (ALONE, ANN, None)],
)
async def test_whoever_may_have_been_left_says_yes_only_of_its_own_groups(servers, group, member, answer):
    """The others may have left the arcs from their groups, and it would not know."""
    servers["c.example"].out_of_reach |= {"a.example", "b.example"}
    names = servers["c.example"].client
    (check,) = [check async for check in names.check_many([(group, member)])]
    assert check.is_member is answer
    if answer is None:
        with pytest.raises(shadowtree.Unavailable):
            await names.check(group, member)
    else:
        assert (await names.check(group, member, explain=True)).pathname == (group, member)
