"""A server names another incarnation than was known of it: channels begin again, once, and sessions only then."""

from types import SimpleNamespace

import pytest

from namegraph.events import PeerRestored, Restored
from nameserver.session.frames import GoodbyeReason, Hello
from nameserver.session.session import Ending
from nameserver.transport.stale_database import StaleDatabase
from tests.fakes.peer_core import FakePeerCore

PEER = "b.x"


def hello(incarnation):
    return Hello(1, PEER, (PEER,), 1, 1, (), incarnation, ())


class Scene:
    def __init__(self):
        self.core = FakePeerCore("a.x", ["a.x"], {PEER: "127.0.0.1:1"})
        self.taken, self.coming, self.said = [], set(), []
        self.database = StaleDatabase(
            server="a.x",
            incarnations=self.core.incarnations,
            channels=self.core.channels,
            conversations=[],
            take=self.taken.append,
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
