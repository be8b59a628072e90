"""What is under way between servers, and what arrives next.

On each channel, from one server to another, messages arrive in the order in which they were sent; messages of different
channels may overtake one another. What arrives next is a matter of chance (`RandomNetwork`), or a scenario says it
(`SteppedNetwork`). What concerns one server alone, a client's command say, is under way too until it is taken.
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
"""Mean delays of channels; each gets one of them."""

VERY_LATE_SHARE = 0.05
VERY_LATE_FACTOR = 20

RIGHT_BEHIND_SHARE = 0.5
"""Of posts, those that come as soon as what was sent before them has come."""

TAKEN_TOGETHER_SHARE = 0.7
"""Of posts that come right behind another one, those that are taken in the same step."""


class Channel(NamedTuple):
    """The way from one server to another."""

    sender: ServerId
    receiver: ServerId


@dataclass(frozen=True, slots=True)
class Posted:
    """A letter of the lane of messages to groups: what it says is nothing to who carries it."""

    number: int
    encoded: bytes


@dataclass(frozen=True, slots=True)
class Sent:
    """One message that was sent, for those who print or count them."""

    time: float
    sender: ServerId
    receiver: ServerId
    message: Message | Posted

    @property
    def channel(self) -> Channel:
        """The channel it was sent on."""
        return Channel(self.sender, self.receiver)


@dataclass(frozen=True, slots=True)
class Errand:
    """Something else than a core's step that happens at its time: a question on its way, a client that asks again."""

    run: Callable[[], None]


@dataclass(frozen=True, slots=True)
class Arrival:
    """What a server takes next. `sent` is set where it is a message of another server."""

    time: float
    server: ServerId
    event: Event | DeliveryEvent | Errand
    sent: Sent | None

    @property
    def channel(self) -> Channel | None:
        """The channel it came on."""
        return None if self.sent is None else self.sent.channel


class Network(Protocol):
    """Holds what is under way."""

    now: float
    """The time of the last arrival."""

    def put(self, server: ServerId, event: Event | DeliveryEvent | Errand, *, delay: float) -> None:
        """Let a server take an event of its own some time from now."""

    def send(self, sent: Sent, event: Event | DatagramCame) -> None:
        """Let a message be under way; `event` is what its receiver takes."""

    def lose(self, one: ServerId, other: ServerId) -> None:
        """Lose all messages that are under way between two servers."""

    def next(self) -> Arrival | None:
        """What arrives next; None where nothing does."""


class RandomNetwork:
    """Delays by chance. Some channels are slow, and now and then a message is very late."""

    def __init__(self, chance: Random, *, is_wild: bool = True) -> None:
        """Where it is not wild, all channels are alike."""
        self.now = 0.0
        self.slowness: dict[Channel, float] = {}
        """Mean delays; a channel that is not in it by its first message is given one of `SLOWNESS`."""
        self._chance = chance
        self._is_wild = is_wild
        self._arrivals: list[tuple[float, int, int, Arrival]] = []
        self._count = 0
        self._last_arrival: dict[Channel, float] = {}
        self._losses: dict[Channel, int] = {}
        """How often all messages of a channel were lost."""
        self._stopped: dict[Channel, list[tuple[int, int, Arrival]]] = {}
        """What would have arrived on channels that let nothing through, with its place and the losses of its time."""
        self._frozen: dict[ServerId, float] = {}
        """Servers that take nothing, and until when."""
        self._deaf: dict[ServerId, float] = {}
        """Servers that take no messages, and until when."""

    def put(self, server: ServerId, event: Event | DeliveryEvent | Errand, *, delay: float) -> None:
        """Let a server take an event of its own some time from now."""
        self._push(0, Arrival(self.now + delay, server, event, None))

    def send(self, sent: Sent, event: Event | DatagramCame) -> None:
        """Let a message arrive after a delay, and after those that were sent before it."""
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
        """Lose all messages that are under way between two servers."""
        for channel in (Channel(one, other), Channel(other, one)):
            self._losses[channel] = self._losses.get(channel, 0) + 1

    def drop(self, channel: Channel) -> None:
        """Lose all messages that are under way on a channel; later ones need not come after them."""
        self._losses[channel] = self._losses.get(channel, 0) + 1
        self._last_arrival.pop(channel, None)

    def stop(self, channel: Channel) -> None:
        """Let nothing through on a channel: what would arrive waits."""
        self._stopped.setdefault(channel, [])

    def go_on(self, channel: Channel) -> None:
        """Let through what has waited, at once and in order."""
        for place, losses, arrival in self._stopped.pop(channel, []):
            self._put_off(self.now, place, losses, arrival)

    def freeze(self, server: ServerId, until: float) -> None:
        """Let a server take nothing until then; what arrives waits, in order."""
        self._frozen[server] = max(until, self._frozen.get(server, 0.0))

    def thaw(self, server: ServerId) -> None:
        """Let a server go on; what has waited comes at the time that was said."""
        self._frozen.pop(server, None)

    def view_change_in_progress(self, server: ServerId) -> bool:
        """Whether a server takes nothing."""
        return self._frozen.get(server, 0.0) > self.now

    def deafen(self, server: ServerId, until: float) -> None:
        """Let a server take no message until then; they wait, in order, and all else goes on."""
        self._deaf[server] = max(until, self._deaf.get(server, 0.0))

    def arrived_by(self, channel: Channel) -> float:
        """By what time all that was sent on a channel has arrived, unless it is held up."""
        return self._last_arrival.get(channel, 0.0)

    def forget(self, is_void: Callable[[Arrival], bool]) -> None:
        """Let some of what is under way never arrive."""
        self._arrivals = [waiting for waiting in self._arrivals if not is_void(waiting[-1])]
        heapq.heapify(self._arrivals)

    def next(self) -> Arrival | None:
        """What arrives next; None where nothing is under way, or all of it on channels that let nothing through."""
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
        """An arrival, with some of the posts that come right behind it, if it is a post."""
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
        """Until when a server does not take this; a time that is over, where it does."""
        deaf_until = 0.0 if arrival.sent is None else self._deaf.get(arrival.server, 0.0)
        return max(deaf_until, self._frozen.get(arrival.server, 0.0))

    def _push(self, losses: int, arrival: Arrival) -> None:
        self._count += 1
        heapq.heappush(self._arrivals, (arrival.time, self._count, losses, arrival))

    def _put_off(self, until: float, place: int, losses: int, arrival: Arrival) -> None:
        """In its old place: what was sent later may have been put off to the same time before."""
        heapq.heappush(self._arrivals, (until, place, losses, replace(arrival, time=until)))


