"""Messages between servers, one thing at a time, over lanes that deliver in order."""

from dataclasses import replace

import pytest
from pyroaring import BitMap

from delivery.model.events import (
    Accepted,
    Acknowledge,
    AcknowledgeAll,
    CloseMailbox,
    DeliveryRefused,
    SendAll,
    Settled,
    Start,
    Subscribed,
)
from delivery.model.words import PAYLOAD_BYTES_LIMIT, Position
from delivery.wire.posts import PARCEL_MESSAGES_LIMIT, NotAPostError, Remembered, decode, encode
from namegraph import Lane, NodeId, PeerFault, PeerMessage, PeerPosts, PeerRestored, Reason, Restored, ServerId, Tick
from tests.unit.delivery.servers import Servers

A, B, C = map(ServerId, ("a.x", "b.x", "c.x"))
ANN, BOB, CY = "ann@a.x", "bob@b.x", "cy@c.x"


@pytest.fixture
def loop():
    """Three groups of three servers in a loop, each with one listening member. One member is in two groups."""
    servers = Servers("a.x", "b.x", "c.x")
    servers.create("g@a.x", "h@b.x", "i@c.x")
    for parent, child in (("g@a.x", "h@b.x"), ("h@b.x", "i@c.x"), ("i@c.x", "g@a.x")):
        servers.join(parent, child)
    for parent, child in (("g@a.x", ANN), ("h@b.x", BOB), ("i@c.x", CY), ("g@a.x", CY)):
        servers.join(parent, child)
    for process in (ANN, BOB, CY):
        servers.listen(process)
    return servers


def refused(answers):
    (answer,) = answers
    assert isinstance(answer, DeliveryRefused)
    return answer.refusal


def test_updates_cost_a_server_nothing_for_messages_while_it_has_none(monkeypatch):
    servers = Servers("a.x", "b.x")
    servers.create("g@a.x", "h@b.x", "k@b.x")
    servers.join("g@a.x", "k@b.x")
    cut, cuts = servers.servers[B].delivery.retention.cut, []
    monkeypatch.setattr(servers.servers[B].delivery.retention, "cut", lambda *given: cuts.append(cut(*given)))
    servers.join("g@a.x", "h@b.x")
    assert not cuts, "no step of the join looks at the log, which is empty"
    servers.listen(BOB)
    servers.join("h@b.x", BOB)
    servers.send("g@a.x", payload=b"one")
    log = servers.servers[B].delivery.log
    log.limit_seconds = 100.0
    servers.step(B, Tick())
    cuts.clear()
    servers.leave("g@a.x", "k@b.x")
    assert not cuts, "no step of the leave looks at the log, whose entry is not old"
    assert servers.log_of(BOB) == [b"one"]
    servers.now += 201.0
    servers.step(B, Tick())
    assert len(cuts) == 1 and log.is_empty, "the time of the entry has come"


def test_a_message_comes_once_to_each_member_through_loops_and_shared_groups(loop):
    accepted, settled = loop.send("g@a.x", payload=b"one")
    assert isinstance(accepted, Accepted) and accepted.message_id == "1@g@a.x#1"
    assert isinstance(settled, Settled) and (settled.mailboxes, settled.servers) == (3, 3)
    assert [loop.log_of(process) for process in (ANN, BOB, CY)] == [[b"one"]] * 3


def test_a_settled_message_leaves_one_row_at_each_server_and_nothing_else(loop):
    def rows():
        return {
            server: {part: len(each) for part, each in core.durable.maps.items()}
            for server, core in loop.servers.items()
        }

    loop.send("g@a.x")
    before = rows()
    for _ in range(20):
        loop.send("g@a.x")
    assert rows() == before
    assert [len(loop.disks[server].log) for server in (A, B, C)] == [21] * 3
    assert not any(core.delivery.post.parcels for core in loop.servers.values())


def test_copies_between_servers_are_as_many_as_other_servers_with_members(loop):
    sent = []
    step = loop.step
    loop.step = lambda server, event: sent.append(event) or step(server, event)
    loop.send("g@a.x", payload=b"once a server")
    copies = [event for event in sent if isinstance(event, PeerMessage) and b"once a server" in event.encoded]
    assert len(copies) == 2


