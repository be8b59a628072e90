"""The NameService over real gRPC: the answers and refusals of each call."""

import itertools
import time
from types import SimpleNamespace

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

from shadowtree.v1 import admin_pb2, peer_pb2
from shadowtree.v1 import name_service_pb2 as m
from shadowtree.v1 import names_pb2 as values

FRESH = itertools.count()


@pytest.fixture
def group(names):
    """Return a group that no other test uses."""
    group = f"g{next(FRESH)}@b.c"
    names.CreateGroup(m.CreateGroupRequest(group=group))
    return group


def join(names, parent, child, **more):
    return names.Join(m.JoinRequest(parent=parent, child=child, **more))


def error_of(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return caught.value


def assert_refused(call, code, reason, **facts):
    error = error_of(call)
    assert error.code() is grpc.StatusCode[code], error
    info = error_details_pb2.ErrorInfo()
    assert rpc_status.from_call(error).details[0].Unpack(info)
    assert (info.domain, info.reason) == ("shadowtree", reason)
    assert facts.items() <= dict(info.metadata).items()
    assert error.details()
    assert "\n" not in error.details()
    return error


def processes(names, group):
    return [process for chunk in names.Resolve(m.ResolveRequest(group=group)) for process in chunk.processes]


def test_the_server_says_what_it_serves_and_where(shared_server):
    assert shared_server.serving_line.startswith("serving b.c,x.y on 127.0.0.1:")


def test_a_join_is_seen_by_resolve_check_and_memberships(names, group):
    change = join(names, group, "ann@somewhere.example")
    assert change.revision
    assert processes(names, group) == ["ann@somewhere.example"]
    answer = names.Check(m.CheckRequest(group=group, member="ann@somewhere.example", explain=True))
    assert answer.is_member
    assert list(answer.pathname) == [group, "ann@somewhere.example"]
    assert answer.revision == change.revision
    memberships = list(names.ListMemberships(m.ListMembershipsRequest(member="ann@somewhere.example")))
    assert group in memberships[0].groups
    assert memberships[0].revision == change.revision
    names.Leave(m.LeaveRequest(parent=group, child="ann@somewhere.example"))
    assert processes(names, group) == []
    assert not names.Check(m.CheckRequest(group=group, member="ann@somewhere.example")).is_member


def test_names_are_taken_in_any_spelling(names, group):
    join(names, group.replace("@b.c", "@B.C"), "ann@SOMEWHERE.example")
    assert processes(names, group.upper().replace("G", "g")) == ["ann@somewhere.example"]
    assert names.Check(m.CheckRequest(group=group, member="ann@Somewhere.example")).is_member


def test_a_loop_is_described(names, group):
    other = group.replace("g", "loop")
    names.CreateGroup(m.CreateGroupRequest(group=other))
    join(names, group, other, kind=values.CHILD_KIND_GROUP)
    closing = join(names, other, group)
    assert [effect.kind for effect in closing.effects] == [values.EFFECT_KIND_FORMED]
    assert list(closing.effects[0].groups) == sorted([group, other])
    assert list(closing.effects[0].servers) == ["b.c"]
    described = names.DescribeGroup(m.DescribeGroupRequest(group=group))
    assert described.home == "b.c"
    assert list(described.virtual_node.components) == sorted([group, other])
    assert [child.id for child in described.children] == [other]
    assert described.children[0].kind == values.CHILD_KIND_GROUP
    assert {described.children[0].state, described.parents[0].state} == {
        values.ARC_STATE_SHADOW,
        values.ARC_STATE_FADE,
    }
    members = list(names.Resolve(m.ResolveRequest(group=group, groups=True)))
    assert sorted(name for chunk in members for name in chunk.groups) == sorted([group, other])


def test_the_walk_comes_with_a_resolution_that_asks_for_it(names, group):
    join(names, group, "ann@somewhere.example")
    chunks = list(names.Resolve(m.ResolveRequest(group=group, walk=True)))
    steps = [step for chunk in chunks for step in chunk.walk]
    assert [(getattr(step, "from"), step.to, step.kind, step.state) for step in steps] == [
        (group, "ann@somewhere.example", values.CHILD_KIND_PROCESS, values.ARC_STATE_NORMAL)
    ]
    assert chunks[0].revision


def test_a_batch_is_one_update(names, group):
    operation = m.ApplyUpdatesRequest.Operation
    joins = [operation(parent=group, child=f"p{number}@e.f") for number in range(5)]
    names.ApplyUpdates(m.ApplyUpdatesRequest(operations=joins))
    assert len(processes(names, group)) == 5
    wrong = [operation(leave=True, parent=group, child="p0@e.f"), operation(leave=True, parent=group, child="p9@e.f")]
    assert_refused(
        lambda: names.ApplyUpdates(m.ApplyUpdatesRequest(operations=wrong)), "NOT_FOUND", "NOT_A_MEMBER", operation="2"
    )
    assert len(processes(names, group)) == 5


def test_a_repeated_request_id_gets_the_first_answer(names, group):
    first = join(names, group, "ann@e.f", request_id=f"once {group}")
    join(names, group, "bob@e.f")
    assert join(names, group, "ann@e.f", request_id=f"once {group}") == first
    assert_refused(
        lambda: join(names, group, "carl@e.f", request_id=f"once {group}"), "INVALID_ARGUMENT", "INVALID_REQUEST"
    )


def test_refusals_carry_the_status_the_reason_and_the_facts(names, group):
    missing = "nobody-made-this@b.c"
    join(names, group, "ann@e.f")
    create = m.CreateGroupRequest
    assert_refused(lambda: names.CreateGroup(create(group=group)), "ALREADY_EXISTS", "GROUP_EXISTS", group=group)
    assert_refused(lambda: join(names, group, "ann@e.f"), "ALREADY_EXISTS", "ALREADY_MEMBER")
    assert_refused(lambda: join(names, group, group), "INVALID_ARGUMENT", "SELF_ARC")
    assert_refused(lambda: join(names, missing, "ann@e.f"), "NOT_FOUND", "GROUP_NOT_FOUND", group=missing)
    assert_refused(lambda: names.Check(m.CheckRequest(group=missing, member=group)), "NOT_FOUND", "GROUP_NOT_FOUND")
    assert_refused(lambda: list(names.Resolve(m.ResolveRequest(group=missing))), "NOT_FOUND", "GROUP_NOT_FOUND")
    assert_refused(lambda: names.DescribeGroup(m.DescribeGroupRequest(group=missing)), "NOT_FOUND", "GROUP_NOT_FOUND")
    assert_refused(lambda: names.CreateGroup(create(group="a@un.known")), "FAILED_PRECONDITION", "UNKNOWN_SUBNET")
    assert_refused(
        lambda: names.DeleteGroup(m.DeleteGroupRequest(group=group)), "FAILED_PRECONDITION", "GROUP_IN_USE", group=group
    )
    assert_refused(
        lambda: join(names, group, "ann@e@f"), "INVALID_ARGUMENT", "INVALID_NAME", name="ann@e@f", field="child"
    )
    assert_refused(lambda: join(names, group, "bob@e.f", kind=99), "INVALID_ARGUMENT", "INVALID_REQUEST")


@pytest.mark.parametrize(
    "name", ["", "a" * 10_000 + "@b.c", "a\0b@b.c", "a@b.c\n", "<a>@b.c", "\u202ea@b.c", "@" * 9000]
)
def test_hostile_names_are_refused_wherever_they_come(names, group, name):
    calls = [
        lambda: names.CreateGroup(m.CreateGroupRequest(group=name)),
        lambda: names.DeleteGroup(m.DeleteGroupRequest(group=name)),
        lambda: names.DescribeGroup(m.DescribeGroupRequest(group=name)),
        lambda: join(names, name, "ann@e.f"),
        lambda: join(names, group, name),
        lambda: names.Leave(m.LeaveRequest(parent=group, child=name)),
        lambda: names.Check(m.CheckRequest(group=name, member="ann@e.f")),
        lambda: names.Check(m.CheckRequest(group=group, member=name)),
        lambda: list(names.Resolve(m.ResolveRequest(group=name))),
        lambda: list(names.ListMemberships(m.ListMembershipsRequest(member=name))),
        lambda: list(names.CheckBulk(iter([m.CheckBulkRequest(groups=[group], members=[name])]))),
        lambda: names.Import(iter([m.ImportChunk(names=[name], groups=[0])])),
    ]
    for call in calls:
        assert_refused(call, "INVALID_ARGUMENT", "INVALID_NAME")


def test_groups_are_listed_a_page_at_a_time(names):
    wanted = [f"page{number:02}@x.y" for number in range(25)]
    for group in wanted:
        names.CreateGroup(m.CreateGroupRequest(group=group))
    pages, token = [], ""
    while True:
        page = names.ListGroups(m.ListGroupsRequest(subnet="X.y", page_size=10, page_token=token))
        pages.append(list(page.groups))
        token = page.next_page_token
        if not token:
            break
    assert [len(page) for page in pages] == [10, 10, 5]
    assert [group for page in pages for group in page] == wanted


def test_a_last_page_that_is_full_has_no_token(names):
    everything = names.ListGroups(m.ListGroupsRequest(page_size=10_000))
    page = names.ListGroups(m.ListGroupsRequest(page_size=len(everything.groups)))
    assert page.groups == everything.groups
    assert page.next_page_token == ""


@pytest.mark.parametrize("token", ["?", "abc", "////", "bm9ib2R5", "\u00e9"])
def test_a_page_token_of_ones_own_making_is_refused(names, token):
    assert_refused(
        lambda: names.ListGroups(m.ListGroupsRequest(page_token=token)), "INVALID_ARGUMENT", "INVALID_REQUEST"
    )


def test_reads_reflect_at_least_the_revision_they_name(names, group):
    revision = join(names, group, "ann@e.f").revision
    counter, _, server = revision.partition("@")
    ahead = f"{int(counter) + 1000}@{server}"
    reads = [
        lambda r: names.Check(m.CheckRequest(group=group, member="ann@e.f", at_least_revision=r)),
        lambda r: list(names.Resolve(m.ResolveRequest(group=group, at_least_revision=r))),
        lambda r: names.DescribeGroup(m.DescribeGroupRequest(group=group, at_least_revision=r)),
        lambda r: names.ListGroups(m.ListGroupsRequest(at_least_revision=r)),
        lambda r: list(names.ListMemberships(m.ListMembershipsRequest(member="ann@e.f", at_least_revision=r))),
        lambda r: list(names.Export(m.ExportRequest(at_least_revision=r))),
        lambda r: list(names.CheckBulk(iter([m.CheckBulkRequest(at_least_revision=r)]))),
    ]
    for read in reads:
        read(revision)
        assert_refused(lambda read=read: read(ahead), "UNAVAILABLE", "UNAVAILABLE")
        assert_refused(lambda read=read: read("not a revision"), "INVALID_ARGUMENT", "INVALID_REQUEST")


def test_bulk_checks_are_answered_in_order_one_byte_a_pair(names, group):
    join(names, group, "ann@e.f")
    requests = [
        m.CheckBulkRequest(groups=[group] * 3, members=["ann@e.f", "bob@e.f", "ANN@e.f"]),
        m.CheckBulkRequest(),
        m.CheckBulkRequest(groups=[group], members=["ann@E.F"]),
    ]
    responses = list(names.CheckBulk(iter(requests)))
    assert [response.answers for response in responses] == [b"\x01\x02\x02", b"", b"\x01"]


def test_a_pair_that_cannot_be_asked_ends_the_stream_after_the_answers_before_it(names, group):
    join(names, group, "ann@e.f")
    good = m.CheckBulkRequest(groups=[group], members=["ann@e.f"])
    bad = m.CheckBulkRequest(groups=[group, group, "none@b.c", group], members=["ann@e.f", "bob@e.f", "x@y", "x@y"])
    call = names.CheckBulk(iter([good, bad, good]))
    answers = [next(call).answers, next(call).answers]
    assert answers == [b"\x01", b"\x01\x02"]
    assert_refused(lambda: next(call), "NOT_FOUND", "GROUP_NOT_FOUND", group="none@b.c")


def test_a_large_request_is_answered_by_one_response_as_far_as_its_pairs_can_be_asked(names, group):
    join(names, group, "ann@e.f")
    groups, members = [group] * 7_000, ["ann@e.f", "bob@e.f"] * 3_500
    (response,) = names.CheckBulk(iter([m.CheckBulkRequest(groups=groups, members=members)]))
    assert response.answers == b"\x01\x02" * 3_500
    groups[6_500] = "none@b.c"
    call = names.CheckBulk(iter([m.CheckBulkRequest(groups=groups, members=members)]))
    assert next(call).answers == b"\x01\x02" * 3_250
    assert_refused(lambda: next(call), "NOT_FOUND", "GROUP_NOT_FOUND", group="none@b.c")


def test_bulk_checks_whose_columns_differ_in_length_are_refused(names, group):
    request = m.CheckBulkRequest(groups=[group], members=[])
    assert_refused(lambda: list(names.CheckBulk(iter([request]))), "INVALID_ARGUMENT", "INVALID_REQUEST")


def test_a_large_resolution_comes_sorted_in_chunks_each_member_once(names, group):
    members = [f"p{number:06}@e.f" for number in range(40_000)]
    chunk = m.ImportChunk(
        names=[group, *members], parents=[0] * 40_000, children=range(1, 40_001), kinds=b"\x02" * 40_000
    )
    names.Import(iter([chunk]))
    for _ in range(2):
        chunks = list(names.Resolve(m.ResolveRequest(group=group, groups=True)))
        assert [name for chunk in chunks for name in chunk.processes] == members
        assert len(chunks) > 1
        assert [bool(chunk.revision) for chunk in chunks] == [True] + [False] * (len(chunks) - 1)
    names.DeleteGroup(m.DeleteGroupRequest(group=group, force=True))


def test_an_import_creates_groups_and_completes_what_is_there(names):
    chunks = [
        m.ImportChunk(request_id="import 1", names=["i1@x.y", "i2@x.y"], parents=[0], children=[1], kinds=b"\x01"),
        m.ImportChunk(names=["ann@e.f", "i3@x.y"], parents=[1], children=[2], kinds=b"\x02", groups=[3]),
    ]
    summary = names.Import(iter(chunks))
    assert (summary.arcs, summary.groups_created, summary.already_there) == (2, 3, 0)
    assert names.Import(iter(chunks)) == summary
    chunks[0].request_id = "import 2"
    again = names.Import(iter(chunks))
    assert (again.arcs, again.groups_created, again.already_there) == (0, 0, 2)
    rows = [
        row
        for chunk in names.Export(m.ExportRequest(subnet="x.y"))
        for row in zip(chunk.parents, chunk.children, chunk.kinds, strict=True)
        if row[0].startswith("i")
    ]
    assert rows == [("i1@x.y", "i2@x.y", 1), ("i2@x.y", "ann@e.f", 2), ("i3@x.y", "", 1)]


def test_an_import_that_is_wrong_anywhere_changes_nothing(names):
    chunks = [
        m.ImportChunk(names=["j1@x.y", "ann@e.f"], parents=[0], children=[1], kinds=b"\x02"),
        m.ImportChunk(parents=[0], children=[7], kinds=b"\x02"),
    ]
    assert_refused(lambda: names.Import(iter(chunks)), "INVALID_ARGUMENT", "INVALID_REQUEST", field="children")
    # As a server sees a stream that broke.
    half = [m.ImportChunk(names=["j1@x.y", "ann@e.f"], parents=[0], children=[1], kinds=b"\x02", chunk_count=2)]
    assert_refused(lambda: names.Import(iter(half)), "INVALID_ARGUMENT", "INVALID_REQUEST", field="chunk_count")
    assert_refused(lambda: names.DescribeGroup(m.DescribeGroupRequest(group="j1@x.y")), "NOT_FOUND", "GROUP_NOT_FOUND")


def test_a_list_or_an_export_of_a_subnet_that_nobody_owns_is_refused(names):
    for ask in (
        lambda: names.ListGroups(m.ListGroupsRequest(subnet="un.known")),
        lambda: list(names.Export(m.ExportRequest(subnet="un.known"))),
    ):
        assert_refused(ask, "FAILED_PRECONDITION", "UNKNOWN_SUBNET", subnet="un.known")


def test_more_operations_than_the_limit_are_refused(names, group):
    operation = m.ApplyUpdatesRequest.Operation
    operations = [operation(parent=group, child="a@b"), *[operation(child="a@b")] * 100_000]
    request = m.ApplyUpdatesRequest(operations=operations)
    assert_refused(lambda: names.ApplyUpdates(request), "RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED", limit="100000")
    chunk = m.ApplyUpdatesChunk(operations=operations[:1], operation_count=100_001)
    assert_refused(lambda: names.ApplyInChunks(iter([chunk])), "RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED", limit="100000")


def test_more_pairs_of_one_request_than_the_limit_are_refused(names, group):
    request = m.CheckBulkRequest(groups=[group] * 100_001, members=["a@b"] * 100_001)
    assert_refused(lambda: list(names.CheckBulk(iter([request]))), "RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED")


def test_more_pathnames_than_the_limit_are_refused(names, group):
    request = m.DescribeGroupRequest(group=group, pathname_limit=10_001)
    assert_refused(lambda: names.DescribeGroup(request), "RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED")


def test_a_message_that_is_too_large_is_refused(names):
    request = m.CreateGroupRequest(group="a" * (2 * 1024 * 1024))
    limit = str(2 * 1024 * 1024)
    assert_refused(lambda: names.CreateGroup(request), "RESOURCE_EXHAUSTED", "LIMIT_EXCEEDED", limit=limit)
    request = m.CreateGroupRequest(group="a" * (9 * 1024 * 1024))
    assert error_of(lambda: names.CreateGroup(request)).code() is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_an_unknown_method_is_unimplemented(shared_server):
    call = shared_server.channel().unary_unary("/shadowtree.v1.NameService/Conquer")
    assert error_of(lambda: call(b"")).code() is grpc.StatusCode.UNIMPLEMENTED


def test_a_request_that_is_no_protobuf_is_refused_and_the_server_goes_on(shared_server, names, group):
    for junk in (b"\xff" * 100, b"\x0a\x02\xff\xfe", b"\x0a\xff\xff\xff\xff\x0f"):
        for method in ("CreateGroup", "Join", "Check", "ApplyUpdates"):
            call = shared_server.channel().unary_unary(f"/shadowtree.v1.NameService/{method}")
            error_of(lambda call=call, junk=junk: call(junk))
    join(names, group, "ann@e.f")


@pytest.mark.parametrize(
    ("method", "request_bytes", "field"),
    [
        ("CreateGroup", b"\x0a\x05a@b.\xff", "group"),
        ("CreateGroup", b"\x0a\x05g@b.c\x32\x05\x0a\x03caf\xe9", None),
        ("CreateGroup", b"\x0a\x05g@b.c\x32\x06\x0a\x04caf\xe9", "details.description"),
        ("SetDetails", b"\x0a\x0d\x0a\x05g@b.c\x12\x04\x0a\x02x\xff", "groups.details.description"),
        ("ListGroups", b"\x2a\x02\xc3\x28", "contains"),
    ],
)
def test_a_text_that_is_not_utf_8_is_refused_by_the_name_of_its_field(shared_server, method, request_bytes, field):
    call = shared_server.channel().unary_unary(f"/shadowtree.v1.NameService/{method}")
    facts = {} if field is None else {"field": field}
    assert_refused(lambda: call(request_bytes), "INVALID_ARGUMENT", "INVALID_REQUEST", **facts)
    said = error_of(lambda: call(request_bytes)).details()
    assert said.startswith(f"invalid {field}: byte ") if field else said == "the request is no message of this method"


def test_a_detail_of_a_later_version_is_refused(names, group):
    details = values.GroupDetails.FromString(b"\x82\x7d\x04text")
    for call in (
        lambda: names.CreateGroup(m.CreateGroupRequest(group="later@b.c", details=details)),
        lambda: names.SetDetails(m.SetDetailsRequest(groups=[values.DetailedGroup(group=group, details=details)])),
    ):
        assert_refused(call, "INVALID_ARGUMENT", "INVALID_REQUEST", field="details")


def test_details_of_too_many_groups_of_none_and_of_one_twice_are_refused(names, group):
    def described(name, **details):
        return values.DetailedGroup(group=name, details=values.GroupDetails(**details))

    text = {"description": "text"}
    for groups, field in (
        ([], "groups"),
        ([described(group, **text), described(group, **text)], "groups"),
        ([described(f"g{number}@b.c", **text) for number in range(1_001)], "groups"),
        ([described(group)], "details"),
        ([described(group, description="a\tb")], "description"),
    ):
        call = lambda groups=groups: names.SetDetails(m.SetDetailsRequest(groups=groups))  # noqa: E731
        assert_refused(call, "INVALID_ARGUMENT", "INVALID_REQUEST", field=field)


def test_a_search_is_a_page_at_a_time_too(names):
    wanted = [f"found{number:02}@x.y" for number in range(5)]
    for group in (*wanted, *(f"other{number:02}@x.y" for number in range(5))):
        names.CreateGroup(m.CreateGroupRequest(group=group))
    described = values.DetailedGroup(group="other03@x.y", details=values.GroupDetails(description="FOUND, too"))
    names.SetDetails(m.SetDetailsRequest(groups=[described]))
    found, token = [], ""
    while True:
        page = names.ListGroups(m.ListGroupsRequest(subnet="x.y", page_size=2, page_token=token, contains="found"))
        assert page.is_searched
        assert len(page.groups) <= 2
        found += page.groups
        token = page.next_page_token
        if not token:
            break
    assert found == [*wanted, "other03@x.y"]
    assert not names.ListGroups(m.ListGroupsRequest(subnet="x.y")).is_searched
    too_long = m.ListGroupsRequest(contains="x" * 1_001)
    assert_refused(lambda: names.ListGroups(too_long), "INVALID_ARGUMENT", "INVALID_REQUEST", field="contains")


def test_every_method_of_the_contract_is_served():
    from namegraph.core import ServerCore
    from nameserver.admin_service import admin_service_handlers
    from nameserver.calls.peer_service import peer_service_handlers
    from nameserver.delivery_service import delivery_question_handlers
    from nameserver.name_service import name_service_handlers
    from nameserver.reads.peer_queries import peer_question_handlers
    from resolver.membership import MembershipResolver
    from resolver.parts import Parts

    core = ServerCore(server="one", subnets=["b.c"])
    resolver = MembershipResolver(core)
    built = {"core": core, "resolver": resolver, "parts": Parts(core, resolver.plans, start="x"), "filling": None}
    directory = SimpleNamespace(until_all_met=None, are_all_met=True)
    run_loop = SimpleNamespace(now=time.monotonic)
    names = name_service_handlers(**built, run_loop=run_loop, directory=directory)
    assert set(names) == {method.name for method in m.DESCRIPTOR.services_by_name["NameService"].methods}
    admin = admin_service_handlers(
        core=core,
        reads=core,
        census=None,
        transport=SimpleNamespace(trust=None),
        run_loop=None,
        planned_end=None,
        say=None,
        operators=None,
        keys=SimpleNamespace(create_key=None, list_keys=None, revoke_key=None),
    )
    methods = admin_pb2.DESCRIPTOR.services_by_name["AdminService"].methods
    assert set(admin) == {method.name for method in methods}
    between_servers = {
        **peer_service_handlers(None, None),
        **peer_question_handlers(**built, run_loop=run_loop, directory=directory),
        **delivery_question_handlers(
            core=core, machine=SimpleNamespace(policy_of=None), directory=directory, check=None
        ),
    }
    methods = peer_pb2.DESCRIPTOR.services_by_name["PeerService"].methods
    assert set(between_servers) == {method.name for method in methods}


def test_status_counts_what_is_there_and_names_the_peers(shared_server, names, group):
    before = shared_server.admin.GetStatus(admin_pb2.GetStatusRequest())
    revision = join(names, group, f"only-in-{group}").revision
    status = shared_server.admin.GetStatus(admin_pb2.GetStatusRequest())
    assert (status.server, list(status.subnets)) == ("b.c", ["b.c", "x.y"])
    assert status.groups == before.groups
    assert (status.arcs, status.processes) == (before.arcs + 1, before.processes + 1)
    assert status.revision == revision
    assert [(peer.address, list(peer.subnets)) for peer in status.peers] == [("127.0.0.1:7401", ["s.t"])]


def test_what_is_at_home_at_a_peer_is_refused_as_out_of_reach_not_taken_for_a_process(names, group):
    assert_refused(lambda: join(names, group, "theirs@s.t"), "UNAVAILABLE", "UNAVAILABLE", unreachable="theirs@s.t")
    assert_refused(lambda: join(names, "theirs@s.t", group), "UNAVAILABLE", "UNAVAILABLE", unreachable="s.t")
    create = m.CreateGroupRequest(group="theirs@s.t")
    assert_refused(lambda: names.CreateGroup(create), "UNAVAILABLE", "UNAVAILABLE", unreachable="s.t")
    assert processes(names, group) == []


def test_health_is_serving_for_the_server_and_each_service(shared_server):
    health = health_pb2_grpc.HealthStub(shared_server.channel())
    for service in ("", "shadowtree.v1.NameService", "shadowtree.v1.DeliveryService", "shadowtree.v1.AdminService"):
        response = health.Check(health_pb2.HealthCheckRequest(service=service))
        assert response.status == health_pb2.HealthCheckResponse.SERVING
    unknown = error_of(lambda: health.Check(health_pb2.HealthCheckRequest(service="no.such")))
    assert unknown.code() is grpc.StatusCode.NOT_FOUND


def test_reflection_tells_the_services_and_their_methods(shared_server):
    reflection = reflection_pb2_grpc.ServerReflectionStub(shared_server.channel())
    requests = [
        reflection_pb2.ServerReflectionRequest(list_services=""),
        reflection_pb2.ServerReflectionRequest(file_containing_symbol="shadowtree.v1.NameService"),
    ]
    listed, file = reflection.ServerReflectionInfo(iter(requests))
    assert {service.name for service in listed.list_services_response.service} == {
        "shadowtree.v1.NameService",
        "shadowtree.v1.AdminService",
        "shadowtree.v1.DeliveryService",
        "shadowtree.v1.PeerService",
        "grpc.health.v1.Health",
        "grpc.reflection.v1alpha.ServerReflection",
    }
    assert b"CheckBulk" in b"".join(file.file_descriptor_response.file_descriptor_proto)
