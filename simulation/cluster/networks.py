"""Networks: the messages under way between servers, and the choice of the next arrival.

A channel leads from one server to another. Messages of one channel arrive in the order in which they were sent.
Messages of different channels may overtake one another. `RandomNetwork` draws the next arrival by chance;
`SteppedNetwork` takes it from a scenario. Events of one server alone, such as a client's command, are under way too
until the server takes them.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple, Protocol

from delivery.model.events import DatagramCame, DeliveryEvent
from namegraph import Event, Lane, PeerMessage, PeerPosts, ServerId
from namegraph.wire.codec import Message

SLOWNESS = (0.2, 1.0, 1.0, 5.0)
"""Mean delays of channels. Each channel gets one of them."""

VERY_LATE_SHARE = 0.05
VERY_LATE_FACTOR = 20

RIGHT_BEHIND_SHARE = 0.5
"""Share of posts that arrive right behind the message sent before them."""

TAKEN_TOGETHER_SHARE = 0.7
"""Share of posts right behind another post that the receiver takes in the same step."""


class Channel(NamedTuple):
    """The direction from one server to another."""

    sender: ServerId
    receiver: ServerId


@dataclass(frozen=True, slots=True)
class PostedLetter:
    """A letter of the lane of messages to groups. The network does not decode its content."""

    number: int
    encoded: bytes


@dataclass(frozen=True, slots=True)
class SentMessage:
    """One sent message, for code that prints or counts messages."""

    time: float
    sender: ServerId
    receiver: ServerId
    message: Message | PostedLetter

    @property
    def channel(self) -> Channel:
        """Channel of the message."""
        return Channel(self.sender, self.receiver)


@dataclass(frozen=True, slots=True)
class Errand:
    """An event other than a core's step, such as a question on its way or a client that asks again."""

    run: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Arrival:
    """The next event that a server takes. `sent` is set if the event is a message from another server."""

    time: float
    server: ServerId
    event: Event | DeliveryEvent | Errand
    sent: SentMessage | None

    @property
    def channel(self) -> Channel | None:
        """Channel on which the event came. None for an event of the server's own."""
        return None if self.sent is None else self.sent.channel


class Network(Protocol):
    """All messages and events under way."""

    now: float
    """Time of the last arrival."""

    def put(self, server: ServerId, event: Event | DeliveryEvent | Errand, *, delay: float) -> None:
        """Let a server take an event of its own after `delay`."""

    def send(self, sent: SentMessage, event: Event | DatagramCame) -> None:
        """Put a message under way. `event` is the event that its receiver takes."""

    def lose(self, one: ServerId, other: ServerId) -> None:
        """Lose all messages under way between two servers, in both directions."""

    def next(self) -> Arrival | None:
        """Return the next arrival. None if no event can arrive."""


