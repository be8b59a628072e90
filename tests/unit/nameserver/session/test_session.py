"""A session: every state against every event, batches, parts, receipts, resumption, in both lanes."""

from dataclasses import replace

import pytest

from namegraph.events import Lane
from namegraph.model.protocol_versions import PLAIN_TEXT_VERSION
from namegraph.state.durable_maps import DurableState
from namegraph.state.reliable_channels import Channels
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
    Retired,
)
from nameserver.session.session import Session, SessionState
from nameserver.session.session_events import (
    AcquaintancesCame,
    Faulted,
    FaultKind,
    HeartbeatCame,
    LeavingCame,
    LettersCame,
    Opened,
    ReceiptCame,
)
from nameserver.session.session_lane import LIMITS, POST_OVERHEAD_BYTES
from nameserver.session.session_tiebreak import SessionNumbers

HERE, PEER = "a.x", "b.x"
LETTER, POST = Lane
NUMBER = 7
"""Number of the session, settled by the dialled server."""


class DurableChannels(Channels):
    """Real channels of which all is durable."""

    def letters_after(self, receiver, number):
        return self.kept(receiver, after=number)


def new_channels(lane=LETTER):
    return DurableChannels(DurableState(), lane)


def hello(*, server=PEER, session=NUMBER, start=5):
    return Hello(PLAIN_TEXT_VERSION, server, (server,), start, session, ())


REFUSED = hello(server="stranger.x")
REFUSAL = Goodbye(GoodbyeReason.NOT_A_PEER, "not a peer")


def limited(lane, **limits):
    return {**LIMITS, lane: replace(LIMITS[lane], **limits)}


def new_session(*, is_dialled_here, letters=None, posts=None, known=(), limits=LIMITS):
    return Session(
        is_dialled_here=is_dialled_here,
        introduce=lambda number: hello(server=HERE, session=number),
        judge=lambda greeting: REFUSAL if greeting == REFUSED else None,
        is_known_start=lambda greeting: greeting.start in known,
        numbers=SessionNumbers(),
        outboxes={LETTER: letters or new_channels(), POST: posts or new_channels(POST)},
        limits=limits,
    )


def frames(session):
    """Return all frames that a session sends now."""
    sent = []
    while (frame := session.next_frame()) is not None:
        sent.append(frame)
    return sent


def session_in(state, *, receipt=(0, 0), **keywords):
    """Return a session that was dialled here, except in LISTENING, with nothing left to send."""
    session = new_session(is_dialled_here=state is not SessionState.LISTENING, **keywords)
    frames(session)
    if state in (SessionState.GREETING, SessionState.LISTENING):
        return session
    if state is SessionState.ENDED:
        session.lost("cut")
        return session
    session.receive(hello())
    frames(session)
    if state is SessionState.OPEN:
        session.receive(Receipt(NUMBER, *receipt))
    assert session.state is state
    return session


GOOD = hello()
LETTERS = Letters(NUMBER, 1, (b"one", b"two"), 0)
PART = LetterPart(NUMBER, 1, b"half", False, 0)
POSTS = Letters(NUMBER, 1, (b"une", b"deux"), 0, 0, POST)
POST_PART = LetterPart(NUMBER, 1, b"demi", False, 0, 0, POST)
RECEIPT = Receipt(NUMBER, 0)
HEARTBEAT = Heartbeat(NUMBER, 3, 2, 100)
RETIRED = Retired()
MET = Acquaintances(NUMBER, (KnownServer("c.x", ("c.x",)),))
LEAVING = Leaving(NUMBER)
GOODBYE = Goodbye(GoodbyeReason.LEAVING, "shutting down")
GARBAGE = Malformed("no frame")
OPENED = [Opened(GOOD), ReceiptCame(0), ReceiptCame(0, POST)]
GREETING, LISTENING, RESUMING, OPEN, ENDED = SessionState

OUT_OF_TURN = (ENDED, [Faulted(FaultKind.UNEXPECTED)], [GoodbyeReason.MALFORMED])
MALFORMED = (ENDED, [Faulted(FaultKind.GARBAGE)], [GoodbyeReason.MALFORMED])
SILENCE = (ENDED, [], [])

