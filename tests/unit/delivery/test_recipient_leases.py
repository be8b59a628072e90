"""A process that no server owns has mailboxes at several servers: each message comes to one of them, and to one."""

import pytest
from msgspec import structs
from pyroaring import BitMap

from delivery.arrival.recipient_claims import RecipientClaims, hash_of
from delivery.model.events import CloseMailbox, DropDeadLetters, ReplayDeadLetters, SetDelivery, Settled
from delivery.model.words import Kept
from delivery.origin.origin import MessageOrigin
from delivery.wire.posts import Claims, Confirm, Elsewhere, NotAPostError, decode, decode_stored, encode
from namegraph import Lane, NodeId, PeerFault, PeerMessage, Restored, Tick
from tests.unit.delivery.foreigners import (
    EVE,
    JOE,
    LEFT,
    RIGHT,
    TOP,
    A,
    B,
    C,
    all_got,
    at_rest,
    claims_and_answers,
    copies,
    got,
    holder_and_other,
    with_eve_at_two,
)


@pytest.fixture
def servers():
    return with_eve_at_two()


def test_each_message_comes_to_one_server_and_nothing_is_said_while_nothing_changes(servers):
    first, second = holder_and_other(servers)
    assert {type(post) for _, post in claims_and_answers(servers)} == {Claims, Elsewhere}
    servers.posted.clear()
    settled = servers.send(TOP, payload=b"2")[-1]
    assert isinstance(settled, Settled) and (settled.mailboxes, settled.servers) == (1, 1)
    servers.send(TOP, payload=b"3")
    assert claims_and_answers(servers) == []
    # The first message came late, after it was decided.
    assert got(servers, first) == ["1!", "2", "3"] and got(servers, second) == []
    assert copies(servers, b"3") == [first]
    assert at_rest(servers)


def test_a_server_that_alone_has_one_serves_that_one_from_the_second_message_on_as_it_comes(servers):
    servers.leave(RIGHT, EVE)
    servers.send(TOP, payload=b"1")
    servers.send(TOP, payload=b"2")
    assert got(servers, B) == ["1!", "2"]
    assert at_rest(servers)


def test_a_server_that_is_told_that_it_went_back_claims_anew_since_what_it_said_is_lost(servers):
    _, second = holder_and_other(servers)
    core = servers.servers[second]
    assert core.delivery.arrivals.foreign.origins() == {A}
    core.step(Restored(2**40), servers.now)
    assert core.delivery.arrivals.foreign.origins() == set()


def test_the_origin_itself_may_be_the_holder_or_leave_one_out(servers):
    servers.join(TOP, EVE)
    servers.listen(EVE, at=A)
    servers.send(TOP, payload=b"1")
    assert got(servers, A) == ["1"] and all_got(servers) == []
    servers.leave(TOP, EVE)
    servers.send(TOP, payload=b"2")
    assert [text.rstrip("!") for text in all_got(servers)] == ["2"]
    servers.join(TOP, EVE)
    servers.send(TOP, payload=b"3")
    # The origin serves whom it has itself, whoever served that one before.
    assert got(servers, A) == ["1", "3"] and [text.rstrip("!") for text in all_got(servers)] == ["2"]
    servers.leave(TOP, EVE)
    servers.send(TOP, payload=b"4")
    assert got(servers, A) == ["1", "3"] and [text.rstrip("!") for text in all_got(servers)] == ["2", "4"]
    assert at_rest(servers)


@pytest.mark.parametrize("liar", [B, C])
def test_one_whom_the_origin_has_itself_is_served_there_whatever_others_have_claimed_before(servers, liar):
    servers.leave(RIGHT if liar == B else LEFT, EVE)
    servers.send(TOP, payload=b"1")
    assert [text.rstrip("!") for text in got(servers, liar)] == ["1"]
    servers.join(TOP, EVE)
    servers.listen(EVE, at=A)
    for payload in (b"2", b"3"):
        assert isinstance(servers.send(TOP, payload=payload)[-1], Settled)
    assert got(servers, A) == ["2", "3"]
    assert len(got(servers, liar)) == 1
    # The one that served her before is out of reach, and back.
    servers.lose(liar)
    servers.send(TOP, payload=b"4")
    servers.bring_back(liar)
    servers.send(TOP, payload=b"5")
    assert got(servers, A) == ["2", "3", "4", "5"]
    assert len(got(servers, liar)) == 1


def test_a_server_that_is_not_believed_keeps_nobody_from_others_and_serves_whom_it_has(servers):
    servers.servers[A].delivery.dedupe_with([C])
    for payload in (b"1", b"2", b"3"):
        assert isinstance(servers.send(TOP, payload=payload)[-1], Settled)
    assert [[text.rstrip("!") for text in got(servers, server)] for server in (B, C)] == [["1", "2", "3"]] * 2
    assert at_rest(servers)


