"""Faults of servers, links and disks while updates are under way, drawn from a seed.

Each seed has a few kinds of trouble, alone or together. In each burst of updates some troubles begin and end at random
times. After the last trouble has ended, the cluster must come to rest by itself. Disks that fail for good are not among
these troubles (`stale_disks`): answers before such a failure do not fit answers after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from random import Random

from namegraph import Lane, Outcome, Reason, Refusal, ServerId, UpdateCommand
from simulation.cluster.cluster import NOTHING_DURABLE, WORLD, Cluster
from simulation.cluster.connections import BreakingConnections
from simulation.cluster.networks import Channel, Errand, RandomNetwork
from simulation.faults.write_failures import WriteFailures
from simulation.oracle.violation import InvariantViolatedError
from simulation.workload.clients import Population

TROUBLES_AT_MOST = 12
"""Limit on the troubles of each burst."""

SPREADS = (5.0, 30.0, 100.0)
"""Time spans within which troubles begin."""

LASTING = (1.0, 5.0, 30.0, 100.0)
"""Mean durations of troubles."""

FLAPS_AT_MOST = 8
"""Limit on the breaks of a flapping link."""

FRAGILE_SHARE = 0.2
"""Share of the steps of a fragile server in which it crashes."""

NOTHING_DURABLE_SHARE = 0.3
"""Share of crashes within a step that come before the step is durable."""

WRITES_TAKE = (0.5, 3.0, 20.0)
"""Mean durations of a write on a slow disk."""

UNWRITABLE_SHARE = 0.3
"""Share of bursts in which a disk takes no writes for a while."""

UNWRITABLE_AT_MOST = 3
"""Limit on the unwritable disks of such a burst."""

KILLED_SHARE = 0.4
"""Share of servers with a slow disk that crash with steps waiting for it."""

ASKED_AGAIN_SHARE = 0.5
"""Share of updates refused for a server out of reach that clients ask for again."""

AT_REST_WITHIN = 4_000.0
"""Time after the last trouble within which the cluster comes to rest.

