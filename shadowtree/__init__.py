"""Shadowtree, a name service for nested groups: members of a group, membership of X in a group, groups of X.

    import shadowtree

    with shadowtree.Client("127.0.0.1:7400") as names:
        names.join("staff@ubc.example", "ann@ubc.example")

`shadowtree.aio.Client` has the same methods, awaited. Importing this package is cheap: public names are loaded when
they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shadowtree import aio as aio
    from shadowtree.client.synchronous.client import Client as Client
    from shadowtree.errors import AlreadyMember as AlreadyMember
    from shadowtree.errors import BacklogFull as BacklogFull
    from shadowtree.errors import BadFile as BadFile
    from shadowtree.errors import ClientClosed as ClientClosed
    from shadowtree.errors import ConsentNeeded as ConsentNeeded
    from shadowtree.errors import CredentialsExpired as CredentialsExpired
    from shadowtree.errors import CredentialsInvalid as CredentialsInvalid
    from shadowtree.errors import CredentialsNeeded as CredentialsNeeded
    from shadowtree.errors import DeadlineExceeded as DeadlineExceeded
    from shadowtree.errors import GroupExists as GroupExists
    from shadowtree.errors import GroupInUse as GroupInUse
    from shadowtree.errors import GroupNotFound as GroupNotFound
    from shadowtree.errors import HistoryForgotten as HistoryForgotten
    from shadowtree.errors import InvalidName as InvalidName
    from shadowtree.errors import InvalidRequest as InvalidRequest
    from shadowtree.errors import LimitExceeded as LimitExceeded
    from shadowtree.errors import MailboxNotFound as MailboxNotFound
    from shadowtree.errors import NameInUse as NameInUse
    from shadowtree.errors import NotAMember as NotAMember
    from shadowtree.errors import NotASender as NotASender
    from shadowtree.errors import OutcomeUnknown as OutcomeUnknown
    from shadowtree.errors import OutOfSequence as OutOfSequence
    from shadowtree.errors import PermissionDenied as PermissionDenied
    from shadowtree.errors import RateExceeded as RateExceeded
    from shadowtree.errors import SelfArc as SelfArc
    from shadowtree.errors import ServerFault as ServerFault
    from shadowtree.errors import ServerUnreachable as ServerUnreachable
    from shadowtree.errors import ShadowtreeError as ShadowtreeError
    from shadowtree.errors import TakenOver as TakenOver
    from shadowtree.errors import TakesDatagrams as TakesDatagrams
    from shadowtree.errors import TargetNotFound as TargetNotFound
    from shadowtree.errors import Unauthenticated as Unauthenticated
    from shadowtree.errors import Unavailable as Unavailable
    from shadowtree.errors import UnknownSubnet as UnknownSubnet
    from shadowtree.errors import WrongKind as WrongKind
    from shadowtree.messages import DeadLetter as DeadLetter
    from shadowtree.messages import DeadLetters as DeadLetters
    from shadowtree.messages import Delivery as Delivery
    from shadowtree.messages import Mailbox as Mailbox
    from shadowtree.messages import Message as Message
    from shadowtree.messages import Replayed as Replayed
    from shadowtree.messages import Sent as Sent
    from shadowtree.messages import Subscription as Subscription
    from shadowtree.results import AdoptedPolicy as AdoptedPolicy
    from shadowtree.results import ApiKey as ApiKey
    from shadowtree.results import Change as Change
    from shadowtree.results import Check as Check
    from shadowtree.results import Child as Child
    from shadowtree.results import Effect as Effect
    from shadowtree.results import ExportSummary as ExportSummary
    from shadowtree.results import GroupDescription as GroupDescription
    from shadowtree.results import GroupList as GroupList
    from shadowtree.results import GroupPolicy as GroupPolicy
    from shadowtree.results import HiddenGroup as HiddenGroup
    from shadowtree.results import ImportSummary as ImportSummary
    from shadowtree.results import LeftGroups as LeftGroups
    from shadowtree.results import MemberOf as MemberOf
    from shadowtree.results import Memberships as Memberships
    from shadowtree.results import NewApiKey as NewApiKey
    from shadowtree.results import Parent as Parent
    from shadowtree.results import Peer as Peer
    from shadowtree.results import PeerFault as PeerFault
    from shadowtree.results import PeerList as PeerList
    from shadowtree.results import PeerState as PeerState
    from shadowtree.results import PolicyEntry as PolicyEntry
    from shadowtree.results import RdRecord as RdRecord
    from shadowtree.results import RecordedChange as RecordedChange
    from shadowtree.results import RecordedUpdate as RecordedUpdate
    from shadowtree.results import Resolution as Resolution
    from shadowtree.results import ServerStatus as ServerStatus
    from shadowtree.results import SkippedLine as SkippedLine
    from shadowtree.results import Spellings as Spellings
    from shadowtree.results import SuspendedArc as SuspendedArc
    from shadowtree.results import UnknownServer as UnknownServer
    from shadowtree.results import VirtualNode as VirtualNode
    from shadowtree.results import WalkStep as WalkStep
    from shadowtree.updates import Arc as Arc
    from shadowtree.updates import Join as Join
    from shadowtree.updates import Leave as Leave
    from shadowtree.updates import Target as Target

_PUBLIC_NAMES = {
    "shadowtree.client.synchronous.client": ("Client",),
    "shadowtree.errors": (
        "AlreadyMember",
        "BacklogFull",
        "BadFile",
        "ClientClosed",
        "DeadlineExceeded",
        "GroupExists",
        "GroupInUse",
        "GroupNotFound",
        "HistoryForgotten",
        "InvalidName",
        "InvalidRequest",
        "LimitExceeded",
        "MailboxNotFound",
        "NameInUse",
        "NotAMember",
        "NotASender",
        "OutOfSequence",
        "OutcomeUnknown",
        "PermissionDenied",
        "ConsentNeeded",
        "RateExceeded",
        "SelfArc",
        "ServerFault",
        "ServerUnreachable",
        "ShadowtreeError",
        "TakenOver",
        "TakesDatagrams",
        "TargetNotFound",
        "Unavailable",
        "UnknownSubnet",
        "WrongKind",
        "CredentialsExpired",
        "CredentialsInvalid",
        "CredentialsNeeded",
        "Unauthenticated",
    ),
    "shadowtree.messages": (
        "DeadLetter",
        "DeadLetters",
        "Delivery",
        "Mailbox",
        "Message",
        "Replayed",
        "Sent",
        "Subscription",
    ),
    "shadowtree.results": (
        "Change",
        "Check",
        "Child",
        "Effect",
        "ExportSummary",
        "GroupDescription",
        "PolicyEntry",
        "GroupPolicy",
        "AdoptedPolicy",
        "GroupList",
        "HiddenGroup",
        "ImportSummary",
        "LeftGroups",
        "MemberOf",
        "Memberships",
        "Parent",
        "Peer",
        "PeerFault",
        "PeerList",
        "PeerState",
        "RdRecord",
        "RecordedChange",
        "RecordedUpdate",
        "Resolution",
        "ServerStatus",
        "SkippedLine",
        "Spellings",
        "SuspendedArc",
        "UnknownServer",
        "VirtualNode",
        "WalkStep",
        "ApiKey",
        "NewApiKey",
    ),
    "shadowtree.updates": ("Arc", "Join", "Leave", "Target"),
}

_HOME = {name: module for module, names in _PUBLIC_NAMES.items() for name in names}

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    if name == "aio":
        return import_module("shadowtree.aio")
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'shadowtree' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME, "aio"])
