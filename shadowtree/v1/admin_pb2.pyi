from shadowtree.v1 import names_pb2 as _names_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ExportAuditLogRequest(_message.Message):
    __slots__ = ("after", "since_ms")
    AFTER_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    after: int
    since_ms: int
    def __init__(self, after: _Optional[int] = ..., since_ms: _Optional[int] = ...) -> None: ...

class AuditRow(_message.Message):
    __slots__ = ("number", "counter", "revision", "request_id", "told_at_ms", "caller", "server", "changes", "kind", "principal", "how", "credential", "via", "decision", "rule", "previous", "hash")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    COUNTER_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    TOLD_AT_MS_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    HOW_FIELD_NUMBER: _ClassVar[int]
    CREDENTIAL_FIELD_NUMBER: _ClassVar[int]
    VIA_FIELD_NUMBER: _ClassVar[int]
    DECISION_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    number: int
    counter: int
    revision: str
    request_id: str
    told_at_ms: int
    caller: str
    server: str
    changes: bytes
    kind: str
    principal: str
    how: str
    credential: str
    via: str
    decision: str
    rule: str
    previous: bytes
    hash: bytes
    def __init__(self, number: _Optional[int] = ..., counter: _Optional[int] = ..., revision: _Optional[str] = ..., request_id: _Optional[str] = ..., told_at_ms: _Optional[int] = ..., caller: _Optional[str] = ..., server: _Optional[str] = ..., changes: _Optional[bytes] = ..., kind: _Optional[str] = ..., principal: _Optional[str] = ..., how: _Optional[str] = ..., credential: _Optional[str] = ..., via: _Optional[str] = ..., decision: _Optional[str] = ..., rule: _Optional[str] = ..., previous: _Optional[bytes] = ..., hash: _Optional[bytes] = ...) -> None: ...

class AuditLogChunk(_message.Message):
    __slots__ = ("server", "rows")
    SERVER_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    server: str
    rows: _containers.RepeatedCompositeFieldContainer[AuditRow]
    def __init__(self, server: _Optional[str] = ..., rows: _Optional[_Iterable[_Union[AuditRow, _Mapping]]] = ...) -> None: ...

class ListCheckpointsRequest(_message.Message):
    __slots__ = ("server",)
    SERVER_FIELD_NUMBER: _ClassVar[int]
    server: str
    def __init__(self, server: _Optional[str] = ...) -> None: ...

