"""Steps outside the event loop's thread: their effects on readers, callers and other servers."""

import asyncio
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import pytest

from namegraph.events import AddPeer, Lane, PeerLost, PeerMessage, PeerMet, PeerRestored, Restored
from namegraph.model.refusals import Reason, Refusal, RefusedError
from nameserver.driver import database_work, leavings
from nameserver.driver.observer import Observer
from nameserver.driver.run_loop import RunLoop
from nameserver.session.durable_outbox import DurableOutbox
from tests.fakes.peer_core import FakePeerCore, SendLetter
from tests.unit.nameserver.gated_store import PATIENCE_SECONDS, GatedStore

PEER, OTHER = "b.x", "c.x"


class SlowCore(FakePeerCore):
    """Letters and addresses that contain "long" are long steps: they end when the test lets them."""

    def __init__(self):
        super().__init__("a.x", ["a.x"], {PEER: "127.0.0.1:1", OTHER: "127.0.0.1:2"})
        self.taken = []
        """The events of all steps, in their order."""
        self.threads = []
        """Thread of each step."""
        self.gate = threading.Semaphore(0)
        self.is_ending_in_a_bug = False

    def step(self, event, now):
        effects = super().step(event, now)
        # A test goes on once an event is taken, and must not change the core beside the step.
        self.threads.append(threading.current_thread())
        self.taken.append(event)
        if is_long(event):
            assert self.gate.acquire(timeout=PATIENCE_SECONDS), "the test never let this step end"
            assert not self.is_ending_in_a_bug, "a bug"
        self.revision = f"{len(self.taken)}@a.x"
        return effects


def is_long(event):
    match event:
        case SendLetter(encoded=encoded) | PeerMessage(encoded=encoded):
            return b"long" in encoded
        case AddPeer(address=address):
            return "long" in address
        case PeerLost(why=why):
            return "long" in why
        case Restored() | PeerRestored():
            return True
        case PeerMet():
            return event.subnets == (OTHER,)
        case _:
            return False


class Piece:
    """Something that a long step leaves."""


class SeenSteps:
    """The readers' state of a core: the number of steps it has taken."""

    def __init__(self, core):
        self.core = core
        self.may_take_long = is_long
        self.free = None
        self.held = []
        self.held_for = []
        """For each hold, True if it was for a long step."""
        self.left = weakref.WeakSet()

    def changes(self, event):
        return True

    def hold(self, *, for_long_step=False):
        self.held.append(len(self.core.taken))
        self.held_for.append(for_long_step)

    def let_go(self, *, earliest):
        self.held.pop(0 if earliest else -1)
        pieces = [Piece(), Piece(), Piece()]
        self.left.update(pieces)
        self.free(pieces)

    def now(self):
        return self.held[0] if self.held else len(self.core.taken)


class Server:
    """The run loop of a core whose long steps a test can hold, over a store that it can hold too."""

    def __init__(self):
        self.store = GatedStore()
        self.core = SlowCore()
        self.seen = SeenSteps(self.core)
        self.worker, self.stepper = ThreadPoolExecutor(max_workers=1), ThreadPoolExecutor(max_workers=1)
        self.run_loop = RunLoop(
            core=self.core,
            store=self.store,
            worker=self.worker,
            clock=lambda: 100.0,
            seen=self.seen,
            stepper=self.stepper,
        )
        self.post = DurableOutbox(self.core.channels, self.run_loop)
        self.flushing = asyncio.ensure_future(self.run_loop.flush_forever())

    def send(self, letter=b"letter", *, to=PEER):
        self.run_loop.take(SendLetter(to, letter))

    def add(self, subnet, address="h:1"):
        """Send a command without waiting for its answer. It leaves no records."""
        return asyncio.ensure_future(self.run_loop.carry_out(AddPeer(self.run_loop.new_ticket(), subnet, address)))

    def take(self, first_number, *letters, sender=PEER):
        return asyncio.ensure_future(self.run_loop.take_letters(sender, first_number, letters))

    async def begin(self, event):
        """Let a step leave the loop's thread."""
        self.run_loop.take(event)
        await self.until(lambda: event in self.core.taken)

    def may_leave(self, receiver=PEER):
        return [letter.number for letter in self.post.letters_after(receiver, 0)]

    async def until(self, condition):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not condition():
                await asyncio.sleep(0)

    async def between_steps(self):
        async with asyncio.timeout(PATIENCE_SECONDS):
            await self.run_loop.between_steps()

    async def at_rest(self):
        await self.until(lambda: not self.run_loop.undurable_records())


