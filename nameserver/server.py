"""Composition root: builds one name server out of its parts, runs it, and ends it in good order.

bind the port -> open the database -> restore the core -> accept calls, say so -> SIGTERM or SIGINT
-> health NOT_SERVING, no new updates, peers told -> updates under way finish -> goodbye to peers
-> calls under way finish -> last flush -> close the database -> status 0
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import grpc
from grpc_reflection.v1alpha import reflection

from delivery.server import Server
from namegraph import (
    ANONYMOUS,
    NO_ORIGIN,
    REFUSED,
    CommittedState,
    CoreQueries,
    InconsistentStateError,
    LogRecord,
    NodeId,
    Origin,
    Reason,
    Refusal,
    RefusedError,
    ServerId,
    Tick,
)
from nameserver.access.caller import How
from nameserver.access.credentials import Credentials, RefusedReports, TokenJudge
from nameserver.access.identify import Identification, Listener
from nameserver.access.keys import ApiKeys
from nameserver.access.local_socket import LocalSocketError, listen, place_of
from nameserver.access.operators import Operators
from nameserver.admin_service import ADMIN_SERVICE, admin_service_handlers
from nameserver.calls.adapters import Handler
from nameserver.calls.arriving import UNREAD_BYTES, Arriving
from nameserver.calls.home_dispatch import NAME_SERVICE
from nameserver.calls.key_calls import KeyCalls
from nameserver.calls.peer_service import CONVERSE, IDENTIFY, peer_service_handlers
from nameserver.calls.places import Places, RequestBytes, admitted_shortly, guarded
from nameserver.calls.read_your_writes import PEER_SERVICE
from nameserver.calls.retired_relays import RetiredRelays
from nameserver.calls.stream_places import StreamPlaces
from nameserver.config.addresses import announced
from nameserver.config.port_check import ListenError, check_address
from nameserver.config.settings import DAY_SECONDS, MEBIBYTE, Settings
from nameserver.config.socket_paths import UNIX_PREFIX
from nameserver.deliveries.desk import Desk
from nameserver.deliveries.overrun_reports import OverrunReports
from nameserver.deliveries.queue_sending import QueueSending
from nameserver.delivery_service import (
    DELIVERY_SERVICE,
    PATIENT_METHODS,
    delivery_question_handlers,
    delivery_service_handlers,
)
from nameserver.driver.ancestry_filling import AncestryFilling
from nameserver.driver.audit_log import AuditLog
from nameserver.driver.checkpoint_keeper import CheckpointKeeper
from nameserver.driver.database_identity import refuse_mistaken
from nameserver.driver.gc_tuning import growing_graph, tune_allocator, tune_collector
from nameserver.driver.health import HEALTH_SERVICE, Health, reflection_handlers
from nameserver.driver.planned_end import PlannedEnd
from nameserver.driver.run_loop import RunLoop
from nameserver.driver.start_number import start_number
from nameserver.driver.time_of_day import now_ms
from nameserver.name_service import CHUNKED_METHODS, CheckHere, check_here, name_service_handlers, short_ways
from nameserver.reads.peer_queries import peer_question_handlers
from nameserver.routing.forwarding import Forwarder
from nameserver.routing.ownership import Routing
from nameserver.routing.planned_restarts import COMES_BACK
from nameserver.settings_reload import SettingsReload
from nameserver.start_check import StartError, require_addresses, require_extras
from nameserver.telemetry.calls_under_way import NO_SHORT_WAYS, CallsUnderWay, ShortWay
from nameserver.telemetry.clock_watch import ClockWatch
from nameserver.telemetry.log_lines import ProcessLog, say
from nameserver.telemetry.setup import TelemetryError, observe
from nameserver.transport.peer_directory import PeerDirectory
from nameserver.transport.peer_transport import PeerTransport
from nameserver.transport.strangers import RefusedStranger
from nameserver.trust.key_files import TrustFileError
from nameserver.trust.peer_trust import PeerTrust
from nameserver.trust.signing import load_signing_key
from resolver.census import Census
from resolver.membership import MembershipResolver
from resolver.parts import Parts
from resolver.reach import GraphReach
from storage.damage import contradictory
from storage.errors import ServerNotNamedError, StorageError
from storage.open import open_store
from storage.store import LogWanted, Store

RECEIVED_MESSAGE_BYTES_LIMIT = 8 * 1024 * 1024
"""Bytes of a received message: room for the largest atomic update (APPLY_OPERATIONS_LIMIT).

