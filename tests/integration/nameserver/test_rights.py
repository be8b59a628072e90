"""Rights at real servers: callers by API keys, and policies by calls."""

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from shadowtree.v1 import admin_pb2, name_service_pb2, names_pb2
from shadowtree.v1.delivery_pb2 import SetDeliveryRequest
from shadowtree.v1.delivery_pb2_grpc import DeliveryServiceStub

SECONDS = 20
POLICY = {"operators": ["it@a.example"], "create": ["subnet:a.example"], "default_preset": "organisation"}
G = "g@a.example"


def keys(server, *principals):
    """Return the metadata by which principals of a server call it."""
    made = [
        server.admin.CreateKey(admin_pb2.CreateKeyRequest(principal=principal), timeout=SECONDS).secret
        for principal in principals
    ]
    return [(("authorization", f"Bearer {secret}"),) for secret in made]


def refused(call, request, metadata=None):
    """Return status code, reason and facts of a refused call."""
    with pytest.raises(grpc.RpcError) as caught:
        call(request, metadata=metadata, timeout=SECONDS)
    packed = dict(caught.value.trailing_metadata())["grpc-status-details-bin"]
    info = error_details_pb2.ErrorInfo()
    assert status_pb2.Status.FromString(packed).details[0].Unpack(info)
    return caught.value.code(), info.reason, dict(info.metadata)


def subjects(policy):
    return {each.privilege: list(each.subjects) for each in policy.privileges}


@pytest.fixture
def server(start):
    return start(subnets=["a.example"], policy=POLICY)


def test_the_maker_of_a_group_manages_it_and_policies_are_durable(start, server):
    ann, bob = keys(server, "ann@a.example", "bob@a.example")
    create = name_service_pb2.CreateGroupRequest(group=G)
    server.names.CreateGroup(create, metadata=ann, timeout=SECONDS)
    join = name_service_pb2.JoinRequest(parent=G, child="bob@a.example")
    code, reason, facts = refused(server.names.Join, join, bob)
    assert (code, reason) == (grpc.StatusCode.PERMISSION_DENIED, "PERMISSION_DENIED")
    assert (facts["privilege"], facts["group"], facts["admins"]) == ("manage", G, "ann@a.example")
    change = name_service_pb2.SetPolicyRequest(
        group=G, privileges=[names_pb2.PrivilegeSubjects(privilege="manage", subjects=["bob@a.example"])]
    )
    assert refused(server.names.SetPolicy, change, bob)[2]["privilege"] == "admin"
    server.names.SetPolicy(change, metadata=ann, timeout=SECONDS)
    server.kill()
    server = start(subnets=["a.example"], policy=POLICY)
    found = server.names.GetPolicy(name_service_pb2.GetPolicyRequest(group=G), metadata=bob, timeout=SECONDS)
    assert (found.preset, found.is_judged) == ("organisation", True)
    assert subjects(found)["manage"] == ["bob@a.example"]
    assert subjects(found)["admin"] == ["ann@a.example"]
    assert subjects(found)["optin"] == []
    server.names.Join(join, metadata=bob, timeout=SECONDS)
    assert refused(server.names.CreateGroup, create, keys(server, "eve@c.example")[0])[1] == "PERMISSION_DENIED"


def test_a_group_that_may_not_be_viewed_is_missing_for_policies_deliveries_and_descriptions(server):
    ann, eve = keys(server, "ann@a.example", "eve@c.example")
    server.names.CreateGroup(name_service_pb2.CreateGroupRequest(group=G), metadata=ann, timeout=SECONDS)
    secret = name_service_pb2.SetPolicyRequest(group=G, preset="secret")
    server.names.SetPolicy(secret, metadata=ann, timeout=SECONDS)
    deliveries = DeliveryServiceStub(server.channel())
    for call, request in [
        (server.names.SetPolicy, secret),
        (server.names.GetPolicy, name_service_pb2.GetPolicyRequest(group=G)),
        (server.names.DeleteGroup, name_service_pb2.DeleteGroupRequest(group=G)),
        (deliveries.SetDelivery, SetDeliveryRequest(group=G, senders="anyone")),
    ]:
        code, reason, facts = refused(call, request, eve)
        assert (code, reason) == (grpc.StatusCode.NOT_FOUND, "GROUP_NOT_FOUND")
        assert facts == {"group": G, "server": "a.example"}
    found = server.names.GetPolicy(name_service_pb2.GetPolicyRequest(group=G), metadata=ann, timeout=SECONDS)
    assert (subjects(found)["view"], subjects(found)["admin"]) == (["members"], ["ann@a.example"])


