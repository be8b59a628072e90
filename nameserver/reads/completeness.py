"""Which servers may know better than this one what is above a member: a "no" without them would be a guess.

    a server of another view          suspended arcs lead from it to something above the member
    the coordinator of an update      this server was ready for the update when it was cut off; it may have been done
    any server, until a view heals    it alone may know what was done while servers were apart
    a silent member of the view       it may have lost this server: the view may be over, and this server not know

Source: protocol.md sections 7 (answers during a fault) and 8 (never a silent gap).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from namegraph import NodeId, ServerId
from resolver.membership import MembershipResolver


class Hearing(Protocol):
    """What the directory of servers knows."""

    def unheard(self) -> list[ServerId]:
        """The servers of the view that may have lost this one by now."""


class Completeness:
    """What one server cannot know of what is above members, and below its groups."""

    def __init__(self, *, resolver: MembershipResolver, directory: Hearing) -> None:
        self._resolver = resolver
        self._directory = directory

    def are_possible(self) -> bool:
        """Whether there is anything that cannot be known: most often there is not."""
        return self._resolver.has_gaps or bool(self._directory.unheard())

    def below(self) -> list[str]:
        """The servers that may know that arcs which leave groups of this server are gone; sorted."""
        found = set[str](self._directory.unheard())
        if self._resolver.has_gaps:
            found.update(self._resolver.apart_below())
        return sorted(found)

    def changeable(self) -> frozenset[ServerId]:
        """The servers that may have changed arcs of theirs without this one: a "yes" must not rest on these."""
        return frozenset(self._directory.unheard())

    def above(self, members: Iterable[str]) -> list[str]:
        """The servers that may know better about one of the members; sorted."""
        found = set[str](self._directory.unheard())
        for member in members if self._resolver.has_gaps else ():
            found.update(self._resolver.apart_above(NodeId(member)))
        return sorted(found)
