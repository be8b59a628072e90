"""Lists of Mailman as groups: the answers of Mailman 3.3.10, and files that a person put together."""

import json
from pathlib import Path

import pytest

from mailing.rules.from_mailman import subnets_of_members, wanted_of
from mailing.rules.roster_text import read_rosters
from mailing.rules.rosters import RosterError
from shadowtree.updates import Arc

RECORDED = Path(__file__).with_name("mailman_rosters.json")
"""Recorded answers of `lists` and `members`, and, one a line, the people found by `delivery_status`."""
SUBNETS = {"lists.ubc.example": "ubc.example"}
ALL, LAB, TEA = "all@ubc.example", "lab@ubc.example", "tea@ubc.example"
ANN = "ann@people.example"


def person(group, name):
    return Arc(group, f"{name}@people.example", "process")


def a_list(name, domain="lists.ubc.example"):
    return {"fqdn_listname": f"{name}@{domain}", "list_id": f"{name}.{domain}"}


def a_member(email, of="all", role="member", **more):
    return {"list_id": f"{of}.lists.ubc.example", "email": email, "role": role} | more


def translated(*entries, subnets=SUBNETS, existing=()):
    """Entries one a line, as `jq -c` writes them."""
    rosters = read_rosters("\n".join(json.dumps(entry) for entry in entries))
    return wanted_of(rosters, subnets, existing)


def told(wanted):
    return [(note.line, note.list, note.address, note.reason, note.is_left_out) for note in wanted.notes]


def refusal(*entries, **options):
    with pytest.raises(RosterError) as caught:
        translated(*entries, **options)
    return str(caught.value)


def test_what_mailman_answered_becomes_nested_groups_in_a_loop_owners_and_those_who_muted_a_list():
    wanted = wanted_of(read_rosters(RECORDED.read_text()), SUBNETS, ())
    assert wanted.lists == (ALL, "empty@ubc.example", LAB, TEA)
    assert wanted.arcs == (
        person("all+muted@ubc.example", "cy"),
        person("all+owners@ubc.example", "olga"),
        person(ALL, "ann"),
        person(ALL, "bob"),
        person(ALL, "cy"),
        Arc(ALL, LAB, "group"),
        person("lab+muted@ubc.example", "dee"),
        person("lab+muted@ubc.example", "gil"),
        Arc(LAB, ALL, "group"),
        person(LAB, "dee"),
        person(LAB, "eve"),
        person(LAB, "gil"),
        person(TEA, "fay"),
    )
    off = "delivery is off for this list alone: mail of {}, which it is in, is delivered"
    assert sorted((note.address, note.reason) for note in wanted.notes) == [
        ("bob@people.example", "plaintext_digests: there are no digests, each message comes by itself"),
        ("cy@people.example", off.format(LAB)),
        ("dee@people.example", off.format(ALL)),
        ("eve@people.example", "moderation_action hold: members post as `post` says, one like another"),
        ("gil@people.example", off.format(ALL)),
        ("mo@people.example", "moderators: there are none; owners decide"),
    ]


def test_what_has_no_equal_is_told_by_line():
    wanted = translated(
        a_list("all"),
        a_member("mo@x.example", role="moderator"),
        a_member("zed@x.example", role="nonmember"),
        a_member("bob@x.example", delivery_mode="mime_digests"),
        a_member("eve@x.example", moderation_action="discard"),
        a_member("kay@x.example", role="king"),
        {
            "fqdn_listname": "all@lists.ubc.example",
            "posting_address": "...",
            "anonymous_list": True,
            "emergency": False,
        },
    )
    assert [(line, address, left_out) for line, _, address, _, left_out in told(wanted)] == [
        (2, "mo@x.example", True),
        (3, "zed@x.example", True),
        (4, "bob@x.example", False),
        (5, "eve@x.example", False),
        (6, "kay@x.example", True),
        (7, None, True),
    ]
    assert wanted.notes[-1].reason == "anonymous_list: it hides authors"
    assert wanted.arcs == (Arc(ALL, "bob@x.example", "process"), Arc(ALL, "eve@x.example", "process"))


def test_what_mailman_sets_by_itself_is_not_told():
    entry = {"fqdn_listname": "all@lists.ubc.example", "posting_address": "...", "accept_these_nonmembers": []}
    entry |= {"reply_goes_to_list": "no_munging", "default_member_action": "defer", "subject_prefix": "[All] "}
    assert translated(a_list("all"), entry).notes == ()


def test_an_unknown_member_is_a_person_and_told_by_line():
    wanted = translated(a_list("all"), a_member("gone@lists.ubc.example"), a_member("ann@people.example"))
    assert wanted.arcs == (Arc(ALL, "ann@people.example", "process"), Arc(ALL, "gone@lists.ubc.example", "process"))
    assert told(wanted) == [
        (
            2,
            "all@lists.ubc.example",
            "gone@lists.ubc.example",
            "there is no list of this name: it is taken for a person",
            False,
        )
    ]


