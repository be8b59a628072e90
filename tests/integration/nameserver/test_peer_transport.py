"""Transports over real gRPC, between cores that only count letters."""

import asyncio
import re
import time
from contextlib import asynccontextmanager

import grpc
import pytest
import pytest_asyncio

from namegraph.events import POST_BYTES_LIMIT, AddPeer, Lane, RemovePeer, Tick
from namegraph.model.protocol_versions import (
    MUTUAL_TLS_VERSION,
    OLDEST_PROTOCOL_VERSION,
    PLAIN_TEXT_VERSION,
    PROTOCOL_VERSION,
)
from namegraph.model.refusals import Reason, Refusal, RefusedError
from namegraph.state.given_up import GivenUp
from nameserver.detector import liveness as watch_module
from nameserver.detector.liveness import Life
from nameserver.session.frames import (
    Goodbye,
    GoodbyeReason,
    Heartbeat,
    Hello,
    Letters,
    Receipt,
    decode,
    encode,
)
from nameserver.session.session_lane import FRAME_BYTES_LIMIT, UNCONFIRMED_POSTS_BYTES_LIMIT
from nameserver.transport import peer_directory as directory_module
from nameserver.transport import session_runner as conversation_module
from nameserver.transport import strangers as strangers_module
from nameserver.transport.peer_streams import CONVERSE_METHOD, DialledStream, StreamBrokenError
from nameserver.transport.tunnel_gate import TUNNELS_OF_PEER_LIMIT
from nameserver.transport.tunnel_socket import TUNNEL_METHOD
from shadowtree.cli.support.free_ports import unused_ports
from tests.fakes.peer_core import FakeDisk, FakePeerCore
from tests.fakes.peer_server import PATIENCE_SECONDS, FakeServer, until

# One loop for all: gRPC polls for the loop that it was first used from.
pytestmark = pytest.mark.asyncio(loop_scope="module")

ENDING = Refusal(Reason.UNAVAILABLE, "the server b.x is shutting down")


@pytest.fixture
def ports():
    return unused_ports(3)


@pytest_asyncio.fixture(loop_scope="module")
async def start():
    """Start servers that are gone when the test ends."""
    started = []

    async def start_server(name, port, peers, subnets=None, disk=None, before_start=None):
        disk = disk if disk is not None else FakeDisk()
        core = FakePeerCore(name, subnets or [name], peers, disk)
        if before_start is not None:
            before_start(core)
        server = FakeServer(core, disk)
        await server.start(port)
        started.append(server)
        return server

    yield start_server
    for server in started:
        if not all(task.done() for task in server.tasks):
            await server.kill()


def address(port):
    return f"127.0.0.1:{port}"


@pytest_asyncio.fixture(loop_scope="module")
async def pair(start, ports):
    a = await start("a.x", ports[0], {"b.x": address(ports[1])})
    b = await start("b.x", ports[1], {"a.x": address(ports[0])})
    await until(lambda: a.core.met and b.core.met)
    return a, b


async def test_two_servers_that_dial_each_other_keep_one_session(pair, ports):
    a, b = pair
    await until(lambda: len(a.transport._conversations) == len(b.transport._conversations) == 1)
    assert a.state(address(ports[1])) == b.state(address(ports[0])) == "connected"
    a.send("b.x", b"echo hello")
    await until(lambda: a.letters("b.x") == [b"hello"])
    assert a.faults() == b.faults() == {}


async def test_letters_arrive_once_each_in_order_and_are_forgotten_after_their_receipt(pair):
    a, b = pair
    letters = [f"echo {number}".encode() for number in range(3_000)]
    for letter in letters:
        a.send("b.x", letter)
    await until(lambda: len(a.letters("b.x")) == len(letters))
    assert b.letters("a.x") == letters
    assert a.letters("b.x") == [letter.removeprefix(b"echo ") for letter in letters]
    await until(lambda: not list(a.core.channels.kept("b.x")) and not list(b.core.channels.kept("a.x")))
    assert a.faults() == b.faults() == {}