class RandomNetwork:
    """A network with random delays. Some channels are slow, and a few messages are very late."""

    def __init__(self, chance: Random, *, is_wild: bool = True) -> None:
        """Create a network. `is_wild`: False if all channels have the same mean delay and no message is very late."""
        self.now = 0.0
        self.slowness: dict[Channel, float] = {}
        """Mean delays by channel. A channel without one draws it from `SLOWNESS` at its first message."""
        self._chance = chance
        self._is_wild = is_wild
        self._arrivals: list[tuple[float, int, int, Arrival]] = []
        self._count = 0
        self._last_arrival: dict[Channel, float] = {}
        self._losses: dict[Channel, int] = {}
        """Number of times that all messages of a channel were lost."""
        self._stopped: dict[Channel, list[tuple[int, int, Arrival]]] = {}
        """Arrivals held back on stopped channels, each with its place and the loss count of its channel when it was
        sent.
        """
        self._frozen: dict[ServerId, float] = {}
        """Servers that take no event at all, with the time at which they go on."""
        self._deaf: dict[ServerId, float] = {}
        """Servers that take no messages, with the time at which they go on."""

    def put(self, server: ServerId, event: Event | DeliveryEvent | Errand, *, delay: float) -> None:
        """Let a server take an event of its own after `delay`."""
        self._push(0, Arrival(self.now + delay, server, event, None))

    def send(self, sent: SentMessage, event: Event | DatagramCame) -> None:
        """Let a message arrive after a random delay, and after the messages sent before it on its channel."""
        delay = self._chance.expovariate(1.0)
        if self._is_wild:
            delay *= self.slowness.setdefault(sent.channel, self._chance.choice(SLOWNESS))
            if self._chance.random() < VERY_LATE_SHARE:
                delay *= VERY_LATE_FACTOR
        if _is_post(event) and self._chance.random() < RIGHT_BEHIND_SHARE:
            delay = 0.0
        arrival = max(self.now + delay, self._last_arrival.get(sent.channel, 0.0) + 1e-6)
        self._last_arrival[sent.channel] = arrival
        self._push(self._losses.get(sent.channel, 0), Arrival(arrival, sent.receiver, event, sent))

    def lose(self, one: ServerId, other: ServerId) -> None:
        """Lose all messages under way between two servers, in both directions."""
        for channel in (Channel(one, other), Channel(other, one)):
            self._losses[channel] = self._losses.get(channel, 0) + 1

    def drop(self, channel: Channel) -> None:
        """Lose all messages under way on a channel. Later messages need not arrive after them."""
        self._losses[channel] = self._losses.get(channel, 0) + 1
        self._last_arrival.pop(channel, None)

    def stop(self, channel: Channel) -> None:
        """Hold back all arrivals on a channel."""
        self._stopped.setdefault(channel, [])

    def go_on(self, channel: Channel) -> None:
        """Release the arrivals held back on a channel, at once and in order."""
        for place, losses, arrival in self._stopped.pop(channel, []):
            self._put_off(self.now, place, losses, arrival)

    def freeze(self, server: ServerId, until: float) -> None:
        """Let a server take no event until the given time. Arrivals wait, in order."""
        self._frozen[server] = max(until, self._frozen.get(server, 0.0))

    def thaw(self, server: ServerId) -> None:
        """Let a frozen server go on. Arrivals already put off still come at the time that was announced."""
        self._frozen.pop(server, None)

    def is_frozen(self, server: ServerId) -> bool:
        """True if a server takes no event now."""
        return self._frozen.get(server, 0.0) > self.now

    def deafen(self, server: ServerId, until: float) -> None:
        """Let a server take no message until the given time. Messages wait, in order; other events go on."""
        self._deaf[server] = max(until, self._deaf.get(server, 0.0))

    def arrived_by(self, channel: Channel) -> float:
        """Return the time by which all messages sent on a channel have arrived, unless they are held back."""
        return self._last_arrival.get(channel, 0.0)

    def forget(self, is_void: Callable[[Arrival], bool]) -> None:
        """Remove arrivals under way for which `is_void` is true."""
        self._arrivals = [waiting for waiting in self._arrivals if not is_void(waiting[-1])]
        heapq.heapify(self._arrivals)

    def next(self) -> Arrival | None:
        """Return the next arrival. None if no event is under way except on stopped channels."""
        while self._arrivals:
            self.now, place, losses, arrival = heapq.heappop(self._arrivals)
            channel = arrival.channel
            if channel is not None and losses != self._losses.get(channel, 0):
                continue
            if channel in self._stopped:
                self._stopped[channel].append((place, losses, arrival))
            elif (until := self._put_off_until(arrival)) > self.now:
                self._put_off(until, place, losses, arrival)
            else:
                return self._with_posts_behind(arrival, losses)
        return None

    def _with_posts_behind(self, arrival: Arrival, losses: int) -> Arrival:
        """Return an arrival. If it is a post, bundle some of the posts right behind it into one event."""
        together = [arrival]
        while _is_post(arrival.event) and self._arrivals:
            *_, losses_of_next, behind = self._arrivals[0]
            is_of_channel = _is_post(behind.event) and behind.channel == arrival.channel and losses_of_next == losses
            if not is_of_channel or self._chance.random() >= TAKEN_TOGETHER_SHARE:
                break
            self.now, *_ = heapq.heappop(self._arrivals)
            together.append(behind)
        posts = tuple(each.event for each in together if isinstance(each.event, PeerMessage))
        return arrival if len(together) == 1 else replace(arrival, time=self.now, event=PeerPosts(posts))

    def _put_off_until(self, arrival: Arrival) -> float:
        """Return the time until which a server refuses this arrival, or a past time if the server takes it now."""
        deaf_until = 0.0 if arrival.sent is None else self._deaf.get(arrival.server, 0.0)
        return max(deaf_until, self._frozen.get(arrival.server, 0.0))

    def _push(self, losses: int, arrival: Arrival) -> None:
        self._count += 1
        heapq.heappush(self._arrivals, (arrival.time, self._count, losses, arrival))

    def _put_off(self, until: float, place: int, losses: int, arrival: Arrival) -> None:
        """Queue an arrival for a later time under its old place: later messages may have been put off to the
        same time.
        """
        heapq.heappush(self._arrivals, (until, place, losses, replace(arrival, time=until)))


