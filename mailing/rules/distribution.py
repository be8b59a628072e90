"""The course of all messages: `step(event, now) -> effects`, without clock, socket or chance.

    accepted -> [held ->] resolving -> sending <-> waiting -> done, and forgotten after some days

Invariants: a person is in at most one chunk of a message, so no message is handed over to anybody twice, unless the
gateway was killed in the middle of a transaction or the mail server took a chunk whose reply was lost. Whatever an
effect makes visible was made durable by one before it. Events may be late, repeated, or of what is gone. Whatever a
list holds or drops, its owners are told; a kill may have them told twice.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from mailing.rules.events import (
    Accepted,
    Answer,
    Approved,
    Bounced,
    Cleared,
    Dropped,
    Effect,
    Event,
    Forget,
    ForgetDigest,
    ForgetFailing,
    Granted,
    Handed,
    HandOver,
    Keep,
    ListGone,
    NotPosted,
    NotResolved,
    Now,
    Posted,
    Rejected,
    Resolve,
    Resolved,
    Retried,
    Save,
    Shared,
    Spooled,
    Ticked,
    Written,
)
from mailing.rules.failures import Failure, Failures, digest_note
from mailing.rules.notes import Noted, Notes, note_about, without_note
from mailing.rules.spooled import Chunk, Message, PostState, Standing, State
from mailing.rules.works import Work, chunks_of, shares_for, with_share
from shadowtree.vocabulary import MemberId

FIRST_DELAY_S = 60
LONGEST_DELAY_S = 3_600
TRIED_FOR_S = 5 * 86_400
"""As mail servers do (RFC 5321, 4.5.4.1)."""
LONGEST_LOOK_S = 300
"""Between two looks at how far shares are."""
OWN_SHARE_S = 60
"""How long the own share is waited for once all servers have theirs: those whom it was for may have left."""
KEPT_FOR_S = 7 * 86_400
"""After that the same message counts as another one."""


def delay_s(attempts: int) -> float:
    """How long to wait after so many attempts that failed: 1, 2, 4 ... 60 minutes."""
    return float(min(LONGEST_DELAY_S, FIRST_DELAY_S * 2 ** min(attempts - 1, 10)))


class Distribution:
    """All messages that are not final, and when final ones are forgotten."""

    def __init__(
        self, spooled: Iterable[Spooled], finished: Iterable[Message], failures: Failures | None = None
    ) -> None:
        """`spooled`: what is not final, as it was when the gateway ended. It goes on when time passes."""
        self.failures = failures or Failures()
        self._finished = {message.id: message.ended for message in finished}
        self._works: dict[str, Work] = {}
        self._notes = Notes()
        for each in spooled:
            work = self._open(each)
            self._notes.add(each.message)
            if work.going and (not each.message.revision or each.message.attempts):
                work.resolve_at = 0.0
            if each.message.post is not None and not each.message.is_dropped:
                work.post_at = 0.0

    def step(self, event: Event, now: Now) -> list[Effect]:
        """What an event leads to; the effects are carried out in their order."""
        match event:
            case Accepted():
                return self._accepted(event, now)
            case Bounced():
                return self._bounced(event, now)
            case Cleared(person):
                return [ForgetFailing(person)] if self.failures.clear(person) else []
            case Shared():
                return self._shared(event, now)
            case Written():
                return self._written(event, now)
            case Granted():
                return self._granted(event)
            case Ticked():
                return self._ticked(now)
            case _:
                work = self._works.get(event.id)
                return [] if work is None else self._go_on(work, event, now)

    def holds(self, id_: str) -> bool:
        """Whether a message is known that is not final."""
        return id_ in self._works

    @property
    def finished_count(self) -> int:
        """How many final messages are remembered."""
        return len(self._finished)

    def spooled(self, id_: str) -> Spooled | None:
        """A message that is not final, as far as it is decided; None: there is none."""
        work = self._works.get(id_)
        return None if work is None else Spooled(work.message, tuple(work.chunks.values()))

    def unfinished(self) -> list[tuple[Spooled, State]]:
        """All messages that are not final, the oldest first."""
        works = sorted(self._works.values(), key=lambda work: (work.message.accepted, work.message.id))
        return [(Spooled(work.message, tuple(work.chunks.values())), work.state) for work in works]

    def _open(self, spooled: Spooled) -> Work:
        work = Work(
            spooled.message,
            {chunk.number: chunk for chunk in spooled.chunks},
            {person for chunk in spooled.chunks for person in chunk.people},
        )
        work.chunks_at = {chunk.number: 0.0 for chunk in spooled.chunks if chunk.waiting}
        self._works[work.message.id] = work
        self._finished.pop(work.message.id, None)
        return work

    def _accepted(self, event: Accepted, now: Now) -> list[Effect]:
        work = self._works.get(event.id)
        if work is not None:
            known, chunks = work.message, tuple(work.chunks.values())
        elif event.earlier is not None:
            known, chunks = event.earlier.message, event.earlier.chunks
        else:
            known = Message(
                event.id,
                event.sender,
                now.date,
                (),
                needs_smtputf8=event.needs_smtputf8,
                author=event.author,
                subject=event.subject,
            )
            chunks = ()
        places = {each.place for each in known.destinations}
        released = {each.place: each for each in event.destinations if each.standing is Standing.GOES}
        before = tuple(
            released[each.place] if each.place in released and each.waits_for_its_author else each
            for each in known.destinations
        )
        fresh = tuple(each for each in event.destinations if each.place not in places)
        if not fresh and before == known.destinations:
            # What was accepted is safe once it is written, which it may not be yet: this is written behind it.
            return [Answer(event.transaction)] if work is None else [Save(known), Answer(event.transaction)]
        message = replace(
            known,
            destinations=(*before, *fresh),
            addressed=tuple(sorted({*known.addressed, *event.addressed})),
            accepted=now.date if work is None else known.accepted,
            state=State.RESOLVING,
            is_dropped=False,
        )
        content = event.content if work is None else None
        if work is None:
            work = self._open(Spooled(message, chunks))
        is_more_asked = before != known.destinations or any(each.standing is Standing.GOES for each in fresh)
        work.message = message
        self._notes.add(message)
        more = self._ask(work) if is_more_asked else []
        return [Save(work.message, content=content), Answer(event.transaction), *more]

    def _ask(self, work: Work) -> list[Effect]:
        """Ask who is in the lists, unless that is being asked: then it is asked once more, with the answer."""
        work.resolve_at = None
        work.message = replace(work.message, revision="")
        if work.is_resolving or not work.going:
            return []
        work.is_resolving = True
        return [Resolve(work.message.id, work.going)]

    def _go_on(self, work: Work, event: Event, now: Now) -> list[Effect]:
        match event:
            case Resolved():
                return self._resolved(work, event, now)
            case NotResolved(_, why):
                return self._not_resolved(work, why, now)
            case Posted():
                return self._posted(work, event, now)
            case NotPosted(_, why):
                return self._not_posted(work, why, now)
            case ListGone(_, at):
                work.is_resolving = False
                self._set_standing(work, Standing.GOES, Standing.DROPPED, "the list was deleted", at)
                return self._saved_then(work, self._ask(work), now)
            case Handed():
                return self._handed(work, event, now)
            case Retried():
                work.chunks_at = dict.fromkeys(work.chunks_at, now.ticks)
                asked = self._ask(work) if work.resolve_at is not None else []
                posted = work.send_shares() if work.post_at is not None else []
                return [*asked, *posted, *self._due_chunks(work, now)]
            case Dropped():
                return self._dropped(work, now)
            case Approved():
                if not self._set_standing(work, Standing.HELD, Standing.GOES, ""):
                    return []
                return self._saved_then(work, self._ask(work), now)
            case Rejected():
                self._set_standing(work, Standing.HELD, Standing.DROPPED, "rejected")
                return self._saved_then(work, [], now)
            case Accepted() | Bounced() | Cleared() | Shared() | Written() | Granted() | Ticked():
                raise AssertionError(event)
            case _:
                assert_never(event)

    def _resolved(self, work: Work, event: Resolved, now: Now) -> list[Effect]:
        if not work.is_resolving:
            return []
        work.is_resolving = False
        if self._is_any_too_large(work, event):
            return self._saved_then(work, self._ask(work), now)
        is_asked_again = bool(event.missing) and not event.is_lasting and not self._is_too_old(work, now)
        chunks = [] if work.message.is_dropped else self._new_chunks(work, event, is_last=not is_asked_again)
        work.take(chunks)
        attempts = work.message.attempts + 1 if is_asked_again else 0
        is_whole_set = tuple(work.going) == event.asked
        work.message = replace(
            work.message,
            missing=event.missing,
            revision=str(event.revision) if is_whole_set else "",
            attempts=attempts,
        )
        more: list[Effect] = [HandOver(work.message, chunk) for chunk in chunks]
        more += shares_for(work, event, is_last=not is_asked_again)
        if not is_whole_set:
            more += self._ask(work)
        elif is_asked_again and not work.message.is_dropped:
            work.resolve_at = now.ticks + delay_s(attempts)
        return self._saved_then(work, more, now, chunks)

    def _is_any_too_large(self, work: Work, event: Resolved) -> bool:
        """Hold what reaches more people than may be without an owner's word; returns whether there is such a list."""
        destinations = work.message.destinations
        if work.message.is_dropped or all(each.people_limit is None for each in destinations):
            return False
        counts = Counter(at for person, at in dict(event.people).items() if person not in work.reached)
        for chunk in work.chunks.values():
            # Whom the own share named is counted by `own`.
            if chunk.revision or not destinations[chunk.destination].goes_by_shares:
                counts[chunk.destination] += len(chunk.people)
        for share in (*event.shares, *event.own):
            counts[share.destination] += share.people
        work.message = replace(
            work.message, destinations=tuple(each.held_if_large(counts[at]) for at, each in enumerate(destinations))
        )
        self._notes.add(work.message)
        return work.message.destinations != destinations

    def _new_chunks(self, work: Work, event: Resolved, *, is_last: bool) -> list[Chunk]:
        """`is_last`: nothing that is missing is asked for again."""
        waits = {at for at, each in enumerate(work.message.destinations) if each.waits_for_all and not is_last}
        people = (*event.people, *event.unsure) if is_last else event.people
        return self._chunks(work, [each for each in people if each[1] not in waits], str(event.revision))

    def _chunks(self, work: Work, people: Iterable[tuple[MemberId, int]], revision: str) -> list[Chunk]:
        """Chunks of those who are to get it, each person with the position of a destination."""
        return chunks_of(work, [each for each in people if not self.failures.is_suppressed(each[0])], revision)

    def _posted(self, work: Work, event: Posted, now: Now) -> list[Effect]:
        if not work.is_posting or work.message.post is None:
            return []
        work.is_posting = False
        is_dropped, post = work.message.is_dropped, work.message.post
        if event.destinations != post.destinations and not is_dropped:
            return self._saved_then(work, work.send_shares(), now)
        is_settled = event.is_spread and not event.away
        post = replace(post, is_settled=is_settled, is_spread=event.is_spread, away=event.away, lost=event.lost, why="")
        if is_settled and work.message.own_people and not (post.is_here or is_dropped):
            work.own_until = now.ticks + OWN_SHARE_S
        return self._looked(work, post, now)

    def _not_posted(self, work: Work, why: str, now: Now) -> list[Effect]:
        if not work.is_posting or work.message.post is None:
            return []
        work.is_posting = False
        return self._looked(work, replace(work.message.post, why=why), now)

    def _looked(self, work: Work, post: PostState, now: Now) -> list[Effect]:
        """Look again some time later, unless all servers have their shares or it is too late."""
        post = replace(post, attempts=post.attempts + 1)
        if not post.is_settled:
            if work.message.is_dropped or self._is_too_old(work, now):
                post = replace(post, is_settled=True, away=(), lost=(*post.lost, *post.away))
            else:
                work.post_at = now.ticks + min(LONGEST_LOOK_S, 2 ** min(post.attempts, 10))
        work.message = replace(work.message, post=post)
        return self._saved_then(work, [], now)

    def _shared(self, event: Shared, now: Now) -> list[Effect]:
        answer, work = Answer(event.transaction), self._works.get(event.id)
        earlier = event.earlier if work is None else Spooled(work.message, tuple(work.chunks.values()))
        found = with_share(event, None if earlier is None else earlier.message, now.date)
        if found is None:
            return [answer]
        message, people = found
        content = event.content if work is None else None
        if work is None:
            work = self._open(Spooled(message, () if earlier is None else earlier.chunks))
        work.message = message
        if message.post is not None and message.post.is_here:
            work.own_until = None
        chunks = [] if message.is_dropped else self._chunks(work, people, "")
        work.take(chunks)
        saved = self._settled(work, now, tuple(chunks)) or [Save(work.message, tuple(chunks), content)]
        return [*saved, answer, *(HandOver(work.message, chunk) for chunk in chunks)]

    def _not_resolved(self, work: Work, why: str, now: Now) -> list[Effect]:
        if not work.is_resolving:
            return []
        work.is_resolving = False
        attempts = work.message.attempts + 1
        work.message = replace(work.message, missing=why, attempts=attempts)
        if not work.message.is_dropped and not self._is_too_old(work, now):
            work.resolve_at = now.ticks + delay_s(attempts)
        return self._saved_then(work, [], now)

    def _handed(self, work: Work, event: Handed, now: Now) -> list[Effect]:
        if event.chunk not in work.under_way:
            return []
        work.under_way.discard(event.chunk)
        chunk = work.chunks[event.chunk]
        bounced, deferred = {**chunk.bounced, **event.refused}, dict(event.deferred)
        if deferred and (work.message.is_dropped or self._is_too_old(work, now)):
            given_up = "dropped" if work.message.is_dropped else "given up"
            bounced |= {index: f"{given_up}: {why}" for index, why in deferred.items()}
            deferred = {}
        chunk = replace(
            chunk,
            waiting=tuple(sorted(deferred)),
            bounced=bounced,
            attempts=chunk.attempts + 1,
            why=next(iter(deferred.values()), ""),
        )
        work.chunks[event.chunk] = chunk
        if deferred:
            work.chunks_at[event.chunk] = now.ticks + delay_s(chunk.attempts)
        failed = [(chunk.people[at], why) for at, why in event.refused.items() if at in event.unknown]
        more = self._failed(work.message, chunk, failed, now)
        return [*self._saved_then(work, [], now, [chunk]), *more]

    def _failed(self, message: Message, chunk: Chunk, people: Iterable[tuple[MemberId, str]], now: Now) -> list[Effect]:
        """Somebody cannot be reached, as far as one message tells."""
        effects: list[Effect] = []
        for person, why in people:
            if message.is_probe:
                effects += map(Keep, self.failures.probe_failed(person, message.id, why, now.date))
                continue
            place = message.destinations[chunk.destination]
            failure = Failure(person, replace(place, address=place.return_address), why)
            effects += map(Keep, self.failures.failed(failure, now.date))
            probe = self.failures.probe_of(person, now.date)
            if probe is not None:
                failing, letter, content = probe
                effects += [*self._letter(letter, person, content), Keep(failing)]
        return effects

    def _letter(self, message: Message, person: MemberId, content: bytes) -> list[Effect]:
        """Begin one that was not begun; it goes when time passes."""
        chunk = Chunk(message.id, 0, 0, (person,), (0,), is_international=not person.isascii())
        self._open(Spooled(message, (chunk,)))
        return [Save(message, (chunk,), content)]

    def _dropped(self, work: Work, now: Now) -> list[Effect]:
        work.message = replace(work.message, is_dropped=True)
        work.resolve_at = work.post_at = work.own_until = None
        for standing in (Standing.GOES, Standing.HELD):
            self._set_standing(work, standing, Standing.DROPPED, "dropped")
        changed = []
        for number in work.chunks_at:
            chunk = work.chunks[number]
            bounced = {**chunk.bounced, **dict.fromkeys(chunk.waiting, "dropped")}
            changed.append(replace(chunk, waiting=(), bounced=bounced, why=""))
            work.chunks[number] = changed[-1]
        work.chunks_at.clear()
        return self._saved_then(work, [], now, changed)

    def _bounced(self, event: Bounced, now: Now) -> list[Effect]:
        work = self._works.get(event.id)
        found = [*work.chunks.values()] if work is not None else [*event.earlier.chunks] if event.earlier else []
        chunk = next((each for each in found if each.number == event.chunk), None)
        if chunk is None or event.index in chunk.bounced or event.index in chunk.waiting:
            return []
        chunk = replace(chunk, bounced={**chunk.bounced, event.index: event.why})
        if work is not None:
            work.chunks[event.chunk] = chunk
            message = work.message
        else:
            assert event.earlier is not None, "a chunk was found"
            message = event.earlier.message
            message = replace(message, done=message.done - 1, bounced=message.bounced + 1)
        failed = [(chunk.people[event.index], event.why)]
        return [Save(message, (chunk,)), *self._failed(message, chunk, failed, now)]

    def _written(self, event: Written, now: Now) -> list[Effect]:
        answer, id_ = Answer(event.transaction), event.message.id
        known = self._works.get(id_)
        if known is not None:
            # It is safe once it is written, which it may not be yet: this is written behind it.
            return [Save(known.message), answer]
        if id_ in self._finished:
            return [answer]
        saved = self._letter(event.message, event.person, event.content)
        return [*saved, answer, *self._due_chunks(self._works[id_], now)]

    def _granted(self, event: Granted) -> list[Effect]:
        work = self._works.get(event.id)
        if work is not None:
            work.message = replace(work.message, wish=None)
            return [Save(work.message)]
        return [] if event.earlier is None else [Save(replace(event.earlier.message, wish=None))]

    def _ticked(self, now: Now) -> list[Effect]:
        effects = [*self._due_notes(now), *self._due_digests(now)]
        for work in list(self._works.values()):
            if work.resolve_at is not None and work.resolve_at <= now.ticks:
                effects += self._ask(work)
            if work.post_at is not None and work.post_at <= now.ticks:
                effects += work.send_shares()
            if work.own_until is not None and work.own_until <= now.ticks:
                work.own_until = None
                work.message = work.message.without_own_share
            if work.message.is_dropped and work.chunks_at:
                effects += self._dropped(work, now)
                continue
            effects += self._due_chunks(work, now)
            effects += self._settled(work, now)
        for id_, ended in list(self._finished.items()):
            if now.date > ended + KEPT_FOR_S:
                del self._finished[id_]
                effects.append(Forget(id_))
        return effects

    def _due_notes(self, now: Now) -> list[Effect]:
        effects: list[Effect] = []
        for about in self._notes.due(now.ticks):
            noted = [
                Noted(work.message, destination)
                for group, id_ in about
                if (work := self._works.get(id_)) is not None
                for destination in work.message.destinations
                if destination.is_to_note and destination.group == group
            ]
            if not noted:
                continue
            message, content = note_about(noted, now.date)
            told: list[Effect] = []
            for each in noted:
                work = self._works[each.message.id]
                work.message = without_note(work.message, each.destination.group)
                told.append(Save(work.message))
            effects += self._note(message, content, told)
        return effects

    def _due_digests(self, now: Now) -> list[Effect]:
        effects: list[Effect] = [ForgetFailing(person) for person in self.failures.outdated(now.date)]
        for digest in self.failures.due_digests(now.date):
            effects += [*self._note(*digest_note(digest, now.date)), ForgetDigest(digest.group)]
        return effects

    def _note(self, message: Message, content: bytes, told: Iterable[Effect] = ()) -> list[Effect]:
        """Write to owners, unless they were written just that; `told`: what is to be durable with it."""
        if message.id in self._works or message.id in self._finished:
            return [*told]
        note = self._open(Spooled(message, ()))
        return [Save(message, content=content), *told, *self._ask(note)]

    def _due_chunks(self, work: Work, now: Now) -> list[Effect]:
        due = [number for number, at in work.chunks_at.items() if at <= now.ticks]
        for number in due:
            del work.chunks_at[number]
            work.under_way.add(number)
        return [HandOver(work.message, work.chunks[number]) for number in due]

    @staticmethod
    def _set_standing(work: Work, old: Standing, new: Standing, why: str, only: int | None = None) -> bool:
        changed = tuple(
            # Whoever let it go, or drops it, has seen it.
            replace(each, standing=new, why=why, is_to_note=False, people_limit=None)
            if each.standing is old and only in (None, at)
            else each
            for at, each in enumerate(work.message.destinations)
        )
        is_changed = changed != work.message.destinations
        work.message = replace(work.message, destinations=changed)
        return is_changed

    def _saved_then(
        self, work: Work, effects: Iterable[Effect], now: Now, chunks: Iterable[Chunk] = ()
    ) -> list[Effect]:
        settled = self._settled(work, now, tuple(chunks))
        return settled or [Save(work.message, tuple(chunks)), *effects]

    def _settled(self, work: Work, now: Now, chunks: tuple[Chunk, ...] = ()) -> list[Effect]:
        """End a message of which nothing more becomes."""
        if not work.is_over or work.message.is_held or work.message.is_to_note:
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
        del self._works[message.id]
        self._finished[message.id] = now.date
        return [Save(message, chunks)]

    @staticmethod
    def _is_too_old(work: Work, now: Now) -> bool:
        return now.date > work.message.accepted + TRIED_FOR_S