def test_servers_that_are_believed_share_whom_they_have(servers):
    servers.servers[A].delivery.dedupe_with([B, C])
    for payload in (b"1", b"2", b"3"):
        servers.send(TOP, payload=payload)
    assert [text.rstrip("!") for text in all_got(servers)] == ["1", "2", "3"]


def test_an_origin_that_is_not_believed_keeps_nobody_from_whoever_has_them(servers):
    _, second = holder_and_other(servers)
    servers.servers[second].delivery.dedupe_with([])
    # The server looks anew at whom it serves once it is told something.
    servers.restart(A)
    for payload in (b"2", b"3"):
        servers.send(TOP, payload=payload)
    assert [text.rstrip("!") for text in got(servers, second)][-2:] == ["2", "3"]


def test_whom_a_message_excepts_is_not_claimed(servers):
    servers.send(TOP, payload=b"1", excluding=[LEFT, RIGHT])
    assert claims_and_answers(servers) == [] and all_got(servers) == []
    servers.send(TOP, payload=b"2")
    assert [text.rstrip("!") for text in all_got(servers)] == ["2"]


def with_gateways(servers):
    """Gateways take the place of mailboxes."""
    for server in (B, C):
        servers.step(server, CloseMailbox(servers.ticket(), NodeId(EVE)))
        servers.listen("*", at=server)


def served_by_gateways(servers, server):
    """Return the foreign processes for which a server has messages in its log, with the payloads."""
    core, log = servers.servers[server].delivery, servers.disks[server].log
    numbers = {core.gateways.number_of(NodeId(name)): name for name in (EVE, JOE)}
    return [
        (numbers[number], decode_stored(record.encoded).messages[0].payload)
        for _, record in sorted(log.items())
        for number in core.audiences.bitmap(record.audience)
        if number in numbers
    ]


def test_whom_gateways_serve_is_served_by_one_of_them(servers):
    with_gateways(servers)
    servers.join(LEFT, JOE)
    for payload in (b"1", b"2"):
        servers.send(TOP, payload=payload)
    served = [each for server in (B, C) for each in served_by_gateways(servers, server)]
    assert sorted(served) == [(EVE, b"1"), (EVE, b"2"), (JOE, b"1"), (JOE, b"2")]


def test_where_a_gateway_is_closed_another_serves_at_once_though_entries_of_the_log_are_for_its_recipients(servers):
    with_gateways(servers)
    servers.send(TOP, payload=b"1")
    holder, other = (B, C) if served_by_gateways(servers, B) else (C, B)
    # She keeps her number while an entry has it, and a mailbox keeps the entry.
    servers.join(LEFT if holder == B else RIGHT, reader := f"reader@{holder}")
    servers.listen(reader, at=holder)
    servers.send(TOP, payload=b"2")
    servers.step(holder, CloseMailbox(servers.ticket(), NodeId("*")))
    servers.send(TOP, payload=b"3")
    assert (EVE, b"2") in served_by_gateways(servers, holder)
    assert served_by_gateways(servers, other) == [(EVE, b"3")]
    assert at_rest(servers)


def test_servers_of_before_serve_whom_they_have(servers, monkeypatch):
    """They say nothing of it, and neither wait nor are waited for."""
    new = MessageOrigin.close
    monkeypatch.setattr(
        MessageOrigin,
        "close",
        lambda origin, **view: (
            (structs.replace(parcel, assigner=0), waiting) for parcel, waiting in new(origin, **view)
        ),
    )
    servers.send(TOP, payload=b"1")
    assert all_got(servers) == ["1", "1"] and claims_and_answers(servers) == []
    assert at_rest(servers)


def test_what_is_kept_in_memory_comes_to_one_server_too(servers):
    servers.step(A, SetDelivery(servers.ticket(), NodeId(TOP), kept=Kept.MEMORY))
    for payload in (b"1", b"2"):
        servers.step(A, servers.new_send(TOP, payload=payload))
        servers.run()
    rings = [servers.servers[server].delivery.in_memory for server in (B, C)]
    entries = [
        decode_stored(record.encoded).messages[0].payload for ring in rings for record in ring.ring.records.values()
    ]
    assert entries == [b"1", b"2"]


def test_a_server_claims_nobody_of_a_sequence_that_is_none(servers):
    claims = Claims(1, servers.servers[A].delivery.origin.start, 1, (1, 1), True, b"x" * 16, b"")
    servers.step(A, PeerMessage(B, 1, encode(claims), Lane.POST))
    assert servers.servers[A].delivery.post.faults == {(B, PeerFault.NOT_OUR_PARCEL): 1}