A message takes 1 on average, 5 on a slow channel, and 100 if it is also very late. An update needs six messages in a
row. The updates of a burst wait for one another, and for the servers to agree on a view, which takes some more.
"""


class Trouble(Enum):
    """Kinds of trouble."""

    CUT = "two-way cut"
    ONE_WAY = "one-way loss"
    SPLIT = "partition"
    FLAPS = "flapping link"
    PAUSE = "pause"
    CRASH = "crash"
    FRAGILE = "crash within a step"
    SLOW_DISK = "slow disk"
    UNWRITABLE_DISK = "unwritable disk"


class FaultPlan:
    """The troubles of one seed."""

    def __init__(
        self,
        cluster: Cluster,
        network: RandomNetwork,
        population: Population,
        chance: Random,
        disk_chance: Random,
    ) -> None:
        """Create the plan. `disk_chance`: generator of the unwritable disks. Other troubles do not depend on these."""
        self._cluster = cluster
        self._network = network
        self._population = population
        self._chance = chance
        self._links = BreakingConnections(cluster, network, chance)
        self._disk_chance = disk_chance
        self._unwritable = WriteFailures(cluster, network, self._links, disk_chance)
        others = [kind for kind in Trouble if kind is not Trouble.UNWRITABLE_DISK]
        kinds = [kind for kind in others if len(cluster.servers) > 1 or kind not in _OF_LINKS]
        self._kinds = chance.sample(kinds, chance.choice([1, 3, len(kinds), len(kinds)]))
        self._fragile: Counter[ServerId] = Counter()
        self._over_at = 0.0
        self.is_on = False
        self.tally: Counter[str] = Counter()
        cluster.connections = self._links
        cluster.crash_within = self._crash_within
        cluster.down_for = self._down_for
        cluster.on_answer = self._answered

    def submit_burst(self) -> None:
        """Let troubles begin and end within a random time from now."""
        chance = self._chance
        self.is_on = True
        self._over_at = self._cluster.now
        spread = chance.choice(SPREADS)
        for _ in range(chance.choice([2, 5, TROUBLES_AT_MOST])):
            kind = chance.choice(self._kinds)
            self._at(chance.random() * spread, partial(self._begin, kind))
        self._submit_unwritable(spread)

    def _submit_unwritable(self, spread: float) -> None:
        chance = self._disk_chance
        if chance.random() >= UNWRITABLE_SHARE:
            return
        for _ in range(chance.randint(1, UNWRITABLE_AT_MOST)):
            server, lasts = chance.choice(list(self._cluster.servers)), _some_time(chance)
            self._at(chance.random() * spread, partial(self._begin_unwritable, server, lasts))

    def _begin_unwritable(self, server: ServerId, lasts: float) -> None:
        self.tally[Trouble.UNWRITABLE_DISK.value] += 1
        self._unwritable.begin(server, lasts)
        self._ends_after(lasts)

    def check_over(self) -> None:
        """Raise if the cluster took too long to come to rest, or keeps letters. Call this at rest."""
        after = self._cluster.now - self._over_at
        if after > AT_REST_WITHIN:
            raise InvariantViolatedError(f"stuck: it took {after:.0f} after the last trouble")
        self.is_on = False
        there = [server for server in self._cluster.servers if server not in self._cluster.gone]
        for server in there:
            core = self._cluster.servers[server]
            for other in there:
                for lane in Lane:
                    kept = list(core.channels_of(lane).kept(other))
                    if kept:
                        raise InvariantViolatedError(f"stuck: {server} keeps {len(kept)} {lane.name} to {other}")
        self.tally["outcomes learnt later"] += len(self._cluster.unknown)
        self._cluster.learn_unknown()

    def end_now(self) -> None:
        """End the last trouble at this instant. A server that was gone is brought back."""
        self._over_at = self._cluster.now

    def check_repeated(self, commands: Iterable[UpdateCommand]) -> None:
        """Require that a repeated request gets its first outcome, or is unknown if it had no effect."""
        for command in commands:
            told, now = self._cluster.answers[command.ticket], self._cluster.outcome_now(command).outcome
            if now != told and not (_left_no_trace(told) and (_left_no_trace(now) or self._was_asked_again(command))):
                raise InvariantViolatedError(f"request {command.request_id}: {told} was told, and is {now}")

    def _was_asked_again(self, command: UpdateCommand) -> bool:
        return any(
            other.request_id == command.request_id and ticket != command.ticket
            for ticket, other in self._population.commands.items()
        )

    def _begin(self, kind: Trouble) -> None:
        self.tally[kind.value] += 1
        chance, lasts = self._chance, self._some_time()
        servers = list(self._cluster.servers)
        server = chance.choice(servers)
        match kind:
            case Trouble.PAUSE:
                self._network.freeze(server, self._cluster.now + lasts)
                self._links.paused(server)
                self._ends_after(lasts)
            case Trouble.CRASH:
                self._cluster.crash(server, down_for=lasts)
                self._ends_after(lasts)
            case Trouble.FRAGILE:
                self._fragile[server] += 1
                self._at(lasts, partial(self._fragile.subtract, [server]))
            case Trouble.SLOW_DISK:
                queue = self._cluster.queues[server]
                queue.mean_delay = chance.choice(WRITES_TAKE)
                self._at(lasts, partial(self._end_slow_disk, server))
            case Trouble.FLAPS:
                one, other = chance.sample(servers, 2)
                begins = 0.0
                for _ in range(chance.randint(2, FLAPS_AT_MOST)):
                    self._cut(_both_ways([one], [other]), begins, lasts / FLAPS_AT_MOST)
                    begins += self._some_time() / FLAPS_AT_MOST
            case Trouble.CUT:
                one, other = chance.sample(servers, 2)
                self._cut(_both_ways([one], [other]), 0.0, lasts)
            case Trouble.ONE_WAY:
                self._cut([Channel(*chance.sample(servers, 2))], 0.0, lasts)
            case Trouble.SPLIT:
                chance.shuffle(servers)
                place = chance.randint(1, len(servers) - 1)
                self._cut(_both_ways(servers[:place], servers[place:]), 0.0, lasts)

    def _end_slow_disk(self, server: ServerId) -> None:
        if self._chance.random() < KILLED_SHARE:
            self._cluster.crash(server, down_for=self._down_for())
        self._cluster.queues[server].mean_delay = 0.0

    def _cut(self, channels: list[Channel], begins: float, lasts: float) -> None:
        self._at(begins, partial(self._links.cut, channels))
        self._at(begins + lasts, partial(self._links.mend, channels))

    def _crash_within(self, server: ServerId) -> float | None:
        chance = self._chance
        if not self._fragile[server] or chance.random() >= FRAGILE_SHARE:
            return None
        self.tally["crashes within a step"] += 1
        return NOTHING_DURABLE if chance.random() < NOTHING_DURABLE_SHARE else chance.random()

    def _down_for(self) -> float:
        lasts = self._some_time()
        self._ends_after(lasts)
        return lasts

    def _answered(self, ticket: int, outcome: Outcome) -> None:
        """Let a client that is told of a server out of reach ask again, by chance, under the same request id."""
        chance, commands = self._chance, self._population.commands
        if ticket not in commands or not self.is_on or not _is_unavailable(outcome):
            return
        if chance.random() >= ASKED_AGAIN_SHARE:
            return
        first = commands[ticket]
        again = UpdateCommand(len(commands), first.request_id, first.operations)
        commands[again.ticket] = again
        self.tally["asked again"] += 1
        self._cluster.submit(self._cluster.asked_at(ticket), again, delay=self._some_time())

    def _some_time(self) -> float:
        return _some_time(self._chance)

    def _at(self, delay: float, run: Callable[[], None]) -> None:
        self._cluster.send_errand(WORLD, Errand(run), delay=delay)
        self._ends_after(delay)

    def _ends_after(self, delay: float) -> None:
        self._over_at = max(self._over_at, self._cluster.now + delay)


def _some_time(chance: Random) -> float:
    return chance.expovariate(1.0) * chance.choice(LASTING)


_OF_LINKS = frozenset({Trouble.CUT, Trouble.ONE_WAY, Trouble.SPLIT, Trouble.FLAPS})


def _both_ways(some: Iterable[ServerId], others: Iterable[ServerId]) -> list[Channel]:
    others = list(others)
    return [channel for one in some for other in others for channel in (Channel(one, other), Channel(other, one))]


def _is_unavailable(outcome: Outcome) -> bool:
    return isinstance(outcome, Refusal) and outcome.reason is Reason.UNAVAILABLE


def _left_no_trace(outcome: Outcome) -> bool:
    return isinstance(outcome, Refusal) and outcome.reason in (Reason.UNAVAILABLE, Reason.DEADLINE_EXCEEDED)
