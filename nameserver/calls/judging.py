"""Judgement of the caller of a read, at the home of the group that it asks about.

    server without a policy                     no judgement, and no cost
    the caller has the privilege                the answer
    the caller may view the group               PERMISSION_DENIED, with the privilege that is needed
    the caller may not view it, or it is not    GROUP_NOT_FOUND: one text for both

Groups of the caller at its own server are asked for only if the privilege depends on them. More groups never take a
privilege away.

Source: docs/security.md, "What callers are told".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from namegraph import CallerFacts, CallerRights, CoreQueries, NodeId, Privilege, Reason, RefusedError
from nameserver.calls.caller_facts import FactsOfCallers

HIDDEN: Final = "(hidden)"
"""Entry of a pathname in place of the groups that the caller may not know. No name has this form."""


class Judging:
    """Judge of the callers of one server's reads."""

    def __init__(self, *, core: CoreQueries, facts: FactsOfCallers) -> None:
        self._core = core
        self._facts = facts

    @property
    def is_needed(self) -> bool:
        """True if this server judges callers."""
        return self._core.server_policy is not None

    def rights_known_here(self) -> CallerRights:
        """Return the rights of the caller as far as this server knows them by itself, for the present state."""
        return self._core.rights_of(self._facts.known_here())

    async def all_facts(self) -> CallerFacts | None:
        """Return all facts on the caller, for filters. None if this server judges no callers."""
        return await self._facts.of_caller() if self.is_needed else None

    async def rights(self, privilege: Privilege, groups: Iterable[NodeId]) -> CallerRights:
        """Return the rights of the caller, which settle a privilege of these groups in the present state."""
        known = self._facts.known_here()
        if not self._facts.is_known_here(known):
            rights = self._core.rights_of(known)
            if not all(rights.has(privilege, group) for group in groups):
                told = await self._facts.of_caller()
                known = known if told is None else told
        return self._core.rights_of(known)

    async def require(self, privilege: Privilege, group: NodeId) -> None:
        """Raise `RefusedError` if the caller lacks a privilege of a group of this server, or the group does not exist.

        Nothing is refused at a server that judges no callers.
        """
        if self.is_needed:
            refused = denial(self._core, await self.rights(privilege, (group,)), privilege, group)
            if refused is not None:
                raise refused

    async def denials(self, privilege: Privilege, groups: Sequence[NodeId]) -> dict[NodeId, RefusedError]:
        """Return the refusal for each of these groups of which the caller lacks a privilege."""
        distinct = list(dict.fromkeys(groups))
        rights = await self.rights(privilege, distinct)
        found = ((group, denial(self._core, rights, privilege, group)) for group in distinct)
        return {group: refused for group, refused in found if refused is not None}


def denial(core: CoreQueries, rights: CallerRights, privilege: Privilege, group: NodeId) -> RefusedError | None:
    """Return the refusal for a group of this server. None if it exists and the caller has the privilege.

    The new name of a renamed group is told to a caller that may view the group.
    """
    if core.graph.group(group) is None:
        renamed_to = core.renamed_to(group)
        is_told = renamed_to is not None and rights.has(Privilege.VIEW, renamed_to)
        return core.no_group(group) if is_told else core.missing_group(group)
    if rights.has(privilege, group):
        return None
    if not rights.has(Privilege.VIEW, group):
        return core.missing_group(group)
    try:
        core.require_privilege(rights.facts, privilege, group)
    except RefusedError as error:
        return error
    raise AssertionError("one state gives one judgement")


def may_view(refused: RefusedError) -> bool:
    """Return True if a refusal of `denial` tells that the group exists."""
    return refused.refusal.reason is Reason.PERMISSION_DENIED


def told_pathname(names: Sequence[NodeId], is_readable: Callable[[NodeId], bool]) -> list[str]:
    """Return a pathname from a group to a member, as far as the caller may know.

    `is_readable`: returns True for a group whose arcs the caller may know. The last name is told: the caller asked for
    it.
    """
    for place, name in enumerate(names[:-1]):
        if not is_readable(name):
            return [*names[: place + 1], HIDDEN, names[-1]]
    return list(names)