@pytest.mark.parametrize(
    ("address", "why"),
    [
        ("nobody", "it is no name of a member: it must hold exactly one '@', not 0"),
        ("all@lists.ubc.example", "a list cannot be a member of itself"),
        ("all@ubc.example", "all@ubc.example is a group, and all@ubc.example is not the address of its list"),
        (
            "all+muted@ubc.example",
            "all+muted@ubc.example is a group, and all+muted@ubc.example is not the address of its list",
        ),
    ],
)
def test_a_member_that_can_be_none_is_left_out_and_told_by_line(address, why):
    wanted = translated(a_list("all"), a_member(address), a_member(address, role="moderator"))
    assert wanted.arcs == ()
    assert told(wanted)[0] == (2, "all@lists.ubc.example", address, why, True)


def test_an_address_is_unquoted_and_a_name_that_acts_on_a_terminal_is_told_without():
    wanted = translated(a_list("all"), a_member('"a, b"@x.example'), a_member("\x1b[2J@x.example"))
    assert wanted.arcs == (Arc(ALL, "a, b@x.example", "process"),)
    assert wanted.notes[0].address == "?[2J@x.example"


def test_a_group_that_is_there_already_is_nested_too():
    wanted = translated(a_list("all"), a_member("staff@lists.ubc.example"), existing={"staff@ubc.example"})
    assert wanted.arcs == (Arc(ALL, "staff@ubc.example", "group"),)
    assert wanted.notes == ()


def test_a_list_whose_delivery_is_off_is_not_nested():
    wanted = translated(
        a_list("all"),
        a_list("lab"),
        a_member("lab@lists.ubc.example", delivery_status="by_bounces"),
        a_member(ANN, "lab"),
    )
    assert wanted.arcs == (Arc(LAB, ANN, "process"),)
    assert wanted.notes[0].reason == "it is a list whose delivery is off: it would get nothing, so it is not nested"


def test_an_owner_may_be_a_list_and_is_not_muted():
    wanted = translated(
        a_list("all"),
        a_list("lab"),
        a_member("lab@lists.ubc.example", role="owner"),
        a_member(ANN, role="owner", delivery_status="by_user"),
    )
    assert wanted.arcs == (
        Arc("all+owners@ubc.example", ANN, "process"),
        Arc("all+owners@ubc.example", LAB, "group"),
    )


def test_two_lists_of_one_name_are_refused_by_name():
    two = {"lists.ubc.example": "ubc.example", "other.example": "ubc.example"}
    assert refusal(a_list("all"), a_list("all", "other.example"), subnets=two) == (
        "two lists would be the group all@ubc.example: all@lists.ubc.example (line 1) and all@other.example (line 2)"
    )
    assert "two lists would be the group all@ubc.example" in refusal(a_list("all"), a_list("All"))


def test_a_list_with_the_name_of_a_group_beside_another_is_refused_by_name():
    assert refusal(a_list("all"), a_list("all+owners")) == (
        "the group all+owners@ubc.example would be the list all+owners@lists.ubc.example (line 2), and stand beside "
        "all@lists.ubc.example (line 1)"
    )


def test_lists_of_other_domains_are_left_out_and_rosters_without_any_other_refused():
    wanted = translated(
        a_list("all"), a_list("x", "other.example"), {"list_id": "x.other.example", "email": ANN, "role": "member"}
    )
    assert wanted.lists == (ALL,)
    assert wanted.arcs == ()
    assert told(wanted) == [
        (
            2,
            "x@other.example",
            None,
            "other.example stands for no subnet; the list and its members are left out",
            True,
        )
    ]
    assert refusal(a_list("x", "other.example")) == (
        "there is no list in it whose domain stands for a subnet; those that do: lists.ubc.example"
    )


def test_rosters_alone_tell_their_lists():
    subnets = SUBNETS | {"ubc.example": "wrong.example"}
    wanted = translated(a_member(ANN, of="a.b"), {"list_id": "x.y", "email": ANN, "role": "member"}, subnets=subnets)
    assert wanted.arcs == (Arc("a.b@ubc.example", ANN, "process"),)
    assert told(wanted) == [(2, "x.y", None, "no list has this id; it and its members are left out", True)]


def test_a_member_that_stands_twice_is_one_and_told_once():
    twice = a_member(ANN, delivery_mode="mime_digests")
    wanted = translated(a_list("all"), twice, twice | {"delivery_status": "by_user"})
    assert wanted.arcs == (Arc("all+muted@ubc.example", ANN, "process"), Arc(ALL, ANN, "process"))
    assert len(wanted.notes) == 1


def test_the_subnets_are_those_whose_groups_a_member_could_be():
    rosters = read_rosters(
        "\n".join(json.dumps(each) for each in (a_list("all"), a_member("x@ubc.example"), a_member(ANN)))
    )
    assert subnets_of_members(rosters, SUBNETS | {"unused.example": "unused.example"}) == {"ubc.example"}
