"""The AdminService: calls of operators."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeAlias

from delivery.server import Server
from namegraph import (
    PROTOCOL_VERSION,
    AddPeer,
    CoreQueries,
    Origin,
    Reason,
    RefusedError,
    RemovePeer,
    RetirePeer,
    Subnet,
    is_identified,
    refuse,
)
from nameserver.access.caller import current_caller
from nameserver.access.operators import Operators
from nameserver.access.origins import origin_of
from nameserver.calls.adapters import Context, Handler, deadline_of, stream_call, unary_call
from nameserver.calls.key_calls import KeyCalls
from nameserver.calls.stable_listing import made
from nameserver.calls.who_asks import who_asks
from nameserver.config.addresses import InvalidAddressError, parse_address
from nameserver.config.settings import RESTART_GRACE_SECONDS_LIMIT
from nameserver.driver.planned_end import PlannedEnd
from nameserver.driver.run_loop import RunLoop
from nameserver.reads.audit_logs import AuditLogCalls
from nameserver.reads.counting import counted
from nameserver.snapshots.live_snapshot import STALLED_SECONDS, SnapshotCalls
from nameserver.transport.added_peers import AddedPeers
from nameserver.transport.peer_link import CONNECTED, CONNECTING
from nameserver.transport.peer_report import PeerReport
from nameserver.transport.peer_transport import PeerTransport
from nameserver.wire import conversion
from resolver.census import Census
from shadowtree.v1 import admin_pb2 as messages

_Method: TypeAlias = Callable[[Any, Context], Awaitable[Any]]

SUSPENDED_LISTED = 1_000
"""Most suspended arcs that are listed. While a server is away, there may be a million."""

ADMIN_SERVICE: str = messages.DESCRIPTOR.services_by_name["AdminService"].full_name


class Say(Protocol):
    """Writer of a line of the log."""

    def __call__(self, level: int, event: str, message: str, **fields: object) -> None:
        """Write a line. `event` names its kind for programs, `message` is for people, `fields` hold the facts."""


class AdminCalls:
    """Servicer of operators' calls for one server."""

    def __init__(
        self,
        *,
        core: Server,
        reads: CoreQueries,
        census: Census,
        transport: PeerTransport,
        run_loop: RunLoop,
        planned_end: PlannedEnd,
        operators: Operators,
        say: Say,
    ) -> None:
        """`operators`: callers that are told everything. `say` writes a line of the log."""
        self._say = say
        self._operators = operators
        self._planned_end = planned_end
        self._core = core
        self._reads = reads
        self._census = census
        self._transport = transport
        self._added_peers = AddedPeers(transport, transport.trust)
        self._run_loop = run_loop
        self._started_ms, self._started = round(1e3 * time.time()), time.monotonic()

    async def get_status(self, request: messages.GetStatusRequest, context: Context) -> messages.ServerStatus:
        """Return the identity of this server, its counts, its peers, and the failure of the database, if any.

        A caller that does not operate a server that judges its callers is told the public part.
        """
        del request, context
        if not self._tells_all():
            return self._public_status()
        counts = await counted(self._census)
        with self._reads.kept() as state:
            suspended = await made(state.list_suspended(limit=SUSPENDED_LISTED))
        pending = await made(self._core.delivery.origin.messages.pending())
        core, delivery = self._reads, self._core.delivery
        in_memory = delivery.in_memory.counts
        return messages.ServerStatus(
            server=core.server,
            subnets=core.subnets,
            groups=counts.groups,
            processes=counts.processes,
            arcs=counts.arcs,
            virtual_nodes=counts.virtual_nodes,
            tombstones=len(core.graph.tombstones),
            node_numbers=len(core.graph.ids),
            free_node_numbers=core.graph.free_count,
            mailboxes=len(delivery.mailboxes),
            log_entries=delivery.log.last - delivery.log.cut - delivery.log.gone,
            log_bytes=delivery.log.size,
            parcels_unsettled=len(delivery.origin.parcels),
            parcels_pending=[
                messages.ServerStatus.ParcelsPending(server=server, parcels=parcels)
                for server, parcels in pending.items()
            ],
            messages_refused_by_rate=delivery.rates.refused,
            datagrams_sent=self._run_loop.datagrams.sent,
            datagrams_handed=self._run_loop.datagrams.handed,
            datagrams_dropped=self._run_loop.datagrams.dropped,
            undelivered=[
                messages.ServerStatus.Undelivered(
                    reason=found.reason, messages=found.messages, dead_letters=found.dead_letters
                )
                for found in delivery.dead_letters.undelivered()
                if found.messages
            ],
            messages_queued=len(delivery.queue),
            memory_entries=in_memory.entries,
            memory_bytes=in_memory.bytes,
            memory_parcels_unsettled=in_memory.parcels_unsettled,
            memory_parcels_lost=in_memory.parcels_lost,
            version=self._transport.release,
            protocol_version=PROTOCOL_VERSION,
            started_ms=self._started_ms,
            uptime_seconds=time.monotonic() - self._started,
            revision=core.revision,
            database_failure=self._run_loop.storage_failure or "",
            in_doubt=[f"{update.number}@{update.coordinator}" for update in core.in_doubt],
            suspended=[
                messages.ServerStatus.SuspendedArc(parent=arc.parent, child=arc.child, reason=reason)
                for arc, reason in suspended.listed
            ],
            arcs_suspended=suspended.total,
            view=core.members,
            peers=[
                messages.ServerStatus.Peer(address=report.address, subnets=report.subnets, state=self._state_of(report))
                for report in self._transport.reports()
            ],
        )

    def _tells_all(self) -> bool:
        """Return True if the caller may see counts, addresses, and names of suspended arcs."""
        return self._reads.server_policy is None or self._operators.includes(current_caller())

    def _public_status(self) -> messages.ServerStatus:
        """Return who this server is and if it works. An identified caller is told the subnets of peers, too."""
        return messages.ServerStatus(
            server=self._reads.server,
            subnets=self._reads.subnets,
            version=self._transport.release,
            protocol_version=PROTOCOL_VERSION,
            database_failure="the database cannot be written" if self._run_loop.storage_failure else "",
            peers=[messages.ServerStatus.Peer(subnets=report.subnets) for report in self._reports_for_all()],
        )

    def _reports_for_all(self) -> list[PeerReport]:
        """Return the peers whose names and subnets the caller is told, if it may see no more."""
        return self._transport.reports() if is_identified(current_caller().principal) else []

    def _state_of(self, report: PeerReport) -> str:
        """Return the state of a peer, which counts as connected once readers see that it was met."""
        is_early = report.server in self._core.servers_met and report.server not in self._reads.servers_met
        return CONNECTING if is_early and report.state.startswith(CONNECTED) else report.state

    async def list_peers(self, request: messages.ListPeersRequest, context: Context) -> messages.PeerList:
        """Return all other servers of the table, and the state of their connections, also while the database fails."""
        del request, context
        with suppress(RefusedError):
            await self._run_loop.until_durable()
        if not self._tells_all():
            peers = self._reports_for_all()
            return messages.PeerList(
                peers=[messages.PeerList.Peer(subnets=report.subnets, server=report.server) for report in peers],
                server=self._core.server,
                protocol_version=PROTOCOL_VERSION,
            )
        return self._peer_list()

    async def add_peer(self, request: messages.AddPeerRequest, context: Context) -> messages.PeerList:
        """Add the address of the server of a subnet to the table."""
        del context
        subnet = _subnet(request.subnet)
        try:
            address = parse_address(request.address, lowest_port=1)
        except InvalidAddressError as error:
            raise refuse(Reason.INVALID_REQUEST, str(error), field="address", address=request.address) from None
        await self._added_peers.require_owner(subnet, address, request.trust)
        before = self._core.peer_addresses.get(subnet)
        await self._run_loop.carry_out(
            AddPeer(self._run_loop.new_ticket(), subnet, address, self._origin(), request.trust)
        )
        message = f"the server of {subnet} is looked for at {address}" + (f", not at {before}" if before else "")
        self._say(logging.INFO, "peer_added", message, subnet=subnet, address=address, **who_asks(current_caller()))
        self._transport.refresh()
        return self._peer_list()

    def _origin(self) -> Origin:
        return origin_of(server=self._core.server)

    async def remove_peer(self, request: messages.RemovePeerRequest, context: Context) -> messages.PeerList:
        """Take a subnet out of the table. With `force`, end all memberships between it and this server first."""
        subnet = _subnet(request.subnet)
        ended = await self._end_memberships(subnet, deadline_of(context, self._run_loop)) if request.force else 0
        try:
            await self._run_loop.carry_out(RemovePeer(self._run_loop.new_ticket(), subnet, self._origin()))
        except RefusedError as error:
            refusal = error.refusal
            done = f"{ended} memberships were ended, and the subnet stays in the table: " if request.force else ""
            raise refuse(refusal.reason, f"{done}{refusal.message}", **refusal.facts) from None
        message = f"{subnet} is out of the table of peers"
        facts = {"memberships_ended": ended} if request.force else {}
        self._say(logging.INFO, "peer_removed", message, subnet=subnet, **facts, **who_asks(current_caller()))
        self._transport.refresh()
        answer = self._peer_list()
        answer.memberships_ended = ended
        return answer

    async def _end_memberships(self, subnet: Subnet, deadline: float | None) -> int:
        """End all memberships between a server that is gone for good and this one. Return their number."""
        ended = 0
        while True:
            before = await self._count_suspended(subnet)
            await self._run_loop.carry_out(RetirePeer(self._run_loop.new_ticket(), subnet, deadline))
            now_ended = before - await self._count_suspended(subnet)
            if now_ended <= 0:
                return ended
            ended += now_ended

    async def _count_suspended(self, subnet: Subnet) -> int:
        with self._reads.kept() as state:
            return len(await made(state.suspended_with_subnet(subnet)))

    async def drain(self, request: messages.DrainRequest, context: Context) -> messages.DrainResponse:
        """End this server as planned. Answers when the work under way is finished."""
        del context
        planned_end, key = self._planned_end, "restart_grace_seconds"
        if request.HasField("restart_grace_seconds"):
            seconds = request.restart_grace_seconds
            if not 0 <= seconds <= RESTART_GRACE_SECONDS_LIMIT:
                raise refuse(
                    Reason.INVALID_REQUEST,
                    f"{seconds:g} is not between 0 and {RESTART_GRACE_SECONDS_LIMIT:g} seconds; nothing was done",
                    field=key,
                )
            planned_end.restart_grace_seconds = seconds
        planned_end.begin(**who_asks(current_caller()))
        return messages.DrainResponse(is_finished=await planned_end.until_finished())

    def _peer_list(self) -> messages.PeerList:
        return messages.PeerList(
            peers=[
                messages.PeerList.Peer(
                    address=report.address,
                    subnets=report.subnets,
                    server=report.server,
                    state=report.state,
                    letters_waiting=report.letters_waiting,
                    faults=_faults(report.faults),
                    life=report.life.value,
                    why=report.why,
                    phi=report.phi,
                    last_heard_seconds=report.last_heard_seconds,
                    round_trip_ms=None if report.round_trip_seconds is None else 1e3 * report.round_trip_seconds,
                    via=report.via,
                    relayed=report.relayed,
                    version=report.release,
                    protocol_version=report.protocol_version,
                    called_at=report.called_at,
                    backlog_bytes=report.backlog_bytes,
                    stuck_seconds=report.stuck_seconds,
                )
                for report in self._transport.reports()
            ],
            server=self._core.server,
            version=self._transport.release,
            protocol_version=PROTOCOL_VERSION,
            strangers=_faults(self._transport.strangers_refused()),
            unknown=[
                messages.PeerList.Unknown(server=unknown.server, subnets=unknown.subnets, known_to=unknown.known_to)
                for unknown in self._transport.unknown_here()
            ],
        )


