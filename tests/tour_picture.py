"""Draws docs/tour.svg, some chapters of the tour: `python -m tests.tour_picture`, which takes as long as `make run`.

The chapters are numbered anew. No line is cut: RuntimeError names one that has no room.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parents[1] / "docs/tour.svg"
TITLES = (
    "Three name servers",
    "Who is in a group?",
    "Whoever is asked",
    "Close a loop, and break it again",
    "One message",
)
"""The chapters that are shown, by how their titles begin."""
COLUMNS = 88
"""As many as are legible at the width of a README."""
HEADING = re.compile(r"\d+\. (.+)")


def tour_at(columns: int) -> str:
    """What `shadowtree demo` prints at a terminal of that width, without colours."""
    program = [str(Path(sys.executable).parent / "shadowtree"), "demo"]
    environment = os.environ | {"COLUMNS": str(columns)}
    return subprocess.run(program, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout


def chapters_of(said: str) -> list[list[str]]:
    """The chapters that are shown, numbered from 1; each begins with its heading."""
    found: list[list[str]] = []
    for line in said.splitlines():
        if HEADING.fullmatch(line):
            found.append([])
        if found:
            found[-1].append(line)
    shown = [chapter for chapter in found if chapter[0].partition(". ")[2].startswith(TITLES)]
    assert len(shown) == len(TITLES), [chapter[0] for chapter in found]
    for number, (heading, rule, *_) in enumerate(shown, 1):
        title = f"{number}. {heading.partition('. ')[2]}"
        shown[number - 1][:2] = [title, rule[0] * len(title)]
    return shown


def styled(chapter: list[str]) -> list[Text]:
    """The lines of a chapter as a terminal shows them."""
    heading, rule, *lines = chapter
    shown = [Text(heading, "bold cyan"), Text(rule, "cyan")]
    style = ""
    for line in lines:
        if line.startswith("  $ "):
            style = "yellow"
        elif line.startswith("    "):
            # A command that goes on is yellow to its end.
            style = "yellow" if style == "yellow" and shown[-1].plain.endswith("\\") else "green"
        else:
            style = ""
        shown.append(Text(line, style))
    return shown


def draw(chapters: list[list[str]]) -> str:
    """The picture as SVG."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, legacy_windows=False)
    for chapter in chapters:
        for line in styled(chapter):
            if len(line) > COLUMNS:
                raise RuntimeError(f"there is no room for {line.plain!r}")
            console.print(line, no_wrap=True)
    # The picture loads nothing from elsewhere: a monospaced font of the reader will do.
    return re.sub(r"@font-face \{.*?\}\s*", "", console.export_svg(title="make run", unique_id="tour"), flags=re.S)


if __name__ == "__main__":
    PICTURE.write_text(draw(chapters_of(tour_at(COLUMNS))), encoding="utf-8")