MEANING = {
    # (state, what comes): (state after it, events, what is sent: kinds of frames, reasons of goodbyes)
    (GREETING, GOOD): (RESUMING, [], [Receipt]),
    (GREETING, REFUSED): (ENDED, [], [GoodbyeReason.NOT_A_PEER]),
    (GREETING, LETTERS): OUT_OF_TURN,
    (GREETING, PART): OUT_OF_TURN,
    (GREETING, POSTS): OUT_OF_TURN,
    (GREETING, POST_PART): OUT_OF_TURN,
    (GREETING, RECEIPT): OUT_OF_TURN,
    (GREETING, HEARTBEAT): OUT_OF_TURN,
    (GREETING, RETIRED): (GREETING, [], []),
    (GREETING, MET): OUT_OF_TURN,
    (GREETING, LEAVING): OUT_OF_TURN,
    (GREETING, GOODBYE): SILENCE,
    (GREETING, GARBAGE): MALFORMED,
    (LISTENING, GOOD): (RESUMING, [], [Hello, Receipt]),
    (LISTENING, REFUSED): (ENDED, [], [GoodbyeReason.NOT_A_PEER]),
    (LISTENING, LETTERS): OUT_OF_TURN,
    (LISTENING, PART): OUT_OF_TURN,
    (LISTENING, POSTS): OUT_OF_TURN,
    (LISTENING, POST_PART): OUT_OF_TURN,
    (LISTENING, RECEIPT): OUT_OF_TURN,
    (LISTENING, HEARTBEAT): OUT_OF_TURN,
    (LISTENING, RETIRED): (LISTENING, [], []),
    (LISTENING, MET): OUT_OF_TURN,
    (LISTENING, LEAVING): OUT_OF_TURN,
    (LISTENING, GOODBYE): SILENCE,
    (LISTENING, GARBAGE): MALFORMED,
    (RESUMING, GOOD): OUT_OF_TURN,
    (RESUMING, REFUSED): OUT_OF_TURN,
    (RESUMING, LETTERS): (OPEN, [*OPENED, LettersCame(1, (b"one", b"two"))], []),
    (RESUMING, PART): (OPEN, OPENED, []),
    (RESUMING, POSTS): (OPEN, [*OPENED, LettersCame(1, (b"une", b"deux"), POST)], []),
    (RESUMING, POST_PART): (OPEN, OPENED, []),
    (RESUMING, RECEIPT): (OPEN, OPENED, []),
    (RESUMING, HEARTBEAT): OUT_OF_TURN,
    (RESUMING, RETIRED): (RESUMING, [], []),
    (RESUMING, MET): OUT_OF_TURN,
    (RESUMING, LEAVING): OUT_OF_TURN,
    (RESUMING, GOODBYE): SILENCE,
    (RESUMING, GARBAGE): MALFORMED,
    (OPEN, GOOD): OUT_OF_TURN,
    (OPEN, REFUSED): OUT_OF_TURN,
    (OPEN, LETTERS): (OPEN, [LettersCame(1, (b"one", b"two"))], []),
    (OPEN, PART): (OPEN, [], []),
    (OPEN, POSTS): (OPEN, [LettersCame(1, (b"une", b"deux"), POST)], []),
    (OPEN, POST_PART): (OPEN, [], []),
    (OPEN, RECEIPT): (OPEN, [], []),
    (OPEN, HEARTBEAT): (OPEN, [HeartbeatCame(HEARTBEAT)], []),
    (OPEN, RETIRED): (OPEN, [], []),
    (OPEN, MET): (OPEN, [AcquaintancesCame(MET.known)], []),
    (OPEN, LEAVING): (OPEN, [LeavingCame()], []),
    (OPEN, GOODBYE): SILENCE,
    (OPEN, GARBAGE): MALFORMED,
    (ENDED, GOOD): SILENCE,
    (ENDED, REFUSED): SILENCE,
    (ENDED, LETTERS): SILENCE,
    (ENDED, PART): SILENCE,
    (ENDED, POSTS): SILENCE,
    (ENDED, POST_PART): SILENCE,
    (ENDED, RECEIPT): SILENCE,
    (ENDED, HEARTBEAT): SILENCE,
    (ENDED, RETIRED): SILENCE,
    (ENDED, MET): SILENCE,
    (ENDED, LEAVING): SILENCE,
    (ENDED, GOODBYE): SILENCE,
    (ENDED, GARBAGE): SILENCE,
}


