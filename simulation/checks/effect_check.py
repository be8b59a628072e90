"""Check of the effects that callers were told, against the graphs before and after each update in the serial run.

A foreign process is a node of each server where it was joined. It is controlled at that server alone.

Source: docs/protocol.md, "The invariants" (I8); docs/protocol-updates.md, "What became controlled or released". The
effects are those of
`namegraph.model.outcomes.EffectKind`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Mapping
from functools import cached_property
from itertools import combinations

from namegraph import Committed, EffectKind, NodeId, Outcome, ServerId, UpdateCommand, subnet_of
from simulation.oracle.serial_model import ArcName, TrueGraph, TrueState
from simulation.oracle.violation import InvariantViolatedError

Told = tuple[EffectKind, tuple[NodeId, ...], tuple[ServerId, ...]]

CONTROL = frozenset({EffectKind.CONTROLLED, EffectKind.RELEASED})


class EffectsCheck:
    """Check that compares each committed update once."""

    def __init__(self, servers: Collection[ServerId]) -> None:
        """Create the check. `servers`: named after the one subnet of each."""
        self._servers = frozenset(servers)
        self._checked: set[int] = set()
        self._last: tuple[TrueState, _View] | None = None

    def check(self, command: UpdateCommand, answer: Outcome, before: TrueState, after: TrueState) -> None:
        """Check the effects told to the client of an update, against the states around it in the serial run."""
        self._check(command, answer, before, after, left_out=frozenset() if command.reports_control else CONTROL)

    def check_loops(self, command: UpdateCommand, answer: Outcome, before: TrueState, after: TrueState) -> None:
        """Check like `check`, but without the nodes that became controlled or released."""
        self._check(command, answer, before, after, left_out=CONTROL, is_compared=lambda kind: kind not in CONTROL)

    def _check(
        self,
        command: UpdateCommand,
        answer: Outcome,
        before: TrueState,
        after: TrueState,
        *,
        left_out: Container[EffectKind],
        is_compared: Callable[[EffectKind], bool] = lambda _: True,
    ) -> None:
        if command.ticket in self._checked or not isinstance(answer, Committed):
            return
        self._checked.add(command.ticket)
        done = _expected(self._view(before), self._view(after))
        expected = Counter(effect for effect in done if effect[0] not in left_out)
        told = Counter(
            (effect.kind, effect.groups, effect.servers) for effect in answer.effects if is_compared(effect.kind)
        )
        if told != expected:
            raise InvariantViolatedError(
                f"I8: the client of {command.ticket} was told {sorted(told - expected)} and not "
                f"{sorted(expected - told)}"
            )

    def _view(self, state: TrueState) -> _View:
        # The state after one update is the state before the next one.
        if self._last is None or self._last[0] is not state:
            self._last = state, _View(state.arcs, self._servers)
        return self._last[1]


class _View:
    """Facts derived from one set of arcs."""

    def __init__(self, arcs: Mapping[ArcName, int], servers: frozenset[ServerId]) -> None:
        self.graph = TrueGraph(arcs)
        self._servers = servers

    @cached_property
    def loops(self) -> set[frozenset[NodeId]]:
        """Components of each virtual node."""
        loops = {self.graph.loop_of(node) for arc in self.graph.arcs for node in arc}
        return {loop for loop in loops if len(loop) > 1}

    @cached_property
    def controlled(self) -> set[tuple[NodeId, ServerId]]:
        """Sinks of duplication loops, each with its home."""
        graph = self.graph
        found: set[tuple[NodeId, ServerId]] = set()
        for (_, child), blocked in graph.blocked().items():
            if blocked and self.home_of(child) in self._servers:
                found.update((node, self.home_of(node)) for node in graph.loop_of(child))
        for child, parents in graph.parents.items():
            if self.home_of(child) not in self._servers:
                for one, other in combinations(parents, 2):
                    if self.home_of(one) == self.home_of(other) and graph.above([one]) & graph.above([other]):
                        found.add((child, self.home_of(one)))
        return found

    def home_of(self, node: NodeId) -> ServerId:
        """Return the home of a node whose subnet has an owner."""
        return ServerId(subnet_of(node))

    def told(self, kind: EffectKind, nodes: Iterable[NodeId]) -> Told:
        """Return an effect on nodes whose subnets have an owner."""
        nodes = tuple(sorted(nodes))
        return kind, nodes, tuple(sorted({self.home_of(node) for node in nodes}))


def _expected(before: _View, after: _View) -> Iterable[Told]:
    for loop in after.loops - before.loops:
        embedded = [old for old in before.loops if old & loop]
        is_retained = not embedded or (len(embedded) == 1 and loop <= embedded[0])
        yield after.told(EffectKind.FORMED if is_retained else EffectKind.GROWN, loop)
    for loop in before.loops - after.loops:
        if len({after.graph.loop_of(node) for node in loop}) > 1:
            yield before.told(EffectKind.BROKEN, loop)
    was, now = before.graph.arcs, after.graph.arcs
    touched = [arc for arc in was.keys() | now.keys() if was.get(arc) != now.get(arc)]
    for loop in before.loops & after.loops:
        if any(loop.issuperset(arc) for arc in touched):
            yield after.told(EffectKind.CHANGED, loop)
    for kind, changed in (
        (EffectKind.CONTROLLED, after.controlled - before.controlled),
        (EffectKind.RELEASED, before.controlled - after.controlled),
    ):
        if changed:
            servers = {server for _, server in changed}
            yield kind, tuple(sorted({node for node, _ in changed})), tuple(sorted(servers))
