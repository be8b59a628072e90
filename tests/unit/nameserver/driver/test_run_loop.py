"""Durable before visible, group commit, and what happens when the database cannot be written."""

import asyncio
from dataclasses import replace

import pytest

from delivery.model.events import DatagramSent, OpenMailbox, Send
from delivery.model.words import MessageContent, Quality, target_set
from delivery.server import Server as BothHalves
from delivery.volatile.datagrams import PeerDatagram
from delivery.wire.posts import Datagram, encode
from namegraph import Effects, Lane, ProtocolRow, Records, Tick
from namegraph.core import ServerCore
from namegraph.events import CutCommand, ImportCommand
from namegraph.model.operations import CreateGroup, JoinArc
from namegraph.model.refusals import Reason, Refusal, RefusedError
from nameserver.driver import database_work, gathering
from nameserver.driver import letting_out as letting_out_module
from nameserver.driver import run_loop as run_loop_module
from nameserver.driver.group_commit import Batch, Flow
from nameserver.driver.letting_out import LettingOut
from resolver.reach import GraphReach
from storage.errors import DatabaseLostError
from tests.unit.nameserver.gated_server import GatedServer, settle


@pytest.fixture
async def server(monkeypatch):
    monkeypatch.setattr(database_work, "FIRST_RETRY_SECONDS", 0.001)
    server = GatedServer()
    yield server
    server.end()


async def refusal_of(awaitable):
    with pytest.raises(RefusedError) as caught:
        await awaitable
    return caught.value.refusal


async def test_the_next_step_is_waited_for_but_not_longer_than_said(server):
    waiting = asyncio.ensure_future(server.run_loop.next_step(60))
    await asyncio.sleep(0)
    assert not waiting.done()
    await server.begin(CreateGroup("a@b.c"))
    await asyncio.wait_for(waiting, 10)
    # Nothing steps now: the wait ends by itself.
    await asyncio.wait_for(server.run_loop.next_step(0.001), 10)


async def test_an_update_is_answered_once_it_is_durable(server):
    committed = await server.begin(CreateGroup("a@b.c"))
    assert committed.revision == "1@one"
    assert server.group_is_durable("a@b.c")


async def test_no_answer_leaves_before_its_records_are_durable(server):
    server.store.hold()
    creating = server.begin(CreateGroup("a@b.c"))
    await server.until(lambda: server.store.batches)
    assert server.core.graph.group("a@b.c") is not None
    assert not creating.done()
    server.store.open()
    await creating
    assert server.group_is_durable("a@b.c")


async def test_an_answer_that_other_servers_confirmed_does_not_wait_for_what_is_written_meanwhile(server, monkeypatch):
    step = server.core.step

    def confirmed(event, now):
        effects = step(event, now)
        return replace(effects, replies=[replace(reply, is_confirmed=True) for reply in effects.replies])

    monkeypatch.setattr(server.core, "step", confirmed)
    server.store.hold()
    assert (await server.begin(CreateGroup("a@b.c"))).revision == "1@one"
    assert not server.group_is_durable("a@b.c")


async def test_a_caller_that_read_the_core_waits_until_its_state_is_durable(server):
    server.store.hold()
    creating = server.begin(CreateGroup("a@b.c"))
    await server.until(lambda: server.store.batches)
    reading = server.read_core()
    await settle()
    assert not reading.done()
    server.store.open()
    await reading
    assert creating.done() or await creating


async def test_a_caller_that_read_the_core_waits_for_no_later_update(server):
    server.store.hold()
    first = server.begin(CreateGroup("a@b.c"))
    await server.until(lambda: server.store.batches)
    reading = server.read_core()
    await settle()
    second = server.begin(CreateGroup("d@b.c"))
    server.store.let_one_through()
    await reading
    await first
    assert not second.done()
    server.store.open()
    await second


async def test_with_nothing_under_way_a_caller_that_read_the_core_does_not_wait(server):
    await server.begin(CreateGroup("a@b.c"))
    assert not server.run_loop.undurable_records()
    await server.run_loop.until_durable()


async def test_a_refusal_that_rests_on_what_is_not_durable_waits_for_it(server):
    server.store.hold()
    first = server.begin(CreateGroup("a@b.c"))
    await server.until(lambda: server.store.batches)
    again = server.begin(CreateGroup("a@b.c"))
    await settle()
    assert not again.done()
    server.store.open()
    await first
    assert (await refusal_of(again)).reason is Reason.GROUP_EXISTS


