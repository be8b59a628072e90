"""The words of the public interface as types: what a `str` or `float` stands for in a signature."""

from __future__ import annotations

from typing import Literal, TypeAlias

GroupId: TypeAlias = str
"""``name@subnet``."""

MemberId: TypeAlias = str
"""A group or a process, ``name@domain``."""

SubnetName: TypeAlias = str
"""An administrative domain, such as ``ubc.example``."""

Address: TypeAlias = str
"""Where a name server listens: ``HOST:PORT``."""

Revision: TypeAlias = str
"""Opaque; what a write returned and a later read may ask to see."""

RequestId: TypeAlias = str
"""Chosen by the caller of a write; repeating it returns the first answer instead of writing twice."""

Seconds: TypeAlias = float

ChildKind: TypeAlias = Literal["auto", "group", "process"]
"""What the child of an arc is; ``auto`` takes a group if one of that id exists, else a process."""

NodeKind: TypeAlias = Literal["group", "process"]

ArcState: TypeAlias = Literal["normal", "shadow", "fade", "suspended"]

Consistency: TypeAlias = Literal["datagram", "ordered"]

ChangeKind: TypeAlias = Literal["created", "deleted", "joined", "left"]

EffectKind: TypeAlias = Literal["formed", "grown", "changed", "broken", "controlled", "released"]

Quality: TypeAlias = Literal["fifo", "datagram"]
Kept: TypeAlias = Literal["durable", "memory"]
"""What a member that is there throughout can rely on."""

Wait: TypeAlias = Literal["accepted", "settled"]

SendState: TypeAlias = Literal["accepted", "settled", "queued"]

MessageId: TypeAlias = str
"""Opaque; the same at all servers."""

Position: TypeAlias = str
"""Opaque: a place in the log of one server."""

SubscriptionName: TypeAlias = str

SenderId: TypeAlias = str
"""Chosen by who numbers its messages, and used by nobody else."""
