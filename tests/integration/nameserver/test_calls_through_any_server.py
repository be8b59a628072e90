"""A client needs one address: every call through every server gives the same answer."""

import pytest

import shadowtree
from tests.fakes.name_servers import NameServers

SUBNETS = ("a.example", "b.example", "c.example")
TOP, MIDDLE, LOW = "top@a.example", "middle@b.example", "low@c.example"
ALONE = "alone@b.example"
ANN, BOB, GUEST = "ann@c.example", "bob@a.example", "guest@elsewhere.example"


@pytest.fixture
async def servers():
    async with NameServers(*SUBNETS) as all_servers:
        yield all_servers


@pytest.fixture
async def filled(servers):
    """top -> middle -> low -> ann, guest; middle -> bob."""
    names = servers["c.example"].client
    for group in (TOP, MIDDLE, LOW, ALONE):
        await names.create_group(group)
    await names.join(TOP, MIDDLE)
    await names.join(MIDDLE, LOW)
    await names.join(LOW, ANN)
    await names.join(LOW, GUEST)
    await names.join(MIDDLE, BOB)
    await names.join(ALONE, GUEST)
    servers.calls()
    return servers


async def through_all(servers, ask):
    """Return the one answer that all servers give."""
    answers = [await ask(server.client) for server in servers]
    assert answers.count(answers[0]) == len(answers), answers
    return answers[0]


async def test_writes_go_to_the_home_and_are_seen_everywhere(filled):
    async def exported(names):
        return [(arc.parent, arc.child, arc.kind) async for arc in names.export()]

    assert await through_all(filled, exported) == [
        (ALONE, GUEST, "process"),
        (LOW, ANN, "process"),
        (LOW, GUEST, "process"),
        (MIDDLE, BOB, "process"),
        (MIDDLE, LOW, "group"),
        (TOP, MIDDLE, "group"),
    ]


async def test_what_became_controlled_or_released_is_told_to_whom_asks_for_it_through_any_server(filled):
    """low is below top by way of middle, and joins it."""

    def told(change):
        return [(effect.kind, effect.groups, effect.servers) for effect in change.effects]

    for server in filled:
        names = server.client
        joins, leaves = [shadowtree.Join(TOP, LOW)], [shadowtree.Leave(TOP, LOW)]
        for write in (names.join(TOP, LOW), names.leave(TOP, LOW), names.apply(joins), names.apply(leaves)):
            assert told(await write) == []
        for write, kind in (
            (names.join(TOP, LOW, effects=True), "controlled"),
            (names.leave(TOP, LOW, effects=True), "released"),
            (names.apply(joins, effects=True), "controlled"),
            (names.apply(leaves, effects=True), "released"),
        ):
            assert told(await write) == [(kind, (LOW,), ("c.example",))]
        await names.create_group("new@a.example", effects=True)
        await names.apply([shadowtree.Join(TOP, "new@a.example"), shadowtree.Join("new@a.example", MIDDLE)])
        assert told(await names.delete_group("new@a.example", force=True, effects=True)) == [
            ("released", (MIDDLE,), ("b.example",))
        ]


async def test_a_repeated_request_gives_its_first_answer_whatever_effects_are_asked_for(filled):
    names = filled["b.example"].client
    first = await names.join(TOP, LOW, request_id="once")
    assert await names.join(TOP, LOW, effects=True, request_id="once") == first


@pytest.mark.parametrize(
    ("group", "member", "pathname"),
    [
        (TOP, ANN, (TOP, MIDDLE, LOW, ANN)),
        (TOP, LOW, (TOP, MIDDLE, LOW)),
        (TOP, GUEST, (TOP, MIDDLE, LOW, GUEST)),
        (ALONE, GUEST, (ALONE, GUEST)),
        (LOW, TOP, ()),
        (LOW, BOB, ()),
        (ALONE, ANN, ()),
        (ALONE, "nobody@elsewhere.example", ()),
        (TOP, "nobody@b.example", ()),
    ],
)
async def test_a_check_is_answered_the_same_by_all_with_its_proof(filled, group, member, pathname):
    async def check(names):
        answer = await names.check(group, member)
        return answer.is_member, answer.pathname

    async def explain(names):
        answer = await names.check(group, member, explain=True)
        return answer.is_member, answer.pathname

    assert await through_all(filled, check) == (bool(pathname), ())
    assert await through_all(filled, explain) == (bool(pathname), pathname)


@pytest.mark.parametrize("member", [ANN, GUEST, TOP, "nobody@a.example", "nobody@elsewhere.example"])
async def test_a_check_of_an_unknown_group_is_not_found_whoever_is_asked(filled, member):
    for server in filled:
        for group in ("unknown@a.example", "unknown@c.example", "unknown@nowhere.example"):
            with pytest.raises(shadowtree.GroupNotFound) as caught:
                await server.client.check(group, member)
            assert caught.value.facts["group"] == group


@pytest.mark.parametrize(
    ("member", "groups"),
    [
        (ANN, (LOW, MIDDLE, TOP)),
        (GUEST, (ALONE, LOW, MIDDLE, TOP)),
        (LOW, (MIDDLE, TOP)),
        (TOP, ()),
        ("nobody@a.example", ()),
        ("nobody@elsewhere.example", ()),
    ],
)
async def test_memberships_are_united_and_sorted(filled, member, groups):
    async def memberships(names):
        found = await names.memberships(member)
        return found.groups, found.unreachable

    assert await through_all(filled, memberships) == (groups, ())