def _is_post(event: Event | DeliveryEvent | Errand) -> bool:
    return isinstance(event, PeerMessage) and event.lane is Lane.POST


Choice = Callable[[list[Channel]], Channel]


def first(channels: list[Channel]) -> Channel:
    """The channel whose next message was sent first."""
    return channels[0]


class SteppedNetwork:
    """Nothing arrives but what is asked for, and time goes on only where `now` is set."""

    def __init__(self, is_held: Callable[[Sent], bool], choose: Choice = first) -> None:
        """`is_held` says what must wait, with all that is behind it; `choose` takes one of the channels that may go on,
        which come in the order in which their next messages were sent."""
        self.now = 0.0
        self._is_held = is_held
        self._choose = choose
        self._own: list[Arrival] = []
        self._channels: dict[Channel, deque[tuple[int, Sent, Event | DatagramCame]]] = {}
        self._count = 0

    def put(self, server: ServerId, event: Event | DeliveryEvent | Errand, *, delay: float) -> None:
        """Let a server take an event of its own before anything else, once its time has come."""
        self._own.append(Arrival(self.now + delay, server, event, None))

    def send(self, sent: Sent, event: Event | DatagramCame) -> None:
        """Let a message wait on its channel."""
        self._count += 1
        self._channels.setdefault(sent.channel, deque()).append((self._count, sent, event))

    def lose(self, one: ServerId, other: ServerId) -> None:
        """Lose all messages that wait between two servers."""
        for channel in (Channel(one, other), Channel(other, one)):
            self._channels.pop(channel, None)

    def next_own(self) -> Arrival | None:
        """The next event of a server's own whose time has come."""
        for place, arrival in enumerate(self._own):
            if arrival.time <= self.now:
                return self._own.pop(place)
        return None

    def next(self) -> Arrival | None:
        """What arrives next; None where all that is under way is held, or its time has not come."""
        own = self.next_own()
        if own is not None:
            return own
        heads = sorted((waiting[0][0], channel) for channel, waiting in self._channels.items() if waiting)
        free = [channel for _, channel in heads if not self._is_held(self._channels[channel][0][1])]
        return self.take(self._choose(free)) if free else None

    def waiting(self, channel: Channel) -> list[Sent]:
        """What waits on a channel, in order."""
        return [sent for _, sent, _ in self._channels.get(channel, ())]

    def take(self, channel: Channel) -> Arrival:
        """The next message of a channel on which some wait, held or not."""
        _, sent, event = self._channels[channel].popleft()
        return Arrival(self.now, sent.receiver, event, sent)
