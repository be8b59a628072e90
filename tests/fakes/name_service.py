"""A small, simple name service: one process, arcs in a set, and a plain search for every question.

It keeps the promises that the client and the command line rely on: the wire contract, its errors with their details,
request ids. It has no shadow trees: arcs inside a loop are all `shadow`. It never reports duplication control.
"""

# Methods have the names of the wire contract.
# ruff: noqa: N802

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc
from google.protobuf import any_pb2
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from namegraph.model.names import InvalidNameError, fold_name, parse_name, subnet_of
from namegraph.model.refusals import Reason
from shadowtree.v1 import admin_pb2, name_service_pb2, names_pb2
from shadowtree.v1.admin_pb2_grpc import AdminServiceServicer, add_AdminServiceServicer_to_server
from shadowtree.v1.delivery_pb2_grpc import add_DeliveryServiceServicer_to_server
from shadowtree.v1.name_service_pb2_grpc import NameServiceServicer, add_NameServiceServicer_to_server
from tests.fakes.delivery_service import CODES, FakeDeliveryService, FakeLog

GROUP, PROCESS = names_pb2.CHILD_KIND_GROUP, names_pb2.CHILD_KIND_PROCESS
_CODES = {
    Reason.GROUP_NOT_FOUND: grpc.StatusCode.NOT_FOUND,
    Reason.NOT_A_MEMBER: grpc.StatusCode.NOT_FOUND,
    Reason.GROUP_EXISTS: grpc.StatusCode.ALREADY_EXISTS,
    Reason.ALREADY_MEMBER: grpc.StatusCode.ALREADY_EXISTS,
    Reason.GROUP_IN_USE: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.INVALID_NAME: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.WRONG_KIND: grpc.StatusCode.FAILED_PRECONDITION,
    Reason.SELF_ARC: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.INVALID_REQUEST: grpc.StatusCode.INVALID_ARGUMENT,
    Reason.UNKNOWN_SUBNET: grpc.StatusCode.NOT_FOUND,
    Reason.UNAVAILABLE: grpc.StatusCode.UNAVAILABLE,
    **CODES,
}

_UNNEEDED = {
    "CreateGroupRequest": {Reason.GROUP_EXISTS},
    "DeleteGroupRequest": {Reason.GROUP_NOT_FOUND},
    "JoinRequest": {Reason.ALREADY_MEMBER},
    "LeaveRequest": {Reason.NOT_A_MEMBER},
    "Operation": {Reason.ALREADY_MEMBER, Reason.NOT_A_MEMBER},
}


class RefusedError(Exception):
    """Ends a call with a reason and its facts."""

    def __init__(self, reason: Reason, message: str, **facts: str) -> None:
        super().__init__(message)
        self.reason, self.message, self.facts = reason, message, facts


@dataclass
class FakeGraph:
    """Groups and arcs, and what tests set to make trouble."""

    subnets: tuple[str, ...] = ("x.example", "y.example")
    groups: set[str] = field(default_factory=set)
    details: dict[str, dict[str, str]] = field(default_factory=dict)
    """Details of groups, for those that have some."""
    arcs: dict[tuple[str, str], int] = field(default_factory=dict)
    revision: int = 0
    answers: dict[str, names_pb2.Change] = field(default_factory=dict)
    unreachable: set[str] = field(default_factory=set)
    calls: list[str] = field(default_factory=list)
    peers: dict[str, str] = field(default_factory=lambda: {"y.example": "127.0.0.1:1"})
    database_failure: str = ""
    view: tuple[str, ...] = ()
    asked_for_control: list[str] = field(default_factory=list)
    """The kinds of requests that asked what became controlled or released."""
    log: FakeLog = field(default_factory=FakeLog)
    """Log of messages."""
    is_of_before: bool = False
    """True if calls that the version before lacked are unknown."""
    at_once_limit: int = 1_000
    """Names of one answer at once."""
    pairs_together: list[int] = field(default_factory=list)
    answers_together: threading.Event | None = None
    """Event until which CheckKnown gives no answer."""
    """Pairs of each CheckKnown."""
    chunk_bytes: list[int] = field(default_factory=list)
    """Sizes of the chunks of the last update that came in chunks."""
    drop_answers: int = 0
    """Number of coming writes that are done, but whose answers are lost."""

    def children(self, group: str) -> list[str]:
        return sorted(child for parent, child in self.arcs if parent == group)

    def reached(self, group: str) -> set[str]:
        parents = {parent for parent, _ in self.arcs} - self.unreachable | {group}
        found: set[str] = set()
        stack = [group]
        while stack:
            for child in self.children(stack.pop()):
                if child not in found:
                    found.add(child)
                    if child in parents:
                        stack.append(child)
        return found

    def loop_of(self, group: str) -> list[str]:
        if group not in self.reached(group):
            return []
        return sorted(other for other in self.reached(group) if group in self.reached(other))

    def path(self, group: str, member: str) -> list[str]:
        stack = [[group]]
        seen = set()
        while stack:
            path = stack.pop(0)
            for child in self.children(path[-1]):
                if child == member:
                    return [*path, child]
                if child not in seen:
                    seen.add(child)
                    stack.append([*path, child])
        return []


