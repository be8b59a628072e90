"""A server names another incarnation than was known of it: channels begin again, once, and sessions only then."""

from types import SimpleNamespace

import pytest

from delivery.model.events import PeerStarted
from namegraph.events import PeerRestored, Restored
from nameserver.session.frames import GoodbyeReason, Hello
from nameserver.session.session import Ending
from nameserver.transport.stale_database import StaleDatabase
from tests.fakes.peer_core import FakePeerCore

PEER = "b.x"


START = 1


def hello(incarnation, server=PEER, start=START):
    return Hello(1, server, (server,), start, 1, (), incarnation, ())


class Conversation:
    def __init__(self, server, start):
        self.session = SimpleNamespace(hello=server and hello(0, server, start), is_with=lambda other: other == server)
        self.goodbyes = []

    def part(self, goodbye):
        self.goodbyes.append(goodbye.reason)


class Scene:
    def __init__(self):
        self.core = FakePeerCore("a.x", ["a.x"], {PEER: "127.0.0.1:1"})
        self.taken, self.coming, self.said = [], set(), []
        self.being_written, self.conversations, self.known_start = set(), [], START
        self.database = StaleDatabase(
            server="a.x",
            incarnations=self.core.incarnations,
            channels=self.core.channels,
            conversations=self.conversations,
            take=self.taken.append,
            is_known_start=lambda hello: hello.start == self.known_start,
            is_writing_what_came_from=self.being_written.__contains__,
            begins_again_with=self.coming.__contains__,
            say=self.said.append,
        )

    def answer(self, incarnation):
        goodbye = self.database.judge(hello(incarnation))
        return goodbye and goodbye.reason

    def is_told_that_letters_are_lost(self):
        ending = Ending(GoodbyeReason.LETTERS_LOST, "why", is_by_peer=True)
        self.database.ended(SimpleNamespace(session=SimpleNamespace(hello=hello(0), ending=ending)))
        return [type(event) for event in self.taken] == [Restored]


@pytest.fixture
def scene():
    return Scene()


def test_a_server_of_the_incarnation_known_is_talked_to(scene):
    assert scene.answer(0) is None
    assert scene.taken == []


def test_with_one_that_has_started_again_a_session_opens_once_what_it_had_sent_is_durable(scene):
    scene.being_written.add(PEER)
    assert scene.answer(0) is None, "it is the same start"
    scene.known_start = START - 1
    assert scene.answer(0) is GoodbyeReason.BEGUN_AGAIN
    assert scene.taken == []
    scene.being_written.clear()
    assert scene.answer(0) is None
    assert scene.taken == [PeerStarted(PEER)], "its posts come again"


def test_conversations_with_an_earlier_start_are_ended_first(scene):
    scene.known_start = START - 1
    earlier, same, other, none = (
        Conversation(PEER, START - 1),
        Conversation(PEER, START),
        Conversation("c.x", 5),
        Conversation(None, None),
    )
    scene.conversations += [earlier, same, other, none]
    assert scene.answer(0) is None
    assert [each.goodbyes for each in scene.conversations] == [[GoodbyeReason.REPLACED], [], [], []]


def test_with_a_fresh_incarnation_the_channels_begin_again_and_the_next_session_is_good(scene):
    assert scene.answer(7) is GoodbyeReason.BEGUN_AGAIN
    assert scene.taken == [PeerRestored(PEER, 7)]
    scene.core.step(scene.taken[0], 0.0)
    assert scene.answer(7) is None


def test_until_that_was_carried_out_no_session_is_begun_and_nothing_is_taken_twice(scene):
    scene.answer(7)
    scene.coming.add(PEER)
    assert scene.answer(7) is GoodbyeReason.BEGUN_AGAIN
    # The step has said already which incarnation it is, and not numbered the letters anew yet.
    scene.core.incarnations.heard_of(PEER, 7)
    assert scene.answer(7) is GoodbyeReason.BEGUN_AGAIN
    assert scene.taken == [PeerRestored(PEER, 7)]
    scene.coming.clear()
    assert scene.answer(7) is None


def test_an_incarnation_that_is_over_is_refused(scene):
    for incarnation in (7, 9):
        scene.core.step(PeerRestored(PEER, incarnation), 0.0)
    assert scene.answer(7) is GoodbyeReason.LETTERS_LOST
    assert scene.taken == []


def test_a_server_is_told_that_it_has_gone_back_also_where_it_found_nothing_wrong_itself(scene):
    scene.core.channels.met(PEER)
    assert scene.is_told_that_letters_are_lost()
    assert len(scene.said) == 1


def test_a_peer_that_keeps_a_session_open_has_nothing_of_the_kind_to_tell(scene):
    scene.database.keeps_open(PEER)
    assert not scene.is_told_that_letters_are_lost()


def test_after_channels_have_begun_again_it_has(scene):
    scene.database.keeps_open(PEER)
    scene.core.channels.begin_again(PEER)
    assert scene.is_told_that_letters_are_lost()
