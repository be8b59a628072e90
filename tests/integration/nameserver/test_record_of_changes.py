"""ListChanges and Watch against real servers: the author, time and server of each change; resumed, killed, too old."""

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import islice

import grpc
import pytest

from namegraph import FORGET_EVERY
from shadowtree.v1.name_service_pb2 import (
    ApplyUpdatesRequest,
    CreateGroupRequest,
    DeleteGroupRequest,
    ImportChunk,
    JoinRequest,
    LeaveRequest,
    ListChangesRequest,
    RecordedUpdate,
    WatchRequest,
)
from tests.integration.nameserver.server_process import wait_until

CALL_SECONDS = 20
WORDS = {
    RecordedUpdate.CHANGE_KIND_CREATED: "created",
    RecordedUpdate.CHANGE_KIND_DELETED: "deleted",
    RecordedUpdate.CHANGE_KIND_JOINED: "joined",
    RecordedUpdate.CHANGE_KIND_LEFT: "left",
}


def told(update):
    """Return an update's changes as words, with members as `who:kind`."""
    return [
        " ".join(filter(None, (WORDS[one.kind], one.group, one.member and f"{one.member}:{one.member_kind}")))
        for one in update.changes
    ]


def recorded(names, **wanted):
    chunks = names.ListChanges(ListChangesRequest(**wanted), timeout=CALL_SECONDS)
    return [update for chunk in chunks for update in chunk.updates]


def watched(names, **wanted):
    """Return the revision with which a stream begins, its updates as they come, and the call."""
    call = names.Watch(WatchRequest(**wanted), timeout=CALL_SECONDS)
    opening = next(iter(call))
    return opening.revision, (update for chunk in call for update in chunk.updates), call


def test_each_update_is_told_with_what_it_changed_who_asked_and_when(start):
    server = start()
    names = server.names
    begin = time.time() * 1000
    names.CreateGroup(CreateGroupRequest(group="staff@B.c", request_id="r1"))
    names.CreateGroup(CreateGroupRequest(group="heads@b.c", request_id="r2"))
    joined = names.Join(JoinRequest(parent="staff@b.c", child="ann@else.where", request_id="r3"))
    operations = [
        ApplyUpdatesRequest.Operation(parent="staff@b.c", child="heads@b.c"),
        ApplyUpdatesRequest.Operation(parent="staff@b.c", child="ann@else.where", leave=True),
    ]
    names.ApplyUpdates(ApplyUpdatesRequest(operations=operations, request_id="r4"))
    names.DeleteGroup(DeleteGroupRequest(group="heads@b.c", force=True, request_id="r5"))
    end = time.time() * 1000
    updates = recorded(names)
    assert [(update.request_id, told(update)) for update in updates] == [
        ("r1", ["created staff@b.c"]),
        ("r2", ["created heads@b.c"]),
        ("r3", ["joined staff@b.c ann@else.where:2"]),
        ("r4", ["left staff@b.c ann@else.where:2", "joined staff@b.c heads@b.c:1"]),
        ("r5", ["deleted heads@b.c", "left staff@b.c heads@b.c:1"]),
    ]
    assert updates[2].revision == joined.revision
    for update in updates:
        assert begin - 1 <= update.told_at_ms <= end
        assert update.caller.rpartition(":")[0] == "127.0.0.1"
        assert update.server == "b.c"
        assert update.is_listed
    assert [update.request_id for update in recorded(names, group="heads@b.c")] == ["r2", "r5"]
    assert [update.request_id for update in recorded(names, after_revision=joined.revision)] == ["r4", "r5"]
    from_third = recorded(names, told_from_ms=updates[2].told_at_ms)
    assert [update.request_id for update in from_third][-3:] == ["r3", "r4", "r5"]
    assert recorded(names, told_from_ms=int(end) + 60_000) == []


