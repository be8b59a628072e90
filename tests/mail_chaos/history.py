"""Records of senders and inboxes, and their judge."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass, field

from tests.mail_chaos.scene import CENTRAL, HOMES, home_of


@dataclass
class Sending:
    """A message that a sender hands a gateway until it is accepted for all of its lists."""

    name: str
    lists: tuple[str, ...]
    accepted: set[str] = field(default_factory=set)
    """Lists for which it was accepted."""
    attempts: int = 0


@dataclass
class Taken:
    """People of one transaction that an inbox has taken."""

    organisation: str
    name: str
    people: tuple[str, ...]
    is_known: bool = False
    """True if the gateway is known to have the reply, since it sent more after it. Then it knows that they have the
    copy.
    """


class History:
    """All of a run; threads write."""

    def __init__(self):
        self.sendings = {}
        self.taken = []
        self.unexpected = []
        """Replies that no sender should get."""
        self.counts = Counter()
        self._lock = threading.Lock()

    def note(self, sending):
        """Note a message before it is handed over for the first time."""
        self.sendings[sending.name] = sending

    def count(self, what):
        """Count one more occurrence."""
        with self._lock:
            self.counts[what] += 1

    def copies(self):
        """Return the transactions that brought a message to a person, by message and person."""
        found = defaultdict(list)
        for each in tuple(self.taken):
            for person in each.people:
                found[each.name, person].append(each)
        return found


def lost(history, scene):
    """Return the people who lack an accepted message."""
    has = {*history.copies()}
    return [
        f"{person} of {group} never got {sending.name}"
        for sending in tuple(history.sendings.values())
        for group in sorted(sending.accepted)
        for person in sorted(scene.lasting[group])
        if (sending.name, person) not in has
    ]


def faults(history, scene, *, may_serve_twice=False):
    """Return all violations, a line each.

    `may_serve_twice`: True if name servers failed, so that two gateways may have served a foreign person.
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
    """Return repeated copies. Without `of_nobody`, only those of people whose subnet has an owner."""
    counted = {key: copies for key, copies in history.copies().items() if of_nobody or home_of(key[1]) is not None}
    return sum(len(copies) - 1 for copies in counted.values())