@pytest.fixture
async def server(monkeypatch):
    monkeypatch.setattr(database_work, "FIRST_RETRY_SECONDS", 0.001)
    server = Server()
    server.run_loop.take(PeerMet(PEER, (PEER,)))
    await server.run_loop.until_durable()
    server.store.batches.clear()
    yield server
    server.core.gate.release(100)
    server.store.make_room()
    server.store.open()
    server.flushing.cancel()
    server.worker.shutdown()
    server.stepper.shutdown()


async def settle():
    """Let everything run that can."""
    for _ in range(20):
        await asyncio.sleep(0)


def letters_in(records):
    """Return the numbers of letters whose rows are in a batch."""
    return [int(row.key.split()[0]) for row in records.protocol if row.part == "outbox" and row.value is not None]


async def test_a_long_step_leaves_the_thread_of_the_event_loop_and_others_do_not(server):
    server.send(b"long")
    server.core.gate.release()
    await server.between_steps()
    server.send()
    met, long_step, short_step = server.core.threads
    assert met is short_step is threading.current_thread()
    assert long_step is not threading.current_thread()
    assert server.seen.held_for == [False, True, False]


class Watching(Observer):
    """An observer that lists the beginnings of long steps, and all steps."""

    def __init__(self):
        self.said = []

    def long_step_began(self, event):
        self.said.append(("begins", event.encoded))

    def stepped(self, event, effects, seconds, *, was_long):
        self.said.append(("is over", event.encoded, was_long))


async def test_observers_are_told_of_a_long_step_when_it_begins_and_when_it_is_over(server):
    watching = Watching()
    server.run_loop.observers.append(watching)
    server.send()
    server.send(b"long")
    await server.until(lambda: len(watching.said) == 2)
    server.core.gate.release()
    await server.between_steps()
    assert watching.said == [("is over", b"letter", False), ("begins", b"long"), ("is over", b"long", True)]


async def test_what_a_long_step_leaves_is_freed_over_several_turns_of_the_loop(server, monkeypatch):
    monkeypatch.setattr(leavings, "FREED_AT_ONCE", 1)
    monkeypatch.setattr(leavings, "FEW", 0)
    server.send(b"long")
    server.core.gate.release()
    counts = []
    while not counts or counts[-1]:
        await asyncio.sleep(0)
        if server.seen.left or counts:
            counts.append(len(server.seen.left))
    assert sorted(set(counts), reverse=True) == [3, 2, 1, 0]


# -- readers


async def test_readers_see_the_state_before_a_long_step_until_it_is_durable(server):
    server.store.hold()
    await server.begin(SendLetter(PEER, b"long"))
    assert len(server.core.taken) == 2
    assert server.run_loop.is_in_long_step
    assert server.seen.now() == 1

    server.core.gate.release()
    await server.until(lambda: server.store.batches)
    assert not server.run_loop.is_in_long_step
    assert server.seen.now() == 1

    server.store.open()
    await server.at_rest()
    assert server.seen.now() == 2


async def test_readers_see_a_long_step_before_the_later_ones_that_are_not_durable(server):
    server.store.hold()
    await server.begin(SendLetter(PEER, b"long"))
    server.core.gate.release()
    await server.between_steps()
    server.send(b"later")
    assert server.seen.now() == 1

    server.store.let_one_through()
    await server.until(lambda: len(server.store.batches) == 2)
    assert server.seen.now() == 2
    server.store.open()
    await server.at_rest()
    assert server.seen.now() == 3


