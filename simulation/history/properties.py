"""Properties of every recorded history: the promises of `fifo`, each as a function that lists the violations.

Datagrams are owed to no member. Of them only P1, P2 and P13 are judged, which say what must never happen.

    check(history, is_at_rest=True)          all properties; an empty list means that all hold
    p3_sequence(Hindsight(history))          one property

At rest means: all servers are up, nothing is under way, and every open stream has been handed all its messages.
Promises that a message comes *some time* are judged only at rest. Promises that an event never happens are judged at
any time. `simulation.history.timeline` lists what is forgiven, and to which server or reader.

Source: docs/protocol-messages.md, "What must hold of messages".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from delivery.model.words import Kept, Position
from namegraph import ServerId, TargetSet
from simulation.history.recorded import (
    Acknowledged,
    GapTold,
    History,
    MessageHanded,
    Sizes,
    StreamBegan,
    SubscriptionId,
)
from simulation.history.timeline import (
    NOTHING,
    First,
    Hindsight,
    MailboxTimeline,
    MessageTimeline,
    ReachedPeriod,
    Runs,
    SubscriptionTimeline,
    is_wanted,
)


class Property(StrEnum):
    """Promises that `fifo` makes, numbered as in docs/protocol-messages.md, "What must hold of messages"."""

    INTEGRITY = "P1"
    AUDIENCE = "P2"
    SEQUENCE = "P3"
    AGREEMENT = "P7"
    RESUME = "P8"
    NO_MEMORY = "P10"
    BOUNDED = "P11"
    DURABLE = "P12"
    TIMELY = "P13"


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken promise."""

    property: Property
    what: str
    """One line, for a person."""
    message_id: str | None = None
    subscription: SubscriptionId | None = None

    def __str__(self) -> str:
        where = "".join(f" [{each}]" for each in (self.message_id, self.subscription) if each is not None)
        return f"{self.property}: {self.what}{where}"


def check(history: History, *, is_at_rest: bool, limits: Mapping[str, int] | None = None) -> list[Violation]:
    """Return all violations of a history. `limits`: the limits of P11. P10 compares two sizes, and is a call of its
    own.
    """
    past = Hindsight(history)
    violations = [
        *p1_integrity(past),
        *served_once(past),
        *datagrams_right(past),
        *p2_audience(past, is_at_rest=is_at_rest),
        *p3_sequence(past),
        *p8_resume(past, is_at_rest=is_at_rest),
        *p11_bounded(past, limits or {}),
        *p13_timely(past),
    ]
    if is_at_rest:
        violations += [*p7_agreement(past), *p12_durable(past)]
    return [*violations, *p7_counted(past)]


def p1_integrity(past: Hindsight) -> list[Violation]:
    """P1: a handed message was accepted before, unchanged, and has one position for a subscription.

    Forgiven is a dead letter that is replayed twice, by an origin that forgot the first replay.

    A position has one message, for all readers of the log of a server.
    """
    violations = [
        Violation(Property.INTEGRITY, "accepted as two messages under one id", sent.accepted.message_id)
        for sent in past.messages.values()
        if sent.again
    ]
    message_at: dict[tuple[ServerId, int, Kept, Position], str] = {}
    for reading in past.readings:
        subscription = reading.subscription
        position_of: dict[str, Position] = {}
        for place, handed in reading.handed():
            message_id = handed.message_id
            sent = past.messages.get(message_id)
            wrong = []
            if sent is None:
                wrong.append("handed, and nobody's message")
            elif sent.place > place:
                wrong.append("handed before it was accepted")
            elif sent.accepted.payload != handed.payload:
                wrong.append("handed with another payload than was accepted")
            elif sent.accepted.kept is not subscription.kept:
                wrong.append(f"kept {sent.accepted.kept.name.lower()}, as its sender was told, and not handed as such")
            position = position_of.setdefault(message_id, handed.position)
            if position != handed.position and not (sent is not None and sent.may_be_replayed_twice):
                wrong.append(f"handed at {_at(handed.position)} and at {_at(position)}")
            there = message_at.setdefault(
                (subscription.server, reading.log, subscription.kept, handed.position), message_id
            )
            if there != message_id:
                wrong.append(f"handed at {_at(handed.position)}, where {there} is")
            violations += [Violation(Property.INTEGRITY, what, message_id, subscription) for what in wrong]
    return violations


