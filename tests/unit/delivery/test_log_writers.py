"""The messages that go from a full log: no writer takes more than a quarter of it from others."""

import random

import pytest

from delivery.log.log import SEGMENT_BYTES_AT_LEAST, Log
from delivery.log.segments import Writer
from delivery.mailboxes.subscription_read import read
from delivery.model.agenda import Agenda
from delivery.model.words import Position
from delivery.origin.dead_letters import DeadReason, LossReason
from delivery.origin.parcel_builder import ParcelBuilder
from namegraph import NUMBERS, DurableMap, DurableState, ServerId, Tick, packed
from tests.unit.delivery.servers import Servers

A, B = map(ServerId, ("a.x", "b.x"))
STAFF, ANN, MOE = "staff@a.x", "ann@a.x", "moe@a.x"
HONEST, FLOODING = "192.0.2.0/24", "198.51.100.0/24"
LIMIT = 1024 * 1024
LARGE = bytes(10_000)


@pytest.fixture
def servers():
    """Ann is staff, and reads nothing; the log has a mebibyte."""
    found = Servers(A, B)
    found.create(STAFF)
    found.join(STAFF, ANN)
    found.listen(ANN)
    for server in (A, B):
        found.servers[server].delivery.log.limit_bytes = LIMIT
    return found


def junk(servers, count=1, at=A):
    """Groups, each with one and the same member."""
    groups = [f"junk{number}@{at}" for number in range(count)]
    servers.create(*groups)
    for group in groups:
        servers.join(group, f"moe@{at}")
    servers.listen(f"moe@{at}")
    return groups


def flood(servers, groups, count, *, source=FLOODING, payload=LARGE, **more):
    for number in range(count):
        servers.send(groups[number % len(groups)], payload=payload, source=source, wants_settled=False, **more)


def lost_unread(servers, server=A):
    found = servers.servers[server].delivery.dead_letters.undelivered()
    return next(each.messages for each in found if each.reason is LossReason.OVERRUN)


def size_on_disk(servers, server=A):
    return sum(len(record.encoded) for record in servers.disks[server].log.values())


def told(servers, process):
    """Return the payloads that a new endpoint of a mailbox is handed, and the number of entries told as lost."""
    server = ServerId(process.partition("@")[2])
    core, log = servers.servers[server].delivery, servers.disks[server].log
    begun = servers.listen(process)
    positions = [position for position in sorted(log) if position >= begun.cursor.entry]
    entries = read([log[position] for position in positions], begun.mailbox, core.audiences, after=begun.cursor)
    payloads = [item.message.payload for entry in entries for item in entry.items]

    def is_for(audience):
        return core.audiences.is_for(audience, begun.mailbox)

    holes = zip([begun.cursor.entry, *(position + 1 for position in positions)], positions, strict=False)
    return payloads, sum(core.log.lost(first, end - 1, is_for) for first, end in holes if first < end)


@pytest.mark.parametrize("groups", [1, 100])
@pytest.mark.parametrize("source", [HONEST, FLOODING])
def test_a_flood_to_other_groups_pushes_out_no_message_that_was_there_before(servers, groups, source):
    servers.send(STAFF, payload=b"first", source=HONEST)
    flood(servers, junk(servers, groups), 400, source=source)
    assert told(servers, ANN) == ([b"first"], 0)
    assert size_on_disk(servers) <= LIMIT + SEGMENT_BYTES_AT_LEAST
    assert lost_unread(servers) >= 290
    payloads, lost = told(servers, MOE)
    assert len(payloads) + lost == 400


def test_names_of_senders_give_nobody_a_larger_part(servers):
    servers.send(STAFF, payload=b"first", source=HONEST)
    (group,) = junk(servers)
    for number in range(400):
        servers.send(group, payload=LARGE, sender=f"s{number}", source=FLOODING, wants_settled=False)
    assert told(servers, ANN) == ([b"first"], 0)


@pytest.mark.parametrize("groups", [1, 100])
def test_a_flood_takes_no_more_than_a_quarter_from_one_who_had_all_of_the_log(servers, groups):
    flood(servers, [STAFF], 100, source=HONEST)
    assert len(told(servers, ANN)[0]) == 100
    flood(servers, junk(servers, groups), 400)
    payloads, lost = told(servers, ANN)
    assert len(payloads) >= 70
    assert len(payloads) + lost + servers.servers[A].delivery.log.cut >= 100
    # It goes on to write, and makes room for that itself.
    flood(servers, [STAFF], 20, source=HONEST)
    assert len(told(servers, ANN)[0]) >= 70


