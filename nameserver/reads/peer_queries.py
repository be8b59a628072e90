"""PeerService's questions: calls of other servers to this one, from which they make their answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from namegraph import ArcId, CoreQueries, NodeId, Privilege, Reason, is_plain, named_in, only, refuse
from nameserver.access.caller import current_caller
from nameserver.calls.adapters import Chunks, Context, Handler, read, stream_call, unary_call
from nameserver.calls.caller_facts import FactsOfCallers
from nameserver.calls.judging import Judging
from nameserver.calls.read_your_writes import Revisions
from nameserver.calls.stable_listing import collected
from nameserver.driver.ancestry_filling import AncestryFilling
from nameserver.driver.run_loop import RunLoop
from nameserver.reads.bulk_checks import CHECK_PAIRS_LIMIT
from nameserver.reads.confirmed_arcs import CONFIRMED_ARCS_LIMIT, NOT_OWNED, NOT_THERE, THERE
from nameserver.reads.distributed_resolve import DistributedResolutions, own_part
from nameserver.reads.duplication_records import DESCRIBED_ARCS_LIMIT
from nameserver.reads.local_check import LocalChecks, PairFinding
from nameserver.reads.pathname_columns import put_pathnames
from nameserver.reads.whole_groups import WholeGroups
from nameserver.routing.fan_out import newest
from nameserver.routing.forwarding import Forwarder, not_owned_here, part_seconds
from nameserver.routing.ownership import Routing
from nameserver.transport.peer_directory import PeerDirectory
from nameserver.wire import conversion
from nameserver.wire.resolve_part import part_chunks
from nameserver.wire.target_sets import read_targets
from resolver.descriptions import RD_ANCESTORS_LIMIT
from resolver.membership import MembershipResolver
from resolver.parts import PartRequest, Parts, ServerPart
from shadowtree.v1 import peer_pb2 as messages


class PeerQuestionCalls:
    """Servicer of CheckPart, ConfirmArcs, DescribeArcs, ResolvePart and TellBasis, from this server alone unless asked
    to resolve.
    """

    def __init__(
        self,
        *,
        core: CoreQueries,
        checks: LocalChecks,
        whole_groups: WholeGroups,
        parts: Parts,
        run_loop: RunLoop,
        judging: Judging,
    ) -> None:
        self._judging = judging
        self._core = core
        self._run_loop = run_loop
        self._parts = parts
        self._checks = checks
        self._whole_groups = whole_groups

    async def tell_caller_groups(
        self, request: messages.TellCallerGroupsRequest, context: Context
    ) -> messages.TellCallerGroupsResponse:
        """Return the groups of this server that contain one of its principals and are in a group of another server."""
        del context
        core = self._core
        principal = conversion.read_id(request.principal, "principal", core.graph.index)
        if core.owner_of_name(principal) != core.server:
            raise not_owned_here(principal, core.server)
        asker = current_caller().via
        if asker is None:
            raise refuse(Reason.PERMISSION_DENIED, "only another server is told the groups of a principal")
        return messages.TellCallerGroupsResponse(groups=core.groups_told_of(principal, asker))

    async def check_part(self, request: messages.CheckPartRequest, context: Context) -> messages.CheckPartResponse:
        """Return this server's finding about each pair."""
        pairs = len(request.groups)
        if pairs != len(request.members) or pairs > CHECK_PAIRS_LIMIT or (request.explain and pairs != 1):
            raise refuse(
                Reason.INVALID_REQUEST,
                f"{pairs} groups and {len(request.members)} members: a request holds at most {CHECK_PAIRS_LIMIT} "
                "pairs, and one where the path is asked for",
                field="members",
            )
        known = self._core.graph.index
        groups = [conversion.read_id(name, "groups", known) for name in request.groups]
        members = [conversion.read_id(name, "members", known) for name in request.members]
        untold = await self._untold_pairs(groups, members) if self._judging.is_needed else frozenset()
        findings, revisions = self._checks.findings(groups, members, settles=True), [self._core.revision]
        away = set[str]()
        if request.resolve:
            told = await self._whole_groups.verdicts(
                groups,
                members,
                seconds=part_seconds(context),
                at_least_revision=request.at_least_revision,
            )
            for place, is_below in enumerate(told.is_below):
                if is_below is False and findings[place] != PairFinding.BELOW:
                    findings[place] = PairFinding.SETTLED
                elif is_below and not request.explain:
                    findings[place] = PairFinding.BELOW
                elif is_below is None and findings[place] == PairFinding.NOT_BELOW:
                    findings[place] = PairFinding.APART
            revisions += told.revisions
            away.update(told.away)
        for place in untold:
            findings[place] = PairFinding.NO_GROUP
        if untold:
            told_places = [place for place in range(pairs) if place not in untold]
            shown = (
                [groups[place] for place in told_places],
                [members[place] for place in told_places],
                [findings[place] for place in told_places],
            )
        else:
            shown = groups, members, list(findings)
        response = messages.CheckPartResponse(
            answers=bytes(findings),
            apart=sorted({*self._checks.away(*shown), *away}),
            view=self._core.view,
            is_in_transition=not self._core.is_steady,
            revision=newest(revisions),
            pathname=self._checks.pathname(groups[0], members[0]) if request.explain and not untold else (),
            renamed=[
                messages.CheckPartResponse.Renamed(name=name, to=to)
                for name, to in self._checks.renamed(shown[0], shown[2]).items()
            ],
        )
        if request.with_pathnames:
            both = zip(groups, members, strict=True)
            below = [pair for pair, finding in zip(both, findings, strict=True) if finding == PairFinding.BELOW]
            put_pathnames(response, await self._checks.pathnames(below))
        return response

    async def _untold_pairs(self, groups: Sequence[NodeId], members: Sequence[NodeId]) -> frozenset[int]:
        """Return the positions of the pairs about which the server that asks is told nothing.

        The home of a group judges its callers, and asks here. About a group of this server, the caller is judged that
        the other server names.
        """
        core, asker = self._core, current_caller().via
        homes = core.owners_of_names(groups)
        owned = [group for group, home in zip(groups, homes, strict=True) if home == core.server]
        denied = await self._judging.denials(Privilege.CHECK, owned)
        principal = NodeId(self._judging.rights_known_here().facts.principal)
        return frozenset(
            place
            for place, (group, member, home) in enumerate(zip(groups, members, homes, strict=True))
            if (home != core.server and (home is None or home != asker)) or (group in denied and member != principal)
        )

    async def confirm_arcs(
        self, request: messages.ConfirmArcsRequest, context: Context
    ) -> messages.ConfirmArcsResponse:
        """Return for each arc if it is there, as far as this server owns its parent."""
        del context
        if len(request.parents) != len(request.children) or len(request.parents) > CONFIRMED_ARCS_LIMIT:
            raise refuse(
                Reason.INVALID_REQUEST,
                f"{len(request.parents)} parents and {len(request.children)} children are no columns of at most "
                f"{CONFIRMED_ARCS_LIMIT} arcs",
                field="children",
            )
        known = self._core.graph.index
        parents = [conversion.read_id(name, "parents", known) for name in request.parents]
        children = [conversion.read_id(name, "children", known) for name in request.children]
        answers = bytes(map(self._confirmed, parents, children))
        return messages.ConfirmArcsResponse(answers=answers, revision=self._core.revision)

    def _confirmed(self, parent: NodeId, child: NodeId) -> int:
        if self._core.home_of(parent) != self._core.server:
            return NOT_OWNED
        return THERE if self._checks.has_arc(ArcId(parent, child)) else NOT_THERE

    async def describe_arcs(
        self, request: messages.DescribeArcsRequest, context: Context
    ) -> messages.DescribeArcsResponse:
        """Return the blocked originators of each arc into a node of this server."""
        del context
        if len(request.parents) != len(request.children) or len(request.parents) > DESCRIBED_ARCS_LIMIT:
            raise refuse(
                Reason.INVALID_REQUEST,
                f"{len(request.parents)} parents and {len(request.children)} children are no columns of at most "
                f"{DESCRIBED_ARCS_LIMIT} arcs",
                field="children",
            )
        with self._core.kept() as state:
            records = await collected(_sources_of(state, request))
            return messages.DescribeArcsResponse(records=records, revision=state.revision, view=state.view)

    async def resolve_part(self, request: messages.ResolvePartRequest, context: Context) -> Chunks:
        """Return the nodes owned here that an originator, or a set, reaches."""
        del context
        known = self._core.graph.index
        facts = await self._judging.all_facts()
        if request.targets:
            targets = read_targets(request.targets, request.excluding, known)
        else:
            targets = only(conversion.read_id(request.originator, "originator", known))
        with_steps = request.with_steps and is_plain(targets)
        # A part that the asker holds was told for another caller.
        version = request.known_version if facts is None else None
        asked = PartRequest(self._core.server, targets, version or None, with_steps, request.counts)
        if facts is not None:
            for name in named_in(targets):
                if self._core.owner_of_name(name) == self._core.server:
                    await self._judging.require(Privilege.READ, name)
        answer = await own_part(self._parts, asked, self._run_loop)
        if facts is not None and isinstance(answer, ServerPart):
            rights = self._core.rights_of(facts)
            if not all(rights.has(Privilege.READ, group) for group in answer.groups):
                raise refuse(
                    Reason.PERMISSION_DENIED,
                    "some group below is closed to you",
                    privilege=Privilege.READ.value,
                    server=self._core.server,
                )
        return part_chunks(answer, self._core.revision, self._parts.basis())

    async def tell_basis(self, request: messages.TellBasisRequest, context: Context) -> messages.TellBasisResponse:
        """Return the basis of this server. The same basis again proves that no part has changed."""
        del request, context
        return messages.TellBasisResponse(basis=self._parts.basis())


