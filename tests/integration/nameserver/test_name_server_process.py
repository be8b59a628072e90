"""The process: started, refused a start, drained, killed and started again, attacked, and run out of disk."""

import concurrent.futures
import itertools
import resource
import socket
import struct
import threading
from contextlib import closing

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from namegraph.model.rows import ArcRecord, NodeIndex, Records
from shadowtree.v1 import admin_pb2
from shadowtree.v1 import name_service_pb2 as m
from storage import open_store
from tests.integration.nameserver.server_process import wait_until

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


def create(names, *groups):
    for group in groups:
        names.CreateGroup(m.CreateGroupRequest(group=group))


def processes(names, group):
    return [process for chunk in names.Resolve(m.ResolveRequest(group=group)) for process in chunk.processes]


def reason_of(error):
    info = error_details_pb2.ErrorInfo()
    status = rpc_status.from_call(error)
    return info.reason if status is not None and status.details[0].Unpack(info) else None


def join_until_it_ends(server, writer, acknowledged, refused):
    """Join ever new members until the server is gone."""
    names = server.names
    for number in itertools.count():
        member = f"p{writer}-{number}@e.f"
        try:
            names.Join(m.JoinRequest(parent="a@b.c", child=member))
        except grpc.RpcError as error:
            refused.append(error)
            return
        acknowledged.append(member)


def load(server, writers=8):
    """Writers at work; returns their futures and what was acknowledged so far."""
    pool = concurrent.futures.ThreadPoolExecutor(writers)
    acknowledged, refused = [], []
    futures = [pool.submit(join_until_it_ends, server, writer, acknowledged, refused) for writer in range(writers)]
    pool.shutdown(wait=False)
    return futures, acknowledged, refused


def test_a_restarted_server_has_everything(start):
    server = start()
    create(server.names, "a@b.c", "d@b.c")
    for parent, child in (("a@b.c", "d@b.c"), ("d@b.c", "a@b.c"), ("d@b.c", "ann@e.f")):
        last = server.names.Join(m.JoinRequest(parent=parent, child=child, request_id=f"{parent} {child}"))
    described = server.names.DescribeGroup(m.DescribeGroupRequest(group="a@b.c"))
    assert server.terminate() == (0, "")
    again = start()
    assert again.names.DescribeGroup(m.DescribeGroupRequest(group="a@b.c")) == described
    assert processes(again.names, "a@b.c") == ["ann@e.f"]
    repeated = m.JoinRequest(parent="d@b.c", child="ann@e.f", request_id="d@b.c ann@e.f")
    assert again.names.Join(repeated) == last


def test_a_server_keeps_its_name_when_its_subnets_change(start):
    server = start(subnets=["m.n"])
    assert server.admin.GetStatus(admin_pb2.GetStatusRequest()).server == "m.n"
    server.terminate()
    again = start(subnets=["a.a", "m.n"])
    assert again.admin.GetStatus(admin_pb2.GetStatusRequest()).server == "m.n"
    assert again.serving_line.startswith("serving a.a,m.n on ")


def test_a_port_in_use_is_refused_in_one_line(start, tmp_path):
    server = start()
    status, errors = start(tmp_path / "other.db", listen=server.address, wait=False).outcome()
    assert status == 4
    why = "Address already in use; another program listens there; stop it, or choose another port"
    assert errors == f"cannot listen on {server.address}: {why}\n"
    assert not (tmp_path / "other.db").exists()


@pytest.mark.parametrize("listen", ["no-such-host.invalid:7400", "203.0.113.1:7400"])
def test_an_address_that_is_not_ours_is_refused_in_one_line(start, listen):
    status, errors = start(listen=listen, insecure_listen_on_a_public_address="true", wait=False).outcome()
    assert status == 4
    assert errors.startswith(f"cannot listen on {listen}: ")
    assert errors.count("\n") == 1


def test_a_second_server_on_the_same_database_is_refused_in_one_line(start):
    first = start()
    status, errors = start(wait=False).outcome()
    assert status == 4
    assert "names.db: another name server" in errors
    assert errors.count("\n") == 1
    create(first.names, "a@b.c")


def test_a_database_of_another_server_is_refused_in_one_line(start):
    start(name="one").terminate()
    status, errors = start(name="two", wait=False).outcome()
    assert status == 4
    assert "it belongs to the server 'one', not to 'two'" in errors
    assert errors.count("\n") == 1


def test_a_file_that_is_no_database_is_refused_in_one_line(start, tmp_path):
    (tmp_path / "names.db").write_bytes(b"certainly not a database, but quite long enough to look at" * 100)
    status, errors = start(wait=False).outcome()
    assert status == 4
    assert errors.count("\n") == 1