def test_a_key_is_good_for_its_privileges_alone(server):
    (ann,) = keys(server, "ann@a.example")
    server.names.CreateGroup(name_service_pb2.CreateGroupRequest(group=G), metadata=ann, timeout=SECONDS)
    request = admin_pb2.CreateKeyRequest(principal="ann@a.example", privileges=["read"])
    secret = server.admin.CreateKey(request, timeout=SECONDS).secret
    reader = (("authorization", f"Bearer {secret}"),)
    server.names.GetPolicy(name_service_pb2.GetPolicyRequest(group=G), metadata=reader, timeout=SECONDS)
    join = name_service_pb2.JoinRequest(parent=G, child="bob@a.example")
    assert refused(server.names.Join, join, reader)[2]["privilege"] == "manage"


@pytest.mark.parametrize(
    ("request_of", "field", "says"),
    [
        ({"preset": "shut"}, "preset", "there is no preset 'shut'"),
        ({"privileges": [("reed", ["anyone"])]}, "reed", "there is no privilege 'reed'"),
        ({"privileges": [("read", ["ann"])]}, "read", "'ann' is no subject"),
        ({"privileges": [("refer", ["members"])]}, "refer", "'members' is no subject"),
        ({"privileges": [("admin", ["nobody"])]}, "admin", "without an admin"),
    ],
)
def test_a_wrong_policy_is_refused_by_the_field(server, request_of, field, says):
    server.names.CreateGroup(name_service_pb2.CreateGroupRequest(group=G), timeout=SECONDS)
    given = [names_pb2.PrivilegeSubjects(privilege=p, subjects=s) for p, s in request_of.get("privileges", ())]
    request = name_service_pb2.SetPolicyRequest(group=G, preset=request_of.get("preset", ""), privileges=given)
    with pytest.raises(grpc.RpcError) as caught:
        server.names.SetPolicy(request, timeout=SECONDS)
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert says in caught.value.details()
    assert refused(server.names.SetPolicy, request)[2]["field"] == field


def test_operators_adopt_a_policy_for_all_groups_without_one(start):
    before = start(subnets=["a.example"])
    for name in ("g", "h", "h+owners"):
        request = name_service_pb2.CreateGroupRequest(group=f"{name}@a.example")
        before.names.CreateGroup(request, timeout=SECONDS)
    before.terminate()
    server = start(subnets=["a.example"], policy=POLICY)
    ann, it = keys(server, "ann@a.example", "it@a.example")
    server.names.SetPolicy(name_service_pb2.SetPolicyRequest(group=G, preset="secret"), metadata=ann, timeout=SECONDS)
    adopt = name_service_pb2.AdoptPolicyRequest(preset="public")
    assert refused(server.names.AdoptPolicy, adopt, ann)[2]["privilege"] == "operate"
    assert refused(server.names.AdoptPolicy, adopt, it)[2]["field"] == "admin"
    adopt.privileges.add(privilege="admin", subjects=["it@a.example"])
    assert server.names.AdoptPolicy(adopt, metadata=it, timeout=SECONDS).groups == 1
    assert server.names.AdoptPolicy(adopt, metadata=it, timeout=SECONDS).groups == 0
    show = name_service_pb2.GetPolicyRequest(group="h@a.example")
    found = server.names.GetPolicy(show, metadata=ann, timeout=SECONDS)
    assert (found.preset, subjects(found)["admin"]) == ("public", ["it@a.example"])


def test_the_groups_of_a_caller_of_another_server_count_at_the_home_of_a_group(cluster):
    start_one = cluster("a.example", "b.example")
    one, other = (
        start_one(subnet, policy={**POLICY, "create": [f"subnet:{subnet}"], "people": "open"})
        for subnet in (
            "a.example",
            "b.example",
        )
    )
    (ann,) = keys(one, "ann@a.example")
    for server, group in [(one, "staff@a.example"), (other, "managers@b.example"), (other, "lab@b.example")]:
        server.names.CreateGroup(name_service_pb2.CreateGroupRequest(group=group), timeout=SECONDS)
        policy = name_service_pb2.SetPolicyRequest(group=group, preset="open")
        server.names.SetPolicy(policy, timeout=SECONDS)
    one.names.Join(name_service_pb2.JoinRequest(parent="staff@a.example", child="ann@a.example"), timeout=SECONDS)
    other.names.Join(
        name_service_pb2.JoinRequest(parent="managers@b.example", child="staff@a.example"), timeout=SECONDS
    )
    managed = name_service_pb2.SetPolicyRequest(
        group="lab@b.example",
        preset="public",
        privileges=[names_pb2.PrivilegeSubjects(privilege="manage", subjects=["managers@b.example"])],
    )
    other.names.SetPolicy(managed, timeout=SECONDS)
    join = name_service_pb2.JoinRequest(parent="lab@b.example", child="robot@nobody.example")
    one.names.Join(join, metadata=ann, timeout=SECONDS)
    leave = name_service_pb2.LeaveRequest(parent="staff@a.example", child="ann@a.example")
    one.names.Leave(leave, timeout=SECONDS)
    other_join = name_service_pb2.JoinRequest(parent="lab@b.example", child="two@nobody.example")
    assert refused(one.names.Join, other_join, ann)[2]["privilege"] == "manage"
