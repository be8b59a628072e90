from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServerStatus(_message.Message):
    __slots__ = ("server", "subnets", "groups", "processes", "arcs", "virtual_nodes", "revision", "in_doubt", "suspended", "peers", "database_failure", "view")
    class SuspendedArc(_message.Message):
        __slots__ = ("parent", "child", "reason")
        PARENT_FIELD_NUMBER: _ClassVar[int]
        CHILD_FIELD_NUMBER: _ClassVar[int]
        REASON_FIELD_NUMBER: _ClassVar[int]
        parent: str
        child: str
        reason: str
        def __init__(self, parent: _Optional[str] = ..., child: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...
    class Peer(_message.Message):
        __slots__ = ("address", "subnets", "state")
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        SUBNETS_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        address: str
        subnets: _containers.RepeatedScalarFieldContainer[str]
        state: str
        def __init__(self, address: _Optional[str] = ..., subnets: _Optional[_Iterable[str]] = ..., state: _Optional[str] = ...) -> None: ...
    SERVER_FIELD_NUMBER: _ClassVar[int]
    SUBNETS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    ARCS_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_NODES_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    IN_DOUBT_FIELD_NUMBER: _ClassVar[int]
    SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    PEERS_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FAILURE_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    server: str
    subnets: _containers.RepeatedScalarFieldContainer[str]
    groups: int
    processes: int
    arcs: int
    virtual_nodes: int
    revision: str
    in_doubt: _containers.RepeatedScalarFieldContainer[str]
    suspended: _containers.RepeatedCompositeFieldContainer[ServerStatus.SuspendedArc]
    peers: _containers.RepeatedCompositeFieldContainer[ServerStatus.Peer]
    database_failure: str
    view: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, server: _Optional[str] = ..., subnets: _Optional[_Iterable[str]] = ..., groups: _Optional[int] = ..., processes: _Optional[int] = ..., arcs: _Optional[int] = ..., virtual_nodes: _Optional[int] = ..., revision: _Optional[str] = ..., in_doubt: _Optional[_Iterable[str]] = ..., suspended: _Optional[_Iterable[_Union[ServerStatus.SuspendedArc, _Mapping]]] = ..., peers: _Optional[_Iterable[_Union[ServerStatus.Peer, _Mapping]]] = ..., database_failure: _Optional[str] = ..., view: _Optional[_Iterable[str]] = ...) -> None: ...

class ListPeersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AddPeerRequest(_message.Message):
    __slots__ = ("subnet", "address")
    SUBNET_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    subnet: str
    address: str
    def __init__(self, subnet: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class RemovePeerRequest(_message.Message):
    __slots__ = ("subnet",)
    SUBNET_FIELD_NUMBER: _ClassVar[int]
    subnet: str
    def __init__(self, subnet: _Optional[str] = ...) -> None: ...

class PeerList(_message.Message):
    __slots__ = ("peers", "strangers")
    class Fault(_message.Message):
        __slots__ = ("kind", "count")
        KIND_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        kind: str
        count: int
        def __init__(self, kind: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...
    class Peer(_message.Message):
        __slots__ = ("address", "subnets", "server", "state", "letters_waiting", "faults", "life", "why", "phi", "last_heard_seconds", "round_trip_ms", "via", "relayed")
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        SUBNETS_FIELD_NUMBER: _ClassVar[int]
        SERVER_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        LETTERS_WAITING_FIELD_NUMBER: _ClassVar[int]
        FAULTS_FIELD_NUMBER: _ClassVar[int]
        LIFE_FIELD_NUMBER: _ClassVar[int]
        WHY_FIELD_NUMBER: _ClassVar[int]
        PHI_FIELD_NUMBER: _ClassVar[int]
        LAST_HEARD_SECONDS_FIELD_NUMBER: _ClassVar[int]
        ROUND_TRIP_MS_FIELD_NUMBER: _ClassVar[int]
        VIA_FIELD_NUMBER: _ClassVar[int]
        RELAYED_FIELD_NUMBER: _ClassVar[int]
        address: str
        subnets: _containers.RepeatedScalarFieldContainer[str]
        server: str
        state: str
        letters_waiting: int
        faults: _containers.RepeatedCompositeFieldContainer[PeerList.Fault]
        life: str
        why: str
        phi: float
        last_heard_seconds: float
        round_trip_ms: float
        via: str
        relayed: int
        def __init__(self, address: _Optional[str] = ..., subnets: _Optional[_Iterable[str]] = ..., server: _Optional[str] = ..., state: _Optional[str] = ..., letters_waiting: _Optional[int] = ..., faults: _Optional[_Iterable[_Union[PeerList.Fault, _Mapping]]] = ..., life: _Optional[str] = ..., why: _Optional[str] = ..., phi: _Optional[float] = ..., last_heard_seconds: _Optional[float] = ..., round_trip_ms: _Optional[float] = ..., via: _Optional[str] = ..., relayed: _Optional[int] = ...) -> None: ...
    PEERS_FIELD_NUMBER: _ClassVar[int]
    STRANGERS_FIELD_NUMBER: _ClassVar[int]
    peers: _containers.RepeatedCompositeFieldContainer[PeerList.Peer]
    strangers: _containers.RepeatedCompositeFieldContainer[PeerList.Fault]
    def __init__(self, peers: _Optional[_Iterable[_Union[PeerList.Peer, _Mapping]]] = ..., strangers: _Optional[_Iterable[_Union[PeerList.Fault, _Mapping]]] = ...) -> None: ...
