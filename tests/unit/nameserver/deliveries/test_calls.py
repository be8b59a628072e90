"""The calls about messages over real cores and real streams: one server, and two that forward to each other."""

import asyncio
import itertools

import grpc
import pytest

import shadowtree
from delivery.log.log import CUT_AT_LEAST
from delivery.model.events import CloseMailbox
from delivery.model.words import MessageContent, Quality, target_set
from delivery.origin.dead_letters import DeadReason
from delivery.wire.posts import Parcel, encode
from namegraph import DeleteGroup, LogRecord, NodeId, Reason, refuse
from nameserver.deliveries import endpoints, log_tail, send_calls, subscribe_calls
from shadowtree.v1 import delivery_pb2 as wire
from shadowtree.v1.delivery_pb2_grpc import DeliveryServiceStub
from shadowtree.v1.peer_pb2 import MaySendRequest
from shadowtree.v1.peer_pb2_grpc import PeerServiceStub
from tests.unit.nameserver.deliveries.places import places

STAFF, LAB, ANN, BOB, CY = "staff@a.x", "lab@b.x", "ann@a.x", "bob@b.x", "cy@a.x"


@pytest.fixture
async def scene():
    """Staff (at a.x) are ann and the lab; the lab (at b.x) is bob."""
    async with places("a.x", "b.x") as (servers, found):
        servers.create(STAFF, LAB)
        servers.join(STAFF, ANN)
        servers.join(STAFF, LAB)
        servers.join(LAB, BOB)
        yield servers, *found


@pytest.fixture
async def here(scene):
    async with shadowtree.aio.Client(scene[1].address) as client:
        yield client


@pytest.fixture
async def there(scene):
    async with shadowtree.aio.Client(scene[2].address) as client:
        yield client


def numbers(count):
    return [b"%d" % number for number in range(count)]


async def and_no_more(*requests):
    """Says this, and leaves its side open."""
    for request in requests:
        yield request
    await asyncio.Event().wait()


async def heard(client, name, count, **options):
    found = []
    async with client.listen(name, **options) as messages:
        async for message in messages:
            found.append(message)
            if len(found) == count:
                break
    return found


async def payloads(client, name, count, **options):
    return [message.payload for message in await heard(client, name, count, **options)]


async def test_a_message_reaches_everybody_below_on_all_servers_whichever_is_asked(here, there):
    await here.open_mailbox(ANN)
    await here.open_mailbox(BOB)
    for client in (here, there):
        sent = await client.send(STAFF, b"hello", wait="settled", headers={"kind": "note"})
        assert (sent.state, sent.mailboxes, sent.servers, sent.pending) == ("settled", 2, 2, ())
    for client, name in itertools.product((here, there), (ANN, BOB)):
        messages = await heard(client, name, 2)
        assert [message.payload for message in messages] == [b"hello"] * 2
        first = messages[0]
        assert (first.group, first.headers, first.gap, first.late) == (STAFF, {"kind": "note"}, 0, False)
        assert first.sent_at and first.position.endswith(f"@{name.partition('@')[2]}#{first.position[-1]}")


async def test_one_stream_may_have_messages_for_several_homes_and_each_is_one_sequence(here, there, scene):
    await here.open_mailbox(ANN)
    await there.open_mailbox(BOB)
    async with here.sender("billing") as out:
        for payload in numbers(900):
            await out.send(LAB if int(payload) % 3 else STAFF, payload)
    staff = [payload for payload in numbers(900) if not int(payload) % 3]
    lab = [payload for payload in numbers(900) if int(payload) % 3]
    assert await payloads(here, ANN, len(staff)) == staff
    messages = await heard(there, BOB, 900)
    assert [message.payload for message in messages if message.group == LAB] == lab
    assert [message.payload for message in messages if message.group == STAFF] == staff
    async with there.sender("billing") as out:
        assert (await out.next_number(STAFF), await out.next_number(LAB)) == (301, 601)


async def test_exceptions_are_of_one_target_or_of_all(here, there):
    await here.open_mailbox(ANN)
    await there.open_mailbox(BOB)
    assert (await here.send(STAFF, b"", excluding=[LAB], wait="settled")).mailboxes == 1
    assert (await here.send([STAFF, BOB], b"", wait="settled")).mailboxes == 2


