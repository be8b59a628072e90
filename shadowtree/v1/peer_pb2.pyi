from shadowtree.v1 import names_pb2 as _names_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PeerFrame(_message.Message):
    __slots__ = ("hello", "letters", "letter_part", "receipt", "goodbye", "leaving", "heartbeat", "acquaintances", "posts", "post_part", "datagrams")
    class KnownServer(_message.Message):
        __slots__ = ("server", "subnets")
        SERVER_FIELD_NUMBER: _ClassVar[int]
        SUBNETS_FIELD_NUMBER: _ClassVar[int]
        server: str
        subnets: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, server: _Optional[str] = ..., subnets: _Optional[_Iterable[str]] = ...) -> None: ...
    class Hello(_message.Message):
        __slots__ = ("protocol_version", "server", "subnets", "start", "session", "addressed_subnets", "incarnation", "known", "newest_protocol_version", "release", "address", "through")
        PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
        SERVER_FIELD_NUMBER: _ClassVar[int]
        SUBNETS_FIELD_NUMBER: _ClassVar[int]
        START_FIELD_NUMBER: _ClassVar[int]
        SESSION_FIELD_NUMBER: _ClassVar[int]
        ADDRESSED_SUBNETS_FIELD_NUMBER: _ClassVar[int]
        INCARNATION_FIELD_NUMBER: _ClassVar[int]
        KNOWN_FIELD_NUMBER: _ClassVar[int]
        NEWEST_PROTOCOL_VERSION_FIELD_NUMBER: _ClassVar[int]
        RELEASE_FIELD_NUMBER: _ClassVar[int]
        ADDRESS_FIELD_NUMBER: _ClassVar[int]
        THROUGH_FIELD_NUMBER: _ClassVar[int]
        protocol_version: int
        server: str
        subnets: _containers.RepeatedScalarFieldContainer[str]
        start: int
        session: int
        addressed_subnets: _containers.RepeatedScalarFieldContainer[str]
        incarnation: int
        known: _containers.RepeatedCompositeFieldContainer[PeerFrame.KnownServer]
        newest_protocol_version: int
        release: str
        address: str
        through: str
        def __init__(self, protocol_version: _Optional[int] = ..., server: _Optional[str] = ..., subnets: _Optional[_Iterable[str]] = ..., start: _Optional[int] = ..., session: _Optional[int] = ..., addressed_subnets: _Optional[_Iterable[str]] = ..., incarnation: _Optional[int] = ..., known: _Optional[_Iterable[_Union[PeerFrame.KnownServer, _Mapping]]] = ..., newest_protocol_version: _Optional[int] = ..., release: _Optional[str] = ..., address: _Optional[str] = ..., through: _Optional[str] = ...) -> None: ...
    class Letters(_message.Message):
        __slots__ = ("session", "first_number", "letters", "handled_through", "posts_handled_through")
        SESSION_FIELD_NUMBER: _ClassVar[int]
        FIRST_NUMBER_FIELD_NUMBER: _ClassVar[int]
        LETTERS_FIELD_NUMBER: _ClassVar[int]
        HANDLED_THROUGH_FIELD_NUMBER: _ClassVar[int]
        POSTS_HANDLED_THROUGH_FIELD_NUMBER: _ClassVar[int]
        session: int
        first_number: int
        letters: _containers.RepeatedScalarFieldContainer[bytes]
        handled_through: int
        posts_handled_through: int
        def __init__(self, session: _Optional[int] = ..., first_number: _Optional[int] = ..., letters: _Optional[_Iterable[bytes]] = ..., handled_through: _Optional[int] = ..., posts_handled_through: _Optional[int] = ...) -> None: ...
    class LetterPart(_message.Message):
        __slots__ = ("session", "number", "part", "is_last", "handled_through", "posts_handled_through")
        SESSION_FIELD_NUMBER: _ClassVar[int]
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        PART_FIELD_NUMBER: _ClassVar[int]
        IS_LAST_FIELD_NUMBER: _ClassVar[int]
        HANDLED_THROUGH_FIELD_NUMBER: _ClassVar[int]
        POSTS_HANDLED_THROUGH_FIELD_NUMBER: _ClassVar[int]
        session: int
        number: int
        part: bytes
        is_last: bool
        handled_through: int
        posts_handled_through: int
        def __init__(self, session: _Optional[int] = ..., number: _Optional[int] = ..., part: _Optional[bytes] = ..., is_last: _Optional[bool] = ..., handled_through: _Optional[int] = ..., posts_handled_through: _Optional[int] = ...) -> None: ...
    class Datagrams(_message.Message):
        __slots__ = ("session", "datagrams")
        SESSION_FIELD_NUMBER: _ClassVar[int]
        DATAGRAMS_FIELD_NUMBER: _ClassVar[int]
        session: int
        datagrams: _containers.RepeatedScalarFieldContainer[bytes]
        def __init__(self, session: _Optional[int] = ..., datagrams: _Optional[_Iterable[bytes]] = ...) -> None: ...
    class Receipt(_message.Message):
        __slots__ = ("session", "handled_through", "posts_handled_through")
        SESSION_FIELD_NUMBER: _ClassVar[int]
        HANDLED_THROUGH_FIELD_NUMBER: _ClassVar[int]
        POSTS_HANDLED_THROUGH_FIELD_NUMBER: _ClassVar[int]
        session: int
        handled_through: int
        posts_handled_through: int
        def __init__(self, session: _Optional[int] = ..., handled_through: _Optional[int] = ..., posts_handled_through: _Optional[int] = ...) -> None: ...
    class Heartbeat(_message.Message):
        __slots__ = ("session", "number", "heard", "held_us", "view", "cannot_write")
        SESSION_FIELD_NUMBER: _ClassVar[int]
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        HEARD_FIELD_NUMBER: _ClassVar[int]
        HELD_US_FIELD_NUMBER: _ClassVar[int]
        VIEW_FIELD_NUMBER: _ClassVar[int]
        CANNOT_WRITE_FIELD_NUMBER: _ClassVar[int]
        session: int
        number: int
        heard: int
        held_us: int
        view: str
        cannot_write: str
        def __init__(self, session: _Optional[int] = ..., number: _Optional[int] = ..., heard: _Optional[int] = ..., held_us: _Optional[int] = ..., view: _Optional[str] = ..., cannot_write: _Optional[str] = ...) -> None: ...
    class Acquaintances(_message.Message):
        __slots__ = ("session", "known", "checkpoint")
        SESSION_FIELD_NUMBER: _ClassVar[int]
        KNOWN_FIELD_NUMBER: _ClassVar[int]
        CHECKPOINT_FIELD_NUMBER: _ClassVar[int]
        session: int
        known: _containers.RepeatedCompositeFieldContainer[PeerFrame.KnownServer]
        checkpoint: PeerFrame.AuditCheckpoint
        def __init__(self, session: _Optional[int] = ..., known: _Optional[_Iterable[_Union[PeerFrame.KnownServer, _Mapping]]] = ..., checkpoint: _Optional[_Union[PeerFrame.AuditCheckpoint, _Mapping]] = ...) -> None: ...
    class AuditCheckpoint(_message.Message):
        __slots__ = ("sequence", "hash", "at_ms", "before", "key", "signature")
        SEQUENCE_FIELD_NUMBER: _ClassVar[int]
        HASH_FIELD_NUMBER: _ClassVar[int]
        AT_MS_FIELD_NUMBER: _ClassVar[int]
        BEFORE_FIELD_NUMBER: _ClassVar[int]
        KEY_FIELD_NUMBER: _ClassVar[int]
        SIGNATURE_FIELD_NUMBER: _ClassVar[int]
        sequence: int
        hash: bytes
        at_ms: int
        before: int
        key: bytes
        signature: bytes
        def __init__(self, sequence: _Optional[int] = ..., hash: _Optional[bytes] = ..., at_ms: _Optional[int] = ..., before: _Optional[int] = ..., key: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...
    class Leaving(_message.Message):
        __slots__ = ("session", "grace_ms")
        SESSION_FIELD_NUMBER: _ClassVar[int]
        GRACE_MS_FIELD_NUMBER: _ClassVar[int]
        session: int
        grace_ms: int
        def __init__(self, session: _Optional[int] = ..., grace_ms: _Optional[int] = ...) -> None: ...
    class Goodbye(_message.Message):
        __slots__ = ("reason", "message", "grace_ms")
        class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
            __slots__ = ()
            REASON_UNSPECIFIED: _ClassVar[PeerFrame.Goodbye.Reason]
            REASON_OTHER_VERSION: _ClassVar[PeerFrame.Goodbye.Reason]
            REASON_MALFORMED: _ClassVar[PeerFrame.Goodbye.Reason]
            REASON_ITSELF: _ClassVar[PeerFrame.Goodbye.Reason]
            REASON_NOT_A_PEER: _ClassVar[PeerFrame.Goodbye.Reason]
            REASON_SUBNET_CLAIMED_TWICE: _ClassVar[PeerFrame.Goodbye.Reason]
            REASON_WRONG_SUBNETS: _ClassVar[PeerFrame.Goodbye.Reason]
            REASON_LETTERS_LOST: _ClassVar[PeerFrame.Goodbye.Reason]
            REASON_OUT_OF_ORDER: _ClassVar[PeerFrame.Goodbye.Reason]
            REASON_REPLACED: _ClassVar[PeerFrame.Goodbye.Reason]
            REASON_LEAVING: _ClassVar[PeerFrame.Goodbye.Reason]
            REASON_NOT_HEARD: _ClassVar[PeerFrame.Goodbye.Reason]
            REASON_SUSPECTED: _ClassVar[PeerFrame.Goodbye.Reason]
            REASON_GONE_BACK: _ClassVar[PeerFrame.Goodbye.Reason]
            REASON_BEGUN_AGAIN: _ClassVar[PeerFrame.Goodbye.Reason]
            REASON_NOT_AUTHENTIC: _ClassVar[PeerFrame.Goodbye.Reason]
        REASON_UNSPECIFIED: PeerFrame.Goodbye.Reason
        REASON_OTHER_VERSION: PeerFrame.Goodbye.Reason
        REASON_MALFORMED: PeerFrame.Goodbye.Reason
        REASON_ITSELF: PeerFrame.Goodbye.Reason
        REASON_NOT_A_PEER: PeerFrame.Goodbye.Reason
        REASON_SUBNET_CLAIMED_TWICE: PeerFrame.Goodbye.Reason
        REASON_WRONG_SUBNETS: PeerFrame.Goodbye.Reason
        REASON_LETTERS_LOST: PeerFrame.Goodbye.Reason
        REASON_OUT_OF_ORDER: PeerFrame.Goodbye.Reason
        REASON_REPLACED: PeerFrame.Goodbye.Reason
        REASON_LEAVING: PeerFrame.Goodbye.Reason
        REASON_NOT_HEARD: PeerFrame.Goodbye.Reason
        REASON_SUSPECTED: PeerFrame.Goodbye.Reason
        REASON_GONE_BACK: PeerFrame.Goodbye.Reason
        REASON_BEGUN_AGAIN: PeerFrame.Goodbye.Reason
        REASON_NOT_AUTHENTIC: PeerFrame.Goodbye.Reason
        REASON_FIELD_NUMBER: _ClassVar[int]
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        GRACE_MS_FIELD_NUMBER: _ClassVar[int]
        reason: PeerFrame.Goodbye.Reason
        message: str
        grace_ms: int
        def __init__(self, reason: _Optional[_Union[PeerFrame.Goodbye.Reason, str]] = ..., message: _Optional[str] = ..., grace_ms: _Optional[int] = ...) -> None: ...
    HELLO_FIELD_NUMBER: _ClassVar[int]
    LETTERS_FIELD_NUMBER: _ClassVar[int]
    LETTER_PART_FIELD_NUMBER: _ClassVar[int]
    RECEIPT_FIELD_NUMBER: _ClassVar[int]
    GOODBYE_FIELD_NUMBER: _ClassVar[int]
    LEAVING_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    ACQUAINTANCES_FIELD_NUMBER: _ClassVar[int]
    POSTS_FIELD_NUMBER: _ClassVar[int]
    POST_PART_FIELD_NUMBER: _ClassVar[int]
    DATAGRAMS_FIELD_NUMBER: _ClassVar[int]
    hello: PeerFrame.Hello
    letters: PeerFrame.Letters
    letter_part: PeerFrame.LetterPart
    receipt: PeerFrame.Receipt
    goodbye: PeerFrame.Goodbye
    leaving: PeerFrame.Leaving
    heartbeat: PeerFrame.Heartbeat
    acquaintances: PeerFrame.Acquaintances
    posts: PeerFrame.Letters
    post_part: PeerFrame.LetterPart
    datagrams: PeerFrame.Datagrams
    def __init__(self, hello: _Optional[_Union[PeerFrame.Hello, _Mapping]] = ..., letters: _Optional[_Union[PeerFrame.Letters, _Mapping]] = ..., letter_part: _Optional[_Union[PeerFrame.LetterPart, _Mapping]] = ..., receipt: _Optional[_Union[PeerFrame.Receipt, _Mapping]] = ..., goodbye: _Optional[_Union[PeerFrame.Goodbye, _Mapping]] = ..., leaving: _Optional[_Union[PeerFrame.Leaving, _Mapping]] = ..., heartbeat: _Optional[_Union[PeerFrame.Heartbeat, _Mapping]] = ..., acquaintances: _Optional[_Union[PeerFrame.Acquaintances, _Mapping]] = ..., posts: _Optional[_Union[PeerFrame.Letters, _Mapping]] = ..., post_part: _Optional[_Union[PeerFrame.LetterPart, _Mapping]] = ..., datagrams: _Optional[_Union[PeerFrame.Datagrams, _Mapping]] = ...) -> None: ...

class TunnelPiece(_message.Message):
    __slots__ = ("data",)
    DATA_FIELD_NUMBER: _ClassVar[int]
    data: bytes
    def __init__(self, data: _Optional[bytes] = ...) -> None: ...

class IdentifyRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class IdentifyResponse(_message.Message):
    __slots__ = ("server", "subnets", "start")
    SERVER_FIELD_NUMBER: _ClassVar[int]
    SUBNETS_FIELD_NUMBER: _ClassVar[int]
    START_FIELD_NUMBER: _ClassVar[int]
    server: str
    subnets: _containers.RepeatedScalarFieldContainer[str]
    start: int
    def __init__(self, server: _Optional[str] = ..., subnets: _Optional[_Iterable[str]] = ..., start: _Optional[int] = ...) -> None: ...

class AwaitRevisionRequest(_message.Message):
    __slots__ = ("revision",)
    REVISION_FIELD_NUMBER: _ClassVar[int]
    revision: str
    def __init__(self, revision: _Optional[str] = ...) -> None: ...

class AwaitRevisionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class TellCallerGroupsRequest(_message.Message):
    __slots__ = ("principal",)
    PRINCIPAL_FIELD_NUMBER: _ClassVar[int]
    principal: str
    def __init__(self, principal: _Optional[str] = ...) -> None: ...

class TellCallerGroupsResponse(_message.Message):
    __slots__ = ("groups",)
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, groups: _Optional[_Iterable[str]] = ...) -> None: ...