def kind_of(frame):
    return frame.reason if isinstance(frame, Goodbye) else type(frame)


def test_the_table_has_every_state_against_every_kind_of_frame():
    kinds = {(kind, None) for kind in (Hello, Receipt, Heartbeat, Retired, Acquaintances, Leaving, Goodbye, Malformed)}
    kinds |= {(kind, lane) for kind in (Letters, LetterPart) for lane in Lane}
    found = {(state, (type(frame), getattr(frame, "lane", None))) for state, frame in MEANING}
    assert found == {(state, kind) for state in SessionState for kind in kinds}


@pytest.mark.parametrize(("state", "frame"), MEANING, ids=lambda value: getattr(value, "value", type(value).__name__))
def test_what_a_frame_means_in_a_state(state, frame):
    session = session_in(state)
    state_after, events, sent = MEANING[state, frame]
    assert session.receive(frame) == events
    assert session.state is state_after
    assert [kind_of(each) for each in frames(session)] == sent
    assert (session.ending is not None) == (state_after is ENDED)


@pytest.mark.parametrize("state", SessionState)
def test_a_loss_ends_a_session_without_a_word(state):
    session = session_in(state)
    session.lost("broken")
    assert session.state is ENDED
    assert session.ending.reason is None
    assert frames(session) == []


@pytest.mark.parametrize("state", SessionState)
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
        *((state, kind) for state in (RESUMING, OPEN) for kind in ("letters", "part", "posts", "post part", "receipt")),
        (OPEN, "heartbeat"),
        (OPEN, "acquaintances"),
        (OPEN, "leaving"),
    ],
)
def test_a_frame_of_another_session_is_counted_and_dropped(number, state, kind):
    session = session_in(state)
    frame = {
        "letters": Letters(number, 1, (b"late",), 0),
        "part": LetterPart(number, 1, b"late", True, 0),
        "posts": Letters(number, 1, (b"late",), 0, 0, POST),
        "post part": LetterPart(number, 1, b"late", True, 0, 0, POST),
        "receipt": Receipt(number, 0),
        "heartbeat": Heartbeat(number, 1, 0, 0),
        "acquaintances": Acquaintances(number, ()),
        "leaving": Leaving(number),
    }[kind]
    assert session.receive(frame) == [Faulted(FaultKind.OLD_SESSION)]
    assert session.state is state
    events = session.receive(LETTERS)
    assert events[-1] == LettersCame(1, (b"one", b"two"))


# -- letters that come, in either lane

in_each_lane = pytest.mark.parametrize("lane", Lane)


@in_each_lane
def test_letters_that_come_again_are_counted_and_only_the_new_ones_handled(lane):
    session = session_in(OPEN)
    session.receive(Letters(NUMBER, 1, (b"one", b"two"), 0, 0, lane))
    assert session.receive(Letters(NUMBER, 1, (b"one", b"two"), 0, 0, lane)) == [Faulted(FaultKind.REPEATED)]
    overlapping = Letters(NUMBER, 2, (b"two", b"three"), 0, 0, lane)
    assert session.receive(overlapping) == [Faulted(FaultKind.REPEATED), LettersCame(3, (b"three",), lane)]


@pytest.mark.parametrize("frame", [Letters(NUMBER, 2, (b"two",), 0), LetterPart(NUMBER, 2, b"t", True, 0)])
@in_each_lane
def test_a_gap_ends_the_session(frame, lane):
    session = session_in(OPEN)
    assert session.receive(replace(frame, lane=lane)) == [Faulted(FaultKind.OUT_OF_ORDER)]
    assert session.ending.reason is GoodbyeReason.OUT_OF_ORDER