async def test_a_refusal_is_of_one_message_and_the_stream_goes_on(scene):
    message = wire.SendRequest.Message
    target = wire.SendRequest.Target

    def to(*names, **more):
        return message(targets=[target(name=name) for name in names], **more)

    wanted = [
        (to("nobody@a.x"), "TARGET_NOT_FOUND"),
        (to("nobody@b.x"), "TARGET_NOT_FOUND"),
        (to("no name"), "INVALID_NAME"),
        (to(), "INVALID_REQUEST"),
        (to(STAFF, number=1), "INVALID_REQUEST"),
        (to(STAFF, number=1, sender="s", request_id="r"), "INVALID_REQUEST"),
        (to(STAFF, sender="\n"), "INVALID_REQUEST"),
        (to(STAFF, number=2, sender="s"), "OUT_OF_SEQUENCE"),
        (to(LAB, number=2, sender="s"), "OUT_OF_SEQUENCE"),
        (to(STAFF, headers=[wire.Header(name="a", value="\x1b")]), "INVALID_REQUEST"),
        (to(STAFF, headers=[wire.Header(name="a"), wire.Header(name="a")]), "INVALID_REQUEST"),
        (to(STAFF, headers=[wire.Header(name="")]), "INVALID_REQUEST"),
        (to(STAFF, payload=bytes(1024 * 1024 + 1)), "LIMIT_EXCEEDED"),
        (to(STAFF, quality=9), "INVALID_REQUEST"),
        (to(STAFF, excluding=["x"]), "INVALID_NAME"),
        (to(STAFF), ""),
        (to(LAB), ""),
    ]
    async with grpc.aio.insecure_channel(scene[1].address) as channel:
        requests = [wire.SendRequest(messages=[each for each, _ in wanted])]
        responses = [response async for response in DeliveryServiceStub(channel).Send(iter(requests))]
    answers = [answer for response in responses for answer in response.answers]
    assert [answer.message for answer in answers] == [*range(1, len(wanted) + 1)]
    assert [answer.refused.reason for answer in answers] == [reason for _, reason in wanted]
    assert answers[0].refused.code == grpc.StatusCode.NOT_FOUND.value[0]
    assert {fact.name: fact.value for fact in answers[7].refused.facts}["expected"] == "1"


async def test_too_many_messages_in_one_request_end_the_stream(scene):
    async with grpc.aio.insecure_channel(scene[1].address) as channel:
        request = wire.SendRequest(messages=[wire.SendRequest.Message()] * 1_001)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [response async for response in DeliveryServiceStub(channel).Send(iter([request]))]
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED


async def test_messages_of_one_request_are_taken_by_few_steps_and_each_is_answered_in_order(scene):
    place, count = scene[1], 2 * send_calls.STEP_MESSAGES_LIMIT + 50
    request = wire.SendRequest()
    for number in range(count):
        target = wire.SendRequest.Target(name=STAFF if number % 100 else "nobody@a.x")
        request.messages.add(targets=[target], payload=b"%d" % number)
    async with grpc.aio.insecure_channel(place.address) as channel:
        responses = [response async for response in DeliveryServiceStub(channel).Send(iter([request]))]
    answers = [answer for response in responses for answer in response.answers]
    assert [answer.message for answer in answers] == list(range(1, count + 1))
    assert [number for number, answer in enumerate(answers) if answer.HasField("refused")] == list(range(0, count, 100))
    assert place.machine.sent_together == [send_calls.STEP_MESSAGES_LIMIT] * 2 + [50]


@pytest.mark.parametrize("takes_runs", [False, True])
async def test_one_answer_is_for_several_messages_that_are_accepted_where_the_caller_understands_it(scene, takes_runs):
    names = [STAFF, STAFF, STAFF, "nobody@a.x", STAFF, LAB, STAFF, STAFF]
    request = wire.SendRequest(takes_runs=takes_runs)
    for number, name in enumerate(names):
        request.messages.add(targets=[wire.SendRequest.Target(name=name)], payload=b"%d" % number)
    async with grpc.aio.insecure_channel(scene[1].address) as channel:
        responses = [response async for response in DeliveryServiceStub(channel).Send(iter([request]))]
    answers = [answer for response in responses for answer in response.answers]
    runs = [(answer.message, max(answer.message, answer.through)) for answer in answers]
    each = [(number, number) for number in range(1, 9)]
    assert runs == ([(1, 3), (4, 4), (5, 5), (6, 6), (7, 8)] if takes_runs else each)
    by_message = {answer.message: answer for answer in answers}
    assert [by_message[number].id.partition("@")[0] for number in (1, 4, 5, 7)] == ["1", "", "4", "5"]


async def test_messages_that_differ_in_their_numbers_alone_are_judged_by_them(scene):
    target = wire.SendRequest.Target(name=STAFF)
    requests = [wire.SendRequest(), wire.SendRequest()]
    for number in (0, 1, 0):
        requests[0].messages.add(targets=[target], number=number)
    for number in (1, 2, 4, 3):
        requests[1].messages.add(targets=[target], sender="s", number=number)
    async with grpc.aio.insecure_channel(scene[1].address) as channel:
        responses = [response async for response in DeliveryServiceStub(channel).Send(iter(requests))]
    told = [answer.refused.reason for response in responses for answer in response.answers]
    assert told == ["", "INVALID_REQUEST", "", "", "", "OUT_OF_SEQUENCE", ""]


async def test_a_server_that_is_away_is_pending_and_one_that_stays_silent_is_told_at_the_deadline(here, scene):
    servers, place, _ = scene
    await here.open_mailbox(ANN)
    servers.held.add(("a.x", "b.x"))
    sent = await here.send(STAFF, b"", wait="settled")
    assert (sent.state, sent.mailboxes, sent.servers, sent.pending) == ("settled", 1, 1, ("b.x",))
    place.machine.is_in_reach = lambda server: True
    sent = await here.send(STAFF, b"", wait="settled", timeout=1)
    assert (sent.state, sent.pending) == ("accepted", ("b.x",))


