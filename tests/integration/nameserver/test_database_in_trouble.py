"""The database goes away under a running server and comes back: no update is taken meanwhile, no restart is needed."""

import os
import resource
import signal

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_status import rpc_status

from shadowtree.v1 import admin_pb2
from shadowtree.v1 import name_service_pb2 as m
from tests.integration.nameserver.server_process import wait_until
from tests.postgres import running_postgresql

SERVING = health_pb2.HealthCheckResponse.SERVING
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING


@pytest.fixture(scope="module")
def postgresql_of_its_own():
    with running_postgresql() as running:
        yield running


def health_of(server):
    return health_pb2_grpc.HealthStub(server.channel()).Check(health_pb2.HealthCheckRequest()).status


def reason_of(error):
    info = error_details_pb2.ErrorInfo()
    status = rpc_status.from_call(error)
    return info.reason if status is not None and status.details[0].Unpack(info) else None


def failure_of(server):
    return server.admin.GetStatus(admin_pb2.GetStatusRequest()).database_failure


def join(server, member, group="a@b.c"):
    return server.names.Join(m.JoinRequest(parent=group, child=member, request_id=member))


def processes(server, group="a@b.c"):
    return [process for chunk in server.names.Resolve(m.ResolveRequest(group=group)) for process in chunk.processes]


def refusal_of(call):
    with pytest.raises(grpc.RpcError) as caught:
        call()
    return reason_of(caught.value), caught.value.details()


def filled(server):
    server.names.CreateGroup(m.CreateGroupRequest(group="a@b.c"))
    join(server, "ann@e.f")
    return server


@pytest.fixture(params=["moved file", "stopped PostgreSQL"])
def trouble(request, tmp_path):
    """A way to take a database away and bring it back: its URL, two functions, and the reported error."""
    if request.param == "moved file":
        path = tmp_path / "names.db"
        return path, lambda: path.rename(tmp_path / "away"), lambda: (tmp_path / "away").rename(path), "put it back"
    postgresql = request.getfixturevalue("postgresql_of_its_own")
    return postgresql.fresh_database(), postgresql.stop, postgresql.start, "see that PostgreSQL runs"


def test_an_idle_server_notices_that_its_database_is_gone_and_that_it_is_back(start, trouble):
    database, take_away, bring_back, _ = trouble
    server = filled(start(database))
    take_away()
    wait_until(lambda: health_of(server) == NOT_SERVING, "the health of a server without its database")
    reason, message = refusal_of(lambda: join(server, "bob@e.f"))
    assert reason == "UNAVAILABLE"
    assert "the database cannot be written" in message
    assert failure_of(server) in message
    # Nothing is under way that a read could rest on.
    assert processes(server) == ["ann@e.f"]
    bring_back()
    wait_until(lambda: health_of(server) == SERVING, "the recovery")
    assert failure_of(server) == ""
    join(server, "bob@e.f")
    assert processes(server) == ["ann@e.f", "bob@e.f"]
    server.kill()
    assert processes(start(database)) == ["ann@e.f", "bob@e.f"]


def test_an_update_caught_by_the_loss_of_the_database_is_kept_once_and_no_restart_is_needed(start, trouble):
    database, take_away, bring_back, advice = trouble
    server = filled(start(database))
    for number in range(2):
        member = f"bob{number}@e.f"
        take_away()
        reason, message = refusal_of(lambda member=member: join(server, member))
        # The update came first, or the server had noticed before it.
        assert reason in ("OUTCOME_UNKNOWN", "UNAVAILABLE")
        assert advice in message or "cannot connect" in message
        bring_back()
        wait_until(lambda: health_of(server) == SERVING, "the recovery")
        revision = join(server, member).revision
        assert join(server, member).revision == revision
    expected = ["ann@e.f", "bob0@e.f", "bob1@e.f"]
    assert processes(server) == expected
    status, errors = server.terminate()
    assert status == 0
    assert "Traceback" not in errors
    assert processes(start(database)) == expected


def memberships(server, member):
    chunks = server.names.ListMemberships(m.ListMembershipsRequest(member=member))
    return [group for chunk in chunks for group in chunk.groups]