@pytest.mark.parametrize(
    "wrong",
    [
        Claims(1, 1, 1, (1, 1), True, b"odd", b""),
        Claims(1, 1, 1, (-1, 1), True, b"", b""),
        Claims(1, 1, 1, (1, 1), True, b"", b"x" * 320_016),
        Elsewhere(1, 1, 1, -1, (1, 1)),
        Confirm(1, 1, 1, 1, (), assigner=-1),
    ],
)
def test_what_no_server_says_is_no_post(wrong):
    with pytest.raises(NotAPostError):
        decode(encode(wrong))


def test_a_name_is_told_as_a_hash_that_two_servers_tell_alike():
    name = NodeId(EVE)
    assert hash_of(name, A) == hash_of(name, A) != hash_of(NodeId(JOE), A)
    assert hash_of(name, A) != hash_of(name, B) and name.encode() not in hash_of(name, A)


def test_a_stranger_claims_nobody(servers):
    """A server that is not below, and was posted nothing, would be posted everything."""
    servers.leave(TOP, RIGHT)
    servers.send(TOP, payload=b"1")
    core = servers.servers[A].delivery
    claims = Claims(1, core.origin.start, 1, (1, 1), True, hash_of(NodeId(EVE), A), b"")
    servers.step(A, PeerMessage(C, core.post.handled_through(C) + 1, encode(claims), Lane.POST))
    assert core.post.faults == {(C, PeerFault.NOT_OUR_PARCEL): 1}
    servers.send(TOP, payload=b"2")
    assert copies(servers, b"2") == [B] and got(servers, B) == ["1!", "2"]


def test_many_are_claimed_in_several_posts(servers, monkeypatch):
    for module in ("arrival.recipient_claims", "spreading.recipient_leases"):
        monkeypatch.setattr(f"delivery.{module}.HASHES_LIMIT", 1)
    for group, server in ((LEFT, B), (RIGHT, C)):
        servers.join(group, JOE)
        servers.listen(JOE, at=server)
    servers.posted.clear()
    for payload in (b"1", b"2"):
        servers.send(TOP, payload=payload)
    assert sum(isinstance(post, Claims) for _, post in claims_and_answers(servers)) == 4
    for process in (EVE, JOE):
        assert [text.rstrip("!") for text in all_got(servers, process)] == ["1", "2"]
    assert at_rest(servers)


def test_whoever_is_beyond_the_limit_of_claims_is_served_by_each_server(servers):
    servers.servers[A].delivery.spreading._assigning.claimed_limit = 0
    servers.send(TOP, payload=b"1")
    assert all_got(servers) == ["1!", "1!"]
    assert at_rest(servers)


def test_a_server_of_before_serves_whom_it_has_beside_newer_ones(servers, monkeypatch):
    """It claims nobody, and nobody waits for it."""
    new = RecipientClaims.left_out
    older = servers.servers[B].delivery.arrivals.foreign
    monkeypatch.setattr(
        RecipientClaims, "left_out", lambda foreign, *of: BitMap() if foreign is older else new(foreign, *of)
    )
    for payload in (b"1", b"2"):
        servers.send(TOP, payload=payload)
    assert got(servers, B) == ["1", "2"] and got(servers, C) == ["1!", "2"]
    assert at_rest(servers)


@pytest.mark.parametrize("is_replayed", [True, False])
def test_who_was_left_out_until_a_message_expired_gets_it_when_it_is_replayed(servers, is_replayed):
    """The server had served its own member, and does not do so again; nor does it remember that for ever."""
    ann = "ann@b.x"
    servers.join(LEFT, ann)
    servers.listen(ann)
    servers.leave(RIGHT, EVE)
    step = servers.step

    def until_it_has_answered(server, event):
        """The message is there; what is said of her is not."""
        if isinstance(event, PeerMessage) and event.sender == B and event.lane is Lane.POST:
            servers.held_posts = {(A, B)}
        return step(server, event)

    servers.step = until_it_has_answered
    servers.send(TOP, payload=b"1")
    assert servers.log_of(ann) == [b"1"] and got(servers, B) == []
    core = servers.servers[A].delivery
    core.giving_up.limit_seconds = -1.0
    servers.step(A, Tick())
    assert len(core.dead_letters) == 1
    servers.step = step
    servers.held_posts = set()
    core.giving_up.limit_seconds = 1e9
    servers.restart(B)
    kind = ReplayDeadLetters if is_replayed else DropDeadLetters
    servers.step(A, kind(servers.ticket(), None))
    servers.run()
    assert servers.log_of(ann) == [b"1"] and len(core.dead_letters) == 0
    assert got(servers, B) == ["1!"] * is_replayed
    assert at_rest(servers)
