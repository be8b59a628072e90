"""Messages that the gateway writes by itself: letters to one person, probes, notes and digests to owners."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from mailing.rules.active_messages import ActiveMessage
from mailing.rules.admissions import Admissions
from mailing.rules.events import (
    Effect,
    ForgetDigest,
    ForgetFailing,
    Granted,
    Keep,
    NoteWritten,
    Now,
    Save,
    Spooled,
    TellSafe,
)
from mailing.rules.failures import DeliveryFailure, Failures, digest_note
from mailing.rules.giving_up import report_to_author
from mailing.rules.in_progress import InProgress
from mailing.rules.notes import Noted, note_about, without_note
from mailing.rules.spooled import Chunk, MailMessage
from shadowtree.vocabulary import MemberId


class OwnMessages:
    """Messages of the gateway. They are in progress, and in the spool, like any message."""

    def __init__(self, in_progress: InProgress, failures: Failures, admissions: Admissions, secret: bytes) -> None:
        """Work on the parts of a distribution. `secret`: secret of the tokens."""
        self._in_progress = in_progress
        self._admissions = admissions
        self._failures = failures
        self._secret = secret

    def written(self, event: NoteWritten, now: Now) -> list[Effect]:
        """Start a letter, unless it was started before. It is handed over at once, but a request waits for owners."""
        answer, id_ = TellSafe(event.transaction), event.message.id
        known = self._in_progress.works.get(id_)
        if known is not None:
            # A letter is safe once it is written. That write may be pending, and this write follows it.
            return [Save(known.message), answer]
        if id_ in self._in_progress.finished:
            return [answer]
        if event.message.is_request:
            return self._admissions.began(event)
        saved = self._letter(event.message, event.person, event.content)
        return [*saved, answer, *self._in_progress.works[id_].due_chunks(now)]

    def granted(self, event: Granted) -> list[Effect]:
        """Clear the wish of a letter that was confirmed."""
        work = self._in_progress.works.get(event.id)
        if work is not None:
            work.message = replace(work.message, wish=None)
            return [Save(work.message)]
        return [] if event.earlier is None else [Save(replace(event.earlier.message, wish=None))]

    def failed(
        self, message: MailMessage, chunk: Chunk, people: Iterable[tuple[MemberId, str]], now: Now
    ) -> list[Effect]:
        """Record that one message did not reach some people, and start the probes that are due."""
        effects: list[Effect] = []
        for person, why in people:
            if message.is_probe:
                effects += map(Keep, self._failures.probe_failed(person, message.id, why, now.date))
                continue
            place = message.destinations[chunk.destination]
            failure = DeliveryFailure(person, replace(place, address=place.return_address), why)
            effects += map(Keep, self._failures.failed(failure, now.date))
            probe = self._failures.probe_of(person, now.date)
            if probe is not None:
                failing, letter, content = probe
                effects += [*self._letter(letter, person, content), Keep(failing)]
        return effects

    def gave_up(self, work: ActiveMessage, now: Now) -> list[Effect]:
        """Tell author and owners the servers that were given up, once all recipients are known."""
        message, lists = work.message, [each for each in work.going.values() if each.is_list]
        if not message.given_up or work.is_finding:
            return []
        effects: list[Effect] = []
        if message.answerable and lists:
            letter, content = report_to_author(message, lists, now.date)
            if not self._in_progress.is_known(letter.id):
                effects += self._letter(letter, message.answerable, content)
        for each in lists:
            effects += map(Keep, self._failures.gave_up(each, message.given_up, now.date))
        work.message = replace(message, given_up=())
        return [*effects, Save(work.message)]

    def due(self, now: Now) -> list[Effect]:
        """Write the notes and digests to owners that are due."""
        return [*self._due_notes(now), *self._due_digests(now)]

    def _letter(self, message: MailMessage, person: MemberId, content: bytes) -> list[Effect]:
        """Start a letter that was not started before. It is handed over as time passes."""
        chunk = Chunk(message.id, 0, 0, (person,), (0,), is_international=not person.isascii())
        self._in_progress.open(Spooled(message, (chunk,)))
        return [Save(message, (chunk,), content)]

    def _due_notes(self, now: Now) -> list[Effect]:
        effects: list[Effect] = []
        works = self._in_progress.works
        for about in self._in_progress.notes.due(now.ticks):
            noted = [
                Noted(work.message, destination)
                for group, id_ in about
                if (work := works.get(id_)) is not None
                for destination in work.message.destinations
                if destination.is_to_note and destination.group == group
            ]
            if not noted:
                continue
            message, content = note_about(noted, now.date, self._secret)
            told: list[Effect] = []
            for each in noted:
                work = works[each.message.id]
                work.message = without_note(work.message, each.destination.group, now.date)
                told.append(Save(work.message))
            effects += self._note(message, content, told)
        return effects

    def _due_digests(self, now: Now) -> list[Effect]:
        effects: list[Effect] = [ForgetFailing(person) for person in self._failures.outdated(now.date)]
        for digest in self._failures.due_digests(now.date):
            effects += [*self._note(*digest_note(digest, now.date)), ForgetDigest(digest.group)]
        return effects

    def _note(self, message: MailMessage, content: bytes, told: Iterable[Effect] = ()) -> list[Effect]:
        """Write to owners, unless the same note was written before. `told`: effects to make durable with it."""
        if self._in_progress.is_known(message.id):
            return [*told]
        note = self._in_progress.open(Spooled(message, ()))
        return [Save(message, content=content), *told, *note.ask()]
