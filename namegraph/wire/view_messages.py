"""What name servers say of one another, and of what was done while they were apart.

Source: protocol.md section 7.
"""

from __future__ import annotations

from msgspec import Struct

from namegraph.model.names import ServerId
from namegraph.model.priorities import Priority
from namegraph.wire.message_parts import ArcId, Cohort, GroupChange, KnownArc, LeftArc, SharedDoubt, UpdateId, ViewId


class Reach(Struct, frozen=True, array_like=True, tag=True):
    """To the server that is to lead: the servers that the sender reaches, and the view it is in."""

    view: ViewId
    servers: tuple[ServerId, ...]


class Propose(Struct, frozen=True, array_like=True, tag=True):
    """Leader to member: stop what is under way, and say what you know of it."""

    view: ViewId


class Decline(Struct, frozen=True, array_like=True, tag=True):
    """Member to leader: no, another server is to lead, or a higher view was promised."""

    view: ViewId
    promised: ViewId
    leader: ServerId
    """The server that is to lead, as far as the sender knows."""


class Accept(Struct, frozen=True, array_like=True, tag=True):
    """Member to leader: what was under way at the sender has stopped."""

    view: ViewId
    origin: Cohort
    reached: tuple[ServerId, ...]
    counter: int
    ready: tuple[UpdateId, ...]
    """Updates for which the sender is ready."""
    decided: tuple[tuple[UpdateId, bytes], ...]
    """Updates that the sender knows to be decided and maybe not done everywhere, each as `Commit.outcome`."""


class Install(Struct, frozen=True, array_like=True, tag=True):
    """Leader to member: finish these updates, drop all others that are under way, and be in the view."""

    view: ViewId
    members: tuple[tuple[ServerId, Cohort], ...]
    """Sorted."""
    counter: int
    """Above all that any member has seen."""
    commits: tuple[bytes, ...]


class ExcludedFromView(Struct, frozen=True, array_like=True, tag="Outside"):
    """Member to a server outside: the members of this view go on without you, for one of them does not reach you."""

    view: ViewId
    members: tuple[ServerId, ...]


class SuspendIncoming(Struct, frozen=True, array_like=True, tag="Entering"):
    """Member to the smallest of its origin: suspend these arcs, which enter the sender from other origins."""

    arcs: tuple[ArcId, ...]


class IncomingSuspended(Struct, frozen=True, array_like=True, tag="Settled"):
    """The smallest of one origin to the leader: the arcs that enter this origin are suspended."""


class Open(Struct, frozen=True, array_like=True, tag=True):
    """Leader to member: all origins have suspended what they must; updates may begin."""


class ArcDigest(Struct, frozen=True, array_like=True, tag="Held"):
    """Home of parents to home of children: the arcs between the two that are suspended at the sender."""

    arcs: tuple[KnownArc, ...]
    unconfirmed: tuple[ArcId, ...] = ()
    """Of these, arcs that were joined at the sender: the receiver never heard of them."""
    in_doubt: tuple[SharedDoubt, ...] = ()
    """What the sender is in doubt of, though it will be told by nobody in the view: whoever holds the ancestors of its
    nodes is in doubt, too."""


class DigestReply(Struct, frozen=True, array_like=True, tag="HeldToo"):
    """Home of children to home of parents: arcs that are newer at the sender, or suspended there and were not named."""

    arcs: tuple[KnownArc, ...]
    unconfirmed: tuple[ArcId, ...] = ()
    """Of these, arcs that were joined at the sender: the parent may never have existed."""


class ForgetLeft(Struct, frozen=True, array_like=True, tag=True):
    """Home of parents to home of children: both can forget these arcs, as everybody knows that they were left."""

    arcs: tuple[LeftArc, ...]
    floor: int
    """No arc between the two was forgotten at a higher version at the sender."""


class LeftForgotten(Struct, frozen=True, array_like=True, tag=True):
    """Home of children to home of parents: the sender knows nothing of these arcs any more; the others it keeps."""

    arcs: tuple[LeftArc, ...]
    floor: int


class MemberReconciled(Struct, frozen=True, array_like=True, tag="Healed"):
    """Member to leader: the sender has settled all that it was to settle."""


class ViewReconciled(Struct, frozen=True, array_like=True, tag="AllHealed"):
    """Leader to member: all members have settled; no arc is known at one end alone any more."""


class HintedOutcome(Struct, frozen=True, array_like=True, tag="Offer"):
    """Coordinator to a home: what an update did to its nodes that was decided while it was out of reach."""

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
"""About views, and what was done while servers were apart."""