def test_while_the_disk_is_full_all_reads_are_answered_from_what_is_kept(start):
    server = filled(start())
    server.names.CreateGroup(m.CreateGroupRequest(group="z@b.c"))
    before = join(server, "zoe@e.f", "z@b.c").revision
    unlimited = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (4096, unlimited[1]))
    assert refusal_of(lambda: join(server, "bob@e.f"))[0] == "OUTCOME_UNKNOWN"
    assert "the disk" in failure_of(server)
    check, question = server.names.Check, m.CheckRequest

    assert processes(server, "z@b.c") == ["zoe@e.f"]
    assert memberships(server, "zoe@e.f") == ["z@b.c"]
    assert check(question(group="z@b.c", member="zoe@e.f")).is_member
    assert check(question(group="z@b.c", member="bob@e.f")).is_member is False
    # What the disk refused may never have been.
    for member in ("zoe@e.f", "bob@e.f"):
        answer = check(question(group="a@b.c", member=member, at_least_revision=before))
        assert (answer.is_member, answer.revision) == (False, before)
    assert processes(server) == ["ann@e.f"]
    assert memberships(server, "bob@e.f") == []
    exported = [child for chunk in server.names.Export(m.ExportRequest()) for child in chunk.children]
    assert sorted(filter(None, exported)) == ["ann@e.f", "zoe@e.f"]

    resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, unlimited)
    wait_until(lambda: health_of(server) == SERVING, "the recovery")
    assert processes(server) == ["ann@e.f", "bob@e.f"]
    revision = join(server, "bob@e.f").revision
    assert check(question(group="a@b.c", member="bob@e.f")).revision == revision != before


def test_a_file_replaced_by_another_is_never_written_to_and_the_server_says_so_until_it_ends(start, tmp_path):
    path = tmp_path / "names.db"
    server = filled(start(path))
    path.rename(tmp_path / "old.db")
    path.write_bytes(b"of somebody else")
    wait_until(lambda: health_of(server) == NOT_SERVING, "the health of a server whose file was replaced")
    assert refusal_of(lambda: join(server, "bob@e.f"))[0] == "UNAVAILABLE"
    assert processes(server) == ["ann@e.f"]
    status, errors = server.terminate()
    assert status == 4
    last = errors.splitlines()[-1]
    assert last.startswith("ended while the database could not be written (database ")
    assert last.endswith("); nothing was waiting to be written")
    assert path.read_bytes() == b"of somebody else"


def test_a_server_ends_when_another_one_took_its_postgresql_database(start, postgresql):
    database = postgresql.fresh_database()
    server = filled(start(database))
    os.kill(server.process.pid, signal.SIGSTOP)
    name = database.split("/")[3].split("?")[0]
    postgresql.execute(f"SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = '{name}'")
    other = start(database)
    join(other, "bob@e.f")
    other.terminate()
    os.kill(server.process.pid, signal.SIGCONT)
    status, errors = server.outcome()
    assert status == 4
    *lines, last = errors.splitlines()
    assert "another server used it" in last
    assert any(" ERROR b.c database_fails " in line for line in lines)
    assert "Traceback" not in errors
    assert processes(start(database)) == ["ann@e.f", "bob@e.f"]


def test_a_server_that_was_stopped_for_a_while_goes_on_with_what_it_had(start):
    server = filled(start())
    os.kill(server.process.pid, signal.SIGSTOP)
    late = server.names.Join.future(m.JoinRequest(parent="a@b.c", child="bob@e.f"), timeout=60)
    given_up = server.names.Join.future(m.JoinRequest(parent="a@b.c", child="eve@e.f"), timeout=0.5)
    with pytest.raises(grpc.RpcError) as caught:
        given_up.result()
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    os.kill(server.process.pid, signal.SIGCONT)
    assert late.result().revision
    assert {"ann@e.f", "bob@e.f"} <= set(processes(server)) <= {"ann@e.f", "bob@e.f", "eve@e.f"}
    assert server.terminate() == (0, "")
