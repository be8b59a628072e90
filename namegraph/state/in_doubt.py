"""Updates in doubt: this server was ready for them when it was cut off from their coordinator.

    Ready --> (a view without the coordinator, in which nobody knows the outcome) --> in doubt --> (healed with it)

The server drops such an update with the view, so that all else can go on. But the coordinator may have done the update,
and answered its client. So the server remembers what the update was to change: no answer that touches it is complete
until the two servers have healed.

Source: protocol.md section 7 (a ready participant never decides alone; while faults last, no answer is wrong without
saying that it is incomplete).
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable
from typing import NamedTuple

from namegraph.model.names import NodeId, ServerId
from namegraph.state.durable_maps import UPDATES, DurableMap, DurableState, packed
from namegraph.wire.message_parts import UpdateId

DOUBT = "doubt"
"""Rows: what an update in doubt was to change here, by the update."""


class Doubt(NamedTuple):
    """What an update may have changed here; sorted."""

    nodes: tuple[NodeId, ...]
    groups: tuple[NodeId, ...]
    """Groups that the update may have created."""


class UpdatesInDoubt:
    """The updates in doubt of one server."""

    def __init__(self, durable: DurableState) -> None:
        self._doubts = DurableMap(durable, DOUBT, UPDATES, packed(Doubt))
        self._servers: dict[NodeId, tuple[ServerId, ...]] = {}
        """By node, the coordinators that may know better; derived from `_doubts`."""
        self._creators: dict[NodeId, tuple[ServerId, ...]] = {}
        """By group, the coordinators that may have created it; derived too."""
        self._find_servers()

    def __bool__(self) -> bool:
        return bool(self._doubts)

    @property
    def nodes(self) -> Collection[NodeId]:
        """The nodes at which something may have changed."""
        return self._servers.keys()

    def servers(self) -> list[ServerId]:
        """The coordinators, sorted."""
        return sorted({update_id.coordinator for update_id in self._doubts})

    def may_be_one(self, coordinator: ServerId, counter: int) -> bool:
        """Whether an update of a coordinator whose final priority has this counter may be among them."""
        # An update is numbered before the votes that its final priority is the highest of.
        return any(update_id.coordinator == coordinator and update_id.number < counter for update_id in self._doubts)

    def about(self, node: NodeId) -> tuple[ServerId, ...]:
        """The coordinators of updates that may have changed a node; most often none."""
        return self._servers.get(node, ())

    def about_group(self, group: NodeId) -> tuple[ServerId, ...]:
        """The coordinators of updates that may have created a group; most often none."""
        return self._creators.get(group, ())

    def note(self, update_id: UpdateId, nodes: Iterable[NodeId], groups: Iterable[NodeId]) -> None:
        """Note an update that was dropped without its outcome: the nodes it concerns, the groups it creates."""
        self._doubts[update_id] = Doubt(tuple(sorted(nodes)), tuple(sorted(groups)))
        self._find_servers()

    def healed(self, with_servers: Container[ServerId]) -> None:
        """Forget the updates of these coordinators: what they did is known here."""
        over = [update_id for update_id in self._doubts if update_id.coordinator in with_servers]
        for update_id in over:
            del self._doubts[update_id]
        if over:
            self._find_servers()

    def _find_servers(self) -> None:
        self._servers = _coordinators((update_id, doubt.nodes) for update_id, doubt in self._doubts.items())
        self._creators = _coordinators((update_id, doubt.groups) for update_id, doubt in self._doubts.items())


def _coordinators(concerned: Iterable[tuple[UpdateId, Iterable[NodeId]]]) -> dict[NodeId, tuple[ServerId, ...]]:
    found: dict[NodeId, set[ServerId]] = {}
    for update_id, nodes in concerned:
        for node in nodes:
            found.setdefault(node, set()).add(update_id.coordinator)
    return {node: tuple(sorted(servers)) for node, servers in found.items()}
