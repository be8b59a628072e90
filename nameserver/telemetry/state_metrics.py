"""Metrics of the server's state, read when Prometheus asks.

No value is kept here.

    HTTP thread: collect --- asks --> event loop: reads all in one go
                         <-- values, or nothing within ANSWER_SECONDS: then only that is told

Source: https://prometheus.io/docs/instrumenting/writing_clientlibs (custom collectors).
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import TimeoutError as NotInTime
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from delivery.origin.dead_letters import UndeliveredCount
from delivery.volatile.in_memory import MemoryCounts
from namegraph import PROTOCOL_VERSION, CoreQueries
from nameserver.calls.stream_places import StreamPlaces
from nameserver.detector.liveness import Life
from nameserver.driver.letting_out import DatagramCounts
from nameserver.reads.counting import counted
from nameserver.transport.peer_report import PeerReport
from resolver.census import Census

ANSWER_SECONDS = 2.0
"""Longest wait for a busy event loop. Prometheus itself waits for 10 seconds."""


PHASES = ("waiting", "queued", "order", "ready", "decided")
"""Phases that are always reported, also without an update in them."""


class Driver(Protocol):
    """Part of the run loop that the collector reads."""

    @property
    def storage_failure(self) -> str | None:
        """Failure of the database. None while the database can be written."""

    @property
    def callers_waiting(self) -> int:
        """Number of commands under way."""

    @property
    def rows_waiting(self) -> int:
        """Number of rows that wait for the commit under way."""

    @property
    def datagrams(self) -> DatagramCounts:
        """Outcomes of datagrams since the server started."""


class Peers(Protocol):
    """Part of the transport that the collector reads."""

    release: str
    """Version of this server's program."""

    def reports(self) -> Sequence[PeerReport]:
        """Return the state of each address of the peer table."""

    def strangers_refused(self) -> Mapping[str, int]:
        """Return the number of connections refused from strangers, by kind."""


