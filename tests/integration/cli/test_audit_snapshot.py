"""`shadowtree audit snapshot` against real servers, and what the clients say of snapshots."""

import json
import os
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from importlib.metadata import version

import pyarrow.parquet as pq
import pytest

import shadowtree
from shadowtree.cli.commands import audit
from shadowtree.cli.main import status_of
from shadowtree.client.snapshots.schema import DETAILS_SCHEMA, DETAILS_TABLE, MESSAGE_TABLES, TABLES
from tests.integration.nameserver.conftest import start, start_several, start_shared  # noqa: F401 - fixtures
from tests.integration.nameserver.server_process import wait_until
from tests.integration.nameserver.warm_process import run_command

SUBNETS = ["a.example", "b.example", "c.example"]
SECONDS = 60


@pytest.fixture(scope="module")
def servers(start_shared):  # noqa: F811
    """Three servers with a loop over all of them, which no test breaks."""
    return with_a_loop(start_shared([[subnet] for subnet in SUBNETS]))


@pytest.fixture
def own_servers(start_several):  # noqa: F811
    """Servers for a test that ends one of them."""
    return with_a_loop(start_several([[subnet] for subnet in SUBNETS]))


def with_a_loop(servers):
    names = servers.clients[0]
    groups = [f"g@{subnet}" for subnet in SUBNETS]
    for group in groups:
        names.create_group(group)
    for parent, child in zip(groups, [*groups[1:], groups[0]], strict=True):
        names.join(parent, child)
    names.join(groups[1], "ann@b.example")
    return servers


def snapshot(address, out, *options):
    return run_command("audit", "snapshot", "--server", address, "--follow", "--out", out, *options)


def manifests(out):
    return {path.parent.name: json.loads(path.read_text()) for path in out.glob("*/manifest.json")}


def test_one_address_suffices_for_the_snapshots_of_all_servers(servers, tmp_path):
    done = snapshot(servers.address(1), tmp_path / "out", "--format", "json")
    assert (done.returncode, done.stderr) == (0, "")
    assert [one["server"] for one in json.loads(done.stdout)["snapshots"]] == SUBNETS
    found = manifests(tmp_path / "out")
    assert sorted(found) == SUBNETS
    for server, manifest in found.items():
        assert manifest["server"] == server
        assert manifest["subnets"] == [server]
        assert sorted(peer["server"] for peer in manifest["peers"]) == [one for one in SUBNETS if one != server]
        assert manifest["consistency"] == "server"
        assert manifest["cut"] is None
        for name, schema in (TABLES | {DETAILS_TABLE: DETAILS_SCHEMA} | MESSAGE_TABLES).items():
            table = pq.read_table(tmp_path / "out" / server / f"{name}.parquet")
            assert table.schema.equals(schema)
            assert table.num_rows == manifest["rows"][name]
    loops = {
        pq.read_table(tmp_path / "out" / server / "virtual_nodes.parquet").to_pylist()[0]["vnid"] for server in SUBNETS
    }
    assert len(loops) == 1


def test_without_follow_no_address_is_dialled_that_a_server_names(servers, tmp_path):
    done = run_command("audit", "snapshot", "--server", servers.address(1), "--out", tmp_path / "out")
    assert (done.returncode, done.stdout) == (4, "")
    (line,) = done.stderr.splitlines()
    assert "--follow" in line
    for at in (0, 2):
        assert f"{SUBNETS[at]} at {servers.address(at)}" in line
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("options", "file_mode", "folder_mode"), [((), 0o600, 0o700), (("--mode", "640"), 0o640, 0o750)]
)
def test_snapshots_are_their_users_alone_unless_they_are_opened(servers, tmp_path, options, file_mode, folder_mode):
    out, before = tmp_path / "out", os.umask(0)
    command = [
        sys.executable,
        "-m",
        "shadowtree",
        "audit",
        "snapshot",
        "--server",
        servers.address(0),
        "--follow",
        "--out",
        out,
    ]
    try:
        subprocess.run([*command, *options], capture_output=True, timeout=SECONDS, check=True)
    finally:
        os.umask(before)
    modes = {(found.is_dir(), stat.S_IMODE(found.stat().st_mode)) for found in (out, *out.rglob("*"))}
    assert modes == {(False, file_mode), (True, folder_mode)}


