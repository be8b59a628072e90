"""The NameService: which method is answered by what, and where.

of one name's home     CreateGroup, DeleteGroup, Join, Leave (see `stand_ins`), ApplyUpdates, DescribeGroup, Resolve,
                       and ListGroups and Export of one subnet: answered here, or forwarded as they are (`homes`)
of several servers     Check, CheckBulk, ListMemberships, ListGroups, Export, Import, and Resolve, which the group's
                       home begins: their own files
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeAlias

from namegraph.core_reads import CoreReads
from nameserver.ancestry_filling import AncestryFilling
from nameserver.forwarding import Forwarder
from nameserver.gaps import Gaps
from nameserver.pair_checks import PairChecks
from nameserver.routing import PeerDirectory, Routing
from nameserver.run_loop import RunLoop
from nameserver.services.arc_records import ArcRecords
from nameserver.services.bulk_checks import BulkCheckCalls
from nameserver.services.calls import (
    AnswerT,
    Context,
    Handler,
    conversation_call,
    incoming_stream_call,
    never,
    nobody,
    read,
    stream_call,
    unary_call,
)
from nameserver.services.cross_checks import CrossChecks
from nameserver.services.exports import ExportCalls
from nameserver.services.group_lists import GroupListCalls
from nameserver.services.homes import Homes
from nameserver.services.imports import ImportCalls
from nameserver.services.listed_subnets import ListedSubnets
from nameserver.services.memberships import MembershipCalls
from nameserver.services.questions import QuestionCalls
from nameserver.services.resolutions import Resolutions
from nameserver.services.revisions import Revisions
from nameserver.services.stand_ins import StandIns
from nameserver.services.standing import Standing
from nameserver.services.streams import StreamCalls
from nameserver.services.updates import RequestIds, UpdateCalls
from resolver.membership import MembershipResolver
from resolver.parts import Parts
from shadowtree.v1 import name_service_pb2 as messages

AboutGroup: TypeAlias = (
    messages.CreateGroupRequest | messages.DeleteGroupRequest | messages.DescribeGroupRequest | messages.ResolveRequest
)


def name_service_handlers(
    *,
    core: CoreReads,
    resolver: MembershipResolver,
    parts: Parts,
    filling: AncestryFilling,
    run_loop: RunLoop,
    directory: PeerDirectory,
) -> dict[str, Handler]:
    """The handler of each method, by its name."""
    routing = Routing(known=core, directory=directory)
    forwarder = Forwarder(server=core.server, directory=directory)
    revisions = Revisions(core=core, run_loop=run_loop, forwarder=forwarder)
    homes = Homes(routing=routing, forwarder=forwarder)
    stand_ins = StandIns(core=core, routing=routing)
    gaps = Gaps(resolver=resolver, directory=directory)
    checks = PairChecks(core=core, resolver=resolver, gaps=gaps)
    cross_checks = CrossChecks(core=core, checks=checks, routing=routing, forwarder=forwarder)
    request_ids = RequestIds()
    listed = ListedSubnets(core=core, routing=routing)
    updates = UpdateCalls(run_loop=run_loop, graph=core.graph, request_ids=request_ids, listed=listed)
    imports = ImportCalls(
        run_loop=run_loop,
        graph=core.graph,
        request_ids=request_ids,
        routing=routing,
        forwarder=forwarder,
        listed=listed,
    )
    questions = QuestionCalls(
        core=core,
        resolver=resolver,
        checks=checks,
        cross_checks=cross_checks,
        arc_records=ArcRecords(core=core, resolver=resolver, forwarder=forwarder),
        routing=routing,
    )
    resolutions = Resolutions(core=core, resolver=resolver, parts=parts, run_loop=run_loop, forwarder=forwarder)
    streams = StreamCalls(core=core, resolver=resolver, run_loop=run_loop, routing=routing, resolutions=resolutions)
    group_lists = GroupListCalls(core=core, resolver=resolver, routing=routing, forwarder=forwarder)
    memberships = MembershipCalls(core=core, resolver=resolver, gaps=gaps, routing=routing, forwarder=forwarder)
    exports = ExportCalls(resolver=resolver, gaps=gaps, run_loop=run_loop, routing=routing, forwarder=forwarder)
    bulk_checks = BulkCheckCalls(
        core=core,
        checks=checks,
        cross_checks=cross_checks,
        routing=routing,
        revisions=revisions,
        run_loop=run_loop,
        filling=filling,
    )

    standing = Standing(core=core, run_loop=run_loop, is_alone=lambda: routing.is_alone)

    def reading(
        answer: Callable[[Any, Context], Awaitable[AnswerT]],
        stands: Callable[[Any], bool] = never,
        of: Callable[[Any], Sequence[str]] = nobody,
    ) -> Callable[[Any, Context], Awaitable[AnswerT]]:
        return read(answer, revisions, run_loop, filling, of=of, stands=stands)

    create = homes.unary("CreateGroup", _group, updates.create_group, changes=True)
    delete = homes.unary("DeleteGroup", _group, updates.delete_group, changes=True)
    join = homes.unary("Join", stand_ins.of_join, updates.join, changes=True)
    leave = homes.unary("Leave", stand_ins.of_leave, updates.leave, changes=True)
    apply = homes.unary("ApplyUpdates", _first_parent, updates.apply_updates, changes=True)
    describe = homes.unary("DescribeGroup", _group, reading(questions.describe_group, of=_groups), changes=False)
    list_groups = homes.unary("ListGroups", _subnet, reading(group_lists.list_groups), changes=False)
    export = homes.stream("Export", _subnet, reading(exports.export))
    resolve = homes.stream("Resolve", _group, reading(streams.resolve, standing.resolve))
    return {
        "CreateGroup": unary_call(create, messages.CreateGroupRequest),
        "DeleteGroup": unary_call(delete, messages.DeleteGroupRequest),
        "DescribeGroup": unary_call(describe, messages.DescribeGroupRequest),
        "ListGroups": unary_call(list_groups, messages.ListGroupsRequest),
        "Join": unary_call(join, messages.JoinRequest),
        "Leave": unary_call(leave, messages.LeaveRequest),
        "ApplyUpdates": unary_call(apply, messages.ApplyUpdatesRequest),
        "Import": incoming_stream_call(imports.import_graph, messages.ImportChunk),
        "Export": stream_call(export, messages.ExportRequest),
        "Resolve": stream_call(resolve, messages.ResolveRequest),
        "Check": unary_call(reading(questions.check, standing.check, _members), messages.CheckRequest),
        "CheckBulk": conversation_call(bulk_checks.check_bulk, messages.CheckBulkRequest),
        "ListMemberships": stream_call(
            reading(memberships.list_memberships, standing.memberships, _members), messages.ListMembershipsRequest
        ),
    }


def _group(request: AboutGroup) -> str:
    return request.group


def _groups(request: messages.DescribeGroupRequest) -> Sequence[str]:
    return (request.group,)


def _members(request: messages.CheckRequest | messages.ListMembershipsRequest) -> Sequence[str]:
    return (request.member,)


def _first_parent(request: messages.ApplyUpdatesRequest) -> str:
    return request.operations[0].parent if request.operations else ""


def _subnet(request: messages.ListGroupsRequest | messages.ExportRequest) -> str:
    return request.subnet
