"""Driver of the course of messages: it takes events, makes their effects durable, and then carries them out.

One thread writes. One commit writes all effects that came meanwhile. While the database is full or away, no new message
is accepted, and decided effects wait in their order.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from mailing.rules.addresses import mailbox_of
from mailing.rules.deciding import Decidable
from mailing.rules.distribution import Distribution
from mailing.rules.events import (
    Admit,
    Bounced,
    Change,
    Complained,
    Effect,
    Event,
    Forget,
    Granted,
    HandOver,
    Keep,
    MessageTaken,
    NoteWritten,
    Now,
    Resolve,
    Save,
    SendShares,
    Shared,
    Spooled,
    TellSafe,
    Ticked,
)
from mailing.rules.failures import Failing, Failures
from mailing.rules.intake import FULL, NOT_COUNTED, OWN_BOUNCE, SAFE, RecipientReply
from mailing.rules.message import id_of
from mailing.rules.plurals import counted
from mailing.rules.queue import UNFINISHED_STATES, Stats, held_by_nobody
from mailing.rules.reports import FailureReport
from mailing.rules.return_path import BouncePlace, token_of
from mailing.rules.returned import Distributed, lists_that_took
from mailing.rules.spooled import FINAL_STATES, MailMessage, MailState, People
from mailing.shell.log import say
from mailing.shell.sealing import SEALS
from mailing.spool.store import Spool, SpoolContents, SpoolError, SpoolInterruptedError, SpoolLostError
from shadowtree.vocabulary import GroupId, MemberId

TICK_SECONDS = 1.0
TRIED_AGAIN_SECONDS = 1.0
"""Pause between attempts while the database takes nothing, in seconds."""
COPIES_KEPT = 8
"""Most messages whose content is held while they are handed over."""


KNOWN_KEPT = 4
"""Most messages that are held while reports of them come. A message to 50,000 people takes some 15 MB."""
COUNTED, FOREIGN, STRANGER, REPEATED = "counted", "foreign", "stranger", "repeated"
"""Results of a report: it counts; its token is foreign or too old; the message did not go to the person; it came
before.
"""
TAKEN, REFUSED, DEFERRED = COPIES = ("taken", "refused", "deferred")
COMPLAINED, UNPROVEN = "complained", "unproven"
"""Results of a complaint: a person gets no more mail of a list; the report proves no person."""
AUTHORS = ("confirmed", "unconfirmed")
"""Results of the confirmation of an author."""
REPORTS = (COUNTED, REPEATED, FOREIGN, STRANGER, COMPLAINED, UNPROVEN)


class _DecidedMessage:
    """A message as it was decided last, with an index of its people."""

    def __init__(self, spooled: Spooled) -> None:
        self.message = spooled.message
        self.chunks = {chunk.number: chunk for chunk in spooled.chunks}
        self.people = People(spooled.chunks)

    def follow(self, change: Save) -> None:
        """Take a newer decision about the message."""
        self.message = change.message
        for chunk in change.chunks:
            self.chunks[chunk.number] = chunk
            self.people.add(chunk)


class Spooling:
    """All messages of a gateway. `resolve`, `post`, `admit` and `hand_over` carry out effects, and `tell` of events."""

    def __init__(self, spool: Spool, found: SpoolContents) -> None:
        self.secret = spool.secret
        self._spool = spool
        self._core = Distribution(
            found.unfinished, found.finished, Failures(found.failing, found.digests), secret=spool.secret
        )
        every = (*(each.message for each in found.unfinished), *found.finished)
        self._decidable = Decidable(spool.secret, every)
        self._distributed = Distributed(every)
        self._ids: dict[str, str] = {}
        """Ids of all messages, by their tokens."""
        self._kin: dict[str, set[str]] = {}
        """Ids of messages of other gateways, by their kinship."""
        self._own_ids: dict[str, str] = {}
        """Kinship of these messages, by id."""
        for each in every:
            self._note(each)
        self._thread = ThreadPoolExecutor(1, "spool")
        self._effects: list[tuple[list[Effect], asyncio.Future[None] | None]] = []
        self._is_wanted = asyncio.Event()
        self._answers: dict[int, asyncio.Future[RecipientReply]] = {}
        self._transactions = itertools.count()
        self._loading = asyncio.Lock()
        self._loaders: set[asyncio.Future[None]] = set()
        self._contents: dict[str, asyncio.Future[bytes]] = {}
        self._known: dict[str, _DecidedMessage] = {}
        """Messages for which reports came last."""
        self.reports: Counter[str] = Counter()
        """Number of reports about people who cannot be reached, by result."""
        self.copies: Counter[str] = Counter()
        """Number of people of transactions with the mail server, by its answer."""
        self.seals: Counter[str] = Counter()
        """Number of seals of messages that are handed over, by result."""
        self.authors: Counter[str] = Counter()
        """Number of messages that came, by the confirmation of their author."""
        self._told_held: set[str] = set()
        """Messages that the log has named as held by a list without owners."""
        self.accepted = 0
        """Number of transactions that brought a message."""
        self._open = {each.message.id for each in found.unfinished}
        self.is_failing = False
        """True if the database took nothing when it was tried last."""
        self.resolve: Callable[[Resolve], Coroutine[Any, Any, None]]
        self.post: Callable[[SendShares], Coroutine[Any, Any, None]]
        self.admit: Callable[[Admit], Coroutine[Any, Any, None]]
        self.hand_over: Callable[[HandOver], None]
        self._resolving: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Do the due work, for ever."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._write())
            group.create_task(self._tick())

    async def close(self) -> None:
        """Write the decided effects, as far as that works, and release the database."""
        for task in self._resolving:
            task.cancel()
        changes = [each for effects, _ in self._effects for each in effects if isinstance(each, Change)]
        try:
            if changes:
                await self._in_thread(self._spool.commit, changes)
        except SpoolError as error:
            say(logging.ERROR, "database_fails", f"what was decided last was not written: {error}")
        await self._in_thread(self._spool.close)
        self._thread.shutdown()

    async def accept(self, event: MessageTaken) -> RecipientReply:
        """Take a message, and return the reply once it is durable."""
        reply = await self._answered(event)
        self.accepted += reply.is_good
        return reply

    async def write(self, event: NoteWritten) -> RecipientReply:
        """Write to a person, and return the reply once the letter is durable."""
        return await self._answered(event)

    async def take(self, event: Shared) -> RecipientReply:
        """Take a share, and return the reply once it is durable."""
        return await self._answered(event)

    async def letter(self, id_: str) -> MailMessage | None:
        """Return a written letter by its id. None if there is none. Raises `SpoolError`."""
        spooled = await self.spooled(id_) if self.knows(id_) else None
        return None if spooled is None or not spooled.message.is_letter else spooled.message

    def decidable(self, token: str) -> tuple[str, GroupId] | None:
        """Return the message and the list that owners decide about by a token. None if there is none."""
        return self._decidable.find(token)

    def requests(self, group: GroupId) -> list[MailMessage]:
        """Return the undecided requests to join a list."""
        return self._core.requests(group)

    def ids_like(self, likeness: str, group: GroupId) -> frozenset[str]:
        """Return the ids of messages with a likeness that a list has distributed lately."""
        return self._distributed.ids_like(likeness, group)

    async def has_distributed(self, id_: str, group: GroupId) -> bool:
        """Return True if a list has distributed a message of this id lately. Raises `SpoolError`."""
        spooled = await self.spooled(id_) if self.knows(id_) else None
        return spooled is not None and group in lists_that_took(spooled.message)

    def id_of(self, place: BouncePlace) -> str:
        """Return the id of the message that a return path belongs to. Empty if it is a foreign path."""
        return self._ids.get(place.token, "")

    def knows(self, id_: str) -> bool:
        """Return True if there is such a message, or was some days ago."""
        return token_of(self.secret, id_) in self._ids

    def id_by_key(self, key: str) -> str:
        """Return the id of the message with a key, if this gateway takes it."""
        # A message that an earlier version took is known by its key, until it is forgotten.
        return key if self.knows(key) else id_of(self.secret, key)

    async def grant(self, id_: str) -> None:
        """Record that the wish of a letter was carried out. Return once that is durable. Raises `SpoolError`."""
        async with self._loading:
            earlier = None if self._core.holds(id_) else await self._load(id_)
            durable = self._stepped(Granted(id_, earlier))
        await durable

    async def _answered(self, event: MessageTaken | Shared | NoteWritten) -> RecipientReply:
        if self.is_failing:
            return FULL
        transaction = next(self._transactions)
        answer: asyncio.Future[RecipientReply] = asyncio.get_running_loop().create_future()
        self._answers[transaction] = answer
        try:
            async with self._loading:
                told: Event = replace(event, transaction=transaction)
                if isinstance(told, MessageTaken | Shared):
                    if self.knows(event.id) and not self._core.holds(event.id):
                        told = replace(told, earlier=await self._load(event.id))
                    told = replace(told, reached=await self._reached_by_kin(told))
                self._step(told)
            return await answer
        except SpoolError:
            return FULL
        finally:
            del self._answers[transaction]

    async def _reached_by_kin(self, event: MessageTaken | Shared) -> frozenset[str]:
        """Return the mailboxes that final messages of the same content have reached."""
        reached, loaded = set[str](), {event.id}
        while True:
            kin = {event.kinship, *self._kin.get(event.kinship, ())} - loaded
            final = [id_ for id_ in kin if self.knows(id_) and not self._core.holds(id_)]
            if not final:
                return frozenset(reached)
            for id_ in final:
                loaded.add(id_)
                if (found := await self._load(id_)) is not None:
                    reached.update(mailbox_of(person) for chunk in found.chunks for person in chunk.people)

    def _note(self, message: MailMessage) -> None:
        self._ids[token_of(self.secret, message.id)] = message.id
        if message.own_id:
            self._own_ids[message.id] = message.own_id
            self._kin.setdefault(message.own_id, set()).add(message.id)

    def _forget(self, id_: str) -> None:
        self._ids.pop(token_of(self.secret, id_), None)
        own_id = self._own_ids.pop(id_, "")
        kin = self._kin.get(own_id, set())
        kin.discard(id_)
        if not kin:
            self._kin.pop(own_id, None)

    async def bounce(self, place: BouncePlace, report: FailureReport) -> RecipientReply:
        """Record a report, and return the reply once it is durable. A forged report has no effect.

        The return path tells the person concerned, however many people the report names.
        """
        id_ = self._ids.get(place.token)
        if id_ is None:
            self.reports[FOREIGN] += 1
            return OWN_BOUNCE
        if self.is_failing:
            return FULL
        try:
            async with self._loading:
                known = await self._known_of(id_)
                at = None if known is None else place.find_in(known.people)
                if known is None or at is None:
                    self.reports[STRANGER] += 1
                    return OWN_BOUNCE
                chunk = known.chunks[at[0]]
                why = report.failure_of(chunk.people[at[1]])
                if why is None:
                    return OWN_BOUNCE
                earlier = None if self._core.holds(id_) else Spooled(known.message, (chunk,))
                durable = self._loader()
                if not self._step(Bounced(id_, *at, why, earlier), durable):
                    self.reports[REPEATED] += 1
                    return OWN_BOUNCE
            group = known.message.destinations[chunk.destination].group
            person = chunk.people[at[1]]
            said = f"{id_}: {person} of {group} bounced: {why}"
            say(logging.INFO, "bounced", said, id=id_, list=group, person=person, why=why)
            self.reports[COUNTED] += 1
            await durable
        except SpoolError:
            return FULL
        return OWN_BOUNCE

    async def complaint(self, place: BouncePlace) -> None:
        """Have owners told of a complaint at a genuine return path. Raises `SpoolError`."""
        id_ = self._ids.get(place.token)
        known = None if id_ is None else await self._known_of(id_)
        at = None if known is None else place.find_in(known.people)
        if known is None or at is None or known.message.is_letter:
            return
        chunk = known.chunks[at[0]]
        group, person = known.message.destinations[chunk.destination], chunk.people[at[1]]
        await self._stepped(Complained(person, group))

    def suppressed(self) -> list[Failing]:
        """Return the people to whom nothing is sent, since mail to them came back."""
        return self._core.failures.suppressed()

    def stats(self) -> Stats:
        """Return the state of the gateway, and its counts since the start."""
        states = Counter(state for _, state in self._core.unfinished())
        return Stats(
            messages={str(state): states[state] for state in UNFINISHED_STATES},
            oldest=min((each.message.accepted for each, _ in self._core.unfinished()), default=0),
            people_waiting=sum(len(chunk.waiting) for each, _ in self._core.unfinished() for chunk in each.chunks),
            kept=self._core.finished_count,
            accepted=self.accepted,
            copies={outcome: self.copies[outcome] for outcome in COPIES},
            reports={outcome: self.reports[outcome] for outcome in REPORTS},
            failing=self._core.failures.count,
            suppressed=len(self._core.failures.suppressed()),
            database_failing=self.is_failing,
            seals={outcome: self.seals[outcome] for outcome in SEALS},
            held_without_owners=sum(bool(held_by_nobody(each.message)) for each, _ in self._core.unfinished()),
            authors={outcome: self.authors[outcome] for outcome in AUTHORS},
        )

    def is_suppressed(self, person: MemberId) -> bool:
        """Return True if nothing is sent to a person."""
        return self._core.failures.is_suppressed(person)

    @property
    def suppression_changes(self) -> int:
        """Counter that rises when the set of suppressed people may have changed."""
        return self._core.failures.suppression_changes

    async def _known_of(self, id_: str) -> _DecidedMessage | None:
        """Return a message with an index of its people. None if it is not here."""
        known = self._known.get(id_)
        if known is None and (found := await self.spooled(id_)) is not None:
            while len(self._known) >= KNOWN_KEPT:
                del self._known[next(iter(self._known))]
            known = self._known[id_] = _DecidedMessage(found)
        return known

    def tell(self, event: Event) -> None:
        """Process an event."""
        self._step(event)

    async def tell_durably(self, event: Event) -> None:
        """Process an event. Return once its effects are durable."""
        await self._stepped(event)

    def unfinished(self) -> list[tuple[Spooled, MailState]]:
        """Return all messages that are not final."""
        return self._core.unfinished()

    async def spooled(self, id_: str) -> Spooled | None:
        """Return one message, final or not. None if it is not here."""
        return self._core.spooled(id_) or await self._load(id_)

    async def content(self, id_: str) -> bytes:
        """Return the received content of a message that is being handed over."""
        found = self._contents.get(id_)
        if found is None:
            while len(self._contents) >= COPIES_KEPT:
                del self._contents[next(iter(self._contents))]
            found = self._contents[id_] = asyncio.ensure_future(self._in_thread(self._spool.content, id_))
        try:
            return await asyncio.shield(found)
        except SpoolError:
            self._contents.pop(id_, None)
            raise

    def _stepped(self, event: Event) -> asyncio.Future[None]:
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._step(event, durable)
        return durable

    def _step(self, event: Event, durable: asyncio.Future[None] | None = None) -> bool:
        """Process an event. True if it had effects."""
        effects = self._core.step(event, read_clocks())
        for effect in effects:
            match effect:
                case Save():
                    self._follow(effect)
                case Keep(Failing(person, group, why=why, probe=probe, suppressed=suppressed)) if probe or suppressed:
                    became = "suppressed" if suppressed else "probed"
                    said = f"{group}: {person} is {became}: {why}"
                    say(logging.INFO, became, said, list=group, person=person, why=why)
        self._effects.append((effects, durable))
        self._is_wanted.set()
        return bool(effects)

    def _follow(self, change: Save) -> None:
        message = change.message
        self._decidable.follow(message)
        self._distributed.follow(message)
        self._note(message)
        if message.id in self._known:
            self._known[message.id].follow(change)
        self._tell_held(message)
        if message.state not in FINAL_STATES:
            self._open.add(message.id)
        elif message.id in self._open:
            self._open.discard(message.id)
            groups = ", ".join(each.group for each in message.destinations)
            people = counted(message.people, "person", "people")
            said = f"{message.id}: {message.state}, for {groups}: {people}, {message.bounced} bounced"
            facts = {"people": message.people, "bounced": message.bounced}
            say(logging.INFO, str(message.state), said, id=message.id, lists=groups, **facts)

    def _tell_held(self, message: MailMessage) -> None:
        """Log a message that a list without owners holds, once: no person is written to, so only the log tells it."""
        groups = held_by_nobody(message)
        if not groups:
            self._told_held.discard(message.id)
        elif message.id not in self._told_held:
            self._told_held.add(message.id)
            lists = ", ".join(groups)
            said = f"{message.id}: held by {lists} without owners: nobody is told; `shadowtree mail held` names it"
            say(logging.WARNING, "held_without_owners", said, id=message.id, lists=lists)

    async def _load(self, id_: str) -> Spooled | None:
        """Load a final message, after all its pending writes."""
        if self._effects:
            written = self._loader()
            self._effects.append(([], written))
            self._is_wanted.set()
            await written
        found: Spooled | None = await self._in_thread(self._spool.load, id_)
        return found

    def _loader(self) -> asyncio.Future[None]:
        """Return a future for a caller who waits until data are written, or cannot be written now."""
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loaders.add(written)
        written.add_done_callback(self._loaders.discard)
        return written

    async def _in_thread(self, work: Callable[..., Any], *arguments: object) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    async def _tick(self) -> None:
        while True:
            self._step(Ticked())
            await asyncio.sleep(TICK_SECONDS)

    async def _write(self) -> None:
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            count = len(self._effects)
            taken = self._effects[:count]
            changes = [each for effects, _ in taken for each in effects if isinstance(each, Change)]
            if changes and not await self._is_committed(changes):
                await asyncio.sleep(TRIED_AGAIN_SECONDS)
                self._is_wanted.set()
                continue
            del self._effects[:count]
            for effects, durable in taken:
                for effect in effects:
                    self._carry_out(effect)
                if durable is not None and not durable.done():
                    durable.set_result(None)

    async def _is_committed(self, changes: list[Change]) -> bool:
        try:
            await self._in_thread(self._spool.commit, changes)
        except SpoolLostError:
            raise
        except SpoolError as error:
            if not self.is_failing:
                say(logging.ERROR, "database_fails", f"nothing is accepted: {error}")
            self.is_failing = True
            self._refuse_all(error)
            if isinstance(error, SpoolInterruptedError):
                await self._resume()
            return False
        if self.is_failing:
            say(logging.INFO, "database_writes", "the database takes messages again")
        self.is_failing = False
        return True

    async def _resume(self) -> None:
        try:
            await self._in_thread(self._spool.resume)
        except SpoolLostError:
            raise
        except SpoolError as error:
            say(logging.WARNING, "database_fails", f"the database is not back: {error}")

    def _refuse_all(self, error: SpoolError) -> None:
        for loader in tuple(self._loaders):
            if not loader.done():
                loader.set_exception(error)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_result(FULL)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Save(message):
                if message.ended:
                    self._contents.pop(message.id, None)
            case Forget(id_):
                self._forget(id_)
                self._known.pop(id_, None)
                self._decidable.forget(id_)
                self._distributed.forget(id_)
            case TellSafe(transaction, is_refused):
                answer = self._answers.get(transaction)
                if answer is not None and not answer.done():
                    answer.set_result(NOT_COUNTED if is_refused else SAFE)
            case Resolve():
                self._begin(self.resolve(effect))
            case SendShares():
                self._begin(self.post(effect))
            case Admit():
                self._begin(self.admit(effect))
            case HandOver():
                self.hand_over(effect)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._resolving.add(task)
        task.add_done_callback(self._resolving.discard)


def read_clocks() -> Now:
    """Return the time by the clocks of the course of messages."""
    return Now(time.monotonic(), int(time.time()))
