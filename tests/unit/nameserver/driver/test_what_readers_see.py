"""Readers see the newest durable state: a batch when it is durable, never before, and they never wait."""

import asyncio

import pytest

from delivery.model.events import OpenMailbox
from delivery.server import Server as BothHalves
from namegraph import Lane, PeerMessage, PeerMet, Tick
from namegraph.model.operations import CreateGroup, DeleteGroup, JoinArc, LeaveArc
from namegraph.model.refusals import Reason, RefusedError
from nameserver.driver import database_work
from nameserver.driver import run_loop as run_loop_module
from resolver.membership import MembershipResolver
from resolver.reach import GraphReach
from tests.unit.nameserver.gated_server import GatedServer, settle


@pytest.fixture
async def server(monkeypatch):
    """A server with a group whose state is durable."""
    monkeypatch.setattr(database_work, "FIRST_RETRY_SECONDS", 0.001)
    server = GatedServer()
    await server.begin(CreateGroup("a@b.c"))
    server.store.batches.clear()
    yield server
    server.end()


def groups(state):
    return sorted(name for name in state.graph.index if state.graph.group(name) is not None)


def notes(server):
    """Return True if the core notes what readers may still see."""
    return server.core.graph.children.former is not None


async def written(server, count):
    """Wait until so many batches were begun to be written."""
    await server.until(lambda: len(server.store.batches) == count)


async def test_a_step_is_seen_when_it_is_durable(server):
    assert groups(server.seen) == ["a@b.c"]
    server.store.hold()
    creating = server.begin(CreateGroup("d@b.c"))
    await settle()
    assert groups(server.core) == ["a@b.c", "d@b.c"]
    assert groups(server.seen) == ["a@b.c"]
    assert server.seen.revision == server.run_loop.durable_revision == "1@one"
    server.store.open()
    committed = await creating
    assert groups(server.seen) == ["a@b.c", "d@b.c"]
    assert server.seen.revision == server.run_loop.durable_revision == committed.revision
    assert not notes(server)


async def test_a_caller_that_gets_its_answer_reads_its_own_update(server):
    for number in range(20):
        await server.begin(CreateGroup(f"g{number}@b.c"))
        assert f"g{number}@b.c" in groups(server.seen)


async def test_the_steps_of_a_batch_are_seen_together(server):
    server.store.hold()
    updates = [server.begin(CreateGroup(f"g{number}@b.c")) for number in range(3)]
    await written(server, 1)
    updates += [server.begin(CreateGroup(f"g{number}@b.c")) for number in range(3, 6)]
    await settle()
    seen = [groups(server.seen)]
    server.store.let_one_through()
    await written(server, 2)
    seen.append(groups(server.seen))
    server.store.open()
    await asyncio.gather(*updates)
    seen.append(groups(server.seen))
    expected = ["a@b.c", *(f"g{number}@b.c" for number in range(6))]
    assert seen == [expected[:1], expected[:4], expected]
    assert not notes(server)


async def test_each_of_two_batches_is_seen_when_it_is_durable(server):
    server.store.hold()
    first = server.begin(JoinArc("a@b.c", "ann@x"))
    await written(server, 1)
    second = server.begin(LeaveArc("a@b.c", "ann@x"), JoinArc("a@b.c", "bob@x"))
    await settle()
    resolver = MembershipResolver(server.seen)
    assert resolver.resolve("a@b.c").processes == ()
    server.store.let_one_through()
    await first
    assert resolver.resolve("a@b.c").processes == ("ann@x",)
    assert not resolver.check("a@b.c", "bob@x")
    await written(server, 2)
    assert resolver.resolve("a@b.c").processes == ("ann@x",)
    server.store.open()
    await second
    assert resolver.resolve("a@b.c").processes == ("bob@x",)
    assert not notes(server)


async def test_a_group_that_was_deleted_is_there_until_that_is_durable(server):
    server.store.hold()
    deleting = server.begin(DeleteGroup("a@b.c"))
    await written(server, 1)
    assert groups(server.core) == []
    assert MembershipResolver(server.seen).resolve("a@b.c").processes == ()
    server.store.open()
    await deleting
    with pytest.raises(RefusedError) as caught:
        MembershipResolver(server.seen).resolve("a@b.c")
    assert caught.value.refusal.reason is Reason.GROUP_NOT_FOUND


async def test_a_step_without_records_is_seen_at_once(server):
    before = server.seen.graph
    server.run_loop.take(Tick())
    assert server.store.batches == []
    assert server.seen.graph is server.core.graph is before
    assert not notes(server)


async def test_a_step_without_records_is_not_seen_before_the_batch_that_it_follows(server):
    server.store.hold()
    creating = server.begin(CreateGroup("d@b.c"))
    await written(server, 1)
    server.run_loop.take(Tick())
    assert groups(server.seen) == ["a@b.c"]
    server.store.open()
    await creating
    assert groups(server.seen) == ["a@b.c", "d@b.c"]
    assert server.seen.graph is server.core.graph
    assert not notes(server)


async def test_a_refused_update_leaves_nothing_held(server):
    with pytest.raises(RefusedError):
        await server.begin(CreateGroup("a@b.c"))
    await server.at_rest()
    assert server.seen.graph is server.core.graph
    assert not notes(server)


async def test_a_reader_that_waits_for_a_step_is_told_when_it_sees_the_step(server):
    server.store.hold()
    creating = server.begin(CreateGroup("d@b.c"))
    await written(server, 1)
    waiting = asyncio.ensure_future(server.run_loop.next_step(60))
    await settle()
    assert not waiting.done()
    server.store.open()
    await asyncio.wait_for(waiting, 10)
    assert groups(server.seen) == ["a@b.c", "d@b.c"]
    await creating