def test_two_who_flood_share_what_a_third_one_leaves(servers):
    servers.send(STAFF, payload=b"first", source=HONEST)
    groups = junk(servers, 2)
    for _ in range(200):
        for group, source in zip(groups, (FLOODING, "203.0.113.0/24"), strict=True):
            flood(servers, [group], 1, source=source)
    assert told(servers, ANN) == ([b"first"], 0)
    sources = servers.servers[A].delivery.log._holders.sources
    assert sorted(sources.values())[-2] >= LIMIT // 4


def test_who_writes_alone_has_all_of_the_log_and_loses_its_oldest_messages(servers):
    flood(servers, [STAFF], 200, source=HONEST)
    payloads, _ = told(servers, ANN)
    assert len(payloads) >= 90
    log = servers.servers[A].delivery.log
    assert (log.gone, log.last - log.cut) == (0, len(payloads))


def test_another_server_that_floods_pushes_out_nothing_of_clients_here(servers):
    servers.send(STAFF, payload=b"first", source=HONEST)
    group = "far@b.x"
    servers.create(group)
    servers.join(group, MOE)
    servers.listen(MOE)
    flood(servers, [group], 300)
    assert told(servers, ANN) == ([b"first"], 0)
    assert size_on_disk(servers) <= LIMIT + SEGMENT_BYTES_AT_LEAST


def test_small_messages_are_pushed_out_by_large_ones_no_more_than_the_other_way_round(servers):
    (group,) = junk(servers)
    flood(servers, [STAFF], 50, source=HONEST)
    flood(servers, [group], 1_500, payload=bytes(700))
    assert told(servers, ANN) == ([LARGE] * 50, 0)


def test_what_is_not_settled_stays_until_it_is_given_up_and_others_lose_nothing_meanwhile(servers):
    servers.join(STAFF, "bob@b.x")
    servers.listen("bob@b.x")
    servers.held_posts = {(B, A)}
    servers.send(STAFF, payload=b"first", source=HONEST)
    (group,) = junk(servers)
    servers.join(group, "bob@b.x")
    flood(servers, [group], 150)
    kept = set(servers.servers[A].delivery.needed())
    assert len(kept) == 151
    assert kept <= servers.disks[A].log.keys()
    assert told(servers, ANN) == ([b"first"], 0)
    servers.now += 61.0
    servers.step(A, Tick())
    servers.run()
    servers.now += 1.0
    servers.step(A, Tick())
    servers.run()
    assert size_on_disk(servers) <= LIMIT + SEGMENT_BYTES_AT_LEAST
    expired = servers.servers[A].delivery.dead_letters.after(0, 1_000)
    assert {each.reason for each in expired} == {DeadReason.EXPIRED}
    assert not any(STAFF in each.first_id for each in expired)
    assert told(servers, ANN) == ([b"first"], 0)


def test_holes_are_the_same_after_a_restart(servers):
    servers.send(STAFF, payload=b"first", source=HONEST)
    flood(servers, junk(servers, 3), 200)
    servers.send(STAFF, payload=b"second", source=HONEST)
    before = servers.servers[A].delivery.log
    servers.restart(A)
    servers.run()
    after = servers.servers[A].delivery.log
    after.limit_bytes = LIMIT
    for found in (before, after):
        assert found.gone == found.last - found.cut - len(servers.disks[A].log)
    assert (after.size, after._holders.sources, after._holders._parts) == (
        before.size,
        before._holders.sources,
        before._holders._parts,
    )
    assert told(servers, ANN) == ([b"first", b"second"], 0)
    flood(servers, ["junk0@a.x"], 200)
    assert told(servers, ANN) == ([b"first", b"second"], 0)


def test_long_holes_take_no_room(servers):
    """One message stays unread, and a flood goes on behind it."""
    servers.send(STAFF, payload=b"first", source=HONEST)
    (group,) = junk(servers)
    rows = set()
    for _ in range(5):
        flood(servers, [group], 300)
        rows.add(len(servers.servers[A].delivery.log._segments))
    assert max(rows) <= 20
    assert told(servers, ANN) == ([b"first"], 0)


def test_messages_of_one_who_has_more_than_a_quarter_share_no_parcel_with_those_of_others():
    def drained(heavy):
        waiting = ParcelBuilder()
        servers = Servers(A)
        for source in (HONEST, FLOODING, FLOODING, HONEST, HONEST):
            waiting.take(servers.new_send(STAFF, source=source), None)
        ((_, _, parcels),) = waiting.drain(lambda source: source in heavy)
        return [[each.send.source for each in together] for together in parcels]

    assert drained(set()) == [[HONEST, FLOODING, FLOODING, HONEST, HONEST]]
    assert drained({FLOODING}) == drained({HONEST}) == [[HONEST], [FLOODING] * 2, [HONEST] * 2]