Servers of the previous version pass such an update on in one message. gRPC has one limit for all methods of a server.
Clients have a lower limit (`CLIENT_MESSAGE_BYTES_LIMIT`).
"""

CLIENT_CALLS_AT_ONCE = 4_000
DELIVERY_CALLS_AT_ONCE = 2_000
PEER_CALLS_AT_ONCE = 3_800
ADMIN_CALLS_AT_ONCE = 50
HEALTH_CALLS_AT_ONCE = 100
REFLECTION_CALLS_AT_ONCE = 20
CALLS_AT_ONCE_LIMIT = 10_000
"""Calls at once.

More are refused with RESOURCE_EXHAUSTED, because each holds some 20 kB.

Each service has places that no other service can take.
"""

CHANNEL_OPTIONS = (
    # Two servers on one port would each get half of the calls.
    ("grpc.so_reuseport", 0),
    # Calls that may wait to be taken: gRPC would drop some of all as soon as a thousand wait.
    ("grpc.server.max_pending_requests", CALLS_AT_ONCE_LIMIT),
    ("grpc.server.max_pending_requests_hard_limit", CALLS_AT_ONCE_LIMIT),
    ("grpc.max_receive_message_length", RECEIVED_MESSAGE_BYTES_LIMIT),
    ("grpc.max_send_message_length", -1),
    # Unread data is not received, either. Otherwise gRPC would receive several MiB of each stream.
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", UNREAD_BYTES),
    # A client that vanished without closing its connection is noticed during its call, and its resources are released.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Other servers ping as often, without calls too. More than twice as often is too often.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 4_000),
)


TICK_SECONDS = 60.0
"""Longest time between two looks at the age of messages."""

SWITCH_SECONDS = 0.001
"""Time after which a computing thread gives way. A call waits for it several times beside a long step."""


OPEN_TO_OTHERS = (
    "WARNING: other machines can reach {address}, and nobody is authenticated: whoever reaches it can read and change "
    'everything. Let only trusted ones reach it ("Security" in docs/operators.md)'
)


NO_OPERATORS = (
    "nobody operates this server but by its local socket: name operators in the table `policy`. Groups without a "
    "policy are open to all: `shadowtree policy adopt` gives them one"
)

PASSED_OVER = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals that other daemons take for orders, such as to open log files anew. They must not end a server."""


class Servers(NamedTuple):
    """gRPC servers that take calls."""

    public: grpc.aio.Server
    """Server for clients and peers."""
    local: grpc.aio.Server
    """Server for operators of this machine. It listens on the local socket, if there is one."""

    @classmethod
    def create(cls) -> Servers:
        """Return servers that do not listen yet."""

        def one() -> grpc.aio.Server:
            return grpc.aio.server(options=CHANNEL_OPTIONS, maximum_concurrent_rpcs=CALLS_AT_ONCE_LIMIT)

        return cls(one(), one())

    @property
    def all(self) -> tuple[grpc.aio.Server, ...]:
        """All servers."""
        return (self.public, self.local)

    async def start(self) -> None:
        """Take calls."""
        for server in self.all:
            await server.start()

    async def stop(self, grace: float | None) -> None:
        """Take no more calls, and let those under way go on for `grace` seconds."""
        await asyncio.gather(*(server.stop(grace) for server in self.all))


