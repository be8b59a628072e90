"""Composition root: builds one name server out of its parts, runs it, and ends it in good order.

bind the port -> open the database -> restore the core -> accept calls, say so -> SIGTERM or SIGINT
-> health NOT_SERVING, no new updates, peers told -> updates under way finish -> goodbye to peers
-> calls under way finish -> last flush -> close the database -> status 0
"""

from __future__ import annotations

import asyncio
import secrets
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from typing import NamedTuple

import grpc
from grpc_reflection.v1alpha import reflection

from namegraph import CommittedState, CoreQueries, InconsistentStateError, RefusedError, ServerCore, ServerId
from nameserver.admin_service import ADMIN_SERVICE, admin_service_handlers
from nameserver.calls.home_dispatch import NAME_SERVICE
from nameserver.calls.peer_service import peer_service_handlers
from nameserver.calls.read_your_writes import PEER_SERVICE
from nameserver.calls.relayed_calls import RelayedCalls
from nameserver.config.port_check import ListenError, check_address
from nameserver.config.settings import Settings
from nameserver.driver.ancestry_filling import AncestryFilling
from nameserver.driver.database_identity import refuse_mistaken
from nameserver.driver.gc_tuning import growing_graph, tune_collector
from nameserver.driver.health import HEALTH_SERVICE, Health
from nameserver.driver.run_loop import RunLoop
from nameserver.name_service import name_service_handlers
from nameserver.reads.peer_queries import peer_question_handlers
from nameserver.transport.peer_directory import PeerDirectory
from nameserver.transport.peer_transport import PeerTransport
from resolver.membership import MembershipResolver
from resolver.parts import Parts
from storage.damage import contradictory
from storage.errors import ServerNotNamedError, StorageError
from storage.open import open_store
from storage.store import Store

RECEIVED_MESSAGE_BYTES_LIMIT = 8 * 1024 * 1024
"""Room for the largest atomic update (APPLY_OPERATIONS_LIMIT); what is larger comes as a stream."""

CALLS_AT_ONCE_LIMIT = 10_000
"""More are refused with RESOURCE_EXHAUSTED: each holds some 20 kB."""

CHANNEL_OPTIONS = (
    # Two servers on one port would each get half of the calls.
    ("grpc.so_reuseport", 0),
    ("grpc.max_receive_message_length", RECEIVED_MESSAGE_BYTES_LIMIT),
    ("grpc.max_send_message_length", -1),
    # Who went away without a word is noticed while a call of his is under way, and what he holds here is given up.
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.http2.ping_timeout_ms", 10_000),
    ("grpc.http2.max_pings_without_data", 0),
    # Other servers ask as often, without calls too; more than twice as often is too often.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 4_000),
)


SWITCH_SECONDS = 0.001
"""After how long a thread that computes gives way: a call waits for that several times beside a long step."""


class StartError(Exception):
    """The server cannot start, or cannot go on; the message is one line."""


class Threads(NamedTuple):
    """One thread each, beside that of the event loop."""

    database: Executor
    long_steps: Executor


def run(settings: Settings) -> int:
    """Serve until SIGTERM or SIGINT; returns the exit status. Raises `StartError`."""
    return asyncio.run(serve(settings, announce=_announce))


