"""Messages to groups in a simulated cluster: the clients of a burst, and the checks at rest.

    senders      send messages and datagrams, and close parcels
    endpoints    listen; `handing` gives them their messages
    recorder     records what servers make durable, and who is below what at each server
    queueing, policies, kept_in_memory    queue some messages elsewhere, set policies of groups, keep some in memory
    operators    replay or drop dead letters

Source: docs/protocol-messages.md, "What must hold of messages"; docs/testing.md, "The simulator".
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from random import Random

from delivery.model.events import (
    Accepted,
    Answer,
    DatagramSent,
    DeadLettersReplayed,
    DeliveryEvent,
    DeliveryRefused,
    DropDeadLetters,
    ReplayDeadLetters,
    Settled,
)
from delivery.server import Server, ServerEffects
from delivery.volatile.datagrams import Shown
from delivery.volatile.output import RingGrew, UnkeptAnswer
from namegraph import ServerId
from simulation.cluster.cluster import Cluster, Watcher
from simulation.cluster.networks import Errand
from simulation.history import recorded
from simulation.history.properties import check
from simulation.history.recorded import History
from simulation.oracle.serial_model import TrueGraph
from simulation.oracle.violation import InvariantViolatedError
from simulation.workload.clients import Population
from simulation.workload.endpoints import SimulatedEndpoints
from simulation.workload.handing import Handing
from simulation.workload.kept_in_memory import KeptInMemory
from simulation.workload.policies import PolicySetting
from simulation.workload.queueing import Queueing
from simulation.workload.readers import Readers
from simulation.workload.recorder import Recorder
from simulation.workload.senders import SimulatedSenders

FIRST_TICKET = 10_000_000
"""Lowest ticket of messages, above all tickets of updates and reads."""

SPREADS = (0.0, 5.0, 30.0)
"""Time spans within which the messages of a burst are sent. Each burst draws one."""

SHORT_LIVED_SHARE = 0.3
"""Share of runs in which messages are kept for a short time."""

KEPT_SECONDS = (20.0, 100.0, 400.0)

REPLAYED_SHARE = 0.6
DROPPED_SHARE = 0.1
"""Shares of servers whose dead letters are replayed or dropped, at each burst."""

HAS_QUEUES = True
"""True if some messages are queued at servers other than their origins. False leaves older seeds as they were."""

QUEUED_AT_MOST = 4
"""Limit on the queued messages of a burst."""

HAS_POLICIES = True
"""True if groups may have policies. False leaves older seeds as they were."""


class Deliveries(Watcher):
    """Clients of one cluster that send and listen, and the history of their messages."""

    def __init__(self, cluster: Cluster, population: Population, chance: Random) -> None:
        self._cluster, self._chance = cluster, chance
        self._history: list[recorded.Happening] = []
        self._ticket = FIRST_TICKET
        self.tally: Counter[str] = Counter()
        note, tally = self._history.append, self.tally
        submit, later, new_ticket = self._submit, self._later, self._new_ticket
        self._memory = KeptInMemory(cluster, chance, new_ticket)
        self._are_short_lived = chance.random() < SHORT_LIVED_SHARE
        self._backlog_seconds, self._log_seconds = chance.choice(KEPT_SECONDS), chance.choice(KEPT_SECONDS)
        self._senders = SimulatedSenders(
            cluster, population, chance, submit=submit, later=later, new_ticket=new_ticket, tally=tally
        )
        self._readers = Readers(cluster, population)
        self._handing = Handing(cluster, self._readers, self._memory, note=note, tally=tally)
        self._endpoints = SimulatedEndpoints(
            cluster,
            population,
            chance,
            senders=self._senders,
            readers=self._readers,
            handing=self._handing,
            submit=submit,
            later=later,
            new_ticket=new_ticket,
            note=note,
            tally=tally,
        )
        self._recorder = Recorder(
            cluster,
            population,
            readers=self._readers,
            memory=self._memory,
            sends=self._senders.sends,
            note=note,
            tally=tally,
        )
        pass_on = self._senders.pass_on
        self._queueing = Queueing(cluster, chance, send=pass_on, later=later, new_ticket=new_ticket, tally=tally)
        self._policies = (
            PolicySetting(cluster, chance, submit=submit, send=pass_on, new_ticket=new_ticket, tally=tally)
            if HAS_POLICIES
            else None
        )
        cluster.watcher = self
        for core in cluster.servers.values():
            self.starts(core)

    def submit_burst(self) -> None:
        """Let clients send and listen within a short time."""
        chance, sets = self._chance, self._senders.sets
        self._senders.choose_sets()
        spread = chance.choice(SPREADS)
        self._memory.submit_burst(sets, spread)
        for _ in range(chance.randint(0, QUEUED_AT_MOST) if HAS_QUEUES and sets else 0):
            self._later(partial(self._queueing.submit, chance.choice(sets)), spread)
        if self._policies is not None:
            self._later(partial(self._policies.submit_burst, sets), spread)
        self._endpoints.submit_burst(spread)
        self._senders.submit_burst(spread)
        for server in self._cluster.servers:
            for kind, share in ((ReplayDeadLetters, REPLAYED_SHARE), (DropDeadLetters, DROPPED_SHARE)):
                if chance.random() < share:
                    command = kind(self._new_ticket(), None)
                    delay = chance.random() * chance.choice(KEPT_SECONDS)
                    self._cluster.network.put(server, command, delay=delay)

    # -- what servers do

    def starts(self, core: Server) -> None:
        """Set the retention of a server that starts. A server on an older disk has the mailboxes of that disk."""
        if core.server in self._cluster.on_old_disks and not self._recorder.has_gone_back(core.server):
            self._endpoints.goes_back(core.server)
            self._recorder.note_went_back(core)
            self._handing.goes_back(core.server)
            self._senders.send_before_told(core.server)
        elif self._memory.has_started(core.server):
            self._history.append(recorded.Restarted(self._cluster.instant, core.server))
        self._memory.starts(core, self._recorder.note_given_up, partial(self._recorder.note_in_memory, core.server))
        if self._are_short_lived:
            core.delivery.giving_up.limit_seconds = self._backlog_seconds
            core.delivery.log.limit_seconds = self._log_seconds

    def answered(self, server: ServerId, answers: list[Answer]) -> None:
        """Pass the answers of a server to senders and endpoints."""
        for answer in answers:
            self._queueing.answered(answer)
            if self._policies is not None:
                self._policies.answered(server, answer)
            self._senders.answered(answer)
            self._endpoints.answered(server, answer)
            if isinstance(answer, DeliveryRefused):
                self.tally[f"refused {answer.refusal.reason.value}"] += 1
            elif isinstance(answer, DeadLettersReplayed):
                self.tally["replayed"] += answer.replayed

    def let_out(self, server: ServerId, unkept: Shown | RingGrew | UnkeptAnswer, instant: int) -> None:
        """Note output of a server that it does not store, and show datagrams to the endpoints that listen now."""
        match unkept:
            case RingGrew():
                self._memory.ring_through[server] = unkept.through
            case Accepted():
                self._recorder.note_accepted(server, unkept, instant)
                self.answered(server, [unkept])
            case Settled():
                self.answered(server, [unkept])
            case DatagramSent():
                send = self._senders.sends[unkept.ticket]
                if self._policies is not None:
                    self._policies.let_out(unkept)
                self.tally["datagrams sent"] += 1
                sent = recorded.DatagramLetOut(instant, unkept.message_id, send.targets, send.message.payload)
                self._history.append(sent)
            case Shown():
                self._endpoints.shown(server, unkept)

    def written(self, server: ServerId, effects: ServerEffects, instant: int) -> None:
        """Record what the effects of a step made durable."""
        if effects.records.protocol or effects.records.log or effects.answers:
            self._queueing.written(server, effects.records.protocol)
            self._recorder.written(server, effects, instant)

    def stepped(self) -> None:
        """Record changes of membership and newly settled messages after a step."""
        if self._policies is not None:
            self._policies.watch()
        self._recorder.note_apart(self._memory.apart())
        for ids in self._memory.settled():
            self._recorder.note_settled(ids)
        self._recorder.watch(self._senders.sets)

    # -- what is judged

    def check(self, truth: TrueGraph) -> None:
        """Let endpoints read to the end, and judge the history and the memberships. Call this at rest."""
        for targets in self._senders.sets:
            self._readers.check(targets, truth)
        # The last write may have settled a message, and no step came after it.
        self.stepped()
        self._endpoints.read_to_the_end()
        self._recorder.note_lost()
        self._endpoints.check()
        self._queueing.check()
        if self._policies is not None:
            self._policies.check()
        violations = check(History.gathered(self._history), is_at_rest=True)
        if violations:
            raise InvariantViolatedError(f"messages: {violations[0]}")
        for server, core in self._cluster.servers.items():
            for each in (core.delivery.origin, core.delivery.in_memory.origin):
                if server not in self._cluster.down and each.parcels.unsettled:
                    raise InvariantViolatedError(f"messages: {server} has parcels that are not settled")
            if server not in self._cluster.down and core.delivery.dead_letters.replayed_to():
                raise InvariantViolatedError(f"messages: {server} has dead letters under way")
            if server not in self._cluster.down:
                self._check_forgotten(server, core)

    def _check_forgotten(self, server: ServerId, core: Server) -> None:
        """Require that each server remembers who got a parcel only until it is settled and no dead letter."""
        for arrivals in (core.delivery.arrivals, core.delivery.in_memory.arrivals):
            for origin, *parcel in arrivals.remembered():
                there = self._cluster.servers[origin]
                if origin not in self._cluster.down and (*parcel,) not in there.delivery.dead_letters.parcels():
                    raise InvariantViolatedError(f"messages: {server} still remembers who got {parcel} of {origin}")

    # -- what the others need

    def _submit(self, server: ServerId, event: DeliveryEvent) -> None:
        self._cluster.network.put(server, event, delay=self._chance.expovariate(1.0))

    def _later(self, run: partial[None], mean: float) -> None:
        delay = self._chance.expovariate(1 / mean) if mean else 0.0
        self._cluster.network.put(ServerId(""), Errand(run), delay=delay)

    def _new_ticket(self) -> int:
        self._ticket += 1
        return self._ticket
