from shadowtree.v1 import names_pb2 as _names_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CreateGroupRequest(_message.Message):
    __slots__ = ("group", "request_id", "report_control", "if_needed", "take_over", "details")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REPORT_CONTROL_FIELD_NUMBER: _ClassVar[int]
    IF_NEEDED_FIELD_NUMBER: _ClassVar[int]
    TAKE_OVER_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    group: str
    request_id: str
    report_control: bool
    if_needed: bool
    take_over: bool
    details: _names_pb2.GroupDetails
    def __init__(self, group: _Optional[str] = ..., request_id: _Optional[str] = ..., report_control: _Optional[bool] = ..., if_needed: _Optional[bool] = ..., take_over: _Optional[bool] = ..., details: _Optional[_Union[_names_pb2.GroupDetails, _Mapping]] = ...) -> None: ...

class SetDetailsRequest(_message.Message):
    __slots__ = ("groups", "request_id", "if_none")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    IF_NONE_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedCompositeFieldContainer[_names_pb2.DetailedGroup]
    request_id: str
    if_none: bool
    def __init__(self, groups: _Optional[_Iterable[_Union[_names_pb2.DetailedGroup, _Mapping]]] = ..., request_id: _Optional[str] = ..., if_none: _Optional[bool] = ...) -> None: ...

class SetPolicyRequest(_message.Message):
    __slots__ = ("group", "preset", "privileges", "without_admin", "request_id")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PRESET_FIELD_NUMBER: _ClassVar[int]
    PRIVILEGES_FIELD_NUMBER: _ClassVar[int]
    WITHOUT_ADMIN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    group: str
    preset: str
    privileges: _containers.RepeatedCompositeFieldContainer[_names_pb2.PrivilegeSubjects]
    without_admin: bool
    request_id: str
    def __init__(self, group: _Optional[str] = ..., preset: _Optional[str] = ..., privileges: _Optional[_Iterable[_Union[_names_pb2.PrivilegeSubjects, _Mapping]]] = ..., without_admin: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class GetPolicyRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class AdoptPolicyRequest(_message.Message):
    __slots__ = ("preset", "privileges", "request_id")
    PRESET_FIELD_NUMBER: _ClassVar[int]
    PRIVILEGES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    preset: str
    privileges: _containers.RepeatedCompositeFieldContainer[_names_pb2.PrivilegeSubjects]
    request_id: str
    def __init__(self, preset: _Optional[str] = ..., privileges: _Optional[_Iterable[_Union[_names_pb2.PrivilegeSubjects, _Mapping]]] = ..., request_id: _Optional[str] = ...) -> None: ...

class AdoptPolicyResponse(_message.Message):
    __slots__ = ("change", "groups")
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    change: _names_pb2.Change
    groups: int
    def __init__(self, change: _Optional[_Union[_names_pb2.Change, _Mapping]] = ..., groups: _Optional[int] = ...) -> None: ...

class DeleteGroupRequest(_message.Message):
    __slots__ = ("group", "force", "request_id", "report_control", "if_needed")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REPORT_CONTROL_FIELD_NUMBER: _ClassVar[int]
    IF_NEEDED_FIELD_NUMBER: _ClassVar[int]
    group: str
    force: bool
    request_id: str
    report_control: bool
    if_needed: bool
    def __init__(self, group: _Optional[str] = ..., force: _Optional[bool] = ..., request_id: _Optional[str] = ..., report_control: _Optional[bool] = ..., if_needed: _Optional[bool] = ...) -> None: ...

class JoinRequest(_message.Message):
    __slots__ = ("parent", "child", "kind", "request_id", "offline", "report_control", "if_needed")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    CHILD_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    OFFLINE_FIELD_NUMBER: _ClassVar[int]
    REPORT_CONTROL_FIELD_NUMBER: _ClassVar[int]
    IF_NEEDED_FIELD_NUMBER: _ClassVar[int]
    parent: str
    child: str
    kind: _names_pb2.ChildKind
    request_id: str
    offline: bool
    report_control: bool
    if_needed: bool
    def __init__(self, parent: _Optional[str] = ..., child: _Optional[str] = ..., kind: _Optional[_Union[_names_pb2.ChildKind, str]] = ..., request_id: _Optional[str] = ..., offline: _Optional[bool] = ..., report_control: _Optional[bool] = ..., if_needed: _Optional[bool] = ...) -> None: ...

class LeaveRequest(_message.Message):
    __slots__ = ("parent", "child", "kind", "request_id", "report_control", "if_needed")
    PARENT_FIELD_NUMBER: _ClassVar[int]
    CHILD_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REPORT_CONTROL_FIELD_NUMBER: _ClassVar[int]
    IF_NEEDED_FIELD_NUMBER: _ClassVar[int]
    parent: str
    child: str
    kind: _names_pb2.ChildKind
    request_id: str
    report_control: bool
    if_needed: bool
    def __init__(self, parent: _Optional[str] = ..., child: _Optional[str] = ..., kind: _Optional[_Union[_names_pb2.ChildKind, str]] = ..., request_id: _Optional[str] = ..., report_control: _Optional[bool] = ..., if_needed: _Optional[bool] = ...) -> None: ...

class LeaveEverywhereRequest(_message.Message):
    __slots__ = ("member", "subnet", "request_id", "report_control")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    SUBNET_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REPORT_CONTROL_FIELD_NUMBER: _ClassVar[int]
    member: str
    subnet: str
    request_id: str
    report_control: bool
    def __init__(self, member: _Optional[str] = ..., subnet: _Optional[str] = ..., request_id: _Optional[str] = ..., report_control: _Optional[bool] = ...) -> None: ...

class LeaveEverywhereResponse(_message.Message):
    __slots__ = ("change", "left")
    CHANGE_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    change: _names_pb2.Change
    left: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, change: _Optional[_Union[_names_pb2.Change, _Mapping]] = ..., left: _Optional[_Iterable[str]] = ...) -> None: ...

