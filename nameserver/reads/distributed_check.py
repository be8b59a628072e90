"""Checks over several servers: the servers to ask about a member and a group, and the answer from their findings.

    member                    round one asks                     round two asks (only where there is no "yes" yet)
    owned by a server         that server: it knows all that     the group's home, where nobody has said that the
                              is above what it owns              group exists; all, where the member's home is silent
    foreign (nobody's)        all servers: each knows what is    (the group's home is among them)
                              above what joined its own groups
    of either kind, where a   the group's home, to resolve the group (`whole_groups`), which may answer all: before the
    server of these is away   rounds where that one is known to be away, else after them

This server is asked before any other. About a member of another server, only a "yes" of this server counts: arcs of its
own groups prove it, whatever the member's home would say. All pairs for one server travel in one request. A "yes" of
any server is a yes, because no server says it by an arc that may be gone meanwhile. A "no" is sure if every server that
could say "yes" has answered. A "no" is also sure if the group's home says that all below the group is within reach.

Servers of other organisations are not believed about groups of others. A "yes" then needs a pathname of which each arc
is confirmed by the home of its parent (`confirmed_arcs.py`), and a "no" needs the group's home besides the member's.

While servers agree on a view, each is uncertain of much for some milliseconds. Pairs that would be uncertain then are
asked again until the servers have agreed.

Source: docs/protocol-updates.md, "Questions over several servers" (check and memberships).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Protocol

from namegraph import ArcId, CoreQueries, NodeId, Reason, RefusedError, ServerId, group_not_found, refuse, subnet_of
from nameserver.calls.read_your_writes import PEER_SERVICE
from nameserver.reads.confirmed_arcs import ConfirmedArcs
from nameserver.reads.local_check import UNSURE, LocalChecks, PairFinding
from nameserver.reads.pathname_columns import read_pathnames
from nameserver.reads.whole_groups import WholeGroups
from nameserver.routing.fan_out import ask_part, newest
from nameserver.routing.forwarding import Forwarder
from nameserver.routing.ownership import OwnerKind, Routing
from shadowtree.v1 import peer_pb2 as messages

METHOD = f"/{PEER_SERVICE}/CheckPart"

TRANSITION_SECONDS = 1.0
"""Wait for an answer while servers agree on a view. The agreement takes them a few round trips."""

TRANSITION_SHARE = 0.8
"""Share of the caller's time that this wait may use."""

FIRST_PAUSE_SECONDS = 0.005
LONGEST_PAUSE_SECONDS = 0.1

PAIRS_AT_ONCE = 500
"""Pairs above which other tasks go first between the rounds. Each round looks at all pairs."""

UNCERTAIN, YES, NO = 0, 1, 2
"""Answers, as CheckBulkResponse numbers them."""

_ANSWER_OF_FINDING = {
    PairFinding.NOT_BELOW: NO,
    PairFinding.BELOW: YES,
    PairFinding.NO_GROUP: UNCERTAIN,
    PairFinding.SETTLED: NO,
    PairFinding.APART: UNCERTAIN,
}
_ANSWERS = bytes(_ANSWER_OF_FINDING[finding] for finding in sorted(PairFinding)).ljust(256, bytes([UNCERTAIN]))


def answers_of(findings: bytearray) -> bytearray:
    """Return the answers for the findings of a server, if no other server knows better."""
    return findings.translate(_ANSWERS)


@dataclass(frozen=True, slots=True)
class CheckQuestion:
    """Pairs in columns, canonical, and the way to ask for them. `explain` is for a single pair."""

    groups: Sequence[NodeId]
    members: Sequence[NodeId]
    seconds: float
    at_least_revision: str = ""
    explain: bool = False


