"""Answers to lookups."""

import pytest

from mailing.rules.lookups import (
    Lookup,
    LookupReply,
    MapName,
    Status,
    failure_reply,
    people_reply,
    read_lookup,
    shown,
    split_why,
    temporary,
    why_reply,
)
from shadowtree.errors import ServerUnreachable, Unavailable
from shadowtree.results import Check, HiddenGroup, Resolution

ALL = "all@ubc.example"


def resolution(*people, unreachable=(), in_transition=False, hidden=()):
    return Resolution(ALL, people, (), hidden, unreachable, in_transition, "1@ubc.example")


def test_everybody_is_answered_once_quoted_with_commas_between():
    assert people_reply(ALL, resolution("a,b@x.example", "ann@x.example")) == LookupReply(
        Status.OK, '"a,b"@x.example,ann@x.example'
    )


def test_who_cannot_be_sent_to_is_left_out_and_a_list_of_nobody_is_not_found():
    found = people_reply(ALL, resolution("ann@x.example", "jürgen@x.example", "root@localhost"))
    assert found.text == "ann@x.example"
    assert people_reply(ALL, resolution("root@localhost")).status is Status.NOTFOUND
    assert people_reply(ALL, resolution()).status is Status.NOTFOUND


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ({"unreachable": ("lab@sfu.example", "team@vgh.example")}, "out of reach: lab@sfu.example, team@vgh.example"),
        ({"in_transition": True}, "an update of all@ubc.example, or of a group in it, is under way"),
        ({"hidden": (HiddenGroup("lab@sfu.example", 7),)}, "hidden from this gateway: those of lab@sfu.example"),
    ],
)
def test_an_answer_that_is_not_the_whole_one_is_none_for_now(missing, says):
    reply = people_reply(ALL, resolution("ann@x.example", **missing))
    assert reply.status is Status.TEMP
    assert says in reply.text


def test_an_answer_of_100000_bytes_is_given_and_a_longer_one_says_what_to_do():
    people = [f"person-{number:05}@people.example" for number in range(3_571)]
    fits = people_reply(ALL, resolution(*people))
    assert fits.status is Status.OK
    assert 99_900 < len(fits.encode()) <= 100_000
    reply = people_reply(ALL, resolution(*people, *(f"more-{number}@x.example" for number in range(10))))
    assert reply.status is Status.TEMP
    assert "3,581 members of all@ubc.example do not fit a lookup" in reply.text
    assert "write to the groups in it" in reply.text


def test_what_is_no_request_is_refused_for_good():
    assert read_lookup(b"members all@x.example") == Lookup(MapName.MEMBERS, "all@x.example")
    assert read_lookup(b"why a@x.example b c@x.example").key == "a@x.example b c@x.example"
    for content in (b"", b"members", b"members ", b"aliases all@x.example", b"MEMBERS x", b"members \xff"):
        assert read_lookup(content).status is Status.PERM


def test_an_unknown_map_is_told_which_there_are():
    assert read_lookup(b"aliases x").text == "there is no map 'aliases'; the maps are members, lists, owners, why"


@pytest.mark.parametrize(
    ("key", "both"),
    [
        ("all@x.example ann@y.example", ("all@x.example", "ann@y.example")),
        ("big list@x.example ann lee@y.example", ("big list@x.example", "ann lee@y.example")),
        ("all@x.example", None),
        ("all@x.example ", None),
        ("no address", None),
    ],
)
def test_a_list_and_a_person_are_told_apart(key, both):
    assert split_why(key) == both


def test_why_shows_the_way_in_and_what_keeps_mail_away():
    found = Check(ALL, "ann@x.example", True, (ALL, "lab@sfu.example", "ann@x.example"))
    assert why_reply(found, []).text == "all@ubc.example -> lab@sfu.example -> ann@x.example"
    muted = why_reply(found, ["all+muted@ubc.example"])
    assert muted.text.endswith("-> ann@x.example; gets no mail of it, being in all+muted@ubc.example")
    assert why_reply(Check(ALL, "bob@x.example", False), []).status is Status.NOTFOUND


def test_failures_name_the_groups_or_say_what_the_name_service_said():
    error = Unavailable("cannot tell", {"unreachable": "lab@sfu.example\nteam@vgh.example"})
    assert failure_reply(error) == LookupReply(Status.TEMP, "out of reach: lab@sfu.example, team@vgh.example")
    assert failure_reply(ServerUnreachable("it is\naway")) == LookupReply(Status.TEMP, "it is away")


def test_many_names_are_shown_by_the_first_and_explanations_are_short():
    assert shown([f"g{number}" for number in range(12)]).endswith("g9 and 2 more")
    assert len(temporary("x" * 5_000).encode()) == len("TEMP ") + 1_000
