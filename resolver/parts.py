"""A server's part of a resolution over several servers: everything it owns that an originator reaches, in one answer.

                                what holds at the server                             what it answers
    originator in its graph     a ready update affects what the plan looks at        InDoubt
                                the plan is still the one that was told before       Unchanged
                                                                                     Part
    originator unknown here     whoever leads here holds an arc that is to come      InDoubt
                                or to go

The originator is a group, or a set of targets: then it is unknown where all targets and exceptions are.

A server knows the whole ancestry of what it owns, so it can answer for all of it, whatever arc the walk comes over: one
request a server and walk is enough, and each group and native process is reported by its home alone.

Why an agreed walk is right. Let `now` be the instant at which its last round of questions began; every part was told
before it and confirmed after it, without doubt, so all parts held at `now`. Compare with the graph G after the updates
that were decided by `now`.

- *Nothing is missing.* On a way in G from the originator to a node that is missing, take the first missing node n and
  the arc m -> n. The home of m reports m. The update that added the arc was decided by `now`, so that home was ready by
  then; it affects m, so had the home not applied it, it would have been in doubt, or have changed its part. So it holds
  m -> n and reports n as owned or onward; and the root finishes only if each node onward is reported by its home.
- *Nothing is extra.* The home of a reported node n was a participant of every update decided by `now` that changed
  what is above n, and n is among the affected nodes. By the same argument it has applied them all, and then its
  ancestry of n is that of G.

**A set of targets, each less its exceptions.** Take a virtual node above all targets and exceptions, of which nothing
is stored: its plan at a server is that of the set. The root asks the homes of all of them first, as if an arc led to
each. By the two points above, what is reported is what the virtual node reaches in G, and the home of each reported
node n has the ancestry that n has in G. So it knows which targets and which exceptions reach n, and decides alone.

A foreign process lives at the home of each of its groups, and each of these homes knows of those targets and exceptions
alone that reach its own groups. None of these groups is missing, and the ancestry of each is that of G. So what all
homes say, united (`resolver.target_masks`), is what reaches the process in G. That is why exceptions are walked like
targets.

Source: protocol.md sections 5 and 8.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from namegraph import (
    CoreQueries,
    NodeId,
    NodeIndex,
    ServerId,
    Slices,
    TargetSet,
    UpdateId,
    at_once,
    is_plain,
    named_in,
)
from resolver.plans import ATTEMPTS, Onward, Plan, PlanCache
from resolver.steps import Delivery, Prepared, deliveries, prepare
from resolver.target_masks import Masks


@dataclass(frozen=True, slots=True)
class PartRequest:
    """What the root of a resolution asks one server."""

    server: ServerId
    targets: TargetSet
    known_version: str | None = None
    """The version of the part that the root holds."""
    with_steps: bool = False
    """Of one group without exceptions alone."""
    counts: bool = False
    """Processes that the server owns are counted, and not named."""


@dataclass(frozen=True, slots=True)
class Part:
    """What an originator reaches at one server; ids sorted, each once."""

    version: str
    """Opaque. While the server answers with it, the part has not changed at any instant in between."""
    processes: tuple[NodeId, ...]
    groups: tuple[NodeId, ...]
    onward: tuple[Onward, ...] = ()
    steps: tuple[Delivery, ...] = ()
    """How the walk comes to these nodes, where that was asked for."""
    apart: tuple[Onward, ...] = ()
    """Where the walk cannot go on: arcs are suspended."""
    view: str = ""
    """The view that the server is in."""
    is_healed: bool = True
    """Whether it knows all that was done to its arcs while servers were apart, and when it was cut off."""
    process_masks: tuple[Masks, ...] = ()
    """Of a set: one for each process."""
    group_masks: tuple[Masks, ...] = ()
    """Of a set: one for each group."""
    counted: tuple[int, ...] | None = None
    """Of each target, how many processes are the server's own, and are first reached by that target: `processes` are
    those alone that nobody owns. None: all are named."""


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The part of the version that the root holds is still the one."""


@dataclass(frozen=True, slots=True)
class InDoubt:
    """No part can be told at this instant. `update` is the one whose outcome must come first, where it is known."""

    update: UpdateId | None = None


PartAnswer = Part | Unchanged | InDoubt

COUNTED_LIMIT = 100
"""Plans of which it is kept how many processes are this server's own."""


PreparedPart = Prepared[tuple[Delivery, ...]]


class _Version(NamedTuple):
    """Names a part that is to be told."""

    text: str
    is_healed: bool


class _Told(NamedTuple):
    """Which processes of a plan are told, and how many are not."""

    processes: tuple[NodeId, ...]
    masks: tuple[Masks, ...]
    counted: tuple[int, ...] | None = None


