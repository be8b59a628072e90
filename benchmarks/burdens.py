"""Burdens that one peer or one client can lay on a server: undecided updates, and many large updates at once.

Two cores take the same steps, in turns. One has no other load; the other holds many updates that their coordinator
never decides. A server process gets many large updates at once, and refuses them, so its graph does not grow.
"""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import count as numbers_from
from pathlib import Path

import grpc

from benchmarks.builds import NOW
from benchmarks.report import Figure
from benchmarks.servers import name_servers
from namegraph.core import ServerCore
from namegraph.events import PeerMessage, PeerMet, Tick, UpdateCommand
from namegraph.model.names import NodeId, ServerId, Subnet
from namegraph.model.operations import ChildKind, CreateGroup, JoinArc, Operation
from namegraph.model.priorities import Priority
from namegraph.model.rows import RequestId
from namegraph.verify.sender_rules import ORDERS_LIMIT
from namegraph.wire.codec import Message, encode
from namegraph.wire.message_parts import Cover, Update, UpdateId
from namegraph.wire.update_messages import Abort, Final, Order
from nameserver.calls.home_dispatch import NAME_SERVICE
from shadowtree import aio
from shadowtree.client.large_updates import METHOD, chunks_of
from shadowtree.v1.name_service_pb2 import ApplyUpdatesRequest

UNDECIDED = 2_000
LARGE_UPDATES = 150
MESSAGE_OPERATIONS = 15_000
LARGE_OPERATIONS = 100_000
MEMORY_MEGABYTES = 400
TURN_MS = 50
PROBE_SECONDS = 0.05
PATIENCE_SECONDS = 300
OWN_CONNECTION = (("grpc.use_local_subchannel_pool", 1), ("grpc.max_send_message_length", -1))
STEP_LIMIT = 1.1
HERE = ServerId("here.x")
CROWD, QUIET, OTHER_QUIET = (NodeId(f"{name}@{HERE}") for name in ("crowd", "quiet", "other"))
MEMBERS = 20


def measure(*, quick: bool) -> list[Figure]:
    """Measure steps beside undecided updates, and large updates at once."""
    return [*_steps(100 if quick else 2_000), *_large_updates(5 if quick else LARGE_UPDATES)]


def _large_updates(count: int) -> Iterator[Figure]:
    row = ApplyUpdatesRequest.Operation(parent=f"{'p' * 240}@{HERE}", child=f"{'c' * 240}@{HERE}")
    whole = ApplyUpdatesRequest(operations=[row] * MESSAGE_OPERATIONS).SerializeToString()
    to_nobody = (f"person-number-{number}@{HERE}" for number in range(LARGE_OPERATIONS))
    rows = [ApplyUpdatesRequest.Operation(parent=f"no-such-group@{HERE}", child=child, kind=2) for child in to_nobody]
    chunks = [chunk.SerializeToString() for chunk in chunks_of(ApplyUpdatesRequest(operations=rows))]
    for what, send in (
        (f"{count} updates of {len(whole) / 2**20:.1f} MiB in one message", partial(_send_whole, whole=whole)),
        (f"{count} updates of {LARGE_OPERATIONS:,} operations in chunks", partial(_send_in_chunks, chunks=chunks)),
    ):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            program = (sys.executable, str(NOW.folder / "tests" / "loop_watch.py"), str(folder / "report"))
            with name_servers(folder, ([str(HERE)],), program=program) as (server,):
                slowest = asyncio.run(_beside_probes(server.address, count, send))
                peak = server.peak_resident_bytes() / 1e6
            turns = [turn["amount"] for file in folder.glob("report-*.json") for turn in json.loads(file.read_text())]
        yield Figure(f"most memory, {what}", peak, MEMORY_MEGABYTES, "MB", note=f"slowest check {1e3 * slowest:.0f} ms")
        yield Figure(f"longest turn, {what}", 1e3 * max(turns, default=0.0), TURN_MS, "ms")


async def _beside_probes(address: str, count: int, send: Callable[[str], Awaitable[None]]) -> float:
    """Send all updates at once. Return the seconds of the slowest check made meanwhile."""
    async with aio.Client(address, timeout=PATIENCE_SECONDS) as client:
        await client.create_group(CROWD)
        sending = asyncio.gather(*(send(address) for _ in range(count)))
        slowest = 0.0
        while not sending.done():
            began = time.perf_counter()
            assert not await client.check(CROWD, f"ann@{HERE}")
            slowest = max(slowest, time.perf_counter() - began)
            await asyncio.sleep(PROBE_SECONDS)
        await sending
        return slowest


