"""The NameService: which method is answered by what."""

from __future__ import annotations

from collections.abc import Mapping

from namegraph.names import Subnet
from namegraph.server_core import ServerCore
from nameserver.run_loop import RunLoop
from nameserver.services.bulk_checks import BulkCheckCalls
from nameserver.services.calls import (
    Handler,
    conversation_call,
    read_call,
    read_stream_call,
    write_call,
    write_stream_call,
)
from nameserver.services.imports import ImportCalls
from nameserver.services.questions import QuestionCalls
from nameserver.services.streams import StreamCalls
from nameserver.services.updates import RequestIds, UpdateCalls
from resolver.membership import MembershipResolver
from shadowtree.v1 import name_service_pb2 as messages

NAME_SERVICE: str = messages.DESCRIPTOR.services_by_name["NameService"].full_name


def name_service_handlers(
    *, core: ServerCore, resolver: MembershipResolver, run_loop: RunLoop, peers: Mapping[Subnet, str]
) -> dict[str, Handler]:
    """The handler of each method, by its name."""
    request_ids = RequestIds()
    updates = UpdateCalls(run_loop=run_loop, graph=core.graph, request_ids=request_ids, peers=peers)
    imports = ImportCalls(run_loop=run_loop, graph=core.graph, request_ids=request_ids)
    questions = QuestionCalls(core=core, resolver=resolver)
    streams = StreamCalls(core=core, resolver=resolver, run_loop=run_loop)
    bulk_checks = BulkCheckCalls(core=core, resolver=resolver, run_loop=run_loop)
    return {
        "CreateGroup": write_call(updates.create_group, messages.CreateGroupRequest),
        "DeleteGroup": write_call(updates.delete_group, messages.DeleteGroupRequest),
        "DescribeGroup": read_call(questions.describe_group, messages.DescribeGroupRequest, run_loop),
        "ListGroups": read_call(questions.list_groups, messages.ListGroupsRequest, run_loop),
        "Join": write_call(updates.join, messages.JoinRequest),
        "Leave": write_call(updates.leave, messages.LeaveRequest),
        "ApplyUpdates": write_call(updates.apply_updates, messages.ApplyUpdatesRequest),
        "Import": write_stream_call(imports.import_graph, messages.ImportChunk),
        "Export": read_stream_call(streams.export, messages.ExportRequest, run_loop),
        "Resolve": read_stream_call(streams.resolve, messages.ResolveRequest, run_loop),
        "Check": read_call(questions.check, messages.CheckRequest, run_loop),
        "CheckBulk": conversation_call(bulk_checks.check_bulk, messages.CheckBulkRequest),
        "ListMemberships": read_stream_call(streams.list_memberships, messages.ListMembershipsRequest, run_loop),
    }
