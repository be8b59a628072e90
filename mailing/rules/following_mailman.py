"""Updates that make the groups of lists equal to Mailman's lists, one way: Mailman decides, and is told nothing.

Pure.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Final

from mailing.rules.addresses import mailbox_of
from mailing.rules.from_mailman import Wanted
from shadowtree.updates import Arc, Join, Leave
from shadowtree.vocabulary import GroupId

REMOVED_PER_CENT_LIMIT: Final = 20
"""Most memberships that may be removed, in per cent. Above this limit Mailman has probably told too little."""
OPERATIONS_LIMIT: Final = 100_000
"""Most operations that a name server takes as one atomic update."""


@dataclass(frozen=True, slots=True)
class Difference:
    """Difference between the existing and the wanted groups."""

    created: tuple[GroupId, ...]
    joined: tuple[Arc, ...]
    left: tuple[Arc, ...]
    unchanged: int
    """Number of memberships that are right already."""

    @property
    def removed_per_cent(self) -> float:
        """Removed memberships, in per cent of the existing memberships."""
        before = len(self.left) + self.unchanged
        return 100 * len(self.left) / before if before else 0.0

    def why_not(self, *, is_forced: bool) -> str | None:
        """Return the reason why the update is refused. None if it may run."""
        count = len(self.joined) + len(self.left)
        if count > OPERATIONS_LIMIT:
            return (
                f"{count:,} memberships would change, and one atomic update holds {OPERATIONS_LIMIT:,}; "
                "`shadowtree import --file-format mailman3` adds any number of them, and removes none"
            )
        before = len(self.left) + self.unchanged
        if not is_forced and 100 * len(self.left) > REMOVED_PER_CENT_LIMIT * before:
            return (
                f"{len(self.left):,} of {before:,} memberships would be removed, which is more than "
                f"{REMOVED_PER_CENT_LIMIT} %; --force removes them"
            )
        return None

    def operations(self) -> list[Join | Leave]:
        """Return the operations of the one update."""
        leaves = [Leave(arc.parent, arc.child, arc.kind) for arc in self.left]
        return [*leaves, *(Join(arc.parent, arc.child, arc.kind) for arc in self.joined)]


def difference(wanted: Wanted, groups: Collection[GroupId], arcs: Iterable[Arc]) -> Difference:
    """Return the updates from the existing groups and arcs to the wanted groups and arcs.

    Groups that stand for no list keep all that is in them. A person who is in a group under another spelling keeps that
    spelling.
    """
    ruled, by_ends = wanted.ruled, {(arc.parent, arc.child): arc for arc in wanted.arcs}
    there = {(arc.parent, arc.child): arc for arc in arcs if arc.child and arc.parent in ruled}
    spelled = {_in_any_spelling(arc): ends for ends, arc in there.items() if ends not in by_ends}
    for ends, arc in [*by_ends.items()]:
        otherwise = spelled.get(_in_any_spelling(arc))
        if otherwise is not None and ends not in there:
            by_ends[otherwise] = by_ends.pop(ends)
    return Difference(
        created=tuple(group for group in wanted.groups if group not in groups),
        joined=tuple(arc for ends, arc in sorted(by_ends.items()) if ends not in there),
        left=tuple(arc for ends, arc in sorted(there.items()) if ends not in by_ends),
        unchanged=len(by_ends.keys() & there.keys()),
    )


def _in_any_spelling(arc: Arc) -> tuple[GroupId, str]:
    """Return the key that the arcs of one person into a group have in common."""
    return arc.parent, mailbox_of(arc.child) if arc.kind == "process" else arc.child
