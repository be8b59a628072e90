"""The command line as users run it: processes of their own, against a name server of its own."""

import json
import os
import pty
import signal
import socket
import stat
import subprocess
import sys

import pytest

from shadowtree import Client
from tests.integration.nameserver.warm_process import run_command

PATIENCE_SECONDS = 60
PROGRAM = [sys.executable, "-m", "shadowtree"]


@pytest.fixture(scope="module")
def clean_environment():
    return {key: value for key, value in os.environ.items() if not key.startswith("SHADOWTREE_")}


@pytest.fixture(scope="module")
def serve(clean_environment):
    """Start servers by `shadowtree serve`; they are gone when the module ends."""
    started = []

    def start(*arguments):
        process = subprocess.Popen(
            [*PROGRAM, "serve", *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=clean_environment,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate(timeout=PATIENCE_SECONDS)


@pytest.fixture(scope="module")
def server(serve, tmp_path_factory):
    """The address of one server for all tests here. Each test uses groups of its own."""
    database = tmp_path_factory.mktemp("server") / "names.db"
    process = serve("--subnet", "x.example,y.example", "--listen", "127.0.0.1:0", "--database", f"sqlite:///{database}")
    line = process.stdout.readline()
    assert line.startswith("serving x.example,y.example on 127.0.0.1:"), process.stderr.read()
    return line.split(" on ")[1].strip()


@pytest.fixture
def shadowtree(server):
    def run(*arguments, stdin="", status=None):
        found = run_command(*arguments, standard_input=stdin.encode(), SHADOWTREE_SERVER=server)
        assert "Traceback" not in found.stderr
        if status is not None:
            assert found.returncode == status, found.stderr
        return found

    return run


def test_a_first_session_from_creating_a_group_to_deleting_it(shadowtree):
    shadowtree("group", "create", "staff@x.example", status=0)
    shadowtree("group", "create", "lab@y.example", status=0)
    shadowtree("join", "staff@x.example", "lab@y.example", status=0)
    shadowtree("join", "lab@y.example", "ann@z.example", status=0)
    assert shadowtree("resolve", "staff@x.example", status=0).stdout == "ann@z.example\n"
    proof = shadowtree("check", "staff@x.example", "ann@z.example", "--explain", status=0).stdout
    assert proof.splitlines() == ["yes", "staff@x.example", "lab@y.example", "ann@z.example"]
    assert shadowtree("check", "staff@x.example", "bob@z.example", status=1).stdout == "no\n"
    assert shadowtree("memberships", "ann@z.example", status=0).stdout == "lab@y.example\nstaff@x.example\n"
    formed = shadowtree("join", "lab@y.example", "staff@x.example", status=0)
    assert formed.stdout.splitlines()[0] == "formed\tlab@y.example\tstaff@x.example"
    shadowtree("leave", "lab@y.example", "staff@x.example", status=0)
    in_use = shadowtree("group", "delete", "staff@x.example", status=4)
    assert in_use.stderr.count("\n") == 1
    assert "lab@y.example" in in_use.stderr
    shadowtree("group", "delete", "staff@x.example", "--force", status=0)
    shadowtree("group", "delete", "lab@y.example", "--force", status=0)


def test_a_revision_carries_from_a_write_to_a_read(shadowtree):
    revision = json.loads(shadowtree("group", "create", "rev@x.example", "--format", "json", status=0).stdout)[
        "revision"
    ]
    shadowtree("resolve", "rev@x.example", "--at-least-revision", revision, status=0)
    shadowtree("resolve", "rev@x.example", "--at-least-revision", "nonsense", status=2)


def test_a_file_goes_in_and_comes_out_the_same(shadowtree, tmp_path):
    rows = ["a@x.example\tb@y.example\tgroup", "a@x.example\t群 #1@z\tmember", "b@y.example\ta@x.example\tgroup"]
    rows.append("empty@x.example\t\tgroup")
    first, again = tmp_path / "first.tsv", tmp_path / "again.tsv.gz"
    first.write_text("\n".join(reversed(rows)) + "\n", encoding="utf-8")
    shadowtree("import", first, status=0)
    assert "0 arcs added" in shadowtree("import", first, status=0).stdout
    shadowtree("export", again, status=0)
    exported = shadowtree("export", "-", "--subnet", "x.example", status=0).stdout.splitlines()
    assert [row for row in exported if row.split("\t")[0] in {"a@x.example", "empty@x.example"}] == [
        rows[0],
        rows[1],
        rows[3],
    ]


def test_bad_lines_of_a_long_file_refuse_all_of_it(shadowtree, tmp_path):
    file = tmp_path / "long.tsv"
    lines = [f"bad-{number % 100}@x.example\tp-{number}@z\tmember" for number in range(20_000)]
    lines[17_776] = "bad-1@x.example\tp-1@z"
    file.write_text("\n".join(lines))
    refused = shadowtree("import", file, status=4)
    assert refused.stderr.startswith(f"shadowtree: {file}:17777: 2 columns instead of 3")
    assert refused.stderr.count("\n") == 1
    shadowtree("resolve", "bad-0@x.example", status=4)
    skipped = shadowtree("import", file, "--skip-bad", "--format", "json", status=0)
    assert [line["line"] for line in json.loads(skipped.stdout)["skipped"]] == [17_777]


def test_a_group_of_a_subnet_that_nobody_owns_is_a_bad_line(shadowtree):
    refused = shadowtree("import", "-", stdin="a@x.example\tb@nobody.example\tgroup\n", status=4)
    assert "standard input:1: group b@nobody.example: no name server owns the subnet nobody.example" in refused.stderr


def test_updates_come_through_a_pipe(shadowtree):
    shadowtree("group", "create", "red@x.example", status=0)
    shadowtree("group", "create", "blue@x.example", status=0)
    shadowtree("join", "red@x.example", "ann@z", status=0)
    shadowtree("apply", "-", stdin="-\tred@x.example\tann@z\n+\tblue@x.example\tann@z\n", status=0)
    assert shadowtree("memberships", "ann@z", status=0).stdout.splitlines() == ["blue@x.example"]


def test_a_refused_update_is_left_out_whole(shadowtree):
    shadowtree("group", "create", "whole@x.example", status=0)
    shadowtree("apply", "-", stdin="+\twhole@x.example\tone@z\n-\twhole@x.example\ttwo@z\n", status=4)
    assert shadowtree("resolve", "whole@x.example", status=0).stdout == ""


def test_that_a_group_is_in_use_and_the_way_out_are_said_once(shadowtree):
    for group in ("upper@x.example", "used@x.example"):
        shadowtree("group", "create", group, status=0)
    shadowtree("join", "upper@x.example", "used@x.example", status=0)
    refused = shadowtree("group", "delete", "used@x.example", status=4).stderr
    assert refused.count("leave") == 1, refused
    assert refused.count("--force") == 1, refused
    assert refused.endswith("; --force does both in one update\n")


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        (("check", "", "ann@z"), "group"),
        (("check", "upper@x.example", ""), "member"),
        (("join", "", "ann@z"), "group"),
        (("join", "upper@x.example", ""), "member"),
    ],
    ids=str,
)
def test_an_invalid_name_says_which_of_the_two_it_is(shadowtree, arguments, field):
    refused = shadowtree(*arguments, status=2).stderr
    assert refused.startswith("shadowtree: invalid name '': ")
    assert refused.endswith(f"(field: {field})\n")