def test_messages_to_one_set_are_one_sequence_also_in_parcels_of_the_largest_size(loop):
    for number in range(PARCEL_MESSAGES_LIMIT + 5):
        loop.step(A, loop.new_send("g@a.x", payload=str(number).encode()))
    loop.close_parcels(A)
    expected = [str(number).encode() for number in range(PARCEL_MESSAGES_LIMIT + 5)]
    assert loop.log_of(BOB) == expected
    assert len(loop.disks[B].log) == 2


def test_who_is_in_two_targets_gets_one_copy_and_who_is_below_an_exception_none(loop):
    loop.create("others@b.x")
    loop.join("others@b.x", BOB)
    loop.send("g@a.x", "others@b.x", payload=b"both")
    loop.send("g@a.x", payload=b"less", excluding=["others@b.x"])
    assert loop.log_of(BOB) == [b"both"]
    assert loop.log_of(CY) == [b"both", b"less"]


def test_who_joins_gets_what_is_sent_after_and_who_leaves_gets_no_more(loop):
    loop.send("h@b.x", payload=b"1")
    loop.leave("h@b.x", BOB)
    loop.send("h@b.x", payload=b"2")
    loop.join("i@c.x", "dora@c.x")
    loop.listen("dora@c.x")
    loop.send("h@b.x", payload=b"3")
    assert loop.log_of(BOB) == [b"1"]
    assert loop.log_of("dora@c.x") == [b"3"]
    assert loop.log_of(CY) == [b"1", b"2", b"3"]


def test_a_server_that_is_found_on_the_way_gets_all_that_is_not_settled_from_the_oldest_on(loop):
    loop.create("j@c.x")
    loop.join("j@c.x", "dora@c.x")
    loop.listen("dora@c.x")
    loop.create("k@a.x", "l@b.x")
    loop.join("k@a.x", "l@b.x")
    loop.held.add((A, B))
    loop.send("k@a.x", payload=b"1")
    loop.send("k@a.x", payload=b"2")
    loop.held.clear()
    # b.x hears of the arc before it takes the parcels, for letters and posts are on their own lanes.
    loop.join("l@b.x", "j@c.x")
    loop.send("k@a.x", payload=b"3")
    assert loop.log_of("dora@c.x") == [b"1", b"2", b"3"] or loop.log_of("dora@c.x") == [b"3"]


@pytest.mark.parametrize("has_restarted", [False, True])
def test_who_joins_after_a_message_is_settled_does_not_get_it_though_an_older_one_waits(has_restarted):
    servers = Servers("a.x", "b.x", "c.x")
    servers.create("g@a.x")
    for member in (ANN, BOB):
        servers.join("g@a.x", member)
    for process in (ANN, BOB, CY):
        servers.listen(process)
    servers.held_posts = {(A, B)}
    (accepted,) = servers.send("g@a.x", payload=b"waits for b")
    assert isinstance(accepted, Accepted)
    servers.leave("g@a.x", BOB)
    assert isinstance(servers.send("g@a.x", payload=b"settled")[-1], Settled)
    if has_restarted:
        servers.restart(A)
    servers.join("g@a.x", CY)
    servers.send("g@a.x", payload=b"later")
    servers.held_posts = set()
    servers.run()
    # It was accepted before, and is not settled: who joins meanwhile gets it.
    assert servers.log_of(CY) == [b"waits for b", b"later"]
    assert servers.log_of(ANN) == [b"waits for b", b"settled", b"later"]
    assert not len(servers.servers[A].delivery.origin.parcels)


def test_a_parcel_that_was_confirmed_in_two_views_is_posted_once_more(loop, monkeypatch):
    """B confirms before C is cut off from it, and C while it is: neither knows that the arc between them counts."""
    here, there = loop.servers[A].delivery, loop.servers[C].delivery
    loop.held.add((A, C))
    send = loop.new_send("g@a.x", payload=b"one")
    loop.step(A, send)
    loop.close_parcels(A)
    assert [type(answer) for answer in loop.answers[send.ticket]] == [Accepted]
    audience, empty = there.audience, [BitMap()]
    monkeypatch.setattr(there, "audience", lambda targets: empty.pop() if empty else audience(targets))
    monkeypatch.setattr(there.reach, "is_parted", lambda: True)
    monkeypatch.setattr(here.reach, "view", lambda: "2@a.x")
    loop.held.clear()
    loop.run()
    settled = loop.answers[send.ticket][-1]
    assert isinstance(settled, Settled) and (settled.mailboxes, settled.servers) == (3, 3)
    assert [loop.log_of(process) for process in (ANN, BOB, CY)] == [[b"one"]] * 3