def test_what_did_not_happen_is_not_recorded(start):
    names = start().names
    names.CreateGroup(CreateGroupRequest(group="g@b.c", request_id="r1"))
    names.CreateGroup(CreateGroupRequest(group="g@b.c", request_id="r1"))
    with pytest.raises(grpc.RpcError):
        names.CreateGroup(CreateGroupRequest(group="g@b.c"))
    with pytest.raises(grpc.RpcError):
        names.Leave(LeaveRequest(parent="g@b.c", child="nobody@b.c"))
    assert [told(update) for update in recorded(names)] == [["created g@b.c"]]


def test_a_watch_tells_what_comes_and_is_resumed_after_a_kill(start):
    server = start()
    names = server.names
    names.CreateGroup(CreateGroupRequest(group="g@b.c"))
    names.CreateGroup(CreateGroupRequest(group="h@b.c"))
    revision, updates, call = watched(names, group="g@b.c")
    assert revision == names.Join(JoinRequest(parent="h@b.c", child="x@b.c")).revision.replace("3@", "2@")
    names.Join(JoinRequest(parent="g@b.c", child="ann@b.c"))
    first = next(updates)
    assert told(first) == ["joined g@b.c ann@b.c:2"]
    call.cancel()
    names.Leave(LeaveRequest(parent="g@b.c", child="ann@b.c"))
    names.Join(JoinRequest(parent="g@b.c", child="bob@b.c"))
    server.kill()
    again = start().names
    _, updates, call = watched(again, group="g@b.c", after_revision=first.revision)
    assert [told(update) for update in islice(updates, 2)] == [["left g@b.c ann@b.c:2"], ["joined g@b.c bob@b.c:2"]]
    again.Join(JoinRequest(parent="g@b.c", child="eve@b.c"))
    assert told(next(updates)) == ["joined g@b.c eve@b.c:2"]
    call.cancel()


