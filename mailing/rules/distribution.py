"""The course of all messages: `step(event, now) -> effects`, without clock, socket or randomness.

    accepted -> [held ->] resolving -> sending <-> waiting -> done, and forgotten after some days

Invariants: a person is in at most one chunk of a message, so no message is handed over to a person twice. Two
exceptions exist: the gateway was killed within a transaction, or the mail server took a chunk and its reply was lost.
Each state that an effect makes visible was made durable by an earlier effect. Events may be late, repeated, or about
forgotten messages. Owners are told of each message that a list holds or drops. A kill may repeat that note.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from mailing.rules.active_messages import (
    ActiveMessage,
    chunks_of,
    is_share_on_its_way,
    mailboxes_in,
    shares_for,
    with_own_share,
    with_share,
)
from mailing.rules.addresses import mailbox_of
from mailing.rules.admissions import Admissions
from mailing.rules.events import (
    Admitted,
    Approved,
    Bounced,
    Cleared,
    Complained,
    Dropped,
    Effect,
    Event,
    Forget,
    ForgetFailing,
    Granted,
    Handed,
    HandOver,
    Keep,
    ListGone,
    MessageTaken,
    NotAdmitted,
    NoteWritten,
    NotResolved,
    Now,
    Rejected,
    Resolved,
    Retried,
    Save,
    Shared,
    SharesNotSent,
    SharesSent,
    Spooled,
    TellSafe,
    Ticked,
)
from mailing.rules.failures import Failures
from mailing.rules.giving_up import organisation_of
from mailing.rules.in_progress import InProgress
from mailing.rules.joining import REJECTED
from mailing.rules.own_messages import OwnMessages
from mailing.rules.retries import TRIED_FOR_S, delay_s
from mailing.rules.spooled import Chunk, MailMessage, MailState, PostState, Standing
from shadowtree.vocabulary import GroupId, MemberId

LONGEST_LOOK_S = 300
"""Longest time between two looks at the progress of shares, in seconds."""
OWN_SHARE_S = 60
"""Wait for the own share once all servers have their shares, in seconds.

