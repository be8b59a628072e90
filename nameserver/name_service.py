"""The NameService: the answering part and the home of each method.

of one name's home     CreateGroup, DeleteGroup, RenameGroup, SetDetails, Join, Leave (see `arc_home`), LeaveEverywhere,
                       ApplyUpdates, DescribeGroup, Resolve, ListChanges, Watch, and ListGroups and Export of one
                       subnet: answered here, or forwarded as they are (`homes`); ApplyInChunks: `chunked_updates`
of this server alone   CheckKnown, and Check by its short way where that answers
of several servers     Check, CheckBulk, ListMemberships, FindSpellings, ListGroups, Export, Import, Confirm, and
                       Resolve, which the group's home begins, or of a set of groups who is asked: their own files
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from namegraph import CoreQueries
from nameserver.calls.adapters import (
    Answer,
    AnswerT,
    Context,
    Handler,
    Method,
    chunked_call,
    conversation_call,
    gathered,
    incoming_stream_call,
    read,
    stream_call,
    unary_call,
)
from nameserver.calls.caller_facts import FactsOfCallers
from nameserver.calls.home_dispatch import HomeDispatch
from nameserver.calls.judging import Judging
from nameserver.calls.read_your_writes import Revisions
from nameserver.driver.ancestry_filling import AncestryFilling
from nameserver.driver.run_loop import RunLoop
from nameserver.reads.bulk_checks import BulkCheckCalls
from nameserver.reads.changes import ChangeCalls
from nameserver.reads.check_and_describe import QuestionCalls
from nameserver.reads.confirmations import Confirmations
from nameserver.reads.confirmed_arcs import ConfirmedArcs
from nameserver.reads.distributed_check import DistributedChecks
from nameserver.reads.distributed_resolve import DistributedResolutions
from nameserver.reads.duplication_records import ArcRecords
from nameserver.reads.exports import ExportCalls
from nameserver.reads.group_lists import GroupListCalls
from nameserver.reads.known_checks import KnownChecks
from nameserver.reads.local_check import LocalChecks
from nameserver.reads.memberships import MembershipCalls
from nameserver.reads.resolve_stream import StreamCalls
from nameserver.reads.spellings import SpellingCalls
from nameserver.reads.whole_groups import WholeGroups
from nameserver.routing.arc_home import StandIns
from nameserver.routing.forwarding import Forwarder
from nameserver.routing.ownership import Routing
from nameserver.routing.subnet_guard import SubnetGuard
from nameserver.transport.peer_directory import PeerDirectory
from nameserver.writes.chunked_updates import ChunkedUpdateCalls
from nameserver.writes.imports import ImportCalls
from nameserver.writes.rights_calls import RightsCalls, groups_of
from nameserver.writes.updates import RequestIds, UpdateCalls
from resolver.membership import MembershipResolver
from resolver.parts import Parts
from shadowtree.v1 import name_service_pb2 as messages

AboutGroup: TypeAlias = (
    messages.CreateGroupRequest
    | messages.DeleteGroupRequest
    | messages.DescribeGroupRequest
    | messages.CheckRequest
    | messages.RenameGroupRequest
    | messages.SetPolicyRequest
    | messages.GetPolicyRequest
)


CHUNKED_METHODS = frozenset({"ApplyInChunks"})
"""Methods whose request comes in chunks, and is gathered before it is worked on."""


CheckHere: TypeAlias = Method[messages.CheckRequest]


def name_service_handlers(
    *,
    core: CoreQueries,
    resolver: MembershipResolver,
    parts: Parts,
    filling: AncestryFilling,
    run_loop: RunLoop,
    directory: PeerDirectory,
) -> dict[str, Handler]:
    """Return the handler of each method, by its name."""
    routing = Routing(known=core, directory=directory)
    forwarder = Forwarder(server=core.server, directory=directory)
    revisions = Revisions(core=core, run_loop=run_loop, forwarder=forwarder)
    homes = HomeDispatch(routing=routing, forwarder=forwarder)
    stand_ins = StandIns(core=core, routing=routing)
    checks = LocalChecks(core=core, resolver=resolver)
    resolutions = DistributedResolutions(
        core=core, resolver=resolver, parts=parts, run_loop=run_loop, forwarder=forwarder
    )
    cross_checks = _cross_checks(core, checks, resolutions, routing, forwarder, run_loop)
    request_ids = RequestIds()
    listed = SubnetGuard(core=core, routing=routing)
    facts = FactsOfCallers(core=core, forwarder=forwarder)
    judging = Judging(core=core, facts=facts)
    memberships = MembershipCalls(core=core, resolver=resolver, routing=routing, forwarder=forwarder, judging=judging)
    updates = UpdateCalls(
        run_loop=run_loop,
        graph=core.graph,
        request_ids=request_ids,
        listed=listed,
        restarting=directory,
        elsewhere=memberships,
        has_answered=core.has_answered,
        is_steady=lambda: core.is_steady,
        require_owned=routing.require_owned,
        facts=facts,
    )
    policies = RightsCalls(
        core=core, run_loop=run_loop, request_ids=request_ids, facts=facts, own_groups=lambda: groups_of(core)
    )
    imports = ImportCalls(
        run_loop=run_loop,
        graph=core.graph,
        request_ids=request_ids,
        routing=routing,
        forwarder=forwarder,
        listed=listed,
        restarting=directory,
        facts=facts,
    )
    chunked = ChunkedUpdateCalls(updates=updates, routing=routing, forwarder=forwarder)
    questions = QuestionCalls(
        core=core,
        resolver=resolver,
        checks=checks,
        cross_checks=cross_checks,
        arc_records=ArcRecords(core=core, resolver=resolver, forwarder=forwarder),
        routing=routing,
        judging=judging,
    )
    streams = StreamCalls(
        core=core,
        resolver=resolver,
        run_loop=run_loop,
        routing=routing,
        resolutions=resolutions,
        parts=parts,
        judging=judging,
    )
    confirmations = Confirmations(core=core, parts=parts, forwarder=forwarder)
    group_lists = GroupListCalls(core=core, resolver=resolver, routing=routing, forwarder=forwarder, judging=judging)
    spellings = SpellingCalls(core=core, routing=routing, forwarder=forwarder, judging=judging)
    exports = ExportCalls(core=core, resolver=resolver, routing=routing, forwarder=forwarder, judging=judging)
    bulk_checks = BulkCheckCalls(
        core=core,
        checks=checks,
        cross_checks=cross_checks,
        routing=routing,
        revisions=revisions,
        filling=filling,
        forwarder=forwarder,
        judging=judging,
    )

    def reading(
        answer: Callable[[Any, Context], Awaitable[AnswerT]],
        of: Callable[[Any], Sequence[str]] | None = None,
    ) -> Callable[[Any, Context], Awaitable[AnswerT]]:
        return read(answer, revisions, filling, of=of, until_ready=directory.until_all_met)

    create = homes.unary("CreateGroup", _group, updates.create_group, changes=True)
    delete = homes.unary("DeleteGroup", _group, updates.delete_group, changes=True)
    join = homes.unary("Join", stand_ins.of_join, updates.join, changes=True)
    leave = homes.unary("Leave", stand_ins.of_leave, updates.leave, changes=True)
    leave_everywhere = homes.unary("LeaveEverywhere", _subnet_or_member, updates.leave_everywhere, changes=True)
    set_details = homes.unary("SetDetails", _first_group, updates.set_details, changes=True)
    set_policy = homes.unary("SetPolicy", _group, policies.set_policy, changes=True)
    get_policy = homes.unary("GetPolicy", _group, policies.get_policy, changes=False)
    rename = homes.unary("RenameGroup", _group, updates.rename_group, changes=True)
    apply = homes.unary("ApplyUpdates", _first_parent, updates.apply_updates, changes=True)
    describe = homes.unary("DescribeGroup", _group, reading(questions.describe_group, _groups), changes=False)
    check_asked = reading(questions.check, _members)
    check_at_home = homes.unary("Check", _group, check_asked, changes=False)

    async def check(request: messages.CheckRequest, context: Context) -> Answer:
        # The home of the group judges the caller.
        return await (check_asked if core.server_policy is None else check_at_home)(request, context)

    list_groups = homes.unary("ListGroups", _subnet, reading(group_lists.list_groups), changes=False)
    export = homes.stream("Export", _subnet, reading(exports.export))
    resolve = homes.stream("Resolve", _only_group, reading(streams.resolve))
    list_memberships = reading(memberships.list_memberships, _members)
    known_checks = _known_checks(core, checks, routing, judging, directory)
    changes = ChangeCalls(core=core, run_loop=run_loop, routing=routing, revisions=revisions, judging=judging)
    list_changes = homes.stream("ListChanges", _group_or_subnet, changes.list_changes)
    watch = homes.stream("Watch", _group_or_subnet, changes.watch)
    return {
        "CreateGroup": unary_call(create, messages.CreateGroupRequest),
        "DeleteGroup": unary_call(delete, messages.DeleteGroupRequest),
        "SetDetails": unary_call(set_details, messages.SetDetailsRequest),
        "SetPolicy": unary_call(set_policy, messages.SetPolicyRequest),
        "GetPolicy": unary_call(get_policy, messages.GetPolicyRequest),
        "AdoptPolicy": unary_call(policies.adopt_policy, messages.AdoptPolicyRequest),
        "DescribeGroup": unary_call(describe, messages.DescribeGroupRequest),
        "ListGroups": unary_call(list_groups, messages.ListGroupsRequest),
        "Join": unary_call(join, messages.JoinRequest),
        "Leave": unary_call(leave, messages.LeaveRequest),
        "LeaveEverywhere": unary_call(leave_everywhere, messages.LeaveEverywhereRequest),
        "RenameGroup": unary_call(rename, messages.RenameGroupRequest),
        "ApplyUpdates": unary_call(apply, messages.ApplyUpdatesRequest),
        "ApplyInChunks": chunked_call(chunked.apply_in_chunks),
        "Import": incoming_stream_call(imports.import_graph, messages.ImportChunk),
        "ListChanges": stream_call(list_changes, messages.ListChangesRequest),
        "Watch": stream_call(watch, messages.WatchRequest),
        "Export": stream_call(export, messages.ExportRequest),
        "Resolve": stream_call(resolve, messages.ResolveRequest),
        "ResolveAtOnce": unary_call(gathered(resolve, messages.ResolveChunk(too_large=True)), messages.ResolveRequest),
        "Check": unary_call(check, messages.CheckRequest),
        "Confirm": unary_call(reading(confirmations.confirm), messages.ConfirmRequest),
        "CheckBulk": conversation_call(bulk_checks.check_bulk, messages.CheckBulkRequest),
        "CheckKnown": unary_call(known_checks.check_known, messages.CheckKnownRequest),
        "ListMemberships": stream_call(list_memberships, messages.ListMembershipsRequest),
        "ListMembershipsAtOnce": unary_call(
            gathered(list_memberships, messages.ListMembershipsChunk(too_large=True)), messages.ListMembershipsRequest
        ),
        "FindSpellings": unary_call(reading(spellings.find_spellings), messages.FindSpellingsRequest),
    }


def check_here(
    *,
    core: CoreQueries,
    resolver: MembershipResolver,
    parts: Parts,
    filling: AncestryFilling,
    run_loop: RunLoop,
    directory: PeerDirectory,
) -> CheckHere:
    """Return the method Check for this server's own questions about a member."""
    routing = Routing(known=core, directory=directory)
    forwarder = Forwarder(server=core.server, directory=directory)
    checks = LocalChecks(core=core, resolver=resolver)
    resolutions = DistributedResolutions(
        core=core, resolver=resolver, parts=parts, run_loop=run_loop, forwarder=forwarder
    )
    questions = QuestionCalls(
        core=core,
        resolver=resolver,
        checks=checks,
        cross_checks=_cross_checks(core, checks, resolutions, routing, forwarder, run_loop),
        arc_records=ArcRecords(core=core, resolver=resolver, forwarder=forwarder),
        routing=routing,
        judging=None,
    )
    revisions = Revisions(core=core, run_loop=run_loop, forwarder=forwarder)
    return read(questions.check, revisions, filling, of=_members, until_ready=directory.until_all_met)


