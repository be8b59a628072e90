"""Numbered channels between this server and others: nothing is lost, nothing is handled twice.

    step -> letter number n -> (durable) -> sent -> received, handled -> (durable) -> receipt through n -> forgotten

A letter is kept until the other server says that it has made durable what the letter caused; after a lost connection,
or a crash of either server, what is kept is sent again. Numbers rise by one, so that a letter that comes twice, late,
or from before a reconnection is known by its number, and a gap is noticed. One received message is one step: its
effect, the number reached and the letters it causes become durable together.

A channel begins again, at number 1, when the server at either end goes on from an older copy of its database. That is
found when the two meet: numbers do not fit that were told before (`left_through`).

Source: protocol.md sections 6 and 7; architecture.md, "Between servers".
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator

from namegraph.events import PeerLetter
from namegraph.names import ServerId
from namegraph.records import ProtocolRow

OUTBOX = "outbox"
"""Rows: a letter by receiver and number."""
INBOX = "inbox"
"""Rows: through which number the letters of a sender were handled."""
SENT = "sent"
"""Rows: the number of the last letter to a receiver, where no letter is kept."""
UNMET = "unmet"
"""Rows: the number of the last letter that can have left to a server, where more were written while it was not met."""


class Channels:
    """The channels to and from all other servers."""

    def __init__(self) -> None:
        self._kept: dict[ServerId, OrderedDict[int, bytes]] = {}
        self._last_sent: dict[ServerId, int] = {}
        self._handled_through: dict[ServerId, int] = {}
        self._left_through: dict[ServerId, int] = {}
        """Of servers to which letters were written while they were not met: the last one before those."""
        self._met: set[ServerId] = set()
        """Since this server started, or the channels with them began again."""
        self._beginnings: Counter[ServerId] = Counter()
        self._rows: list[ProtocolRow] = []
        self._lazy_rows: list[ProtocolRow] = []
        self.faults: Counter[tuple[ServerId, str]] = Counter()
        """What other servers did wrong, by server and kind; for operators."""

    @classmethod
    def restore(cls, rows: Iterable[ProtocolRow]) -> Channels:
        """The channels as they were when the rows were written."""
        channels = cls()
        letters: list[PeerLetter] = []
        for row in rows:
            assert row.value is not None
            match row.part:
                case "outbox":
                    digits, _, receiver = row.key.partition(" ")
                    letters.append(PeerLetter(ServerId(receiver), int(digits), row.value))
                case "inbox":
                    channels._handled_through[ServerId(row.key)] = int(row.value)
                case "sent":
                    channels._last_sent[ServerId(row.key)] = int(row.value)
                case "unmet":
                    channels._left_through[ServerId(row.key)] = int(row.value)
        for receiver, number, encoded in sorted(letters):
            channels._kept.setdefault(receiver, OrderedDict())[number] = encoded
            channels._last_sent[receiver] = max(number, channels._last_sent.get(receiver, 0))
        return channels

    def met(self, server: ServerId) -> None:
        """A server is there, and what it has handled fits: letters to it may leave."""
        self._met.add(server)
        if self._left_through.pop(server, None) is not None:
            self._rows.append(ProtocolRow(UNMET, server, None))

    def is_met(self, server: ServerId) -> bool:
        """Whether a server was met since this one started, or the channels with it began again."""
        return server in self._met

    def has_unmet_letters(self, server: ServerId) -> bool:
        """Whether letters were written to a server while it was not met: they leave once its meeting is durable."""
        return server in self._left_through

    def begin_again(self, server: ServerId) -> list[bytes]:
        """Number the letters to and from a server anew; returns those that were kept for it, and are not any more."""
        kept = self._kept.pop(server, OrderedDict())
        self._last_sent.pop(server, None)
        self._handled_through.pop(server, None)
        self._left_through.pop(server, None)
        self._met.discard(server)
        self._beginnings[server] += 1
        self._rows += [ProtocolRow(OUTBOX, _key(server, number), None) for number in kept]
        self._rows += [ProtocolRow(part, server, None) for part in (INBOX, SENT, UNMET)]
        return list(kept.values())

    def beginnings(self, server: ServerId) -> int:
        """How often the channels with a server have begun again since this one started."""
        return self._beginnings[server]

    def send(self, receiver: ServerId, encoded: bytes) -> PeerLetter:
        """Number a message and keep it until it is received."""
        if receiver not in self._met and receiver not in self._left_through:
            self._left_through[receiver] = self.sent_through(receiver)
            self._rows.append(ProtocolRow(UNMET, receiver, str(self.sent_through(receiver)).encode()))
        number = self._last_sent.get(receiver, 0) + 1
        # In this order: whoever reads in another thread finds what was sent through a number.
        self._kept.setdefault(receiver, OrderedDict())[number] = encoded
        self._last_sent[receiver] = number
        self._rows.append(ProtocolRow(OUTBOX, _key(receiver, number), encoded))
        return PeerLetter(receiver, number, encoded)

    def take(self, sender: ServerId, number: int) -> bool:
        """Whether a letter is the next of its sender; it counts as handled then. Others are counted as faults."""
        handled = self._handled_through.get(sender, 0)
        if number != handled + 1:
            self.faults[sender, "repeated" if number <= handled else "out of order"] += 1
            return False
        self._handled_through[sender] = number
        self._rows.append(ProtocolRow(INBOX, sender, str(number).encode()))
        return True

    def received(self, peer: ServerId, through: int) -> None:
        """Forget the letters that the other server has handled. Made durable with what comes next: it can wait."""
        kept = self._kept.get(peer)
        if through > self._last_sent.get(peer, 0):
            self.faults[peer, "receipt for what was not sent"] += 1
            return
        while kept and (number := next(iter(kept))) <= through:
            del kept[number]
            self._lazy_rows.append(ProtocolRow(OUTBOX, _key(peer, number), None))
            if not kept:
                self._lazy_rows.append(ProtocolRow(SENT, peer, str(number).encode()))

    def kept(self, receiver: ServerId, *, after: int = 0) -> Iterator[PeerLetter]:
        """The letters to a server that are not known to be handled, in order, beyond a number.

        To be read before the next step. Those before are not looked at, so a long backlog is read in pieces.
        """
        kept = self._kept.get(receiver, OrderedDict())
        for number in range(max(after, self.forgotten_through(receiver)) + 1, self.sent_through(receiver) + 1):
            yield PeerLetter(receiver, number, kept[number])

    def sent_through(self, receiver: ServerId) -> int:
        """The number of the last letter to a server; 0 where there was none."""
        return self._last_sent.get(receiver, 0)

    def left_through(self, receiver: ServerId) -> int:
        """The number of the last letter to a server that can have left: those written while it was not met cannot."""
        return self._left_through.get(receiver, self.sent_through(receiver))

    def forgotten_through(self, receiver: ServerId) -> int:
        """The number of the last letter to a server that is not kept any more; 0 where all are."""
        kept = self._kept.get(receiver)
        return next(iter(kept)) - 1 if kept else self.sent_through(receiver)

    def handled_through(self, sender: ServerId) -> int:
        """The number of the last letter of a sender that was handled; 0 where there was none."""
        return self._handled_through.get(sender, 0)

    def take_rows(self) -> list[ProtocolRow]:
        """The rows of this step; those that can wait go with others only."""
        if not self._rows:
            return []
        rows = self._lazy_rows + self._rows
        self._lazy_rows, self._rows = [], []
        return rows


def _key(receiver: ServerId, number: int) -> str:
    return f"{number} {receiver}"