class ListenedAddresses(NamedTuple):
    """Addresses that take calls, with the numbers of their ports."""

    public: str
    mutual: str | None
    """Address for peers and users with certificates. None if there is none."""
    local_socket: Path | None
    """Socket of operators on this machine. None if there is none."""

    def for_peers(self, trust: PeerTrust) -> str:
        """Return the address that peers are told. Empty if none of them can call."""
        if self.mutual is not None:
            return announced(self.mutual)
        return announced(self.public) if trust.takes_plain_text else ""


class Threads(NamedTuple):
    """Threads beside that of the event loop, one in each executor."""

    database: Executor
    long_steps: Executor


def run(settings: Settings, reload: Callable[[], Settings] | None = None) -> int:
    """Serve until SIGTERM or SIGINT.

    Return the exit status. Raises `StartError`.

    `reload`: reads the settings again at SIGHUP. The settings of the log and the peers are then followed. Raises
    `SettingsError`.
    """
    tune_allocator()
    tune_collector()
    sys.setswitchinterval(SWITCH_SECONDS)
    log = ProcessLog(settings.log)
    log.begin()
    for number in PASSED_OVER:
        signal.signal(number, signal.SIG_IGN)
    try:
        return asyncio.run(serve(settings, announce=_announce, log=log, reload=reload or (lambda: settings)))
    finally:
        # Python's handler ends before the process does.
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        log.end()


def _announce(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def serve(
    settings: Settings, *, announce: Callable[[str], None], log: ProcessLog, reload: Callable[[], Settings]
) -> int:
    """Do as `run`, inside a running event loop. `announce` takes the line that names the subnets and the address."""
    planned_end = PlannedEnd(settings.detector.restart_grace_seconds)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, planned_end.begin, number.name)
    reloading = SettingsReload(settings, log, reload)
    reloading.begin(asyncio.get_running_loop())
    return await serve_until(
        planned_end, settings, announce=announce, log=log, reloading=reloading, open_database=_open_store
    )


async def serve_until(
    planned_end: PlannedEnd,
    settings: Settings,
    *,
    announce: Callable[[str], None],
    log: ProcessLog,
    reloading: SettingsReload,
    open_database: Callable[[Settings], Store],
) -> int:
    """Do as `serve` until a planned end begins. Signals and the rest of the process stay as they are.

    `open_database`: opens the database of the settings, in the thread of the database. Raises `StorageError`.
    """
    require_extras(settings)
    require_addresses(settings)
    servers = Servers.create()
    try:
        trust = PeerTrust(settings, say=say)
    except TrustFileError as error:
        raise StartError(str(error)) from None
    credentials = None if settings.is_listening_in_plain_text else trust.client_port()
    address, is_open = _bind(servers.public, settings.listen, credentials)
    mutual = None
    if settings.listen_mutual is not None:
        mutual, _ = _bind(servers.public, settings.listen_mutual, trust.mutual_port())
    # All work on the database runs in one thread, so that two threads never work on it at once.
    with (
        ThreadPoolExecutor(max_workers=1, thread_name_prefix="database") as worker,
        ThreadPoolExecutor(max_workers=1, thread_name_prefix="long steps") as stepper,
    ):
        event_loop = asyncio.get_running_loop()
        store, core = await event_loop.run_in_executor(worker, _restore, settings, open_database)
        log.name(core.server)
        say(logging.INFO, "starting", "the server starts", version=version("shadowtree"), process=os.getpid())
        say(logging.INFO, "settings", "the settings in force", **settings.shown())
        if is_open and credentials is None:
            say(logging.WARNING, "open_to_others", OPEN_TO_OTHERS.format(address=settings.listen))
        threads = Threads(database=worker, long_steps=stepper)
        try:
            _begin_trust(trust, core)
            if trust.is_protected and not settings.policy.operators:
                say(logging.WARNING, "no_operators", NO_OPERATORS)
            # The lock of the database is held now, so no other server uses the default place of the socket.
            local_socket = _listen_locally(servers.local, settings, core.server)
            return await _serve(
                servers,
                settings,
                core,
                store,
                threads,
                planned_end,
                reloading,
                trust,
                ListenedAddresses(address, mutual, local_socket),
                announce,
            )
        finally:
            await servers.stop(grace=None)
            await event_loop.run_in_executor(worker, store.close)
            say(logging.INFO, "ended", "the server has ended")


