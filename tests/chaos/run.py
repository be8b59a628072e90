"""One run: servers, load, faults, then rest, and the judgement of all answers to clients."""

from __future__ import annotations

import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, field

import shadowtree
from tests.chaos.cluster import LOOK_SECONDS, SUBNETS, Cluster
from tests.chaos.endpoints import new_endpoints
from tests.chaos.faults import plan
from tests.chaos.history import History, Outcome
from tests.chaos.load import Reader, Writer
from tests.chaos.memory_load import KEEN, QUICK_SENDERS, KeenEndpoint, QuickSender, say_last_words
from tests.chaos.message_history import LAST_WORD, Sending, faults
from tests.chaos.message_load import ALL, OWED, Mover, new_senders
from tests.chaos.verdict import Timeline, contradictions, rows, was_done
from tests.integration.nameserver.answers_of_all import check_all_answers

WRITERS = 10
READERS = 5
CLIENTS_LIMIT = 70
"""More than there are of all kinds together: each has a thread of its own."""

QUIET_SECONDS = 10.0
"""Within what time after the last fault nothing may go on any more."""

PATIENCE_SECONDS = 60.0
"""Seconds for which rest is awaited beyond the limit, so that other faults are found too."""

LAST_CALL_SECONDS = 30.0
SHOWN = 20
"""Contradictions told one by one."""


@dataclass
class Report:
    """Events and findings of one run."""

    seed: int
    seconds: float
    every: float
    faults: list
    links: str = ""
    """Kind of the links."""
    history: History = field(default_factory=History)
    unknown: int = 0
    """Updates whose outcome was unknown when the faults ended."""
    unknown_done: int = 0
    writers: int = WRITERS
    readers: int = READERS
    quiet_limit: float = QUIET_SECONDS
    quiet_after: float | None = None
    """Seconds from the end of the last fault until nothing went on; None: never."""
    settled_after: float | None = None
    """Seconds from then until all that was accepted was settled; None: never."""
    handed_after: float | None = None
    """Seconds from then until all of it was handed out everywhere; None: never."""
    own_processors: float = 0.0
    """Processors that this process, which runs all clients, used meanwhile. One is the most that it can use."""
    failures: list = field(default_factory=list)

    def lines(self):
        """Return the report as lines."""
        updates = self.history.updates
        kinds = Counter(str(fault.kind) for fault in self.faults)
        refused = Counter(update.why[-1].said for update in self.history.with_outcome(Outcome.REFUSED))
        reads = Counter(read.kind for read in self.history.reads)
        counted = {outcome: len(self.history.with_outcome(outcome)) for outcome in Outcome}
        yield f"seed {self.seed}: {self.seconds:.0f} s, {len(self.faults)} faults, one every {self.every:g} s"
        yield f"  {self.links}"
        yield from (f"  {count:4d}  {kind}" for kind, count in sorted(kinds.items()))
        yield (
            f"updates: {len(updates)}, of which {counted[Outcome.ACKNOWLEDGED]} were acknowledged, "
            f"{counted[Outcome.REFUSED]} refused"
        )
        yield from (f"  {count:4d}  {reason}" for reason, count in sorted(refused.items()))
        yield (
            f"  the outcome of {self.unknown} was unknown when the faults ended: {self.unknown_done} were done, "
            f"the others not"
        )
        yield (
            f"questions: {sum(reads.values())} answered in full ({_counts(reads)}), "
            f"{self.history.incomplete_reads.total()} not, and said so ({_counts(self.history.incomplete_reads)})"
        )
        yield from self._lines_of_messages()
        yield f"quiet: {_after(self.quiet_after)} (at most {self.quiet_limit:g} s)"
        yield from (f"WRONG: {failure}" for failure in self.failures)
        right = "nothing lost, nothing twice, nothing out of sequence, nothing invented"
        yield "verdict: WRONG" if self.failures else f"verdict: {right}"

    def _lines_of_messages(self):
        messages = self.history.messages
        sent, accepted = len(messages.sendings), len(messages.accepted)
        settled, handed = _after(self.settled_after), _after(self.handed_after)
        yield f"messages: {sent}, of which {accepted} were accepted; all settled {settled}, handed out {handed}"
        yield f"  {self.own_processors:.2f} processors were the clients' own meanwhile"
        yield from (f"  {count:6d}  {what}" for what, count in sorted(messages.counts.items()))


