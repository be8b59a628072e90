"""Gateways over a real core and real streams: the recipients of each message, told once while they stay the same."""

import asyncio

import grpc
import pytest

import shadowtree
from delivery.mailboxes.gateways import FIRST_RECIPIENT
from nameserver.wire.metadata import FORWARDED_KEY
from shadowtree.v1 import delivery_pb2 as wire
from shadowtree.v1.delivery_pb2_grpc import DeliveryServiceStub
from tests.unit.nameserver.deliveries.places import places

STAFF, CLUB, ANN, CY, EVE = "staff@a.x", "club@a.x", "ann@a.x", "cy@a.x", "eve@debian.org"


@pytest.fixture
async def scene():
    """Ann and Eve are staff, and Cy is the club."""
    async with places("a.x") as (servers, found):
        servers.create(STAFF, CLUB)
        for group, member in ((STAFF, ANN), (STAFF, EVE), (CLUB, CY)):
            servers.join(group, member)
        yield servers, found[0]


@pytest.fixture
async def names(scene):
    async with shadowtree.aio.Client(scene[1].address) as client:
        yield client


async def send(names, *targets):
    for number, target in enumerate(targets):
        await names.send(target, b"%d" % number)


async def told(place, count, *, takes_more=False):
    """Return the responses to a gateway after the first one, until there were `count` messages."""
    found = []
    async with grpc.aio.insecure_channel(place.address) as channel:
        begin = wire.SubscribeRequest.Begin(name="*", subscription="mail", takes_more=takes_more)
        first = wire.SubscribeRequest(begin=begin, credit_messages=100, credit_bytes=1_000_000)
        stream = DeliveryServiceStub(channel).Subscribe()
        await stream.write(first)
        assert not (await stream.read()).recipients
        while sum(len(each.messages) for response in found for each in (response, *response.more)) < count:
            found.append(await stream.read())
        stream.cancel()
    return found


def shown(responses):
    return [([message.payload for message in one.messages], sorted(one.recipients)) for one in responses]


async def test_recipients_are_told_once_while_they_stay_the_same(scene, names):
    await names.open_mailbox("*")
    await names.open_mailbox(ANN)
    await send(names, STAFF, STAFF, ANN, CLUB, CLUB)
    assert shown(await told(scene[1], 5)) == [
        ([b"0", b"1"], [ANN, EVE]),
        ([b"2"], [ANN]),
        ([b"3", b"4"], [CY]),
    ]


async def test_what_is_for_others_comes_in_the_same_response_where_the_caller_reads_that(scene, names):
    await names.open_mailbox("*")
    await names.open_mailbox(ANN)
    await send(names, STAFF, STAFF, ANN, CLUB, CLUB)
    (response,) = await told(scene[1], 5, takes_more=True)
    assert shown([response, *response.more]) == [
        ([b"0", b"1"], [ANN, EVE]),
        ([b"2"], [ANN]),
        ([b"3", b"4"], [CY]),
    ]
    assert not any(each.more for each in response.more)


async def test_what_would_be_too_much_for_one_response_comes_in_several(scene, names, monkeypatch):
    monkeypatch.setattr("nameserver.deliveries.subscribe_calls.RESPONSE_BYTES_LIMIT", 1)
    await names.open_mailbox("*")
    await send(names, STAFF, CLUB)
    responses = await told(scene[1], 2, takes_more=True)
    assert shown(responses) == [([b"0"], [ANN, EVE]), ([b"1"], [CY])]


async def test_a_mailbox_that_is_opened_meanwhile_changes_the_audience_and_not_the_recipients(scene, names):
    await names.open_mailbox("*")
    await send(names, STAFF)
    await names.open_mailbox(ANN)
    await send(names, STAFF)
    assert shown(await told(scene[1], 2)) == [([b"0", b"0"], [ANN, EVE])]


async def test_many_are_named_in_several_responses_and_the_client_puts_them_together(scene, names, monkeypatch):
    monkeypatch.setattr("nameserver.deliveries.message_wire.RECIPIENTS_TOGETHER", 3)
    servers, place = scene
    people = [f"p{number}@a.x" for number in range(10)]
    for person in people:
        servers.join(STAFF, person)
    await names.open_mailbox("*")
    await send(names, STAFF, STAFF, CLUB)
    responses = await told(place, 3)
    assert all(one.recipients and not one.messages for one in responses if one.more_recipients)
    assert sum(one.more_recipients for one in responses) == 3
    async with names.listen("*") as messages:
        found = [await anext(messages) for _ in range(3)]
    assert [sorted(message.recipients) for message in found] == [sorted([ANN, EVE, *people])] * 2 + [[CY]]
    assert all(len(set(message.recipients)) == len(message.recipients) for message in found)


