"""A history in order for its judges: the fate of each message, the members at each time, the messages of each reader.

Events are compared by their *place*, which is their number in the history. `Hindsight` also holds all that is forgiven:

    an origin went back to an older copy of its database
        It owes no member what it had accepted and not settled by then (`Sent.is_forgotten`). A message that it had
        settled may be unsettled in the copy, and come to members since (`Sent.is_reopened`). A dead letter of the copy
        may have been replayed since; replayed from the copy, it comes once more. So does a message that becomes a dead
        letter in the copy, where it is not settled (`Sent.may_be_replayed_twice`).
    a server with mailboxes went back
        Its log begins anew, so earlier positions and acknowledgements mean nothing (`Reading.log`). It is not judged
        which older messages the server logs again, and for which members (`Reading.floor`). The messages of them that
        are handed out are judged. The copy may lack a subscription, so each begins anew with its next event.
    a mailbox was closed
        Its subscriptions ended. A mailbox that is opened later is another mailbox, with other subscriptions.
    a message expired or became a dead letter
        It is owed to no member any more. A replayed dead letter comes to the members at that time.
    a message is kept in memory, and its origin had no room for it while servers were away
        It is owed to no member any more: members behind these servers may miss it, and are not told.
    an endpoint asked to go on further on
        It skipped the messages between, as if it were told a gap.
    an endpoint wants some groups or senders alone
        All other messages are not owed to its subscription.
    a message is kept in memory, and a server started again
        The origin restarted before the message was settled: it is owed to no member any more. The server of a mailbox
        restarted before the hand-over: it is not owed to that mailbox (`Hindsight.may_be_lost`). Messages that do come
        must come once, and in order.
    a foreign process has mailboxes at several servers
        A message that one mailbox was handed is not owed to the others, nor is a message that one of these servers has
        in its log for the process. A message that is logged late may lie in any gap that is told behind the positions
        seen when it was accepted.

The cost is n log n, where n is the length of the history and, for each subscription, of the gaps it was told.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import accumulate
from typing import NamedTuple

from delivery.model.words import Filter, Kept, Position
from namegraph import NodeId, ServerId, TargetSet
from simulation.history.recorded import (
    Acknowledged,
    DatagramHanded,
    DatagramLetOut,
    DeadLettered,
    FoundApart,
    GapTold,
    History,
    Logged,
    MailboxBegins,
    MailboxEnds,
    MembershipChanged,
    MessageAccepted,
    MessageHanded,
    Restarted,
    SettledAt,
    Sizes,
    StreamBegan,
    StreamEnded,
    SubscriptionId,
    WentBack,
)

NOTHING = Position(-1, -1)
"""Position before all positions of a log."""

BEYOND = Position(2**63, 0)
"""Position behind all positions of a log."""


class MailboxTimeline(NamedTuple):
    """The mailboxes that a process has at a server, one after another."""

    server: ServerId
    process: NodeId


class Span(NamedTuple):
    """A state that held from one place to before another."""

    since: int
    until: int
    """Length of the history if the state held to the end."""


class ReachedPeriod(NamedTuple):
    """State that a process is below a target set: as its own home knows, or (certain) as all homes above it know."""

    targets: TargetSet
    is_certain: bool


@dataclass(slots=True)
class MessageTimeline:
    """An accepted message, and its fate."""

    accepted: MessageAccepted
    place: int
    origin_log: int
    """Number of times that its origin had gone back by then."""
    settled: int | None = None
    """Place where it was first settled."""
    is_dead: bool = False
    is_forgotten: bool = False
    is_reopened: bool = False
    may_be_replayed_twice: bool = False
    again: list[MessageAccepted] = field(default_factory=list)
    """Further messages accepted under its id."""


@dataclass(slots=True)
class SentDatagram:
    """A datagram, and the endpoints that got it."""

    sent: DatagramLetOut
    place: int
    handed: list[tuple[int, DatagramHanded]] = field(default_factory=list)
    """Hand-overs with their places."""


Step = StreamBegan | StreamEnded | MessageHanded | Acknowledged | GapTold


class First(NamedTuple):
    """The first time that a reading was handed a message that is not late."""

    position: Position
    place: int
    sent: MessageTimeline


@dataclass(slots=True)
class SubscriptionTimeline:
    """All events of a subscription while its mailbox stayed open and its server kept the same log."""

    subscription: SubscriptionId
    began: int
    """Place of its first stream, or of an earlier first acknowledgement."""
    log: int
    """Number of times that the server had gone back by then."""
    floor: int
    """Place where the server last went back. -1: it never did."""
    opened: int
    """Place where the mailbox was opened. -1: it never was."""
    steps: list[tuple[int, Step]] = field(default_factory=list)
    """Events with their places."""
    wanted: set[Filter] = field(default_factory=set)
    """Filters of all its streams."""
    open_stream: int | None = None
    """Stream that can be handed messages at the end of the history."""

    @property
    def mailbox(self) -> MailboxTimeline:
        """Mailbox whose log entries it reads."""
        return MailboxTimeline(self.subscription.server, self.subscription.process)

    def wants(self, sent: MessageTimeline) -> bool:
        """True if all its streams want a message, and the message is kept where this subscription reads."""
        is_here = sent.accepted.kept is self.subscription.kept
        return is_here and all(_passes(wanted, sent) for wanted in self.wanted)

    def handed(self) -> list[tuple[int, MessageHanded]]:
        """Return all hand-overs, with their places."""
        return [(place, step) for place, step in self.steps if isinstance(step, MessageHanded)]


def is_wanted(stream: StreamBegan, sent: MessageTimeline) -> bool:
    """True if the endpoint of a stream wants a message."""
    return _passes(stream.wanted, sent)


def _passes(wanted: Filter, sent: MessageTimeline) -> bool:
    return wanted.passes(sent.accepted.targets[0].name, sent.accepted.sender)


class Hindsight:
    """The history with hindsight, for the judges. See the module."""

    def __init__(self, history: History) -> None:
        self.length = len(history)
        self.messages: dict[str, MessageTimeline] = {}
        """Accepted messages by id, in the order of acceptance."""
        self.by_targets: dict[TargetSet, list[MessageTimeline]] = defaultdict(list)
        self.by_sequence: dict[str, list[MessageTimeline]] = defaultdict(list)
        self.readings: list[SubscriptionTimeline] = []
        self.datagrams: dict[str, SentDatagram] = {}
        """Datagrams by id."""
        self.stray_datagrams: list[DatagramHanded] = []
        """Datagrams handed over before any sender had sent them."""
        self.strays: list[MessageHanded | GapTold] = []
        """Hand-overs and gaps on streams that had not begun."""
        self.closed: list[MailboxEnds] = []
        self.sizes: list[Sizes] = []
        self.instants: list[int] = []
        """Instant of each place."""
        self._restarts: dict[ServerId, list[int]] = defaultdict(list)
        self._memory_lost: dict[ServerId, list[int]] = defaultdict(list)
        """Places where each server lost the messages in its memory."""
        self._reach: dict[MailboxTimeline, dict[ReachedPeriod, list[Span]]] = defaultdict(lambda: defaultdict(list))
        self._servers_that_handed: dict[tuple[NodeId, str], set[ServerId]] = defaultdict(set)
        self.servers_that_serve: dict[tuple[NodeId, str], set[ServerId]] = defaultdict(set)
        """Servers with a message in their log for a foreign process, by process and message.

        A server that has gone back since is not among them.
        """
        self._late: set[tuple[MailboxTimeline, str]] = set()
        """Messages logged late for a foreign process, with the mailbox."""
        self.apart: set[str] = set()
        """Messages that were sent while servers were apart."""
        self._read(history)
        self.runs = [Runs(self, reading) for reading in self.readings]

    def _read(self, history: History) -> None:
        watch = _Watch(self)
        for place, happening in enumerate(history):
            self.instants.append(happening.at)
            match happening:
                case DatagramLetOut():
                    self.datagrams[happening.message_id] = SentDatagram(happening, place)
                case DatagramHanded():
                    datagram = self.datagrams.get(happening.message_id)
                    if datagram is None:
                        self.stray_datagrams.append(happening)
                    else:
                        datagram.handed.append((place, happening))
                case MessageAccepted() | SettledAt() | DeadLettered():
                    watch.message(place, happening)
                case MailboxBegins() | MailboxEnds() | MembershipChanged():
                    watch.reach(place, happening)
                case StreamBegan() | StreamEnded() | MessageHanded() | Acknowledged() | GapTold():
                    watch.subscription(place, happening)
                case Logged():
                    self.servers_that_serve[happening.process, happening.message_id].add(happening.server)
                    for reader in happening.readers:
                        self._servers_that_handed[reader, happening.message_id].add(happening.server)
                        if happening.is_late:
                            self._late.add((MailboxTimeline(happening.server, reader), happening.message_id))
                case FoundApart():
                    self.apart.add(happening.message_id)
                case Restarted():
                    self._restarts[happening.server].append(place)
                    self._memory_lost[happening.server].append(place)
                case WentBack():
                    self._memory_lost[happening.server].append(place)
                    watch.went_back(place, happening.server)
                    for servers in self.servers_that_serve.values():
                        servers.discard(happening.server)
                case Sizes():
                    self.sizes.append(happening)
        watch.end()

    def add_span(self, mailbox: MailboxTimeline, reached: ReachedPeriod, span: Span) -> None:
        """Note that a mailbox was open, and its process below a target set, over a span. Spans of a pair come
        in order.
        """
        self._reach[mailbox][reached].append(span)

    def add_handed(self, handed: MessageHanded) -> None:
        """Note that a mailbox was handed a message."""
        subscription = handed.subscription
        self._servers_that_handed[subscription.process, handed.message_id].add(subscription.server)

    def certain_reach(self, mailbox: MailboxTimeline, since: int, until: int) -> Iterator[tuple[TargetSet, list[Span]]]:
        """Yield, for each target set, the spans in which all homes above a process knew that it was below."""
        for reached in self._reach.get(mailbox, {}):
            if reached.is_certain:
                yield reached.targets, self.spans(mailbox, reached, since, until)

    def spans(self, mailbox: MailboxTimeline, reached: ReachedPeriod, since: int, until: int) -> list[Span]:
        """Return the spans in which a mailbox was open and its process below a target set, in order, between two
        places.
        """
        spans = self._reach.get(mailbox, {}).get(reached, [])
        first = bisect_right(spans, since, key=lambda span: span.until)
        return spans[first : bisect_left(spans, until, lo=first, key=lambda span: span.since)]

    def settled(self, sent: MessageTimeline) -> int:
        """Return the place where a message was settled. The end of the history if it was not."""
        return self.length if sent.settled is None else sent.settled

    def holds_at(self, span: Span, place: int) -> bool:
        """True if the state of a span that began before a place still holds at the place."""
        return place < span.until or span.until == self.length

    def is_reached(self, reading: SubscriptionTimeline, sent: MessageTimeline) -> bool:
        """True if the mailbox was open, with its process below the targets, in some state before the message settled.

        A dead letter may be replayed at any time, and an origin that went back may post a message again.
        """
        since = max(sent.place, reading.opened)
        reached = ReachedPeriod(sent.accepted.targets, is_certain=False)
        until = self.length if sent.is_dead or sent.is_reopened else self.settled(sent)
        return bool(self.spans(reading.mailbox, reached, since, until))

    def is_reached_between(self, mailbox: MailboxTimeline, targets: TargetSet, since: int, until: int) -> bool:
        """True if a mailbox was open, with its process below some targets, in some state between two places."""
        return bool(self.spans(mailbox, ReachedPeriod(targets, is_certain=False), since, until))

    def is_restarted_between(self, server: ServerId, since: int, until: int) -> bool:
        """True if a server restarted between two places."""
        return _is_one_between(self._restarts.get(server, []), since, until)

    def may_be_lost(self, sent: MessageTimeline, reader: ServerId, place: int) -> bool:
        """True if a message in memory may be lost, before a place, to the readers at a server."""
        return sent.accepted.kept is Kept.MEMORY and (
            self.may_be_lost_at_origin(sent) or _is_one_between(self._memory_lost.get(reader, []), sent.place, place)
        )

    def may_be_lost_at_origin(self, sent: MessageTimeline) -> bool:
        """True if the origin lost the messages in its memory before this one was settled."""
        lost = self._memory_lost.get(sent.accepted.origin, [])
        return sent.accepted.kept is Kept.MEMORY and _is_one_between(lost, sent.place, self.settled(sent))

    def is_handed_elsewhere(self, mailbox: MailboxTimeline, message_id: str) -> bool:
        """True if a mailbox of the same process at another server was handed a message, or is to be."""
        return bool(self._servers_that_handed.get((mailbox.process, message_id), set()) - {mailbox.server})

    def is_late(self, mailbox: MailboxTimeline, sent: MessageTimeline) -> bool:
        """True if a message was logged late for a foreign process."""
        return (mailbox, sent.accepted.message_id) in self._late

    def is_given_up(self, sent: MessageTimeline, place: int) -> bool:
        """True if a message that was not handed over before a place is owed to no member any more."""
        return sent.is_dead or sent.is_forgotten or self.is_expired(sent, place)

    def is_expired(self, sent: MessageTimeline, place: int) -> bool:
        """True if the deadline of a message has come at a place."""
        return sent.accepted.expires_at is not None and sent.accepted.expires_at <= self.instants[place]


class Runs:
    """Messages that a reading was handed of each sequence, apart from late ones, and the place of a missing message."""

    def __init__(self, past: Hindsight, reading: SubscriptionTimeline) -> None:
        self._past = past
        self.reading = reading
        late: set[str] = set()
        first: dict[str, First] = {}
        for place, handed in reading.handed():
            sent = past.messages.get(handed.message_id)
            if handed.is_late:
                late.add(handed.message_id)
            elif sent is not None:
                first.setdefault(handed.message_id, First(handed.position, place, sent))
        self.in_order = sorted(first.values(), key=lambda each: (each.position, each.place))
        self.by_sequence: dict[str, list[First]] = defaultdict(list)
        for each in self.in_order:
            self.by_sequence[each.sent.accepted.sequence].append(each)
        self._by_serial = {
            sequence: sorted(run, key=lambda each: each.sent.accepted.serial)
            for sequence, run in self.by_sequence.items()
        }
        self._ids = first.keys() | late
        self._seen_places, self._seen = _highest_seen(reading)
        self._gaps = _united(_gaps(reading))

    def has(self, message_id: str) -> bool:
        """True if the reading was handed a message, late or not."""
        return message_id in self._ids

    def around(self, sent: MessageTimeline) -> tuple[First | None, First | None]:
        """Return the handed messages of the same sequence with the next lower and the next higher serial."""
        run = self._by_serial.get(sent.accepted.sequence, [])
        serial = sent.accepted.serial
        before = bisect_left(run, serial, key=lambda each: each.sent.accepted.serial) - 1
        behind = bisect_right(run, serial, key=lambda each: each.sent.accepted.serial)
        return run[before] if before >= 0 else None, run[behind] if behind < len(run) else None

    def is_told(self, sent: MessageTimeline) -> bool:
        """True if a message that was not handed over may lie in a gap that the reading was told.

        Its position is behind every position seen before it was accepted. Unless it was logged late, its position is
        also between its neighbours in the sequence.
        """
        before, behind = (None, None) if self._past.is_late(self.reading.mailbox, sent) else self.around(sent)
        seen = bisect_left(self._seen_places, sent.place) - 1
        low = max(before.position if before else NOTHING, self._seen[seen] if seen >= 0 else NOTHING)
        high = behind.position if behind else BEYOND
        last = bisect_left(self._gaps, high, key=lambda gap: gap[0]) - 1
        return last >= 0 and self._gaps[last][1] > low


def _is_one_between(places: list[int], since: int, until: int) -> bool:
    """True if one of the sorted places is behind `since` and before `until`."""
    first = bisect_right(places, since)
    return first < len(places) and places[first] < until


def _highest_seen(reading: SubscriptionTimeline) -> tuple[list[int], list[Position]]:
    """Return places, and the highest position handed, told as a gap or sought up to each place."""
    seen: list[tuple[int, Position]] = []
    for place, step in reading.steps:
        match step:
            case MessageHanded():
                seen.append((place, step.position))
            case GapTold():
                seen.append((place, step.through))
            case StreamBegan(sought=Position() as sought):
                seen.append((place, sought))
            case _:
                pass
    return [place for place, _ in seen], list(accumulate((position for _, position in seen), max))


def _gaps(reading: SubscriptionTimeline) -> list[tuple[Position, Position]]:
    """Return the gaps of a reading, told or skipped: behind one position, through another."""
    gaps = []
    stands = NOTHING
    for _, step in reading.steps:
        match step:
            case GapTold():
                gaps.append((step.after, step.through))
            case StreamBegan(sought=Position() as sought):
                if sought > stands:
                    gaps.append((stands, sought))
                stands = sought
            case Acknowledged():
                stands = max(stands, step.through)
            case _:
                pass
    return gaps


def _united(gaps: list[tuple[Position, Position]]) -> list[tuple[Position, Position]]:
    united: list[tuple[Position, Position]] = []
    for after, through in sorted(gaps):
        if united and after <= united[-1][1]:
            united[-1] = (united[-1][0], max(united[-1][1], through))
        else:
            united.append((after, through))
    return united


class _Watch:
    """The state at the place up to which the history has been read."""

    def __init__(self, past: Hindsight) -> None:
        self._past = past
        self._went_back: dict[ServerId, list[int]] = defaultdict(list)
        self._unsettled: dict[ServerId, dict[str, MessageTimeline]] = defaultdict(dict)
        self._open: dict[MailboxTimeline, int] = {}
        """Place where each mailbox was opened."""
        self._below: dict[MailboxTimeline, dict[ReachedPeriod, int]] = defaultdict(dict)
        """Target sets above each mailbox's process, with the place since which this holds and the mailbox is open."""
        self._current: dict[MailboxTimeline, dict[SubscriptionId, SubscriptionTimeline]] = defaultdict(dict)
        self._of_stream: dict[tuple[SubscriptionId, int], SubscriptionTimeline] = {}

    def message(self, place: int, happening: MessageAccepted | SettledAt | DeadLettered) -> None:
        """Note a new message, or a change of its state."""
        sent = self._past.messages.get(happening.message_id)
        match happening:
            case MessageAccepted():
                if sent is not None:
                    sent.again.append(happening)
                    return
                sent = MessageTimeline(happening, place, len(self._went_back[happening.origin]))
                self._past.messages[happening.message_id] = sent
                self._past.by_targets[happening.targets].append(sent)
                self._past.by_sequence[happening.sequence].append(sent)
                self._unsettled[happening.origin][happening.message_id] = sent
            case SettledAt() if sent is not None and sent.settled is None:
                sent.settled = place
                self._unsettled[sent.accepted.origin].pop(happening.message_id, None)
            case DeadLettered() if sent is not None:
                sent.is_dead = True
                sent.may_be_replayed_twice |= sent.is_reopened
            case _:
                pass

    def reach(self, place: int, happening: MailboxBegins | MailboxEnds | MembershipChanged) -> None:
        """Note that a mailbox opens or closes, or that its process comes below a target set or leaves it."""
        mailbox = MailboxTimeline(happening.server, happening.process)
        below = self._below[mailbox]
        match happening:
            case MailboxBegins():
                if mailbox not in self._open:
                    self._open[mailbox] = place
                    below.update(dict.fromkeys(below, place))
            case MailboxEnds():
                if mailbox in self._open:
                    for reached, since in below.items():
                        self._past.add_span(mailbox, reached, Span(since, place))
                    del self._open[mailbox]
                self._past.closed.append(happening)
                self._end_readings(mailbox)
            case MembershipChanged():
                for is_certain in (False, True):
                    reached = ReachedPeriod(happening.targets, is_certain)
                    if happening.is_below and (happening.is_certain or not is_certain):
                        below.setdefault(reached, place)
                        continue
                    began = below.pop(reached, None)
                    if began is not None and mailbox in self._open:
                        self._past.add_span(mailbox, reached, Span(began, place))

    def subscription(self, place: int, step: Step) -> None:
        """Note an event of a subscription."""
        subscription = step.subscription
        match step:
            case StreamBegan():
                reading = self._reading(place, subscription)
                self._of_stream[subscription, step.stream] = reading
                reading.open_stream = step.stream
                reading.wanted.add(step.wanted)
                reading.steps.append((place, step))
            case Acknowledged():
                self._reading(place, subscription).steps.append((place, step))
            case StreamEnded() | MessageHanded() | GapTold():
                of_stream = self._of_stream.get((subscription, step.stream))
                if of_stream is not None:
                    of_stream.steps.append((place, step))
                    if isinstance(step, StreamEnded) and of_stream.open_stream == step.stream:
                        of_stream.open_stream = None
                elif not isinstance(step, StreamEnded):
                    self._past.strays.append(step)
                if isinstance(step, MessageHanded):
                    self._past.add_handed(step)

    def _reading(self, place: int, subscription: SubscriptionId) -> SubscriptionTimeline:
        """Return the current reading of a subscription. If there is none, it begins here."""
        mailbox = MailboxTimeline(subscription.server, subscription.process)
        reading = self._current[mailbox].get(subscription)
        if reading is None:
            copies = self._went_back[subscription.server]
            floor = copies[-1] if copies else -1
            reading = SubscriptionTimeline(subscription, place, len(copies), floor, self._open.get(mailbox, -1))
            self._current[mailbox][subscription] = reading
            self._past.readings.append(reading)
        return reading

    def went_back(self, place: int, server: ServerId) -> None:
        """Note that a server goes on from an older copy of its database."""
        self._went_back[server].append(place)
        for sent in self._unsettled.pop(server, {}).values():
            sent.is_forgotten = True
        for sent in self._past.messages.values():
            if sent.accepted.origin == server:
                sent.is_reopened = True
                sent.may_be_replayed_twice |= sent.is_dead
        for mailbox in [mailbox for mailbox in self._current if mailbox.server == server]:
            self._end_readings(mailbox)

    def end(self) -> None:
        """Close all open spans: a state that holds now held to the end of the history."""
        for mailbox in self._open:
            for reached, since in self._below[mailbox].items():
                self._past.add_span(mailbox, reached, Span(since, self._past.length))

    def _end_readings(self, mailbox: MailboxTimeline) -> None:
        for reading in self._current.pop(mailbox, {}).values():
            reading.open_stream = None
