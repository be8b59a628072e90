"""Runs one seed: servers, nodes, and bursts of concurrent updates, with all checks after each burst."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from namegraph import (
    Committed,
    CreateGroup,
    NodeId,
    Reason,
    Refusal,
    RequestId,
    ServerCore,
    ServerId,
    Subnet,
    UpdateCommand,
    subnet_of,
)
from namegraph.state.wait_limits import WaitLimits
from namegraph.update.locality import names_in
from simulation.checks.cluster_invariants import check_all, check_quiet, check_settled
from simulation.checks.effect_check import EffectsCheck
from simulation.checks.partition_ledger import PartitionLedger
from simulation.checks.record_of_changes import check_record
from simulation.checks.rejected_arcs_check import check_told
from simulation.cluster.cluster import Cluster
from simulation.cluster.decision_order import Decisions
from simulation.cluster.fingerprint import Fingerprint
from simulation.cluster.networks import RandomNetwork, SentMessage
from simulation.faults.fault_plan import FaultPlan
from simulation.faults.permanent_loss import PermanentLoss
from simulation.faults.stale_disks import StaleDisks
from simulation.oracle.serial_model import ArcName, TrueGraph, TrueState, run_serially
from simulation.oracle.violation import InvariantViolatedError
from simulation.scenario.recording import record
from simulation.scenario.schedule import Scenario
from simulation.workload.clients import Population, populate, submit_burst
from simulation.workload.deliveries import Deliveries
from simulation.workload.memberships import MembershipQuestions
from simulation.workload.offline_joins import OfflineJoins
from simulation.workload.one_sided_leaves import OneSidedLeaves
from simulation.workload.ordered_reads import OrderedReads
from simulation.workload.recreated_groups import RecreatedGroups
from simulation.workload.resolvers import Resolvers

BURSTS_AT_MOST = 6

RESTART_SHARES = (0.0, 0.0, 0.002, 0.01, 0.05)
"""Shares of steps at which a server crashes and restarts. A seed draws one of them."""

OLD_COPIES_SHARE = 0.4
"""Share of seeds with faults at the end of which disks fail."""

NEVER_BACK_SHARE = 0.2
"""Share of the other seeds with faults at the end of which a server stays away.

