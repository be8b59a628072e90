"""`shadowtree audit-log` with real servers: exported, verified by two verifiers, compared with what peers keep."""

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

import shadowtree
from nameserver.driver.checkpoint_keeper import CHECKPOINT_ROWS
from shadowtree.client.audit_log import verify_file
from tests import audit_verifier
from tests.integration.nameserver.server_process import wait_until
from tests.integration.nameserver.warm_process import start_command

CALL_SECONDS = 30


def ended(*arguments):
    process = start_command("audit-log", *map(str, arguments))
    out, error = process.communicate(timeout=CALL_SECONDS)
    return process.returncode, out.decode(), error.decode()


def write_rows(address, count, *, of="g@a.x"):
    """Write rows of the audit log, several at a time."""
    with shadowtree.Client(address, timeout=CALL_SECONDS) as names, ThreadPoolExecutor(16) as threads:
        names.create_group(of, if_missing=True)
        list(threads.map(lambda number: names.join(of, f"p{number}@people.example"), range(count)))


def test_an_export_is_whole_and_any_change_of_it_is_named(start, tmp_path):
    server = start()
    with shadowtree.Client(server.address, timeout=CALL_SECONDS) as names:
        names.create_group("g@b.c", request_id="first")
        names.open_mailbox("ann@b.c")
        for number in range(1_203):
            names.join("g@b.c", f"p{number}@b.c")
        rows = list(names.audit_log(after=1_200))
        assert [row.number for row in rows] == [1_201, 1_202, 1_203, 1_204, 1_205]
        assert list(names.audit_log(since=datetime.now(UTC) + timedelta(hours=1))) == []
        assert len(list(names.audit_log(since=datetime.now(UTC) - timedelta(hours=1)))) == 1_205
    file = tmp_path / "audit.jsonl"
    at = ("--server", server.address)
    assert ended("export", "--format", "jsonl", file, *at) == (0, "rows 1 to 1205 of the audit log of b.c\n", "")
    assert file.stat().st_mode & 0o777 == 0o600
    rows = audit_verifier.verify(file.read_text())
    assert (rows[0]["request_id"], rows[0]["principal"], rows[1]["kind"]) == ("first", "anonymous", "mailbox_opened")
    assert ended("verify", file) == (0, "whole: rows 1 to 1205 of the audit log of b.c\n", "")
    status, out, _ = ended("verify", file, "--format", "json")
    assert (status, json.loads(out)["is_whole"], json.loads(out)["rows"]) == (0, True, 1_205)
    file.write_text(file.read_text().replace("p600@b.c", "p6000@b.c"))
    status, out, _ = ended("verify", file)
    assert (status, out) == (1, "not whole: row 603 was changed: its hash is not that of its contents\n")
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:7] + lines[8:]))
    assert ended("verify", file)[:2] == (1, "not whole: row 7 is missing: row 8 stands in its place\n")
    (tmp_path / "other").write_text("nonsense\n")
    status, out, error = ended("verify", tmp_path / "other")
    assert (status, out) == (4, "")
    assert "this is no audit log" in error
    assert ended("verify", tmp_path / "missing")[0] == 4


@pytest.fixture
def two(cluster):
    """Servers a.x and b.x that know each other."""
    start_one = cluster("a.x", "b.x")
    return {subnet: start_one(subnet) for subnet in ("a.x", "b.x")}, start_one


def kept_by(server, of):
    with shadowtree.Client(server.address, timeout=CALL_SECONDS) as names:
        return names.checkpoints(of)


def test_a_peer_keeps_the_newest_checkpoint_durably_and_it_shows_a_cut_end(two, tmp_path):
    servers, start_one = two
    file, checkpoints = tmp_path / "audit.jsonl", tmp_path / "checkpoints.jsonl"
    at = ("--server", servers["a.x"].address)
    write_rows(servers["a.x"].address, CHECKPOINT_ROWS)
    wait_until(lambda: kept_by(servers["b.x"], "a.x"), "a checkpoint at the peer")
    (kept,) = kept_by(servers["b.x"], "a.x")
    assert (kept.server, kept.kept_by, kept.signature) == ("a.x", "b.x", "")
    assert kept.sequence >= CHECKPOINT_ROWS
    servers["b.x"].kill()
    servers["b.x"] = start_one("b.x")
    assert kept_by(servers["b.x"], "a.x") == (kept,)
    ended("export", file, *at)
    status, out, error = ended("verify", file, "--checkpoints", "peers", *at)
    assert (status, error) == (0, "")
    assert f"1 checkpoint fit, the newest of row {kept.sequence}" in out
    status, out, error = ended("checkpoints", "--of", "a.x", "--format", "json", "--server", servers["b.x"].address)
    assert (status, error) == (0, "")
    assert json.loads(out)["sequence"] == kept.sequence
    checkpoints.write_text(out)
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[: kept.sequence]))
    assert ended("verify", file)[0] == 0
    for source in ("peers", checkpoints):
        status, out, error = ended("verify", file, "--checkpoints", source, *at)
        assert (status, error) == (1, "")
        assert f"row {kept.sequence - 1}, and b.x keeps a checkpoint of row {kept.sequence}" in out
    assert ended("verify", file, "--checkpoints", checkpoints, "--until", "3650d")[0] == 3
    servers["b.x"].kill()
    status, _, error = ended("verify", file, "--checkpoints", "peers", *at)
    assert status == 3
    assert "no checkpoint of a.x was found" in error


def test_a_server_that_goes_on_from_an_old_backup_is_shown_by_what_its_peer_keeps(two, tmp_path):
    servers, start_one = two
    write_rows(servers["a.x"].address, 10)
    assert servers["a.x"].terminate()[0] == 0
    database, backup = tmp_path / "a.x.db", tmp_path / "backup.db"
    shutil.copy(database, backup)
    servers["a.x"] = start_one("a.x")
    write_rows(servers["a.x"].address, CHECKPOINT_ROWS, of="lost@a.x")
    wait_until(lambda: kept_by(servers["b.x"], "a.x"), "a checkpoint at the peer")
    (first,) = kept_by(servers["b.x"], "a.x")
    servers["a.x"].kill()
    for each in tmp_path.glob("a.x.db*"):
        each.unlink()
    shutil.copy(backup, database)
    servers["a.x"] = start_one("a.x")
    write_rows(servers["a.x"].address, CHECKPOINT_ROWS - 100, of="other@a.x")
    write_rows(servers["a.x"].address, 300, of="more@a.x")
    file = tmp_path / "audit.jsonl"
    with shadowtree.Client(servers["a.x"].address, timeout=CALL_SECONDS) as names:
        names.export_audit_log(file)
    verdict = verify_file(file)
    assert verdict.is_whole
    assert verdict.last > first.sequence
    verdict = verify_file(file, kept_by(servers["b.x"], "a.x"))
    assert (verdict.is_whole, verdict.wrong_row) == (False, first.sequence)
    assert "went back to an older copy" in verdict.why
