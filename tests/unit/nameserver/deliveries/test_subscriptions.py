"""Listeners and the log, and the kinds of listeners, over a real core and real streams."""

import asyncio

import grpc
import pytest

import shadowtree
from delivery.log.log import CUT_AT_LEAST
from nameserver.calls import stream_places
from shadowtree.v1 import delivery_pb2 as wire
from shadowtree.v1.delivery_pb2_grpc import DeliveryServiceStub
from tests.unit.nameserver.deliveries.places import places

STAFF, ANN, CLUB, CY = "staff@a.x", "ann@a.x", "club@a.x", "cy@a.x"


@pytest.fixture
async def scene():
    """Ann is staff, and Cy is the club; both have mailboxes."""
    async with places("a.x") as (servers, found):
        servers.create(STAFF, CLUB)
        servers.join(STAFF, ANN)
        servers.join(CLUB, CY)
        yield servers, found[0]


@pytest.fixture
async def names(scene):
    async with shadowtree.aio.Client(scene[1].address) as client:
        yield client


@pytest.fixture
def log(scene):
    return scene[1].machine.core.log


def numbers(count):
    return [b"%d" % number for number in range(count)]


async def until(is_so):
    async with asyncio.timeout(10):
        while not is_so():
            await asyncio.sleep(0.01)


async def read(names, process, count, **options):
    """Return `count` messages, each acknowledged."""
    found = []
    async with names.listen(process, **options) as messages:
        while len(found) < count:
            found.append(await anext(messages))
            found[-1].acknowledge()
    return [message.payload for message in found]


async def test_a_listener_that_gets_nothing_more_does_not_hold_up_the_cut(names, log):
    """It has acknowledged all that it was handed, and waits; others send, and acknowledge."""
    await names.open_mailbox(CY)
    async with names.listen(ANN) as idle:
        await names.send(STAFF, b"the only one")
        (await anext(idle)).acknowledge()
        for payload in numbers(3 * CUT_AT_LEAST):
            await names.send(CLUB, payload)
        assert await read(names, CY, 3 * CUT_AT_LEAST) == numbers(3 * CUT_AT_LEAST)
        await names.send(CLUB, b"one more")
        await until(lambda: log.cut >= 2 * CUT_AT_LEAST)
        await names.send(STAFF, b"and after that")
        message = await anext(idle)
        assert (message.payload, message.gap) == (b"and after that", 0)


async def test_a_few_large_messages_for_others_are_passed_by_too(names, log):
    await names.open_mailbox(CY)
    async with names.listen(ANN):
        for _ in range(6):
            await names.send(CLUB, bytes(600_000))
        await read(names, CY, 6)
        await until(lambda: log.cut >= 4)


async def test_what_a_listener_was_handed_and_has_not_acknowledged_is_kept_however_much_comes_for_others(names, log):
    await names.open_mailbox(CY)
    async with names.listen(ANN) as slow:
        await names.send(STAFF, b"not handled yet")
        message = await anext(slow)
        for payload in numbers(3 * CUT_AT_LEAST):
            await names.send(CLUB, payload)
        await read(names, CY, 3 * CUT_AT_LEAST)
        assert log.cut == 0
        message.acknowledge()
        # It is acknowledged, and what came for others behind it with it.
        await until(lambda: log.cut >= 2 * CUT_AT_LEAST)
    await names.send(STAFF, b"next")
    assert await read(names, ANN, 1) == [b"next"]


async def test_an_ephemeral_listener_gets_what_comes_while_it_listens_and_leaves_nothing(names, scene):
    core = scene[1].machine.core
    async with names.listen(ANN, ephemeral=True) as one, names.listen(ANN, ephemeral=True) as other:
        assert (await names.send(STAFF, b"to both", wait="settled")).mailboxes == 1
        for messages in (one, other):
            assert (await anext(messages)).payload == b"to both"
        assert [each async for each in names.mailboxes()] == []
    await until(lambda: not len(core.listeners))
    assert (await names.send(STAFF, b"to nobody", wait="settled")).mailboxes == 0
    async with names.listen(ANN, ephemeral=True) as messages:
        await names.send(STAFF, b"later")
        assert (await anext(messages)).payload == b"later"


async def test_what_an_ephemeral_listener_was_handed_does_not_hold_up_the_cut(names, log):
    async with names.listen(ANN, ephemeral=True) as messages:
        for payload in numbers(3 * CUT_AT_LEAST):
            await names.send(STAFF, payload)
            assert (await anext(messages)).payload == payload
        await until(lambda: log.cut >= 2 * CUT_AT_LEAST)


