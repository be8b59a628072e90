"""Clients that resolve groups and sets of groups while updates are under way, and the check of their answers.

A real `DistributedResolution` runs at the home of the group, or at any server for a set. Questions and answers travel
with delays of their own, so that they overtake one another and the messages of updates. A few questions get lost, and a
few callers are in a hurry. A question fails where a server is away or a channel is cut. An answer waits until every
step that it rests on is durable.

An answer on which two walks agree must be true at the instant at which the second walk began. An answer of one server
alone must be true at the instant at which the server gave it. Excepted are nodes below groups reported as unreachable.
Every resolution must end once all else is at rest. After a while a client asks again for the bases of an answer. Where
they hold, the answer must be true at the instant of that question.

Source: docs/protocol-updates.md, "Questions over several servers".
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random

from namegraph import (
    ArcState,
    JoinArc,
    NodeId,
    Reason,
    RefusedError,
    ServerCore,
    ServerId,
    Target,
    TargetSet,
    is_plain,
    named_in,
    only,
    subnet_of,
)
from resolver.parts import PartAnswer, PartRequest, Parts
from resolver.plans import PlanCache
from resolver.resolution import AgreedWalk, Ask, DistributedResolution, ResolvedIds, Step, WalkAgain
from resolver.walk_memory import Originator, WalkMemory
from simulation.checks.partition_ledger import PartitionLedger
from simulation.cluster.cluster import WORLD, Cluster
from simulation.cluster.decision_order import Decisions
from simulation.cluster.disk import HeldAnswer
from simulation.cluster.networks import SLOWNESS, Errand
from simulation.oracle.serial_model import ArcName, TrueGraph
from simulation.oracle.violation import InvariantViolatedError
from simulation.workload.clients import Population, is_foreign

RESOLUTIONS_AT_MOST = 12
"""Limit on the resolutions of each burst of updates."""

HASTY_SHARE = 0.05
"""Share of resolutions whose caller may not wait for two walks that agree."""

LOOKS_FOR_DOUBTS, SECONDS_BETWEEN_LOOKS = 30, 10.0
ASKED_IN_DOUBT_AT_MOST = 4
"""Limits of the search for servers in doubt in each burst: the number of looks, and the number of resolved groups.