def test_many_watchers_hear_all_in_one_order_while_many_write(start):
    server = start()
    names = server.names
    names.CreateGroup(CreateGroupRequest(group="g@b.c"))
    streams = [watched(names) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        joins = [pool.submit(names.Join, JoinRequest(parent="g@b.c", child=f"p{number}@b.c")) for number in range(400)]
        revisions = {join.result().revision for join in joins}
        heard = list(pool.map(lambda stream: [one.revision for one in islice(stream[1], 400)], streams))
    assert set(heard[0]) == revisions
    assert all(one == heard[0] for one in heard)
    assert heard[0] == [update.revision for update in recorded(names)][1:]
    for _, _, call in streams:
        call.cancel()


def test_any_server_tells_of_any_group_and_through_whom_it_was_changed(start_several):
    servers = start_several([["a.x"], ["b.x"]])
    a, b = (process.names for process in servers.processes)
    a.CreateGroup(CreateGroupRequest(group="top@a.x"))
    a.CreateGroup(CreateGroupRequest(group="team@b.x"))
    b.Join(JoinRequest(parent="top@a.x", child="team@b.x"))
    at_a = recorded(b, group="top@a.x")
    assert [told(update) for update in at_a] == [["created top@a.x"], ["joined top@a.x team@b.x:1"]]
    assert [(update.server, update.caller.rpartition(":")[0]) for update in at_a] == [
        ("a.x", "127.0.0.1"),
        ("b.x", "127.0.0.1"),
    ]
    at_b = recorded(a, subnet="b.x")
    assert [(told(update), update.server) for update in at_b] == [(["created team@b.x"], "a.x")]
    assert recorded(b) == at_b


def test_a_loop_over_three_servers_is_one_update_that_each_records_for_its_own(start_several):
    servers = start_several([["a.x"], ["b.x"], ["c.x"]])
    a, b, c = (process.names for process in servers.processes)
    for names, group in ((a, "g@a.x"), (b, "g@b.x"), (c, "g@c.x")):
        names.CreateGroup(CreateGroupRequest(group=group))
    operations = [
        ApplyUpdatesRequest.Operation(parent=parent, child=child)
        for parent, child in (("g@a.x", "g@b.x"), ("g@b.x", "g@c.x"), ("g@c.x", "g@a.x"))
    ]
    done = c.ApplyUpdates(ApplyUpdatesRequest(operations=operations, request_id="ring"))
    for names, expected in ((a, "joined g@a.x g@b.x:1"), (b, "joined g@b.x g@c.x:1"), (c, "joined g@c.x g@a.x:1")):
        # Others are told to commit when the caller is answered.
        wait_until(lambda names=names: len(recorded(names)) == 2, "the commit")
        newest = recorded(names)[-1]
        assert (told(newest), newest.revision, newest.request_id) == ([expected], done.revision, "ring")
        assert newest.server == "c.x"


def test_what_the_other_end_joined_while_servers_were_parted_is_told_when_they_meet(start_several):
    servers = start_several([["a.x"], ["b.x"], ["c.x"]])
    a, b, _ = servers.clients
    a.create_group("top@a.x")
    b.create_group("team@b.x")
    servers.kill(0)
    wait_until(lambda: b.status().view == ("b.x", "c.x"), "a view without the server that is dead")
    b.join("top@a.x", "team@b.x", "group", offline=True)
    servers.start_again(0)
    servers.wait_for_connections()
    names = servers.processes[0].names
    wait_until(lambda: len(recorded(names)) == 2, "the heal")
    newest = recorded(names)[-1]
    assert (told(newest), newest.request_id, newest.caller) == (["joined top@a.x team@b.x:1"], "", "")


def test_an_import_is_counted_and_small_ones_are_listed(start):
    names = start().names
    members = [f"p{number}@b.c" for number in range(1_200)]
    columns = {"parents": [0] * 1_200, "children": range(1, 1_201), "kinds": b"\2" * 1_200}
    names.Import(iter([ImportChunk(request_id="large", names=["g@b.c", *members], **columns)]))
    names.Import(iter([ImportChunk(names=["h@b.c", "ann@b.c"], parents=[0], children=[1], kinds=b"\2")]))
    large, small = recorded(names)
    assert (large.is_listed, large.created, large.joined, told(large)) == (False, 1, 1_200, [])
    assert (small.is_listed, told(small)) == (True, ["created h@b.c", "joined h@b.c ann@b.c:2"])
    # Whoever follows any group must read it anew.
    assert [update.request_id for update in recorded(names, group="other@b.c")] == ["large"]


def test_what_is_not_kept_any_more_is_said(start):
    server = start(changes_kept=100)
    names = server.names
    first = names.CreateGroup(CreateGroupRequest(group="g@b.c")).revision
    for number in range(250):
        names.Join(JoinRequest(parent="g@b.c", child=f"p{number}@b.c"))
    kept = recorded(names)
    assert 100 <= len(kept) < 100 + FORGET_EVERY
    for call in (
        names.ListChanges(ListChangesRequest(after_revision=first)),
        names.Watch(WatchRequest(after_revision=first)),
    ):
        with pytest.raises(grpc.RpcError) as error:
            list(call)
        assert error.value.code() is grpc.StatusCode.OUT_OF_RANGE
        assert kept[0].revision in error.value.details()
    assert recorded(names, after_revision=kept[0].revision) == kept[1:]


def test_a_server_that_stops_ends_the_watches_at_once(start):
    server = start(drain_seconds=30)
    _, updates, call = watched(server.names)
    begin = time.monotonic()
    server.process.terminate()
    with pytest.raises(grpc.RpcError) as error:
        next(updates)
    assert error.value.code() is grpc.StatusCode.UNAVAILABLE
    assert server.process.wait(CALL_SECONDS) == 0
    assert time.monotonic() - begin < 15
    assert "shutting down" in error.value.details()
    assert not call.is_active()


def test_bad_requests_are_refused_with_what_is_wrong(start):
    names = start().names
    for wrong, code in (
        ({"group": "no name"}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"after_revision": "yesterday"}, grpc.StatusCode.INVALID_ARGUMENT),
        ({"subnet": "un.known"}, grpc.StatusCode.FAILED_PRECONDITION),
    ):
        with pytest.raises(grpc.RpcError) as error:
            list(names.Watch(WatchRequest(**wrong), timeout=CALL_SECONDS))
        assert error.value.code() is code, wrong
