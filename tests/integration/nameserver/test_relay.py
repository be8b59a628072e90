"""Links that are broken between two servers which both reach a third one: their letters go through it."""

import asyncio
import time

import pytest
import pytest_asyncio

from namegraph.events import POST_BYTES_LIMIT, Lane
from nameserver.detector.liveness import Life
from nameserver.detector.phi import DetectorLimits
from nameserver.session.session_lane import FRAME_BYTES_LIMIT
from tests.fakes.peer_cluster import PeerCluster, lost
from tests.fakes.peer_server import until
from tests.fakes.tcp_proxy import Passage

pytestmark = pytest.mark.asyncio(loop_scope="module")

LIMITS = DetectorLimits(heartbeat_seconds=0.1, acceptable_pause_seconds=4.0)
"""A detour is tried after half of the pause."""


@pytest_asyncio.fixture(loop_scope="module")
async def cluster():
    cluster = PeerCluster(LIMITS)
    yield cluster
    await cluster.close()


def via(server, other):
    report = server.report(other)
    return report.via if report.life is Life.UP else None


async def until_relayed(a, b, through="c.x"):
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
    await until_relayed(a, b)
    a.send("b.x", b"echo relayed")
    await until(lambda: a.letters("b.x") == [b"before", b"while broken", b"relayed"])
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
    await until_relayed(a, b)
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
    await until_relayed(a, b)
    posts = [f"post {number}".encode() for number in range(200)] + [bytes(POST_BYTES_LIMIT)] * 10
    for post in posts:
        a.send("b.x", post, Lane.POST)
        a.send("b.x", b"letter")
    await until(lambda: b.posts("a.x") == posts and len(b.letters("a.x")) == len(posts))
    await until(lambda: not list(a.core.posts.kept("b.x")))
    assert via(a, "b.x") == "c.x"
    assert a.faults() == b.faults() == {}


async def test_what_is_relayed_counts_as_a_sign_of_life(cluster):
    a, b, _ = await cluster.start("a.x", "b.x", "c.x")
    cluster.network.part("a.x", "b.x", Passage.CUT)
    await until_relayed(a, b)
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
    await until_relayed(a, d, through="b.x")
    await until_relayed(c, d, through="b.x")
    a.send("d.x", b"echo hello")
    c.send("d.x", b"echo hello")
    await until(lambda: a.letters("d.x") == c.letters("d.x") == [b"hello"])


async def test_when_the_common_peer_is_gone_too_both_are_lost(cluster):
    a, b, c = await cluster.start("a.x", "b.x", "c.x")
    cluster.network.part("a.x", "b.x", Passage.CUT)
    await until_relayed(a, b)
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
