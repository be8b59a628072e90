"""A session: every state against every event, batches, parts, receipts, resumption."""

import pytest

from namegraph.model.protocol_versions import PROTOCOL_VERSION
from namegraph.state.durable_maps import DurableState
from namegraph.state.reliable_channels import Channels
from nameserver.session import session as session_module
from nameserver.session.frames import (
    Acquaintances,
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
    Relay,
)
from nameserver.session.session import (
    AcquaintancesCame,
    Faulted,
    FaultKind,
    HeartbeatCame,
    LeavingCame,
    LettersCame,
    Opened,
    ReceiptCame,
    RelayCame,
    Session,
    State,
)
from nameserver.session.session_tiebreak import SessionNumbers

HERE, PEER = "a.x", "b.x"
NUMBER = 7
"""Of the session, as the one who was dialled settles it."""


class ChannelsAsPost(Channels):
    """Real channels of which all is durable."""

    def letters_after(self, receiver, number):
        return self.kept(receiver, after=number)


def hello(*, server=PEER, session=NUMBER, start=5):
    return Hello(PROTOCOL_VERSION, server, (server,), start, session, ())


REFUSED = hello(server="stranger.x")
REFUSAL = Goodbye(GoodbyeReason.NOT_A_PEER, "not a peer")


def new_session(*, is_dialled_here, post=None, known=()):
    return Session(
        is_dialled_here=is_dialled_here,
        introduce=lambda number: hello(server=HERE, session=number),
        judge=lambda greeting: REFUSAL if greeting == REFUSED else None,
        is_known_start=lambda greeting: greeting.start in known,
        numbers=SessionNumbers(),
        post=post if post is not None else ChannelsAsPost(DurableState()),
    )


def frames(session):
    """All that it sends now."""
    sent = []
    while (frame := session.next_frame()) is not None:
        sent.append(frame)
    return sent


def session_in(state, *, post=None, known=(), handled_through=0):
    """A session that was dialled here, but for LISTENING, with nothing left to send."""
    session = new_session(is_dialled_here=state is not State.LISTENING, post=post, known=known)
    frames(session)
    if state in (State.GREETING, State.LISTENING):
        return session
    if state is State.ENDED:
        session.lost("cut")
        return session
    session.receive(hello())
    frames(session)
    if state is State.OPEN:
        session.receive(Receipt(NUMBER, handled_through))
    assert session.state is state
    return session


GOOD = hello()
LETTERS = Letters(NUMBER, 1, (b"one", b"two"), 0)
PART = LetterPart(NUMBER, 1, b"half", False, 0)
RECEIPT = Receipt(NUMBER, 0)
HEARTBEAT = Heartbeat(NUMBER, 3, 2, 100)
RELAY = Relay(NUMBER, "c.x", HERE, 5, True, payload=b"inner")
MET = Acquaintances(NUMBER, (KnownServer("c.x", ("c.x",)),))
LEAVING = Leaving(NUMBER)
GOODBYE = Goodbye(GoodbyeReason.LEAVING, "shutting down")
GARBAGE = Malformed("no frame")
OPENED = [Opened(GOOD), ReceiptCame(0)]
GREETING, LISTENING, RESUMING, OPEN, ENDED = State

OUT_OF_TURN = (ENDED, [Faulted(FaultKind.UNEXPECTED)], [GoodbyeReason.MALFORMED])
MALFORMED = (ENDED, [Faulted(FaultKind.GARBAGE)], [GoodbyeReason.MALFORMED])
SILENCE = (ENDED, [], [])

