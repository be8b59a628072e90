"""Every call as a value: its method, its request message and the reader of its response. Pure.

The synchronous and the asynchronous client make the same calls. This module depends on neither.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from typing import Any, Final, Generic, TypeVar

from shadowtree import results
from shadowtree.client import answers
from shadowtree.client.target_sets import Asked, targets_of
from shadowtree.errors import InvalidName, InvalidRequest
from shadowtree.updates import Join, Leave, Target
from shadowtree.v1 import admin_pb2, name_service_pb2, names_pb2
from shadowtree.vocabulary import Address, ChildKind, Consistency, GroupId, MemberId, RequestId, Revision, SubnetName

PAGE_SIZE: Final = 10_000
"""Groups in one page of a list: about half a megabyte."""

_CHILD_KINDS: Final = {
    "auto": names_pb2.CHILD_KIND_AUTO,
    "group": names_pb2.CHILD_KIND_GROUP,
    "process": names_pb2.CHILD_KIND_PROCESS,
}
_CONSISTENCIES: Final = {
    "datagram": name_service_pb2.ResolveRequest.CONSISTENCY_DATAGRAM,
    "ordered": name_service_pb2.ResolveRequest.CONSISTENCY_ORDERED,
}

Answer = TypeVar("Answer")
Chosen = TypeVar("Chosen")


@dataclass(frozen=True, slots=True)
class UnaryCall(Generic[Answer]):
    """A call with one request and one response. `request_id` is set for writes alone."""

    method: str
    request: Any
    read: Callable[[Any], Answer]
    request_id: RequestId | None = None


@dataclass(frozen=True, slots=True)
class StreamCall(Generic[Answer]):
    """A call with one request and many responses. Each attempt collects them in a collector of its own."""

    method: str
    at_once: str
    """Method whose single response is the whole answer, if the answer is small."""
    request: Any
    collect: Callable[[], answers.Collector[Answer]]


def new_request_id() -> RequestId:
    """Make a unique request id."""
    return os.urandom(16).hex()


def request_id_or_new(request_id: RequestId | None) -> RequestId:
    """Return the request id, or a new one; raise `InvalidRequest` for an empty id.

    A server would replace an empty id by one of its own, so that the write could not be repeated safely.
    """
    if request_id == "":
        raise InvalidRequest(
            "request_id is empty: give None, or 1 to 200 printable characters", {"field": "request_id"}
        )
    return new_request_id() if request_id is None else request_id


def given(name: str | None, field: str) -> str:
    """Return the request field for an optional name; raise `InvalidName` for an empty name, which would mean all."""
    if name == "":
        raise InvalidName(f"invalid name '': it is empty (field: {field})", {"name": "", "field": field})
    return "" if name is None else name


UNCHANGED: Final = results.Change("", unchanged=(1,))
"""Answer to an operation that was not needed, from an older server that refuses it."""


def create_group(
    group: GroupId,
    *,
    effects: bool,
    request_id: RequestId | None,
    if_missing: bool = False,
    take_over: bool = False,
    details: Mapping[str, str | None] | None = None,
) -> UnaryCall[results.Change]:
    """Create a group without members. `take_over`: convert a process that is in groups.

    `details`: details of the group, by field. Empty texts do not count.
    """
    request_id = request_id_or_new(request_id)
    given_details = {field: text for field, text in (details or {}).items() if text}
    request = message_of(
        name_service_pb2.CreateGroupRequest,
        group=group,
        report_control=effects,
        request_id=request_id,
        if_needed=if_missing,
        take_over=take_over,
        details=_wire_details(given_details) if given_details else None,
    )
    return UnaryCall("CreateGroup", request, answers.read_created if given_details else answers.read_change, request_id)


def set_details(
    changes: Mapping[GroupId, Mapping[str, str | None]], *, request_id: RequestId | None, if_none: bool = False
) -> UnaryCall[results.Change]:
    """Change details of groups of one subnet, by field. A detail that is None stays; an empty text removes it.

    `if_none`: change only groups that exist and have no details.
    """
    request_id = request_id_or_new(request_id)
    request = name_service_pb2.SetDetailsRequest(request_id=request_id, if_none=if_none)
    for group, each in changes.items():
        if all(text is None for text in each.values()):
            raise InvalidRequest(f"nothing is said of what is to hold: {', '.join(each)}", {"field": ", ".join(each)})
        request.groups.append(message_of(names_pb2.DetailedGroup, group=group, details=_wire_details(each)))
    return UnaryCall("SetDetails", request, answers.read_change, request_id)


def set_policy(
    group: GroupId,
    *,
    preset: str | None,
    privileges: Mapping[str, Sequence[str]],
    without_admin: bool,
    request_id: RequestId | None,
) -> UnaryCall[results.Change]:
    """Replace the policy of a group. `privileges`: subjects by privilege, which differ from those of the preset."""
    if preset is None and not privileges:
        raise InvalidRequest("nothing of the policy is given: name a preset, or a privilege", {"field": "preset"})
    request_id = request_id_or_new(request_id)
    request = message_of(
        name_service_pb2.SetPolicyRequest,
        group=group,
        preset=preset or "",
        privileges=_wire_privileges(privileges),
        without_admin=without_admin,
        request_id=request_id,
    )
    return UnaryCall("SetPolicy", request, answers.read_change, request_id)


def get_policy(group: GroupId) -> UnaryCall[results.GroupPolicy]:
    """Return the policy of a group."""
    return UnaryCall("GetPolicy", message_of(name_service_pb2.GetPolicyRequest, group=group), answers.read_policy)


def adopt_policy(
    *, preset: str, privileges: Mapping[str, Sequence[str]], request_id: RequestId | None
) -> UnaryCall[results.AdoptedPolicy]:
    """Give a policy to all groups of the server that have none."""
    request_id = request_id_or_new(request_id)
    request = message_of(
        name_service_pb2.AdoptPolicyRequest,
        preset=preset,
        privileges=_wire_privileges(privileges),
        request_id=request_id,
    )
    return UnaryCall("AdoptPolicy", request, answers.read_adopted, request_id)


def _wire_privileges(privileges: Mapping[str, Sequence[str]]) -> list[names_pb2.PrivilegeSubjects]:
    return [
        message_of(names_pb2.PrivilegeSubjects, privilege=privilege, subjects=list(subjects))
        for privilege, subjects in privileges.items()
    ]


def _wire_details(details: Mapping[str, str | None]) -> names_pb2.GroupDetails:
    """Return details as a message; raise `InvalidRequest` naming the detail that is invalid."""
    from namegraph import InvalidDetailError, checked_details

    try:
        return names_pb2.GroupDetails(**checked_details(details))
    except InvalidDetailError as error:
        raise InvalidRequest(str(error), {"field": error.field}) from None


def _searched_text(text: str) -> str:
    """Return a text to search for; raise `InvalidRequest` if no group can contain it."""
    from namegraph import SEARCH_LIMIT, InvalidDetailError, checked_text

    try:
        return checked_text("contains", text, SEARCH_LIMIT)
    except InvalidDetailError as error:
        raise InvalidRequest(str(error), {"field": error.field}) from None


def delete_group(
    group: GroupId, *, force: bool, effects: bool, request_id: RequestId | None, if_there: bool = False
) -> UnaryCall[results.Change]:
    """Delete a group. `force`: leave its parents and children first."""
    request_id = request_id_or_new(request_id)
    request = message_of(
        name_service_pb2.DeleteGroupRequest,
        group=group,
        force=force,
        report_control=effects,
        request_id=request_id,
        if_needed=if_there,
    )
    return UnaryCall("DeleteGroup", request, answers.read_change, request_id)


def join(
    parent: GroupId,
    member: MemberId,
    *,
    kind: ChildKind,
    offline: bool,
    effects: bool,
    request_id: RequestId | None,
    if_missing: bool = False,
) -> UnaryCall[results.Change]:
    """Add the arc parent -> member. `offline`: as soon as the servers of both are in reach."""
    request_id = request_id_or_new(request_id)
    request = message_of(
        name_service_pb2.JoinRequest,
        parent=parent,
        child=member,
        kind=choice(_CHILD_KINDS, kind, "kind"),
        offline=offline,
        report_control=effects,
        request_id=request_id,
        if_needed=if_missing,
    )
    return UnaryCall("Join", request, answers.read_change, request_id)


def leave(
    parent: GroupId,
    member: MemberId,
    *,
    kind: ChildKind,
    effects: bool,
    request_id: RequestId | None,
    if_there: bool = False,
) -> UnaryCall[results.Change]:
    """Remove the arc parent -> member."""
    request_id = request_id_or_new(request_id)
    request = message_of(
        name_service_pb2.LeaveRequest,
        parent=parent,
        child=member,
        kind=choice(_CHILD_KINDS, kind, "kind"),
        report_control=effects,
        request_id=request_id,
        if_needed=if_there,
    )
    return UnaryCall("Leave", request, answers.read_change, request_id)


def leave_everywhere(
    member: MemberId, *, subnet: SubnetName | None, effects: bool, request_id: RequestId | None
) -> UnaryCall[results.LeftGroups]:
    """Remove all arcs to a member, or those from groups of one subnet."""
    request_id = request_id_or_new(request_id)
    request = message_of(
        name_service_pb2.LeaveEverywhereRequest,
        member=member,
        subnet=given(subnet, "subnet"),
        report_control=effects,
        request_id=request_id,
    )
    return UnaryCall("LeaveEverywhere", request, partial(answers.read_left, as_kept(member)), request_id)


def rename_group(
    old: GroupId, new: GroupId, *, effects: bool, request_id: RequestId | None
) -> UnaryCall[results.Change]:
    """Give a group another name."""
    request_id = request_id_or_new(request_id)
    request = message_of(
        name_service_pb2.RenameGroupRequest, group=old, new_name=new, report_control=effects, request_id=request_id
    )
    return UnaryCall("RenameGroup", request, answers.read_change, request_id)


def apply(
    operations: Iterable[Join | Leave], *, effects: bool, request_id: RequestId | None
) -> UnaryCall[results.Change]:
    """Apply all operations as one atomic update."""
    request_id = request_id_or_new(request_id)
    operations = list(all_of(operations, (Join, Leave), "operation"))
    request = message_of(
        name_service_pb2.ApplyUpdatesRequest,
        operations=[
            message_of(
                name_service_pb2.ApplyUpdatesRequest.Operation,
                leave=isinstance(operation, Leave),
                parent=operation.parent,
                child=operation.member,
                kind=choice(_CHILD_KINDS, operation.kind, "kind"),
                if_needed=operation.if_there if isinstance(operation, Leave) else operation.if_missing,
            )
            for operation in operations
        ],
        report_control=effects,
        request_id=request_id,
    )
    return UnaryCall("ApplyUpdates", request, answers.read_change, request_id)


def describe(
    group: GroupId, *, pathname_limit: int, at_least_revision: Revision | None
) -> UnaryCall[results.GroupDescription]:
    """Ask for one group and its place in the graph."""
    request = message_of(
        name_service_pb2.DescribeGroupRequest,
        group=group,
        at_least_revision=at_least_revision or "",
        pathname_limit=pathname_limit,
    )
    return UnaryCall("DescribeGroup", request, answers.read_description)


def list_groups(
    subnet: SubnetName | None, *, page_token: str, at_least_revision: Revision | None, contains: str | None = None
) -> UnaryCall[name_service_pb2.ListGroupsResponse]:
    """Ask for one page of the groups. `contains`: a text in the id or in a detail of each group."""
    request = message_of(
        name_service_pb2.ListGroupsRequest,
        subnet=given(subnet, "subnet"),
        page_size=PAGE_SIZE,
        page_token=page_token,
        at_least_revision=at_least_revision or "",
        contains=_searched_text(contains) if contains is not None else "",
    )
    return UnaryCall("ListGroups", request, answers.read_searched if contains else as_it_is)


def resolve(
    asked: Asked,
    *,
    excluding: Iterable[GroupId] = (),
    groups: bool,
    consistency: Consistency,
    walk: bool,
    at_least_revision: Revision | None,
    named_servers: Iterable[str] | None = None,
    direct: bool = False,
) -> StreamCall[results.Resolution]:
    """Ask for the members of a group, or of several. `direct`: immediate members alone."""
    targets = targets_of(asked, excluding, as_kept)
    first = targets[0]
    is_set = len(targets) > 1 or bool(first.excluding)
    request = message_of(
        name_service_pb2.ResolveRequest,
        group="" if is_set else first.name,
        targets=_wire_targets(targets) if is_set else (),
        excluding=_excepted_from_all(targets) if is_set else (),
        groups=groups,
        consistency=choice(_CONSISTENCIES, consistency, "consistency"),
        walk=walk,
        at_least_revision=at_least_revision or "",
        counts=named_servers is not None,
        named_servers=tuple(named_servers or ()),
        direct=direct,
    )
    collect = partial(answers.ResolutionCollector, first.name, targets if is_set else (), is_direct=direct)
    return StreamCall("Resolve", "ResolveAtOnce", request, collect)


def confirm(basis: str) -> UnaryCall[bool]:
    """Ask whether answers of a basis are still valid."""
    request = message_of(name_service_pb2.ConfirmRequest, basis=basis)
    return UnaryCall("Confirm", request, lambda answer: answer.holds)


def _excepted_from_all(targets: Sequence[Target]) -> list[GroupId]:
    """Return the exceptions of all targets, which are sent once, so that the request is no longer than the question."""
    return sorted(set(targets[0].excluding).intersection(*(target.excluding for target in targets)))


def _wire_targets(targets: Sequence[Target]) -> list[names_pb2.Target]:
    from_all = _excepted_from_all(targets)
    return [
        message_of(
            names_pb2.Target,
            group=target.name,
            excluding=[name for name in target.excluding if name not in from_all],
        )
        for target in targets
    ]


def processes(group: GroupId, at_least_revision: Revision | None) -> tuple[str, Any]:
    """Ask for the members of a group, to be read as they arrive."""
    call = resolve(group, groups=False, consistency="datagram", walk=False, at_least_revision=at_least_revision)
    return call.method, call.request


def check(
    group: GroupId, member: MemberId, *, explain: bool, at_least_revision: Revision | None
) -> UnaryCall[results.Check]:
    """Ask whether a member is in a group."""
    request = message_of(
        name_service_pb2.CheckRequest,
        group=group,
        member=member,
        explain=explain,
        at_least_revision=at_least_revision or "",
    )
    return UnaryCall("Check", request, partial(answers.read_check, group=as_kept(group), member=as_kept(member)))


def memberships(
    member: MemberId, *, direct: bool, at_least_revision: Revision | None
) -> StreamCall[results.Memberships]:
    """Ask for the groups of a member. `direct`: groups with the member as an immediate member."""
    request = message_of(
        name_service_pb2.ListMembershipsRequest,
        member=member,
        at_least_revision=at_least_revision or "",
        direct=direct,
    )
    collect = partial(answers.MembershipsCollector, as_kept(member), is_direct=direct)
    return StreamCall("ListMemberships", "ListMembershipsAtOnce", request, collect)


def spellings(names: Iterable[MemberId], at_least_revision: Revision | None) -> UnaryCall[results.Spellings]:
    """Ask for names in use that equal given names but for letter case."""
    asked = tuple(names)
    request = message_of(name_service_pb2.FindSpellingsRequest, names=asked, at_least_revision=at_least_revision or "")
    return UnaryCall("FindSpellings", request, partial(answers.read_spellings, names=tuple(map(as_kept, asked))))


def export(subnet: SubnetName | None, at_least_revision: Revision | None) -> name_service_pb2.ExportRequest:
    """Ask for all groups and arcs."""
    return message_of(
        name_service_pb2.ExportRequest, subnet=given(subnet, "subnet"), at_least_revision=at_least_revision or ""
    )


def status() -> UnaryCall[results.ServerStatus]:
    """Ask a server for its status."""
    return UnaryCall("GetStatus", admin_pb2.GetStatusRequest(), answers.read_status)


def snapshot(cut: str) -> admin_pb2.ExportSnapshotRequest:
    """Ask for all data of a server, at a cut or, with an empty name, at an instant of its own."""
    return message_of(admin_pb2.ExportSnapshotRequest, cut=cut)


def audit_log(after: int, since_ms: int) -> admin_pb2.ExportAuditLogRequest:
    """Ask for rows of the audit log."""
    return message_of(admin_pb2.ExportAuditLogRequest, after=after, since_ms=since_ms)


def checkpoints(server: str | None) -> UnaryCall[tuple[results.AuditCheckpoint, ...]]:
    """Ask for the checkpoints that a server keeps."""
    request = message_of(admin_pb2.ListCheckpointsRequest, server=given(server, "server"))
    return UnaryCall("ListCheckpoints", request, answers.read_checkpoints)


def make_cut(name: str) -> UnaryCall[Revision]:
    """Ask for a cut of all servers."""
    return UnaryCall("MakeCut", message_of(admin_pb2.MakeCutRequest, name=name), lambda message: message.revision)


def peers() -> UnaryCall[results.PeerList]:
    """Ask a server for its peers."""
    return UnaryCall("ListPeers", admin_pb2.ListPeersRequest(), answers.read_peers)


def add_peer(subnet: SubnetName, address: Address, *, trust: str) -> UnaryCall[results.PeerList]:
    """Tell a server the address of the server of another subnet."""
    request = message_of(admin_pb2.AddPeerRequest, subnet=subnet, address=address, trust=trust)
    return UnaryCall("AddPeer", request, answers.read_peers)


def remove_peer(subnet: SubnetName, *, force: bool) -> UnaryCall[results.PeerList]:
    """Tell a server that no server owns a subnet any more."""
    request = message_of(admin_pb2.RemovePeerRequest, subnet=subnet, force=force)
    return UnaryCall("RemovePeer", request, answers.read_peers)


def create_key(
    principal: MemberId,
    *,
    life_ms: int,
    privileges: Iterable[str],
    networks: Iterable[str],
    note: str,
) -> UnaryCall[results.NewApiKey]:
    """Make an API key."""
    request = message_of(
        admin_pb2.CreateKeyRequest,
        principal=principal,
        life_ms=life_ms,
        privileges=list(privileges),
        networks=list(networks),
        note=note,
    )
    return UnaryCall(
        "CreateKey", request, lambda answer: results.NewApiKey(answer.secret, answers.read_key(answer.key))
    )


def list_keys() -> UnaryCall[tuple[results.ApiKey, ...]]:
    """List the API keys of a server."""
    return UnaryCall("ListKeys", admin_pb2.ListKeysRequest(), lambda answer: tuple(map(answers.read_key, answer.keys)))


def revoke_key(id_: str) -> UnaryCall[results.ApiKey]:
    """End an API key."""
    return UnaryCall("RevokeKey", message_of(admin_pb2.RevokeKeyRequest, id=id_), answers.read_key)


def drain(*, restart_grace: float | None) -> UnaryCall[bool]:
    """End a server as planned."""
    request = message_of(admin_pb2.DrainRequest, restart_grace_seconds=restart_grace)
    return UnaryCall("Drain", request, lambda answer: answer.is_finished)


def as_kept(name: str) -> str:
    """Return the name as servers keep it, with its domain in lower case.

    An invalid name is returned unchanged: the server reports what is wrong.
    """
    if not isinstance(name, str):
        raise InvalidRequest(f"a name is text, not {name!r}")
    return _as_kept(name) if len(name) <= NAME_REMEMBERED_LIMIT else _as_kept.__wrapped__(name)


NAMES_REMEMBERED: Final = 10_000
"""Number of names whose kept form is cached: a client asks for the same names again and again."""

NAME_REMEMBERED_LIMIT: Final = 100
"""Maximum number of characters of a cached name. The whole cache takes 5 MB at most."""


@lru_cache(NAMES_REMEMBERED)
def _as_kept(name: str) -> str:
    parse, no_name = _parser()
    try:
        return parse(name)
    except no_name:
        return name


@cache
def _parser() -> tuple[Callable[[str], str], type[Exception]]:
    from namegraph import InvalidNameError, parse_name

    return parse_name, InvalidNameError


ADMIN_METHODS: Final = frozenset(
    {
        "GetStatus",
        "ListPeers",
        "AddPeer",
        "RemovePeer",
        "MakeCut",
        "ExportSnapshot",
        "Drain",
        "CreateKey",
        "ListKeys",
        "RevokeKey",
        "ExportAuditLog",
        "ListCheckpoints",
    }
)
"""Methods of the AdminService."""

DELIVERY_METHODS: Final = frozenset(
    {
        "Send",
        "SendOne",
        "Subscribe",
        "SetDelivery",
        "GetDelivery",
        "OpenMailbox",
        "CloseMailbox",
        "ListMailboxes",
        "ListDeadLetters",
        "ReplayDeadLetters",
        "DropDeadLetters",
    }
)
"""Methods of the DeliveryService. All other methods belong to the NameService."""

Message = TypeVar("Message")


def message_of(message_type: Callable[..., Message], /, **fields: object) -> Message:
    """Build a message; raise `InvalidRequest` naming each value of a wrong type.

    Text that is not Unicode (a command line in another encoding) raises `InvalidName`.
    """
    try:
        return message_type(**fields)
    except UnicodeEncodeError as error:
        text = str(error.object)
        found = next((name for name, value in fields.items() if value == error.object), "")
        field = _ARGUMENTS.get(found, found)
        raise InvalidName(
            f"invalid name {text[:80]!r}: character {error.start + 1} is no Unicode character"
            + (f" (field: {field})" if field else ""),
            {"name": text[:80]} | ({"field": field} if field else {}),
        ) from None
    except (TypeError, ValueError):
        wrong = {
            _ARGUMENTS.get(name, name): value for name, value in fields.items() if not _fits(message_type, name, value)
        }
        told = ", ".join(f"{name}={value!r:.80} ({type(value).__name__})" for name, value in wrong.items())
        raise InvalidRequest(
            f"a value of the wrong type, or out of range: {told}", {"field": ", ".join(wrong)}
        ) from None


_ARGUMENTS: Final = {"child": "member", "report_control": "effects", "restart_grace_seconds": "restart_grace"}
"""Names of request fields in the public interface, where they differ."""


def _fits(message_type: Callable[..., object], name: str, value: object) -> bool:
    try:
        message_type(**{name: value})
    except (TypeError, ValueError):
        return False
    return True


Item = TypeVar("Item")


def all_of(items: Iterable[Item], kinds: tuple[type, ...], what: str) -> Iterator[Item]:
    """Yield the items, each of one of these kinds; raise `InvalidRequest` naming the first other item, from 1."""
    names = " or ".join(kind.__name__ for kind in kinds)
    if not isinstance(items, Iterable):
        raise InvalidRequest(f"{what}s are wanted, each a {names}, not {items!r:.80}")
    for number, item in enumerate(items, start=1):
        if not isinstance(item, kinds):
            raise InvalidRequest(f"{what} {number} is no {names}, but {item!r:.80}")
        yield item


def choice(choices: Mapping[str, Chosen], chosen: str, what: str) -> Chosen:
    """Return the value for a word of the public interface; raise `InvalidRequest` for an unknown word."""
    if not isinstance(chosen, str) or chosen not in choices:
        raise InvalidRequest(f"{what} must be one of {', '.join(choices)}, not {chosen!r}", {what: chosen})
    return choices[chosen]


def as_it_is(message: Any) -> Any:
    """Return the message unchanged, for answers that are combined later."""
    return message