class CheckPartRequest(_message.Message):
    __slots__ = ("groups", "members", "at_least_revision", "explain", "resolve", "with_pathnames")
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    EXPLAIN_FIELD_NUMBER: _ClassVar[int]
    RESOLVE_FIELD_NUMBER: _ClassVar[int]
    WITH_PATHNAMES_FIELD_NUMBER: _ClassVar[int]
    groups: _containers.RepeatedScalarFieldContainer[str]
    members: _containers.RepeatedScalarFieldContainer[str]
    at_least_revision: str
    explain: bool
    resolve: bool
    with_pathnames: bool
    def __init__(self, groups: _Optional[_Iterable[str]] = ..., members: _Optional[_Iterable[str]] = ..., at_least_revision: _Optional[str] = ..., explain: _Optional[bool] = ..., resolve: _Optional[bool] = ..., with_pathnames: _Optional[bool] = ...) -> None: ...

class CheckPartResponse(_message.Message):
    __slots__ = ("answers", "revision", "pathname", "apart", "view", "is_in_transition", "renamed", "names", "lengths", "steps")
    class Renamed(_message.Message):
        __slots__ = ("name", "to")
        NAME_FIELD_NUMBER: _ClassVar[int]
        TO_FIELD_NUMBER: _ClassVar[int]
        name: str
        to: str
        def __init__(self, name: _Optional[str] = ..., to: _Optional[str] = ...) -> None: ...
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    PATHNAME_FIELD_NUMBER: _ClassVar[int]
    APART_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    IS_IN_TRANSITION_FIELD_NUMBER: _ClassVar[int]
    RENAMED_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    answers: bytes
    revision: str
    pathname: _containers.RepeatedScalarFieldContainer[str]
    apart: _containers.RepeatedScalarFieldContainer[str]
    view: str
    is_in_transition: bool
    renamed: _containers.RepeatedCompositeFieldContainer[CheckPartResponse.Renamed]
    names: _containers.RepeatedScalarFieldContainer[str]
    lengths: _containers.RepeatedScalarFieldContainer[int]
    steps: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, answers: _Optional[bytes] = ..., revision: _Optional[str] = ..., pathname: _Optional[_Iterable[str]] = ..., apart: _Optional[_Iterable[str]] = ..., view: _Optional[str] = ..., is_in_transition: _Optional[bool] = ..., renamed: _Optional[_Iterable[_Union[CheckPartResponse.Renamed, _Mapping]]] = ..., names: _Optional[_Iterable[str]] = ..., lengths: _Optional[_Iterable[int]] = ..., steps: _Optional[_Iterable[int]] = ...) -> None: ...

