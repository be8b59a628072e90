"""A client that does not read or acknowledge holds up no other client. A subscription has one listener."""

import asyncio
import threading

import grpc
import pytest

import shadowtree
from nameserver.calls.stream_places import STREAMS_OF_THIS_MACHINE_LIMIT
from shadowtree.v1 import delivery_pb2 as wire
from shadowtree.v1.delivery_pb2_grpc import DeliveryServiceStub
from tests.integration.deliveries.groups_in_a_loop import (
    FLAT,
    LAST,
    SUBNETS,
    Ear,
    build,
    ears,
    numbered,
    payloads,
    server_of,
    until_last,
)
from tests.integration.nameserver.server_process import PATIENCE_SECONDS, wait_until

LARGE = 500 * 1024


@pytest.fixture(scope="module")
def servers(start_shared):
    return build(start_shared([[subnet] for subnet in SUBNETS]))


class RawListener:
    """A stream of which the test alone says what it grants, reads and acknowledges; begins now."""

    def __init__(self, servers, asked, process, *, subscription, credit_messages=0, credit_bytes=0):
        begin = wire.SubscribeRequest.Begin(name=process, subscription=subscription)
        setattr(begin, "from", wire.SubscribeRequest.FROM_NOW)
        self._said = [wire.SubscribeRequest(begin=begin, credit_messages=credit_messages, credit_bytes=credit_bytes)]
        self._more, self._is_over = threading.Condition(), False
        self.stream = DeliveryServiceStub(servers.processes[asked].channel()).Subscribe(self._requests())

    def _requests(self):
        while True:
            with self._more:
                self._more.wait_for(lambda: self._said or self._is_over)
                if not self._said:
                    return
                request = self._said.pop(0)
            yield request

    def say(self, **fields):
        with self._more:
            self._said.append(wire.SubscribeRequest(**fields))
            self._more.notify_all()

    def begun(self):
        """Return the first response, which comes at once."""
        response = next(self.stream)
        assert response.position
        assert not response.messages
        return response

    def close(self):
        with self._more:
            self._is_over = True
            self._more.notify_all()
        self.stream.cancel()


@pytest.fixture
def raw(servers):
    opened = []

    def listen(asked, process, **options):
        opened.append(RawListener(servers, asked, process, **options))
        return opened[-1]

    yield listen
    for one in opened:
        one.close()


@pytest.mark.parametrize("asked", [0, 2])
def test_who_reads_nothing_or_grants_nothing_holds_up_nobody(servers, raw, asked):
    process, name = "cyd@c.x", f"asked {asked}"
    raw(asked, process, subscription=f"{name}, no credit").begun()
    # It may be sent a megabyte, and takes none of it.
    raw(asked, process, subscription=f"{name}, deaf", credit_messages=1_000, credit_bytes=1 << 20)
    sent = [b"%d " % number + bytes(LARGE) for number in range(8)]
    with ears(servers, subscription=name) as listening:
        for payload in sent:
            servers.clients[0].send(FLAT, payload)
        servers.clients[0].send(FLAT, LAST, wait="settled")
        for ear in listening:
            ear.wait_for(LAST)
            assert ear.payloads[-9:] == [*sent, LAST]


def test_credit_is_what_comes_and_no_more(servers, raw):
    listener = raw(2, "cyd@c.x", subscription="credit", credit_messages=0, credit_bytes=1 << 20)
    listener.begun()
    # All that is in the mailbox is there to be sent; three are granted.
    for payload in numbered(5):
        servers.clients[0].send(FLAT, payload, wait="settled")
    listener.say(credit_messages=3)
    found = [message for response in (next(listener.stream),) for message in response.messages]
    while len(found) < 3:
        found += next(listener.stream).messages
    listener.say(acknowledged=found[-1].position, credit_messages=2)
    more = list(next(listener.stream).messages)
    while len(more) < 2:
        more += next(listener.stream).messages
    assert len(found) == 3
    assert len(more) == 2
    positions = [message.position for message in (*found, *more)]
    assert len(set(positions)) == 5


def test_who_acknowledges_nothing_gets_all_again_and_holds_up_nobody(servers):
    process = "bob@b.x"
    client = servers.clients[server_of(process)]
    with (
        client.listen(process, subscription="never", from_="now") as never,
        ears(servers, subscription="others", from_="now") as others,
    ):
        for payload in numbered(60):
            servers.clients[0].send(FLAT, payload)
        servers.clients[0].send(FLAT, LAST, wait="settled")
        assert payloads(next(never) for _ in range(61)) == [*numbered(60), LAST]
        for other in others:
            other.wait_for(LAST)
            assert other.payloads == [*numbered(60), LAST]
    assert payloads(until_last(client, process, subscription="never")) == [*numbered(60), LAST]


