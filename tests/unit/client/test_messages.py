"""Sending and listening by both clients: streams that break, refusals, takeovers, windows."""

import asyncio
import itertools
import re
import threading

import grpc
import pytest

import shadowtree
from namegraph.model.refusals import Reason, Refusal
from nameserver.deliveries import dead_letter_calls, message_wire
from shadowtree.client.messages import listening, sending
from shadowtree.v1 import delivery_pb2
from tests.fakes.awaited_client import AwaitedClient
from tests.fakes.call_relay import answering, breaking, changing, losing_answers, unknown
from tests.integration.nameserver.server_process import wait_until
from tests.server_in_thread import ServerInThread
from tests.unit.message_scene import (
    ANN,
    BOB,
    CY,
    FAR,
    GRAPH,
    LAB,
    STAFF,
    refused,
    sent_messages,
    staff_on_two_servers,
)


@pytest.fixture(params=[shadowtree.Client, AwaitedClient], ids=["sync", "async"])
def make_client(request):
    return request.param


@pytest.fixture
def server():
    """Messages are kept for ann."""
    with ServerInThread("x.example", "y.example") as found:
        found.fill(arcs=GRAPH)
        with shadowtree.Client(found.address) as names:
            names.open_mailbox(ANN)
        yield found


@pytest.fixture
def names(make_client, server):
    with make_client(server.relay.address) as client:
        yield client


@pytest.fixture
def both():
    with staff_on_two_servers() as found:
        yield found


def payloads(server):
    """Return the payloads of all messages that the server keeps, in order."""
    return [message.payload for message in server.messages]


FULL = refused(Refusal(Reason.BACKLOG_FULL, "too much", {}))


def accepted_at_least(count):
    """Break a stream of a sender once so many messages, or questions for a number, are answered."""
    return breaking(lambda answers: max(one.through or one.message for one in answers[-1].answers) >= count)


def messages_of(answers):
    return [message for answer in answers for one in (answer, *answer.more) for message in one.messages]


def handed_out(count):
    """Break a stream of a listener once it would hand out more than so many messages."""
    return breaking(lambda answers: len(messages_of(answers)) > count)


def position_of(names, process=ANN, subscription=""):
    (mailbox,) = [mailbox for mailbox in names.mailboxes() if mailbox.process == process]
    (found,) = [one for one in mailbox if one.name == subscription]
    return found.position


def numbers(count):
    return [b"%d" % number for number in range(count)]


def test_a_message_is_queued_where_its_home_is_away_and_that_is_asked_for(make_client, both):
    server, other = both
    other.end()
    with make_client(server.address) as names:
        sent = names.send(FAR, b"hello", queue=True)
        assert sent == shadowtree.Sent("", "queued", pending=("y.example",)) and not sent.is_settled_everywhere
        with pytest.raises(shadowtree.Unavailable):
            names.send(FAR, b"hello")
        with pytest.raises(shadowtree.InvalidRequest, match="a datagram is not queued"):
            names.send(FAR, b"hello", quality="datagram", queue=True)


def test_a_message_reaches_everybody_below_less_the_exceptions(names, server):
    names.open_mailbox(ANN)
    names.open_mailbox(BOB)
    sent = names.send(STAFF, b"hello", wait="settled", headers={"kind": "note"})
    assert sent == shadowtree.Sent(sent.id, "settled", mailboxes=2, servers=1)
    assert sent.id.startswith("1@staff@x.example#")
    assert sent.is_settled_everywhere
    assert names.send([STAFF, LAB], b"less", excluding=[LAB], wait="settled").mailboxes == 1
    (request, less) = sent_messages(server.relay)
    assert [(header.name, header.value) for header in request.headers] == [("kind", "note")]
    assert ([target.name for target in less.targets], list(less.excluding)) == ([STAFF, LAB], [LAB])


def test_one_message_takes_no_stream_unless_it_is_told_twice_what_became_of_it(names, server):
    assert names.send(STAFF, b"a").state == "accepted"
    assert names.send(STAFF, b"b", quality="datagram").state == "accepted"
    assert names.send(STAFF, b"c", wait="settled").state == "settled"
    assert server.relay.names == ["SendOne", "SendOne", "Send"]


def test_a_server_of_before_is_sent_one_message_by_a_stream(names, server):
    server.relay.set(unknown, "SendOne")
    sent = [names.send(STAFF, payload, timeout=30).id for payload in numbers(3)]
    assert [each.partition("#")[0] for each in sent] == [f"{serial}@staff@x.example" for serial in (1, 2, 3)]
    assert names.send(STAFF, b"tick", quality="datagram").quality == "datagram"
    assert payloads(server) == [b"0", b"1", b"2"]
    assert server.relay.counts["Send"] == 4


