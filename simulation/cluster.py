"""A cluster of real cores under one seed: a heap of events instead of a network and a clock.

Messages of one server to another arrive in the order in which they were sent, after random delays; between different
pairs of servers anything may overtake anything. Some channels are slow, and now and then a message is very late. Two
runs of one seed are the same, message for message.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from namegraph.events import Event, Outcome, PeerMessage, UpdateCommand
from namegraph.messages import Message
from namegraph.names import ServerId, Subnet
from namegraph.priorities import Priority
from namegraph.server_core import ServerCore

STEPS_LIMIT = 200_000
"""A burst that takes more steps than this never ends."""

SLOWNESS = (0.2, 1.0, 1.0, 5.0)
"""Mean delays of channels; each gets one of them."""

VERY_LATE_SHARE = 0.05
VERY_LATE_FACTOR = 20


class NeverEndsError(AssertionError):
    """The servers go on sending messages."""


@dataclass(frozen=True, slots=True)
class Sent:
    """One message that was sent, for those who print or count them."""

    time: float
    sender: ServerId
    receiver: ServerId
    message: Message


class Cluster:
    """Servers, and what is under way between them."""

    def __init__(self, subnets: Sequence[Subnet], chance: Random, *, is_wild: bool = True) -> None:
        """One server for each subnet, named after it. Where the network is not wild, all channels are alike."""
        owners = {subnet: ServerId(subnet) for subnet in subnets}
        self.servers: dict[ServerId, ServerCore] = {}
        for subnet, server in owners.items():
            peers = {other: owner for other, owner in owners.items() if owner != server}
            self.servers[server] = ServerCore(server=server, subnets=[subnet], peers=peers)
        self.now = 0.0
        self.answers: dict[int, Outcome] = {}
        self.places: dict[int, Priority] = {}
        """Where in the order of updates each answer was decided."""
        self.sent: list[Sent] = []
        self._chance = chance
        self._is_wild = is_wild
        self._events: list[tuple[float, int, ServerId, Event]] = []
        self._count = 0
        self._last_arrival: dict[tuple[ServerId, ServerId], float] = {}
        self._slowness: dict[tuple[ServerId, ServerId], float] = {}

    def submit(self, server: ServerId, command: UpdateCommand, *, delay: float = 0.0) -> None:
        """Let a client ask a server, some time from now."""
        self._push(self.now + delay, server, command)

    def run(self, after_step: Callable[[], None] | None = None) -> None:
        """Go on until nothing is under way; raises `NeverEndsError`."""
        steps = 0
        while self._events:
            self.now, _, server, event = heapq.heappop(self._events)
            effects = self.servers[server].step(event, self.now)
            for receiver, message in effects.messages:
                self._send(server, receiver, message)
            for reply in effects.replies:
                assert reply.ticket not in self.answers, "a caller is answered once"
                self.answers[reply.ticket] = reply.outcome
                if reply.place is not None:
                    self.places[reply.ticket] = reply.place
            if after_step is not None:
                after_step()
            steps += 1
            if steps > STEPS_LIMIT:
                raise NeverEndsError(f"{len(self._events)} events are left after {steps} steps")

    def counts(self) -> Counter[str]:
        """How many messages of each type were sent."""
        return Counter(type(sent.message).__name__ for sent in self.sent)

    def _send(self, sender: ServerId, receiver: ServerId, message: Message) -> None:
        channel = (sender, receiver)
        delay = self._chance.expovariate(1.0)
        if self._is_wild:
            delay *= self._slowness.setdefault(channel, self._chance.choice(SLOWNESS))
            if self._chance.random() < VERY_LATE_SHARE:
                delay *= VERY_LATE_FACTOR
        arrival = max(self.now + delay, self._last_arrival.get(channel, 0.0) + 1e-6)
        self._last_arrival[channel] = arrival
        self.sent.append(Sent(self.now, sender, receiver, message))
        self._push(arrival, receiver, PeerMessage(sender, message))

    def _push(self, time: float, server: ServerId, event: Event) -> None:
        self._count += 1
        heapq.heappush(self._events, (time, self._count, server, event))
