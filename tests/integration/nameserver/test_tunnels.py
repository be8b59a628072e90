"""Links that are broken between two servers which both reach a third one: their session goes through it."""

import asyncio
import time

import pytest
import pytest_asyncio

from namegraph.events import POST_BYTES_LIMIT, Lane
from namegraph.model.refusals import RefusedError
from nameserver.detector.liveness import Life
from nameserver.detector.phi import DetectorLimits
from nameserver.session.session_lane import FRAME_BYTES_LIMIT
from nameserver.telemetry.state_metrics import _of_peers
from nameserver.transport.identification import identify_over
from tests.fakes.byte_recorder import ByteRecorder
from tests.fakes.peer_cluster import PeerCluster, lost
from tests.fakes.peer_server import until
from tests.fakes.tcp_proxy import Passage

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = DetectorLimits(heartbeat_seconds=0.1, acceptable_pause_seconds=4.0)
"""A tunnel is tried after half of the pause."""


@pytest_asyncio.fixture(loop_scope="module")
async def cluster():
    cluster = PeerCluster(LIMITS)
    yield cluster
    await cluster.close()


def via(server, other):
    report = server.report(other)
    return report.via if report.life is Life.UP else None


async def until_tunnelled(a, b, through="c.x"):
    names = a.core.server, b.core.server
    await until(lambda: via(a, names[1]) == via(b, names[0]) == through)


async def until_direct(*servers):
    def is_direct(server):
        return all((report.life, report.via) == (Life.UP, None) for report in server.transport.reports())

    await until(lambda: all(map(is_direct, servers)))


@pytest.mark.parametrize(
    "broken",
    [
        [("a.x", "b.x", Passage.CUT), ("b.x", "a.x", Passage.CUT)],
        [("a.x", "b.x", Passage.DROP), ("b.x", "a.x", Passage.DROP)],
        [("a.x", "b.x", Passage.STALL), ("b.x", "a.x", Passage.STALL)],
        [("a.x", "b.x", Passage.DROP)],
        [("b.x", "a.x", Passage.DROP)],
    ],
    ids=["cut", "dropped", "stalled", "one way", "the other way"],
)
async def test_while_a_link_is_broken_letters_go_through_a_common_peer_and_nobody_is_lost(cluster, broken):
    a, b, c = await cluster.start("a.x", "b.x", "c.x")
    a.send("b.x", b"echo before")
    for source, destination, passage in broken:
        cluster.network.set(source, destination, passage)
    a.send("b.x", b"echo while broken")
    await until_tunnelled(a, b)
    a.send("b.x", b"echo tunnelled")
    await until(lambda: a.letters("b.x") == [b"before", b"while broken", b"tunnelled"])
    assert c.report("a.x").relayed > 0
    assert c.report("b.x").relayed > 0
    cluster.network.heal()
    await until_direct(a, b, c)
    b.send("a.x", b"echo after")
    await until(lambda: b.letters("a.x")[-1] == b"after")
    assert lost(a) == lost(b) == lost(c) == []
    assert a.faults() == b.faults() == c.faults() == {}