class ConfirmArcsRequest(_message.Message):
    __slots__ = ("parents", "children", "at_least_revision")
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    parents: _containers.RepeatedScalarFieldContainer[str]
    children: _containers.RepeatedScalarFieldContainer[str]
    at_least_revision: str
    def __init__(self, parents: _Optional[_Iterable[str]] = ..., children: _Optional[_Iterable[str]] = ..., at_least_revision: _Optional[str] = ...) -> None: ...

class ConfirmArcsResponse(_message.Message):
    __slots__ = ("answers", "revision")
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    answers: bytes
    revision: str
    def __init__(self, answers: _Optional[bytes] = ..., revision: _Optional[str] = ...) -> None: ...

class DescribeArcsRequest(_message.Message):
    __slots__ = ("parents", "children", "at_least_revision")
    PARENTS_FIELD_NUMBER: _ClassVar[int]
    CHILDREN_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    parents: _containers.RepeatedScalarFieldContainer[str]
    children: _containers.RepeatedScalarFieldContainer[str]
    at_least_revision: str
    def __init__(self, parents: _Optional[_Iterable[str]] = ..., children: _Optional[_Iterable[str]] = ..., at_least_revision: _Optional[str] = ...) -> None: ...

class DescribeArcsResponse(_message.Message):
    __slots__ = ("records", "revision", "view")
    class Sources(_message.Message):
        __slots__ = ("names",)
        NAMES_FIELD_NUMBER: _ClassVar[int]
        names: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, names: _Optional[_Iterable[str]] = ...) -> None: ...
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    records: _containers.RepeatedCompositeFieldContainer[DescribeArcsResponse.Sources]
    revision: str
    view: str
    def __init__(self, records: _Optional[_Iterable[_Union[DescribeArcsResponse.Sources, _Mapping]]] = ..., revision: _Optional[str] = ..., view: _Optional[str] = ...) -> None: ...

