"""Notes about changes that the gateway did not make, to the owners of a list and to people who muted it."""

from mailing.rules.companions import NAMED_LIMIT, told_of_companions
from mailing.rules.index import GroupIndex
from mailing.shell.names import OWN_REQUESTS_LIMIT, OwnRequests
from shadowtree.results import RecordedChange

ALL, OWNERS, MUTED = "all@x.example", "all+owners@x.example", "all+muted@x.example"


def told(*changes, groups=(ALL, OWNERS, MUTED)):
    index = GroupIndex()
    index.replace("x.example", groups)
    return told_of_companions([RecordedChange(*each, "process") for each in changes], index)


def test_who_makes_and_joins_companions_is_told_with_what_they_do():
    assert told(
        ("created", OWNERS, None),
        ("joined", OWNERS, "eve@x.example"),
        ("left", MUTED, "ann@x.example"),
        ("joined", ALL, "eve@x.example"),
    ) == {
        OWNERS: f"{OWNERS} was made, joined by eve@x.example: its members decide about mail of {ALL}",
        MUTED: f"{MUTED} was left by ann@x.example: its members get no mail of {ALL}",
    }


def test_a_group_with_such_a_name_and_without_a_list_is_no_companion():
    assert told(("created", OWNERS, None), groups=(OWNERS,)) == {}


def test_many_members_are_told_by_their_number():
    joined = [("joined", MUTED, f"p{number}@x.example") for number in range(1_000)]
    (said,) = told(*joined).values()
    assert said.count("@x.example") == NAMED_LIMIT + 2
    assert "and 990 more" in said


def test_a_request_of_this_gateway_is_known_once_and_few_are_remembered():
    own = OwnRequests()
    first, *others = [own.new() for _ in range(OWN_REQUESTS_LIMIT + 1)]
    assert not own.take(first)
    assert own.take(others[0])
    assert not own.take(others[0])
    assert not own.take("")
