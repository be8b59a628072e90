"""Allowed posters, by the sender of the envelope."""

import pytest

from mailing.rules.index import GroupIndex
from mailing.rules.lists import Lists, ListSettings
from mailing.rules.posting import (
    AskWhether,
    Permitted,
    Refused,
    Uncertain,
    action_of,
    asked_recipient,
    is_list_address,
    not_in,
    who_may_post,
)

ALL = "all@ubc.example"


def judged(post, sender):
    return who_may_post(ALL, ListSettings(post=post), sender)


def test_members_may_post_unless_a_list_says_otherwise():
    assert who_may_post(ALL, ListSettings(), "ann@x.example") == AskWhether(ALL, ("ann@x.example",))
    assert judged("staff@sfu.example", "ann@x.example") == AskWhether("staff@sfu.example", ("ann@x.example",))
    assert judged("anyone", "ann@x.example") == AskWhether(None, ("ann@x.example",))
    assert judged("nobody", "ann@x.example") == Refused("nobody may post to all@ubc.example")


@pytest.mark.parametrize("post", ["anyone", "members", "nobody", "staff@sfu.example"])
def test_bounces_are_distributed_by_no_list(post):
    assert isinstance(judged(post, ""), Refused)


def test_a_sender_is_looked_for_by_the_name_that_the_address_is():
    assert judged("members", "Ann.Lee@X.Example").people == ("Ann.Lee@x.example",)
    assert judged("members", '"ann lee"@x.example').people == ("ann lee@x.example",)
    assert judged("members", "ann@bücher.example.").people == ("ann@xn--bcher-kva.example",)


def test_a_tag_of_the_senders_own_server_is_taken_off_and_counts_too_if_it_is_a_name():
    tagged = "prvs=4211fe3a7d=bob@x.example"
    assert judged("members", tagged).people == ("bob@x.example", tagged)


def test_whom_a_forwarder_names_counts_only_where_the_author_is_looked_at_again():
    forwarded = "SRS0=HHH=TT=x.example=bob@fwd.example"
    assert judged("members", forwarded).people == (forwarded,)
    again = who_may_post(ALL, ListSettings(), forwarded, is_looked_at_again=True)
    assert again == AskWhether(ALL, ("bob@x.example", forwarded))


@pytest.mark.parametrize(
    ("address", "is_one"),
    [
        ("all@lists.ubc.example", True),
        ("ALL@Lists.UBC.example", True),
        ("all@ubc.example", True),
        ("all-owner@lists.ubc.example", True),
        ("all-request@lists.ubc.example", True),
        ("prvs=4211fe3a7d=all@lists.ubc.example", True),
        ("all@sfu.example", False),
        ("none@lists.ubc.example", False),
        ("none@ubc.example", False),
        ("all-bounces-abcdefghijklmnop+ann=x.example@lists.ubc.example", False),
        ("", False),
    ],
)
def test_a_list_is_known_by_its_addresses_and_by_its_group(address, is_one):
    index = GroupIndex()
    index.replace("ubc.example", [ALL, "all+owners@ubc.example"])
    assert is_list_address(address, Lists({"lists.ubc.example": "ubc.example"}), index) is is_one


@pytest.mark.parametrize("sender", ["ann", "ann@", "@x.example", "a@b@x.example", "ann@[127.0.0.1]", "a\\b@x.example"])
def test_a_sender_whose_address_can_be_nobodys_name_is_no_member(sender):
    assert judged("members", sender) == Refused("only members may post to all@ubc.example")
    assert judged("anyone", sender) == Permitted()


def test_a_refusal_names_the_group_whose_members_may_post():
    assert not_in(ALL, ALL).why == "only members may post to all@ubc.example"
    assert not_in(ALL, "staff@sfu.example").why == "only members of staff@sfu.example may post to all@ubc.example"


@pytest.mark.parametrize(
    ("verdict", "action"),
    [
        (Permitted(), b"action=DUNNO\n\n"),
        (Refused("no"), b"action=550 5.7.1 <all@x.example>: no\n\n"),
        (
            Uncertain("out of reach:\nlab@sfu.example"),
            b"action=451 4.3.0 <all@x.example>: out of reach: lab@sfu.example\n\n",
        ),
        (Refused("größe"), b"action=550 5.7.1 <all@x.example>: gr??e\n\n"),
    ],
)
def test_an_action_is_one_line_of_ascii(verdict, action):
    assert action_of(verdict, "all@x.example") == action


def test_a_long_explanation_is_cut():
    action = action_of(Uncertain("x" * 5_000), "all@x.example")
    assert len(action) < 520
    assert action.endswith(b"x\n\n")


@pytest.mark.parametrize(
    ("attributes", "recipient"),
    [
        ({"protocol_state": "RCPT", "recipient": "all@x.example"}, "all@x.example"),
        ({"protocol_state": "RCPT", "recipient": '"big list"@x.example'}, "big list@x.example"),
        ({"protocol_state": "RCPT", "recipient": ""}, None),
        ({"protocol_state": "RCPT"}, None),
        ({"protocol_state": "END-OF-MESSAGE", "recipient": "all@x.example"}, None),
        ({"recipient": "all@x.example"}, None),
    ],
)
def test_only_questions_about_a_recipient_are_judged(attributes, recipient):
    assert asked_recipient(attributes) == recipient