def peer_question_handlers(
    *,
    core: CoreQueries,
    resolver: MembershipResolver,
    parts: Parts,
    filling: AncestryFilling,
    run_loop: RunLoop,
    directory: PeerDirectory,
) -> dict[str, Handler]:
    """Return the handlers of the questions among PeerService's methods, by their names."""
    forwarder = Forwarder(server=core.server, directory=directory)
    revisions = Revisions(core=core, run_loop=run_loop, forwarder=forwarder)
    resolutions = DistributedResolutions(
        core=core, resolver=resolver, parts=parts, run_loop=run_loop, forwarder=forwarder
    )
    questions = PeerQuestionCalls(
        core=core,
        checks=LocalChecks(core=core, resolver=resolver),
        whole_groups=WholeGroups(core=core, resolutions=resolutions, routing=Routing(known=core, directory=directory)),
        parts=parts,
        run_loop=run_loop,
        judging=Judging(core=core, facts=FactsOfCallers(core=core, forwarder=forwarder)),
    )
    ready = directory.until_all_met
    return {
        "AwaitRevision": unary_call(revisions.await_own, messages.AwaitRevisionRequest),
        "ResolvePart": stream_call(
            read(questions.resolve_part, revisions, filling, until_ready=ready), messages.ResolvePartRequest
        ),
        "TellBasis": unary_call(
            read(questions.tell_basis, revisions, filling, until_ready=ready), messages.TellBasisRequest
        ),
        "CheckPart": unary_call(
            read(questions.check_part, revisions, filling, of=_members, until_ready=ready),
            messages.CheckPartRequest,
        ),
        "TellCallerGroups": unary_call(questions.tell_caller_groups, messages.TellCallerGroupsRequest),
        "ConfirmArcs": unary_call(
            read(questions.confirm_arcs, revisions, filling, until_ready=ready), messages.ConfirmArcsRequest
        ),
        "DescribeArcs": unary_call(
            read(questions.describe_arcs, revisions, filling, of=_children, until_ready=ready),
            messages.DescribeArcsRequest,
        ),
    }


def _sources_of(
    core: CoreQueries, request: messages.DescribeArcsRequest
) -> Iterator[messages.DescribeArcsResponse.Sources]:
    """Yield the records of each arc in turn, as many as have room in a description."""
    known = core.graph.index
    room = RD_ANCESTORS_LIMIT + 1
    for parent, child in zip(request.parents, request.children, strict=True):
        arc = ArcId(conversion.read_id(parent, "parents", known), conversion.read_id(child, "children", known))
        if core.home_of(arc.child) != core.server:
            raise not_owned_here(arc.child, core.server)
        names = core.rd_record(arc)[:room]
        yield messages.DescribeArcsResponse.Sources(names=names)
        room -= len(names)
        if not room:
            return


def _members(request: messages.CheckPartRequest) -> Sequence[str]:
    return request.members


def _children(request: messages.DescribeArcsRequest) -> Sequence[str]:
    return request.children