def run(
    folder,
    *,
    seed,
    seconds,
    every,
    writers=WRITERS,
    readers=READERS,
    quiet_limit=QUIET_SECONDS,
    say=lambda line: None,
):
    """Let servers live in a folder for some seconds, with a fault every `every` seconds. Return the report.

    `writers`, `readers`: numbers of clients that change the graph, and that ask about it.
    `say`: called with each fault as it begins.
    """
    report = Report(seed, seconds, every, plan(seed, seconds=seconds, every=every, servers=len(SUBNETS)))
    report.writers, report.readers, report.quiet_limit = writers, readers, quiet_limit
    try:
        with Cluster(folder) as cluster:
            report.links = cluster.links.told
            _trouble(cluster, report, say)
            if report.quiet_after is not None:
                _judge(cluster, report)
    finally:
        report.history.write(folder / "history.jsonl")
    return report


def _trouble(cluster, report, say):
    """Run load and faults until all is quiet and every endpoint was handed all messages."""
    history, over, healed = report.history, threading.Event(), threading.Event()
    writers = [Writer(cluster, history, f"writer-{number}") for number in range(report.writers)]
    readers = [Reader(cluster, history, f"reader-{number}") for number in range(report.readers)]
    mover, senders, endpoints = Mover(cluster, history, "mover-0"), [], []
    writers[0].build()
    mover.build()
    with ThreadPoolExecutor(CLIENTS_LIMIT) as clients, ThreadPoolExecutor(len(report.faults) + 1) as breakers:
        living, breaking = [], []
        try:
            endpoints += new_endpoints(cluster, history)
            endpoints += [KeenEndpoint(cluster, history, process) for process in KEEN]
            living += [clients.submit(someone.live, over) for someone in endpoints]
            assert _comes_about(lambda: all(each.has_begun for each in endpoints)), "not everybody listens"
            senders += [clients.submit(someone.live, over) for someone in new_senders(cluster, history)]
            quick = [QuickSender(cluster, history, f"quick-{number}") for number in range(QUICK_SENDERS)]
            living += [clients.submit(someone.live, over) for someone in [*writers, *readers, mover, *quick]]
            started = time.monotonic()
            for fault in report.faults:
                healed.wait(max(started + fault.begins - time.monotonic(), 0))
                say(str(fault))
                ends = started + fault.ends
                breaking.append(breakers.submit(cluster.carry_out, fault, lambda ends=ends: _wait(healed, ends)))
            healed.wait(max(started + report.seconds - time.monotonic(), 0))
            healed.set()
            for each in breaking:
                each.result()
            last, before = time.monotonic(), time.process_time()
            over.set()
            unrest = cluster.wait_until_quiet(PATIENCE_SECONDS)
            if unrest is None:
                report.quiet_after = time.monotonic() - last
                unhanded = _settle(cluster, senders)
                if unhanded is None:
                    report.settled_after = time.monotonic() - last
                    unhanded = _hand_out(cluster, history, endpoints)
                seconds = time.monotonic() - last
                report.own_processors = (time.process_time() - before) / seconds
                report.handed_after = None if unhanded else seconds
        finally:
            healed.set()
            over.set()
            for each in endpoints:
                each.give_up()
        for each in living + senders + breaking:
            each.result()
    limit = report.quiet_limit
    if report.quiet_after is None or report.quiet_after > limit:
        report.failures.append(f"not quiet {limit:g} s after the last fault; {unrest or 'later it was'}")
    elif report.handed_after is None or report.handed_after > limit:
        late = unhanded or "later it was"
        report.failures.append(f"not all handed out {limit:g} s after the last fault; {late}")


def _settle(cluster, senders):
    """Wait until all messages are accepted and settled; returns what is missing, if anything."""
    wait(senders, PATIENCE_SECONDS)
    return cluster.wait_until_quiet(PATIENCE_SECONDS)


def _hand_out(cluster, history, endpoints):
    """Wait until all messages are handed out; returns what is missing, if anything."""
    sending = Sending(LAST_WORD, (ALL,), (), "run", 1, asked=time.monotonic_ns())
    history.messages.note_sending(sending)
    with cluster.new_client(0, timeout=PATIENCE_SECONDS) as client:
        history.messages.note_accepted(sending, client.send(ALL, LAST_WORD))
        say_last_words(client, history)
    _comes_about(lambda: all(each.is_done for each in endpoints))
    return ", ".join(f"{each.name} waits for the last word" for each in endpoints if not each.is_done)