async def test_a_number_that_another_one_has_got_meanwhile_is_told_with_its_new_name(scene, names, monkeypatch):
    """The audience is the same bit as that of the message before."""
    monkeypatch.setattr("delivery.mailboxes.subscription_read.CUT_AT_LEAST", 1)
    servers, place = scene
    place.machine.core.log.cut_at_least = 1
    recipients = servers.servers["a.x"].durable.maps["recipient"]
    await names.open_mailbox(CY)
    async with names.listen("*@debian.org") as messages, names.listen(CY) as others:
        await send(names, STAFF)
        message = await anext(messages)
        assert (message.recipients, dict(recipients)) == ((EVE,), {EVE: FIRST_RECIPIENT})
        await message.acknowledge()
        servers.leave(STAFF, EVE)
        async with asyncio.timeout(10):
            while recipients:
                await send(names, CLUB)
                await (await anext(others)).acknowledge()
        servers.join(STAFF, "joe@debian.org")
        await send(names, STAFF)
        assert (await anext(messages)).recipients == ("joe@debian.org",)
        assert dict(recipients) == {"joe@debian.org": FIRST_RECIPIENT}


async def test_what_it_has_not_acknowledged_is_kept_and_comes_again(scene, names):
    async with names.listen("*", subscription="mail") as messages:
        await send(names, STAFF, CLUB)
        first = await anext(messages)
        assert (await anext(messages)).recipients == (CY,)
        await first.acknowledge()
    async with names.listen("*", subscription="mail") as messages:
        assert (await anext(messages)).recipients == (CY,)
    assert scene[1].machine.core.log.cut == 0


async def test_an_older_endpoint_is_told_that_another_one_took_it_over(names):
    async with names.listen("*", subscription="mail") as older:
        await older.open()
        async with names.listen("*", subscription="mail") as newer:
            await newer.open()
            with pytest.raises(shadowtree.TakenOver):
                await anext(older)


async def test_who_closes_it_ends_its_listeners(names):
    async with names.listen("*@debian.org") as messages:
        await messages.open()
        await names.close_mailbox("*@debian.org", force=True)
        with pytest.raises(shadowtree.MailboxNotFound):
            await anext(messages)


@pytest.mark.parametrize("is_away", [False, True], ids=["while it listens", "while it is away"])
async def test_no_client_takes_away_what_a_gateway_keeps(names, is_away):
    async with names.listen("*", subscription="mail") as messages:
        await messages.open()
        if is_away:
            await messages.close()
        await names.send(STAFF, b"kept")
        with pytest.raises(shadowtree.PermissionDenied, match=r"--force on the machine of the server a\.x"):
            await names.close_mailbox("*")
    async with names.listen("*", subscription="mail") as messages:
        assert (await anext(messages)).payload == b"kept"


async def test_another_server_passes_on_no_order_to_close_a_gateway(names, scene):
    await names.open_mailbox("*@a.x")
    request = wire.CloseMailboxRequest(process="*@a.x", force=True)
    async with grpc.aio.insecure_channel(scene[1].address) as channel:
        close = DeliveryServiceStub(channel).CloseMailbox
        with pytest.raises(grpc.aio.AioRpcError, match="is the mailbox of a gateway"):
            await close(request, metadata=((FORWARDED_KEY, "b.x"),))
        assert (await close(request)).process == "*@a.x"


async def test_a_server_says_which_gateways_it_has_when_it_takes_no_more(names):
    for number in range(16):
        await names.open_mailbox(f"*@d{number}.org")
    with pytest.raises(shadowtree.LimitExceeded, match=r"\*@d0\.org"):
        await names.open_mailbox("*@d16.org")


async def test_one_of_a_subnet_is_at_the_server_that_owns_it_and_may_be_asked_for_anywhere():
    async with places("a.x", "b.x") as (servers, (here, _)):
        servers.create(STAFF)
        servers.join(STAFF, "bob@b.x")
        async with shadowtree.aio.Client(here.address) as names, names.listen("*@b.x") as messages:
            await messages.open()
            assert await names.send(STAFF, b"hello")
            assert (await anext(messages)).recipients == ("bob@b.x",)
        assert list(servers.servers["b.x"].delivery.mailboxes.gateways) == ["*@b.x"]
