"""The name service as the gateway knows it: an index of groups that it follows, and the members of groups.

The index gives a "no" only if the home of the groups answered within the last second. If the home is away, or its state
is unknown, lookups end as "not now".
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TypeVar

from mailing.rules.companions import told_of_companions
from mailing.rules.index import GroupIndex
from mailing.rules.lookups import shown, why_not
from mailing.rules.plurals import counted
from mailing.shell.kept_answers import FreshAnswer, KeptAnswers
from mailing.shell.log import say
from shadowtree.aio import Client
from shadowtree.client.asynchronous.change_stream import ChangeStream
from shadowtree.errors import DeadlineExceeded, GroupNotFound, ShadowtreeError, Unavailable
from shadowtree.results import Check, RecordedUpdate, Resolution, Spellings
from shadowtree.updates import Target
from shadowtree.vocabulary import GroupId, MemberId, SubnetName

Answer = TypeVar("Answer")

CONFIRMED_SECONDS = 1.0
"""Time for which a home that has answered counts as present, in seconds."""
ASKED_AGAIN_SECONDS = 0.5
"""Age of an answer at which the home is asked again, in seconds.

The answer still counts meanwhile, so lookups that come all the time never wait for the next one.
"""
ASKED_AT_MOST = 2
"""Most questions for one waiting caller. The first question may have been under way."""
CONFIRMATION_SECONDS = 3.0
"""Time for a home to answer, in seconds. A home that is present answers within milliseconds."""
QUESTION_SECONDS = 20.0
"""Time for a question, in seconds. Postfix waits for 100, and other lookups wait behind it."""
QUESTIONS_AT_ONCE = 32
"""Most questions of all connections together."""
PAUSE_SECONDS = 0.5
"""Pause before a home that is away is tried again, in seconds."""
OWN_REQUESTS_LIMIT = 1_000
"""Most changes by this gateway of which the home has not told yet.

