"""`python -m spark_graph_jobs` as a process: what it writes and how it ends."""

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from spark_graph_jobs.snapshot.synthetic import snapshots_of, write
from tests.integration.audit.clusters import OWNERS, Cluster, whole_cluster
from tests.integration.audit.faults import FAULTS

ROOT = Path(__file__).parents[3]

AUDIT_SECONDS = 600
"""Starting Spark takes ten on a machine that has nothing else to do."""


def audit(*arguments):
    command = [sys.executable, "-m", "spark_graph_jobs", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=AUDIT_SECONDS, cwd=ROOT)


def test_it_writes_what_it_found_and_says_so_by_its_status(tmp_path):
    snapshots = snapshots_of(whole_cluster("f001"), OWNERS)
    FAULTS["another_version"].plant(Cluster("f001", snapshots))
    write(snapshots, tmp_path / "snapshots")
    out = tmp_path / "out"
    ended = audit(tmp_path / "snapshots", "--out", out, "--master", "local[2]", "--memory", "1g", "--no-questions")
    assert ended.returncode == 1, ended.stderr
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
    }
    assert pq.read_table(out / "findings.parquet").to_pylist() == [json.loads(line)]
    report = (out / "report.html").read_text()
    assert "<h1>Errors were found</h1>" in report
    assert "servers do not have it alike in: version" in report
    summary = json.loads((out / "summary.json").read_text())
    assert summary["verdict"] == "errors"
    assert {audit["audit"] for audit in summary["audits"]} >= {"levels", "ancestry", "agreement"}
    assert not (out / ".work").exists()


def test_wrong_usage_is_status_2(tmp_path):
    assert audit(tmp_path / "nothing", "--out", tmp_path).returncode == 2
    assert audit(tmp_path, "--out", tmp_path, "--memory", "much").returncode == 2