async def test_updates_that_come_during_a_flush_share_the_next_one(server):
    server.store.hold()
    first = server.begin(CreateGroup("g0@b.c"))
    await server.until(lambda: server.store.batches)
    others = [server.begin(CreateGroup(f"g{number}@b.c")) for number in range(1, 51)]
    await settle()
    server.store.open()
    await asyncio.gather(first, *others)
    assert [len(records.nodes) for records in server.store.batches] == [1, 50]


async def test_a_flush_waits_for_the_callers_just_answered(server, monkeypatch):
    server.store.hold()
    first = server.begin(CreateGroup("g0@b.c"))
    await server.until(lambda: server.store.batches)
    others = [server.begin(CreateGroup(f"g{number}@b.c")) for number in range(1, 5)]
    await settle()
    monkeypatch.setattr(gathering, "GATHER_SECONDS", 3600.0)
    server.store.let_one_through()
    await first
    assert not any(other.done() for other in others)
    again = server.begin(CreateGroup("g5@b.c"))
    server.store.open()
    await asyncio.gather(*others, again)
    assert [len(records.nodes) for records in server.store.batches] == [1, 5]


@pytest.fixture
def noting(server, monkeypatch):
    """Make ticks of the core write a row that no output waits for. The loop holds such rows for an hour."""
    monkeypatch.setattr(gathering, "RECEIPTS_SECONDS", 3600.0)
    step = server.core.step

    def noted(event, now):
        is_tick = isinstance(event, Tick)
        return Effects(Records(protocol=[ProtocolRow("noted", "", b"")])) if is_tick else step(event, now)

    monkeypatch.setattr(server.core, "step", noted)


async def test_what_nobody_waits_for_becomes_durable_with_what_comes_next(server, noting):
    server.run_loop.take(Tick())
    await settle()
    assert server.store.batches == []
    await server.begin(CreateGroup("a@b.c"))
    assert [(len(records.protocol) > 0, len(records.nodes)) for records in server.store.batches] == [(True, 1)]


async def test_what_nobody_waits_for_becomes_durable_once_somebody_does(server, noting):
    server.run_loop.take(Tick())
    await settle()
    await server.read_core()
    assert len(server.store.batches) == 1
    server.run_loop.take(Tick())
    await settle()
    server.run_loop.finish()
    await server.flushing
    assert len(server.store.batches) == 2


async def test_what_nobody_waits_for_becomes_durable_soon(server, noting, monkeypatch):
    monkeypatch.setattr(gathering, "RECEIPTS_SECONDS", 0.001)
    server.run_loop.take(Tick())
    await server.until(lambda: server.store.batches)


@pytest.mark.parametrize("lane", Lane)
def test_receipts_may_wait_and_what_leaves_may_not(lane):
    batch = Batch()
    batch.handled_before[Flow("two", lane)] = 1
    assert batch.can_wait
    batch.first_letters[Flow("two", lane)] = 1
    assert not batch.can_wait


async def test_a_flush_does_not_wait_for_callers_that_stay_away(server):
    await asyncio.gather(*(server.begin(CreateGroup(f"g{number}@b.c")) for number in range(5)))
    await server.begin(CreateGroup("alone@b.c"))
    assert server.group_is_durable("alone@b.c")


async def test_answers_leave_in_the_order_of_their_updates(server):
    order = []
    updates = [server.begin(CreateGroup(f"g{number}@b.c")) for number in range(30)]
    for number, update in enumerate(updates):
        update.add_done_callback(lambda _, number=number: order.append(number))
    await asyncio.gather(*updates)
    assert order == list(range(30))


async def test_a_caller_that_gave_up_does_not_disturb_the_others(server):
    server.store.hold()
    first = server.begin(CreateGroup("a@b.c"))
    await server.until(lambda: server.store.batches)
    impatient, patient = server.begin(CreateGroup("x@b.c")), server.begin(CreateGroup("y@b.c"))
    await settle()
    impatient.cancel()
    server.store.open()
    await asyncio.gather(first, patient)
    assert server.group_is_durable("x@b.c")


async def test_an_update_whose_deadline_has_passed_is_not_begun(server):
    refusal = await refusal_of(server.begin(CreateGroup("a@b.c"), deadline=99.0))
    assert refusal.reason is Reason.DEADLINE_EXCEEDED
    assert server.core.graph.group("a@b.c") is None


async def test_an_import_is_one_update(server):
    command = ImportCommand(server.run_loop.new_ticket(), "r", ["a@b.c", "p@x"], [0], [1], b"\x02", [])
    committed = await server.run_loop.carry_out(command)
    assert (committed.counts.arcs, committed.counts.groups_created) == (1, 1)
    assert server.group_is_durable("a@b.c")


