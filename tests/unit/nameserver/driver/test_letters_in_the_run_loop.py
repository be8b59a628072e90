"""Letters in the run loop: durable before they leave, confirmed when durable, never held up for clients."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from namegraph.events import AddPeer, Lane, PeerLost, PeerMet, PeerRestored, Tick
from nameserver.driver import database_work, gathering
from nameserver.driver import run_loop as run_loop_module
from nameserver.driver.run_loop import POSTS_OF_A_STEP, RunLoop
from nameserver.session.durable_outbox import DurableOutbox
from tests.fakes.peer_core import FakePeerCore, SendLetter
from tests.unit.nameserver.gated_store import GatedStore

PEER = "b.x"


class Server:
    """A core that only exchanges letters, over a store that a test can hold."""

    def __init__(self):
        self.store = GatedStore()
        self.core = FakePeerCore("a.x", ["a.x"], {PEER: "127.0.0.1:1"})
        for lane in Lane:
            self.core.channels_of(lane).met(PEER)
        self.time = 100.0
        self.worker = ThreadPoolExecutor(max_workers=1)
        self.run_loop = RunLoop(core=self.core, store=self.store, worker=self.worker, clock=lambda: self.time)
        self.outboxes = {lane: DurableOutbox(self.core.channels_of(lane), self.run_loop) for lane in Lane}
        self.steps = []
        """Effects of all steps, in their order."""
        self.run_loop.followers.append(self.steps.append)
        self.notified = []
        self.run_loop.notify_peers = self.notified.extend
        self.flushing = asyncio.ensure_future(self.run_loop.flush_forever())

    def send(self, letter=b"letter", lane=Lane.LETTERS):
        self.run_loop.take(SendLetter(PEER, letter, lane))

    def take(self, first_number, *letters, lane=Lane.LETTERS, **more):
        return asyncio.ensure_future(self.run_loop.take_letters(PEER, first_number, letters, lane, **more))

    def may_leave(self, lane=Lane.LETTERS):
        return [letter.number for letter in self.outboxes[lane].letters_after(PEER, 0)]

    def handled_through(self, lane=Lane.LETTERS):
        return self.outboxes[lane].handled_through(PEER)

    async def until(self, condition):
        async with asyncio.timeout(10):
            while not condition():
                await asyncio.sleep(0)


@pytest.fixture
async def server(monkeypatch):
    monkeypatch.setattr(database_work, "FIRST_RETRY_SECONDS", 0.001)
    server = Server()
    yield server
    server.store.make_room()
    server.store.open()
    server.flushing.cancel()
    server.worker.shutdown()


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_letter_may_leave_once_it_is_durable_and_its_peer_is_told(server):
    server.store.hold()
    server.send()
    await server.until(lambda: server.store.batches)
    assert server.may_leave() == []
    assert server.notified == []
    server.store.open()
    await server.until(lambda: server.notified == [PEER])
    assert server.may_leave() == [1]


async def test_letters_of_the_next_batch_wait_for_it(server):
    server.store.hold()
    server.send()
    await server.until(lambda: server.store.batches)
    server.send()
    server.send()
    server.store.let_one_through()
    await server.until(lambda: len(server.store.batches) == 2)
    assert server.may_leave() == [1]
    server.store.open()
    await server.until(lambda: server.may_leave() == [1, 2, 3])


async def test_what_a_letter_caused_is_durable_before_it_counts_as_handled(server):
    server.store.hold()
    await server.take(1, b"one", b"two")
    await server.until(lambda: server.store.batches)
    await server.take(3, b"three")
    assert server.core.channels.handled_through(PEER) == 3
    assert server.handled_through() == 0
    server.store.let_one_through()
    await server.until(lambda: server.handled_through() == 2)
    server.store.open()
    await server.until(lambda: server.handled_through() == 3)
    assert server.notified == [PEER, PEER]


@pytest.mark.parametrize("first_number", [1, 2], ids=["letters-repeated", "letters-new"])
async def test_a_receipt_that_came_with_letters_is_taken_with_them(server, first_number):
    server.send()
    server.send()
    await server.until(lambda: server.may_leave() == [1, 2])
    await server.take(1, b"one")
    await server.take(first_number, b"next", received=2)
    assert server.core.channels.forgotten_through(PEER) == 2
    assert server.core.channels.handled_through(PEER) == first_number


async def test_the_letters_of_a_frame_share_one_flush(server):
    await server.take(1, *(b"echo %d" % number for number in range(100)))
    await server.until(lambda: server.may_leave() == list(range(1, 101)))
    assert len(server.store.batches) == 1


async def test_letters_that_were_handled_before_are_left_out_without_a_fault(server):
    await server.take(1, b"one", b"two")
    await server.take(1, b"one", b"two", b"three")
    assert [letter for _, letter in server.core.handled] == [b"one", b"two", b"three"]
    assert not server.core.channels.faults


async def test_a_batch_with_letters_does_not_wait_for_clients(server, monkeypatch):
    server.store.hold()
    first = asyncio.ensure_future(server.run_loop.carry_out(AddPeer(server.run_loop.new_ticket(), "c.x", "h:1")))
    server.send()
    await server.until(lambda: server.store.batches)
    others = [
        asyncio.ensure_future(server.run_loop.carry_out(AddPeer(server.run_loop.new_ticket(), "c.x", "h:1")))
        for _ in range(3)
    ]
    await settle()
    monkeypatch.setattr(gathering, "GATHER_SECONDS", 3600.0)
    server.store.open()
    await asyncio.gather(first, *others)
    # Three more callers are expected now, and none comes.
    server.send()
    await server.until(lambda: server.may_leave() == [1, 2])


async def test_letters_wait_while_the_database_cannot_be_written(server):
    server.store.fill_the_disk()
    server.send()
    await server.until(lambda: server.run_loop.storage_failure is not None)
    taking = server.take(1, b"one")
    await settle()
    assert not taking.done()
    assert server.may_leave() == []
    server.store.make_room()
    await taking
    await server.until(lambda: server.handled_through() == 1)
    assert server.may_leave() == [1]


@pytest.mark.parametrize("lane", Lane)
async def test_letters_that_waited_are_left_out_where_their_session_is_over(server, lane):
    server.store.fill_the_disk()
    server.send()
    await server.until(lambda: server.run_loop.storage_failure is not None)
    is_over = []
    taking = server.take(1, b"one", b"two", lane=lane, is_over=lambda: bool(is_over))
    await settle()
    is_over.append("its sender has started again")
    server.store.make_room()
    await taking
    assert server.core.handled == []


@pytest.mark.parametrize("lane", Lane)
async def test_what_came_from_a_server_is_being_written_until_it_is_durable(server, lane):
    server.store.hold()
    server.send()
    await server.until(lambda: server.store.batches)
    assert not server.run_loop.is_writing_what_came_from(PEER)
    await server.take(1, b"one", lane=lane)
    assert server.run_loop.is_writing_what_came_from(PEER)
    assert not server.run_loop.is_writing_what_came_from("c.x")
    server.store.open()
    await server.until(lambda: server.handled_through(lane) == 1)
    assert not server.run_loop.is_writing_what_came_from(PEER)


async def test_letters_wait_while_too_many_rows_do(server, monkeypatch):
    monkeypatch.setattr(run_loop_module, "WAITING_ROWS_LIMIT", 3)
    server.store.hold()
    server.send()
    await server.until(lambda: server.store.batches)
    await server.take(1, b"one", b"two", b"three", b"four")
    taking = server.take(5, b"five")
    await settle()
    assert not taking.done()
    server.store.open()
    await taking
    assert len(server.core.handled) == 5


async def test_what_a_restart_changed_is_durable_before_any_letter_leaves(server):
    server.core.channels.send(PEER, b"from the restart")
    server.store.hold()
    server.run_loop.begin([PEER])
    await server.until(lambda: server.store.batches)
    assert server.may_leave() == []
    server.store.open()
    await server.until(lambda: server.may_leave() == [1])


async def test_a_restart_that_changed_nothing_holds_nothing(server):
    server.run_loop.begin([PEER])
    assert not server.run_loop.undurable_records()


async def test_peers_met_and_lost_reach_the_core(server):
    server.run_loop.take(PeerMet(PEER, (PEER,)))
    server.run_loop.take(PeerLost(PEER, "gone"))
    assert (server.core.met, server.core.lost) == ([PEER], [(PEER, "gone")])


async def test_the_core_gets_its_tick_at_its_deadline_and_not_before(server):
    server.core.next_deadline = 100.0 + 3600
    server.send()
    await settle()
    assert server.core.ticks == 0
    server.core.next_deadline = 100.0
    server.send()
    await server.until(lambda: server.core.ticks == 1)
    server.send()
    await settle()
    assert server.core.ticks == 1


async def test_after_a_bug_no_letter_is_taken(server, monkeypatch):
    def step(event, now):
        raise AssertionError("a bug")

    monkeypatch.setattr(server.core, "step", step)
    with pytest.raises(AssertionError, match="a bug"):
        server.send()
    monkeypatch.undo()
    with pytest.raises(AssertionError, match="a bug"):
        await server.take(1, b"one")
    assert server.core.handled == []
    with pytest.raises(AssertionError, match="a bug"):
        await server.flushing


async def test_waiting_for_answers_ends_when_the_last_command_is_answered(server):
    server.store.hold()
    command = asyncio.ensure_future(server.run_loop.carry_out(AddPeer(server.run_loop.new_ticket(), "c.x", "h:1")))
    server.send()
    await server.until(lambda: server.store.batches)
    again = asyncio.ensure_future(server.run_loop.carry_out(AddPeer(server.run_loop.new_ticket(), "c.x", "h:1")))
    await settle()
    waiting = asyncio.ensure_future(server.run_loop.until_answered())
    await settle()
    assert not waiting.done()
    server.store.open()
    await waiting
    await asyncio.gather(command, again)


def handled_by_itself(server):
    return [letter for sender, letter in server.core.handled if sender == server.core.server]


async def test_what_a_server_writes_to_itself_is_handled_once_it_is_durable(server):
    server.store.hold()
    server.run_loop.take(SendLetter("a.x", b"own"))
    await server.until(lambda: server.store.batches)
    await settle()
    assert handled_by_itself(server) == []
    server.store.open()
    await server.until(lambda: handled_by_itself(server) == [b"own"])
    await server.until(lambda: not server.run_loop.undurable_records())
    assert list(server.core.channels.kept("a.x")) == []


async def test_what_a_server_wrote_to_itself_before_a_restart_is_handled_after_it():
    core = FakePeerCore("a.x", ["a.x"], {})
    core.channels.send("a.x", b"own")
    worker = ThreadPoolExecutor(max_workers=1)
    run_loop = RunLoop(core=core, store=GatedStore(), worker=worker, clock=lambda: 0.0)
    run_loop.begin([])
    run_loop.finish()
    await run_loop.flush_forever()
    worker.shutdown()
    assert core.handled == [("a.x", b"own")]


# -- two lanes


async def test_each_lane_is_held_by_its_own_numbers(server):
    server.send()
    server.send()
    await server.until(lambda: server.may_leave() == [1, 2])
    server.store.hold()
    server.send(b"post", lane=Lane.POST)
    await server.until(lambda: server.store.batches)
    assert (server.may_leave(), server.may_leave(Lane.POST)) == ([1, 2], [])
    server.send()
    assert server.may_leave() == [1, 2]
    server.store.open()
    await server.until(lambda: (server.may_leave(), server.may_leave(Lane.POST)) == ([1, 2, 3], [1]))


async def test_what_a_post_caused_is_durable_before_it_counts_as_handled(server):
    server.store.hold()
    await server.take(1, b"une", b"deux", lane=Lane.POST)
    await server.take(1, b"one")
    await server.until(lambda: server.store.batches)
    assert (server.handled_through(), server.handled_through(Lane.POST)) == (0, 0)
    server.store.open()
    await server.until(lambda: (server.handled_through(), server.handled_through(Lane.POST)) == (1, 2))


async def test_posts_of_a_frame_share_steps_and_others_have_their_turn_between_these(server):
    posts = [b"%d" % number for number in range(1, 2 * POSTS_OF_A_STEP + 2)]
    taking = server.take(1, *posts, lane=Lane.POST)
    reached = []
    while not taking.done():
        await asyncio.sleep(0)
        reached.append(server.core.posts.handled_through(PEER))
    assert sorted({*reached} - {0}) == [POSTS_OF_A_STEP, 2 * POSTS_OF_A_STEP, len(posts)]
    assert len(server.steps) == 3
    assert [post for _, post in server.core.posts_handled] == posts


async def test_letters_of_a_frame_are_a_step_each(server):
    await server.take(1, b"one", b"two", b"three")
    assert len(server.steps) == 3


async def test_posts_that_are_put_off_are_confirmed_when_a_later_step_has_handled_them_and_that_is_durable(server):
    server.core.takes_posts = False
    await server.take(1, b"une", b"deux", lane=Lane.POST)
    await server.take(1, b"une", b"deux", b"trois", lane=Lane.POST)
    server.send()
    await server.until(lambda: server.may_leave() == [1])
    assert server.handled_through(Lane.POST) == 0
    server.notified.clear()
    server.core.takes_posts = True
    server.store.hold()
    batches = len(server.store.batches)
    server.run_loop.take(Tick())
    await server.until(lambda: len(server.store.batches) > batches)
    assert (server.core.posts.handled_through(PEER), server.handled_through(Lane.POST)) == (3, 0)
    server.store.open()
    await server.until(lambda: server.notified == [PEER])
    assert server.handled_through(Lane.POST) == 3
    assert [post for _, post in server.core.posts_handled] == [b"une", b"deux", b"trois"]
    assert not server.core.posts.faults


async def test_where_channels_begin_again_both_lanes_are_held_until_that_is_durable(server):
    server.send()
    server.send(b"post", lane=Lane.POST)
    await server.take(1, b"une", lane=Lane.POST)
    await server.until(lambda: server.handled_through(Lane.POST) == 1)
    server.store.hold()
    server.run_loop.take(PeerRestored(PEER, 7))
    server.send(b"post", lane=Lane.POST)
    await server.until(lambda: server.store.batches)
    server.run_loop.take(PeerMet(PEER, (PEER,)))
    assert (server.may_leave(), server.may_leave(Lane.POST), server.handled_through(Lane.POST)) == ([], [], 0)
    server.store.open()
    await server.until(lambda: server.may_leave(Lane.POST) == [1])


@pytest.mark.parametrize("lane", Lane)
async def test_to_a_server_that_is_not_met_nothing_leaves_until_its_meeting_is_durable(server, lane):
    """A crash forgets that it could have left; its number tells an older copy of the database."""
    server.run_loop.take(PeerRestored(PEER, 7))
    server.send(lane=lane)
    await server.until(lambda: not server.run_loop.undurable_records())
    assert server.may_leave(lane) == []
    server.store.hold()
    server.run_loop.take(PeerMet(PEER, (PEER,)))
    assert server.may_leave(lane) == []
    server.store.open()
    await server.until(lambda: server.may_leave(lane) == [1])


async def test_a_post_of_a_server_to_itself_is_handled_once_it_is_durable(server):
    server.run_loop.take(SendLetter("a.x", b"own", Lane.POST))
    await server.until(lambda: server.core.posts_handled == [("a.x", b"own")])
    await server.until(lambda: not server.run_loop.undurable_records())
    assert list(server.core.posts.kept("a.x")) == []
