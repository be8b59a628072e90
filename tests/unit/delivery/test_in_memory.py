"""Messages kept in memory: accepted and handed out without a row, once and in order, unless a server restarts."""

import pytest

from delivery.mailboxes.subscription_read import read
from delivery.model.events import (
    BEGINNING,
    Accepted,
    DatagramCame,
    DeliveryRefused,
    SendAll,
    SetDelivery,
    Settled,
    Subscribe,
)
from delivery.model.words import Kept
from delivery.volatile.datagrams import PeerDatagram
from delivery.volatile.in_memory import POSITIONS_OF_START, SHARE_SECONDS, SHARE_SECONDS_LIMIT
from delivery.volatile.memory_lanes import WINDOW_BYTES
from delivery.wire.posts import PARCEL_BYTES_LIMIT, Carried, Lost, decode_datagram, encode
from namegraph import NodeId, PeerFault, PeerMet, Reason, ServerId, Subnet, Tick
from tests.unit.delivery.servers import Servers

STAFF = "staff@a"


@pytest.fixture
def servers():
    """Staff of a, kept in memory, contains the lab of b, which contains the pool of c. Each has a member."""
    made = Servers("a", "b", "c")
    made.create(STAFF, "lab@b", "pool@c")
    made.join("pool@c", "cyd@c")
    made.join("lab@b", "bob@b")
    made.join("lab@b", "pool@c")
    made.join(STAFF, "ann@a")
    made.join(STAFF, "lab@b")
    keep(made, Kept.MEMORY)
    for process in ("ann@a", "bob@b", "cyd@c"):
        made.listen(process)
    return made


def keep(servers, kept, group=STAFF):
    servers.step(ServerId("a"), SetDelivery(servers.ticket(), NodeId(group), kept=kept))


def send(servers, payload=b"hello", **more):
    """Send one; returns what its sender is told."""
    asked = servers.new_send(STAFF, payload=payload, **more)
    servers.step(ServerId("a"), asked)
    servers.run()
    return servers.answers.get(asked.ticket, [])


def wait(servers, seconds):
    """Let time go by."""
    servers.now += seconds
    for server in servers.servers:
        servers.step(server, Tick())
    servers.run()


def entries(servers, process, *, after=BEGINNING):
    server = ServerId(process.partition("@")[2])
    core = servers.servers[server].delivery
    records = core.in_memory.entries(after.entry - 1, core.in_memory.log.last)
    return list(read(records, core.mailboxes.numbers[NodeId(process)], core.in_memory.audiences, after=after))


def got(servers, process):
    return [item.message.payload for entry in entries(servers, process) for item in entry.items]


def told_lost(servers, process):
    return [entry.lost for entry in entries(servers, process) if entry.lost]


def test_it_is_accepted_and_comes_to_everybody_in_one_order_and_writes_nothing(servers):
    before = {server: disk.read() for server, disk in servers.disks.items()}
    answers = [send(servers, b"%d" % number) for number in range(5)]
    for accepted, settled in answers:
        assert isinstance(accepted, Accepted) and accepted.kept is Kept.MEMORY
        assert isinstance(settled, Settled) and (settled.mailboxes, settled.servers) == (3, 3)
    for process in ("ann@a", "bob@b", "cyd@c"):
        assert got(servers, process) == [b"0", b"1", b"2", b"3", b"4"]
    assert {server: disk.read() for server, disk in servers.disks.items()} == before


def test_what_is_durable_and_what_is_in_memory_never_have_the_same_id(servers):
    (in_memory, _) = send(servers)
    keep(servers, Kept.DURABLE)
    (durable, _) = servers.send(STAFF)
    assert (in_memory.message_id, durable.message_id) == ("1@staff@a+~#1", "1@staff@a#1")
    assert (in_memory.kept, durable.kept) == (Kept.MEMORY, Kept.DURABLE)
    assert servers.log_of("cyd@c") == [b"hello"] == got(servers, "cyd@c")


