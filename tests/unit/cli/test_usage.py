"""Options everywhere, errors in one line, and statuses that scripts can rely on."""

import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from shadowtree import errors
from shadowtree.cli.commands import audit
from shadowtree.cli.main import COMMANDS, shadowtree_command, status_of
from shadowtree.cli.render.plurals import counted, counted_for_people
from shadowtree.cli.support.hints import what_helps
from spark_graph_jobs.finding import counted as counted_in_audits
from tests.server_in_thread import ServerInThread

A, ANN = "a@x.example", "ann@z"


def commands():
    """Return every command with its names, including those of groups of commands."""
    context = click.Context(shadowtree_command)
    for name in COMMANDS:
        command = shadowtree_command.get_command(context, name)
        yield (name,), command
        if isinstance(command, click.Group):
            yield from (((name, sub), command.commands[sub]) for sub in command.commands)


@pytest.mark.parametrize("name", [name for name, _ in commands()], ids=" ".join)
def test_every_command_explains_itself(name, shadowtree):
    found = shadowtree(*name, "--help")
    assert found.status == 0
    assert found.out.startswith(f"Usage: shadowtree {' '.join(name)}")


@pytest.mark.parametrize(
    "name",
    [name for name, command in commands() if not isinstance(command, click.Group) and name != ("completion",)],
    ids=" ".join,
)
def test_every_command_shows_an_example(name, shadowtree):
    assert "Example" in shadowtree(*name, "--help").out


def test_the_summaries_in_the_list_are_those_of_commands_that_exist():
    assert {names[0] for names, _ in commands()} == set(COMMANDS)


@pytest.mark.parametrize(
    "arguments",
    [
        ("--format", "json", "group", "list"),
        ("group", "--format", "json", "list"),
        ("group", "list", "--format", "json"),
        ("--format", "text", "group", "list", "--format", "json"),
    ],
)
def test_options_may_stand_before_and_after_the_name_and_the_last_wins(shadowtree, arguments):
    assert shadowtree(*arguments).json == {"groups": []}


def test_the_server_is_an_option_or_of_the_environment(shadowtree, server, monkeypatch):
    assert shadowtree("status").status == 0
    monkeypatch.setenv("SHADOWTREE_SERVER", "127.0.0.1:1")
    assert shadowtree("status", "--timeout", "0.3").status == 4
    assert shadowtree("status", "--server", f"127.0.0.1:1,{server.address}").status == 0
    assert shadowtree("--server", server.address, "status").status == 0
    assert shadowtree("status", "--server", server.address).status == 0


