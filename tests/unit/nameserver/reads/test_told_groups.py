"""Lists and descriptions at servers that judge their callers: each home tells what its policies allow."""

import pytest

from namegraph import ANONYMOUS, OPERATOR, Preset
from tests.fakes.askers import REFUSED, Asker
from tests.fakes.name_servers import NameServers

A, B = "a.example", "b.example"
ANN, BOB, EVE, GATEWAY = f"ann@{A}", f"bob@{B}", f"eve@{B}", f"mail+gateway@{A}"
OPEN, TEAM, HIDDEN, SECRET, OWNERS = f"open@{A}", f"team@{A}", f"hidden@{A}", f"secret@{A}", f"secret+owners@{A}"
BELOW = f"below@{B}"
ALL = sorted((OPEN, TEAM, HIDDEN, SECRET, OWNERS, BELOW))


@pytest.fixture
async def servers():
    """secret@a has open@a, team@a and ann@a; open@a has below@b; team@a has eve@b; below@b has bob@b."""
    async with NameServers(A, B) as servers:
        names = servers[A].client
        for group in ALL:
            await names.create_group(group)
        for parent, child in (
            (SECRET, OPEN), (SECRET, TEAM), (SECRET, ANN), (HIDDEN, ANN), (OPEN, BELOW), (TEAM, EVE), (BELOW, BOB)
        ):  # fmt: skip
            await names.join(parent, child)
        await servers[A].set_policy(TEAM, Preset.ORGANISATION)
        await servers[A].set_policy(HIDDEN, Preset.HIDDEN)
        await servers[A].set_policy(SECRET, Preset.SECRET)
        await servers[B].set_policy(BELOW, Preset.PUBLIC)
        servers[A].protect(mail=[GATEWAY])
        servers[B].protect()
        yield servers


@pytest.mark.parametrize(
    ("principal", "left_out"),
    [
        (OPERATOR, []),
        (ANN, []),
        (EVE, []),
        (f"zoe@{B}", [OWNERS, SECRET]),
        (ANONYMOUS, [HIDDEN, OWNERS, SECRET, TEAM]),
    ],
)
@pytest.mark.parametrize("page_size", [1, 2, 0])
async def test_lists_have_the_groups_that_the_caller_may_view(servers, principal, left_out, page_size):
    told = [group for group in ALL if group not in left_out]
    pages = await Asker(servers[A if principal in (OPERATOR, ANN) else B], principal).groups(page_size=page_size)
    assert [group for page in pages for group in page[0]] == told
    assert all(len(page[0]) == (page_size or len(told)) for page in pages[:-1]), "no page tells that it was cut"
    if principal != OPERATOR:
        searched = await Asker(servers[A], principal).groups(page_size=page_size, contains="e")
        expected = await Asker(servers[A], principal).groups(contains="e")
        assert [group for page in searched for group in page[0]] == expected[0][0]


@pytest.mark.parametrize(
    ("principal", "told"),
    [
        (OPERATOR, {OPEN, TEAM, HIDDEN, SECRET, OWNERS}),
        (ANN, {OPEN, TEAM, BELOW}),
        (BOB, {OPEN, BELOW}),
        (EVE, {OPEN, BELOW}),
        (ANONYMOUS, {OPEN, BELOW}),
    ],
)
async def test_exports_have_the_groups_that_the_caller_may_read(servers, principal, told):
    rows = await Asker(servers[A if principal in (OPERATOR, ANN) else B], principal).export()
    # For b, an operator of a is a guest.
    assert {parent for parent, _ in rows} == told | {BELOW}
    assert (OPEN, BELOW) in rows and (BELOW, BOB) in rows


async def test_a_description_tells_what_leads_from_groups_that_the_caller_may_read(servers):
    assert await Asker(servers[A], OPERATOR).described(TEAM) == ([SECRET], [EVE], [(SECRET, TEAM)])
    assert await Asker(servers[A], ANN).described(TEAM) == ([], [EVE], [(TEAM,)])
    refused = await Asker(servers[B], EVE).described(TEAM)
    assert refused[:2] == (REFUSED, "PERMISSION_DENIED")
    for principal, at in ((f"zoe@{B}", B), (ANONYMOUS, A)):
        asker = Asker(servers[at], principal)
        of_secret, of_missing = await asker.described(SECRET), await asker.described(f"missing@{A}")
        assert of_secret[:2] == (REFUSED, "NOT_FOUND")
        assert of_secret[2] == of_missing[2].replace("missing@", "secret@")


async def test_memberships_are_told_to_the_member_and_to_readers(servers):
    assert await Asker(servers[A], ANN).memberships(ANN) == [HIDDEN, SECRET]
    assert await Asker(servers[B], BOB).memberships(BOB) == [BELOW, OPEN, SECRET]
    assert await Asker(servers[A], BOB).memberships(BOB) == [BELOW, OPEN, SECRET]
    assert await Asker(servers[A], OPERATOR).memberships(ANN) == [HIDDEN, SECRET]
    assert await Asker(servers[B], EVE).memberships(ANN) == []
    assert await Asker(servers[A], ANN).memberships(EVE) == [TEAM], "secret is not readable"
    assert await Asker(servers[B], ANONYMOUS).memberships(BOB) == [BELOW], "a judges its own groups"


async def test_spellings_are_those_of_groups_in_view_and_of_people_of_readable_groups(servers):
    asked = ("SECRET@a.example", "Team@a.example", "Ann@a.example", "Eve@b.example")

    async def told(principal, at=A):
        return await Asker(servers[at], principal).spellings(*asked)

    assert await told(OPERATOR) == [([SECRET], []), ([TEAM], []), ([], [ANN]), ([], [])]
    assert await told(GATEWAY) == [([], []), ([TEAM], []), ([], [ANN]), ([], [])]
    assert await told(ANN) == [([SECRET], []), ([TEAM], []), ([], [ANN]), ([], [])]
    assert await told(EVE, B) == [([SECRET], []), ([TEAM], []), ([], []), ([], [EVE])]
    assert await told(ANONYMOUS) == [([], [])] * 4


async def test_changes_are_those_of_groups_that_the_caller_may_read(servers):
    asker = Asker(servers[A], ANN)
    assert {group for _, group, _ in await asker.changes(subnet=A)} == {OPEN, TEAM}
    assert {group for _, group, _ in await Asker(servers[A], OPERATOR).changes(subnet=A)} == {*ALL} - {BELOW}
    assert [member for _, _, member in await asker.changes(TEAM)] == ["", EVE]
    assert (await asker.changes(HIDDEN))[0][1] == "PERMISSION_DENIED"
    eve = Asker(servers[B], f"zoe@{B}")
    of_secret, of_missing = await eve.changes(SECRET), await eve.changes(f"missing@{A}")
    assert of_secret[0][1] == "NOT_FOUND"
    assert of_secret[0][2] == of_missing[0][2].replace("missing@", "secret@")