Beyond this limit the oldest change is taken for a change by another client.
"""
PROBE = "is-there"
"""Name of a group that a home is asked for. The group need not exist."""


class SubnetIndex:
    """The groups of one subnet, as they are at its home."""

    def __init__(
        self,
        subnet: SubnetName,
        names: Client,
        index: GroupIndex,
        on_change: Callable[[], None],
        own_requests: OwnRequests,
    ) -> None:
        self._subnet = subnet
        self._names = names
        self._index = index
        self._on_change = on_change
        self._own_requests = own_requests
        self.companion_changes = 0
        """Number of changes to companions of lists that other clients made, since the start."""
        self._changes: ChangeStream | None = None
        """Stream of changes while the index matches the home.

        None if it was not read, or if later changes are unknown.
        """
        self._why_not = "they were not read yet"
        self._confirmed_at = -CONFIRMED_SECONDS
        self._asking: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        """Task that reads the groups. None if no reading is under way. Waiting for it is short."""
        self.tried = asyncio.Event()
        """Set once the first reading of the groups has succeeded or failed."""

    @property
    def _is_followed(self) -> bool:
        return self._changes is not None and not self._changes.is_interrupted

    def is_confirmed(self) -> bool:
        """Return True if the content of the index may be told now.

        Asks the home again before its answer becomes too old.
        """
        age = time.monotonic() - self._confirmed_at
        if not self._is_followed or age > CONFIRMED_SECONDS:
            return False
        if age > ASKED_AGAIN_SECONDS and self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        return True

    async def confirm(self) -> str | None:
        """Ask the home if it is there. Return the reason why nothing may be told, or None.

        An answer counts for a caller who waited for it, however long it took, if its question began after the call.
        """
        since = time.monotonic()
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=CONFIRMATION_SECONDS)
        if self._changes is not None and self._changes.is_interrupted:
            return f"the groups of {self._subnet} cannot be told: their home is out of reach"
        for _ in range(ASKED_AT_MOST):
            if not self._is_followed or self.is_confirmed() or self._confirmed_at >= since:
                break
            if self._asking is None:
                self._asking = asyncio.create_task(self._ask())
            await asyncio.shield(self._asking)
        is_told = self._is_followed and (self.is_confirmed() or self._confirmed_at >= since)
        return None if is_told else f"the groups of {self._subnet} cannot be told: {self._why_not}"

    async def follow(self) -> None:
        """Read the groups, and follow their changes, for ever."""
        while True:
            why = "their home ended the stream of changes"
            try:
                await self._follow_once()
            except ShadowtreeError as error:
                why = why_not(error)
            if self._changes is not None or why != self._why_not:
                said = f"not watching the groups of {self._subnet}: {why}"
                say(logging.WARNING, "groups_unknown", said, subnet=self._subnet, why=why)
            self._changes, self._why_not = None, why
            self.tried.set()
            await asyncio.sleep(PAUSE_SECONDS)

    async def _follow_once(self) -> None:
        changes = await self._names.watch(subnet=self._subnet)
        try:
            await self._read(changes)
            self.tried.set()
            async for update in changes:
                self._apply(update)
                self._tell_of_companions(update)
                if not update.is_listed:
                    await self._read(changes)
        finally:
            await changes.close()

    async def _read(self, changes: ChangeStream) -> None:
        """Read the groups. The former content may not be told meanwhile, and lookups wait for it a while."""
        if self._changes is not None:
            self._changes, self._why_not = None, "too much has changed at once, and they are being read"
        self._reading = asyncio.create_task(self._read_all(changes))
        try:
            await self._reading
        finally:
            self._reading = None

    async def _read_all(self, changes: ChangeStream) -> None:
        asked_at = time.monotonic()
        listed = await self._names.groups(self._subnet)
        if listed.unreachable:
            raise Unavailable(f"{shown(listed.unreachable)} may know of more groups")
        self._index.replace(self._subnet, listed.groups)
        self._on_change()
        self._confirmed_at, self._changes = asked_at, changes
        said = f"watching {counted(len(listed.groups), 'group')} of {self._subnet}"
        say(logging.INFO, "watching", said, subnet=self._subnet, groups=len(listed.groups))

    def _apply(self, update: RecordedUpdate) -> None:
        for change in update.changes:
            if change.kind == "created":
                self._index.add(change.group)
            elif change.kind == "deleted":
                self._index.remove(change.group)
        self._on_change()

    def _tell_of_companions(self, update: RecordedUpdate) -> None:
        """Warn of a change to the owners or the muted people of a list that this gateway did not make."""
        if self._own_requests.take(update.request_id):
            return
        by = f"by a client at {update.caller or 'an unknown address'}, not by this gateway"
        for group, told in told_of_companions(update.changes, self._index).items():
            facts = {"list": group, "caller": update.caller, "server": update.server}
            say(logging.WARNING, "companion_changed", f"{told}; {by}", **facts)
            self.companion_changes += 1
        if not update.is_listed:
            said = f"more than 1,000 changes to groups of {self._subnet} at once, perhaps of owners of lists"
            say(logging.WARNING, "companion_changed", f"{said}; {by}", caller=update.caller, server=update.server)
            self.companion_changes += 1

    async def _ask(self) -> None:
        asked_at, probe = time.monotonic(), f"{PROBE}@{self._subnet}"
        try:
            async with asyncio.timeout(CONFIRMATION_SECONDS):
                await self._names.check(probe, probe)
            self._confirmed_at = asked_at
        except GroupNotFound:
            self._confirmed_at = asked_at
        except (ShadowtreeError, TimeoutError) as error:
            self._why_not = why_not(error) if isinstance(error, ShadowtreeError) else "their home does not answer"
        finally:
            self._asking = None


class OwnRequests:
    """Request ids of this gateway, by which it recognises its own changes among all changes that the home tells."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def new(self) -> str:
        """Return the id of another request. No other client can know it before."""
        while len(self._ids) >= OWN_REQUESTS_LIMIT:
            del self._ids[next(iter(self._ids))]
        id_ = f"mail {secrets.token_hex(16)}"
        self._ids[id_] = None
        return id_

    def take(self, id_: str) -> bool:
        """Return True if an id is of this gateway. Each id counts once."""
        if id_ not in self._ids:
            return False
        del self._ids[id_]
        return True