def _announce(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


async def serve(settings: Settings, *, announce: Callable[[str], None]) -> int:
    """As `run`, inside a running event loop; `announce` is given the line that says what is served where."""
    ending = _ending_signal()
    server = grpc.aio.server(options=CHANNEL_OPTIONS, maximum_concurrent_rpcs=CALLS_AT_ONCE_LIMIT)
    address = _bind(server, settings.listen)
    # All work on the database is done here, so that it is never done from two threads at once.
    with (
        ThreadPoolExecutor(max_workers=1, thread_name_prefix="database") as worker,
        ThreadPoolExecutor(max_workers=1, thread_name_prefix="long steps") as stepper,
    ):
        event_loop = asyncio.get_running_loop()
        store, core = await event_loop.run_in_executor(worker, _restore, settings)
        threads = Threads(database=worker, long_steps=stepper)
        try:
            return await _serve(server, settings, core, store, threads, ending, lambda: announce(_line(core, address)))
        finally:
            await server.stop(grace=None)
            await event_loop.run_in_executor(worker, store.close)


async def _serve(
    server: grpc.aio.Server,
    settings: Settings,
    core: ServerCore,
    store: Store,
    threads: Threads,
    ending: asyncio.Event,
    announce: Callable[[], None],
) -> int:
    health = Health((NAME_SERVICE, ADMIN_SERVICE))

    def report_storage(failure: str | None) -> None:
        health.report(serving=failure is None)
        _complain("the database can be written again" if failure is None else f"{failure}; trying until it works")

    reads = CommittedState(core)
    run_loop = RunLoop(
        core=core,
        store=store,
        worker=threads.database,
        clock=time.monotonic,
        on_storage_state=report_storage,
        long_steps=reads,
        stepper=threads.long_steps,
    )
    transport = PeerTransport(core=core, run_loop=run_loop, say=_complain, limits=settings.detector)
    filling = AncestryFilling(core=reads, run_loop=run_loop)
    _add_services(server, core, reads, filling, run_loop, health, transport)
    tune_collector()
    sys.setswitchinterval(SWITCH_SECONDS)
    health.report(serving=True)
    run_loop.begin(core.servers_met)
    flushing = asyncio.ensure_future(run_loop.flush_forever())
    ended = asyncio.ensure_future(ending.wait())
    conversing = asyncio.ensure_future(transport.run())
    filling_all = asyncio.ensure_future(filling.fill_forever())
    try:
        await server.start()
        announce()
        # The flushing and the transport end by themselves only where they cannot go on.
        await asyncio.wait((flushing, ended, conversing, filling_all), return_when=asyncio.FIRST_COMPLETED)
        if ended.done():
            await _drain(server, core, health, run_loop, transport, flushing, settings.drain_seconds)
        for task in (conversing, filling_all):
            if task.done():
                await task
        await flushing
    except StorageError as error:
        raise StartError(f"{error}; updates that were not acknowledged may be lost") from None
    except TimeoutError:
        raise StartError(_unwritten_at_end(run_loop)) from None
    finally:
        ended.cancel()
        flushing.cancel()
        conversing.cancel()
        filling_all.cancel()
        await asyncio.wait((conversing, filling_all))
    return 0


async def _drain(
    server: grpc.aio.Server,
    core: ServerCore,
    health: Health,
    run_loop: RunLoop,
    transport: PeerTransport,
    flushing: asyncio.Future[None],
    seconds: float,
) -> None:
    """End calls and flushes in good order; raises `TimeoutError` where the database takes no more."""
    run_loop.refuse_updates(f"the server {core.server} is shutting down; ask another one, or again when it is back")
    health.end()
    transport.leave()
    begin = time.monotonic()
    # Updates under way may need the other servers, and those of others may need this one.
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await run_loop.until_answered()
            while core.is_finishing() or transport.is_delivering():
                await run_loop.next_step(seconds)
    await transport.close()
    await server.stop(grace=max(0.0, begin + seconds - time.monotonic()))
    run_loop.finish()
    # A flush may take its time, as after an import; but one that fails is not tried for ever.
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


def _restore(settings: Settings) -> tuple[Store, ServerCore]:
    try:
        store = _open_store(settings)
    except StorageError as error:
        raise StartError(str(error)) from None
    try:
        refuse_mistaken(store, settings)
        with growing_graph():
            core = ServerCore.restore(store.load(), subnets=settings.subnets, peers=settings.peers)
    except StorageError as error:
        store.close()
        raise StartError(str(error)) from None
    except InconsistentStateError as error:
        store.close()
        raise StartError(str(contradictory(settings.database, str(error)))) from None
    try:
        core.peers.require_configured_unused()
    except RefusedError as error:
        store.close()
        raise StartError(f"the configuration names a new peer, but {error.refusal.message}") from None
    return store, core


def _open_store(settings: Settings) -> Store:
    if settings.name is not None:
        return open_store(settings.database, server=settings.name)
    try:
        return open_store(settings.database, server=None)
    except ServerNotNamedError:
        # It takes the name that servers have by default.
        return open_store(settings.database, server=ServerId(settings.subnets[0]))


def _bind(server: grpc.aio.Server, listen: str) -> str:
    """Take the port; return the address with its number."""
    try:
        check_address(listen)
        port = server.add_insecure_port(listen)
    except (ListenError, RuntimeError) as error:
        raise StartError(str(error)) from None
    return f"{listen.rpartition(':')[0]}:{port}"


def _add_services(
    server: grpc.aio.Server,
    core: ServerCore,
    reads: CoreQueries,
    filling: AncestryFilling,
    run_loop: RunLoop,
    health: Health,
    transport: PeerTransport,
) -> None:
    directory = PeerDirectory(core=core, transport=transport)
    resolver = MembershipResolver(reads, unheard=directory.unheard)
    # Versions of parts count from the start of this server: what an earlier one told holds no more.
    parts = Parts(reads, resolver.plans, start=secrets.token_hex(8))
    names = name_service_handlers(
        core=reads, resolver=resolver, parts=parts, filling=filling, run_loop=run_loop, directory=directory
    )
    questions = peer_question_handlers(
        core=reads, resolver=resolver, parts=parts, filling=filling, run_loop=run_loop, directory=directory
    )
    admin = admin_service_handlers(core=core, reads=reads, transport=transport, run_loop=run_loop)
    server.add_generic_rpc_handlers(
        (
            RelayedCalls(directory),
            grpc.method_handlers_generic_handler(NAME_SERVICE, names),
            grpc.method_handlers_generic_handler(ADMIN_SERVICE, admin),
            grpc.method_handlers_generic_handler(PEER_SERVICE, {**peer_service_handlers(transport), **questions}),
            grpc.method_handlers_generic_handler(HEALTH_SERVICE, health.handlers()),
        )
    )
    reflection.enable_server_reflection((NAME_SERVICE, ADMIN_SERVICE, HEALTH_SERVICE, reflection.SERVICE_NAME), server)


def _ending_signal() -> asyncio.Event:
    """Set at SIGTERM and at SIGINT."""
    ending = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ending.set)
    return ending


def _line(core: ServerCore, address: str) -> str:
    return f"serving {','.join(core.subnets)} on {address}"


def _complain(line: str) -> None:
    # What takes it may be a file on the disk that is full.
    with suppress(OSError):
        sys.stderr.write(f"shadowtree: {line}\n")
        sys.stderr.flush()