def test_a_file_of_expectations_is_run(shadowtree, tmp_path):
    file = tmp_path / "steps.yaml"
    file.write_text(
        "steps:\n"
        "- {op: join, group: v1@x.example, member: v2@y.example}\n"
        "- {op: join, group: v2@y.example, member: v1@x.example}\n"
        "- {op: join, group: v2@y.example, member: cy@z}\n"
        "- {op: expect_leaves, group: v1@x.example, want: [cy@z]}\n"
        "- {op: expect_all_members, group: v1@x.example, want: [cy@z, v1@x.example, v2@y.example]}\n"
        "- {op: expect_groups_of, member: cy@z, want: [v1@x.example, v2@y.example]}\n"
    )
    assert shadowtree("validate", file, status=0).stdout == "6 steps, 3 expectations: all as expected\n"
    file.write_text("steps:\n- {op: expect_leaf_count, group: v1@x.example, want: 2}\n")
    assert "expected 2, got 1" in shadowtree("validate", file, status=1).stdout


def test_a_reader_that_stops_reading_causes_no_noise(shadowtree, server, clean_environment):
    shadowtree("import", "-", stdin="".join(f"many@x.example\tp-{n}@z\tmember\n" for n in range(20_000)), status=0)
    found = subprocess.run(
        f"{sys.executable} -m shadowtree --server {server} resolve many@x.example | head -1",
        shell=True,
        check=False,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        env=clean_environment,
    )
    assert (found.stdout, found.stderr) == ("p-0@z\n", "")


