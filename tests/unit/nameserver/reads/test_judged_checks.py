"""Checks at servers that judge their callers: the home of the group judges, wherever the caller asks."""

import pytest

from namegraph import ANONYMOUS, OPERATOR, Preset
from nameserver.reads.known_checks import KnownCode
from shadowtree.v1 import name_service_pb2 as messages
from tests.callers import calling, known_caller
from tests.fakes.askers import REFUSED, Asker
from tests.fakes.name_servers import NameServers

A, B, C = "a.example", "b.example", "c.example"
ANN, BOB, EVE, CARL = f"ann@{A}", f"bob@{B}", f"eve@{B}", f"carl@{C}"
OPEN, TEAM, HIDDEN, SECRET = f"open@{A}", f"team@{A}", f"hidden@{A}", f"secret@{A}"
MISSING = f"missing@{A}"
BELOW = f"below@{B}"
ASKERS = (ANONYMOUS, OPERATOR, ANN, BOB, EVE, CARL)
YES, NO, DENIED, UNKNOWN = True, False, "PERMISSION_DENIED", "NOT_FOUND"


@pytest.fixture
async def servers():
    """secret@a and hidden@a have ann@a and below@b, which has bob@b; open@a and team@a have ann@a."""
    async with NameServers(A, B, C) as servers:
        names = servers[A].client
        for group in (OPEN, TEAM, HIDDEN, SECRET, BELOW):
            await names.create_group(group)
        for group in (OPEN, TEAM, HIDDEN, SECRET):
            await names.join(group, ANN)
        for group in (HIDDEN, SECRET):
            await names.join(group, BELOW)
        await names.join(BELOW, BOB)
        await servers[A].set_policy(TEAM, Preset.ORGANISATION)
        await servers[A].set_policy(HIDDEN, Preset.HIDDEN)
        await servers[A].set_policy(SECRET, Preset.SECRET)
        await servers[B].set_policy(BELOW, Preset.SECRET)
        for server in servers:
            server.protect()
        yield servers


def kind(answer):
    """Return True or False, or the status of a refusal."""
    return answer[1] if isinstance(answer, tuple) and answer[0] == REFUSED else answer


MATRIX = {
    # asked about    ann@a: anonymous, operator of a, ann, bob, eve, carl
    (OPEN, ANN): (YES, YES, YES, YES, YES, YES),
    (OPEN, EVE): (NO, NO, NO, NO, NO, NO),
    (TEAM, ANN): (UNKNOWN, YES, YES, YES, YES, YES),
    (HIDDEN, ANN): (UNKNOWN, YES, YES, YES, DENIED, DENIED),
    (HIDDEN, EVE): (UNKNOWN, NO, NO, NO, NO, DENIED),
    (SECRET, ANN): (UNKNOWN, YES, YES, YES, UNKNOWN, UNKNOWN),
    (SECRET, EVE): (UNKNOWN, NO, NO, NO, UNKNOWN, UNKNOWN),
    (SECRET, BOB): (UNKNOWN, YES, YES, YES, UNKNOWN, UNKNOWN),
    (MISSING, ANN): (UNKNOWN,) * 6,
}


@pytest.mark.parametrize(("group", "member"), MATRIX)
async def test_each_caller_is_told_what_the_policy_allows(servers, group, member):
    told, bulk = [], []
    for principal in ASKERS:
        asker = Asker(servers[A if principal in (ANONYMOUS, OPERATOR) else principal.partition("@")[2]], principal)
        told.append(kind(await asker.check(group, member)))
        answers = await asker.check_bulk((group, member))
        bulk.append(kind({1: True, 2: False}.get(answers[0], answers[0])))
    assert tuple(told) == MATRIX[group, member]
    assert bulk == told, "both calls judge alike"


@pytest.mark.parametrize("principal", [ANONYMOUS, BOB, EVE, CARL])
@pytest.mark.parametrize("member", [ANN, EVE, CARL, f"nobody@{A}", "guest@nobody.example"])
async def test_a_secret_group_looks_like_a_missing_one(servers, principal, member):
    for server in (A, B, C):
        asker = Asker(servers[server], principal)
        if principal == BOB and server != C:
            continue  # A member of the group.
        of_secret = await asker.check(SECRET, member)
        of_missing = await asker.check(MISSING, member)
        assert of_secret == (REFUSED, UNKNOWN, of_missing[2].replace("missing@", "secret@"))
        assert of_missing[:2] == (REFUSED, UNKNOWN)
        in_bulk = await asker.check_bulk((OPEN, ANN), (SECRET, member), (OPEN, ANN))
        assert in_bulk == [1, of_secret]
        assert await asker.check_known((SECRET, member)) == await asker.check_known((MISSING, member))


