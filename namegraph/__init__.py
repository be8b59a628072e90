"""The pure core of the name server: the name graph and the protocol that keeps it right. No I/O and no clock.

Other packages may use only the names listed here, and import them from here, never from a room. A name is loaded
when it is first used, so a user of the rules for names loads nothing else.

    core, queries    one server: its steps, and the questions that may be asked between two steps
    committed_state  the same questions while a long step is under way, of the state before it
    events           input and output of a step
    views/           the agreement of all servers on which servers are present
    reconcile/       after a partition, both ends of every arc come to one state again
    snapshot/        reading a server's whole state while it runs
    verify/          rules for messages of other servers
    update/          one update: admitted, ordered, prepared, decided, committed
    replication/     ancestry, as records that servers exchange
    state/           state of one server beside its graph
    graph/           the name graph, and everything that is derived from it alone
    wire/            messages between servers, and their bytes
    rights/          who may do what: policies, presets, and the judgement
    model/           names, owners, details of groups, priorities, rows, operations, outcomes, refusals

Each room imports only rooms below it (`pyproject.toml`, import-linter).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from namegraph.committed_state import CommittedState as CommittedState
    from namegraph.core import ServerCore as ServerCore
    from namegraph.events import POST_BYTES_LIMIT as POST_BYTES_LIMIT
    from namegraph.events import AddPeer as AddPeer
    from namegraph.events import AuditEntry as AuditEntry
    from namegraph.events import CheckpointCame as CheckpointCame
    from namegraph.events import Command as Command
    from namegraph.events import ConfigurePeer as ConfigurePeer
    from namegraph.events import CutCommand as CutCommand
    from namegraph.events import Effects as Effects
    from namegraph.events import Event as Event
    from namegraph.events import ImportCommand as ImportCommand
    from namegraph.events import KeepAccess as KeepAccess
    from namegraph.events import KeepCheckpoint as KeepCheckpoint
    from namegraph.events import Lane as Lane
    from namegraph.events import NoteEvents as NoteEvents
    from namegraph.events import PeerLeaving as PeerLeaving
    from namegraph.events import PeerLetter as PeerLetter
    from namegraph.events import PeerLost as PeerLost
    from namegraph.events import PeerMessage as PeerMessage
    from namegraph.events import PeerMet as PeerMet
    from namegraph.events import PeerPosts as PeerPosts
    from namegraph.events import PeerReceived as PeerReceived
    from namegraph.events import PeerRestored as PeerRestored
    from namegraph.events import ReadCommand as ReadCommand
    from namegraph.events import RemovePeer as RemovePeer
    from namegraph.events import Restored as Restored
    from namegraph.events import RetirePeer as RetirePeer
    from namegraph.events import SetDetails as SetDetails
    from namegraph.events import Tick as Tick
    from namegraph.events import UpdateCommand as UpdateCommand
    from namegraph.graph.ancestor_sets import AncestorSets as AncestorSets
    from namegraph.graph.ancestor_sets import ancestor_groups as ancestor_groups
    from namegraph.graph.duplication_control import arc_order as arc_order
    from namegraph.graph.duplication_control import blocked_originators as blocked_originators
    from namegraph.graph.duplication_control import sources as sources
    from namegraph.graph.name_graph import ArcState as ArcState
    from namegraph.graph.name_graph import NameGraph as NameGraph
    from namegraph.graph.name_graph import VirtualNode as VirtualNode
    from namegraph.graph.pathnames import pathnames as pathnames
    from namegraph.graph.pathnames import prove as prove
    from namegraph.model.audit_chain import ALLOWED as ALLOWED
    from namegraph.model.audit_chain import CHAIN_BEGINNING as CHAIN_BEGINNING
    from namegraph.model.audit_chain import REFUSED as REFUSED
    from namegraph.model.audit_chain import UPDATE as UPDATE
    from namegraph.model.audit_chain import Checkpoint as Checkpoint
    from namegraph.model.audit_chain import Fact as Fact
    from namegraph.model.audit_chain import canonical_bytes as canonical_bytes
    from namegraph.model.audit_chain import chained as chained
    from namegraph.model.audit_chain import decode_facts as decode_facts
    from namegraph.model.audit_chain import encode_facts as encode_facts
    from namegraph.model.changes import NO_ORIGIN as NO_ORIGIN
    from namegraph.model.changes import ChangeKind as ChangeKind
    from namegraph.model.changes import ChangeSet as ChangeSet
    from namegraph.model.changes import Origin as Origin
    from namegraph.model.changes import RecordedChange as RecordedChange
    from namegraph.model.changes import decode_changes as decode_changes
    from namegraph.model.group_details import DETAIL_LIMITS as DETAIL_LIMITS
    from namegraph.model.group_details import NO_DETAILS as NO_DETAILS
    from namegraph.model.group_details import SEARCH_LIMIT as SEARCH_LIMIT
    from namegraph.model.group_details import DetailSearch as DetailSearch
    from namegraph.model.group_details import GroupDetails as GroupDetails
    from namegraph.model.group_details import InvalidDetailError as InvalidDetailError
    from namegraph.model.group_details import checked_details as checked_details
    from namegraph.model.group_details import checked_text as checked_text
    from namegraph.model.names import InvalidNameError as InvalidNameError
    from namegraph.model.names import NodeId as NodeId
    from namegraph.model.names import ServerId as ServerId
    from namegraph.model.names import Subnet as Subnet
    from namegraph.model.names import are_canonical as are_canonical
    from namegraph.model.names import fold_name as fold_name
    from namegraph.model.names import parse_name as parse_name
    from namegraph.model.names import parse_subnet as parse_subnet
    from namegraph.model.names import subnet_of as subnet_of
    from namegraph.model.operations import ChildKind as ChildKind
    from namegraph.model.operations import Composite as Composite
    from namegraph.model.operations import CreateGroup as CreateGroup
    from namegraph.model.operations import DeleteGroup as DeleteGroup
    from namegraph.model.operations import JoinArc as JoinArc
    from namegraph.model.operations import LeaveArc as LeaveArc
    from namegraph.model.operations import LeaveEverywhere as LeaveEverywhere
    from namegraph.model.operations import Operation as Operation
    from namegraph.model.operations import RenameGroups as RenameGroups
    from namegraph.model.operations import SetPolicy as SetPolicy
    from namegraph.model.operations import TakeOver as TakeOver
    from namegraph.model.outcomes import Committed as Committed
    from namegraph.model.outcomes import EffectKind as EffectKind
    from namegraph.model.outcomes import Outcome as Outcome
    from namegraph.model.peer_faults import PeerFault as PeerFault
    from namegraph.model.policies import People as People
    from namegraph.model.policies import Policy as Policy
    from namegraph.model.policies import Preset as Preset
    from namegraph.model.policies import Principal as Principal
    from namegraph.model.policies import Privilege as Privilege
    from namegraph.model.policies import ServerPolicy as ServerPolicy
    from namegraph.model.policies import Subject as Subject
    from namegraph.model.policies import SubnetPrivilege as SubnetPrivilege
    from namegraph.model.priorities import Priority as Priority
    from namegraph.model.priorities import Revision as Revision
    from namegraph.model.priorities import parse_revision as parse_revision
    from namegraph.model.protocol_versions import MUTUAL_TLS_VERSION as MUTUAL_TLS_VERSION
    from namegraph.model.protocol_versions import OLDEST_PROTOCOL_VERSION as OLDEST_PROTOCOL_VERSION
    from namegraph.model.protocol_versions import PLAIN_TEXT_VERSION as PLAIN_TEXT_VERSION
    from namegraph.model.protocol_versions import POSTS_VERSION as POSTS_VERSION
    from namegraph.model.protocol_versions import PROTOCOL_VERSION as PROTOCOL_VERSION
    from namegraph.model.protocol_versions import RIGHTS_VERSION as RIGHTS_VERSION
    from namegraph.model.protocol_versions import SETS_VERSION as SETS_VERSION
    from namegraph.model.protocol_versions import agreed_version as agreed_version
    from namegraph.model.refusals import Reason as Reason
    from namegraph.model.refusals import Refusal as Refusal
    from namegraph.model.refusals import RefusedError as RefusedError
    from namegraph.model.refusals import refuse as refuse
    from namegraph.model.rows import ArcRecord as ArcRecord
    from namegraph.model.rows import ChangeRecord as ChangeRecord
    from namegraph.model.rows import LogRecord as LogRecord
    from namegraph.model.rows import NodeIndex as NodeIndex
    from namegraph.model.rows import NodeKind as NodeKind
    from namegraph.model.rows import NodeRecord as NodeRecord
    from namegraph.model.rows import OutcomeRecord as OutcomeRecord
    from namegraph.model.rows import ProtocolRow as ProtocolRow
    from namegraph.model.rows import Records as Records
    from namegraph.model.rows import RequestId as RequestId
    from namegraph.model.rows import StoredState as StoredState
    from namegraph.model.rows import VirtualNodeRecord as VirtualNodeRecord
    from namegraph.model.slices import SLICE_ITEMS as SLICE_ITEMS
    from namegraph.model.slices import Slices as Slices
    from namegraph.model.slices import at_once as at_once
    from namegraph.model.slices import in_slices as in_slices
    from namegraph.model.slices import sorted_in_slices as sorted_in_slices
    from namegraph.model.slices import unless_overtaken as unless_overtaken
    from namegraph.model.target_sets import Target as Target
    from namegraph.model.target_sets import TargetSet as TargetSet
    from namegraph.model.target_sets import exceptions_in as exceptions_in
    from namegraph.model.target_sets import is_plain as is_plain
    from namegraph.model.target_sets import named_in as named_in
    from namegraph.model.target_sets import only as only
    from namegraph.model.undecodable import UNDECODABLE as UNDECODABLE
    from namegraph.queries import CoreQueries as CoreQueries
    from namegraph.replication.ancestry_store import AncestryStore as AncestryStore
    from namegraph.rights.callers import CallerFacts as CallerFacts
    from namegraph.rights.judge import Ruling as Ruling
    from namegraph.rights.judge import judge as judge
    from namegraph.rights.judge import judge_parent as judge_parent
    from namegraph.rights.judge import judge_subnet as judge_subnet
    from namegraph.rights.presets import changed_policy as changed_policy
    from namegraph.rights.presets import parse_preset as parse_preset
    from namegraph.rights.presets import parse_privilege as parse_privilege
    from namegraph.rights.presets import preset_policy as preset_policy
    from namegraph.rights.presets import require_admin as require_admin
    from namegraph.rights.principals import ANONYMOUS as ANONYMOUS
    from namegraph.rights.principals import OPERATOR as OPERATOR
    from namegraph.rights.principals import InvalidPrincipalError as InvalidPrincipalError
    from namegraph.rights.principals import guest_of as guest_of
    from namegraph.rights.principals import is_identified as is_identified
    from namegraph.rights.principals import is_principal as is_principal
    from namegraph.rights.principals import parse_principal as parse_principal
    from namegraph.rights.principals import subnet_of_principal as subnet_of_principal
    from namegraph.rights.server_policies import parse_server_policy as parse_server_policy
    from namegraph.rights.subjects import InvalidPolicyError as InvalidPolicyError
    from namegraph.rights.subjects import is_companion as is_companion
    from namegraph.snapshot.reader import AncestorSetRow as AncestorSetRow
    from namegraph.snapshot.reader import ArcRow as ArcRow
    from namegraph.snapshot.reader import Closing as Closing
    from namegraph.snapshot.reader import DetailsRow as DetailsRow
    from namegraph.snapshot.reader import NodeRow as NodeRow
    from namegraph.snapshot.reader import Piece as Piece
    from namegraph.snapshot.reader import PolicyRow as PolicyRow
    from namegraph.snapshot.reader import SnapshotReading as SnapshotReading
    from namegraph.snapshot.reader import UpdateRow as UpdateRow
    from namegraph.snapshot.reader import VirtualNodeRow as VirtualNodeRow
    from namegraph.state.change_log import AUDIT_DAYS as AUDIT_DAYS
    from namegraph.state.change_log import CHANGES_BYTES_KEPT as CHANGES_BYTES_KEPT
    from namegraph.state.change_log import CHANGES_KEPT as CHANGES_KEPT
    from namegraph.state.change_log import FORGET_EVERY as FORGET_EVERY
    from namegraph.state.change_log import ROW_BYTES as ROW_BYTES
    from namegraph.state.change_log import ChangeLog as ChangeLog
    from namegraph.state.change_log import change_sizes as change_sizes
    from namegraph.state.context import ServerContext as ServerContext
    from namegraph.state.durable_maps import BYTES as BYTES
    from namegraph.state.durable_maps import DIGITS as DIGITS
    from namegraph.state.durable_maps import NODES as NODES
    from namegraph.state.durable_maps import NUMBERS as NUMBERS
    from namegraph.state.durable_maps import TEXTS as TEXTS
    from namegraph.state.durable_maps import DurableMap as DurableMap
    from namegraph.state.durable_maps import DurableState as DurableState
    from namegraph.state.durable_maps import KeyForm as KeyForm
    from namegraph.state.durable_maps import VolatileState as VolatileState
    from namegraph.state.durable_maps import packed as packed
    from namegraph.state.given_up import GivenUp as GivenUp
    from namegraph.state.incarnations import GREATEST_LEAP as GREATEST_LEAP
    from namegraph.state.incarnations import LEAST_LEAP as LEAST_LEAP
    from namegraph.state.incarnations import Incarnations as Incarnations
    from namegraph.state.peer_table import OWNER as OWNER
    from namegraph.state.recovery import InconsistentStateError as InconsistentStateError
    from namegraph.state.reliable_channels import Channels as Channels
    from namegraph.state.uncertainty import Uncertainty as Uncertainty
    from namegraph.update.admission import group_not_found as group_not_found
    from namegraph.update.caller_rights import CallerRights as CallerRights
    from namegraph.update.causal_reads import Wait as Wait
    from namegraph.wire.message_parts import ArcId as ArcId
    from namegraph.wire.message_parts import UpdateId as UpdateId
    from namegraph.wire.update_messages import OrderFor as OrderFor

_PUBLIC_NAMES = {
    # One server's core, and the questions that may be asked between two steps.
    "namegraph.committed_state": ("CommittedState",),
    "namegraph.core": ("ServerCore",),
    "namegraph.queries": ("CoreQueries",),
    "namegraph.update.causal_reads": ("Wait",),
    # Input and output of a step.
    "namegraph.events": (
        "AddPeer",
        "AuditEntry",
        "CheckpointCame",
        "KeepAccess",
        "KeepCheckpoint",
        "NoteEvents",
        "Command",
        "ConfigurePeer",
        "CutCommand",
        "Effects",
        "Event",
        "ImportCommand",
        "Lane",
        "POST_BYTES_LIMIT",
        "PeerLeaving",
        "PeerLetter",
        "PeerLost",
        "PeerMessage",
        "PeerMet",
        "PeerPosts",
        "PeerReceived",
        "PeerRestored",
        "ReadCommand",
        "RemovePeer",
        "Restored",
        "RetirePeer",
        "SetDetails",
        "Tick",
        "UpdateCommand",
    ),
    "namegraph.model.protocol_versions": (
        "MUTUAL_TLS_VERSION",
        "OLDEST_PROTOCOL_VERSION",
        "PLAIN_TEXT_VERSION",
        "POSTS_VERSION",
        "PROTOCOL_VERSION",
        "RIGHTS_VERSION",
        "SETS_VERSION",
        "agreed_version",
    ),
    "namegraph.model.operations": (
        "ChildKind",
        "Composite",
        "CreateGroup",
        "DeleteGroup",
        "JoinArc",
        "LeaveArc",
        "LeaveEverywhere",
        "Operation",
        "RenameGroups",
        "SetPolicy",
        "TakeOver",
    ),
    "namegraph.model.outcomes": (
        "Committed",
        "EffectKind",
        "Outcome",
    ),
    "namegraph.model.refusals": (
        "Reason",
        "Refusal",
        "RefusedError",
        "refuse",
    ),
    "namegraph.update.admission": ("group_not_found",),
    # Details of groups.
    "namegraph.model.group_details": (
        "DETAIL_LIMITS",
        "DetailSearch",
        "GroupDetails",
        "InvalidDetailError",
        "NO_DETAILS",
        "SEARCH_LIMIT",
        "checked_details",
        "checked_text",
    ),
    # Names, and places in the order of updates.
    "namegraph.model.names": (
        "InvalidNameError",
        "NodeId",
        "ServerId",
        "Subnet",
        "are_canonical",
        "fold_name",
        "parse_name",
        "parse_subnet",
        "subnet_of",
    ),
    "namegraph.model.priorities": (
        "Priority",
        "Revision",
        "parse_revision",
    ),
    "namegraph.wire.message_parts": (
        "ArcId",
        "UpdateId",
    ),
    "namegraph.model.undecodable": ("UNDECODABLE",),
    # The graph, and everything that is derived from it.
    "namegraph.graph.name_graph": (
        "ArcState",
        "NameGraph",
        "VirtualNode",
    ),
    "namegraph.graph.ancestor_sets": (
        "AncestorSets",
        "ancestor_groups",
    ),
    "namegraph.graph.pathnames": (
        "pathnames",
        "prove",
    ),
    "namegraph.graph.duplication_control": (
        "arc_order",
        "blocked_originators",
        "sources",
    ),
    "namegraph.replication.ancestry_store": ("AncestryStore",),
    # Durable rows, and the state that is restored from them.
    "namegraph.model.rows": (
        "ArcRecord",
        "ChangeRecord",
        "LogRecord",
        "NodeIndex",
        "NodeKind",
        "NodeRecord",
        "OutcomeRecord",
        "ProtocolRow",
        "Records",
        "RequestId",
        "StoredState",
        "VirtualNodeRecord",
    ),
    "namegraph.model.slices": ("SLICE_ITEMS", "Slices", "at_once", "in_slices", "sorted_in_slices", "unless_overtaken"),
    "namegraph.model.target_sets": (
        "Target",
        "TargetSet",
        "exceptions_in",
        "is_plain",
        "named_in",
        "only",
    ),
    "namegraph.model.audit_chain": (
        "ALLOWED",
        "CHAIN_BEGINNING",
        "REFUSED",
        "UPDATE",
        "Checkpoint",
        "Fact",
        "canonical_bytes",
        "chained",
        "decode_facts",
        "encode_facts",
    ),
    "namegraph.model.changes": (
        "NO_ORIGIN",
        "ChangeKind",
        "ChangeSet",
        "Origin",
        "RecordedChange",
        "decode_changes",
    ),
    "namegraph.state.context": ("ServerContext",),
    "namegraph.state.durable_maps": (
        "BYTES",
        "DIGITS",
        "DurableMap",
        "DurableState",
        "VolatileState",
        "KeyForm",
        "NODES",
        "NUMBERS",
        "TEXTS",
        "packed",
    ),
    "namegraph.state.change_log": (
        "AUDIT_DAYS",
        "CHANGES_BYTES_KEPT",
        "CHANGES_KEPT",
        "FORGET_EVERY",
        "ROW_BYTES",
        "ChangeLog",
        "change_sizes",
    ),
    "namegraph.state.recovery": ("InconsistentStateError",),
    "namegraph.state.reliable_channels": ("Channels",),
    "namegraph.state.given_up": ("GivenUp",),
    "namegraph.state.incarnations": (
        "GREATEST_LEAP",
        "Incarnations",
        "LEAST_LEAP",
    ),
    "namegraph.state.peer_table": ("OWNER",),
    # Reading of a core's whole state while it steps.
    "namegraph.snapshot.reader": (
        "AncestorSetRow",
        "ArcRow",
        "Closing",
        "DetailsRow",
        "NodeRow",
        "Piece",
        "PolicyRow",
        "SnapshotReading",
        "UpdateRow",
        "VirtualNodeRow",
    ),
    # Rights.
    "namegraph.model.policies": (
        "People",
        "Policy",
        "Preset",
        "Principal",
        "Privilege",
        "ServerPolicy",
        "Subject",
        "SubnetPrivilege",
    ),
    "namegraph.rights.judge": (
        "Ruling",
        "judge",
        "judge_parent",
        "judge_subnet",
    ),
    "namegraph.rights.presets": (
        "changed_policy",
        "parse_preset",
        "parse_privilege",
        "preset_policy",
        "require_admin",
    ),
    "namegraph.rights.principals": (
        "ANONYMOUS",
        "InvalidPrincipalError",
        "OPERATOR",
        "guest_of",
        "is_identified",
        "is_principal",
        "parse_principal",
        "subnet_of_principal",
    ),
    "namegraph.rights.server_policies": ("parse_server_policy",),
    "namegraph.rights.subjects": (
        "InvalidPolicyError",
        "is_companion",
    ),
    "namegraph.rights.callers": ("CallerFacts",),
    "namegraph.update.caller_rights": ("CallerRights",),
    "namegraph.wire.update_messages": ("OrderFor",),
    # Remaining names.
    "namegraph.model.peer_faults": ("PeerFault",),
    "namegraph.state.uncertainty": ("Uncertainty",),
}

_HOME = {name: module for module, names in _PUBLIC_NAMES.items() for name in names}


def __getattr__(name: str) -> object:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'namegraph' has no attribute {name!r}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
