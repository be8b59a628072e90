"""Metrics of the gateway for Prometheus: lookups, and the numbers of `stats`, read at each scrape.

An HTTP thread asks the event loop, and waits for two seconds at most. A metric tells of a loop that stands still.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as NotInTime
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.gc_collector import GCCollector
from prometheus_client.metrics_core import Metric
from prometheus_client.process_collector import ProcessCollector
from prometheus_client.registry import Collector, CollectorRegistry

from mailing.rules.queue import Stats
from mailing.shell.lookup_counts import MAPS, SECONDS, LookupCounts
from nameserver.telemetry import metrics_listener

ANSWER_SECONDS = 2.0


class DistributingPart(Protocol):
    """The part of a gateway that distributes messages."""

    @property
    def shares_refused(self) -> int:
        """Number of shares that were refused since the start."""

    def stats(self) -> Stats:
        """Return the state of the gateway, and its counts since the start."""


class NamesWatched(Protocol):
    """The part of a gateway that watches the groups of its subnets."""

    @property
    def companion_changes(self) -> int:
        """Number of changes to companions of lists that other clients made, since the start."""


class GatewayCollector(Collector):
    """Collector of the metrics. It must be made in the event loop that it asks."""

    def __init__(
        self, lookups: LookupCounts, distributing: DistributingPart | None, names: NamesWatched, date: Callable[[], int]
    ) -> None:
        """`distributing`: None if the gateway does not distribute. `date`: returns the time, in seconds since 1970."""
        self._lookups = lookups
        self._distributing = distributing
        self._names = names
        self._date = date
        self._loop = asyncio.get_running_loop()

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of a scrape."""
        try:
            found = asyncio.run_coroutine_threadsafe(self._read(), self._loop).result(ANSWER_SECONDS)
        except (NotInTime, RuntimeError):
            # The loop is held up, or has ended.
            yield _gauge("event_loop_answers", "Whether the gateway's event loop answers.", 0)
            return
        yield _gauge("event_loop_answers", "Whether the gateway's event loop answers.", 1)
        yield from found

    async def _read(self) -> list[Metric]:
        told = [*_of_lookups(self._lookups), _companion_changes(self._names.companion_changes)]
        if self._distributing is not None:
            told += _of_stats(self._distributing.stats(), self._date())
            told.append(_counter("shares_refused", "Shares that were refused.", self._distributing.shares_refused))
        return told


def serve_metrics(collector: GatewayCollector, host: str, port: int) -> tuple[int, Callable[[], None]]:
    """Answer Prometheus. Return the port, and a function that ends it. Raises `OSError` if the port is in use."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    registry.register(collector)
    return metrics_listener.serve_metrics(registry, host, port, prefix="shadowtree_mail")


def _of_lookups(counts: LookupCounts) -> Iterator[Metric]:
    results = CounterMetricFamily(
        "shadowtree_mail_lookups", "Lookups that were answered, by map and by what.", labels=["map", "result"]
    )
    seconds = HistogramMetricFamily("shadowtree_mail_lookup_seconds", "How long lookups took.", labels=["map"])
    for name in MAPS:
        for status, count in counts.of(name).items():
            results.add_metric([name, status], count)
        limits = [*map(str, SECONDS), "+Inf"]
        seconds.add_metric([name], list(zip(limits, counts.within(name), strict=True)), counts.seconds[name])
    yield results
    yield seconds


def _of_stats(stats: Stats, date: int) -> Iterator[Metric]:
    messages = GaugeMetricFamily("shadowtree_mail_messages", "Messages that are not final.", labels=["state"])
    for state, count in stats.messages.items():
        messages.add_metric([state], count)
    yield messages
    age = date - stats.oldest if stats.oldest else 0
    yield _gauge("oldest_message_seconds", "How long ago the oldest of them came.", age)
    yield _gauge("people_waiting", "To whom a message is to be handed over.", stats.people_waiting)
    yield _gauge("messages_kept", "Final messages that are remembered.", stats.kept)
    yield _counter("accepted", "Transactions that brought a message.", stats.accepted)
    for name, text, counts in (
        ("copies", "People of transactions with the mail server, by what it said.", stats.copies),
        ("reports", "Bounces and complaints, by what became of them.", stats.reports),
        ("authors", "Messages to lists that need it, by whether the author was confirmed.", stats.authors),
        ("seals", "Seals of what is handed over, by what became of them.", stats.seals),
    ):
        family = CounterMetricFamily(f"shadowtree_mail_{name}", text, labels=["outcome"])
        for outcome, count in counts.items():
            family.add_metric([outcome], count)
        yield family
    yield _gauge("failing", "People whom messages did not reach lately.", stats.failing)
    yield _gauge("suppressed", "Those of them to whom nothing is sent.", stats.suppressed)
    held = stats.held_without_owners
    yield _gauge("held_without_owners", "Messages held by lists without owners: nobody was told.", held)
    yield _gauge("database_failing", "Whether the database takes nothing.", stats.database_failing)


def _companion_changes(count: int) -> CounterMetricFamily:
    return _counter("companion_changes", "Changes to owners and muted members of lists by other clients.", count)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"shadowtree_mail_{name}", text, value=float(value))


def _counter(name: str, text: str, value: float) -> CounterMetricFamily:
    return CounterMetricFamily(f"shadowtree_mail_{name}", text, value=float(value))
