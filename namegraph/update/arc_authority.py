"""Authority over arcs: one table of the servers that may change an arc, in each view.

Each end of an arc has a home, and the parent's home says if the arc is there. While a view parts the two homes, the
one that is there may do some steps alone: remember a join until they meet, or leave a suspended arc. The arc is
checked for that when the update's turn has come.

Every kind of step, with every place of the parent's home and of the child's home, has exactly one rule. The order
of the rules means nothing.

Source: docs/protocol-updates.md, "What each server judges"; docs/protocol-partitions.md, "While apart".
"""

from __future__ import annotations

from enum import Enum, IntEnum
from itertools import product
from typing import NamedTuple

from msgspec import structs

from namegraph.model.names import NodeId, ServerId
from namegraph.model.operations import JoinArc, LeaveArc, Operation
from namegraph.state.context import ServerContext
from namegraph.wire.message_parts import ReconcileArc, SuspendArc

ArcOperation = JoinArc | LeaveArc | ReconcileArc | SuspendArc


class Place(IntEnum):
    """Place of a server, as seen from this one."""

    HERE = 0
    """This server."""
    THERE = 1
    """Another server in the view, and within reach."""
    LOST = 2
    """Another server in the view, and out of reach. A new view will follow."""
    AWAY = 3
    """A server in another view, or in none."""
    RETIRED = 4
    """AWAY, and gone for good, as an operator says."""


class ArcStep(IntEnum):
    """Kind of step with an arc."""

    JOIN = 0
    JOIN_OFFLINE = 1
    """Join an arc. If the home of one end cannot hear of the join, the arc waits until it can."""
    LEAVE = 2
    LEAVE_UNCONFIRMED = 3
    """Leave, at its child's end, an arc that the parent's home does not know."""
    SETTLE = 4
    SUSPEND = 5


class End(Enum):
    """Ends of an arc."""

    PARENT = 1
    CHILD = 2
    BOTH = 3


class Need(Enum):
    """Condition that an arc must meet to be left."""

    NOTHING = 0
    SUSPENDED = 1
    SUSPENDED_GROUP = 2
    """Suspended, and either to a group or unknown to the parent's home.

    A process counts as a member whichever server is away. If the parent's home knows an arc to a process, it alone
    may leave the arc. The nodes below a group that is away do not count as known.
    """
    UNCONFIRMED = 3


class Rule(NamedTuple):
    """Rule for some steps, with the homes of both ends at some places."""

    steps: tuple[ArcStep, ...]
    parents: frozenset[Place]
    children: frozenset[Place]
    asked: End
    """Ends whose homes the coordinator asks."""
    judge: End
    """End whose home judges if the arc is there."""
    answers: End
    """End whose home answers a client that asks for this step."""
    waits: bool = False
    """True if the arc is suspended until the home of the other end knows of it."""
    needs: Need = Need.NOTHING


HERE, ANY = frozenset([Place.HERE]), frozenset(Place)
OUT = frozenset([Place.AWAY, Place.RETIRED])
IN = ANY - OUT
OTHERS_IN = IN - HERE
AWAY, RETIRED = frozenset([Place.AWAY]), frozenset([Place.RETIRED])

_JOINS, _OFFLINE = (ArcStep.JOIN, ArcStep.SETTLE), (ArcStep.JOIN_OFFLINE,)
_LEAVE, _UNCONFIRMED = (ArcStep.LEAVE,), (ArcStep.LEAVE_UNCONFIRMED,)
_PARENT, _CHILD, _BOTH = End.PARENT, End.CHILD, End.BOTH

RULES = (
    # Steps, places of the parent's home and of the child's home; ends that are asked, that judge, that answer.
    Rule(_JOINS, IN, ANY, _BOTH, _PARENT, _PARENT),
    Rule(_JOINS, OUT, ANY, _BOTH, _CHILD, _PARENT),
    # The view alone decides, because its members agree on it. If a server is lost, one member may know that and another
    # not.
    Rule(_OFFLINE, IN, IN, _BOTH, _PARENT, _PARENT),
    Rule(_OFFLINE, HERE, OUT, _PARENT, _PARENT, _PARENT, waits=True),
    Rule(_OFFLINE, OTHERS_IN, OUT, _PARENT, _PARENT, _PARENT),
    Rule(_OFFLINE, OUT, HERE, _CHILD, _CHILD, _CHILD, waits=True),
    Rule(_OFFLINE, OUT, OTHERS_IN, _BOTH, _CHILD, _CHILD),
    Rule(_OFFLINE, OUT, OUT, _PARENT, _CHILD, _CHILD),
    Rule(_LEAVE, IN, IN, _BOTH, _PARENT, _PARENT),
    Rule(_LEAVE, IN, OUT, _PARENT, _PARENT, _PARENT, needs=Need.SUSPENDED),
    Rule(_LEAVE, OUT, OUT, _PARENT, _CHILD, _PARENT, needs=Need.SUSPENDED),
    # The child's end does not leave the arc for another coordinator. A coordinator that could not tell its outcome in
    # time could offer it only to homes of parents.
    Rule(_LEAVE, OUT, OTHERS_IN, _BOTH, _CHILD, _PARENT),
    Rule(_LEAVE, AWAY, HERE, _CHILD, _CHILD, _PARENT, needs=Need.SUSPENDED_GROUP),
    Rule(_LEAVE, RETIRED, HERE, _CHILD, _CHILD, _PARENT, needs=Need.SUSPENDED),
    Rule(_UNCONFIRMED, ANY, ANY, _CHILD, _CHILD, _CHILD, needs=Need.UNCONFIRMED),
    Rule((ArcStep.SUSPEND,), ANY, ANY, _CHILD, _CHILD, _CHILD),
)