async def test_a_home_out_of_reach_is_unavailable_and_nothing_was_sent(here, there, scene):
    scene[1].directory.lost.add("b.x")
    for ask in (
        lambda: here.send(LAB, b""),
        lambda: here.open_mailbox(BOB),
        lambda: heard(here, BOB, 1),
    ):
        with pytest.raises(shadowtree.Unavailable) as caught:
            await ask()
        assert caught.value.unreachable == ("b.x",)
    assert (await here.send(STAFF, b"")).state == "accepted"


async def test_a_lane_that_breaks_leaves_the_outcome_unknown_and_a_sender_goes_on(here, there, scene):
    servers = scene[0]
    await there.open_mailbox(BOB)
    async with here.sender("billing") as out:
        await out.send(LAB, b"0")
        await out.flush()
        channel, servers.channels["b.x"] = servers.channels["b.x"], grpc.aio.insecure_channel(scene[2].address)
        await channel.close()
        for payload in numbers(50)[1:]:
            await out.send(LAB, payload)
    assert await payloads(there, BOB, 50) == numbers(50)


async def test_a_database_that_fails_refuses_each_message(here, scene):
    scene[1].machine.is_failing = True
    with pytest.raises(shadowtree.Unavailable, match="cannot be written"):
        await here.send(STAFF, b"")


async def test_what_is_acknowledged_is_durable_when_the_stream_ends_and_does_not_come_again(here, scene):
    await here.open_mailbox(ANN)
    for payload in numbers(4):
        await here.send(STAFF, payload)
    async with here.listen(ANN) as messages:
        await anext(messages)
        (await anext(messages)).acknowledge()
    mailbox = [one async for one in here.mailboxes()]
    assert [one.process for one in mailbox] == [ANN]
    assert await payloads(here, ANN, 2) == numbers(4)[2:]


async def test_acknowledgements_go_together_while_the_database_is_written(here, scene):
    await here.open_mailbox(ANN)
    async with here.sender("s") as out:
        for payload in numbers(500):
            await out.send(STAFF, payload)
    gate = asyncio.Event()
    machine = scene[1].machine
    flush = machine.until_durable

    async def until_durable():
        await gate.wait()
        await flush()

    machine.until_durable = until_durable
    async with here.listen(ANN) as messages:
        async for message in messages:
            message.acknowledge()
            if message.payload == b"499":
                gate.set()
                break
    assert machine.flushes < 10
    assert machine.core.mailboxes.subscriptions(ANN)[""].item >= 0


async def test_what_is_listed_is_durable(here, scene):
    await here.open_mailbox(ANN)

    async def until_durable():
        raise refuse(Reason.UNAVAILABLE, "the disk is full")

    scene[1].machine.until_durable = until_durable
    with pytest.raises(shadowtree.Unavailable):
        [one async for one in here.mailboxes()]
    with pytest.raises(shadowtree.Unavailable):
        await here.dead_letters()


async def test_a_listener_that_comes_back_is_handed_what_it_was_not_and_acknowledges_nothing_by_that(here, scene):
    await here.open_mailbox(ANN)
    for payload in numbers(4):
        await here.send(STAFF, payload)
    first = (await heard(here, ANN, 1))[0]
    async with grpc.aio.insecure_channel(scene[1].address) as channel:
        begin = wire.SubscribeRequest.Begin(name=ANN, handed_out=first.position)
        request = wire.SubscribeRequest(begin=begin, credit_messages=1, credit_bytes=1)
        responses = aiter(DeliveryServiceStub(channel).Subscribe(and_no_more(request)))
        opening, told = await anext(responses), await anext(responses)
    assert opening.position == first.position
    assert [message.payload for message in told.messages] == [b"1"]
    assert await payloads(here, ANN, 4) == numbers(4)


async def test_a_position_is_where_a_subscription_goes_on(here, scene):
    await here.open_mailbox(ANN)
    async with here.sender("s") as out:
        for payload in numbers(10):
            await out.send(STAFF, payload)
    stored = (await heard(here, ANN, 4))[3].position
    assert await payloads(here, ANN, 6, from_=stored) == numbers(10)[4:]


@pytest.mark.parametrize(
    "position",
    ["made up", "1.0@b.x#1", "99999.0@a.x#0", "1.0@a.x#77", "-1.0@a.x#0", "1.0@a.x", "1" * 40 + ".0@a.x#0"],
)
async def test_a_position_of_another_log_or_made_up_is_refused(here, position):
    await here.open_mailbox(ANN)
    with pytest.raises(shadowtree.InvalidRequest):
        await heard(here, ANN, 1, from_=position)


async def test_a_subscription_from_now_on_gets_what_comes(here):
    async with here.listen(ANN, subscription="desk", from_="now") as messages:
        await here.send(STAFF, b"after")
        assert (await anext(messages)).payload == b"after"


async def test_whoever_listens_later_takes_over(here, there):
    await here.open_mailbox(ANN)
    first = here.listen(ANN)
    await first.open()
    second = there.listen(ANN)
    await second.open()
    with pytest.raises(shadowtree.TakenOver) as caught:
        await anext(first)
    assert caught.value.facts == {"process": ANN, "subscription": ""}
    await here.send(STAFF, b"0")
    assert (await anext(second)).payload == b"0"
    await second.close()
    assert await payloads(here, ANN, 1) == [b"0"]


