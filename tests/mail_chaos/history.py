"""What senders and inboxes wrote down, and whether it is as it must be."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.mail_chaos.scene import CENTRAL, HOMES, home_of


@dataclass
class Sending:
    """A message that somebody hands a gateway until it is accepted for all of its lists."""

    name: str
    lists: tuple[str, ...]
    accepted: set[str] = field(default_factory=set)
    """Those that it was accepted for."""
    attempts: int = 0


@dataclass
class Taken:
    """People of one transaction that an inbox has taken."""

    organisation: str
    name: str
    people: tuple[str, ...]
    is_known: bool = False
    """Whether the gateway is known to have the reply: it said something after it. Then it knows that they have it."""


class History:
    """All of a run; threads write."""

    def __init__(self):
        self.sendings = {}
        self.taken = []
        self.unexpected = []
        """What nobody should be told."""
        self.counts = Counter()
        self._lock = threading.Lock()

    def note(self, sending):
        """Before it is handed over for the first time."""
        self.sendings[sending.name] = sending

    def count(self, what):
        """One more of it."""
        with self._lock:
            self.counts[what] += 1

    def copies(self):
        """By message and person, the transactions that brought it."""
        found = defaultdict(list)
        for each in tuple(self.taken):
            for person in each.people:
                found[each.name, person].append(each)
        return found


def lost(history, scene):
    """Who lacks what was accepted."""
    has = {*history.copies()}
    return [
        f"{person} of {group} never got {sending.name}"
        for sending in tuple(history.sendings.values())
        for group in sorted(sending.accepted)
        for person in sorted(scene.lasting[group])
        if (sending.name, person) not in has
    ]


def faults(history, scene, *, may_serve_twice=False):
    """All that is wrong, a line each.

    `may_serve_twice`: whether name servers failed, so that two gateways may have served somebody of nobody's subnet.
    """
    found = [*history.unexpected, *lost(history, scene)]
    found += [f"{each.name} was never accepted" for each in history.sendings.values() if each.accepted != {*each.lists}]
    for (name, person), copies in history.copies().items():
        sending = history.sendings.get(name)
        if sending is None or person not in scene.may_be_in(sending.lists):
            found.append(f"{person} got {name}, and was in none of its lists")
            continue
        by, home = {each.organisation for each in copies}, home_of(person)
        right = HOMES[sending.lists[0]] if set(sending.lists) & CENTRAL else home
        if right is not None and by != {right}:
            found.append(f"{person} got {name} from {sorted(by)}")
        if right is None and len(by) > 1 and not may_serve_twice:
            found.append(f"{person} got {name} from {sorted(by)}, and no name server failed")
        for organisation in by:
            same = [each for each in copies if each.organisation == organisation]
            if any(each.is_known for each in same[:-1]):
                found.append(f"{person} got {name} {len(same)} times, and the gateway of {organisation} knew")
    return found


def repeats(history, *, of_nobody=True):
    """Copies for somebody who had one; without `of_nobody`, of people whom a subnet owns."""
    counted = {key: copies for key, copies in history.copies().items() if of_nobody or home_of(key[1]) is not None}
    return sum(len(copies) - 1 for copies in counted.values())