class StateCollector(Collector):
    """Collector of the state of one server. Create it in the thread of the server's event loop."""

    def __init__(
        self,
        *,
        core: CoreQueries,
        census: Census,
        run_loop: Driver,
        peers: Peers,
        calls_under_way: Callable[[], int],
        plans_kept: Callable[[], int],
        messages_refused_by_rate: Callable[[], int],
        undelivered: Callable[[], Sequence[UndeliveredCount]],
        messages_queued: Callable[[], int],
        in_memory: Callable[[], MemoryCounts],
        streams: StreamPlaces | None = None,
        requests_refused: Callable[[], int] = lambda: 0,
    ) -> None:
        self._core = core
        self._census = census
        self._run_loop = run_loop
        self._peers = peers
        self._calls_under_way = calls_under_way
        self._plans_kept = plans_kept
        self._messages_refused_by_rate = messages_refused_by_rate
        self._undelivered = undelivered
        self._messages_queued = messages_queued
        self._in_memory = in_memory
        self._streams = streams
        self._requests_refused = requests_refused
        self._event_loop = asyncio.get_running_loop()

    def describe(self) -> Iterable[Metric]:
        """Return no metric, so that the registration reads no state."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Read the state. The thread that answers Prometheus calls this."""
        asked = asyncio.run_coroutine_threadsafe(self._read(), self._event_loop)
        try:
            found = asked.result(ANSWER_SECONDS)
        except NotInTime:
            asked.cancel()
            found = []
        yield _gauge("event_loop_answers", "Whether the event loop answered this question in time.", bool(found))
        yield _gauge("time_of_day_seconds", "The time of day here, to be compared with that of others.", time.time())
        yield from found

    async def _read(self) -> list[Metric]:
        counts = await counted(self._census)
        core, run_loop, in_memory = self._core, self._run_loop, self._in_memory()
        waiting, rejected = core.suspended_counts()
        reports = self._peers.reports()
        suspended = GaugeMetricFamily("shadowtree_suspended_arcs", "Arcs that are suspended.", labels=["state"])
        suspended.add_metric(["waiting"], waiting)
        suspended.add_metric(["rejected"], rejected)
        phases = GaugeMetricFamily(
            "shadowtree_updates_under_way", "Updates that this server coordinates, by phase.", labels=["phase"]
        )
        phase_counts = Counter(phase for _, phase in core.coordinated_updates())
        for phase, count in {**dict.fromkeys(PHASES, 0), **phase_counts}.items():
            phases.add_metric([phase], count)
        lives = GaugeMetricFamily(
            "shadowtree_peers", "Addresses of the table, by what is thought of them.", labels=["life"]
        )
        of_life = Counter(report.life for report in reports)
        for life in Life:
            lives.add_metric([life.value.replace(" ", "_")], of_life[life])
        undelivered = GaugeMetricFamily(
            "shadowtree_undelivered_messages", "Messages that did not reach somebody, by why.", labels=["reason"]
        )
        for found in self._undelivered():
            undelivered.add_metric([found.reason.replace(" ", "_")], found.messages)
        datagrams = CounterMetricFamily(
            "shadowtree_datagrams", "Copies of datagrams to servers, and to listeners, by outcome.", labels=["outcome"]
        )
        for outcome in ("sent", "handed", "dropped"):
            datagrams.add_metric([outcome], getattr(run_loop.datagrams, outcome))
        return [
            _gauge("groups", "Groups of this server.", counts.groups),
            _gauge("processes", "Processes of this server.", counts.processes),
            _gauge("arcs", "Arcs of this server's groups.", counts.arcs),
            _gauge("virtual_nodes", "Loops whose smallest group is here.", counts.virtual_nodes),
            _gauge("tombstones", "Arcs that were left and are remembered.", len(core.graph.tombstones)),
            _gauge("overdue_servers", "Servers away for too long: nothing is kept for them.", len(core.overdue)),
            _gauge("node_numbers", "Numbers that nodes have, the free ones included.", len(core.graph.ids)),
            _gauge("free_node_numbers", "Numbers that the next new names get.", core.graph.free_count),
            _gauge("messages_queued", "Messages that wait here for their origin.", self._messages_queued()),
            _gauge("memory_entries", "Parcels in memory for listeners.", in_memory.entries),
            _gauge("memory_bytes", "Bytes of these.", in_memory.bytes),
            _gauge(
                "memory_parcels_unsettled",
                "Parcels that were accepted in memory, and that not all servers below have.",
                in_memory.parcels_unsettled,
            ),
            CounterMetricFamily(
                "shadowtree_memory_parcels_lost",
                "Parcels in memory that were lost before they came here, as far as that is known.",
                value=float(in_memory.parcels_lost),
            ),
            _gauge("calls_under_way", "Calls that are being carried out.", self._calls_under_way()),
            _gauge("updates_waiting", "Callers whose update is under way.", run_loop.callers_waiting),
            phases,
            _gauge("updates_in_doubt", "Updates whose outcome another server knows.", len(core.in_doubt)),
            _gauge("rows_waiting", "Rows that wait for the commit under way.", run_loop.rows_waiting),
            _gauge("database_failing", "Whether the database cannot be written.", run_loop.storage_failure is not None),
            _gauge("ancestor_sets_bytes", "Memory of ancestor sets that are kept.", core.ancestors.kept_bytes),
            _gauge("plans_kept_nodes", "Nodes of plans that are kept.", self._plans_kept()),
            CounterMetricFamily(
                "shadowtree_messages_refused_by_rate",
                "Messages that came too fast, of all senders or of one.",
                value=float(self._messages_refused_by_rate()),
            ),
            _gauge("view_number", "The number of the view; 0 while nobody was ever lost.", _number_of(core.view)),
            _gauge("view_servers", "Servers of the view; 0 while nobody was ever lost.", len(core.members)),
            _gauge("healed", "Whether all is known that was done while servers were apart.", core.is_healed),
            suspended,
            lives,
            undelivered,
            datagrams,
            *_of_streams(self._streams),
            CounterMetricFamily(
                "shadowtree_requests_refused",
                "Requests that were large or slow, and gave way to others while they were read.",
                value=float(self._requests_refused()),
            ),
            _build_info(self._peers.release),
            *_of_peers(reports, self._peers.strangers_refused()),
        ]