def test_a_deadline_and_the_quality_that_there_is_are_passed_on(names, server):
    names.send(STAFF, b"")
    names.send(STAFF, b"", quality="fifo", deadline=1.5)
    assert [(one.quality, one.deadline_ms) for one in sent_messages(server.relay)] == [
        (delivery_pb2.QUALITY_UNSPECIFIED, 0),
        (delivery_pb2.QUALITY_FIFO, 1500),
    ]


def test_a_quality_that_is_not_there_is_refused_by_its_name(names, server):
    with pytest.raises(shadowtree.InvalidRequest, match="quality must be one of fifo, datagram, not 'total'"):
        names.send(STAFF, b"", quality="total")
    assert server.relay.calls == []


def test_a_datagram_has_no_request_id_and_is_not_sent_again_where_it_may_have_been_sent(names, server):
    assert names.send(STAFF, b"tick", quality="datagram").state == "accepted"
    server.relay.set(losing_answers, "SendOne")
    with pytest.raises(shadowtree.OutcomeUnknown, match="whether the datagram was sent"):
        names.send(STAFF, b"tock", quality="datagram", timeout=30)
    assert [(one.payload, one.quality, one.request_id) for one in sent_messages(server.relay)] == [
        (payload, delivery_pb2.QUALITY_DATAGRAM, "") for payload in (b"tick", b"tock")
    ]


def test_to_a_group_that_takes_datagrams_a_message_is_sent_once_as_one_and_not_again(names, server):
    assert names.set_delivery(STAFF, quality="datagram") == shadowtree.Delivery(STAFF, "datagram", "anyone")
    sent = names.send(STAFF, b"tick")
    assert (sent.state, sent.quality) == ("accepted", "datagram")
    # Where the refusal is lost, nothing was sent.
    server.relay.set(losing_answers, "SendOne", times=1)
    assert names.send(STAFF, b"tack", timeout=30).quality == "datagram"
    server.relay.set(losing_datagrams, "SendOne")
    with pytest.raises(shadowtree.OutcomeUnknown, match="whether the datagram was sent"):
        names.send(STAFF, b"tock", timeout=30)
    datagrams = [one for one in sent_messages(server.relay) if one.quality == delivery_pb2.QUALITY_DATAGRAM]
    assert [(one.payload, one.request_id) for one in datagrams] == [(b"tick", ""), (b"tack", ""), (b"tock", "")]
    assert server.messages == []


async def losing_datagrams(call):
    """Lose the answer to each datagram."""
    async for answer in call.answers():
        if call.requests[0].messages[0].quality == delivery_pb2.QUALITY_DATAGRAM:
            await call.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        await call.write(answer)


@pytest.mark.parametrize("more", [{"quality": "fifo"}, {"wait": "settled"}, {"request_id": "r"}, {"queue": True}])
def test_who_asks_a_group_that_takes_datagrams_for_more_is_refused(names, server, more):
    names.set_delivery(STAFF, quality="datagram")
    with pytest.raises(shadowtree.TakesDatagrams, match=STAFF) as caught:
        names.send(STAFF, b"tick", **more)
    assert caught.value.facts["group"] == STAFF
    with pytest.raises(shadowtree.TakesDatagrams), names.sender("billing") as out:
        out.send(STAFF, b"tick")
    assert server.messages == []


def test_a_datagram_has_no_number(names, server):
    with names.sender("billing") as out, pytest.raises(shadowtree.InvalidRequest, match="a datagram has no number"):
        out.send(STAFF, b"", quality="datagram")
    assert server.relay.calls == []


def test_a_listener_is_told_which_messages_are_datagrams_and_goes_on_behind_others(names):
    names.open_mailbox(ANN)
    names.send(STAFF, b"kept")
    with names.listen(ANN) as messages:
        first = next(messages)
        names.send(STAFF, b"tick", quality="datagram")
        second = next(messages)
        second.acknowledge()
    assert [(one.payload, one.quality) for one in (first, second)] == [(b"kept", "fifo"), (b"tick", "datagram")]
    assert first.position and not second.position
    assert heard(names, 1)[0].payload == b"kept"


def test_nobody_listens_for_a_group_without_an_archive(names):
    with pytest.raises(shadowtree.MailboxNotFound, match=f"{STAFF} has no mailbox"):
        next(iter(names.listen(STAFF)))


def test_a_message_whose_answer_was_lost_is_sent_again_and_accepted_once(names, server):
    server.relay.set(losing_answers, "SendOne", times=1)
    assert names.send(STAFF, b"once", timeout=30).state == "accepted"
    assert payloads(server) == [b"once"]
    assert server.relay.names == ["SendOne"] * 2


