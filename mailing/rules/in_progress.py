"""All messages that are not final, and how each becomes so."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from mailing.rules.active_messages import Work, mailboxes_in
from mailing.rules.events import Effect, Now, Save, Spooled
from mailing.rules.notes import Notes
from mailing.rules.spooled import Chunk, Message, Standing, State


class InProgress:
    """Messages by id, those of which owners are still to be told, and when final ones ended."""

    def __init__(self, finished: Iterable[Message]) -> None:
        """`finished`: those that are final, and remembered."""
        self.works: dict[str, Work] = {}
        self.finished = {message.id: message.ended for message in finished}
        """When each ended, in seconds since 1970."""
        self.notes = Notes()
        self._reached: dict[str, set[str]] = {}
        """Mailboxes that messages in progress have reached, by their kinship."""
        self._kin: Counter[str] = Counter()
        """Messages in progress, by their kinship."""

    def open(self, spooled: Spooled) -> Work:
        """Go on with a message as it is in the spool; what waits of it is due now."""
        kinship = spooled.message.kinship
        reached = self._reached.setdefault(kinship, set())
        self._kin[kinship] += spooled.message.id not in self.works
        reached |= mailboxes_in(spooled.chunks)
        work = Work(spooled.message, {chunk.number: chunk for chunk in spooled.chunks}, reached)
        work.chunks_at = {chunk.number: 0.0 for chunk in spooled.chunks if chunk.waiting}
        self.works[work.message.id] = work
        self.finished.pop(work.message.id, None)
        return work

    def is_known(self, id_: str) -> bool:
        """Whether there is such a message, final or not."""
        return id_ in self.works or id_ in self.finished

    def spooled(self, id_: str) -> Spooled | None:
        """A message that is not final, as far as it is decided; None: there is none."""
        work = self.works.get(id_)
        return None if work is None else work.spooled

    def unfinished(self) -> list[tuple[Spooled, State]]:
        """All messages that are not final, the oldest first; those of one second in the order in which they came."""
        works = sorted(self.works.values(), key=lambda work: work.message.accepted)
        return [(work.spooled, work.state) for work in works]

    def saved_then(self, work: Work, effects: Iterable[Effect], now: Now, chunks: Iterable[Chunk] = ()) -> list[Effect]:
        """Write a message down, with chunks that have changed, and then go on, unless it has become final by that."""
        settled = self.settled(work, now, tuple(chunks))
        return settled or [Save(work.message, tuple(chunks)), *effects]

    def settled(self, work: Work, now: Now, chunks: tuple[Chunk, ...] = ()) -> list[Effect]:
        """End a message of which nothing more becomes."""
        if not work.is_over or work.message.is_held or work.message.is_to_note or work.message.given_up:
            return []
        goes = any(each.standing is Standing.GOES for each in work.message.destinations)
        is_dropped = work.message.is_dropped or not (goes or work.chunks)
        every = work.chunks.values()
        message = replace(
            work.message,
            state=State.DROPPED if is_dropped else State.DONE,
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