MEANING = {
    # (state, what comes): (state after it, events, what is sent: kinds of frames, reasons of goodbyes)
    (GREETING, GOOD): (RESUMING, [], [Receipt]),
    (GREETING, REFUSED): (ENDED, [], [GoodbyeReason.NOT_A_PEER]),
    (GREETING, LETTERS): OUT_OF_TURN,
    (GREETING, PART): OUT_OF_TURN,
    (GREETING, RECEIPT): OUT_OF_TURN,
    (GREETING, HEARTBEAT): OUT_OF_TURN,
    (GREETING, RELAY): OUT_OF_TURN,
    (GREETING, MET): OUT_OF_TURN,
    (GREETING, LEAVING): OUT_OF_TURN,
    (GREETING, GOODBYE): SILENCE,
    (GREETING, GARBAGE): MALFORMED,
    (LISTENING, GOOD): (RESUMING, [], [Hello, Receipt]),
    (LISTENING, REFUSED): (ENDED, [], [GoodbyeReason.NOT_A_PEER]),
    (LISTENING, LETTERS): OUT_OF_TURN,
    (LISTENING, PART): OUT_OF_TURN,
    (LISTENING, RECEIPT): OUT_OF_TURN,
    (LISTENING, HEARTBEAT): OUT_OF_TURN,
    (LISTENING, RELAY): OUT_OF_TURN,
    (LISTENING, MET): OUT_OF_TURN,
    (LISTENING, LEAVING): OUT_OF_TURN,
    (LISTENING, GOODBYE): SILENCE,
    (LISTENING, GARBAGE): MALFORMED,
    (RESUMING, GOOD): OUT_OF_TURN,
    (RESUMING, REFUSED): OUT_OF_TURN,
    (RESUMING, LETTERS): (OPEN, [*OPENED, LettersCame(1, (b"one", b"two"))], []),
    (RESUMING, PART): (OPEN, OPENED, []),
    (RESUMING, RECEIPT): (OPEN, OPENED, []),
    (RESUMING, HEARTBEAT): OUT_OF_TURN,
    (RESUMING, RELAY): OUT_OF_TURN,
    (RESUMING, MET): OUT_OF_TURN,
    (RESUMING, LEAVING): OUT_OF_TURN,
    (RESUMING, GOODBYE): SILENCE,
    (RESUMING, GARBAGE): MALFORMED,
    (OPEN, GOOD): OUT_OF_TURN,
    (OPEN, REFUSED): OUT_OF_TURN,
    (OPEN, LETTERS): (OPEN, [LettersCame(1, (b"one", b"two"))], []),
    (OPEN, PART): (OPEN, [], []),
    (OPEN, RECEIPT): (OPEN, [], []),
    (OPEN, HEARTBEAT): (OPEN, [HeartbeatCame(HEARTBEAT)], []),
    (OPEN, RELAY): (OPEN, [RelayCame(RELAY)], []),
    (OPEN, MET): (OPEN, [AcquaintancesCame(MET.known)], []),
    (OPEN, LEAVING): (OPEN, [LeavingCame()], []),
    (OPEN, GOODBYE): SILENCE,
    (OPEN, GARBAGE): MALFORMED,
    (ENDED, GOOD): SILENCE,
    (ENDED, REFUSED): SILENCE,
    (ENDED, LETTERS): SILENCE,
    (ENDED, PART): SILENCE,
    (ENDED, RECEIPT): SILENCE,
    (ENDED, HEARTBEAT): SILENCE,
    (ENDED, RELAY): SILENCE,
    (ENDED, MET): SILENCE,
    (ENDED, LEAVING): SILENCE,
    (ENDED, GOODBYE): SILENCE,
    (ENDED, GARBAGE): SILENCE,
}


def kind_of(frame):
    return frame.reason if isinstance(frame, Goodbye) else type(frame)


def test_the_table_has_every_state_against_every_kind_of_frame():
    kinds = {Hello, Letters, LetterPart, Receipt, Heartbeat, Relay, Acquaintances, Leaving, Goodbye, Malformed}
    assert {(state, type(frame)) for state, frame in MEANING} == {(state, kind) for state in State for kind in kinds}


@pytest.mark.parametrize(("state", "frame"), MEANING, ids=lambda value: getattr(value, "value", type(value).__name__))
def test_what_a_frame_means_in_a_state(state, frame):
    session = session_in(state)
    state_after, events, sent = MEANING[state, frame]
    assert session.receive(frame) == events
    assert session.state is state_after
    assert [kind_of(each) for each in frames(session)] == sent
    assert (session.ending is not None) == (state_after is ENDED)


@pytest.mark.parametrize("state", State)
def test_a_loss_ends_a_session_without_a_word(state):
    session = session_in(state)
    session.lost("broken")
    assert session.state is ENDED
    assert session.ending.reason is None
    assert frames(session) == []


