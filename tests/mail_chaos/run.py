"""One run: gateways, load, faults, then rest, and the check that each person got every message once."""

from __future__ import annotations

import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from tests.integration.nameserver.server_process import LOOK_SECONDS
from tests.mail_chaos.faults import KINDS, OF_NAME_SERVERS, plan
from tests.mail_chaos.history import History, faults, lost, repeats
from tests.mail_chaos.load import Mover, Postmaster, Sender
from tests.mail_chaos.organisations import Organisations
from tests.mail_chaos.scene import HOMES, LISTS_OF, ORGANISATIONS, scene

PEOPLE = 12
SENDERS = 2
"""Senders of each organisation."""
QUIET_SECONDS = 60.0
"""Seconds after the last fault within which each person must have every message, and queues must be empty."""
PATIENCE_SECONDS = 240.0
"""Seconds for which this is awaited all the same, so that other faults are found too."""
DEFERRED = 0.05
"""The part of people whom mail servers refuse for now."""
KILL_LIMIT = 4 * 200
"""Copies that a kill of a gateway may repeat: connections times people of a transaction."""
SHOWN = 20
LAST = "last"


@dataclass
class Report:
    """Events and findings of one run."""

    seed: int
    seconds: float
    faults: list
    history: History = field(default_factory=History)
    quiet_limit: float = QUIET_SECONDS
    quiet_after: float | None = None
    """Seconds from the end of the last fault until nothing waited; None: never."""
    failures: list = field(default_factory=list)

    def lines(self):
        """Return the report as lines."""
        kinds, history = Counter(fault.kind for fault in self.faults), self.history
        yield f"seed {self.seed}: {self.seconds:.0f} s, {len(self.faults)} faults"
        yield from (f"  {kinds[kind]:4d}  {what}" for kind, what in KINDS.items() if kinds[kind])
        yield from (f"{count:6d}  {what}" for what, count in sorted(history.counts.items()))
        yield f"{sum(len(each.people) for each in history.taken):6d}  copies, {repeats(history)} to who had one"
        quiet = "never" if self.quiet_after is None else f"{self.quiet_after:.1f} s after the last fault"
        yield f"queues empty, and everybody served: {quiet} (at most {self.quiet_limit:g} s)"
        yield from (f"WRONG: {failure}" for failure in self.failures[:SHOWN])
        if self.failures[SHOWN:]:
            yield f"WRONG: {len(self.failures) - SHOWN} more"
        yield "verdict: WRONG" if self.failures else "verdict: nobody lost, nobody twice but for kills, nobody outside"


def run(folder, *, seed, seconds, every, pace, quiet_limit=QUIET_SECONDS, say=lambda line: None):
    """Let gateways live in a folder for so long, a fault every so many seconds; returns the report.

    `pace`: messages a second, of all senders; `say` is told each fault as it begins.
    """
    report = Report(seed, seconds, plan(seed, seconds=seconds, every=every), quiet_limit=quiet_limit)
    people, history = scene(PEOPLE), report.history
    with Organisations(folder, history, people, seed=seed, deferred=DEFERRED) as organisations:
        over = threading.Event()
        senders = [
            Sender(organisations, history, each, seed=seed, every=len(names) / pace, name=f"{each}{number}")
            for names in [[name for name in ORGANISATIONS for _ in range(SENDERS)]]
            for number, each in enumerate(names)
        ]
        mover, postmaster = Mover(organisations, history, people, seed=seed), Postmaster(organisations)
        with ThreadPoolExecutor(len(senders) + 2 + len(report.faults)) as threads:
            living = [threads.submit(each.live, over) for each in (*senders, mover)]
            healed, ended = threading.Event(), threading.Event()
            retrying = threads.submit(postmaster.live, ended)
            try:
                breaking = _break(organisations, report, threads, healed, say)
                last = time.monotonic()
                over.set()
                for each in (*breaking, *living):
                    each.result()
                organisations.defer_nobody()
                if _comes_about(lambda: _is_quiet(organisations, history, people)):
                    report.quiet_after = time.monotonic() - last
            finally:
                for event in (over, healed, ended):
                    event.set()
            retrying.result()
        _judge(organisations, report, people)
    return report


def _break(organisations, report, threads, healed, say):
    """Begin all faults when it is time; returns once the last is to end."""
    started, breaking = time.monotonic(), []

    def carry_out(fault):
        with getattr(organisations, fault.kind)(*fault.organisations):
            healed.wait(max(started + fault.ends - time.monotonic(), 0))

    for fault in report.faults:
        healed.wait(max(started + fault.begins - time.monotonic(), 0))
        say(str(fault))
        breaking.append(threads.submit(carry_out, fault))
    healed.wait(max(started + report.seconds - time.monotonic(), 0))
    return breaking


def _is_quiet(organisations, history, people):
    return all(each.waiting() == () for each in organisations.gateways.values()) and not lost(history, people)


def _judge(organisations, report, people):
    history, failures = report.history, report.failures
    if report.quiet_after is None or report.quiet_after > report.quiet_limit:
        failures.append(f"messages wait {report.quiet_limit:g} s after the last fault")
    if report.quiet_after is not None:
        failures += _who_gets_the_last(organisations, report, people)
    failed = {fault.kind for fault in report.faults}
    failures += faults(history, people, may_serve_twice=bool(failed & OF_NAME_SERVERS))
    kills = sum(fault.kind == "killed_gateway" for fault in report.faults)
    broken = sum(fault.kind in ("no_inbox", "stalled_inbox", "cut_connections") for fault in report.faults)
    if repeats(history) > KILL_LIMIT * (kills + broken):
        failures.append(f"{repeats(history)} copies to who had one, of {kills} kills and {broken} broken connections")


def _who_gets_the_last(organisations, report, people):
    """Send one more message to each list, and require that it reaches exactly the people whom `mail expand` names."""
    history, found = report.history, []
    for organisation, groups in LISTS_OF.items():
        sender = Sender(organisations, history, organisation, seed=report.seed, every=0, name=LAST)
        for group in groups:
            sender.send(_last(group), (group,))
    expanded = {group: organisations.gateways[HOMES[group]].expand(group) for group in HOMES}

    def got(group):
        return {person for name, person in history.copies() if name == _last(group)}

    if not _comes_about(lambda: _is_quiet(organisations, history, people) and _all_have(expanded, got)):
        found.append("the last messages do not come to all whom `mail expand` names")
    for group, whom in expanded.items():
        if got(group) != whom:
            wrong = f"{sorted(got(group) - whom)} got it, and {sorted(whom - got(group))} did not"
            found.append(f"{group} is not delivered as it is expanded: {wrong}")
    return found


def _last(group):
    return f"{LAST}-{group.partition('@')[0]}"


def _all_have(expanded, got):
    return all(whom <= got(group) for group, whom in expanded.items())


def _comes_about(condition):
    """Wait until something holds; returns whether it does, in the end."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (holds := condition()) and time.monotonic() < deadline:
        time.sleep(LOOK_SECONDS)
    return holds