def test_numbers_go_on_where_a_group_changes_how_its_messages_are_kept(servers):
    first = send(servers, sender="x", number=7)[0]
    assert send(servers, sender="x", number=7)[0].message_id == first.message_id
    keep(servers, Kept.DURABLE)
    (repeated, _) = servers.send(STAFF, sender="x", number=7)
    assert repeated.is_repeated and repeated.message_id == first.message_id
    assert servers.send(STAFF, sender="x", number=8)[0].kept is Kept.DURABLE
    keep(servers, Kept.MEMORY)
    assert send(servers, sender="x", number=9)[0].kept is Kept.MEMORY
    (refused,) = send(servers, sender="x", number=11)
    assert isinstance(refused, DeliveryRefused) and refused.refusal.reason is Reason.OUT_OF_SEQUENCE
    servers.restart("a")
    # Who is not remembered goes on with any number.
    assert send(servers, sender="x", number=11)[0].message_id.startswith("1@")


def test_a_request_id_is_known_whichever_way_its_message_was_kept(servers):
    first = send(servers, request_id="once")[0]
    keep(servers, Kept.DURABLE)
    assert servers.send(STAFF, request_id="once")[0].message_id == first.message_id
    second = servers.send(STAFF, request_id="twice")[0]
    keep(servers, Kept.MEMORY)
    repeated = send(servers, request_id="twice")[0]
    assert repeated.is_repeated and (repeated.message_id, repeated.kept) == (second.message_id, Kept.DURABLE)


def drop(servers, receiver):
    """Lose everything under way to a server."""
    lost = [one for one in servers.under_way if one[1] == receiver]
    for one in lost:
        servers.under_way.remove(one)
    return len(lost)


def test_one_alone_leaves_at_once_and_what_comes_right_after_it_shares_a_parcel(servers):
    core, asked = (
        servers.servers["a"].delivery,
        [servers.new_send(STAFF, payload=b"%d" % number) for number in range(4)],
    )
    servers.now += 1.0
    servers.step(ServerId("a"), asked[0])
    assert [type(one) for one in servers.answers[asked[0].ticket]] == [Accepted]
    for send in asked[1:]:
        servers.step(ServerId("a"), send)
        assert send.ticket not in servers.answers
        assert core.next_deadline == servers.now + SHARE_SECONDS
    servers.now += SHARE_SECONDS
    servers.step(ServerId("a"), Tick())
    servers.run()
    assert got(servers, "cyd@c") == [b"0", b"1", b"2", b"3"]
    assert [len(entry.items) for entry in entries(servers, "cyd@c")] == [1, 3]
    assert all(isinstance(servers.answers[send.ticket][-1], Settled) for send in asked)


def test_the_more_share_parcels_the_longer_the_next_ones_wait_but_not_for_ever(servers):
    core = servers.servers["a"].delivery
    waits = []
    for count in (1, 2, 100):
        servers.now += 1.0
        servers.step(ServerId("a"), SendAll(tuple(servers.new_send(STAFF) for _ in range(count))))
        assert not core.in_memory.origin.open
        servers.step(ServerId("a"), servers.new_send(STAFF))
        waits.append(round(core.next_deadline - servers.now, 6))
        servers.run()
    assert waits == [SHARE_SECONDS, 2 * SHARE_SECONDS, SHARE_SECONDS_LIMIT]