def _is_post(event: Event | DeliveryEvent | Errand) -> bool:
    return isinstance(event, PeerMessage) and event.lane is Lane.POST


Choice = Callable[[list[Channel]], Channel]


def first(channels: list[Channel]) -> Channel:
    """Return the channel whose next message was sent first."""
    return channels[0]


class SteppedNetwork:
    """A network on which only requested messages arrive. Time goes on only where `now` is set."""

    def __init__(self, is_held: Callable[[SentMessage], bool], choose: Choice = first) -> None:
        """Create a network.

        `is_held`: True for a message that must wait, with all messages behind it.
        `choose`: function that picks one of the free channels, given in the order in which their next messages were
        sent.
        """
        self.now = 0.0
        self._is_held = is_held
        self._choose = choose
        self._own: list[Arrival] = []
        self._channels: dict[Channel, deque[tuple[int, SentMessage, Event | DatagramCame]]] = {}
        self._count = 0

    def put(self, server: ServerId, event: Event | DeliveryEvent | Errand, *, delay: float) -> None:
        """Let a server take an event of its own, once its time has come, before any message."""
        self._own.append(Arrival(self.now + delay, server, event, None))

    def send(self, sent: SentMessage, event: Event | DatagramCame) -> None:
        """Queue a message on its channel."""
        self._count += 1
        self._channels.setdefault(sent.channel, deque()).append((self._count, sent, event))

    def lose(self, one: ServerId, other: ServerId) -> None:
        """Lose all messages that wait between two servers."""
        for channel in (Channel(one, other), Channel(other, one)):
            self._channels.pop(channel, None)

    def next_own(self) -> Arrival | None:
        """Return the next event of a server's own whose time has come. None if there is none."""
        for place, arrival in enumerate(self._own):
            if arrival.time <= self.now:
                return self._own.pop(place)
        return None

    def next(self) -> Arrival | None:
        """Return the next arrival. None if all messages are held and no own event is due."""
        own = self.next_own()
        if own is not None:
            return own
        heads = sorted((waiting[0][0], channel) for channel, waiting in self._channels.items() if waiting)
        free = [channel for _, channel in heads if not self._is_held(self._channels[channel][0][1])]
        return self.take(self._choose(free)) if free else None

    def waiting(self, channel: Channel) -> list[SentMessage]:
        """Return the messages that wait on a channel, in order."""
        return [sent for _, sent, _ in self._channels.get(channel, ())]

    def take(self, channel: Channel) -> Arrival:
        """Take the next message of a channel on which messages wait, held or not."""
        _, sent, event = self._channels[channel].popleft()
        return Arrival(self.now, sent.receiver, event, sent)