@pytest.mark.parametrize("went_back", [A, C])
def test_a_server_asks_what_is_over_where_the_word_of_it_was_lost_with_a_lane(loop, monkeypatch, went_back):
    there = loop.servers[C].delivery
    with monkeypatch.context() as lost:
        lost.setattr(there.reach, "is_parted", lambda: True)
        lost.setattr(there.arrivals, "over", lambda sender, over: None)
        loop.send("g@a.x")
    assert [parcel[0] for parcel in there.arrivals.remembered()] == [A]
    incarnation = 2**40
    for server in (A, B, C):
        told = Restored(incarnation) if server == went_back else PeerRestored(went_back, incarnation)
        loop.step(server, told)
    for server in (A, B, C):
        loop.meet(server)
    loop.run()
    assert not there.arrivals.remembered()


def test_what_is_remembered_is_asked_for_in_pieces_that_can_be_read(loop):
    arrivals = loop.servers[C].delivery.arrivals
    for serial in range(1, 2_502):
        arrivals._remembered[B, 1 + serial % 2, 7, serial] = 0
    asked = arrivals.begin_again(B)
    assert [(each.sequence, len(each.first_serials)) for each in asked] == [(2, 1_000), (2, 251), (1, 1_000), (1, 250)]
    assert all(decode(encode(each)) == each for each in asked)
    for wrong in (Remembered(1, 7, tuple(range(1_001))), Remembered(1, 7, (-1,))):
        with pytest.raises(NotAPostError):
            decode(encode(wrong))


def test_a_message_to_a_process_goes_to_its_mailbox(loop):
    loop.send(BOB, payload=b"to you")
    assert loop.log_of(BOB) == [b"to you"] and loop.log_of(CY) == []


def test_nothing_is_in_memory_of_a_sequence_that_is_settled_and_was_for_nobody_elsewhere(loop):
    for target in (ANN, BOB, "g@a.x"):
        loop.send(target)
    assert not loop.servers[B].delivery.origin.parcels.states
    (left,) = loop.servers[A].delivery.origin.parcels.states.values()
    assert left.receivers == {B, C}


def test_what_nobody_gets_is_settled_and_leaves_no_row():
    servers = Servers("a.x")
    servers.create("g@a.x")
    _, settled = servers.send("g@a.x")
    assert settled.mailboxes == 0 and not servers.disks[A].log


def test_an_unknown_target_is_refused_by_name(loop):
    refusal = refused(loop.send("nobody@a.x"))
    assert refusal.reason is Reason.TARGET_NOT_FOUND and "nobody@a.x" in refusal.message


def test_a_message_that_is_too_large_is_refused(loop):
    assert refused(loop.send("g@a.x", payload=bytes(PAYLOAD_BYTES_LIMIT + 1))).reason is Reason.LIMIT_EXCEEDED


def test_a_numbered_message_that_is_sent_again_is_accepted_once(loop):
    first = loop.send("g@a.x", sender="billing", number=1)
    again = loop.send("g@a.x", sender="billing", number=1)
    assert again[0] == Accepted(again[0].ticket, first[0].message_id, is_repeated=True)
    assert isinstance(again[1], Settled)
    refusal = refused(loop.send("g@a.x", sender="billing", number=3))
    assert refusal.reason is Reason.OUT_OF_SEQUENCE and refusal.facts["expected"] == "2"
    assert loop.log_of(ANN) == [b"hello"]


