"""Gateways: one copy of each message for all matching recipients, with their names. Recipient numbers are reused."""

import pytest
from pyroaring import BitMap

from delivery.log.log import SEGMENT_ENTRIES
from delivery.mailboxes import gateways
from delivery.mailboxes.gateways import FIRST_RECIPIENT
from delivery.mailboxes.mailboxes import GATEWAYS_LIMIT
from delivery.mailboxes.subscription_read import EndpointPosition, read
from delivery.model.events import Acknowledge, CloseMailbox, DeliveryRefused, OpenMailbox, Start, Subscribed
from delivery.model.words import Position, serves
from delivery.origin.dead_letters import LossReason
from delivery.wire.posts import decode_stored
from namegraph import NodeId, Reason, ServerId
from tests.unit.delivery.servers import Servers

A, B = map(ServerId, ("a.x", "b.x"))
STAFF, ANN, BOB, EVE = "staff@a.x", "ann@a.x", "bob@b.x", "eve@debian.org"


@pytest.fixture
def servers():
    """Staff, at the first server, contains Ann of it, the foreign Eve, and the lab with Bob of the second server."""
    found = Servers("a.x", "b.x")
    found.create(STAFF, "lab@b.x")
    for member in (ANN, EVE, "lab@b.x"):
        found.join(STAFF, member)
    found.join("lab@b.x", BOB)
    for server in (A, B):
        found.servers[server].delivery.log.cut_at_least = 1
    return found


def handed(servers, begun, server=A):
    """Return the payload and recipients of each message that a gateway gets behind its begin."""
    core, log = servers.servers[server].delivery, servers.disks[server].log
    entries = [log[position] for position in sorted(log)]
    return [
        (item.message.payload, list(item.recipients))
        for _, items, _ in read(entries, begun.mailbox, core.audiences, after=begun.cursor)
        for item in items
    ]


def acknowledge(servers, begun, name="", server=A):
    end = servers.servers[server].delivery.log.end()
    servers.step(server, Acknowledge(begun.mailbox, name, begun.epoch, end))


def recipients(servers, server=A):
    return dict(servers.servers[server].durable.maps["recipient"])


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [("*", [ANN, EVE]), ("*@a.x", [ANN]), ("*@debian.org", [EVE]), ("*@ebian.org", None), ("*@example.org", None)],
)
def test_it_gets_one_copy_with_all_who_match_and_nothing_where_nobody_does(servers, pattern, expected):
    begun = servers.listen(pattern, at=A)
    assert isinstance(begun, Subscribed)
    settled = servers.send(STAFF)[-1]
    assert handed(servers, begun) == ([] if expected is None else [(b"hello", expected)])
    assert settled.mailboxes == (expected is not None)


def test_each_server_has_its_own_recipients(servers):
    begun = {server: servers.listen("*", at=server) for server in (A, B)}
    assert servers.send(STAFF)[-1].mailboxes == 2
    assert handed(servers, begun[A]) == [(b"hello", [ANN, EVE])]
    assert handed(servers, begun[B], B) == [(b"hello", [BOB])]


def test_exceptions_and_several_targets_give_each_recipient_once(servers):
    servers.create("few@a.x")
    servers.join("few@a.x", EVE)
    begun = servers.listen("*", at=A)
    servers.send(STAFF, "few@a.x", ANN, payload=b"both")
    servers.send(STAFF, payload=b"less", excluding=["few@a.x"])
    servers.send(ANN, payload=b"direct")
    assert handed(servers, begun) == [(b"both", [ANN, EVE]), (b"less", [ANN]), (b"direct", [ANN])]


def test_a_member_of_another_server_is_no_recipient_here_even_where_it_is_addressed(servers):
    servers.join(STAFF, "joe@b.x")
    begun = servers.listen("*", at=A)
    servers.send(STAFF, "joe@b.x", payload=b"all")
    servers.send(STAFF, "joe@b.x", payload=b"less", excluding=[STAFF])
    assert handed(servers, begun) == [(b"all", [ANN, EVE])]


def test_who_has_a_mailbox_is_delivered_to_by_both(servers):
    mailbox, begun = servers.listen(ANN), servers.listen("*@a.x")
    assert servers.send(STAFF)[-1].mailboxes == 2
    assert servers.log_of(ANN) == [b"hello"]
    assert handed(servers, begun) == [(b"hello", [ANN])]
    servers.step(A, CloseMailbox(servers.ticket(), NodeId(ANN)))
    assert servers.send(STAFF)[-1].mailboxes == 1
    assert mailbox.mailbox < FIRST_RECIPIENT


