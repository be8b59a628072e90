"""Settling parcels, and telling the callers that wait for it.

    all to whom a parcel was posted have confirmed it --> settled, callers are told
    all parcels before it are settled, too --> forgotten; servers that remember its recipients are told `Over`

See docs/protocol-messages.md, "Accepted, settled, sent again".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from delivery.model.events import Answer, Settled
from delivery.origin.parcel_builder import WaitingMessage, asked_to_be_told
from delivery.origin.parcel_table import ParcelTable
from delivery.origin.sequence_table import SequenceTable
from delivery.origin.unsettled import Sequence
from delivery.wire.posts import Over, Parcel, encode
from namegraph import PeerLetter, ServerId

SETTLED_BYTES_LIMIT = 16 * 1024 * 1024
"""Memory limit of settled parcels behind an older one of their sequence, kept for a receiver whose lane begins anew."""


class Settlement:
    """Settling of the parcels of one origin."""

    def __init__(
        self, table: ParcelTable, sequences: SequenceTable, *, position_of: Callable[[str], int | None]
    ) -> None:
        """Wire the parts. `position_of`: returns the position of the unsettled parcel of a message, by its id."""
        self._table, self._sequences, self._position_of = table, sequences, position_of
        self._waiting: dict[int, list[tuple[int, str]]] = {}
        """Tickets and message ids of callers waiting for a parcel to settle, by log position."""
        self.settled_limit_bytes = SETTLED_BYTES_LIMIT

    def begin(self, position: int, parcel: Parcel, together: list[WaitingMessage]) -> None:
        """Register the callers that wait for a new parcel of these messages to settle."""
        if asked := asked_to_be_told(parcel, together):
            self._waiting[position] = asked

    @staticmethod
    def settled_at_once(parcel: Parcel, together: list[WaitingMessage]) -> list[Answer]:
        """Return the answers for a parcel that has no recipients."""
        return [Settled(ticket, name, 0, 0) for ticket, name in asked_to_be_told(parcel, together)]

    def wait(self, ticket: int, name: str, lacking: tuple[ServerId, ...]) -> list[Answer]:
        """Register another caller that waits for a message to settle. Return the answer if the message is settled.

        `lacking`: the servers that are known to have been removed before they had the message.
        """
        position = self._position_of(name)
        if position is None:
            return [Settled(ticket, name, None, None, lacking)]
        self._waiting.setdefault(position, []).append((ticket, name))
        return self.settle(position)[0]

    def settle(self, position: int) -> tuple[list[Answer], list[PeerLetter]]:
        """Settle a parcel if it can be settled. Return the answers to callers, and the posts to send.

        A settled parcel is forgotten once all parcels before it are settled.
        """
        row = self._table.rows[position]
        if not row.is_settled:
            return [], []
        progress = row.progress
        answers: list[Answer] = [
            Settled(ticket, name, progress.mailboxes, progress.servers, row.unknown)
            for ticket, name in self._waiting.pop(position, ())
        ]
        sequence, letters = self._table.states[row.sequence], list[PeerLetter]()
        if position not in sequence.settled:
            sequence.settled.add(position)
            self._table.settled_bytes += len(self._table.post.parcels[position])
        while sequence.unsettled and sequence.unsettled[0] in sequence.settled:
            letters += self._forget_settled(sequence, sequence.unsettled.popleft())
        if not sequence.unsettled:
            self._sequences.note_idle(row.sequence)
            self._table.backlogs.untold.remove(row.sequence)
        if sequence.is_idle:
            del self._table.states[row.sequence]
        if self._table.settled_bytes > self.settled_limit_bytes:
            letters += self._forget_all_settled()
        return answers, letters

    def _forget_settled(self, sequence: Sequence, position: int) -> list[PeerLetter]:
        """Forget a settled parcel. Return the posts to send."""
        sequence.settled.discard(position)
        self._table.settled_bytes -= len(self._table.post.parcels[position])
        self._table.let_go(position)
        done = self._table.rows.pop(position)
        sequence.followed.pop(position, None)
        del self._table.by_serial[done.sequence, done.start, done.first_serial]
        over = encode(Over(done.sequence, done.start, done.first_serial))
        return [self._table.post.send_inline(server, over) for server in done.remembering]

    def _forget_all_settled(self) -> list[PeerLetter]:
        """Forget the settled parcels behind older ones of their sequences. Return the posts to send.

        A receiver may confirm no parcel for days, and not be below the target set any more. Later parcels are settled
        then, and wait only for the older ones.
        """
        letters: list[PeerLetter] = []
        for sequence in self._table.states.values():
            if sequence.settled:
                settled = sorted(sequence.settled)
                sequence.unsettled = deque(each for each in sequence.unsettled if each not in sequence.settled)
                for position in settled:
                    letters += self._forget_settled(sequence, position)
        return letters