class Parts:
    """Answers what roots ask of this server."""

    def __init__(self, core: CoreQueries, plans: PlanCache, *, start: str) -> None:
        """`start` tells this start of the server from all others, so that a version of an earlier one never holds."""
        self._core = core
        self._plans = plans
        self._start = start
        self._counted: dict[int, _Told] = {}
        """By number of the plan."""

    def fill(self, request: PartRequest) -> Slices[PreparedPart | None]:
        """Make what `answer` needs, so that it takes no time: the plan, which is kept, and steps, which it is given.

        Yields between slices, when updates may come: where these change it again and again, it is not there in the end.
        Raises as `answer` does.
        """
        for _ in range(ATTEMPTS):
            yield from self._fill_plan(request.targets)
            known = self._known_of(request.targets)
            if not request.with_steps or not known:
                return None
            name, group = next(iter(known.items()))
            plan = self._plans.kept(group)
            if plan is None or not isinstance(self._to_tell(request, plan, name), _Version):
                return None
            prepared = yield from prepare(self._core, self._plans, group, partial(deliveries, self._core, group=group))
            if prepared is not None:
                return prepared
        return None

    def answer(self, request: PartRequest, prepared: PreparedPart | None = None) -> PartAnswer:
        """What is owned here of the plan of what is asked for.

        `prepared`: what filling for the same request came to. Steps that no longer hold are made anew.

        Raises `RefusedError` (GROUP_NOT_FOUND, or UNAVAILABLE where this server may have forgotten it) where a target
        or an exception should be at home here and is not there.
        """
        known = self._known_of(request.targets)
        if not known:
            return InDoubt()
        plan = self._plan(request.targets, known)
        name, group = next(iter(known.items()))
        version = self._to_tell(request, plan, name)
        if not isinstance(version, _Version):
            return version
        if not request.with_steps:
            steps: tuple[Delivery, ...] = ()
        elif prepared is not None and prepared.is_of(plan, self._core):
            steps = prepared.steps
        else:
            steps = at_once(deliveries(self._core, plan, group))
        told = self._told(plan, len(request.targets)) if request.counts else _Told(plan.processes, plan.process_masks)
        return Part(
            version.text,
            told.processes,
            plan.groups,
            plan.onward,
            steps,
            plan.apart,
            self._core.view,
            version.is_healed,
            told.masks,
            plan.group_masks,
            told.counted,
        )

    def basis(self) -> str:
        """Opaque. While this is the same, no answer of this server has changed at any instant in between.

        Empty where that cannot be told: updates are under way, or others may know better.
        """
        core = self._core
        if not (self._is_quiet and core.is_steady) or core.uncertainty():
            return ""
        return f"{self._start}.{core.graph.update_count}.{core.ownership_changes}.{core.view}"

    @property
    def _is_quiet(self) -> bool:
        """Whether this server is ready for no update."""
        entries = self._core.entries
        return not any(entry.is_ready and not entries.updates[key].read for key, entry in entries.by_update.items())

    def _told(self, plan: Plan, targets: int) -> _Told:
        """The processes of a plan, as they are told where those of this server are counted."""
        found = self._counted.get(plan.number)
        if found is None:
            if len(self._counted) >= COUNTED_LIMIT:
                self._counted.clear()
            found = self._counted[plan.number] = self._count(plan, targets)
        return found

    def _count(self, plan: Plan, targets: int) -> _Told:
        counted, foreign = [0] * targets, list[int]()
        for place, owner in enumerate(self._core.owners_of_names(plan.processes)):
            if owner is None:
                foreign.append(place)
            else:
                first = plan.process_masks[place].first if plan.process_masks else 0
                if first is not None:
                    counted[first] += 1
        masks = tuple(plan.process_masks[place] for place in foreign) if plan.process_masks else ()
        return _Told(tuple(plan.processes[place] for place in foreign), masks, tuple(counted))

    def _fill_plan(self, targets: TargetSet) -> Iterator[int]:
        known = self._known_of(targets)
        if known and is_plain(targets):
            return self._plans.fill(known[targets[0].name])
        return self._plans.fill_for_set(targets, known) if known else iter(())

    def _known_of(self, targets: TargetSet) -> dict[NodeId, NodeIndex]:
        """The targets and exceptions that this server knows."""
        found = {name: self._originator(name) for name in named_in(targets)}
        return {name: node for name, node in found.items() if node is not None}

    def _plan(self, targets: TargetSet, known: dict[NodeId, NodeIndex]) -> Plan:
        if is_plain(targets):
            return self._plans.plan(known[targets[0].name])
        return self._plans.plan_of_set(targets, known)

    def _to_tell(self, request: PartRequest, plan: Plan, name: NodeId) -> _Version | Unchanged | InDoubt:
        """As which version the part of a plan is to be told now, or what in its place; `name`: of the originator."""
        update = self._ready_for(plan)
        if update is not None:
            return InDoubt(update)
        is_healed = not self._core.uncertainty().below(name, plan.reached)
        healed = "" if is_healed else "."
        version = f"{self._start}.{plan.number}.{self._core.view}{healed}"
        return Unchanged() if version == request.known_version else _Version(version, is_healed)

    def _originator(self, name: NodeId) -> NodeIndex | None:
        core = self._core
        if core.knows_subnet_of(name) and core.home_of(name) == core.server:
            group = core.graph.group(name)
            if group is None:
                raise core.no_group(name)
            return group
        node = core.graph.index.get(name)
        return node if node is not None and node in core.records.above else None

    def _ready_for(self, plan: Plan) -> UpdateId | None:
        """An update that this server is ready for and that affects anything the plan looks at, if there is one."""
        entries = self._core.entries
        for update_id, entry in entries.by_update.items():
            if not entry.is_ready or entries.updates[update_id].read is not None:
                continue
            if not plan.reached.isdisjoint(entries.part(entry).nodes):
                return update_id
        return None
