"""Messages between name servers about their views, and about changes made while they were apart.

Source: docs/protocol-partitions.md, "Servers that part".
"""

from __future__ import annotations

from msgspec import Struct

from namegraph.model.names import ServerId
from namegraph.model.priorities import Priority
from namegraph.wire.message_parts import ArcId, Cohort, GroupChange, KnownArc, LeftArc, SharedDoubt, UpdateId, ViewId


class Reach(Struct, frozen=True, array_like=True, tag=True):
    """Report to the server that should lead: the servers that the sender reaches, and the view it is in."""

    view: ViewId
    servers: tuple[ServerId, ...]
    """Servers in the order in which they should lead: sorted, and after them, sorted, those that are passed over."""


class Propose(Struct, frozen=True, array_like=True, tag=True):
    """Leader to member: stop all updates under way, and report their state."""

    view: ViewId


class Decline(Struct, frozen=True, array_like=True, tag=True):
    """Member to leader: no, another server should lead, or a higher view was promised."""

    view: ViewId
    promised: ViewId
    leader: ServerId
    """Server that should lead, as far as the sender knows."""


class Accept(Struct, frozen=True, array_like=True, tag=True):
    """Member to leader: the updates under way at the sender have stopped."""

    view: ViewId
    origin: Cohort
    reached: tuple[ServerId, ...]
    counter: int
    ready: tuple[UpdateId, ...]
    """Updates for which the sender is ready."""
    decided: tuple[tuple[UpdateId, bytes], ...]
    """Updates that the sender knows to be decided and maybe not done everywhere, each in the form of
    `Commit.outcome`."""


class Install(Struct, frozen=True, array_like=True, tag=True):
    """Leader to member: finish these updates, drop all others that are under way, and be in the view."""

    view: ViewId
    members: tuple[tuple[ServerId, Cohort], ...]
    """Servers of the view with their cohorts, sorted."""
    counter: int
    """Counter above all that any member has seen."""
    commits: tuple[bytes, ...]


class ExcludedFromView(Struct, frozen=True, array_like=True, tag="Outside"):
    """Member to a server outside: the members of this view go on without you, because one of them does not reach
    you."""

    view: ViewId
    members: tuple[ServerId, ...]


class SuspendIncoming(Struct, frozen=True, array_like=True, tag="Entering"):
    """Member to the smallest of its origin: suspend these arcs, which enter the sender from other origins."""

    arcs: tuple[ArcId, ...]


class IncomingSuspended(Struct, frozen=True, array_like=True, tag="Settled"):
    """The smallest server of one origin to the leader: the arcs that enter this origin are suspended."""


class Open(Struct, frozen=True, array_like=True, tag=True):
    """Leader to member: all origins have suspended all their arcs, and updates may begin."""


class ArcDigest(Struct, frozen=True, array_like=True, tag="Held"):
    """Home of parents to home of children: the arcs between the two that are suspended at the sender."""

    arcs: tuple[KnownArc, ...]
    unconfirmed: tuple[ArcId, ...] = ()
    """Those of `arcs` that were joined at the sender. The receiver never heard of them."""
    in_doubt: tuple[SharedDoubt, ...] = ()
    """Updates that the sender is in doubt of and whose outcome no member of the view will tell. Each holder of the
    ancestors of its nodes is in doubt, too."""


class DigestReply(Struct, frozen=True, array_like=True, tag="HeldToo"):
    """Home of children to home of parents: arcs that are newer at the sender, or suspended there and were not named."""

    arcs: tuple[KnownArc, ...]
    unconfirmed: tuple[ArcId, ...] = ()
    """Those of `arcs` that were joined at the sender. The parent may never have existed."""


class ForgetLeft(Struct, frozen=True, array_like=True, tag=True):
    """Home of parents to home of children: both can forget these arcs, because every server knows that they were
    left."""

    arcs: tuple[LeftArc, ...]
    floor: int
    """Highest version at which an arc between the two was forgotten at the sender."""


class LeftForgotten(Struct, frozen=True, array_like=True, tag=True):
    """Home of children to home of parents: the sender has forgotten these arcs, and keeps the others."""

    arcs: tuple[LeftArc, ...]
    floor: int


class MemberReconciled(Struct, frozen=True, array_like=True, tag="Healed"):
    """Member to leader: the sender has settled all its arcs."""


class ViewReconciled(Struct, frozen=True, array_like=True, tag="AllHealed"):
    """Leader to member: all members have settled, and no arc is known at one end alone any more."""


class HintedOutcome(Struct, frozen=True, array_like=True, tag="Offer"):
    """Coordinator to a home: the effect on its nodes of an update that was decided while it was out of reach."""

    final: Priority
    groups: tuple[GroupChange, ...]
    arcs: tuple[KnownArc, ...]


ViewMessage = (
    Reach
    | Propose
    | Decline
    | Accept
    | Install
    | ExcludedFromView
    | SuspendIncoming
    | IncomingSuspended
    | Open
    | ArcDigest
    | DigestReply
    | MemberReconciled
    | ViewReconciled
    | HintedOutcome
)
"""Messages about views, and about changes made while servers were apart."""
