"""Policies of groups for messages, kept at the home of the group: one row for each group whose policy is not the
default.

    no row: the default --set--> a row --set to the default--> none
                                  '---the group is deleted---> none: one that is created again begins anew

The shell judges who may send, because it can ask the graph over servers. This module only stores the policy.

A message has the quality of the addressed group, the first target, unless its sender asks for less. A sender that asks
for more is refused. A numbered message to a group that takes datagrams asks for more, too: its sender would retry it.

See docs/protocol-messages.md, "Who may send", and docs/messages.md, "What they can rely on".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from msgspec import Struct, structs

from delivery.model.reach import Reach
from delivery.model.words import Kept, Quality
from namegraph import (
    NODES,
    DurableMap,
    DurableState,
    NodeId,
    Reason,
    Records,
    ServerId,
    group_not_found,
    packed,
    refuse,
)

ANYONE: Final = "anyone"
MEMBERS: Final = "members"
"""Keywords of `DeliveryPolicy.senders`. No group id equals one: ids have an `@`."""

_FREED = NodeId("@")
"""Placeholder in a row of the graph: the name that its number stood for is not known any more."""


class DeliveryPolicy(Struct, frozen=True, array_like=True):
    """Policy of deliveries to one group."""

    quality: Quality = Quality.FIFO
    """Highest quality of a message to the group, and the default quality."""
    senders: str = ANYONE
    """`ANYONE`; `MEMBERS`, processes below the group; or the id of the group below which a sender must be."""
    kept: Kept = Kept.DURABLE
    """Storage of messages that are sent from now on."""

    def senders_of(self, group: NodeId) -> NodeId | None:
        """Return the group below which a sender to `group`, the owner of this policy, must be.

        None if anyone may send.
        """
        if self.senders == ANYONE:
            return None
        return group if self.senders == MEMBERS else NodeId(self.senders)


DEFAULT: Final = DeliveryPolicy()


class Policies:
    """Policies of all groups of this server."""

    def __init__(self, durable: DurableState) -> None:
        self._rows = DurableMap(durable, "policy", NODES, packed(DeliveryPolicy))

    def of(self, group: NodeId) -> DeliveryPolicy:
        """Return the policy of a group, or the default for any other target."""
        return self._rows.get(group, DEFAULT)

    def groups(self) -> list[NodeId]:
        """Return the groups whose policy is not the default."""
        return list(self._rows)

    def quality_of(self, addressed: NodeId, asked: Quality | None, *, is_kept: bool) -> Quality:
        """Return the quality of a message to this first target.

        `is_kept`: True if the sender asks for a feature that datagrams lack, such as a number. Raises `RefusedError` if
        the sender asks for more than the policy of the target gives.
        """
        given = self.of(addressed).quality
        wanted = asked if asked is not None else Quality.FIFO if is_kept else given
        if wanted > given:
            raise refuse(
                Reason.TAKES_DATAGRAMS,
                f"{addressed} takes datagrams: a message to it has no number and no request id, and is never settled",
                group=addressed,
            )
        return wanted

    def change(
        self,
        group: NodeId,
        quality: Quality | None,
        senders: str | None,
        kept: Kept | None,
        reach: Reach,
        server: ServerId,
    ) -> DeliveryPolicy:
        """Change the policy of a group and return the new policy. A field that is None stays. Raises `RefusedError`."""
        if reach.home_of(group) not in (None, server):
            raise refuse(Reason.INVALID_REQUEST, f"{group} is not at home at the server {server}")
        before = self.of(group)
        policy = DeliveryPolicy(
            before.quality if quality is None else quality,
            before.senders if senders is None else senders,
            before.kept if kept is None else kept,
        )
        named = None if senders is None else policy.senders_of(group)
        for needed in (group,) if named is None else (group, named):
            home = reach.home_of(needed)
            # Only the home of a group can say whether the group exists.
            if home in (None, server) and not reach.is_group(needed):
                renamed_to = reach.renamed_to(needed)
                raise group_not_found(needed, server, known_subnet=home is not None, renamed_to=renamed_to)
        if policy != DEFAULT:
            self._rows[group] = policy
        elif group in self._rows:
            del self._rows[group]
        return policy

    def rename(self, old: NodeId, new: NodeId) -> None:
        """Move the policy of a renamed group, and update the policies that name it as the group of senders."""
        if old in self._rows:
            self._rows[new] = self._rows.pop(old)
        for group, policy in list(self._rows.items()):
            if policy.senders == old:
                self._rows[group] = structs.replace(policy, senders=new)

    def forget_deleted(self, records: Records, is_group: Callable[[NodeId], bool]) -> None:
        """Forget the policies of groups that a step has deleted, according to the rows that the step writes."""
        if not (self._rows and records.nodes):
            return
        changed = {row.node_id for row in records.nodes}
        touched = self._rows.keys() if _FREED in changed else self._rows.keys() & changed
        for group in [group for group in touched if not is_group(group)]:
            del self._rows[group]