def short_ways(
    *, core: CoreQueries, resolver: MembershipResolver, directory: PeerDirectory
) -> dict[str, Callable[[bytes], bytes | None]]:
    """Return the calls that this server can answer at once: functions of an encoded request that may return None."""
    checks = LocalChecks(core=core, resolver=resolver)
    facts = FactsOfCallers(core=core, forwarder=Forwarder(server=core.server, directory=directory))
    judging, routing = Judging(core=core, facts=facts), Routing(known=core, directory=directory)
    known_checks = _known_checks(core, checks, routing, judging, directory)
    return {"Check": known_checks.check, "CheckKnown": known_checks.check_known_now}


def _known_checks(
    core: CoreQueries, checks: LocalChecks, routing: Routing, judging: Judging, directory: PeerDirectory
) -> KnownChecks:
    return KnownChecks(
        core=core, checks=checks, routing=routing, judging=judging, is_ready=lambda: directory.are_all_met
    )


def _cross_checks(
    core: CoreQueries,
    checks: LocalChecks,
    resolutions: DistributedResolutions,
    routing: Routing,
    forwarder: Forwarder,
    run_loop: RunLoop,
) -> DistributedChecks:
    return DistributedChecks(
        core=core,
        checks=checks,
        whole_groups=WholeGroups(core=core, resolutions=resolutions, routing=routing),
        confirmed_arcs=ConfirmedArcs(
            server=core.server,
            forwarder=forwarder,
            home_of=routing.known_home,
            is_there=checks.has_arc,
            clock=run_loop.now,
        ),
        routing=routing,
        forwarder=forwarder,
        run_loop=run_loop,
    )


def _group(request: AboutGroup) -> str:
    return request.group


def _only_group(request: messages.ResolveRequest) -> str:
    """Return the group whose home answers. The asked server answers for a set."""
    targets = request.targets
    is_plain = len(targets) == 1 and not (targets[0].excluding or request.excluding)
    return targets[0].group if is_plain and not request.group else request.group


def _groups(request: messages.DescribeGroupRequest) -> Sequence[str]:
    return (request.group,)


def _members(request: messages.CheckRequest | messages.ListMembershipsRequest) -> Sequence[str]:
    return (request.member,)


def _first_group(request: messages.SetDetailsRequest) -> str:
    return request.groups[0].group if request.groups else ""


def _first_parent(request: messages.ApplyUpdatesRequest) -> str:
    return request.operations[0].parent if request.operations else ""


def _subnet_or_member(request: messages.LeaveEverywhereRequest) -> str:
    return request.subnet or request.member


def _group_or_subnet(request: messages.ListChangesRequest | messages.WatchRequest) -> str:
    return request.group or request.subnet


def _subnet(request: messages.ListGroupsRequest | messages.ExportRequest) -> str:
    return request.subnet
