"""Times at which groups of this server were last created or deleted while another server was away.

Healing uses them in two cases:

- A coordinator offers a missed outcome that concerns the group. The times tell if the offer is older than the last
  change here.
- The home of an arc's other end knows an arc that was joined before the group was deleted. The arc is then gone.

The version of the group's ancestry record cannot tell, because suspending and joining arcs above the group changes
it.

The times are forgotten once a view of all servers is healed, and while that view lasts. Every outcome from before
that view was delivered by then. Each later outcome that is older than all updates under way here was delivered too.
A coordinator that offers an outcome again has not heard that it is done, or went back to an older copy.

Source: docs/protocol-partitions.md, "Healing": a group that is deleted and created again does not get its old arcs
back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import islice

from namegraph.model.names import NodeId
from namegraph.model.priorities import Priority
from namegraph.state.durable_maps import NODES, TEXTS, DurableMap, DurableState, packed

GROUP_APART = "group apart"
"""Rows: the final priority of the last update that created or deleted a group."""
GROUP_DELETED = "group deleted apart"
"""Rows: the final priority of the last update that deleted a group."""
GROUPS_KNOWN = "groups known"
"""Row: a priority. Updates before it have no news about a group."""


class GroupVersions:
    """Times of changes of the groups of one server."""

    def __init__(self, durable: DurableState) -> None:
        self._changed_at = DurableMap(durable, GROUP_APART, NODES, packed(Priority))
        self._deleted_at = DurableMap(durable, GROUP_DELETED, NODES, packed(Priority))
        self._known_before = DurableMap(durable, GROUPS_KNOWN, TEXTS, packed(Priority))
        """A single value, under the empty key."""
        self._elsewhere: dict[NodeId, Priority] = {}

    def deleted_elsewhere(self, groups: Iterable[NodeId], final: Priority) -> None:
        """Mark the coming deletions of these groups, and of no others, with the priority of the missed update.

        The groups count as deleted since that update. The reason: the same update, or a later one, may have joined
        one of the names as a process.
        """
        self._elsewhere = dict.fromkeys(groups, final)

    def note(self, group: NodeId, final: Priority, *, is_present: bool) -> None:
        """Note that a group was created, or deleted."""
        if not is_present:
            final = self._elsewhere.pop(group, final)
        self._changed_at[group] = final
        if not is_present:
            self._deleted_at[group] = final

    def is_noted(self, group: NodeId) -> bool:
        """Return True if the time of the last creation or deletion of a group is known."""
        return group in self._changed_at

    def is_news(self, group: NodeId, final: Priority, *, is_in_doubt: bool) -> bool:
        """Return True if an update of this priority is newer than the last change of the group, and than the last
        heal.

        `is_in_doubt`: True if an update in doubt concerns the group. Then no time of the group was forgotten since.
        """
        is_known = not is_in_doubt and any(final < before for before in self._known_before.values())
        changed_at = self._changed_at.get(group)
        return not is_known and (changed_at is None or changed_at <= final)

    def is_deleted_since(self, group: NodeId, counter: int) -> bool:
        """Return True if a group was deleted after an update of this counter. It may have been created again."""
        deleted_at = self._deleted_at.get(group)
        return deleted_at is not None and deleted_at.counter > counter

    def __len__(self) -> int:
        """Return the number of noted groups."""
        return len(self._changed_at)

    def forget_some(self, before: Priority, *, looked_at: int, is_in_doubt: Callable[[NodeId], bool]) -> int:
        """Check up to `looked_at` times, and forget those before `before`. All updates before that priority are over
        here.

        Times of groups that an update in doubt concerns are kept. Return the counter of the latest forgotten
        deletion, or 0.
        """
        latest = 0
        for times in (self._changed_at, self._deleted_at):
            others = (group for group in times if not is_in_doubt(group))
            for group in [group for group in islice(others, looked_at) if times[group] < before]:
                if times is self._deleted_at:
                    latest = max(latest, times[group].counter)
                del times[group]
        self._known_before[""] = max([before, *self._known_before.values()])
        return latest

    def forget_all(self, before: Priority) -> None:
        """Forget all times: every server has the outcomes of all updates before this priority."""
        self._known_before[""] = before
        self._changed_at.clear()
        self._deleted_at.clear()
