"""What an update makes of all its arcs, united from what the homes of their parents found.

Kept in columns, for an update may bring a whole graph: numbers stand for names, as in `ArcColumns`.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set

from namegraph.columns import PRESENT, column_of, numbers_in, pack_arcs, places_in, unpack_arcs
from namegraph.messages import ArcColumns, ArcId
from namegraph.names import NodeId
from namegraph.records import NodeKind


class ArcOutcomes:
    """All arcs of one update; the kind of each is that of its child after the update."""

    def __init__(self) -> None:
        self._numbers: dict[NodeId, int] = {}
        self._parents = array("I")
        self._children = array("I")
        self._present = bytearray()
        self._kinds = bytearray()
        self._costs = array("Q")
        self._versions = array("Q")

    def add(self, columns: ArcColumns, kinds: Mapping[NodeId, NodeKind], declined: Set[ArcId] = frozenset()) -> None:
        """Add what one server found; `kinds` says what children are after the update, as far as arcs to them stay.

        Arcs that are `declined` are left out.
        """
        if declined:
            columns = pack_arcs(change for change in unpack_arcs(columns) if change.arc not in declined)
        numbers = self._numbers
        renumbered = [numbers.setdefault(name, len(numbers)) for name in columns.names]
        children = places_in(columns.children)
        self._parents.extend(map(renumbered.__getitem__, places_in(columns.parents)))
        self._children.extend(map(renumbered.__getitem__, children))
        self._present += columns.present
        after = [kinds.get(name) for name in columns.names]
        for child, is_present, kind in zip(children, columns.present, columns.kinds, strict=True):
            found = after[child] if is_present == PRESENT else kind
            assert found is not None, "the home of a child says what it is"
            self._kinds.append(found)
        self._costs.extend(numbers_in(columns.costs))
        self._versions.extend(numbers_in(columns.versions))

    @property
    def names(self) -> list[NodeId]:
        """The ends of the arcs, by number."""
        return list(self._numbers)

    @property
    def joined_count(self) -> int:
        """How many arcs the update joins."""
        return self._present.count(PRESENT)

    def children(self) -> list[NodeId]:
        """The children of the arcs, each once."""
        names = self.names
        return [names[number] for number in dict.fromkeys(self._children)]

    def joined_parents(self) -> list[NodeId]:
        """The parents of joined arcs, each once."""
        names = self.names
        joined = (
            parent for parent, is_present in zip(self._parents, self._present, strict=True) if is_present == PRESENT
        )
        return [names[number] for number in dict.fromkeys(joined)]

    def rows(self) -> Iterator[tuple[int, int, int, int, int, int]]:
        """Of each arc the numbers of its ends, what becomes of it (as in `columns`), kind, cost and version."""
        return zip(self._parents, self._children, self._present, self._kinds, self._costs, self._versions, strict=True)

    def concerning(self, ends: Callable[[NodeId], bool], *, group_children: Callable[[NodeId], bool]) -> ArcColumns:
        """The arcs of which an end is one of those, or the child a group that is one of these."""
        names = self.names
        is_end = bytearray(map(ends, names))
        is_wanted_below = bytearray(map(group_children, names))
        group = NodeKind.GROUP.value
        chosen = [
            place
            for place, (parent, child, kind) in enumerate(zip(self._parents, self._children, self._kinds, strict=True))
            if is_end[parent] or is_end[child] or (kind == group and is_wanted_below[child])
        ]
        return self._columns(names, chosen)

    def all_columns(self) -> ArcColumns:
        """All arcs."""
        return ArcColumns(
            tuple(self._numbers),
            column_of(self._parents),
            column_of(self._children),
            bytes(self._present),
            bytes(self._kinds),
            column_of(self._costs),
            column_of(self._versions),
        )

    def _columns(self, names: Sequence[NodeId], chosen: Iterable[int]) -> ArcColumns:
        chosen = list(chosen)
        parents = [self._parents[place] for place in chosen]
        children = [self._children[place] for place in chosen]
        numbers = {number: place for place, number in enumerate(dict.fromkeys([*parents, *children]))}
        return ArcColumns(
            tuple([names[number] for number in numbers]),
            column_of(array("I", map(numbers.__getitem__, parents))),
            column_of(array("I", map(numbers.__getitem__, children))),
            bytes(map(self._present.__getitem__, chosen)),
            bytes(map(self._kinds.__getitem__, chosen)),
            column_of(array("Q", map(self._costs.__getitem__, chosen))),
            column_of(array("Q", map(self._versions.__getitem__, chosen))),
        )
