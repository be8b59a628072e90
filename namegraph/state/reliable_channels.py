"""Numbered channels between this server and others: no letter is lost, and none is handled twice.

    step -> letter number n -> (durable) -> sent -> received, handled -> (durable) -> receipt through n -> forgotten

A letter is kept until the other server confirms that the letter's effects are durable. After a lost connection, or
a crash of either server, the kept letters are sent again. Numbers rise by one. A letter that comes twice, late, or
from before a reconnection is known by its number. A gap is noticed. One received message is one step: its effect,
the number reached and the letters it causes become durable together.

Two such channels lead from one server to another, one for each `Lane`. Each numbers its own letters. In the lane
`LETTERS`, a letter is handled in the step that brings it. In the lane `POST`, one step may bring several letters,
and they may be handled later (`posts` of a core).

A channel begins again, at number 1, when the server at either end goes on from an older copy of its database. The
two find that when they meet: their numbers do not fit those that were told before (`left_through`).

Source: docs/protocol-updates.md, "Nothing rests on memory"; docs/protocol-partitions.md, "Older copies";
docs/decisions/0025-the-lane.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from namegraph.events import POST_BYTES_LIMIT, Lane, PeerLetter
from namegraph.model.names import ServerId
from namegraph.model.peer_faults import PeerFault
from namegraph.state.durable_maps import BYTES, DIGITS, NUMBERS_OF_SERVERS, SERVERS, DurableMap, DurableState

OUTBOX = "outbox"
"""Rows: a letter, by receiver and number."""
INBOX = "inbox"
"""Rows: the number through which the letters of a sender were handled."""
SENT = "sent"
"""Rows: the number of the last letter to a receiver, if no letter is kept."""
UNMET = "unmet"
"""Rows: the number of the last letter that can have left to a server, if more were written while it was not met."""

_PREFIXES = {Lane.LETTERS: "", Lane.POST: "post "}
"""Prefix of the parts of each lane's rows."""


