"""Outcomes of all arcs of an update, united from the findings of their parents' homes.

Arcs are kept in columns, because an update may bring a whole graph. Numbers stand for names, as in `ArcColumns`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set

import numpy as np

from namegraph.model.names import NodeId
from namegraph.model.rows import NodeKind
from namegraph.wire.columns import (
    GONE,
    PRESENT,
    Numbers,
    chosen_names,
    column_of,
    number_array,
    pack_arcs,
    place_array,
    renumbered,
    state_array,
    unpack_arcs,
)
from namegraph.wire.message_parts import ArcColumns, ArcId, ArcVersion

_NOBODY_KNOWS = 255
"""Marker in a column of kinds: no server has told the kind."""


class UnsaidError(Exception):
    """A missing statement in a `Ready`: a node's home did not say what every home must say of such a node."""

    def __init__(self, node: NodeId) -> None:
        super().__init__(f"its home does not say what is needed of {node}")
        self.node = node


class ArcOutcomes:
    """All arcs of one update. The kind of each is that of its child after the update."""

    def __init__(self) -> None:
        self._numbers: dict[NodeId, int] = {}
        self._parents: Numbers = place_array(b"")
        self._children: Numbers = place_array(b"")
        self._present: Numbers = state_array(b"")
        self._kinds: Numbers = state_array(b"")
        self._costs: Numbers = number_array(b"")
        self._versions: Numbers = number_array(b"")

    def add(self, columns: ArcColumns, kinds: Mapping[NodeId, NodeKind], declined: Set[ArcId] = frozenset()) -> None:
        """Add the findings of one server. `kinds`: kinds of children after the update, for arcs that stay.

        Arcs that are `declined` are left out. Raises `UnsaidError`.
        """
        if not columns.present:
            return
        if declined:
            columns = pack_arcs(change for change in unpack_arcs(columns) if change.arc not in declined)
        numbers = self._numbers
        places = np.array([numbers.setdefault(name, len(numbers)) for name in columns.names], np.uint32)
        after = np.array([kinds.get(name, _NOBODY_KNOWS) for name in columns.names], np.uint8)
        children, present = place_array(columns.children), state_array(columns.present)
        # The server that leaves a rejected arc may have taken a group for a process. The group's record is changed all
        # the same.
        is_known = (present == PRESENT) | (after[children] == NodeKind.GROUP)
        found = np.where(is_known, after[children], state_array(columns.kinds))
        unsaid = found == _NOBODY_KNOWS
        if unsaid.any():
            raise UnsaidError(columns.names[int(children[unsaid][0])])
        self._parents = np.concatenate([self._parents, places[place_array(columns.parents)]])
        self._children = np.concatenate([self._children, places[children]])
        self._present = np.concatenate([self._present, present])
        self._kinds = np.concatenate([self._kinds, found])
        self._costs = np.concatenate([self._costs, number_array(columns.costs)])
        self._versions = np.concatenate([self._versions, number_array(columns.versions)])

    def rise_above(self, told: Iterable[ArcVersion]) -> None:
        """Raise each arc's version above the version that the home of its child tells.

        That home may know the arc at a newer version than the parent's home, and the two may be about to settle it
        at that version. Such a settlement must not win over this update, which comes later.
        """
        numbers = self._numbers
        highest: dict[tuple[int, int], int] = {}
        for (parent, child), version in told:
            if parent in numbers and child in numbers:
                ends = numbers[parent], numbers[child]
                highest[ends] = max(version, highest.get(ends, 0))
        if not highest:
            return
        ends_of = zip(self._parents.tolist(), self._children.tolist(), strict=True)
        above = np.array([highest.get(ends, -1) + 1 for ends in ends_of], np.uint64)
        self._versions = np.maximum(self._versions, above)

    def put_newest_last(self) -> None:
        """Put the newer state last, if both ends leave one arc: the state that is applied last stays.

        The home of the child may know the arc at a newer version than the parent's home, after it joined the arc by
        itself. Both states stay, because each home must find its own statement in the outcome.
        """
        gone = np.flatnonzero(self._present == GONE)
        if len(gone) < 2:
            return
        ends = self._parents[gone].astype(np.uint64) << np.uint64(32) | self._children[gone]
        if len(np.unique(ends)) == len(gone):
            return
        in_order = gone[np.argsort(self._versions[gone], kind="stable")]
        for column in (self._parents, self._children, self._kinds, self._costs, self._versions):
            column[gone] = column[in_order]

    def __len__(self) -> int:
        return len(self._parents)

    @property
    def names(self) -> list[NodeId]:
        """The ends of the arcs, by number."""
        return list(self._numbers)

    @property
    def joined_count(self) -> int:
        """Number of arcs that the update joins."""
        return int(np.count_nonzero(self._present == PRESENT))

    def children(self) -> list[NodeId]:
        """Return the children of the arcs, each once."""
        return chosen_names(self.names, self._children)

    def joined_parents(self) -> list[NodeId]:
        """Return the parents of joined arcs, each once."""
        return chosen_names(self.names, self._parents[self._present == PRESENT])

    def rows(self) -> Iterator[tuple[int, int, int, int, int, int]]:
        """Yield, for each arc, the numbers of its ends, its state (as in `columns`), kind, cost and version."""
        columns = (self._parents, self._children, self._present, self._kinds, self._costs, self._versions)
        return zip(*(column.data for column in columns), strict=True)

    def all_columns(self) -> ArcColumns:
        """Return all arcs."""
        names, (parents, children) = renumbered(self.names, self._parents, self._children)
        return ArcColumns(
            names,
            column_of(parents),
            column_of(children),
            self._present.tobytes(),
            self._kinds.tobytes(),
            column_of(self._costs),
            column_of(self._versions),
        )
