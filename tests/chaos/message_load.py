"""Clients that send messages to groups through all servers, and a client that changes the members of these groups.

    senders     number their messages, or send each again under its request id, until it is accepted or queued
    mover       joins and leaves the changing arcs; all other arcs last as long as the run

    ring@a --> ring@b --> ring@c --> ring@d --> ring@e --> ring@a       a loop over all servers, with a short cut;
      |          ...                                                    below each a loop of its own with inner@
    inner@a <-> ring@a

    roof@a --> west@b --> floor@d --> cellar@e                          two ways to one subgroup
      '------> east@c ----^

    all@e  --> every listener                                           club@a ... club@e: changed by the mover

At each server all members of one of the first three groups are reached through one and the same node, or directly
through arcs from one server. So all members there are cut off together, and no member misses a message because another
member there got it before (docs/messages.md, "Who gets it").
"""

from __future__ import annotations

import time
from itertools import count

import shadowtree
from namegraph.model.names import parse_name
from namegraph.model.operations import CreateGroup
from tests.chaos.cluster import SUBNETS
from tests.chaos.history import Outcome
from tests.chaos.load import AFTER_FAILURE_SECONDS, Someone, Writer
from tests.chaos.memory_load import QUICK, QUICK_ARCS
from tests.chaos.message_history import Sending
from tests.integration.nameserver.recorded_updates import joining, leaving

ALL = "all@e.x"
RING = [f"ring@{subnet}" for subnet in SUBNETS]
INNER = [f"inner@{subnet}" for subnet in SUBNETS]
FAN = ["roof@a.x", "west@b.x", "east@c.x", "floor@d.x", "cellar@e.x"]
CLUBS = [f"club@{subnet}" for subnet in SUBNETS]

STEADY, DEEP, WITNESS, VISITOR = (
    [f"{name}@{subnet}" for subnet in SUBNETS] for name in ("steady", "deep", "witness", "visitor")
)
"""Listeners: in a ring and the fan, in an inner group, in a club for the whole run, and those that come and go."""

LASTING_ARCS = [
    *((RING[number], RING[(number + 1) % len(RING)], "group") for number in range(len(RING))),
    (RING[0], RING[3], "group"),
    *((ring, inner, "group") for ring, inner in zip(RING, INNER, strict=True)),
    *((inner, ring, "group") for ring, inner in zip(RING, INNER, strict=True)),
    *((FAN[0], below, "group") for below in FAN[1:3]),
    *((above, FAN[3], "group") for above in FAN[1:3]),
    (FAN[3], FAN[4], "group"),
    *((ring, steady, "process") for ring, steady in zip(RING, STEADY, strict=True)),
    *((fan, steady, "process") for fan, steady in zip(FAN, STEADY, strict=True)),
    *((inner, deep, "process") for inner, deep in zip(INNER, DEEP, strict=True)),
    *((club, witness, "process") for club, witness in zip(CLUBS, WITNESS, strict=True)),
    *((ALL, process, "process") for process in [*STEADY, *DEEP, *WITNESS, *VISITOR]),
]

PASSING_ARCS = [
    *((RING[number], VISITOR[number], "process") for number in range(len(RING))),
    *((CLUBS[number], VISITOR[(number + 1) % len(CLUBS)], "process") for number in range(len(CLUBS))),
    *((CLUBS[number], VISITOR[(number + 3) % len(CLUBS)], "process") for number in range(len(CLUBS))),
    *((CLUBS[number], CLUBS[(number + 2) % len(CLUBS)], "group") for number in range(len(CLUBS))),
]
"""Arcs that the mover joins and leaves."""

SETS = [
    *(((group,), ()) for group in (ALL, *RING, FAN[0], FAN[1], *CLUBS)),
    ((CLUBS[1], RING[2]), ()),
    ((CLUBS[3], FAN[0], CLUBS[4]), ()),
    ((CLUBS[2],), (RING[2],)),
]
"""Target sets of messages: targets, and exceptions."""

