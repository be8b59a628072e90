"""Records of senders and endpoints as events of `simulation.history`, whose properties are judged.

A client does not see when things become durable. So each observation is recorded as a bound that accuses no innocent
server:

    a message was accepted     when its sender began to send it; its id is the one under which it was handed over
    it was settled             when its sender was told so, or else when all messages were
    a stream began             behind the last position that was acknowledged before its first message; but not
                               before the position at which the subscription was seen to stand
    a member is owed messages  while it is certainly below the targets
    a member may get messages  from the request of a join until the answer to a leave
"""

from __future__ import annotations

import re
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from itertools import chain
from math import inf

from delivery.model.words import Position, target_set
from namegraph import ServerId
from namegraph.model.names import parse_name
from namegraph.model.operations import JoinArc, LeaveArc
from simulation.history import recorded
from simulation.history.properties import check
from simulation.history.recorded import SubscriptionId

LAST_WORD = b"the last word"
"""Payload sent when all other messages are settled. A listener that has it was handed all messages."""

NANOSECONDS = 1_000_000_000

_ID = re.compile(r"(\d+)@(.*)")
_POSITION = re.compile(r"(\d+)\.(-?\d+)@(.*)#(\d+)")


@dataclass
class Sending:
    """One message that a client wants to be accepted, once. Times are nanoseconds of the monotonic clock."""

    payload: bytes
    """No other message has it."""
    targets: tuple
    excluding: tuple
    sender: str
    number: int
    """Rises with each message of a sender to the same targets."""
    asked: int
    told: int | None = None
    """When it was known to be accepted."""
    id: str = ""
    """Id as its sender was told. Empty if the sender was told none."""
    settled: int | None = None


@dataclass(frozen=True)
class _Acknowledging:
    """Acknowledgement of an endpoint through a position. The endpoint does not see whether it became durable."""

    at: int
    subscription: SubscriptionId
    position: Position


@dataclass
class MessageHistory:
    """Records of all senders and endpoints, shared by threads."""

    sendings: dict = field(default_factory=dict)
    """Messages by payload."""
    happenings: list = field(default_factory=list)
    """Events that endpoints saw, in order."""
    counts: Counter = field(default_factory=Counter)
    gaps: list = field(default_factory=list)
    _streams: dict = field(default_factory=dict)
    """Owners of the open streams, by number."""
    _numbers: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def accepted(self):
        """Return the messages known to be accepted."""
        return [sending for sending in self.sendings.values() if sending.told is not None]

    def count(self, what):
        """Count an occurrence for the report."""
        with self._lock:
            self.counts[what] += 1

    def note_sending(self, sending):
        """Note that a client is about to send a message."""
        with self._lock:
            assert sending.payload not in self.sendings
            self.sendings[sending.payload] = sending

    def note_accepted(self, sending, sent=None):
        """Note that a sender was told that a message is accepted. `sent`: the answer, if there was one."""
        sending.told = time.monotonic_ns()
        if sent is not None:
            sending.id = sent.id
            if sent.state == "queued":
                self.count("kept for a home that was away")
            if sent.is_settled_everywhere:
                sending.settled = sending.told

    def note_mailbox(self, process, mailbox):
        """Note that a mailbox is open."""
        self._add(lambda at: recorded.MailboxBegins(at, ServerId(mailbox.server), parse_name(process), 0))

    def note_looked(self, process, mailbox):
        """Note that a server told through where the subscriptions of a process have acknowledged."""
        for each in mailbox:
            subscription = SubscriptionId(ServerId(mailbox.server), parse_name(process), each.name or "")
            position = position_of(each.position)
            self._add(lambda at, who=subscription, through=position: recorded.Acknowledged(at, who, through))

    def note_began(self, process, name, stored=None):
        """Note the begin of a stream. `stored`: the position that the endpoint had stored, if any. Return the stream's
        number.
        """
        process = parse_name(process)
        subscription = SubscriptionId(ServerId(process.partition("@")[2]), process, name)
        sought = None if stored in (None, "start") else position_of(stored)
        with self._lock:
            self._numbers += 1
            stream = self._numbers
            self._streams[stream] = subscription
            self.happenings.append(recorded.StreamBegan(time.monotonic_ns(), subscription, stream, sought))
            self.counts["streams"] += 1
        return stream

    def note_handed(self, stream, message):
        """Note that an endpoint was handed a message."""
        subscription, position = self._streams[stream], position_of(message.position)
        self._add(
            lambda at: recorded.MessageHanded(
                at, subscription, stream, position, message.id, message.payload, message.late
            )
        )
        self.count("handed out late" if message.late else "handed out")
        if message.gap:
            self.gaps.append(f"{subscription} was told a gap before {message.id}")

    def note_acknowledged(self, stream, message):
        """Note that an endpoint is about to acknowledge a message."""
        subscription, position = self._streams[stream], position_of(message.position)
        self._add(lambda at: _Acknowledging(at, subscription, position))

    def note_ended(self, stream):
        """Note the end of a stream."""
        with self._lock:
            subscription = self._streams.pop(stream, None)
            if subscription is not None:
                self.happenings.append(recorded.StreamEnded(time.monotonic_ns(), subscription, stream))

    def _add(self, happening):
        with self._lock:
            self.happenings.append(happening(time.monotonic_ns()))


def position_of(token):
    """Return a position as its server knows it. No server goes back to an older database here."""
    entry, item, _, _ = _POSITION.fullmatch(token).groups()
    return Position(int(entry), int(item))


