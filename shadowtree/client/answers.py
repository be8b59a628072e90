"""Conversion of messages from servers to the values of `shadowtree.results`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, Protocol, TypeVar

from shadowtree import results
from shadowtree.client.answer_limits import AnswerSize
from shadowtree.client.foreign_text import are_printable, cleaned, printable
from shadowtree.errors import ServerFault, Unavailable
from shadowtree.updates import Arc, Target
from shadowtree.v1 import admin_pb2, name_service_pb2, names_pb2
from shadowtree.vocabulary import ArcState, EffectKind, GroupId, MemberId, NodeKind, Revision

_EFFECT_KINDS: Final[dict[int, EffectKind]] = {
    names_pb2.EFFECT_KIND_FORMED: "formed",
    names_pb2.EFFECT_KIND_GROWN: "grown",
    names_pb2.EFFECT_KIND_CHANGED: "changed",
    names_pb2.EFFECT_KIND_BROKEN: "broken",
    names_pb2.EFFECT_KIND_CONTROLLED: "controlled",
    names_pb2.EFFECT_KIND_RELEASED: "released",
}
_ARC_STATES: Final[dict[int, ArcState]] = {
    names_pb2.ARC_STATE_NORMAL: "normal",
    names_pb2.ARC_STATE_SHADOW: "shadow",
    names_pb2.ARC_STATE_FADE: "fade",
    names_pb2.ARC_STATE_SUSPENDED: "suspended",
}
_NODE_KINDS: Final[dict[int, NodeKind]] = {
    names_pb2.CHILD_KIND_GROUP: "group",
    names_pb2.CHILD_KIND_PROCESS: "process",
}
_LAST_INSTANT_MS: Final = 253_402_300_800_000
"""End of the year 9999, in milliseconds since 1970."""
_PHI_DIGITS: Final = 2
_SECONDS_DIGITS: Final = 3
_MILLISECONDS_DIGITS: Final = 3
"""Digits after the decimal point. More digits would suggest a precision that does not exist."""
_ANSWERS: Final[tuple[bool | None, ...]] = (None, True, False, *[None] * 253)
"""Answers by the byte that a server sends. A byte that this client does not know means no answer."""

Answer_co = TypeVar("Answer_co", covariant=True)
Word = TypeVar("Word", bound=str)


class Collector(Protocol[Answer_co]):
    """Accumulator of the messages of a stream, which returns their combined answer at the end."""

    def add(self, message: Any) -> None:
        """Take the next message."""

    def finish(self) -> Answer_co:
        """Return the answer, after the last message."""


def _word(words: dict[int, Word], number: int) -> Word:
    if number not in words:
        raise ServerFault("the server sent a value that this client does not know; it may be of a newer version")
    return words[number]


def read_policy(message: names_pb2.GroupPolicy) -> results.GroupPolicy:
    """Read the policy of a group."""
    return results.GroupPolicy(
        group=message.group,
        preset=message.preset,
        privileges=tuple(results.PolicyEntry(each.privilege, tuple(each.subjects)) for each in message.privileges),
        is_judged=message.is_judged,
    )


def read_adopted(message: name_service_pb2.AdoptPolicyResponse) -> results.AdoptedPolicy:
    """Read the answer to the adoption of a policy."""
    return results.AdoptedPolicy(groups=message.groups, revision=message.change.revision)


def read_change(message: names_pb2.Change) -> results.Change:
    """Read the answer to a write."""
    return results.Change(
        revision=message.revision,
        effects=tuple(
            results.Effect(
                kind=_EFFECT_KINDS[effect.kind],
                groups=tuple(effect.groups),
                servers=tuple(effect.servers),
            )
            for effect in message.effects
            if effect.kind in _EFFECT_KINDS
        ),
        unchanged=tuple(message.unchanged),
    )


class CertainCheck(Protocol):
    """A check that was answered with certainty, alone or with others."""

    @property
    def is_member(self) -> bool:
        """True if the member is in the group."""

    @property
    def pathname(self) -> Sequence[MemberId]:
        """Names from the group to the member, if a path was asked for."""

    @property
    def revision(self) -> Revision:
        """State of the server that the answer reflects."""


class _Draft:
    """A check under construction: the same slots as `results.Check`, but not frozen.

    The constructor of a frozen dataclass takes three times as long as filling a draft and changing its class.
    """

    __slots__ = ("group", "is_member", "member", "pathname", "revision", "unreachable")

    group: GroupId
    member: MemberId
    is_member: bool | None
    pathname: tuple[MemberId, ...]
    unreachable: tuple[GroupId, ...]
    revision: Revision


def read_check(message: CertainCheck, *, group: GroupId, member: MemberId) -> results.Check:
    """Read one check."""
    draft = _Draft()
    draft.group = group
    draft.member = member
    draft.is_member = message.is_member
    draft.pathname = tuple(message.pathname)
    draft.unreachable = ()
    draft.revision = message.revision
    check: Any = draft
    check.__class__ = results.Check
    return check  # type: ignore[no-any-return]


def read_bulk_checks(
    message: name_service_pb2.CheckBulkResponse, groups: tuple[GroupId, ...], members: tuple[MemberId, ...]
) -> Iterator[results.Check]:
    """Yield the checks of the first pairs of a batch, as many as the message answers.

    Each check is made only when its turn comes. A check that the caller drops then costs the garbage collector nothing.
    """
    revision, nothing = printable(message.revision), ()
    unreachable = tuple(sorted(map(printable, message.unreachable)))
    make, check_class = object.__new__, results.Check
    for group, member, answer in zip(groups, members, message.answers, strict=False):
        draft = make(_Draft)
        draft.group = group
        draft.member = member
        draft.is_member = is_member = _ANSWERS[answer]
        draft.pathname = nothing
        draft.unreachable = unreachable if is_member is None else nothing
        draft.revision = revision
        check: Any = draft
        check.__class__ = check_class
        yield check


def read_description(message: name_service_pb2.GroupDescription) -> results.GroupDescription:
    """Read the description of a group."""
    virtual_node = None
    if message.HasField("virtual_node"):
        virtual_node = results.VirtualNode(
            vnid=message.virtual_node.vnid, components=tuple(sorted(message.virtual_node.components))
        )
    return results.GroupDescription(
        group=message.group,
        home=message.home,
        virtual_node=virtual_node,
        parents=tuple(
            sorted(
                (results.Parent(id=arc.id, state=_word(_ARC_STATES, arc.state)) for arc in message.parents),
                key=lambda parent: parent.id,
            )
        ),
        children=tuple(
            sorted(
                (
                    results.Child(id=arc.id, kind=_word(_NODE_KINDS, arc.kind), state=_word(_ARC_STATES, arc.state))
                    for arc in message.children
                ),
                key=lambda child: (child.id, child.kind),
            )
        ),
        rd_records=tuple(
            sorted(
                (
                    results.RdRecord(
                        source=record.source,
                        sink=record.sink,
                        parent=record.parent,
                        child=record.child,
                        ancestors=tuple(sorted(record.ancestors)),
                    )
                    for record in message.rd_records
                ),
                key=lambda record: (record.source, record.sink, record.parent, record.child),
            )
        ),
        pathnames=tuple(sorted(tuple(pathname.nodes) for pathname in message.pathnames)),
        pathnames_truncated=message.pathnames_truncated,
        revision=message.revision,
        rd_records_truncated=message.rd_records_truncated,
        unreachable=tuple(sorted(message.unreachable)),
        **details_in(message.details),
    )


def details_in(message: names_pb2.GroupDetails) -> dict[str, str]:
    """Return the details of a group that this client knows, by field. A text from a server is made printable."""
    return {field.name: printable(text) for field, text in message.ListFields()}


def read_created(message: names_pb2.Change) -> results.Change:
    """Read the answer to the creation of a group with details; raise `ServerFault` if the details were not kept."""
    change = read_change(message)
    if not (message.details_kept or change.unchanged):
        raise ServerFault(f"the group was created, but without its details: {_IS_OLDER}, and set them then")
    return change


def read_searched(page: name_service_pb2.ListGroupsResponse) -> name_service_pb2.ListGroupsResponse:
    """Return a page of groups that were searched; raise `ServerFault` if the server cannot search."""
    if not page.is_searched:
        raise ServerFault(f"the server does not search: {_IS_OLDER}")
    return page


_IS_OLDER: Final = "the server is older than this client; upgrade it"


def read_status(message: admin_pb2.ServerStatus) -> results.ServerStatus:
    """Read the status of a server."""
    return results.ServerStatus(
        server=message.server,
        subnets=tuple(sorted(message.subnets)),
        groups=message.groups,
        processes=message.processes,
        arcs=message.arcs,
        virtual_nodes=message.virtual_nodes,
        tombstones=message.tombstones,
        node_numbers=message.node_numbers,
        free_node_numbers=message.free_node_numbers,
        arcs_suspended=max(message.arcs_suspended, len(message.suspended)),  # Older servers list all suspended arcs.
        mailboxes=message.mailboxes,
        log_entries=message.log_entries,
        log_bytes=message.log_bytes,
        parcels_unsettled=message.parcels_unsettled,
        messages_refused_by_rate=message.messages_refused_by_rate,
        parcels_pending=tuple(
            sorted(
                (results.ParcelsPending(pending.server, pending.parcels) for pending in message.parcels_pending),
                key=lambda pending: pending.server,
            )
        ),
        datagrams_sent=message.datagrams_sent,
        datagrams_handed=message.datagrams_handed,
        datagrams_dropped=message.datagrams_dropped,
        messages_queued=message.messages_queued,
        memory_entries=message.memory_entries,
        memory_bytes=message.memory_bytes,
        memory_parcels_unsettled=message.memory_parcels_unsettled,
        memory_parcels_lost=message.memory_parcels_lost,
        undelivered=tuple(
            results.Undelivered(found.reason, found.messages, found.dead_letters) for found in message.undelivered
        ),
        revision=message.revision,
        database_failure=message.database_failure,
        version=message.version,
        protocol_version=message.protocol_version,
        started=_instant(message.started_ms),
        uptime_seconds=round(message.uptime_seconds, _SECONDS_DIGITS),
        view=tuple(sorted(message.view)),
        in_doubt=tuple(sorted(message.in_doubt)),
        suspended=tuple(
            sorted(
                (
                    results.SuspendedArc(parent=arc.parent, child=arc.child, reason=arc.reason)
                    for arc in message.suspended
                ),
                key=lambda arc: (arc.parent, arc.child),
            )
        ),
        peers=tuple(
            sorted(
                (
                    results.Peer(address=peer.address, subnets=tuple(sorted(peer.subnets)), state=peer.state)
                    for peer in message.peers
                ),
                key=lambda peer: (peer.address, peer.subnets),
            )
        ),
    )


def _instant(milliseconds: int) -> str:
    """Return milliseconds since 1970 as the text of an instant; empty if there is none, or its year has five digits."""
    if not 0 < milliseconds < _LAST_INSTANT_MS:
        return ""
    return f"{datetime.fromtimestamp(milliseconds // 1000, UTC):%Y-%m-%dT%H:%M:%SZ}"


def read_key(message: admin_pb2.ApiKey) -> results.ApiKey:
    """Read an API key."""
    return results.ApiKey(
        id=message.id,
        principal=message.principal,
        created=_instant(message.created_ms),
        expires=_instant(message.expires_ms),
        privileges=tuple(message.privileges),
        networks=tuple(message.networks),
        note=message.note,
        last_used=_instant(message.last_used_ms),
    )


def read_checkpoints(message: admin_pb2.CheckpointList) -> tuple[results.AuditCheckpoint, ...]:
    """Return the checkpoints that a server keeps."""
    return tuple(
        cleaned(
            results.AuditCheckpoint(
                server=each.server,
                sequence=each.sequence,
                hash=each.hash.hex(),
                at=each.at_ms,
                before=each.before,
                key=each.key.hex(),
                signature=each.signature.hex(),
                kept_by=message.server,
            )
        )
        for each in message.checkpoints
    )


def read_peers(message: admin_pb2.PeerList) -> results.PeerList:
    """Read the peers of a server."""
    return results.PeerList(
        peers=tuple(
            sorted(
                (
                    results.PeerState(
                        address=peer.address,
                        subnets=tuple(sorted(peer.subnets)),
                        server=peer.server,
                        state=peer.state,
                        letters_waiting=peer.letters_waiting,
                        faults=_read_faults(peer.faults),
                        life=peer.life,
                        why=peer.why,
                        phi=round(peer.phi, _PHI_DIGITS),
                        last_heard_seconds=(
                            round(peer.last_heard_seconds, _SECONDS_DIGITS)
                            if peer.HasField("last_heard_seconds")
                            else None
                        ),
                        round_trip_ms=(
                            round(peer.round_trip_ms, _MILLISECONDS_DIGITS) if peer.HasField("round_trip_ms") else None
                        ),
                        via=peer.via,
                        relayed=peer.relayed,
                        version=peer.version,
                        protocol_version=peer.protocol_version,
                        called_at=peer.called_at,
                        backlog_bytes=peer.backlog_bytes,
                        stuck_seconds=(
                            round(peer.stuck_seconds, _SECONDS_DIGITS) if peer.HasField("stuck_seconds") else None
                        ),
                    )
                    for peer in message.peers
                ),
                key=lambda peer: (peer.address, peer.subnets),
            )
        ),
        strangers=_read_faults(message.strangers),
        unknown=tuple(
            sorted(
                (
                    results.UnknownServer(each.server, tuple(sorted(each.subnets)), tuple(sorted(each.known_to)))
                    for each in message.unknown
                ),
                key=lambda each: each.server,
            )
        ),
        memberships_ended=message.memberships_ended,
        server=message.server,
        version=message.version,
        protocol_version=message.protocol_version,
    )


def _read_faults(faults: Iterable[admin_pb2.PeerList.Fault]) -> tuple[results.PeerFault, ...]:
    return tuple(sorted((results.PeerFault(fault.kind, fault.count) for fault in faults), key=lambda fault: fault.kind))


def read_import_summary(message: name_service_pb2.ImportSummary) -> results.ImportSummary:
    """Read the summary of an import. The server does not know which lines of the file were left out."""
    return results.ImportSummary(
        arcs=message.arcs,
        groups_created=message.groups_created,
        already_there=message.already_there,
        skipped=(),
        revision=message.revision,
    )


def read_processes(chunk: name_service_pb2.ResolveChunk) -> tuple[MemberId, ...]:
    """Return the members in one message of a resolution."""
    return cleaned(tuple(chunk.processes))


class Unreachable:
    """Names of unreachable groups or servers from the messages of a stream, in their order."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._size = AnswerSize()

    def __bool__(self) -> bool:
        return bool(self._names)

    def add(self, chunk: name_service_pb2.ResolveChunk | name_service_pb2.ExportChunk) -> None:
        """Take the next message. Raises `ServerFault` if there are too many names."""
        if chunk.unreachable:
            self._size.add(chunk, len(chunk.unreachable))
            self._names += cleaned(tuple(chunk.unreachable))

    @property
    def names(self) -> tuple[str, ...]:
        """All unreachable names."""
        return tuple(self._names)


