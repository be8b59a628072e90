"""Processor time of one core, without network and disk: updates, plans, ancestor sets, and a held state.

`python -m benchmarks.core_work` builds a graph of 4,001 groups and 40,000 people, and prints the least time of five
rounds of each kind of work. Run it in two checkouts, in turn, to compare them.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Iterable

from namegraph import (
    CommittedState,
    CreateGroup,
    JoinArc,
    LeaveArc,
    NodeId,
    Operation,
    RequestId,
    ServerCore,
    ServerId,
    Subnet,
    UpdateCommand,
    at_once,
    in_slices,
)
from resolver.plans import make_plan

GROUPS = [NodeId(f"g{number}@a.x") for number in range(4_000)]
PEOPLE = [NodeId(f"p{number}@people.b") for number in range(40_000)]
LARGE = NodeId("large@a.x")
NEW = [NodeId(f"new{number}@people.b") for number in range(300)]
SPREAD = [GROUPS[place * 13] for place in range(len(NEW))]
"""Groups of few members, one for each new person."""
OPERATIONS = 500
"""Operations of one update while the graph is built."""
ROUNDS = 5


class Core:
    """A server that is asked for updates."""

    def __init__(self) -> None:
        self.core = ServerCore(server=ServerId("a.x"), subnets=[Subnet("a.x")])
        self._asked = 0

    def ask(self, *operations: Operation) -> None:
        """Carry out one update."""
        self._asked += 1
        self.core.step(UpdateCommand(self._asked, RequestId(f"r{self._asked}"), operations), float(self._asked))

    def ask_in_parts(self, operations: Iterable[Operation]) -> None:
        """Carry out many operations, `OPERATIONS` in one update."""
        for some in in_slices(operations, OPERATIONS):
            self.ask(*some)


def arcs(chance: random.Random) -> list[tuple[NodeId, NodeId]]:
    """Return a tree of groups with 6,000 further arcs downwards, and each person in up to four groups."""
    found = {(GROUPS[chance.randrange(max(0, place - 60), place)], GROUPS[place]) for place in range(1, len(GROUPS))}
    for _ in range(6_000):
        above, below = sorted(chance.sample(range(len(GROUPS)), 2))
        found.add((GROUPS[above], GROUPS[below]))
    found.update((chance.choice(GROUPS), person) for person in PEOPLE for _ in range(4))
    return sorted(found)


def least(work: Callable[[], object]) -> float:
    """Return the least processor time of several rounds, in milliseconds."""
    found = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        found.append(time.process_time() - began)
    return 1_000 * min(found)


def main() -> None:
    """Print the times."""
    server, table = Core(), arcs(random.Random(5))
    core, index = server.core, server.core.graph.index
    began = time.process_time()
    server.ask_in_parts(map(CreateGroup, GROUPS))
    server.ask_in_parts(JoinArc(*arc) for arc in table)
    print(f"{1_000 * (time.process_time() - began):10.1f} ms  {len(table):,} joins, {OPERATIONS} in one update")
    server.ask(CreateGroup(LARGE))
    server.ask_in_parts(JoinArc(LARGE, person) for person in PEOPLE)
    gc.collect()
    gc.freeze()
    gc.disable()

    def compute_sets() -> None:
        core.ancestors.forget_all()
        for node in list(index.values()):
            core.ancestors.of(node)

    def join_and_leave(groups: list[NodeId]) -> None:
        for group, person in zip(groups, NEW, strict=True):
            server.ask(JoinArc(group, person))
        for group, person in zip(groups, NEW, strict=True):
            server.ask(LeaveArc(group, person))

    readers = CommittedState(core)

    def held_for_each(groups: list[NodeId]) -> None:
        for kind in (JoinArc, LeaveArc):
            for group, person in zip(groups, NEW, strict=True):
                readers.hold()
                server.ask(kind(group, person))
                readers.let_go(earliest=True)

    def plan(groups: list[NodeId]) -> None:
        for group in groups:
            at_once(make_plan(core, index[group], set()))

    def plan_of_held(groups: list[NodeId]) -> None:
        with readers.kept() as state:
            server.ask(JoinArc(LARGE, NEW[0]))
            for group in groups:
                at_once(make_plan(state, index[group], set()))
        server.ask(LeaveArc(LARGE, NEW[0]))

    def hold() -> None:
        for _ in range(100):
            readers.hold()
            readers.let_go(earliest=True)

    for what, work in {
        "all ancestor sets": compute_sets,
        "300 joins and 300 leaves": lambda: join_and_leave(SPREAD),
        "300 joins and 300 leaves of a group of 40,000": lambda: join_and_leave([LARGE] * len(NEW)),
        "the same small ones, the state held before each": lambda: held_for_each(SPREAD),
        "the same of 40,000, the state held before each": lambda: held_for_each([LARGE] * len(NEW)),
        "plan of all": lambda: plan(GROUPS[:1]),
        "plan of all, of a held state": lambda: plan_of_held(GROUPS[:1]),
        "plan of a group of 40,000": lambda: plan([LARGE]),
        "200 plans of small groups": lambda: plan(GROUPS[-200:]),
        "200 plans of small groups, of a held state": lambda: plan_of_held(GROUPS[-200:]),
        "100 holds of the state": hold,
        "100 copies of the arcs of a group of 40,000": lambda: [
            dict(core.graph.children[index[LARGE]]) for _ in range(100)
        ],
    }.items():
        print(f"{least(work):10.1f} ms  {what}", flush=True)


if __name__ == "__main__":
    main()
