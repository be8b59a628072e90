"""What one peer can lay on a server: updates that it asks for and never decides.

Two cores take the same steps, in turns: one beside nothing, one beside many such updates.
"""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Iterator
from itertools import count

from benchmarks.report import Figure
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

UNDECIDED = 2_000
STEP_LIMIT = 1.1
HERE = ServerId("here.x")
CROWD, QUIET, OTHER_QUIET = (NodeId(f"{name}@{HERE}") for name in ("crowd", "quiet", "other"))
MEMBERS = 20


def measure(*, quick: bool) -> list[Figure]:
    """Steps beside updates that are not decided."""
    return list(_steps(100 if quick else 2_000))


class _Core:
    """A core with a few groups, and as many peers as it takes to ask for all."""

    def __init__(self, undecided: int, *, are_placed: bool) -> None:
        self._peers = [ServerId(f"peer{number}.x") for number in range(-(-UNDECIDED // ORDERS_LIMIT) + 1)]
        self._core = ServerCore(server=HERE, subnets=[Subnet(HERE)], peers={Subnet(peer): peer for peer in self._peers})
        self._numbers = count(1)
        for peer in self._peers:
            self._core.step(PeerMet(peer, (Subnet(peer),)), 0.0)
        self.update(*map(CreateGroup, (CROWD, QUIET, OTHER_QUIET)))
        self.update(*(JoinArc(CROWD, NodeId(f"p{number}@{HERE}"), ChildKind.PROCESS) for number in range(MEMBERS)))
        # What a server with peers has.
        self.update(JoinArc(OTHER_QUIET, NodeId(f"ann@{HERE}"), ChildKind.PROCESS))
        for number in range(undecided):
            peer = self._peers[number // ORDERS_LIMIT]
            # Half of them are of one group, each of the others is of a node of its own.
            update_id = self._order(peer, CROWD if number % 2 else NodeId(f"x{number}@{HERE}"))
            if are_placed:
                self.tell(peer, Final(update_id, Priority(10**6 + number, peer), ()))
        assert len(self._core.entries.by_update) == undecided

    def update(self, *operations: Operation) -> None:
        """Do an update of this server alone, or begin one."""
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