async def test_a_mailbox_that_is_closed_ends_who_listens(here):
    messages = here.listen(ANN)
    await messages.open()
    assert [one.is_listening for one in (await here.open_mailbox(ANN))] == [True]
    assert (await here.close_mailbox(ANN)).process == ANN
    with pytest.raises(shadowtree.MailboxNotFound):
        await anext(messages)
    with pytest.raises(shadowtree.MailboxNotFound):
        await here.close_mailbox(ANN)


async def test_what_is_opened_before_a_call_to_close_it_has_its_turn_is_closed(here, scene, monkeypatch):
    """A server that is at a long step takes both calls only when that is over."""
    machine, at_once = scene[1].machine, scene[1].machine.carry_out_delivery
    waits, is_over = asyncio.Event(), asyncio.Event()

    async def after_the_long_step(event):
        if isinstance(event, CloseMailbox):
            is_over.set()
            await asyncio.sleep(0)  # What had waited before it comes first.
        else:
            waits.set()
            await is_over.wait()
        return await at_once(event)

    monkeypatch.setattr(machine, "carry_out_delivery", after_the_long_step)
    messages = here.listen(ANN, subscription="desk")
    async with asyncio.timeout(10):
        opening = asyncio.create_task(messages.open())
        await waits.wait()
        closed = await here.close_mailbox(ANN)
        await opening
    assert [one.name for one in closed] == ["desk"]
    with pytest.raises(shadowtree.MailboxNotFound):
        await anext(messages)


async def test_mailboxes_are_those_of_one_server_in_pages(here, there, scene):
    for number in range(5):
        await here.open_mailbox(f"p{number}@b.x")
    assert [one.process async for one in here.mailboxes()] == []
    names = [f"p{number}@b.x" for number in range(5)]
    assert [one.process async for one in here.mailboxes("b.x")] == names
    async with grpc.aio.insecure_channel(scene[2].address) as channel:
        page = await DeliveryServiceStub(channel).ListMailboxes(wire.ListMailboxesRequest(page_size=2))
    assert ([one.process for one in page.mailboxes], page.next_page_token) == (names[:2], names[1])
    with pytest.raises(shadowtree.UnknownSubnet):
        [one async for one in here.mailboxes("nobody.x")]


async def test_dead_letters_are_those_of_one_server_in_pages(here, there, scene):
    letters = scene[0].servers["b.x"].delivery.dead_letters
    for number in (3, 5, 8):
        parcel = Parcel(1, 0, number, target_set([LAB]), Quality.FIFO, (MessageContent(b"text"),))
        letters.add(number, encode(parcel), "z.x", DeadReason.SERVER_REMOVED)
    assert (await here.dead_letters()).dead_letters == ()
    found = await here.dead_letters("b.x")
    assert [(letter.number, letter.id, letter.servers) for letter in found] == [
        (number, f"{number}@{LAB}#0", ("z.x",)) for number in (3, 5, 8)
    ]
    assert (await here.replay("all", subnet="b.x")) == shadowtree.Replayed(0, 3)
    assert (await here.drop([5, 6], subnet="b.x")) == 1
    async with grpc.aio.insecure_channel(scene[2].address) as channel:
        stub = DeliveryServiceStub(channel)
        page = await stub.ListDeadLetters(wire.ListDeadLettersRequest(page_size=1))
        assert ([letter.number for letter in page.dead_letters], page.next_page_token) == ([3], "3")
        page = await stub.ListDeadLetters(wire.ListDeadLettersRequest(page_size=1, page_token="3"))
        assert ([letter.number for letter in page.dead_letters], page.next_page_token) == ([8], "")
        for call, request in (
            (stub.ListDeadLetters, wire.ListDeadLettersRequest(page_token="x")),
            (stub.ReplayDeadLetters, wire.ReplayDeadLettersRequest(all=True, numbers=[3])),
            (stub.DropDeadLetters, wire.DropDeadLettersRequest(numbers=range(10_001))),
        ):
            with pytest.raises(grpc.aio.AioRpcError):
                await call(request)
    assert len((await there.dead_letters()).dead_letters) == 2
    with pytest.raises(shadowtree.UnknownSubnet):
        await here.drop("all", subnet="nobody.x")
    assert (await there.drop("all")) == 2


async def test_no_more_is_sent_than_there_is_credit_for(here, scene):
    await here.open_mailbox(ANN)
    async with here.sender("s") as out:
        for payload in numbers(20):
            await out.send(STAFF, payload)
    said = asyncio.Queue()

    async def requests():
        while (request := await said.get()) is not None:
            yield request

    request = wire.SubscribeRequest
    async with grpc.aio.insecure_channel(scene[1].address) as channel:
        stream = DeliveryServiceStub(channel).Subscribe(requests())
        responses = aiter(stream)
        said.put_nowait(request(begin=request.Begin(name=ANN), credit_messages=3, credit_bytes=1_000))
        assert not (await anext(responses)).messages
        got = []
        while len(got) < 3:
            got += (await anext(responses)).messages
        said.put_nowait(request(credit_messages=100, credit_bytes=0))
        got += (await anext(responses)).messages
        while len(got) < 20:
            got += (await anext(responses)).messages
        said.put_nowait(None)
        assert [response async for response in responses] == []
    assert [message.payload for message in got] == numbers(20)


