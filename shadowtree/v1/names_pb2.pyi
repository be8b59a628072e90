from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ChildKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CHILD_KIND_AUTO: _ClassVar[ChildKind]
    CHILD_KIND_GROUP: _ClassVar[ChildKind]
    CHILD_KIND_PROCESS: _ClassVar[ChildKind]

class ArcState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ARC_STATE_UNSPECIFIED: _ClassVar[ArcState]
    ARC_STATE_NORMAL: _ClassVar[ArcState]
    ARC_STATE_SHADOW: _ClassVar[ArcState]
    ARC_STATE_FADE: _ClassVar[ArcState]
    ARC_STATE_SUSPENDED: _ClassVar[ArcState]

class EffectKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EFFECT_KIND_UNSPECIFIED: _ClassVar[EffectKind]
    EFFECT_KIND_FORMED: _ClassVar[EffectKind]
    EFFECT_KIND_GROWN: _ClassVar[EffectKind]
    EFFECT_KIND_CHANGED: _ClassVar[EffectKind]
    EFFECT_KIND_BROKEN: _ClassVar[EffectKind]
    EFFECT_KIND_CONTROLLED: _ClassVar[EffectKind]
    EFFECT_KIND_RELEASED: _ClassVar[EffectKind]
CHILD_KIND_AUTO: ChildKind
CHILD_KIND_GROUP: ChildKind
CHILD_KIND_PROCESS: ChildKind
ARC_STATE_UNSPECIFIED: ArcState
ARC_STATE_NORMAL: ArcState
ARC_STATE_SHADOW: ArcState
ARC_STATE_FADE: ArcState
ARC_STATE_SUSPENDED: ArcState
EFFECT_KIND_UNSPECIFIED: EffectKind
EFFECT_KIND_FORMED: EffectKind
EFFECT_KIND_GROWN: EffectKind
EFFECT_KIND_CHANGED: EffectKind
EFFECT_KIND_BROKEN: EffectKind
EFFECT_KIND_CONTROLLED: EffectKind
EFFECT_KIND_RELEASED: EffectKind

class Effect(_message.Message):
    __slots__ = ("kind", "groups", "servers")
    KIND_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    SERVERS_FIELD_NUMBER: _ClassVar[int]
    kind: EffectKind
    groups: _containers.RepeatedScalarFieldContainer[str]
    servers: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, kind: _Optional[_Union[EffectKind, str]] = ..., groups: _Optional[_Iterable[str]] = ..., servers: _Optional[_Iterable[str]] = ...) -> None: ...

class Change(_message.Message):
    __slots__ = ("revision", "effects", "unchanged", "details_kept")
    REVISION_FIELD_NUMBER: _ClassVar[int]
    EFFECTS_FIELD_NUMBER: _ClassVar[int]
    UNCHANGED_FIELD_NUMBER: _ClassVar[int]
    DETAILS_KEPT_FIELD_NUMBER: _ClassVar[int]
    revision: str
    effects: _containers.RepeatedCompositeFieldContainer[Effect]
    unchanged: _containers.RepeatedScalarFieldContainer[int]
    details_kept: bool
    def __init__(self, revision: _Optional[str] = ..., effects: _Optional[_Iterable[_Union[Effect, _Mapping]]] = ..., unchanged: _Optional[_Iterable[int]] = ..., details_kept: _Optional[bool] = ...) -> None: ...

class GroupDetails(_message.Message):
    __slots__ = ("description",)
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    description: str
    def __init__(self, description: _Optional[str] = ...) -> None: ...

class DetailedGroup(_message.Message):
    __slots__ = ("group", "details")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    DETAILS_FIELD_NUMBER: _ClassVar[int]
    group: str
    details: GroupDetails
    def __init__(self, group: _Optional[str] = ..., details: _Optional[_Union[GroupDetails, _Mapping]] = ...) -> None: ...

class Target(_message.Message):
    __slots__ = ("group", "excluding")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    EXCLUDING_FIELD_NUMBER: _ClassVar[int]
    group: str
    excluding: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, group: _Optional[str] = ..., excluding: _Optional[_Iterable[str]] = ...) -> None: ...

class PrivilegeSubjects(_message.Message):
    __slots__ = ("privilege", "subjects")
    PRIVILEGE_FIELD_NUMBER: _ClassVar[int]
    SUBJECTS_FIELD_NUMBER: _ClassVar[int]
    privilege: str
    subjects: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, privilege: _Optional[str] = ..., subjects: _Optional[_Iterable[str]] = ...) -> None: ...

class GroupPolicy(_message.Message):
    __slots__ = ("group", "preset", "privileges", "is_judged")
    GROUP_FIELD_NUMBER: _ClassVar[int]
    PRESET_FIELD_NUMBER: _ClassVar[int]
    PRIVILEGES_FIELD_NUMBER: _ClassVar[int]
    IS_JUDGED_FIELD_NUMBER: _ClassVar[int]
    group: str
    preset: str
    privileges: _containers.RepeatedCompositeFieldContainer[PrivilegeSubjects]
    is_judged: bool
    def __init__(self, group: _Optional[str] = ..., preset: _Optional[str] = ..., privileges: _Optional[_Iterable[_Union[PrivilegeSubjects, _Mapping]]] = ..., is_judged: _Optional[bool] = ...) -> None: ...
