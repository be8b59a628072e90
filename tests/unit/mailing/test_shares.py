"""The content of a share, the refused parts, and the queue's report on shares."""

from dataclasses import replace

import msgspec
import pytest

from delivery.model import mail_stamps
from mailing.rules import shares
from mailing.rules.events import Spooled
from mailing.rules.message import key_of, read_content
from mailing.rules.queue import queued, reached, served_elsewhere
from mailing.rules.shares import (
    NotAShareError,
    Share,
    SharedList,
    encoded,
    proof_of,
    read_share,
    sort_out,
    stamp_of,
    why_refused,
)
from mailing.rules.spooled import Chunk, Destination, ListOrigin, MailMessage, MailState, OtherShare, PostState

CONTENT = b"Message-ID: <one@x.example>\r\nFrom: ann@x.example\r\n\r\nHello.\r\n"
ORIGIN = ListOrigin("lists.ubc.example", "ab12; cd34", "all-owner@lists.ubc.example", "", "all-leave@lists.ubc.example")
LIST = SharedList("all@ubc.example", "all@lists.ubc.example", ("all+muted@ubc.example",), True, False, ORIGIN)
SHARE = Share(
    key_of(read_content(CONTENT)),
    "ann@x.example",
    "Ann",
    "Hello",
    False,
    ("ann@x.example",),
    ("ubc.example",),
    (LIST, replace(LIST, group="news@ubc.example", address='"a b"@lists.ubc.example')),
    CONTENT,
)


def test_a_share_is_read_as_it_was_written():
    found = read_share(encoded(SHARE))
    assert found == SHARE
    places = [each.destination("lists.sfu.example") for each in found.lists]
    assert [each.place for each in places] == [("all@ubc.example", True), ("news@ubc.example", True)]
    assert places[0].skips_addressed and places[0].origin == replace(ORIGIN, here="all@lists.sfu.example")
    assert [each.return_address for each in places] == ["all@lists.sfu.example", '"a b"@lists.sfu.example']


def test_a_share_of_an_earlier_version_is_read_and_has_no_proof():
    told = msgspec.msgpack.decode(encoded(SHARE))
    assert told["subnets"] == ["ubc.example"]
    del told["proof"]
    assert read_share(msgspec.msgpack.encode(told)) == replace(SHARE, proof="")


def test_a_share_is_proven_where_nothing_of_it_was_changed_since_its_own_gateway_made_it():
    proven = replace(SHARE, proof=proof_of(b"secret", SHARE))
    assert read_share(encoded(proven)).is_proven(b"secret")
    forged = [
        SHARE,
        replace(SHARE, proof="a" * 16),
        replace(SHARE, proof="é"),
        replace(proven, id="0" * 32),
        replace(proven, content=CONTENT + b"more\r\n"),
        replace(proven, addressed=()),
        replace(proven, addressed=(), lists=(replace(LIST, group="ann@x.example"), *SHARE.lists)),
        replace(proven, lists=proven.lists[:1]),
    ]
    assert not [share for share in forged if share.is_proven(b"secret")]
    assert not proven.is_proven(b"another secret")


def test_what_another_gateway_sent_is_found_by_the_home_of_its_list_its_id_and_its_body_alone():
    here = SHARE.id_here(b"secret")
    assert replace(SHARE, content=b"ARC-Seal: i=1\r\n" + CONTENT, subject="other").id_here(b"secret") == here
    others = {
        SHARE.id,
        SHARE.id_here(b"another secret"),
        with_list(group="all@sfu.example").id_here(b"secret"),
        replace(SHARE, id="0" * 32).id_here(b"secret"),
        replace(SHARE, content=CONTENT + b"more\r\n").id_here(b"secret"),
    }
    assert len(others) == 5 and here not in others


def with_list(**changes):
    return replace(SHARE, lists=(replace(LIST, **changes),))


@pytest.mark.parametrize(
    "share",
    [
        replace(SHARE, id="m1"),
        replace(SHARE, id="AB" * 16),
        replace(SHARE, content=b"From: a\n\nbare"),
        replace(SHARE, content=b"no field\r\n\r\n"),
        replace(SHARE, lists=()),
        replace(SHARE, lists=(LIST,) * 51),
        replace(SHARE, subject="one\r\nBcc: all"),
        replace(SHARE, author="x" * 2_001),
        with_list(group="no name"),
        with_list(address="all@lists.ubc.example\r\nBcc: x"),
        with_list(address="all"),
        with_list(address="a b@lists.ubc.example"),
        with_list(excluding=("x",)),
        with_list(origin=replace(ORIGIN, trace="ab12; cd34\r\nBcc: x")),
        with_list(origin=replace(ORIGIN, trace="")),
        with_list(origin=replace(ORIGIN, owners="<all>")),
        with_list(origin=replace(ORIGIN, request="jürgen@x.example")),
        with_list(origin=replace(ORIGIN, leave="all-leave@x.example, b@x.example")),
        with_list(origin=replace(ORIGIN, host="lists example")),
    ],
)
def test_what_could_do_harm_in_a_copy_is_no_share(share):
    with pytest.raises(NotAShareError):
        read_share(encoded(share))


@pytest.mark.parametrize(
    "payload",
    [
        *(b"", b"\x00", b"hello", encoded(SHARE)[:-1], b"\x81\xa2id\xa1a"),
        encoded(SHARE).replace(b"Hello", b"Hell\xff"),
        b"\x81\xa9addressed" + b"\x91" * 5_000,
    ],
)
def test_what_is_not_written_by_a_gateway_is_no_share(payload):
    with pytest.raises(NotAShareError):
        read_share(payload)