async def _send_whole(address: str, *, whole: bytes) -> None:
    async with grpc.aio.insecure_channel(address, options=OWN_CONNECTION) as channel:
        with suppress(grpc.aio.AioRpcError):
            await channel.unary_unary(f"/{NAME_SERVICE}/ApplyUpdates")(whole, timeout=PATIENCE_SECONDS)


async def _send_in_chunks(address: str, *, chunks: list[bytes]) -> None:
    async with grpc.aio.insecure_channel(address, options=OWN_CONNECTION) as channel:
        with suppress(grpc.aio.AioRpcError):
            await channel.stream_unary(f"/{NAME_SERVICE}/{METHOD}")(iter(chunks), timeout=PATIENCE_SECONDS)


class _Core:
    """A core with a few groups, and enough peers to send all undecided updates."""

    def __init__(self, undecided: int, *, are_placed: bool) -> None:
        self._peers = [ServerId(f"peer{number}.x") for number in range(-(-UNDECIDED // ORDERS_LIMIT) + 1)]
        self._core = ServerCore(server=HERE, subnets=[Subnet(HERE)], peers={Subnet(peer): peer for peer in self._peers})
        self._numbers = numbers_from(1)
        for peer in self._peers:
            self._core.step(PeerMet(peer, (Subnet(peer),)), 0.0)
        self.update(*map(CreateGroup, (CROWD, QUIET, OTHER_QUIET)))
        self.update(*(JoinArc(CROWD, NodeId(f"p{number}@{HERE}"), ChildKind.PROCESS) for number in range(MEMBERS)))
        # A server with peers holds arcs like this one.
        self.update(JoinArc(OTHER_QUIET, NodeId(f"ann@{HERE}"), ChildKind.PROCESS))
        for number in range(undecided):
            peer = self._peers[number // ORDERS_LIMIT]
            # Half of the updates affect one group. Each of the others affects a node of its own.
            update_id = self._order(peer, CROWD if number % 2 else NodeId(f"x{number}@{HERE}"))
            if are_placed:
                self.tell(peer, Final(update_id, Priority(10**6 + number, peer), ()))
        assert len(self._core.entries.by_update) == undecided

    def update(self, *operations: Operation) -> None:
        """Make an update of this server alone, or begin one."""
        number = next(self._numbers)
        self._core.step(UpdateCommand(number, RequestId(f"r{number}"), operations), 0.0)

    def tell(self, peer: ServerId, message: Message) -> None:
        """Hand over a letter of a peer."""
        letter = PeerMessage(peer, self._core.channels.handled_through(peer) + 1, encode(message))
        self._core.step(letter, 0.0)

    def join_here(self) -> None:
        """Join a process."""
        self.update(JoinArc(QUIET, NodeId(f"n{next(self._numbers)}@{HERE}"), ChildKind.PROCESS))

    def turn(self) -> None:
        """Take an order of a peer that decides, until its end."""
        peer = self._peers[-1]
        update_id = self._order(peer, OTHER_QUIET)
        self.tell(peer, Final(update_id, Priority(10**7 + update_id.number, peer), ()))
        self.tell(peer, Abort(update_id))

    def tick(self) -> None:
        """Let time pass."""
        self._core.step(Tick(), 0.0)

    def _order(self, peer: ServerId, node: NodeId) -> UpdateId:
        update_id = UpdateId(peer, next(self._numbers))
        update = Update(update_id, (), 0, (), NodeId(f"g@{peer}"))
        self.tell(peer, Order(update, Priority(5, peer), Cover(frozenset(), frozenset({node})), None))
        return update_id


def _steps(repetitions: int) -> Iterator[Figure]:
    steps: dict[str, Callable[[_Core], None]] = {
        "a join": _Core.join_here,
        "an order, its turn and its end": _Core.turn,
        "a tick": _Core.tick,
    }
    for kind, are_placed in (("have no place yet", False), ("wait for their turns", True)):
        cores = [_Core(undecided, are_placed=are_placed) for undecided in (0, UNDECIDED)]
        for name, step in steps.items():
            alone, beside = _medians(cores, step, repetitions)
            what = f"{name}, beside {UNDECIDED:,} updates that {kind}"
            yield Figure(what, beside / alone, STEP_LIMIT, "x", note=f"{1e6 * alone:.0f} us, now {1e6 * beside:.0f}")


def _medians(cores: list[_Core], step: Callable[[_Core], None], repetitions: int) -> list[float]:
    times: list[list[float]] = [[] for _ in cores]
    gc.collect()
    for _ in range(repetitions):
        for core, taken in zip(cores, times, strict=True):
            began = time.perf_counter()
            step(core)
            taken.append(time.perf_counter() - began)
    return [statistics.median(taken) for taken in times]