class RenameGroupRequest(_message.Message):
    __slots__ = ("group", "new_name", "request_id", "report_control")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    NEW_NAME_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REPORT_CONTROL_FIELD_NUMBER: _ClassVar[int]
    group: str
    new_name: str
    request_id: str
    report_control: bool
    def __init__(self, group: _Optional[str] = ..., new_name: _Optional[str] = ..., request_id: _Optional[str] = ..., report_control: _Optional[bool] = ...) -> None: ...

class ApplyUpdatesRequest(_message.Message):
    __slots__ = ("operations", "request_id", "report_control")
    class Operation(_message.Message):
        __slots__ = ("leave", "parent", "child", "kind", "if_needed")
        LEAVE_FIELD_NUMBER: _ClassVar[int]
        PARENT_FIELD_NUMBER: _ClassVar[int]
        CHILD_FIELD_NUMBER: _ClassVar[int]
        KIND_FIELD_NUMBER: _ClassVar[int]
        IF_NEEDED_FIELD_NUMBER: _ClassVar[int]
        leave: bool
        parent: str
        child: str
        kind: _names_pb2.ChildKind
        if_needed: bool
        def __init__(self, leave: _Optional[bool] = ..., parent: _Optional[str] = ..., child: _Optional[str] = ..., kind: _Optional[_Union[_names_pb2.ChildKind, str]] = ..., if_needed: _Optional[bool] = ...) -> None: ...
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REPORT_CONTROL_FIELD_NUMBER: _ClassVar[int]
    operations: _containers.RepeatedCompositeFieldContainer[ApplyUpdatesRequest.Operation]
    request_id: str
    report_control: bool
    def __init__(self, operations: _Optional[_Iterable[_Union[ApplyUpdatesRequest.Operation, _Mapping]]] = ..., request_id: _Optional[str] = ..., report_control: _Optional[bool] = ...) -> None: ...

class ApplyUpdatesChunk(_message.Message):
    __slots__ = ("request_id", "report_control", "operation_count", "operations")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    REPORT_CONTROL_FIELD_NUMBER: _ClassVar[int]
    OPERATION_COUNT_FIELD_NUMBER: _ClassVar[int]
    OPERATIONS_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    report_control: bool
    operation_count: int
    operations: _containers.RepeatedCompositeFieldContainer[ApplyUpdatesRequest.Operation]
    def __init__(self, request_id: _Optional[str] = ..., report_control: _Optional[bool] = ..., operation_count: _Optional[int] = ..., operations: _Optional[_Iterable[_Union[ApplyUpdatesRequest.Operation, _Mapping]]] = ...) -> None: ...

