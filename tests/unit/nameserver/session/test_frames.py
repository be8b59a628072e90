"""Frames on the wire: a sent frame is read back unchanged, and any bytes are handled."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namegraph import PLAIN_TEXT_VERSION, Lane
from nameserver.session import frames
from nameserver.session.frames import (
    DATAGRAMS_LIMIT,
    TEXT_LIMIT,
    Acquaintances,
    DatagramFrame,
    Frame,
    Goodbye,
    GoodbyeReason,
    Heartbeat,
    Hello,
    KnownServer,
    Leaving,
    LetterPart,
    Letters,
    Malformed,
    Receipt,
    Retired,
    decode,
    encode,
)
from shadowtree.v1 import peer_pb2

FRAMES = [
    Hello(PLAIN_TEXT_VERSION, "a.x", ("a.x", "b.x"), 2**64 - 1, 3, ("c.x",)),
    Hello(PLAIN_TEXT_VERSION, "a.x", ("a.x",), 1, 3, (), through="c.x"),
    Letters(3, 17, (b"one", b"", b"three"), 5),
    LetterPart(3, 17, b"part", True, 5),
    LetterPart(3, 17, b"part", False, 0),
    Letters(3, 17, (b"one",), 5, 2**64 - 1),
    Letters(3, 17, (b"one", b"", b"three"), 5, 6, Lane.POST),
    LetterPart(3, 17, b"part", True, 5, 6),
    LetterPart(3, 17, b"part", True, 5, 6, Lane.POST),
    DatagramFrame(3, (b"one", b"")),
    Receipt(3, 5),
    Receipt(3, 5, 6),
    Heartbeat(3, 2**63, 2**63 - 1, 1_500),
    Heartbeat(3, 1, 0, 0, view="2@a.x", cannot_write="the disk is full"),
    Hello(
        PLAIN_TEXT_VERSION,
        "a.x",
        ("a.x",),
        1,
        3,
        (),
        known=(KnownServer("b.x", ("b.x", "b2.x")), KnownServer("c.x", ())),
    ),
    Acquaintances(3, (KnownServer("b.x", ("b.x",)),)),
    Acquaintances(3, ()),
    Leaving(3),
    *(Goodbye(reason, "why") for reason in GoodbyeReason),
]


@pytest.mark.parametrize("frame", FRAMES, ids=lambda frame: type(frame).__name__)
def test_a_frame_comes_as_it_was_sent(frame):
    assert decode(encode(frame)) == frame


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_malformed(data):
    assert isinstance(decode(data), Frame | Retired | Malformed)


@pytest.mark.parametrize(
    "hello",
    [
        {"server": "not a name", "subnets": ["a.x"], "session": 1},
        {"server": "a.x", "subnets": ["a.x", "b@x"], "session": 1},
        {"server": "a.x", "subnets": ["a.x"], "session": 1, "addressed_subnets": [""]},
        {"server": "a.x", "subnets": [], "session": 1},
        {"server": "a.x", "subnets": ["a.x"], "session": 0},
        {"server": "a.x", "subnets": ["a.x"], "session": 1, "known": [{"server": "b@x"}]},
        {"server": "a.x", "subnets": ["a.x"], "session": 1, "through": "c@x"},
    ],
)
def test_a_hello_that_names_nobody_is_malformed(hello):
    wire = peer_pb2.PeerFrame(hello=peer_pb2.PeerFrame.Hello(protocol_version=PLAIN_TEXT_VERSION, **hello))
    assert isinstance(decode(wire.SerializeToString()), Malformed)


@pytest.mark.parametrize("count", [0, DATAGRAMS_LIMIT + 1])
def test_no_datagrams_and_too_many_are_malformed(count):
    assert isinstance(decode(encode(DatagramFrame(3, (b"",) * count))), Malformed)


@pytest.mark.parametrize("known", [{"server": ""}, {"server": "b.x", "subnets": ["no subnet"]}])
def test_acquaintances_that_are_nobody_are_malformed(known):
    wire = peer_pb2.PeerFrame(acquaintances=peer_pb2.PeerFrame.Acquaintances(session=1, known=[known]))
    assert isinstance(decode(wire.SerializeToString()), Malformed)


def test_more_acquaintances_than_anybody_has_are_malformed(monkeypatch):
    monkeypatch.setattr(frames, "KNOWN_SERVERS_LIMIT", 1)
    one, two = (tuple(KnownServer(f"s{number}.x", ()) for number in range(count)) for count in (1, 2))
    for frame in (Acquaintances(1, one), Hello(PLAIN_TEXT_VERSION, "a.x", ("a.x",), 1, 1, (), 0, one)):
        assert decode(encode(frame)) == frame
        assert isinstance(decode(encode(replace(frame, known=two))), Malformed)


def test_more_subnets_than_anybody_has_are_malformed(monkeypatch):
    monkeypatch.setattr(frames, "OWN_SUBNETS_LIMIT", 2)
    monkeypatch.setattr(frames, "KNOWN_SUBNETS_LIMIT", 2)
    one, two = ("a.x", "b.x"), ("a.x", "b.x", "c.x")
    hello = Hello(PLAIN_TEXT_VERSION, "a.x", one, 1, 1, one, 0, (KnownServer("s.x", one),))
    assert decode(encode(hello)) == hello
    for change in ({"subnets": two}, {"addressed_subnets": two}, {"known": (KnownServer("s.x", two),)}):
        assert isinstance(decode(encode(replace(hello, **change))), Malformed)
    many = (KnownServer("s.x", one), KnownServer("t.x", one))
    assert isinstance(decode(encode(Acquaintances(1, many))), Malformed)


RELAY_OF_AN_OLDER_SERVER = b"\x42\x0a\x08\x03\x12\x01a\x1a\x01b(\x01"
"""Field 8 of a frame: session 3, source a, destination b, dialled by the source."""


def test_a_frame_that_only_older_servers_send_is_retired_and_no_fault():
    assert decode(RELAY_OF_AN_OLDER_SERVER) == Retired()
    assert isinstance(decode(RELAY_OF_AN_OLDER_SERVER.replace(b"\x42", b"\x6a")), Malformed)


def test_of_a_hello_in_another_version_only_the_version_counts():
    wire = peer_pb2.PeerFrame(hello=peer_pb2.PeerFrame.Hello(protocol_version=99, server="???"))
    assert decode(wire.SerializeToString()).protocol_version == 99


@pytest.mark.parametrize(
    "wire",
    [
        peer_pb2.PeerFrame(),
        peer_pb2.PeerFrame(letters=peer_pb2.PeerFrame.Letters(session=1, first_number=1)),
        peer_pb2.PeerFrame(letters=peer_pb2.PeerFrame.Letters(session=1, letters=[b"one"])),
        peer_pb2.PeerFrame(letter_part=peer_pb2.PeerFrame.LetterPart(session=1, number=1)),
        peer_pb2.PeerFrame(letter_part=peer_pb2.PeerFrame.LetterPart(session=1, part=b"one")),
        peer_pb2.PeerFrame(posts=peer_pb2.PeerFrame.Letters(session=1, first_number=1)),
        peer_pb2.PeerFrame(posts=peer_pb2.PeerFrame.Letters(session=1, letters=[b"one"])),
        peer_pb2.PeerFrame(post_part=peer_pb2.PeerFrame.LetterPart(session=1, number=1)),
        peer_pb2.PeerFrame(post_part=peer_pb2.PeerFrame.LetterPart(session=1, part=b"one")),
    ],
)
def test_a_frame_that_says_nothing_is_malformed(wire):
    assert isinstance(decode(wire.SerializeToString()), Malformed)


def test_the_words_of_a_peer_are_cut_to_one_line():
    goodbye = decode(encode(Goodbye(GoodbyeReason.LEAVING, "two\nlines\x1b[31m" + "x" * 10_000)))
    assert goodbye.message.startswith("two lines [31m")
    assert len(goodbye.message) == TEXT_LIMIT


def test_a_reason_of_a_later_version_is_still_a_goodbye():
    wire = peer_pb2.PeerFrame(goodbye=peer_pb2.PeerFrame.Goodbye(reason=1234, message="why"))
    assert decode(wire.SerializeToString()) == Goodbye(GoodbyeReason.UNSPECIFIED, "why")