def test_a_request_id_makes_a_repeated_message_harmless(names, server):
    first = names.send(STAFF, b"once", request_id="mine")
    assert names.send(STAFF, b"once", request_id="mine") == first
    assert payloads(server) == [b"once"]


def test_who_waits_for_more_than_comes_is_told_how_far_it_came(make_client, both):
    server, other = both
    other.end()
    with make_client(server.relay.address) as names:
        sent = names.send(STAFF, b"one", wait="settled")
        assert (sent.state, sent.pending, sent.is_settled_everywhere) == ("settled", ("y.example",), False)
        # The second answer would tell that it is settled.
        server.relay.set(breaking(lambda answers: len(answers) > 1), "Send")
        sent = names.send(STAFF, b"two", wait="settled", timeout=0.5)
    assert (sent.state, sent.id.partition("#")[0]) == ("accepted", "2@staff@x.example")
    assert payloads(server) == [b"one", b"two"]


def test_a_refused_message_is_an_error_of_its_own_class_with_the_facts(names):
    with pytest.raises(shadowtree.TargetNotFound) as caught:
        names.send("nobody@x.example", b"")
    assert caught.value.facts == {"target": "nobody@x.example", "server": "x.example"}
    with pytest.raises(shadowtree.InvalidName):
        names.send("no name", b"")


def test_a_lost_answer_and_then_a_server_out_of_reach_leave_the_outcome_unknown(names, server):
    server.relay.set(losing_answers, "SendOne", times=1)
    server.relay.set(refused(Refusal(Reason.UNAVAILABLE, "gone", {"unreachable": LAB})), "SendOne")
    with pytest.raises(shadowtree.OutcomeUnknown) as caught:
        names.send(LAB, b"maybe", request_id="mine", timeout=30)
    assert caught.value.facts["request_id"] == "mine"


@pytest.mark.parametrize(
    "send",
    [
        lambda names: names.send(5, b""),
        lambda names: names.send([], b""),
        lambda names: names.send([5], b""),
        lambda names: names.send(STAFF, "text"),
        lambda names: names.send(STAFF, None),
        lambda names: names.send(STAFF, b"", headers=[("a", "b")]),
        lambda names: names.send(STAFF, b"", headers={"a": 5}),
        lambda names: names.send(STAFF, b"", excluding=LAB),
        lambda names: names.send(STAFF, b"", wait="done"),
        lambda names: names.send(STAFF, b"", deadline="soon"),
        lambda names: names.send(STAFF, b"", deadline=0),
        lambda names: names.send(STAFF, b"", deadline=float("nan")),
        lambda names: names.open_mailbox(5),
    ],
)
def test_values_of_a_wrong_type_are_refused_in_one_line_before_anything_is_sent(make_client, send):
    with make_client("127.0.0.1:1") as names, pytest.raises(shadowtree.InvalidRequest) as caught:
        send(names)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("begin", [lambda names: names.sender(""), lambda names: names.sender(7)])
def test_a_sender_has_an_id(make_client, begin):
    with make_client("127.0.0.1:1") as names, pytest.raises(shadowtree.InvalidRequest):
        begin(names)


@pytest.mark.parametrize(
    "options",
    [
        {"from_": 5},
        {"subscription": 5},
        {"from_": None},
        {"from_": ""},
        {"ephemeral": True, "subscription": "desk"},
        {"ephemeral": True, "from_": "12"},
        {"groups": STAFF},
        {"senders": 5},
        {"senders": [5]},
    ],
)
def test_a_listener_says_for_whom_and_from_where(options, make_client):
    with make_client("127.0.0.1:1") as names, pytest.raises(shadowtree.InvalidRequest):
        names.listen(ANN, **options)


def test_a_payload_that_no_server_takes_is_refused_before_it_is_sent(names, server):
    with pytest.raises(shadowtree.LimitExceeded, match="1048576"):
        names.send(STAFF, bytes(1024 * 1024 + 1))
    assert server.relay.calls == []


# -- senders


def test_a_sender_sends_in_order_without_waiting_for_each(names, server):
    with names.sender("billing") as out:
        for payload in numbers(1_200):
            out.send(STAFF, payload)
    assert payloads(server) == numbers(1_200)
    assert [message.number for message in sent_messages(server.relay)] == [*range(1, 1_201)]
    assert {message.sender for message in sent_messages(server.relay)} == {"billing"}
    assert max(len(request.messages) for request in server.relay.requests("Send")) > 1
    assert server.relay.names == ["Send"]


def test_messages_to_each_first_target_are_numbered_from_1(names, server):
    with names.sender("billing") as out:
        for payload in numbers(6):
            out.send([LAB, STAFF] if int(payload) % 2 else STAFF, payload)
    assert sorted((message.targets[0].name, message.number) for message in sent_messages(server.relay)) == [
        (target, number) for target in (LAB, STAFF) for number in (1, 2, 3)
    ]