async def test_bytes_are_credit_too_and_the_message_that_exceeds_them_still_comes(here, scene):
    await here.open_mailbox(ANN)
    for payload in numbers(3):
        await here.send(STAFF, payload * 100)
    begin = wire.SubscribeRequest.Begin(name=ANN)
    request = wire.SubscribeRequest(begin=begin, credit_messages=100, credit_bytes=150)
    async with grpc.aio.insecure_channel(scene[1].address) as channel:
        responses = aiter(DeliveryServiceStub(channel).Subscribe(and_no_more(request)))
        got = []
        while len(got) < 2:
            got += (await anext(responses)).messages
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(responses), 0.2)
    assert [message.payload for message in got] == [b"0" * 100, b"1" * 100]


@pytest.mark.parametrize(
    "requests",
    [
        [],
        [wire.SubscribeRequest(credit_messages=1)],
        [wire.SubscribeRequest(begin=wire.SubscribeRequest.Begin(name="no name"))],
        [wire.SubscribeRequest(begin=wire.SubscribeRequest.Begin(name=ANN, subscription="a\n"))],
        [wire.SubscribeRequest(begin=wire.SubscribeRequest.Begin(name=ANN))] * 2,
        [wire.SubscribeRequest(begin=wire.SubscribeRequest.Begin(name=ANN, handed_out="made up"))],
        [wire.SubscribeRequest(begin=wire.SubscribeRequest.Begin(name=ANN)), wire.SubscribeRequest(acknowledged="x")],
    ],
)
async def test_what_makes_no_sense_ends_the_stream_and_says_why(scene, requests):
    async def said():
        for request in requests:
            yield request
        await asyncio.sleep(0.2)

    async with grpc.aio.insecure_channel(scene[1].address) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [response async for response in DeliveryServiceStub(channel).Subscribe(said())]
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_message_past_its_deadline_is_handed_to_nobody(here, scene, monkeypatch):
    await here.open_mailbox(ANN)
    await here.send(STAFF, b"short", deadline=0.001)
    await here.send(STAFF, b"long", deadline=1_000)
    await asyncio.sleep(0.01)
    assert await payloads(here, ANN, 1) == [b"long"]


async def test_what_was_cut_before_it_was_read_is_told_with_the_next_message(here, scene):
    servers, place, _ = scene
    async with here.listen(ANN):
        pass
    for payload in numbers(CUT_AT_LEAST + 5):
        await here.send(STAFF, payload)
    log = place.machine.core.log
    log.cut_through(CUT_AT_LEAST)
    for position in range(1, CUT_AT_LEAST + 1):
        del servers.disks["a.x"].log[position]
    messages = await heard(here, ANN, 5)
    assert [message.payload for message in messages] == numbers(CUT_AT_LEAST + 5)[CUT_AT_LEAST:]
    assert [message.gap for message in messages] == [CUT_AT_LEAST, 0, 0, 0, 0]


async def test_listeners_at_the_tail_read_no_disk_once_they_are_there(here, scene):
    machine = scene[1].machine
    listeners = [here.listen(ANN, subscription=f"s{number}", from_="now") for number in range(8)]
    for listener in listeners:
        await listener.open()
    machine.reads.clear()
    for payload in numbers(20):
        await here.send(STAFF, payload)
        assert [(await anext(listener)).payload for listener in listeners] == [payload] * 8
    assert machine.reads == []
    for listener in listeners:
        await listener.close()


async def test_what_nobody_reads_is_not_kept_in_memory_and_read_from_the_disk_once(here, scene, monkeypatch):
    monkeypatch.setattr(log_tail, "UNREAD_BYTES", 1_000)
    machine = scene[1].machine
    await here.open_mailbox(ANN)
    tail = log_tail.LogTail(machine)
    assert await tail.read(machine.logged) == ()
    for payload in numbers(30):
        await here.send(STAFF, payload + bytes(100))
    assert 0 < len(tail._entries) < 20
    machine.reads.clear()
    both = await asyncio.gather(tail.read(20), tail.read(20))
    assert [[entry.position for entry in found] for found in both] == [[*range(21, 31)]] * 2
    assert len(machine.reads) == 1
    await here.send(STAFF, b"new")
    assert [entry.position for entry in await tail.read(30)] == [31]
    assert len(machine.reads) == 1


async def test_what_comes_during_a_reading_of_the_disk_is_not_read_again(here, scene):
    machine = scene[1].machine
    await here.open_mailbox(ANN)
    tail = log_tail.LogTail(machine)
    for payload in numbers(3):
        await here.send(STAFF, payload)
    machine.reads.clear()
    reading = asyncio.create_task(tail.read(0))
    await asyncio.sleep(0)
    tail.take([LogRecord(4, 1, b"")])
    assert [entry.position for entry in await reading] == [1, 2, 3, 4]
    assert len(machine.reads) == 1