@in_each_lane
def test_parts_make_up_a_letter(lane):
    session = session_in(OPEN)
    half = LetterPart(NUMBER, 1, b"a long ", False, 0, 0, lane)
    whole = LetterPart(NUMBER, 1, b"letter", True, 0, 0, lane)
    assert session.receive(half) == []
    assert session.receive(whole) == [LettersCame(1, (b"a long letter",), lane)]
    assert session.receive(whole) == [Faulted(FaultKind.REPEATED)]


@in_each_lane
def test_other_letters_of_the_lane_between_the_parts_of_one_are_refused(lane):
    session = session_in(OPEN)
    session.receive(LetterPart(NUMBER, 1, b"half", False, 0, 0, lane))
    assert session.receive(replace(LETTERS, lane=lane)) == [Faulted(FaultKind.UNEXPECTED)]
    assert session.state is ENDED


@in_each_lane
def test_letters_of_the_other_lane_come_between_the_parts_of_one_and_each_lane_has_its_numbers(lane):
    session, other = session_in(OPEN), Lane(1 - lane)
    session.receive(LetterPart(NUMBER, 1, b"ha", False, 0, 0, lane))
    assert session.receive(replace(LETTERS, lane=other)) == [LettersCame(1, (b"one", b"two"), other)]
    assert session.receive(LetterPart(NUMBER, 3, b"th", False, 0, 0, other)) == []
    assert session.receive(LetterPart(NUMBER, 1, b"lf", True, 0, 0, lane)) == [LettersCame(1, (b"half",), lane)]
    assert session.receive(LetterPart(NUMBER, 3, b"ree", True, 0, 0, other)) == [LettersCame(3, (b"three",), other)]


@in_each_lane
def test_a_letter_that_never_ends_is_refused(lane):
    session = session_in(OPEN, limits=limited(lane, letter_bytes=10))
    session.receive(LetterPart(NUMBER, 1, b"0123456789", False, 0, 0, lane))
    assert session.receive(LetterPart(NUMBER, 1, b"0", False, 0, 0, lane)) == [Faulted(FaultKind.TOO_LARGE)]
    assert session.state is ENDED


@in_each_lane
def test_a_whole_letter_that_is_too_large_is_refused(lane):
    session = session_in(OPEN, limits=limited(lane, letter_bytes=10))
    letters = (b"0123456789", b"01234567890")
    assert session.receive(Letters(NUMBER, 1, letters, 0, 0, lane)) == [Faulted(FaultKind.TOO_LARGE)]
    assert session.ending.reason is GoodbyeReason.MALFORMED


@in_each_lane
def test_letters_before_this_end_has_told_where_to_go_on_are_refused(lane):
    session = new_session(is_dialled_here=True)
    frames(session)
    session.receive(hello())
    assert session.receive(replace(LETTERS, lane=lane)) == [*OPENED, Faulted(FaultKind.UNEXPECTED)]
    assert session.state is ENDED


def test_a_session_goes_on_from_what_was_handled_before_in_each_lane():
    letters, posts = new_channels(), new_channels(POST)
    letters.take(PEER, 1)
    for number in (1, 2, 3):
        posts.take(PEER, number)
    session = session_in(RESUMING, letters=letters, posts=posts)
    assert session.receive(Letters(NUMBER, 2, (b"two",), 0))[-1] == LettersCame(2, (b"two",))
    assert session.receive(Letters(NUMBER, 4, (b"four",), 0, 0, POST)) == [LettersCame(4, (b"four",), POST)]


def room_for(count, size):
    """Limits for so many posts of a size that are not confirmed."""
    return limited(POST, unconfirmed_bytes=count * (size + POST_OVERHEAD_BYTES))


def test_more_posts_than_may_be_unconfirmed_are_refused():
    session = session_in(OPEN, limits=room_for(2, 5))
    assert session.receive(Letters(NUMBER, 1, (b"12345", b"12345"), 0, 0, POST)) != []
    assert session.receive(Letters(NUMBER, 3, (b"1",), 0, 0, POST)) == [Faulted(FaultKind.TOO_MUCH)]
    assert session.ending.reason is GoodbyeReason.MALFORMED