def test_it_begins_with_what_is_logged_from_now_on_and_its_opening_may_come_first(servers):
    servers.listen(ANN)
    servers.send(STAFF, payload=b"before")
    servers.step(A, OpenMailbox(servers.ticket(), NodeId("*")))
    servers.send(STAFF, payload=b"after")
    assert handed(servers, servers.listen("*", at=A, start=Start.START)) == [(b"after", [ANN, EVE])]
    assert handed(servers, servers.listen("*", "late", at=A, start=Start.NOW)) == []


def test_recipients_are_those_of_the_moment_when_it_was_logged(servers):
    begun = servers.listen("*", at=A)
    servers.send(STAFF, payload=b"1")
    servers.join(STAFF, "joe@a.x")
    servers.send(STAFF, payload=b"2")
    servers.leave(STAFF, ANN)
    servers.send(STAFF, payload=b"3")
    servers.restart(A)
    assert handed(servers, begun) == [(b"1", [ANN, EVE]), (b"2", [ANN, EVE, "joe@a.x"]), (b"3", [EVE, "joe@a.x"])]


def test_two_of_them_get_the_same_message_and_acknowledge_apart(servers):
    every, debian = servers.listen("*", at=A), servers.listen("*@debian.org", "mail", at=A)
    servers.send(STAFF)
    acknowledge(servers, every)
    assert servers.servers[A].delivery.log.cut == 0
    assert handed(servers, debian) == [(b"hello", [EVE])]
    acknowledge(servers, debian, "mail")
    assert servers.servers[A].delivery.log.cut == 1


def test_an_endpoint_that_comes_later_takes_it_over_and_goes_on_behind_what_was_acknowledged(servers):
    first = servers.listen("*", "mail", at=A)
    for payload in (b"1", b"2"):
        servers.send(STAFF, payload=payload)
    servers.step(A, Acknowledge(first.mailbox, "mail", first.epoch, Position(1, 0)))
    servers.restart(A)
    later = servers.listen("*", "mail", at=A)
    servers.step(A, Acknowledge(first.mailbox, "mail", first.epoch, Position(2, 0)))
    assert (later.epoch, handed(servers, later)) == (first.epoch + 1, [(b"2", [ANN, EVE])])


def test_what_is_for_none_of_its_recipients_moves_it_on(servers):
    servers.listen(ANN)
    begun = servers.listen("*@debian.org", at=A)
    servers.leave(STAFF, EVE)
    standing = EndpointPosition(begun.cursor)
    core, log = servers.servers[A].delivery, servers.disks[A].log
    for _ in range(120):
        servers.send(STAFF)
    for end, items, _ in read([log[one] for one in sorted(log)], begun.mailbox, core.audiences, after=begun.cursor):
        assert not items
        standing.pass_over(end)
    assert standing.passed() == core.log.end()


def test_what_is_lost_to_it_counts_once_for_each_gateway_that_had_not_read_it(servers):
    begun = [servers.listen(pattern, at=A) for pattern in ("*", "*@a.x", "*@example.org", "*@debian.org")]
    core = servers.servers[A].delivery
    core.log.limit_bytes = 1
    servers.send(STAFF)
    acknowledge(servers, begun[-1])
    for _ in range(SEGMENT_ENTRIES):
        servers.send(STAFF, run=False, wants_settled=False, excluding=[STAFF])
    servers.send(STAFF)
    servers.run()
    lost = {each.reason: each.messages for each in core.dead_letters.undelivered() if each.messages}
    assert lost == {LossReason.OVERRUN: 2}


def test_who_comes_late_gets_what_comes_late_and_nobody_gets_it_twice(servers):
    begun = servers.listen("*", at=A)
    servers.send(STAFF, payload=b"1")
    core, stored = servers.servers[A].delivery, servers.disks[A].log[1]
    servers.join(STAFF, "joe@a.x")
    core.writer.append_late(decode_stored(stored.encoded), stored.audience, core.reach, BitMap(), source=A)
    servers.send(STAFF, payload=b"2")
    assert handed(servers, begun) == [(b"1", [ANN, EVE]), (b"1", ["joe@a.x"]), (b"2", [ANN, EVE, "joe@a.x"])]


# -- numbers


def test_numbers_are_given_when_something_is_logged_and_stay_while_they_are_members(servers):
    begun = servers.listen("*", at=A)
    assert recipients(servers) == {}
    servers.send(STAFF)
    before = recipients(servers)
    assert sorted(before) == [ANN, EVE]
    for _ in range(5):
        servers.send(STAFF)
        acknowledge(servers, begun)
    assert recipients(servers) == before


def churn(servers, begun, people):
    """People come one after the other, get a message, and leave for good; returns how many recipients there were."""
    most = 0
    for person in people:
        servers.join(STAFF, person)
        servers.send(STAFF)
        most = max(most, len(recipients(servers)))
        servers.leave(STAFF, person)
        servers.send(STAFF)
        acknowledge(servers, begun)
        servers.run()
    return most


