"""Defects of snapshots are reported by name, before any judgement. No Spark is needed for that."""

import json
import os
import shutil

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_graph_jobs.audits import in_flight
from spark_graph_jobs.snapshot import discovery
from spark_graph_jobs.snapshot.discovery import UnreadableError, read_collection
from spark_graph_jobs.snapshot.schema import DELIVERIES, TABLES
from spark_graph_jobs.snapshot.synthetic import snapshots_of, write
from tests.integration.audit.clusters import OWNERS, whole_cluster


@pytest.fixture
def folder(tmp_path):
    write(snapshots_of(whole_cluster("t"), OWNERS), tmp_path)
    return tmp_path


def change_manifest(folder, at, /, **changes):
    path = folder / at / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def the_finding(collection):
    (finding,) = collection.findings
    return finding


def servers(collection):
    return [snapshot.server for snapshot in collection.snapshots]


def test_whole_snapshots_of_one_cut_have_nothing_to_say(folder):
    collection = read_collection(folder)
    assert servers(collection) == ["a", "b", "c"]
    assert collection.findings == ()
    assert collection.is_cut
    assert not collection.is_partial
    assert collection.arcs == sum(pq.read_table(folder / server / "arcs.parquet").num_rows for server in "abc")


def test_servers_that_are_each_at_an_instant_of_their_own_can_be_judged(tmp_path):
    write(snapshots_of(whole_cluster("t"), OWNERS, cut=None), tmp_path)
    collection = read_collection(tmp_path)
    assert not collection.is_cut
    assert not collection.is_partial


def test_a_server_without_a_snapshot_is_named(folder):
    shutil.rmtree(folder / "b")
    collection = read_collection(folder)
    assert collection.is_partial
    assert the_finding(collection).subject == "b"
    assert the_finding(collection).evidence == ("a knows it", "c knows it")
    assert servers(collection) == ["a", "c"]


@pytest.mark.parametrize("table", TABLES)
def test_a_truncated_file_leaves_its_server_out(folder, table):
    path = folder / "b" / f"{table}.parquet"
    path.write_bytes(path.read_bytes()[:-20])
    collection = read_collection(folder)
    assert collection.is_partial
    assert servers(collection) == ["a", "c"]
    left_out = next(finding for finding in collection.findings if "left out" in finding.message)
    assert left_out.subject == "b"
    assert f"{table}.parquet is truncated or damaged" in left_out.message


def test_a_missing_file_leaves_its_server_out(folder):
    (folder / "c" / "arcs.parquet").unlink()
    collection = read_collection(folder)
    assert collection.is_partial
    assert "arcs.parquet is missing" in collection.findings[0].message


def test_a_snapshot_whose_writing_was_not_finished_is_left_out(folder):
    (folder / "c" / "manifest.json").unlink()
    collection = read_collection(folder)
    assert collection.is_partial
    assert "writing it was not finished" in collection.findings[0].message


def test_fewer_rows_than_promised_leave_a_server_out(folder):
    path = folder / "a" / "nodes.parquet"
    pq.write_table(pq.read_table(path).slice(1), path)
    collection = read_collection(folder)
    assert servers(collection) == ["b", "c"]
    assert "the manifest says" in collection.findings[0].message


def test_a_column_of_another_type_leaves_a_server_out(folder):
    path = folder / "a" / "arcs.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(2, "cost", table["cost"].cast(pa.string())), path)
    assert "column cost of arcs.parquet is string, not int64" in read_collection(folder).findings[0].message


@pytest.mark.parametrize("version", [1, 3])
def test_another_schema_version_leaves_a_server_out(folder, version):
    change_manifest(folder, "a", schema_version=version)
    collection = read_collection(folder)
    assert collection.is_partial
    assert (
        f"its schema version is {version}, and this audit reads 2: take another snapshot"
        in collection.findings[0].message
    )


@pytest.mark.parametrize("content", ["", "[]", "{", '{"schema_version": 2}', '{"schema_version": 2, "server": "a"}'])
def test_a_manifest_that_is_none_leaves_its_server_out(folder, content):
    (folder / "a" / "manifest.json").write_text(content)
    collection = read_collection(folder)
    assert servers(collection) == ["b", "c"]
    assert collection.is_partial


@pytest.mark.parametrize("other", [{"cut": "2@cut"}, {"cut": None, "consistency": "server"}])
def test_snapshots_of_different_cuts_are_partial(folder, other):
    change_manifest(folder, "c", **other)
    collection = read_collection(folder)
    assert collection.is_partial
    assert not collection.is_cut
    assert the_finding(collection).subject == "cut"
    assert len(the_finding(collection).evidence) == 3


def test_a_subnet_that_two_servers_claim_is_an_error(folder):
    change_manifest(folder, "b", subnets=["b.x", "a.x"])
    finding = the_finding(read_collection(folder))
    assert (finding.severity.value, finding.subject) == ("error", "a.x")
    assert finding.message == "is claimed for several servers: a, b"
    assert finding.fix == "shadowtree peers remove a.x"


def test_a_second_snapshot_of_one_server_is_left_out(folder):
    shutil.copytree(folder / "a", folder / "a again")
    collection = read_collection(folder)
    assert servers(collection) == ["a", "b", "c"]
    assert collection.is_partial
    assert the_finding(collection).subject == "a again"