def test_what_a_receipt_was_given_for_makes_room_for_more_posts():
    posts = new_channels(POST)
    session = session_in(OPEN, posts=posts, limits=room_for(2, 5))
    session.receive(Letters(NUMBER, 1, (b"12345", b"12345"), 0, 0, POST))
    posts.take(PEER, 1)
    assert frames(session) == [Receipt(NUMBER, 0, 1)]
    assert session.receive(Letters(NUMBER, 3, (b"12345",), 0, 0, POST)) == [LettersCame(3, (b"12345",), POST)]
    assert session.receive(LetterPart(NUMBER, 4, b"1", True, 0, 0, POST)) == [Faulted(FaultKind.TOO_MUCH)]


# -- letters that leave


def channels_with(*letters, receiver=PEER, is_met=True, lane=LETTER):
    channels = new_channels(lane)
    if is_met:
        channels.met(receiver)
    for letter in letters:
        channels.send(receiver, letter)
    return channels


def outbox(lane, *letters, **keywords):
    """Return an argument of a session."""
    return {"letters" if lane is LETTER else "posts": channels_with(*letters, lane=lane, **keywords)}


def receipt_of(lane, through):
    return Receipt(NUMBER, *((through, 0) if lane is LETTER else (0, through)))


@in_each_lane
def test_letters_that_wait_leave_together_and_those_that_follow_with_the_next_frame(lane):
    channels = channels_with(b"one", b"two", lane=lane)
    session = session_in(OPEN, **{"letters" if lane is LETTER else "posts": channels})
    assert session.next_frame() == Letters(NUMBER, 1, (b"one", b"two"), 0, 0, lane)
    assert session.next_frame() is None
    channels.send(PEER, b"three")
    assert session.next_frame() == Letters(NUMBER, 3, (b"three",), 0, 0, lane)


@in_each_lane
def test_no_letter_leaves_before_the_peer_has_told_where_to_go_on(lane):
    session = session_in(RESUMING, **outbox(lane, b"one"))
    assert session.next_frame() is None
    session.receive(RECEIPT)
    assert session.next_frame() == Letters(NUMBER, 1, (b"one",), 0, 0, lane)


def test_what_the_peer_has_handled_is_not_sent_again():
    letters, posts = channels_with(b"one", b"two", b"three"), channels_with(b"une", b"deux", lane=POST)
    session = session_in(OPEN, letters=letters, posts=posts, receipt=(2, 1))
    assert frames(session) == [Letters(NUMBER, 3, (b"three",), 0), Letters(NUMBER, 2, (b"deux",), 0, 0, POST)]


@in_each_lane
def test_a_frame_has_a_limit_in_bytes_and_in_letters(lane):
    limits = limited(lane, frame_bytes=10, frame_letters=3)
    session = session_in(OPEN, limits=limits, **outbox(lane, b"12345", b"12345", b"1", b"2", b"3", b"4"))
    assert [frame.letters for frame in frames(session)] == [(b"12345", b"12345"), (b"1", b"2", b"3"), (b"4",)]


@pytest.mark.parametrize("size", [11, 20, 21, 35])
@in_each_lane
def test_a_letter_larger_than_a_frame_leaves_in_parts_in_its_place(lane, size):
    large = bytes(range(size))
    session = session_in(OPEN, limits=limited(lane, frame_bytes=10), **outbox(lane, b"before", large, b"after"))
    receiver = session_in(OPEN)
    sent = frames(session)
    assert all(len(frame.part) <= 10 for frame in sent if isinstance(frame, LetterPart))
    came = [event for frame in sent for event in receiver.receive(frame)]
    expected = [(1, b"before"), (2, large), (3, b"after")]
    assert came == [LettersCame(number, (letter,), lane) for number, letter in expected]


@in_each_lane
def test_a_session_whose_next_letter_was_confirmed_on_another_one_ends_quietly(lane):
    channels = channels_with(b"one", b"two", lane=lane)
    session = session_in(OPEN, **{"letters" if lane is LETTER else "posts": channels})
    channels.received(PEER, 1)
    assert [kind_of(frame) for frame in frames(session)] == [GoodbyeReason.REPLACED]