async def test_an_ephemeral_listener_that_gives_up_before_it_is_answered_leaves_nothing(names, scene):
    core = scene[1].machine.core
    carry_out, asked = scene[1].machine.carry_out_delivery, asyncio.Event()

    def never_answered(event):
        carry_out(event)
        asked.set()
        return asyncio.get_running_loop().create_future()

    scene[1].machine.carry_out_delivery = never_answered
    listening = asyncio.ensure_future(names.listen(ANN, ephemeral=True).open())
    await asked.wait()
    assert len(core.listeners) == 1
    listening.cancel()
    await until(lambda: not len(core.listeners))


async def test_an_ephemeral_listener_does_not_come_back(scene):
    begin = wire.SubscribeRequest.Begin(name=ANN, ephemeral=True, handed_out="1.0@a.x#0")

    async def said():
        yield wire.SubscribeRequest(begin=begin)

    async with grpc.aio.insecure_channel(scene[1].address) as channel:
        with pytest.raises(grpc.aio.AioRpcError, match="ended with its stream") as caught:
            [response async for response in DeliveryServiceStub(channel).Subscribe(said())]
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def send_mixed(names):
    """Send to two groups, by two senders and without a sender, in parcels of several messages."""
    for sender in ("one", "two"):
        async with names.sender(sender) as out:
            for group in (STAFF, ANN):
                for number in range(3):
                    await out.send(group, f"{sender} {group} {number}".encode())
    await names.send(STAFF, b"nobody's")


@pytest.mark.parametrize(
    ("wanted", "sends", "groups"),
    [
        ({"groups": [STAFF]}, ("one", "two"), (STAFF,)),
        ({"senders": ["two"]}, ("two",), (STAFF, ANN)),
        ({"groups": [ANN, CLUB], "senders": ["one", "three"]}, ("one",), (ANN,)),
    ],
)
async def test_a_listener_is_handed_what_it_wants_alone(names, wanted, sends, groups):
    await names.open_mailbox(ANN)
    await send_mixed(names)
    expected = [f"{sender} {group} {number}".encode() for sender in sends for group in groups for number in range(3)]
    assert sorted(await read(names, ANN, len(expected), **wanted)) == sorted(expected)


async def test_what_is_left_out_counts_as_handed_out(names):
    await names.open_mailbox(ANN)
    await send_mixed(names)
    await names.send(ANN, b"the last one")
    async with names.listen(ANN, groups=[ANN], senders=["two"]) as messages:
        for _ in range(3):
            await anext(messages)
        # Nothing is acknowledged, so all of it comes again.
    assert len(await read(names, ANN, 14)) == 14
    await names.send(STAFF, b"left out")
    await names.send(ANN, b"wanted")
    assert await read(names, ANN, 1, groups=[ANN]) == [b"wanted"]
    await names.send(STAFF, b"next")
    assert await read(names, ANN, 1) == [b"next"]


async def test_what_is_left_out_does_not_hold_up_the_cut(names, log):
    async with names.listen(ANN, groups=[CLUB]):
        for payload in numbers(3 * CUT_AT_LEAST):
            await names.send(STAFF, payload)
        await until(lambda: log.cut >= 2 * CUT_AT_LEAST)


async def test_an_ephemeral_listener_may_want_some_alone(names):
    async with names.listen(ANN, ephemeral=True, groups=[ANN]) as messages:
        await names.send(STAFF, b"left out")
        await names.send(ANN, b"wanted")
        assert (await anext(messages)).payload == b"wanted"


@pytest.mark.parametrize(
    ("wanted", "error", "message"),
    [
        ({"groups": ["no name"]}, shadowtree.InvalidName, "no name"),
        ({"senders": [""]}, shadowtree.InvalidRequest, "1 to 128 printable"),
        ({"senders": ["a\n"]}, shadowtree.InvalidRequest, "1 to 128 printable"),
        ({"senders": ["a" * 129]}, shadowtree.InvalidRequest, "1 to 128 printable"),
        ({"senders": [f"{number}" for number in range(65)]}, shadowtree.LimitExceeded, "at most 64"),
        ({"groups": [STAFF] * 65}, shadowtree.LimitExceeded, "at most 64"),
    ],
)
async def test_wrong_names_to_listen_to_are_refused_and_open_no_mailbox(names, wanted, error, message):
    with pytest.raises(error, match=message):
        await names.listen(ANN, **wanted).open()
    assert [each async for each in names.mailboxes()] == []


async def test_a_process_in_no_group_is_a_target_while_somebody_listens_for_it(names):
    async with names.listen("guest@a.x", ephemeral=True) as messages:
        await names.send("guest@a.x", b"hello")
        assert (await anext(messages)).payload == b"hello"

    async def is_refused():
        try:
            await names.send("guest@a.x", b"anybody there?")
        except shadowtree.TargetNotFound:
            return True
        return False

    async with asyncio.timeout(10):
        while not await is_refused():
            pass


