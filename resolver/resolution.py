"""Root of a distributed resolution: servers to ask, agreement of their parts, and the result.

    begin -> ask the homes and all servers that are known to be reached
               | answers; new servers are asked as they become known
               v
             all have answered or failed
               |                         |
      something is new, or in doubt      every part is the one that was held when the walk began
               v                         v
             WalkAgain --> begin         Resolved

A walk asks each server once. Its questions are conditional: a server that still has the part held by the root answers
without data. A walk without a new part and without doubt agrees with the walk before (`resolver.parts` proves that its
result is then the true result of one instant). A walk that hears from a single server is an instant of itself.

The originator is a group, whose home is the root, or a set of targets, each less its exceptions. The root of a set is
the server that was asked, and it asks the homes of all targets and exceptions first. The result of a set has the nodes
that some target reaches and none of its exceptions does. Each server reports this for the nodes that it owns. Reports
about a foreign process are united (`resolver.target_masks`).

This module reads no clock and sends no request. The caller carries requests, passes answers back, and waits between
walks if a walk was in doubt.

See docs/protocol-updates.md, "Questions over several servers".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from namegraph import NodeId, ServerId, Slices, TargetSet, UpdateId, at_once, in_slices, is_plain, sorted_in_slices
from resolver.parts import InDoubt, PartAnswer, PartRequest, ServerPart, Unchanged
from resolver.plans import OnwardNodes, PlanStep
from resolver.steps import assemble
from resolver.target_masks import Masks

CHANGES, IN_DOUBT = "its part of the answer changed all the time", "updates were under way there all the time"
OTHER_VIEW = "it is in another view"
CONTRADICTS = "it and another server contradict one another"
"""Reasons for which a server is left out although it could be asked."""


class Count(NamedTuple):
    """Number of processes that are not named."""

    server: ServerId
    """Server of the processes. A foreign process counts once, at the first server that reports it."""
    target: int
    """Index of the first target that reaches them and does not except them."""
    processes: int


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class ResolvedIds:
    """Nodes that a group or a set reaches. Ids are sorted, each once."""

    processes: tuple[NodeId, ...]
    groups: tuple[NodeId, ...]
    """Groups. A group on a loop reaches itself. A group on no loop does not."""
    unreachable: tuple[NodeId, ...] = ()
    """Groups that could not be entered. Members below them may be missing, or be present although they are excepted."""
    in_transition: bool = False
    """True if the deadline passed before two walks agreed: members may be missing, or not be members any more."""
    duplicates: int = 0
    """Number of times that a further server reported a known foreign process."""
    walk: tuple[PlanStep, ...] = ()
    """Steps of the walk, depth first, siblings by id, if requested. They lead to no unreachable group."""
    encoded: dict[str, tuple[bytes, ...]] = field(default_factory=dict)
    """Serialized chunks of this answer, by list, that the shell made and wants to find again."""
    process_firsts: tuple[int, ...] = ()
    """Index of the first target that reaches a process and does not except it, for each process of a set."""
    group_firsts: tuple[int, ...] = ()
    """Index of the first target that reaches a group and does not except it, for each group of a set."""
    counts: tuple[Count, ...] = ()
    """Counts of the processes that are not named, sorted. Empty if all processes are named."""
    elsewhere: tuple[NodeId, ...] = ()
    """Processes of `processes` that other servers report, too, sorted."""


@dataclass(frozen=True, slots=True)
class AgreedWalk:
    """Parts that agreed, and their result. A later resolution begins with them."""

    parts: Mapping[ServerId, ServerPart]
    resolved: ResolvedIds


@dataclass(frozen=True, slots=True)
class Ask:
    """Send these requests, and pass back the answers as they come. Empty if other answers are awaited."""

    requests: tuple[PartRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class WalkAgain:
    """The walk ended without agreement: begin another walk."""

    was_in_doubt: bool
    """True if updates are under way: wait a little before the next walk. Otherwise begin at once."""
    updates: tuple[UpdateId, ...] = ()
    """Updates in doubt that servers named, sorted."""


@dataclass(frozen=True, slots=True, eq=False)
class Uniting:
    """All parts are told. The slices check that they fit, and unite them. Other tasks may run in between."""

    slices: Slices[WalkAgain | ResolvedIds]


Step = Ask | WalkAgain | Uniting | ResolvedIds


class DistributedResolution:
    """One resolution. The root answers for itself as any other server does."""

    def __init__(
        self,
        targets: TargetSet,
        *,
        root: ServerId,
        homes: Mapping[NodeId, ServerId],
        remembered: AgreedWalk | None = None,
        with_steps: bool = False,
        unites_in_slices: bool = False,
        named_servers: Set[ServerId] | None = None,
    ) -> None:
        """Begin with the homes of all targets and exceptions, in order. `unites_in_slices`: True if the last step is
        `Uniting`.

        `named_servers`: servers whose processes are named; processes of other servers are counted. None if all are
        named.
        """
        assert is_plain(targets) or not with_steps, "a walk begins at one group"
        assert named_servers is None or remembered is None, "what is counted is not what was named before"
        self._named_servers = named_servers
        self._targets = targets
        self._root = root
        self._homes = homes
        self._with_steps = with_steps
        self._unites_in_slices = unites_in_slices
        self._agreed = None if with_steps else remembered
        self._parts: dict[ServerId, ServerPart] = dict(self._agreed.parts) if self._agreed else {}
        self._asked: dict[ServerId, None] = {}
        self._awaited: dict[ServerId, str | None] = {}
        """Version about which each server was asked."""
        self._failed: dict[ServerId, str] = {}
        self._doubts: dict[ServerId, UpdateId | None] = {}
        self._is_new = False
        self._changes: Counter[ServerId] = Counter()
        """Number of walks in which each server told a new part, after the first walk that asked it."""
        self._changed: set[ServerId] = set()
        """Servers that told a new part in this walk."""
        self._resolved: ResolvedIds | None = None
        self.walks = 0
        """Number of walks begun."""
        self.requests = 0
        """Number of requests to servers other than the root."""

    @property
    def why_failed(self) -> Mapping[ServerId, str]:
        """Servers that could not be asked, with the reasons."""
        return self._failed

    def begin(self) -> Step:
        """Begin the first walk, or the next one after `WalkAgain`. The walk ends at once if no home can be asked."""
        assert self._resolved is None, "the resolution is over"
        assert not self._awaited, "a walk is under way"
        self.walks += 1
        self._asked = {}
        self._doubts = {}
        self._is_new = False
        self._changed = set()
        asked = self._ask_reached()
        return asked if asked.requests else self._go_on()

    def answer(self, server: ServerId, answer: PartAnswer) -> Step:
        """Handle the answer of a server. An answer that is not awaited changes nothing."""
        if server not in self._awaited:
            return self._nothing_new()
        known_version = self._awaited.pop(server)
        match answer:
            case Unchanged() if known_version is None:
                self._failed[server] = "it says that nothing changed, but was not told since when"
            case ServerPart(version) if version != known_version:
                if server in self._parts:
                    self._changes[server] += 1
                    self._changed.add(server)
                self._parts[server] = answer
                self._is_new = True
                self._agreed = None
            case InDoubt(update):
                self._doubts[server] = update
        return self._go_on()

    def failed(self, server: ServerId, why: str) -> Step:
        """Note that a server cannot be asked. It is not asked again, and its groups are not entered."""
        if server not in self._awaited:
            return self._nothing_new()
        del self._awaited[server]
        self._failed[server] = why
        return self._go_on()

    def expire(self) -> Step:
        """Return the result known so far, as the caller's deadline has passed."""
        return self._resolved or self._in_slices(self._expired())

    def leave_out_changing(self) -> Slices[None]:
        """Leave out, after `WalkAgain`, the servers that kept the last walk from agreeing with the walk before.

        They count as servers that cannot be asked. The root stays, because no answer is possible without it.
        """
        assert not self._awaited, "a walk is under way"
        reached = self._reached()
        blamed = dict.fromkeys(self._most_changing(), CHANGES)
        blamed |= {server: IN_DOUBT for server in reached if server in self._doubts}
        if not blamed:
            root = self._parts.get(self._root)
            views = {server: self._parts[server].view for server in reached if server in self._parts}
            blamed |= {server: OTHER_VIEW for server, view in views.items() if root is not None and view != root.view}
        if not blamed:
            blamed |= yield from self._contradicting(reached)
        for server, why in blamed.items():
            if server != self._root and server not in self._failed:
                self._failed[server] = why
                self._agreed = None

    def _most_changing(self) -> set[ServerId]:
        others = self._changed - {self._root}
        most = max((self._changes[server] for server in others), default=0)
        return {server for server in others if self._changes[server] == most}

    def _contradicting(self, reached: Mapping[ServerId, Sequence[OnwardNodes]]) -> Slices[dict[ServerId, str]]:
        """Return the servers whose onward nodes their home does not report.

        If the root has such nodes, return the home.
        """
        found: dict[ServerId, str] = {}
        for server, part in self._parts.items():
            if server not in reached or server in self._failed:
                continue
            for onward in part.onward:
                home = self._parts.get(onward.server)
                if home is None or onward.server in self._failed:
                    continue
                told = yield from _has_all(home.groups, onward.groups)
                if told and home.counted is None:
                    told = yield from _has_all(home.processes, _to_be_told(onward))
                if not told:
                    found[onward.server if server == self._root else server] = CONTRADICTS
        return found

    def agreed(self) -> AgreedWalk | None:
        """Return the walk to remember for the next resolution of the same originator.

        None if the answer is incomplete.
        """
        return self._agreed if self._resolved is not None else None

    def _nothing_new(self) -> Step:
        return Ask() if self._resolved is None else self._resolved

    def _go_on(self) -> Step:
        # A server that is not reached any more may have no part, and be in doubt for ever.
        doubts = [self._doubts[server] for server in self._reached() if server in self._doubts]
        if not doubts:
            further = self._ask_reached()
            if further.requests:
                return further
        if self._awaited:
            return Ask()
        if doubts or self._is_over_views():
            return WalkAgain(True, tuple(sorted(update for update in doubts if update is not None)))
        return self._in_slices(self._judge())

    def _in_slices(self, slices: Slices[WalkAgain | ResolvedIds]) -> Uniting | WalkAgain | ResolvedIds:
        return Uniting(slices) if self._unites_in_slices else at_once(slices)

    def _judge(self) -> Slices[WalkAgain | ResolvedIds]:
        if not (yield from self._leads_to_what_is_told()):
            return WalkAgain(True)
        if self._is_new and len(self._asked.keys() - self._failed.keys()) > 1:
            return WalkAgain(False)
        return (yield from self._finish())

    def _ask_reached(self) -> Ask:
        requests = []
        for server in self._reached():
            if server in self._asked or server in self._failed:
                continue
            known = self._parts.get(server)
            version = None if known is None else known.version
            self._asked[server] = None
            self._awaited[server] = version
            self.requests += server != self._root
            counts = self._named_servers is not None and server not in self._named_servers
            requests.append(PartRequest(server, self._targets, version, self._with_steps, counts))
        return Ask(tuple(requests))

    def _reached(self) -> dict[ServerId, list[OnwardNodes]]:
        """Return the servers to which the parts lead, with all nodes onward to each. The homes come first."""
        reached: dict[ServerId, list[OnwardNodes]] = {home: [] for home in self._homes.values()}
        pending = list(reached)
        while pending:
            server = pending.pop()
            part = self._parts.get(server)
            if part is None or server in self._failed:
                continue
            for onward in part.onward:
                if onward.server not in reached:
                    reached[onward.server] = []
                    pending.append(onward.server)
                reached[onward.server].append(onward)
        return reached

    def _is_over_views(self) -> bool:
        """True if servers are in different views: arcs between them are being suspended, or healed."""
        return len({self._parts[server].view for server in self._reached() if server not in self._failed}) > 1

    def _leads_to_what_is_told(self) -> Slices[bool]:
        """True if the home of each onward node reports the node: no arc is known at one end only."""
        if self._agreed is not None:
            return True
        for server, leading in self._reached().items():
            if server in self._failed or not leading:
                continue
            part = self._parts[server]
            named = [(part.groups, chain.from_iterable(onward.groups for onward in leading))]
            if part.counted is None:
                named.append((part.processes, chain.from_iterable(map(_to_be_told, leading))))
            for told, led_to in named:
                if not (yield from _has_all(told, led_to)):
                    return False
        return True

    def _expired(self) -> Slices[ResolvedIds]:
        self._resolved = yield from self._unite(in_transition=True)
        self._awaited = {}
        self._agreed = None
        return self._resolved

    def _finish(self) -> Slices[ResolvedIds]:
        if self._agreed is not None and not self._failed:
            self._resolved = self._agreed.resolved
            return self._resolved
        self._resolved = resolved = yield from self._unite(in_transition=False)
        is_whole = not self._failed and not self._with_steps and not resolved.unreachable
        reached = self._reached()
        self._agreed = AgreedWalk({server: self._parts[server] for server in reached}, resolved) if is_whole else None
        return resolved

    def _unite(self, *, in_transition: bool) -> Slices[ResolvedIds]:
        told, named, unreachable = _Reports(), _Reports(), set[NodeId]()
        parts = []
        counting = None if self._named_servers is None else _Counting(self._named_servers)
        for server, leading in self._reached().items():
            part = self._parts.get(server)
            if counting is not None:
                counting.add(server, None if server in self._failed else part, leading)
            if part is not None and server not in self._failed:
                parts.append(part)
                told.groups.append((part.groups, part.group_masks))
                told.processes.append((part.processes, part.process_masks))
                named.processes += ((away.processes, away.masks) for away in part.apart)
                unreachable.update(*(away.groups for away in part.apart))
                continue
            # Members below these groups are not known, but these processes are members.
            named.processes += ((onward.processes, onward.masks) for onward in leading)
            if server in self._failed or server in self._awaited:
                unreachable.update(*(onward.groups for onward in leading))
                unreachable.update(name for name, home in self._homes.items() if home == server)
        groups = set(chain.from_iterable(names for names, _ in told.groups))
        if not all(part.is_healed for part in parts):
            # If any member may be missing at any place below, the targets themselves count as not entered.
            left_out: Iterable[NodeId] = self._homes
        else:
            left_out = unreachable - groups
        unite = _united if is_plain(self._targets) else _united_masks
        # A process that is joined while its server is away may turn out to be a group.
        processes = yield from unite(told.processes, named.processes, groups)
        reached_groups = yield from unite(told.groups, (), frozenset())
        steps = (delivery for part in parts for delivery in part.steps)
        walk = (yield from assemble(self._targets[0].name, steps)) if self._with_steps else ()
        if counting is not None:
            processes = yield from counting.of(processes)
        return ResolvedIds(
            processes=processes.names,
            groups=reached_groups.names,
            unreachable=tuple(sorted(left_out)),
            in_transition=in_transition,
            duplicates=processes.duplicates,
            walk=walk,
            process_firsts=processes.firsts,
            group_firsts=reached_groups.firsts,
            counts=() if counting is None else counting.counts(),
            elsewhere=() if counting is None else counting.elsewhere(processes.names),
        )


