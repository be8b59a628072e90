"""What the gateway knows of the name service: an index of groups that it follows, and who is in a group.

A "no" from the index is given only where the home of the groups answered within the last second: when it is away, or
nobody can say whether it is, lookups end as "not now".
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
from mailing.shell.kept_answers import Asked, KeptAnswers
from mailing.shell.log import say
from shadowtree.aio import Client
from shadowtree.client.asynchronous.change_stream import ChangeStream
from shadowtree.errors import DeadlineExceeded, GroupNotFound, ShadowtreeError, Unavailable
from shadowtree.results import Check, RecordedUpdate, Resolution, Spellings
from shadowtree.updates import Target
from shadowtree.vocabulary import GroupId, MemberId, SubnetName

Answer = TypeVar("Answer")

CONFIRMED_SECONDS = 1.0
"""For so long a home that has answered counts as being there."""
ASKED_AGAIN_SECONDS = 0.5
"""After so long it is asked again, while its last answer counts: lookups that come all the time never wait for it."""
ASKED_AT_MOST = 2
"""By one who waits: the first may have been under way."""
CONFIRMATION_SECONDS = 3.0
"""A home that is there says so within milliseconds."""
QUESTION_SECONDS = 20.0
"""Postfix waits for 100; others wait behind it."""
QUESTIONS_AT_ONCE = 32
"""Of all connections together."""
PAUSE_SECONDS = 0.5
"""Before a home that is away is tried again."""
OWN_REQUESTS_LIMIT = 1_000
"""Changes by this gateway of which the home has not told yet; beyond it the oldest is taken for another client's."""
PROBE = "is-there"
"""The name of a group that a home is asked for, whether there is one or not."""


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
        """Changes to companions of lists that another client made, since the start."""
        self._changes: ChangeStream | None = None
        """While the index is as the home is; None: it was not read, or what changed since is not known."""
        self._why_not = "they were not read yet"
        self._confirmed_at = -CONFIRMED_SECONDS
        self._asking: asyncio.Task[None] | None = None
        self._reading: asyncio.Task[None] | None = None
        """While they are: what may be told then is known soon."""
        self.tried = asyncio.Event()
        """Whether the home was asked at all."""

    @property
    def _is_followed(self) -> bool:
        return self._changes is not None and not self._changes.is_interrupted

    def is_confirmed(self) -> bool:
        """Whether what the index holds may be told now; has the home asked again before it may not."""
        age = time.monotonic() - self._confirmed_at
        if not self._is_followed or age > CONFIRMED_SECONDS:
            return False
        if age > ASKED_AGAIN_SECONDS and self._asking is None:
            self._asking = asyncio.create_task(self._ask())
        return True

    async def confirm(self) -> str | None:
        """Ask the home whether it is there; returns why nothing may be told, or None.

        An answer counts for whoever waited for it, however long it took, if it was asked for since.
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
        """Read the groups, and follow what becomes of them; for ever."""
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
        """Read the groups while nothing of before may be told; lookups wait for it a while."""
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
        """Warn of a change to the owners of a list, or to those who muted it, that this gateway did not make."""
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
    """Request ids of this gateway, by which it knows its own changes in what the home tells of all changes."""

    def __init__(self) -> None:
        self._ids: dict[str, None] = {}

    def new(self) -> str:
        """Return the id of another request. Nobody can know it before."""
        while len(self._ids) >= OWN_REQUESTS_LIMIT:
            del self._ids[next(iter(self._ids))]
        id_ = f"mail {secrets.token_hex(16)}"
        self._ids[id_] = None
        return id_

    def take(self, id_: str) -> bool:
        """Return True if an id is of this gateway, once."""
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
        """For what takes as long as it takes."""
        return self._client

    @property
    def companion_changes(self) -> int:
        """Changes to companions of lists that other clients made, since the start."""
        return sum(subnet.companion_changes for subnet in self._subnets.values())

    async def follow(self) -> None:
        """Keep the indexes as the homes are; for ever."""
        async with asyncio.TaskGroup() as group:
            for subnet in self._subnets.values():
                group.create_task(subnet.follow())

    async def tried(self, seconds: float) -> None:
        """Return once every index was read, or could not be; after so many seconds at the latest."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(subnet.tried.wait() for subnet in self._subnets.values()))

    def is_confirmed(self, group: GroupId) -> bool:
        """Whether it may be told now whether a group, of a subnet that has a mail domain, exists."""
        return self._subnets[group.rpartition("@")[2]].is_confirmed()

    async def confirm(self, group: GroupId) -> str | None:
        """Find out whether it may be told whether a group exists; returns why not, or None."""
        return await self._subnets[group.rpartition("@")[2]].confirm()

    def kept(self, target: Target) -> bytes | None:
        """The answer that is kept for a target, where it may be given at once."""
        return self._kept.fresh(target)

    async def people(self, target: Target, read: Callable[[Awaitable[Resolution]], Awaitable[bytes]]) -> bytes:
        """What `read`, which never raises, makes of everybody in a target; one question for all who ask at once."""

        async def ask() -> Asked:
            basis = ""

            async def resolve() -> Resolution:
                nonlocal basis
                found = await self._resolve(target)
                basis = found.basis
                return found

            content = await read(resolve())
            return Asked(content, basis)

        return await self._kept.answer(target, ask)

    async def check(self, group: GroupId, member: MemberId, *, explain: bool = False) -> Check:
        """Whether somebody is in a group; raises `ShadowtreeError` where that cannot be told."""
        async with self._place():
            return await self._client.check(group, member, explain)

    async def spellings(self, names: Iterable[MemberId]) -> Spellings:
        """Return the names in use that equal given names but for case; raises `ShadowtreeError`."""
        async with self._place():
            return await self._client.spellings(names)

    async def ask(self, question: Callable[[Client], Awaitable[Answer]]) -> Answer:
        """What the name server answers to anything else; raises `ShadowtreeError`."""
        async with self._place():
            return await question(self._client)

    async def everybody(self, targets: Iterable[Target], named_servers: Iterable[str] | None = None) -> Resolution:
        """Who is in one of these, each once, asked for right now; raises `ShadowtreeError`.

        `named_servers`: others' processes are counted; None: all are named.
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
        """Ask for all of them anew."""
        self._kept.clear()