@pytest.mark.parametrize("state", State)
def test_a_session_that_is_parted_says_goodbye_and_nothing_else(state):
    session = session_in(state)
    session.part(REFUSAL)
    assert session.state is ENDED
    assert frames(session) == ([] if state is ENDED else [REFUSAL])


def test_only_who_dialled_speaks_first():
    assert frames(new_session(is_dialled_here=True)) == [hello(server=HERE, session=1)]
    assert frames(new_session(is_dialled_here=False)) == []


def test_who_was_dialled_settles_a_number_not_below_the_proposed_one():
    session = new_session(is_dialled_here=False)
    session.receive(hello(session=41))
    assert [frame.session for frame in frames(session)] == [41, 41]


def test_a_number_below_the_proposed_one_is_refused():
    session = new_session(is_dialled_here=True)
    frames(session)
    assert session.receive(hello(session=0)) == [Faulted(FaultKind.UNEXPECTED)]
    assert session.state is ENDED


@pytest.mark.parametrize("number", [NUMBER - 1, NUMBER + 1])
@pytest.mark.parametrize(
    ("state", "kind"),
    [
        *((state, kind) for state in (RESUMING, OPEN) for kind in ("letters", "part", "receipt")),
        (OPEN, "heartbeat"),
        (OPEN, "relay"),
        (OPEN, "acquaintances"),
        (OPEN, "leaving"),
    ],
)
def test_a_frame_of_another_session_is_counted_and_dropped(number, state, kind):
    session = session_in(state)
    frame = {
        "letters": Letters(number, 1, (b"late",), 0),
        "part": LetterPart(number, 1, b"late", True, 0),
        "receipt": Receipt(number, 0),
        "heartbeat": Heartbeat(number, 1, 0, 0),
        "relay": Relay(number, "c.x", HERE, 5, True, payload=b"late"),
        "acquaintances": Acquaintances(number, ()),
        "leaving": Leaving(number),
    }[kind]
    assert session.receive(frame) == [Faulted(FaultKind.OLD_SESSION)]
    assert session.state is state
    events = session.receive(LETTERS)
    assert events[-1] == LettersCame(1, (b"one", b"two"))


# -- letters that come


def test_letters_that_come_again_are_counted_and_only_the_new_ones_handled():
    session = session_in(OPEN)
    session.receive(LETTERS)
    assert session.receive(LETTERS) == [Faulted(FaultKind.REPEATED)]
    overlapping = Letters(NUMBER, 2, (b"two", b"three"), 0)
    assert session.receive(overlapping) == [Faulted(FaultKind.REPEATED), LettersCame(3, (b"three",))]


@pytest.mark.parametrize("frame", [Letters(NUMBER, 2, (b"two",), 0), LetterPart(NUMBER, 2, b"t", True, 0)])
def test_a_gap_ends_the_session(frame):
    session = session_in(OPEN)
    assert session.receive(frame) == [Faulted(FaultKind.OUT_OF_ORDER)]
    assert session.ending.reason is GoodbyeReason.OUT_OF_ORDER


def test_parts_make_up_a_letter():
    session = session_in(OPEN)
    assert session.receive(LetterPart(NUMBER, 1, b"a long ", False, 0)) == []
    assert session.receive(LetterPart(NUMBER, 1, b"letter", True, 0)) == [LettersCame(1, (b"a long letter",))]
    assert session.receive(LetterPart(NUMBER, 1, b"letter", True, 0)) == [Faulted(FaultKind.REPEATED)]


def test_other_letters_between_the_parts_of_one_are_refused():
    session = session_in(OPEN)
    session.receive(LetterPart(NUMBER, 1, b"half", False, 0))
    assert session.receive(LETTERS) == [Faulted(FaultKind.UNEXPECTED)]
    assert session.state is ENDED


def test_a_letter_that_never_ends_is_refused(monkeypatch):
    monkeypatch.setattr(session_module, "LETTER_BYTES_LIMIT", 10)
    session = session_in(OPEN)
    session.receive(LetterPart(NUMBER, 1, b"0123456789", False, 0))
    assert session.receive(LetterPart(NUMBER, 1, b"0", False, 0)) == [Faulted(FaultKind.TOO_LARGE)]
    assert session.state is ENDED