def test_a_sender_that_begins_again_goes_on_with_the_next_number(names, server):
    for begin in (0, 5):
        with names.sender("billing") as out:
            assert out.next_number(STAFF) == begin + 1
            for payload in numbers(10)[begin : begin + 5]:
                out.send(STAFF, payload)
            assert out.next_number(STAFF) == begin + 6
    assert payloads(server) == numbers(10)


@pytest.mark.parametrize("after", [1, 2, 150, 700])
def test_whatever_breaks_each_message_of_a_sender_is_accepted_once_in_order(names, server, after):
    server.relay.set(accepted_at_least(after), "Send", times=1)
    with names.sender("billing") as out:
        for payload in numbers(1_000):
            out.send(STAFF, payload)
    assert payloads(server) == numbers(1_000)
    assert server.relay.counts["Send"] == 2


def test_a_flush_returns_once_all_is_accepted(names, server):
    with names.sender("billing") as out:
        for payload in numbers(20):
            out.send(STAFF, payload)
        out.flush()
        assert payloads(server) == numbers(20)
        out.flush()
        out.send(STAFF, b"20")
    assert payloads(server) == numbers(21)


def test_a_sender_that_was_silent_while_its_server_was_started_again_goes_on(make_client, server):
    with make_client(server.address) as names, names.sender("billing") as out:
        out.send(STAFF, b"0")
        out.flush()
        server.kill()
        server.start()
        out.send(STAFF, b"1")
        out.flush()
        assert payloads(server) == numbers(2)


def test_a_refusal_ends_a_sender_and_nothing_after_that_message_is_accepted(names, server):
    out = names.sender("billing")
    out.send(STAFF, b"0")
    out.flush()
    out.send("nobody@x.example", b"1")
    with pytest.raises(shadowtree.TargetNotFound) as caught:
        out.flush()
    assert (caught.value.facts["target"], caught.value.facts["number"]) == ("nobody@x.example", "1")
    with pytest.raises(shadowtree.TargetNotFound):
        out.send(STAFF, b"2")
    with pytest.raises(shadowtree.TargetNotFound):
        out.close()
    assert payloads(server) == [b"0"]


def test_a_full_backlog_is_waited_for(names, server):
    server.relay.set(FULL, "Send", times=2)
    with names.sender("billing") as out:
        for payload in numbers(5):
            out.send(STAFF, payload)
    assert payloads(server) == numbers(5)
    assert server.relay.counts["Send"] == 3


def test_a_home_that_is_out_of_reach_for_a_while_is_waited_for_once_the_sender_has_worked(make_client, both):
    server, home = both
    with make_client(server.address, on_wait=once(home.start)) as names, names.sender("billing") as out:
        out.send(FAR, b"0")
        out.flush()
        home.end()
        for payload in numbers(3)[1:]:
            out.send(FAR, payload)
    assert payloads(home) == numbers(3)


def once(act):
    """Return a function that acts when it is called for the first time."""
    acts = iter([act])
    return lambda _: next(acts, lambda: None)()


def test_a_home_that_is_out_of_reach_from_the_first_is_told_at_once(make_client, both):
    server, home = both
    home.end()
    with (
        make_client(server.address) as names,
        pytest.raises(shadowtree.Unavailable, match="out of reach"),
        names.sender("billing") as out,
    ):
        out.send(FAR, b"0")
    assert payloads(home) == []


def test_a_number_that_is_asked_while_the_home_is_out_of_reach_is_an_error_or_waited_for(make_client, both):
    server, home = both
    home.end()
    with make_client(server.address, on_wait=once(home.start)) as names:
        with pytest.raises(shadowtree.Unavailable, match="out of reach"), names.sender("billing") as out:
            out.next_number(FAR)
        with names.sender("billing") as out:
            assert out.next_number(STAFF) == 1
            assert out.next_number(FAR) == 1


def test_two_senders_of_one_id_are_noticed(names, server):
    out = names.sender("billing")
    out.send(STAFF, b"0")
    out.flush()
    with shadowtree.Client(server.address) as others, others.sender("billing") as other:
        for payload in numbers(7)[1:]:
            other.send(STAFF, payload)
    out.send(STAFF, b"1")
    with pytest.raises(shadowtree.OutOfSequence) as caught:
        out.close()
    assert caught.value.facts["expected"] == "8"


def test_an_exception_in_the_block_of_a_sender_gives_up_the_rest_and_is_raised(names):
    def send_and_fail():
        with names.sender("billing") as out:
            out.send("nobody@x.example", b"0")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        send_and_fail()