class Names:
    """The name service, as lookups and the policy see it, while `follow` runs."""

    def __init__(self, client: Client, subnets: Iterable[SubnetName]) -> None:
        self._client = client
        self.index = GroupIndex()
        self.own_requests = OwnRequests()
        self._subnets = {
            subnet: SubnetIndex(subnet, client, self.index, self.forget_answers, self.own_requests)
            for subnet in sorted(set(subnets))
        }
        self._kept = KeptAnswers(partial(client.confirm, timeout=CONFIRMATION_SECONDS))
        self._places = asyncio.Semaphore(QUESTIONS_AT_ONCE)

    @property
    def client(self) -> Client:
        """Client for calls that may take any time."""
        return self._client

    @property
    def companion_changes(self) -> int:
        """Number of changes to companions of lists that other clients made, since the start."""
        return sum(subnet.companion_changes for subnet in self._subnets.values())

    async def follow(self) -> None:
        """Keep the indexes equal to the homes, for ever."""
        async with asyncio.TaskGroup() as group:
            for subnet in self._subnets.values():
                group.create_task(subnet.follow())

    async def tried(self, seconds: float) -> None:
        """Return once every index was read, or could not be, after `seconds` at the latest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(subnet.tried.wait() for subnet in self._subnets.values()))

    def is_confirmed(self, group: GroupId) -> bool:
        """Return True if the existence of a group may be told now. The group's subnet must have a mail domain."""
        return self._subnets[group.rpartition("@")[2]].is_confirmed()

    async def confirm(self, group: GroupId) -> str | None:
        """Find out if the existence of a group may be told. Return the reason why not, or None."""
        return await self._subnets[group.rpartition("@")[2]].confirm()

    def kept(self, target: Target) -> bytes | None:
        """Return the kept answer for a target if it may be given at once. None otherwise."""
        return self._kept.fresh(target)

    async def people(self, target: Target, read: Callable[[Awaitable[Resolution]], Awaitable[bytes]]) -> bytes:
        """Return the text that `read` makes of all people in a target. Concurrent callers share one question.

        `read` never raises.
        """

        async def ask() -> FreshAnswer:
            basis = ""

            async def resolve() -> Resolution:
                nonlocal basis
                found = await self._resolve(target)
                basis = found.basis
                return found

            content = await read(resolve())
            return FreshAnswer(content, basis)

        return await self._kept.answer(target, ask)

    async def check(self, group: GroupId, member: MemberId, *, explain: bool = False) -> Check:
        """Return the membership of a member in a group. Raises `ShadowtreeError` if it cannot be told."""
        async with self._place():
            return await self._client.check(group, member, explain)

    async def spellings(self, names: Iterable[MemberId]) -> Spellings:
        """Return the names in use that equal given names but for case. Raises `ShadowtreeError`."""
        async with self._place():
            return await self._client.spellings(names)

    async def ask(self, question: Callable[[Client], Awaitable[Answer]]) -> Answer:
        """Return the name server's answer to any other question. Raises `ShadowtreeError`."""
        async with self._place():
            return await question(self._client)

    async def everybody(self, targets: Iterable[Target], named_servers: Iterable[str] | None = None) -> Resolution:
        """Resolve targets right now, each member once. Raises `ShadowtreeError`.

        `named_servers`: servers whose processes are named, while those of other servers are counted. None to name all.
        """
        async with self._place():
            return await self._client.resolve(list(targets), named_servers=named_servers)

    async def _resolve(self, target: Target) -> Resolution:
        async with self._place():
            return await self._client.resolve(target if target.excluding else target.name)

    @asynccontextmanager
    async def _place(self) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(QUESTION_SECONDS), self._places:
                yield
        except TimeoutError:
            raise DeadlineExceeded(f"the name server did not answer within {QUESTION_SECONDS:.0f} s") from None

    def forget_answers(self) -> None:
        """Forget all answers, so that each is asked for anew."""
        self._kept.clear()