def test_posts_leave_when_no_letter_waits():
    letters, posts = channels_with(b"12345", b"12345"), channels_with(b"une", lane=POST)
    session = session_in(OPEN, letters=letters, posts=posts, limits=limited(LETTER, frame_bytes=5))
    assert [(frame.lane, frame.letters) for frame in frames(session)] == [
        (LETTER, (b"12345",)),
        (LETTER, (b"12345",)),
        (POST, (b"une",)),
    ]


def test_letters_leave_between_the_parts_of_a_post_and_the_receiver_tells_them_apart():
    letters, posts = new_channels(), channels_with(b"a long post", lane=POST)
    letters.met(PEER)
    session = session_in(OPEN, letters=letters, posts=posts, limits=limited(POST, frame_bytes=4))
    receiver = session_in(OPEN)
    sent = [session.next_frame()]
    letters.send(PEER, b"vote")
    sent += frames(session)
    assert [(type(frame), frame.lane) for frame in sent] == [
        (LetterPart, POST),
        (Letters, LETTER),
        (LetterPart, POST),
        (LetterPart, POST),
    ]
    came = [event for frame in sent for event in receiver.receive(frame)]
    assert came == [LettersCame(1, (b"vote",)), LettersCame(1, (b"a long post",), POST)]


def test_posts_beyond_the_window_wait_for_receipts_and_letters_do_not():
    letters, posts = new_channels(), channels_with(*[b"12345"] * 5, lane=POST)
    letters.met(PEER)
    session = session_in(OPEN, letters=letters, posts=posts, limits=room_for(2, 5))
    assert [len(frame.letters) for frame in frames(session)] == [2]
    letters.send(PEER, b"vote")
    assert frames(session) == [Letters(NUMBER, 1, (b"vote",), 0)]
    session.receive(Receipt(NUMBER, 1, 1))
    assert frames(session) == [Letters(NUMBER, 3, (b"12345",), 0, 0, POST)]
    session.receive(Receipt(NUMBER, 1, 3))
    assert frames(session) == [Letters(NUMBER, 4, (b"12345", b"12345"), 0, 0, POST)]


def test_a_post_that_leaves_in_parts_counts_from_its_first_part_on_and_one_alone_always_leaves():
    posts = channels_with(b"123456789", b"1", lane=POST)
    limits = limited(POST, frame_bytes=4, unconfirmed_bytes=5)
    session = session_in(OPEN, posts=posts, limits=limits)
    assert [frame.part for frame in frames(session)] == [b"1234", b"5678", b"9"]
    posts.received(PEER, 1)
    session.receive(Receipt(NUMBER, 0, 1))
    assert frames(session) == [Letters(NUMBER, 2, (b"1",), 0, 0, POST)]


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


@in_each_lane
def test_receipts_of_both_lanes_ride_on_letters_where_there_are_any(lane):
    letters, posts = channels_with(lane=LETTER), channels_with(lane=POST)
    session = session_in(OPEN, letters=letters, posts=posts)
    letters.take(PEER, 1)
    for number in (1, 2):
        posts.take(PEER, number)
    (letters if lane is LETTER else posts).send(PEER, b"answer")
    assert frames(session) == [Letters(NUMBER, 1, (b"answer",), 1, 2, lane)]


@in_each_lane
def test_a_receipt_leaves_alone_where_there_are_no_letters_and_once(lane):
    channels = new_channels(lane)
    session = session_in(OPEN, **{"letters" if lane is LETTER else "posts": channels})
    channels.take(PEER, 1)
    assert frames(session) == [receipt_of(lane, 1)]


@in_each_lane
def test_receipts_are_told_as_they_rise(lane):
    session = session_in(OPEN, **outbox(lane, b"one", b"two", b"three"))
    frames(session)
    assert session.receive(receipt_of(lane, 2)) == [ReceiptCame(2, lane)]
    assert session.receive(receipt_of(lane, 1)) == []
    receipts = (3, 0) if lane is LETTER else (0, 3)
    events = session.receive(Letters(NUMBER, 1, (b"answer",), *receipts))
    if lane is LETTER:
        # One step takes both.
        assert events == [LettersCame(1, (b"answer",), received=3)]
    else:
        assert events == [ReceiptCame(3, lane), LettersCame(1, (b"answer",))]