_Column = tuple[Sequence[NodeId], Sequence[Masks]]
"""Names, and the masks of each for a set."""


class _Reports:
    """Reports of several servers, one column each."""

    def __init__(self) -> None:
        self.processes: list[_Column] = []
        self.groups: list[_Column] = []


def _has_all(told: Sequence[NodeId], names: Iterable[NodeId]) -> Slices[bool]:
    found: set[NodeId] = set()
    for some in in_slices(told):
        found.update(some)
        yield len(some)
    for some in in_slices(names):
        if not found.issuperset(some):
            return False
        yield len(some)
    return True


def _to_be_told(onward: OnwardNodes) -> Iterable[NodeId]:
    """Return the processes that their home reports. Processes only below exceptions are in no answer."""
    if not onward.masks:
        return onward.processes
    return (name for name, masks in zip(onward.processes, onward.masks, strict=True) if masks.reached)


class _Counting:
    """Processes that are named, and counts of the other processes."""

    def __init__(self, named: Set[ServerId]) -> None:
        self._named_servers = named
        self._named: set[NodeId] = set()
        self._others: dict[NodeId, ServerId] = {}
        """Processes of servers that are counted, each with the first such server."""
        self._counts: Counter[tuple[ServerId, int]] = Counter()

    def add(self, server: ServerId, part: ServerPart | None, leading: Sequence[OnwardNodes]) -> None:
        """Add the report of a server. If it has none, add the nodes that lead to it."""
        told = chain.from_iterable(each.processes for each in leading) if part is None else part.processes
        if server in self._named_servers:
            self._named.update(told)
            return
        for process in told:
            self._others.setdefault(process, server)
        for target, count in enumerate((part and part.counted) or ()):
            self._counts[server, target] += count

    def of(self, united: _United) -> Slices[_United]:
        """Return the named processes of all. Count the others."""
        names, firsts = list[NodeId](), list[int]()
        for rows in in_slices(range(len(united.names))):
            for at in rows:
                name, first = united.names[at], united.firsts[at] if united.firsts else 0
                server = self._others.get(name)
                if name in self._named or server is None:
                    names.append(name)
                    firsts.append(first)
                else:
                    self._counts[server, first] += 1
            yield len(rows)
        return _United(tuple(names), tuple(firsts) if united.firsts else (), united.duplicates)

    def counts(self) -> tuple[Count, ...]:
        return tuple(sorted(Count(*key, count) for key, count in self._counts.items() if count))

    def elsewhere(self, names: Iterable[NodeId]) -> tuple[NodeId, ...]:
        return tuple(name for name in names if name in self._others)