class FakeNameService(NameServiceServicer):
    """Answers for `graph`."""

    def __init__(self, graph: FakeGraph) -> None:
        self.graph = graph
        self._lock = threading.Lock()

    def CreateGroup(self, request: Any, context: Any) -> Any:
        def create() -> list[names_pb2.Effect]:
            effects = self._create(request.group)
            if not self.graph.is_of_before:
                self._set(_name(request.group), request.details)
            return effects

        change = self._write(request, context, (request, create))
        change.details_kept = not (self.graph.is_of_before or change.unchanged)
        return change

    def SetDetails(self, request: Any, context: Any) -> Any:
        self._require_new("SetDetails", context)

        def set_all() -> list[names_pb2.Effect]:
            for each in request.groups:
                if not request.if_none:
                    self._must_exist(each.group)
                elif each.group not in self.graph.groups or each.group in self.graph.details:
                    continue
                self._set(_name(each.group), each.details)
            return []

        return self._write(request, context, (request, set_all))

    def _set(self, group: str, details: Any) -> None:
        found = self.graph.details.get(group, {}) | {field.name: text for field, text in details.ListFields()}
        self.graph.details.pop(group, None)
        if any(found.values()):
            self.graph.details[group] = {name: text for name, text in found.items() if text}

    def DeleteGroup(self, request: Any, context: Any) -> Any:
        return self._write(request, context, (request, lambda: self._delete(request.group, request.force)))

    def Join(self, request: Any, context: Any) -> Any:
        return self._write(request, context, (request, lambda: self._join(request)))

    def Leave(self, request: Any, context: Any) -> Any:
        return self._write(request, context, (request, lambda: self._leave(request)))

    def LeaveEverywhere(self, request: Any, context: Any) -> Any:
        left = [
            parent
            for parent, child in sorted(self.graph.arcs)
            if child == request.member and request.subnet in ("", subnet_of(parse_name(parent)))
        ]

        def leave() -> list[names_pb2.Effect]:
            for parent in left:
                del self.graph.arcs[parent, request.member]
            return []

        change = self._write(request, context, (request, leave))
        return name_service_pb2.LeaveEverywhereResponse(change=change, left=left)

    def RenameGroup(self, request: Any, context: Any) -> Any:
        return self._write(request, context, (request, lambda: self._rename(request.group, request.new_name)))

    def _rename(self, old: str, new: str) -> list[names_pb2.Effect]:
        self._must_exist(old)
        self._create(new)
        self.graph.groups.discard(old)
        if old in self.graph.details:
            self.graph.details[new] = self.graph.details.pop(old)
        arcs = self.graph.arcs.items()
        renamed = {(new if p == old else p, new if c == old else c): kind for (p, c), kind in arcs}
        self.graph.arcs.clear()
        self.graph.arcs.update(renamed)
        return []

    def ApplyInChunks(self, requests: Any, context: Any) -> Any:
        self._require_new("ApplyInChunks", context)
        chunks = list(requests)
        first = chunks[0]
        assert not any(chunk.request_id or chunk.operation_count for chunk in chunks[1:])
        operations = [operation for chunk in chunks for operation in chunk.operations]
        assert len(operations) == first.operation_count
        self.graph.chunk_bytes = [chunk.ByteSize() for chunk in chunks]
        request = name_service_pb2.ApplyUpdatesRequest(
            operations=operations, request_id=first.request_id, report_control=first.report_control
        )
        return self.ApplyUpdates(request, context)

    def ApplyUpdates(self, request: Any, context: Any) -> Any:
        steps = [(each, partial(self._leave if each.leave else self._join, each)) for each in request.operations]
        return self._write(request, context, *steps)

    def Import(self, requests: Any, context: Any) -> Any:
        with _refusals(context):
            names: list[str] = []
            arcs, groups = [], []
            chunks = list(requests)
            assert chunks[0].chunk_count == len(chunks)
            for chunk in chunks:
                names += chunk.names
                groups += chunk.groups
                arcs += zip(chunk.parents, chunk.children, chunk.kinds, strict=True)
            before_groups, before_arcs = len(self.graph.groups), len(self.graph.arcs)
            self.graph.groups.update(names[number] for number in groups)
            for parent, child, kind in arcs:
                self.graph.groups.add(names[parent])
                if kind == GROUP:
                    self.graph.groups.add(names[child])
                self.graph.arcs[names[parent], names[child]] = kind
            self.graph.revision += 1
            added = len(self.graph.arcs) - before_arcs
            return name_service_pb2.ImportSummary(
                arcs=added,
                groups_created=len(self.graph.groups) - before_groups,
                already_there=len(arcs) - added,
                revision=self._revision(),
            )

    def Export(self, request: Any, context: Any) -> Any:
        chunk = name_service_pb2.ExportChunk()
        rows = sorted((parent, child, kind) for (parent, child), kind in self.graph.arcs.items())
        empty = self.graph.groups - {parent for parent, _, _ in rows}
        kinds = bytearray()
        for parent, child, kind in sorted([*rows, *((group, "", GROUP) for group in empty)]):
            if request.subnet in ("", subnet_of(parse_name(parent))):
                chunk.parents.append(parent)
                chunk.children.append(child)
                kinds.append(kind)
        chunk.kinds = bytes(kinds)
        for group, details in sorted(self.graph.details.items()):
            if group in chunk.parents:
                chunk.details.add(group=group, details=names_pb2.GroupDetails(**details))
        chunk.unreachable.extend(sorted(self.graph.unreachable))
        yield chunk

    def Resolve(self, request: Any, context: Any) -> Any:
        with _refusals(context):
            if request.targets:
                yield from self._resolve_set(request)
                return
            self._must_exist(request.group)
            reached = self.graph.reached(request.group)
            if request.direct:
                reached = set(self.graph.children(request.group))
            chunk = name_service_pb2.ResolveChunk(
                revision=self._revision(), basis=self._basis(), is_direct=request.direct
            )
            chunk.processes.extend(sorted(reached - self.graph.groups))
            chunk.unreachable.extend(sorted(reached & self.graph.unreachable))
            yield chunk
            if request.groups:
                yield name_service_pb2.ResolveChunk(groups=sorted(reached & self.graph.groups))
            if request.walk:
                yield self._walk(request.group)

    def _resolve_set(self, request: Any) -> Any:
        first: dict[str, int] = {}
        entered: set[str] = set()
        for place, target in enumerate(request.targets):
            excluding = {*target.excluding, *request.excluding}
            for name in (target.group, *excluding):
                self._must_exist(name)
                entered |= {name, *self.graph.reached(name)}
            for name in self.graph.reached(target.group).difference(*map(self.graph.reached, excluding)):
                first.setdefault(name, place)
        unreachable = sorted(entered & self.graph.unreachable)
        chunk = name_service_pb2.ResolveChunk(revision=self._revision(), unreachable=unreachable)
        chunk.why_unreachable.extend(f"the server of {name} is away" for name in unreachable)
        chunk.processes.extend(sorted(first.keys() - self.graph.groups))
        chunk.process_targets.extend(first[name] for name in chunk.processes)
        yield chunk
        if request.groups:
            groups = sorted(first.keys() & self.graph.groups)
            yield name_service_pb2.ResolveChunk(groups=groups, group_targets=[first[name] for name in groups])

    def _walk(self, group: str) -> Any:
        chunk = name_service_pb2.ResolveChunk()
        seen, stack = {group}, [group]
        while stack:
            node = stack.pop()
            for child in self.graph.children(node):
                if child not in seen:
                    seen.add(child)
                    stack.append(child)
                    step = chunk.walk.add(to=child, kind=self.graph.arcs[node, child], state=self._state(node, child))
                    setattr(step, "from", node)
        return chunk

    def Confirm(self, request: Any, context: Any) -> Any:
        with _refusals(context):
            self.graph.calls.append("Confirm")
            return name_service_pb2.ConfirmResponse(holds=request.basis == self._basis())

    def _basis(self) -> str:
        return f"fake/{self._revision()}"

    def ResolveAtOnce(self, request: Any, context: Any) -> Any:
        return self._at_once("ResolveAtOnce", self.Resolve, name_service_pb2.ResolveChunk, request, context)

    def ListMembershipsAtOnce(self, request: Any, context: Any) -> Any:
        kind = name_service_pb2.ListMembershipsChunk
        return self._at_once("ListMembershipsAtOnce", self.ListMemberships, kind, request, context)

    def _at_once(self, name: str, stream: Any, kind: Any, request: Any, context: Any) -> Any:
        self._require_new(name, context)
        together = kind()
        for chunk in stream(request, context):
            together.MergeFrom(chunk)
        names = len(together.groups) + len(getattr(together, "processes", ()))
        return kind(too_large=True) if names > self.graph.at_once_limit else together

    def _require_new(self, name: str, context: Any) -> None:
        self.graph.calls.append(name)
        if self.graph.is_of_before:
            context.abort(grpc.StatusCode.UNIMPLEMENTED, "Method not found!")

    def CheckKnown(self, request: Any, context: Any) -> Any:
        self._require_new("CheckKnown", context)
        self.graph.pairs_together.append(len(request.groups))
        if self.graph.answers_together is not None:
            self.graph.answers_together.wait(30)
        answers = bytearray()
        for group, member in zip(request.groups, request.members, strict=True):
            reached = self.graph.reached(group)
            is_sure = group in self.graph.groups and not reached & self.graph.unreachable and "@" in member
            answers.append((1 if member in reached else 2) if is_sure else 0)
        return name_service_pb2.CheckKnownResponse(answers=bytes(answers), revision=self._revision())

    def Check(self, request: Any, context: Any) -> Any:
        with _refusals(context):
            self.graph.calls.append("Check")
            self._must_exist(request.group)
            reached = self.graph.reached(request.group)
            is_member, unreachable = request.member in reached, sorted(reached & self.graph.unreachable)
            if unreachable and not is_member:
                raise RefusedError(
                    Reason.UNAVAILABLE,
                    f"cannot tell whether {request.member} is in {request.group}: out of reach: "
                    + ", ".join(unreachable),
                    group=request.group,
                    member=request.member,
                    revision=self._revision(),
                    unreachable="\n".join(unreachable),
                )
            return name_service_pb2.CheckResponse(
                is_member=is_member,
                pathname=self.graph.path(request.group, request.member) if request.explain else (),
                revision=self._revision(),
            )

    def CheckBulk(self, requests: Any, context: Any) -> Any:
        for request in requests:
            answers = bytearray()
            refused = None
            for group, member in zip(request.groups, request.members, strict=True):
                if group not in self.graph.groups:
                    refused = group
                    break
                reached = self.graph.reached(group)
                answers.append(1 if member in reached else 0 if reached & self.graph.unreachable else 2)
            yield name_service_pb2.CheckBulkResponse(
                answers=bytes(answers),
                revision=self._revision(),
                unreachable=sorted(self.graph.unreachable) if 0 in answers else (),
            )
            if refused:
                with _refusals(context):
                    self._must_exist(refused)

    def ListMemberships(self, request: Any, context: Any) -> Any:
        members_of = self.graph.children if request.direct else self.graph.reached
        groups = sorted(group for group in self.graph.groups if request.member in members_of(group))
        yield name_service_pb2.ListMembershipsChunk(
            revision=self._revision(),
            groups=groups,
            unreachable=sorted(self.graph.unreachable),
            is_direct=request.direct,
        )

    def FindSpellings(self, request: Any, context: Any) -> Any:
        names = {*self.graph.groups, *(child for _, child in self.graph.arcs)}
        response = name_service_pb2.FindSpellingsResponse(
            revision=self._revision(), unreachable=sorted(self.graph.unreachable)
        )
        for name in request.names:
            alike = sorted(each for each in names if fold_name(parse_name(each)) == fold_name(parse_name(name)))
            response.found.add(
                groups=[each for each in alike if each in self.graph.groups],
                processes=[each for each in alike if each not in self.graph.groups],
            )
        return response

    def DescribeGroup(self, request: Any, context: Any) -> Any:
        with _refusals(context):
            self._must_exist(request.group)
            group = request.group
            description = name_service_pb2.GroupDescription(
                group=group,
                home="fake",
                revision=self._revision(),
                details=names_pb2.GroupDetails(**self.graph.details.get(group, {})),
            )
            loop = self.graph.loop_of(group)
            if loop:
                description.virtual_node.vnid = f"{loop[0]}#1"
                description.virtual_node.components.extend(loop)
            for (parent, child), kind in sorted(self.graph.arcs.items()):
                if parent == group:
                    description.children.add(id=child, kind=kind, state=self._state(parent, child))
                if child == group:
                    description.parents.add(id=parent, kind=GROUP, state=self._state(parent, child))
            description.pathnames.add(nodes=[group])
            silent = {child for child in self.graph.children(group) if child in self.graph.unreachable}
            description.unreachable.extend(sorted({subnet_of(parse_name(child)) for child in silent}))
            return description

    def ListGroups(self, request: Any, context: Any) -> Any:
        names = [g for g in sorted(self.graph.groups) if request.subnet in ("", subnet_of(parse_name(g)))]
        is_searched = bool(request.contains) and not self.graph.is_of_before
        if is_searched:
            found = request.contains.casefold()
            texts = {g: [g, *self.graph.details.get(g, {}).values()] for g in names}
            names = [g for g in names if any(found in text.casefold() for text in texts[g])]
        after = [g for g in names if g > request.page_token]
        page = after[:2]
        return name_service_pb2.ListGroupsResponse(
            groups=page,
            next_page_token=page[-1] if len(after) > len(page) else "",
            revision=self._revision(),
            unreachable=sorted(self.graph.unreachable),
            is_searched=is_searched,
        )

    def _revision(self) -> str:
        return f"fake.{self.graph.revision}"

    def _state(self, parent: str, child: str) -> int:
        return names_pb2.ARC_STATE_SHADOW if child in self.graph.loop_of(parent) else names_pb2.ARC_STATE_NORMAL

    def _write(self, request: Any, context: Any, *steps: tuple[Any, Callable[[], list[names_pb2.Effect]]]) -> Any:
        with _refusals(context), self._lock:
            self.graph.calls.append(type(request).__name__)
            if getattr(request, "report_control", False):
                self.graph.asked_for_control.append(type(request).__name__)
            if request.request_id not in self.graph.answers:
                effects, unchanged = [], []
                for place, (operation, do) in enumerate(steps, start=1):
                    try:
                        effects += do()
                    except RefusedError as error:
                        if not (
                            getattr(operation, "if_needed", False)
                            and error.reason in _UNNEEDED[type(operation).__name__]
                        ):
                            raise
                        unchanged.append(place)
                self.graph.revision += 1
                self.graph.answers[request.request_id] = names_pb2.Change(
                    revision=self._revision(), effects=effects, unchanged=unchanged
                )
            if self.graph.drop_answers:
                self.graph.drop_answers -= 1
                context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
            return self.graph.answers[request.request_id]

    def _create(self, group: str) -> list[names_pb2.Effect]:
        name = _name(group)
        if subnet_of(parse_name(name)) not in self.graph.subnets:
            raise RefusedError(Reason.UNKNOWN_SUBNET, f"no server owns the subnet of {name}", group=name)
        if name in self.graph.groups:
            raise RefusedError(Reason.GROUP_EXISTS, f"group {name} exists already", group=name)
        self.graph.groups.add(name)
        return []

    def _delete(self, group: str, force: bool) -> list[names_pb2.Effect]:
        self._must_exist(group)
        arcs = [arc for arc in self.graph.arcs if group in arc]
        if arcs and not force:
            raise RefusedError(Reason.GROUP_IN_USE, f"group {group} still has parents or children", group=group)
        for arc in arcs:
            del self.graph.arcs[arc]
        self.graph.groups.remove(group)
        self.graph.details.pop(group, None)
        return []

    def _join(self, operation: Any) -> list[names_pb2.Effect]:
        parent, child = _name(operation.parent), _name(operation.child)
        if parent == child:
            raise RefusedError(Reason.SELF_ARC, f"{parent} cannot be a member of itself", group=parent, member=child)
        self._must_exist(parent)
        if operation.kind == GROUP:
            self._must_exist(child)
        if (parent, child) in self.graph.arcs:
            raise RefusedError(
                Reason.ALREADY_MEMBER, f"{child} is a member of {parent} already", group=parent, member=child
            )
        is_group = operation.kind != PROCESS and child in self.graph.groups
        self.graph.arcs[parent, child] = GROUP if is_group else PROCESS
        loop = self.graph.loop_of(parent) if is_group else []
        if child not in loop:
            return []
        return [names_pb2.Effect(kind=names_pb2.EFFECT_KIND_FORMED, groups=loop, servers=["fake"])]

    def _leave(self, operation: Any) -> list[names_pb2.Effect]:
        parent, child = operation.parent, operation.child
        self._must_exist(parent)
        if (parent, child) not in self.graph.arcs:
            raise RefusedError(Reason.NOT_A_MEMBER, f"{child} is not a member of {parent}", group=parent, member=child)
        loop = self.graph.loop_of(parent)
        del self.graph.arcs[parent, child]
        if child not in loop or self.graph.loop_of(parent) == loop:
            return []
        return [names_pb2.Effect(kind=names_pb2.EFFECT_KIND_BROKEN, groups=loop, servers=["fake"])]

    def _must_exist(self, group: str) -> None:
        if _name(group) in self.graph.unreachable:
            raise RefusedError(
                Reason.UNAVAILABLE, f"the server of {group} is out of reach; nothing was done", unreachable=group
            )
        if any(child == _name(group) and kind == PROCESS for (_, child), kind in self.graph.arcs.items()):
            raise RefusedError(
                Reason.GROUP_NOT_FOUND, f"{group} is a process", group=group, server="fake", kind="process"
            )
        if subnet_of(parse_name(_name(group))) not in self.graph.subnets:
            raise RefusedError(
                Reason.GROUP_NOT_FOUND,
                f"no server owns the subnet of {group}",
                group=group,
                server="fake",
                subnet=subnet_of(parse_name(_name(group))),
            )
        if _name(group) not in self.graph.groups:
            raise RefusedError(
                Reason.GROUP_NOT_FOUND, f"group {group} does not exist (asked server fake)", group=group, server="fake"
            )