async def _serve(
    servers: Servers,
    settings: Settings,
    core: Server,
    store: Store,
    threads: Threads,
    planned_end: PlannedEnd,
    reloading: SettingsReload,
    trust: PeerTrust,
    addresses: ListenedAddresses,
    announce: Callable[[str], None],
) -> int:
    health = Health((NAME_SERVICE, DELIVERY_SERVICE, ADMIN_SERVICE))

    def report_storage(failure: str | None) -> None:
        health.report(serving=failure is None)
        if failure is None:
            say(logging.INFO, "database_writes", "the database can be written again")
        else:
            say(logging.ERROR, "database_fails", f"{failure}; trying until it works")

    reads = CommittedState(core)
    run_loop = RunLoop(
        core=core,
        store=store,
        worker=threads.database,
        clock=time.monotonic,
        on_storage_state=report_storage,
        seen=reads,
        stepper=threads.long_steps,
    )
    run_loop.changes_kept = settings.changes_kept
    audit_log = AuditLog(take=run_loop.take, is_writable=run_loop.has_room)
    keys = ApiKeys(core.access.rows, keep=run_loop.take)
    transport = PeerTransport(
        core=core,
        run_loop=run_loop,
        say=_complain,
        limits=settings.detector,
        report_stranger=_report_stranger,
        release=version("shadowtree"),
        reads=reads,
        announced_address=(
            addresses.for_peers(trust) if settings.announced_address is None else settings.announced_address
        ),
        trust=trust,
    )
    transport.unconfirmed = core.delivery.unconfirmed
    checkpoints = _checkpoint_keeper(settings, core, run_loop, transport)
    filling = AncestryFilling(core=core, reads=reads, run_loop=run_loop)
    with ExitStack() as telemetry:
        clocks, queue = _open(
            telemetry,
            servers,
            settings,
            core,
            reads,
            run_loop,
            transport,
            health,
            filling,
            planned_end,
            keys,
            audit_log,
            trust,
        )
        health.report(serving=True)
        run_loop.begin(core.servers_met)
        flushing = asyncio.ensure_future(run_loop.flush_forever())
        ended = asyncio.ensure_future(planned_end.until_begun())
        others = [
            asyncio.ensure_future(forever)
            for forever in (
                transport.run(),
                filling.fill_forever(),
                clocks.watch_forever(),
                _let_time_pass(run_loop),
                checkpoints.keep_forever(),
                queue.run(),
                trust.follow_files(transport.refresh),
            )
        ]
        try:
            await servers.start()
            _tell_serving(announce, core, addresses)
            reloading.follow_peers(
                core.peers,
                new_ticket=run_loop.new_ticket,
                carry_out=run_loop.carry_out,
                follow_trust=trust.follow,
                refresh=transport.refresh,
            )
            # The flushing and the transport end by themselves only if they cannot go on.
            await asyncio.wait((flushing, ended, *others), return_when=asyncio.FIRST_COMPLETED)
            reloading.end()
            if ended.done():
                keys.write_last_uses()
                audit_log.note("drain", {name: str(value) for name, value in planned_end.asked_by.items()})
                audit_log.write_now()
                await _drain(servers, core, health, run_loop, transport, flushing, planned_end, settings.drain_seconds)
            for task in others:
                if task.done():
                    await task
            await flushing
        except StorageError as error:
            raise StartError(f"{error}; updates that were not acknowledged may be lost") from None
        except TimeoutError:
            raise StartError(_unwritten_at_end(run_loop)) from None
        finally:
            reloading.end()
            audit_log.end()
            ended.cancel()
            flushing.cancel()
            for task in others:
                task.cancel()
            await asyncio.wait(others)
    return 0


