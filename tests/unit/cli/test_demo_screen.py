"""The screen of the demo: commands that are longer than a line, and the picture that is drawn of it."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from shadowtree.cli.demo.loops import ARROWS, is_faded
from shadowtree.cli.demo.screen import Screen
from tests.tour_picture import COLUMNS, TITLES, chapters_of, draw

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


def test_the_picture_of_the_tour_numbers_its_chapters_in_sequence_and_cuts_no_line():
    picture = (Path(__file__).parents[3] / "docs/tour.svg").read_text(encoding="utf-8").replace("&#160;", " ")
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", picture)
    headings = [text for text in texts if re.match(r"\d+\. ", text)]
    assert [heading.partition(".")[0] for heading in headings] == [str(1 + n) for n in range(len(TITLES))]
    assert max(map(len, texts)) <= COLUMNS
    # Commands are whole: each ends where it ends, or goes on.
    assert sum("--explain" in text for text in texts) == 2
    assert sum(text.rstrip().endswith(".db") for text in texts) == 3


def test_a_line_without_room_in_the_picture_is_an_error():
    said = "".join(f"{number}. {title}\n---\n{'x' * (COLUMNS + 1)}\n" for number, title in enumerate(TITLES, 3))
    with pytest.raises(RuntimeError, match="there is no room for 'xxx"):
        draw(chapters_of(said))


def test_a_faded_arc_is_told_from_a_line_of_the_tree():
    assert is_faded("faded: a -> b")
    assert not any(is_faded(f"   {arrow} a") for arrow in ARROWS)
