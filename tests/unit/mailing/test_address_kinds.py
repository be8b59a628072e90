"""Addresses of lists, and of the owners of a list."""

import pytest

from mailing.rules.address_kinds import Ambiguous, CommandPlace, ListPlace, OwnersPlace, Word, place_of, split_command
from mailing.rules.index import GroupIndex
from mailing.rules.lists import JoinPolicy, Lists, ListSettings, Unsubscribe, beside, target_of, without

LISTS = Lists(
    {"lists.ubc.example": "ubc.example"},
    ListSettings(),
    {"board@ubc.example": ListSettings(owners="chairs@sfu.example", excluding=("guests@ubc.example",))},
)
GROUPS = (
    "all@ubc.example",
    "all+muted@ubc.example",
    "all+owners@ubc.example",
    "board@ubc.example",
    "co-owner@ubc.example",
    "Staff@ubc.example",
    "Twice@ubc.example",
    "TWICE@ubc.example",
    "other+muted@ubc.example",
    "größe@ubc.example",
    "on-leave@ubc.example",
)


@pytest.fixture
def index():
    index = GroupIndex()
    index.replace("ubc.example", GROUPS)
    return index


@pytest.mark.parametrize(
    ("address", "group"),
    [
        ("all@lists.ubc.example", "all@ubc.example"),
        ("all@Lists.UBC.example", "all@ubc.example"),
        ("all@ubc.example", None),
        ("@lists.ubc.example", None),
        ("all", None),
        ("", None),
    ],
)
def test_an_address_of_a_mail_domain_stands_for_a_group_of_its_subnet(address, group):
    assert LISTS.group_of(address) == group


@pytest.mark.parametrize(
    ("group", "place"),
    [
        ("all@ubc.example", ListPlace("all@ubc.example")),
        ("ALL@ubc.example", ListPlace("all@ubc.example")),
        ("staff@ubc.example", ListPlace("Staff@ubc.example")),
        ("twice@ubc.example", Ambiguous(("TWICE@ubc.example", "Twice@ubc.example"))),
        ("Twice@ubc.example", ListPlace("Twice@ubc.example")),
        ("nobody@ubc.example", None),
        ("all@elsewhere.example", None),
        ("all+owners@ubc.example", ListPlace("all+owners@ubc.example")),
        ("all-owner@ubc.example", OwnersPlace("all+owners@ubc.example")),
        ("board-owner@ubc.example", OwnersPlace("chairs@sfu.example")),
        ("staff-owner@ubc.example", None),
        ("twice-owner@ubc.example", None),
        ("-owner@ubc.example", None),
        ("co-owner@ubc.example", ListPlace("co-owner@ubc.example")),
        ("GRÖSSE@ubc.example", ListPlace("größe@ubc.example")),
        ("all-leave@ubc.example", CommandPlace("all@ubc.example", Word.LEAVE)),
        ("ALL-Join@ubc.example", CommandPlace("all@ubc.example", Word.JOIN)),
        ("board-request@ubc.example", CommandPlace("board@ubc.example", Word.REQUEST)),
        (f"all-confirm+{'A2' * 8}@ubc.example", CommandPlace("all@ubc.example", Word.CONFIRM, "a2" * 8)),
        (f"all-Approve+{'A2' * 8}@ubc.example", CommandPlace("all@ubc.example", Word.APPROVE, "a2" * 8)),
        (f"all-reject+{'a2' * 8}@ubc.example", CommandPlace("all@ubc.example", Word.REJECT, "a2" * 8)),
        ("all-approve@ubc.example", None),
        ("all-confirm@ubc.example", None),
        ("all-confirm+short@ubc.example", None),
        ("all+muted-leave@ubc.example", None),
        ("nobody-leave@ubc.example", None),
        ("twice-leave@ubc.example", None),
        ("-leave@ubc.example", None),
        ("on-leave@ubc.example", ListPlace("on-leave@ubc.example")),
        ("all" + "-leave" * 5_000 + "@ubc.example", None),
    ],
)
def test_a_name_in_a_subnet_is_a_list_or_its_owners_or_nothing(group, place, index):
    assert place_of(group, LISTS, index) == place