A server is in doubt if it was cut off from the coordinator of an update that it was ready for. Clients then resolve its
groups that the update was to change.
"""

SETS_SHARE = 0.4
"""Share of resolutions of several groups, or of one group with exceptions."""

TARGETS_AT_MOST, EXCEPTIONS_AT_MOST = 3, 2

GUEST_SHARE = 0.5
"""Share of sets whose groups have one foreign process in common."""

WITH_STEPS_SHARE = 0.2
LOST_SHARE = 0.01
"""Share of requests that get lost."""

CONFIRMED_AFTER = (0.0, 3.0, 30.0)
"""Mean times until a client asks whether an answer still holds."""


@dataclass(frozen=True, slots=True)
class _Told:
    targets: TargetSet
    instant: int
    """Instant at which the last walk began."""
    has_walk: bool
    """True if steps were asked for, and every server could be asked."""
    resolved: ResolvedIds


@dataclass(frozen=True, slots=True, eq=False)
class _Shell:
    core: ServerCore
    parts: Parts
    memory: WalkMemory


class Resolvers:
    """Clients of one cluster that resolve, and the walk memory of its servers."""

    def __init__(self, cluster: Cluster, decisions: Decisions, population: Population, chance: Random) -> None:
        self.decisions = decisions
        self.chance = chance
        self.tally: Counter[str] = Counter()
        self._cluster = cluster
        self._population = population
        self._shells: dict[ServerId, _Shell] = {}
        self._under_way = 0
        self._asked_in_doubt = 0
        self._told: list[_Told] = []
        # A generator of its own leaves all other events as if no answer were confirmed.
        self.own_chance = Random(repr(chance.getstate()[1][:4]))  # noqa: S311 - a seed must replay

    def submit_burst(self) -> None:
        """Let clients resolve some groups within a short time."""
        chance = self.chance
        spread = chance.choice([1, 5, 30, 100])
        for _ in range(chance.randint(0, RESOLUTIONS_AT_MOST)):
            targets = self._some_targets()
            if is_plain(targets):
                root = ServerId(subnet_of(targets[0].name))
            else:
                root = chance.choice(sorted(self._cluster.servers))
            asking = _ClientQuestion(self, targets, root)
            begins = chance.random() * spread
            self.later(root, asking.begin, delay=begins)
            self._under_way += 1
            if chance.random() < HASTY_SHARE:
                self.later(root, asking.expire, delay=begins + chance.expovariate(0.1))
        self._asked_in_doubt = 0
        if self._cluster.connections is not None:
            for number in range(LOOKS_FOR_DOUBTS):
                self._cluster.send_errand(WORLD, Errand(self._ask_in_doubt), delay=number * SECONDS_BETWEEN_LOOKS)

    def _some_targets(self) -> TargetSet:
        chance, groups = self.chance, self._population.groups
        if chance.random() >= SETS_SHARE:
            return only(chance.choice(groups))
        if chance.random() < GUEST_SHARE:
            groups = self._groups_of_a_guest() or groups
        found: dict[Target, None] = {}
        for _ in range(chance.randint(1, TARGETS_AT_MOST)):
            exceptions = {chance.choice(groups) for _ in range(chance.randint(0, EXCEPTIONS_AT_MOST))}
            found[Target(chance.choice(groups), tuple(sorted(exceptions)))] = None
        return tuple(found)

    def _groups_of_a_guest(self) -> list[NodeId]:
        """Return the groups that some foreign process has ever joined: servers differ in what they know of such a
        process.
        """
        groups = dict.fromkeys(self._population.groups)
        joined: dict[NodeId, dict[NodeId, None]] = {}
        for command in self._population.commands.values():
            for operation in command.operations:
                if isinstance(operation, JoinArc) and operation.parent in groups and is_foreign(operation.child):
                    joined.setdefault(operation.child, {})[operation.parent] = None
        return list(joined[self.chance.choice(sorted(joined))]) if joined else []

    def _ask_in_doubt(self) -> None:
        """Let a client resolve a group of a server in doubt, if there is one, before the server meets the
        coordinator.
        """
        found = [
            (server, name)
            for server, core in self._cluster.servers.items()
            if not self.is_down(server)
            for name in core.in_doubt_about
            if name in self._population.groups and ServerId(subnet_of(name)) == server
        ]
        if found and self._asked_in_doubt < ASKED_IN_DOUBT_AT_MOST:
            self._asked_in_doubt += 1
            self._under_way += 1
            self.tally["of what is in doubt"] += 1
            server, name = self.chance.choice(found)
            self.later(server, _ClientQuestion(self, only(name), server).begin)

    def shell(self, server: ServerId) -> _Shell:
        """Return the shell of a server: its memory, which a crash clears."""
        core = self._cluster.servers[server]
        shell = self._shells.get(server)
        if shell is None or shell.core is not core:
            parts = Parts(core, PlanCache(core), start=str(self._cluster.restarts))
            shell = self._shells[server] = _Shell(core, parts, WalkMemory())
        return shell

    def later(self, server: ServerId, run: Callable[[], None], *, delay: float | None = None) -> None:
        """Schedule a call at a server. Without `delay`, it comes as soon as the network has carried it there."""
        if delay is None:
            delay = self.chance.expovariate(1.0) * self.chance.choice(SLOWNESS)
        self._cluster.send_errand(server, Errand(run), delay=delay)

    def reaches(self, one: ServerId, other: ServerId) -> bool:
        """True if a question or an answer gets from one server to another."""
        connections = self._cluster.connections
        is_there = other not in self._cluster.down
        return is_there and (connections is None or connections.carries(one, other))

    def is_down(self, server: ServerId) -> bool:
        """True if a server is down."""
        return server in self._cluster.down

    def when_durable(self, server: ServerId, let_out: Callable[[], None], *, lose: Callable[[], None]) -> None:
        """Release a result once everything known at a server is durable. If the server crashes first, call `lose`."""
        self._cluster.when_durable(server, HeldAnswer(let_out, lose))

    def told(self, told: _Told) -> None:
        """Note that a resolution has ended."""
        self._under_way -= 1
        self._told.append(told)

    def confirm(self, targets: TargetSet, root: ServerId, bases: Mapping[ServerId, str], resolved: ResolvedIds) -> None:
        """Let a client find out, after a while, whether a complete answer still holds."""
        if not all(bases.values()):
            self.tally["without a basis"] += 1
            return
        own = self.own_chance
        mean = own.choice(CONFIRMED_AFTER)
        self._under_way += 1
        confirming = _Confirming(self, targets, root, bases, resolved)
        self.later(root, confirming.begin, delay=own.expovariate(1 / mean) if mean else 0.0)

    def not_confirmed(self) -> None:
        """Note that a client could not find out whether an answer still holds."""
        self._under_way -= 1
        self.tally["not confirmed"] += 1

    def refused(self, targets: TargetSet, error: RefusedError, *, is_over: bool) -> None:
        """Note that the group does not exist now. Raises `InvariantViolatedError` if it must exist."""
        if self._population.made_anew.isdisjoint(named_in(targets)):
            raise InvariantViolatedError(f"resolution of {_text_of(targets)}: {error}") from error
        self._under_way -= is_over
        self.tally["of no group"] += is_over

    def check(self, graphs: Sequence[tuple[int, dict[ArcName, int]]], apart: PartitionLedger) -> None:
        """Compare all answers since the last check with the graphs of that time (`Decisions.take_graphs`).

        A suspended arc may have been left at its other end by then, and no walk crosses it. A server may or may not
        have heard of decisions made while apart.
        """
        if self._under_way:
            raise InvariantViolatedError(f"{self._under_way} resolutions do not end")
        instants = [instant for instant, _ in graphs]
        at_any_time = {arc for _, arcs in graphs for arc in arcs}
        for told in self._told:
            _, arcs = graphs[bisect_right(instants, told.instant) - 1]
            self._compare(told, arcs, at_any_time, apart)
        self._told = []

    def _compare(
        self, told: _Told, arcs: dict[ArcName, int], at_any_time: set[ArcName], apart: PartitionLedger
    ) -> None:
        resolved, targets = told.resolved, told.targets
        uncertain = apart.decided_apart
        # An incomplete answer may also miss changes that were made out of reach of the server.
        possible = apart.arcs | at_any_time if resolved.unreachable else uncertain
        truth = TrueGraph({**dict.fromkeys(possible, 0), **arcs})
        certain = TrueGraph({arc: cost for arc, cost in arcs.items() if arc not in uncertain})
        ends = {child for _, child in apart.arcs}
        if resolved.in_transition:
            self.tally["in transition"] += 1
            return
        self.tally["unreachable" if resolved.unreachable else "complete"] += 1
        self.tally["of sets"] += not is_plain(targets)
        expected = set[NodeId]().union(*_members_by_target(targets, truth, excepted_in=certain))
        sure = set[NodeId]().union(*_members_by_target(targets, certain, excepted_in=truth))
        found = {*resolved.processes, *resolved.groups}
        # The home of a group reports processes of an absent server as the group has them.
        missed, extra = sure - found, found - expected - ends.intersection(resolved.processes)
        hidden = truth.below(resolved.unreachable) if resolved.unreachable else set()
        if any(target.excluding for target in targets):
            # A member of an exception that could not be entered is not known to be excepted.
            extra -= hidden
        _require(told, missed <= hidden and not extra, f"missed {sorted(missed)}, met {sorted(extra)}")
        may_be_named = truth.below(named_in(targets)) | ends
        _require(told, set(resolved.unreachable) <= may_be_named, f"unreachable {resolved.unreachable}")
        created = self._population.made_anew.union(self._population.spare_groups).intersection(resolved.groups)
        # A node joined while no such group existed is a process of that name.
        joined = self._population.made_anew.intersection(resolved.processes)
        groups = found.intersection([*self._population.groups, *created]) - joined
        _require(told, resolved.groups == tuple(sorted(groups)), "groups are not sorted or not once")
        _require(told, resolved.processes == tuple(sorted(found - groups)), "processes are not sorted or not once")
        if not resolved.unreachable and not uncertain:
            if is_plain(targets):
                duplicates = self._duplicates(targets[0].name, truth)
                _require(told, resolved.duplicates == duplicates, f"{resolved.duplicates} duplicates, not {duplicates}")
            else:
                firsts = _firsts(_members_by_target(targets, truth, excepted_in=truth))
                is_first = [*resolved.process_firsts, *resolved.group_firsts] == [
                    firsts[name] for name in (*resolved.processes, *resolved.groups)
                ]
                _require(told, is_first, "another target is the first one of a member")
        if told.has_walk:
            heads = [step.head for step in resolved.walk]
            left_out = found - {targets[0].name} - set(heads)
            is_right = len(heads) == len(set(heads)) and found.issuperset(heads)
            # The walk of an incomplete answer may end before a node that could not be entered.
            is_right = is_right and (left_out <= ends or bool(resolved.unreachable))
            _require(told, is_right, f"its walk leads to {heads}")
            for step in resolved.walk:
                is_there = (step.tail, step.head) in truth.arcs
                if step.state is ArcState.SHADOW:
                    is_there = is_there or (step.head, step.tail) in truth.arcs
                _require(told, is_there, f"its walk has the step {step}")

    def _duplicates(self, originator: NodeId, truth: TrueGraph) -> int:
        """Return the number of additional servers that report foreign processes, over all these processes."""
        reached = truth.below([originator])
        some = next(iter(self._cluster.servers.values()))
        foreign = [node for node in reached if not some.knows_subnet_of(node)]
        return sum(len({subnet_of(p) for p in truth.parents[node] if p in reached}) - 1 for node in foreign)


def _members_by_target(targets: TargetSet, graph: TrueGraph, *, excepted_in: TrueGraph) -> list[set[NodeId]]:
    """Return the members of each target in `graph` that no exception of the target has in `excepted_in`."""
    return [
        _members(graph, target.name).difference(*(_members(excepted_in, name) for name in target.excluding))
        for target in targets
    ]


def _members(graph: TrueGraph, group: NodeId) -> set[NodeId]:
    below = graph.below([group])
    return below if len(graph.loop_of(group)) > 1 else below - {group}


def _firsts(members_by_target: list[set[NodeId]]) -> dict[NodeId, int]:
    """Return the position of the first target of each member."""
    found: dict[NodeId, int] = {}
    for place, members in enumerate(members_by_target):
        for name in members:
            found.setdefault(name, place)
    return found


def _text_of(targets: TargetSet) -> str:
    return ", ".join(
        target.name + (f" less {' and '.join(target.excluding)}" if target.excluding else "") for target in targets
    )


class _ClientQuestion:
    """One client's resolution, driven as the shell of the root server drives it."""

    def __init__(self, resolvers: Resolvers, targets: TargetSet, root: ServerId) -> None:
        """Create a resolution. `root`: the home of the group, or the server that is asked for a set."""
        self._resolvers = resolvers
        self._targets = targets
        self._home = root
        self._with_steps = resolvers.chance.random() < WITH_STEPS_SHARE and is_plain(targets)
        self._shell = resolvers.shell(root)
        self._resolution = self._begun(None)
        self._instant = 0
        self._heard: dict[ServerId, int] = {}
        """Servers that answered in the last walk, with the instant of each answer."""
        self._bases: dict[ServerId, str] = {}
        """Basis of each server's answer, as sent with the answer."""
        self._is_held = False
        """True if the answer is known, and waits until everything it rests on is durable."""
        self._is_over = False

    def begin(self) -> None:
        """Begin at the server, for the first time or after the server has crashed."""
        if self._is_over:
            return
        if self._resolvers.is_down(self._home):
            self._resolvers.later(self._home, self.begin)
            return
        self._shell = self._resolvers.shell(self._home)
        key = self._key()
        remembered = None if key is None else self._shell.memory.recall(key)
        self._resolution = self._begun(remembered)
        self._walk(self._resolution)

    def _begun(self, remembered: AgreedWalk | None) -> DistributedResolution:
        homes = {name: ServerId(subnet_of(name)) for name in named_in(self._targets)}
        return DistributedResolution(
            self._targets, root=self._home, homes=homes, remembered=remembered, with_steps=self._with_steps
        )

    def expire(self) -> None:
        """End the resolution: its time is over."""
        if self._is_current(self._resolution):
            self._go_on(self._resolution, self._resolution.expire())

    def _walk(self, resolution: DistributedResolution) -> None:
        if self._is_current(resolution):
            self._instant = self._resolvers.decisions.instant
            self._heard = {}
            self._go_on(resolution, resolution.begin())

    def _go_on(self, resolution: DistributedResolution, step: Step) -> None:
        resolvers = self._resolvers
        match step:
            case Ask(requests):
                for request in requests:
                    self._send(resolution, request)
            case WalkAgain(was_in_doubt):
                resolvers.tally["walks in doubt" if was_in_doubt else "walks that told something new"] += 1
                delay = resolvers.chance.expovariate(1.0) if was_in_doubt else 0.0
                resolvers.later(self._home, partial(self._walk, resolution), delay=delay)
            case ResolvedIds() if not self._is_over and not self._is_held:
                self._is_held = True
                instant = self._instant if len(self._heard) != 1 else next(iter(self._heard.values()))
                end = partial(self._end, resolution, instant, step)
                resolvers.when_durable(self._home, end, lose=self._ask_again)

    def _send(self, resolution: DistributedResolution, request: PartRequest) -> None:
        if request.server == self._home:
            try:
                answer = self._shell.parts.answer(request)
            except RefusedError as error:
                self._take_refusal(resolution, self._home, error)
                return
            self._heard[self._home] = self._resolvers.decisions.instant
            self._bases[self._home] = self._shell.parts.basis()
            self._go_on(resolution, resolution.answer(self._home, answer))
        else:
            self._resolvers.later(request.server, partial(self._answer, resolution, request))

    def _answer(self, resolution: DistributedResolution, request: PartRequest) -> None:
        """Answer a request at the server that is asked."""
        resolvers, server = self._resolvers, request.server
        fail = partial(resolvers.later, self._home, partial(self._take_failure, resolution, server))
        if resolvers.chance.random() < LOST_SHARE or not resolvers.reaches(self._home, server):
            fail()
        else:
            parts = resolvers.shell(server).parts
            try:
                answer = parts.answer(request)
            except RefusedError as error:
                resolvers.later(self._home, partial(self._take_refusal, resolution, server, error))
                return
            reply = partial(self._reply, resolution, server, answer, resolvers.decisions.instant, parts.basis())
            resolvers.when_durable(server, reply, lose=fail)

    def _reply(
        self, resolution: DistributedResolution, server: ServerId, answer: PartAnswer, instant: int, basis: str
    ) -> None:
        resolvers = self._resolvers
        is_carried = resolvers.reaches(server, self._home)
        take = partial(self._take, resolution, server, answer, instant, basis)
        resolvers.later(self._home, take if is_carried else partial(self._take_failure, resolution, server))

    def _ask_again(self) -> None:
        self._is_held = False
        self._resolvers.later(self._home, self.begin)

    def _take(
        self, resolution: DistributedResolution, server: ServerId, answer: PartAnswer, instant: int, basis: str
    ) -> None:
        if self._is_current(resolution):
            self._heard[server], self._bases[server] = instant, basis
            self._go_on(resolution, resolution.answer(server, answer))

    def _take_failure(self, resolution: DistributedResolution, server: ServerId) -> None:
        if self._is_current(resolution):
            self._go_on(resolution, resolution.failed(server, "the request was lost"))

    def _take_refusal(self, resolution: DistributedResolution, server: ServerId, error: RefusedError) -> None:
        """Take the refusal of a home that has no such group. A home that may have forgotten it leaves the rest of a
        set.
        """
        if not self._is_current(resolution):
            return
        may_be_there = error.refusal.reason is Reason.UNAVAILABLE and not is_plain(self._targets)
        self._resolvers.refused(self._targets, error, is_over=not may_be_there)
        if may_be_there:
            self._go_on(resolution, resolution.failed(server, str(error)))
        else:
            self._is_over = True

    def _is_current(self, resolution: DistributedResolution) -> bool:
        """True if the server still knows the resolution. After a crash of the server the client asks again."""
        if self._is_over or self._is_held or resolution is not self._resolution:
            return False
        if self._shell is self._resolvers.shell(self._home):
            return True
        self._resolvers.tally["asked again after a crash"] += 1
        self.begin()
        return False

    def _end(self, resolution: DistributedResolution, instant: int, resolved: ResolvedIds) -> None:
        self._is_over = True
        tally = self._resolvers.tally
        agreed = resolution.agreed()
        key = self._key()
        if agreed is not None and key is not None:
            self._shell.memory.keep(key, agreed)
        tally["walks"] += resolution.walks
        tally["requests"] += resolution.requests
        tally["agreed with a remembered walk"] += resolution.walks == 1 and resolution.requests > 0
        has_walk = self._with_steps and not resolution.why_failed
        self._resolvers.told(_Told(self._targets, instant, has_walk, resolved))
        if agreed is not None:
            bases = {server: self._bases[server] for server in agreed.parts}
            self._resolvers.confirm(self._targets, self._home, bases, resolved)

    def _key(self) -> Originator | None:
        """Return the key of the walk memory. None if the group was deleted and its name forgotten."""
        if not is_plain(self._targets):
            return self._targets
        graph = self._shell.core.graph
        node = graph.index.get(self._targets[0].name)
        return None if node is None else graph.representative(node)