def _gauge(name: str, help_text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"shadowtree_{name}", help_text, value=float(value))


def _of_streams(streams: StreamPlaces | None) -> Iterator[Metric]:
    if streams is not None:
        yield _gauge("message_streams", "Listeners and streams of senders.", len(streams))
        for name, count, help_text in (
            ("refused", streams.refused, "Streams of messages that found no place."),
            ("ended", streams.ended, "Streams of messages that gave their place to others."),
        ):
            yield CounterMetricFamily(f"shadowtree_message_streams_{name}", help_text, value=float(count))


def _build_info(release: str) -> Metric:
    """Return the metric of value 1 that has the versions of this server as labels."""
    info = GaugeMetricFamily(
        "shadowtree_build_info",
        "1, with the version of this server and the newest version of the protocol that it speaks.",
        labels=("version", "protocol_version"),
    )
    info.add_metric([release, str(PROTOCOL_VERSION)], 1.0)
    return info


def _number_of(view: str) -> int:
    return int(view.partition("@")[0] or 0)


def _of_peers(reports: Sequence[PeerReport], strangers: Mapping[str, int]) -> list[Metric]:
    of_peer = ("peer", "address")
    is_up = GaugeMetricFamily("shadowtree_peer_up", "Whether a peer is up.", labels=of_peer)
    letters = GaugeMetricFamily("shadowtree_letters_waiting", "Letters that a peer has not confirmed.", labels=of_peer)
    phi = GaugeMetricFamily("shadowtree_peer_phi", "How unlikely it is that its silence ends.", labels=of_peer)
    round_trip = GaugeMetricFamily("shadowtree_peer_round_trip_seconds", "To a peer and back.", labels=of_peer)
    faults = CounterMetricFamily("shadowtree_peer_faults", "What it did wrong.", labels=(*of_peer, "kind"))
    stuck = GaugeMetricFamily(
        "shadowtree_peer_stuck", "1 if a connected peer has confirmed no message for a minute.", labels=of_peer
    )
    backlog = GaugeMetricFamily(
        "shadowtree_peer_backlog_bytes", "Memory of messages that a peer has not confirmed.", labels=of_peer
    )
    tunnelled = GaugeMetricFamily(
        "shadowtree_peer_tunnelled", "1 if a third server carries the session with a peer.", labels=of_peer
    )
    for report in reports:
        peer = [report.server or "", report.address]
        is_up.add_metric(peer, report.life is Life.UP)
        tunnelled.add_metric(peer, report.via is not None)
        letters.add_metric(peer, report.letters_waiting)
        phi.add_metric(peer, report.phi)
        if report.round_trip_seconds is not None:
            round_trip.add_metric(peer, report.round_trip_seconds)
        stuck.add_metric(peer, report.stuck_seconds is not None)
        backlog.add_metric(peer, report.backlog_bytes)
        for kind, count in report.faults.items():
            faults.add_metric([*peer, kind], count)
    versions = GaugeMetricFamily(
        "shadowtree_peer_info",
        "1 for each peer that was met, with its version and the version of the protocol that is spoken with it.",
        labels=(*of_peer, "version", "protocol_version"),
    )
    for report in reports:
        if report.protocol_version:
            labels = [report.server or "", report.address, report.release, str(report.protocol_version)]
            versions.add_metric(labels, 1.0)
    refused = CounterMetricFamily(
        "shadowtree_strangers_refused", "Refused connections from servers that are not peers.", labels=("kind",)
    )
    for kind, count in strangers.items():
        refused.add_metric([kind], count)
    return [is_up, letters, stuck, backlog, tunnelled, phi, round_trip, faults, refused, versions]