def incomplete_export(unreachable: tuple[str, ...], *, file: str | None = None) -> Unavailable:
    """Return the error for an export without the groups of some servers.

    `file`: the file that was not written for this.
    """
    facts = {"unreachable": "\n".join(unreachable)} | ({} if file is None else {"file": file})
    nothing = "" if file is None else f"nothing was written to {file}: "
    return Unavailable(f"{nothing}the export is incomplete: out of reach: {', '.join(unreachable)}", facts)


def incomplete_resolution(group: GroupId, unreachable: Sequence[str]) -> Unavailable:
    """Return the error for a list of processes that is incomplete. Without `unreachable`, an update is the cause."""
    why = f"out of reach: {', '.join(unreachable)}" if unreachable else "an update was under way all the time"
    return Unavailable(
        f"not everybody in {group} was told: {why}", {"group": group, "unreachable": "\n".join(unreachable)}
    )


class ExportedArcs:
    """Reader of the arcs of an export, message by message. The details of a group come with its first arc."""

    def __init__(self) -> None:
        self._last_parent = ""

    def read(self, message: name_service_pb2.ExportChunk) -> Iterator[Arc]:
        """Yield the arcs of the next message.

        Names must be printable, because each becomes part of a line of a file.
        """
        if not (are_printable(message.parents) and are_printable(message.children)):
            raise ServerFault("the server sent a name that is none")
        details = {each.group: details_in(each.details) for each in message.details}
        details.pop(self._last_parent, None)
        for parent, child, kind in zip(message.parents, message.children, message.kinds, strict=True):
            found = details.pop(parent, None) if details else None
            yield Arc(parent=parent, child=child, kind=_word(_NODE_KINDS, kind), details=found)
        if message.parents:
            self._last_parent = message.parents[-1]


