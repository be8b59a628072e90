"""What clients wrote down of messages that are kept in memory, and what must hold of them whatever breaks.

A restart of a server may lose some, so nobody counts what is missing. But what is handed over was sent, comes once, and
in the sequence of its group. A message that is sent again since its answer was lost may come as two messages, with two
ids, where its home has started again meanwhile (docs/messages.md, "Kept in memory"): so a payload may come twice, an id
may not.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from dataclasses import dataclass, field

_ID = re.compile(r"(\d+)@(.*)")


@dataclass(frozen=True)
class Handed:
    """One message, as an endpoint got it."""

    id: str
    group: str
    payload: bytes
    late: bool = False


@dataclass
class QuickHistory:
    """What was sent to groups that keep in memory, and handed over; shared by threads."""

    sent: dict = field(default_factory=dict)
    """By payload: to which groups."""
    handed: dict = field(default_factory=lambda: defaultdict(list))
    """By process, in order. Of one endpoint each: it goes on behind a position that it keeps itself."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note_sending(self, payload, group):
        """A client is about to send it."""
        with self.lock:
            self.sent.setdefault(payload, set()).add(group)

    def faults(self):
        """One line for each thing that is wrong."""
        known = {}
        return [line for process in sorted(self.handed) for line in self._faults_of(process, known)]

    def _faults_of(self, process, known):
        seen, newest = set(), {}
        for each in self.handed[process]:
            if each.group not in self.sent.get(each.payload, ()):
                yield f"{process} was handed what nobody sent to {each.group}: {each.payload.decode()}"
            if known.setdefault(each.id, each.payload) != each.payload:
                yield f"{each.id} is {known[each.id].decode()}, and for {process} {each.payload.decode()}"
            if each.id in seen:
                yield f"{process} was handed {each.id} twice"
            seen.add(each.id)
            serial, sequence = _ID.fullmatch(each.id).groups()
            if not each.late and int(serial) < newest.get(sequence, 0):
                yield f"{process} was handed {each.id} after number {newest[sequence]}"
            newest[sequence] = max(int(serial), newest.get(sequence, 0))
