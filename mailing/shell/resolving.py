"""Asks the name server whom the lists of a message reach, all of them as one set."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from mailing.rules.events import Event, ListGone, NotResolved, Resolve, Resolved
from mailing.rules.lists import MUTED, Lists, beside, target_of
from mailing.rules.lookups import shown, why_not
from mailing.rules.places import owners_of
from mailing.rules.spooled import Destination
from mailing.shell.log import LOGGER
from mailing.shell.names import Names
from shadowtree.errors import GroupNotFound, ShadowtreeError
from shadowtree.results import Resolution
from shadowtree.updates import Target

AT_ONCE_LIMIT = 8
ATTEMPTS_IN_TRANSITION = 5
PAUSE_SECONDS = 0.2
"""Updates take some milliseconds."""


class Resolving:
    """Carries out `Resolve`. `lists` may be replaced at any time."""

    def __init__(self, names: Names, lists: Lists, tell: Callable[[Event], None]) -> None:
        self._names = names
        self.lists = lists
        self._tell = tell
        self._places = asyncio.Semaphore(AT_ONCE_LIMIT)

    async def resolve(self, effect: Resolve) -> None:
        """Find out, and tell."""
        async with self._places:
            event = await self._event(effect)
        if isinstance(event, NotResolved):
            LOGGER.warning("%s waits, for %s: %s", event.id, _groups(effect), event.why)
        elif isinstance(event, Resolved) and event.missing:
            LOGGER.warning("%s: not everybody of %s is reached: %s", event.id, _groups(effect), event.missing)
        self._tell(event)

    async def _event(self, effect: Resolve) -> Event:
        firsts: dict[Target, int] = {}
        for at, destination in effect.destinations.items():
            unknown = await self._names.confirm(destination.group)
            if unknown is not None:
                return NotResolved(effect.id, unknown)
            target = self._target(destination)
            if target is None:
                return ListGone(effect.id, at)
            firsts.setdefault(target, at)
        try:
            return await self._resolved(effect, firsts)
        except GroupNotFound as error:
            for target, at in firsts.items():
                if error.facts.get("group") == target.name:
                    return ListGone(effect.id, at)
            return NotResolved(effect.id, why_not(error))
        except ShadowtreeError as error:
            return NotResolved(effect.id, why_not(error))

    def _target(self, destination: Destination) -> Target | None:
        group, index = destination.group, self._names.index
        if group not in index:
            return None
        if destination.is_list:
            return target_of(group, self.lists.of(group), is_muted=beside(group, MUTED) in index)
        owners = owners_of(group, self.lists, index)
        return None if owners is None else Target(owners.group)

    async def _resolved(self, effect: Resolve, firsts: dict[Target, int]) -> Event:
        targets = list(firsts)
        found = await self._names.everybody(targets)
        for _ in range(ATTEMPTS_IN_TRANSITION):
            if not found.in_transition:
                break
            await asyncio.sleep(PAUSE_SECONDS)
            found = await self._names.everybody(targets)
        if found.in_transition:
            return NotResolved(effect.id, f"an update of {shown([target.name for target in targets])} is under way")
        if found.unreachable and not await self._are_exceptions_whole(targets):
            return NotResolved(effect.id, f"who is excepted is out of reach: {shown(found.unreachable)}")
        positions = list(firsts.values())
        reached = zip(found.processes, found.process_targets or [0] * len(found.processes), strict=True)
        return Resolved(
            effect.id,
            tuple(effect.destinations),
            tuple((person, positions[at]) for person, at in reached),
            found.revision,
            _missing(found),
            is_lasting=not found.unreachable,
        )

    async def _are_exceptions_whole(self, targets: list[Target]) -> bool:
        """Whether it is known who is excepted, though some of those who are reached are not."""
        exceptions = sorted({group for target in targets for group in target.excluding})
        if not exceptions:
            return True
        found = await self._names.everybody([Target(group) for group in exceptions])
        return not (found.unreachable or found.in_transition)


def _groups(effect: Resolve) -> str:
    return ", ".join(each.group for each in effect.destinations.values())


def _missing(found: Resolution) -> str:
    if found.unreachable:
        return f"out of reach: {shown(found.unreachable)}"
    if found.hidden:
        return f"members are hidden from this gateway: those of {shown([each.group for each in found.hidden])}"
    return ""