def read_left(member: MemberId, message: name_service_pb2.LeaveEverywhereResponse) -> results.LeftGroups:
    """Read the groups that a member left."""
    change = read_change(message.change)
    return results.LeftGroups(member, tuple(message.left), change.effects, change.revision)


_KNOWS_NO_DIRECT: Final = "the server does not know direct memberships: it is older than this client; upgrade it"


class ResolutionCollector:
    """Collector of a resolution. Chunks come sorted, so members need no individual processing."""

    def __init__(self, group: GroupId, targets: tuple[Target, ...] = (), *, is_direct: bool = False) -> None:
        """`targets`: the targets, if the request was more than one group without exceptions."""
        self._group = group
        self._is_all = is_direct
        """True while the answer may list all members although only direct members were requested."""
        self._targets = targets
        self._process_targets: list[int] = []
        self._group_targets: list[int] = []
        self._why_unreachable: list[str] = []
        self._revision = ""
        self._processes: list[MemberId] = []
        self._groups: list[GroupId] = []
        self._hidden: list[results.HiddenGroup] = []
        self._unreachable: list[GroupId] = []
        self._basis = ""
        self._in_transition = False
        self._walk: list[results.WalkStep] = []
        self._counts: list[results.ServerCount] = []
        self._elsewhere: list[MemberId] = []
        self._size = AnswerSize()

    def add(self, message: name_service_pb2.ResolveChunk) -> None:
        """Take the next part. Raises `ServerFault` if there are too many names."""
        names = (message.processes, message.groups, message.unreachable, message.elsewhere)
        others = (message.why_unreachable, message.counts, message.hidden, message.walk)
        self._size.add(message, sum(map(len, names + others)))
        self._is_all = self._is_all and not message.is_direct
        self._processes += message.processes[:]
        self._groups += message.groups[:]
        self._revision = self._revision or message.revision
        self._basis = self._basis or message.basis
        self._in_transition = self._in_transition or message.in_transition
        self._unreachable += message.unreachable[:]
        self._why_unreachable += message.why_unreachable[:]
        if self._targets:
            self._process_targets += message.process_targets[:]
            self._group_targets += message.group_targets[:]
        self._elsewhere += message.elsewhere[:]
        for each in message.counts:
            self._counts.append(results.ServerCount(each.server, self._target(each.target), each.count))
        for hidden in message.hidden:
            self._hidden.append(results.HiddenGroup(group=hidden.group, count=hidden.count))
        for step in message.walk:
            self._walk.append(
                results.WalkStep(
                    source=getattr(step, "from"),
                    target=step.to,
                    kind=_word(_NODE_KINDS, step.kind),
                    state=_word(_ARC_STATES, step.state),
                )
            )

    def finish(self) -> results.Resolution:
        """Return the resolution; raise `ServerFault` if members of several groups come without their targets.

        Also raises `ServerFault` if the server lists all members although only direct members were requested.
        """
        if self._is_all:
            raise ServerFault(_KNOWS_NO_DIRECT)
        if self._targets:
            self._require_targets(self._processes, self._process_targets)
            self._require_targets(self._groups, self._group_targets)
        return results.Resolution(
            group=self._group,
            processes=tuple(self._processes),
            groups=tuple(self._groups),
            hidden=tuple(sorted(self._hidden, key=lambda hidden: hidden.group)),
            unreachable=tuple(sorted(self._unreachable)),
            in_transition=self._in_transition,
            revision=self._revision,
            walk=tuple(self._walk),
            targets=self._targets,
            process_targets=tuple(self._process_targets),
            group_targets=tuple(self._group_targets),
            why_unreachable=tuple(self._why_unreachable),
            counts=tuple(self._counts),
            elsewhere=tuple(self._elsewhere),
            basis=self._basis,
        )

    def _target(self, place: int) -> GroupId:
        if place >= max(1, len(self._targets)):
            raise ServerFault("the server counted members of groups that were not asked for")
        return self._targets[place].name if self._targets else self._group

    def _require_targets(self, names: Sequence[str], places: Sequence[int]) -> None:
        if len(names) != len(places) or max(places, default=0) >= len(self._targets):
            raise ServerFault("the server sent members of groups that were not asked for")


