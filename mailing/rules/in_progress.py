"""All messages that are not final, and their way to a final state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from mailing.rules.active_messages import ActiveMessage, mailboxes_in
from mailing.rules.events import Effect, Now, Save, Spooled
from mailing.rules.notes import Notes
from mailing.rules.spooled import Chunk, MailMessage, MailState, Standing


class InProgress:
    """Messages by id, notes that owners are still to get, and the ends of final messages."""

    def __init__(self, finished: Iterable[MailMessage]) -> None:
        """Start without messages in progress. `finished`: final messages that are remembered."""
        self.works: dict[str, ActiveMessage] = {}
        self.finished = {message.id: message.ended for message in finished}
        """End of each final message, in seconds since 1970."""
        self.notes = Notes()
        self._reached: dict[str, set[str]] = {}
        """Mailboxes that messages in progress have reached, by kinship."""
        self._kin: Counter[str] = Counter()
        """Number of messages in progress, by kinship."""

    def open(self, spooled: Spooled) -> ActiveMessage:
        """Resume a message from the spool. Its waiting chunks are due now."""
        kinship = spooled.message.kinship
        reached = self._reached.setdefault(kinship, set())
        self._kin[kinship] += spooled.message.id not in self.works
        reached |= mailboxes_in(spooled.chunks)
        work = ActiveMessage(spooled.message, {chunk.number: chunk for chunk in spooled.chunks}, reached)
        work.chunks_at = {chunk.number: 0.0 for chunk in spooled.chunks if chunk.waiting}
        self.works[work.message.id] = work
        self.finished.pop(work.message.id, None)
        return work

    def is_known(self, id_: str) -> bool:
        """Return True if there is such a message, final or not."""
        return id_ in self.works or id_ in self.finished

    def spooled(self, id_: str) -> Spooled | None:
        """Return an unfinished message, as decided so far. None if there is none."""
        work = self.works.get(id_)
        return None if work is None else work.spooled

    def unfinished(self) -> list[tuple[Spooled, MailState]]:
        """Return all unfinished messages, the oldest first. Messages of one second keep their order of arrival."""
        works = sorted(self.works.values(), key=lambda work: work.message.accepted)
        return [(work.spooled, work.state) for work in works]

    def saved_then(
        self, work: ActiveMessage, effects: Iterable[Effect], now: Now, chunks: Iterable[Chunk] = ()
    ) -> list[Effect]:
        """Save a message with its changed chunks, then continue with `effects`.

        A message that became final needs no effects.
        """
        settled = self.settled(work, now, tuple(chunks))
        return settled or [Save(work.message, tuple(chunks)), *effects]

    def settled(self, work: ActiveMessage, now: Now, chunks: tuple[Chunk, ...] = ()) -> list[Effect]:
        """End a message that has no work left. Empty if work is left."""
        if not work.is_over or work.message.is_held or work.message.is_to_note or work.message.given_up:
            return []
        goes = any(each.standing is Standing.GOES for each in work.message.destinations)
        is_dropped = work.message.is_dropped or not (goes or work.chunks)
        every = work.chunks.values()
        message = replace(
            work.message,
            state=MailState.DROPPED if is_dropped else MailState.DONE,
            ended=now.date,
            people=sum(len(chunk.people) for chunk in every),
            done=sum(chunk.done for chunk in every),
            bounced=sum(len(chunk.bounced) for chunk in every),
        )
        del self.works[message.id]
        self._kin[message.kinship] -= 1
        if not self._kin[message.kinship]:
            del self._kin[message.kinship], self._reached[message.kinship]
        self.finished[message.id] = now.date
        return [Save(message, chunks)]