async def test_readers_see_steps_from_before_a_long_step_as_soon_as_they_are_durable(server):
    server.store.hold()
    server.send(b"before")
    await server.until(lambda: server.store.batches)
    await server.begin(SendLetter(PEER, b"long"))
    assert server.seen.now() == 1
    server.store.let_one_through()
    await server.until(lambda: server.seen.now() == 2)
    assert server.run_loop.is_in_long_step
    server.core.gate.release()
    await server.until(lambda: len(server.store.batches) == 2)
    assert [letters_in(records) for records in server.store.batches] == [[1], [2]]
    assert server.seen.now() == 2
    server.store.open()
    await server.at_rest()
    assert server.seen.now() == 3


async def test_a_caller_that_read_the_core_waits_for_the_long_step_and_the_steps_after_it(server):
    server.store.hold()
    await server.begin(SendLetter(PEER, b"long"))
    between = asyncio.ensure_future(server.run_loop.between_steps())
    await settle()
    assert not between.done()
    server.core.gate.release()
    await asyncio.wait_for(between, PATIENCE_SECONDS)
    server.send(b"later")
    reading = asyncio.ensure_future(server.run_loop.until_durable())
    server.store.let_one_through()
    await server.until(lambda: len(server.store.batches) == 2)
    assert not reading.done()
    server.store.open()
    await reading


async def test_after_a_long_step_that_leaves_no_records_readers_see_the_core_at_once(server):
    server.store.hold()
    answer = server.add(OTHER, "long:1")
    await server.until(lambda: len(server.core.taken) == 2)
    assert server.seen.now() == 1
    server.core.gate.release()
    await answer
    assert server.seen.held == []
    assert server.seen.now() == 2


async def test_a_long_step_without_records_after_one_with_some_does_not_show_those(server):
    server.store.hold()
    await server.begin(SendLetter(PEER, b"long"))
    answer = server.add(OTHER, "long:1")
    server.core.gate.release(2)
    await server.until(lambda: len(server.core.taken) == 3 and server.seen.held == [1])
    assert server.seen.now() == 1
    assert not answer.done(), "it rests on what is not durable"
    server.store.open()
    await answer
    await server.at_rest()
    assert server.seen.now() == 3


async def test_of_two_long_steps_each_is_seen_exactly_when_its_own_batch_is_durable(server):
    server.store.hold()
    await server.begin(SendLetter(PEER, b"long, first"))
    server.send(b"between")
    server.send(b"long, second")
    server.core.gate.release(2)
    await server.until(lambda: len(server.core.taken) == 4)
    await server.between_steps()
    assert server.seen.now() == 1

    server.store.let_one_through()
    await server.until(lambda: len(server.store.batches) == 2)
    assert server.seen.now() == 2, "the step between is in a batch of its own"

    server.store.let_one_through()
    await server.until(lambda: len(server.store.batches) == 3)
    assert server.seen.now() == 3

    server.store.open()
    await server.at_rest()
    assert server.seen.now() == 4
    assert [letters_in(records) for records in server.store.batches] == [[1], [2], [3]]


# -- events that come meanwhile


async def test_what_comes_during_a_long_step_is_taken_after_it_in_its_order_and_callers_get_their_answers(server):
    await server.begin(SendLetter(PEER, b"long"))
    first = server.add(OTHER)
    await settle()
    server.send(b"one")
    second = server.add("d.x")
    await settle()
    server.send(b"two")
    assert len(server.core.taken) == 2
    server.core.gate.release()
    await asyncio.gather(first, second)
    assert [getattr(event, "subnet", None) or event.encoded for event in server.core.taken[1:]] == [
        b"long",
        OTHER,
        b"one",
        "d.x",
        b"two",
    ]
    assert set(server.core.threads[2:]) == {threading.current_thread()}


async def test_letters_that_come_during_a_long_step_are_handled_after_it(server):
    await server.begin(SendLetter(PEER, b"long"))
    taking = server.take(1, b"one", b"two")
    await settle()
    assert server.core.handled == []
    server.core.gate.release()
    await taking
    assert server.core.handled == [(PEER, b"one"), (PEER, b"two")]


async def test_what_comes_after_a_second_long_step_waits_for_that_one_too(server):
    await server.begin(SendLetter(PEER, b"long, first"))
    server.send(b"long, second")
    server.send(b"last")
    server.core.gate.release()
    await server.until(lambda: len(server.core.taken) == 3)
    await settle()
    assert server.core.taken[-1].encoded == b"long, second"
    server.core.gate.release()
    await server.until(lambda: len(server.core.taken) == 4)
    assert server.core.taken[-1].encoded == b"last"