@dataclass(frozen=True, slots=True)
class _United:
    names: tuple[NodeId, ...]
    """Names, sorted, each once."""
    firsts: tuple[int, ...]
    """Index of the first target of each name, for a set."""
    duplicates: int
    """Number of times that a name was told again."""


def _united(told: Sequence[_Column], named: Iterable[_Column], others: Set[NodeId]) -> Slices[_United]:
    """Unite all told names, and the named ones that are not in `others`."""
    found: set[NodeId] = set()
    count = 0
    for names, _ in told:
        for some in in_slices(names):
            found.update(some)
            yield len(some)
        count += len(names)
    duplicates = count - len(found)
    found.update(set(chain.from_iterable(names for names, _ in named)) - others)
    in_order = yield from sorted_in_slices(list(found))
    return _United(tuple(in_order), (), duplicates)


def _united_masks(told: Sequence[_Column], named: Iterable[_Column], others: Set[NodeId]) -> Slices[_United]:
    """Unite the names and masks of a set, without excepted names."""
    united: dict[NodeId, Masks] = {}
    duplicates = 0
    for names, column in told:
        for some in in_slices(zip(names, column, strict=True)):
            for name, masks in some:
                known = united.get(name)
                duplicates += known is not None
                united[name] = masks if known is None else known.united(masks)
            yield len(some)
    for names, column in named:
        for name, masks in zip(names, column, strict=True):
            if name not in others:
                united[name] = masks.united(united.get(name, masks))
    first_of: dict[Masks, int | None] = {}
    found: dict[NodeId, int] = {}
    for rows in in_slices(united.items()):
        for name, masks in rows:
            if masks not in first_of:
                first_of[masks] = masks.first
            first = first_of[masks]
            if first is not None:
                found[name] = first
        yield len(rows)
    in_order = yield from sorted_in_slices(list(found))
    return _United(tuple(in_order), tuple(map(found.__getitem__, in_order)), duplicates)