_RULE_OF = {place: rule for rule in RULES for place in product(rule.steps, sorted(rule.parents), sorted(rule.children))}


class Authority(NamedTuple):
    """Authority of servers over one step with one arc."""

    context: ServerContext
    step: ArcStep
    parent: NodeId
    child: NodeId
    above: ServerId
    """The home of its parent."""
    below: ServerId
    """The home of its child."""
    parent_at: Place
    child_at: Place
    rule: Rule

    @property
    def is_judged_here(self) -> bool:
        """True if this server judges the presence of the arc."""
        return (self.above if self.rule.judge is End.PARENT else self.below) == self.context.server

    @property
    def is_child_here(self) -> bool:
        """True if this server is the home of the child."""
        return self.child_at is Place.HERE

    @property
    def acts_for_parent_home(self) -> bool:
        """True if this server is the home of the child and speaks for the home of the parent, which is away."""
        return self.child_at is Place.HERE and self.parent_at in OUT

    @property
    def is_parted(self) -> bool:
        """True if one end is here, and the home of the other end is away."""
        return self.acts_for_parent_home or (self.parent_at is Place.HERE and self.child_at in OUT)

    @property
    def begins_here(self) -> bool:
        """True if this server may coordinate the step, although another server owns the parent."""
        is_at_child_alone = self.rule.asked is End.CHILD and self.child_at is Place.HERE
        return is_at_child_alone and (self.step is not ArcStep.LEAVE or self.may_leave)

    @property
    def may_leave(self) -> bool:
        """True if the arc meets the condition for being left under this rule."""
        context, parent, child = self.context, self.parent, self.child
        match self.rule.needs:
            case Need.NOTHING:
                return True
            case Need.SUSPENDED:
                return context.is_suspended(parent, child)
            case Need.SUSPENDED_GROUP:
                is_surely_left = context.graph.group(child) is not None or context.is_unconfirmed(parent, child)
                return is_surely_left and context.is_suspended(parent, child)
            case Need.UNCONFIRMED:
                return context.is_unconfirmed(parent, child)

    @property
    def asked(self) -> list[tuple[ServerId, NodeId, bool]]:
        """(server, node, True if all nodes below it matter) for each server that the coordinator asks."""
        ends = [(self.above, self.parent, False)] if self.rule.asked is not End.CHILD else []
        return [*ends, (self.below, self.child, True)] if self.rule.asked is not End.PARENT else ends

    @property
    def concerned(self) -> tuple[ServerId, ...]:
        """Servers that hear of the step if they are asked for anything, each once."""
        return (self.below,) if self.step is ArcStep.SUSPEND else tuple(dict.fromkeys((self.above, self.below)))


def authority(context: ServerContext, step: ArcStep, parent: NodeId, child: NodeId) -> Authority:
    """Return the authority over a step, in the present view of this server."""
    above, below = context.home_of(parent), context.home_below(parent=parent, child=child)
    parent_at = place_of(context, above)
    child_at = parent_at if below == above else place_of(context, below)
    return Authority(
        context, step, parent, child, above, below, parent_at, child_at, _RULE_OF[step, parent_at, child_at]
    )


def authority_over(context: ServerContext, operation: ArcOperation) -> Authority:
    """Return the authority over an operation."""
    match operation:
        case JoinArc():
            step = ArcStep.JOIN_OFFLINE if operation.offline else ArcStep.JOIN
        case LeaveArc():
            step = ArcStep.LEAVE_UNCONFIRMED if operation.is_unconfirmed else ArcStep.LEAVE
        case ReconcileArc():
            step = ArcStep.SETTLE
        case SuspendArc():
            step = ArcStep.SUSPEND
    return authority(context, step, operation.parent, operation.child)


def marked(context: ServerContext, operation: Operation) -> Operation:
    """Return an operation with `is_unconfirmed` set as of now. The child's home alone leaves an arc that the parent's
    home does not know.

    The parent's home may have joined the arc since the operation was last marked.
    """
    if not isinstance(operation, LeaveArc):
        return operation
    is_unconfirmed = context.is_unconfirmed(operation.parent, operation.child)
    return structs.replace(operation, is_unconfirmed=is_unconfirmed)


def place_of(context: ServerContext, server: ServerId) -> Place:
    """Return the place of a server."""
    if server == context.server:
        return Place.HERE
    if not context.is_in_view(server):
        return Place.RETIRED if server in context.retired else Place.AWAY
    return Place.LOST if server in context.lost else Place.THERE