def served_once(past: Hindsight) -> list[Violation]:
    """P1 of a foreign process that may be below the targets at several servers: one of these servers serves it.

    Forgiven is what is not promised:
    - a message that was sent while servers were apart;
    - a message whose origin, or one of those servers, restarted before it was settled;
    - a message whose origin went back to an older copy;
    - a dead letter that is replayed.
    """
    violations = []
    for (process, message_id), servers in past.servers_that_serve.items():
        sent = past.messages.get(message_id)
        if len(servers) > 1 and (sent is None or not _may_be_served_twice(past, sent, servers)):
            what = f"{process} is served by {' and by '.join(sorted(servers))}"
            violations.append(Violation(Property.INTEGRITY, what, message_id))
    return violations


def _may_be_served_twice(past: Hindsight, sent: MessageTimeline, servers: set[ServerId]) -> bool:
    settled = past.settled(sent)
    return (
        sent.accepted.message_id in past.apart
        or past.is_restarted_between(sent.accepted.origin, sent.place, settled)
        or sent.is_reopened
        or sent.is_dead
        # A restarted server does not know since when it has had a member, nor which members it served from memory.
        or any(past.is_restarted_between(server, sent.place, settled) for server in servers)
        or any(past.may_be_lost(sent, server, settled) for server in servers)
    )


def p2_audience(past: Hindsight, *, is_at_rest: bool) -> list[Violation]:
    """P2: a member from acceptance until settlement gets a message, and a process that was never a member gets none.

    Membership counts from the moment when all homes above know it, which is when the update is answered.
    """
    violations = [
        Violation(
            Property.AUDIENCE, "handed to who was never below its targets", each.sent.accepted.message_id, subscription
        )
        for run in past.runs
        for subscription in [run.reading.subscription]
        for each in run.in_order
        if each.sent.place > run.reading.floor and not past.is_reached(run.reading, each.sent)
    ]
    if is_at_rest:
        violations += [
            Violation(
                Property.AUDIENCE,
                "never handed, nor told as a gap, to who was below its targets all the time",
                sent.accepted.message_id,
                reading.subscription,
            )
            for sent, reading in _losses(past)
        ]
    return violations


def datagrams_right(past: Hindsight) -> list[Violation]:
    """Judge the promises of datagrams.

    P1: a datagram is handed unchanged, after it was sent, and to a subscription at most once. P2: a datagram is not
    handed to a process that was below its targets in no state between. P13: a datagram is not handed after its
    deadline.
    """
    violations = [
        Violation(Property.INTEGRITY, "a datagram that nobody had sent", stray.message_id, stray.subscription)
        for stray in past.stray_datagrams
    ]
    for message_id, datagram in past.datagrams.items():
        sent, got = datagram.sent, set[SubscriptionId]()
        for place, handed in datagram.handed:
            subscription = handed.subscription
            mailbox = MailboxTimeline(subscription.server, subscription.process)
            wrong = []
            if handed.payload != sent.payload:
                wrong.append((Property.INTEGRITY, "a datagram with another payload than was sent"))
            if subscription in got:
                wrong.append((Property.INTEGRITY, "a datagram handed twice"))
            if not past.is_reached_between(mailbox, sent.targets, datagram.place, place):
                wrong.append((Property.AUDIENCE, "a datagram handed to who was never below its targets meanwhile"))
            if sent.expires_at is not None and handed.at > sent.expires_at:
                wrong.append((Property.TIMELY, f"a datagram handed {handed.at - sent.expires_at} after its deadline"))
            got.add(subscription)
            violations += [Violation(broken, what, message_id, subscription) for broken, what in wrong]
    return violations


def p3_sequence(past: Hindsight) -> list[Violation]:
    """P3: a subscription is handed a run of serials of a sequence, late messages aside, and senders keep their order.

    A serial may be missing if the process was not a member in some state between its acceptance and the hand-over of a
    higher serial, since the log of a server has the serials in order.
    """
    violations = [violation for all_sent in past.by_sequence.values() for violation in _serials(all_sent)]
    for run in past.runs:
        for sequence, firsts in run.by_sequence.items():
            violations += _inversions(run.reading, firsts)
            violations += _left_out(past, run, past.by_sequence[sequence], firsts)
        violations += _senders_out_of_order(run)
    return violations