def test_what_is_enough_for_a_parcel_waits_for_nothing(servers):
    asked = [servers.new_send(STAFF, payload=bytes(PARCEL_BYTES_LIMIT // 2), wants_settled=False) for _ in range(3)]
    for send in asked:
        servers.step(ServerId("a"), send)
    assert [send.ticket in servers.answers for send in asked] == [True, True, True]
    in_memory = servers.servers["a"].delivery.in_memory
    assert not in_memory.origin.open
    assert in_memory.counts == (2, in_memory.ring.size, 2, 0)
    assert in_memory.ring.size > sum(send.message.size for send in asked)
    servers.run()
    assert in_memory.counts.parcels_unsettled == 0


def test_what_waits_for_its_parcel_is_sent_before_the_policy_changes(servers):
    servers.now += 1.0
    for number in (1, 2):
        servers.step(ServerId("a"), servers.new_send(STAFF, payload=b"%d" % number, sender="billing", number=number))
    keep(servers, Kept.DURABLE)
    servers.run()
    assert got(servers, "cyd@c") == [b"1", b"2"]
    assert isinstance(servers.send(STAFF, sender="billing", number=3)[0], Accepted)


def test_what_is_lost_on_the_way_is_sent_again_and_comes_once(servers):
    send(servers, b"0")
    for number in range(1, 4):
        servers.now += SHARE_SECONDS_LIMIT
        servers.step(ServerId("a"), servers.new_send(STAFF, payload=b"%d" % number))
        if number == 2:
            assert drop(servers, "b")
    servers.run()
    assert got(servers, "bob@b") == [b"0"]
    wait(servers, 1.0)
    wait(servers, 1.0)
    for process in ("bob@b", "cyd@c"):
        assert got(servers, process) == [b"0", b"1", b"2", b"3"]


def test_a_large_one_is_carried_in_pieces(servers):
    payload = bytes(range(256)) * 4096
    send(servers, payload)
    for _ in range(3):
        wait(servers, 1.0)
    assert got(servers, "cyd@c") == [payload]
    assert [answer for answer in send(servers, b"small") if isinstance(answer, Settled)]


def test_a_destination_that_starts_again_gets_nothing_twice_and_its_members_are_told_what_it_lost(servers):
    send(servers, b"handed out")
    servers.held |= {("b", "a")}
    lost = servers.new_send(STAFF, payload=b"not confirmed")
    servers.step(ServerId("a"), lost)
    servers.run()
    assert got(servers, "bob@b") == [b"handed out", b"not confirmed"]
    servers.held.clear()
    servers.waiting.clear()
    servers.restart("b")
    wait(servers, 1.0)
    send(servers, b"later")
    wait(servers, 1.0)
    assert got(servers, "bob@b") == [b"later"]
    assert told_lost(servers, "bob@b") == [1]
    settled = next(answer for answer in servers.answers[lost.ticket] if isinstance(answer, Settled))
    assert "b" in settled.unreachable


def test_a_server_that_starts_again_before_it_confirms_still_says_who_is_below_it(servers):
    servers.create("other@a")
    servers.join("other@a", "bob@b")
    keep(servers, Kept.MEMORY, "other@a")
    known = servers.new_send("other@a", payload=b"b is there")
    servers.step(ServerId("a"), known)
    servers.run()
    first = servers.new_send(STAFF, payload=b"first")
    servers.now += SHARE_SECONDS_LIMIT
    servers.step(ServerId("a"), first)
    assert drop(servers, "b")
    assert not [key for key in servers.under_way if key[1] == "c"]
    servers.restart("b")
    servers.run()
    wait(servers, 1.0)
    assert got(servers, "cyd@c") == [b"first"]
    assert (got(servers, "bob@b"), told_lost(servers, "bob@b")) == ([], [1])
    settled = next(answer for answer in servers.answers[first.ticket] if isinstance(answer, Settled))
    assert (settled.mailboxes, settled.unreachable) == (2, ("b",))


def test_a_server_that_took_it_and_starts_again_before_its_answer_left_is_asked_when_it_is_met(servers):
    send(servers, b"before")
    wait(servers, 1.0)
    servers.held |= {("b", "a")}
    taken = servers.new_send(STAFF, payload=b"taken")
    servers.step(ServerId("a"), taken)
    servers.run()
    servers.held.clear()
    servers.waiting.clear()
    lanes = {server: core.delivery.in_memory.lanes for server, core in servers.servers.items()}
    pieces = lanes["a"]._out["b"].forgotten + len(lanes["a"]._out["b"].in_flight)
    only_received = Carried(lanes["b"].start, lanes["a"].start, pieces, 0, ())
    servers.step(ServerId("a"), DatagramCame(ServerId("b"), encode(only_received)))
    assert not lanes["a"]._out["b"].has_some
    servers.restart("b")
    servers.step(ServerId("a"), PeerMet(ServerId("b"), (Subnet("b"),)))
    servers.run()
    wait(servers, 1.0)
    settled = next(answer for answer in servers.answers[taken.ticket] if isinstance(answer, Settled))
    assert settled.unreachable == ("b",)


def test_an_origin_that_starts_again_forgets_and_whoever_it_reached_before_is_told_that(servers):
    send(servers, b"before")
    servers.restart("a")
    send(servers, b"after")
    wait(servers, 1.0)
    assert got(servers, "bob@b") == [b"before", b"after"]
    assert told_lost(servers, "bob@b") == [1]
    assert got(servers, "ann@a") == [b"after"]


def test_positions_rise_over_starts_so_who_comes_back_is_known_to_be_behind(servers):
    send(servers)
    (entry,) = [entry for entry in entries(servers, "ann@a") if entry.items]
    assert entry.end.entry // POSITIONS_OF_START == servers.servers["a"].delivery.origin.start
    servers.restart("a")
    begun = servers.listen("ann@a", in_memory=entry.end)
    assert begun.in_memory > entry.end


def test_an_endpoint_goes_on_behind_what_it_acknowledged_or_says_it_has_handled(servers):
    for number in range(3):
        send(servers, b"%d" % number)
    first = entries(servers, "ann@a")[0].items[0].position
    begun = servers.listen("ann@a", in_memory=first)
    assert begun.in_memory == first
    assert servers.listen("ann@a").in_memory == first
    fresh = servers.listen("ann@a", "new")
    assert fresh.in_memory < first
    ticket = servers.ticket()
    servers.step(ServerId("a"), Subscribe(ticket, NodeId("ann@a"), is_ephemeral=True))
    assert servers.answers[ticket][-1].in_memory == servers.servers["a"].delivery.in_memory.log.end()


def test_the_oldest_go_where_there_is_too_much_and_the_ring_is_no_larger_than_it_may_be(servers):
    in_memory = servers.servers["a"].delivery.in_memory
    in_memory.ring_limit_bytes = 1_000
    for number in range(100):
        send(servers, b"%d" % number)
    assert 0 < in_memory.ring.size <= 1_000
    assert got(servers, "ann@a")[-1] == b"99" and len(got(servers, "ann@a")) < 30


def test_what_waits_for_a_server_that_is_away_goes_and_it_is_told_how_much(servers):
    send(servers, b"0")
    in_memory = servers.servers["a"].delivery.in_memory
    in_memory.backlog_limit_bytes = 500
    servers.lose("b")
    for number in range(1, 40):
        assert isinstance(send(servers, b"%d" % number)[0], Accepted)
    assert in_memory.origin.parcels.backlog_bytes < 1_000
    servers.bring_back("b")
    for _ in range(4):
        wait(servers, 5.0)
    found = got(servers, "bob@b")
    assert found[-1] == b"39" and found == sorted(found, key=int)
    assert sum(told_lost(servers, "bob@b")) == 39 - len(found)
    assert not in_memory.origin.parcels.unsettled


def test_what_goes_for_a_server_that_is_away_may_not_come_to_who_is_behind_it_and_that_is_said(servers):
    in_memory, said = servers.servers["a"].delivery.in_memory, []
    in_memory.on_given_up = said.extend
    servers.held |= {("a", "b")}
    # More than is under way at once: the rest waits, though all servers are still there.
    payloads = [bytes(WINDOW_BYTES + 1), *(b"%d" % number for number in range(8))]
    ids = {payload: send(servers, payload)[0].message_id for payload in payloads}
    servers.lose("b")
    in_memory.backlog_limit_bytes = in_memory.origin.parcels.backlog_bytes
    assert isinstance(send(servers, b"8")[0], Accepted)
    servers.bring_back("b")
    for _ in range(4):
        wait(servers, 5.0)
    came = got(servers, "cyd@c")
    assert came and said == [name for payload, name in ids.items() if payload not in came] != []
    assert not told_lost(servers, "cyd@c")
    assert not in_memory.origin.parcels.unsettled


def test_it_settles_in_the_next_view_where_all_who_had_it_have_started_again_while_one_is_away(servers):
    servers.join(STAFF, "pool@c")
    in_memory = servers.servers["a"].delivery.in_memory
    servers.held |= {("a", "b")}
    send(servers)
    servers.restart("c")
    wait(servers, 5.0)
    servers.lose("c")
    servers.restart("b")
    servers.held.clear()
    for _ in range(4):
        wait(servers, 5.0)
    # Who has c behind arcs that are suspended may miss it; nobody is there to whom it could be posted.
    assert in_memory.origin.parcels.unsettled
    servers.bring_back("c")
    for _ in range(4):
        wait(servers, 5.0)
    assert not in_memory.origin.parcels.unsettled


@pytest.mark.parametrize("first", [Kept.MEMORY, Kept.DURABLE])
def test_one_that_is_sent_again_after_its_group_is_kept_otherwise_is_answered_as_it_was_accepted(servers, first):
    keep(servers, first)
    servers.held, servers.held_posts = {("a", "b")}, {("a", "b")}
    one = {"payload": b"one", "sender": "press", "number": 1}
    (before,) = servers.send(STAFF, **one)
    keep(servers, Kept.DURABLE if first is Kept.MEMORY else Kept.MEMORY)
    again = servers.new_send(STAFF, **one)
    servers.step(ServerId("a"), again)
    servers.run()
    (accepted,) = servers.answers[again.ticket]
    assert accepted == Accepted(again.ticket, before.message_id, is_repeated=True, kept=first)
    servers.held, servers.held_posts = set(), set()
    servers.run()
    for _ in range(3):
        wait(servers, 5.0)
    settled = servers.answers[again.ticket][-1]
    assert isinstance(settled, Settled) and settled.mailboxes == 3


def test_a_sender_that_is_faster_than_servers_in_reach_is_held_up(servers):
    servers.servers["a"].delivery.in_memory.backlog_limit_bytes = 500
    servers.held |= {("a", "b")}
    answers = [send(servers)[0] for _ in range(20)]
    assert isinstance(answers[0], Accepted)
    assert isinstance(answers[-1], DeliveryRefused) and answers[-1].refusal.reason is Reason.BACKLOG_FULL
    servers.held.clear()
    for _ in range(3):
        wait(servers, 1.0)
    assert isinstance(send(servers)[0], Accepted)


def test_what_nobody_may_say_is_counted(servers):
    send(servers)
    core = servers.servers["b"].delivery
    start_of_a = servers.servers["a"].delivery.origin.start
    for carried in (
        Carried(start_of_a, core.origin.start, 10_000, 0, ()),
        Carried(
            start_of_a,
            core.origin.start,
            0,
            2,
            ((encode(Lost(1, start_of_a, 1, servers.new_send("lab@b").targets, 1)), True),),
        ),
    ):
        servers.step(ServerId("b"), DatagramCame(ServerId("a"), encode(carried)))
    assert core.post.faults[ServerId("a"), PeerFault.UNEARNED_RECEIPT] == 1
    assert core.post.faults[ServerId("a"), PeerFault.NOT_ITS_TARGET] == 1


def test_what_a_start_before_has_sent_is_passed_over(servers):
    send(servers)
    core = servers.servers["b"].delivery
    stale = encode(Carried(0, core.origin.start, 0, 2, ((b"", True),)))
    effects = servers.step(ServerId("b"), DatagramCame(ServerId("a"), stale))
    assert not [each for each in effects.unkept if isinstance(each, PeerDatagram)]
    assert isinstance(decode_datagram(stale), Carried)
