"""Interface from delivery to the graph, at the instant of a step. The shell implements it with `resolver`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from namegraph import ArcRecord, NodeId, ServerId


class Below(Protocol):
    """Nodes and servers that this server has below a group."""

    @property
    def number(self) -> int:
        """Version of the answer: equal numbers mean equal answers."""

    @property
    def processes(self) -> tuple[NodeId, ...]:
        """Processes that this server delivers to, sorted, each once."""

    @property
    def onward(self) -> tuple[ServerId, ...]:
        """Homes of members elsewhere that are immediately below groups of this server, sorted."""

    @property
    def apart(self) -> tuple[ServerId, ...]:
        """Servers of `onward` that are at either end of suspended arcs."""


class Reach(Protocol):
    """The graph as this server knows it."""

    def below(self, group: NodeId) -> Below:
        """Return the nodes and servers that this server has below a group of any server."""

    def prepare(self, group: NodeId, room: int) -> int:
        """Compute part of the answer of `below`, for at most `room` nodes.

        Return the unused room: 0 if more is left to do.
        """

    def onward_over_removed(self, arcs: Iterable[ArcRecord]) -> Collection[ServerId]:
        """Return the servers to which paths led from this server over removed arcs among `arcs`."""

    def servers_met(self) -> Collection[ServerId]:
        """Return all other servers that introduced themselves to this server."""

    def is_settled_with(self, server: ServerId) -> bool:
        """True if this server and another server agree on every arc between them, and on all other servers in reach."""

    def is_steady(self) -> bool:
        """True if servers neither agree on a view nor settle changes that were made while they were apart."""

    def view(self) -> str:
        """Return the name of the view that this server is in."""

    def view_number(self) -> int:
        """Return the number of the current view. Later views have higher numbers."""

    def is_parted(self) -> bool:
        """True if some server that was met is out of the view: members may be behind suspended arcs."""

    def is_known(self, server: ServerId) -> bool:
        """True if a server introduced itself to this server."""

    def home_of(self, name: NodeId) -> ServerId | None:
        """Return the server that owns a name. None if this server knows no owner."""

    def homes_of(self, names: Sequence[NodeId]) -> Sequence[ServerId | None]:
        """Return the homes of many names, in their order. See `home_of`."""

    def is_group(self, name: NodeId) -> bool:
        """True if a group of this name exists at this server."""

    def is_process(self, name: NodeId) -> bool:
        """True if a name is a member of some group at this server, and is not a group."""

    def renamed_to(self, name: NodeId) -> NodeId | None:
        """Return the present name of a group that had this name. None if it is not known, or a group has this name."""

    def lives_here(self, name: NodeId) -> bool:
        """True if a name is such a process, and no other server owns it."""