@pytest.mark.parametrize(
    ("share", "addressed", "own", "stamp", "why"),
    [
        (SHARE, "all@ubc.example", {"sfu.example"}, "", ""),
        (SHARE, "all@ubc.example", {"ubc.example"}, "", ""),
        (SHARE, "all@ubc.example", {"sfu.example"}, "a.example,ubc.example", ""),
        (
            SHARE,
            "all@ubc.example",
            {"sfu.example"},
            "c.example",
            "its server vouches for mail of c.example, and its lists are of ubc.example",
        ),
        (SHARE, "news@ubc.example", {"sfu.example"}, "", "it was sent to news@ubc.example, and says all@ubc.example"),
        (
            replace(SHARE, lists=(LIST, replace(LIST, group="a@b.example"))),
            "all@ubc.example",
            {"b.example"},
            "",
            "some of its lists are of this gateway, others not",
        ),
    ],
)
def test_a_share_is_served_where_its_gateway_has_the_lists_that_it_was_sent_to(share, addressed, own, stamp, why):
    assert why_refused(share, addressed, frozenset(own), stamp=stamp) == why


@pytest.mark.parametrize(
    ("groups", "served", "stamp"),
    [
        (("all@ubc.example",), {"ubc.example", "x.example"}, "ubc.example"),
        (("b@x.example", "all@ubc.example", "c@x.example"), {"ubc.example", "x.example"}, "ubc.example,x.example"),
        (("all@ubc.example", "a@other.example"), {"ubc.example"}, ""),
    ],
)
def test_a_share_is_stamped_if_one_server_owns_all_subnets_of_its_lists(groups, served, stamp):
    assert stamp_of(groups, served) == stamp
    assert shares.MAIL_STAMP == mail_stamps.MAIL_STAMP


PLACE = Destination("all@ubc.example", "all@lists.ubc.example", True, goes_by_shares=True)
COUNTS = (OtherShare("sfu.example", 0, 3), OtherShare("sfu.example", 1, 2), OtherShare("uvic.example", 0, 1))


@pytest.mark.parametrize(
    ("post", "state", "shares"),
    [
        (
            PostState((0,), is_settled=True, is_here=True),
            MailState.DONE,
            [("sfu.example", MailState.DONE, 5, 5, ""), ("uvic.example", MailState.DONE, 1, 1, "")],
        ),
        (
            PostState((0,), is_here=True),
            MailState.SENDING,
            [("sfu.example", MailState.SENDING, 5, 0, ""), ("uvic.example", MailState.SENDING, 1, 0, "")],
        ),
        (
            PostState((0,), is_here=True, is_spread=True, away=("uvic.example", "x.example")),
            MailState.WAITING,
            [
                ("sfu.example", MailState.DONE, 5, 5, ""),
                ("uvic.example", MailState.WAITING, 1, 0, "out of reach: it gets its share when it is back"),
                ("x.example", MailState.WAITING, 0, 0, "out of reach: it gets its share when it is back"),
            ],
        ),
        (
            PostState((0,), is_here=True, why="nobody may send"),
            MailState.WAITING,
            [
                ("sfu.example", MailState.WAITING, 5, 0, "nobody may send"),
                ("uvic.example", MailState.WAITING, 1, 0, "nobody may send"),
            ],
        ),
        (
            PostState((0,), is_settled=True, is_here=True, lost=("uvic.example",)),
            MailState.DONE,
            [
                ("sfu.example", MailState.DONE, 5, 5, ""),
                ("uvic.example", MailState.DROPPED, 1, 0, "it did not come within the time, or is gone for good"),
            ],
        ),
    ],
)
def test_the_queue_tells_a_share_for_each_server(post, state, shares):
    message = MailMessage("m", "s@x.example", 1, (PLACE,), revision="r", shares=COUNTS, own_people=2, post=post)
    told = queued(Spooled(message, (Chunk("m", 0, 0, ("a@x", "b@x"), ()),)), state, host="lists.ubc.example")
    own, *others = told.shares
    assert (own.server, own.state, own.people, own.done) == ("lists.ubc.example", MailState.DONE, 2, 2)
    assert [(each.server, each.state, each.people, each.done, each.why) for each in others] == shares
    assert (told.state, told.people) == (state, 2 + sum(each.people for each in others))
    assert told.done == 2 + sum(each.done for each in others)


def test_of_somebody_whom_another_gateway_serves_it_is_told_which():
    post = PostState((0,), is_settled=True, is_here=True)
    message = MailMessage("m", "s@x.example", 1, (PLACE,), revision="r", state=MailState.DONE, shares=COUNTS, post=post)
    found, at = reached(Spooled(message, ()), "bob@sfu.example", host="lists.ubc.example")
    assert (found.reached, at) == (False, None)
    elsewhere = served_elsewhere(found, "sfu.example")
    assert elsewhere == replace(
        found, gateway="sfu.example", why="the gateway at sfu.example serves its people, and knows"
    )


@pytest.mark.parametrize("is_whole", [True, False])
def test_who_is_named_is_served_here_where_nobody_else_may(is_whole):
    """Whom c.example owns is named since it has no gateway; of b.example, which is away, others' groups tell."""
    people = [("ann@c.example", 0), ("bob@b.example", 1), ("eve@nowhere.example", 0)]
    found = sort_out(
        people, owned=("a.example", "b.example", "c.example"), without_gateway=("c.example",), is_whole=is_whole
    )
    eve = (people[2],)
    assert found.certain == ((people[0], *eve) if is_whole else (people[0],))
    assert found.unsure == ((people[1],) if is_whole else (people[1], *eve))
    assert found.away == ("bob@b.example",)