def test_names_are_printed_as_utf8_in_any_locale(shadowtree, server, clean_environment):
    shadowtree("group", "create", "群@x.example", status=0)
    found = subprocess.run(
        [*PROGRAM, "--server", server, "group", "list", "--subnet", "x.example"],
        check=False,
        capture_output=True,
        timeout=PATIENCE_SECONDS,
        env={**clean_environment, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    )
    assert "群@x.example" in found.stdout.decode().splitlines()


def at_a_terminal(arguments, environment):
    """Run a command whose output goes to a terminal; returns its status and what a person sees."""
    controller, terminal = pty.openpty()
    process = subprocess.Popen(
        [*PROGRAM, *arguments], stdout=terminal, stderr=terminal, stdin=subprocess.DEVNULL, env=environment
    )
    os.close(terminal)
    seen = b""
    while True:
        try:
            part = os.read(controller, 65536)
        except OSError:  # what Linux says at the end of a terminal
            break
        if not part:
            break
        seen += part
    os.close(controller)
    return process.wait(PATIENCE_SECONDS), seen.decode()


def test_a_person_at_a_terminal_sees_tables_trees_and_progress(shadowtree, server, clean_environment, tmp_path):
    environment = {**clean_environment, "SHADOWTREE_SERVER": server, "TERM": "xterm-256color"}
    file = tmp_path / "loop.tsv"
    file.write_text(
        "t1@x.example\tt2@x.example\tgroup\nt2@x.example\tt1@x.example\tgroup\nt2@x.example\tann@z\tmember\n"
    )
    status, seen = at_a_terminal(["import", str(file)], environment)
    assert status == 0
    assert "3 arcs added" in seen
    status, seen = at_a_terminal(["describe", "t1@x.example"], environment)
    assert status == 0
    assert "with 1 group: t2@x.example" in seen
    assert "virtual node" not in seen
    status, seen = at_a_terminal(["describe", "t1@x.example", "--internal"], environment)
    assert status == 0
    assert "virtual node" in seen
    assert "└── " in seen
    status, seen = at_a_terminal(["status"], environment)
    assert status == 0
    assert "┃" in seen or "│" in seen
    status, seen = at_a_terminal(["resolve", "t1@x.example", "--tree"], environment)
    assert status == 0
    assert "└── t2@x.example" in seen
    status, seen = at_a_terminal(["join", "t1@x.example", "t3@x.example"], environment)
    assert status == 0
    assert "t3@x.example joined as a person: there is no group of that name" in seen
    status, seen = at_a_terminal(["resolve", "t1@x.example", "--groups"], environment)
    assert status == 0
    assert "people (2)" in seen
    status, seen = at_a_terminal(["leave", "t2@x.example", "t1@x.example"], environment)
    assert status == 0
    assert "a loop was broken" in seen
    status, seen = at_a_terminal(["group", "delete", "t2@x.example", "--force"], environment)
    assert status == 0
    assert "deleting t2@x.example and its memberships" in seen
    assert "done" in seen


def test_ctrl_c_ends_a_command_at_once(clean_environment):
    """It waits for a server that takes the connection and says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = subprocess.Popen(
            [*PROGRAM, "--server", f"127.0.0.1:{listener.getsockname()[1]}", "resolve", "g@x.example"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=clean_environment,
        )
        connection, _ = listener.accept()
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_SECONDS)
        connection.close()
    assert process.returncode == 130
    assert b"Traceback" not in errors


def test_settings_can_be_checked_without_serving(clean_environment, tmp_path):
    def check(text, *more):
        config = tmp_path / "names.toml"
        config.write_text(text)
        return subprocess.run(
            [*PROGRAM, "serve", "--config", config, "--check-config", *more],
            check=False,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            env=clean_environment,
        )

    text = f'database = "sqlite:///{tmp_path}/names.db"\nsubnets = ["x.example"]\nlisten = "127.0.0.1:0"\n'
    good = check(text)
    assert (good.returncode, good.stdout, good.stderr) == (0, "the settings are good\n", "")
    assert not (tmp_path / "names.db").exists()
    unusable = check(text.replace("names.db", "nowhere/names.db"))
    assert (unusable.returncode, unusable.stdout) == (4, "")
    assert unusable.stderr.startswith(f"shadowtree: database {tmp_path}/nowhere/names.db: ")
    bad = check('database = "sqlite:///names.db"\nsubnet = ["x.example"]\n')
    assert bad.returncode == 2
    assert bad.stderr.count("\n") == 1
    assert "names.toml" in bad.stderr
    assert "subnet" in bad.stderr
    assert check('database = "sqlite:///names.db"\n', "--subnet", "no subnet!").returncode == 2


def test_a_server_that_cannot_start_says_why_in_one_line(serve, server, tmp_path):
    taken = serve("--subnet", "x.example", "--listen", server, "--database", f"sqlite:///{tmp_path}/names.db")
    _, errors = taken.communicate(timeout=PATIENCE_SECONDS)
    assert taken.returncode == 4
    assert errors.count("\n") == 1
    assert errors.startswith("shadowtree: ")


def test_a_person_at_a_terminal_is_told_that_an_answer_is_empty(shadowtree, server, clean_environment):
    shadowtree("group", "create", "hollow@x.example", status=0)
    environment = {**clean_environment, "SHADOWTREE_SERVER": server, "TERM": "xterm-256color"}
    for arguments, hint in (
        (("memberships", "nobody@z.example"), "nobody@z.example is in no group"),
        (("resolve", "hollow@x.example"), "no person is a member of hollow@x.example; --groups also prints groups"),
        (("resolve", "hollow@x.example", "--groups", "--direct"), "no person is a direct member of hollow@x.example"),
    ):
        status, seen = at_a_terminal(list(arguments), environment)
        assert status == 0
        assert f"shadowtree: {hint}" in seen
        piped = shadowtree(*arguments, status=0)
        assert (piped.stdout, piped.stderr) == ("", "")


def test_a_server_ends_in_good_order_on_sigterm(serve, tmp_path):
    process = serve("--subnet", "x.example", "--listen", "127.0.0.1:0", "--database", f"sqlite:///{tmp_path}/names.db")
    assert process.stdout.readline().startswith("serving ")
    process.terminate()
    _, errors = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    events = [line.split()[3] for line in errors.splitlines()]
    assert events == ["starting", "settings", "serving", "serving_operators", "draining", "ended"]


def test_the_files_of_a_server_are_its_users_alone(serve, tmp_path):
    database, before = tmp_path / "names.db", os.umask(0)
    try:
        process = serve("--subnet", "x.example", "--listen", "127.0.0.1:0", "--database", f"sqlite:///{database}")
        address = process.stdout.readline().split(" on ")[1].strip()
    finally:
        os.umask(before)
    with Client(address) as names:
        names.create_group("a@x.example")
    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    files = dict.fromkeys([f"names.db{end}" for end in ("", "-wal", "-shm", ".lock", ".mark")], 0o600)
    assert modes == {**files, "names.db.local": 0o700}


@pytest.mark.parametrize(("arguments", "most"), [(("--help",), 200), (("check", "a@x.example", "p@z"), 400)])
def test_little_is_imported_before_the_prompt_comes_again(server, clean_environment, arguments, most):
    """Imports are nearly all of what a command takes, and are the same on a busy machine."""
    environment = {**clean_environment, "SHADOWTREE_SERVER": server, "PYTHONPROFILEIMPORTTIME": "1"}
    done = subprocess.run([*PROGRAM, *arguments], env=environment, capture_output=True, check=False, text=True)
    lines = done.stderr.splitlines()
    imported = [line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")]
    assert "click" in imported
    assert len(imported) < most
    assert {"numpy", "sqlalchemy", "prometheus_client", "pyarrow", "nameserver", "mailing"}.isdisjoint(imported)
