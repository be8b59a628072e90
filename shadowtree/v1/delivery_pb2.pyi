from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Quality(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    QUALITY_UNSPECIFIED: _ClassVar[Quality]
    QUALITY_FIFO: _ClassVar[Quality]
    QUALITY_DATAGRAM: _ClassVar[Quality]

class Kept(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KEPT_UNSPECIFIED: _ClassVar[Kept]
    KEPT_DURABLE: _ClassVar[Kept]
    KEPT_MEMORY: _ClassVar[Kept]
QUALITY_UNSPECIFIED: Quality
QUALITY_FIFO: Quality
QUALITY_DATAGRAM: Quality
KEPT_UNSPECIFIED: Kept
KEPT_DURABLE: Kept
KEPT_MEMORY: Kept

class Header(_message.Message):
    __slots__ = ("name", "value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    value: str
    def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...

class SendRequest(_message.Message):
    __slots__ = ("messages", "takes_runs")
    class Wait(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        WAIT_ACCEPTED: _ClassVar[SendRequest.Wait]
        WAIT_SETTLED: _ClassVar[SendRequest.Wait]
    WAIT_ACCEPTED: SendRequest.Wait
    WAIT_SETTLED: SendRequest.Wait
    class Target(_message.Message):
        __slots__ = ("name", "excluding")
        NAME_FIELD_NUMBER: _ClassVar[int]
        EXCLUDING_FIELD_NUMBER: _ClassVar[int]
        name: str
        excluding: _containers.RepeatedScalarFieldContainer[str]
        def __init__(self, name: _Optional[str] = ..., excluding: _Optional[_Iterable[str]] = ...) -> None: ...
    class Message(_message.Message):
        __slots__ = ("sender", "number", "request_id", "targets", "excluding", "payload", "headers", "quality", "deadline_ms", "wait", "asks_number", "as_process", "queue")
        SENDER_FIELD_NUMBER: _ClassVar[int]
        NUMBER_FIELD_NUMBER: _ClassVar[int]
        REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
        TARGETS_FIELD_NUMBER: _ClassVar[int]
        EXCLUDING_FIELD_NUMBER: _ClassVar[int]
        PAYLOAD_FIELD_NUMBER: _ClassVar[int]
        HEADERS_FIELD_NUMBER: _ClassVar[int]
        QUALITY_FIELD_NUMBER: _ClassVar[int]
        DEADLINE_MS_FIELD_NUMBER: _ClassVar[int]
        WAIT_FIELD_NUMBER: _ClassVar[int]
        ASKS_NUMBER_FIELD_NUMBER: _ClassVar[int]
        AS_PROCESS_FIELD_NUMBER: _ClassVar[int]
        QUEUE_FIELD_NUMBER: _ClassVar[int]
        sender: str
        number: int
        request_id: str
        targets: _containers.RepeatedCompositeFieldContainer[SendRequest.Target]
        excluding: _containers.RepeatedScalarFieldContainer[str]
        payload: bytes
        headers: _containers.RepeatedCompositeFieldContainer[Header]
        quality: Quality
        deadline_ms: int
        wait: SendRequest.Wait
        asks_number: bool
        as_process: str
        queue: bool
        def __init__(self, sender: _Optional[str] = ..., number: _Optional[int] = ..., request_id: _Optional[str] = ..., targets: _Optional[_Iterable[_Union[SendRequest.Target, _Mapping]]] = ..., excluding: _Optional[_Iterable[str]] = ..., payload: _Optional[bytes] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., quality: _Optional[_Union[Quality, str]] = ..., deadline_ms: _Optional[int] = ..., wait: _Optional[_Union[SendRequest.Wait, str]] = ..., asks_number: _Optional[bool] = ..., as_process: _Optional[str] = ..., queue: _Optional[bool] = ...) -> None: ...
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    TAKES_RUNS_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[SendRequest.Message]
    takes_runs: bool
    def __init__(self, messages: _Optional[_Iterable[_Union[SendRequest.Message, _Mapping]]] = ..., takes_runs: _Optional[bool] = ...) -> None: ...

class SendResponse(_message.Message):
    __slots__ = ("answers",)
    class State(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        STATE_UNSPECIFIED: _ClassVar[SendResponse.State]
        STATE_ACCEPTED: _ClassVar[SendResponse.State]
        STATE_SETTLED: _ClassVar[SendResponse.State]
        STATE_QUEUED: _ClassVar[SendResponse.State]
    STATE_UNSPECIFIED: SendResponse.State
    STATE_ACCEPTED: SendResponse.State
    STATE_SETTLED: SendResponse.State
    STATE_QUEUED: SendResponse.State
    class Answer(_message.Message):
        __slots__ = ("message", "state", "id", "is_repeated", "mailboxes", "servers", "pending", "unreachable", "next_number", "refused", "quality", "kept", "through")
        MESSAGE_FIELD_NUMBER: _ClassVar[int]
        STATE_FIELD_NUMBER: _ClassVar[int]
        ID_FIELD_NUMBER: _ClassVar[int]
        IS_REPEATED_FIELD_NUMBER: _ClassVar[int]
        MAILBOXES_FIELD_NUMBER: _ClassVar[int]
        SERVERS_FIELD_NUMBER: _ClassVar[int]
        PENDING_FIELD_NUMBER: _ClassVar[int]
        UNREACHABLE_FIELD_NUMBER: _ClassVar[int]
        NEXT_NUMBER_FIELD_NUMBER: _ClassVar[int]
        REFUSED_FIELD_NUMBER: _ClassVar[int]
        QUALITY_FIELD_NUMBER: _ClassVar[int]
        KEPT_FIELD_NUMBER: _ClassVar[int]
        THROUGH_FIELD_NUMBER: _ClassVar[int]
        message: int
        state: SendResponse.State
        id: str
        is_repeated: bool
        mailboxes: int
        servers: int
        pending: _containers.RepeatedScalarFieldContainer[str]
        unreachable: _containers.RepeatedScalarFieldContainer[str]
        next_number: int
        refused: Refused
        quality: Quality
        kept: Kept
        through: int
        def __init__(self, message: _Optional[int] = ..., state: _Optional[_Union[SendResponse.State, str]] = ..., id: _Optional[str] = ..., is_repeated: _Optional[bool] = ..., mailboxes: _Optional[int] = ..., servers: _Optional[int] = ..., pending: _Optional[_Iterable[str]] = ..., unreachable: _Optional[_Iterable[str]] = ..., next_number: _Optional[int] = ..., refused: _Optional[_Union[Refused, _Mapping]] = ..., quality: _Optional[_Union[Quality, str]] = ..., kept: _Optional[_Union[Kept, str]] = ..., through: _Optional[int] = ...) -> None: ...
    ANSWERS_FIELD_NUMBER: _ClassVar[int]
    answers: _containers.RepeatedCompositeFieldContainer[SendResponse.Answer]
    def __init__(self, answers: _Optional[_Iterable[_Union[SendResponse.Answer, _Mapping]]] = ...) -> None: ...

class Refused(_message.Message):
    __slots__ = ("code", "reason", "message", "facts")
    class Fact(_message.Message):
        __slots__ = ("name", "value")
        NAME_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        name: str
        value: str
        def __init__(self, name: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    code: int
    reason: str
    message: str
    facts: _containers.RepeatedCompositeFieldContainer[Refused.Fact]
    def __init__(self, code: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., facts: _Optional[_Iterable[_Union[Refused.Fact, _Mapping]]] = ...) -> None: ...

class SubscribeRequest(_message.Message):
    __slots__ = ("begin", "acknowledged", "credit_messages", "credit_bytes")
    class From(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        FROM_START: _ClassVar[SubscribeRequest.From]
        FROM_NOW: _ClassVar[SubscribeRequest.From]
    FROM_START: SubscribeRequest.From
    FROM_NOW: SubscribeRequest.From
    class Begin(_message.Message):
        __slots__ = ("name", "subscription", "position", "handed_out", "ephemeral", "groups", "senders", "takes_more")
        NAME_FIELD_NUMBER: _ClassVar[int]
        SUBSCRIPTION_FIELD_NUMBER: _ClassVar[int]
        FROM_FIELD_NUMBER: _ClassVar[int]
        POSITION_FIELD_NUMBER: _ClassVar[int]
        HANDED_OUT_FIELD_NUMBER: _ClassVar[int]
        EPHEMERAL_FIELD_NUMBER: _ClassVar[int]
        GROUPS_FIELD_NUMBER: _ClassVar[int]
        SENDERS_FIELD_NUMBER: _ClassVar[int]
        TAKES_MORE_FIELD_NUMBER: _ClassVar[int]
        name: str
        subscription: str
        position: str
        handed_out: str
        ephemeral: bool
        groups: _containers.RepeatedScalarFieldContainer[str]
        senders: _containers.RepeatedScalarFieldContainer[str]
        takes_more: bool
        def __init__(self, name: _Optional[str] = ..., subscription: _Optional[str] = ..., position: _Optional[str] = ..., handed_out: _Optional[str] = ..., ephemeral: _Optional[bool] = ..., groups: _Optional[_Iterable[str]] = ..., senders: _Optional[_Iterable[str]] = ..., takes_more: _Optional[bool] = ..., **kwargs) -> None: ...
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    ACKNOWLEDGED_FIELD_NUMBER: _ClassVar[int]
    CREDIT_MESSAGES_FIELD_NUMBER: _ClassVar[int]
    CREDIT_BYTES_FIELD_NUMBER: _ClassVar[int]
    begin: SubscribeRequest.Begin
    acknowledged: str
    credit_messages: int
    credit_bytes: int
    def __init__(self, begin: _Optional[_Union[SubscribeRequest.Begin, _Mapping]] = ..., acknowledged: _Optional[str] = ..., credit_messages: _Optional[int] = ..., credit_bytes: _Optional[int] = ...) -> None: ...

class SubscribeResponse(_message.Message):
    __slots__ = ("position", "messages", "recipients", "more_recipients", "more")
    class Message(_message.Message):
        __slots__ = ("id", "group", "sender", "headers", "payload", "position", "sent_at_ms", "gap", "late", "quality", "kept")
        ID_FIELD_NUMBER: _ClassVar[int]
        GROUP_FIELD_NUMBER: _ClassVar[int]
        SENDER_FIELD_NUMBER: _ClassVar[int]
        HEADERS_FIELD_NUMBER: _ClassVar[int]
        PAYLOAD_FIELD_NUMBER: _ClassVar[int]
        POSITION_FIELD_NUMBER: _ClassVar[int]
        SENT_AT_MS_FIELD_NUMBER: _ClassVar[int]
        GAP_FIELD_NUMBER: _ClassVar[int]
        LATE_FIELD_NUMBER: _ClassVar[int]
        QUALITY_FIELD_NUMBER: _ClassVar[int]
        KEPT_FIELD_NUMBER: _ClassVar[int]
        id: str
        group: str
        sender: str
        headers: _containers.RepeatedCompositeFieldContainer[Header]
        payload: bytes
        position: str
        sent_at_ms: int
        gap: int
        late: bool
        quality: Quality
        kept: Kept
        def __init__(self, id: _Optional[str] = ..., group: _Optional[str] = ..., sender: _Optional[str] = ..., headers: _Optional[_Iterable[_Union[Header, _Mapping]]] = ..., payload: _Optional[bytes] = ..., position: _Optional[str] = ..., sent_at_ms: _Optional[int] = ..., gap: _Optional[int] = ..., late: _Optional[bool] = ..., quality: _Optional[_Union[Quality, str]] = ..., kept: _Optional[_Union[Kept, str]] = ...) -> None: ...
    POSITION_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    RECIPIENTS_FIELD_NUMBER: _ClassVar[int]
    MORE_RECIPIENTS_FIELD_NUMBER: _ClassVar[int]
    MORE_FIELD_NUMBER: _ClassVar[int]
    position: str
    messages: _containers.RepeatedCompositeFieldContainer[SubscribeResponse.Message]
    recipients: _containers.RepeatedScalarFieldContainer[str]
    more_recipients: bool
    more: _containers.RepeatedCompositeFieldContainer[SubscribeResponse]
    def __init__(self, position: _Optional[str] = ..., messages: _Optional[_Iterable[_Union[SubscribeResponse.Message, _Mapping]]] = ..., recipients: _Optional[_Iterable[str]] = ..., more_recipients: _Optional[bool] = ..., more: _Optional[_Iterable[_Union[SubscribeResponse, _Mapping]]] = ...) -> None: ...

class SetDeliveryRequest(_message.Message):
    __slots__ = ("group", "quality", "senders", "kept")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    SENDERS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    group: str
    quality: Quality
    senders: str
    kept: Kept
    def __init__(self, group: _Optional[str] = ..., quality: _Optional[_Union[Quality, str]] = ..., senders: _Optional[str] = ..., kept: _Optional[_Union[Kept, str]] = ...) -> None: ...

class GetDeliveryRequest(_message.Message):
    __slots__ = ("group",)
    GROUP_FIELD_NUMBER: _ClassVar[int]
    group: str
    def __init__(self, group: _Optional[str] = ...) -> None: ...

class Delivery(_message.Message):
    __slots__ = ("group", "quality", "senders", "kept")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    QUALITY_FIELD_NUMBER: _ClassVar[int]
    SENDERS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    group: str
    quality: Quality
    senders: str
    kept: Kept
    def __init__(self, group: _Optional[str] = ..., quality: _Optional[_Union[Quality, str]] = ..., senders: _Optional[str] = ..., kept: _Optional[_Union[Kept, str]] = ...) -> None: ...

class OpenMailboxRequest(_message.Message):
    __slots__ = ("process",)
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    process: str
    def __init__(self, process: _Optional[str] = ...) -> None: ...

class CloseMailboxRequest(_message.Message):
    __slots__ = ("process", "force")
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    FORCE_FIELD_NUMBER: _ClassVar[int]
    process: str
    force: bool
    def __init__(self, process: _Optional[str] = ..., force: _Optional[bool] = ...) -> None: ...

class Mailbox(_message.Message):
    __slots__ = ("process", "server", "is_new", "subscriptions", "messages_lost")
    class Subscription(_message.Message):
        __slots__ = ("name", "position", "is_listening")
        NAME_FIELD_NUMBER: _ClassVar[int]
        POSITION_FIELD_NUMBER: _ClassVar[int]
        IS_LISTENING_FIELD_NUMBER: _ClassVar[int]
        name: str
        position: str
        is_listening: bool
        def __init__(self, name: _Optional[str] = ..., position: _Optional[str] = ..., is_listening: _Optional[bool] = ...) -> None: ...
    PROCESS_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    IS_NEW_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTIONS_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_LOST_FIELD_NUMBER: _ClassVar[int]
    process: str
    server: str
    is_new: bool
    subscriptions: _containers.RepeatedCompositeFieldContainer[Mailbox.Subscription]
    messages_lost: int
    def __init__(self, process: _Optional[str] = ..., server: _Optional[str] = ..., is_new: _Optional[bool] = ..., subscriptions: _Optional[_Iterable[_Union[Mailbox.Subscription, _Mapping]]] = ..., messages_lost: _Optional[int] = ...) -> None: ...

class ListMailboxesRequest(_message.Message):
    __slots__ = ("subnet", "page_size", "page_token")
    SUBNET_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    subnet: str
    page_size: int
    page_token: str
    def __init__(self, subnet: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListMailboxesResponse(_message.Message):
    __slots__ = ("mailboxes", "next_page_token")
    MAILBOXES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    mailboxes: _containers.RepeatedCompositeFieldContainer[Mailbox]
    next_page_token: str
    def __init__(self, mailboxes: _Optional[_Iterable[_Union[Mailbox, _Mapping]]] = ..., next_page_token: _Optional[str] = ...) -> None: ...

class DeadLetter(_message.Message):
    __slots__ = ("number", "id", "messages", "bytes", "group", "reason", "servers", "replayed_to", "sent_at_ms", "why")
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        REASON_UNSPECIFIED: _ClassVar[DeadLetter.Reason]
        REASON_SERVER_REMOVED: _ClassVar[DeadLetter.Reason]
        REASON_EXPIRED: _ClassVar[DeadLetter.Reason]
        REASON_REFUSED: _ClassVar[DeadLetter.Reason]
    REASON_UNSPECIFIED: DeadLetter.Reason
    REASON_SERVER_REMOVED: DeadLetter.Reason
    REASON_EXPIRED: DeadLetter.Reason
    REASON_REFUSED: DeadLetter.Reason
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    GROUP_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_TO_FIELD_NUMBER: _ClassVar[int]
    SENT_AT_MS_FIELD_NUMBER: _ClassVar[int]
    WHY_FIELD_NUMBER: _ClassVar[int]
    number: int
    id: str
    messages: int
    bytes: int
    group: str
    reason: DeadLetter.Reason
    servers: _containers.RepeatedScalarFieldContainer[str]
    replayed_to: _containers.RepeatedScalarFieldContainer[str]
    sent_at_ms: int
    why: str
    def __init__(self, number: _Optional[int] = ..., id: _Optional[str] = ..., messages: _Optional[int] = ..., bytes: _Optional[int] = ..., group: _Optional[str] = ..., reason: _Optional[_Union[DeadLetter.Reason, str]] = ..., servers: _Optional[_Iterable[str]] = ..., replayed_to: _Optional[_Iterable[str]] = ..., sent_at_ms: _Optional[int] = ..., why: _Optional[str] = ...) -> None: ...

class ListDeadLettersRequest(_message.Message):
    __slots__ = ("subnet", "page_size", "page_token")
    SUBNET_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    subnet: str
    page_size: int
    page_token: str
    def __init__(self, subnet: _Optional[str] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListDeadLettersResponse(_message.Message):
    __slots__ = ("dead_letters", "next_page_token", "messages_lost", "server")
    DEAD_LETTERS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_LOST_FIELD_NUMBER: _ClassVar[int]
    SERVER_FIELD_NUMBER: _ClassVar[int]
    dead_letters: _containers.RepeatedCompositeFieldContainer[DeadLetter]
    next_page_token: str
    messages_lost: int
    server: str
    def __init__(self, dead_letters: _Optional[_Iterable[_Union[DeadLetter, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., messages_lost: _Optional[int] = ..., server: _Optional[str] = ...) -> None: ...

class ReplayDeadLettersRequest(_message.Message):
    __slots__ = ("subnet", "numbers", "all")
    SUBNET_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    subnet: str
    numbers: _containers.RepeatedScalarFieldContainer[int]
    all: bool
    def __init__(self, subnet: _Optional[str] = ..., numbers: _Optional[_Iterable[int]] = ..., all: _Optional[bool] = ...) -> None: ...

class ReplayDeadLettersResponse(_message.Message):
    __slots__ = ("replayed", "left")
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    LEFT_FIELD_NUMBER: _ClassVar[int]
    replayed: int
    left: int
    def __init__(self, replayed: _Optional[int] = ..., left: _Optional[int] = ...) -> None: ...

class DropDeadLettersRequest(_message.Message):
    __slots__ = ("subnet", "numbers", "all")
    SUBNET_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    subnet: str
    numbers: _containers.RepeatedScalarFieldContainer[int]
    all: bool
    def __init__(self, subnet: _Optional[str] = ..., numbers: _Optional[_Iterable[int]] = ..., all: _Optional[bool] = ...) -> None: ...

class DropDeadLettersResponse(_message.Message):
    __slots__ = ("dropped",)
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    dropped: int
    def __init__(self, dropped: _Optional[int] = ...) -> None: ...