def _after(seconds):
    return "never" if seconds is None else f"{seconds:.1f} s after the last fault"


def _comes_about(condition):
    """Wait until something holds; returns whether it does, in the end."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return holds


def _wait(healed, until):
    healed.wait(max(until - time.monotonic(), 0))


def _judge(cluster, report):
    """Everything that must hold when all is quiet."""
    history, failures = report.history, report.failures
    failures += cluster.surprises
    failures += cluster.peer_faults()
    failures += history.unexpected
    # Calls that ended after their servers were quiet may have left something behind.
    if (unrest := cluster.wait_until_quiet(report.quiet_limit)) is not None:
        failures.append(f"not quiet after the last call: {unrest}")
        return
    clients = [cluster.new_client(number, timeout=LAST_CALL_SECONDS) for number in range(len(SUBNETS))]
    try:
        counters = cluster.counters()
        graphs = [list(client.export()) for client in clients]
        unknown = history.with_outcome(Outcome.UNKNOWN)
        _learn(unknown, clients, failures)
        done = history.with_outcome(Outcome.ACKNOWLEDGED)
        learnt = [update for update in unknown if update.outcome is Outcome.ACKNOWLEDGED]
        late = {update.request_id for update in learnt if not was_done(update, counters=counters)}
        report.unknown, report.unknown_done = len(unknown), len(learnt) - len(late)
        _compare(graphs, [update for update in done if update.request_id not in late], failures)
        timeline = Timeline(done, SUBNETS)
        found = contradictions(history, timeline)
        failures += found[:SHOWN]
        if found[SHOWN:]:
            failures.append(f"{len(found) - SHOWN} more answers that contradict the history")
        _judge_messages(report)
        _nothing_is_stuck(clients, timeline.model)
        check_all_answers(clients, timeline.model, revision=timeline.newest)
    except (AssertionError, shadowtree.ShadowtreeError) as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        failures.append(f"{type(error).__name__}: {error} ({where.name}, line {where.lineno}: {where.line})")
    finally:
        for client in clients:
            client.close()


def _judge_messages(report):
    """Judge messages: none is lost, repeated, out of sequence or invented for any endpoint."""
    history = report.history
    lost = [sending for sending in history.messages.sendings.values() if sending.told is None]
    report.failures += [f"not accepted in the end: {sending.payload.decode()}" for sending in lost[:SHOWN]]
    possible = history.with_outcome(Outcome.ACKNOWLEDGED) + history.with_outcome(Outcome.UNKNOWN)
    found = faults(history.messages, possible, owed=OWED)
    report.failures += found[:SHOWN]
    if found[SHOWN:]:
        report.failures.append(f"{len(found) - SHOWN} more faults of messages")
    report.failures += history.quick.faults()[:SHOWN]


def _learn(unknown, clients, failures):
    """Repeat each request id through one server and then another; they must tell the same, and something definite."""
    for number, update in enumerate(unknown):
        told = []
        for client in (clients[number % len(clients)], clients[(number + 1) % len(clients)]):
            update.ask(client, time.monotonic, LAST_CALL_SECONDS)
            told.append((update.outcome, update.revision))
        if update.outcome is Outcome.UNKNOWN or told[0] != told[1]:
            failures.append(f"{update.request_id}, repeated when all was quiet: {told}; {update.why}")


def _compare(graphs, done, failures):
    """Compare each server's graph, read before any request was repeated, with the updates done by then."""
    expected = rows(Timeline(done, SUBNETS).model)
    for subnet, graph in zip(SUBNETS, graphs, strict=True):
        found = {(arc.parent, arc.child, arc.kind) for arc in graph}
        if found != expected:
            failures.append(f"{subnet} lost {sorted(expected - found)}, invented {sorted(found - expected)}")


def _nothing_is_stuck(clients, model):
    """Require that no update is stuck: a resolution in order waits for all updates ordered before it, and each ends."""
    for number, group in enumerate(sorted(model.groups)):
        clients[number % len(clients)].resolve(group, consistency="ordered")


def _counts(counter):
    return ", ".join(f"{count} {kind}" for kind, count in sorted(counter.items())) or "none"