async def test_a_call_of_its_own_takes_one_message_and_answers_once(scene):
    async with grpc.aio.insecure_channel(scene[1].address) as channel:
        stub = DeliveryServiceStub(channel)

        def message(**more):
            return wire.SendRequest.Message(targets=[wire.SendRequest.Target(name=STAFF)], **more)

        answers = (await stub.SendOne(wire.SendRequest(messages=[message(request_id="r")]))).answers
        assert [(one.message, one.state) for one in answers] == [(1, wire.SendResponse.STATE_ACCEPTED)]
        (again,) = (await stub.SendOne(wire.SendRequest(messages=[message(request_id="r")]))).answers
        assert (again.id, again.is_repeated) == (answers[0].id, True)
        (refused,) = (await stub.SendOne(wire.SendRequest(messages=[message(number=7, sender="s")]))).answers
        assert refused.refused.reason == Reason.OUT_OF_SEQUENCE
        for wrong in ([], [message(), message()], [message(wait=wire.SendRequest.WAIT_SETTLED)]):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.SendOne(wire.SendRequest(messages=wrong))
            assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_listener_far_behind_reads_the_disk_piece_by_piece_and_then_the_tail(here, scene, monkeypatch):
    monkeypatch.setattr(log_tail, "READ_BYTES", 2_000)
    monkeypatch.setattr(subscribe_calls, "RESPONSE_BYTES", 1_000)
    await here.open_mailbox(ANN)
    async with here.sender("s") as out:
        for payload in numbers(2_000):
            await out.send(STAFF, payload + bytes(50))
            if int(payload) % 100 == 0:
                await out.flush()
    async with here.listen(ANN) as messages:
        got = [(await anext(messages)).payload.rstrip(b"\0") for _ in range(2_000)]
        await here.send(STAFF, b"new")
        assert (await anext(messages)).payload == b"new"
    assert got == numbers(2_000)


async def test_a_listener_from_now_on_gets_what_comes_however_much_nobody_has_read(here, scene, monkeypatch):
    monkeypatch.setattr(log_tail, "READ_BYTES", 300)
    await here.open_mailbox(ANN)
    for payload in numbers(20):
        await here.send(STAFF, payload)
    async with here.listen(ANN, subscription="new", from_="now") as messages:
        await here.send(STAFF, b"now")
        assert (await anext(messages)).payload == b"now"
    assert await payloads(here, ANN, 21) == [*numbers(20), b"now"]


async def test_a_tail_that_is_full_forgets_its_oldest_entries(here, scene):
    machine = scene[1].machine
    await here.open_mailbox(ANN)
    tail = log_tail.LogTail(machine, bytes_limit=1_000)
    for payload in numbers(30):
        await here.send(STAFF, payload + bytes(100))
    found, after = [], 0
    while entries := await tail.read(after):
        found += [entry.position for entry in entries]
        after = found[-1]
    assert found == [*range(1, 31)]
    assert tail._bytes <= 1_000
    assert [entry.position for entry in await tail.read(0)][:1] == [1]


async def test_a_server_that_is_about_to_end_ends_its_streams_and_whoever_listened_is_told(here, there, scene):
    """A listener waits for it to come back, and so does a sender."""
    await here.open_mailbox(ANN)
    async with grpc.aio.insecure_channel(scene[1].address) as channel:
        stub = DeliveryServiceStub(channel)

        begin = wire.SubscribeRequest.Begin
        streams = [stub.Subscribe(and_no_more(wire.SubscribeRequest(begin=begin(name=name)))) for name in (ANN, BOB)]
        message = wire.SendRequest.Message(targets=[wire.SendRequest.Target(name=STAFF)])
        sending = stub.Send(and_no_more(wire.SendRequest(messages=[message])))
        for stream in (*streams, sending):
            await anext(aiter(stream))
        scene[1].machine.end(refuse(Reason.UNAVAILABLE, "shutting down"))
        for stream in (*streams, sending):
            with pytest.raises(grpc.aio.AioRpcError, match="shutting down"):
                await anext(aiter(stream))


async def test_who_may_send_is_judged_by_the_home_of_the_group_whichever_server_is_asked(here, there):
    assert (await there.set_delivery(STAFF, senders=LAB)).senders == LAB
    assert (await there.delivery(STAFF)).senders == (await here.delivery(STAFF)).senders == LAB
    for client in (here, there):
        assert (await client.send(STAFF, b"", as_=BOB)).state == "accepted"
        with pytest.raises(shadowtree.NotASender, match=f"only members of {LAB} may send to {STAFF}, and {CY} is none"):
            await client.send(STAFF, b"", as_=CY)
        with pytest.raises(shadowtree.NotASender, match="does not say which process"):
            await client.send(STAFF, b"")


async def test_whichever_server_is_asked_a_message_has_the_quality_that_its_group_gives(here, there):
    assert (await here.send(STAFF, b"kept", wait="settled")).quality == "fifo"
    assert (await there.set_delivery(STAFF, quality="datagram")).quality == "datagram"
    for client in (here, there):
        assert (await client.delivery(STAFF)).quality == "datagram"
        assert (await client.send(STAFF, b"tick")).quality == "datagram"
        assert (await client.send(STAFF, b"tick", quality="datagram")).quality == "datagram"
        with pytest.raises(shadowtree.TakesDatagrams, match=f"{STAFF} takes datagrams"):
            await client.send(STAFF, b"tick", wait="settled")


async def test_a_policy_with_another_servers_group_needs_that_server_once_to_say_that_it_exists(here, there, scene):
    with pytest.raises(shadowtree.GroupNotFound, match=r"nothing@b\.x.*b\.x"):
        await here.set_delivery(STAFF, senders="nothing@b.x")
    with pytest.raises(shadowtree.GroupNotFound):
        await here.set_delivery(STAFF, senders="g@nowhere.y")
    scene[1].directory.lost.add("b.x")
    with pytest.raises(shadowtree.Unavailable) as caught:
        await here.set_delivery(STAFF, senders=LAB)
    assert caught.value.unreachable == ("b.x",)
    assert (await here.delivery(STAFF)).senders == "anyone"


