"""Outcomes of all arcs of an update, united from the findings of their parents' homes.

Few arcs are united one by one. Many are united in columns, because an update may bring a whole graph. Both ways have
one result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

import numpy as np

from namegraph.model.names import NodeId
from namegraph.model.rows import NodeKind
from namegraph.wire.arc_sets import FEW, arcs_in_columns, count_of, each_arc
from namegraph.wire.columns import (
    GONE,
    PRESENT,
    Numbers,
    column_of,
    number_array,
    pack_arcs,
    place_array,
    renumbered,
    state_array,
    unpack_arcs,
)
from namegraph.wire.message_parts import ArcColumns, ArcId, ArcList, Arcs, ArcVersion, KnownArc

Findings = Sequence[tuple[Arcs, Mapping[NodeId, NodeKind]]]
"""Arcs that each server found, and the kinds after the update of the children that it told.

A foreign process lives at each of its parents' homes. Each of these homes knows its kind there.
"""

_NOBODY_KNOWS = 255
"""Marker in a column of kinds: no server has told the kind."""


class UnsaidError(Exception):
    """A missing statement in a `Ready`: a node's home did not say what every home must say of such a node."""

    def __init__(self, node: NodeId) -> None:
        super().__init__(f"its home does not say what is needed of {node}")
        self.node = node


def unite_arcs(found: Findings, *, declined: Set[ArcId], told: Iterable[ArcVersion]) -> Arcs:
    """Return all arcs of one update. The kind of each is that of its child after the update.

    Arcs that are `declined` are left out. Versions rise above those that are `told`. Raises `UnsaidError`.
    """
    unite = unite_few if sum([count_of(arcs) for arcs, _ in found]) < FEW else unite_many
    return unite(found, declined=declined, told=told)


def unite_few(found: Findings, *, declined: Set[ArcId], told: Iterable[ArcVersion]) -> ArcList:
    """Return the result of `unite_arcs`, by looking at one arc after another."""
    highest: dict[ArcId, int] = {}
    for arc, version in told:
        highest[arc] = max(version, highest.get(arc, 0))
    kinds = _kinds_of(found)
    united: list[KnownArc] = []
    for arcs, kinds_there in found:
        for arc, is_present, kind_found, cost, version, _ in each_arc(arcs):
            if arc in declined:
                continue
            after = kinds_there.get(arc.child, kinds.get(arc.child))
            # As in `ArcOutcomes.add`.
            kind = after if is_present or after is NodeKind.GROUP else kind_found
            if kind is None:
                raise UnsaidError(arc.child)
            above = max(version, highest[arc] + 1) if arc in highest else version
            united.append(KnownArc(arc, is_present, kind, cost, above))
    _put_newest_last(united)
    return ArcList(tuple(united))


def _kinds_of(found: Findings) -> dict[NodeId, NodeKind]:
    """Return the kinds that all servers together told. The last server wins."""
    kinds: dict[NodeId, NodeKind] = {}
    for _, kinds_there in found:
        kinds.update(kinds_there)
    return kinds


def _put_newest_last(arcs: list[KnownArc]) -> None:
    """Put the newer state last, if both ends leave one arc. See `ArcOutcomes.put_newest_last`."""
    gone = [place for place, known in enumerate(arcs) if known.is_present is False]
    if len(gone) < 2 or len({arcs[place].arc for place in gone}) == len(gone):
        return
    in_order = sorted([arcs[place] for place in gone], key=lambda known: known.version)
    for place, known in zip(gone, in_order, strict=True):
        arcs[place] = known


def unite_many(found: Findings, *, declined: Set[ArcId], told: Iterable[ArcVersion]) -> ArcColumns:
    """Return the result of `unite_arcs`, by looking at whole columns."""
    outcomes, kinds = ArcOutcomes(), _kinds_of(found)
    for arcs, kinds_there in found:
        outcomes.add(arcs_in_columns(arcs), kinds_there, kinds, declined)
    outcomes.rise_above(told)
    outcomes.put_newest_last()
    return outcomes.all_columns()


class ArcOutcomes:
    """Many arcs of one update, in columns. Numbers stand for names, as in `ArcColumns`."""

    def __init__(self) -> None:
        self._numbers: dict[NodeId, int] = {}
        self._parents: Numbers = place_array(b"")
        self._children: Numbers = place_array(b"")
        self._present: Numbers = state_array(b"")
        self._kinds: Numbers = state_array(b"")
        self._costs: Numbers = number_array(b"")
        self._versions: Numbers = number_array(b"")

    def add(
        self,
        columns: ArcColumns,
        kinds_there: Mapping[NodeId, NodeKind],
        kinds: Mapping[NodeId, NodeKind],
        declined: Set[ArcId] = frozenset(),
    ) -> None:
        """Add the findings of one server. `kinds_there`: kinds of children that this server told. `kinds`: kinds that
        any server told.

        Arcs that are `declined` are left out. Raises `UnsaidError`.
        """
        if not columns.present:
            return
        if declined:
            columns = pack_arcs(change for change in unpack_arcs(columns) if change.arc not in declined)
        numbers = self._numbers
        places = np.array([numbers.setdefault(name, len(numbers)) for name in columns.names], np.uint32)
        after = np.array([kinds_there.get(name, kinds.get(name, _NOBODY_KNOWS)) for name in columns.names], np.uint8)
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

    def all_columns(self) -> ArcColumns:
        """Return all arcs."""
        names, (parents, children) = renumbered(list(self._numbers), self._parents, self._children)
        return ArcColumns(
            names,
            column_of(parents),
            column_of(children),
            self._present.tobytes(),
            self._kinds.tobytes(),
            column_of(self._costs),
            column_of(self._versions),
        )