class ImportChunk(_message.Message):
    __slots__ = ("request_id", "names", "parents", "children", "kinds", "groups", "chunk_count")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    CHUNK_COUNT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    names: _containers.RepeatedScalarFieldContainer[str]
    parents: _containers.RepeatedScalarFieldContainer[int]
    children: _containers.RepeatedScalarFieldContainer[int]
    kinds: bytes
    groups: _containers.RepeatedScalarFieldContainer[int]
    chunk_count: int
    def __init__(self, request_id: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., parents: _Optional[_Iterable[int]] = ..., children: _Optional[_Iterable[int]] = ..., kinds: _Optional[bytes] = ..., groups: _Optional[_Iterable[int]] = ..., chunk_count: _Optional[int] = ...) -> None: ...

class ImportSummary(_message.Message):
    __slots__ = ("arcs", "groups_created", "already_there", "revision")
    ARCS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_CREATED_FIELD_NUMBER: _ClassVar[int]
    ALREADY_THERE_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    arcs: int
    groups_created: int
    already_there: int
    revision: str
    def __init__(self, arcs: _Optional[int] = ..., groups_created: _Optional[int] = ..., already_there: _Optional[int] = ..., revision: _Optional[str] = ...) -> None: ...

class ExportRequest(_message.Message):
    __slots__ = ("subnet", "at_least_revision")
    SUBNET_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    subnet: str
    at_least_revision: str
    def __init__(self, subnet: _Optional[str] = ..., at_least_revision: _Optional[str] = ...) -> None: ...

class ExportChunk(_message.Message):
    __slots__ = ("parents", "children", "kinds", "unreachable", "details")
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    KINDS_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    parents: _containers.RepeatedScalarFieldContainer[str]
    children: _containers.RepeatedScalarFieldContainer[str]
    kinds: bytes
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    details: _containers.RepeatedCompositeFieldContainer[_names_pb2.DetailedGroup]
    def __init__(self, parents: _Optional[_Iterable[str]] = ..., children: _Optional[_Iterable[str]] = ..., kinds: _Optional[bytes] = ..., unreachable: _Optional[_Iterable[str]] = ..., details: _Optional[_Iterable[_Union[_names_pb2.DetailedGroup, _Mapping]]] = ...) -> None: ...

class DescribeGroupRequest(_message.Message):
    __slots__ = ("group", "at_least_revision", "pathname_limit")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    PATHNAME_LIMIT_FIELD_NUMBER: _ClassVar[int]
    group: str
    at_least_revision: str
    pathname_limit: int
    def __init__(self, group: _Optional[str] = ..., at_least_revision: _Optional[str] = ..., pathname_limit: _Optional[int] = ...) -> None: ...