def p7_agreement(past: Hindsight) -> list[Violation]:
    """P7: at rest, every accepted message is settled or a dead letter."""
    return [
        Violation(Property.AGREEMENT, "accepted, and neither settled nor a dead letter", sent.accepted.message_id)
        for sent in _unsettled(past)
    ]


def p7_counted(past: Hindsight) -> list[Violation]:
    """P7: the messages that a mailbox had not read when it was closed are counted."""
    return [
        Violation(
            Property.AGREEMENT,
            f"the mailbox of {closed.process} at {closed.server} was closed with {closed.unread} messages unread, and "
            f"{closed.counted} of them were counted",
        )
        for closed in past.closed
        if closed.unread > closed.counted
    ]


def p8_resume(past: Hindsight, *, is_at_rest: bool) -> list[Violation]:
    """P8: a stream follows position order, begins behind the acknowledged position, and skips only gaps that it tells.

    A stream must not leave out any message that its subscription was ever handed.
    """
    violations = [
        Violation(
            Property.RESUME,
            "something came on a stream that had not begun",
            stray.message_id if isinstance(stray, MessageHanded) else None,
            stray.subscription,
        )
        for stray in past.strays
    ]
    for reading in past.readings:
        violations += _Streams(past, reading).violations(is_at_rest=is_at_rest)
    return violations


def p10_no_memory(before: Sizes, after: Sizes, *, kinds: Collection[str]) -> list[Violation]:
    """P10: a server has as many rows of each kind after messages came and went as before.

    Both sizes are of one server, at moments at which all messages are settled and acknowledged.
    """
    assert before.server == after.server, "sizes of two servers"
    return [
        Violation(Property.NO_MEMORY, f"{after.server} had {had} rows of {kind}, and has {has} with nothing left to do")
        for kind in sorted(kinds)
        for had, has in [(before.counts.get(kind, 0), after.counts.get(kind, 0))]
        if had != has
    ]


def p11_bounded(past: Hindsight, limits: Mapping[str, int]) -> list[Violation]:
    """P11: no count of a server is ever beyond its limit. Each new highest count is a violation."""
    highest: dict[tuple[ServerId, str], int] = {}
    violations = []
    for sizes in past.sizes:
        for kind, limit in limits.items():
            count = sizes.counts.get(kind, 0)
            if count > max(limit, highest.get((sizes.server, kind), 0)):
                highest[sizes.server, kind] = count
                violations.append(
                    Violation(Property.BOUNDED, f"{sizes.server} held {count} of {kind}, and may hold {limit}")
                )
    return violations


def p12_durable(past: Hindsight) -> list[Violation]:
    """P12: at rest, no restart of an origin or of a mailbox's server has cost a reader an accepted message."""
    unsettled = [
        Violation(Property.DURABLE, "accepted, and lost when its origin restarted", sent.accepted.message_id)
        for sent in _unsettled(past)
        if past.is_restarted_between(sent.accepted.origin, sent.place, past.length)
    ]
    lost = [
        Violation(
            Property.DURABLE,
            "accepted, and lost to a subscription when a server restarted",
            sent.accepted.message_id,
            reading.subscription,
        )
        for sent, reading in _losses(past)
        if past.is_restarted_between(sent.accepted.origin, sent.place, past.settled(sent))
        or past.is_restarted_between(reading.subscription.server, sent.place, past.length)
    ]
    return unsettled + lost


def p13_timely(past: Hindsight) -> list[Violation]:
    """P13: no message is handed over after its deadline."""
    return [
        Violation(
            Property.TIMELY,
            f"handed {handed.at - expires_at} after its deadline",
            handed.message_id,
            handed.subscription,
        )
        for reading in past.readings
        for _, handed in reading.handed()
        if (sent := past.messages.get(handed.message_id)) is not None
        and (expires_at := sent.accepted.expires_at) is not None
        and handed.at > expires_at
    ]


