"""Counters and histograms of events for Prometheus.

Metrics of the state are read on request (`state_metrics`).

Metrics of calls have the usual names of gRPC servers (`grpc_server_...`). All other names begin with `shadowtree_`.
"""

from __future__ import annotations

import grpc
from prometheus_client import CollectorRegistry, Counter, Histogram, disable_created_metrics
from prometheus_client.gc_collector import GCCollector
from prometheus_client.process_collector import ProcessCollector

from delivery.model.events import DeliveryEvent
from namegraph import Command, Effects, Event, ImportCommand, Outcome, PeerLost, PeerMet, Refusal, UpdateCommand
from nameserver.calls.adapters import Context
from nameserver.driver.observer import Observer

SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0)
"""Upper bounds of the histogram buckets for durations."""

LATENESS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics(Observer):
    """All metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        # The creation time of each metric would double the size of the answer, and no reader uses it.
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        method = ("grpc_type", "grpc_service", "grpc_method")
        self.calls_begun = Counter("grpc_server_started", "Calls that have come.", method, registry=registry)
        self.calls_ended = Counter(
            "grpc_server_handled", "Calls that are over, by status.", (*method, "grpc_code"), registry=registry
        )
        self.call_seconds = Histogram(
            "grpc_server_handling_seconds", "How long calls took.", method, buckets=SECONDS, registry=registry
        )
        self.updates = Counter(
            "shadowtree_updates",
            "Updates that were answered: committed, or the reason of the refusal.",
            ("outcome",),
            registry=registry,
        )
        self.steps = Histogram(
            "shadowtree_step_seconds",
            "How long steps of the core took, by what was handled.",
            ("event",),
            buckets=SECONDS,
            registry=registry,
        )
        self.letters = Counter("shadowtree_letters_written", "Letters to other servers.", registry=registry)
        self.losses = Counter("shadowtree_peers_lost", "How often a peer was lost.", ("peer",), registry=registry)
        self.meetings = Counter("shadowtree_peers_met", "How often a peer was met.", ("peer",), registry=registry)
        self.commits = Histogram(
            "shadowtree_database_commit_seconds",
            "How long commits took, tries that failed included.",
            buckets=SECONDS,
            registry=registry,
        )
        self.rows = Counter("shadowtree_database_rows", "Rows that were to be written.", registry=registry)
        self.failures = Counter("shadowtree_database_troubles", "How often trouble with it began.", registry=registry)
        self.lateness = Histogram(
            "shadowtree_event_loop_late_seconds",
            "By how much a look of the event loop at the clock was late.",
            buckets=LATENESS,
            registry=registry,
        )
        self.clock_jumps = Counter("shadowtree_clock_jumps", "How often the time of day leapt.", registry=registry)

    def of_method(self, service: str, method: str, kind: str) -> MethodMetrics:
        """Return the follower of one method's calls."""
        return MethodMetrics(self, (kind, service, method))

    def stepped(self, event: Event | DeliveryEvent, effects: Effects, seconds: float, *, was_long: bool) -> None:
        """Count the step, its letters, and lost or met peers."""
        del was_long
        self.steps.labels(type(event).__name__).observe(seconds)
        if effects.messages:
            self.letters.inc(len(effects.messages))
        match event:
            case PeerLost(peer):
                self.losses.labels(peer).inc()
            case PeerMet(peer):
                self.meetings.labels(peer).inc()

    def answered(self, command: Command, outcome: Outcome) -> None:
        """Count the outcome of an update."""
        if isinstance(command, UpdateCommand | ImportCommand):
            self.updates.labels(outcome.reason.value.lower() if isinstance(outcome, Refusal) else "committed").inc()

    def commit_began(self, rows: int) -> None:
        """Count the rows of a commit."""
        self.rows.inc(rows)

    def committed(self, seconds: float) -> None:
        """Record the duration of a commit."""
        self.commits.observe(seconds)

    def database_failed(self, why: str) -> None:
        """Count a failed write."""
        del why
        self.failures.inc()


class MethodMetrics:
    """Metrics of the calls of one method."""

    def __init__(self, metrics: Metrics, labels: tuple[str, str, str]) -> None:
        self._labels = labels
        self._ended = metrics.calls_ended
        self._began_one = metrics.calls_begun.labels(*labels).inc
        self._took = metrics.call_seconds.labels(*labels).observe
        self._ended_so: dict[grpc.StatusCode, Counter] = {}

    def began(self, context: Context) -> None:
        """Count a call that has come."""
        del context
        self._began_one()

    def ended(self, context: Context, code: grpc.StatusCode, seconds: float) -> None:
        """Count a call that is over."""
        del context
        counter = self._ended_so.get(code)
        if counter is None:
            counter = self._ended_so[code] = self._ended.labels(*self._labels, code.name)
        counter.inc()
        self._took(seconds)
