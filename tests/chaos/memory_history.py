"""Records of messages that are kept in memory, and their invariants under faults.

A restart of a server may lose some messages, so missing messages are not counted. But a handed message was sent, comes
once, and comes in the sequence of its group. A message that is sent again after a lost answer may come as two messages,
with two ids, if its home has restarted meanwhile (docs/messages.md, "Kept in memory"). So a payload may come twice, but
an id may not.
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
    """Messages sent to groups that keep in memory, and hand-overs. Shared by threads."""

    sent: dict = field(default_factory=dict)
    """Groups of each message, by payload."""
    handed: dict = field(default_factory=lambda: defaultdict(list))
    """Messages by process, in order. Each process has one endpoint, which goes on behind a position that it keeps
    itself.
    """
    lock: threading.Lock = field(default_factory=threading.Lock)

    def note_sending(self, payload, group):
        """Note that a client is about to send a message."""
        with self.lock:
            self.sent.setdefault(payload, set()).add(group)

    def faults(self):
        """Return one line for each violation."""
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