def test_letters_before_this_end_has_told_where_to_go_on_are_refused():
    session = new_session(is_dialled_here=True)
    frames(session)
    session.receive(hello())
    assert session.receive(LETTERS) == [*OPENED, Faulted(FaultKind.UNEXPECTED)]
    assert session.state is ENDED


def test_a_session_goes_on_from_what_was_handled_before():
    post = ChannelsAsPost(DurableState())
    post.take(PEER, 1)
    session = session_in(RESUMING, post=post)
    assert session.receive(Letters(NUMBER, 2, (b"two",), 0))[-1] == LettersCame(2, (b"two",))


# -- letters that leave


def post_with(*letters, receiver=PEER, is_met=True):
    post = ChannelsAsPost(DurableState())
    if is_met:
        post.met(receiver)
    for letter in letters:
        post.send(receiver, letter)
    return post


def test_letters_that_wait_leave_together_and_those_that_follow_with_the_next_frame():
    post = post_with(b"one", b"two")
    session = session_in(OPEN, post=post)
    assert session.next_frame() == Letters(NUMBER, 1, (b"one", b"two"), 0)
    assert session.next_frame() is None
    post.send(PEER, b"three")
    assert session.next_frame() == Letters(NUMBER, 3, (b"three",), 0)


def test_no_letter_leaves_before_the_peer_has_told_where_to_go_on():
    session = session_in(RESUMING, post=post_with(b"one"))
    assert session.next_frame() is None
    session.receive(RECEIPT)
    assert session.next_frame() == Letters(NUMBER, 1, (b"one",), 0)


def test_what_the_peer_has_handled_is_not_sent_again():
    session = session_in(OPEN, post=post_with(b"one", b"two", b"three"), handled_through=2)
    assert session.next_frame() == Letters(NUMBER, 3, (b"three",), 0)


def test_a_frame_has_a_limit_in_bytes_and_in_letters(monkeypatch):
    monkeypatch.setattr(session_module, "FRAME_BYTES_LIMIT", 10)
    monkeypatch.setattr(session_module, "FRAME_LETTERS_LIMIT", 3)
    session = session_in(OPEN, post=post_with(b"12345", b"12345", b"1", b"2", b"3", b"4"))
    assert [frame.letters for frame in frames(session)] == [(b"12345", b"12345"), (b"1", b"2", b"3"), (b"4",)]


@pytest.mark.parametrize("size", [11, 20, 21, 35])
def test_a_letter_larger_than_a_frame_leaves_in_parts_in_its_place(monkeypatch, size):
    monkeypatch.setattr(session_module, "FRAME_BYTES_LIMIT", 10)
    large = bytes(range(size))
    session, receiver = session_in(OPEN, post=post_with(b"before", large, b"after")), session_in(OPEN)
    sent = frames(session)
    assert all(len(frame.part) <= 10 for frame in sent if isinstance(frame, LetterPart))
    came = [event for frame in sent for event in receiver.receive(frame)]
    assert came == [LettersCame(1, (b"before",)), LettersCame(2, (large,)), LettersCame(3, (b"after",))]


def test_a_session_whose_next_letter_was_confirmed_on_another_one_ends_quietly():
    post = post_with(b"one", b"two")
    session = session_in(OPEN, post=post)
    post.received(PEER, 1)
    assert [kind_of(frame) for frame in frames(session)] == [GoodbyeReason.REPLACED]


# -- receipts


@pytest.mark.parametrize("state", [GREETING, LISTENING])
def test_nothing_else_leaves_before_the_receipt_that_opens_the_session_there(state):
    session = session_in(state)
    session.receive(hello())
    session.receive(Receipt(NUMBER, 0))
    session.tell_known(MET.known)
    session.leave()
    assert not session.is_open_there
    greeting = [] if state is GREETING else [hello(server=HERE)]
    assert frames(session) == [*greeting, Receipt(NUMBER, 0), LEAVING, MET]
    assert session.is_open_there


def test_who_was_met_is_told_where_it_is_not_what_was_said_before():
    session = session_in(OPEN)
    session.tell_known(())
    assert frames(session) == []
    for _ in range(2):
        session.tell_known(MET.known)
        assert frames(session) in ([MET], [])
    session.tell_known(())
    assert frames(session) == [Acquaintances(NUMBER, ())]


