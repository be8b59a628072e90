"""Disks that take no writes for a while, and what servers say of that to one another.

    a write fails ---> no message is taken ---> it lasts: said over each open connection ---> PeerLost at its other end
    all is written <--- the trouble ends        and taken back a while after its end -------> PeerMet there

Nothing that the server steps meanwhile leaves it. Whoever has heard it does without it until it hears something else,
over whatever connection; the server itself has lost nobody.

All is drawn apart from the other troubles, so that these are the same with and without it.

Source: nameserver/detector/write_health.py, nameserver/transport/peer_transport.py.
"""

from __future__ import annotations

from functools import partial
from random import Random

from namegraph import PeerLost, PeerMet, ServerId, Subnet
from simulation.cluster.cluster import WORLD, Cluster
from simulation.cluster.connections import BreakingConnections
from simulation.cluster.networks import Arrival, Channel, Errand, RandomNetwork

NOTICED_AFTER = 1.0
"""Mean time until a server knows that it cannot write: it takes messages till then."""

SAID_AFTER = (1.0, 10.0)
"""Mean times until it says so."""

TAKEN_BACK_AFTER = 2.0
"""Mean time from the end of the trouble until it says so no more."""

HEARD_AFTER = 1.0
"""Mean time until another server hears what is said."""


class WriteFailures:
    """The disks of a cluster that fail, and who knows."""

    def __init__(self, cluster: Cluster, network: RandomNetwork, links: BreakingConnections, chance: Random) -> None:
        self._cluster = cluster
        self._network = network
        self._links = links
        self._chance = chance
        self._said: set[ServerId] = set()
        """Servers that say that they cannot write."""
        self._given_up: set[Channel] = set()
        """Who has heard that, as the sender, and of whom."""
        links.words = self

    def begin(self, server: ServerId, lasts: float) -> None:
        """Let nothing be written on a server's disk for a while."""
        cluster = self._cluster
        cluster.begin_failing(server)
        until = cluster.now + lasts
        self._later(server, partial(self._notice, server, until), NOTICED_AFTER)
        self._expect_word(server)
        cluster.send_errand(WORLD, Errand(partial(self._end, server)), delay=lasts)

    def is_given_up(self, end: ServerId, other: ServerId) -> bool:
        """Whether a server has lost another one since that cannot write, and heard nothing else since."""
        return Channel(end, other) in self._given_up

    def can_be_heard(self, end: ServerId, other: ServerId) -> None:
        """What a server says arrives at another one again."""
        if other in self._said or self.is_given_up(end, other):
            self._let_hear(end, other)

    def crashed(self, server: ServerId) -> None:
        """A server is no more: it knows nothing of others, and says nothing."""
        self._said.discard(server)
        self._given_up = {channel for channel in self._given_up if channel.sender != server}

    def started(self, server: ServerId) -> None:
        """A server is back; its disk may still fail."""
        if self._fails(server):
            self._expect_word(server)

    def _notice(self, server: ServerId, until: float) -> None:
        if self._fails(server):
            self._network.deafen(server, until)

    def _end(self, server: ServerId) -> None:
        self._cluster.end_failing(server)
        if not self._fails(server):
            self._later(server, partial(self._take_back, server), TAKEN_BACK_AFTER)

    def _expect_word(self, server: ServerId) -> None:
        self._later(server, partial(self._say, server), self._chance.choice(SAID_AFTER))

    def _say(self, server: ServerId) -> None:
        if self._fails(server) and server not in self._cluster.down and server not in self._said:
            self._said.add(server)
            self._let_all_hear(server)

    def _take_back(self, server: ServerId) -> None:
        if not self._fails(server) and server in self._said:
            self._said.discard(server)
            self._let_all_hear(server)

    def _let_all_hear(self, server: ServerId) -> None:
        for end in self._cluster.servers:
            if end != server:
                self._let_hear(end, server)

    def _let_hear(self, end: ServerId, other: ServerId) -> None:
        """What is said comes after all letters that were sent before."""
        after = max(0.0, self._network.arrived_by(Channel(other, end)) - self._cluster.now)
        hear = partial(self._hear, end, other, self._links.session(end, other))
        self._later(end, hear, HEARD_AFTER, at_least=after)

    def _hear(self, end: ServerId, other: ServerId, session: int) -> None:
        """Heartbeats tell what is so now. Where none arrives any more, the next connection has them."""
        links = self._links
        if not links.carries(other, end) or links.session(end, other) != session:
            return
        if other in self._said and not self.is_given_up(end, other):
            self._given_up.add(Channel(end, other))
            self._take(end, PeerLost(other, "it cannot write"))
        elif other not in self._said and self.is_given_up(end, other):
            self._given_up.discard(Channel(end, other))
            self._take(end, PeerMet(other, (Subnet(other),)))

    def _fails(self, server: ServerId) -> bool:
        return self._cluster.queues[server].failures > 0

    def _take(self, server: ServerId, event: PeerLost | PeerMet) -> None:
        self._cluster.take(Arrival(self._cluster.now, server, event, None))

    def _later(self, server: ServerId, run: partial[None], mean_delay: float, *, at_least: float = 0.0) -> None:
        delay = max(at_least, self._chance.expovariate(1.0) * mean_delay)
        self._network.put(server, Errand(run), delay=delay)