@pytest.mark.parametrize("options", [(), ("--cut",)])
def test_a_manifest_says_when_it_was_taken_by_which_version_and_from_which_address(servers, tmp_path, options):
    began = datetime.now(UTC)
    assert snapshot(servers.address(1), tmp_path / "out", *options).returncode == 0
    found = manifests(tmp_path / "out")
    for manifest in found.values():
        at = datetime.fromisoformat(manifest["taken_at"])
        assert at.utcoffset() == timedelta(0)
        assert began - timedelta(seconds=1) <= at <= datetime.now(UTC)
        assert manifest["taken_by"] == f"shadowtree {version('shadowtree')}"
        assert manifest["options"]["cut"] == bool(options)
    assert [manifest["address"] for _, manifest in sorted(found.items())] == [servers.address(at) for at in range(3)]


def test_arcs_to_a_server_that_is_gone_are_in_the_snapshot_as_suspended(own_servers, tmp_path):
    own_servers.kill(2)
    wait_until(lambda: own_servers.clients[0].status().arcs_suspended == 1, "the arc from c is suspended")
    wait_until(lambda: own_servers.clients[1].status().arcs_suspended == 1, "the arc to c is suspended")
    assert snapshot(own_servers.address(0), tmp_path, "--timeout", "5").returncode == 3
    found = {}
    for server in SUBNETS[:2]:
        names = {row["node"]: row["id"] for row in pq.read_table(tmp_path / server / "nodes.parquet").to_pylist()}
        for row in pq.read_table(tmp_path / server / "arcs.parquet").to_pylist():
            if row["suspended"]:
                arc = (names[row["parent"]], names[row["child"]])
                found[server, arc] = (row["present"], row["state"], row["is_truth"], row["is_record"])
    assert found == {
        ("a.example", ("g@c.example", "g@a.example")): (True, "suspended", False, True),
        ("b.example", ("g@b.example", "g@c.example")): (True, "suspended", True, False),
    }


def test_a_server_that_is_gone_is_named_and_snapshots_of_before_do_not_pass_for_its_own(own_servers, tmp_path):
    out = tmp_path / "out"
    assert snapshot(own_servers.address(0), out).returncode == 0
    own_servers.kill(2)
    done = snapshot(own_servers.address(0), out, "--timeout", "5")
    assert done.returncode == 3
    assert "c.example" in done.stderr
    assert sorted(manifests(out)) == SUBNETS[:2]


@pytest.mark.parametrize(("judged", "status"), [(0, 3), (1, 1), (3, 3), (4, 4), (-9, 4)])
def test_an_audit_without_a_server_never_calls_the_whole_consistent(
    with_one_gone, tmp_path, monkeypatch, judged, status
):
    """tests/integration/audit starts the program that judges; here it has ended with a status."""
    out, called = tmp_path / "out", []

    def judge(command, **_):
        called.append((command[1:], sorted(manifests(out / "snapshots")), os.umask(0o077)))
        (out / "findings.jsonl").touch()
        return subprocess.CompletedProcess(command, judged)

    monkeypatch.setattr(audit, "_java", lambda: tmp_path)
    monkeypatch.setattr(audit.subprocess, "run", judge)
    assert (
        status_of(["audit", "run", "--server", with_one_gone, "--follow", "--out", str(out), "--timeout", "5"])
        == status
    )
    command = ["-m", "spark_graph_jobs", str(out / "snapshots"), "--out", str(out)]
    assert called == [(command, SUBNETS[:2], 0o077)]


@pytest.fixture(scope="module")
def with_one_gone(start_shared):  # noqa: F811
    """The address of one of two servers that have met a third one, which is gone."""
    servers = with_a_loop(start_shared([[subnet] for subnet in SUBNETS]))
    servers.kill(2)
    return servers.address(0)