class GroupDescription(_message.Message):
    __slots__ = ("group", "home", "virtual_node", "parents", "children", "rd_records", "pathnames", "pathnames_truncated", "revision", "rd_records_truncated", "unreachable", "details")
    class VirtualNode(_message.Message):
        __slots__ = ("vnid", "components")
        VNID_FIELD_NUMBER: _ClassVar[int]
        COMPONENTS_FIELD_NUMBER: _ClassVar[int]
        vnid: str
        components: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, vnid: _Optional[str] = ..., components: _Optional[_Iterable[str]] = ...) -> None: ...
    class Neighbour(_message.Message):
        __slots__ = ("id", "kind", "state")
        ID_FIELD_NUMBER: _ClassVar[int]
        KIND_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        id: str
        kind: _names_pb2.ChildKind
        state: _names_pb2.ArcState
        def __init__(self, id: _Optional[str] = ..., kind: _Optional[_Union[_names_pb2.ChildKind, str]] = ..., state: _Optional[_Union[_names_pb2.ArcState, str]] = ...) -> None: ...
    class DuplicationControlRecord(_message.Message):
        __slots__ = ("source", "sink", "parent", "child", "ancestors")
        SOURCE_FIELD_NUMBER: _ClassVar[int]
        SINK_FIELD_NUMBER: _ClassVar[int]
        PARENT_FIELD_NUMBER: _ClassVar[int]
        CHILD_FIELD_NUMBER: _ClassVar[int]
        ANCESTORS_FIELD_NUMBER: _ClassVar[int]
        source: str
        sink: str
        parent: str
        child: str
        ancestors: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, source: _Optional[str] = ..., sink: _Optional[str] = ..., parent: _Optional[str] = ..., child: _Optional[str] = ..., ancestors: _Optional[_Iterable[str]] = ...) -> None: ...
    class Pathname(_message.Message):
        __slots__ = ("nodes",)
        NODES_FIELD_NUMBER: _ClassVar[int]
        nodes: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, nodes: _Optional[_Iterable[str]] = ...) -> None: ...
    GROUP_FIELD_NUMBER: _ClassVar[int]
    HOME_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_NODE_FIELD_NUMBER: _ClassVar[int]
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    RD_RECORDS_FIELD_NUMBER: _ClassVar[int]
    PATHNAMES_FIELD_NUMBER: _ClassVar[int]
    PATHNAMES_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    RD_RECORDS_TRUNCATED_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    group: str
    home: str
    virtual_node: GroupDescription.VirtualNode
    parents: _containers.RepeatedCompositeFieldContainer[GroupDescription.Neighbour]
    children: _containers.RepeatedCompositeFieldContainer[GroupDescription.Neighbour]
    rd_records: _containers.RepeatedCompositeFieldContainer[GroupDescription.DuplicationControlRecord]
    pathnames: _containers.RepeatedCompositeFieldContainer[GroupDescription.Pathname]
    pathnames_truncated: bool
    revision: str
    rd_records_truncated: bool
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    details: _names_pb2.GroupDetails
    def __init__(self, group: _Optional[str] = ..., home: _Optional[str] = ..., virtual_node: _Optional[_Union[GroupDescription.VirtualNode, _Mapping]] = ..., parents: _Optional[_Iterable[_Union[GroupDescription.Neighbour, _Mapping]]] = ..., children: _Optional[_Iterable[_Union[GroupDescription.Neighbour, _Mapping]]] = ..., rd_records: _Optional[_Iterable[_Union[GroupDescription.DuplicationControlRecord, _Mapping]]] = ..., pathnames: _Optional[_Iterable[_Union[GroupDescription.Pathname, _Mapping]]] = ..., pathnames_truncated: _Optional[bool] = ..., revision: _Optional[str] = ..., rd_records_truncated: _Optional[bool] = ..., unreachable: _Optional[_Iterable[str]] = ..., details: _Optional[_Union[_names_pb2.GroupDetails, _Mapping]] = ...) -> None: ...

class ListGroupsRequest(_message.Message):
    __slots__ = ("subnet", "page_size", "page_token", "at_least_revision", "contains")
    SUBNET_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    CONTAINS_FIELD_NUMBER: _ClassVar[int]
    subnet: str
    page_size: int
    page_token: str
    at_least_revision: str
    contains: str
    def __init__(self, subnet: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., at_least_revision: _Optional[str] = ..., contains: _Optional[str] = ...) -> None: ...

class ListGroupsResponse(_message.Message):
    __slots__ = ("groups", "next_page_token", "revision", "unreachable", "is_searched")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    IS_SEARCHED_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    next_page_token: str
    revision: str
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    is_searched: bool
    def __init__(self, groups: _Optional[_Iterable[str]] = ..., next_page_token: _Optional[str] = ..., revision: _Optional[str] = ..., unreachable: _Optional[_Iterable[str]] = ..., is_searched: _Optional[bool] = ...) -> None: ...