class CheckpointList(_message.Message):
    __slots__ = ("server", "checkpoints")
    class Checkpoint(_message.Message):
        __slots__ = ("server", "sequence", "hash", "at_ms", "before", "key", "signature")
        SERVER_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        HASH_FIELD_NUMBER: _ClassVar[int]
        AT_MS_FIELD_NUMBER: _ClassVar[int]
        BEFORE_FIELD_NUMBER: _ClassVar[int]
        KEY_FIELD_NUMBER: _ClassVar[int]
        SIGNATURE_FIELD_NUMBER: _ClassVar[int]
        server: str
        sequence: int
        hash: bytes
        at_ms: int
        before: int
        key: bytes
        signature: bytes
        def __init__(self, server: _Optional[str] = ..., sequence: _Optional[int] = ..., hash: _Optional[bytes] = ..., at_ms: _Optional[int] = ..., before: _Optional[int] = ..., key: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...
    SERVER_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    server: str
    checkpoints: _containers.RepeatedCompositeFieldContainer[CheckpointList.Checkpoint]
    def __init__(self, server: _Optional[str] = ..., checkpoints: _Optional[_Iterable[_Union[CheckpointList.Checkpoint, _Mapping]]] = ...) -> None: ...

class CreateKeyRequest(_message.Message):
    __slots__ = ("principal", "life_ms", "privileges", "networks", "note")
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    LIFE_MS_FIELD_NUMBER: _ClassVar[int]
    PRIVILEGES_FIELD_NUMBER: _ClassVar[int]
    NETWORKS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    principal: str
    life_ms: int
    privileges: _containers.RepeatedScalarFieldContainer[str]
    networks: _containers.RepeatedScalarFieldContainer[str]
    note: str
    def __init__(self, principal: _Optional[str] = ..., life_ms: _Optional[int] = ..., privileges: _Optional[_Iterable[str]] = ..., networks: _Optional[_Iterable[str]] = ..., note: _Optional[str] = ...) -> None: ...

class CreatedKey(_message.Message):
    __slots__ = ("secret", "key")
    SECRET_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    secret: str
    key: ApiKey
    def __init__(self, secret: _Optional[str] = ..., key: _Optional[_Union[ApiKey, _Mapping]] = ...) -> None: ...

class ListKeysRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class KeyList(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[ApiKey]
    def __init__(self, keys: _Optional[_Iterable[_Union[ApiKey, _Mapping]]] = ...) -> None: ...

class RevokeKeyRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class ApiKey(_message.Message):
    __slots__ = ("id", "principal", "created_ms", "expires_ms", "privileges", "networks", "note", "last_used_ms")
    ID_FIELD_NUMBER: _ClassVar[int]
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    CREATED_MS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    PRIVILEGES_FIELD_NUMBER: _ClassVar[int]
    NETWORKS_FIELD_NUMBER: _ClassVar[int]
    NOTE_FIELD_NUMBER: _ClassVar[int]
    LAST_USED_MS_FIELD_NUMBER: _ClassVar[int]
    id: str
    principal: str
    created_ms: int
    expires_ms: int
    privileges: _containers.RepeatedScalarFieldContainer[str]
    networks: _containers.RepeatedScalarFieldContainer[str]
    note: str
    last_used_ms: int
    def __init__(self, id: _Optional[str] = ..., principal: _Optional[str] = ..., created_ms: _Optional[int] = ..., expires_ms: _Optional[int] = ..., privileges: _Optional[_Iterable[str]] = ..., networks: _Optional[_Iterable[str]] = ..., note: _Optional[str] = ..., last_used_ms: _Optional[int] = ...) -> None: ...

class GetStatusRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ServerStatus(_message.Message):
    __slots__ = ("server", "subnets", "groups", "processes", "arcs", "virtual_nodes", "revision", "in_doubt", "suspended", "peers", "database_failure", "view", "tombstones", "arcs_suspended", "node_numbers", "free_node_numbers", "mailboxes", "log_entries", "log_bytes", "parcels_unsettled", "parcels_pending", "messages_refused_by_rate", "datagrams_sent", "datagrams_handed", "datagrams_dropped", "undelivered", "messages_queued", "memory_entries", "memory_bytes", "memory_parcels_unsettled", "memory_parcels_lost", "version", "protocol_version", "started_ms", "uptime_seconds")
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
    class ParcelsPending(_message.Message):
        __slots__ = ("server", "parcels")
        SERVER_FIELD_NUMBER: _ClassVar[int]
        PARCELS_FIELD_NUMBER: _ClassVar[int]
        server: str
        parcels: int
        def __init__(self, server: _Optional[str] = ..., parcels: _Optional[int] = ...) -> None: ...
    class Undelivered(_message.Message):
        __slots__ = ("reason", "messages", "dead_letters")
        REASON_FIELD_NUMBER: _ClassVar[int]
        MESSAGES_FIELD_NUMBER: _ClassVar[int]
        DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
        reason: str
        messages: int
        dead_letters: int
        def __init__(self, reason: _Optional[str] = ..., messages: _Optional[int] = ..., dead_letters: _Optional[int] = ...) -> None: ...
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
    TOMBSTONES_FIELD_NUMBER: _ClassVar[int]
    ARCS_SUSPENDED_FIELD_NUMBER: _ClassVar[int]
    NODE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    FREE_NODE_NUMBERS_FIELD_NUMBER: _ClassVar[int]
    MAILBOXES_FIELD_NUMBER: _ClassVar[int]
    LOG_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    LOG_BYTES_FIELD_NUMBER: _ClassVar[int]
    PARCELS_UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    PARCELS_PENDING_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_REFUSED_BY_RATE_FIELD_NUMBER: _ClassVar[int]
    DATAGRAMS_SENT_FIELD_NUMBER: _ClassVar[int]
    DATAGRAMS_HANDED_FIELD_NUMBER: _ClassVar[int]
    DATAGRAMS_DROPPED_FIELD_NUMBER: _ClassVar[int]
    UNDELIVERED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_QUEUED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_BYTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PARCELS_UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    MEMORY_PARCELS_LOST_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_MS_FIELD_NUMBER: _ClassVar[int]
    UPTIME_SECONDS_FIELD_NUMBER: _ClassVar[int]
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
    tombstones: int
    arcs_suspended: int
    node_numbers: int
    free_node_numbers: int
    mailboxes: int
    log_entries: int
    log_bytes: int
    parcels_unsettled: int
    parcels_pending: _containers.RepeatedCompositeFieldContainer[ServerStatus.ParcelsPending]
    messages_refused_by_rate: int
    datagrams_sent: int
    datagrams_handed: int
    datagrams_dropped: int
    undelivered: _containers.RepeatedCompositeFieldContainer[ServerStatus.Undelivered]
    messages_queued: int
    memory_entries: int
    memory_bytes: int
    memory_parcels_unsettled: int
    memory_parcels_lost: int
    version: str
    protocol_version: int
    started_ms: int
    uptime_seconds: float
    def __init__(self, server: _Optional[str] = ..., subnets: _Optional[_Iterable[str]] = ..., groups: _Optional[int] = ..., processes: _Optional[int] = ..., arcs: _Optional[int] = ..., virtual_nodes: _Optional[int] = ..., revision: _Optional[str] = ..., in_doubt: _Optional[_Iterable[str]] = ..., suspended: _Optional[_Iterable[_Union[ServerStatus.SuspendedArc, _Mapping]]] = ..., peers: _Optional[_Iterable[_Union[ServerStatus.Peer, _Mapping]]] = ..., database_failure: _Optional[str] = ..., view: _Optional[_Iterable[str]] = ..., tombstones: _Optional[int] = ..., arcs_suspended: _Optional[int] = ..., node_numbers: _Optional[int] = ..., free_node_numbers: _Optional[int] = ..., mailboxes: _Optional[int] = ..., log_entries: _Optional[int] = ..., log_bytes: _Optional[int] = ..., parcels_unsettled: _Optional[int] = ..., parcels_pending: _Optional[_Iterable[_Union[ServerStatus.ParcelsPending, _Mapping]]] = ..., messages_refused_by_rate: _Optional[int] = ..., datagrams_sent: _Optional[int] = ..., datagrams_handed: _Optional[int] = ..., datagrams_dropped: _Optional[int] = ..., undelivered: _Optional[_Iterable[_Union[ServerStatus.Undelivered, _Mapping]]] = ..., messages_queued: _Optional[int] = ..., memory_entries: _Optional[int] = ..., memory_bytes: _Optional[int] = ..., memory_parcels_unsettled: _Optional[int] = ..., memory_parcels_lost: _Optional[int] = ..., version: _Optional[str] = ..., protocol_version: _Optional[int] = ..., started_ms: _Optional[int] = ..., uptime_seconds: _Optional[float] = ...) -> None: ...

class ListPeersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class AddPeerRequest(_message.Message):
    __slots__ = ("subnet", "address", "trust")
    SUBNET_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    TRUST_FIELD_NUMBER: _ClassVar[int]
    subnet: str
    address: str
    trust: str
    def __init__(self, subnet: _Optional[str] = ..., address: _Optional[str] = ..., trust: _Optional[str] = ...) -> None: ...

class RemovePeerRequest(_message.Message):
    __slots__ = ("subnet", "force")
    SUBNET_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    subnet: str
    force: bool
    def __init__(self, subnet: _Optional[str] = ..., force: _Optional[bool] = ...) -> None: ...

class PeerList(_message.Message):
    __slots__ = ("peers", "strangers", "memberships_ended", "unknown", "server", "version", "protocol_version")
    class Fault(_message.Message):
        __slots__ = ("kind", "count")
        KIND_FIELD_NUMBER: _ClassVar[int]
        COUNT_FIELD_NUMBER: _ClassVar[int]
        kind: str
        count: int
        def __init__(self, kind: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...
    class Unknown(_message.Message):
        __slots__ = ("server", "subnets", "known_to")
        SERVER_FIELD_NUMBER: _ClassVar[int]
        SUBNETS_FIELD_NUMBER: _ClassVar[int]
        KNOWN_TO_FIELD_NUMBER: _ClassVar[int]
        server: str
        subnets: _containers.RepeatedScalarFieldContainer[str]
        known_to: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, server: _Optional[str] = ..., subnets: _Optional[_Iterable[str]] = ..., known_to: _Optional[_Iterable[str]] = ...) -> None: ...
    class Peer(_message.Message):
        __slots__ = ("address", "subnets", "server", "state", "letters_waiting", "faults", "life", "why", "phi", "last_heard_seconds", "round_trip_ms", "via", "relayed", "version", "protocol_version", "called_at", "backlog_bytes", "stuck_seconds")
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
        VERSION_FIELD_NUMBER: _ClassVar[int]
        PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
        CALLED_AT_FIELD_NUMBER: _ClassVar[int]
        BACKLOG_BYTES_FIELD_NUMBER: _ClassVar[int]
        STUCK_SECONDS_FIELD_NUMBER: _ClassVar[int]
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
        version: str
        protocol_version: int
        called_at: str
        backlog_bytes: int
        stuck_seconds: float
        def __init__(self, address: _Optional[str] = ..., subnets: _Optional[_Iterable[str]] = ..., server: _Optional[str] = ..., state: _Optional[str] = ..., letters_waiting: _Optional[int] = ..., faults: _Optional[_Iterable[_Union[PeerList.Fault, _Mapping]]] = ..., life: _Optional[str] = ..., why: _Optional[str] = ..., phi: _Optional[float] = ..., last_heard_seconds: _Optional[float] = ..., round_trip_ms: _Optional[float] = ..., via: _Optional[str] = ..., relayed: _Optional[int] = ..., version: _Optional[str] = ..., protocol_version: _Optional[int] = ..., called_at: _Optional[str] = ..., backlog_bytes: _Optional[int] = ..., stuck_seconds: _Optional[float] = ...) -> None: ...
    PEERS_FIELD_NUMBER: _ClassVar[int]
    STRANGERS_FIELD_NUMBER: _ClassVar[int]
    MEMBERSHIPS_ENDED_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
    peers: _containers.RepeatedCompositeFieldContainer[PeerList.Peer]
    strangers: _containers.RepeatedCompositeFieldContainer[PeerList.Fault]
    memberships_ended: int
    unknown: _containers.RepeatedCompositeFieldContainer[PeerList.Unknown]
    server: str
    version: str
    protocol_version: int
    def __init__(self, peers: _Optional[_Iterable[_Union[PeerList.Peer, _Mapping]]] = ..., strangers: _Optional[_Iterable[_Union[PeerList.Fault, _Mapping]]] = ..., memberships_ended: _Optional[int] = ..., unknown: _Optional[_Iterable[_Union[PeerList.Unknown, _Mapping]]] = ..., server: _Optional[str] = ..., version: _Optional[str] = ..., protocol_version: _Optional[int] = ...) -> None: ...

class ExportSnapshotRequest(_message.Message):
    __slots__ = ("cut",)
    CUT_FIELD_NUMBER: _ClassVar[int]
    cut: str
    def __init__(self, cut: _Optional[str] = ...) -> None: ...

class MakeCutRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class MakeCutResponse(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: str
    def __init__(self, revision: _Optional[str] = ...) -> None: ...

class SnapshotChunk(_message.Message):
    __slots__ = ("nodes", "arcs", "virtual_nodes", "ancestor_sets", "under_way", "end", "is_caught_up", "pieces", "log", "audiences", "mailboxes", "cursors", "unsettled", "reached", "messages_end", "details", "policies")
    class Nodes(_message.Message):
        __slots__ = ("numbers", "ids", "kinds", "homes", "places", "version_counters", "version_servers", "virtual_nodes", "representatives", "servers")
        NUMBERS_FIELD_NUMBER: _ClassVar[int]
        IDS_FIELD_NUMBER: _ClassVar[int]
        KINDS_FIELD_NUMBER: _ClassVar[int]
        HOMES_FIELD_NUMBER: _ClassVar[int]
        PLACES_FIELD_NUMBER: _ClassVar[int]
        VERSION_COUNTERS_FIELD_NUMBER: _ClassVar[int]
        VERSION_SERVERS_FIELD_NUMBER: _ClassVar[int]
        VIRTUAL_NODES_FIELD_NUMBER: _ClassVar[int]
        REPRESENTATIVES_FIELD_NUMBER: _ClassVar[int]
        SERVERS_FIELD_NUMBER: _ClassVar[int]
        numbers: _containers.RepeatedScalarFieldContainer[int]
        ids: _containers.RepeatedScalarFieldContainer[str]
        kinds: bytes
        homes: _containers.RepeatedScalarFieldContainer[int]
        places: bytes
        version_counters: _containers.RepeatedScalarFieldContainer[int]
        version_servers: _containers.RepeatedScalarFieldContainer[int]
        virtual_nodes: _containers.RepeatedScalarFieldContainer[int]
        representatives: _containers.RepeatedScalarFieldContainer[int]
        servers: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, numbers: _Optional[_Iterable[int]] = ..., ids: _Optional[_Iterable[str]] = ..., kinds: _Optional[bytes] = ..., homes: _Optional[_Iterable[int]] = ..., places: _Optional[bytes] = ..., version_counters: _Optional[_Iterable[int]] = ..., version_servers: _Optional[_Iterable[int]] = ..., virtual_nodes: _Optional[_Iterable[int]] = ..., representatives: _Optional[_Iterable[int]] = ..., servers: _Optional[_Iterable[str]] = ...) -> None: ...
    class Arcs(_message.Message):
        __slots__ = ("parents", "children", "costs", "versions", "writers", "flags", "states")
        PARENTS_FIELD_NUMBER: _ClassVar[int]
        CHILDREN_FIELD_NUMBER: _ClassVar[int]
        COSTS_FIELD_NUMBER: _ClassVar[int]
        VERSIONS_FIELD_NUMBER: _ClassVar[int]
        WRITERS_FIELD_NUMBER: _ClassVar[int]
        FLAGS_FIELD_NUMBER: _ClassVar[int]
        STATES_FIELD_NUMBER: _ClassVar[int]
        parents: _containers.RepeatedScalarFieldContainer[int]
        children: _containers.RepeatedScalarFieldContainer[int]
        costs: _containers.RepeatedScalarFieldContainer[int]
        versions: _containers.RepeatedScalarFieldContainer[int]
        writers: _containers.RepeatedScalarFieldContainer[int]
        flags: bytes
        states: bytes
        def __init__(self, parents: _Optional[_Iterable[int]] = ..., children: _Optional[_Iterable[int]] = ..., costs: _Optional[_Iterable[int]] = ..., versions: _Optional[_Iterable[int]] = ..., writers: _Optional[_Iterable[int]] = ..., flags: _Optional[bytes] = ..., states: _Optional[bytes] = ...) -> None: ...
    class VirtualNode(_message.Message):
        __slots__ = ("number", "vnid", "smallest", "components")
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        VNID_FIELD_NUMBER: _ClassVar[int]
        SMALLEST_FIELD_NUMBER: _ClassVar[int]
        COMPONENTS_FIELD_NUMBER: _ClassVar[int]
        number: int
        vnid: str
        smallest: str
        components: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, number: _Optional[int] = ..., vnid: _Optional[str] = ..., smallest: _Optional[str] = ..., components: _Optional[_Iterable[int]] = ...) -> None: ...
    class AncestorSets(_message.Message):
        __slots__ = ("representatives", "sets", "sizes")
        REPRESENTATIVES_FIELD_NUMBER: _ClassVar[int]
        SETS_FIELD_NUMBER: _ClassVar[int]
        SIZES_FIELD_NUMBER: _ClassVar[int]
        representatives: _containers.RepeatedScalarFieldContainer[int]
        sets: _containers.RepeatedScalarFieldContainer[bytes]
        sizes: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, representatives: _Optional[_Iterable[int]] = ..., sets: _Optional[_Iterable[bytes]] = ..., sizes: _Optional[_Iterable[int]] = ...) -> None: ...
    class UnderWay(_message.Message):
        __slots__ = ("update", "coordinator", "is_coordinator", "state", "priority_counter", "priority_server", "waits_for")
        UPDATE_FIELD_NUMBER: _ClassVar[int]
        COORDINATOR_FIELD_NUMBER: _ClassVar[int]
        IS_COORDINATOR_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        PRIORITY_COUNTER_FIELD_NUMBER: _ClassVar[int]
        PRIORITY_SERVER_FIELD_NUMBER: _ClassVar[int]
        WAITS_FOR_FIELD_NUMBER: _ClassVar[int]
        update: str
        coordinator: str
        is_coordinator: bool
        state: str
        priority_counter: int
        priority_server: str
        waits_for: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, update: _Optional[str] = ..., coordinator: _Optional[str] = ..., is_coordinator: _Optional[bool] = ..., state: _Optional[str] = ..., priority_counter: _Optional[int] = ..., priority_server: _Optional[str] = ..., waits_for: _Optional[_Iterable[str]] = ...) -> None: ...
    class Peer(_message.Message):
        __slots__ = ("server", "subnets")
        SERVER_FIELD_NUMBER: _ClassVar[int]
        SUBNETS_FIELD_NUMBER: _ClassVar[int]
        server: str
        subnets: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, server: _Optional[str] = ..., subnets: _Optional[_Iterable[str]] = ...) -> None: ...
    class LogEntry(_message.Message):
        __slots__ = ("position", "targets", "sequence", "start", "first_serial", "messages", "round", "quality", "audience", "digest")
        POSITION_FIELD_NUMBER: _ClassVar[int]
        TARGETS_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        START_FIELD_NUMBER: _ClassVar[int]
        FIRST_SERIAL_FIELD_NUMBER: _ClassVar[int]
        MESSAGES_FIELD_NUMBER: _ClassVar[int]
        ROUND_FIELD_NUMBER: _ClassVar[int]
        QUALITY_FIELD_NUMBER: _ClassVar[int]
        AUDIENCE_FIELD_NUMBER: _ClassVar[int]
        DIGEST_FIELD_NUMBER: _ClassVar[int]
        position: int
        targets: _containers.RepeatedScalarFieldContainer[str]
        sequence: int
        start: int
        first_serial: int
        messages: int
        round: int
        quality: str
        audience: int
        digest: bytes
        def __init__(self, position: _Optional[int] = ..., targets: _Optional[_Iterable[str]] = ..., sequence: _Optional[int] = ..., start: _Optional[int] = ..., first_serial: _Optional[int] = ..., messages: _Optional[int] = ..., round: _Optional[int] = ..., quality: _Optional[str] = ..., audience: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...
    class Audience(_message.Message):
        __slots__ = ("number", "mailboxes", "is_gone")
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        MAILBOXES_FIELD_NUMBER: _ClassVar[int]
        IS_GONE_FIELD_NUMBER: _ClassVar[int]
        number: int
        mailboxes: bytes
        is_gone: bool
        def __init__(self, number: _Optional[int] = ..., mailboxes: _Optional[bytes] = ..., is_gone: _Optional[bool] = ...) -> None: ...
    class Mailbox(_message.Message):
        __slots__ = ("process", "number", "opened_at", "is_gone")
        PROCESS_FIELD_NUMBER: _ClassVar[int]
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        OPENED_AT_FIELD_NUMBER: _ClassVar[int]
        IS_GONE_FIELD_NUMBER: _ClassVar[int]
        process: str
        number: int
        opened_at: int
        is_gone: bool
        def __init__(self, process: _Optional[str] = ..., number: _Optional[int] = ..., opened_at: _Optional[int] = ..., is_gone: _Optional[bool] = ...) -> None: ...
    class Cursor(_message.Message):
        __slots__ = ("mailbox", "subscription", "entry", "item", "is_gone")
        MAILBOX_FIELD_NUMBER: _ClassVar[int]
        SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
        ENTRY_FIELD_NUMBER: _ClassVar[int]
        ITEM_FIELD_NUMBER: _ClassVar[int]
        IS_GONE_FIELD_NUMBER: _ClassVar[int]
        mailbox: int
        subscription: str
        entry: int
        item: int
        is_gone: bool
        def __init__(self, mailbox: _Optional[int] = ..., subscription: _Optional[str] = ..., entry: _Optional[int] = ..., item: _Optional[int] = ..., is_gone: _Optional[bool] = ...) -> None: ...
    class Unsettled(_message.Message):
        __slots__ = ("position", "sequence", "start", "first_serial", "messages", "round", "posted", "confirmed", "delivered", "is_gone")
        POSITION_FIELD_NUMBER: _ClassVar[int]
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        START_FIELD_NUMBER: _ClassVar[int]
        FIRST_SERIAL_FIELD_NUMBER: _ClassVar[int]
        MESSAGES_FIELD_NUMBER: _ClassVar[int]
        ROUND_FIELD_NUMBER: _ClassVar[int]
        POSTED_FIELD_NUMBER: _ClassVar[int]
        CONFIRMED_FIELD_NUMBER: _ClassVar[int]
        DELIVERED_FIELD_NUMBER: _ClassVar[int]
        IS_GONE_FIELD_NUMBER: _ClassVar[int]
        position: int
        sequence: int
        start: int
        first_serial: int
        messages: int
        round: int
        posted: _containers.RepeatedScalarFieldContainer[str]
        confirmed: _containers.RepeatedScalarFieldContainer[str]
        delivered: _containers.RepeatedScalarFieldContainer[str]
        is_gone: bool
        def __init__(self, position: _Optional[int] = ..., sequence: _Optional[int] = ..., start: _Optional[int] = ..., first_serial: _Optional[int] = ..., messages: _Optional[int] = ..., round: _Optional[int] = ..., posted: _Optional[_Iterable[str]] = ..., confirmed: _Optional[_Iterable[str]] = ..., delivered: _Optional[_Iterable[str]] = ..., is_gone: _Optional[bool] = ...) -> None: ...
    class Reached(_message.Message):
        __slots__ = ("targets", "mailboxes")
        TARGETS_FIELD_NUMBER: _ClassVar[int]
        MAILBOXES_FIELD_NUMBER: _ClassVar[int]
        targets: _containers.RepeatedScalarFieldContainer[str]
        mailboxes: bytes
        def __init__(self, targets: _Optional[_Iterable[str]] = ..., mailboxes: _Optional[bytes] = ...) -> None: ...
    class MessagesEnd(_message.Message):
        __slots__ = ("log_last", "log_cut", "mailboxes_numbered", "log_gone")
        LOG_LAST_FIELD_NUMBER: _ClassVar[int]
        LOG_CUT_FIELD_NUMBER: _ClassVar[int]
        MAILBOXES_NUMBERED_FIELD_NUMBER: _ClassVar[int]
        LOG_GONE_FIELD_NUMBER: _ClassVar[int]
        log_last: int
        log_cut: int
        mailboxes_numbered: int
        log_gone: int
        def __init__(self, log_last: _Optional[int] = ..., log_cut: _Optional[int] = ..., mailboxes_numbered: _Optional[int] = ..., log_gone: _Optional[int] = ...) -> None: ...
    class End(_message.Message):
        __slots__ = ("server", "subnets", "revision", "counter", "peers", "database_failure", "has_ancestor_sets", "cut")
        SERVER_FIELD_NUMBER: _ClassVar[int]
        SUBNETS_FIELD_NUMBER: _ClassVar[int]
        REVISION_FIELD_NUMBER: _ClassVar[int]
        COUNTER_FIELD_NUMBER: _ClassVar[int]
        PEERS_FIELD_NUMBER: _ClassVar[int]
        DATABASE_FAILURE_FIELD_NUMBER: _ClassVar[int]
        HAS_ANCESTOR_SETS_FIELD_NUMBER: _ClassVar[int]
        CUT_FIELD_NUMBER: _ClassVar[int]
        server: str
        subnets: _containers.RepeatedScalarFieldContainer[str]
        revision: str
        counter: int
        peers: _containers.RepeatedCompositeFieldContainer[SnapshotChunk.Peer]
        database_failure: str
        has_ancestor_sets: bool
        cut: str
        def __init__(self, server: _Optional[str] = ..., subnets: _Optional[_Iterable[str]] = ..., revision: _Optional[str] = ..., counter: _Optional[int] = ..., peers: _Optional[_Iterable[_Union[SnapshotChunk.Peer, _Mapping]]] = ..., database_failure: _Optional[str] = ..., has_ancestor_sets: _Optional[bool] = ..., cut: _Optional[str] = ...) -> None: ...
    NODES_FIELD_NUMBER: _ClassVar[int]
    ARCS_FIELD_NUMBER: _ClassVar[int]
    VIRTUAL_NODES_FIELD_NUMBER: _ClassVar[int]
    ANCESTOR_SETS_FIELD_NUMBER: _ClassVar[int]
    UNDER_WAY_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    IS_CAUGHT_UP_FIELD_NUMBER: _ClassVar[int]
    PIECES_FIELD_NUMBER: _ClassVar[int]
    LOG_FIELD_NUMBER: _ClassVar[int]
    AUDIENCES_FIELD_NUMBER: _ClassVar[int]
    MAILBOXES_FIELD_NUMBER: _ClassVar[int]
    CURSORS_FIELD_NUMBER: _ClassVar[int]
    UNSETTLED_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_END_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    POLICIES_FIELD_NUMBER: _ClassVar[int]
    nodes: SnapshotChunk.Nodes
    arcs: SnapshotChunk.Arcs
    virtual_nodes: _containers.RepeatedCompositeFieldContainer[SnapshotChunk.VirtualNode]
    ancestor_sets: SnapshotChunk.AncestorSets
    under_way: _containers.RepeatedCompositeFieldContainer[SnapshotChunk.UnderWay]
    end: SnapshotChunk.End
    is_caught_up: bool
    pieces: _containers.RepeatedScalarFieldContainer[bytes]
    log: _containers.RepeatedCompositeFieldContainer[SnapshotChunk.LogEntry]
    audiences: _containers.RepeatedCompositeFieldContainer[SnapshotChunk.Audience]
    mailboxes: _containers.RepeatedCompositeFieldContainer[SnapshotChunk.Mailbox]
    cursors: _containers.RepeatedCompositeFieldContainer[SnapshotChunk.Cursor]
    unsettled: _containers.RepeatedCompositeFieldContainer[SnapshotChunk.Unsettled]
    reached: _containers.RepeatedCompositeFieldContainer[SnapshotChunk.Reached]
    messages_end: SnapshotChunk.MessagesEnd
    details: _containers.RepeatedCompositeFieldContainer[_names_pb2.DetailedGroup]
    policies: _containers.RepeatedCompositeFieldContainer[_names_pb2.GroupPolicy]
    def __init__(self, nodes: _Optional[_Union[SnapshotChunk.Nodes, _Mapping]] = ..., arcs: _Optional[_Union[SnapshotChunk.Arcs, _Mapping]] = ..., virtual_nodes: _Optional[_Iterable[_Union[SnapshotChunk.VirtualNode, _Mapping]]] = ..., ancestor_sets: _Optional[_Union[SnapshotChunk.AncestorSets, _Mapping]] = ..., under_way: _Optional[_Iterable[_Union[SnapshotChunk.UnderWay, _Mapping]]] = ..., end: _Optional[_Union[SnapshotChunk.End, _Mapping]] = ..., is_caught_up: _Optional[bool] = ..., pieces: _Optional[_Iterable[bytes]] = ..., log: _Optional[_Iterable[_Union[SnapshotChunk.LogEntry, _Mapping]]] = ..., audiences: _Optional[_Iterable[_Union[SnapshotChunk.Audience, _Mapping]]] = ..., mailboxes: _Optional[_Iterable[_Union[SnapshotChunk.Mailbox, _Mapping]]] = ..., cursors: _Optional[_Iterable[_Union[SnapshotChunk.Cursor, _Mapping]]] = ..., unsettled: _Optional[_Iterable[_Union[SnapshotChunk.Unsettled, _Mapping]]] = ..., reached: _Optional[_Iterable[_Union[SnapshotChunk.Reached, _Mapping]]] = ..., messages_end: _Optional[_Union[SnapshotChunk.MessagesEnd, _Mapping]] = ..., details: _Optional[_Iterable[_Union[_names_pb2.DetailedGroup, _Mapping]]] = ..., policies: _Optional[_Iterable[_Union[_names_pb2.GroupPolicy, _Mapping]]] = ...) -> None: ...

class DrainRequest(_message.Message):
    __slots__ = ("restart_grace_seconds",)
    RESTART_GRACE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    restart_grace_seconds: float
    def __init__(self, restart_grace_seconds: _Optional[float] = ...) -> None: ...

class DrainResponse(_message.Message):
    __slots__ = ("is_finished",)
    IS_FINISHED_FIELD_NUMBER: _ClassVar[int]
    is_finished: bool
    def __init__(self, is_finished: _Optional[bool] = ...) -> None: ...