def test_a_receipt_rides_on_letters_where_there_are_any():
    post = ChannelsAsPost(DurableState())
    session = session_in(OPEN, post=post)
    post.take(PEER, 1)
    post.send(PEER, b"answer")
    assert frames(session) == [Letters(NUMBER, 1, (b"answer",), 1)]


def test_a_receipt_leaves_alone_where_there_are_no_letters_and_once():
    post = ChannelsAsPost(DurableState())
    session = session_in(OPEN, post=post)
    post.take(PEER, 1)
    assert frames(session) == [Receipt(NUMBER, 1)]


def test_receipts_are_told_as_they_rise():
    session = session_in(OPEN, post=post_with(b"one", b"two", b"three"))
    frames(session)
    assert session.receive(Receipt(NUMBER, 2)) == [ReceiptCame(2)]
    assert session.receive(Receipt(NUMBER, 1)) == []
    assert session.receive(Letters(NUMBER, 1, (b"answer",), 3)) == [ReceiptCame(3), LettersCame(1, (b"answer",))]


def test_a_receipt_for_what_was_not_sent_is_counted_and_dropped():
    post = post_with(b"one")
    session = session_in(OPEN, post=post)
    frames(session)
    assert session.receive(Receipt(NUMBER, 2)) == [Faulted(FaultKind.UNEARNED_RECEIPT)]
    assert session.receive(Receipt(NUMBER, 1)) == [ReceiptCame(1)]


def test_a_receipt_for_letters_of_the_session_before_is_no_fault_and_another_session_goes_on_from_there():
    post = post_with(b"one", b"two")
    session = session_in(OPEN, post=post)
    assert session.receive(Receipt(NUMBER, 1)) == [ReceiptCame(1)]
    post.received(PEER, 1)
    assert [frame.reason for frame in frames(session)] == [GoodbyeReason.REPLACED]


def test_a_peer_that_has_handled_what_was_never_sent_is_refused():
    session = session_in(RESUMING, post=post_with(b"one"))
    assert session.receive(Receipt(NUMBER, 2)) == []
    assert session.ending.reason is GoodbyeReason.LETTERS_LOST


def test_a_peer_that_has_lost_what_it_confirmed_is_refused():
    post = post_with(b"one", b"two")
    post.received(PEER, 2)
    session = session_in(RESUMING, post=post)
    assert session.receive(Receipt(NUMBER, 1)) == []
    assert session.ending.reason is GoodbyeReason.LETTERS_LOST


def test_whoever_has_handled_what_cannot_have_left_shows_that_this_server_has_gone_back():
    session = session_in(RESUMING, post=post_with(b"written", b"but", b"not met", is_met=False))
    assert session.receive(Receipt(NUMBER, 1)) == []
    assert session.ending.has_gone_back
    assert [frame.reason for frame in frames(session)] == [GoodbyeReason.GONE_BACK]


def test_both_may_have_gone_back_and_each_learns_it_from_the_other():
    post = post_with()
    post.begin_again(PEER)
    post.take(PEER, 1)
    session = new_session(is_dialled_here=False, post=post)
    session.receive(hello())
    assert session.receive(Receipt(NUMBER, 3)) == []
    assert session.ending.has_gone_back
    # What it has had comes first: by that the other one learns whether it has gone back too.
    assert frames(session)[0] == Receipt(NUMBER, 1)


def test_whoever_has_lost_what_it_had_is_told_and_this_server_has_not_gone_back():
    post = post_with(b"one", b"two")
    post.received(PEER, 2)
    session = session_in(RESUMING, post=post)
    assert session.receive(Receipt(NUMBER, 1)) == []
    assert not session.ending.has_gone_back
    assert [frame.reason for frame in frames(session)] == [GoodbyeReason.LETTERS_LOST]


def test_a_first_receipt_that_a_later_one_overtook_is_no_loss():
    post = post_with(b"one", b"two")
    post.received(PEER, 2)
    session = session_in(RESUMING, post=post, known={5})
    assert session.receive(Receipt(NUMBER, 1)) == []
    assert session.ending.reason is GoodbyeReason.REPLACED