def admin_service_handlers(
    *,
    core: Server,
    reads: CoreQueries,
    census: Census,
    transport: PeerTransport,
    run_loop: RunLoop,
    planned_end: PlannedEnd,
    say: Say,
    operators: Operators,
    keys: KeyCalls,
) -> dict[str, Handler]:
    """Return the handler of each method, by its name. `reads` is the core as its readers see it."""
    admin = AdminCalls(
        core=core,
        reads=reads,
        census=census,
        transport=transport,
        run_loop=run_loop,
        planned_end=planned_end,
        operators=operators,
        say=say,
    )
    snapshots = SnapshotCalls(core=core, reads=reads, run_loop=run_loop)
    audit_log = AuditLogCalls(server=core.server, checkpoints=core.checkpoints, run_loop=run_loop)

    def guarded(method: _Method) -> _Method:
        async def call(request: Any, context: Context) -> Any:
            operators.require(current_caller())
            return await method(request, context)

        return call

    return {
        "GetStatus": unary_call(admin.get_status, messages.GetStatusRequest),
        "ListPeers": unary_call(admin.list_peers, messages.ListPeersRequest),
        "AddPeer": unary_call(guarded(admin.add_peer), messages.AddPeerRequest),
        "RemovePeer": unary_call(guarded(admin.remove_peer), messages.RemovePeerRequest),
        "Drain": unary_call(guarded(admin.drain), messages.DrainRequest),
        "CreateKey": unary_call(guarded(keys.create_key), messages.CreateKeyRequest),
        "ListKeys": unary_call(guarded(keys.list_keys), messages.ListKeysRequest),
        "RevokeKey": unary_call(guarded(keys.revoke_key), messages.RevokeKeyRequest),
        "MakeCut": unary_call(guarded(snapshots.make_cut), messages.MakeCutRequest),
        "ExportSnapshot": stream_call(
            guarded(snapshots.export), messages.ExportSnapshotRequest, stalled_seconds=STALLED_SECONDS
        ),
        "ExportAuditLog": stream_call(guarded(audit_log.export), messages.ExportAuditLogRequest),
        "ListCheckpoints": unary_call(audit_log.list_checkpoints, messages.ListCheckpointsRequest),
    }


def _subnet(text: str) -> Subnet:
    subnet = conversion.read_subnet(text)
    if subnet is None:
        raise refuse(Reason.INVALID_REQUEST, "no subnet was named", field="subnet")
    return subnet


def _faults(counts: Mapping[str, int]) -> list[messages.PeerList.Fault]:
    return [messages.PeerList.Fault(kind=kind, count=count) for kind, count in counts.items()]