class FakeAdminService(AdminServiceServicer):
    """Says how the fake is."""

    def __init__(self, graph: FakeGraph) -> None:
        self.graph = graph

    def GetStatus(self, request: Any, context: Any) -> Any:
        graph = self.graph
        return admin_pb2.ServerStatus(
            server="fake",
            subnets=graph.subnets[:1],
            groups=len(graph.groups),
            processes=len({child for _, child in graph.arcs} - graph.groups),
            arcs=len(graph.arcs),
            revision=f"fake.{graph.revision}",
            database_failure=graph.database_failure,
            view=graph.view,
            version="0.2.0",
            protocol_version=7,
            started_ms=1772353800123,
            uptime_seconds=61.5,
            peers=[admin_pb2.ServerStatus.Peer(address="127.0.0.1:1", subnets=graph.subnets[1:], state="up")],
        )

    def ListPeers(self, request: Any, context: Any) -> Any:
        return self._peers()

    def AddPeer(self, request: Any, context: Any) -> Any:
        with _refusals(context):
            if ":" not in request.address:
                raise RefusedError(Reason.INVALID_REQUEST, f"{request.address!r} is not HOST:PORT", field="address")
            self.graph.peers[request.subnet] = request.address
            return self._peers()

    def RemovePeer(self, request: Any, context: Any) -> Any:
        with _refusals(context):
            if request.subnet not in self.graph.peers:
                raise RefusedError(Reason.INVALID_REQUEST, f"there is no peer of the subnet {request.subnet}")
            del self.graph.peers[request.subnet]
            found = self._peers()
            found.memberships_ended = 7 if request.force else 0
            return found

    def _peers(self) -> Any:
        fault = admin_pb2.PeerList.Fault(kind="garbage", count=2)
        subnets: dict[str, list[str]] = {}
        for subnet, address in self.graph.peers.items():
            subnets.setdefault(address, []).append(subnet)
        return admin_pb2.PeerList(
            peers=[
                admin_pb2.PeerList.Peer(
                    address=address,
                    subnets=owned,
                    server=owned[0],
                    state="connected",
                    letters_waiting=3,
                    faults=[fault],
                    life="suspected",
                    why="no heartbeat for 1.2 s",
                    phi=0.123456,
                    last_heard_seconds=1.23456,
                    via="c.example",
                    relayed=4,
                    version="0.1.0",
                    protocol_version=6,
                    backlog_bytes=2**21,
                    stuck_seconds=61.2345,
                )
                for address, owned in subnets.items()
            ],
            server="fake",
            version="0.2.0",
            protocol_version=7,
            strangers=[fault],
            unknown=[admin_pb2.PeerList.Unknown(server="w.example", subnets=["w.example"], known_to=["y.example"])],
        )


