"""API keys at a real server: made by operators, durable, and the end of streams with them."""

import time

import grpc
import pytest

from shadowtree.v1 import admin_pb2, delivery_pb2, name_service_pb2
from shadowtree.v1.admin_pb2_grpc import AdminServiceStub
from shadowtree.v1.delivery_pb2_grpc import DeliveryServiceStub
from shadowtree.v1.name_service_pb2_grpc import NameServiceStub
from tests.integration.nameserver.server_process import wait_until

SECONDS = 20


def bearer(secret):
    return (("authorization", f"Bearer {secret}"),)


def refusal(call, *given, **named):
    with pytest.raises(grpc.RpcError) as caught:
        call(*given, timeout=SECONDS, **named)
    return caught.value


@pytest.fixture
def server(start):
    return start()


def create(server, principal="ann@b.c", **bounds):
    return server.admin.CreateKey(admin_pb2.CreateKeyRequest(principal=principal, **bounds), timeout=SECONDS)


def callers_of_changes(server):
    chunks = server.names.ListChanges(name_service_pb2.ListChangesRequest(subnet="b.c"), timeout=SECONDS)
    return [change for chunk in chunks for change in chunk.changes]


def test_a_key_is_told_once_and_holds_after_a_crash(start, tmp_path):
    server = start()
    made = create(server, note="nightly", networks=["127.0.0.0/8"])
    assert made.secret.startswith(f"st_{made.key.id}_")
    server.kill()
    server = start(log_level="info")
    request = name_service_pb2.CreateGroupRequest(group="g@b.c")
    server.names.CreateGroup(request, metadata=bearer(made.secret), timeout=SECONDS)
    (listed,) = server.admin.ListKeys(admin_pb2.ListKeysRequest(), timeout=SECONDS).keys
    assert (listed.principal, listed.note, list(listed.networks)) == ("ann@b.c", "nightly", ["127.0.0.0/8"])
    assert listed.last_used_ms >= listed.created_ms
    secret = made.secret.split("_", 2)[2].encode()
    assert not any(secret in file.read_bytes() for file in tmp_path.glob("names.db*") if file.is_file())
    assert secret.decode() not in server.terminate()[1]
    (listed_after,) = start().admin.ListKeys(admin_pb2.ListKeysRequest(), timeout=SECONDS).keys
    assert listed_after == listed


def test_every_method_refuses_a_key_that_does_not_hold(server):
    secret = create(server).secret
    forged = secret[:-1] + ("A" if secret[-1] != "A" else "B")
    stubs = (NameServiceStub, AdminServiceStub, DeliveryServiceStub)
    with grpc.insecure_channel(server.address) as channel:
        for stub in stubs:
            for name, method in vars(stub(channel)).items():
                is_stream = isinstance(method, grpc.UnaryStreamMultiCallable | grpc.StreamStreamMultiCallable)
                takes_stream = isinstance(method, grpc.StreamUnaryMultiCallable | grpc.StreamStreamMultiCallable)
                request = iter(()) if takes_stream else _empty(stub, name)
                with pytest.raises(grpc.RpcError) as caught:
                    _answers(method, request, bearer(forged), is_stream=is_stream)
                assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED, name
        for path in ("/grpc.health.v1.Health/Check", "/shadowtree.v1.PeerService/Identify"):
            error = refusal(channel.unary_unary(path), b"", metadata=bearer(forged))
            assert error.code() is grpc.StatusCode.UNAUTHENTICATED
        reflection = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo"
        with pytest.raises(grpc.RpcError) as caught:
            list(channel.stream_stream(reflection)(iter([b"\x3a\x00"]), timeout=SECONDS, metadata=bearer(forged)))
        assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED


def _answers(method, request, metadata, *, is_stream):
    found = method(request, timeout=SECONDS, metadata=metadata)
    return list(found) if is_stream else found


def _empty(stub, name):
    service = stub.__name__.removesuffix("Stub")
    modules = {"NameService": name_service_pb2, "AdminService": admin_pb2, "DeliveryService": delivery_pb2}
    descriptor = modules[service].DESCRIPTOR.services_by_name[service].methods_by_name[name].input_type
    return getattr(modules[service], descriptor.name)()


def test_a_revoked_key_ends_at_once_and_its_streams_with_it(server):
    made = create(server)
    begin = name_service_pb2.WatchRequest(subnet="b.c")
    watching = server.names.Watch(begin, metadata=bearer(made.secret), timeout=SECONDS)
    wait_until(lambda: used(server, made.key.id), "the stream has begun")
    server.admin.RevokeKey(admin_pb2.RevokeKeyRequest(id=made.key.id), timeout=SECONDS)
    with pytest.raises(grpc.RpcError) as caught:
        list(watching)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    request = name_service_pb2.CreateGroupRequest(group="g@b.c")
    assert refusal(server.names.CreateGroup, request, metadata=bearer(made.secret)).code() is (
        grpc.StatusCode.UNAUTHENTICATED
    )
    assert not server.admin.ListKeys(admin_pb2.ListKeysRequest(), timeout=SECONDS).keys


def used(server, id_):
    keys = server.admin.ListKeys(admin_pb2.ListKeysRequest(), timeout=SECONDS).keys
    return any(key.id == id_ and key.last_used_ms for key in keys)


def test_a_stream_ends_with_the_key_of_its_caller(server):
    made = create(server, life_ms=1_500)
    begin = name_service_pb2.WatchRequest(subnet="b.c")
    watching = server.names.Watch(begin, metadata=bearer(made.secret), timeout=SECONDS)
    with pytest.raises(grpc.RpcError) as caught:
        list(watching)
    assert caught.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert "expired" in caught.value.details()
    assert time.time() * 1000 >= made.key.expires_ms - 50


@pytest.mark.parametrize("principal", ["", "ann", "operator@local", "guest@b.c", "anonymous", "ann@s.t"])
def test_no_key_is_made_for_whom_this_server_does_not_speak(start, principal):
    server = start(peers=["s.t=127.0.0.1:1"])
    error = refusal(server.admin.CreateKey, admin_pb2.CreateKeyRequest(principal=principal))
    assert error.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_a_key_that_is_not_for_operators_administers_nothing(server):
    made = create(server)
    for method, request in (
        (server.admin.CreateKey, admin_pb2.CreateKeyRequest(principal="eve@b.c")),
        (server.admin.ListKeys, admin_pb2.ListKeysRequest()),
        (server.admin.RevokeKey, admin_pb2.RevokeKeyRequest(id=made.key.id)),
        (server.admin.AddPeer, admin_pb2.AddPeerRequest(subnet="s.t", address="127.0.0.1:1")),
        (server.admin.Drain, admin_pb2.DrainRequest()),
    ):
        error = refusal(method, request, metadata=bearer(made.secret))
        assert error.code() is grpc.StatusCode.PERMISSION_DENIED


def test_a_key_of_an_operator_administers(start):
    server = start(policy={"operators": ["it@b.c"]})
    made = create(server, "it@b.c")
    request = admin_pb2.AddPeerRequest(subnet="s.t", address="127.0.0.1:1")
    server.admin.AddPeer(request, metadata=bearer(made.secret), timeout=SECONDS)