@pytest.mark.parametrize("how", ["flipped", "cut off", "emptied", "contradictory"])
def test_a_damaged_database_is_refused_in_one_line_that_says_how_to_restore_it(start, tmp_path, how):
    server = start()
    create(server.names, "a@b.c", "d@b.c")
    server.names.Join(m.JoinRequest(parent="a@b.c", child="d@b.c"))
    server.terminate()
    path = tmp_path / "names.db"
    content = path.read_bytes()
    match how:
        case "flipped":
            place = content.index(b"d@b.c")
            path.write_bytes(content[:place] + b"e" + content[place + 1 :])
        case "cut off":
            path.write_bytes(content[:-4096])
        case "emptied":
            path.write_bytes(b"")
        case "contradictory":
            with closing(open_store(f"sqlite:///{path}")) as store:
                store.commit(Records(arcs=[ArcRecord(NodeIndex(0), NodeIndex(99), 1, 1, 1, True, False)]))
    status, errors = start(wait=False).outcome()
    assert status == 4
    assert errors.count("\n") == 1
    assert str(path) in errors
    assert '"Backup and restore" in docs/operators.md' in errors


def test_sigterm_drains_and_nothing_that_was_acknowledged_is_lost(start):
    server = start()
    create(server.names, "a@b.c")
    futures, acknowledged, refused = load(server)
    wait_until(lambda: len(acknowledged) > 100, "a hundred joins")
    assert server.terminate() == (0, "")
    concurrent.futures.wait(futures)
    assert {error.code() for error in refused} <= {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
    assert set(acknowledged) <= set(processes(start().names, "a@b.c"))


def test_sigterm_tells_those_who_watch_the_health_and_ends_at_once(start):
    server = start(drain_seconds=3600)
    watching = health_pb2_grpc.HealthStub(server.channel()).Watch(health_pb2.HealthCheckRequest())
    assert next(watching).status == SERVING
    assert server.terminate() == (0, "")
    assert next(watching).status == NOT_SERVING


def test_a_call_that_never_ends_holds_up_sigterm_no_longer_than_told(start):
    server = start(drain_seconds=0.2)
    create(server.names, "a@b.c")
    blocked = threading.Event()
    answers = server.names.CheckBulk(iter(blocked.wait, True))
    assert server.terminate() == (0, "")
    with pytest.raises(grpc.RpcError):
        next(answers)
    blocked.set()


@pytest.mark.parametrize("acknowledged_before_the_kill", [1, 150, 600])
def test_a_server_killed_amid_joins_comes_back_with_every_acknowledged_one(start, acknowledged_before_the_kill):
    server = start()
    create(server.names, "a@b.c")
    futures, acknowledged, _ = load(server)
    wait_until(lambda: len(acknowledged) >= acknowledged_before_the_kill, "the joins before the kill")
    server.kill()
    concurrent.futures.wait(futures)
    again = start()
    assert set(acknowledged) <= set(processes(again.names, "a@b.c"))
    again.names.Join(m.JoinRequest(parent="a@b.c", child="later@e.f"))


def test_a_server_killed_amid_batches_keeps_no_half_of_any(start):
    server = start()
    create(server.names, "a@b.c")
    operation = m.ApplyUpdatesRequest.Operation
    acknowledged = []

    def apply_until_it_ends():
        names = server.names
        for number in itertools.count():
            joins = [operation(parent="a@b.c", child=f"p{number}-{part}@e.f") for part in range(50)]
            try:
                names.ApplyUpdates(m.ApplyUpdatesRequest(operations=joins))
            except grpc.RpcError:
                return
            acknowledged.append(number)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(apply_until_it_ends)
        wait_until(lambda: len(acknowledged) >= 10, "ten batches")
        server.kill()
    found = processes(start().names, "a@b.c")
    parts = [name.partition("-")[0] for name in found]
    assert {parts.count(part) for part in set(parts)} == {50}
    assert {f"p{number}" for number in acknowledged} <= set(parts)


@pytest.mark.parametrize("written_bytes_before_the_kill", [0, 1, 1_000_000, 4_000_000])
def test_a_server_killed_amid_an_import_has_all_of_it_or_nothing(start, tmp_path, written_bytes_before_the_kill):
    server = start()
    members = [f"p{number}@e.f" for number in range(60_000)]
    chunk = m.ImportChunk(
        names=["a@b.c", *members], parents=[0] * 60_000, children=range(1, 60_001), kinds=b"\x02" * 60_000
    )

    def written_bytes():
        return sum(file.stat().st_size for file in tmp_path.glob("names.db*"))

    before = written_bytes()
    importing = server.names.Import.future(iter([chunk]))
    wait_until(lambda: importing.done() or written_bytes() >= before + written_bytes_before_the_kill, "the writing")
    server.kill()
    acknowledged = importing.exception() is None
    again = start()
    listed = list(again.names.ListGroups(m.ListGroupsRequest()).groups)
    assert listed in ([], ["a@b.c"])
    assert listed or not acknowledged
    if listed:
        assert len(processes(again.names, "a@b.c")) == 60_000
    repeated = again.names.Import(iter([chunk]))
    assert repeated.arcs + repeated.already_there == 60_000


def test_an_answer_is_never_torn_by_updates_that_come_while_it_is_sent(start):
    server = start()
    names = server.names
    groups = [f"g{number:05}@b.c" for number in range(20_000)]
    chunk = m.ImportChunk(
        names=["all@b.c", *groups, "mover@e.f"],
        parents=[*[0] * 20_000, 1],
        children=[*range(1, 20_001), 20_001],
        kinds=b"\x01" * 20_000 + b"\x02",
    )
    names.Import(iter([chunk]))
    ends = threading.Event()

    def move_to_and_fro():
        stub = server.names
        here, there = groups[0], groups[-1]
        while not ends.is_set():
            operation = m.ApplyUpdatesRequest.Operation
            moves = [
                operation(leave=True, parent=here, child="mover@e.f"),
                operation(parent=there, child="mover@e.f"),
            ]
            stub.ApplyUpdates(m.ApplyUpdatesRequest(operations=moves))
            here, there = there, here

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        moving = pool.submit(move_to_and_fro)
        for _ in range(5):
            exported = [child for chunk in names.Export(m.ExportRequest()) for child in chunk.children]
            walked = [
                step.to for chunk in names.Resolve(m.ResolveRequest(group="all@b.c", walk=True)) for step in chunk.walk
            ]
            assert exported.count("mover@e.f") == 1
            assert walked.count("mover@e.f") == 1
            assert processes(names, "all@b.c") == ["mover@e.f"]
        ends.set()
        moving.result()


def raw_connection(server, *parts):
    host, port = server.address.split(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.settimeout(10)
        try:
            for part in parts:
                connection.sendall(part)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(65536):
                pass
        except OSError:
            # The server may hang up on us at any moment; that is its right.
            return


def test_hostile_bytes_do_not_take_the_server_down(start):
    server = start()
    create(server.names, "a@b.c")
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    settings = b"\0\0\0\4\0\0\0\0\0"

    def frame(kind, flags, stream, payload):
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload

    raw_connection(server, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
    raw_connection(server, bytes(range(256)) * 1000)
    raw_connection(server, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 500)
    raw_connection(server, preface)
    raw_connection(server, preface, b"\xff" * 9, b"\0" * 100_000)
    raw_connection(server, preface, settings, frame(1, 4, 1, b"\xff" * 100))
    raw_connection(server, preface, settings, frame(0, 0, 7, b"x" * 1000), frame(3, 0, 0, b""))
    raw_connection(server, preface, settings, *(frame(6, 0, 0, b"12345678") for _ in range(1000)))
    raw_connection(server, preface, settings, struct.pack(">I", 0xFFFFFF)[1:] + b"\1\4\0\0\0\1" + b"x" * 1000)
    assert processes(server.names, "a@b.c") == []
    status, errors = server.terminate()
    assert status == 0
    assert "Traceback" not in errors


def test_a_call_whose_deadline_passes_says_so(start):
    server = start()
    with pytest.raises(grpc.RpcError) as caught:
        server.names.CreateGroup(m.CreateGroupRequest(group="a@b.c"), timeout=0.0)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_full_disk_is_reported_survived_and_recovered_from(start):
    server = start(log_level="info")
    names, health = server.names, health_pb2_grpc.HealthStub(server.channel())
    create(names, "a@b.c")
    process = server.process.pid
    unlimited = resource.prlimit(process, resource.RLIMIT_FSIZE)
    resource.prlimit(process, resource.RLIMIT_FSIZE, (4096, unlimited[1]))

    first = m.JoinRequest(parent="a@b.c", child="ann@e.f", request_id="during")
    with pytest.raises(grpc.RpcError) as caught:
        names.Join(first)
    assert caught.value.code() is grpc.StatusCode.UNKNOWN
    assert reason_of(caught.value) == "OUTCOME_UNKNOWN"
    with pytest.raises(grpc.RpcError) as caught:
        names.Join(first)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
    assert reason_of(caught.value) == "UNAVAILABLE"
    assert processes(names, "a@b.c") == []
    assert health.Check(health_pb2.HealthCheckRequest()).status == NOT_SERVING

    resource.prlimit(process, resource.RLIMIT_FSIZE, unlimited)
    wait_until(lambda: health.Check(health_pb2.HealthCheckRequest()).status == SERVING, "the recovery")
    assert names.Join(first).revision
    assert processes(names, "a@b.c") == ["ann@e.f"]
    status, errors = server.terminate()
    assert status == 0
    told = [line.split()[3] for line in errors.splitlines() if " database_" in line]
    assert told == ["database_fails", "database_writes"]
    assert processes(start().names, "a@b.c") == ["ann@e.f"]


def test_a_server_that_cannot_write_any_more_ends_when_told_and_says_so(start):
    server = start(drain_seconds=0.2)
    create(server.names, "a@b.c")
    unlimited = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, unlimited[1]))
    with pytest.raises(grpc.RpcError):
        server.names.Join(m.JoinRequest(parent="a@b.c", child="ann@e.f"))
    status, errors = server.terminate()
    assert status == 4
    assert "ended with updates that could not be written" in errors.splitlines()[-1]
    assert "Traceback" not in errors
