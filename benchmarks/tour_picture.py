"""Draws the picture of the tour: chapters of a real `shadowtree demo`, as a terminal shows them.

`python -m benchmarks.tour_picture` (`make tour`) writes docs/tour.svg. Times and ports in it are those of the drawn
run. Chapters are numbered anew. No line is cut: a line that is too long raises RuntimeError.
"""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

from rich.console import Console
from rich.text import Text

PICTURE = Path(__file__).parents[1] / "docs/tour.svg"
COLUMNS = 88
"""Largest number of columns that is legible at the width of a README."""
CHAPTERS = (
    "Three name servers",
    "Who is in a group?",
    "Whoever is asked",
    "Close a loop, and break it again",
    "One message to all of them",
)
HEADING = re.compile(r"^\d+\. (.*)$")
WEB_FONT = re.compile(r"@font-face \{.*?\}\s*", re.S)


def main() -> None:
    """Run the tour, and draw its output."""
    draw(chapters_of(shown_by_the_tour()), PICTURE)


def shown_by_the_tour() -> list[Text]:
    """Return every line that the tour writes to a terminal, in its colours."""
    ours, theirs = pty.openpty()
    environment = os.environ | {"COLUMNS": str(COLUMNS), "LINES": "50", "TERM": "xterm-256color"}
    tour = subprocess.Popen(
        [sys.executable, "-m", "shadowtree", "demo"], stdin=subprocess.DEVNULL, stdout=theirs, env=environment
    )
    os.close(theirs)
    said = bytearray()
    while chunk := _read(ours):
        said += chunk
    if tour.wait() != 0:
        raise RuntimeError(f"the tour ended with status {tour.returncode}")
    return [Text.from_ansi(line.rstrip("\r")) for line in said.decode().split("\n")]


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:
        # Linux raises this error when the other end of a terminal is closed.
        return b""


def chapters_of(lines: list[Text]) -> list[Text]:
    """Return the lines of the drawn chapters, numbered from 1. Each chapter begins with its heading."""
    drawn: list[Text] = []
    is_drawn = False
    number = 0
    for line in lines:
        heading = HEADING.match(line.plain)
        if heading is not None:
            is_drawn = heading[1] in CHAPTERS
            number += is_drawn
        if is_drawn:
            drawn.append(
                line if heading is None else Text(f"{number}. {heading[1]}", line.spans[0].style if line.spans else "")
            )
    return drawn


def draw(lines: list[Text], picture: Path) -> None:
    """Write the picture. It needs no other file, not even fonts."""
    console = Console(width=COLUMNS, record=True, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    for line in lines:
        if len(line) > COLUMNS:
            raise RuntimeError(f"there is no room for {line.plain!r}")
        console.print(line, soft_wrap=False, overflow="crop", no_wrap=True)
    picture.write_text(WEB_FONT.sub("", console.export_svg(title="make run", unique_id="tour")))


if __name__ == "__main__":
    main()
