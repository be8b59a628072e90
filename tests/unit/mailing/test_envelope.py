"""The person behind the sender of an envelope."""

import pytest

from mailing.rules.envelope import forwarded_for, untagged

BOB = "bob@people.example"


@pytest.mark.parametrize(
    "tagged",
    [
        "prvs=4211fe3a7d=bob@people.example",
        "PRVS=4211FE3A7D=bob@people.example",
        "prvs=bob=4211fe3a7d@people.example",
        "prvs=bob/4211fe3a7d@people.example",
        "prvs=2017c5bcb=bob@people.example",
        "prvs=tag1=bob@people.example",
        "msprvs1=17234abcd0=bob@people.example",
        "btv1==0123456789a==bob@people.example",
        '"prvs=4211fe3a7d=bob"@people.example',
        "prvs=4211fe3a7d=btv1==0123456789a==bob@people.example",
    ],
)
def test_tags_of_a_persons_own_server_are_taken_off(tagged):
    assert untagged(tagged) == forwarded_for(tagged) == BOB


@pytest.mark.parametrize(
    "forwarded",
    [
        "SRS0=HHH=TT=people.example=bob@fwd.example",
        "SRS0+HHH=TT=people.example=bob@fwd.example",
        "SRS0-HHH=TT=people.example=bob@fwd.example",
        "srs0=hhh=tt=people.example=bob@fwd.example",
        "SRS1=XXX=first.example==HHH=TT=people.example=bob@second.example",
        "SRS1+XXX=first.example=+HHH=TT=people.example=bob@second.example",
        "SRS1-XXX=first.example=-HHH=TT=people.example=bob@second.example",
        "box+SRS=Gasku=4W=people.example=bob@tenant.example",
        "SRS0=HHH=TT=people.example=prvs=4211fe3a7d=bob@fwd.example",
    ],
)
def test_a_forwarder_names_whom_it_forwards_and_another_domain_than_its_own(forwarded):
    assert forwarded_for(forwarded) == BOB
    assert untagged(forwarded) == forwarded


@pytest.mark.parametrize(
    "sender",
    ["", BOB, "bob+lists@people.example", "prvs=@people.example", "SRS0=bob@x.example", "srs@x.example", "prvs"],
)
def test_other_senders_stay_as_they_are(sender):
    assert untagged(sender) == forwarded_for(sender) == sender


def test_what_is_wrapped_over_and_over_ends():
    assert untagged("prvs=4211fe3a7d=" * 1_000 + BOB).endswith(BOB)
