"""Questions about messages that are not settled, by their ids.

See docs/protocol-messages.md, "Accepted, settled, sent again".
"""

from __future__ import annotations

from collections import Counter

from delivery.model.words import Kept
from delivery.origin.parcel_table import ParcelTable
from delivery.origin.sequence_table import SequenceTable
from delivery.origin.unsettled import Progress
from delivery.wire.posts import PARCEL_MESSAGES_LIMIT, message_id, read_message_id
from namegraph import ServerId, Slices, in_slices, only


class MessageProgress:
    """Progress of the messages of one origin."""

    def __init__(self, table: ParcelTable, sequences: SequenceTable, kept: Kept) -> None:
        self._table, self._sequences, self._kept = table, sequences, kept

    def ids(self, position: int) -> list[str]:
        """Return the ids of the messages of an unsettled parcel."""
        row = self._table.rows[position]
        targets = self._sequences.targets_of(row.sequence)
        serials = range(row.first_serial, row.first_serial + row.messages)
        return [message_id(serial, targets, row.sequence, row.start, self._kept) for serial in serials]

    def progress(self, name: str) -> Progress | None:
        """Return the progress of a message. None if it is settled, or was never accepted at this server.

        The method may be called while a step runs in another thread.
        """
        position = self.position_of(name)
        row = None if position is None else self._table.rows.get(position)
        return None if row is None else row.progress

    def is_settled(self, name: str) -> bool:
        """True if a message is settled that was accepted since the start, or was unsettled at the start."""
        position = self.position_of(name)
        return position is None or self._table.rows[position].is_settled

    def is_sent_apart(self, name: str) -> bool:
        """True if a message is not settled, and was posted while servers were apart."""
        position = self.position_of(name)
        return position is not None and self._table.rows[position].is_sent_apart

    def pending(self) -> Slices[dict[ServerId, int]]:
        """Return the number of unconfirmed parcels by server, sorted by server.

        A parcel counts in the state in which it is visited. The method may run while a step runs in another thread.
        """
        found: Counter[ServerId] = Counter()
        for rows in in_slices(list(self._table.rows.values())):
            for row in rows:
                found.update(server for server, count in list(row.posted.items()) if count < 0)
            yield len(rows)
        return dict(sorted(found.items()))

    def position_of(self, name: str) -> int | None:
        """Return the position of the unsettled parcel of a message. None if there is none."""
        found = read_message_id(name)
        if found is None or found.kept is not self._kept:
            return None
        numbers = [found.sequence] if found.sequence else self._sequences.numbers_of(only(found.addressed))
        for number in numbers:
            if number not in self._table.states:
                continue
            # The message is the first of its parcel, or a later one.
            for first_serial in range(found.serial, max(0, found.serial - PARCEL_MESSAGES_LIMIT), -1):
                position = self._table.by_serial.get((number, found.start, first_serial))
                if position is not None:
                    row = self._table.rows.get(position)
                    return position if row is not None and found.serial < first_serial + row.messages else None
        return None
