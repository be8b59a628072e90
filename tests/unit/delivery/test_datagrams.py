"""Datagrams: at most once, to who listens now, one copy a server, and nothing kept of them."""

import pytest

from delivery.model.events import DatagramCame, DatagramSent, DeliveryRefused
from delivery.model.words import DATAGRAM_BYTES_LIMIT, MessageContent, target_set
from delivery.volatile import datagrams
from delivery.wire.posts import Datagram, Onward, encode
from namegraph import NodeId, PeerFault, Reason, ServerId
from tests.unit.delivery.servers import Servers


@pytest.fixture
def servers():
    """Staff of a contains the lab of b, which contains the pool of c. Each has a listening member."""
    made = Servers("a", "b", "c")
    made.create("staff@a", "lab@b", "pool@c")
    made.join("pool@c", "cyd@c")
    made.join("lab@b", "bob@b")
    made.join("lab@b", "pool@c")
    made.join("staff@a", "ann@a")
    made.join("staff@a", "lab@b")
    for process in ("ann@a", "bob@b", "cyd@c"):
        made.listen(process)
    return made


def payloads(servers, process):
    return [datagram.message.payload for datagram in servers.shown.get(NodeId(process), ())]


def test_one_alone_reaches_everybody_who_listens_once_over_servers_that_are_found_only_then(servers):
    (sent,) = servers.send_datagram("staff@a")
    assert (sent.sent_to, sent.unknown) == (("b",), ())
    assert [payloads(servers, process) for process in ("ann@a", "bob@b", "cyd@c")] == [[b"hello"]] * 3
    assert {datagram.message_id for found in servers.shown.values() for datagram in found} == {sent.message_id}


def test_each_server_below_is_sent_one_copy_and_nothing_comes_back_once_they_are_known(servers):
    servers.send_datagram("staff@a")
    servers.datagrams_sent.clear()
    (sent,) = servers.send_datagram("staff@a", payload=b"second")
    assert sent.sent_to == ("b", "c")
    assert sorted(servers.datagrams_sent) == [("a", "b"), ("a", "c")]
    assert payloads(servers, "cyd@c") == [b"hello", b"second"]


def test_who_left_gets_nothing_and_its_server_is_sent_nothing_after_one_more(servers):
    servers.send_datagram("staff@a")
    servers.leave("lab@b", "pool@c")
    servers.send_datagram("staff@a")
    servers.datagrams_sent.clear()
    servers.send_datagram("staff@a")
    assert payloads(servers, "cyd@c") == [b"hello"]
    assert servers.datagrams_sent == [("a", "b")]


def test_nothing_of_it_is_durable_and_no_lane_has_it(servers):
    before = {server: disk.read() for server, disk in servers.disks.items()}
    servers.send_datagram("staff@a")
    assert {server: disk.read() for server, disk in servers.disks.items()} == before
    assert not any(disk.log for disk in servers.disks.values())


def test_what_is_lost_is_not_sent_again(servers):
    servers.send_datagram("staff@a")
    servers.send_datagram("staff@a", payload=b"lost", run=False)
    servers.under_way.clear()
    servers.run()
    servers.send_datagram("staff@a", payload=b"after")
    assert payloads(servers, "bob@b") == [b"hello", b"after"]
    # A report that is lost is made again.
    servers.restart(ServerId("a"))
    servers.run()
    servers.send_datagram("staff@a", payload=b"one", run=False)
    (first,) = servers.under_way
    servers.under_way.clear()
    servers.step(ServerId("b"), DatagramCame(ServerId("a"), first[2].encoded))
    servers.under_way.clear()
    servers.send_datagram("staff@a", payload=b"two")
    assert payloads(servers, "cyd@c") == [b"hello", b"after", b"two"]


def test_a_server_that_is_found_later_gets_the_newest_alone(servers):
    for payload in (b"1", b"2", b"3"):
        servers.send_datagram("staff@a", payload=payload, run=False)
    servers.run()
    assert payloads(servers, "bob@b") == [b"1", b"2", b"3"]
    assert payloads(servers, "cyd@c") == [b"3"]


def test_exceptions_and_several_targets_count(servers):
    servers.send_datagram("staff@a", "pool@c", excluding=["lab@b"])
    assert payloads(servers, "ann@a") == [b"hello"]
    assert not payloads(servers, "bob@b") and not payloads(servers, "cyd@c")
    servers.send_datagram("pool@c")
    assert payloads(servers, "cyd@c") == [b"hello"]


