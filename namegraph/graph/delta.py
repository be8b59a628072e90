"""The net change that an update makes to the external group view."""

from __future__ import annotations

from dataclasses import dataclass, field

from namegraph.model.rows import ArcKey, NodeIndex, NodeKind


@dataclass(slots=True)
class GraphDelta:
    """The net change that an update makes to the external group view. Groups of `kinds` are created or deleted."""

    kinds: dict[NodeIndex, NodeKind] = field(default_factory=dict)
    added: list[tuple[NodeIndex, NodeIndex, int]] = field(default_factory=list)
    """(parent, child, communication cost)."""
    removed: list[ArcKey] = field(default_factory=list)
    already_there: int = 0
    unchanged: tuple[int, ...] = ()
    """Places of joins, leaves and creations of the update that were marked "if needed" and were not needed."""
    groups_created: int = 0
