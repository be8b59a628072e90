"""Conversion between the messages of `shadowtree.v1` and the core's names, operations, outcomes and descriptions."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Protocol, TypeAlias

from google.protobuf.unknown_fields import UnknownFieldSet

from namegraph import (
    ArcState,
    ChildKind,
    Committed,
    CreateGroup,
    DeleteGroup,
    EffectKind,
    GroupDetails,
    InvalidDetailError,
    InvalidNameError,
    JoinArc,
    LeaveArc,
    NodeId,
    NodeKind,
    Operation,
    Policy,
    Reason,
    Subnet,
    checked_details,
    parse_name,
    parse_subnet,
    refuse,
)
from resolver.descriptions import GroupRecord
from shadowtree.v1 import name_service_pb2 as messages
from shadowtree.v1 import names_pb2 as values

KnownIds = Container[NodeId]
"""Ids of the graph. They are canonical, so a text found among them needs no parsing."""

CHILD_KINDS = {
    values.CHILD_KIND_AUTO: ChildKind.AUTO,
    values.CHILD_KIND_GROUP: ChildKind.GROUP,
    values.CHILD_KIND_PROCESS: ChildKind.PROCESS,
}

WIRE_KINDS = {
    NodeKind.ABSENT: values.CHILD_KIND_PROCESS,
    NodeKind.GROUP: values.CHILD_KIND_GROUP,
    NodeKind.PROCESS: values.CHILD_KIND_PROCESS,
}

WIRE_ARC_STATES = {
    ArcState.NORMAL: values.ARC_STATE_NORMAL,
    ArcState.SHADOW: values.ARC_STATE_SHADOW,
    ArcState.FADE: values.ARC_STATE_FADE,
    ArcState.SUSPENDED: values.ARC_STATE_SUSPENDED,
}

WIRE_EFFECT_KINDS = {
    EffectKind.FORMED: values.EFFECT_KIND_FORMED,
    EffectKind.GROWN: values.EFFECT_KIND_GROWN,
    EffectKind.CHANGED: values.EFFECT_KIND_CHANGED,
    EffectKind.BROKEN: values.EFFECT_KIND_BROKEN,
    EffectKind.CONTROLLED: values.EFFECT_KIND_CONTROLLED,
    EffectKind.RELEASED: values.EFFECT_KIND_RELEASED,
}

FIELD_OF_CALLERS = {"child": "member", "parent": "group"}
"""Names of request fields in messages to users: the words of the clients and of the command line."""

ApplyOperation: TypeAlias = messages.ApplyUpdatesRequest.Operation


class ArcRequest(Protocol):
    """Message that names an arc."""

    @property
    def parent(self) -> str:
        """Id of the parent, as it was typed."""

    @property
    def child(self) -> str:
        """Id of the child, as it was typed."""

    @property
    def kind(self) -> values.ChildKind:
        """Kind of the child, as the caller gives it."""

    @property
    def if_needed(self) -> bool:
        """True if an arc that already is as requested is no error."""


def read_id(text: str, field: str, known: KnownIds) -> NodeId:
    """Return the canonical form of a name that came in `field`. Raises `RefusedError` (INVALID_NAME)."""
    if text in known:
        return NodeId(text)
    try:
        return parse_name(text)
    except InvalidNameError as error:
        said = f"{error} (field: {FIELD_OF_CALLERS.get(field, field)})"
        raise refuse(Reason.INVALID_NAME, said, name=error.name, why=error.why, field=field) from None


def read_subnet(text: str) -> Subnet | None:
    """Return the canonical form of a subnet. None for an empty text."""
    if not text:
        return None
    try:
        return parse_subnet(text)
    except InvalidNameError as error:
        raise refuse(Reason.INVALID_NAME, str(error), name=error.name, why=error.why, field="subnet") from None


def require_pairs(groups: Sequence[str], members: Sequence[str], *, limit: int) -> None:
    """Raise `RefusedError` if the columns of pairs differ in length, or are longer than a limit."""
    if len(groups) != len(members):
        raise refuse(
            Reason.INVALID_REQUEST,
            f"the columns differ in length: {len(groups)} groups, {len(members)} members",
            field="members",
        )
    if len(groups) > limit:
        raise refuse(
            Reason.LIMIT_EXCEEDED,
            f"one request holds at most {limit} pairs, not {len(groups)}",
            limit=str(limit),
            field="groups",
        )


def read_child_kind(kind: values.ChildKind) -> ChildKind:
    """Return the kind of a child. Raises `RefusedError` (INVALID_REQUEST)."""
    found = CHILD_KINDS.get(kind)
    if found is None:
        raise refuse(Reason.INVALID_REQUEST, f"there is no child kind {kind}", field="kind")
    return found


def read_details(message: values.GroupDetails) -> dict[str, str]:
    """Return the details of a request by field, without those that are missing. Raises `RefusedError`."""
    if len(UnknownFieldSet(message)):
        raise refuse(
            Reason.INVALID_REQUEST,
            "the request has details of groups that this server, which is older than its caller, does not know; "
            "upgrade it",
            field="details",
        )
    try:
        return checked_details({field.name: text for field, text in message.ListFields()})
    except InvalidDetailError as error:
        raise refuse(Reason.INVALID_REQUEST, str(error), field=error.field) from None


def detailed_group(group: NodeId, details: GroupDetails) -> values.DetailedGroup:
    """Return a group with the details that it has."""
    return values.DetailedGroup(group=group, details=values.GroupDetails(**details.given()))


def group_policy(group: NodeId, policy: Policy) -> values.GroupPolicy:
    """Return a group with its policy."""
    privileges = [
        values.PrivilegeSubjects(privilege=privilege.value, subjects=subjects)
        for privilege, subjects in policy.by_privilege()
    ]
    return values.GroupPolicy(group=group, preset=policy.preset.value, privileges=privileges)


def create_operation(request: messages.CreateGroupRequest, known: KnownIds) -> CreateGroup:
    """Read the operation of a request."""
    return CreateGroup(read_id(request.group, "group", known), request.if_needed)


def delete_operation(request: messages.DeleteGroupRequest, known: KnownIds) -> DeleteGroup:
    """Read the operation of a request."""
    return DeleteGroup(read_id(request.group, "group", known), request.force)


def join_operation(request: ArcRequest, known: KnownIds) -> JoinArc:
    """Read the operation of a request."""
    return JoinArc(
        read_id(request.parent, "parent", known),
        read_id(request.child, "child", known),
        read_child_kind(request.kind),
        if_needed=request.if_needed,
    )


def leave_operation(request: ArcRequest, known: KnownIds) -> LeaveArc:
    """Read the operation of a request."""
    return LeaveArc(
        read_id(request.parent, "parent", known),
        read_id(request.child, "child", known),
        read_child_kind(request.kind),
        if_needed=request.if_needed,
    )


def apply_operations(some: Iterable[ApplyOperation], known: KnownIds) -> list[Operation]:
    """Read some of the operations of an atomic update."""
    return [
        leave_operation(operation, known) if operation.leave else join_operation(operation, known) for operation in some
    ]


def change(committed: Committed) -> values.Change:
    """Return the answer to a write."""
    return values.Change(
        revision=committed.revision,
        effects=[
            values.Effect(kind=WIRE_EFFECT_KINDS[effect.kind], groups=effect.groups, servers=effect.servers)
            for effect in committed.effects
        ],
        unchanged=committed.unchanged,
    )


def import_summary(committed: Committed) -> messages.ImportSummary:
    """Return the answer to an import."""
    counts = committed.counts
    assert counts is not None, "an import is answered with counts"
    return messages.ImportSummary(
        arcs=counts.arcs,
        groups_created=counts.groups_created,
        already_there=counts.already_there,
        revision=committed.revision,
    )


def group_description(
    description: GroupRecord, details: GroupDetails, revision: str, *, unreachable: Iterable[str]
) -> messages.GroupDescription:
    """Return the answer to a question about one group. `unreachable`: servers whose records are missing."""
    message = messages.GroupDescription
    virtual_node = description.virtual_node
    return message(
        group=description.group,
        home=description.home,
        virtual_node=None
        if virtual_node is None
        else message.VirtualNode(vnid=virtual_node.vnid, components=virtual_node.components),
        parents=[
            message.Neighbour(id=near.node_id, kind=WIRE_KINDS[near.kind], state=WIRE_ARC_STATES[near.state])
            for near in description.parents
        ],
        children=[
            message.Neighbour(id=near.node_id, kind=WIRE_KINDS[near.kind], state=WIRE_ARC_STATES[near.state])
            for near in description.children
        ],
        rd_records=[
            message.DuplicationControlRecord(
                source=record.source,
                sink=record.sink,
                parent=record.parent,
                child=record.child,
                ancestors=record.ancestors,
            )
            for record in description.rd_records
        ],
        pathnames=[message.Pathname(nodes=nodes) for nodes in description.pathnames],
        rd_records_truncated=description.rd_records_truncated,
        pathnames_truncated=description.pathnames_truncated,
        revision=revision,
        unreachable=unreachable,
        details=values.GroupDetails(**details.given()),
    )
