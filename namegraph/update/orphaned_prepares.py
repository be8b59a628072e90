"""Updates for which this server is ready and which their coordinator may have finished without it.

    ready --> (its coordinator goes on without this server, and answers its client) --> (this one notices) --> in doubt

Such an update counts as in doubt already before this server notices. Two signs tell: this server has not heard from the
coordinator lately, or a new view is being agreed on. Without a sign, the outcome is on its way and no client was
answered: then the update is not in doubt.

Source: protocol.md section 7 (while faults last, no answer is wrong without saying that it is incomplete).
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from namegraph.model.names import NodeId, ServerId
from namegraph.model.rows import NodeIndex
from namegraph.state.context import ServerContext
from namegraph.update.order_queue import Entries
from namegraph.wire.message_parts import Cover


class OrphanedPrepares:
    """What these updates may have changed here; most often nothing. Valid for the graph as it is now."""

    def __init__(self, context: ServerContext, covers: Iterable[tuple[ServerId, Cover]] = ()) -> None:
        self._context = context
        self._covers = list(covers)

    def __bool__(self) -> bool:
        return bool(self._covers)

    def servers(self) -> list[ServerId]:
        """The coordinators, sorted."""
        return sorted({coordinator for coordinator, _ in self._covers})

    def about(self, name: NodeId) -> list[ServerId]:
        """The coordinators of what may have changed at a node, or made it; sorted."""
        return sorted({coordinator for coordinator, cover in self._covers if _holds(cover, name)})

    def touches(self, nodes: Iterable[NodeIndex]) -> bool:
        """Whether something may have changed at one of the nodes."""
        ids, covers = self._context.graph.ids, self._covers
        return bool(covers) and any(_holds(cover, ids[node]) for node in nodes for _, cover in covers)

    def touches_above(self, name: NodeId) -> bool:
        """Whether it may have changed what a node is below, or the node itself."""
        node = self._context.graph.index.get(name)
        if not self._covers or node is None:
            return bool(self.about(name))
        above = self._context.ancestors.of(node)
        ids, index = self._context.graph.ids, self._context.graph.index
        for _, cover in self._covers:
            # Either may be large: an import is of half a million nodes.
            if len(cover.ends) + len(cover.entry_nodes) > len(above):
                is_touched = any(_holds(cover, ids[each]) for each in above)
            else:
                is_touched = any(each in index and index[each] in above for names in cover for each in names)
            if is_touched:
                return True
        return False


def orphaned_prepares(context: ServerContext, entries: Entries, unheard: Container[ServerId]) -> OrphanedPrepares:
    """The updates that may have been done without this server, if these servers have gone on without it."""
    found = []
    for update_id, entry in entries.by_update.items():
        coordinator = update_id.coordinator
        # What this server coordinates itself, it has answered nobody for.
        is_cut_off = coordinator != context.server and (context.view_change_in_progress or coordinator in unheard)
        if not is_cut_off or not entry.is_ready or entry.asked is None:
            continue
        update = entries.updates.get(update_id)
        if update is not None and update.is_of_client:
            found.append((coordinator, entry.asked))
    return OrphanedPrepares(context, found)


def _holds(cover: Cover, name: NodeId) -> bool:
    return name in cover.ends or name in cover.entry_nodes