@pytest.mark.parametrize("asked", [0, 1])
def test_who_takes_over_a_subscription_goes_on_and_the_other_is_told(servers, asked):
    process = "bea@b.x"
    first = Ear(servers.new_client(1), process, subscription=f"desk {asked}", from_="now")
    servers.clients[0].send(FLAT, b"for the first", wait="settled")
    first.wait_for(b"for the first")
    second = Ear(servers.new_client(asked), process, subscription=f"desk {asked}")
    try:
        wait_until(lambda: first.wrong, "the end of the first")
        assert isinstance(first.wrong, shadowtree.TakenOver)
        assert first.wrong.facts == {"process": process, "subscription": f"desk {asked}"}
        servers.clients[0].send(FLAT, b"for the second")
        second.wait_for(b"for the second")
        assert first.payloads == [b"for the first"]
        # Before it was told, the first may have acknowledged or not.
        assert second.payloads in ([b"for the second"], [b"for the first", b"for the second"])
    finally:
        first.close()
        second.close()


def test_an_acknowledgement_of_who_was_taken_over_counts_for_nothing(servers, raw):
    process, credit = "ann@a.x", {"credit_messages": 10, "credit_bytes": 1000}
    old = raw(0, process, subscription="epochs", **credit)
    old.begun()
    servers.clients[0].send(FLAT, LAST, wait="settled")
    (told,) = next(old.stream).messages
    new = raw(0, process, subscription="epochs")
    new.begun()
    old.say(acknowledged=told.position)
    with pytest.raises(grpc.RpcError) as caught:
        list(old.stream)
    assert caught.value.code() is grpc.StatusCode.ABORTED
    new.say(**credit)
    assert payloads(next(new.stream).messages) == [LAST]


def test_more_subscriptions_than_a_mailbox_has_are_refused(servers):
    client = servers.clients[0]
    client.create_group("few@a.x")
    client.join("few@a.x", "many@a.x")
    for number in range(16):
        client.listen("many@a.x", subscription=f"{number}").close()
    with pytest.raises(shadowtree.LimitExceeded, match="at most 16 subscriptions"):
        client.listen("many@a.x", subscription="one more")
    mailbox = client.close_mailbox("many@a.x")
    assert len(list(mailbox)) == 16


async def crowd(address, name, count):
    """Keep `count` idle listeners of one process. Return the number of refused ones, and the ends of the others."""
    channel = grpc.aio.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])
    begin = wire.SubscribeRequest(begin=wire.SubscribeRequest.Begin(name=name, ephemeral=True))
    streams = [DeliveryServiceStub(channel).Subscribe() for _ in range(count)]
    for stream in streams:
        await stream.write(begin)
    answers = await asyncio.gather(*(stream.read() for stream in streams), return_exceptions=True)
    refused = [each for each in answers if isinstance(each, grpc.aio.AioRpcError)]
    assert {each.code() for each in refused} <= {grpc.StatusCode.RESOURCE_EXHAUSTED}
    return len(refused), channel.close


def test_idle_streams_of_one_machine_leave_places_for_other_calls(servers):
    client = servers.clients[1]
    client.create_group("crowded@b.x")
    client.join("crowded@b.x", "gus@b.x")
    ear = Ear(servers.new_client(1), "gus@b.x")

    async def run():
        before, close = await crowd(servers.address(1), "gus@b.x", STREAMS_OF_THIS_MACHINE_LIMIT)
        more, close_more = await crowd(servers.address(1), "gus@b.x", 300)
        try:
            assert before < 100
            assert more == 300
            async with shadowtree.aio.Client(servers.address(1)) as names:
                await names.send("crowded@b.x", LAST)
                assert (await names.open_mailbox("gus@b.x")).process == "gus@b.x"
        finally:
            await close_more()
            await close()

    asyncio.run(run())
    ear.wait_for(LAST)
    ear.close()


def test_a_mailbox_that_is_closed_ends_who_listens(servers):
    client = servers.clients[2]
    client.create_group("closed@c.x")
    client.join("closed@c.x", "eve@c.x")
    ear = Ear(servers.new_client(0), "eve@c.x")
    client.close_mailbox("eve@c.x")
    wait_until(lambda: ear.wrong, "the end of the listener")
    assert isinstance(ear.wrong, shadowtree.MailboxNotFound)
    ear.close()
    assert client.send("closed@c.x", b"to nobody", wait="settled").mailboxes == 0


def test_a_listener_that_is_closed_from_elsewhere_ends_at_once(servers):
    listener = servers.new_client(0).listen("cyd@c.x", subscription="closing", from_="now")
    waiting = threading.Thread(target=lambda: list(listener))
    waiting.start()
    listener.close()
    waiting.join(PATIENCE_SECONDS)
    assert not waiting.is_alive()