def test_a_revision_is_asked_for(shadowtree, server):
    revision = shadowtree("group", "create", A, "--format", "json").json["revision"]
    assert shadowtree("resolve", A, "--at-least-revision", revision).status == 0


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("nonsense",),
        ("join", A),
        ("join", A, ANN, "more"),
        ("resolve", A, "--nonsense"),
        ("resolve", A, "--consistency", "perfect"),
        ("--format", "xml", "status"),
        ("--timeout", "soon", "status"),
        ("--timeout", "0", "status"),
        ("--timeout", "nan", "status"),
        ("--timeout", "inf", "status"),
        ("--timeout", "-1", "status"),
        ("--server", "nonsense", "status"),
        ("status", "--server", "host:99999"),
        ("completion", "tcsh"),
        ("describe", A, "--pathnames", "0"),
        ("join", A, ANN, "--request-id", ""),
        ("resolve", A, "--at-least-revision", ""),
        ("watch", A, "--after", ""),
        ("changes", "--after", ""),
        ("resolve", A, "--tree", "--format", "json"),
        ("resolve", A, "--walk", "--format", "json"),
        ("peers", "add", "y.example"),
        ("peers", "add", "y.example=nowhere"),
        ("peers", "add", "y.example=host:0"),
        ("peers", "add", "=host:1"),
    ],
)
def test_wrong_usage_has_status_2_and_prints_nothing_on_standard_output(shadowtree, arguments):
    found = shadowtree(*arguments)
    assert (found.status, found.out) == (2, "")
    assert not arguments or found.err.count("\n") == 1
    assert "Traceback" not in found.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("resolve", "no@x.example"), "there is no group no@x.example (asked the server x.example)"),
        (("check", "no@x.example", ANN), "there is no group no@x.example (asked the server x.example)"),
        (("describe", "no@x.example"), "there is no group no@x.example (asked the server x.example)"),
        (("join", A, A), f"{A} cannot be made an immediate member of itself"),
        (("leave", A, ANN), f"{ANN} is no immediate member of {A}"),
        (("group", "create", A), f"the group {A} exists already"),
        (("import", "missing.tsv"), "missing.tsv: cannot read it: No such file or directory"),
        (("apply", "missing"), "missing: cannot read it: No such file or directory"),
        (("validate", "missing"), "missing: cannot read it: No such file or directory"),
        (("export", "missing/graph.tsv"), "missing/graph.tsv: cannot write it: No such file or directory"),
        (
            ("--server", "127.0.0.1:1", "--timeout", "0.3", "status"),
            "cannot reach the name server at 127.0.0.1:1: Connection refused; --server HOST:PORT names another",
        ),
        (
            ("join", "no@x.example", ANN),
            "there is no group no@x.example (asked the server x.example); "
            "`shadowtree group create no@x.example` creates it",
        ),
    ],
    ids=str,
)
def test_what_is_refused_or_fails_has_status_4_and_one_line(shadowtree, server, arguments, message):
    server.fill(A)
    found = shadowtree(*arguments)
    assert (found.status, found.out, found.err) == (4, "", f"shadowtree: {message}\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("resolve", "\udcff@x"), "invalid name '\\udcff@x': character 1 is no Unicode character"),
        (("resolve", "nobody"), "invalid name 'nobody': it must hold exactly one '@', not 0"),
        (("join", A, "a b@x_y"), "invalid name 'a b@x_y': the domain holds '_', U+005F"),
        (("group", "create", "@x.example"), "invalid name '@x.example': nothing stands before the '@'"),
    ],
    ids=str,
)
def test_an_invalid_name_is_wrong_usage(shadowtree, arguments, message):
    found = shadowtree(*arguments)
    assert (found.status, found.out) == (2, "")
    assert found.err.startswith(f"shadowtree: {message}")
    assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    "name", [name for name, command in commands() if any(option.name == "server" for option in command.params)]
)
def test_the_help_of_each_command_lists_the_options_that_all_have(name, shadowtree):
    told = shadowtree(*name, "--help").out
    assert all(option in told for option in ("--server", "--format", "--timeout", "--at-least-revision"))


def test_all_commands_that_ask_a_server_have_the_common_options():
    without = {name[0] for name, command in commands() if all(option.name != "server" for option in command.params)}
    assert without == {"audit", "audit-log", "certs", "completion", "demo", "mail", "repair", "serve", "simulate"}


@pytest.mark.parametrize(
    ("error", "command", "hint"),
    [
        (errors.OutcomeUnknown("m", {"request_id": "my id"}), "join", "repeat it with --request-id 'my id'"),
        (errors.ServerUnreachable("m"), "status", "--server HOST:PORT"),
        (errors.DeadlineExceeded("m"), "resolve", "--timeout SECONDS"),
        (errors.GroupInUse("m"), "delete", "--force"),
        (errors.WrongKind("m"), "join", "--group and --process"),
        (errors.Unavailable("m", {"unreachable": "y.example"}), "join", "--offline"),
        (errors.InvalidRequest("m", {"field": "kind"}), "join", "--group or --process"),
        (errors.BadFile.at("f", 3, "why"), "import", "--skip-bad"),
        (errors.BadFile("m", {"line": "3", "field": "domain"}), "import", "--domain DOMAIN"),
        (errors.GroupNotFound("m", {"group": "a b@x"}), "join", "`shadowtree group create 'a b@x'`"),
    ],
)
def test_an_error_names_the_option_that_helps_and_the_command_has_it(error, command, hint):
    assert what_helps(error, command).startswith(f"; {hint}")
    option = re.search(r"--[a-z-]+", hint)
    known = {flag for names, found in commands() if names[-1] == command for each in found.params for flag in each.opts}
    assert option is None or option[0] in known


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("graph.tsv.gz", b"no gzip data"),
        ("graph.tsv.gz", gzip.compress(b"a@x.example\tann@z\tmember\n")[:-6]),
        ("graph.tsv", "a@x.example\tann@z\tmember\n".encode("utf-16-le")),
        ("graph.tsv", b"\xff\xfe\x00\xd8\x0a\x00"),
    ],
    ids=["no gzip", "gzip that is cut off", "UTF-16 without a mark", "UTF-16 with half a character"],
)
def test_a_file_that_is_broken_as_a_whole_is_not_offered_to_skip_lines(shadowtree, tmp_path, name, data):
    file = tmp_path / name
    file.write_bytes(data)
    refused = shadowtree("import", file)
    assert (refused.status, refused.out, refused.err.count("\n")) == (4, "", 1)
    assert "gzip" in refused.err or "UTF-16" in refused.err
    assert "--skip-bad" not in refused.err