The people of the own share may have left, so the share may never come.
"""
KEPT_FOR_S = 7 * 86_400
"""Time for which a final message is remembered, in seconds. Later the same message counts as another message."""


class Distribution:
    """All messages that are not final, and the end of the memory of final messages."""

    def __init__(
        self,
        spooled: Iterable[Spooled],
        finished: Iterable[MailMessage],
        failures: Failures | None = None,
        *,
        secret: bytes,
    ) -> None:
        """Resume unfinished messages. Their work continues as time passes.

        `spooled`: messages that were not final when the gateway ended. `secret`: secret of the tokens by which owners
        decide.
        """
        self.failures = failures or Failures()
        self._in_progress = InProgress(finished)
        self._admissions = Admissions(self._in_progress)
        self._own = OwnMessages(self._in_progress, self.failures, self._admissions, secret)
        for each in spooled:
            work = self._in_progress.open(each)
            self._in_progress.notes.add(each.message)
            if work.going and (not each.message.revision or each.message.attempts):
                work.resolve_at = 0.0
            if each.message.is_request and not (each.chunks or each.message.is_held or each.message.is_dropped):
                work.admit_at = 0.0
            if each.message.post is not None and not each.message.is_dropped:
                work.post_at = 0.0

    def step(self, event: Event, now: Now) -> list[Effect]:
        """Return the effects of an event, in the order in which they are to be carried out."""
        match event:
            case MessageTaken():
                return self._accepted(event, now)
            case Bounced():
                return self._bounced(event, now)
            case Complained(person, destination):
                return [Keep(each) for each in self.failures.complained(person, destination, now.date)]
            case Cleared(person):
                return [ForgetFailing(person)] if self.failures.clear(person) else []
            case Shared():
                return self._shared(event, now)
            case NoteWritten():
                return self._own.written(event, now)
            case Granted():
                return self._own.granted(event)
            case Ticked():
                return self._ticked(now)
            case _:
                work = self._in_progress.works.get(event.id)
                return [] if work is None else self._go_on(work, event, now)

    def holds(self, id_: str) -> bool:
        """Return True if a message is known and not final."""
        return id_ in self._in_progress.works

    @property
    def finished_count(self) -> int:
        """Number of final messages that are remembered."""
        return len(self._in_progress.finished)

    def spooled(self, id_: str) -> Spooled | None:
        """Return an unfinished message, as decided so far. None if there is none."""
        return self._in_progress.spooled(id_)

    def requests(self, group: GroupId) -> list[MailMessage]:
        """Return the undecided requests to join a list."""
        works = self._in_progress.works.values()
        return [work.message for work in works if work.message.is_request_for(group)]

    def unfinished(self) -> list[tuple[Spooled, MailState]]:
        """Return all messages that are not final, the oldest first."""
        return self._in_progress.unfinished()

    def _accepted(self, event: MessageTaken, now: Now) -> list[Effect]:
        work = self._in_progress.works.get(event.id)
        if work is not None:
            known, chunks = work.message, tuple(work.chunks.values())
        elif event.earlier is not None:
            known, chunks = event.earlier.message, event.earlier.chunks
        else:
            known = MailMessage(
                event.id,
                event.sender,
                now.date,
                (),
                needs_smtputf8=event.needs_smtputf8,
                author=event.author,
                subject=event.subject,
                answerable=event.answerable,
                message_id=event.message_id,
                likeness=event.likeness,
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
            # An accepted message is safe once it is written. That write may be pending, and this write follows it.
            return [TellSafe(event.transaction)] if work is None else [Save(known), TellSafe(event.transaction)]
        message = replace(
            known,
            destinations=(*before, *fresh),
            addressed=tuple(sorted({*known.addressed, *event.addressed})),
            accepted=now.date if work is None else known.accepted,
            state=MailState.RESOLVING,
            is_dropped=False,
        )
        content = event.content if work is None else None
        if work is None:
            work = self._in_progress.open(Spooled(message, chunks))
        work.reached.update(event.reached)
        is_more_asked = before != known.destinations or any(each.standing is Standing.GOES for each in fresh)
        work.message = message
        self._in_progress.notes.add(message)
        more = work.ask() if is_more_asked else []
        return [Save(work.message, content=content), TellSafe(event.transaction), *more]

    def _go_on(self, work: ActiveMessage, event: Event, now: Now) -> list[Effect]:
        match event:
            case Resolved():
                return self._resolved(work, event, now)
            case NotResolved():
                return self._not_resolved(work, event, now)
            case SharesSent():
                return self._posted(work, event, now)
            case SharesNotSent(_, why):
                return self._not_posted(work, why, now)
            case ListGone(_, at):
                work.is_resolving = False
                work.set_standing(Standing.GOES, Standing.DROPPED, "the list was deleted", only=at)
                return self._in_progress.saved_then(work, work.ask(), now)
            case Handed():
                return self._handed(work, event, now)
            case Retried():
                work.chunks_at = dict.fromkeys(work.chunks_at, now.ticks)
                asked = work.ask() if work.resolve_at is not None else []
                posted = work.send_shares() if work.post_at is not None else []
                admitted = work.admit() if work.admit_at is not None else []
                return [*asked, *posted, *admitted, *work.due_chunks(now)]
            case Dropped(_, ""):
                return self._dropped(work, now)
            case Dropped(_, server):
                return self._dropped_for(work, server, now)
            case Approved(_, group):
                if work.message.is_request:
                    return self._admissions.decided(work, Standing.GOES, "", now, group)
                if not work.set_standing(Standing.HELD, Standing.GOES, "", group=group):
                    return []
                work.message = replace(work.message, released=now.date)
                return self._in_progress.saved_then(work, work.ask(), now)
            case Rejected(_, group):
                if work.message.is_request:
                    return self._admissions.decided(work, Standing.DROPPED, REJECTED, now, group)
                if not work.set_standing(Standing.HELD, Standing.DROPPED, REJECTED, group=group):
                    return []
                return self._in_progress.saved_then(work, [], now)
            case Admitted() | NotAdmitted():
                return self._admissions.admitted(work, event, now)
            case (
                MessageTaken() | Bounced() | Complained() | Cleared() | Shared() | NoteWritten() | Granted() | Ticked()
            ):
                raise AssertionError(event)
            case _:
                assert_never(event)

    def _resolved(self, work: ActiveMessage, event: Resolved, now: Now) -> list[Effect]:
        if not work.is_resolving:
            return []
        work.is_resolving = False
        if self._is_any_too_large(work, event):
            return self._in_progress.saved_then(work, work.ask(), now)
        is_waited_for = not (event.is_lasting or self._is_too_old(work, now) or _is_dropped_for(work, event.away))
        is_asked_again = bool(event.missing) and is_waited_for
        chunks = [] if work.message.is_dropped else self._new_chunks(work, event, is_last=not is_asked_again)
        work.take(chunks)
        attempts = work.message.attempts + 1 if is_asked_again else 0
        work.give_up(event.away if event.missing and not (is_asked_again or event.is_lasting) else ())
        is_whole_set = tuple(work.going) == event.asked
        work.message = replace(
            work.message,
            missing=event.missing,
            away=event.away if is_asked_again else (),
            revision=str(event.revision) if is_whole_set else "",
            attempts=attempts,
        )
        more: list[Effect] = [HandOver(work.message, chunk) for chunk in chunks]
        more += shares_for(work, event, is_last=not is_asked_again)
        if not is_whole_set:
            more += work.ask()
        elif is_asked_again and not work.message.is_dropped:
            work.resolve_at = now.ticks + delay_s(attempts)
        return self._in_progress.saved_then(work, more, now, chunks)

    def _is_any_too_large(self, work: ActiveMessage, event: Resolved) -> bool:
        """Hold each list that reaches more people than allowed without an owner's word.

        True if there is such a list.
        """
        destinations = work.message.destinations
        if work.message.is_dropped or all(each.people_limit is None for each in destinations):
            return False
        counts = Counter(at for person, at in dict(event.people).items() if mailbox_of(person) not in work.reached)
        for chunk in work.chunks.values():
            # The people that the own share named are counted by `own`.
            if chunk.revision or not destinations[chunk.destination].goes_by_shares:
                counts[chunk.destination] += len(chunk.people)
        for share in (*event.shares, *event.own):
            counts[share.destination] += share.people
        work.message = replace(
            work.message, destinations=tuple(each.held_if_large(counts[at]) for at, each in enumerate(destinations))
        )
        self._in_progress.notes.add(work.message)
        return work.message.destinations != destinations

    def _new_chunks(self, work: ActiveMessage, event: Resolved, *, is_last: bool) -> list[Chunk]:
        """Return the chunks of newly resolved people. `is_last`: True if the missing parts are not resolved again."""
        waits = {at for at, each in enumerate(work.message.destinations) if each.waits_for_all and not is_last}
        people = (*event.people, *event.unsure) if is_last else event.people
        return self._chunks(work, [each for each in people if each[1] not in waits], str(event.revision))

    def _chunks(self, work: ActiveMessage, people: Iterable[tuple[MemberId, int]], revision: str) -> list[Chunk]:
        """Return chunks of the people that are not suppressed.

        `people`: each person with the position of a destination.
        """
        return chunks_of(work, [each for each in people if not self.failures.is_suppressed(each[0])], revision)

    def _posted(self, work: ActiveMessage, event: SharesSent, now: Now) -> list[Effect]:
        if not work.is_posting or work.message.post is None:
            return []
        work.is_posting = False
        is_dropped, post = work.message.is_dropped, work.message.post
        if event.destinations != post.destinations and not is_dropped:
            return self._in_progress.saved_then(work, work.send_shares(), now)
        dropped = tuple(server for server in event.away if server in work.message.dropped_for)
        away = tuple(server for server in event.away if server not in dropped)
        is_settled = not away and (event.is_spread or bool(dropped))
        lost = (*event.lost, *dropped)
        post = replace(post, is_settled=is_settled, is_spread=event.is_spread, away=away, lost=lost, why="")
        if is_settled and work.message.own_people and not (post.is_here or is_dropped):
            work.own_until = now.ticks + OWN_SHARE_S
        return self._looked(work, post, now)

    def _not_posted(self, work: ActiveMessage, why: str, now: Now) -> list[Effect]:
        if not work.is_posting or work.message.post is None:
            return []
        work.is_posting = False
        return self._looked(work, replace(work.message.post, why=why), now)

    def _looked(self, work: ActiveMessage, post: PostState, now: Now) -> list[Effect]:
        """Plan another look, unless all servers have their shares or the time is over."""
        post = replace(post, attempts=post.attempts + 1)
        if not post.is_settled:
            if work.message.is_dropped or self._is_too_old(work, now):
                post = replace(post, is_settled=True, away=(), lost=(*post.lost, *post.away))
            else:
                work.post_at = now.ticks + min(LONGEST_LOOK_S, 2 ** min(post.attempts, 10))
        work.message = replace(work.message, post=post)
        work.give_up(work.message.given_up)
        return self._in_progress.saved_then(work, [], now)

    def _shared(self, event: Shared, now: Now) -> list[Effect]:
        answer, work = TellSafe(event.transaction), self._in_progress.works.get(event.id)
        earlier = event.earlier if work is None else work.spooled
        known = None if earlier is None else earlier.message
        if event.is_own:
            if earlier is None or known is None or not is_share_on_its_way(event, known, is_final=work is None):
                return [TellSafe(event.transaction, is_refused=True)]
            message, people = with_own_share(event, known)
            has_come = known.post is not None and known.post.is_here
            reached = mailboxes_in(earlier.chunks) | event.reached if work is None else work.reached
            if known.is_dropped or (has_come and all(mailbox_of(person) in reached for person, _ in people)):
                # A share comes again after servers that were away have named further people for it here.
                return [answer]
        else:
            found = with_share(event, known, now.date)
            if found is None:
                return [TellSafe(event.transaction, is_refused=True)]
            message, people = found
        content = event.content if work is None else None
        if work is None:
            work = self._in_progress.open(Spooled(message, () if earlier is None else earlier.chunks))
        work.reached.update(event.reached)
        work.message = message
        if message.post is not None and message.post.is_here:
            work.own_until = None
        chunks = [] if message.is_dropped else self._chunks(work, people, "")
        work.take(chunks)
        saved = self._in_progress.settled(work, now, tuple(chunks)) or [Save(work.message, tuple(chunks), content)]
        return [*saved, answer, *(HandOver(work.message, chunk) for chunk in chunks)]

    def _not_resolved(self, work: ActiveMessage, event: NotResolved, now: Now) -> list[Effect]:
        if not work.is_resolving:
            return []
        work.is_resolving = False
        attempts = work.message.attempts + 1
        is_given_up = self._is_too_old(work, now) or _is_dropped_for(work, event.away)
        away = () if is_given_up else event.away
        work.message = replace(work.message, missing=event.why, away=away, attempts=attempts)
        if is_given_up:
            work.give_up(event.away or {organisation_of(each.group) for each in work.going.values()})
        elif not work.message.is_dropped:
            work.resolve_at = now.ticks + delay_s(attempts)
        return self._in_progress.saved_then(work, [], now)

    def _handed(self, work: ActiveMessage, event: Handed, now: Now) -> list[Effect]:
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
        more = self._own.failed(work.message, chunk, failed, now)
        return [*self._in_progress.saved_then(work, [], now, [chunk]), *more]

    def _dropped(self, work: ActiveMessage, now: Now) -> list[Effect]:
        work.message = replace(work.message, is_dropped=True, given_up=())
        work.resolve_at = work.post_at = work.own_until = work.admit_at = None
        for standing in (Standing.GOES, Standing.HELD):
            work.set_standing(standing, Standing.DROPPED, "dropped")
        changed = []
        for number in work.chunks_at:
            chunk = work.chunks[number]
            bounced = {**chunk.bounced, **dict.fromkeys(chunk.waiting, "dropped")}
            changed.append(replace(chunk, waiting=(), bounced=bounced, why=""))
            work.chunks[number] = changed[-1]
        work.chunks_at.clear()
        return self._in_progress.saved_then(work, [], now, changed)

    def _dropped_for(self, work: ActiveMessage, server: str, now: Now) -> list[Effect]:
        """Look again now, and stop waiting for one server."""
        dropped_for = tuple(sorted({*work.message.dropped_for, server}))
        work.message = replace(work.message, dropped_for=dropped_for)
        asked = work.ask() if work.resolve_at is not None else []
        posted = work.send_shares() if work.post_at is not None else []
        return self._in_progress.saved_then(work, [*asked, *posted], now)

    def _bounced(self, event: Bounced, now: Now) -> list[Effect]:
        work = self._in_progress.works.get(event.id)
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
        return [Save(message, (chunk,)), *self._own.failed(message, chunk, failed, now)]

    def _ticked(self, now: Now) -> list[Effect]:
        effects = self._own.due(now)
        for work in list(self._in_progress.works.values()):
            if work.resolve_at is not None and work.resolve_at <= now.ticks:
                effects += work.ask()
            if work.post_at is not None and work.post_at <= now.ticks:
                effects += work.send_shares()
            if work.own_until is not None and work.own_until <= now.ticks:
                work.own_until = None
                work.message = work.message.without_own_share
            effects += self._admissions.due(work, now)
            if work.message.is_dropped and work.chunks_at:
                effects += self._dropped(work, now)
                continue
            effects += work.due_chunks(now)
            effects += [*self._own.gave_up(work, now), *self._in_progress.settled(work, now)]
        for id_, ended in list(self._in_progress.finished.items()):
            if now.date > ended + KEPT_FOR_S:
                del self._in_progress.finished[id_]
                effects.append(Forget(id_))
        return effects

    @staticmethod
    def _is_too_old(work: ActiveMessage, now: Now) -> bool:
        return now.date > max(work.message.accepted, work.message.released) + TRIED_FOR_S


def _is_dropped_for(work: ActiveMessage, away: Iterable[str]) -> bool:
    """Return True if an operator has stopped waiting for all servers that are out of reach. False if none is."""
    out_of_reach = set(away)
    return bool(out_of_reach) and out_of_reach <= {*work.message.dropped_for}