def _open(
    telemetry: ExitStack,
    servers: Servers,
    settings: Settings,
    core: Server,
    reads: CommittedState,
    run_loop: RunLoop,
    transport: PeerTransport,
    health: Health,
    filling: AncestryFilling,
    planned_end: PlannedEnd,
    keys: ApiKeys,
    audit_log: AuditLog,
    trust: PeerTrust,
) -> tuple[ClockWatch, QueueSending]:
    """Give the server its services, with telemetry of each call. Return the clock watch and the sender of the queue."""
    directory = PeerDirectory(core=core, transport=transport)
    resolver = MembershipResolver(reads, unheard=directory.unheard)
    census, calls = Census(reads), CallsUnderWay()
    request_bytes = RequestBytes()
    arriving = Arriving(
        is_at_rest=lambda: request_bytes.are_few, report=lambda line: say(logging.WARNING, "requests_refused", line)
    )
    try:
        overruns = OverrunReports(clock=time.monotonic, report=partial(say, logging.WARNING, "message_log_full"))
        core.delivery.retention.on_overrun = overruns.note
        streams = StreamPlaces(clock=time.monotonic, report=partial(say, logging.WARNING, "streams_taken"))
        clocks = observe(
            telemetry,
            settings,
            core=reads,
            census=census,
            plans=resolver.plans,
            run_loop=run_loop,
            transport=transport,
            calls=calls,
            rates=core.delivery.rates,
            undelivered=core.delivery.dead_letters.undelivered,
            messages_queued=core.delivery.queue.__len__,
            in_memory=lambda: core.delivery.in_memory.counts,
            streams=streams,
            requests_refused=lambda: arriving.ended,
        )
    except TelemetryError as error:
        raise StartError(str(error)) from None
    names, questions, check = _asked_of_names(reads, resolver, filling, run_loop, directory)
    desk = Desk(core, run_loop, is_in_reach=directory.is_in_reach)
    messages = delivery_service_handlers(
        core=reads,
        machine=desk,
        directory=directory,
        check=check,
        streams=streams,
        is_crowded=core.delivery.origin.is_crowded,
    )
    questions |= delivery_question_handlers(core=reads, machine=desk, directory=directory, check=check)
    reports = RefusedReports(clock=time.monotonic, report=partial(_report_credential, audit_log, core.server))
    credentials = Credentials(
        keys=keys,
        tokens=_tokens(settings),
        report=reports.note,
        takes_certificates=trust.is_protected and settings.listen_mutual is not None,
    )
    identifications = {
        servers.public: Identification(
            Listener.PROTECTED if trust.is_protected else Listener.PLAINTEXT,
            credentials,
            certificate_of=trust.identify,
        ),
        servers.local: Identification(Listener.LOCAL, credentials),
    }
    routing, forwarder = Routing(known=reads, directory=directory), Forwarder(server=core.server, directory=directory)

    def end_streams(how: How, credential: str) -> None:
        for each in identifications.values():
            each.end_streams(how, credential)

    admin = admin_service_handlers(
        core=core,
        reads=reads,
        census=census,
        transport=transport,
        run_loop=run_loop,
        planned_end=planned_end,
        say=say,
        keys=KeyCalls(keys=keys, run_loop=run_loop, routing=routing, end_streams=end_streams),
        operators=Operators(settings.policy, is_in=lambda who, group: group in resolver.memberships(NodeId(who))),
    )

    def add(
        server: grpc.aio.Server,
        service: str,
        handlers: dict[str, Any],
        count: int,
        patient: Collection[str] = (),
        chunked: Collection[str] = (),
        at_once: Mapping[str, ShortWay] = NO_SHORT_WAYS,
    ) -> None:
        places = Places(count)
        found = guarded(
            handlers,
            places=places,
            request_bytes=request_bytes,
            patient=patient,
            chunked=chunked,
            is_of_servers=service == PEER_SERVICE,
        )
        if service != reflection.SERVICE_NAME:
            admitted = {
                name: admitted_shortly(way, places=places, request_bytes=request_bytes) for name, way in at_once.items()
            }
            found = calls.followed(service, found, admitted)
        is_between_servers = service == PEER_SERVICE
        found = identifications[server].handlers(
            arriving.handlers(found),
            proving_apart=(CONVERSE,) if is_between_servers else (),
            of_peers=found.keys() - {IDENTIFY} if is_between_servers else (),
        )
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, found),))

    public = servers.public
    public.add_generic_rpc_handlers((RetiredRelays(),))
    at_once = short_ways(core=reads, resolver=resolver, directory=directory)
    add(public, PEER_SERVICE, {**peer_service_handlers(reads, transport), **questions}, PEER_CALLS_AT_ONCE)
    services = (NAME_SERVICE, DELIVERY_SERVICE, ADMIN_SERVICE, PEER_SERVICE, HEALTH_SERVICE, reflection.SERVICE_NAME)
    for server in servers.all:
        add(server, NAME_SERVICE, names, CLIENT_CALLS_AT_ONCE, chunked=CHUNKED_METHODS, at_once=at_once)
        add(server, DELIVERY_SERVICE, messages, DELIVERY_CALLS_AT_ONCE, PATIENT_METHODS)
        add(server, ADMIN_SERVICE, admin, ADMIN_CALLS_AT_ONCE)
        add(server, HEALTH_SERVICE, health.handlers(), HEALTH_CALLS_AT_ONCE)
        add(server, reflection.SERVICE_NAME, reflection_handlers(services), REFLECTION_CALLS_AT_ONCE)
    return clocks, QueueSending(machine=desk, routing=routing, forwarder=forwarder)