class ResolveRequest(_message.Message):
    __slots__ = ("group", "groups", "consistency", "at_least_revision", "walk", "targets", "excluding", "counts", "named_servers", "direct")
    class Consistency(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CONSISTENCY_DATAGRAM: _ClassVar[ResolveRequest.Consistency]
        CONSISTENCY_ORDERED: _ClassVar[ResolveRequest.Consistency]
    CONSISTENCY_DATAGRAM: ResolveRequest.Consistency
    CONSISTENCY_ORDERED: ResolveRequest.Consistency
    GROUP_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    CONSISTENCY_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    WALK_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDING_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    NAMED_SERVERS_FIELD_NUMBER: _ClassVar[int]
    DIRECT_FIELD_NUMBER: _ClassVar[int]
    group: str
    groups: bool
    consistency: ResolveRequest.Consistency
    at_least_revision: str
    walk: bool
    targets: _containers.RepeatedCompositeFieldContainer[_names_pb2.Target]
    excluding: _containers.RepeatedScalarFieldContainer[str]
    counts: bool
    named_servers: _containers.RepeatedScalarFieldContainer[str]
    direct: bool
    def __init__(self, group: _Optional[str] = ..., groups: _Optional[bool] = ..., consistency: _Optional[_Union[ResolveRequest.Consistency, str]] = ..., at_least_revision: _Optional[str] = ..., walk: _Optional[bool] = ..., targets: _Optional[_Iterable[_Union[_names_pb2.Target, _Mapping]]] = ..., excluding: _Optional[_Iterable[str]] = ..., counts: _Optional[bool] = ..., named_servers: _Optional[_Iterable[str]] = ..., direct: _Optional[bool] = ...) -> None: ...

class ResolveChunk(_message.Message):
    __slots__ = ("revision", "processes", "groups", "hidden", "unreachable", "in_transition", "walk", "process_targets", "group_targets", "why_unreachable", "counts", "elsewhere", "basis", "is_direct", "too_large")
    class HiddenGroup(_message.Message):
        __slots__ = ("group", "count")
        GROUP_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        group: str
        count: int
        def __init__(self, group: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...
    class WalkStep(_message.Message):
        __slots__ = ("to", "kind", "state")
        FROM_FIELD_NUMBER: _ClassVar[int]
        TO_FIELD_NUMBER: _ClassVar[int]
        KIND_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        to: str
        kind: _names_pb2.ChildKind
        state: _names_pb2.ArcState
        def __init__(self, to: _Optional[str] = ..., kind: _Optional[_Union[_names_pb2.ChildKind, str]] = ..., state: _Optional[_Union[_names_pb2.ArcState, str]] = ..., **kwargs) -> None: ...
    class Count(_message.Message):
        __slots__ = ("server", "target", "count")
        SERVER_FIELD_NUMBER: _ClassVar[int]
        TARGET_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        server: str
        target: int
        count: int
        def __init__(self, server: _Optional[str] = ..., target: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...
    REVISION_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    IN_TRANSITION_FIELD_NUMBER: _ClassVar[int]
    WALK_FIELD_NUMBER: _ClassVar[int]
    PROCESS_TARGETS_FIELD_NUMBER: _ClassVar[int]
    GROUP_TARGETS_FIELD_NUMBER: _ClassVar[int]
    WHY_UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    ELSEWHERE_FIELD_NUMBER: _ClassVar[int]
    BASIS_FIELD_NUMBER: _ClassVar[int]
    IS_DIRECT_FIELD_NUMBER: _ClassVar[int]
    TOO_LARGE_FIELD_NUMBER: _ClassVar[int]
    revision: str
    processes: _containers.RepeatedScalarFieldContainer[str]
    groups: _containers.RepeatedScalarFieldContainer[str]
    hidden: _containers.RepeatedCompositeFieldContainer[ResolveChunk.HiddenGroup]
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    in_transition: bool
    walk: _containers.RepeatedCompositeFieldContainer[ResolveChunk.WalkStep]
    process_targets: _containers.RepeatedScalarFieldContainer[int]
    group_targets: _containers.RepeatedScalarFieldContainer[int]
    why_unreachable: _containers.RepeatedScalarFieldContainer[str]
    counts: _containers.RepeatedCompositeFieldContainer[ResolveChunk.Count]
    elsewhere: _containers.RepeatedScalarFieldContainer[str]
    basis: str
    is_direct: bool
    too_large: bool
    def __init__(self, revision: _Optional[str] = ..., processes: _Optional[_Iterable[str]] = ..., groups: _Optional[_Iterable[str]] = ..., hidden: _Optional[_Iterable[_Union[ResolveChunk.HiddenGroup, _Mapping]]] = ..., unreachable: _Optional[_Iterable[str]] = ..., in_transition: _Optional[bool] = ..., walk: _Optional[_Iterable[_Union[ResolveChunk.WalkStep, _Mapping]]] = ..., process_targets: _Optional[_Iterable[int]] = ..., group_targets: _Optional[_Iterable[int]] = ..., why_unreachable: _Optional[_Iterable[str]] = ..., counts: _Optional[_Iterable[_Union[ResolveChunk.Count, _Mapping]]] = ..., elsewhere: _Optional[_Iterable[str]] = ..., basis: _Optional[str] = ..., is_direct: _Optional[bool] = ..., too_large: _Optional[bool] = ...) -> None: ...

class ConfirmRequest(_message.Message):
    __slots__ = ("basis", "at_least_revision")
    BASIS_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    basis: str
    at_least_revision: str
    def __init__(self, basis: _Optional[str] = ..., at_least_revision: _Optional[str] = ...) -> None: ...

class ConfirmResponse(_message.Message):
    __slots__ = ("holds",)
    HOLDS_FIELD_NUMBER: _ClassVar[int]
    holds: bool
    def __init__(self, holds: _Optional[bool] = ...) -> None: ...

class CheckRequest(_message.Message):
    __slots__ = ("group", "member", "explain", "at_least_revision")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    group: str
    member: str
    explain: bool
    at_least_revision: str
    def __init__(self, group: _Optional[str] = ..., member: _Optional[str] = ..., explain: _Optional[bool] = ..., at_least_revision: _Optional[str] = ...) -> None: ...

class CheckResponse(_message.Message):
    __slots__ = ("is_member", "pathname", "revision")
    IS_MEMBER_FIELD_NUMBER: _ClassVar[int]
    PATHNAME_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    is_member: bool
    pathname: _containers.RepeatedScalarFieldContainer[str]
    revision: str
    def __init__(self, is_member: _Optional[bool] = ..., pathname: _Optional[_Iterable[str]] = ..., revision: _Optional[str] = ...) -> None: ...

class CheckBulkRequest(_message.Message):
    __slots__ = ("groups", "members", "at_least_revision")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    members: _containers.RepeatedScalarFieldContainer[str]
    at_least_revision: str
    def __init__(self, groups: _Optional[_Iterable[str]] = ..., members: _Optional[_Iterable[str]] = ..., at_least_revision: _Optional[str] = ...) -> None: ...

class CheckBulkResponse(_message.Message):
    __slots__ = ("answers", "revision", "unreachable")
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    answers: bytes
    revision: str
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, answers: _Optional[bytes] = ..., revision: _Optional[str] = ..., unreachable: _Optional[_Iterable[str]] = ...) -> None: ...

class CheckKnownRequest(_message.Message):
    __slots__ = ("groups", "members", "at_least_revision")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    members: _containers.RepeatedScalarFieldContainer[str]
    at_least_revision: str
    def __init__(self, groups: _Optional[_Iterable[str]] = ..., members: _Optional[_Iterable[str]] = ..., at_least_revision: _Optional[str] = ...) -> None: ...

class CheckKnownResponse(_message.Message):
    __slots__ = ("answers", "revision")
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    answers: bytes
    revision: str
    def __init__(self, answers: _Optional[bytes] = ..., revision: _Optional[str] = ...) -> None: ...

class FindSpellingsRequest(_message.Message):
    __slots__ = ("names", "at_least_revision")
    NAMES_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    names: _containers.RepeatedScalarFieldContainer[str]
    at_least_revision: str
    def __init__(self, names: _Optional[_Iterable[str]] = ..., at_least_revision: _Optional[str] = ...) -> None: ...

class FindSpellingsResponse(_message.Message):
    __slots__ = ("found", "revision", "unreachable")
    class Spellings(_message.Message):
        __slots__ = ("groups", "processes")
        GROUPS_FIELD_NUMBER: _ClassVar[int]
        PROCESSES_FIELD_NUMBER: _ClassVar[int]
        groups: _containers.RepeatedScalarFieldContainer[str]
        processes: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, groups: _Optional[_Iterable[str]] = ..., processes: _Optional[_Iterable[str]] = ...) -> None: ...
    FOUND_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    found: _containers.RepeatedCompositeFieldContainer[FindSpellingsResponse.Spellings]
    revision: str
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, found: _Optional[_Iterable[_Union[FindSpellingsResponse.Spellings, _Mapping]]] = ..., revision: _Optional[str] = ..., unreachable: _Optional[_Iterable[str]] = ...) -> None: ...