async def test_a_secret_group_looks_like_a_missing_one_to_a_caller_that_asks_about_itself(servers):
    for server in (A, B):
        asker = Asker(servers[server], EVE)
        of_secret, of_missing = await asker.check(SECRET, EVE), await asker.check(MISSING, EVE)
        assert of_secret == (REFUSED, UNKNOWN, of_missing[2].replace("missing@", "secret@"))


async def test_a_member_is_told_its_membership_without_any_privilege(servers):
    await servers[A].set_policy(SECRET, Preset.SECRET, view=["nobody"], check=["nobody"])
    for server in (A, B):
        asker = Asker(servers[server], BOB)
        assert await asker.check(SECRET, BOB) is True
        assert await asker.check_bulk((SECRET, BOB)) == [1]
        assert kind(await asker.check(SECRET, ANN)) == UNKNOWN


async def test_another_server_is_believed_about_its_own_people_alone(servers):
    # bob@b asks at c: for a, that is a guest of c.
    assert kind(await Asker(servers[C], BOB).check(SECRET, BOB)) == UNKNOWN
    assert kind(await Asker(servers[C], OPERATOR).check(SECRET, ANN)) == UNKNOWN


async def test_a_refusal_in_a_stream_comes_after_the_answers_before_it(servers):
    asker = Asker(servers[C], CARL)
    assert await asker.check_bulk((OPEN, ANN), (TEAM, ANN), (OPEN, CARL)) == [1, 1, 2]
    told = await asker.check_bulk((OPEN, ANN), (BELOW, BOB), (HIDDEN, ANN), (OPEN, CARL))
    assert told[:1] == [1]
    assert [kind(each) for each in told[1:]] == [UNKNOWN]


async def test_the_short_ways_answer_callers_that_may_ask_and_no_others(servers):
    await Asker(servers[A], ANN).check(TEAM, ANN)  # From now on, the groups of ann@a are known at once.
    pairs = (TEAM, ANN), (SECRET, ANN)
    known = {principal: await Asker(servers[A], principal).check_known(*pairs) for principal in ASKERS}
    assert known[ANN] == known[OPERATOR] == [KnownCode.YES, KnownCode.YES]
    assert known[ANONYMOUS] == [KnownCode.UNANSWERED] * 2
    assert known[EVE] == known[CARL] == [KnownCode.YES, KnownCode.UNANSWERED]
    check = servers[A].short_ways["Check"]
    request = messages.CheckRequest(group=SECRET, member=ANN).SerializeToString()
    for principal, is_answered in ((ANN, True), (OPERATOR, True), (EVE, False), (ANONYMOUS, False)):
        with calling(known_caller(principal)):
            assert (check(request) is not None) is is_answered


async def test_a_pathname_ends_at_the_first_group_that_the_caller_may_not_read(servers):
    assert await Asker(servers[A], OPERATOR).check(SECRET, BOB, explain=True) == (True, SECRET, BELOW, "(hidden)", BOB)
    assert await Asker(servers[A], ANN).check(SECRET, BOB, explain=True) == (True, SECRET, "(hidden)", BOB)
    assert await Asker(servers[A], ANN).check(OPEN, ANN, explain=True) == (True, OPEN, ANN)
    assert await Asker(servers[B], BOB).check(SECRET, BOB, explain=True) == (True, SECRET, "(hidden)", BOB)


async def test_without_the_home_of_the_group_nothing_is_told(servers):
    servers[B].out_of_reach.add(A)
    asker = Asker(servers[B], BOB)
    assert kind(await asker.check(OPEN, ANN)) == "UNAVAILABLE"
    assert await asker.check_bulk((OPEN, ANN)) == [0, A]


async def test_the_home_of_a_member_tells_the_member_its_memberships(servers):
    await servers[B].client.memberships(BOB)  # From now on, the groups of bob@b are known at once.
    request = messages.CheckRequest(group=SECRET, member=BOB).SerializeToString()
    with calling(known_caller(BOB)):
        assert servers[B].short_ways["Check"](request) is not None
    with calling(known_caller(EVE)):
        assert servers[B].short_ways["Check"](request) is None