def _checkpoint_keeper(
    settings: Settings, core: Server, run_loop: RunLoop, transport: PeerTransport
) -> CheckpointKeeper:
    try:
        signer = load_signing_key(settings.tls)
    except TrustFileError as error:
        raise StartError(str(error)) from None
    keeper = CheckpointKeeper(
        server=core.server,
        kept=core.checkpoints,
        run_loop=run_loop,
        tell=transport.tell_checkpoint,
        now_ms=now_ms,
        keep_ms=1e3 * DAY_SECONDS * settings.audit_days,
        signer=signer,
    )
    run_loop.observers.append(keeper)
    return keeper


async def _drain(
    servers: Servers,
    core: Server,
    health: Health,
    run_loop: RunLoop,
    transport: PeerTransport,
    flushing: asyncio.Future[None],
    planned_end: PlannedEnd,
    seconds: float,
) -> None:
    """End calls and flushes in good order. Raises `TimeoutError` if the database takes no more."""
    message = f"told to end by {planned_end.asked_by['asked_by']}: what is under way is finished"
    say(logging.INFO, "draining", message, seconds=seconds, **planned_end.asked_by)
    grace_seconds = planned_end.restart_grace_seconds
    refusal = Refusal(
        Reason.UNAVAILABLE,
        f"the server {core.server} is shutting down; ask another one, or again when it is back",
        {COMES_BACK: core.server} if grace_seconds else {},
    )
    run_loop.refuse_updates(refusal)
    health.end()
    transport.leave(refusal, grace_seconds)
    is_all = False
    begin = time.monotonic()
    # Updates under way may need other servers, and updates of other servers may need this one.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await run_loop.until_answered()
            while core.is_finishing() or transport.is_delivering():
                await run_loop.next_step(seconds)
            is_all = True
    planned_end.finished(is_all=is_all)
    await transport.close()
    await servers.stop(grace=max(0.0, begin + seconds - time.monotonic()))
    run_loop.finish()
    # A flush may take its time, as after an import. A flush that fails is not tried for ever.
    while not flushing.done():
        await asyncio.wait((flushing,), timeout=seconds)
        if run_loop.storage_failure is not None:
            raise TimeoutError