class _Confirming:
    """A client's question whether an answer that it has kept still holds."""

    def __init__(
        self,
        resolvers: Resolvers,
        targets: TargetSet,
        root: ServerId,
        bases: Mapping[ServerId, str],
        resolved: ResolvedIds,
    ) -> None:
        """Create a question. `bases`: the bases of all servers that the answer rests on."""
        self._resolvers = resolvers
        self._targets, self._root, self._bases, self._resolved = targets, root, bases, resolved
        self._awaited = set(bases)
        self._instant = 0
        self._is_over = False

    def begin(self) -> None:
        """Ask every server of the answer."""
        self._instant = self._resolvers.decisions.instant
        for server in sorted(self._bases):
            delay = 0.0 if server == self._root else self._resolvers.own_chance.expovariate(1.0)
            self._resolvers.later(server, partial(self._answer, server), delay=delay)

    def _answer(self, server: ServerId) -> None:
        resolvers = self._resolvers
        is_there = not resolvers.is_down(server) and (server == self._root or resolvers.reaches(self._root, server))
        if is_there and resolvers.shell(server).parts.basis() == self._bases[server]:
            resolvers.when_durable(server, partial(self._take, server), lose=self._fail)
        else:
            self._fail()

    def _take(self, server: ServerId) -> None:
        self._awaited.discard(server)
        if not (self._awaited or self._is_over):
            self._is_over = True
            self._resolvers.tally["confirmed"] += 1
            self._resolvers.told(_Told(self._targets, self._instant, False, self._resolved))

    def _fail(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._resolvers.not_confirmed()


def _require(told: _Told, holds: bool, what: str) -> None:
    if not holds:
        raise InvariantViolatedError(f"resolution of {_text_of(told.targets)} as of {told.instant}: {what}")