def _unsettled(past: Hindsight) -> Iterator[MessageTimeline]:
    return (
        sent
        for sent in past.messages.values()
        if sent.settled is None and not (sent.is_dead or sent.is_forgotten or past.may_be_lost_at_origin(sent))
    )


def _losses(past: Hindsight) -> Iterator[tuple[MessageTimeline, SubscriptionTimeline]]:
    """Yield the messages owed to subscriptions that have read to the end of their logs, accepted since they began."""
    for run in past.runs:
        reading = run.reading
        if reading.open_stream is None:
            continue
        for targets, spans in past.certain_reach(reading.mailbox, reading.began, past.length):
            for span in spans:
                for sent in _accepted_between(
                    past.by_targets.get(targets, []), max(span.since, reading.began), span.until
                ):
                    if past.holds_at(span, past.settled(sent)) and _is_owed(past, run, sent, past.length - 1):
                        yield sent, reading


def _is_owed(past: Hindsight, run: Runs, sent: MessageTimeline, place: int) -> bool:
    """True if a reading is owed a message that reached it and was not handed to it before `place`."""
    return not (
        run.has(sent.accepted.message_id)
        or not run.reading.wants(sent)
        or past.is_given_up(sent, place)
        or past.may_be_lost(sent, run.reading.subscription.server, place)
        or past.is_handed_elsewhere(run.reading.mailbox, sent.accepted.message_id)
        or run.is_told(sent)
    )


def _accepted_between(all_sent: list[MessageTimeline], since: int, until: int) -> list[MessageTimeline]:
    """Return the messages accepted behind one place and before another. `all_sent`: in the order of acceptance."""
    first = bisect_right(all_sent, since, key=lambda sent: sent.place)
    return all_sent[first : bisect_left(all_sent, until, lo=first, key=lambda sent: sent.place)]


def _serials(all_sent: list[MessageTimeline]) -> Iterator[Violation]:
    """Yield the places where the serials of a sequence do not rise by 1."""
    for one, next_one in pairwise(sorted(sent.accepted.serial for sent in all_sent)):
        if next_one != one + 1:
            yield Violation(Property.SEQUENCE, f"{all_sent[0].accepted.sequence} has serial {next_one} next to {one}")


def _inversions(reading: SubscriptionTimeline, firsts: list[First]) -> Iterator[Violation]:
    for one, next_one in pairwise(firsts):
        low, high = one.sent.accepted, next_one.sent.accepted
        if low.serial > high.serial:
            yield Violation(
                Property.SEQUENCE,
                f"handed behind {low.message_id}, which comes later in their sequence, and not marked late",
                high.message_id,
                reading.subscription,
            )


def _left_out(past: Hindsight, run: Runs, all_sent: list[MessageTimeline], firsts: list[First]) -> Iterator[Violation]:
    """Yield the messages that a reading lacks between the lowest and the highest serial that it was handed of a
    sequence.
    """
    reading = run.reading
    lowest = min(firsts, key=lambda each: each.sent.accepted.serial).sent
    highest = max(firsts, key=lambda each: each.sent.accepted.serial).sent
    since, until = max(lowest.place, reading.floor, reading.opened), highest.place
    for span in past.spans(reading.mailbox, ReachedPeriod(lowest.accepted.targets, is_certain=True), since, until):
        for sent in _accepted_between(all_sent, max(since, span.since), min(until, span.until)):
            _, behind = run.around(sent)
            if (
                behind is not None
                and past.holds_at(span, min(past.settled(sent), behind.place))
                and _is_owed(past, run, sent, behind.place)
            ):
                yield Violation(
                    Property.SEQUENCE,
                    f"left out before {behind.sent.accepted.message_id}, though a member all the time",
                    sent.accepted.message_id,
                    reading.subscription,
                )


def _senders_out_of_order(run: Runs) -> Iterator[Violation]:
    """Yield the sender's numbers that do not rise. If the origin went back, numbers begin anew."""
    highest: dict[tuple[str, TargetSet, int, str], int] = {}
    for each in run.in_order:
        accepted = each.sent.accepted
        if not accepted.sender or not accepted.number:
            continue
        # A message in memory that is sent again after a restart of its origin is another message.
        of_start = accepted.sequence if accepted.kept is Kept.MEMORY else ""
        key = (accepted.sender, accepted.targets, each.sent.origin_log, of_start)
        if accepted.number <= highest.get(key, 0):
            yield Violation(
                Property.SEQUENCE,
                f"number {accepted.number} of {accepted.sender} is handed behind its number {highest[key]}",
                accepted.message_id,
                run.reading.subscription,
            )
        highest[key] = max(accepted.number, highest.get(key, 0))