def test_a_sender_that_is_closed_takes_nothing_more(names):
    with names.sender("billing") as out:
        out.send(STAFF, b"0")
    for ask in (lambda: out.send(STAFF, b"1"), lambda: out.next_number(STAFF)):
        with pytest.raises(shadowtree.ClientClosed):
            ask()


def test_a_sender_that_was_never_used_opens_no_stream(names, server):
    with names.sender("billing"):
        pass
    assert server.relay.calls == []


def test_the_time_of_a_sender_is_that_of_all_it_does(names, server):
    server.relay.set(FULL, "Send")
    with pytest.raises(shadowtree.ShadowtreeError), names.sender("billing", timeout=0.3) as out:
        out.send(STAFF, b"0")


def test_a_sender_takes_no_more_than_its_window_ahead_of_the_answers():
    messages = sending.NumberedMessages("billing")
    taken = 0
    while messages.has_room:
        messages.add(sending.message_request(STAFF, b"x"))
        taken += 1
    assert taken == sending.WINDOW_MESSAGES
    messages = sending.NumberedMessages("billing")
    messages.add(sending.message_request(STAFF, bytes(1024 * 1024)))
    assert messages.has_room
    for _ in range(3):
        messages.add(sending.message_request(STAFF, bytes(1024 * 1024)))
    assert not messages.has_room


def test_the_window_of_a_sender_is_the_same_after_many_messages():
    messages = sending.NumberedMessages("billing")
    messages.begin_stream()
    messages.ask(STAFF)
    answers = delivery_pb2.SendResponse
    for answered in range(1, 1_000):
        messages.due()
        messages.read(answers(answers=[answers.Answer(message=answered, next_number=1)]))
        messages.add(sending.message_request(STAFF, b"x"))
    messages.due()
    messages.read(answers(answers=[answers.Answer(message=1_000)]))
    assert messages.unanswered == 0
    for _ in range(4):
        messages.add(sending.message_request(STAFF, bytes(1024 * 1024)))
    assert not messages.has_room


def stream_of(*, waiting):
    """Return a sender whose next number is known, with `waiting` messages that are not acknowledged."""
    messages, answers = sending.NumberedMessages("billing"), delivery_pb2.SendResponse
    messages.begin_stream()
    messages.ask(STAFF)
    messages.due()
    messages.read(answers(answers=[answers.Answer(message=1, next_number=1)]))
    for _ in range(waiting):
        messages.add(sending.message_request(STAFF, b"x"))
    return messages, answers


def test_one_answer_accepts_several_messages_of_a_sender():
    messages, answers = stream_of(waiting=10)
    assert messages.due().takes_runs
    messages.read(answers(answers=[answers.Answer(message=2, through=5), answers.Answer(message=6)]))
    assert messages.unanswered == 5
    messages.read(answers(answers=[answers.Answer(message=7, through=11)]))
    assert messages.unanswered == 0
    assert messages.next_number(STAFF) == 11


def test_an_answer_to_more_than_was_sent_is_a_fault_of_the_server():
    messages, answers = stream_of(waiting=2)
    messages.due()
    with pytest.raises(shadowtree.ServerFault):
        messages.read(answers(answers=[answers.Answer(message=2, through=4)]))


def test_what_a_sender_says_waits_for_more_only_while_something_is_under_way_and_a_request_is_not_full():
    messages, answers = stream_of(waiting=1)
    assert messages.is_enough
    messages.due()
    messages.add(sending.message_request(STAFF, b"x"))
    assert messages.is_due
    assert not messages.is_enough
    messages.read(answers(answers=[answers.Answer(message=2)]))
    assert messages.is_enough
    messages.due()
    for _ in range(sending.REQUEST_MESSAGES):
        assert not messages.is_enough
        messages.add(sending.message_request(STAFF, b"x"))
    assert messages.is_enough
    messages, _ = stream_of(waiting=1)
    messages.due()
    messages.add(sending.message_request(STAFF, bytes(sending.REQUEST_BYTES)))
    assert messages.is_enough


# -- listeners


def heard(names, count, **options):
    """Return the first messages of a listener, which then leaves."""
    return [*itertools.islice(names.listen(ANN, **options), count)]


def test_a_listener_gets_what_its_mailbox_has_in_order(names):
    names.open_mailbox(ANN)
    for payload in numbers(3):
        names.send(STAFF, payload, headers={"n": payload.decode()})
    messages = heard(names, 3)
    assert [message.payload for message in messages] == numbers(3)
    first = messages[0]
    assert (first.group, first.sender, first.headers, first.late, first.place, first.gap) == (
        STAFF,
        "",
        {"n": "0"},
        False,
        "",
        0,
    )
    assert first.id.startswith("1@staff@x.example#")
    assert len({message.position for message in messages}) == 3
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first.sent_at)