def test_all_missing_libraries_of_an_audit_are_named_in_one_sentence(monkeypatch):
    monkeypatch.setattr("shadowtree.cli.commands.audit.find_spec", lambda _: None)
    with pytest.raises(click.ClickException) as refused:
        audit._require(("pyarrow", "pyspark", "pandas"))
    way_out = "in the sources: pip install '.[audit]'"
    assert refused.value.message == f"pyarrow, pyspark and pandas are not installed; {way_out}"
    with pytest.raises(click.ClickException) as refused:
        audit._require(("pyarrow",))
    assert refused.value.message == f"pyarrow is not installed; {way_out}"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (counted(1, "group"), "1 group"),
        (counted(2000, "group"), "2000 groups"),
        (counted_for_people(1, "mailbox", "mailboxes"), "1 mailbox"),
        (counted_for_people(2000, "mailbox", "mailboxes"), "2,000 mailboxes"),
        (counted_in_audits(1, "process"), "1 process"),
        (counted_in_audits(0, "process"), "0 processes"),
    ],
)
def test_a_noun_fits_its_number(given, words):
    assert given == words


def test_what_is_not_known_to_help_is_not_said():
    assert what_helps(errors.GroupInUse("m"), "resolve") == ""
    assert what_helps(errors.BadFile.at("f", None, "why"), "import") == ""
    assert what_helps(errors.SelfArc("m"), "join") == ""


def test_an_id_of_ten_thousand_characters_is_refused_in_one_line(shadowtree):
    found = shadowtree("group", "create", "a" * 10_000 + "@x.example")
    assert found.status == 2
    assert len(found.err) < 300


def test_an_interrupt_has_the_status_of_shells(monkeypatch, capsys):
    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("shadowtree.cli.support.options.Session.connect", interrupt)
    assert status_of(["status"]) == 130


@pytest.mark.parametrize("becomes", ["KeyboardInterrupt", "RuntimeError"])
def test_an_interrupt_is_all_there_is_to_see_whatever_it_left_half_made(becomes):
    program = f"""
import signal, sys, threading
from shadowtree.cli import main
from shadowtree.cli.support import options

class HalfMade:
    def __init__(self):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt as interrupt:
            thread = threading.Thread(target=self.__del__)
            thread.start()
            thread.join()
            raise {becomes} from interrupt

    def __del__(self):
        self.never_set

options.Session.connect = lambda *_: HalfMade()
sys.argv[1:] = ["status"]
main.run()
"""
    found = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr.strip()) == (130, "", "")


def test_a_mistake_in_the_program_does_not_have_the_status_of_a_no():
    program = """
import sys
from shadowtree.cli import main
from shadowtree.cli.support import options
options.Session.connect = lambda *_: 1 / 0
sys.argv[1:] = ["check", "g@x.example", "ann@x.example"]
main.run()
"""
    found = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True)
    assert found.returncode == 4
    assert found.stderr.endswith("ZeroDivisionError: division by zero\n")


@pytest.mark.parametrize("again", ["signal.raise_signal(signal.SIGINT)", "signal.alarm(1)"])
def test_an_interrupt_that_is_held_up_ends_by_a_second_one_or_by_itself(again):
    program = f"""
import signal, sys, threading
from shadowtree.cli import main
from shadowtree.cli.support import options

def hold_up(*_):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        {again}
        threading.Lock().acquire()
        threading.Event().wait()

options.Session.connect = hold_up
sys.argv[1:] = ["status"]
main.run()
"""
    found = subprocess.run([sys.executable, "-c", program], check=False, capture_output=True, text=True, timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "")


def run_in_a_shell(command):
    """Run `shadowtree` with what a shell makes of its output; gives its status and standard error."""
    found = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}", "bash", sys.executable, "-m", "shadowtree"],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return found.returncode, found.stderr


@pytest.fixture(scope="module")
def full_server():
    """A server whose only group has very many members, for tests that change nothing."""
    with ServerInThread("x.example") as server:
        server.fill(arcs={(A, ANN): "process", **{(A, f"p-{number}@z"): "process" for number in range(10_000)}})
        yield server


@pytest.fixture
def many_members(full_server, monkeypatch):
    monkeypatch.setenv("SHADOWTREE_SERVER", full_server.address)


