"""Connections between servers that break and come back, as the transport presents them to the cores.

    open -- a channel is cut, a server stops --> an end notices --> closed --> each end waits a while --> PeerLost
      ^                                                                |
      +---- PeerMet, receipts, letters sent again <-- all is whole again
    open -- a server says that it cannot write (`unwritable`) --> PeerLost, at the other end alone; it stays open
      ^                                                              |
      +---- PeerMet, at that end <-- it says that it can ------------+

Each pair of servers has one connection, and the connection needs both channels. While a channel is cut, its messages
wait. If the channel is whole again before an end has noticed, all goes on as if it had not been cut. An end that
notices closes the connection, and the messages under way are lost. Each end notices at its own time, or not at all if
the connection is back by then.

When two servers meet, the numbers of their letters show whether one of them runs on an older copy of its disk. That
server begins a fresh incarnation and closes all connections. Each peer that learns of the new incarnation begins its
channels with the server anew.

Source: nameserver/transport/peer_transport.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from functools import partial
from itertools import combinations
from random import Random
from typing import NamedTuple, Protocol

from delivery.model.events import DeliveryEvent, PeerStarted
from namegraph import Event, Lane, PeerLost, PeerReceived, PeerRestored, Restored, ServerId
from simulation.cluster.cluster import Cluster
from simulation.cluster.networks import Arrival, Channel, Errand, RandomNetwork
from simulation.oracle.violation import InvariantViolatedError

NOTICED_AFTER = (0.5, 5.0, 20.0)
"""Mean times until an end notices that a channel is cut."""

LOST_AFTER = (1.0, 10.0)
"""Mean times from there until the core is told."""

CONNECTED_AFTER = 1.0
"""Mean time until a server dials once a connection is possible."""

RECEIPTS_LOST_SHARE = 0.3
"""Share of new connections after which received letters are sent again. The receiver drops them by their numbers."""


class Pair(NamedTuple):
    """Two servers, sorted."""

    one: ServerId
    other: ServerId


class Words(Protocol):
    """Statements of servers to their peers about their disks."""

    def is_given_up(self, end: ServerId, other: ServerId) -> bool:
        """True if `end` has lost `other`, which cannot write, and has not heard from it since."""

    def can_be_heard(self, end: ServerId, other: ServerId) -> None:
        """Note that statements of `other` arrive at `end` again."""

    def crashed(self, server: ServerId) -> None:
        """Note that a server has crashed."""

    def started(self, server: ServerId) -> None:
        """Note that a server has started again."""


class BreakingConnections:
    """All connections of a cluster."""

    def __init__(self, cluster: Cluster, network: RandomNetwork, chance: Random) -> None:
        self._cluster = cluster
        self._network = network
        self._chance = chance
        self._cuts: Counter[Channel] = Counter()
        """Number of unmended cuts of each channel."""
        pairs = [Pair(*sorted(pair)) for pair in combinations(cluster.servers, 2)]
        self._sessions = dict.fromkeys(pairs, 0)
        """Number of connections that each pair had before the present one."""
        self._closed: set[Pair] = set()
        self.words: Words | None = None
        self._met: set[Channel] = set()
        """Channels whose first server has met the second since both last started."""

    def is_open(self, one: ServerId, other: ServerId) -> bool:
        """True if letters can leave `one` for `other`, whether or not they arrive."""
        return _pair(one, other) not in self._closed

    def carries(self, sender: ServerId, receiver: ServerId) -> bool:
        """True if a message from `sender` reaches `receiver`."""
        return self.is_open(sender, receiver) and not self._cuts[Channel(sender, receiver)]

    def session(self, one: ServerId, other: ServerId) -> int:
        """Return the number of connections that two servers had before the present one, or before the next if none is
        open.
        """
        return self._sessions[_pair(one, other)]

    def cut(self, channels: Iterable[Channel]) -> None:
        """Cut some channels: no message passes on them."""
        for channel in channels:
            self._cuts[channel] += 1
            if self._cuts[channel] > 1:
                continue
            self._network.stop(channel)
            session = self._sessions[_pair(*channel)]
            for end, other in (channel, reversed(channel)):
                self._later(end, partial(self._notice_cut, end, other, session), self._chance.choice(NOTICED_AFTER))

    def mend(self, channels: Iterable[Channel]) -> None:
        """Mend one cut of each of these channels."""
        for channel in channels:
            self._cuts[channel] -= 1
            if self._cuts[channel]:
                continue
            self._network.go_on(channel)
            one, other = channel
            if self.is_open(one, other):
                if self._is_whole(one, other):
                    self._exchange_receipts(one, other)
                if self.words is not None:
                    self.words.can_be_heard(other, one)
            self._later(one, partial(self._connect, one, other), CONNECTED_AFTER)

    def paused(self, server: ServerId) -> None:
        """Note that a server takes no event for a while. Its peers may notice."""
        for other in self._others(server):
            session = self._sessions[_pair(server, other)]
            noticed_after = self._chance.choice(NOTICED_AFTER)
            self._later(other, partial(self._notice_pause, other, server, session), noticed_after)

    def crashed(self, server: ServerId) -> None:
        """Note that a server has crashed. Messages that it had sent may arrive until the other end notices."""
        self._network.thaw(server)
        self._met = {channel for channel in self._met if server not in channel}
        if self.words is not None:
            self.words.crashed(server)
        for other in self._others(server):
            # A peer that had crashed before may have left messages that this end never noticed to be lost.
            self._network.drop(Channel(other, server))
            if not self.is_open(server, other):
                continue
            self._closed.add(_pair(server, other))
            session = self._sessions[_pair(server, other)]
            noticed_after = self._chance.choice(NOTICED_AFTER)
            self._later(other, partial(self._notice_crash, other, server, session), noticed_after)

    def started(self, server: ServerId) -> None:
        """Note that a server has started again. It dials its peers."""
        for other in self._others(server):
            self._expect(server, other, self._sessions[_pair(server, other)])
            self._later(server, partial(self._connect, server, other), CONNECTED_AFTER)
        if self.words is not None:
            self.words.started(server)

    def _notice_cut(self, end: ServerId, other: ServerId, session: int) -> None:
        if not self._is_whole(end, other):
            self._close(end, other, session)

    def _notice_pause(self, end: ServerId, other: ServerId, session: int) -> None:
        if self._network.is_frozen(other):
            self._close(end, other, session)

    def _notice_crash(self, end: ServerId, other: ServerId, session: int) -> None:
        if self._sessions[_pair(end, other)] == session and not self.is_open(end, other):
            self._network.drop(Channel(other, end))
            self._expect(end, other, session)

    def _close(self, end: ServerId, other: ServerId, session: int) -> None:
        pair = _pair(end, other)
        if self._sessions[pair] != session or pair in self._closed or end in self._cluster.down:
            return
        self._closed.add(pair)
        for channel in (Channel(end, other), Channel(other, end)):
            self._network.drop(channel)
        self._expect(end, other, session)
        self._later(other, partial(self._expect, other, end, session), self._chance.choice(NOTICED_AFTER))
        self._later(end, partial(self._connect, end, other), CONNECTED_AFTER)

    def _expect(self, end: ServerId, other: ServerId, session: int) -> None:
        self._later(end, partial(self._lose, end, other, session), self._chance.choice(LOST_AFTER))

    def _lose(self, end: ServerId, other: ServerId, session: int) -> None:
        if self._sessions[_pair(end, other)] == session and not self.is_open(end, other):
            self._take(end, PeerLost(other, "no connection"))

    def _connect(self, end: ServerId, other: ServerId) -> None:
        """Dial a peer. If no connection is possible now, the end of the trouble dials again."""
        if not self.is_open(end, other) and self._can_connect(end, other):
            self._later(other, partial(self._open, end, other), 0.0)

    def _open(self, dialled: ServerId, end: ServerId) -> None:
        if self.is_open(dialled, end) or not self._can_connect(dialled, end):
            return
        if self._network.is_frozen(dialled):
            self._later(dialled, partial(self._connect, dialled, end), CONNECTED_AFTER)
            return
        pair = _pair(dialled, end)
        if self._is_being_written(*pair) or not self._fit(*pair):
            self._later(dialled, partial(self._connect, dialled, end), CONNECTED_AFTER)
            return
        self._sessions[pair] += 1
        for channel in (Channel(*pair), Channel(*reversed(pair))):
            self._network.drop(channel)
        for one, other in (pair, reversed(pair)):
            if Channel(one, other) not in self._met:
                self._take(one, PeerStarted(other))
            if self.words is None or not self.words.is_given_up(one, other):
                self._take(one, self._cluster.meeting(one, other))
                self._met.add(Channel(one, other))
        if not self._can_connect(*pair):
            for one, other in (pair, reversed(pair)):
                self._expect(one, other, self._sessions[pair])
            return
        self._closed.discard(pair)
        if self._chance.random() >= RECEIPTS_LOST_SHARE:
            self._exchange_receipts(*pair)
        for sender, receiver in (pair, reversed(pair)):
            if self.is_open(sender, receiver):
                self._cluster.send_kept(sender, receiver)
                if self.words is not None:
                    self.words.can_be_heard(receiver, sender)

    def _is_being_written(self, one: ServerId, other: ServerId) -> bool:
        """True if letters received before a restart of their receiver are handled and not yet durable."""
        return any(
            self._cluster.queues[receiver].handled_before(sender, lane) is not None
            for receiver, sender in ((one, other), (other, one))
            if Channel(receiver, sender) not in self._met
            for lane in Lane
        )

    def _fit(self, one: ServerId, other: ServerId) -> bool:
        """True if each server has all letters that the other one counts on. If not, the servers take notice."""
        cores = self._cluster.servers
        ways = ((one, other), (other, one))
        for server, peer in ways:
            incarnation, known = cores[server].incarnations.own, cores[peer].incarnations
            if known.is_over(server, incarnation):
                self._go_back(server)
                return False
            if known.of(server) != incarnation:
                # A late letter of the old incarnation must not be taken for one of the new incarnation.
                self._network.drop(Channel(server, peer))
                self._take(peer, PeerRestored(server, incarnation))
                self._forget_receipts(_pair(server, peer))
                return False
        gone_back = [server for server, peer in ways if self._has_gone_back(server, peer)]
        for server in gone_back:
            self._go_back(server)
        return not gone_back

    def _go_back(self, server: ServerId) -> None:
        if server not in self._cluster.on_old_disks:
            raise InvariantViolatedError(f"{server} is taken for one that has gone back")
        self._take(server, Restored(self._chance.randint(2**32, 2**40)))
        for third in self._others(server):
            self._close(server, third, self._sessions[_pair(server, third)])
            self._forget_receipts(_pair(server, third))

    def _has_gone_back(self, server: ServerId, peer: ServerId) -> bool:
        """True if a peer has received letters, or had them confirmed, that the server does not know of."""
        if Channel(server, peer) in self._met:
            return False
        through, cores = self._cluster.durable_through, self._cluster.servers
        for lane in Lane:
            ours, theirs = cores[server].channels_of(lane), cores[peer].channels_of(lane)
            has_sent_less = through(peer, server, lane) > ours.left_through(peer)
            if has_sent_less or through(server, peer, lane) < theirs.forgotten_through(server):
                return True
        return False

    def _forget_receipts(self, pair: Pair) -> None:
        def is_void(waiting: Arrival) -> bool:
            event = waiting.event
            return isinstance(event, PeerReceived) and _pair(waiting.server, event.peer) == pair

        self._network.forget(is_void)

    def _exchange_receipts(self, one: ServerId, other: ServerId) -> None:
        for sender, receiver in ((one, other), (other, one)):
            if self.is_open(sender, receiver):
                for receipt in self._cluster.receipts(receiver, sender):
                    self._take(sender, receipt)

    def _can_connect(self, one: ServerId, other: ServerId) -> bool:
        return self._is_whole(one, other) and not self._cluster.down.keys() & {one, other}

    def _is_whole(self, one: ServerId, other: ServerId) -> bool:
        return not (self._cuts[Channel(one, other)] or self._cuts[Channel(other, one)])

    def _take(self, server: ServerId, event: Event | DeliveryEvent) -> None:
        self._cluster.take(Arrival(self._cluster.now, server, event, None))

    def _later(self, server: ServerId, run: partial[None], mean_delay: float) -> None:
        delay = self._chance.expovariate(1.0) * mean_delay
        self._network.put(server, Errand(run), delay=delay)

    def _others(self, server: ServerId) -> list[ServerId]:
        return [other for other in self._cluster.servers if other != server]


def _pair(one: ServerId, other: ServerId) -> Pair:
    return Pair(*sorted((one, other)))
