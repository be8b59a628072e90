"""Old names of renamed groups, of this server and of other servers.

    group renamed old -> new --> a row of old at every participant --> 30 days later, or old is a group again: no row
    renamed again new -> newer --> the row of old leads to newer

With a row, the home of a group reports the new name for the old one. All participants read messages to the old
name, sent before the update, as messages to the new name.

Only time that passes while this server runs counts: a row lasts 30 days of its running time.

Source: docs/protocol-updates.md, "Renaming, leaving everywhere".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from namegraph.model.moments import shallow
from namegraph.model.names import NodeId
from namegraph.state.durable_maps import NODES, TEXTS, DurableMap, DurableState, packed

RENAMED = "renamed"
"""Rows: one for each name that is remembered."""

CLOCK = "renames' clock"
"""Rows: one, the seconds that this server has run since its first rename, as of the last count."""

KEPT_SECONDS = 30 * 24 * 3600.0

RENAMES_LIMIT = 1_000
"""Names that are remembered. Beyond this limit, the oldest are forgotten."""

COUNTED_EVERY_SECONDS = 600.0
"""Most time that a restart loses, if steps are taken all the time."""


class Renamed(NamedTuple):
    """The name that replaced an old one."""

    to: NodeId
    at: float
    """Time of the rename, in seconds on the clock of this part."""


class Renames:
    """The old names that one server remembers."""

    def __init__(self, durable: DurableState) -> None:
        self._rows = DurableMap(durable, RENAMED, NODES, packed(Renamed))
        self._clock = DurableMap(durable, CLOCK, TEXTS, packed(float))
        self._noted: list[tuple[NodeId, NodeId]] = []
        self._counted_at: float | None = None
        self._due_at = 0.0

    def hold(self) -> Renames:
        """Return the present old names, for readers."""
        held = shallow(self)
        held._rows = self._rows.hold()
        return held

    def end_holds(self) -> None:
        """Note that nobody reads held names any more."""
        self._rows.end_moments()

    def __bool__(self) -> bool:
        return bool(self._rows)

    def newest(self, name: NodeId) -> NodeId | None:
        """Return the present name of a group that had this name. None if not known."""
        row = self._rows.get(name)
        return None if row is None else row.to

    def note(self, renames: Iterable[tuple[NodeId, NodeId]]) -> None:
        """Record new names of groups. Older names lead to the new ones too."""
        for old, new in renames:
            self._rows.pop(new, None)
            for name, row in list(self._rows.items()):
                if row.to == old:
                    self._rows[name] = row._replace(to=new)
            self._rows[old] = Renamed(new, self._seconds)
            self._noted.append((old, new))
        while len(self._rows) > RENAMES_LIMIT:
            del self._rows[min(self._rows, key=lambda name: (self._rows[name].at, name))]

    def take_noted(self) -> list[tuple[NodeId, NodeId]]:
        """Return the renames noted since the last call."""
        noted, self._noted = self._noted, []
        return noted

    def forget_used(self, names: Iterable[NodeId]) -> None:
        """Forget old names that groups have again."""
        for name in names:
            self._rows.pop(name, None)

    def forget_deleted(self, group: NodeId) -> None:
        """Forget the old names of a group that is deleted."""
        for name in [name for name, row in self._rows.items() if row.to == group]:
            del self._rows[name]

    def is_due(self, now: float) -> bool:
        """Return True if time is to be counted again."""
        return bool(self._rows) and now >= self._due_at

    def count(self, now: float) -> None:
        """Add the time since the last count, and forget rows that are too old. `now` is in seconds."""
        self._due_at = now + COUNTED_EVERY_SECONDS
        if self._counted_at is not None and now > self._counted_at:
            self._clock.put_off("", self._seconds + now - self._counted_at)
        self._counted_at = now
        for name in [name for name, row in self._rows.items() if self._seconds - row.at > KEPT_SECONDS]:
            del self._rows[name]

    @property
    def names(self) -> tuple[NodeId, ...]:
        """The old names, sorted."""
        return tuple(sorted(self._rows))

    @property
    def _seconds(self) -> float:
        return self._clock.get("", 0.0)