def read_spellings(message: name_service_pb2.FindSpellingsResponse, names: tuple[MemberId, ...]) -> results.Spellings:
    """Read the spellings of some names."""
    if len(message.found) != len(names):
        raise ServerFault(f"the server told the spellings of {len(message.found)} names, not of {len(names)}")
    return results.Spellings(
        names=names,
        groups=tuple(tuple(each.groups) for each in message.found),
        processes=tuple(tuple(each.processes) for each in message.found),
        unreachable=tuple(message.unreachable),
        revision=message.revision,
    )


class MembershipsCollector:
    """Collector of the groups of a member. Chunks come sorted."""

    def __init__(self, member: MemberId, *, is_direct: bool = False) -> None:
        self._member = member
        self._is_all = is_direct
        """True while the answer may list all groups although only direct ones were requested."""
        self._groups: list[GroupId] = []
        self._unreachable: list[GroupId] = []
        self._revision = ""
        self._size = AnswerSize()

    def add(self, message: name_service_pb2.ListMembershipsChunk) -> None:
        """Take the next part. Raises `ServerFault` if there are too many names."""
        self._size.add(message, len(message.groups) + len(message.unreachable))
        self._is_all = self._is_all and not message.is_direct
        self._groups += message.groups[:]
        self._unreachable += message.unreachable[:]
        self._revision = self._revision or message.revision

    def finish(self) -> results.Memberships:
        """Return the memberships; raise `ServerFault` if the server lists all groups instead of direct ones."""
        if self._is_all:
            raise ServerFault(_KNOWS_NO_DIRECT)
        return results.Memberships(
            member=self._member,
            groups=tuple(self._groups),
            unreachable=tuple(sorted(self._unreachable)),
            revision=self._revision,
        )


class Pages:
    """Collector of the pages of a list of groups."""

    def __init__(self) -> None:
        self._groups: list[GroupId] = []
        self._unreachable: set[str] = set()
        self._size = AnswerSize()

    def add(self, page: name_service_pb2.ListGroupsResponse) -> str:
        """Take a page; return the token of the next page, empty after the last.

        Raises `ServerFault` for too many names.
        """
        self._size.add(page, len(page.groups) + len(page.unreachable))
        self._groups += page.groups[:]
        self._unreachable.update(page.unreachable)
        return page.next_page_token

    def finish(self) -> results.GroupList:
        """Return the list."""
        return results.GroupList(groups=tuple(self._groups), unreachable=tuple(sorted(self._unreachable)))