def faults(history, updates, *, owed):
    """Return one line for each violation, at rest, after every endpoint was handed the last word.

    `updates`: all updates that were done, or may be.
    `owed`: pairs of a process and targets below which the process is all the time. Each message must have been for one
    of these. Its sender need not know its id, but its receivers do.
    """
    known, lines = _ids(history)
    past = recorded.History.gathered(
        chain(
            _memberships(history, updates, owed),
            (_accepted(history.sendings[payload], message_id) for payload, message_id in known.items()),
            _with_acknowledged(history.happenings),
            _settled(history, known),
        )
    )
    return history.gaps + lines + [str(violation) for violation in check(past, is_at_rest=True)]


def _ids(history):
    """Return the id of each handed message, by its payload, and the violations about ids."""
    lines = []
    handed = [each for each in history.happenings if isinstance(each, recorded.MessageHanded)]
    ids = defaultdict(set)
    for each in handed:
        ids[each.payload].add(each.message_id)
    known = {}
    for payload, sending in history.sendings.items():
        found = ids.get(payload, set())
        if sending.told is not None and not found:
            lines.append(f"accepted, and handed to nobody: {payload.decode()}")
        if len(found) > 1:
            lines.append(f"accepted {len(found)} times, as {', '.join(sorted(found))}: {payload.decode()}")
        if sending.id and not found <= {sending.id}:
            lines.append(f"accepted as {sending.id}, and handed over as {', '.join(sorted(found))}")
        if found:
            known[payload] = sending.id if sending.id in found else min(found)
    return known, lines


def _accepted(sending, message_id):
    serial, _ = _ID.fullmatch(message_id).groups()
    targets = _targets(sending.targets, sending.excluding)
    return recorded.MessageAccepted(
        sending.asked,
        message_id,
        ServerId(sending.targets[0].partition("@")[2]),
        str(targets),
        int(serial),
        targets,
        sending.payload,
        sending.sender,
        sending.number,
    )


def _settled(history, known):
    now = time.monotonic_ns()
    for payload, message_id in known.items():
        yield recorded.SettledAt(history.sendings[payload].settled or now, message_id, 0)


def _targets(names, excluding):
    return target_set([parse_name(name) for name in names], [parse_name(name) for name in excluding])


def _with_acknowledged(happenings):
    """Return the events that endpoints saw, with acknowledgements that must have been durable before each stream.

    An endpoint does not see when a server begins a stream before the first message. An endpoint that takes over begins
    behind the position that the other one acknowledged while it was still read.
    """
    acknowledged = defaultdict(list)
    beginning = {}
    for each in happenings:
        match each:
            case _Acknowledging(_, subscription, position):
                acknowledged[subscription].append(position)
                continue
            case recorded.StreamBegan():
                beginning[each.stream] = each
                continue
            case recorded.MessageHanded() if each.stream in beginning:
                before = [position for position in acknowledged[each.subscription] if position < each.position]
                if before:
                    yield recorded.Acknowledged(each.at, each.subscription, max(before))
                yield replace(beginning.pop(each.stream), at=each.at)
            case recorded.StreamEnded() if each.stream in beginning:
                yield beginning.pop(each.stream)
        yield each
    yield from beginning.values()


def _memberships(history, updates, owed):
    """Return the members that may be below the targets over time. They are certain if they are owed the messages.

    Exceptions are not taken off: a process below an exception may have come there late.
    """
    processes = sorted({each.process for each in history.happenings if isinstance(each, recorded.MailboxBegins)})
    sets = {(sending.targets, sending.excluding) for sending in history.sendings.values()}
    changes = _changes(updates, {target for targets, _ in sets for target in targets})
    below = {}
    arcs = Counter()
    for at in sorted({0, *changes}):
        for arc, more in changes.get(at, ()):
            arcs[arc] += more
        children = defaultdict(set)
        for (parent, child), number in arcs.items():
            if number > 0:
                children[parent].add(child)
        reached = {target: _reached(children, target) for target in {each for targets, _ in sets for each in targets}}
        for targets, excluding in sorted(sets):
            for process in processes:
                is_owed = (process, targets) in owed
                is_below = any(process in reached[target] for target in targets)
                if below.get((process, targets, excluding), False) != is_below:
                    below[process, targets, excluding] = is_below
                    server = ServerId(process.partition("@")[2])
                    yield recorded.MembershipChanged(
                        at, server, process, _targets(targets, excluding), is_below, is_owed
                    )


def _changes(updates, targets):
    """Return, by instant, arcs that may exist from then on, and arcs that no longer exist.

    Only arcs over which a target ever reached a process are returned, since there are many more arcs.
    """
    changes, children = [], defaultdict(set)
    for update in updates:
        for each in update.operations:
            if isinstance(each, JoinArc):
                changes.append((int(update.asked * NANOSECONDS), (each.parent, each.child), 1))
                children[each.parent].add(each.child)
            elif isinstance(each, LeaveArc) and update.told != inf:
                changes.append((int(update.told * NANOSECONDS), (each.parent, each.child), -1))
    ever = set().union(*(_reached(children, target) for target in targets))
    found = defaultdict(list)
    for at, arc, more in changes:
        if arc[0] in ever:
            found[at].append((arc, more))
    return found


def _reached(children, start):
    reached, pending = {start}, [start]
    while pending:
        for child in children.get(pending.pop(), ()):
            if child not in reached:
                reached.add(child)
                pending.append(child)
    return reached