@contextmanager
def serve_fake(
    graph: FakeGraph, *, address: str = "127.0.0.1:0", instead: grpc.GenericRpcHandler | None = None
) -> Iterator[str]:
    """Run the fake, on a free port unless told otherwise; gives its address. `instead` takes its place."""
    with ThreadPoolExecutor(max_workers=8) as workers:
        server = grpc.server(workers)
        if instead is None:
            add_NameServiceServicer_to_server(FakeNameService(graph), server)
        else:
            server.add_generic_rpc_handlers([instead])
        add_AdminServiceServicer_to_server(FakeAdminService(graph), server)
        add_DeliveryServiceServicer_to_server(FakeDeliveryService(graph, _refusals, RefusedError), server)
        port = server.add_insecure_port(address)
        server.start()
        try:
            yield f"127.0.0.1:{port}"
        finally:
            server.stop(0).wait()


def _name(text: str) -> str:
    try:
        return parse_name(text)
    except InvalidNameError as error:
        raise RefusedError(Reason.INVALID_NAME, str(error), name=text[:80]) from None


@contextmanager
def _refusals(context: Any) -> Iterator[None]:
    try:
        yield
    except RefusedError as refused:
        detail = any_pb2.Any()
        detail.Pack(error_details_pb2.ErrorInfo(reason=refused.reason, domain="shadowtree", metadata=refused.facts))
        code = _CODES[refused.reason]
        context.abort_with_status(
            rpc_status.to_status(status_pb2.Status(code=code.value[0], message=refused.message, details=[detail]))
        )