def test_a_flood_to_the_same_group_pushes_out_nothing_that_others_send_to_it_then(servers):
    flood(servers, [STAFF], 150)
    for number in range(200):
        sends = [
            servers.new_send(STAFF, payload=payload, source=source, wants_settled=False)
            for source, payload in ((FLOODING, LARGE), (HONEST, b"%d" % number))
        ]
        for send in sends:
            servers.step(A, send)
        servers.close_parcels(A)
    payloads, lost = told(servers, ANN)
    assert [payload for payload in payloads if payload != LARGE] == [b"%d" % number for number in range(200)]
    assert lost + servers.servers[A].delivery.log.cut > 0


def test_the_log_of_an_earlier_version_is_known_again_and_goes_first():
    durable = DurableState()
    before = Log(durable, Agenda())
    for _ in range(4):
        before.append(1, LARGE, messages=2, at=0.0)
    rows = {row.part: row for row in durable.take_rows()}
    old = DurableMap(DurableState(), "log segments", NUMBERS, packed(list))
    old[1] = [0.0, 4 * len(LARGE), {"1": (8, Position(4, 1))}]
    log = Log(DurableState([rows["log ends"], *old.take_rows()]), Agenda())
    assert (log.size, log.oldest_for(), log.behind(Position.before(1), bool)) == (before.size, before.oldest_for(), 8)
    log.limit_bytes = 3 * len(LARGE)
    log.append(2, bytes(100_000), messages=1, at=700.0, writer=Writer(HONEST, STAFF))
    going = log.next_to_go()
    assert list(going.positions()) == [1, 2, 3, 4]
    log.drop(going)
    assert (log.take_gone(), log.lost(1, 4, lambda audience: audience == 1)) == ([1, 2, 3, 4], 4)
    assert log.lost(1, 4, lambda audience: audience == 2) == 0


def test_a_hole_is_told_exactly_to_those_who_lost_something_in_it():
    log = Log(DurableState(), Agenda())
    log.limit_bytes = 1
    for audience, addressed in ((1, "one"), (2, "two"), (1, "one"), (3, "one"), (2, "two")):
        log.append(audience, LARGE, messages=1, at=0.0, writer=Writer(HONEST, addressed))
    log.append(4, b"later", messages=1, at=700.0, writer=Writer(HONEST, "later"))
    log.drop(log.next_to_go())
    assert log.take_gone() == [1, 3, 4]
    lost = [[log.lost(first, last, {number}.__contains__) for number in (1, 2, 3)] for first, last in ((1, 1), (3, 4))]
    assert lost == [[1, 0, 0], [1, 0, 1]]


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_written_nobody_below_the_mean_loses_anything_and_every_loss_is_told(seed):
    chance, durable = random.Random(seed), DurableState()
    log, limit = Log(durable, Agenda()), 400_000
    log.limit_bytes, log.cut_at_least = limit, 1
    writers = [Writer(source, addressed) for source in "abc" for addressed in ("1", "2", "3")[: chance.randint(1, 3)]]
    likely = [chance.choice((1, 1, 30)) for _ in writers]
    there: dict[int, tuple[int, Writer, int]] = {}
    for at in range(1_500):
        writer, size = chance.choices(writers, likely)[0], chance.choice((10, 1_000, 20_000))
        number = writers.index(writer) + 1
        there[log.append(number, bytes(size), messages=1, at=float(at), writer=writer)] = (number, writer, size)
        while log.is_too_large and (going := log.next_to_go()) is not None:
            held: dict[str, int] = {}
            for _, whose, bytes_of in there.values():
                held[whose.source] = held.get(whose.source, 0) + bytes_of
            log.drop(going)
            log.cut_holes()
            positions = [position for position in there if position in set(going.positions())]
            (source,) = {there[position][1].source for position in positions}
            assert held[source] >= min(limit / 4, max(held.values()))
            for position in positions:
                number, *_ = there.pop(position)
                if position > log.cut:
                    assert log.lost(position, position, lambda audience, number=number: audience == number) == 1
        if at % 300 == 299:
            log.take_rows()
            assert (log.gone, log.size) == (log.last - log.cut - len(there), pytest.approx(log.size))
            assert sum(log._holders.sources.values()) == sum(size for *_, size in there.values())
    assert sum(size for *_, size in there.values()) <= limit + max(limit // 64, SEGMENT_BYTES_AT_LEAST) + 20_000
