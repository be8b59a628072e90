"""Judge of clients' answers, given the order in which the updates were done.

The updates that were done are carried out one after another, in the order of their revisions, on a brute-force model.
Each must have been possible. (One exception: a group may be deleted while the server of a group above it is out of
reach, and its membership may be left there in the meantime. Of two updates that ended it, one came second and did not
know.)

So each arc was there *for sure* while it was acknowledged and no client had asked to remove it yet, and *perhaps* while
it had been asked for and its removal was not acknowledged. A complete answer must have every member that is reached
over arcs that were there for sure throughout the call. It must have no member that is not reached over arcs that were
there perhaps at some time in the call.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import inf

from namegraph.model.operations import CreateGroup, JoinArc, LeaveArc
from namegraph.model.priorities import parse_revision
from tests.chaos.history import OF_NO_GROUP, Outcome
from tests.integration.nameserver.recorded_updates import one_after_another

NO_CHILD = ""
"""Child of a row about the group itself, as in an export."""


@dataclass
class Stay:
    """Time span of one arc or group, each end as asked for and as told."""

    came_asked: float
    came_told: float
    went_asked: float = inf
    went_told: float = inf

    def is_sure(self, asked, told):
        """True if the arc was there all through a call."""
        return self.came_told <= asked and told <= self.went_asked

    def is_possible(self, asked, told):
        """True if the arc may have been there at some time in a call."""
        return self.came_asked <= told and asked <= self.went_told


class Timeline:
    """Arcs and groups over time."""

    def __init__(self, done, subnets):
        """Build the timeline. `done`: the updates that were done. `told` is infinite where no client was told so.

        Raises `AssertionError` if they cannot all have been done.
        """
        self.newest, self.model = "", None
        self._stays = defaultdict(list)
        of_revision = {update.revision: update for update in done}
        assert len(of_revision) == len(done), "two updates have one revision"
        there = frozenset()
        in_order = one_after_another([(each.revision, each.operations) for each in done], subnets, may_be_apart=True)
        for revision, model in in_order:
            update = of_revision[revision]
            now = model.arcs.keys() | {(group, NO_CHILD) for group in model.groups}
            for arc in now - there:
                self._stays[arc].append(Stay(update.asked, update.told))
            for arc in there - now:
                self._stays[arc][-1].went_asked, self._stays[arc][-1].went_told = update.asked, update.told
            self.newest, self.model, there = revision, model, now

    def sure(self, asked, told):
        """Return the arcs and groups that were there all through a call."""
        return {arc for arc in self._stays if self.is_sure(arc, asked, told)}

    def possible(self, asked, told):
        """Return the arcs and groups that may have been there at some time in a call."""
        return {arc for arc in self._stays if self.is_possible(arc, asked, told)}

    def is_sure(self, arc, asked, told):
        """True if an arc or group was there all through a call."""
        return any(stay.is_sure(asked, told) for stay in self._stays.get(arc, ()))

    def is_possible(self, arc, asked, told):
        """True if an arc or group may have been there at some time in a call."""
        return any(stay.is_possible(asked, told) for stay in self._stays.get(arc, ()))


def contradictions(history, timeline):
    """Return one line for each complete answer, and each refusal of a single operation, that cannot be true."""
    lines = [line for read in history.reads for line in _contradictions_of(read, timeline)]
    refused = history.with_outcome(Outcome.REFUSED)
    return lines + [line for update in refused for line in _wrong_refusals(update, timeline)]


def _contradictions_of(read, timeline):
    sure = timeline.sure(read.asked, read.told)
    possible = timeline.possible(read.asked, read.told)
    where = f"{read.kind} {' '.join(read.names)} at {read.server}, asked at {read.asked:.3f}"
    if read.kind.endswith(OF_NO_GROUP):
        return [f"{where}: it was there"] if (read.names[0], NO_CHILD) in sure else []
    found = _found(read)
    missing = sorted(_expected(read, sure) - found)
    invented = sorted(found - _expected(read, possible))
    return [f"{where}: misses {missing}, invents {invented}"] if missing or invented else []


def _wrong_refusals(update, timeline):
    """Yield refusals that cannot be true. The named state must have held at some time in the call."""
    call = update.asked, update.told
    where = f"{update.request_id} {update.operations}: {update.why[-1]}"
    match update.why[-1].said, update.operations:
        case "AlreadyMember", (JoinArc(parent, child),):
            return [] if timeline.is_possible((parent, child), *call) else [f"{where}: it was not there"]
        case "NotAMember", (LeaveArc(parent, child),):
            return [f"{where}: it was there"] if timeline.is_sure((parent, child), *call) else []
        case "GroupExists", (CreateGroup(group),):
            return [] if timeline.is_possible((group, NO_CHILD), *call) else [f"{where}: it was not there"]
        case "GroupNotFound", _:
            group = update.why[-1].facts["group"]
            return [f"{where}: it was there"] if timeline.is_sure((group, NO_CHILD), *call) else []
    return []


def _found(read):
    if read.kind == "check":
        return {read.names[1]} if read.answer else set()
    if read.kind == "export":
        arcs = set(map(tuple, read.answer))
        return arcs | {(parent, NO_CHILD) for parent, _ in arcs}
    return set(read.answer)


def _expected(read, arcs):
    """Return the answer if exactly these arcs and groups exist."""
    match read.kind:
        case "resolve":
            return _reached(arcs, read.names[0], downwards=True)
        case "check":
            return _reached(arcs, read.names[0], downwards=True) & {read.names[1]}
        case "memberships":
            return _reached(arcs, read.names[0], downwards=False)
        case "export":
            return arcs
    raise AssertionError(read.kind)


def _reached(arcs, start, *, downwards):
    following = defaultdict(list)
    for parent, child in arcs:
        if child != NO_CHILD:
            following[parent if downwards else child].append(child if downwards else parent)
    reached, pending = set(), [start]
    while pending:
        for name in following[pending.pop()]:
            if name not in reached:
                reached.add(name)
                pending.append(name)
    return reached


def rows(model):
    """Return a model as export rows: (parent, child, kind). A group without members is the parent of no child."""
    arcs = {(parent, child, kind.name.lower()) for (parent, child), (kind, _) in model.arcs.items()}
    return arcs | {(group, NO_CHILD, "group") for group in model.groups - {parent for parent, _ in model.arcs}}


def was_done(update, *, counters):
    """True if an update that was acknowledged later was done before the servers had these newest counters.

    A coordinator gives an update a higher counter than all that it has seen.
    """
    revision = parse_revision(update.revision)
    return revision.counter <= counters[revision.server]
