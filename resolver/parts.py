"""A server's part of a distributed resolution: all nodes that it owns and an originator reaches, in one answer.

                                state of the server                                    answer
    originator in its graph     a ready update affects what the plan looks at        InDoubt
                                the plan is still the one that was told before       Unchanged
                                                                                     Part
    originator unknown here     whoever leads here holds an arc that is to come      InDoubt
                                or to go

The originator is a group, or a set of targets. A set is unknown if all its targets and exceptions are.

A server knows the whole ancestry of the nodes that it owns. It can answer for all of them, over whatever arc the walk
comes. One request for each server and walk is enough, and only its home reports each group and native process.

Correctness of an agreed walk. Let `now` be the instant at which its last round of questions began. Every part was told
before `now` and confirmed after it, without doubt, so all parts held at `now`. Compare with the graph G after the
updates that were decided by `now`.

- *No node is missing.* On a path in G from the originator to a missing node, take the first missing node n and the arc
  m -> n. The home of m reports m. The update that added the arc was decided by `now`, so that home was ready by then.
  The update affects m: had the home not applied it, the home would have been in doubt, or have changed its part. The
  home therefore holds m -> n and reports n as owned or onward. The root finishes only if the home of each onward node
  reports that node.
- *No node is extra.* The home of a reported node n was a participant of every update decided by `now` that changed the
  ancestors of n, because n is among the affected nodes. By the same argument the home has applied them all, and its
  ancestry of n is that of G.

**A set of targets, each less its exceptions.** Take a virtual node above all targets and exceptions, which is not
stored: its plan at a server is that of the set. The root asks the homes of all of them first, as if an arc led to each.
By the two points above, the reported nodes are those that the virtual node reaches in G, and the home of each reported
node n has the ancestry that n has in G. The home therefore knows the targets and the exceptions that reach n, and
decides alone.

A foreign process lives at the home of each of its groups. Each of these homes knows only the targets and exceptions
that reach its own groups. None of these groups is missing, and the ancestry of each is that of G. The union of the
reports of all homes (`resolver.target_masks`) is therefore the set of targets and exceptions that reach the process in
G. For this reason exceptions are walked as targets are.

See docs/protocol-updates.md, "Many servers" and "Questions over several servers".
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
from resolver.plans import ATTEMPTS, OnwardNodes, PlanCache, ResolvePlan
from resolver.steps import DeliveryStep, Prepared, deliveries, prepare
from resolver.target_masks import Masks


@dataclass(frozen=True, slots=True)
class PartRequest:
    """Question of the root of a resolution to one server."""

    server: ServerId
    targets: TargetSet
    known_version: str | None = None
    """Version of the part that the root holds. None if it holds none."""
    with_steps: bool = False
    """True if steps are requested. Only a single group without exceptions has steps."""
    counts: bool = False
    """True if processes that the server owns are counted, and not named."""


@dataclass(frozen=True, slots=True)
class ServerPart:
    """Nodes of one server that an originator reaches. Ids are sorted, each once."""

    version: str
    """Opaque version.

    While the server answers with the same version, the part has not changed at any instant in between.
    """
    processes: tuple[NodeId, ...]
    groups: tuple[NodeId, ...]
    onward: tuple[OnwardNodes, ...] = ()
    steps: tuple[DeliveryStep, ...] = ()
    """Steps of the walk to these nodes, if requested."""
    apart: tuple[OnwardNodes, ...] = ()
    """Nodes at which the walk stops, because the arcs to them are suspended."""
    view: str = ""
    """View that the server is in."""
    is_healed: bool = True
    """True if the server knows all changes of its arcs while servers were apart, and the time at which it was cut
    off."""
    process_masks: tuple[Masks, ...] = ()
    """Masks of each process, for a set."""
    group_masks: tuple[Masks, ...] = ()
    """Masks of each group, for a set."""
    counted: tuple[int, ...] | None = None
    """Number of the server's own processes that each target reaches first. `processes` has then only foreign processes.

    None if all processes are named.
    """


@dataclass(frozen=True, slots=True)
class Unchanged:
    """The part has still the version that the root holds."""


@dataclass(frozen=True, slots=True)
class InDoubt:
    """No part can be told now. `update` is the update whose outcome is awaited. None if it is not known."""

    update: UpdateId | None = None


PartAnswer = ServerPart | Unchanged | InDoubt

COUNTED_LIMIT = 100
"""Most plans for which the counts of this server's own processes are cached."""


PreparedPart = Prepared[tuple[DeliveryStep, ...]]


class _Version(NamedTuple):
    """Version of a part that is to be told."""

    text: str
    is_healed: bool