class ListMembershipsRequest(_message.Message):
    __slots__ = ("member", "at_least_revision", "direct")
    MEMBER_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    DIRECT_FIELD_NUMBER: _ClassVar[int]
    member: str
    at_least_revision: str
    direct: bool
    def __init__(self, member: _Optional[str] = ..., at_least_revision: _Optional[str] = ..., direct: _Optional[bool] = ...) -> None: ...

class ListMembershipsChunk(_message.Message):
    __slots__ = ("revision", "groups", "unreachable", "is_direct", "too_large")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
    IS_DIRECT_FIELD_NUMBER: _ClassVar[int]
    TOO_LARGE_FIELD_NUMBER: _ClassVar[int]
    revision: str
    groups: _containers.RepeatedScalarFieldContainer[str]
    unreachable: _containers.RepeatedScalarFieldContainer[str]
    is_direct: bool
    too_large: bool
    def __init__(self, revision: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., unreachable: _Optional[_Iterable[str]] = ..., is_direct: _Optional[bool] = ..., too_large: _Optional[bool] = ...) -> None: ...

class ListChangesRequest(_message.Message):
    __slots__ = ("group", "subnet", "after_revision", "told_from_ms")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SUBNET_FIELD_NUMBER: _ClassVar[int]
    AFTER_REVISION_FIELD_NUMBER: _ClassVar[int]
    TOLD_FROM_MS_FIELD_NUMBER: _ClassVar[int]
    group: str
    subnet: str
    after_revision: str
    told_from_ms: int
    def __init__(self, group: _Optional[str] = ..., subnet: _Optional[str] = ..., after_revision: _Optional[str] = ..., told_from_ms: _Optional[int] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("group", "subnet", "after_revision")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    SUBNET_FIELD_NUMBER: _ClassVar[int]
    AFTER_REVISION_FIELD_NUMBER: _ClassVar[int]
    group: str
    subnet: str
    after_revision: str
    def __init__(self, group: _Optional[str] = ..., subnet: _Optional[str] = ..., after_revision: _Optional[str] = ...) -> None: ...

class ChangesChunk(_message.Message):
    __slots__ = ("revision", "updates")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    revision: str
    updates: _containers.RepeatedCompositeFieldContainer[RecordedUpdate]
    def __init__(self, revision: _Optional[str] = ..., updates: _Optional[_Iterable[_Union[RecordedUpdate, _Mapping]]] = ...) -> None: ...

class RecordedUpdate(_message.Message):
    __slots__ = ("revision", "request_id", "told_at_ms", "caller", "server", "changes", "is_listed", "created", "deleted", "joined", "left")
    class ChangeKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        CHANGE_KIND_UNSPECIFIED: _ClassVar[RecordedUpdate.ChangeKind]
        CHANGE_KIND_CREATED: _ClassVar[RecordedUpdate.ChangeKind]
        CHANGE_KIND_DELETED: _ClassVar[RecordedUpdate.ChangeKind]
        CHANGE_KIND_JOINED: _ClassVar[RecordedUpdate.ChangeKind]
        CHANGE_KIND_LEFT: _ClassVar[RecordedUpdate.ChangeKind]
    CHANGE_KIND_UNSPECIFIED: RecordedUpdate.ChangeKind
    CHANGE_KIND_CREATED: RecordedUpdate.ChangeKind
    CHANGE_KIND_DELETED: RecordedUpdate.ChangeKind
    CHANGE_KIND_JOINED: RecordedUpdate.ChangeKind
    CHANGE_KIND_LEFT: RecordedUpdate.ChangeKind
    class Change(_message.Message):
        __slots__ = ("kind", "group", "member", "member_kind")
        KIND_FIELD_NUMBER: _ClassVar[int]
        GROUP_FIELD_NUMBER: _ClassVar[int]
        MEMBER_FIELD_NUMBER: _ClassVar[int]
        MEMBER_KIND_FIELD_NUMBER: _ClassVar[int]
        kind: RecordedUpdate.ChangeKind
        group: str
        member: str
        member_kind: _names_pb2.ChildKind
        def __init__(self, kind: _Optional[_Union[RecordedUpdate.ChangeKind, str]] = ..., group: _Optional[str] = ..., member: _Optional[str] = ..., member_kind: _Optional[_Union[_names_pb2.ChildKind, str]] = ...) -> None: ...
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOLD_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    IS_LISTED_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    JOINED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    revision: str
    request_id: str
    told_at_ms: int
    caller: str
    server: str
    changes: _containers.RepeatedCompositeFieldContainer[RecordedUpdate.Change]
    is_listed: bool
    created: int
    deleted: int
    joined: int
    left: int
    def __init__(self, revision: _Optional[str] = ..., request_id: _Optional[str] = ..., told_at_ms: _Optional[int] = ..., caller: _Optional[str] = ..., server: _Optional[str] = ..., changes: _Optional[_Iterable[_Union[RecordedUpdate.Change, _Mapping]]] = ..., is_listed: _Optional[bool] = ..., created: _Optional[int] = ..., deleted: _Optional[int] = ..., joined: _Optional[int] = ..., left: _Optional[int] = ...) -> None: ...