async def test_a_sender_of_whom_nobody_can_tell_is_unavailable_and_neither_yes_nor_no(here, scene):
    await here.set_delivery(STAFF, senders=LAB)
    scene[1].directory.lost.add("b.x")
    with pytest.raises(shadowtree.Unavailable, match=f"only members of {LAB} may send to {STAFF}") as caught:
        await here.send(STAFF, b"", as_=BOB)
    assert caught.value.unreachable == ("b.x",)


async def test_of_a_group_of_senders_that_is_gone_nobody_is_a_member(here, scene):
    servers = scene[0]
    servers.create("guests@b.x")
    await here.set_delivery(STAFF, senders="guests@b.x")
    servers.update("b.x", DeleteGroup(NodeId("guests@b.x")))
    with pytest.raises(shadowtree.NotASender, match=r"there is no group guests@b\.x any more"):
        await here.send(STAFF, b"", as_=BOB)


async def test_all_targets_of_this_server_say_who_may_send(here, scene):
    servers = scene[0]
    servers.create("quiet@a.x")
    await here.set_delivery("quiet@a.x", senders="members")
    with pytest.raises(shadowtree.NotASender) as caught:
        await here.send([STAFF, "quiet@a.x"], b"", as_=BOB)
    assert caught.value.facts["group"] == "quiet@a.x"
    servers.join("quiet@a.x", BOB)
    assert (await here.send([STAFF, "quiet@a.x"], b"", as_=BOB)).state == "accepted"


async def test_a_message_that_was_accepted_is_not_refused_when_it_is_sent_again(here, scene):
    await here.set_delivery(STAFF, senders=LAB)
    first = await here.send(STAFF, b"", as_=BOB, request_id="mine")
    scene[1].directory.lost.add("b.x")
    assert (await here.send(STAFF, b"", as_=BOB, request_id="mine")).id == first.id


async def test_messages_of_one_request_are_judged_together(here, scene):
    await here.set_delivery(STAFF, senders=LAB)
    place = scene[1]
    asked = place.checks_asked
    target = wire.SendRequest.Target(name=STAFF)
    request = wire.SendRequest()
    for number in range(300):
        request.messages.add(targets=[target], as_process=BOB if number % 3 else CY)
    async with grpc.aio.insecure_channel(place.address) as channel:
        responses = [response async for response in DeliveryServiceStub(channel).Send(iter([request]))]
    answers = [answer for response in responses for answer in response.answers]
    assert [answer.refused.reason for answer in answers] == [
        "" if number % 3 else "NOT_A_SENDER" for number in range(300)
    ]
    assert [(question.group, question.member) for question in asked] == [(LAB, CY), (LAB, BOB)]


async def test_a_further_target_must_exist_as_its_home_says(here, there):
    for client in (here, there):
        with pytest.raises(shadowtree.TargetNotFound, match=r"nobody@b\.x at the server b\.x") as caught:
            await client.send([STAFF, "nobody@b.x"], b"")
        assert caught.value.facts == {"target": "nobody@b.x", "server": "b.x"}
    with pytest.raises(shadowtree.TargetNotFound):
        await there.send([LAB, "nobody@a.x"], b"")
    await there.open_mailbox("alone@b.x")
    for targets in ([STAFF, LAB], [STAFF, BOB], [STAFF, "alone@b.x"], [LAB, ANN]):
        assert (await here.send(targets, b"")).state == "accepted"
    async with here.sender("s") as out:
        assert await out.next_number(STAFF) == 1


async def test_a_further_target_says_who_may_send_to_it(here, there):
    await there.set_delivery(LAB, senders="members")
    with pytest.raises(shadowtree.NotASender) as caught:
        await here.send([STAFF, LAB], b"", as_=ANN)
    assert (caught.value.facts["group"], caught.value.facts["server"]) == (LAB, "b.x")
    assert (await here.send([STAFF, LAB], b"", as_=BOB)).state == "accepted"


async def test_a_further_target_whose_home_is_away_is_unavailable_and_what_was_accepted_stays_so(here, scene):
    first = await here.send([STAFF, LAB], b"", request_id="mine")
    scene[1].directory.lost.add("b.x")
    with pytest.raises(shadowtree.Unavailable) as caught:
        await here.send([STAFF, LAB], b"")
    assert caught.value.unreachable == ("b.x",)
    assert (await here.send([STAFF, LAB], b"", request_id="mine")).id == first.id


async def test_a_home_is_asked_of_its_own_targets_alone(scene):
    async with grpc.aio.insecure_channel(scene[1].address) as channel:
        peer = PeerServiceStub(channel)
        for targets in ([LAB], [], [STAFF] * 65):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await peer.MaySend(MaySendRequest(targets=targets))
            assert caught.value.code() in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.INVALID_ARGUMENT)
        await peer.MaySend(MaySendRequest(targets=[STAFF, ANN]))


