"""The picture of the tour shows what the tour says, and needs nothing from elsewhere."""

import html
import re
import xml.etree.ElementTree as ElementTree

import pytest
from rich.text import Text

from benchmarks.tour_picture import CHAPTERS, COLUMNS, PICTURE, chapters_of, draw

SVG = "{http://www.w3.org/2000/svg}"


def words_of(picture):
    """Return the text in the picture, one line for each height that has text."""
    lines = {}
    for text in ElementTree.parse(picture).iter(f"{SVG}text"):
        lines.setdefault(text.get("y"), []).append(html.unescape("".join(text.itertext())))
    return ["".join(parts).replace("\u00a0", " ").strip() for parts in lines.values()]


def test_the_picture_has_the_chapters_that_are_to_be_drawn():
    headings = [line.partition(". ")[2] for line in words_of(PICTURE) if re.match(r"\d+\. ", line)]
    assert headings == list(CHAPTERS)


def test_the_picture_numbers_its_chapters_in_sequence_and_cuts_no_command():
    lines = words_of(PICTURE)
    numbers = [line.partition(". ")[0] for line in lines if re.match(r"\d+\. ", line)]
    assert numbers == [str(1 + number) for number in range(len(CHAPTERS))]
    assert max(map(len, lines)) <= COLUMNS
    assert sum(line.endswith(".db") for line in lines) == 3
    assert sum(line.endswith("--explain") for line in lines) == 2


def test_a_line_without_room_is_an_error(tmp_path):
    with pytest.raises(RuntimeError, match="there is no room for 'xxx"):
        draw([Text("x" * (COLUMNS + 1))], tmp_path / "picture.svg")


def test_the_picture_loads_nothing():
    assert not re.findall(r"@font-face|@import|href=|url\((?!#)", PICTURE.read_text())


def test_chapters_are_drawn_whole_and_others_left_out(tmp_path):
    said = ["Welcome", f"1. {CHAPTERS[0]}", "one", "2. Something else", "two", f"3. {CHAPTERS[1]}", "  three"]
    draw(chapters_of([Text(line) for line in said]), tmp_path / "picture.svg")
    assert [line for line in words_of(tmp_path / "picture.svg") if line and line != "make run"] == [
        f"1. {CHAPTERS[0]}",
        "one",
        f"2. {CHAPTERS[1]}",
        "three",
    ]
