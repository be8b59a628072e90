"""Finds a short scenario that fails in the same way as a long one.

The shrinker first reduces the work: updates, operations, and the start state. A smaller run seldom fails under the
schedule of the larger one, so a few random schedules are tried too. Then the shrinker reduces the schedule: to a few
messages delivered out of turn, or to a few held messages, whichever takes fewer lines.

The idea of taking parts away by halves is delta debugging (A. Zeller and R. Hildebrandt, 2002).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from random import Random
from typing import TypeVar

import msgspec

from namegraph import (
    ArcId,
    CreateGroup,
    DeleteGroup,
    JoinArc,
    LeaveArc,
    NodeId,
    Operation,
    ServerId,
    SetPolicy,
    Subnet,
    subnet_of,
)
from simulation.cluster.failures import FAULTS, is_alike, kind_of
from simulation.cluster.networks import Channel, first
from simulation.scenario.runner import ScenarioRunner
from simulation.scenario.schedule import (
    ClientAsks,
    Crash,
    Deliver,
    Expire,
    Hold,
    Lose,
    Meet,
    Quiet,
    Run,
    Scenario,
    Selection,
    StartArc,
    Step,
    with_steps,
)

SCHEDULES_TRIED = 40
"""Number of random schedules for a smaller run that does not fail under its own schedule.

The number is for a run of one update, and is divided by the number of updates.
"""

MERGED_SCHEDULES_TRIED = 10
"""Number of random schedules for a run with a server less.

