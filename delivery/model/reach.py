"""What the delivery half asks of the graph, at the instant of a step. The shell fulfils it with `resolver`."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Protocol

from namegraph import ArcRecord, NodeId, ServerId


class Below(Protocol):
    """What a group reaches on this server."""

    @property
    def number(self) -> int:
        """The same number, the same answer."""

    @property
    def processes(self) -> tuple[NodeId, ...]:
        """The processes that live here: sorted, each once."""

    @property
    def onward(self) -> tuple[ServerId, ...]:
        """The servers of members that live elsewhere and are immediately below owned groups; sorted."""

    @property
    def apart(self) -> tuple[ServerId, ...]:
        """Of these, the ones at either end of suspended arcs."""


class Reach(Protocol):
    """What the graph says on this server."""

    def below(self, group: NodeId) -> Below:
        """What a group of any server reaches here."""

    def prepare(self, group: NodeId, room: int) -> int:
        """Find a part of what `below` tells, of so many nodes; returns what room is left: none, where there is more."""

    def onward_over_removed(self, arcs: Iterable[ArcRecord]) -> Collection[ServerId]:
        """The servers to which ways led on from here over those of some arcs that are not there any more."""

    def servers_met(self) -> Collection[ServerId]:
        """All other servers that introduced themselves here."""

    def is_settled_with(self, server: ServerId) -> bool:
        """Whether this server and another one know the same of every arc between them, and of all others in reach."""

    def is_steady(self) -> bool:
        """Whether servers neither agree on a view nor settle what was done while they were apart."""

    def view(self) -> str:
        """Names the view that this server is in."""

    def view_number(self) -> int:
        """The number of that view: later ones have higher numbers."""

    def is_parted(self) -> bool:
        """Whether some server that was met is out of the view: members may be behind suspended arcs."""

    def is_known(self, server: ServerId) -> bool:
        """Whether a server introduced itself here."""

    def home_of(self, name: NodeId) -> ServerId | None:
        """The server that owns a name; None where nobody does, as far as is known here."""

    def homes_of(self, names: Sequence[NodeId]) -> Sequence[ServerId | None]:
        """As `home_of`, for many names, in their order."""

    def is_group(self, name: NodeId) -> bool:
        """Whether a group of this name exists here."""

    def is_process(self, name: NodeId) -> bool:
        """Whether a name is a member of some group here, and no group itself."""

    def renamed_to(self, name: NodeId) -> NodeId | None:
        """The present name of a group that had this name; None if it is not known, or a group has this name."""

    def lives_here(self, name: NodeId) -> bool:
        """Whether a name is such a process, and no other server's."""