async def test_what_comes_too_fast_is_refused_and_a_sender_waits_and_goes_on(here, scene):
    rates = scene[1].machine.core.rates
    rates.of_sender_per_second = 20
    await here.open_mailbox(ANN)
    async with here.sender("s") as out:
        for payload in numbers(30):
            await out.send(STAFF, payload)
    assert rates.refused > 0
    assert await payloads(here, ANN, 30) == numbers(30)
    rates.of_sender_per_second = 1
    sends = (here.send(STAFF, b"", as_=BOB) for _ in range(100))
    refusals = [one for one in await asyncio.gather(*sends, return_exceptions=True) if isinstance(one, Exception)]
    assert len(refusals) > 50
    assert {type(refusal) for refusal in refusals} == {shadowtree.RateExceeded}
    assert all(0 < int(refusal.facts["retry_after_ms"]) <= 1000 for refusal in refusals)
    assert (await here.send(STAFF, b"", as_=CY, request_id="mine")).state == "accepted"
    rates.per_second = 0.1
    assert (await here.send(STAFF, b"", request_id="mine")).state == "accepted"


async def listening(here, name):
    while not any(one.is_listening for one in await mailbox_of(here, name)):
        await asyncio.sleep(0)


async def mailbox_of(client, name):
    return [
        one async for mailbox in client.mailboxes(name.partition("@")[2]) if mailbox.process == name for one in mailbox
    ]


async def test_a_datagram_is_handed_to_all_who_listen_now_and_has_no_position(here, there, scene):
    ears = [(here, ANN, ""), (here, ANN, "desk"), (there, BOB, "")]
    streams = [client.listen(name, subscription=subscription) for client, name, subscription in ears]
    asking = [asyncio.ensure_future(anext(stream)) for stream in streams]
    for client, name, _ in ears:
        await listening(client, name)
    while sum(one.is_listening for one in await mailbox_of(here, ANN)) < 2:
        await asyncio.sleep(0)
    sent = await there.send(STAFF, b"tick", quality="datagram", headers={"kind": "clock"})
    assert (sent.state, sent.servers, sent.unreachable) == ("accepted", 1, ())
    found = await asyncio.gather(*asking)
    for message in found:
        assert (message.payload, message.quality, message.position, message.id) == (b"tick", "datagram", "", sent.id)
        assert (message.group, message.headers, message.late, message.gap) == (STAFF, {"kind": "clock"}, False, 0)
        await message.acknowledge()
    await there.send(STAFF, b"kept", wait="settled")
    assert [(await anext(stream)).payload for stream in streams] == [b"kept"] * 3
    for stream in streams:
        await stream.close()
    # Who comes later gets what was kept alone.
    assert await payloads(here, ANN, 1) == [b"kept"]
    assert scene[1].machine.datagrams.handed == 2 and scene[2].machine.datagrams.handed == 1


async def test_a_datagram_to_a_server_out_of_reach_says_so_and_is_lost(here, scene):
    servers = scene[0]
    servers.held.add(("a.x", "b.x"))
    sent = await here.send(STAFF, b"tick", quality="datagram")
    assert (sent.servers, sent.unreachable) == (0, ("b.x",))


async def test_an_endpoint_that_takes_no_datagrams_loses_those_beyond_a_few_and_nothing_else(here, scene, monkeypatch):
    place = scene[1]
    monkeypatch.setattr(endpoints, "DATAGRAMS_HELD_LIMIT", 3)
    begin = wire.SubscribeRequest(begin=wire.SubscribeRequest.Begin(name=ANN))
    credit = asyncio.Event()

    async def requests():
        yield begin
        await credit.wait()
        yield wire.SubscribeRequest(credit_messages=100, credit_bytes=1_000_000)
        await asyncio.Event().wait()

    async with grpc.aio.insecure_channel(place.address) as channel:
        stream = DeliveryServiceStub(channel).Subscribe(requests())
        await stream.read()
        # One that is handed to nobody, since its deadline is over by then.
        await here.send(STAFF, b"late", quality="datagram", deadline=0.001)
        for payload in numbers(4):
            await here.send(STAFF, payload, quality="datagram")
        await here.send(STAFF, b"kept", wait="settled")
        await asyncio.sleep(0.01)
        assert (place.machine.datagrams.handed, place.machine.datagrams.dropped) == (3, 2)
        credit.set()
        got = []
        while len(got) < 3:
            got += [(message.payload, message.quality) for message in (await stream.read()).messages]
        kept = (b"kept", wire.QUALITY_FIFO)
        assert sorted(got) == sorted([*((payload, wire.QUALITY_DATAGRAM) for payload in numbers(2)), kept])


async def test_a_datagram_is_handed_to_ephemeral_listeners_and_to_none_that_wants_other_groups(here, there):
    wanting = here.listen(ANN, groups=[LAB])
    asking = asyncio.ensure_future(anext(wanting))
    await listening(here, ANN)
    async with here.listen(ANN, ephemeral=True) as passing:
        passing_asks = asyncio.ensure_future(anext(passing))
        while not passing_asks.done():
            await here.send(STAFF, b"tick", quality="datagram")
            await asyncio.sleep(0)
        assert (await passing_asks).payload == b"tick"
    # It would have come before this.
    await there.send([LAB, ANN], b"wanted")
    assert (await asking).payload == b"wanted"
    await wanting.close()