def _unwritten_at_end(run_loop: RunLoop) -> str:
    if run_loop.undurable_records():
        return f"ended with updates that could not be written ({run_loop.storage_failure}); none was acknowledged"
    return (
        f"ended while the database could not be written ({run_loop.storage_failure}); nothing was waiting to be written"
    )


def _restore(settings: Settings, open_database: Callable[[Settings], Store]) -> tuple[Store, Server]:
    try:
        store = open_database(settings)
    except StorageError as error:
        raise StartError(str(error)) from None
    for caution in store.cautions:
        say(logging.WARNING, "database_caution", f"database: {caution}")
    try:
        refuse_mistaken(store, settings)
        with growing_graph():
            core = Server.restore(store.load(), subnets=settings.subnets, peers=settings.peer_addresses)
            core.begin_delivery(GraphReach, _log_entries(store, core.delivery.needed()), start=start_number())
    except StorageError as error:
        store.close()
        raise StartError(str(error)) from None
    except InconsistentStateError as error:
        store.close()
        raise StartError(str(contradictory(settings.database, str(error)))) from None
    core.keep_changes(settings.audit_mebibytes * MEBIBYTE)
    rates = core.delivery.rates
    rates.per_second = settings.messages_per_second
    rates.of_sender_per_second = settings.messages_per_second_of_sender
    _keep_messages(core, settings)
    core.limit_absences(settings.absence_limit_days * DAY_SECONDS)
    core.protect(settings.judged_policy)
    try:
        core.peers.require_configured_unused()
    except RefusedError as error:
        store.close()
        raise StartError(f"the configuration names a new peer, but {error.refusal.message}") from None
    return store, core


def _keep_messages(core: Server, settings: Settings) -> None:
    log = core.delivery.log
    log.limit_bytes = settings.message_log_mebibytes * MEBIBYTE
    log.limit_seconds = settings.message_log_days * DAY_SECONDS
    core.delivery.giving_up.limit_seconds = settings.message_backlog_days * DAY_SECONDS
    if settings.dedupe_with is not None:
        core.delivery.dedupe_with(settings.dedupe_with)


async def _let_time_pass(run_loop: RunLoop) -> None:
    """Let an idle server find messages that were kept for too long."""
    while True:
        await asyncio.sleep(TICK_SECONDS)
        run_loop.take(Tick())


def _log_entries(store: Store, positions: list[int]) -> Iterator[LogRecord]:
    """Yield the entries of the log at some sorted positions. Raises `StorageError`."""
    wanted = set(positions)
    after = positions[0] - 1 if positions else 0
    while wanted:
        found = store.read_log(LogWanted(after, through=max(wanted)))
        if not found:
            raise InconsistentStateError(f"the log lacks a parcel that is not settled, at {min(wanted)}")
        after = found[-1].position
        yield from (record for record in found if record.position in wanted)
        wanted = {position for position in wanted if position > after}


def _open_store(settings: Settings) -> Store:
    if settings.name is not None:
        return open_store(settings.database, server=settings.name)
    try:
        return open_store(settings.database, server=None)
    except ServerNotNamedError:
        # The database takes the default name of a server.
        return open_store(settings.database, server=ServerId(settings.subnets[0]))


def _bind(server: grpc.aio.Server, listen: str, credentials: grpc.ServerCredentials | None = None) -> tuple[str, bool]:
    """Take the port. Return the address with its number, and True if other machines may reach it.

    `credentials`: proofs at the port. None for plain text.
    """
    try:
        is_open = check_address(listen)
        port = server.add_insecure_port(listen) if credentials is None else server.add_secure_port(listen, credentials)
    except (ListenError, RuntimeError) as error:
        raise StartError(str(error)) from None
    return f"{listen.rpartition(':')[0]}:{port}", is_open