# -- a database that fails


async def test_while_the_database_fails_readers_see_the_state_before_and_afterwards_the_state_after(server):
    server.store.fill_the_disk()
    with pytest.raises(RefusedError) as caught:
        await server.begin(JoinArc("a@b.c", "ann@x"))
    assert caught.value.refusal.reason is Reason.OUTCOME_UNKNOWN
    resolver = MembershipResolver(server.seen)
    for attempts in (2, 4):
        await server.until(lambda attempts=attempts: len(server.store.batches) >= attempts)
        assert server.run_loop.storage_failure is not None
        assert resolver.resolve("a@b.c").processes == ()
        assert not resolver.check("a@b.c", "ann@x")
        assert server.seen.revision == "1@one"
    server.store.make_room()
    await server.until(lambda: server.run_loop.storage_failure is None)
    assert resolver.resolve("a@b.c").processes == ("ann@x",)
    assert resolver.check("a@b.c", "ann@x")
    assert server.seen.revision == "2@one"
    assert not notes(server)


async def test_steps_that_waited_for_a_failing_batch_are_seen_in_their_order_after_it(server):
    server.store.hold()
    first = server.begin(CreateGroup("d@b.c"))
    await written(server, 1)
    second = server.begin(CreateGroup("e@b.c"))
    await settle()
    server.store.fill_the_disk()
    server.store.let_one_through()
    for update in (first, second):
        with pytest.raises(RefusedError):
            await update
    assert groups(server.seen) == ["a@b.c"]
    server.store.make_room()
    server.store.let_one_through()
    await server.until(lambda: server.run_loop.storage_failure is None)
    assert groups(server.seen) == ["a@b.c", "d@b.c"]
    server.store.open()
    await server.at_rest()
    assert groups(server.seen) == ["a@b.c", "d@b.c", "e@b.c"]
    assert not notes(server)


async def test_a_probe_that_fails_changes_nothing_for_readers(server, monkeypatch):
    monkeypatch.setattr(run_loop_module, "PROBE_SECONDS", 0.001)
    server.store.fill_the_disk()
    await server.until(lambda: server.run_loop.storage_failure is not None)
    assert server.store.batches == []
    assert groups(server.seen) == ["a@b.c"]
    assert server.seen.graph is server.core.graph


# -- states that are kept


async def test_a_kept_state_stays_as_it_was_over_several_batches(server):
    with server.seen.kept() as kept:
        for name in ("ann@x", "bob@x", "eve@x"):
            await server.begin(JoinArc("a@b.c", name))
            await server.begin(CreateGroup(f"of-{name.partition('@')[0]}@b.c"))
            assert groups(kept) == ["a@b.c"]
            assert kept.revision == "1@one"
            assert MembershipResolver(kept).resolve("a@b.c").processes == ()
        assert MembershipResolver(server.seen).resolve("a@b.c").processes == ("ann@x", "bob@x", "eve@x")
        assert notes(server)
    assert not notes(server)


async def test_a_state_that_is_kept_while_a_batch_is_written_is_the_one_before_it(server):
    server.store.hold()
    creating = server.begin(CreateGroup("d@b.c"))
    await written(server, 1)
    with server.seen.kept() as kept:
        server.store.open()
        await creating
        await server.begin(CreateGroup("e@b.c"))
        assert groups(kept) == ["a@b.c"]
        assert groups(server.seen) == ["a@b.c", "d@b.c", "e@b.c"]
        assert notes(server)
    assert not notes(server)


# -- steps about messages alone


@pytest.fixture
async def both_halves(monkeypatch):
    """A server that delivers, and the number of times that its state was held."""
    server = GatedServer(BothHalves(server="one", subnets=["b.c"], peers={"d.e": "two"}))
    server.core.begin_delivery(GraphReach, start=7)
    await server.begin(CreateGroup("a@b.c"))
    server.run_loop.take(PeerMet("two", ("d.e",)))
    await server.run_loop.until_durable()
    server.store.batches.clear()
    server.holds, hold = [], server.seen.hold

    def counted():
        server.holds.append(groups(server.seen))
        hold()

    monkeypatch.setattr(server.seen, "hold", counted)
    yield server
    server.end()


def open_mailbox(server, name):
    server.run_loop.take(OpenMailbox(server.run_loop.new_ticket(), name))


async def test_for_steps_about_messages_alone_no_state_is_held(both_halves):
    server = both_halves
    server.store.hold()
    open_mailbox(server, "ann@b.c")
    await written(server, 1)
    server.run_loop.take(PeerMessage("two", 1, b"no post", Lane.POST))
    assert server.run_loop.undurable_records()
    assert server.holds == []
    assert server.seen.graph is server.core.graph
    server.store.open()
    await server.at_rest()
    assert server.holds == []


async def test_an_update_that_joins_a_batch_about_messages_is_held_once(both_halves):
    server = both_halves
    server.store.hold()
    open_mailbox(server, "ann@b.c")
    await written(server, 1)
    open_mailbox(server, "bob@b.c")
    first, second = server.begin(CreateGroup("d@b.c")), server.begin(CreateGroup("e@b.c"))
    await settle()
    open_mailbox(server, "eve@b.c")
    assert server.holds == [["a@b.c"]]
    assert groups(server.seen) == ["a@b.c"]
    server.store.let_one_through()
    await written(server, 2)
    assert groups(server.seen) == ["a@b.c"]
    server.store.open()
    await asyncio.gather(first, second)
    assert groups(server.seen) == ["a@b.c", "d@b.c", "e@b.c"]
    await server.at_rest()
    assert server.holds == [["a@b.c"]]
    assert not notes(server)
