"""The fate of frames to be passed on, and of the streams that they make up."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nameserver.session.frames import Relay
from nameserver.session.relay_rules import Arrived, Back, RelayFault, RelayOnward, ended, way_of
from nameserver.session.session import SessionState
from nameserver.transport.peer_streams import StreamBrokenError
from nameserver.transport.relay_hub import RelayHub
from nameserver.transport.relayed_stream import (
    FINISHED,
    UNREAD_BYTES_LIMIT,
    WINDOW_LIMIT,
    NoSuchStreamError,
    RelayedStreams,
)
from nameserver.transport.session_runner import RELAYS_BYTES_LIMIT, SessionRunner

SERVERS = ("a.x", "b.x", "c.x", "d.x")
SESSION = 7
"""The number of the session that each end has with the server between."""


def relay(source, destination, **more):
    return Relay(7, source, destination, 1, True, payload=b"inner", **more)


def way(frame, *, sender, here="c.x", reached=("a.x", "b.x"), known=("a.x", "b.x")):
    return way_of(frame, sender=sender, here=here, is_reached=lambda server: server in reached, known=known)


def test_a_frame_goes_on_to_its_destination():
    frame = relay("a.x", "b.x")
    assert way(frame, sender="a.x") == RelayOnward(frame)


def test_a_frame_arrives_from_whoever_passes_it_on():
    frame = relay("a.x", "c.x")
    assert way(frame, sender="b.x") == Arrived(frame)


def test_a_frame_for_a_server_that_is_not_reached_goes_back():
    frame = relay("a.x", "d.x")
    answer = way(frame, sender="a.x")
    assert answer == Back(ended(frame, "c.x does not reach d.x either"))
    assert (answer.relay.source, answer.relay.destination, answer.relay.payload) == ("d.x", "a.x", b"")


@pytest.mark.parametrize(
    ("frame", "sender", "fault"),
    [
        (relay("a.x", "b.x"), "d.x", RelayFault.FOR_ANOTHER),
        (relay("d.x", "c.x"), "a.x", RelayFault.UNKNOWN_SOURCE),
        (relay("a.x", "a.x"), "a.x", RelayFault.TO_ITSELF),
        (relay("c.x", "c.x"), "a.x", RelayFault.TO_ITSELF),
        (relay("c.x", "b.x"), "b.x", RelayFault.TO_ITSELF),
    ],
)
def test_what_no_correct_server_asks_for_goes_nowhere(frame, sender, fault):
    assert way(frame, sender=sender) is fault


@given(
    st.sampled_from(SERVERS),
    st.sampled_from(SERVERS),
    st.sampled_from(SERVERS),
    st.dictionaries(st.sampled_from(SERVERS), st.frozensets(st.sampled_from(SERVERS))),
)
def test_no_frame_makes_more_than_two_steps_whoever_reaches_whom(source, destination, first, reached):
    frame, sender, here = relay(source, destination), source, first
    for steps in range(1, 4):  # noqa: B007
        found = way(frame, sender=sender, here=here, reached=reached.get(here, ()), known=SERVERS)
        if not isinstance(found, RelayOnward):
            break
        assert found.relay == frame
        sender, here = here, destination
    assert steps <= 2


# -- streams


class Pair:
    """The streams of two servers, and frames on their way through a third one."""

    def __init__(self):
        self.under_way = []
        self.takes = True
        self.ends = {
            name: RelayedStreams(here=name, first_number=number, send=self._send)
            for number, name in enumerate(("a.x", "b.x"), 1)
        }
        self.accepted = []

    def _send(self, key, frame):
        assert (key.via, key.session) == ("c.x", SESSION)
        if self.takes:
            self.under_way.append(replace(frame, session=SESSION))
        return self.takes

    def carry(self):
        """Let all frames arrive."""
        while self.under_way:
            frame = self.under_way.pop(0)
            stream = self.ends[frame.destination].take(frame, via="c.x")
            if stream is not None:
                self.accepted.append(stream)

    async def connected(self):
        here = self.ends["a.x"].dial("b.x", via="c.x", session=SESSION)
        await here.write(b"hello")
        self.carry()
        (there,) = self.accepted
        assert await there.read() == b"hello"
        return here, there


@pytest.fixture
def pair():
    return Pair()


async def test_bytes_go_both_ways(pair):
    here, there = await pair.connected()
    await there.write(b"hello to you")
    await here.write(b"more")
    pair.carry()
    assert await here.read() == b"hello to you"
    assert await there.read() == b"more"


async def test_who_sends_waits_for_who_takes(pair):
    here, there = await pair.connected()
    sent = 0
    writing = asyncio.ensure_future(here.write(b"0"))
    while True:
        await asyncio.sleep(0)
        if not writing.done():
            break
        sent += 1
        writing = asyncio.ensure_future(here.write(str(sent).encode()))
    assert WINDOW_LIMIT // 2 <= sent <= WINDOW_LIMIT
    assert len(pair.under_way) <= WINDOW_LIMIT
    pair.carry()
    assert [await there.read() for _ in range(sent)] == [str(number).encode() for number in range(sent)]
    pair.carry()
    await writing
    pair.carry()
    assert await there.read() == str(sent).encode()


@given(st.lists(st.integers(0, 3), max_size=200))
async def test_whatever_is_done_when_all_arrives_once_and_in_order_and_the_window_holds(steps):
    pair = Pair()
    here, there = await pair.connected()
    sent, got, tasks = 0, [], []
    for step in steps:
        match step:
            case 0:
                tasks.append(asyncio.ensure_future(here.write(str(sent).encode())))
                sent += 1
            case 1:
                pair.carry()
            case 2 if there._came:
                got.append(await there.read())
        await asyncio.sleep(0)
        assert len(there._came) + len([frame for frame in pair.under_way if frame.payload]) <= WINDOW_LIMIT
    while len(got) < sent:
        pair.carry()
        got.append(await there.read())
        pair.carry()
        await asyncio.sleep(0)
    await asyncio.gather(*tasks)
    assert got == [str(number).encode() for number in range(sent)]


async def test_an_end_that_is_given_up_ends_the_other_after_what_was_sent(pair):
    here, there = await pair.connected()
    await here.write(b"last")
    await here.finish()
    pair.carry()
    assert await there.read() == b"last"
    with pytest.raises(StreamBrokenError, match=FINISHED):
        await there.read()
    with pytest.raises(StreamBrokenError):
        await here.write(b"too late")
    pair.carry()
    assert pair.under_way == []


async def test_a_stream_ends_with_the_server_that_passes_it_on(pair):
    here, _ = await pair.connected()
    reading = asyncio.ensure_future(here.read())
    await asyncio.sleep(0)
    pair.ends["a.x"].lose("d.x", SESSION)
    pair.ends["a.x"].lose("c.x", SESSION + 1)
    await asyncio.sleep(0)
    assert not reading.done()
    pair.ends["a.x"].lose("c.x", SESSION)
    with pytest.raises(StreamBrokenError, match=r"the connection with c\.x was lost"):
        await reading


async def test_a_stream_ends_where_nothing_can_be_passed_on(pair):
    here, _ = await pair.connected()
    pair.takes = False
    await here.write(b"lost")
    with pytest.raises(StreamBrokenError, match=r"c\.x takes no more"):
        await here.read()


async def test_a_frame_that_cannot_go_further_tells_why(pair):
    here = pair.ends["a.x"].dial("b.x", via="c.x", session=SESSION)
    await here.write(b"hello")
    pair.under_way = [ended(pair.under_way[0], "c.x does not reach b.x either")]
    pair.carry()
    with pytest.raises(StreamBrokenError, match=r"c\.x does not reach b\.x either"):
        await here.read()


async def test_a_late_frame_of_a_stream_that_is_over_makes_no_new_one(pair):
    here, there = await pair.connected()
    await here.write(b"late")
    pair.ends["b.x"].close(there)
    with pytest.raises(NoSuchStreamError):
        pair.ends["b.x"].take(pair.under_way[0], via="c.x")
    end = ended(pair.under_way[0], "there is no such stream")
    assert pair.ends["b.x"].take(end, via="c.x") is None


async def test_a_stream_does_not_go_on_over_another_session_with_the_server_between(pair):
    here, there = await pair.connected()
    await here.write(b"lost with the session")
    await here.write(b"the next one")
    (_, frame), pair.under_way = pair.under_way, []
    with pytest.raises(NoSuchStreamError):
        pair.ends["b.x"].take(replace(frame, session=SESSION + 1), via="c.x")
    pair.ends["b.x"].lose("c.x", SESSION)
    with pytest.raises(StreamBrokenError):
        await there.read()


def test_what_a_stream_sends_leaves_over_its_own_session_alone():
    numbers, sent = SimpleNamespace(number=SESSION, peer="c.x"), []
    sessions = {"c.x": SimpleNamespace(via=None, session=numbers, pass_on=lambda frame: sent.append(frame) or True)}
    hub = RelayHub(here="a.x", first_number=1, sessions=sessions, watches=None, count_fault=None, accept=None)
    stream = hub.dial("b.x", via="c.x")
    asyncio.run(stream.write(b"hello"))
    assert [frame.payload for frame in sent] == [b"hello"]
    sessions["c.x"].session = SimpleNamespace(number=SESSION + 1, peer="c.x")
    asyncio.run(stream.write(b"more"))
    with pytest.raises(StreamBrokenError):
        asyncio.run(stream.read())
    assert len(sent) == 1


@pytest.mark.parametrize(
    "payloads", [[b"too many"] * (WINDOW_LIMIT + 1), [bytes(UNREAD_BYTES_LIMIT // 2)] * 3], ids=["count", "bytes"]
)
async def test_who_sends_more_than_the_window_is_cut_off(pair, payloads):
    _, there = await pair.connected()
    for payload in payloads:
        there.deliver(Relay(0, "a.x", "b.x", 1, True, payload=payload))
    with pytest.raises(StreamBrokenError):
        await there.write(b"anything")


def test_frames_of_any_size_that_wait_to_be_passed_on_hold_no_more_than_so_much():
    session = SimpleNamespace(state=SessionState.OPEN, is_open_there=True, number=7, next_frame=lambda: None)
    conversation = SessionRunner(session, None, None, heard=None, pulse=None, view=None, cannot_write=None, clock=None)
    large = Relay(0, "a.x", "b.x", 1, True, payload=bytes(RELAYS_BYTES_LIMIT // 4))
    assert [conversation.pass_on(large) for _ in range(5)] == [True] * 4 + [False]
    assert not conversation.pass_on(replace(large, payload=b"x"))
    assert conversation._relay() == replace(large, session=7)
    assert conversation.pass_on(large)
