"""Search for people in the name service, which compares names with case: under all spellings of one mailbox."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from mailing.rules.addresses import mailbox_of
from namegraph import NodeId, fold_name
from shadowtree.errors import ServerFault, ShadowtreeError, Unavailable
from shadowtree.results import Check, Spellings
from shadowtree.vocabulary import GroupId, MemberId


class PeopleLookup(Protocol):
    """The name service, as far as people are looked up there. Calls raise `ShadowtreeError`."""

    async def check(self, group: GroupId, member: MemberId, /) -> Check:
        """Return the membership of a member in a group."""

    async def spellings(self, names: Iterable[MemberId], /) -> Spellings:
        """Return the names in use that equal given names but for case."""


class Spelled:
    """People, with their names in use."""

    def __init__(self, people: tuple[MemberId, ...], found: Spellings) -> None:
        self.people = people
        self.are_groups = any(found.groups)
        """True if one of them is a group in truth."""
        self.is_whole = not found.unreachable
        """False if servers out of reach may know of more."""
        known = dict.fromkeys(name for names in found.processes for name in names)
        self.names = (*(name for name in people if name in known), *(name for name in known if name not in people))
        """Spellings in use. The people as they are written come first."""


async def spelled(names: PeopleLookup, people: tuple[MemberId, ...]) -> Spelled:
    """Return the names of these people in the name service. Raises `ShadowtreeError`."""
    if not people:
        return Spelled((), Spellings((), (), (), (), ""))
    try:
        return Spelled(people, await names.spellings(people))
    except ServerFault:
        # A name server of the last release cannot tell. The name as it is written, and in lower case, is tried.
        likely = tuple(tuple(dict.fromkeys((name, fold_name(NodeId(name))))) for name in people)
        return Spelled(people, Spellings(people, ((),) * len(people), likely, (), ""))


async def names_in(names: PeopleLookup, group: GroupId, people: tuple[MemberId, ...]) -> list[MemberId]:
    """Return the spellings of these people that are in a group. Raises `ShadowtreeError`, also if that is unsure."""
    return await spelled_in(names, group, await spelled(names, people))


async def spelled_in(names: PeopleLookup, group: GroupId, found: Spelled) -> list[MemberId]:
    """Do as `names_in` for people whose spellings are known."""
    within = await _names_within(names, group, found.names)
    if within:
        return within
    # A name as it is written must be denied for sure, even if other spellings are known.
    within = await _names_within(names, group, [name for name in found.people if name not in found.names])
    if within or found.is_whole:
        return within
    # Silent servers may be back, and know of a spelling that was not asked for. If they are still away, the "no" of
    # `check` says that none of their names is in the group.
    again = await spelled(names, found.people)
    asked = {*found.names, *found.people}
    return await _names_within(names, group, [name for name in again.names if name not in asked])


async def _names_within(names: PeopleLookup, group: GroupId, asked: Iterable[MemberId]) -> list[MemberId]:
    """Return the names that are in a group. Raises `ShadowtreeError` if none is, and a check was unsure."""
    within, unsure = list[MemberId](), list[ShadowtreeError]()
    for name in asked:
        try:
            if await names.check(group, name):
                within.append(name)
        except Unavailable as error:
            unsure.append(error)
    if unsure and not within:
        raise unsure[0]
    return within


def by_mailbox(people: Iterable[MemberId]) -> frozenset[str]:
    """Return the mailboxes of people."""
    return frozenset(map(mailbox_of, people))