class Channels:
    """The channels of one lane, to and from all other servers."""

    def __init__(self, durable: DurableState, lane: Lane = Lane.LETTERS) -> None:
        self.lane = lane
        prefix = _PREFIXES[lane]
        self._outbox = DurableMap(durable, prefix + OUTBOX, NUMBERS_OF_SERVERS, BYTES)
        """The kept letters: for each receiver all letters after `_forgotten_through`."""
        self._handled_through = DurableMap(durable, prefix + INBOX, SERVERS, DIGITS)
        self._sent = DurableMap(durable, prefix + SENT, SERVERS, DIGITS)
        self._left_through = DurableMap(durable, prefix + UNMET, SERVERS, DIGITS)
        """Servers to which letters were written while they were not met, each with the number of the last letter before
        those."""
        self._last_sent = dict(self._sent)
        self._forgotten_through = dict(self._sent)
        for receiver, numbers in groupby(self._outbox, key=itemgetter(0)):
            kept = [number for _, number in numbers]
            self._forgotten_through[receiver], self._last_sent[receiver] = kept[0] - 1, kept[-1]
        self._met: set[ServerId] = set()
        """Servers that were met since this server started, or since the channels with them began again."""
        self._beginnings: Counter[ServerId] = Counter()
        self.handled_changed: dict[ServerId, int] = {}
        """Senders whose letters were handled since the last drain, each with the number handled through before."""
        self.faults: Counter[tuple[ServerId, PeerFault]] = Counter()
        """Faults of other servers, by server and kind, for operators."""
        self.leaps_refused: dict[ServerId, int] = {}
        """Number that was last refused because it leaps too far, by server. The session with the server ends then."""

    def met(self, server: ServerId) -> None:
        """Record that a server is there, and that its handled numbers fit. Letters to it may leave."""
        self._met.add(server)
        self._left_through.pop(server, None)

    def is_met(self, server: ServerId) -> bool:
        """Return True if a server was met since this one started, or since the channels with it began again."""
        return server in self._met

    def has_unmet_letters(self, server: ServerId) -> bool:
        """Return True if letters to a server were written while it was not met, and wait until its meeting is
        durable."""
        return server in self._left_through

    def begin_again(self, server: ServerId) -> list[bytes]:
        """Number the letters to and from a server anew. Return the letters that were kept for it until now."""
        numbers = range(self.forgotten_through(server) + 1, self.sent_through(server) + 1)
        kept = [self._outbox.pop((server, number)) for number in numbers]
        for part in (self._last_sent, self._forgotten_through, self._sent, self._handled_through, self._left_through):
            part.pop(server, None)
        self.handled_changed.pop(server, None)
        self._met.discard(server)
        self._beginnings[server] += 1
        return kept

    def beginnings(self, server: ServerId) -> int:
        """Return how often the channels with a server have begun again since this one started."""
        return self._beginnings[server]

    def send(self, receiver: ServerId, encoded: bytes) -> PeerLetter:
        """Number a message, and keep it until it is received."""
        if receiver not in self._met and receiver not in self._left_through:
            self._left_through[receiver] = self.sent_through(receiver)
        assert self.lane is Lane.LETTERS or len(encoded) <= POST_BYTES_LIMIT, "no other server takes so large a post"
        number = self._last_sent.get(receiver, 0) + 1
        # The order matters: a reader in another thread finds all letters through a number that it sees.
        self._outbox[receiver, number] = encoded
        self._last_sent[receiver] = number
        return PeerLetter(receiver, number, encoded, self.lane)

    def take(self, sender: ServerId, number: int) -> bool:
        """Return True if a letter is the next of its sender, and count it as handled. Other letters are counted as
        faults."""
        handled = self._handled_through.get(sender, 0)
        if number != handled + 1:
            self.faults[sender, PeerFault.REPEATED if number <= handled else PeerFault.OUT_OF_ORDER] += 1
            return False
        self._handled_through[sender] = number
        self.handled_changed.setdefault(sender, handled)
        return True

    def drain_handled_changed(self) -> dict[ServerId, int]:
        """Return `handled_changed`, and empty it. Receipts are due once the step is durable."""
        changed, self.handled_changed = self.handled_changed, {}
        return changed

    def received(self, peer: ServerId, through: int) -> None:
        """Forget the letters that the other server has handled. The change can wait: it becomes durable with a later
        one."""
        last, forgotten = self.sent_through(peer), self.forgotten_through(peer)
        if through > last:
            self.faults[peer, PeerFault.UNEARNED_RECEIPT] += 1
            return
        if through > forgotten:
            self._forgotten_through[peer] = through
            for number in range(forgotten + 1, through + 1):
                self._outbox.put_off((peer, number), None)
            if through == last:
                self._sent.put_off(peer, through)

    def kept(self, receiver: ServerId, *, after: int = 0) -> Iterator[PeerLetter]:
        """Yield the letters to a server beyond a number that are not known to be handled, in order.

        Read them before the next step. Earlier letters are not looked at, so a long backlog can be read in pieces.
        """
        for number in range(max(after, self.forgotten_through(receiver)) + 1, self.sent_through(receiver) + 1):
            yield PeerLetter(receiver, number, self._outbox[receiver, number], self.lane)

    def sent_through(self, receiver: ServerId) -> int:
        """Return the number of the last letter to a server. 0 if there was none."""
        return self._last_sent.get(receiver, 0)

    def left_through(self, receiver: ServerId) -> int:
        """Return the number of the last letter to a server that can have left. Letters written while it was not met
        cannot."""
        return self._left_through.get(receiver, self.sent_through(receiver))

    def forgotten_through(self, receiver: ServerId) -> int:
        """Return the number of the last letter to a server that is no longer kept. 0 if all are kept."""
        return self._forgotten_through.get(receiver, 0)

    def handled_through(self, sender: ServerId) -> int:
        """Return the number of the last letter of a sender that was handled. 0 if there was none."""
        return self._handled_through.get(sender, 0)