class _Streams:
    """The streams of a reading, each judged against all messages that the reading was ever handed."""

    def __init__(self, past: Hindsight, reading: SubscriptionTimeline) -> None:
        self._past = past
        self._reading = reading
        self._message_at = {handed.position: handed.message_id for _, handed in reading.handed()}
        self._known = sorted(self._message_at)
        self._acknowledged = NOTHING
        self._began: dict[int, Position] = {}
        self._streams: dict[int, StreamBegan] = {}
        self._stands: dict[int, Position] = {}
        """Position behind which each stream stands now."""

    def violations(self, *, is_at_rest: bool) -> Iterator[Violation]:
        """Yield the violations in the order in which they occurred."""
        for place, step in self._reading.steps:
            match step:
                case StreamBegan():
                    if step.sought is not None:
                        self._acknowledged = step.sought
                    self._streams[step.stream] = step
                    self._began[step.stream] = self._stands[step.stream] = self._acknowledged
                case Acknowledged():
                    self._acknowledged = max(self._acknowledged, step.through)
                case MessageHanded():
                    yield from self._handed(place, step)
                case GapTold():
                    yield from self._gap(place, step)
                case _:
                    pass
        if is_at_rest and self._reading.open_stream is not None:
            stands = max(self._stands[self._reading.open_stream], self._acknowledged)
            behind = self._known[bisect_right(self._known, stands) :]
            if skipped := self._owed(self._reading.open_stream, behind, self._past.length - 1):
                yield self._violation("handed once, not acknowledged, and not handed again at rest", skipped[0])

    def _handed(self, place: int, handed: MessageHanded) -> Iterator[Violation]:
        stands = self._stands[handed.stream]
        if handed.position <= self._began[handed.stream]:
            yield self._violation("handed again, though acknowledged before the stream began", handed.position)
        elif handed.position <= stands:
            yield self._violation(f"handed behind {_at(stands)} of the same stream", handed.position)
        else:
            sent = self._past.messages.get(handed.message_id)
            if sent is not None and not is_wanted(self._streams[handed.stream], sent):
                yield self._violation("handed to an endpoint that wants others alone", handed.position)
            between = self._known[bisect_right(self._known, stands) : bisect_left(self._known, handed.position)]
            yield from self._skipped(handed.stream, place, between)
            self._stands[handed.stream] = handed.position

    def _gap(self, place: int, gap: GapTold) -> Iterator[Violation]:
        stands = self._stands[gap.stream]
        if gap.after < stands or gap.through <= gap.after:
            what = f"a gap is told from {_at(gap.after)} to {_at(gap.through)}, and the stream stands at {_at(stands)}"
            yield Violation(Property.RESUME, what, subscription=self._reading.subscription)
        else:
            between = self._known[bisect_right(self._known, stands) : bisect_right(self._known, gap.after)]
            yield from self._skipped(gap.stream, place, between)
            self._stands[gap.stream] = gap.through

    def _skipped(self, stream: int, place: int, between: list[Position]) -> Iterator[Violation]:
        for position in self._owed(stream, between, place):
            yield self._violation("a stream leaves out what its subscription was handed on another one", position)

    def _owed(self, stream: int, positions: list[Position], place: int) -> list[Position]:
        """Return the positions of messages that the endpoint of a stream wants, and that have not expired."""
        began = self._streams[stream]
        return [
            position
            for position in positions
            if (sent := self._past.messages.get(self._message_at[position])) is None
            or (is_wanted(began, sent) and not self._past.is_expired(sent, place))
        ]

    def _violation(self, what: str, position: Position) -> Violation:
        message_id = self._message_at[position]
        return Violation(Property.RESUME, f"at {_at(position)}: {what}", message_id, self._reading.subscription)


def _at(position: Position) -> str:
    return f"{position.entry}.{position.item}"