async def test_a_caller_that_gives_up_during_a_long_step_does_not_disturb_the_others(server):
    await server.begin(SendLetter(PEER, b"long"))
    impatient, patient = server.add(OTHER), server.add("d.x")
    await settle()
    impatient.cancel()
    server.core.gate.release()
    await patient
    assert "d.x" in server.core.peer_addresses


# -- letters and receipts


async def test_no_letter_of_a_long_step_leaves_before_it_is_durable_and_those_from_before_leave_meanwhile(server):
    server.store.hold()
    server.send(b"before")
    await server.until(lambda: server.store.batches)
    await server.begin(SendLetter(PEER, b"long"))
    assert server.core.channels.sent_through(PEER) == 2, "the step has written its letter, and is not over"
    assert server.may_leave() == []
    server.store.let_one_through()
    await server.until(lambda: server.may_leave() == [1])

    server.core.gate.release()
    await server.until(lambda: len(server.store.batches) == 2)
    assert server.may_leave() == [1]
    server.store.open()
    await server.until(lambda: server.may_leave() == [1, 2])


async def test_a_letter_counts_as_handled_once_what_its_long_step_did_is_durable(server):
    server.store.hold()
    await server.take(1, b"echo short")
    await server.until(lambda: server.store.batches)
    await server.take(2, b"echo long")
    await server.until(lambda: server.core.channels.handled_through(PEER) == 2)
    server.store.let_one_through()
    await server.until(lambda: server.post.handled_through(PEER) == 1)
    await settle()
    assert server.post.handled_through(PEER) == 1

    server.core.gate.release()
    await server.until(lambda: len(server.store.batches) == 2)
    assert server.post.handled_through(PEER) == 1
    server.store.open()
    await server.until(lambda: server.post.handled_through(PEER) == 2)
    assert server.may_leave() == [1, 2]


async def test_letters_to_a_server_that_is_met_by_a_long_step_wait_for_the_meeting(server):
    """Where they could have left would be forgotten by a crash; its number tells an older copy of the database."""
    server.core.owners[OTHER] = OTHER  # It was met before this start.
    server.send(to=OTHER)
    await server.at_rest()
    server.store.hold()
    await server.begin(PeerMet(OTHER, (OTHER,)))
    assert server.core.channels.is_met(OTHER)
    assert server.may_leave(OTHER) == []
    server.core.gate.release()
    await server.until(lambda: len(server.store.batches) == 2)
    assert server.may_leave(OTHER) == []
    server.store.open()
    await server.until(lambda: server.may_leave(OTHER) == [1])


async def test_what_came_from_a_server_is_being_written_during_the_long_step_of_its_letter(server):
    await server.begin(PeerMessage(PEER, 1, b"long"))
    assert server.run_loop.is_writing_what_came_from(PEER)
    assert not server.run_loop.is_writing_what_came_from(OTHER)
    server.core.gate.release()
    await server.until(lambda: server.post.handled_through(PEER) == 1)
    assert not server.run_loop.is_writing_what_came_from(PEER)


@pytest.mark.parametrize("event", [Restored(2**33), PeerRestored(PEER, 2**33)])
async def test_letters_numbered_anew_by_a_long_step_wait_for_it_and_no_session_is_begun_meanwhile(server, event):
    for _ in range(3):
        server.send()
    await server.until(lambda: server.may_leave() == [1, 2, 3])
    assert not server.run_loop.begins_again_with(PEER)
    server.store.hold()
    await server.begin(event)
    server.core.channels.send(PEER, b"numbered anew, by the step")
    assert server.run_loop.begins_again_with(PEER)
    assert server.run_loop.begins_again_with(OTHER) is isinstance(event, Restored)
    assert server.may_leave() == []
    server.core.gate.release()
    await server.between_steps()
    assert not server.run_loop.begins_again_with(PEER)
    server.run_loop.take(PeerMet(PEER, (PEER,)))
    server.core.gate.release()
    await server.between_steps()
    assert server.may_leave() == []
    server.store.open()
    await server.until(lambda: server.may_leave() == [1])