def test_who_has_left_for_good_is_forgotten_and_its_number_given_again(servers):
    begun = servers.listen("*", at=A)
    assert churn(servers, begun, [f"p{number}@debian.org" for number in range(30)]) <= 5
    assert sorted(recipients(servers)) == [ANN, EVE]
    assert max(servers.servers[A].delivery.gateways._names) < FIRST_RECIPIENT + 4


def test_so_it_is_where_a_step_looks_at_one_at_a_time(servers, monkeypatch):
    monkeypatch.setattr(gateways, "LOOKED_AT", 1)
    begun = servers.listen("*", at=A)
    assert churn(servers, begun, [f"p{number}@debian.org" for number in range(30)]) <= 8


def test_a_number_is_not_given_again_while_an_entry_has_it(servers):
    begun = servers.listen("*", at=A)
    servers.send(STAFF, payload=b"1")
    servers.leave(STAFF, EVE)
    servers.listen(ANN)
    for number in range(4):
        servers.join(STAFF, f"p{number}@a.x")
        servers.send(STAFF, payload=b"%d" % number)
        acknowledge(servers, servers.listen(ANN))
    assert handed(servers, begun)[0] == (b"1", [ANN, EVE])
    acknowledge(servers, begun)
    servers.run()
    assert EVE not in recipients(servers)


def test_a_number_that_another_has_now_is_in_no_audience_of_before(servers):
    begun = servers.listen("*", at=A)
    servers.send(STAFF)
    number = recipients(servers)[EVE]
    servers.leave(STAFF, EVE)
    servers.send(STAFF)
    acknowledge(servers, begun)
    servers.run()
    assert EVE not in recipients(servers)
    servers.create("other@a.x")
    servers.join("other@a.x", "zoe@a.x")
    servers.send("other@a.x")
    assert recipients(servers)["zoe@a.x"] == number
    servers.join(STAFF, EVE)
    servers.send(STAFF, payload=b"again")
    assert handed(servers, begun)[-1] == (b"again", [ANN, EVE])


def test_numbers_of_before_a_restart_are_kept_and_free_ones_given(servers):
    begun = servers.listen("*", at=A)
    churn(servers, begun, ["p@a.x", "q@a.x"])
    servers.send(STAFF)
    before = recipients(servers)
    servers.restart(A)
    servers.join(STAFF, "zoe@a.x")
    servers.send(STAFF)
    free = min(set(range(FIRST_RECIPIENT, FIRST_RECIPIENT + 3)) - set(before.values()))
    assert recipients(servers) == before | {"zoe@a.x": free}
    assert sorted(handed(servers, begun)[-1][1]) == [ANN, EVE, "zoe@a.x"]


def test_a_gateway_that_is_closed_leaves_no_recipient_that_no_other_one_serves(servers, monkeypatch):
    monkeypatch.setattr(gateways, "LOOKED_AT", 1)
    every = servers.listen("*", at=A)
    debian = servers.listen("*@debian.org", at=A)
    servers.send(STAFF)
    acknowledge(servers, debian)
    servers.step(A, CloseMailbox(servers.ticket(), NodeId("*")))
    servers.run()
    assert list(recipients(servers)) == [EVE]
    assert servers.send(STAFF)[-1].mailboxes == 1
    servers.step(A, CloseMailbox(servers.ticket(), NodeId("*@debian.org")))
    servers.run()
    assert recipients(servers) == {}
    assert servers.send(STAFF)[-1].mailboxes == 0
    assert every.mailbox != debian.mailbox
    assert not servers.servers[A].delivery.has_more


def closed(servers, name, server=A):
    """Close a mailbox. Return its unread messages, and the number that its server counts as lost."""
    before = lost(servers, server)
    ticket = servers.ticket()
    servers.step(server, CloseMailbox(ticket, NodeId(name)))
    [answer] = servers.answers[ticket]
    return answer.unread, lost(servers, server) - before


def lost(servers, server):
    found = servers.servers[server].delivery.dead_letters.undelivered()
    return next(each.messages for each in found if each.reason is LossReason.CLOSED)


def test_what_it_had_not_acknowledged_when_it_is_closed_is_counted_and_told(servers):
    every, debian = servers.listen("*", at=A), servers.listen("*@debian.org", at=A)
    other = servers.listen("*@example.org", at=A)
    for _ in range(3):
        servers.send(STAFF)
    acknowledge(servers, debian)
    servers.step(A, Acknowledge(every.mailbox, "", every.epoch, Position(1, 0)))
    servers.send(ANN)
    assert closed(servers, "*@debian.org") == closed(servers, "*@example.org") == (0, 0)
    assert closed(servers, "*") == (3, 3)
    assert other.mailbox != every.mailbox
    servers.restart(A)
    assert lost(servers, A) == 3
    servers.listen("*", at=A)
    assert closed(servers, "*") == (0, 0)


