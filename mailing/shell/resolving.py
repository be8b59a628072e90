"""Resolution of the lists of a message by the name server, all of them as one set."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from mailing.rules.address_kinds import owners_of
from mailing.rules.events import Event, ListGone, NotResolved, Resolve, Resolved
from mailing.rules.giving_up import organisation_of
from mailing.rules.index import GroupIndex
from mailing.rules.lists import MUTED, Lists, beside, target_of
from mailing.rules.lookups import shown, why_not
from mailing.rules.shares import Named, sort_out
from mailing.rules.spooled import Destination, OtherShare
from mailing.shell.exceptions import without_excepted
from mailing.shell.log import say
from mailing.shell.names import Names
from mailing.shell.peer_gateways import PeerGateways
from shadowtree.errors import GroupNotFound, ShadowtreeError
from shadowtree.results import Resolution
from shadowtree.updates import Target
from shadowtree.vocabulary import GroupId, MemberId, Revision, SubnetName

AT_ONCE_LIMIT = 8
ATTEMPTS_IN_TRANSITION = 5
PAUSE_SECONDS = 0.2
"""Pause between two attempts, in seconds. Updates take some milliseconds."""


class Resolving:
    """Executor of `Resolve`. `lists` may be replaced at any time."""

    def __init__(self, names: Names, lists: Lists, others: PeerGateways, tell: Callable[[Event], None]) -> None:
        self._names = names
        self._others = others
        self.lists = lists
        self._tell = tell
        self._places = asyncio.Semaphore(AT_ONCE_LIMIT)

    async def resolve(self, effect: Resolve) -> None:
        """Resolve the lists of a message, and tell the result."""
        async with self._places:
            event = await self._event(effect)
        if isinstance(event, NotResolved):
            said = f"{event.id} waits, for {_groups(effect)}: {event.why}"
            say(logging.WARNING, "waits", said, id=event.id, lists=_groups(effect), why=event.why)
        elif isinstance(event, Resolved) and event.missing:
            said = f"{event.id}: not everybody of {_groups(effect)} is reached: {event.missing}"
            say(logging.WARNING, "not_all_reached", said, id=event.id, lists=_groups(effect), why=event.missing)
        self._tell(event)

    async def _event(self, effect: Resolve) -> Event:
        shared: dict[Target, int] = {}
        central: dict[Target, int] = {}
        for at, destination in effect.destinations.items():
            unknown = await self._names.confirm(destination.group)
            if unknown is not None:
                return NotResolved(effect.id, unknown)
            target = target_for(destination, self.lists, self._names.index)
            if target is None:
                try:
                    target = await self._renamed(destination)
                except ShadowtreeError as error:
                    return NotResolved(effect.id, why_not(error))
            if target is None:
                return ListGone(effect.id, at)
            (shared if destination.goes_by_shares else central).setdefault(target, at)
        try:
            return await self._resolved(effect, central, shared)
        except GroupNotFound as error:
            for target, at in (*central.items(), *shared.items()):
                if error.facts.get("group") == target.name:
                    return ListGone(effect.id, at)
            return NotResolved(effect.id, why_not(error))
        except ShadowtreeError as error:
            return NotResolved(effect.id, why_not(error))

    async def _renamed(self, destination: Destination) -> Target | None:
        """Return the target for a list that was renamed since the message came. None if the list was not renamed.

        Raises `ShadowtreeError` if that cannot be told.
        """
        group = destination.group
        try:
            await self._names.check(group, group)
        except GroupNotFound as error:
            renamed_to = error.facts.get("renamed_to")
            if renamed_to is None:
                return None
            return target_for(replace(destination, group=renamed_to), self.lists, self._names.index)
        return None

    async def _resolved(self, effect: Resolve, central: Mapping[Target, int], shared: Mapping[Target, int]) -> Event:
        """Resolve the lists.

        Lists that go by shares are resolved separately, without the names of other servers' people.
        """
        event = Resolved(effect.id, tuple(effect.destinations), (), "")
        if central:
            found = await self._settled(list(central))
            if isinstance(found, _NotNow):
                return NotResolved(effect.id, *found)
            named = await self._people(found, central)
            event = replace(event, people=named, revision=found.revision, missing=_missing(found))
            event = replace(event, is_lasting=not found.unreachable, away=_organisations(found.unreachable))
        if shared:
            counted = await self._counted(shared)
            if isinstance(counted, _NotNow):
                return NotResolved(effect.id, *counted)
            people = {**dict(counted.people), **dict(event.people)}
            event = replace(
                event,
                people=tuple(people.items()),
                unsure=counted.unsure,
                shares=counted.shares,
                own=counted.own,
                revision=event.revision or counted.revision,
                missing=event.missing or counted.missing,
                is_lasting=counted.is_lasting and (event.is_lasting or not event.missing),
                away=tuple(sorted({*event.away, *counted.away})),
            )
        return event

    async def _settled(
        self, targets: list[Target], named_servers: Collection[str] | None = None
    ) -> Resolution | _NotNow:
        """Return the people in some targets, or the reason why they cannot be told now."""
        found = await self._names.everybody(targets, named_servers)
        for _ in range(ATTEMPTS_IN_TRANSITION):
            if not found.in_transition:
                break
            await asyncio.sleep(PAUSE_SECONDS)
            found = await self._names.everybody(targets, named_servers)
        if found.in_transition:
            return _NotNow(f"an update of {shown([target.name for target in targets])} is under way")
        if found.unreachable and not await self._are_exceptions_whole(targets):
            why = f"who is excepted is out of reach: {shown(found.unreachable)}"
            return _NotNow(why, _organisations(found.unreachable))
        return found

    async def _counted(self, shared: Mapping[Target, int]) -> _Counted | _NotNow:
        """Return the number of people that each gateway serves. People of organisations without a gateway are named."""
        targets, own = list(shared), await self._others.own()
        found = await self._settled(targets, ())
        if isinstance(found, _NotNow):
            return found
        servers = sorted({each.server for each in found.counts} - {own})
        serves = dict(zip(servers, await asyncio.gather(*map(self._others.serves, servers)), strict=True))
        lacking = [server for server, has in serves.items() if has is False]
        if lacking:
            found = await self._settled(targets, lacking)
            if isinstance(found, _NotNow):
                return found
        elsewhere = frozenset(found.elsewhere)
        counts = [OtherShare(each.server, _position(each.group, shared), each.count) for each in found.counts]
        unknown = [server for server, has in serves.items() if has is None]
        missing = _missing(found) or (f"not known whether it has a gateway: {shown(unknown)}" if unknown else "")
        people = [each for each in await self._people(found, shared) if each[0] not in elsewhere]
        named = Named()
        if people:
            owned, lack = await self._others.subnets(), await self._others.subnets_of(lacking)
            named = sort_out(people, owned=owned, without_gateway=lack, is_whole=not missing)
            missing = missing or (f"out of reach: the homes of {shown(named.away)}" if named.away else "")
        return _Counted(
            named.certain,
            named.unsure,
            tuple(each for each in counts if each.server != own),
            tuple(each for each in counts if each.server == own),
            found.revision,
            missing,
            not (found.unreachable or unknown or named.away),
            _organisations([*found.unreachable, *unknown, *named.away]),
        )

    async def _people(self, found: Resolution, firsts: Mapping[Target, int]) -> tuple[tuple[MemberId, int], ...]:
        """Return all people in an answer, each with the position of the first destination that reaches the person."""
        positions, targets = list(firsts.values()), list(firsts)
        reached = zip(found.processes, found.process_targets or [0] * len(found.processes), strict=True)
        people = await without_excepted(self._names, targets, reached) if found.processes else ()
        return tuple((person, positions[at]) for person, at in people)

    async def _are_exceptions_whole(self, targets: list[Target]) -> bool:
        """Return True if all excepted people are known, although some of the people to reach are not."""
        exceptions = sorted({group for target in targets for group in target.excluding})
        if not exceptions:
            return True
        found = await self._names.everybody([Target(group) for group in exceptions], ())
        return not (found.unreachable or found.in_transition)


def _groups(effect: Resolve) -> str:
    return ", ".join(each.group for each in effect.destinations.values())


class _Counted(NamedTuple):
    """Result for lists that go by shares: people who get the message from here, and the number of people of each
    gateway.
    """

    people: tuple[tuple[MemberId, int], ...]
    unsure: tuple[tuple[MemberId, int], ...]
    shares: tuple[OtherShare, ...]
    own: tuple[OtherShare, ...]
    revision: Revision
    missing: str
    is_lasting: bool
    away: tuple[SubnetName, ...]


class _NotNow(NamedTuple):
    """The members of some lists cannot be told now."""

    why: str
    away: tuple[SubnetName, ...] = ()
    """Organisations that are out of reach. Empty means the organisations of the lists."""


def _organisations(names: Iterable[str]) -> tuple[SubnetName, ...]:
    return tuple(sorted({organisation_of(name) for name in names}))


def target_for(destination: Destination, lists: Lists, index: GroupIndex) -> Target | None:
    """Return the target to resolve for a destination. None if there is no such list any more, or it has no owners."""
    group = destination.group
    if group not in index:
        return None
    if destination.is_list:
        return target_of(group, lists.of(group), is_muted=beside(group, MUTED) in index)
    owners = owners_of(group, lists, index)
    return None if owners is None else Target(owners.group)


def _position(group: GroupId, firsts: Mapping[Target, int]) -> int:
    return next(at for target, at in firsts.items() if target.name == group)


def _missing(found: Resolution) -> str:
    if found.unreachable:
        return f"out of reach: {shown(found.unreachable)}"
    if found.hidden:
        return f"members are hidden from this gateway: those of {shown([each.group for each in found.hidden])}"
    return ""