@dataclass(slots=True)
class Verdicts:
    """Answers to the first pairs. They cover all pairs unless `refused` is the refusal of the next pair."""

    answers: bytearray
    revision: str
    unreachable: list[str] = field(default_factory=list)
    pathname: list[str] = field(default_factory=list)
    refused: RefusedError | None = None

    def add(self, later: Verdicts) -> None:
        """Append the answers to the pairs that come next."""
        self.answers += later.answers
        self.revision = newest([self.revision, later.revision]) if self.revision else later.revision
        self.unreachable = sorted({*self.unreachable, *later.unreachable})
        self.refused = later.refused


@dataclass(slots=True)
class _Pair:
    """Knowledge of one pair so far."""

    asked: frozenset[ServerId] = frozenset()
    is_below: bool = False
    exists: bool = False
    is_settled: bool = False
    """True if the group's home says that no other server could know better."""
    is_denied: bool = False
    """True if the group's home says that there is no such group."""
    silent: set[str] = field(default_factory=set)
    """Servers that could have said "yes", and were not reached."""
    is_resolved: bool = False
    """True if the group's home was asked to resolve the group without these servers."""
    is_proven: bool = False
    """True if a "yes" needs no confirmation, or has one."""
    told: list[tuple[ServerId, tuple[NodeId, ...]]] = field(default_factory=list)
    """Pathnames from the group to the member, each with the server that told it."""

    @property
    def is_open(self) -> bool:
        """True if another server could change the answer."""
        return not (self.is_below or self.is_settled or self.is_denied)


class Steps(Protocol):
    """Part of the run loop that checks need."""

    def now(self) -> float:
        """Return the time on the clock of steps."""

    async def next_step(self, seconds: float) -> None:
        """Wait for the next step of this server, at most `seconds`."""


class DistributedChecks:
    """Checks that ask the servers with knowledge of the pairs."""

    def __init__(
        self,
        *,
        core: CoreQueries,
        checks: LocalChecks,
        whole_groups: WholeGroups,
        confirmed_arcs: ConfirmedArcs,
        routing: Routing,
        forwarder: Forwarder,
        run_loop: Steps,
    ) -> None:
        self._run_loop = run_loop
        self.confirmed_arcs = confirmed_arcs
        self.core = core
        self.checks = checks
        self.whole_groups = whole_groups
        self.routing = routing
        self.forwarder = forwarder

    async def answer(self, question: CheckQuestion) -> Verdicts:
        """Answer all pairs up to the first whose group does not exist."""
        if self.routing.is_alone:
            return self._answer_alone(question)
        steps, pause_seconds = self._run_loop, FIRST_PAUSE_SECONDS
        deadline = steps.now() + min(TRANSITION_SECONDS, TRANSITION_SHARE * question.seconds)
        while True:
            inquiry = _Inquiry(question, self)
            verdicts = await inquiry.carry_out()
            may_change = inquiry.is_in_transition or inquiry.contradicted
            if not (may_change and UNCERTAIN in verdicts.answers) or steps.now() >= deadline:
                for server in inquiry.contradicted:
                    self.routing.note_contradicted(server)
                return verdicts
            await steps.next_step(min(pause_seconds, deadline - steps.now()))
            pause_seconds = min(2 * pause_seconds, LONGEST_PAUSE_SECONDS)

    def _answer_alone(self, question: CheckQuestion) -> Verdicts:
        groups, members = question.groups, question.members
        findings = self.checks.findings(groups, members, settles=False)
        end = findings.find(PairFinding.NO_GROUP)
        verdicts = Verdicts(answers_of(findings), self.core.revision)
        if end >= 0:
            del verdicts.answers[end:]
            verdicts.refused = no_such_group(groups[end], self.routing, self.core.renamed_to(groups[end]))
        elif question.explain:
            verdicts.pathname = list(self.checks.pathname(groups[0], members[0]))
        return verdicts


