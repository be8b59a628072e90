"""The root of a resolution over several servers: whom to ask, when what they told agrees, and what it comes to.

    begin -> ask the home and all servers that are known to be reached
               | answers; new servers are asked as they become known
               v
             all have answered or failed
               |                         |
      something is new, or in doubt      every part is the one that was held when the walk began
               v                         v
             WalkAgain --> begin         Resolved

A walk asks each server once. Its questions are conditional: who still has the part that is held here answers so,
without data. A walk in which nobody tells anything new and nobody is in doubt agrees with the one before
(`resolver.parts` says why its result is then the true one of an instant). A walk that hears from one server alone is an
instant of itself.

Nothing here reads a clock or sends anything: the caller carries requests, gives answers back, and waits between walks
where it is told that one was in doubt.

Source: protocol.md section 8, *datagram*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from namegraph import NodeId, ServerId, UpdateId
from resolver.parts import InDoubt, Part, PartAnswer, PartRequest, Unchanged
from resolver.plans import Onward, WalkStep
from resolver.steps import assemble


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class Resolved:
    """What an originator reaches: ids, each once, sorted."""

    processes: tuple[NodeId, ...]
    groups: tuple[NodeId, ...]
    """A group on a loop reaches itself; one that is on none does not."""
    unreachable: tuple[NodeId, ...] = ()
    """Groups that could not be entered: what is below them may be missing."""
    in_transition: bool = False
    """The deadline passed before two walks agreed: anything may be missing or no longer there."""
    duplicates: int = 0
    """How often a foreign process was reported again by a further server."""
    walk: tuple[WalkStep, ...] = ()
    """Depth first, siblings by id, where it was asked for. It does not lead to what could not be entered."""
    encoded: dict[str, object] = field(default_factory=dict)
    """For the shell: forms of this answer that it made and wants to find again."""


@dataclass(frozen=True, slots=True)
class AgreedWalk:
    """Parts that agreed, and what they came to: a later resolution begins with them."""

    parts: Mapping[ServerId, Part]
    resolved: Resolved


@dataclass(frozen=True, slots=True)
class Ask:
    """Send these requests, and give back the answers, as they come; none: others are awaited."""

    requests: tuple[PartRequest, ...] = ()


@dataclass(frozen=True, slots=True)
class WalkAgain:
    """The walk is over and proved nothing: begin another."""

    was_in_doubt: bool
    """Updates are under way: wait a little first. Otherwise begin at once."""
    updates: tuple[UpdateId, ...] = ()
    """Those in doubt, as far as they were named, sorted."""


Step = Ask | WalkAgain | Resolved


class Resolution:
    """One resolution. `home` is the server of the originator, which runs it and answers for itself like any other."""

    def __init__(
        self,
        originator: NodeId,
        *,
        home: ServerId,
        remembered: AgreedWalk | None = None,
        with_steps: bool = False,
    ) -> None:
        self._originator = originator
        self._home = home
        self._with_steps = with_steps
        self._agreed = None if with_steps else remembered
        self._parts: dict[ServerId, Part] = dict(self._agreed.parts) if self._agreed else {}
        self._asked: dict[ServerId, None] = {}
        self._awaited: dict[ServerId, str | None] = {}
        """The version that each server was asked about."""
        self._failed: dict[ServerId, str] = {}
        self._doubts: dict[ServerId, UpdateId | None] = {}
        self._is_new = False
        self._resolved: Resolved | None = None
        self.walks = 0
        """Walks begun."""
        self.requests = 0
        """Requests to other servers than the home."""

    @property
    def why_failed(self) -> Mapping[ServerId, str]:
        """The servers that could not be asked, and why."""
        return self._failed

    def begin(self) -> Ask:
        """Begin the first walk, or the next one after `WalkAgain`."""
        assert self._resolved is None, "the resolution is over"
        assert not self._awaited, "a walk is under way"
        self.walks += 1
        self._asked = {}
        self._doubts = {}
        self._is_new = False
        return self._ask_reached()

    def answer(self, server: ServerId, answer: PartAnswer) -> Step:
        """Take the answer of a server; one that is not awaited (any more) changes nothing."""
        if server not in self._awaited:
            return self._nothing_new()
        known_version = self._awaited.pop(server)
        match answer:
            case Unchanged() if known_version is None:
                self._failed[server] = "it says that nothing changed, but was not told since when"
            case Part(version) if version != known_version:
                self._parts[server] = answer
                self._is_new = True
                self._agreed = None
            case InDoubt(update):
                self._doubts[server] = update
        return self._go_on()

    def failed(self, server: ServerId, why: str) -> Step:
        """Take notice that a server cannot be asked. It is not asked again, and its groups are not entered."""
        if server not in self._awaited:
            return self._nothing_new()
        del self._awaited[server]
        self._failed[server] = why
        return self._go_on()

    def expire(self) -> Resolved:
        """The caller's deadline has passed: all that is known so far."""
        if self._resolved is None:
            self._resolved = self._unite(in_transition=True)
            self._awaited = {}
            self._agreed = None
        return self._resolved

    def agreed(self) -> AgreedWalk | None:
        """What to remember for the next resolution of this originator; None where the answer is incomplete."""
        return self._agreed if self._resolved is not None else None

    def _nothing_new(self) -> Step:
        return Ask() if self._resolved is None else self._resolved

    def _go_on(self) -> Step:
        # Who is not reached any more may have no part, and be in doubt for ever.
        doubts = [self._doubts[server] for server in self._reached() if server in self._doubts]
        if not doubts:
            further = self._ask_reached()
            if further.requests:
                return further
        if self._awaited:
            return Ask()
        if doubts or not self._leads_to_what_is_told() or self._is_over_views():
            return WalkAgain(True, tuple(sorted(update for update in doubts if update is not None)))
        if self._is_new and len(self._asked.keys() - self._failed.keys()) > 1:
            return WalkAgain(False)
        self._resolved = self._finish()
        return self._resolved

    def _ask_reached(self) -> Ask:
        requests = []
        for server in self._reached():
            if server in self._asked or server in self._failed:
                continue
            known = self._parts.get(server)
            version = None if known is None else known.version
            self._asked[server] = None
            self._awaited[server] = version
            self.requests += server != self._home
            requests.append(PartRequest(server, self._originator, version, self._with_steps))
        return Ask(tuple(requests))

    def _reached(self) -> dict[ServerId, list[Onward]]:
        """The servers that the parts lead to, with all that leads to each; the home first."""
        reached: dict[ServerId, list[Onward]] = {self._home: []}
        pending = [self._home]
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
        """Whether servers told of different views: what lies between them is being suspended, or healed."""
        return len({self._parts[server].view for server in self._reached() if server not in self._failed}) > 1

    def _leads_to_what_is_told(self) -> bool:
        """Whether each node that a part leads to is reported by its home: no arc is there at one end alone."""
        if self._agreed is not None:
            return True
        for server, leading in self._reached().items():
            if server in self._failed:
                continue
            part = self._parts[server]
            groups, processes = frozenset(part.groups), frozenset(part.processes)
            if not all(
                groups.issuperset(onward.groups) and processes.issuperset(onward.processes) for onward in leading
            ):
                return False
        return True

    def _finish(self) -> Resolved:
        if self._agreed is not None and not self._failed:
            return self._agreed.resolved
        resolved = self._unite(in_transition=False)
        is_whole = not self._failed and not self._with_steps and not resolved.unreachable
        reached = self._reached()
        self._agreed = AgreedWalk({server: self._parts[server] for server in reached}, resolved) if is_whole else None
        return resolved

    def _unite(self, *, in_transition: bool) -> Resolved:
        processes: list[NodeId] = []
        groups: set[NodeId] = set()
        unreachable: set[NodeId] = set()
        named: set[NodeId] = set()
        parts = []
        is_healed = True
        for server, leading in self._reached().items():
            part = self._parts.get(server)
            if part is not None and server not in self._failed:
                parts.append(part)
                processes += part.processes
                groups.update(part.groups)
                named.update(*(away.processes for away in part.apart))
                unreachable.update(*(away.groups for away in part.apart))
                is_healed = is_healed and part.is_healed
                continue
            # What is below these groups is not known, but that these processes are members is.
            named.update(*(onward.processes for onward in leading))
            if server in self._failed or server in self._awaited:
                unreachable.update(*(onward.groups for onward in leading))
                unreachable.update([self._originator] if server == self._home else [])
        united = set(processes)
        steps = (delivery for part in parts for delivery in part.steps)
        return Resolved(
            # A process that is joined while its server is away may turn out to be a group.
            processes=tuple(sorted(united | (named - groups))),
            groups=tuple(sorted(groups)),
            # Where anything may be missing anywhere below, it is the group itself that could not be entered.
            unreachable=tuple(sorted(unreachable - groups)) if is_healed else (self._originator,),
            in_transition=in_transition,
            duplicates=len(processes) - len(united),
            walk=tuple(assemble(self._originator, steps)) if self._with_steps else (),
        )