def test_what_is_acknowledged_does_not_come_again_and_the_rest_does(names):
    names.open_mailbox(ANN)
    for payload in numbers(5):
        names.send(STAFF, payload)
    messages = heard(names, 4)
    with names.listen(ANN) as again:
        found = next(again)
        assert found.payload == b"0"
        next(again).acknowledge()
        next(again)
    assert [message.payload for message in heard(names, 3)] == numbers(5)[2:]
    assert len(messages) == 4


def test_a_position_that_the_listener_stored_itself_is_where_it_goes_on(names):
    names.open_mailbox(ANN)
    for payload in numbers(5):
        names.send(STAFF, payload)
    stored = heard(names, 3)[2].position
    assert [message.payload for message in heard(names, 2, from_=stored)] == numbers(5)[3:]
    assert [message.payload for message in heard(names, 2)] == numbers(5)[3:]


def test_a_subscription_of_its_own_begins_where_it_is_told(names):
    names.open_mailbox(ANN)
    names.send(STAFF, b"before")
    with names.listen(ANN, subscription="desk", from_="now") as desk:
        names.send(STAFF, b"after")
        assert next(desk).payload == b"after"
    assert heard(names, 1, subscription="other", from_="start")[0].payload == b"before"
    (mailbox,) = names.mailboxes()
    assert sorted(one.name for one in mailbox) == ["desk", "other"]


MANY = listening.CREDIT_MESSAGES + 100
"""More messages than a listener has room for."""


def send_all(server, several):
    with shadowtree.Client(server.address) as others, others.sender("billing") as out:
        for payload in several:
            out.send(STAFF, payload)


@pytest.mark.parametrize("after", [1, 2, 50, 700])
def test_a_listener_goes_on_after_what_it_handed_out_last(names, server, after):
    send_all(server, numbers(MANY))
    server.relay.set(handed_out(after), "Subscribe", times=1)
    assert [message.payload for message in heard(names, MANY)] == numbers(MANY)


def test_a_listener_from_now_on_loses_nothing_where_its_stream_breaks_before_anything_came(make_client, server):
    with make_client(server.address) as names, names.listen(ANN, from_="now") as messages:
        server.kill()
        server.start()
        with make_client(server.address) as others:
            others.send(STAFF, b"meanwhile")
        assert next(messages).payload == b"meanwhile"


def test_a_listener_may_want_some_groups_and_senders_alone(names):
    names.open_mailbox(ANN)
    for sender in ("a", "b"):
        with names.sender(sender) as out:
            out.send(STAFF, sender.encode())
            out.send(ANN, sender.encode() * 2)
    assert [one.payload for one in heard(names, 2, senders=["b"])] == [b"b", b"bb"]
    assert [one.payload for one in heard(names, 2, groups=(ANN,))] == [b"aa", b"bb"]
    assert [one.payload for one in heard(names, 1, groups={STAFF}, senders=iter(["b"]))] == [b"b"]


def test_a_gateway_is_told_whom_each_message_is_for_also_after_a_break(names, server, monkeypatch):
    """Many recipients come in several responses."""
    monkeypatch.setattr(message_wire, "RECIPIENTS_TOGETHER", 2)
    lab = (BOB, *(f"p{number}@x.example" for number in range(3)))
    for member in lab[1:]:
        names.join(LAB, member)
    names.open_mailbox("*")
    for target in (STAFF, ANN, LAB, LAB):
        names.send(target, target.encode())
    server.relay.set(handed_out(3), "Subscribe", times=1)
    with names.listen("*") as messages:
        found = [next(messages) for _ in range(4)]
    assert server.relay.counts["Subscribe"] == 2
    assert [message.payload for message in found] == [each.encode() for each in (STAFF, ANN, LAB, LAB)]
    assert [tuple(sorted(message.recipients)) for message in found] == [(ANN, *lab), (ANN,), lab, lab]


def test_an_ephemeral_listener_gets_what_comes_meanwhile_and_needs_no_mailbox(names):
    with names.listen(BOB, ephemeral=True) as one, names.listen(BOB, ephemeral=True) as other:
        names.send(STAFF, b"to both")
        for messages in (one, other):
            message = next(messages)
            message.acknowledge()
            assert message.payload == b"to both"
    assert [mailbox.process for mailbox in names.mailboxes()] == [ANN]
    names.send(STAFF, b"to nobody")
    with names.listen(BOB, ephemeral=True) as messages:
        names.send(STAFF, b"to who came later")
        assert next(messages).payload == b"to who came later"


def test_an_ephemeral_listener_ends_with_its_stream(names, server):
    server.relay.set(handed_out(1), "Subscribe")
    with names.listen(ANN, ephemeral=True) as messages:
        names.send(STAFF, b"the last one")
        assert next(messages).payload == b"the last one"
        names.send(STAFF, b"one too many")
        with pytest.raises(shadowtree.Unavailable):
            next(messages)
    assert server.relay.counts["Subscribe"] == 1


