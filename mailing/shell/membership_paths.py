"""Finds out how somebody is in a list: asks the name server for the groups in between, one after another."""

from __future__ import annotations

from mailing.rules.commands import Way, ends_of
from mailing.shell.names import Names
from shadowtree.errors import Unavailable
from shadowtree.results import GroupDescription
from shadowtree.vocabulary import GroupId, MemberId

GROUPS_LIMIT = 100
"""That are looked at for one answer: each question costs some milliseconds, more where a group is large."""


class WaysUnknownError(Exception):
    """There are too many groups between a list and somebody."""


async def pathnames_to(names: Names, group: GroupId, person: MemberId) -> list[tuple[MemberId, ...]]:
    """One way into a list over each of the groups below it that somebody is an immediate member of.

    Raises `WaysUnknownError`, and `ShadowtreeError` where it cannot be told.
    """
    found = list[tuple[MemberId, ...]]()
    above = await _groups_of(names, person)
    pathnames: dict[GroupId, tuple[MemberId, ...]] = {group: (group,)}
    waiting = [group]
    while waiting:
        if len(pathnames) > GROUPS_LIMIT:
            raise WaysUnknownError
        here = waiting.pop(0)
        description = await _described(names, here)
        for child in description.children:
            if child.kind == "process" and child.id == person:
                found.append((*pathnames[here], person))
            elif child.kind == "group" and child.id in above and child.id not in pathnames:
                pathnames[child.id] = (*pathnames[here], child.id)
                waiting.append(child.id)
    return found


async def ways_to(names: Names, group: GroupId, person: MemberId) -> list[Way]:
    """The same, and what else it would end to leave the last group of each; raises as that."""
    pathnames = await pathnames_to(names, group, person)
    parents = await _parents_of(names, person)
    return [
        Way(pathname, () if parents is None else ends_of(parents, pathname[-2]), parents is not None)
        for pathname in pathnames
    ]


async def _parents_of(names: Names, person: MemberId) -> dict[GroupId, frozenset[GroupId]] | None:
    """All groups that somebody is an immediate member of, each with all it is in; None: too many to look at."""
    above = await _groups_of(names, person)
    if len(above) > GROUPS_LIMIT:
        return None
    found = {}
    for group in sorted(above):
        children = (await _described(names, group)).children
        if any(child.id == person and child.kind == "process" for child in children):
            found[group] = await _groups_of(names, group)
    return found


async def _groups_of(names: Names, member: MemberId) -> frozenset[GroupId]:
    found = await names.ask(lambda client: client.memberships(member))
    if found.unreachable:
        raise Unavailable(f"cannot tell all groups that {member} is in: out of reach: {', '.join(found.unreachable)}")
    return frozenset(found.groups)


async def _described(names: Names, group: GroupId) -> GroupDescription:
    return await names.ask(lambda client: client.describe(group))