class _Inquiry:
    """One question on its way through the servers."""

    def __init__(self, question: CheckQuestion, asking: DistributedChecks) -> None:
        self._question = question
        self._core = asking.core
        self._checks = asking.checks
        self._confirmed_arcs = asking.confirmed_arcs
        self._unbelieved = asking.routing.unbelieved
        self._whole_groups = asking.whole_groups
        self._routing = asking.routing
        self._forwarder = asking.forwarder
        parted = (server for server in self._core.servers_met if not self._core.is_in_view(server))
        self._away = frozenset((*self._routing.unheard(), *(parted if self._core.members else ())))
        self._homes: dict[str, ServerId | None] = {}
        """Home by domain, as domains come up. None if the server of a subnet was never met."""
        self._pairs = [_Pair() for _ in question.groups]
        self._others: tuple[list[ServerId], list[str]] | None = None
        self._pathnames: list[list[str]] = []
        self._revisions: list[str] = [asking.core.revision]
        self._renamed: dict[str, NodeId] = {}
        """Present names of renamed groups, as their homes report them, by the requested name."""
        self.is_in_transition = False
        """True if an asked server, this one included, may know more in a moment."""
        self.contradicted: list[ServerId] = []
        """Servers that told a membership which the home of a group denies, sorted. An update under way may be the
        reason.
        """

    async def carry_out(self) -> Verdicts:
        """Ask this server, then the other servers in two rounds."""
        self.is_in_transition = not self._core.is_steady
        owner_kind = list(map(self._routing.owner_kind, self._question.members))
        await self._let_others_go_first()
        self._ask_own([place for place, of in enumerate(owner_kind) if of is not OwnerKind.ANOTHERS])
        of_others = [place for place, of in enumerate(owner_kind) if of is OwnerKind.ANOTHERS]
        if not self._question.explain:
            self._affirm(of_others)
        first = await self._first_round(owner_kind)
        await self._let_others_go_first()
        await self._resolve()
        await self._let_others_go_first()
        await self._ask(self._still_open(first))
        if self._question.explain:
            # Affirmed only now: the home of the member may know a shorter path.
            self._affirm(of_others)
        await self._ask(await self._second_round())
        await self._let_others_go_first()
        await self._resolve()
        await self._let_others_go_first()
        await self._prove()
        return self._verdicts()

    async def _let_others_go_first(self) -> None:
        """Yield to other tasks. Each round looks at all pairs, of which there may be thousands."""
        if len(self._pairs) > PAIRS_AT_ONCE:
            await asyncio.sleep(0)

    def _verdicts(self) -> Verdicts:
        answers, silent, refused = bytearray(), set[str](), None
        for pair, group in zip(self._pairs, self._question.groups, strict=True):
            if pair.is_below:
                answers.append(YES)
            elif pair.is_denied:
                refused = no_such_group(group, self._routing, self._renamed.get(group))
                break
            elif pair.silent and not pair.is_settled:
                answers.append(UNCERTAIN)
                silent |= pair.silent
            else:
                answers.append(NO)
        is_proved = bool(answers) and answers[0] == YES
        return Verdicts(
            answers=answers,
            revision=newest(self._revisions),
            unreachable=sorted(silent),
            pathname=min(self._pathnames if is_proved else [], key=lambda names: (len(names), names), default=[]),
            refused=refused,
        )

    async def _first_round(self, owner_kind: list[OwnerKind]) -> dict[ServerId, list[int]]:
        """Return the pairs to ask about their members, by server."""
        whom: dict[ServerId, list[int]] = {}
        for position, (pair, of, member) in enumerate(
            zip(self._pairs, owner_kind, self._question.members, strict=True)
        ):
            asked: Sequence[ServerId] = ()
            if of is OwnerKind.ANOTHERS:
                home = await self._home_of(member)
                if home is None:
                    pair.silent.add(subnet_of(member))
                else:
                    asked = (home,)
            elif of is OwnerKind.UNOWNED and pair.is_open:
                asked, never_met = await self._everybody_else()
                pair.silent.update(never_met)
            pair.silent.update(self._away.intersection(asked))
            asked = [server for server in asked if server not in self._away]
            pair.asked |= frozenset(asked)
            for server in asked:
                whom.setdefault(server, []).append(position)
        return whom

    def _still_open(self, whom: dict[ServerId, list[int]]) -> dict[ServerId, list[int]]:
        """Return the pairs of `whom` whose answers still matter, by server."""
        left = {server: [each for each in positions if self._pairs[each].is_open] for server, positions in whom.items()}
        return {server: positions for server, positions in left.items() if positions}

    async def _second_round(self) -> dict[ServerId, list[int]]:
        """Return the pairs of round two, by server.

        The group's home tells if the group exists. If the member's home is silent, all servers tell if the member is
        below.
        """
        whom: dict[ServerId, list[int]] = {}
        for position, (pair, group) in enumerate(zip(self._pairs, self._question.groups, strict=True)):
            is_told = pair.exists and not pair.silent and not await self._needs_home(position)
            if not pair.is_open or is_told:
                continue
            if self._routing.owner_kind(group) is OwnerKind.UNOWNED:
                heard = self._routing.heard_owner(group)
                if heard is None:
                    pair.is_denied = True
                else:
                    pair.silent.add(heard)
                continue
            asked: list[ServerId] = []
            home = await self._home_of(group)
            if home is None:
                pair.silent.add(subnet_of(group))
            else:
                asked.append(home)
            if pair.silent:
                asked += [self._routing.server, *(await self._everybody_else())[0]]
            pair.silent.update(self._away.intersection(asked))
            for server in dict.fromkeys(asked):
                if server not in pair.asked and server not in self._away:
                    whom.setdefault(server, []).append(position)
        return whom

    async def _needs_home(self, position: int) -> bool:
        """Return True if a "no" needs the word of the group's home, because the member's home belongs to another
        organisation, or the group's does.
        """
        if not self._unbelieved or self._routing.owner_kind(self._question.groups[position]) is not OwnerKind.ANOTHERS:
            return False
        home = await self._home_of(self._question.groups[position])
        if home is None or home in self._pairs[position].asked:
            return False
        member = self._question.members[position]
        return home in self._unbelieved or self._routing.known_home(member) in self._unbelieved

    async def _prove(self) -> None:
        """Have the homes of arcs confirm each "yes" that rests on the word of another organisation."""
        open_pairs = [pair for pair in self._pairs if pair.is_below and not pair.is_proven] if self._unbelieved else []
        if not open_pairs:
            return
        question, unbelieved = self._question, self._unbelieved
        arcs = [arc for pair in open_pairs for server, names in pair.told for arc in self._arcs_to_prove(server, names)]
        proof = await self._confirmed_arcs.prove(
            arcs,
            believed=lambda home: home not in unbelieved,
            seconds=question.seconds,
            at_least_revision=question.at_least_revision,
        )
        self._revisions += proof.revisions
        denied = {arc for arcs in proof.denied.values() for arc in arcs}
        contradicted = set[ServerId]()
        for pair in open_pairs:
            pair.is_below, liars, silent = False, set[ServerId](), set[str]()
            for server, names in pair.told:
                needed = self._arcs_to_prove(server, names)
                homes = {self._routing.known_home(arc.parent) for arc in needed}
                if not denied.isdisjoint(needed):
                    liars.add(server)
                elif not proof.silent.isdisjoint(homes):
                    silent.update(proof.silent.intersection(homes))
                else:
                    pair.is_below = pair.is_proven = True
            if not pair.is_below:
                pair.silent |= silent | liars or unbelieved
                contradicted |= liars
        self.contradicted = sorted(contradicted - {self._routing.server})
        self._pathnames = [list(names) for pair in self._pairs for _, names in pair.told if pair.is_proven]

    def _arcs_to_prove(self, server: ServerId, names: tuple[NodeId, ...]) -> list[ArcId]:
        """Return the arcs of a pathname that other servers than the one that told it own."""
        return [ArcId(*pair) for pair in pairwise(names) if self._routing.known_home(pair[0]) != server]

    def _take_proofs(self, server: ServerId, positions: Iterable[int], told: Iterable[tuple[NodeId, ...]]) -> None:
        for position, names in zip(positions, told, strict=True):
            if names:
                self._pairs[position].told.append((server, names))

    def _prove_here(self, positions: list[int], findings: Iterable[int]) -> None:
        """Note for each "yes" of this server if it rests on no other organisation, or else the pathname to prove."""
        if not self._unbelieved:
            return
        question, own = self._question, self._routing.server
        for position, finding in zip(positions, findings, strict=True):
            if finding == PairFinding.BELOW:
                group, member = question.groups[position], question.members[position]
                pair = self._pairs[position]
                pair.is_proven = pair.is_proven or self._checks.is_proven(group, member, self._unbelieved)
                self._take_proofs(own, (position,), (tuple(self._checks.pathname(group, member)),))

    async def _ask(self, whom: dict[ServerId, list[int]]) -> None:
        self._ask_own(whom.pop(self._routing.server, []))
        await asyncio.gather(*(self._ask_another(server, positions) for server, positions in sorted(whom.items())))

    async def _resolve(self) -> None:
        """Have groups with a silent server resolved by their homes. The silent server may have nothing below them."""
        whom: dict[ServerId, list[int]] = {}
        for position, (pair, group) in enumerate(zip(self._pairs, self._question.groups, strict=True)):
            home = self._routing.known_home(group)
            if pair.is_open and pair.silent and not pair.is_resolved and home is not None and home not in pair.silent:
                pair.is_resolved = True
                whom.setdefault(home, []).append(position)
        own = whom.pop(self._routing.server, [])
        others = (self._ask_another(server, positions, resolves=True) for server, positions in sorted(whom.items()))
        await asyncio.gather(self._resolve_own(own), *others)

    async def _resolve_own(self, positions: list[int]) -> None:
        question, (groups, members) = self._question, self._columns(positions)
        told = await self._whole_groups.verdicts(
            groups, members, seconds=question.seconds, at_least_revision=question.at_least_revision
        )
        self._revisions += told.revisions
        for position, is_below in zip(positions, told.is_below, strict=True):
            pair = self._pairs[position]
            if is_below is None:
                pair.silent.update(told.away)
            pair.is_settled |= is_below is False
            # The servers asked about the member tell a pathname.
            pair.is_below |= bool(is_below) and not question.explain

    def _ask_own(self, positions: list[int]) -> None:
        if not positions:
            return
        own = self._routing.server
        groups, members = self._columns(positions)
        for position in positions:
            self._pairs[position].asked |= {own}
        findings = self._checks.findings(groups, members, settles=True)
        self._take(own, positions, findings)
        self._prove_here(positions, findings)
        self._renamed |= self._checks.renamed(groups, findings)
        self._take_apart(positions, findings, self._checks.away(groups, members, findings))
        if self._question.explain:
            self._take_pathname(self._checks.pathname(groups[0], members[0]))

    def _affirm(self, positions: list[int]) -> None:
        """Take a "yes" of this server about members of other servers.

        Their homes know more about every other answer.
        """
        if not positions:
            return
        groups, members = self._columns(positions)
        findings = self._checks.findings(groups, members, settles=False)
        for position, finding in zip(positions, findings, strict=True):
            self._pairs[position].is_below |= finding == PairFinding.BELOW
        self._prove_here(positions, findings)
        if self._question.explain and self._pairs[0].is_below:
            self._take_pathname(self._checks.pathname(groups[0], members[0]))

    async def _ask_another(self, server: ServerId, positions: list[int], *, resolves: bool = False) -> None:
        groups, members = self._columns(positions)
        request = messages.CheckPartRequest(
            groups=groups,
            members=members,
            at_least_revision=self._question.at_least_revision,
            explain=self._question.explain,
            resolve=resolves,
            with_pathnames=bool(self._unbelieved),
        )
        part = await ask_part(
            self._forwarder, server, METHOD, request, messages.CheckPartResponse, seconds=self._question.seconds
        )
        if part is None or len(part.answers) != len(positions):
            for position in positions:
                self._pairs[position].silent.add(server)
        else:
            self._revisions.append(part.revision)
            self.is_in_transition |= part.is_in_transition
            findings: Iterable[int] = part.answers
            if part.view != self._core.view:
                # One of the two servers has not yet heard of the other's view.
                self.is_in_transition = True
                findings = [PairFinding.APART if finding == PairFinding.BELOW else finding for finding in part.answers]
                for position in positions:
                    self._pairs[position].silent.add(server)
            self._take(server, positions, findings)
            if self._unbelieved:
                below = [
                    at for at, finding in zip(positions, part.answers, strict=True) if finding == PairFinding.BELOW
                ]
                pairs = [(self._question.groups[at], self._question.members[at]) for at in below]
                self._take_proofs(server, below, read_pathnames(part, pairs, self._core.graph.index))
            self._renamed.update((each.name, NodeId(each.to)) for each in part.renamed)
            self._take_apart(positions, findings, part.apart)
            self._take_pathname(part.pathname)

    def _take(self, server: ServerId, positions: list[int], findings: Iterable[int]) -> None:
        for position, finding in zip(positions, findings, strict=True):
            pair = self._pairs[position]
            if finding == PairFinding.NO_GROUP:
                pair.is_denied = pair.is_denied or server == self._routing.known_home(self._question.groups[position])
            else:
                pair.exists = True
                pair.is_below = pair.is_below or finding == PairFinding.BELOW
                pair.is_settled = pair.is_settled or finding == PairFinding.SETTLED

    def _take_apart(self, positions: list[int], findings: Iterable[int], apart: Iterable[str]) -> None:
        """Note the servers that are away and might know better."""
        for position, finding in zip(positions, findings, strict=True):
            if finding in UNSURE:
                self._pairs[position].silent.update(apart)

    def _take_pathname(self, pathname: Iterable[str]) -> None:
        names = list(pathname)
        if names:
            self._pathnames.append(names)

    async def _everybody_else(self) -> tuple[list[ServerId], list[str]]:
        """Return all other servers, and the servers that cannot be asked."""
        if self._others is None:
            self._others = await self._routing.others()
        return self._others

    async def _home_of(self, name: NodeId) -> ServerId | None:
        """Return the home of a name in an owned subnet. None if that server was never met."""
        domain = subnet_of(name)
        if domain not in self._homes:
            try:
                self._homes[domain] = await self._routing.home_of(name)
            except RefusedError:
                self._homes[domain] = None
        return self._homes[domain]

    def _columns(self, positions: list[int]) -> tuple[Sequence[NodeId], Sequence[NodeId]]:
        groups, members = self._question.groups, self._question.members
        if len(positions) == len(groups):
            return groups, members
        return [groups[position] for position in positions], [members[position] for position in positions]


def uncertain(question: CheckQuestion, verdicts: Verdicts) -> RefusedError:
    """Return the refusal to answer about a single pair. It names the unreachable servers."""
    group, member, unreachable = question.groups[0], question.members[0], verdicts.unreachable
    return refuse(
        Reason.UNAVAILABLE,
        f"cannot tell whether {member} is in {group}: out of reach: {', '.join(unreachable)}",
        group=group,
        member=member,
        revision=verdicts.revision,
        unreachable="\n".join(unreachable),
    )


def no_such_group(group: NodeId, routing: Routing, renamed_to: NodeId | None = None) -> RefusedError:
    """Return the refusal for a group that its home does not have, or that has no home."""
    home = routing.known_home(group)
    return group_not_found(group, home or routing.server, known_subnet=home is not None, renamed_to=renamed_to)
