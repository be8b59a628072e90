"""`python -m spark_graph_jobs`: its output files and exit status. test_pages.py runs it as a process."""

import json
from dataclasses import replace
from datetime import datetime, timedelta
from importlib.metadata import version

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from spark_graph_jobs.finding import READ_COMMANDS
from spark_graph_jobs.run import find_damaged
from spark_graph_jobs.snapshot.discovery import read_collection
from spark_graph_jobs.snapshot.synthetic import SyntheticArc, snapshots_of, write
from tests.integration.audit.clusters import OWNERS, Cluster, whole_cluster
from tests.integration.audit.faults import FAULTS

READS = tuple(f"shadowtree {command} " for command in READ_COMMANDS)


def test_it_writes_what_it_found_and_says_so_by_its_status(audit_here, tmp_path):
    snapshots = snapshots_of(whole_cluster("f001"), OWNERS)
    FAULTS["another_version"].plant(Cluster("f001", snapshots))
    write(snapshots, tmp_path / "snapshots")
    out = tmp_path / "out"
    ended = audit_here(tmp_path / "snapshots", "--out", out, "--no-questions")
    assert ended.status == 1, ended.stderr
    assert ended.stdout.endswith(f"report: {out / 'report.html'}\nerrors were found\n")
    assert "Exception" not in ended.stderr
    (line,) = (out / "findings.jsonl").read_text().splitlines()
    assert json.loads(line) == {
        "audit": "agreement",
        "severity": "error",
        "subject": "top-f001@a.x -> right-f001@b.x",
        "message": "servers do not have it alike in: version",
        "evidence": ["a has it", "c has it"],
        "fix": "shadowtree leave top-f001@a.x right-f001@b.x && shadowtree join top-f001@a.x right-f001@b.x",
        "see": "",
    }
    assert pq.read_table(out / "findings.parquet").to_pylist() == [json.loads(line)]
    report = (out / "report.html").read_text()
    assert "<h1>Errors were found</h1>" in report
    assert "servers do not have it alike in: version" in report
    summary = json.loads((out / "summary.json").read_text())
    assert summary["verdict"] == "errors"
    assert {audit["audit"] for audit in summary["audits"]} >= {"levels", "ancestry", "agreement"}
    assert all(audit["checks"] for audit in summary["audits"])
    assert summary["audit"]["options"] == [str(tmp_path / "snapshots"), "--out", str(out), "--no-questions"]
    assert summary["audit"]["began"] <= summary["audit"]["ended"]
    assert datetime.fromisoformat(summary["audit"]["began"]).utcoffset() == timedelta(0)
    assert summary["audit"]["version"] == version("shadowtree")
    assert not (out / ".work").exists()


def test_it_says_what_it_could_not_judge_beside_what_it_found(audit_here, tmp_path):
    snapshots = snapshots_of(
        [*whole_cluster("f001"), SyntheticArc("up@b.x", "low@b.x"), SyntheticArc("low@b.x", "beside@c.x")], OWNERS
    )
    FAULTS["another_writer"].plant(Cluster("f001", snapshots))
    write(snapshots, tmp_path / "snapshots")
    (tmp_path / "snapshots" / "b" / "nodes.parquet").unlink()
    missing = tmp_path / "graphframes.jar"
    options = ("--out", tmp_path / "out", "--graphframes-jar", missing)
    ended = audit_here(tmp_path / "snapshots", *options)
    assert f"there is no jar at {missing}; going on with the engine driver (scipy)\n" in ended.stderr
    assert ended.status == 1, ended.stdout + ended.stderr
    assert "servers do not have it alike in: writer" in ended.stdout
    left, last = ended.stdout.splitlines()[-2:]
    assert last == "errors were found in what could be read, and not everything could"
    assert left.startswith("not judged: b, which has no snapshot that can be read: ")
    assert left.endswith(" arcs with an end there, 1 of them known by the ancestry records of others alone")
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (summary["verdict"], summary["partial"]) == ("errors", True)
    (not_judged,) = summary["not_judged"]
    assert (not_judged["server"], not_judged["subnets"], not_judged["arcs_of_records_alone"]) == ("b", ["b.x"], 1)
    findings = [json.loads(line) for line in (tmp_path / "out" / "findings.jsonl").read_text().splitlines()]
    asked = [finding for finding in findings if finding["severity"] == "info"]
    assert asked
    assert all(finding["message"].startswith("as far as the snapshots go: ") for finding in asked)
    assert all(not finding["fix"] and finding["see"].startswith(READS) for finding in asked)
    questions = {each["question"]: each for each in summary["questions"]}
    assert questions["islands"]["not_asked"] == "what is looked for may be at a server that is missing"
    assert questions["islands"]["answered_by"] == "none"
    assert questions["largest groups"] | {"seconds": 0} == {
        "question": "largest groups",
        "answered_by": "Spark",
        "not_asked": None,
        "seconds": 0,
    }
    assert not {finding["audit"] for finding in asked} & {"islands", "empty groups", "groups nobody reaches"}
    report = (tmp_path / "out" / "report.html").read_text()
    assert "Not judged: b" in report
    assert "algorithms by driver (scipy)" in report


def damage_pages(path):
    """Change bytes of the first page; the footer stays, so the file looks whole."""
    content = bytearray(path.read_bytes())
    content[4:44] = bytes(each ^ 0xFF for each in content[4:44])
    path.write_bytes(content)


def test_a_snapshot_with_a_damaged_page_is_left_out_and_named(audit_here, tmp_path):
    write(snapshots_of(whole_cluster("f001"), OWNERS), tmp_path / "snapshots")
    damage_pages(tmp_path / "snapshots" / "b" / "nodes.parquet")
    ended = audit_here(tmp_path / "snapshots", "--out", tmp_path / "out", "--no-questions")
    assert ended.status == 3, ended.stdout + ended.stderr
    assert "warning: b: left out: nodes.parquet is damaged: " in ended.stdout
    assert "not judged: b, which has no snapshot that can be read" in ended.stdout
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["partial"]


def test_a_snapshot_that_fails_alone_is_found_by_its_rows(spark, tmp_path):
    write(snapshots_of(whole_cluster("f001"), OWNERS), tmp_path)
    path = tmp_path / "b" / "nodes.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(0, "node", pa.nulls(len(table), table[0].type)), path)
    whole = read_collection(tmp_path)
    of_b = replace(whole, snapshots=tuple(each for each in whole.snapshots if each.server == "b"))
    (found,) = find_damaged(spark, of_b, tmp_path / "out").items()
    assert found[0] == "b"
    assert found[1].startswith("no audit can go through its rows: ")


@pytest.mark.parametrize("wrong", [("--memory", "much"), ("--engine", "steam"), ("--before", "nothing")])
def test_wrong_usage_is_status_2(audit_here, tmp_path, wrong):
    with pytest.raises(SystemExit, match="2"):
        audit_here(tmp_path, "--out", tmp_path, *wrong)