OWED = {
    *((process, (ALL,)) for process in [*STEADY, *DEEP, *WITNESS, *VISITOR]),
    *((process, (ring,)) for process in [*STEADY, *DEEP] for ring in RING),
    *((process, (FAN[0],)) for process in STEADY),
    *((process, (FAN[1],)) for process in [STEADY[1], STEADY[3], STEADY[4]]),
    *((WITNESS[SUBNETS.index(targets[0].partition("@")[2])], targets) for targets, _ in SETS if targets[0] in CLUBS),
}
"""Pairs of a process and targets whose every message it must get, whatever breaks. Each target set has such a
process.
"""

NUMBERED_SENDERS = 3
SINGLE_SENDERS = 3
QUEUEING_SENDERS = 2

BURST = 8
"""Messages that a sender numbers at one time, at most."""

SENDERS_THINK_SECONDS = 0.6
PATIENCE_SECONDS = 60.0
"""Seconds for which a stopped sender tries to get its messages accepted."""

UNANSWERED = (
    shadowtree.Unavailable,
    shadowtree.DeadlineExceeded,
    shadowtree.OutcomeUnknown,
    shadowtree.BacklogFull,
)
"""Errors that a sender may get while things break."""


class Sender(Someone):
    """Shared base of all senders: they go on until all their messages are accepted."""

    def live(self, stop):
        """Send until the event is set, and then until all is accepted."""
        try:
            while not stop.is_set():
                went_well = self.do_one()
                stop.wait(self.chance.uniform(0, SENDERS_THINK_SECONDS) if went_well else AFTER_FAILURE_SECONDS)
            give_up = time.monotonic() + PATIENCE_SECONDS
            while not self.hand_in() and time.monotonic() < give_up:
                time.sleep(AFTER_FAILURE_SECONDS)
        finally:
            for client in self.clients:
                client.close()

    def do_one(self):
        """Say something new, or again what is not accepted yet."""
        raise NotImplementedError

    def hand_in(self):
        """Send the messages that are not accepted. Return True if all are accepted now."""
        raise NotImplementedError

    def _new(self, number, sets):
        targets, excluding = sets
        payload = f"{self.name} {number} to {' '.join(targets)}".encode()
        sending = Sending(payload, targets, excluding, self._sender_of(number), number, asked=time.monotonic_ns())
        self.history.messages.note_sending(sending)
        return sending

    def _sender_of(self, number):
        """Return the sender under which messages are judged. Messages of one sender keep their order."""
        return self.name


class NumberedSender(Sender):
    """Numbers its messages under its own name; after an error it asks how far it is."""

    def __init__(self, cluster, history, name):
        super().__init__(cluster, history, name)
        self._events = {}
        """Events by first target, in order: message number n is event number n."""
        self._accepted = {}
        """Number of accepted messages by first target."""

    def do_one(self):
        """Send a burst to a few groups."""
        for sets in self.chance.sample(SETS, 2):
            events = self._events.setdefault(sets[0][0], [])
            events += [self._new(len(events) + each, sets) for each in range(1, self.chance.randint(1, BURST) + 1)]
        return self.hand_in()

    def hand_in(self):
        """Send all messages that are not accepted, to each first target."""
        waiting = [first for first, events in self._events.items() if self._accepted.get(first, 0) < len(events)]
        timeout = self.chance.choice([None, self._timeout()])
        try:
            with self._client().sender(self.name, timeout=timeout) as out:
                for first in waiting:
                    begin = out.next_number(first)
                    self._note(first, begin - 1)
                    for event in self._events[first][begin - 1 :]:
                        out.send(event.targets, event.payload, excluding=event.excluding)
        except (*UNANSWERED, shadowtree.OutOfSequence):
            # OutOfSequence: messages of the stream before arrived after the question for the next number.
            self.history.messages.count("bursts sent again")
            return False
        except shadowtree.ShadowtreeError as error:
            self._surprise(error)
            return False
        for first in waiting:
            self._note(first, len(self._events[first]))
        return True

    def _note(self, first, through):
        for event in self._events[first][self._accepted.get(first, 0) : through]:
            self.history.messages.note_accepted(event)
        self._accepted[first] = through