The server stays away for good, or until the others are at rest.
"""

ABSENCE_LIMITS = (None, 1.0, 10.0, 50.0)
"""Absence limits of seeds with faults: the time after which servers keep no tombstones for an absent server."""

JOINS_THAT_WAIT_SHARE = 0.4
"""Share of seeds with faults whose clients join absent groups and processes, some of which never exist."""

CALM_UPDATES = 4
"""Number of updates after the last fault. None of them may be refused because of a fault."""

EXPECTED_REFUSALS = frozenset(
    {
        Reason.ALREADY_MEMBER,
        Reason.NOT_A_MEMBER,
        Reason.GROUP_EXISTS,
        Reason.GROUP_IN_USE,
        Reason.GROUP_NOT_FOUND,
        Reason.NAME_IN_USE,
        Reason.WRONG_KIND,
        Reason.DEADLINE_EXCEEDED,
    }
)


@dataclass(slots=True)
class Tally:
    """Counts of a run."""

    outcomes: Counter[str] = field(default_factory=Counter)
    messages: Counter[str] = field(default_factory=Counter)
    effects: Counter[str] = field(default_factory=Counter)
    walks: Counter[str] = field(default_factory=Counter)
    """Resolutions while updates were under way, with their walks and requests."""
    reads: Counter[str] = field(default_factory=Counter)
    """Ordered reads by answer."""
    troubles: Counter[str] = field(default_factory=Counter)
    deliveries: Counter[str] = field(default_factory=Counter)
    """Messages by outcome."""

    def add(self, other: Tally) -> None:
        """Add the counts of another run."""
        self.outcomes += other.outcomes
        self.messages += other.messages
        self.effects += other.effects
        self.walks += other.walks
        self.reads += other.reads
        self.troubles += other.troubles
        self.deliveries += other.deliveries


def run_seed(
    seed: int,
    *,
    servers: int | None = None,
    updates: int | None = None,
    faults: bool = False,
    messages: bool = False,
    composites: bool = False,
) -> Tally:
    """Run one seed. Raises `AssertionError` if any check fails. `servers`, `updates` None: the seed draws them."""
    run = SeedRun(seed, servers=servers, updates=updates, faults=faults, messages=messages, composites=composites)
    return run.run()


class SeedRun:
    """A seed that runs, with all that it draws."""

    def __init__(
        self,
        seed: int,
        *,
        servers: int | None = None,
        updates: int | None = None,
        faults: bool = False,
        messages: bool = False,
        composites: bool = False,
        wait_limits: WaitLimits | None = None,
    ) -> None:
        """Prepare a seed.

        `servers`, `updates`: None if the seed draws them.
        `wait_limits`: limits of the servers' waits for one another. None: they wait for ever.
        `faults`: True if links break, servers pause or stay away, and disks are slow.
        `messages`: True if clients send messages to groups, and listen.
        `composites`: True if clients rename groups, take names over and leave everywhere. False leaves older seeds as
        they were.
        """
        self._chance = chance = Random(seed)  # noqa: S311 - a seed must replay
        count = chance.randint(2, 6) if servers is None else servers
        subnets = [Subnet(f"s{number}.example") for number in range(count)]
        network = RandomNetwork(chance, is_wild=chance.random() < 0.7)
        self._restart_share = chance.choice(RESTART_SHARES)
        if faults:
            self._restart_share = 0.0
        self._cluster = Cluster(
            subnets,
            network,
            crashes=chance,
            restart_share=self._restart_share,
            own_parts_later=seed % 2 == 1,
            forgets_at_once=seed % 3 != 0,
            begun_limit=1 if seed % 4 == 0 else None,
            absence_limit=Random(f"limit of {seed}").choice(ABSENCE_LIMITS) if faults else None,  # noqa: S311 - as above
            wait_limits=wait_limits,
        )
        self._population = populate(chance, subnets, composites=composites)
        self._population.has_composites = composites
        self._arcs: dict[ArcName, int] = {}
        """Existing arcs with their costs."""
        self._groups: set[NodeId] = set(self._population.groups)
        self._updates = updates
        self._decisions = Decisions(self._cluster)
        own_chance = Random(seed)  # noqa: S311 - as above
        self._resolvers = Resolvers(self._cluster, self._decisions, self._population, own_chance)
        troubled = Random(f"troubles of {seed}")  # noqa: S311 - as above
        failing = Random(f"unwritable disks of {seed}")  # noqa: S311 - as above
        asking = Random(f"memberships of {seed}")  # noqa: S311 - as above
        self._memberships = MembershipQuestions(self._cluster, self._population, asking)
        self._troubles = FaultPlan(self._cluster, network, self._population, troubled, failing) if faults else None
        self._apart = PartitionLedger()
        copying = Random(f"old copies of {seed}")  # noqa: S311 - as above
        has_old_copies = faults and count > 1 and copying.random() < OLD_COPIES_SHARE
        self._stale_disks = StaleDisks(self._cluster, self._population, copying) if has_old_copies else None
        leaving_all = Random(f"never back of {seed}")  # noqa: S311 - as above
        has_lost = faults and count > 1 and not has_old_copies and leaving_all.random() < NEVER_BACK_SHARE
        self._permanent_loss = PermanentLoss(self._cluster, self._population, leaving_all) if has_lost else None
        reading = Random(f"reads of {seed}")  # noqa: S311 - as above
        self._reads = OrderedReads(self._cluster, self._population, reading, self._apart)
        leaving = Random(f"leaves apart of {seed}")  # noqa: S311 - as above
        self._one_sided_leaves = OneSidedLeaves(self._cluster, self._population, leaving, self._apart)
        making = Random(f"made anew of {seed}")  # noqa: S311 - as above
        self._recreated_groups = RecreatedGroups(self._cluster, self._population, making, self._apart)
        waiting = Random(f"joins that wait of {seed}")  # noqa: S311 - as above
        has_waiting = faults and waiting.random() < JOINS_THAT_WAIT_SHARE
        self._waiting = OfflineJoins(self._cluster, self._population, waiting, self._apart) if has_waiting else None
        telling = Random(f"messages of {seed}")  # noqa: S311 - as above
        self._deliveries = Deliveries(self._cluster, self._population, telling) if messages else None
        self._troubled: set[int] = set()
        """Tickets of updates that may be refused because a server was out of reach."""
        self._effects = EffectsCheck(self._cluster.servers)
        self._burst_begins: list[int] = []

    def run(self) -> Tally:
        """Run all bursts. Raises `AssertionError` if any check fails."""
        chance, cluster, population = self._chance, self._cluster, self._population
        create_groups(cluster, population)
        left = self._updates
        while (len(self._burst_begins) < chance.randint(1, BURSTS_AT_MOST)) if left is None else left > 0:
            size = chance.randint(2, 12)
            if left is not None:
                size = min(size, left)
                left -= size
            if self._troubles is None:
                self._run_burst(size)
                continue
            self._troubles.submit_burst()
            self._one_sided_leaves.submit_burst()
            self._recreated_groups.submit_burst()
            if self._waiting is not None:
                self._waiting.submit_burst()
            if self._stale_disks is not None:
                self._stale_disks.make_copies()
            self._run_burst(size)
            self._troubled.update(cluster.answers)
        if self._troubles is not None and self._stale_disks is not None:
            self._troubles.submit_burst()
            self._one_sided_leaves.submit_burst()
            self._stale_disks.make_copies()
            self._stale_disks.fail_disks(self._apart)
            self._run_burst(chance.randint(2, 12), may_go_back=True)
            self._troubled.update(cluster.answers)
        if self._troubles is not None and self._permanent_loss is not None:
            self._run_without(self._permanent_loss, self._troubles)
            if not self._permanent_loss.is_back_at_last:
                return self._tally()
        if self._troubles is not None:
            self._run_burst(CALM_UPDATES, may_go_back=self._stale_disks is not None)
            self._start_again()
        return self._tally()

    def take_fingerprint(self) -> Fingerprint:
        """Return the hash that takes the effects of all steps from now on."""
        self._cluster.fingerprint = fingerprint = Fingerprint()
        return fingerprint

    def cores(self) -> list[ServerCore]:
        """Return the cores of all servers, for further questions."""
        return list(self._cluster.servers.values())

    def restarts(self) -> int:
        """Return the number of crashes."""
        return self._cluster.restarts

    def _run_burst(self, size: int, *, may_go_back: bool = False) -> None:
        """Submit `size` updates, come to rest, and check.

        `may_go_back`: True if servers may lose state that they have told. Then earlier and later answers do not fit
        together.
        """
        cluster, population = self._cluster, self._population
        self._burst_begins.append(len(cluster.history))
        first_ticket = len(population.commands)
        self._apart.burst_begins()
        submit_burst(self._chance, cluster, population, self._arcs, updates=size)
        if self._deliveries is not None:
            self._deliveries.submit_burst()
        if not may_go_back:
            self._resolvers.submit_burst()
            self._memberships.submit_burst()
            if self._troubles is not None:
                self._reads.submit_burst()
        cluster.run(self._watch)
        self._check_burst(first_ticket, may_go_back=may_go_back)

    def _check_burst(self, first_ticket: int, *, may_go_back: bool = False) -> None:
        """Compare everything since `first_ticket`. Call this at rest, with all servers up."""
        cluster, population = self._cluster, self._population
        if self._troubles is not None:
            self._troubles.check_over()
        check_quiet(cluster.servers, population.commands, cluster.answers)
        committed = [
            ticket
            for ticket in population.commands
            if ticket >= first_ticket and isinstance(cluster.answers[ticket], Committed)
        ]
        in_order = sorted(filter(cluster.places.__contains__, committed), key=cluster.places.__getitem__)
        done = [population.commands[ticket].operations for ticket in in_order]
        self._apart.watch(cluster.sent)
        self._apart.note_done(done)
        if not may_go_back:
            graphs = self._decisions.take_graphs(population.commands)
            self._resolvers.check(graphs, self._apart)
            self._memberships.check(graphs, self._apart)
        state = self._compare()
        self._apart.come_to_rest(cluster.servers.values())
        if not may_go_back:
            self._apart.check_outcome(done, state.arcs)
        if self._troubles is not None and not may_go_back:
            self._reads.check()
            self._troubles.check_repeated(population.commands.values())
            if not self._apart.is_in_burst:
                self._troubles.tally["bursts in which nothing was apart"] += 1
                self._check_effects(first_ticket)
        if self._deliveries is not None:
            self._deliveries.check(TrueGraph(state.arcs))
        self._arcs, self._groups = state.arcs, state.groups
        if self._restart_share:
            self._start_again()

    def _check_effects(self, first_ticket: int) -> None:
        """Check the effects on loops that callers were told since this ticket. All servers must have known all arcs
        alike.

        A view that ends also ends what participants report about control.
        """
        cluster, tickets = self._cluster, self._population.commands
        watch = self._effects.check_loops if self._apart.has_new_view else self._effects.check
        commands = {ticket: command for ticket, command in tickets.items() if ticket >= first_ticket}
        run_serially(commands, cluster.answers, cluster.places, self._groups, watch, self._apart, self._arcs)

    def _run_without(self, never_back: PermanentLoss, troubles: FaultPlan) -> None:
        """Run one more burst with faults, after which a server is gone. It may come back once the others are at rest.

        Clients resolve and read nothing meanwhile, since a client of the lost server waits.
        """
        chance, cluster, population = self._chance, self._cluster, self._population
        self._burst_begins.append(len(cluster.history))
        first_ticket = len(population.commands)
        self._apart.burst_begins()
        troubles.submit_burst()
        never_back.lose()
        submit_burst(chance, cluster, population, self._arcs, updates=chance.randint(2, 12))
        if self._deliveries is not None:
            self._deliveries.submit_burst()
        cluster.run(self._watch)
        troubles.check_over()
        troubled = set(cluster.answers)
        state = self._compare_without(never_back)
        others = never_back.population_without()
        submit_burst(chance, cluster, others, never_back.arcs_without(state.arcs), updates=CALM_UPDATES)
        cluster.run(self._watch)
        self._compare_without(never_back)
        # Updates that the lost server may have decided keep their nodes uncertain.
        in_doubt = set().union(*(core.in_doubt_about for core in never_back.others().values()))
        for ticket in cluster.answers.keys() - troubled:
            answer = cluster.answers[ticket]
            if not (isinstance(answer, Refusal) and answer.reason is Reason.UNAVAILABLE):
                continue
            if in_doubt.isdisjoint(names_in(population.commands[ticket].operations)):
                raise InvariantViolatedError(f"an update of the others was refused: {answer.message}")
        troubles.tally["servers that were gone"] += 1
        if not never_back.is_back_at_last:
            state = self._compare_without(never_back)
            rejected = {
                (arc.parent, arc.child) for core in never_back.others().values() for arc, _ in core.suspended_arcs()
            }
            never_back.retire(self._watch)
            # The others compare rejected arcs again when they meet anew, and may know the kind of the child by then.
            agree_on(never_back.others(), state.arcs, never_back.arcs_without(rejected))
            never_back.check(state)
            if self._deliveries is not None:
                self._deliveries.check(TrueGraph({arc: state.arcs[arc] for arc in never_back.arcs_without(state.arcs)}))
        else:
            troubles.tally["servers that were back"] += 1
            troubles.end_now()
            cluster.bring_back(never_back.server)
            cluster.run(self._watch)
            self._check_burst(first_ticket)
        self._troubled.update(cluster.answers)

    def _compare_without(self, never_back: PermanentLoss) -> TrueState:
        """Compare the state of the other servers with the serial run of the answers."""
        cluster, population = self._cluster, self._population
        self._apart.watch(cluster.sent)
        never_back.note(self._apart)
        state = run_serially(population.commands, cluster.answers, cluster.places, population.groups, None, self._apart)
        others = never_back.others()
        agree_on(others, state.arcs, never_back.arcs_without(self._apart.arcs))
        never_back.check(state)
        return state

    def _watch(self) -> None:
        """Note the state after a step."""
        self._decisions.watch()
        if self._troubles is not None:
            self._apart.look(self._cluster.servers.values())

    def _compare(self, *, is_first: bool = True) -> TrueState:
        """Check everything against the serial run. Return its state, with the actual fate of arcs that were apart."""
        cluster, population, old_copies = self._cluster, self._population, self._stale_disks
        if old_copies is not None:
            old_copies.note(self._apart)
        # Servers that are apart form and break other loops than the serial run does.
        watch = self._effects.check if self._troubles is None and is_first else None
        state = run_serially(
            population.commands, cluster.answers, cluster.places, population.groups, watch, self._apart
        )
        if old_copies is not None:
            old_copies.check(state, self._apart)
            state.groups = old_copies.agree_on_groups(state.groups)
        check_settled(cluster.servers)
        agree_on(cluster.servers, state.arcs, self._apart.arcs)
        truth = TrueGraph(state.arcs)
        check_all(cluster.servers, truth, state.groups)
        check_told(cluster.servers, truth)
        for server, core in cluster.servers.items():
            if server not in cluster.on_old_disks:
                check_record(core, cluster.record_of_changes(server), with_kinds=self._troubles is None)
        return state

    def _start_again(self) -> None:
        """Restart every server from its disk, and check once more."""
        self._cluster.restart_all()
        self._cluster.run()
        self._compare(is_first=False)

    @property
    def sent(self) -> list[SentMessage]:
        """All messages so far."""
        return self._cluster.sent

    def recorded(self) -> Scenario:
        """Return a scenario of the run so far."""
        history = self._cluster.history
        ends = [*self._burst_begins[1:], len(history)]
        bursts = [history[begin:end] for begin, end in zip(self._burst_begins, ends, strict=True)]
        return record(self._cluster, self._population.groups, bursts)

    def _tally(self) -> Tally:
        cluster = self._cluster
        tally = Tally(messages=cluster.counts(), walks=self._resolvers.tally + self._memberships.tally)
        if self._deliveries is not None:
            tally.deliveries = self._deliveries.tally
        if self._troubles is not None:
            tally.troubles = self._troubles.tally + self._one_sided_leaves.tally + self._recreated_groups.tally
            if self._waiting is not None:
                tally.troubles += self._waiting.tally
            tally.reads = self._reads.tally
        for ticket, outcome in cluster.answers.items():
            if isinstance(outcome, Committed):
                tally.outcomes["committed"] += 1
                tally.effects.update(effect.kind.value for effect in outcome.effects)
                continue
            tally.outcomes[outcome.reason.value] += 1
            is_expected = outcome.reason in EXPECTED_REFUSALS
            if not is_expected and not (outcome.reason is Reason.UNAVAILABLE and ticket in self._troubled):
                raise InvariantViolatedError(f"an update was refused: {outcome.message}")
        return tally


def agree_on(servers: Mapping[ServerId, ServerCore], arcs: dict[ArcName, int], apart: Iterable[ArcName]) -> None:
    """Copy the fate of arcs whose ends were apart from the homes of their parents. The child's end is compared
    later.
    """
    for parent, child in apart:
        graph = servers[ServerId(subnet_of(parent))].graph
        above, below = graph.index.get(parent), graph.index.get(child)
        arc = None if above is None or below is None else graph.arc(above, below)
        if arc is None:
            arcs.pop((parent, child), None)
        else:
            arcs[parent, child] = arc.cost


def create_groups(cluster: Cluster, population: Population) -> None:
    """Create all groups, each at its home."""
    for number, group in enumerate(population.groups):
        ticket = -1 - number
        command = UpdateCommand(ticket, RequestId(f"create {group}"), (CreateGroup(group),))
        cluster.submit(ServerId(subnet_of(group)), command)
    cluster.run()
    for number in range(len(population.groups)):
        assert isinstance(cluster.answers.pop(-1 - number), Committed)