async def test_when_the_disk_is_full_the_outcome_is_unknown_and_later_turns_out_by_the_request_id(server):
    server.store.fill_the_disk()
    refusal = await refusal_of(server.begin(CreateGroup("a@b.c"), request_id="mine"))
    assert refusal.reason is Reason.OUTCOME_UNKNOWN
    assert "the disk is full" in refusal.message
    server.store.make_room()
    await server.until(lambda: server.run_loop.storage_failure is None)
    assert (await server.begin(CreateGroup("a@b.c"), request_id="mine")).revision == "1@one"
    assert server.group_is_durable("a@b.c")


async def test_while_the_disk_is_full_updates_and_readings_of_the_core_are_refused_with_the_reason(server):
    server.store.fill_the_disk()
    await refusal_of(server.begin(CreateGroup("a@b.c")))
    for attempt in (server.begin(CreateGroup("d@b.c")), server.read_core()):
        refusal = await refusal_of(attempt)
        assert refusal.reason is Reason.UNAVAILABLE
        assert "the disk is full" in refusal.message
        assert "\n" not in refusal.message
    assert server.core.graph.group("d@b.c") is None


async def test_what_waited_when_the_disk_filled_is_told_and_nothing_of_it_is_lost(server):
    server.store.hold()
    first = server.begin(CreateGroup("a@b.c"))
    await server.until(lambda: server.store.batches)
    second, again, reading = server.begin(CreateGroup("d@b.c")), server.begin(CreateGroup("a@b.c")), server.read_core()
    await settle()
    server.store.fill_the_disk()
    server.store.let_one_through()
    assert (await refusal_of(first)).reason is Reason.OUTCOME_UNKNOWN
    assert (await refusal_of(second)).reason is Reason.OUTCOME_UNKNOWN
    assert (await refusal_of(again)).reason is Reason.UNAVAILABLE
    assert (await refusal_of(reading)).reason is Reason.UNAVAILABLE
    server.store.make_room()
    server.store.open()
    await server.at_rest()
    assert server.group_is_durable("a@b.c")
    assert server.group_is_durable("d@b.c")


@pytest.fixture
async def server_with_peer():
    server = GatedServer(ServerCore(server="one", subnets=["b.c"], peers={"d.e": "two"}))
    yield server
    server.end()


async def test_callers_that_wait_for_others_are_told_when_nobody_knows_how_long_the_disk_stays_full(server_with_peer):
    server = server_with_peer
    await server.begin(CreateGroup("a@b.c"))
    joining = server.begin(JoinArc("a@b.c", "x@d.e"))
    reading = asyncio.ensure_future(server.run_loop.carry_out(CutCommand(server.run_loop.new_ticket(), "all")))
    await settle()
    server.run_loop.answer_all_waiting("the disk is full")
    refusal = await refusal_of(joining)
    assert refusal.reason is Reason.OUTCOME_UNKNOWN
    assert "the disk is full" in refusal.message
    assert (await refusal_of(reading)).reason is Reason.UNAVAILABLE
    await server.run_loop.until_answered()


async def test_the_very_same_records_are_tried_again(server):
    server.store.fill_the_disk()
    await refusal_of(server.begin(CreateGroup("a@b.c")))
    await server.until(lambda: len(server.store.batches) >= 3)
    assert all(records is server.store.batches[0] for records in server.store.batches)
    server.store.make_room()
    await server.at_rest()


async def test_the_server_recovers_by_itself_once_a_flush_succeeds(server):
    server.store.fill_the_disk()
    await refusal_of(server.begin(CreateGroup("a@b.c")))
    server.store.make_room()
    await server.until(lambda: server.run_loop.storage_failure is None)
    await server.read_core()
    await server.begin(JoinArc("a@b.c", "p@x"))
    assert server.states[0].startswith("database gated: the disk is full")
    assert server.states[1:] == [None]


async def test_a_database_that_is_lost_ends_the_flushing_for_good(server):
    server.store.lose_the_lock()
    assert (await refusal_of(server.begin(CreateGroup("a@b.c")))).reason is Reason.OUTCOME_UNKNOWN
    with pytest.raises(DatabaseLostError):
        await server.flushing


async def test_a_bug_in_a_step_ends_the_server_and_nothing_of_the_step_is_kept(server, monkeypatch):
    def step(event, now):
        raise AssertionError("a bug")

    monkeypatch.setattr(server.core, "step", step)
    with pytest.raises(AssertionError, match="a bug"):
        await server.begin(CreateGroup("a@b.c"))
    with pytest.raises(AssertionError, match="a bug"):
        await server.flushing
    assert server.store.batches == []