async def test_channels_are_to_begin_again_as_long_as_that_waits_for_a_long_step(server):
    await server.begin(SendLetter(PEER, b"long"))
    server.run_loop.take(PeerRestored(PEER, 2**33))
    assert server.run_loop.begins_again_with(PEER)
    assert not server.run_loop.begins_again_with(OTHER)
    server.core.gate.release(2)
    await server.until(lambda: not server.run_loop.begins_again_with(PEER))
    assert server.core.incarnations.of(PEER) == 2**33


# -- what goes wrong, and the end


async def test_a_bug_in_a_long_step_ends_the_server_and_nothing_of_the_step_is_kept(server):
    server.core.is_ending_in_a_bug = True
    await server.begin(SendLetter(PEER, b"long"))
    server.core.gate.release()
    with pytest.raises(AssertionError, match="a bug"):
        await asyncio.wait_for(server.flushing, PATIENCE_SECONDS)
    assert server.store.batches == []
    with pytest.raises(AssertionError, match="a bug"):
        server.send()


async def test_a_bug_in_a_step_that_waited_for_a_long_one_ends_the_server_too(server):
    await server.begin(SendLetter(PEER, b"long"))
    server.run_loop.take("no event at all")
    server.core.gate.release()
    with pytest.raises(AssertionError, match="no event at all"):
        await asyncio.wait_for(server.flushing, PATIENCE_SECONDS)


async def test_when_the_disk_is_full_readers_see_the_newest_durable_state(server):
    server.store.hold()
    server.send(b"before")
    await server.until(lambda: server.store.batches)
    await server.begin(SendLetter(PEER, b"long"))
    server.core.gate.release()
    await server.between_steps()
    server.store.let_one_through()
    await server.until(lambda: len(server.store.batches) == 2)
    server.store.fill_the_disk()
    server.store.open()
    await server.until(lambda: server.run_loop.storage_failure is not None)
    assert server.run_loop.durable_revision == "2@a.x"
    assert server.seen.now() == 2
    with pytest.raises(RefusedError):
        server.run_loop.require_accepting()
    server.store.make_room()
    await server.until(lambda: server.run_loop.storage_failure is None)
    assert server.run_loop.durable_revision == "3@a.x"
    assert server.seen.now() == 3


async def test_a_server_that_is_stopped_during_a_long_step_writes_all_that_it_took(server):
    await server.begin(SendLetter(PEER, b"long"))
    server.send(b"long, too")
    server.send(b"short")
    answer = server.add(OTHER)
    await settle()
    server.run_loop.refuse_updates(Refusal(Reason.UNAVAILABLE, "the server is shutting down"))
    server.run_loop.finish()
    await settle()
    assert not server.flushing.done()
    server.core.gate.release(2)
    await asyncio.wait_for(server.flushing, PATIENCE_SECONDS)
    await answer
    assert [letters_in(records) for records in server.store.batches] == [[1], [2], [3]]


async def test_while_a_long_step_goes_on_no_post_is_confirmed_that_it_handles_and_none_leaves_that_it_writes(server):
    outbox = DurableOutbox(server.core.posts, server.run_loop)
    await server.at_rest()
    server.core.takes_posts = False
    await server.run_loop.take_letters(PEER, 1, [b"une", b"deux"], Lane.POST)
    server.core.takes_posts = True
    await server.begin(SendLetter(PEER, b"long post", Lane.POST))
    await server.until(lambda: server.core.posts.handled_through(PEER) == 2)
    assert (outbox.handled_through(PEER), list(outbox.letters_after(PEER, 0))) == (0, [])
    server.store.hold()
    server.core.gate.release()
    await server.until(lambda: server.store.batches)
    await server.between_steps()
    assert (outbox.handled_through(PEER), list(outbox.letters_after(PEER, 0))) == (0, [])
    server.store.open()
    await server.until(lambda: outbox.handled_through(PEER) == 2)
    assert [post.encoded for post in outbox.letters_after(PEER, 0)] == [b"long post"]