def test_a_message_that_is_sent_again_before_its_parcel_closes_is_in_it_once(loop):
    for _ in range(2):
        loop.step(A, loop.new_send("g@a.x", sender="billing", number=1))
        loop.step(A, loop.new_send("g@a.x", payload=b"by id", request_id="r1"))
    loop.step(A, loop.new_send("g@a.x", payload=b"next", sender="billing", number=2))
    loop.close_parcels(A)
    assert loop.log_of(ANN) == [b"hello", b"by id", b"next"]
    ids = [answer.message_id for answers in loop.answers.values() for answer in answers if isinstance(answer, Accepted)]
    assert sorted(ids) == sorted(["1@g@a.x#1", "1@g@a.x#1", "2@g@a.x#1", "2@g@a.x#1", "3@g@a.x#1"])


def test_messages_that_come_together_are_answered_as_if_they_came_one_by_one():
    def answers(*, together):
        servers = Servers("a.x")
        servers.create("g@a.x")
        servers.join("g@a.x", ANN)
        servers.listen(ANN)
        sends = [
            servers.new_send("g@a.x", payload=b"one", sender="s", number=1),
            servers.new_send("g@a.x", payload=b"one", sender="s", number=1),
            servers.new_send("g@a.x", payload=b"three", sender="s", number=3),
            servers.new_send("none@a.x", payload=b"lost"),
            servers.new_send(ANN, payload=b"two", request_id="r"),
            servers.new_send(ANN, payload=b"two", request_id="r"),
            servers.new_send("g@a.x", payload=b"last"),
        ]
        for event in [SendAll(tuple(sends))] if together else sends:
            servers.step(A, event)
        servers.close_parcels("a.x")
        return [servers.answers[send.ticket] for send in sends], servers.log_of(ANN)

    assert answers(together=True) == answers(together=False)
    assert answers(together=True)[1] == [b"one", b"last", b"two"]


def test_posts_that_come_together_are_taken_as_if_they_came_one_by_one():
    def taken(*, together):
        servers = Servers("a.x", "b.x")
        servers.create("g@a.x")
        servers.join("g@a.x", BOB)
        servers.listen(BOB)
        for payload in (b"one", b"two", b"three"):
            servers.send("g@a.x", payload=payload, run=False)
        came = [PeerMessage(A, each.number, each.encoded, each.lane) for _, _, each in servers.under_way]
        # One says nothing, and one is missing behind it.
        came[2] = replace(came[2], encoded=b"\xc1")
        came.append(replace(came[0], number=came[2].number + 2))
        servers.under_way.clear()
        for event in [PeerPosts(tuple(came))] if together else came:
            servers.step(B, event)
        post = servers.servers[B].delivery.post
        return servers.log_of(BOB), list(servers.under_way), post.handled_through(A), post.faults

    assert taken(together=True) == taken(together=False)
    log, confirmations, handled, faults = taken(together=True)
    assert (log, len(confirmations), handled) == ([b"one", b"two"], 2, 3)
    assert faults == {(A, PeerFault.UNREADABLE): 1}


def test_numbers_go_on_behind_the_highest_where_messages_of_one_step_have_several_target_sets(loop):
    for number, targets in enumerate((["g@a.x"], ["g@a.x", "h@b.x"], ["g@a.x"]), start=1):
        loop.step(A, loop.new_send(*targets, payload=b"%d" % number, sender="billing", number=number))
    loop.close_parcels(A)
    (repeated, *_) = loop.send("g@a.x", payload=b"3", sender="billing", number=3)
    assert isinstance(repeated, Accepted) and repeated.is_repeated
    assert sorted(loop.log_of(ANN)) == [b"1", b"2", b"3"]
    assert isinstance(loop.send("g@a.x", payload=b"4", sender="billing", number=4)[0], Accepted)


def test_a_message_whose_parcel_was_not_closed_is_as_if_it_had_not_been_sent(loop):
    loop.step(A, loop.new_send("g@a.x", sender="billing", number=1))
    loop.restart(A)
    assert isinstance(loop.send("g@a.x", sender="billing", number=1)[0], Accepted)
    assert loop.log_of(BOB) == [b"hello"]


@pytest.mark.parametrize("server", [A, B, C])
def test_whoever_restarts_while_a_message_is_under_way_all_get_it_once(loop, server):
    loop.send("g@a.x", payload=b"1", run=False)
    loop.restart(server)
    loop.run()
    loop.send("g@a.x", payload=b"2")
    assert [loop.log_of(process) for process in (ANN, BOB, CY)] == [[b"1", b"2"]] * 3
    assert not loop.servers[A].delivery.origin.parcels.unsettled