def test_of_several_subscriptions_the_slowest_counts_and_of_none_all(servers):
    first, second = servers.listen("*", "one", at=A), servers.listen("*", "two", at=A)
    servers.step(A, OpenMailbox(servers.ticket(), NodeId("*@a.x")))
    for _ in range(2):
        servers.send(STAFF)
    acknowledge(servers, first, "one")
    servers.step(A, Acknowledge(second.mailbox, "two", second.epoch, Position(1, 0)))
    assert closed(servers, "*") == (1, 1)
    assert closed(servers, "*@a.x") == (2, 2)


# -- what is refused


@pytest.mark.parametrize(
    ("pattern", "more", "says"),
    [
        ("*@b.x", {}, "not at home at the server a.x"),
        ("a*@a.x", {}, "the pattern of a gateway is * or *@SUBNET"),
        ("*", {"is_ephemeral": True}, "not ephemeral"),
    ],
)
def test_a_wrong_pattern_is_refused_and_says_why(servers, pattern, more, says):
    refused = servers.listen(pattern, at=A, **more)
    assert isinstance(refused, DeliveryRefused)
    assert refused.refusal.reason is Reason.INVALID_REQUEST
    assert says in refused.refusal.message
    assert len(servers.servers[A].delivery.mailboxes) == 0


def test_a_member_whose_name_has_an_asterisk_has_a_mailbox_as_anybody_has(servers):
    servers.join(STAFF, "a*@a.x")
    servers.listen("a*@a.x")
    servers.send(STAFF)
    assert servers.log_of("a*@a.x") == [b"hello"]


def test_a_server_has_so_many_gateways_and_says_which(servers):
    for number in range(GATEWAYS_LIMIT):
        servers.listen(f"*@d{number}.org", at=A)
    refused = servers.listen("*@d16.org", at=A)
    assert refused.refusal.reason is Reason.LIMIT_EXCEEDED
    assert "*@d15.org" in refused.refusal.message
    servers.step(A, CloseMailbox(servers.ticket(), NodeId("*@d3.org")))
    assert isinstance(servers.listen("*@d16.org", at=A), Subscribed)


@pytest.mark.parametrize("is_first", [True, False])
def test_the_patterns_of_own_subnets_have_places_besides(servers, is_first):
    own = ("*", "*@a.x")
    for pattern in own if is_first else ():
        servers.listen(pattern, at=A)
    for number in range(2 * GATEWAYS_LIMIT):
        servers.listen(f"*@d{number}.org", at=A)
    for pattern in own:
        assert isinstance(servers.listen(pattern, at=A), Subscribed)
    assert len(servers.servers[A].delivery.mailboxes.gateways) == GATEWAYS_LIMIT + len(own)


def test_a_pattern_is_no_target(servers):
    servers.listen("*@a.x")
    assert servers.send("*@a.x")[-1].refusal.reason is Reason.TARGET_NOT_FOUND


def test_datagrams_are_for_no_gateway(servers):
    servers.listen("*", at=A)
    servers.listen(ANN)
    servers.send_datagram(STAFF)
    assert list(servers.shown) == [ANN]


@pytest.mark.parametrize(
    ("pattern", "process", "expected"),
    [
        ("*", "ann@a.x", True),
        ("*@a.x", "ann@a.x", True),
        ("*@a.x", "ann@b.a.x", False),
        ("*@a.x", "ann@aa.x", False),
    ],
)
def test_a_pattern_serves_a_whole_subnet_and_nobody_else(pattern, process, expected):
    assert serves(pattern, process) == expected


def test_a_snapshot_has_its_mailbox_and_cursor_and_no_recipient(servers):
    servers.listen(ANN)
    begun = servers.listen("*", "mail", at=A)
    servers.send(STAFF)
    reading = servers.servers[A].message_snapshot()
    pieces = list(reading.read())
    _, rest = reading.finish()
    pieces += rest
    mailboxes = {row.process: row.mailbox.number for piece in pieces for row in piece.mailboxes}
    assert mailboxes == {ANN: 1, "*": begun.mailbox}
    assert (begun.mailbox, "mail") in [row[:2] for piece in pieces for row in piece.cursors]
    told = [row.mailboxes for piece in pieces for row in (*piece.audiences, *piece.reached)]
    assert [BitMap.deserialize(each) for each in told] == [BitMap([1])] * 2
