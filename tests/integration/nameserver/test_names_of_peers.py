"""Invalid names in requests of peers are refused as such, without any other effect."""

import grpc
import pytest

from shadowtree.v1 import names_pb2, peer_pb2
from tests.integration.nameserver.conftest import start, start_shared  # noqa: F401 - fixtures

G, M = "g@a.x", "m@a.x"
WRONG = ["nobody", "", "@", "a@", "@a.x", "a b\x1b@a.x", "x" * 2_000 + "@a.x"]

REQUESTS = {
    "CheckPart": [
        lambda name: peer_pb2.CheckPartRequest(groups=[name], members=[M]),
        lambda name: peer_pb2.CheckPartRequest(groups=[G], members=[name]),
        lambda name: peer_pb2.CheckPartRequest(groups=[name], members=[M], explain=True),
        lambda name: peer_pb2.CheckPartRequest(groups=[G, G], members=[M, name], resolve=True),
    ],
    "ConfirmArcs": [
        lambda name: peer_pb2.ConfirmArcsRequest(parents=[name], children=[M]),
        lambda name: peer_pb2.ConfirmArcsRequest(parents=[G], children=[name]),
        lambda name: peer_pb2.ConfirmArcsRequest(parents=[G, G], children=[M]),
    ],
    "DescribeArcs": [
        lambda name: peer_pb2.DescribeArcsRequest(parents=[name], children=[M]),
        lambda name: peer_pb2.DescribeArcsRequest(parents=[G], children=[name]),
    ],
    "ResolvePart": [
        lambda name: peer_pb2.ResolvePartRequest(originator=name),
        lambda name: peer_pb2.ResolvePartRequest(targets=[names_pb2.Target(group=name)]),
        lambda name: peer_pb2.ResolvePartRequest(targets=[names_pb2.Target(group=G, excluding=[name])]),
        lambda name: peer_pb2.ResolvePartRequest(targets=[names_pb2.Target(group=G)], excluding=[name]),
        lambda name: peer_pb2.ResolvePartRequest(originator=name, with_steps=True, counts=True),
    ],
    "MaySend": [
        lambda name: peer_pb2.MaySendRequest(targets=[name]),
        lambda name: peer_pb2.MaySendRequest(targets=[G], as_process=name or "nobody"),
    ],
    "TellCallerGroups": [lambda name: peer_pb2.TellCallerGroupsRequest(principal=name)],
    "AwaitRevision": [lambda name: peer_pb2.AwaitRevisionRequest(revision=name or "nobody")],
}
WITHOUT_NAMES = {"Identify", "TellBasis"}
BY_THE_SESSION = {"Converse"}
"""The session refuses what is no frame (tests/unit/nameserver/session)."""

BY_METADATA = {"Tunnel"}
"""Only a connected server is told what is wrong (tests/integration/nameserver/test_peer_transport.py)."""


@pytest.fixture(scope="module")
def channel(start_shared):  # noqa: F811
    servers = start_shared([["a.x"]])
    servers.clients[0].create_group(G)
    servers.clients[0].join(G, M)
    with grpc.insecure_channel(servers.address(0)) as found:
        yield found


def asked(channel, method, request):
    """Return the status of a call, with its details."""
    path = f"/shadowtree.v1.PeerService/{method}"
    serialize = type(request).SerializeToString
    if peer_pb2.DESCRIPTOR.services_by_name["PeerService"].methods_by_name[method].server_streaming:
        call = channel.unary_stream(path, serialize, None)(request, timeout=20)
    else:
        call = channel.unary_unary(path, serialize, None).future(request, timeout=20)
    return call.code(), call.details()


def test_every_method_is_tried():
    methods = {each.name for each in peer_pb2.DESCRIPTOR.services_by_name["PeerService"].methods}
    assert methods == {*REQUESTS, *WITHOUT_NAMES, *BY_THE_SESSION, *BY_METADATA}


@pytest.mark.parametrize("name", WRONG, ids=lambda name: repr(name[:8]))
@pytest.mark.parametrize("method", REQUESTS)
def test_a_name_that_is_none_is_refused_as_such(channel, method, name):
    for make in REQUESTS[method]:
        code, details = asked(channel, method, make(name))
        assert code is grpc.StatusCode.INVALID_ARGUMENT, details
        assert details


@pytest.mark.parametrize("method", ["CheckPart", "ConfirmArcs", "DescribeArcs", "ResolvePart", "TellBasis"])
def test_a_revision_that_is_none_is_refused_as_such(channel, method):
    names = {
        "CheckPart": {"groups": [G], "members": [M]},
        "ConfirmArcs": {"parents": [G], "children": [M]},
        "DescribeArcs": {"parents": [G], "children": [M]},
        "ResolvePart": {"originator": G},
        "TellBasis": {},
    }[method]
    request = getattr(peer_pb2, f"{method}Request")(at_least_revision="nobody", **names)
    assert asked(channel, method, request)[0] is grpc.StatusCode.INVALID_ARGUMENT
