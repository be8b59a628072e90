"""No command prints an answer of a server that acts on a terminal or forges a line."""

import pytest

from namegraph.model.refusals import Reason
from shadowtree.cli.main import status_of
from tests.fakes.hostile_server import FORGED, serve_hostile

G, M = "g@a.example", "m@a.example"
COMMANDS = [
    ("group", "create", G),
    ("group", "delete", G),
    ("group", "list"),
    ("join", G, M),
    ("leave", G, M),
    ("resolve", G),
    ("resolve", G, "--groups"),
    ("resolve", G, "--tree"),
    ("resolve", G, "--walk"),
    ("check", G, M, "--explain"),
    ("memberships", M),
    ("describe", G),
    ("changes",),
    ("watch", G),
    ("peers",),
    ("peers", "add", "b.example=127.0.0.1:1"),
    ("peers", "remove", "b.example", "--force"),
    ("status",),
    ("top", "--once"),
    ("export", "-"),
    ("export", "graph.tsv"),
    ("export", "graph.tsv", "--partial"),
    ("import", "empty.tsv"),
    ("apply", "changes.tsv"),
    ("validate", "steps.yaml"),
    ("audit", "snapshot", "--out", "snapshots"),
    ("drain",),
]
SETTINGS = [
    {},
    {"left_out": frozenset({"parents", "children", "kinds"})},
    {"reason": Reason.UNAVAILABLE},
    {"reason": Reason.GROUP_IN_USE},
]


@pytest.fixture(params=SETTINGS, ids=["all", "nobody", "unavailable", "in use"], scope="module")
def hostile(request):
    with serve_hostile(**request.param) as address:
        yield address


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.tsv").touch()
    (tmp_path / "changes.tsv").write_text(f"+\t{G}\t{M}\n")
    (tmp_path / "steps.yaml").write_text(f"steps:\n  - {{op: expect_check, group: {G}, member: {M}, want: false}}\n")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("watching", [False, True], ids=["pipe", "terminal"])
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_nothing_printed_acts_on_a_terminal_or_forges_a_line(hostile, command, watching, capsys, monkeypatch):
    if watching:
        for place in ("sys.stdout.isatty", "sys.stderr.isatty"):
            monkeypatch.setattr(place, lambda: True)
    status = status_of([*command, "--server", hostile, "--timeout", "20"])
    told = "".join(capsys.readouterr())
    assert status in (0, 1, 3, 4)
    assert FORGED not in map(str.strip, told.splitlines())
    # What rich writes to a terminal are colours, which end with an m, and the cursor.
    assert not any(text in told for text in ("\x1b]", "\x07", "\x1b[2J", "\u202e")), told
    if not watching:
        assert "\x1b" not in told
