"""The vocabulary of the public interface as types, which name the meaning of a `str` or `float` in a signature."""

from __future__ import annotations

from typing import Literal, TypeAlias

GroupId: TypeAlias = str
"""Group: ``name@subnet``."""

MemberId: TypeAlias = str
"""Group or process: ``name@domain``."""

SubnetName: TypeAlias = str
"""Administrative domain, such as ``ubc.example``."""

Address: TypeAlias = str
"""Address of a name server: ``HOST:PORT``, or ``unix:PATH`` of its local socket."""

Revision: TypeAlias = str
"""Opaque value that a write returned and a later read may ask to reflect."""

RequestId: TypeAlias = str
"""Id that the caller of a write chooses. Repeating it returns the first answer instead of writing twice."""

Seconds: TypeAlias = float

ChildKind: TypeAlias = Literal["auto", "group", "process"]
"""Kind of the child of an arc. ``auto`` is a group if one of that id exists, else a process."""

NodeKind: TypeAlias = Literal["group", "process"]

ArcState: TypeAlias = Literal["normal", "shadow", "fade", "suspended"]

Consistency: TypeAlias = Literal["datagram", "ordered"]

ChangeKind: TypeAlias = Literal["created", "deleted", "joined", "left"]

EffectKind: TypeAlias = Literal["formed", "grown", "changed", "broken", "controlled", "released"]

Quality: TypeAlias = Literal["fifo", "datagram"]
"""Delivery guarantee for a member that is there throughout."""

Kept: TypeAlias = Literal["durable", "memory"]
"""Storage of messages until they are handed over."""

Wait: TypeAlias = Literal["accepted", "settled"]

SendState: TypeAlias = Literal["accepted", "settled", "queued"]

MessageId: TypeAlias = str
"""Opaque id, the same at all servers."""

Position: TypeAlias = str
"""Opaque position in the log of one server."""

SubscriptionName: TypeAlias = str

SenderId: TypeAlias = str
"""Id under which a sender numbers its messages. No other sender may use it."""
