"""Removal of people who are excepted from a list by another spelling of their name.

The name service compares names with case. A person who is in a list as ``Ann.Lee@`` and has muted it as ``ann.lee@`` is
in its answer. By mail these names are one person, who gets no copy of that list.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial

from mailing.rules.addresses import mailbox_of
from mailing.shell.names import Names
from mailing.shell.people import by_mailbox
from shadowtree.results import Check, Resolution
from shadowtree.updates import Target
from shadowtree.vocabulary import GroupId, MemberId

PeopleAt = tuple[tuple[MemberId, int], ...]
"""People, each with the position of the first target that reaches the person."""


async def without_excepted(
    names: Names,
    targets: Sequence[Target],
    people: Iterable[tuple[MemberId, int]],
    servers: Collection[str] | None = None,
) -> PeopleAt:
    """Return the people who are excepted by no spelling. Raises `ShadowtreeError`.

    A person whom the first list excepts gets the copy of the next list that reaches and does not except the person.
    `servers`: servers whose people are named. None for all servers.
    """
    everybody = partial(names.everybody, named_servers=servers)
    return await without_excepted_of(everybody, names.check, targets, people)


async def without_excepted_of(
    resolve: Callable[[list[Target]], Awaitable[Resolution]],
    check: Callable[[GroupId, MemberId], Awaitable[Check]],
    targets: Sequence[Target],
    people: Iterable[tuple[MemberId, int]],
) -> PeopleAt:
    """Do as `without_excepted`, with a resolver and a checker of the caller."""
    excepted = {
        at: by_mailbox((await resolve([Target(group) for group in target.excluding])).processes)
        for at, target in enumerate(targets)
        if target.excluding
    }
    if not excepted:
        return tuple(people)
    found = list[tuple[MemberId, int]]()
    for person, first in people:
        mailbox, at = mailbox_of(person), first
        while at < len(targets) and mailbox in excepted.get(at, ()):
            at += 1
            while at < len(targets) and not await check(targets[at].name, person):
                at += 1
        if at < len(targets):
            found.append((person, at))
    return tuple(found)