@in_each_lane
def test_a_receipt_for_what_was_not_sent_is_counted_and_dropped(lane):
    session = session_in(OPEN, **outbox(lane, b"one"))
    frames(session)
    assert session.receive(receipt_of(lane, 2)) == [Faulted(FaultKind.UNEARNED_RECEIPT)]
    assert session.receive(receipt_of(lane, 1)) == [ReceiptCame(1, lane)]


@in_each_lane
def test_a_receipt_for_letters_of_the_session_before_is_no_fault_and_another_session_goes_on_from_there(lane):
    channels = channels_with(b"one", b"two", lane=lane)
    session = session_in(OPEN, **{"letters" if lane is LETTER else "posts": channels})
    assert session.receive(receipt_of(lane, 1)) == [ReceiptCame(1, lane)]
    channels.received(PEER, 1)
    assert [frame.reason for frame in frames(session)] == [GoodbyeReason.REPLACED]


# -- databases that are older than they should be: one lane that shows it is enough


@in_each_lane
def test_a_peer_that_has_handled_what_was_never_sent_is_refused(lane):
    both = outbox(LETTER, b"one") | outbox(POST, b"une")
    session = session_in(RESUMING, **both)
    assert session.receive(receipt_of(lane, 2)) == []
    assert session.ending.reason is GoodbyeReason.LETTERS_LOST
    assert f"has handled {'letter' if lane is LETTER else 'post'} 2" in session.ending.message


def behind(lane):
    """Return a lane whose letters were confirmed before this server restarted."""
    durable = DurableState()
    channels = DurableChannels(durable, lane)
    channels.met(PEER)
    for letter in (b"one", b"two"):
        channels.send(PEER, letter)
    channels.received(PEER, 2)
    rows = [row for row in durable.take_rows() if row.value is not None]
    return {"letters" if lane is LETTER else "posts": DurableChannels(DurableState(rows), lane)}


@in_each_lane
def test_whoever_has_lost_what_it_had_is_told_and_this_server_has_not_gone_back(lane):
    session = session_in(RESUMING, **behind(lane))
    assert session.receive(receipt_of(lane, 1)) == []
    assert not session.ending.has_gone_back
    assert [frame.reason for frame in frames(session)] == [GoodbyeReason.LETTERS_LOST]


@in_each_lane
def test_whoever_has_handled_what_cannot_have_left_shows_that_this_server_has_gone_back(lane):
    session = session_in(RESUMING, **outbox(lane, b"written", b"but", b"not met", is_met=False))
    assert session.receive(receipt_of(lane, 1)) == []
    assert session.ending.has_gone_back
    assert [frame.reason for frame in frames(session)] == [GoodbyeReason.GONE_BACK]


@in_each_lane
def test_both_may_have_gone_back_and_each_learns_it_from_the_other(lane):
    channels = channels_with(lane=lane)
    channels.begin_again(PEER)
    channels.take(PEER, 1)
    session = new_session(is_dialled_here=False, **{"letters" if lane is LETTER else "posts": channels})
    session.receive(hello())
    assert session.receive(receipt_of(lane, 3)) == []
    assert session.ending.has_gone_back
    # What it has had comes first: by that the other one learns whether it has gone back too.
    assert frames(session)[0] == receipt_of(lane, 1)


@in_each_lane
def test_one_lane_may_show_that_the_peer_has_gone_back_and_the_other_that_this_server_has(lane):
    session = session_in(RESUMING, **behind(lane))
    one_behind_one_beyond = (1, 3) if lane is LETTER else (3, 1)
    assert session.receive(Receipt(NUMBER, *one_behind_one_beyond)) == []
    assert session.ending.has_gone_back
    # The peer learns by this word that it has gone back too.
    assert [frame.reason for frame in frames(session)] == [GoodbyeReason.LETTERS_LOST]


@in_each_lane
def test_a_first_receipt_that_a_later_one_overtook_is_no_loss(lane):
    session = session_in(RESUMING, known={5}, **behind(lane))
    assert session.receive(receipt_of(lane, 1)) == []
    assert session.ending.reason is GoodbyeReason.REPLACED