async def test_who_comes_later_reads_the_archive_of_a_group(names, log):
    with pytest.raises(shadowtree.MailboxNotFound):
        await names.listen(STAFF).open()
    assert (await names.open_mailbox(STAFF)).is_new
    await names.open_mailbox(ANN)
    for payload in numbers(3 * CUT_AT_LEAST):
        await names.send(STAFF, payload)
    await names.send(ANN, b"not to the group")
    for subscription in ("one", "two"):
        assert await read(names, STAFF, 3 * CUT_AT_LEAST, subscription=subscription) == numbers(3 * CUT_AT_LEAST)
    assert len(await read(names, ANN, 3 * CUT_AT_LEAST + 1)) == 3 * CUT_AT_LEAST + 1
    assert log.cut == 0
    assert [one.name for one in await names.close_mailbox(STAFF)] == ["one", "two"]


async def test_what_comes_to_a_group_may_be_looked_at_without_an_archive(names):
    async with names.listen(STAFF, ephemeral=True) as messages:
        await names.send([ANN, CLUB], b"to others")
        await names.send([CLUB, STAFF], b"to the staff")
        assert (await anext(messages)).payload == b"to the staff"


async def was_refused(stream):
    try:
        await stream.read()
    except grpc.aio.AioRpcError:
        return await stream.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    return False


@pytest.mark.parametrize("kind", ["a listener", "a sender"])
async def test_a_stream_that_gave_its_place_to_others_comes_back_by_itself(scene, names, monkeypatch, kind):
    monkeypatch.setattr(stream_places, "STREAMS_OF_THIS_MACHINE_LIMIT", 1)
    monkeypatch.setattr(stream_places, "IDLE_SECONDS", 0.05)
    begin = wire.SubscribeRequest.Begin(name=CY, ephemeral=True)
    async with (
        names.listen(ANN) as messages,
        names.sender("nightly") as out,
        grpc.aio.insecure_channel(scene[1].address) as channel,
    ):
        await messages.open() if kind == "a listener" else await out.next_number(STAFF)
        for _ in range(3):
            # The stranger opens streams until one has taken the place.
            is_refused = True
            while is_refused:
                idle = DeliveryServiceStub(channel).Subscribe()
                await idle.write(wire.SubscribeRequest(begin=begin))
                is_refused = await was_refused(idle)
            if kind == "a listener":
                await names.send(STAFF, b"kept")
                async with asyncio.timeout(10):
                    assert (await anext(messages)).payload == b"kept"
            else:
                await out.send(STAFF, b"kept")
                async with asyncio.timeout(10):
                    await out.flush()
        if kind == "a sender":
            # Each is accepted once.
            assert await out.next_number(STAFF) == 4


async def flood(names, group, count):
    async with names.sender("flood") as out:
        for _ in range(count):
            await out.send(group, bytes(140_000))


async def test_a_hole_in_the_log_is_a_gap_for_those_alone_who_lost_something_in_it(names, log):
    log.limit_bytes = 1024 * 1024
    await names.open_mailbox(CY)
    await names.send(STAFF, b"first")
    await names.open_mailbox(ANN)
    await names.send(STAFF, b"second")
    await flood(names, CLUB, 30)
    await names.send(STAFF, b"third")
    assert log.gone > 20
    async with names.listen(ANN) as messages:
        found = [await anext(messages) for _ in range(2)]
    assert [(each.payload, each.gap) for each in found] == [(b"second", 0), (b"third", 0)]
    async with names.listen(CY) as messages:
        first = await anext(messages)
        assert first.gap == log.gone
        assert [(await anext(messages)).gap for _ in range(5)] == [0] * 5


async def test_who_stands_before_a_hole_goes_on_behind_it_though_others_have_read_far(names, scene, log):
    """All that is between it and what the others had read when they began is gone."""
    log.limit_bytes, mailboxes = 1024 * 1024, scene[1].machine.core.mailboxes
    await names.open_mailbox(ANN)
    await names.open_mailbox(CY)
    await names.send(STAFF, b"first")
    await flood(names, CLUB, 10)
    async with names.listen(CY, subscription="others", from_="now") as others:
        begun = asyncio.create_task(anext(others))
        await until(lambda: mailboxes.cursor((mailboxes.numbers[CY], "others")) is not None)
        begun_at = log.last
        await flood(names, CLUB, 1)
        await begun
        await flood(names, CLUB, 30)
        assert log.cut == 0
        assert log.gone >= begun_at
        await names.send(STAFF, b"second")
        async with names.listen(ANN) as messages:
            found = [await anext(messages) for _ in range(2)]
    assert [(each.payload, each.gap) for each in found] == [(b"first", 0), (b"second", 0)]