def test_an_endpoint_goes_on_behind_what_it_acknowledged_and_takes_over_the_one_before(loop):
    first = loop.listen(BOB, "desk")
    loop.send("g@a.x")
    loop.send("g@a.x")
    loop.step(B, Acknowledge(first.mailbox, "desk", first.epoch, Position(1, 0)))
    loop.restart(B)
    second = loop.listen(BOB, "desk")
    assert isinstance(second, Subscribed) and second.cursor == Position(1, 0) and second.epoch == first.epoch + 1
    loop.step(B, Acknowledge(first.mailbox, "desk", first.epoch, Position(2, 0)))
    assert loop.listen(BOB, "desk").cursor == Position(1, 0)


def test_a_new_subscription_begins_at_the_position_that_it_is_told(loop):
    loop.listen(BOB, "desk")
    for _ in range(3):
        loop.send("g@a.x")
    assert loop.listen(BOB, "phone", start=Position(1, 0)).cursor == Position(1, 0)


def test_one_step_takes_what_several_endpoints_acknowledge(loop):
    begun = [loop.listen(BOB, name) for name in ("desk", "phone")]
    loop.send("g@a.x")
    loop.send("g@a.x")
    named = zip(begun, ("desk", "phone"), (Position(1, 0), Position(2, 0)), strict=True)
    loop.step(B, AcknowledgeAll(tuple(Acknowledge(one.mailbox, name, one.epoch, at) for one, name, at in named)))
    assert [loop.listen(BOB, name).cursor for name in ("desk", "phone")] == [Position(1, 0), Position(2, 0)]


def test_a_new_subscription_begins_at_the_oldest_or_now(loop):
    loop.send("g@a.x")
    assert loop.listen(BOB, "all", start=Start.START).cursor == Position.before(1)
    assert loop.listen(BOB, "new", start=Start.NOW).cursor == Position.before(2)


def test_the_log_is_cut_behind_the_slowest_subscription(loop):
    endpoints = {process: loop.listen(process) for process in (ANN, BOB, CY)}
    slow = loop.listen(BOB, "slow")
    for _ in range(150):
        loop.send("g@a.x")
    for process, one in endpoints.items():
        loop.step(ServerId(process.partition("@")[2]), Acknowledge(one.mailbox, "", one.epoch, Position(150, 0)))
    loop.send("g@a.x")
    assert [len(loop.disks[server].log) for server in (A, B, C)] == [2, 151, 2]
    loop.step(B, Acknowledge(slow.mailbox, "slow", slow.epoch, Position(151, 0)))
    assert len(loop.disks[B].log) == 2


def test_a_settled_parcel_whose_receipt_is_on_its_way_stays_in_the_log_for_a_restart():
    servers = Servers("a.x", "b.x")
    servers.create("g@a.x", "h@b.x")
    servers.join("g@a.x", "h@b.x")
    servers.join("h@b.x", BOB)
    servers.listen(BOB)
    # As when confirmations overtake receipts: these never come.
    servers.receipts_of = {A}
    for _ in range(150):
        servers.send("g@a.x")
    assert not servers.servers[A].delivery.origin.parcels.unsettled
    servers.restart(A)
    servers.run()
    servers.send("g@a.x", payload=b"last")
    assert servers.log_of(BOB) == [b"hello"] * 150 + [b"last"]
    assert len(servers.disks[A].log) <= 100


def test_a_group_has_no_mailbox_but_where_its_archive_is_opened(loop):
    assert loop.listen("g@a.x").refusal.reason is Reason.MAILBOX_NOT_FOUND
    loop.open("g@a.x")
    assert isinstance(loop.listen("g@a.x"), Subscribed)


def test_an_archive_has_what_is_addressed_to_its_group_and_not_what_reaches_it_through_others(loop):
    loop.open("h@b.x")
    for targets, more in (
        (("h@b.x",), {}),
        (("g@a.x",), {}),
        (("g@a.x", "h@b.x"), {}),
        ((BOB,), {}),
        (("h@b.x",), {"excluding": ["h@b.x"]}),
        (("h@b.x",), {"excluding": ["i@c.x"]}),
    ):
        loop.send(*targets, payload=" ".join(targets).encode(), **more)
    assert loop.log_of("h@b.x") == [b"h@b.x", b"g@a.x h@b.x", b"h@b.x"]
    assert loop.send("h@b.x")[-1].mailboxes == 4


