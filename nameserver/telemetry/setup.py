"""Put together the telemetry of a server, following its settings."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack

from delivery.origin.dead_letters import UndeliveredCount
from delivery.origin.rates import Rates
from delivery.volatile.in_memory import MemoryCounts
from namegraph import CoreQueries
from nameserver.calls.stream_places import StreamPlaces
from nameserver.config.settings import Settings
from nameserver.driver.run_loop import RunLoop
from nameserver.telemetry.calls_under_way import CallsUnderWay
from nameserver.telemetry.clock_watch import ClockWatch
from nameserver.telemetry.server_log import ServerLog
from nameserver.transport.peer_transport import PeerTransport
from resolver.census import Census
from resolver.plans import PlanCache


class TelemetryError(Exception):
    """Telemetry that the settings ask for is not available. The message is one line."""


def observe(
    ending: ExitStack,
    settings: Settings,
    *,
    core: CoreQueries,
    census: Census,
    plans: PlanCache,
    run_loop: RunLoop,
    transport: PeerTransport,
    calls: CallsUnderWay,
    rates: Rates,
    undelivered: Callable[[], Sequence[UndeliveredCount]],
    messages_queued: Callable[[], int],
    in_memory: Callable[[], MemoryCounts],
    streams: StreamPlaces,
    requests_refused: Callable[[], int],
) -> ClockWatch:
    """Watch a server until `ending` is closed.

    Return the clock watch, which the owner runs as long.

    Call this before the handlers of `calls` are made. Raises `TelemetryError`.
    """
    _trace(ending, settings, core, run_loop, calls)
    server_log = ServerLog(core=core, faults=lambda: _faults(transport), clock=time.monotonic)
    run_loop.observers.append(server_log)
    if settings.metrics_listen is None:
        return ClockWatch(each_second=server_log.look)
    from nameserver.telemetry.metrics import Metrics
    from nameserver.telemetry.metrics_listener import serve_metrics
    from nameserver.telemetry.state_metrics import StateCollector

    metrics = Metrics()
    run_loop.observers.append(metrics)
    calls.followers.append(metrics.of_method)
    metrics.registry.register(
        StateCollector(
            core=core,
            census=census,
            run_loop=run_loop,
            peers=transport,
            calls_under_way=lambda: calls.count,
            plans_kept=lambda: plans.weight,
            messages_refused_by_rate=lambda: rates.refused,
            undelivered=undelivered,
            messages_queued=messages_queued,
            in_memory=in_memory,
            streams=streams,
            requests_refused=requests_refused,
        )
    )
    host, _, port = settings.metrics_listen.rpartition(":")
    try:
        _, end = serve_metrics(metrics.registry, host.removeprefix("[").removesuffix("]"), int(port))
    except OSError as error:
        number = error.errno or 0
        why = os.strerror(number) if number > 0 else error.strerror
        raise TelemetryError(f"cannot listen on {settings.metrics_listen} for metrics: {why}") from None
    ending.callback(end)
    return ClockWatch(
        each_second=server_log.look,
        stalled=metrics.lateness.observe,
        jumped=lambda _seconds: metrics.clock_jumps.inc(),
    )


def _trace(ending: ExitStack, settings: Settings, core: CoreQueries, run_loop: RunLoop, calls: CallsUnderWay) -> None:
    if settings.traces_endpoint is None:
        return
    from nameserver.telemetry.traces import Traces, to_collector

    traces = Traces(server=core.server, core=core, processor=to_collector(settings.traces_endpoint))
    ending.callback(traces.end)
    run_loop.observers.append(traces)
    calls.followers.append(traces.of_method)


def _faults(transport: PeerTransport) -> Mapping[tuple[str, str], int]:
    """Return the number of faults of peers, by server and kind."""
    return {
        (report.server or report.address, kind): count
        for report in transport.reports()
        for kind, count in report.faults.items()
    }