def test_those_who_muted_a_list_are_no_list_but_where_there_is_no_such_list(index):
    assert place_of("all+muted@ubc.example", LISTS, index) is None
    assert place_of("other+muted@ubc.example", LISTS, index) == ListPlace("other+muted@ubc.example")


def test_a_group_that_is_deleted_is_found_by_no_name(index):
    index.remove("TWICE@ubc.example")
    index.remove("all@ubc.example")
    index.remove("all@elsewhere.example")
    assert index.find("twice@ubc.example") == ("Twice@ubc.example",)
    assert index.find("ALL@ubc.example") == ()
    index.replace("ubc.example", ["new@ubc.example"])
    assert index.find("NEW@ubc.example") == ("new@ubc.example",)
    assert index.find("Staff@ubc.example") == ()


def test_a_group_of_a_subnet_that_is_not_held_is_not_taken(index):
    index.add("all@sfu.example")
    assert index.find("all@sfu.example") == ()


def test_the_exceptions_of_a_list_are_its_own_and_those_who_muted_it():
    settings = ListSettings(excluding=("guests@ubc.example",))
    assert target_of("all@ubc.example", settings, is_muted=True).excluding == (
        "all+muted@ubc.example",
        "guests@ubc.example",
    )
    assert target_of("all@ubc.example", ListSettings(), is_muted=False).excluding == ()


def test_an_ending_stands_before_the_subnet():
    assert beside("all@ubc.example", "+muted") == "all+muted@ubc.example"
    assert without("all+muted@ubc.example", "+muted") == "all@ubc.example"
    assert without("+muted@ubc.example", "+muted") is None
    assert without("all@ubc.example", "+muted") is None


def test_an_address_of_a_command_names_the_list_as_it_was_written():
    assert split_command("A b-leave-JOIN@l.example") == ("A b-leave@l.example", Word.JOIN, "")
    assert split_command("all@l.example") is None


def test_a_default_opens_no_group_whose_members_have_a_say():
    says = ListSettings(post="writers@ubc.example", owners="chairs@ubc.example", excluding=("guests@ubc.example",))
    own = {"board@ubc.example": says, "shut@ubc.example": ListSettings(), "chairs@ubc.example": ListSettings()}
    names = ("all", "writers", "chairs", "guests", "all+owners", "board", "shut")
    for rule in (JoinPolicy.OPEN, JoinPolicy.ASK):
        lists = Lists(LISTS.subnets, ListSettings(join=rule), own)
        rules = {name: lists.join_rule(f"{name}@ubc.example") for name in names}
        assert rules == {**dict.fromkeys(names, JoinPolicy.CLOSED), "all": rule}
    own = Lists(LISTS.subnets, ListSettings(), {"all+owners@ubc.example": ListSettings(join=JoinPolicy.OPEN)})
    assert own.join_rule("all+owners@ubc.example") is JoinPolicy.OPEN
    assert own.join_rule("all@ubc.example") is JoinPolicy.CLOSED


@pytest.mark.parametrize(
    ("word", "own", "foreign"),
    [("shared", False, False), ("none", False, False), ("personal", True, True), ("foreign", False, True)],
)
def test_who_has_a_copy_of_their_own(word, own, foreign):
    lists = Lists(LISTS.subnets, ListSettings(unsubscribe=Unsubscribe(word)))
    found = [
        lists.has_personal_copy("all@ubc.example", f"ann@{domain}") for domain in ("UBC.example", "cs.ubc.example")
    ]
    assert found == [own, own]
    assert lists.has_personal_copy("all@ubc.example", "ann@notubc.example") is foreign