def test_who_is_new_reads_an_archive_from_its_beginning_whatever_others_have_acknowledged(loop):
    loop.open("g@a.x")
    log = loop.servers[A].delivery.log
    log.cut_at_least = 1
    for _ in range(3):
        loop.send("g@a.x")
    for name, process in (("", ANN), ("old", "g@a.x"), ("older", "g@a.x")):
        begun = loop.listen(process, name)
        loop.step(A, Acknowledge(begun.mailbox, name, begun.epoch, log.end()))
    assert log.cut == 0
    assert loop.listen("g@a.x", "new").cursor == Position.before(1)
    loop.restart(A)
    loop.run()
    assert loop.listen("g@a.x", "newer").cursor == Position.before(1)
    log = loop.servers[A].delivery.log
    log.cut_at_least = 1
    loop.step(A, CloseMailbox(loop.ticket(), NodeId("g@a.x")))
    begun = loop.listen(ANN)
    loop.step(A, Acknowledge(begun.mailbox, "", begun.epoch, log.end()))
    assert log.cut == 3


def test_an_archive_that_is_too_large_loses_its_beginning_and_holds_up_nobody(loop):
    loop.open("g@a.x")
    log = loop.servers[A].delivery.log
    log.limit_bytes = 100_000
    for _ in range(1_500):
        loop.send("g@a.x", payload=bytes(100))
    assert log.size <= log.limit_bytes + 1_000 * 400
    assert log.cut > 0
    assert loop.listen("g@a.x", "new").cursor == Position.before(log.cut + 1)


def test_parcels_for_a_group_of_somebody_else_are_a_fault_and_reach_nobody(loop):
    loop.send("g@a.x", payload=b"honest", run=False)
    encoded = next(letter.encoded for _, _, letter in loop.under_way if letter.lane is Lane.POST)
    loop.run()
    number = loop.servers[B].delivery.post.handled_through(C) + 1
    loop.step(B, PeerMessage(C, number, encoded, Lane.POST))
    assert loop.servers[B].delivery.post.faults == {(C, PeerFault.NOT_ITS_TARGET): 1}
    assert loop.log_of(BOB) == [b"honest"]


@pytest.mark.parametrize("encoded", [b"", b"\xc1", b"\x93\x01\x02\x03", bytes(3_000_000)])
def test_garbage_is_a_fault_and_the_lane_goes_on(loop, encoded):
    number = loop.servers[B].delivery.post.handled_through(C) + 1
    loop.step(B, PeerMessage(C, number, encoded, Lane.POST))
    faults = loop.servers[B].delivery.post.faults
    assert sum(faults.values()) == 1
    loop.send("g@a.x")
    assert loop.log_of(BOB) == [b"hello"]


def test_a_confirmation_of_what_was_not_sent_is_a_fault(loop):
    from delivery.wire.posts import Confirm, encode

    number = loop.servers[A].delivery.post.handled_through(B) + 1
    loop.step(A, PeerMessage(B, number, encode(Confirm(7, 0, 1, 5, ())), Lane.POST))
    assert loop.servers[A].delivery.post.faults == {(B, PeerFault.NOT_OUR_PARCEL): 1}


def test_a_closed_mailbox_gets_nothing_and_its_number_is_not_used_again(loop):
    from delivery.model.events import CloseMailbox

    before = loop.servers[B].delivery.mailboxes.numbers[NodeId(BOB)]
    loop.send("g@a.x", payload=b"old")
    ticket = loop.ticket()
    loop.step(B, CloseMailbox(ticket, NodeId(BOB)))
    assert [answer.unread for answer in loop.answers[ticket]] == [1]
    loop.send("g@a.x", payload=b"between")
    loop.listen(BOB)
    assert loop.servers[B].delivery.mailboxes.numbers[NodeId(BOB)] != before
    assert loop.log_of(BOB) == []