It is lower than `SCHEDULES_TRIED`: there are many pairs of servers, and few can be merged.
"""

FEW_UPDATES = 6
"""Limit on the updates of a run for which random schedules are tried."""

WORKLOAD_SHARE = 0.6
"""Share of the time after which the schedule must be simplified."""

HOLDS_TRIED = 300
HELD_AT_MOST = 3

Key = TypeVar("Key", bound=Hashable)
NodeNames = Callable[[NodeId], NodeId]


class NotReproducedError(Exception):
    """The scenario does not fail."""


@dataclass(frozen=True, slots=True)
class FailingScenario:
    """A scenario that fails."""

    kind: str
    scenario: Scenario
    """The scenario as given, without the deliveries that found no message."""
    replay: Scenario
    """The steps that were done, with every arrival as a `Deliver`."""


def attempt(scenario: Scenario, chance: Random | None = None, *, walks: bool) -> FailingScenario | None:
    """Run a scenario, passing over deliveries that find no message. None if it does not fail.

    `chance`: draws the order of messages that the scenario leaves open.
    `walks`: True to check walks after each step.
    """
    stage = ScenarioRunner(scenario, choose=first if chance is None else chance.choice, is_strict=False, walks=walks)
    try:
        stage.run()
    except FAULTS as error:
        kept = [step for place, step in enumerate(scenario.steps) if place not in stage.passed_over]
        return FailingScenario(kind_of(error), with_steps(scenario, kept), with_steps(scenario, stage.done))
    return None


def shrink(scenario: Scenario, *, kind: str, time_used: Callable[[], float]) -> Scenario:
    """Return a shorter scenario with the same kind of failure.

    `kind`: the kind of the failure, as of `kind_of`. A bare exception type stands for all its failures.
    `time_used`: returns the share of the time that has passed, from 0 to 1. At 1 the best scenario so far is returned.
    Raises `NotReproducedError` if the scenario does not fail, or fails in another way.
    """
    for walks in (False, True):
        failure = attempt(scenario, walks=walks)
        if failure is not None and is_alike(failure.kind, kind):
            return _Shrinker(failure, time_used, walks=walks).shrink()
    raise NotReproducedError("the scenario does not fail so")


class _Shrinker:
    def __init__(self, failure: FailingScenario, time_used: Callable[[], float], *, walks: bool) -> None:
        self._best = replace(failure, scenario=failure.replay)
        self._walks = walks
        self._time_used = time_used
        self._time_allowed = WORKLOAD_SHARE
        self._replays = True
        """True while a schedule is kept arrival for arrival. False: as it was written."""

    def shrink(self) -> Scenario:
        self._start_at_last_burst()
        self._make_smaller()
        self._time_allowed = 1.0
        self._accept(_without_idle_nodes(self._best.scenario))
        self._accept(_renamed(self._best.scenario))
        self._best = self._hold_some() or self._best
        self._replays = False
        self._drop(_unsaid_places, _without_places)
        self._make_smaller()
        self._drop(_unsaid_places, _without_places)
        return self._best.scenario

    def _make_smaller(self) -> None:
        size = -1
        while size != (size := _size(self._best.scenario)) and not self._is_spent():
            self._drop(_ask_numbers, _without_asks)
            self._drop(_operations, _without_operations)
            self._drop(lambda scenario: scenario.arcs, _without_arcs)
            self._drop(_quiet_places, _without_places)
            self._accept(_without_idle_nodes(self._best.scenario))
            self._merge_servers()

    def _is_spent(self) -> bool:
        return self._time_used() > self._time_allowed

    def _start_at_last_burst(self) -> None:
        """Move the arcs that existed before the last burst into the start state."""
        steps = self._best.replay.steps
        ends = [place + 1 for place, step in enumerate(steps) if isinstance(step, Quiet)]
        begin = max((end for end in ends if end < len(steps)), default=0)
        before = with_steps(self._best.scenario, steps[:begin])
        stage = ScenarioRunner(before, is_strict=False, walks=False)
        stage.run()
        arcs = tuple(StartArc(ArcId(*arc), cost) for arc, cost in sorted(stage.arcs.items()))
        self._accept(replace(self._best.scenario, arcs=arcs, steps=steps[begin:], lines=()))

    def _accept(self, candidate: Scenario, *, schedules: int = SCHEDULES_TRIED) -> bool:
        """Take a candidate that fails under its own schedule or another one. Return True if it fails."""
        failure = self._find(candidate, schedules)
        if failure is not None:
            self._best = replace(failure, scenario=failure.replay) if self._replays else failure
        return failure is not None

    def _find(self, candidate: Scenario, schedules: int) -> FailingScenario | None:
        failure = self._fails(candidate)
        updates = len(candidate.asks)
        tried = schedules // max(updates, 1) if self._replays and updates <= FEW_UPDATES else 0
        for number in range(tried):
            if failure is not None:
                break
            chance = Random(number)  # noqa: S311 - the same schedules each time
            failure = self._fails(_at_random(candidate, chance), chance)
        return failure

    def _fails(self, candidate: Scenario, chance: Random | None = None) -> FailingScenario | None:
        if self._is_spent():
            return None
        failure = attempt(candidate, chance, walks=self._walks)
        return failure if failure is not None and failure.kind == self._best.kind else None

    def _drop(
        self, keys: Callable[[Scenario], Sequence[Key]], without: Callable[[Scenario, Container[Key]], Scenario]
    ) -> None:
        size = len(keys(self._best.scenario))
        while size:
            place = 0
            while place < len(found := keys(self._best.scenario)) and not self._is_spent():
                accepted = self._accept(without(self._best.scenario, frozenset(found[place : place + size])))
                if not accepted or len(keys(self._best.scenario)) >= len(found):
                    place += size
            size //= 2

    def _merge_servers(self) -> None:
        for gone, kept in permutations(self._best.scenario.servers, 2):
            if {gone, kept} <= set(self._best.scenario.servers):
                self._accept(_merged(self._best.scenario, gone, into=kept), schedules=MERGED_SCHEDULES_TRIED)

    def _hold_some(self) -> FailingScenario | None:
        replay = self._best.replay
        letters = list(dict.fromkeys(step.messages for step in replay.steps if isinstance(step, Deliver)))
        for number in range(HOLDS_TRIED):
            chance = Random(number)  # noqa: S311 - the same schedules each time
            held = chance.sample(letters, min(len(letters), chance.randint(0, HELD_AT_MOST)))
            steps: list[Step] = [Hold(messages) for messages in held]
            for step in replay.steps:
                if isinstance(step, ClientAsks | Expire | Crash | Lose | Meet):
                    steps += [step, Run()] if chance.random() < 0.5 else [step]
            found = self._fails(with_steps(replay, steps))
            if found is not None:
                return found
        return None


def _at_random(scenario: Scenario, chance: Random) -> Scenario:
    """Return the same updates, with random arrivals between them."""
    channels = [Channel(ServerId(a), ServerId(b)) for a, b in permutations(scenario.servers, 2)]
    steps: list[Step] = []
    for step in scenario.steps:
        if not isinstance(step, Deliver):
            steps.append(step)
            arrivals = chance.choice([0, 0, 3, 10]) if channels else 0
            steps += [Deliver(Selection(chance.choice(channels))) for _ in range(arrivals)]
    return with_steps(scenario, steps)


def _size(scenario: Scenario) -> int:
    operations = sum(len(ask.operations) for ask in scenario.asks)
    return operations + len(scenario.asks) + len(scenario.arcs) + len(scenario.groups) + len(scenario.servers)


def _ask_numbers(scenario: Scenario) -> list[int]:
    return [ask.number for ask in scenario.asks]


def _without_asks(scenario: Scenario, numbers: Container[int]) -> Scenario:
    def is_of(step: Step) -> bool:
        match step:
            case ClientAsks(number) | Expire(number):
                return number in numbers
            case _:
                return False

    return with_steps(scenario, (step for step in scenario.steps if not is_of(step)))


def _operations(scenario: Scenario) -> list[tuple[int, int]]:
    return [
        (ask.number, place) for ask in scenario.asks if len(ask.operations) > 1 for place in range(len(ask.operations))
    ]


def _without_operations(scenario: Scenario, places: Container[tuple[int, int]]) -> Scenario:
    steps: list[Step] = []
    for step in scenario.steps:
        if not isinstance(step, ClientAsks):
            steps.append(step)
            continue
        kept = [operation for place, operation in enumerate(step.operations) if (step.number, place) not in places]
        if kept:
            server = ServerId(subnet_of(_nodes_of(kept[0])[0]))
            steps.append(replace(step, operations=tuple(kept), server=server))
    return with_steps(scenario, steps)


def _without_arcs(scenario: Scenario, arcs: Container[StartArc]) -> Scenario:
    return replace(scenario, arcs=tuple(start for start in scenario.arcs if start not in arcs), lines=())


def _quiet_places(scenario: Scenario) -> list[int]:
    """Return the places of all quiet steps except the last, with which every scenario ends."""
    return [place for place, step in enumerate(scenario.steps[:-1]) if isinstance(step, Quiet)]


def _unsaid_places(scenario: Scenario) -> list[int]:
    """Return the places of all steps that submit no update."""
    return [place for place, step in enumerate(scenario.steps) if not isinstance(step, ClientAsks)]


def _without_places(scenario: Scenario, places: Container[int]) -> Scenario:
    return with_steps(scenario, (step for place, step in enumerate(scenario.steps) if place not in places))


def _without_idle_nodes(scenario: Scenario) -> Scenario:
    used = _nodes_used(scenario)
    groups = tuple(group for group in scenario.groups if group in used)
    servers = {subnet_of(node) for node in used} | {Subnet(ask.server) for ask in scenario.asks}
    return replace(scenario, groups=groups, servers=tuple(server for server in scenario.servers if server in servers))


def _nodes_used(scenario: Scenario) -> set[NodeId]:
    used = {node for start in scenario.arcs for node in start.arc}
    used.update(node for ask in scenario.asks for operation in ask.operations for node in _nodes_of(operation))
    return used


def _renamed(scenario: Scenario) -> Scenario:
    """Return the scenario with short names, in the same order."""
    servers = {server: Subnet(_letters(place)) for place, server in enumerate(sorted(scenario.servers))}
    nodes = sorted(_nodes_used(scenario) | set(scenario.groups))
    width = len(str(len(nodes)))
    names = {}
    for number, node in enumerate(nodes, start=1):
        letter = "g" if node in scenario.groups else "p"
        names[node] = NodeId(f"{letter}{number:0{width}}@{servers.get(subnet_of(node), subnet_of(node))}")
    return _with_names(scenario, names.__getitem__, servers.__getitem__)


def _merged(scenario: Scenario, gone: Subnet, *, into: Subnet) -> Scenario:
    def name(node: NodeId) -> NodeId:
        return NodeId(node.replace(f"@{gone}", f"@{into}")) if subnet_of(node) == gone else node

    if len({name(group) for group in scenario.groups}) < len(scenario.groups):
        return scenario
    return _with_names(scenario, name, lambda server: into if server == gone else server)


def _with_names(scenario: Scenario, name: NodeNames, server: Callable[[Subnet], Subnet]) -> Scenario:
    def step_with(step: Step) -> Step | None:
        match step:
            case ClientAsks():
                operations = tuple(_operation_with(operation, name) for operation in step.operations)
                return replace(step, server=ServerId(server(Subnet(step.server))), operations=operations)
            case Deliver(messages) | Hold(messages):
                ends = [ServerId(server(Subnet(end))) for end in messages.channel]
                return None if ends[0] == ends[1] else type(step)(replace(messages, channel=Channel(*ends)))
            case Crash(crashed):
                return Crash(ServerId(server(Subnet(crashed))))
            case Lose(end, peer) | Meet(end, peer):
                ends = [ServerId(server(Subnet(end))), ServerId(server(Subnet(peer)))]
                return None if ends[0] == ends[1] else type(step)(*ends)
            case _:
                return step

    return Scenario(
        tuple(dict.fromkeys(map(server, scenario.servers))),
        tuple(map(name, scenario.groups)),
        tuple(StartArc(ArcId(*map(name, start.arc)), start.cost) for start in scenario.arcs),
        tuple(named for step in scenario.steps if (named := step_with(step)) is not None),
    )


def _operation_with(operation: Operation, name: NodeNames) -> Operation:
    match operation:
        case JoinArc() | LeaveArc():
            return msgspec.structs.replace(operation, parent=name(operation.parent), child=name(operation.child))
        case CreateGroup() | DeleteGroup() | SetPolicy():
            return msgspec.structs.replace(operation, group=name(operation.group))


def _nodes_of(operation: Operation) -> tuple[NodeId, ...]:
    match operation:
        case JoinArc(parent, child) | LeaveArc(parent, child):
            return (parent, child)
        case CreateGroup(group) | DeleteGroup(group) | SetPolicy(group):
            return (group,)


def _letters(place: int) -> str:
    """Return the label of a place: a, b, ... z, za, zb, ..., in order."""
    return "z" * (place // 25) + "abcdefghijklmnopqrstuvwxy"[place % 25]