def test_acknowledgements_that_a_break_swallowed_are_told_again(names, server):
    names.open_mailbox(ANN)
    for payload in numbers(4):
        names.send(STAFF, payload)
    server.relay.set(handed_out(3), "Subscribe", times=1)
    with names.listen(ANN) as messages:
        for message in itertools.islice(messages, 4):
            message.acknowledge()
    assert position_of(names) == message.position


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_messages_acknowledged_in_any_order_do_not_come_again(names, order):
    names.open_mailbox(ANN)
    for payload in numbers(4):
        names.send(STAFF, payload)
    with names.listen(ANN) as messages:
        found = [next(messages) for _ in range(3)]
        for number in order:
            found[number].acknowledge()
    assert [message.payload for message in heard(names, 1)] == [b"3"]


def test_an_earlier_acknowledgement_after_a_break_takes_nothing_back(names, server):
    names.open_mailbox(ANN)
    for payload in numbers(4):
        names.send(STAFF, payload)
    server.relay.set(handed_out(3), "Subscribe", times=1)
    with names.listen(ANN) as messages:
        found = [next(messages) for _ in range(3)]
        found[2].acknowledge()
        assert next(messages).payload == b"3"
        found[0].acknowledge()
    assert position_of(names) == found[2].position
    assert [message.payload for message in heard(names, 1)] == [b"3"]


def test_whoever_is_taken_over_is_told(names):
    names.open_mailbox(ANN)
    with names.listen(ANN) as first:
        names.send(STAFF, b"0")
        next(first)
        with names.listen(ANN) as second:
            assert next(second).payload == b"0"
            with pytest.raises(shadowtree.TakenOver) as caught:
                next(first)
    assert caught.value.facts == {"process": ANN, "subscription": ""}


def test_messages_that_were_lost_are_told_with_the_next_one(names, server):
    names.open_mailbox(ANN)
    names.send(STAFF, b"0")
    names.send(STAFF, b"1")

    def lose_some(answer):
        for message in messages_of([answer]):
            message.gap = 12 if message.payload == b"0" else 0

    server.relay.set(changing(lose_some), "Subscribe")
    assert [message.gap for message in heard(names, 2)] == [12, 0]


def test_a_server_sends_no_more_than_a_listener_has_room_for(names, server):
    send_all(server, numbers(MANY))
    with names.listen(ANN) as messages:
        next(messages)
        wait_until(lambda: sent_to_listener(server) == credit(server), "all that a listener has room for")
        assert sent_to_listener(server) < MANY
    assert len(heard(names, MANY)) == MANY


def sent_to_listener(server):
    """Return the number of messages that the last listener was sent."""
    return len(messages_of(server.relay.calls[-1].written))


def credit(server):
    """Return the number of messages that the last listener said it has room for."""
    return sum(request.credit_messages for request in server.relay.calls[-1].requests)


def test_a_message_may_be_acknowledged_when_its_listener_is_gone(names):
    names.open_mailbox(ANN)
    names.send(STAFF, b"0")
    (message,) = heard(names, 1)
    message.acknowledge()
    assert heard(names, 1)[0].payload == b"0"


def test_a_loop_that_is_left_ends_its_stream(names):
    names.open_mailbox(ANN)
    names.send(STAFF, b"0")
    for message in names.listen(ANN):
        message.acknowledge()
        break
    wait_until(lambda: not is_listening(names), "the end of the stream")
    assert position_of(names) == message.position


def is_listening(names):
    (mailbox,) = names.mailboxes()
    return any(one.is_listening for one in mailbox)


def test_a_listener_that_another_thread_closes_ends_without_an_error(server):
    with shadowtree.Client(server.relay.address) as names:
        messages = names.listen(ANN)
        found = []
        thread = threading.Thread(target=lambda: found.extend(messages))
        thread.start()
        wait_until(lambda: "Subscribe" in server.relay.names and server.relay.calls[-1].written, "the listener")
        stream = server.relay.calls[-1]
        names.send(STAFF, b"0")
        wait_until(lambda: messages_of(stream.written), "the message")
        messages.close()
        thread.join(30)
        assert not thread.is_alive()
        assert [message.payload for message in found] in ([b"0"], [])
        wait_until(lambda: not is_listening(names), "the end of the stream")


async def test_an_awaited_listener_that_another_task_closes_ends_without_an_error(server):
    async def listen():
        return [message.payload async for message in messages]

    async with shadowtree.aio.Client(server.relay.address) as names:
        messages = names.listen(ANN)
        await messages.open()
        stream = server.relay.calls[-1]
        listening_task = asyncio.ensure_future(listen())
        await names.send(STAFF, b"0")
        while not messages_of(stream.written):
            await asyncio.sleep(0.01)
        await messages.close()
        assert await asyncio.wait_for(listening_task, 30) in ([b"0"], [])


