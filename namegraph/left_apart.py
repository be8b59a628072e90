"""Arcs that this server left while the home of their other end was in another view.

Each end may have left the same arc by itself, one end more often than the other. Both then know the arc as gone, at
different versions. If it were joined anew, the join would be newer than what the parent's home knew, and older than
what the child's home knew. So two homes that meet settle these arcs too.

Source: protocol.md section 7, *Heal*: the highest version wins, removals too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from namegraph.message_parts import ArcId
from namegraph.names import NodeId
from namegraph.records import ProtocolRow

LEFT_APART = "left apart"
"""Rows: an arc that was left so."""


class LeftApart:
    """The arcs that one server left so, each until the server has healed with the home of its other end."""

    def __init__(self) -> None:
        self._arcs: dict[ArcId, None] = {}
        self._changed: dict[ArcId, None] = {}

    def __bool__(self) -> bool:
        return bool(self._arcs)

    def __iter__(self) -> Iterator[ArcId]:
        return iter(self._arcs)

    def note(self, arc: ArcId) -> None:
        """An arc was left by this server alone."""
        self._arcs[arc] = None
        self._changed[arc] = None

    def forget(self, arcs: Collection[ArcId]) -> None:
        """Forget these arcs: both ends know the same of them."""
        for arc in arcs:
            del self._arcs[arc]
            self._changed[arc] = None

    def take_rows(self) -> list[ProtocolRow]:
        """The rows that changed since this was last asked."""
        # No name holds a tab.
        rows = [
            ProtocolRow(LEFT_APART, f"{arc.parent}\t{arc.child}", b"1" if arc in self._arcs else None)
            for arc in self._changed
        ]
        self._changed = {}
        return rows

    def restore(self, rows: Iterable[ProtocolRow]) -> None:
        """Take up what was kept."""
        for row in rows:
            if row.part == LEFT_APART:
                parent, _, child = row.key.partition("\t")
                self._arcs[ArcId(NodeId(parent), NodeId(child))] = None
