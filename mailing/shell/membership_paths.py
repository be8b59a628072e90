"""Ways of a person into a list. The name server is asked for the groups in between, one after another."""

from __future__ import annotations

from mailing.rules.commands import ListPath, ends_of
from mailing.shell.names import Names
from shadowtree.errors import Unavailable
from shadowtree.results import GroupDescription
from shadowtree.vocabulary import GroupId, MemberId

GROUPS_LIMIT = 100
"""Most groups that are looked at for one answer. Each question costs some milliseconds, more for a large group."""


class WaysUnknownError(Exception):
    """Too many groups lie between a list and a person."""


async def pathnames_to(names: Names, group: GroupId, person: MemberId) -> list[tuple[MemberId, ...]]:
    """Return one way into a list for each group below it that has the person as an immediate member.

    Raises `WaysUnknownError`, and `ShadowtreeError` if the name service cannot tell.
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


async def ways_to(names: Names, group: GroupId, person: MemberId) -> list[ListPath]:
    """Return the same ways, with the effect of leaving the last group of each. Raises the same errors."""
    pathnames = await pathnames_to(names, group, person)
    parents = await _parents_of(names, person)
    return [
        ListPath(pathname, () if parents is None else ends_of(parents, pathname[-2]), parents is not None)
        for pathname in pathnames
    ]


async def _parents_of(names: Names, person: MemberId) -> dict[GroupId, frozenset[GroupId]] | None:
    """Return all groups that have a person as an immediate member, each with all groups that it is in.

    None if there are too many groups to look at.
    """
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