async def test_finishing_flushes_what_was_taken_and_takes_no_more(server):
    server.store.hold()
    first = server.begin(CreateGroup("a@b.c"))
    await server.until(lambda: server.store.batches)
    second = server.begin(CreateGroup("d@b.c"))
    await settle()
    server.run_loop.refuse_updates(Refusal(Reason.UNAVAILABLE, "the server is shutting down"))
    refused = await refusal_of(server.begin(CreateGroup("e@b.c")))
    assert (refused.reason, refused.message) == (Reason.UNAVAILABLE, "the server is shutting down")
    server.run_loop.finish()
    server.store.open()
    await server.flushing
    await asyncio.gather(first, second)
    assert server.group_is_durable("d@b.c")


async def test_updates_are_refused_while_too_many_rows_wait_to_be_written(server, monkeypatch):
    monkeypatch.setattr(run_loop_module, "WAITING_ROWS_LIMIT", 3)
    server.store.hold()
    first = server.begin(CreateGroup("a@b.c"))
    await server.until(lambda: server.store.batches)
    second = server.begin(*(CreateGroup(f"g{number}@b.c") for number in range(5)))
    await settle()
    assert (await refusal_of(server.begin(CreateGroup("x@b.c")))).reason is Reason.UNAVAILABLE
    server.store.open()
    await asyncio.gather(first, second)
    await server.begin(CreateGroup("x@b.c"))


@pytest.fixture
async def both_halves():
    """A server that delivers, with ann in a group, and the fate of its datagrams."""
    server = GatedServer(BothHalves(server="one", subnets=["b.c"]))
    server.core.begin_delivery(GraphReach, start=7)
    server.desk = Shown()
    server.run_loop.begin_messages(server.desk)
    await server.begin(CreateGroup("staff@b.c"))
    await server.begin(JoinArc("staff@b.c", "ann@b.c"))
    server.run_loop.take(OpenMailbox(server.run_loop.new_ticket(), "ann@b.c"))
    await server.run_loop.until_durable()
    yield server
    server.end()


class Shown:
    def __init__(self):
        self.answers, self.payloads = [], []

    def has_open(self):
        return False

    def answer(self, answers):
        self.answers += answers

    def show(self, shown):
        self.payloads.append(shown.datagram.message.payload)

    def fail(self, why):
        pass

    def was_logged(self, records):
        pass


def tick(server, payload=b"tick"):
    ticket = server.run_loop.new_ticket()
    server.run_loop.take(Send(ticket, target_set(["staff@b.c"]), MessageContent(payload), Quality.DATAGRAM))


async def test_a_datagram_leaves_at_once_though_the_disk_is_slow(both_halves):
    server = both_halves
    server.store.hold()
    server.run_loop.take(OpenMailbox(server.run_loop.new_ticket(), "bob@b.c"))
    tick(server)
    assert server.desk.payloads == [b"tick"]
    assert [type(answer) for answer in server.desk.answers[-1:]] == [DatagramSent]


async def test_a_datagram_that_rests_on_a_membership_waits_until_that_is_durable(both_halves, monkeypatch):
    server = both_halves
    monkeypatch.setattr(letting_out_module, "HELD_LIMIT", 2)
    server.store.hold()
    update = server.begin(JoinArc("staff@b.c", "bob@b.c"))
    await settle()
    answered = len(server.desk.answers)
    tick(server)
    tick(server, b"tock")
    assert server.desk.payloads == [] and len(server.desk.answers) == answered
    # There is room for two of what is held, and who waits for an answer gets one.
    server.store.open()
    await update
    await server.until(lambda: len(server.desk.answers) == answered + 2)
    assert (server.desk.payloads, server.run_loop.datagrams.dropped) == ([b"tick"], 1)


async def test_what_comes_while_the_database_fails_is_dropped_and_counted(both_halves):
    server = both_halves
    start = server.core.delivery.datagrams.start
    told = encode(Datagram(1, start, target_set(["staff@b.c"]), MessageContent(b"from there")))
    server.run_loop.take_datagram("two", told)
    server.store.fill_the_disk()
    update = server.begin(CreateGroup("more@b.c"))
    await server.until(lambda: server.run_loop.storage_failure is not None)
    server.run_loop.take_datagram("two", told)
    assert server.run_loop.datagrams.dropped == 1
    server.store.make_room()
    with pytest.raises(RefusedError):
        await update


def test_copies_for_servers_to_which_there_is_no_way_are_counted():
    letting_out = LettingOut()
    letting_out.let_out([PeerDatagram("two", b"one"), PeerDatagram("two", b"two")])
    assert (letting_out.counts.sent, letting_out.counts.dropped) == (0, 2)
    letting_out.send_datagram = lambda _receiver, encoded: encoded == b"one"
    letting_out.let_out([PeerDatagram("two", b"one"), PeerDatagram("two", b"two")])
    assert (letting_out.counts.sent, letting_out.counts.dropped) == (1, 3)