def test_at_a_cut_all_servers_are_read_at_one_update(servers, tmp_path):
    stop = threading.Event()

    def go_on_changing():
        number = 0
        while not stop.is_set():
            number += 1
            servers.clients[number % 3].join(f"g@{SUBNETS[number % 3]}", f"p{number}@else.where")

    changing = threading.Thread(target=go_on_changing)
    changing.start()
    try:
        done = snapshot(servers.address(0), tmp_path / "out", "--cut")
    finally:
        stop.set()
        changing.join()
    assert (done.returncode, done.stderr) == (0, "")
    found = manifests(tmp_path / "out")
    assert sorted(found) == SUBNETS
    assert {manifest["consistency"] for manifest in found.values()} == {"cut"}
    assert len({manifest["cut"] for manifest in found.values()}) == 1


def test_a_cut_needs_all_servers(own_servers, tmp_path):
    own_servers.kill(2)
    done = snapshot(own_servers.address(0), tmp_path / "out", "--cut", "--timeout", "5")
    assert done.returncode in (3, 4)
    assert done.stderr.count("\n") == 1
    assert manifests(tmp_path / "out") == {}


def test_messages_are_told_of_without_their_payloads(own_servers, tmp_path):
    names = own_servers.clients[0]
    names.open_mailbox("ann@b.example")
    for number in range(3):
        names.send("g@a.example", f"message {number}".encode(), wait="settled")
    assert snapshot(own_servers.address(0), tmp_path, "--cut").returncode == 0
    manifest = manifests(tmp_path)["b.example"]
    assert manifest["messages"] == {"log_last": 3, "log_cut": 0, "mailboxes_numbered": 1}
    tables = {name: pq.read_table(tmp_path / "b.example" / f"{name}.parquet").to_pylist() for name in MESSAGE_TABLES}
    assert [row["first_serial"] for row in tables["message_log"]] == [1, 2, 3]
    assert {tuple(row["targets"]) for row in tables["message_log"]} == {("g@a.example",)}
    assert [(row["mailbox"], row["process"]) for row in tables["mailboxes"]] == [(1, "ann@b.example")]
    assert [row["targets"] for row in tables["reached"]] == [["g@a.example"]]
    of_origin = pq.read_table(tmp_path / "a.example" / "message_log.parquet").to_pylist()
    digests = {row["first_serial"]: row["digest"] for row in tables["message_log"]}
    assert {row["first_serial"]: row["digest"] for row in of_origin}.items() <= digests.items()


def test_without_a_folder_it_is_wrong_usage():
    done = run_command("audit", "snapshot")
    assert done.returncode == 2
    assert "--out" in done.stderr


def test_more_than_two_snapshots_of_one_server_at_once_are_refused(servers, tmp_path):
    waiting = []
    caught_up = threading.Barrier(3)
    for number in range(2):
        client = servers.new_client(0)
        arguments = {"cut": f"cut {number}", "on_caught_up": caught_up.wait}
        taking = threading.Thread(target=_until_closed, args=(client, tmp_path / str(number), arguments))
        taking.start()
        waiting.append((client, taking))
    caught_up.wait(SECONDS)
    try:
        with pytest.raises(shadowtree.Unavailable, match="2 snapshots"):
            servers.clients[0].snapshot(tmp_path / "third")
    finally:
        for client, taking in waiting:
            client.close()
            taking.join()


def _until_closed(client, folder, arguments):
    with pytest.raises(shadowtree.ShadowtreeError):
        client.snapshot(folder, **arguments)


async def test_the_asynchronous_client_writes_the_same(servers, tmp_path):
    async with shadowtree.aio.Client(servers.address(0)) as names:
        rows = []
        found = await names.snapshot(tmp_path / "async", progress=rows.append)
        again = servers.clients[0].snapshot(tmp_path / "sync")
    assert (found.server, found.revision, found.nodes, found.arcs) == (
        again.server,
        again.revision,
        again.nodes,
        again.arcs,
    )
    assert rows[-1] >= found.nodes + found.arcs
    for name in TABLES:
        one, other = (pq.read_table(tmp_path / kind / "a.example" / f"{name}.parquet") for kind in ("async", "sync"))
        assert one.equals(other), name