def test_ids_do_not_come_again_after_a_restart(servers):
    (before,) = servers.send_datagram("staff@a")
    servers.restart(ServerId("a"))
    servers.run()
    (after,) = servers.send_datagram("staff@a")
    assert before.message_id != after.message_id


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"payload": b"x" * (DATAGRAM_BYTES_LIMIT + 1)}, Reason.LIMIT_EXCEEDED),
        ({"wants_settled": True}, Reason.INVALID_REQUEST),
        ({"number": 1, "sender": "billing"}, Reason.INVALID_REQUEST),
        ({"request_id": "again"}, Reason.INVALID_REQUEST),
    ],
)
def test_what_no_datagram_has_is_refused(servers, facts, reason):
    (refused,) = servers.send_datagram("staff@a", **facts)
    assert isinstance(refused, DeliveryRefused) and refused.refusal.reason is reason
    (refused,) = servers.send_datagram("nobody@a")
    assert refused.refusal.reason is Reason.TARGET_NOT_FOUND


def test_it_is_sent_while_too_much_waits_for_servers_that_are_away(servers):
    servers.servers[ServerId("a")].delivery.origin.parcels.backlog_bytes = 2**40
    (sent,) = servers.send_datagram("staff@a")
    assert isinstance(sent, DatagramSent)


STAFF = target_set([NodeId("staff@a")])


@pytest.mark.parametrize(
    ("encoded", "fault"),
    [
        (b"garbage", PeerFault.UNREADABLE),
        (
            encode(
                Datagram(1, 1, (), MessageContent(b"")),
            ),
            PeerFault.UNREADABLE,
        ),
        (encode(Datagram(-1, 1, STAFF, MessageContent(b""))), PeerFault.UNREADABLE),
        (encode(Datagram(1, 1, STAFF, MessageContent(b"x" * (DATAGRAM_BYTES_LIMIT + 1)))), PeerFault.UNREADABLE),
        (encode(Datagram(1, 1, STAFF, MessageContent(b"not c's"))), PeerFault.NOT_ITS_TARGET),
        (encode(Onward(1, STAFF, (ServerId("b"),) * 10_001)), PeerFault.UNREADABLE),
    ],
)
def test_what_a_wrong_peer_sends_is_counted_and_dropped(servers, encoded, fault):
    effects = servers.step(ServerId("b"), DatagramCame(ServerId("c"), encoded))
    assert not effects.unkept and effects.records.is_empty()
    assert servers.servers[ServerId("b")].delivery.post.faults == {(ServerId("c"), fault): 1}


def test_a_report_of_who_was_not_sent_it_is_counted_and_dropped(servers):
    servers.send_datagram("staff@a", run=False)
    start = servers.servers[ServerId("a")].delivery.datagrams.start
    servers.step(ServerId("a"), DatagramCame(ServerId("c"), encode(Onward(start, STAFF, (ServerId("b"),)))))
    assert servers.servers[ServerId("a")].delivery.post.faults == {(ServerId("c"), PeerFault.NOT_OUR_PARCEL): 1}
    # One of before the last start says nothing.
    servers.step(ServerId("a"), DatagramCame(ServerId("c"), encode(Onward(start + 1, STAFF, (ServerId("b"),)))))
    assert sum(servers.servers[ServerId("a")].delivery.post.faults.values()) == 1


def test_a_report_may_come_when_its_server_is_below_no_more(servers):
    servers.send_datagram("staff@a", run=False)
    ((_, _, datagram),) = servers.under_way
    servers.under_way.clear()
    servers.step(ServerId("b"), DatagramCame(ServerId("a"), datagram.encoded))
    ((_, _, report),) = servers.under_way
    servers.under_way.clear()
    servers.leave("staff@a", "lab@b")
    servers.send_datagram("staff@a")
    servers.datagrams_sent.clear()
    servers.send_datagram("staff@a")
    assert not servers.datagrams_sent
    servers.step(ServerId("a"), DatagramCame(ServerId("b"), report.encoded))
    assert not servers.servers[ServerId("a")].delivery.post.faults


def test_what_is_known_of_target_sets_has_a_limit(servers, monkeypatch):
    monkeypatch.setattr(datagrams, "KEPT_BYTES_LIMIT", 5_000)
    kept = servers.servers[ServerId("a")].delivery.datagrams
    groups = [f"g{number}@a" for number in range(8)]
    servers.create(*groups)
    for group in [*groups, "staff@a"]:
        servers.send_datagram(group)
    assert len(kept._known) == 4
    # What was forgotten is learned again.
    servers.send_datagram("g0@a")
    servers.shown.clear()
    servers.send_datagram("staff@a", payload=b"x" * 6_000)
    assert len(kept._known) == 1 and payloads(servers, "cyd@c") == [b"x" * 6_000]