class SingleSender(Sender):
    """Sends one message after the other, each again under its request id until it is accepted."""

    def __init__(self, cluster, history, name):
        super().__init__(cluster, history, name)
        self._numbers = count(1)
        self._waiting = None

    def do_one(self):
        """Send one message."""
        if self._waiting is None:
            self._waiting = self._new(next(self._numbers), self.chance.choice(SETS))
        return self.hand_in()

    def hand_in(self):
        """Send the last message again if it is not accepted."""
        sending = self._waiting
        if sending is None:
            return True
        try:
            sent = self._send(sending, wait=self.chance.choice(["accepted", "settled"]), timeout=self._timeout())
        except UNANSWERED:
            self.history.messages.count("messages sent again")
            return False
        except shadowtree.ShadowtreeError as error:
            self._surprise(error)
            return False
        self.history.messages.note_accepted(sending, sent)
        self._waiting = None
        return True

    def _send(self, sending, **how):
        request_id = f"{sending.sender}-{sending.number}"
        targets, excluding = sending.targets, sending.excluding
        return self._client().send(targets, sending.payload, excluding=excluding, request_id=request_id, **how)


class QueueingSender(SingleSender):
    """Has any server queue a message for an absent home. Messages queued at different servers have no order."""

    def _sender_of(self, number):
        return f"{self.name}-{number}"

    def _send(self, sending, **how):
        return super()._send(sending, queue=True, **how)


class Mover(Writer):
    """Joins and leaves what may change below the targets of messages; it alone does, one arc after the other."""

    def __init__(self, cluster, history, name):
        super().__init__(cluster, history, name)
        self._joined = set()
        self._last = None
        """An update of which it is not known whether it was done."""

    def build(self):
        """Make the groups, and what lasts in them; let all who listen have mailboxes."""
        groups = [ALL, *RING, *INNER, *FAN, *CLUBS, *QUICK]
        lasting = tuple(joining(*arc) for arc in [*LASTING_ARCS, *QUICK_ARCS])
        for operations in [*((CreateGroup(parse_name(group)),) for group in groups), lasting]:
            update = self._ask(operations, self.clients[self.own], timeout=30)
            assert update.outcome is Outcome.ACKNOWLEDGED, update
        for group in QUICK:
            self.clients[self.own].set_delivery(group, kept="memory", timeout=30)
        for process in [*STEADY, *DEEP, *WITNESS, *VISITOR]:
            mailbox = self.clients[self.own].open_mailbox(process, timeout=30)
            self.history.messages.note_mailbox(process, mailbox)

    def do_one(self):
        """Change one arc, or repeat the last change until its outcome is known."""
        if self._last is None:
            arc = self.chance.choice(PASSING_ARCS)
            operation = leaving(*arc[:2]) if arc in self._joined else joining(*arc)
            self._last = arc, self._ask((operation,), self._client(), self._timeout())
        else:
            self._try(self._last[1], self.chance.choice(self.clients), self._timeout())
        arc, update = self._last
        if update.outcome is Outcome.UNKNOWN:
            return False
        self._last = None
        if update.outcome is Outcome.ACKNOWLEDGED:
            self._joined ^= {arc}
        return update.outcome is Outcome.ACKNOWLEDGED


def new_senders(cluster, history):
    """Return all senders."""
    return [
        *(NumberedSender(cluster, history, f"numbered-{number}") for number in range(NUMBERED_SENDERS)),
        *(SingleSender(cluster, history, f"single-{number + 2}") for number in range(SINGLE_SENDERS)),
        *(QueueingSender(cluster, history, f"queueing-{number}") for number in range(QUEUEING_SENDERS)),
    ]
