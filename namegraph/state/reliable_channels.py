"""Numbered channels between this server and others: nothing is lost, nothing is handled twice.

    step -> letter number n -> (durable) -> sent -> received, handled -> (durable) -> receipt through n -> forgotten

A letter is kept until the other server says that it has made durable what the letter caused; after a lost connection,
or a crash of either server, what is kept is sent again. Numbers rise by one, so that a letter that comes twice, late,
or from before a reconnection is known by its number, and a gap is noticed. One received message is one step: its
effect, the number reached and the letters it causes become durable together.

There are two such channels from one server to another, one for each `Lane`, which number their letters each by itself.
In one, letters are handled in the step that brings them. In the other, a step may bring several, and that can be later
(`posts` of a core).

A channel begins again, at number 1, when the server at either end goes on from an older copy of its database. That is
found when the two meet: numbers do not fit that were told before (`left_through`).

Source: protocol.md sections 6 and 7; architecture.md, "Between servers".
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
"""Rows: a letter by receiver and number."""
INBOX = "inbox"
"""Rows: through which number the letters of a sender were handled."""
SENT = "sent"
"""Rows: the number of the last letter to a receiver, where no letter is kept."""
UNMET = "unmet"
"""Rows: the number of the last letter that can have left to a server, where more were written while it was not met."""

_PREFIXES = {Lane.LETTERS: "", Lane.POST: "post "}
"""Of the parts of each lane's rows."""


class Channels:
    """The channels of one lane, to and from all other servers."""

    def __init__(self, durable: DurableState, lane: Lane = Lane.LETTERS) -> None:
        self.lane = lane
        prefix = _PREFIXES[lane]
        self._outbox = DurableMap(durable, prefix + OUTBOX, NUMBERS_OF_SERVERS, BYTES)
        """The letters that are kept: of each receiver those after `_forgotten_through`, none left out."""
        self._handled_through = DurableMap(durable, prefix + INBOX, SERVERS, DIGITS)
        self._sent = DurableMap(durable, prefix + SENT, SERVERS, DIGITS)
        self._left_through = DurableMap(durable, prefix + UNMET, SERVERS, DIGITS)
        """Of servers to which letters were written while they were not met: the last one before those."""
        self._last_sent = dict(self._sent)
        self._forgotten_through = dict(self._sent)
        for receiver, numbers in groupby(self._outbox, key=itemgetter(0)):
            kept = [number for _, number in numbers]
            self._forgotten_through[receiver], self._last_sent[receiver] = kept[0] - 1, kept[-1]
        self._met: set[ServerId] = set()
        """Since this server started, or the channels with them began again."""
        self._beginnings: Counter[ServerId] = Counter()
        self.handled_changed: dict[ServerId, int] = {}
        """Senders of whom letters were handled since this was last drained: through which number before."""
        self.faults: Counter[tuple[ServerId, PeerFault]] = Counter()
        """What other servers did wrong, by server and kind; for operators."""
        self.leaps_refused: dict[ServerId, int] = {}
        """By server: the number that was last refused because it leaps too far. Its session is to end with that."""

    def met(self, server: ServerId) -> None:
        """A server is there, and what it has handled fits: letters to it may leave."""
        self._met.add(server)
        self._left_through.pop(server, None)

    def is_met(self, server: ServerId) -> bool:
        """Whether a server was met since this one started, or the channels with it began again."""
        return server in self._met

    def has_unmet_letters(self, server: ServerId) -> bool:
        """Whether letters were written to a server while it was not met: they leave once its meeting is durable."""
        return server in self._left_through

    def begin_again(self, server: ServerId) -> list[bytes]:
        """Number the letters to and from a server anew; returns those that were kept for it, and are not any more."""
        numbers = range(self.forgotten_through(server) + 1, self.sent_through(server) + 1)
        kept = [self._outbox.pop((server, number)) for number in numbers]
        for part in (self._last_sent, self._forgotten_through, self._sent, self._handled_through, self._left_through):
            part.pop(server, None)
        self.handled_changed.pop(server, None)
        self._met.discard(server)
        self._beginnings[server] += 1
        return kept

    def beginnings(self, server: ServerId) -> int:
        """How often the channels with a server have begun again since this one started."""
        return self._beginnings[server]

    def send(self, receiver: ServerId, encoded: bytes) -> PeerLetter:
        """Number a message and keep it until it is received."""
        if receiver not in self._met and receiver not in self._left_through:
            self._left_through[receiver] = self.sent_through(receiver)
        assert self.lane is Lane.LETTERS or len(encoded) <= POST_BYTES_LIMIT, "no other server takes so large a post"
        number = self._last_sent.get(receiver, 0) + 1
        # In this order: whoever reads in another thread finds what was sent through a number.
        self._outbox[receiver, number] = encoded
        self._last_sent[receiver] = number
        return PeerLetter(receiver, number, encoded, self.lane)

    def take(self, sender: ServerId, number: int) -> bool:
        """Whether a letter is the next of its sender; it counts as handled then. Others are counted as faults."""
        handled = self._handled_through.get(sender, 0)
        if number != handled + 1:
            self.faults[sender, PeerFault.REPEATED if number <= handled else PeerFault.OUT_OF_ORDER] += 1
            return False
        self._handled_through[sender] = number
        self.handled_changed.setdefault(sender, handled)
        return True

    def drain_handled_changed(self) -> dict[ServerId, int]:
        """What is in `handled_changed`, which is empty then. Once what the step did is durable, receipts are due."""
        changed, self.handled_changed = self.handled_changed, {}
        return changed

    def received(self, peer: ServerId, through: int) -> None:
        """Forget the letters that the other server has handled. Made durable with what comes next: it can wait."""
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
        """The letters to a server that are not known to be handled, in order, beyond a number.

        To be read before the next step. Those before are not looked at, so a long backlog is read in pieces.
        """
        for number in range(max(after, self.forgotten_through(receiver)) + 1, self.sent_through(receiver) + 1):
            yield PeerLetter(receiver, number, self._outbox[receiver, number], self.lane)

    def sent_through(self, receiver: ServerId) -> int:
        """The number of the last letter to a server; 0 where there was none."""
        return self._last_sent.get(receiver, 0)

    def left_through(self, receiver: ServerId) -> int:
        """The number of the last letter to a server that can have left: those written while it was not met cannot."""
        return self._left_through.get(receiver, self.sent_through(receiver))

    def forgotten_through(self, receiver: ServerId) -> int:
        """The number of the last letter to a server that is not kept any more; 0 where all are."""
        return self._forgotten_through.get(receiver, 0)

    def handled_through(self, sender: ServerId) -> int:
        """The number of the last letter of a sender that was handled; 0 where there was none."""
        return self._handled_through.get(sender, 0)
