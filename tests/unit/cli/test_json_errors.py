"""Errors for programs: with `--format json` each is one object on standard error. The exit status is the same as
without.
"""

import json
import subprocess
import sys

import pytest

from tests.fakes.call_relay import losing_answers

A, ANN = "a@x.example", "ann@z"


def error_of(found):
    """Return the one error of a command."""
    (line,) = [line for line in map(json.loads, found.err.splitlines()) if "error" in line]
    assert list(line) == ["error"]
    assert list(line["error"]) == ["reason", "message", "facts"]
    return line["error"]


@pytest.mark.parametrize(
    ("arguments", "reason", "facts"),
    [
        (("resolve", "no@x.example"), "GROUP_NOT_FOUND", {"group": "no@x.example"}),
        (("join", A, "ann@z"), "ALREADY_MEMBER", {"member": ANN}),
        (("leave", A, "bob@z"), "NOT_A_MEMBER", {"group": A, "member": "bob@z"}),
        (("join", A, A), "SELF_ARC", {"group": A}),
        (("group", "create", A), "GROUP_EXISTS", {"group": A}),
        (("import", "missing.tsv"), "BAD_FILE", {"file": "missing.tsv"}),
        (("apply", "missing"), "BAD_FILE", {"file": "missing"}),
        (("--server", "127.0.0.1:1", "--timeout", "0.3", "status"), "UNAVAILABLE", {"server": "127.0.0.1:1"}),
        (("mail", "serve", "--config", "missing.toml"), "INVALID_REQUEST", {}),
        (("mail", "queue", "--config", "missing.toml"), "INVALID_REQUEST", {}),
        (("audit", "snapshot", "--out", "x", "--cut", "--config", "missing.toml"), "INVALID_REQUEST", {}),
        (("serve", "--config", "missing.toml"), "INVALID_REQUEST", {}),
        (("repair", "counters", "--config", "missing.toml", "--raise-to", "5"), "INVALID_REQUEST", {}),
        ((), "INVALID_REQUEST", {}),
        (("nonsense",), "INVALID_REQUEST", {}),
        (("join", A), "INVALID_REQUEST", {}),
        (("group", "create", A, "--nonsense"), "INVALID_REQUEST", {}),
        (("group",), "INVALID_REQUEST", {}),
    ],
    ids=str,
)
def test_an_error_is_one_object_with_the_reason_of_python_and_grpc_and_the_status_of_text(
    shadowtree, server, arguments, reason, facts
):
    server.fill(arcs={(A, ANN): "process"})
    as_text = shadowtree(*arguments)
    found = shadowtree("--format", "json", *arguments)
    assert (found.status, found.out) == (as_text.status, "")
    assert found.status in (2, 3, 4)
    error = error_of(found)
    assert error["reason"] == reason
    assert facts.items() <= error["facts"].items()
    # Without arguments, people are told what there is.
    if as_text.err.startswith("shadowtree: "):
        assert as_text.err == f"shadowtree: {error['message']}\n"


@pytest.mark.parametrize(
    "arguments",
    [
        ("join", "--format", "json"),
        ("join", A, "--nonsense", "--format", "json"),
        ("join", A, "--nonsense", "--format=json"),
        ("--format", "json", "nonsense"),
        ("--nonsense", "--format", "json", "status"),
    ],
)
def test_wrong_usage_is_told_in_the_format_wherever_that_stands(shadowtree, arguments):
    found = shadowtree(*arguments)
    assert (found.status, error_of(found)["reason"]) == (2, "INVALID_REQUEST")


def test_a_format_behind_two_dashes_is_no_option(shadowtree):
    assert shadowtree("join", A, "--nonsense", "--", "--format", "json").err.startswith("shadowtree: No such option")


def test_an_incomplete_answer_is_printed_and_an_error_says_what_is_missing(shadowtree, beside_one_away):
    for command, missing in (
        (("resolve", A), "b@y.example"),
        (("check", A, "bob@z"), "y.example"),
        (("memberships", ANN), "y.example"),
    ):
        found = shadowtree(*command, "--format", "json")
        assert (found.status, found.json["unreachable"]) == (3, [missing])
        assert (error_of(found)["reason"], error_of(found)["facts"]["unreachable"]) == ("UNAVAILABLE", missing)


def test_a_write_of_unknown_outcome_tells_its_request_id_as_a_fact(shadowtree, relay):
    relay.set(losing_answers, "CreateGroup")
    found = shadowtree("group", "create", A, "--request-id", "mine", "--timeout", "0.5", "--format", "json")
    error = error_of(found)
    assert (found.status, error["reason"], error["facts"]["request_id"]) == (3, "OUTCOME_UNKNOWN", "mine")


def test_a_warning_is_an_object_too_and_no_error(shadowtree, tmp_path):
    file = tmp_path / "graph.tsv"
    file.write_text(f"{A}\t{ANN}\tmember\nno good\n")
    found = shadowtree("import", file, "--skip-bad", "--format", "json")
    assert found.status == 0
    (line,) = map(json.loads, found.err.splitlines())
    assert list(line) == ["warning"]
    assert line["warning"]["message"].startswith(f"skipped {file}:2: ")


def test_an_answer_that_cannot_be_written_is_an_error_of_the_format():
    command = [sys.executable, "-m", "shadowtree", "--format", "json", "completion", "bash"]
    found = subprocess.run(
        ["/bin/sh", "-c", '"$@" > /dev/full', "sh", *command], stderr=subprocess.PIPE, text=True, check=False
    )
    assert (found.returncode, error_of_line(found.stderr)["reason"]) == (4, "COMMAND_FAILED")


def error_of_line(line):
    return json.loads(line)["error"]
