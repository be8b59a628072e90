"""What the home of a group lays down for messages to it: one row for each group that has another policy than others.

    no row: the default --set--> a row --set to the default--> none
                                  '---the group is deleted---> none: one that is created again begins anew

Who may send is judged where the graph can be asked over servers, by the shell; this remembers it alone.

The quality of a message is that of the addressed group, the first target, unless its sender asks for less. Who asks for
more is refused: also who only numbers a message to a group that takes datagrams, and would send it again.

Source: delivery.md sections 0, 12, 16.
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
"""No id of a group is such a word: ids have an `@`."""

_FREED = NodeId("@")
"""In a row of the graph: what the number stood for is not known any more."""


class Policy(Struct, frozen=True, array_like=True):
    """Of one group."""

    quality: Quality = Quality.FIFO
    """The most that a message to the group can have, and what it has where nothing else is said."""
    senders: str = ANYONE
    """`ANYONE`; `MEMBERS`, who is below the group; or the id of the group below which a sender must be."""
    kept: Kept = Kept.DURABLE
    """Where messages are that are sent from now on."""

    def senders_of(self, group: NodeId) -> NodeId | None:
        """The group below which a sender to `group`, whose policy this is, must be; None: anyone may send."""
        if self.senders == ANYONE:
            return None
        return group if self.senders == MEMBERS else NodeId(self.senders)


DEFAULT: Final = Policy()


class Policies:
    """Those of all groups of this server."""

    def __init__(self, durable: DurableState) -> None:
        self._rows = DurableMap(durable, "policy", NODES, packed(Policy))

    def of(self, group: NodeId) -> Policy:
        """What holds for a group, or for anything else that can be sent to."""
        return self._rows.get(group, DEFAULT)

    def groups(self) -> list[NodeId]:
        """Those that have another one than the default."""
        return list(self._rows)

    def quality_of(self, addressed: NodeId, asked: Quality | None, *, is_kept: bool) -> Quality:
        """What a message has to this first target; raises `RefusedError` where it asks for more than that gives.

        `is_kept`: whether its sender asks for what no datagram has, as a number.
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
    ) -> Policy:
        """Lay down what holds for a group from now on, and return it; what is None stays. Raises `RefusedError`."""
        if reach.home_of(group) not in (None, server):
            raise refuse(Reason.INVALID_REQUEST, f"{group} is not at home at the server {server}")
        before = self.of(group)
        policy = Policy(
            before.quality if quality is None else quality,
            before.senders if senders is None else senders,
            before.kept if kept is None else kept,
        )
        named = None if senders is None else policy.senders_of(group)
        for needed in (group,) if named is None else (group, named):
            home = reach.home_of(needed)
            # Of a group that is at home elsewhere, this server cannot say whether it is there.
            if home in (None, server) and not reach.is_group(needed):
                renamed_to = reach.renamed_to(needed)
                raise group_not_found(needed, server, known_subnet=home is not None, renamed_to=renamed_to)
        if policy != DEFAULT:
            self._rows[group] = policy
        elif group in self._rows:
            del self._rows[group]
        return policy

    def rename(self, old: NodeId, new: NodeId) -> None:
        """A group has a new name: its policy goes along, and policies that name it as the group of senders follow."""
        if old in self._rows:
            self._rows[new] = self._rows.pop(old)
        for group, policy in list(self._rows.items()):
            if policy.senders == old:
                self._rows[group] = structs.replace(policy, senders=new)

    def forget_deleted(self, records: Records, is_group: Callable[[NodeId], bool]) -> None:
        """Forget the policies of groups that a step has deleted, as the rows that it writes say."""
        if not (self._rows and records.nodes):
            return
        changed = {row.node_id for row in records.nodes}
        touched = self._rows.keys() if _FREED in changed else self._rows.keys() & changed
        for group in [group for group in touched if not is_group(group)]:
            del self._rows[group]