async def test_a_letter_larger_than_a_frame_and_than_what_clients_may_send_arrives(pair):
    a, b = pair
    large = bytes(range(256)) * (20 * FRAME_BYTES_LIMIT // 256) + b"the end"
    for letter in (b"before", large, b"after"):
        a.send("b.x", letter)
    await until(lambda: len(b.letters("a.x")) == 3)
    assert b.letters("a.x") == [b"before", large, b"after"]


async def test_posts_arrive_beside_letters_once_each_in_order_and_are_forgotten_after_their_receipt(pair):
    a, b = pair
    posts = [bytes([number % 256]) * (1 + number**2 % 300_000) for number in range(100)]
    for number, post in enumerate(posts):
        a.send("b.x", post, Lane.POST)
        a.send("b.x", f"echo {number}".encode())
    await until(lambda: len(b.posts("a.x")) == len(posts) and len(a.letters("b.x")) == len(posts))
    assert b.posts("a.x") == posts
    assert len(b.letters("a.x")) == len(posts)
    await until(lambda: not list(a.core.posts.kept("b.x")))
    assert a.faults() == b.faults() == {}


async def test_a_letter_leaves_before_posts_that_wait_with_it(pair):
    a, b = pair
    for _ in range(3):
        a.send("b.x", bytes(POST_BYTES_LIMIT), Lane.POST)
    a.send("b.x", b"vote")
    await until(lambda: len(b.posts("a.x")) == 3 and b.letters("a.x") == [b"vote"])
    # One post at most had been written before the letter was.
    assert Lane.LETTERS in b.core.lanes_handled[:2]
    assert a.faults() == b.faults() == {}


async def test_posts_that_are_put_off_are_sent_up_to_a_window_and_confirmed_when_they_are_handled(pair):
    a, b = pair
    b.core.takes_posts = False
    post = bytes(1024 * 1024)
    for _ in range(20):
        a.send("b.x", post, Lane.POST)
    in_window = UNCONFIRMED_POSTS_BYTES_LIMIT // len(post) - 1
    await until(lambda: len(b.core.posts_held) == in_window)
    a.send("b.x", b"echo there")
    await until(lambda: a.letters("b.x") == [b"there"])
    assert len(b.core.posts_held) == in_window
    assert len(list(a.core.posts.kept("b.x"))) == 20
    b.core.takes_posts = True
    b.run_loop.take(Tick())
    await until(lambda: len(b.posts("a.x")) == 20 and not list(a.core.posts.kept("b.x")))
    assert a.faults() == b.faults() == {}


async def test_posts_that_were_only_put_off_come_again_after_a_crash(pair, start, ports):
    a, b = pair
    b.core.takes_posts = False
    for post in (b"une", b"deux"):
        a.send("b.x", post, Lane.POST)
    await until(lambda: len(b.core.posts_held) == 2)
    await b.kill()
    again = await start("b.x", ports[1], {"a.x": address(ports[0])}, disk=b.disk)
    await until(lambda: again.posts("a.x") == [b"une", b"deux"])
    await until(lambda: not list(a.core.posts.kept("b.x")))
    assert a.faults() == again.faults() == {}


async def test_a_connection_that_is_cut_is_made_again_and_nothing_is_lost(pair):
    a, b = pair
    sent = 0
    for _ in range(5):
        for _ in range(200):
            a.send("b.x", f"echo {sent}".encode())
            a.send("b.x", f"post {sent}".encode(), Lane.POST)
            sent += 1
        await asyncio.sleep(0)
        for conversation in list(a.transport._conversations):
            conversation.session.lost("cut by the test")
            conversation.wake()
        await until(lambda: "b.x" in a.transport._open)
    await until(lambda: len(a.letters("b.x")) == sent)
    assert b.letters("a.x") == [f"echo {number}".encode() for number in range(sent)]
    assert a.letters("b.x") == [f"{number}".encode() for number in range(sent)]
    await until(lambda: len(b.posts("a.x")) == sent)
    assert b.posts("a.x") == [f"post {number}".encode() for number in range(sent)]
    assert a.faults() == b.faults() == {}


async def test_a_peer_that_is_killed_and_started_again_gets_what_it_missed(start, ports, monkeypatch):
    monkeypatch.setattr(watch_module, "RESTART_SECONDS", 0.05)
    a = await start("a.x", ports[0], {"b.x": address(ports[1])})
    b = await start("b.x", ports[1], {"a.x": address(ports[0])})
    a.send("b.x", b"before")
    await until(lambda: b.letters("a.x") == [b"before"])
    await until(lambda: ("inbox", "a.x") in b.disk.rows)
    await b.kill()
    await until(lambda: a.core.lost)
    assert a.core.lost[0][0] == "b.x"
    assert a.state(address(ports[1])).startswith("silent since 20")
    a.send("b.x", b"while away")
    again = await start("b.x", ports[1], {"a.x": address(ports[0])}, disk=b.disk)
    await until(lambda: again.letters("a.x") == [b"while away"])
    assert a.state(address(ports[1])) == "connected"
    assert a.faults() == again.faults() == {}


async def test_a_server_that_says_goodbye_is_stopped_and_lost_at_once(pair, ports, monkeypatch):
    monkeypatch.setattr(watch_module, "RESTART_SECONDS", 10 * PATIENCE_SECONDS)
    a, b = pair
    await b.close()
    await until(lambda: a.core.lost)
    assert a.core.lost == [("b.x", "stopped: b.x is shutting down")]
    assert a.state(address(ports[1])).startswith("stopped since 20")
    assert a.report("b.x").life is Life.STOPPED
    assert not a.transport.link_of("b.x").may_come_soon


async def test_a_stopped_server_that_is_started_again_is_met_again(pair, start, ports):
    a, b = pair
    await b.close()
    await until(lambda: a.core.lost)
    again = await start("b.x", ports[1], {"a.x": address(ports[0])}, disk=b.disk)
    await until(lambda: again.core.met and a.report("b.x").life is Life.UP)
    assert a.state(address(ports[1])) == "connected"


async def test_a_server_that_has_parted_to_end_answers_no_read_that_may_miss_the_others(pair):
    _, b = pair
    b.transport.leave(ENDING)
    await b.transport.until_all_met()
    await b.close()
    with pytest.raises(RefusedError, match=r"b\.x is shutting down"):
        await b.transport.until_all_met()


async def test_a_server_that_leaves_says_so_and_still_takes_and_sends_letters(pair):
    a, b = pair
    b.transport.leave(ENDING)
    await until(lambda: a.core.leaving == ["b.x"])
    a.send("b.x", b"echo hello")
    await until(lambda: a.letters("b.x") == [b"hello"])
    assert a.core.lost == []
    assert a.report("b.x").life is Life.UP


async def test_a_server_that_leaves_says_so_again_on_a_connection_that_was_made_again(pair):
    a, b = pair
    b.transport.leave(ENDING)
    await until(lambda: a.core.leaving == ["b.x"])
    for conversation in list(a.transport._conversations):
        conversation.session.lost("cut by the test")
        conversation.wake()
    await until(lambda: a.core.leaving == ["b.x", "b.x"])


async def test_a_restart_that_is_quick_loses_nobody(pair, start, ports):
    a, b = pair
    await b.kill()
    await start("b.x", ports[1], {"a.x": address(ports[0])}, disk=b.disk)
    await until(lambda: len(a.core.met) > 1)
    assert a.core.lost == []


async def test_a_server_that_is_not_there_when_this_one_starts_is_lost(start, ports, monkeypatch):
    monkeypatch.setattr(watch_module, "RESTART_SECONDS", 0.05)
    a = await start(
        "a.x",
        ports[0],
        {"b.x": address(ports[1])},
        before_start=lambda core: core.owners.update({"b.x": "b.x"}),
    )
    await until(lambda: a.core.lost)
    assert a.core.lost[0][0] == "b.x"


async def test_nothing_leaves_before_it_is_durable(start, ports):
    a = await start("a.x", ports[0], {"b.x": address(ports[1])})
    b = await start("b.x", ports[1], {"a.x": address(ports[0])})
    await until(lambda: a.core.met and b.core.met)
    release = asyncio.Event()
    loop = asyncio.get_running_loop()
    commit = a.disk.commit

    def held_commit(records):
        asyncio.run_coroutine_threadsafe(release.wait(), loop).result(PATIENCE_SECONDS)
        commit(records)

    a.disk.commit = held_commit
    a.send("b.x", b"echo hello")
    b.send("a.x", b"to be confirmed")
    await until(lambda: a.letters("b.x") == [b"to be confirmed"])
    assert b.letters("a.x") == []
    assert len(list(b.core.channels.kept("a.x"))) == 1
    release.set()
    await until(lambda: a.letters("b.x") == [b"to be confirmed", b"hello"])
    await until(lambda: not list(b.core.channels.kept("a.x")))


# -- who is refused


async def test_two_servers_that_claim_one_subnet_refuse_each_other_and_say_so_once(start, ports):
    a = await start("a.x", ports[0], {"b.x": address(ports[1])}, subnets=["a.x", "same.x"])
    b = await start("b.x", ports[1], {"a.x": address(ports[0])}, subnets=["b.x", "same.x"])
    claims = "claims the subnet same.x"
    await until(lambda: claims in a.state(address(ports[1])) and claims in b.state(address(ports[0])))
    await until(lambda: sum(a.faults().values()) + sum(b.faults().values()) >= 4)
    for server in (a, b):
        assert all(state.startswith("refused: ") for state in [each.state for each in server.transport.reports()])
        assert not server.core.met
        assert len(server.said) == 1
        assert claims in server.said[0]


async def test_a_third_server_that_claims_the_subnet_of_a_peer_is_refused(pair, start, ports):
    a, _ = pair
    c = await start("c.x", ports[2], {"a.x": address(ports[0])}, subnets=["b.x", "c.x"])
    a.run_loop.take(AddPeer(0, "c.x", address(ports[2])))
    a.transport.refresh()
    await until(lambda: "claims the subnet b.x, which b.x owns" in c.state(address(ports[0])))
    assert a.state(address(ports[1])) == "connected"
    assert "c.x" not in a.core.met


async def test_a_server_at_the_wrong_address_is_refused(start, ports):
    a = await start("a.x", ports[0], {"b.x": address(ports[1])})
    await start("c.x", ports[1], {"a.x": address(ports[0])})
    await until(lambda: "does not own b.x" in a.state(address(ports[1])))


async def test_a_server_that_nobody_configured_is_refused_counted_and_named(start, ports):
    a = await start("a.x", ports[0], {})
    b = await start("b.x", ports[1], {"a.x": address(ports[0])})
    await until(lambda: "is in the table of peers of a.x" in b.state(address(ports[0])))
    await until(lambda: a.transport.strangers_refused().get("not a peer", 0) >= 2)
    assert a.said == ["refused connection from b.x (127.0.0.1): not in the table of peers"]
    assert b.said == [f"no connection with {address(ports[0])}: {b.state(address(ports[0]))}"]
    assert not a.core.met


async def test_a_server_becomes_a_peer_and_ceases_to_be_one_while_both_run(start, ports):
    a = await start("a.x", ports[0], {})
    b = await start("b.x", ports[1], {"a.x": address(ports[0])})
    await until(lambda: b.state(address(ports[0])).startswith("refused"))
    await a.run_loop.carry_out(AddPeer(a.run_loop.new_ticket(), "b.x", address(ports[1])))
    a.transport.refresh()
    await until(lambda: a.core.met and b.core.met)
    assert a.state(address(ports[1])) == b.state(address(ports[0])) == "connected"
    await a.run_loop.carry_out(RemovePeer(a.run_loop.new_ticket(), "b.x"))
    a.transport.refresh()
    await until(lambda: b.state(address(ports[0])).startswith("refused"))
    assert a.transport.reports() == []


# -- hostile frames, by hand


@asynccontextmanager
async def stranger(port):
    async with grpc.aio.insecure_channel(address(port), options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
        yield DialledStream(channel)


async def introduce(stream, *, name="b.x", version=PLAIN_TEXT_VERSION, subnets=None, session=1):
    """Open a session by hand; returns its number."""
    await stream.write(encode(Hello(version, name, tuple(subnets or [name]), 1, session, ())))
    answer = decode(await stream.read())
    if isinstance(answer, Goodbye):
        return answer
    receipt = decode(await stream.read())
    assert isinstance(receipt, Receipt)
    await stream.write(encode(Receipt(answer.session, 0)))
    return answer.session


async def read_all(stream):
    frames = []
    while (data := await stream.read()) is not None:
        frames.append(decode(data))
    return frames


@pytest_asyncio.fixture(loop_scope="module")
async def alone(start, ports):
    """A server whose peer never answers, so that a test can play it."""
    return await start("a.x", ports[0], {"b.x": address(ports[1])})


@pytest.mark.parametrize("version", [OLDEST_PROTOCOL_VERSION - 1, PROTOCOL_VERSION + 1])
async def test_a_version_that_is_not_spoken_is_refused_with_those_of_both(alone, ports, version):
    async with stranger(ports[0]) as stream:
        goodbye = await introduce(stream, version=version)
        assert goodbye.reason is GoodbyeReason.OTHER_VERSION
        assert f"versions {OLDEST_PROTOCOL_VERSION} to {PROTOCOL_VERSION} are spoken here" in goodbye.message
        assert f"version {version} is spoken there" in goodbye.message
    await until(lambda: alone.faults().get("other version") == 1)


async def test_what_is_for_mutual_tls_alone_is_not_spoken_in_plain_text(alone, ports):
    async with stranger(ports[0]) as stream:
        goodbye = await introduce(stream, version=MUTUAL_TLS_VERSION)
        assert goodbye.reason is GoodbyeReason.OTHER_VERSION
        assert goodbye.message == f"version {MUTUAL_TLS_VERSION} of the protocol is not spoken in plain text"


async def test_strangers_of_many_names_do_not_keep_a_server_from_saying_what_is_wrong_with_its_peers(
    alone, start, ports, monkeypatch
):
    monkeypatch.setattr(strangers_module, "NAMES_LIMIT", 3)
    for number in range(5):
        async with stranger(ports[0]) as stream:
            assert isinstance(await introduce(stream, name=f"s{number}.example"), Goodbye)
    assert len(alone.said) == 3
    await start("c.x", ports[1], {"a.x": address(ports[0])})
    await until(lambda: any(line.startswith(f"no connection with {address(ports[1])}: refused") for line in alone.said))


async def test_garbage_is_refused_and_counted_and_the_server_goes_on(alone, start, ports):
    async with stranger(ports[0]) as stream:
        await stream.write(b"\xff" * 1000)
        (goodbye,) = await read_all(stream)
        assert goodbye.reason is GoodbyeReason.MALFORMED
    assert alone.faults() == {"garbage": 1}
    async with stranger(ports[0]) as stream:
        await introduce(stream)
        await stream.write(b"")
        assert (await read_all(stream))[-1].reason is GoodbyeReason.MALFORMED
    await until(lambda: alone.faults() == {"garbage": 2})
    b = await start("b.x", ports[1], {"a.x": address(ports[0])})
    b.send("a.x", b"still here")
    await until(lambda: alone.letters("b.x") == [b"still here"])


async def test_the_highest_session_number_of_all_leaves_some_for_the_sessions_after_it(alone, start, ports):
    highest = 2**64 - 1
    async with stranger(ports[0]) as stream:
        assert await introduce(stream, session=highest) == highest
    await until(lambda: alone.state(address(ports[1])) != "connected")
    b = await start("b.x", ports[1], {"a.x": address(ports[2])})  # who dials is the other one
    await until(lambda: b.core.met)
    b.send("a.x", b"still here")
    await until(lambda: alone.letters("b.x") == [b"still here"])


async def test_a_session_with_a_server_whose_numbers_leap_too_far_ends_and_says_why(alone, ports):
    async with stranger(ports[0]) as stream:
        await introduce(stream)
        await until(lambda: alone.state(address(ports[1])) == "connected")
        alone.core.channels.leaps_refused["b.x"] = 2**62
        goodbye = (await read_all(stream))[-1]
    assert goodbye == Goodbye(
        GoodbyeReason.MALFORMED, f"b.x counts to {2**62}, too far above all that {alone.core.server} knows"
    )
    await until(lambda: alone.state(address(ports[1])) == f"refused: {goodbye.message}")
    assert not alone.core.channels.leaps_refused


async def test_a_server_that_the_core_gave_up_is_parted_from_and_taken_back_in_time(pair, ports):
    a, b = pair
    why = "does not decide: its update 7 is undecided"
    until_when = time.monotonic() + 3.0
    a.core.not_taken_back["b.x"] = GivenUp(why, until_when)
    await until(lambda: ("b.x", why) in a.core.lost)
    assert a.report("b.x").life is Life.LOST
    assert why in a.report("b.x").why
    await until(lambda: why in a.state(address(ports[1])))
    await until(lambda: any(why in said for server, said in b.core.lost if server == "a.x"))
    await until(lambda: a.state(address(ports[1])) == "connected")
    assert time.monotonic() >= until_when
    assert len(a.core.met) > 1
    assert a.faults() == b.faults() == {}


async def test_a_coordinator_that_does_not_decide_stays_connected_and_is_shown(pair, ports):
    a, _ = pair
    a.core.undecided["b.x"] = GivenUp("does not decide: its update 7 is undecided", time.monotonic() + 59.5)
    shown = "connected, but it does not decide: its update 7 is undecided; its updates are refused for 60 s"
    assert a.state(address(ports[1])) == shown
    assert a.report("b.x").life is Life.UP


async def test_letters_twice_late_or_of_an_old_session_are_counted_and_handled_once(alone, ports):
    async with stranger(ports[0]) as stream:
        session = await introduce(stream)
        await stream.write(encode(Letters(session, 1, (b"one", b"two"), 0)))
        await stream.write(encode(Letters(session, 1, (b"one", b"two"), 0)))
        await stream.write(encode(Letters(session - 1, 3, (b"old",), 0)))
        await stream.write(encode(Receipt(session, 99)))
        await stream.write(encode(Letters(session, 2, (b"two", b"three"), 0)))
        await stream.write(encode(Letters(session, 9, (b"nine",), 0)))
        assert (await read_all(stream))[-1].reason is GoodbyeReason.OUT_OF_ORDER
    assert alone.letters("b.x") == [b"one", b"two", b"three"]
    await until(
        lambda: (
            alone.faults()
            == {
                "repeated letter": 2,
                "from another session": 1,
                "receipt for what was not sent": 1,
                "letter out of order": 1,
            }
        )
    )


async def test_posts_twice_late_or_too_large_are_counted_and_handled_once(alone, ports):
    async with stranger(ports[0]) as stream:
        session = await introduce(stream)
        await stream.write(encode(Letters(session, 1, (b"une", b"deux"), 0, 0, Lane.POST)))
        await stream.write(encode(Letters(session, 1, (b"une", b"deux"), 0, 0, Lane.POST)))
        await stream.write(encode(Letters(session, 1, (b"one",), 0)))
        await stream.write(encode(Receipt(session, 0, 99)))
        await stream.write(encode(Letters(session, 9, (b"neuf",), 0, 0, Lane.POST)))
        assert (await read_all(stream))[-1].reason is GoodbyeReason.OUT_OF_ORDER
    async with stranger(ports[0]) as stream:
        session = await introduce(stream, session=session + 1)
        await stream.write(encode(Letters(session, 3, (bytes(POST_BYTES_LIMIT + 1),), 0, 0, Lane.POST)))
        goodbye = (await read_all(stream))[-1]
        assert (goodbye.reason, goodbye.message) == (GoodbyeReason.MALFORMED, "a post of more than 2097152 bytes")
    assert (alone.posts("b.x"), alone.letters("b.x")) == ([b"une", b"deux"], [b"one"])
    counted = {
        "repeated letter": 1,
        "receipt for what was not sent": 1,
        "letter out of order": 1,
        "letter too large": 1,
    }
    await until(lambda: alone.faults() == counted)


def tunnel(port, channel_to, *metadata):
    """Ask for a tunnel by hand; returns its stream."""
    return DialledStream(channel_to(port), method=TUNNEL_METHOD, metadata=metadata)


@pytest_asyncio.fixture(loop_scope="module")
async def channel_to():
    """Channels to ports, which end with the test."""
    channels = {}

    def channel(port):
        if port not in channels:
            channels[port] = grpc.aio.insecure_channel(address(port), options=[("grpc.use_local_subchannel_pool", 1)])
        return channels[port]

    yield channel
    for each in channels.values():
        await each.close()


ASKER, TO = "shadowtree-principal", "shadowtree-to"


async def test_a_tunnel_that_no_server_asks_for_is_refused_and_leads_nowhere(alone, ports, channel_to):
    async with stranger(ports[0]) as stream:
        await introduce(stream)
        await until(lambda: alone.core.met)
        for metadata, why in (
            ([(ASKER, "server=b.x"), (TO, "c.x")], "a.x does not reach c.x either"),
            ([(ASKER, "server=b.x"), (TO, "a.x")], "a tunnel cannot lead to the server that is asked for it"),
            ([(ASKER, "server=b.x"), (TO, "b.x")], "a tunnel cannot lead to the server that asks for it"),
            ([(ASKER, "server=b.x"), (TO, "127.0.0.1:22")], "a tunnel leads to a server: invalid"),
            ([(ASKER, "server=b.x"), (TO, "x" * 5_000)], "a tunnel leads to a server: invalid"),
            ([(ASKER, "server=b.x")], "a tunnel leads to a server: invalid"),
            (
                [(ASKER, "server=mallory.x"), (TO, "b.x")],
                "the server mallory.x is not connected: no tunnel is opened for it",
            ),
            ([(TO, "b.x")], "only another server gets a tunnel"),
            ([], "only another server gets a tunnel"),
        ):
            with pytest.raises(StreamBrokenError, match=re.escape(why)):
                await tunnel(ports[0], channel_to, *metadata).read()
        assert alone.transport.gate.count == 0
    assert alone.faults() == {}


@pytest_asyncio.fixture(loop_scope="module")
async def trio(start, ports):
    """Three servers, of which the last one reaches the others."""
    table = {name: address(port) for name, port in zip(("a.x", "b.x", "c.x"), ports, strict=True)}
    servers = [
        await start(name, port, {other: at for other, at in table.items() if other != name})
        for name, port in zip(table, ports, strict=True)
    ]
    await until(lambda: all(map(servers[2].transport.ways.reaches, ("a.x", "b.x"))))
    return servers


async def test_a_tunnel_is_opened_for_a_connected_server_alone(trio, ports, channel_to):
    a, _, c = trio
    mark = [(ASKER, "server=a.x"), (TO, "b.x")]
    open_tunnel = tunnel(ports[2], channel_to, *mark)
    assert await open_tunnel.read() == b""
    assert c.transport.gate.count == 1
    await a.close()
    # The other server may still say something before the tunnel ends.
    while await open_tunnel.read() is not None:
        pass
    with pytest.raises(StreamBrokenError, match=re.escape("a.x is not connected")):
        await tunnel(ports[2], channel_to, *mark).read()
    assert c.transport.gate.count == 0


async def test_a_peer_that_floods_a_server_with_tunnels_gets_so_many(trio, ports, channel_to):
    *_, c = trio
    mark = [(ASKER, "server=a.x"), (TO, "b.x")]
    streams = [tunnel(ports[2], channel_to, *mark) for _ in range(200)]
    answers = await asyncio.gather(*(stream.read() for stream in streams), return_exceptions=True)
    assert answers.count(b"") == TUNNELS_OF_PEER_LIMIT == c.transport.gate.count
    refused = {str(answer) for answer in answers if answer != b""}
    assert refused == {"c.x carries 8 tunnels of one peer already; ask another server, or end some"}
    for stream in streams:
        stream.cancel()
    await until(lambda: c.transport.gate.count == 0)
    assert await tunnel(ports[2], channel_to, *mark).read() == b""


async def test_frames_of_older_servers_to_be_passed_on_are_dropped_and_the_session_goes_on(alone, ports):
    async with stranger(ports[0]) as stream:
        session = await introduce(stream)
        for _ in range(3):
            await stream.write(b"\x42\x0a\x08\x03\x12\x01b\x1a\x01c(\x01")
        await stream.write(encode(Letters(session, 1, (b"still here",), 0)))
        await until(lambda: alone.letters("b.x") == [b"still here"])
    assert alone.faults() == {}


async def test_a_session_through_a_tunnel_does_not_take_the_place_of_a_direct_one(alone, ports):
    async with stranger(ports[0]) as direct, stranger(ports[0]) as other:
        await introduce(direct)
        await until(lambda: alone.core.met)
        assert alone.report("b.x").via is None
        await other.write(encode(Hello(PLAIN_TEXT_VERSION, "b.x", ("b.x",), 1, 9, (), through="c.x")))
        session = decode(await other.read()).session
        await other.write(encode(Receipt(session, 0)))
        assert (await read_all(other))[-1].reason is GoodbyeReason.REPLACED
        assert alone.report("b.x").via is None


async def test_a_caller_that_says_nothing_is_cut_off(alone, ports, monkeypatch):
    monkeypatch.setattr(conversation_module, "GREETING_SECONDS", 0.05)
    async with stranger(ports[0]) as stream:
        assert await read_all(stream) == []


async def test_a_stream_that_breaks_in_the_middle_of_a_frame_is_only_a_loss(alone, ports):
    for _ in range(3):
        async with stranger(ports[0]) as stream:
            await introduce(stream)
            stream.cancel()
    await until(lambda: not alone.transport._open)
    assert alone.faults() == {}


async def test_a_server_that_started_anew_takes_the_place_of_a_session_that_was_not_seen_to_end(alone, ports):
    async with stranger(ports[0]) as first, stranger(ports[0]) as second:
        await introduce(first)
        await until(lambda: alone.core.met == ["b.x"])
        await second.write(encode(Hello(PLAIN_TEXT_VERSION, "b.x", ("b.x",), 2, 1, ())))
        session = decode(await second.read()).session
        await second.write(encode(Letters(session, 1, (b"after the restart",), 0)))
        assert (await read_all(first))[-1].reason is GoodbyeReason.REPLACED
        await until(lambda: alone.letters("b.x") == [b"after the restart"])
        assert alone.core.lost == []


# -- databases that are older copies


async def exchange(a, b, count):
    for number in range(count):
        a.send("b.x", f"echo {number}".encode())
    await until(lambda: len(a.letters("b.x")) >= count)
    await until(lambda: not list(a.core.channels.kept("b.x")) and not list(b.core.channels.kept("a.x")))


async def test_a_server_with_an_older_copy_begins_a_fresh_incarnation_and_letters_go_on(pair, start, ports):
    a, b = pair
    await exchange(a, b, 3)
    older = FakeDisk(dict(a.disk.rows))
    await exchange(a, b, 5)
    await a.kill()
    a = await start("a.x", ports[0], {"b.x": address(ports[1])}, disk=older)
    await until(lambda: a.core.restored)
    await until(lambda: b.core.incarnations.of("a.x") == a.core.incarnations.own != 0)
    await exchange(a, b, 2)
    b.send("a.x", b"echo from b")
    await until(lambda: b.letters("a.x")[-1] == b"from b")
    assert a.core.restored == 1 and not b.core.restored
    (line,) = [line for line in a.said if "older copy" in line]
    assert "what was done here since is lost" in line


@pytest.mark.parametrize("sends", [True, False], ids=["that has sent more posts", "that has had more posts"])
async def test_posts_alone_show_that_a_database_is_an_older_copy(pair, start, ports, sends):
    a, b = pair
    await exchange(a, b, 3)
    older = FakeDisk(dict(a.disk.rows))
    sender, receiver = (a, b) if sends else (b, a)
    for post in (b"une", b"deux"):
        sender.send(receiver.core.server, post, Lane.POST)
    await until(lambda: len(receiver.core.posts_handled) == 2)
    await until(lambda: not list(sender.core.posts.kept(receiver.core.server)))
    await a.kill()
    a = await start("a.x", ports[0], {"b.x": address(ports[1])}, disk=older)
    await until(lambda: a.core.restored and b.core.incarnations.of("a.x") == a.core.incarnations.own != 0)
    before = len(b.posts("a.x"))
    a.send("b.x", b"afresh", Lane.POST)
    b.send("a.x", b"anew", Lane.POST)
    await until(lambda: b.posts("a.x")[before:] == [b"afresh"] and a.posts("b.x")[-1:] == [b"anew"])
    assert a.core.restored == 1 and not b.core.restored


async def test_both_may_have_gone_back(pair, start, ports):
    a, b = pair
    await exchange(a, b, 3)
    older = [FakeDisk(dict(server.disk.rows)) for server in (a, b)]
    await exchange(a, b, 5)
    for server in (a, b):
        await server.kill()
    a = await start("a.x", ports[0], {"b.x": address(ports[1])}, disk=older[0])
    b = await start("b.x", ports[1], {"a.x": address(ports[0])}, disk=older[1])
    # Both copies are of one moment: nothing shows that anything is missing, and nothing contradicts.
    await until(lambda: a.core.met and b.core.met)
    assert not a.core.restored and not b.core.restored
    await exchange(a, b, 2)


async def test_a_database_that_was_lost_is_an_older_copy_too(pair, start, ports):
    a, b = pair
    await exchange(a, b, 3)
    await b.kill()
    b = await start("b.x", ports[1], {"a.x": address(ports[0])})
    await until(lambda: b.core.restored and a.core.incarnations.of("b.x") == b.core.incarnations.own)
    a.send("b.x", b"echo again")
    await until(lambda: a.letters("b.x")[-1] == b"again")


async def test_a_copy_from_before_a_fresh_incarnation_is_found_out(pair, start, ports):
    a, b = pair
    await exchange(a, b, 3)
    older = dict(a.disk.rows)
    await exchange(a, b, 1)
    incarnations = []
    for _ in range(2):
        await a.kill()
        a = await start("a.x", ports[0], {"b.x": address(ports[1])}, disk=FakeDisk(dict(older)))
        await until(lambda: a.core.restored and b.core.incarnations.of("a.x") == a.core.incarnations.own)  # noqa: B023
        await exchange(a, b, 1)
        incarnations.append(a.core.incarnations.own)
    assert len(set(incarnations)) == 2


async def test_a_peer_cannot_make_a_server_go_back_with_which_it_has_kept_a_session_open(alone, ports):
    for _ in range(3):
        async with stranger(ports[0]) as stream:
            session = await introduce(stream)
            await stream.write(encode(Heartbeat(session, 1, 0, 0)))
            await stream.write(encode(Goodbye(GoodbyeReason.LETTERS_LOST, "your database is older")))
            await read_all(stream)
    async with stranger(ports[0]) as stream:
        await stream.write(encode(Hello(PLAIN_TEXT_VERSION, "b.x", ("b.x",), 2, 1, ())))
        session = decode(await stream.read()).session
        await stream.write(encode(Receipt(session, 1_000)))
        assert (await read_all(stream))[-1].reason is GoodbyeReason.LETTERS_LOST
    assert not alone.core.restored


async def test_a_session_that_has_just_opened_does_not_prove_that_its_other_end_is_still_in_the_view(alone, ports):
    """The other one may have lost this server while that was paused; only its first heartbeat tells its view."""
    async with stranger(ports[0]) as stream:
        session = await introduce(stream)
        await until(lambda: alone.report("b.x").life is Life.UP)
        assert alone.transport.unheard() == ["b.x"]
        await stream.write(encode(Heartbeat(session, 1, 0, 0)))
        await until(lambda: alone.transport.unheard() == [])


# -- the directory


async def refusal_of(awaitable):
    with pytest.raises(RefusedError) as caught:
        await awaitable
    return caught.value.refusal


async def test_the_directory_knows_who_is_met_and_how_to_call_them(pair):
    a, _ = pair
    assert a.directory.others() == ["b.x"]
    assert await a.directory.home_of_subnet("b.x") == "b.x"
    assert await a.directory.home_of_subnet("a.x") == "a.x"
    channel = await a.directory.channel_to("b.x")
    call = channel.stream_stream(CONVERSE_METHOD)()
    await call.write(b"garbage")
    assert isinstance(decode(await call.read()), Goodbye)


async def test_the_directory_waits_for_a_first_meeting(start, ports):
    a = await start("a.x", ports[0], {"b.x": address(ports[1])})
    meeting = asyncio.ensure_future(a.directory.home_of_subnet("b.x"))
    await until(lambda: a.state(address(ports[1])).startswith("silent since"))
    assert not meeting.done()
    await start("b.x", ports[1], {"a.x": address(ports[0])})
    assert await meeting == "b.x"


async def test_the_directory_waits_for_a_server_that_is_just_started_again(pair, start, ports):
    a, b = pair
    await b.kill()
    await until(lambda: a.state(address(ports[1])) != "connected")
    calling = asyncio.ensure_future(a.directory.channel_to("b.x"))
    await start("b.x", ports[1], {"a.x": address(ports[0])}, disk=b.disk)
    assert isinstance(await calling, grpc.aio.Channel)


async def test_the_directory_waits_for_a_channel_that_has_not_noticed_that_the_peer_is_there(start, ports):
    a = await start("a.x", ports[0], {"b.x": address(ports[1])})
    await until(lambda: a.state(address(ports[1])).startswith("silent since"))
    await start("b.x", ports[1], {"a.x": address(ports[0])})
    await until(lambda: a.state(address(ports[1])) == "connected")
    channel = await a.directory.channel_to("b.x")
    assert channel.get_state() is grpc.ChannelConnectivity.READY


async def test_the_directory_says_so_where_a_peer_dials_but_cannot_be_dialled(start, ports, monkeypatch):
    monkeypatch.setattr(directory_module, "CONNECT_WAIT_SECONDS", 0.05)
    a = await start("a.x", ports[0], {"b.x": address(ports[2])})
    await start("b.x", ports[1], {"a.x": address(ports[0])})
    await until(lambda: a.state(address(ports[2])) == "connected")
    refusal = await refusal_of(a.directory.channel_to("b.x"))
    assert refusal.reason is Reason.UNAVAILABLE
    assert refusal.facts == {"unreachable": "b.x", "server": "b.x", "address": address(ports[2])}
    assert "cannot be dialled" in refusal.message


async def test_the_directory_names_who_is_out_of_reach_and_why(pair, ports, monkeypatch):
    monkeypatch.setattr(directory_module, "CONNECT_WAIT_SECONDS", 0.05)
    a, b = pair
    await b.kill()
    await until(lambda: a.state(address(ports[1])) != "connected")
    refusal = await refusal_of(a.directory.channel_to("b.x"))
    assert refusal.reason is Reason.UNAVAILABLE
    assert refusal.facts == {"unreachable": "b.x", "server": "b.x", "address": address(ports[1])}
    assert "silent since" in refusal.message
    assert (await refusal_of(a.directory.channel_to("nobody.x"))).reason is Reason.UNAVAILABLE


async def test_a_subnet_whose_server_was_never_met_has_no_home_yet(alone, monkeypatch):
    monkeypatch.setattr(directory_module, "CONNECT_WAIT_SECONDS", 0.05)
    refusal = await refusal_of(alone.directory.home_of_subnet("b.x"))
    assert refusal.reason is Reason.UNAVAILABLE
    assert (await refusal_of(alone.directory.home_of_subnet("z.x"))).reason is Reason.UNKNOWN_SUBNET