@pytest.mark.usefixtures("many_members")
@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [
        (f"check {A} no@z", ""),
        (f"check {A} no@z", "1"),
        (f"check {A} {ANN}", ""),
        ("--help", ""),
        (f"resolve {A}", ""),
        (f"resolve {A}", "1"),
    ],
)
def test_nobody_reading_is_no_error_message_and_no_answer(arguments, unbuffered, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    # The reader is gone before anything is written.
    assert run_in_a_shell(f'( sleep 0.2; "$@" {arguments} ) | exec true') == (141, "")


needs_a_full_device = pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")


@needs_a_full_device
@pytest.mark.usefixtures("many_members")
@pytest.mark.parametrize(
    ("arguments", "unbuffered"),
    [
        (f"check {A} no@z", ""),
        (f"check {A} no@z", "1"),
        (f"check {A} {ANN}", ""),
        (f"resolve {A}", ""),
        (f"resolve {A}", "1"),
        ("export -", ""),
        ("export -", "1"),
        ("status", ""),
        ("--help", ""),
        ("completion bash", ""),
    ],
)
def test_an_answer_that_cannot_be_written_is_a_failure_and_no_answer(arguments, unbuffered, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    why = "the answer cannot be written: No space left on device"
    assert run_in_a_shell(f'"$@" {arguments} > /dev/full') == (4, f"shadowtree: {why}\n")


@needs_a_full_device
def test_a_write_whose_answer_cannot_be_written_may_have_been_done(server):
    server.fill(A)
    why = "the answer cannot be written: No space left on device; the update may have been done"
    status, told = run_in_a_shell(f'"$@" join {A} {ANN} --format json > /dev/full')
    assert (status, json.loads(told)["error"]) == (3, {"reason": "OUTCOME_UNKNOWN", "message": why, "facts": {}})
    assert server.arcs == {(A, ANN): "process"}


def test_without_a_standard_output_nothing_is_begun(server):
    server.fill(A)
    why = "the answer cannot be written: standard output is closed"
    assert run_in_a_shell(f'"$@" join {A} {ANN} >&-') == (4, f"shadowtree: {why}\n")
    assert server.arcs == {}


@needs_a_full_device
@pytest.mark.parametrize(
    ("arguments", "status"), [("check no@x.example no@z", 4), (f"check {A} no@z", 1), ("check", 2), ("", 2)]
)
def test_the_status_tells_where_the_message_cannot_be_written(server, arguments, status):
    server.fill(A)
    assert run_in_a_shell(f'"$@" {arguments} 2> /dev/full') == (status, "")


def test_a_fault_of_another_file_is_not_taken_for_one_of_the_output(monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shadowtree.cli.support.options.Session.connect", fail)
    with pytest.raises(OSError, match="No space left"):
        status_of(["status"])


@pytest.mark.parametrize(("given", "expected"), [(None, "NONE"), ("DEBUG", "DEBUG")])
def test_the_lines_of_grpc_itself_are_for_those_who_ask_for_them(given, expected):
    program = (
        "import atexit, os, sys; sys.argv[1:] = ['--version']; from shadowtree.cli.main import run;"
        "atexit.register(lambda: print(os.environ['GRPC_VERBOSITY'], 'grpc' in sys.modules)); run()"
    )
    environment = {key: value for key, value in os.environ.items() if key != "GRPC_VERBOSITY"}
    if given is not None:
        environment["GRPC_VERBOSITY"] = given
    said = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    # Nothing has read the setting before it was made.
    assert said.stdout.splitlines()[-1] == f"{expected} False"


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        (("resolv", A), "shadowtree resolve"),
        (("members", A), "shadowtree resolve"),
        (("list",), "shadowtree group list"),
        (("group", "show", A), "shadowtree describe"),
        (("group", "members", A), "shadowtree resolve"),
        (("group", "lst"), "shadowtree group list"),
    ],
    ids=str,
)
def test_a_command_that_is_mistyped_or_called_otherwise_is_suggested(shadowtree, typed, meant):
    found = shadowtree(*typed)
    assert (found.status, found.out) == (2, "")
    assert f"Did you mean `{meant}`" in found.err


def test_that_the_time_is_up_is_a_timeout_of_python_too():
    assert issubclass(errors.DeadlineExceeded, TimeoutError)
    assert issubclass(errors.OutcomeUnknownAtDeadline, TimeoutError)
    assert str(errors.DeadlineExceeded("no answer", {"server": "x"})) == "no answer"
