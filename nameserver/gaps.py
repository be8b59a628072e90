"""Who may know of groups above a member that this server does not know of: a "no" without them would be a guess.

    arcs from there to something above the member are suspended
    it is in the view of this server, and nothing was heard of it lately: the view may be over, and this server not know

Source: protocol.md sections 7 (answers during a fault) and 8 (never a silent gap).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from namegraph.names import NodeId, ServerId
from resolver.membership import MembershipResolver


class Hearing(Protocol):
    """What the directory of servers knows."""

    def unheard(self) -> list[ServerId]:
        """The servers of the view of which nothing was heard lately."""


class Gaps:
    """What one server cannot know of what is above members."""

    def __init__(self, *, resolver: MembershipResolver, directory: Hearing) -> None:
        self._resolver = resolver
        self._directory = directory

    def are_possible(self) -> bool:
        """Whether there is anything that cannot be known: most often there is not."""
        return self._resolver.has_suspended or bool(self._directory.unheard())

    def above(self, members: Iterable[str]) -> list[ServerId]:
        """Those who may know better about one of the members; sorted."""
        found = set(self._directory.unheard())
        for member in members if self._resolver.has_suspended else ():
            found.update(self._resolver.apart_above(NodeId(member)))
        return sorted(found)