def _listen_locally(server: grpc.aio.Server, settings: Settings, name: ServerId) -> Path | None:
    """Listen on the local socket. Return its path. None if there is none."""
    try:
        path = place_of(settings, name, os.environ)
        if path is not None:
            listen(path, server.add_insecure_port)
    except LocalSocketError as error:
        if settings.listen_local is not None:
            raise StartError(str(error)) from None
        # A server that works without a configuration must not need more than its database and its port.
        say(logging.WARNING, "no_local_socket", f"{error}; operators on this machine have no socket")
        return None
    return path


def _asked_of_names(
    reads: CoreQueries,
    resolver: MembershipResolver,
    filling: AncestryFilling,
    run_loop: RunLoop,
    directory: PeerDirectory,
) -> tuple[dict[str, Handler], dict[str, Handler], CheckHere]:
    """Return the handlers for clients, the handlers for other servers, and Check for this server's own use."""
    # Versions of parts count from the start of this server: the versions of an earlier start are void.
    parts = Parts(reads, resolver.plans, start=secrets.token_hex(8))
    names = name_service_handlers(
        core=reads, resolver=resolver, parts=parts, filling=filling, run_loop=run_loop, directory=directory
    )
    questions = peer_question_handlers(
        core=reads, resolver=resolver, parts=parts, filling=filling, run_loop=run_loop, directory=directory
    )
    check = check_here(
        core=reads, resolver=resolver, parts=parts, filling=filling, run_loop=run_loop, directory=directory
    )
    return names, questions, check


def _begin_trust(trust: PeerTrust, core: Server) -> None:
    """Take the authorities of the database. Raise `StartError` if the certificate is that of another server."""
    try:
        trust.require_name(core.server)
    except TrustFileError as error:
        raise StartError(str(error)) from None
    trust.follow_added(lambda: core.peers.trusts)


def _tell_serving(announce: Callable[[str], None], core: Server, addresses: ListenedAddresses) -> None:
    address, mutual, local_socket = addresses
    announce(_line(core, address))
    say(logging.INFO, "serving", f"calls are accepted on {address}", listen=address, revision=core.revision)
    if mutual is not None:
        message = f"peers and users with certificates are answered on {mutual}"
        say(logging.INFO, "serving_mutual", message, listen_mutual=mutual)
    if local_socket is not None:
        socket = f"{UNIX_PREFIX}{local_socket}"
        message = f"operators on this machine are answered on {socket}"
        say(logging.INFO, "serving_operators", message, listen_local=socket)


def _line(core: Server, address: str) -> str:
    return f"serving {','.join(core.subnets)} on {address}"


def _complain(line: str) -> None:
    say(logging.WARNING, "peers", line)


def _tokens(settings: Settings) -> TokenJudge | None:
    """Return the judge of tokens. None if the settings name no issuers. Raises `StartError`."""
    if not settings.issuers:
        return None
    from nameserver.access.tokens import IssuerKeysError, Tokens

    def warn(line: str) -> None:
        say(logging.WARNING, "keys_of_issuer", line)

    try:
        return Tokens(settings.issuers, warn=warn, time_of_day=lambda: now_ms() / 1000)
    except IssuerKeysError as error:
        raise StartError(f"issuers: {error}") from None


def _report_credential(audit_log: AuditLog, server: ServerId, line: str, address: str) -> None:
    say(logging.WARNING, "credential_refused", line, address=address)
    origin = Origin(NO_ORIGIN.request_id, now_ms(), address, server, ANONYMOUS, How.NONE.value)
    audit_log.note("credential_refused", {"why": line}, origin, decision=REFUSED)


def _report_stranger(stranger: RefusedStranger) -> None:
    facts = {"peer": stranger.server or "", "address": stranger.address, "kind": stranger.kind}
    say(logging.WARNING, "stranger_refused", stranger.line, **facts)