class _ToldProcesses(NamedTuple):
    """Named processes of a plan, and counts of the other processes."""

    processes: tuple[NodeId, ...]
    masks: tuple[Masks, ...]
    counted: tuple[int, ...] | None = None


class Parts:
    """Answers to the questions of roots."""

    def __init__(self, core: CoreQueries, plans: PlanCache, *, start: str) -> None:
        """Create the answers.

        `start` identifies this start of the server, so that a version of an earlier start never holds.
        """
        self._core = core
        self._plans = plans
        self._start = start
        self._counted: dict[int, _ToldProcesses] = {}
        """Counts by number of the plan."""

    def fill(self, request: PartRequest) -> Slices[PreparedPart | None]:
        """Compute the plan, which is kept, and the steps, which are returned, for a fast `answer`.

        Yields between slices, so that updates may come. If updates change the plan again and again, the plan is missing
        in the end. Raises as `answer` does.
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
            prepared = yield from prepare(self._core, self._plans, group, partial(deliveries, group=group))
            if prepared is not None:
                return prepared
        return None

    def answer(self, request: PartRequest, prepared: PreparedPart | None = None) -> PartAnswer:
        """Return the owned nodes of the plan of a request.

        `prepared`: result of `fill` for the same request. Outdated steps are computed again.

        Raises `RefusedError` if a target or an exception should be at home here and does not exist. The reason is
        GROUP_NOT_FOUND, or UNAVAILABLE if this server may have forgotten the name.
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
            steps: tuple[DeliveryStep, ...] = ()
        elif prepared is not None and prepared.is_of(plan, self._core):
            steps = prepared.steps
        else:
            steps = at_once(deliveries(self._core, plan, group))
        told = (
            self._told(plan, len(request.targets))
            if request.counts
            else _ToldProcesses(plan.processes, plan.process_masks)
        )
        return ServerPart(
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
        """Return an opaque text. While it is the same, no answer of this server has changed at any instant in between.

        Empty if updates are under way, or other servers may know better.
        """
        core = self._core
        if not (self._is_quiet and core.is_steady) or core.uncertainty():
            return ""
        return f"{self._start}.{core.graph.update_count}.{core.ownership_changes}.{core.view}"

    @property
    def _is_quiet(self) -> bool:
        """True if no update is ready at this server."""
        entries = self._core.entries
        return not entries.by_update or not any(
            entry.is_ready and not entries.updates[key].read for key, entry in entries.by_update.items()
        )

    def _told(self, plan: ResolvePlan, targets: int) -> _ToldProcesses:
        """Return the processes of a plan in the form in which those of this server are counted."""
        found = self._counted.get(plan.number)
        if found is None:
            if len(self._counted) >= COUNTED_LIMIT:
                self._counted.clear()
            found = self._counted[plan.number] = self._count(plan, targets)
        return found

    def _count(self, plan: ResolvePlan, targets: int) -> _ToldProcesses:
        counted, foreign = [0] * targets, list[int]()
        for place, owner in enumerate(self._core.owners_of_names(plan.processes)):
            if owner is None:
                foreign.append(place)
            else:
                first = plan.process_masks[place].first if plan.process_masks else 0
                if first is not None:
                    counted[first] += 1
        masks = tuple(plan.process_masks[place] for place in foreign) if plan.process_masks else ()
        return _ToldProcesses(tuple(plan.processes[place] for place in foreign), masks, tuple(counted))

    def _fill_plan(self, targets: TargetSet) -> Iterator[int]:
        known = self._known_of(targets)
        if known and is_plain(targets):
            return self._plans.fill(known[targets[0].name])
        return self._plans.fill_for_set(targets, known) if known else iter(())

    def _known_of(self, targets: TargetSet) -> dict[NodeId, NodeIndex]:
        """Return the targets and exceptions that this server knows."""
        found = {name: self._originator(name) for name in named_in(targets)}
        return {name: node for name, node in found.items() if node is not None}

    def _plan(self, targets: TargetSet, known: dict[NodeId, NodeIndex]) -> ResolvePlan:
        if is_plain(targets):
            return self._plans.plan(known[targets[0].name])
        return self._plans.plan_of_set(targets, known)

    def _to_tell(self, request: PartRequest, plan: ResolvePlan, name: NodeId) -> _Version | Unchanged | InDoubt:
        """Return the version of the part of a plan to tell now, or the answer in its place. `name`: the originator."""
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

    def _ready_for(self, plan: ResolvePlan) -> UpdateId | None:
        """Return an update that is ready at this server and affects a node of the plan. None if there is none."""
        entries = self._core.entries
        for update_id, entry in entries.by_update.items():
            if not entry.is_ready or entries.updates[update_id].read is not None:
                continue
            if not plan.reached.isdisjoint(entries.part(entry).nodes):
                return update_id
        return None