class ResolvePartRequest(_message.Message):
    __slots__ = ("originator", "known_version", "with_steps", "at_least_revision", "targets", "excluding", "counts")
    ORIGINATOR_FIELD_NUMBER: _ClassVar[int]
    KNOWN_VERSION_FIELD_NUMBER: _ClassVar[int]
    WITH_STEPS_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    EXCLUDING_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    originator: str
    known_version: str
    with_steps: bool
    at_least_revision: str
    targets: _containers.RepeatedCompositeFieldContainer[_names_pb2.Target]
    excluding: _containers.RepeatedScalarFieldContainer[str]
    counts: bool
    def __init__(self, originator: _Optional[str] = ..., known_version: _Optional[str] = ..., with_steps: _Optional[bool] = ..., at_least_revision: _Optional[str] = ..., targets: _Optional[_Iterable[_Union[_names_pb2.Target, _Mapping]]] = ..., excluding: _Optional[_Iterable[str]] = ..., counts: _Optional[bool] = ...) -> None: ...

class ResolvePartChunk(_message.Message):
    __slots__ = ("state", "version", "revision", "processes", "groups", "onward", "steps", "apart", "view", "is_healed", "masks", "process_masks", "group_masks", "is_counted", "counted", "basis")
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_PART: _ClassVar[ResolvePartChunk.State]
        STATE_UNCHANGED: _ClassVar[ResolvePartChunk.State]
        STATE_IN_DOUBT: _ClassVar[ResolvePartChunk.State]
    STATE_PART: ResolvePartChunk.State
    STATE_UNCHANGED: ResolvePartChunk.State
    STATE_IN_DOUBT: ResolvePartChunk.State
    class Onward(_message.Message):
        __slots__ = ("server", "groups", "processes", "process_masks")
        SERVER_FIELD_NUMBER: _ClassVar[int]
        GROUPS_FIELD_NUMBER: _ClassVar[int]
        PROCESSES_FIELD_NUMBER: _ClassVar[int]
        PROCESS_MASKS_FIELD_NUMBER: _ClassVar[int]
        server: str
        groups: _containers.RepeatedScalarFieldContainer[str]
        processes: _containers.RepeatedScalarFieldContainer[str]
        process_masks: _containers.RepeatedScalarFieldContainer[int]
        def __init__(self, server: _Optional[str] = ..., groups: _Optional[_Iterable[str]] = ..., processes: _Optional[_Iterable[str]] = ..., process_masks: _Optional[_Iterable[int]] = ...) -> None: ...
    class Masks(_message.Message):
        __slots__ = ("reached", "excepted")
        REACHED_FIELD_NUMBER: _ClassVar[int]
        EXCEPTED_FIELD_NUMBER: _ClassVar[int]
        reached: bytes
        excepted: bytes
        def __init__(self, reached: _Optional[bytes] = ..., excepted: _Optional[bytes] = ...) -> None: ...
    class Step(_message.Message):
        __slots__ = ("tail", "head", "kind", "state", "cost")
        TAIL_FIELD_NUMBER: _ClassVar[int]
        HEAD_FIELD_NUMBER: _ClassVar[int]
        KIND_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        COST_FIELD_NUMBER: _ClassVar[int]
        tail: str
        head: str
        kind: _names_pb2.ChildKind
        state: _names_pb2.ArcState
        cost: int
        def __init__(self, tail: _Optional[str] = ..., head: _Optional[str] = ..., kind: _Optional[_Union[_names_pb2.ChildKind, str]] = ..., state: _Optional[_Union[_names_pb2.ArcState, str]] = ..., cost: _Optional[int] = ...) -> None: ...
    STATE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REVISION_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    ONWARD_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    APART_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    IS_HEALED_FIELD_NUMBER: _ClassVar[int]
    MASKS_FIELD_NUMBER: _ClassVar[int]
    PROCESS_MASKS_FIELD_NUMBER: _ClassVar[int]
    GROUP_MASKS_FIELD_NUMBER: _ClassVar[int]
    IS_COUNTED_FIELD_NUMBER: _ClassVar[int]
    COUNTED_FIELD_NUMBER: _ClassVar[int]
    BASIS_FIELD_NUMBER: _ClassVar[int]
    state: ResolvePartChunk.State
    version: str
    revision: str
    processes: _containers.RepeatedScalarFieldContainer[str]
    groups: _containers.RepeatedScalarFieldContainer[str]
    onward: _containers.RepeatedCompositeFieldContainer[ResolvePartChunk.Onward]
    steps: _containers.RepeatedCompositeFieldContainer[ResolvePartChunk.Step]
    apart: _containers.RepeatedCompositeFieldContainer[ResolvePartChunk.Onward]
    view: str
    is_healed: bool
    masks: _containers.RepeatedCompositeFieldContainer[ResolvePartChunk.Masks]
    process_masks: _containers.RepeatedScalarFieldContainer[int]
    group_masks: _containers.RepeatedScalarFieldContainer[int]
    is_counted: bool
    counted: _containers.RepeatedScalarFieldContainer[int]
    basis: str
    def __init__(self, state: _Optional[_Union[ResolvePartChunk.State, str]] = ..., version: _Optional[str] = ..., revision: _Optional[str] = ..., processes: _Optional[_Iterable[str]] = ..., groups: _Optional[_Iterable[str]] = ..., onward: _Optional[_Iterable[_Union[ResolvePartChunk.Onward, _Mapping]]] = ..., steps: _Optional[_Iterable[_Union[ResolvePartChunk.Step, _Mapping]]] = ..., apart: _Optional[_Iterable[_Union[ResolvePartChunk.Onward, _Mapping]]] = ..., view: _Optional[str] = ..., is_healed: _Optional[bool] = ..., masks: _Optional[_Iterable[_Union[ResolvePartChunk.Masks, _Mapping]]] = ..., process_masks: _Optional[_Iterable[int]] = ..., group_masks: _Optional[_Iterable[int]] = ..., is_counted: _Optional[bool] = ..., counted: _Optional[_Iterable[int]] = ..., basis: _Optional[str] = ...) -> None: ...

class TellBasisRequest(_message.Message):
    __slots__ = ("at_least_revision",)
    AT_LEAST_REVISION_FIELD_NUMBER: _ClassVar[int]
    at_least_revision: str
    def __init__(self, at_least_revision: _Optional[str] = ...) -> None: ...

class TellBasisResponse(_message.Message):
    __slots__ = ("basis",)
    BASIS_FIELD_NUMBER: _ClassVar[int]
    basis: str
    def __init__(self, basis: _Optional[str] = ...) -> None: ...

class MaySendRequest(_message.Message):
    __slots__ = ("targets", "as_process")
    TARGETS_FIELD_NUMBER: _ClassVar[int]
    AS_PROCESS_FIELD_NUMBER: _ClassVar[int]
    targets: _containers.RepeatedScalarFieldContainer[str]
    as_process: str
    def __init__(self, targets: _Optional[_Iterable[str]] = ..., as_process: _Optional[str] = ...) -> None: ...

class MaySendResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
