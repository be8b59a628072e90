"""Output of the demo: headings, explanations, commands, answers; in colour at a terminal, plain in a pipe."""

from __future__ import annotations

import re
import shutil
import textwrap
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import click

LISTED: Final = 5
"""Number of names that are shown of a long list."""

WIDEST: Final = 100

WORD: Final = re.compile(r"--\S+ (?!-)\S+|(?:'[^']*'|\S)+")
"""A word of a command, as a shell reads it, or an option with its value."""

PROMPT: Final = "  $ "
GOES_ON: Final = " \\"
"""Mark at the end of a line that continues on the next one."""


class Screen:
    """Printer of the tour. `click` omits the colours if standard output is no terminal."""

    def __init__(self) -> None:
        self._width = min(shutil.get_terminal_size((WIDEST, 24)).columns, WIDEST)
        self._chapter = 0

    def heading(self, title: str) -> None:
        """Begin a chapter."""
        self._chapter += 1
        text = f"{self._chapter}. {title}"
        click.echo("")
        click.secho(text, bold=True, fg="cyan")
        click.secho("-" * len(text), fg="cyan")

    def say(self, text: str) -> None:
        """Print an explanation."""
        click.echo(textwrap.fill(text, self._width, break_long_words=False, break_on_hyphens=False))

    def command(self, arguments: str) -> None:
        """Show the command that does the same."""
        self.literal(f"shadowtree {arguments}")

    def literal(self, line: str) -> None:
        """Show a line for the shell; a line that is too long is folded with backslashes."""
        parts = _folded(line, self._width - len(PROMPT), GOES_ON)
        for number, part in enumerate(parts):
            click.secho(f"{PROMPT if number == 0 else ' ' * len(PROMPT)}{part}", fg="yellow")

    def answer(self, *lines: str) -> None:
        """Show an answer."""
        for line in lines:
            click.secho(f"    {line}", fg="green")

    def some(self, names: Sequence[str]) -> None:
        """Show the first names of a list."""
        self.answer(*names[:LISTED])
        if len(names) > LISTED:
            self.answer(f"... and {len(names) - LISTED:,} more")

    @contextmanager
    def timed(self) -> Iterator[Stopwatch]:
        """Measure the time of the enclosed block."""
        watch = Stopwatch()
        try:
            yield watch
        finally:
            watch.stop()


def _folded(line: str, width: int, goes_on: str) -> list[str]:
    """Return the lines of one command, none longer than `width` if its words are shorter."""
    lines: list[str] = []
    words = WORD.findall(line)
    current = words[0]
    for number, word in enumerate(words[1:], 2):
        room = width if number == len(words) else width - len(goes_on)
        if len(current) + 1 + len(word) <= room:
            current += f" {word}"
        else:
            lines.append(current + goes_on)
            current = f"    {word}"
    return [*lines, current]


class Stopwatch:
    """Duration of a block."""

    def __init__(self) -> None:
        self._begun = time.perf_counter()
        self._seconds = 0.0

    def stop(self) -> None:
        """Note the time."""
        self._seconds = time.perf_counter() - self._begun

    def __str__(self) -> str:
        if self._seconds >= 1:
            return f"{self._seconds:.1f} s"
        return f"{self._seconds * 1000:.{0 if self._seconds >= 0.01 else 1}f} ms"
