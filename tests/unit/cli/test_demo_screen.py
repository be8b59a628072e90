"""The screen of the demo: commands that are longer than a line, and what its drawings consist of."""

from __future__ import annotations

import shlex

import pytest

from shadowtree.cli.demo.loops import ARROWS, is_faded
from shadowtree.cli.demo.screen import Screen

LONG = "shadowtree check forensics-extra@team-pkg-security.tracker.debian.org forensics-extra@team.debian.org --explain"
QUOTED = "echo 'Frozen  from Friday on.' | shadowtree send forensics-full@team-pkg-security.debian.org --wait settled"


def shown(line: str, columns: int, monkeypatch, capsys) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    Screen().literal(line)
    return capsys.readouterr().out.splitlines()


@pytest.mark.parametrize("line", [LONG, QUOTED])
@pytest.mark.parametrize("columns", [72, 80, 99])
def test_a_long_command_goes_on_in_the_next_line_as_a_shell_reads_it(line, columns, monkeypatch, capsys):
    lines = shown(line, columns, monkeypatch, capsys)
    assert len(lines) > 1
    assert max(map(len, lines)) <= columns
    assert shlex.split("\n".join(lines).removeprefix("  $ ").replace("\\\n", " ")) == shlex.split(line)


def test_a_command_that_has_room_is_one_line(monkeypatch, capsys):
    assert shown("shadowtree status", 80, monkeypatch, capsys) == ["  $ shadowtree status"]


def test_an_option_stays_with_its_value(monkeypatch, capsys):
    command = "shadowtree serve --subnet one.example --peer two.example=127.0.0.1:7401"
    lines = shown(command, 48, monkeypatch, capsys)
    assert lines[-1].strip() == "--peer two.example=127.0.0.1:7401"


def test_a_faded_arc_is_told_from_a_line_of_the_tree():
    assert is_faded("faded: a -> b")
    assert not any(is_faded(f"   {arrow} a") for arrow in ARROWS)
