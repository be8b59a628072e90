"""When groups of this server were last created or deleted while another server was away.

Healing asks this in two cases. A coordinator offers a missed outcome that concerns the group: is it older than the last
change here? The home of an arc's other end knows an arc that was joined before the group was deleted: then the arc is
gone. The version of the group's ancestry record cannot tell: suspending and joining arcs above the group changes it.

The times are forgotten once a view of all servers is healed, and while it lasts. By then every outcome from before that
view was delivered, and of those since, each that is older than all that is under way here. If one is offered again, its
sender has not heard that it is done, or went back to an older copy of its database.

Source: protocol.md section 7, *Heal*: a group that is deleted and created again does not get its old arcs back.
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
"""The row: a priority; updates before it can say nothing new of a group."""


class GroupVersions:
    """The groups of one server."""

    def __init__(self, durable: DurableState) -> None:
        self._changed_at = DurableMap(durable, GROUP_APART, NODES, packed(Priority))
        self._deleted_at = DurableMap(durable, GROUP_DELETED, NODES, packed(Priority))
        self._known_before = DurableMap(durable, GROUPS_KNOWN, TEXTS, packed(Priority))
        """One value, without a key."""
        self._elsewhere: dict[NodeId, Priority] = {}

    def deleted_elsewhere(self, groups: Iterable[NodeId], final: Priority) -> None:
        """Mark the coming deletions of these groups, and of no others, with the priority of the update that was missed.

        They count as deleted since that update: the same update, or a later one, may have joined one of the names
        as a process.
        """
        self._elsewhere = dict.fromkeys(groups, final)

    def note(self, group: NodeId, final: Priority, *, is_present: bool) -> None:
        """A group was created, or deleted."""
        if not is_present:
            final = self._elsewhere.pop(group, final)
        self._changed_at[group] = final
        if not is_present:
            self._deleted_at[group] = final

    def is_noted(self, group: NodeId) -> bool:
        """Whether it is known when a group was created or deleted last."""
        return group in self._changed_at

    def is_news(self, group: NodeId, final: Priority, *, is_in_doubt: bool) -> bool:
        """Whether an update of this priority is newer than the last change of the group, and than the last heal.

        `is_in_doubt`: an update in doubt concerns the group. Then nothing was forgotten of it since.
        """
        is_known = not is_in_doubt and any(final < before for before in self._known_before.values())
        changed_at = self._changed_at.get(group)
        return not is_known and (changed_at is None or changed_at <= final)

    def is_deleted_since(self, group: NodeId, counter: int) -> bool:
        """Whether a group was deleted after an update of this counter; it may have been created again."""
        deleted_at = self._deleted_at.get(group)
        return deleted_at is not None and deleted_at.counter > counter

    def __len__(self) -> int:
        """How many groups are noted."""
        return len(self._changed_at)

    def forget_some(self, before: Priority, *, looked_at: int, is_in_doubt: Callable[[NodeId], bool]) -> int:
        """Look at so many times, and forget those before this priority: all updates before it are over here.

        What an update in doubt concerns is kept. Returns the counter of the latest deletion that was forgotten, or 0.
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