async def test_spellings_of_a_name_are_found_wherever_they_are_members(filled):
    names = filled["a.example"].client
    await names.join(TOP, "Guest@elsewhere.example")
    await names.join(ALONE, "GUEST@elsewhere.example")
    await names.leave(ALONE, "GUEST@elsewhere.example")
    await names.join(ALONE, "Low@c.example", "process")

    async def spellings(names):
        found = await names.spellings(["gUEST@elsewhere.example", LOW, "nobody@elsewhere.example"])
        return found.groups, found.processes, found.unreachable

    assert await through_all(filled, spellings) == (
        ((), (LOW,), ()),
        (("Guest@elsewhere.example", GUEST), ("Low@c.example",), ()),
        (),
    )


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ([], shadowtree.InvalidRequest),
        (["x@a.example"] * 10_001, shadowtree.InvalidRequest),
        (["x"], shadowtree.InvalidName),
    ],
)
async def test_spellings_of_too_few_or_too_many_names_or_of_no_name_are_refused(filled, asked, error):
    with pytest.raises(error):
        await filled["a.example"].client.spellings(asked)


async def test_many_checks_come_back_in_the_order_in_which_they_were_asked(filled):
    pairs = [(group, member) for group in (TOP, MIDDLE, LOW, ALONE) for member in (ANN, BOB, GUEST, LOW, "x@b.example")]

    async def check_many(names):
        return [check.is_member async for check in names.check_many(pairs)]

    async def one_by_one(names):
        return [(await names.check(*pair)).is_member for pair in pairs]

    assert await through_all(filled, check_many) == await through_all(filled, one_by_one)


async def test_many_checks_take_one_request_for_each_server_and_one_more_for_what_is_not_known(filled):
    pairs = [(TOP, ANN), (ALONE, ANN), (TOP, "x@c.example"), (TOP, BOB), (LOW, LOW)] * 50
    names = filled["a.example"].client
    assert len([check async for check in names.check_many(pairs)]) == 250
    assert filled.calls() == {"b.example": ["CheckPart"], "c.example": ["CheckPart"]}


async def test_many_checks_end_at_the_first_unknown_group_after_the_answers_before_it(filled):
    pairs = [(TOP, ANN), (LOW, BOB), ("unknown@b.example", ANN), (TOP, BOB)]
    for server in filled:
        checks = server.client.check_many(pairs)
        assert [(await anext(checks)).is_member, (await anext(checks)).is_member] == [True, False]
        with pytest.raises(shadowtree.GroupNotFound):
            await anext(checks)


async def test_groups_are_listed_from_all_servers_or_from_one_subnet(filled):
    async def groups(names):
        return await names.groups()

    async def groups_of_b(names):
        return await names.groups("B.example")

    assert (await through_all(filled, groups)).groups == (ALONE, LOW, MIDDLE, TOP)
    assert (await through_all(filled, groups_of_b)).groups == (ALONE, MIDDLE)


async def test_a_group_is_described_by_its_home(filled):
    async def describe(names):
        found = await names.describe(MIDDLE)
        return found.home, found.parents, found.children, found.pathnames

    home, parents, children, pathnames = await through_all(filled, describe)
    assert home == "b.example"
    assert [parent.id for parent in parents] == [TOP]
    assert [(child.id, child.kind) for child in children] == [(BOB, "process"), (LOW, "group")]
    assert pathnames == ((TOP, MIDDLE),)


async def test_an_error_of_the_home_comes_through_with_its_facts(filled):
    for server in filled:
        names = server.client
        with pytest.raises(shadowtree.GroupExists) as exists:
            await names.create_group(MIDDLE)
        assert exists.value.facts["group"] == MIDDLE
        with pytest.raises(shadowtree.AlreadyMember):
            await names.join(TOP, MIDDLE)
        with pytest.raises(shadowtree.NotAMember):
            await names.leave(TOP, LOW)
        with pytest.raises(shadowtree.GroupInUse):
            await names.delete_group(LOW)
        with pytest.raises(shadowtree.GroupNotFound) as unknown:
            await names.describe("unknown@c.example")
        assert unknown.value.facts["server"] == "c.example"


async def test_a_request_repeated_through_another_server_is_answered_again_not_done_again(filled):
    first = await filled["a.example"].client.join(ALONE, "new@b.example", request_id="once")
    for server in filled:
        assert await server.client.join(ALONE, "new@b.example", request_id="once") == first


async def test_what_is_written_through_one_server_is_read_at_once_through_another(filled):
    a, b, c = (server.client for server in filled)
    revision = (await a.leave(MIDDLE, LOW)).revision
    for names in (a, b, c):
        check = await names.check(TOP, ANN, at_least_revision=revision)
        assert not check
        found = await names.memberships(GUEST, at_least_revision=check.revision)
        assert found.groups == (ALONE, LOW)
        assert (await names.groups(at_least_revision=found.revision)).groups == (ALONE, LOW, MIDDLE, TOP)
        assert [arc.child async for arc in names.export(at_least_revision=revision) if arc.parent == MIDDLE] == [BOB]


async def test_a_revision_that_never_was_is_refused(filled):
    for server in filled:
        for revision in ("999999@b.example", "1@unknown.example"):
            with pytest.raises(shadowtree.Unavailable) as caught:
                await server.client.check(TOP, ANN, at_least_revision=revision, timeout=5)
            assert caught.value.facts["revision"] == revision
        with pytest.raises(shadowtree.InvalidRequest):
            await server.client.check(TOP, ANN, at_least_revision="nonsense")