async def test_an_acknowledgement_may_be_awaited(server):
    async with shadowtree.aio.Client(server.address) as names:
        await names.open_mailbox(ANN)
        await names.send(STAFF, b"0")
        async with names.listen(ANN) as messages:
            message = await anext(messages)
            await message.acknowledge()
        (mailbox,) = [one async for one in names.mailboxes()]
    assert [one.position for one in mailbox] == [message.position]


def test_after_close_senders_and_listeners_say_so(make_client, server):
    with make_client(server.address) as names:
        messages = names.listen(ANN)
        out = names.sender("billing")
        if make_client is AwaitedClient:
            return
        names.close()
        for ask in (
            lambda: names.listen(ANN),
            lambda: next(messages),
            lambda: (out.send(STAFF, b""), out.flush()),
            lambda: names.send(STAFF, b""),
        ):
            with pytest.raises(shadowtree.ClientClosed):
                ask()


def test_what_would_act_on_a_terminal_is_taken_out_of_headers_and_ids(names, server):
    """Servers refuse such headers. Whoever poses as a server does not."""

    def forge(answer):
        for message in messages_of([answer]):
            message.headers.add(name="a\x1b", value="b\nc")

    server.relay.set(changing(forge), "Subscribe")
    names.send(STAFF, b"\x1b[31m")
    (message,) = heard(names, 1)
    assert message.headers == {"a\ufffd": "b\ufffdc"}
    assert message.payload == b"\x1b[31m"


# -- mailboxes


def test_mailboxes_are_opened_listed_and_closed(names):
    opened = names.open_mailbox("Ann@X.example")
    assert (opened.process, opened.is_new) == ("Ann@x.example", True)
    assert not names.open_mailbox("Ann@x.example").is_new
    for name in (ANN, BOB, CY):
        names.open_mailbox(name)
    assert [one.process for one in names.mailboxes()] == ["Ann@x.example", ANN, BOB, CY]
    assert names.close_mailbox(BOB).process == BOB
    with pytest.raises(shadowtree.MailboxNotFound):
        names.close_mailbox(BOB)


def test_the_mailboxes_of_a_subnet_are_those_of_its_server(make_client, both):
    server, _ = both
    with make_client(server.address) as names:
        names.open_mailbox(ANN)
        assert [one.process for one in names.mailboxes()] == [ANN]
        assert [one.process for one in names.mailboxes("y.example")] == [CY]


def test_dead_letters_are_listed_page_by_page_replayed_and_dropped(make_client, both, monkeypatch):
    monkeypatch.setattr(dead_letter_calls, "PAGE_SIZE_LIMIT", 2)
    server, other = both
    with make_client(server.relay.address) as names:
        assert names.dead_letters() == shadowtree.DeadLetters("x.example", (), 0)
        other.end()
        sent = [names.send(STAFF, payload) for payload in numbers(5)]
        names.remove_peer("y.example", force=True)
        found = names.dead_letters("x.example")
        assert ([letter.id for letter in found], found.messages_lost) == ([each.id for each in sent], 0)
        assert server.relay.counts["ListDeadLetters"] == 1 + 3
        first, second = [letter.number for letter in found][:2]
        letter = found.dead_letters[0]
        assert letter == shadowtree.DeadLetter(
            first, sent[0].id, 1, letter.bytes, STAFF, "server removed", ("y.example",), (), letter.sent_at
        )
        assert names.replay([first, second, 99]) == shadowtree.Replayed(0, 2)
        assert names.drop([second, 99]) == 1
        assert names.replay([]) == shadowtree.Replayed(0, 0)
        assert names.replay("all") == shadowtree.Replayed(0, 4)
        assert names.drop("all") == 4
        assert list(names.dead_letters()) == []


def test_a_reason_of_a_later_version_is_no_error(names, server):
    letter = delivery_pb2.DeadLetter(number=1, id=f"1@{STAFF}#1", group=STAFF, servers=["c.x", "b.x"], reason=99)
    server.relay.set(answering(delivery_pb2.ListDeadLettersResponse(dead_letters=[letter])), "ListDeadLetters")
    assert [letter.reason for letter in names.dead_letters()] == [""]


@pytest.mark.parametrize("numbers", [5, "some", [-1], ["1"]])
def test_numbers_of_dead_letters_of_a_wrong_type_are_refused_before_anything_is_sent(names, numbers):
    for call in (names.replay, names.drop):
        with pytest.raises(shadowtree.InvalidRequest):
            call(numbers)