def test_a_failed_database_is_an_error(folder):
    change_manifest(folder, "a", database_failure="disk full")
    assert the_finding(read_collection(folder)).message == "its database failed: disk full"


def test_an_empty_folder_is_partial(tmp_path):
    assert read_collection(tmp_path).is_partial


def test_no_folder_is_refused(tmp_path):
    with pytest.raises(UnreadableError):
        read_collection(tmp_path / "nothing")


def test_a_delivery_log_that_cannot_be_read_is_left_out(folder):
    (folder / DELIVERIES).write_bytes(b"PAR1")
    collection = read_collection(folder)
    assert collection.deliveries is None
    assert collection.is_partial


def test_what_a_participant_waits_for_is_no_error_where_snapshots_show_no_one_instant(tmp_path):
    snapshots = snapshots_of(whole_cluster("t"), OWNERS, cut=None)
    row = {"update": "u", "coordinator": "a", "role": "participant", "state": "ready", "waits_for": ["a"]}
    snapshots["b"].rows["updates"].append(row | {"priority_counter": None, "priority_server": None})
    write(snapshots, tmp_path)
    (finding,) = in_flight.audit(read_collection(tmp_path))
    assert finding.severity.value == "warning"
    assert finding.message.startswith("stale")


WRONG_MANIFESTS = {
    "nested lists": b"[" * 100_000,
    "nested objects": b'{"a":' * 100_000,
    "no UTF-8": b"\xff\xfe",
    "a number of many digits": b"[" + b"9" * 10_000 + b"]",
    "too long": b" " * 5_000,
}


@pytest.mark.parametrize("content", WRONG_MANIFESTS.values(), ids=WRONG_MANIFESTS)
def test_a_manifest_that_cannot_be_parsed_leaves_its_server_out(folder, monkeypatch, content):
    monkeypatch.setattr(discovery, "MANIFEST_BYTES_LIMIT", max(4_000, len(content) - 1_000))
    (folder / "a" / "manifest.json").write_bytes(content)
    collection = read_collection(folder)
    assert servers(collection) == ["b", "c"]
    left_out = next(finding for finding in collection.findings if "left out" in finding.message)
    assert left_out.subject == "a"
    assert "manifest.json" in left_out.message


WRONG_VALUES = [
    {"server": 7},
    {"server": "\ud800"},
    {"server": "x" * 10_001},
    {"subnets": None},
    {"subnets": [["a"]]},
    {"peers": [7]},
    {"peers": {"server": "b"}},
    {"rows": []},
    {"rows": {table: float("inf") for table in TABLES}},
    {"rows": dict.fromkeys(TABLES, -1)},
    {"rows": dict.fromkeys(TABLES, True)},
    {"messages": {"log_last": 2**63, "log_cut": 0, "mailboxes_numbered": 0}},
    {"messages": "none"},
    {"taken_at": "0001-01-01T00:00:00+23:59", "address": None, "taken_by": "x", "options": {}},
    {"taken_at": 7, "address": None, "taken_by": "x", "options": {}},
    {"taken_at": "2026-01-01T00:00:00+00:00", "address": None, "taken_by": "x", "options": {"a": [[]]}},
]


@pytest.mark.parametrize("changes", WRONG_VALUES, ids=lambda changes: f"{changes!r:.40}")
def test_any_wrong_value_of_a_manifest_leaves_its_server_out(folder, changes):
    change_manifest(folder, "a", **changes)
    collection = read_collection(folder)
    assert servers(collection) == ["b", "c"]
    assert collection.is_partial


@pytest.mark.parametrize("name", ["manifest.json", "nodes.parquet"])
def test_a_pipe_is_not_waited_for(folder, name):
    (folder / "a" / name).unlink()
    os.mkfifo(folder / "a" / name)
    collection = read_collection(folder)
    assert servers(collection) == ["b", "c"]
    assert f"{name} is no regular file" in collection.findings[0].message


def repeated(folder, table, take):
    """Write a table of a million rows, or of as many values, into few bytes."""
    path = folder / "a" / f"{table}.parquet"
    found = take(pq.read_table(path))
    pq.write_table(found, path, compression="zstd")
    rows = json.loads((folder / "a" / "manifest.json").read_text())["rows"] | {table: found.num_rows}
    change_manifest(folder, "a", rows=rows)


@pytest.mark.parametrize(
    ("table", "take"),
    [
        ("nodes", lambda found: found.take(pa.array([0] * 1_000_000))),
        ("virtual_nodes", lambda found: _with_long_list(found, "components", 1_000_000)),
    ],
)
def test_a_file_that_stands_for_far_more_than_its_bytes_leaves_its_server_out(folder, table, take):
    repeated(folder, table, take)
    collection = read_collection(folder)
    assert servers(collection) == ["b", "c"]
    assert f"{table}.parquet has 1,000,000 " in collection.findings[0].message


def _with_long_list(found, column, length):
    """Return one row whose list has one number many times."""
    schema = found.schema
    row = {"vnid": ["v"], "smallest": ["g@a.x"], column: [[7] * length]}
    return pa.table(row, schema=schema)