async def test_many_and_large_letters_go_through_a_common_peer_once_and_in_order(cluster):
    a, b, _ = await cluster.start("a.x", "b.x", "c.x")
    cluster.network.part("a.x", "b.x", Passage.CUT)
    await until_tunnelled(a, b)
    large = bytes(range(256)) * (20 * FRAME_BYTES_LIMIT // 256)
    letters = [f"echo {number}".encode() for number in range(2_000)] + [large, b"the end"]
    for letter in letters:
        a.send("b.x", letter)
    await until(lambda: b.letters("a.x")[-1:] == [b"the end"])
    assert b.letters("a.x") == letters
    await until(lambda: len(a.letters("b.x")) == 2_000)
    assert via(a, "b.x") == "c.x"


async def test_posts_go_through_a_common_peer_too_once_and_in_order(cluster):
    a, b, _ = await cluster.start("a.x", "b.x", "c.x")
    cluster.network.part("a.x", "b.x", Passage.CUT)
    await until_tunnelled(a, b)
    posts = [f"post {number}".encode() for number in range(200)] + [bytes(POST_BYTES_LIMIT)] * 10
    for post in posts:
        a.send("b.x", post, Lane.POST)
        a.send("b.x", b"letter")
    await until(lambda: b.posts("a.x") == posts and len(b.letters("a.x")) == len(posts))
    await until(lambda: not list(a.core.posts.kept("b.x")))
    assert via(a, "b.x") == "c.x"
    assert a.faults() == b.faults() == {}


async def test_what_comes_through_a_tunnel_counts_as_a_sign_of_life(cluster):
    a, b, _ = await cluster.start("a.x", "b.x", "c.x")
    cluster.network.part("a.x", "b.x", Passage.CUT)
    await until_tunnelled(a, b)
    await asyncio.sleep(LIMITS.acceptable_pause_seconds + 2)
    assert lost(a) == lost(b) == []
    assert via(a, "b.x") == via(b, "a.x") == "c.x"


async def test_a_server_that_pauses_is_looked_for_through_others_and_not_lost(cluster):
    a, b, c = await cluster.start("a.x", "b.x", "c.x")
    for other in ("a.x", "c.x"):
        cluster.network.part("b.x", other, Passage.STALL)
    a.send("b.x", b"echo hello")
    await until(lambda: a.report("b.x").state.startswith("silent since"))
    await until(lambda: c.report("b.x").state.startswith("silent since"))
    await asyncio.sleep(0.5)
    cluster.network.heal()
    await until_direct(a, b, c)
    await until(lambda: a.letters("b.x") == [b"hello"])
    assert lost(a) == lost(b) == lost(c) == []


async def test_where_the_first_common_peer_reaches_only_one_the_next_one_is_tried(cluster):
    a, _, c, d = await cluster.start("a.x", "b.x", "c.x", "d.x")
    cluster.network.part("c.x", "d.x", Passage.CUT)
    cluster.network.part("a.x", "d.x", Passage.CUT)
    await until_tunnelled(a, d, through="b.x")
    await until_tunnelled(c, d, through="b.x")
    a.send("d.x", b"echo hello")
    c.send("d.x", b"echo hello")
    await until(lambda: a.letters("d.x") == c.letters("d.x") == [b"hello"])


async def test_when_the_common_peer_is_gone_too_both_are_lost(cluster):
    a, b, c = await cluster.start("a.x", "b.x", "c.x")
    cluster.network.part("a.x", "b.x", Passage.CUT)
    await until_tunnelled(a, b)
    for one in ("a.x", "b.x"):
        cluster.network.part(one, "c.x", Passage.CUT)
    await until(lambda: set(lost(a)) == {"b.x", "c.x"} and set(lost(b)) == {"a.x", "c.x"})
    await until(lambda: set(lost(c)) == {"a.x", "b.x"})
    cluster.network.heal()
    await until_direct(a, b, c)


async def test_a_server_that_is_gone_is_lost_though_others_are_asked_for_it(cluster):
    a, b, c = await cluster.start("a.x", "b.x", "c.x")
    started = time.monotonic()
    await b.kill()
    await until(lambda: lost(a) == lost(c) == ["b.x"])
    assert time.monotonic() - started < LIMITS.acceptable_pause_seconds
    del cluster.servers["b.x"]
    assert a.faults() == c.faults() == {}


async def until_called(a, b, through="c.x"):
    """Wait until both can be called by the other one, through tunnels of their own."""

    def calls_via(server, other):
        return server.transport.link_of(other).calls_via

    await until(lambda: calls_via(a, b.core.server) == calls_via(b, a.core.server) == through)


async def who_answers(server, other):
    channel = await server.directory.channel_to(other)
    return (await identify_over(channel, seconds=10)).server


async def test_calls_go_through_the_tunnels_of_both_ends_whichever_of_them_carries_the_session(cluster):
    a, b, c = await cluster.start("a.x", "b.x", "c.x")
    cluster.network.part("a.x", "b.x", Passage.CUT)
    await until_tunnelled(a, b)
    await until_called(a, b)
    assert await who_answers(a, "b.x") == "b.x"
    assert await who_answers(b, "a.x") == "a.x"
    assert c.transport.gate.count == 2
    cluster.network.heal()
    await until_direct(a, b, c)
    await until(lambda: c.transport.gate.count == 0)
    assert a.transport.link_of("b.x").tunnel is b.transport.link_of("a.x").tunnel is None
    assert await who_answers(a, "b.x") == "b.x"


def measured(server, name, peer):
    families = {family.name: family for family in _of_peers(server.transport.reports(), {})}
    return next(sample.value for sample in families[name].samples if sample.labels["peer"] == peer)


async def test_a_metric_tells_who_is_reached_through_a_tunnel(cluster):
    a, b, c = await cluster.start("a.x", "b.x", "c.x")
    assert measured(a, "shadowtree_peer_tunnelled", "b.x") == 0
    cluster.network.part("a.x", "b.x", Passage.CUT)
    await until_tunnelled(a, b)
    assert measured(a, "shadowtree_peer_tunnelled", "b.x") == measured(b, "shadowtree_peer_tunnelled", "a.x") == 1
    assert measured(c, "shadowtree_peer_tunnelled", "a.x") == 0


async def test_a_server_that_only_dials_has_a_session_through_its_own_tunnel_and_cannot_be_called(cluster):
    a, b, c = await cluster.start("a.x", "b.x", "c.x")
    cluster.network.set_dialling("c.x", "a.x", Passage.CUT)
    cluster.network.part("a.x", "b.x", Passage.CUT)
    await until(lambda: via(a, "b.x") == "c.x" and b.report("a.x").via == "c.x")
    a.send("b.x", b"echo hello")
    b.send("a.x", b"echo hello")
    await until(lambda: a.letters("b.x")[-1:] == [b"hello"] and b.letters("a.x")[-1:] == [b"hello"])
    assert await who_answers(a, "b.x") == "b.x"
    await until(lambda: b.report("a.x").life is Life.ONE_WAY)
    assert b.report("a.x").state.endswith("; no other server passes calls on to it")
    with pytest.raises(RefusedError, match="cannot be dialled at"):
        await b.directory.channel_to("a.x")
    assert lost(a) == lost(b) == lost(c) == []


async def test_a_server_of_an_older_version_that_knows_no_tunnels_is_passed_over(cluster):
    a, b, _, _ = await cluster.start("a.x", "b.x", "c.x", "d.x", older=["c.x"])
    cluster.network.part("a.x", "b.x", Passage.CUT)
    await until_tunnelled(a, b, through="d.x")
    assert lost(a) == lost(b) == []


async def test_a_server_between_that_leads_to_another_server_is_not_used(cluster, monkeypatch):
    a, b, c, d = await cluster.start("a.x", "b.x", "c.x", "d.x")
    dial, to_another = c.transport.gate._dial, c.transport.link_of("d.x")
    monkeypatch.setattr(c.transport.gate, "_dial", lambda link, destination: dial(to_another, destination))
    cluster.network.part("a.x", "b.x", Passage.CUT)
    await until_tunnelled(a, b, through="d.x")
    await until_called(a, b, through="d.x")
    assert await who_answers(a, "b.x") == "b.x"
    assert lost(a) == lost(b) == lost(d) == []


async def test_when_the_server_between_ends_the_session_goes_through_the_next_one(cluster):
    a, b, c, d = await cluster.start("a.x", "b.x", "c.x", "d.x")
    cluster.network.part("a.x", "b.x", Passage.CUT)
    await until(lambda: via(a, "b.x") == via(b, "a.x") in ("c.x", "d.x"))
    between, other = (c, d) if via(a, "b.x") == "c.x" else (d, c)
    await between.kill()
    del cluster.servers[between.core.server]
    await until_tunnelled(a, b, through=other.core.server)
    a.send("b.x", b"echo hello")
    await until(lambda: a.letters("b.x") == [b"hello"])
    assert "b.x" not in lost(a)
    assert "a.x" not in lost(b)


async def test_no_tunnel_leads_through_a_tunnel(cluster):
    a, b, c, d = await cluster.start("a.x", "b.x", "c.x", "d.x")
    # Only a chain is left: a - c - d - b. The two in the middle of it reach the ends of it through one another.
    for one, other in (("a.x", "b.x"), ("a.x", "d.x"), ("b.x", "c.x")):
        cluster.network.part(one, other, Passage.CUT)
    await until_tunnelled(a, d, through="c.x")
    await until_tunnelled(c, b, through="d.x")
    await until(lambda: lost(a) == ["b.x"] and lost(b) == ["a.x"])
    assert not c.transport.ways.reaches("b.x")
    assert d.transport.gate.passed_on["a.x"] == c.transport.gate.passed_on["b.x"] == 0


# -- what the server between sees


@pytest.fixture
def recorder(monkeypatch):
    return ByteRecorder(monkeypatch)


async def test_a_server_between_that_records_everything_sees_in_plaintext_what_the_ends_say(cluster, recorder):
    """Without TLS the server between could read. With TLS it cannot (`test_tunnels_with_tls.py`)."""
    a, b, _ = await cluster.start("a.x", "b.x", "c.x")
    assert not recorder.seen
    cluster.network.part("a.x", "b.x", Passage.CUT)
    await until_tunnelled(a, b)
    a.send("b.x", b"echo a name")
    await until(lambda: a.letters("b.x") == [b"a name"])
    assert b"echo a name" in recorder.seen
