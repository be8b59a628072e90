"""Answers to the questions of the socketmaps, at once if no server has to be asked."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import replace
from functools import partial
from typing import NamedTuple, Protocol

from mailing.rules.address_kinds import Ambiguous, CommandPlace, ListPlace, OwnersPlace, owners_of, place_of
from mailing.rules.addresses import unquoted
from mailing.rules.framing import netstring
from mailing.rules.lists import MUTED, Lists, beside, target_of
from mailing.rules.lookups import (
    NOT_FOUND,
    Lookup,
    LookupReply,
    MapName,
    Status,
    failure_reply,
    people_reply,
    read_lookup,
    split_why,
    temporary,
    why_reply,
)
from mailing.rules.posting import people_of_sender
from mailing.rules.return_path import bounce_place
from mailing.shell.exceptions import without_excepted
from mailing.shell.lookup_counts import NO_MAP, LookupCounts
from mailing.shell.names import Names
from mailing.shell.people import spelled, spelled_in
from shadowtree.errors import GroupNotFound, ShadowtreeError
from shadowtree.results import Resolution
from shadowtree.updates import Target
from shadowtree.vocabulary import GroupId, MemberId

_NOT_FOUND = netstring(NOT_FOUND.encode())


class _Asked(NamedTuple):
    map: MapName
    group: GroupId
    """Group that the address of the key stands for. It need not exist."""
    person: MemberId
    """Person whose way in is asked for. Empty for other maps."""


class Suppression(Protocol):
    """People to whom a distributing gateway sends nothing."""

    def is_suppressed(self, person: MemberId) -> bool:
        """Return True if nothing is sent to a person."""

    @property
    def suppression_changes(self) -> int:
        """Counter that rises when the set of suppressed people may have changed."""


class _Nobody:
    suppression_changes = 0

    def is_suppressed(self, person: MemberId) -> bool:
        del person
        return False


class Lookups:
    """Answers of all maps. `lists` may be replaced at any time."""

    def __init__(self, names: Names, lists: Lists) -> None:
        self._names = names
        self.lists = lists
        self.counts = LookupCounts()
        self.suppression: Suppression = _Nobody()
        """Suppressed people. No person is suppressed if the gateway does not distribute."""
        self._suppression_changes = 0

    def answer(self, content: bytes) -> bytes | Awaitable[bytes]:
        """Return the netstring that answers the content of a netstring, or an awaitable of it."""
        begun_at, lookup = time.perf_counter(), read_lookup(content)
        name = NO_MAP if isinstance(lookup, LookupReply) else str(lookup.map)
        answer = netstring(lookup.encode()) if isinstance(lookup, LookupReply) else self._answer_to(lookup)
        if not isinstance(answer, bytes):
            future = asyncio.ensure_future(answer)
            future.add_done_callback(partial(self._count, name, begun_at))
            return future
        self.counts.add(name, answer, time.perf_counter() - begun_at)
        return answer

    def _count(self, name: str, begun_at: float, answered: asyncio.Future[bytes]) -> None:
        if not answered.cancelled() and answered.exception() is None:
            self.counts.add(name, answered.result(), time.perf_counter() - begun_at)

    def _answer_to(self, lookup: Lookup) -> bytes | Awaitable[bytes]:
        asked = self._asked(lookup)
        if asked is None:
            return _NOT_FOUND
        if not self._names.is_confirmed(asked.group):
            return self._answer_when_confirmed(asked)
        return self._answer(asked)

    def _asked(self, lookup: Lookup) -> _Asked | None:
        address, person = lookup.key, ""
        if lookup.map is MapName.WHY:
            both = split_why(lookup.key)
            if both is None:
                return None
            address, person = both
        group = self.lists.group_of(unquoted(address))
        return None if group is None else _Asked(lookup.map, group, unquoted(person))

    async def _answer_when_confirmed(self, asked: _Asked) -> bytes:
        why_not = await self._names.confirm(asked.group)
        if why_not is not None:
            return netstring(temporary(why_not).encode())
        answer = self._answer(asked)
        return answer if isinstance(answer, bytes) else await answer

    def _answer(self, asked: _Asked) -> bytes | Awaitable[bytes]:
        place = place_of(asked.group, self.lists, self._names.index)
        match place, asked.map:
            case None, MapName.LISTS if bounce_place(asked.group) is not None:
                return netstring(LookupReply(Status.OK, asked.group).encode())
            case None, _:
                return _NOT_FOUND
            case Ambiguous() as ambiguous, _:
                return netstring(temporary(ambiguous.why).encode())
            case ListPlace(group) | OwnersPlace(group=group) | CommandPlace(group=group), MapName.LISTS:
                return netstring(LookupReply(Status.OK, group).encode())
            case ListPlace(group), MapName.OWNERS:
                owners = owners_of(group, self.lists, self._names.index)
                return _NOT_FOUND if owners is None else self._people(Target(owners.group))
            case OwnersPlace(group=group), MapName.MEMBERS | MapName.OWNERS:
                return self._people(Target(group))
            case ListPlace(group), MapName.MEMBERS:
                return self._people(self._target(group))
            case ListPlace(group), MapName.WHY:
                return self._why(self._target(group), asked.person)
            case _:
                return _NOT_FOUND

    def _target(self, group: GroupId) -> Target:
        return target_of(group, self.lists.of(group), is_muted=beside(group, MUTED) in self._names.index)

    def _people(self, target: Target) -> bytes | Awaitable[bytes]:
        async def read(resolving: Awaitable[Resolution]) -> bytes:
            return netstring((await self._read_people(target, resolving)).encode())

        if self._suppression_changes != self.suppression.suppression_changes:
            self._suppression_changes = self.suppression.suppression_changes
            self._names.forget_answers()
        kept = self._names.kept(target)
        return self._names.people(target, read) if kept is None else kept

    async def _read_people(self, target: Target, resolving: Awaitable[Resolution]) -> LookupReply:
        try:
            found = await resolving
            everybody = await without_excepted(self._names, [target], ((person, 0) for person in found.processes))
            people = tuple(person for person, _ in everybody if not self.suppression.is_suppressed(person))
            return people_reply(target.name, replace(found, processes=people))
        except GroupNotFound as error:
            # The list was deleted a moment ago. If an exception is gone instead, the people to leave out are unknown.
            return NOT_FOUND if error.facts.get("group") == target.name else failure_reply(error)
        except ShadowtreeError as error:
            return failure_reply(error)

    async def _why(self, target: Target, person: MemberId) -> bytes:
        try:
            people = await spelled(self._names, people_of_sender(person))
            within = await spelled_in(self._names, target.name, people)
            if not within:
                return netstring(NOT_FOUND.encode())
            found = await self._names.check(target.name, within[0], explain=True)
            left_out = [group for group in target.excluding if await spelled_in(self._names, group, people)]
            return netstring(why_reply(found, left_out).encode())
        except ShadowtreeError as error:
            return netstring(failure_reply(error).encode())
