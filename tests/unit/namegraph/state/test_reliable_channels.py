"""Numbered channels: no letter is lost or handled twice, even after a crash."""

from hypothesis import given
from hypothesis import strategies as st

from namegraph.state.durable_maps import DurableState
from namegraph.state.reliable_channels import Channels

PEER = "b.x"


class Crashing:
    """Channels whose rows are written, so that they can be restored."""

    def __init__(self):
        self.rows = {}
        self.crash()

    def flush(self):
        for row in self.durable.take_rows():
            if row.value is None:
                self.rows.pop((row.part, row.key), None)
            else:
                self.rows[row.part, row.key] = row

    def crash(self):
        self.durable = DurableState(self.rows.values())
        self.channels = Channels(self.durable)


def kept(channels, after=0):
    return [(letter.number, letter.encoded) for letter in channels.kept(PEER, after=after)]


def test_letters_are_numbered_from_one_and_kept():
    channels = Channels(DurableState())
    assert [channels.send(PEER, text).number for text in (b"one", b"two")] == [1, 2]
    assert channels.send("c.x", b"other").number == 1
    assert kept(channels) == [(1, b"one"), (2, b"two")]
    assert kept(channels, after=1) == [(2, b"two")]
    assert kept(channels, after=2) == []


def test_a_letter_is_forgotten_when_its_receiver_has_it():
    channels = Channels(DurableState())
    for text in (b"one", b"two", b"three"):
        channels.send(PEER, text)
    channels.received(PEER, 2)
    assert kept(channels) == [(3, b"three")]
    assert (channels.forgotten_through(PEER), channels.sent_through(PEER)) == (2, 3)
    channels.received(PEER, 3)
    assert (channels.forgotten_through(PEER), channels.sent_through(PEER)) == (3, 3)
    channels.received(PEER, 1)
    assert not channels.faults


def test_a_letter_is_handled_once_and_only_in_its_turn():
    channels = Channels(DurableState())
    assert [channels.take(PEER, number) for number in (1, 1, 3, 2, 1, 3)] == [True, False, False, True, False, True]
    assert channels.handled_through(PEER) == 3
    assert channels.faults == {(PEER, "repeated"): 2, (PEER, "out of order"): 1}


def test_a_receipt_for_what_was_not_sent_is_a_fault_and_forgets_nothing():
    channels = Channels(DurableState())
    channels.send(PEER, b"one")
    channels.received(PEER, 2)
    assert kept(channels) == [(1, b"one")]
    assert channels.faults == {(PEER, "receipt for what was not sent"): 1}


def test_forgetting_alone_writes_nothing():
    durable = DurableState()
    channels = Channels(durable)
    channels.send(PEER, b"one")
    durable.take_rows()
    channels.received(PEER, 1)
    assert durable.take_rows() == []
    channels.send(PEER, b"two")
    assert {(row.part, row.value) for row in durable.take_rows()} == {
        ("outbox", None),
        ("sent", b"1"),
        ("outbox", b"two"),
    }


STEPS = st.lists(
    st.one_of(
        st.just(("send", 0)),
        st.just(("take", 0)),
        st.just(("crash", 0)),
        st.tuples(st.just("received"), st.integers(0, 5)),
    ),
    max_size=40,
)


@given(STEPS)
def test_after_a_crash_numbers_go_on_and_what_is_not_confirmed_is_kept(steps):
    server = Crashing()
    sent, confirmed, handled = [], 0, 0
    for step, count in steps:
        channels = server.channels
        match step:
            case "send":
                sent.append(f"letter {len(sent)}".encode())
                assert channels.send(PEER, sent[-1]).number == len(sent)
            case "take":
                handled += 1
                assert channels.take(PEER, handled)
            case "received":
                confirmed = max(confirmed, min(count, len(sent)))
                channels.received(PEER, confirmed)
            case "crash":
                server.crash()
        server.flush()
        channels = server.channels
        assert channels.handled_through(PEER) == handled
        assert channels.sent_through(PEER) == len(sent)
        assert channels.forgotten_through(PEER) <= confirmed
        forgotten = channels.forgotten_through(PEER)
        assert kept(channels) == list(enumerate(sent, start=1))[forgotten:]
        assert channels.faults == {}
