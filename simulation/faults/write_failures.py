"""Disks that take no writes for a while, and the statements of servers about this to one another.

    a write fails ---> no message is taken ---> it lasts: said over each open connection ---> PeerLost at its other end
    all is written <--- the trouble ends        and taken back a while after its end -------> PeerMet there

Output of the server's steps does not leave it meanwhile. A peer that has heard the statement does without the server
until it hears otherwise, over any connection. The server itself has lost no peer.

This module draws from a generator of its own, so that the other troubles are the same with and without it.

Source: nameserver/detector/write_health.py, nameserver/transport/peer_transport.py.
"""

from __future__ import annotations

from functools import partial
from random import Random

from namegraph import PeerLost, PeerMet, ServerId
from simulation.cluster.cluster import WORLD, Cluster
from simulation.cluster.connections import BreakingConnections
from simulation.cluster.networks import Arrival, Channel, Errand, RandomNetwork

NOTICED_AFTER = 1.0
"""Mean time until a server knows that it cannot write. It takes messages until then."""

SAID_AFTER = (1.0, 10.0)
"""Mean times until the server says so."""

TAKEN_BACK_AFTER = 2.0
"""Mean time from the end of the trouble until the server takes the statement back."""

HEARD_AFTER = 1.0
"""Mean time until a peer hears a statement."""


class WriteFailures:
    """The failing disks of a cluster, and the peers that know of them."""

    def __init__(self, cluster: Cluster, network: RandomNetwork, links: BreakingConnections, chance: Random) -> None:
        self._cluster = cluster
        self._network = network
        self._links = links
        self._chance = chance
        self._said: set[ServerId] = set()
        """Servers that say that they cannot write."""
        self._given_up: set[Channel] = set()
        """Channels whose sender has heard that the receiver cannot write."""
        links.words = self

    def begin(self, server: ServerId, lasts: float) -> None:
        """Let a server's disk take no writes for `lasts`."""
        cluster = self._cluster
        cluster.begin_failing(server)
        until = cluster.now + lasts
        self._later(server, partial(self._notice, server, until), NOTICED_AFTER)
        self._expect_word(server)
        cluster.send_errand(WORLD, Errand(partial(self._end, server)), delay=lasts)

    def is_given_up(self, end: ServerId, other: ServerId) -> bool:
        """True if `end` has lost `other`, which cannot write, and has not heard from it since."""
        return Channel(end, other) in self._given_up

    def can_be_heard(self, end: ServerId, other: ServerId) -> None:
        """Note that statements of `other` arrive at `end` again."""
        if other in self._said or self.is_given_up(end, other):
            self._let_hear(end, other)

    def crashed(self, server: ServerId) -> None:
        """Note that a server has crashed. It knows nothing of its peers, and says nothing."""
        self._said.discard(server)
        self._given_up = {channel for channel in self._given_up if channel.sender != server}

    def started(self, server: ServerId) -> None:
        """Note that a server has started again. Its disk may still fail."""
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
        """Schedule the arrival of a statement after all letters that were sent before it."""
        after = max(0.0, self._network.arrived_by(Channel(other, end)) - self._cluster.now)
        hear = partial(self._hear, end, other, self._links.session(end, other))
        self._later(end, hear, HEARD_AFTER, at_least=after)

    def _hear(self, end: ServerId, other: ServerId, session: int) -> None:
        """Let `end` hear the present statement of `other`. If the connection is gone, the next connection
        carries it.
        """
        links = self._links
        if not links.carries(other, end) or links.session(end, other) != session:
            return
        if other in self._said and not self.is_given_up(end, other):
            self._given_up.add(Channel(end, other))
            self._take(end, PeerLost(other, "it cannot write"))
        elif other not in self._said and self.is_given_up(end, other):
            self._given_up.discard(Channel(end, other))
            self._take(end, self._cluster.meeting(end, other))

    def _fails(self, server: ServerId) -> bool:
        return self._cluster.queues[server].failures > 0

    def _take(self, server: ServerId, event: PeerLost | PeerMet) -> None:
        self._cluster.take(Arrival(self._cluster.now, server, event, None))

    def _later(self, server: ServerId, run: partial[None], mean_delay: float, *, at_least: float = 0.0) -> None:
        delay = max(at_least, self._chance.expovariate(1.0) * mean_delay)
        self._network.put(server, Errand(run), delay=delay)
