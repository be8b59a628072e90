"""Private files: files that a command creates belong to its user alone, unless `--mode` opens them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

import click

PRIVATE: Final = 0o600

_Command = TypeVar("_Command", bound=Callable[..., Any])


class _Mode(click.ParamType[int]):
    name = "mode"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read three octal digits."""
        if isinstance(value, int):
            return value
        if len(value) == 3 and value.isascii() and all(digit in "01234567" for digit in value) and value[0] in "67":
            return int(value, 8)
        raise click.BadParameter(f"{value!r} is no mode that its owner can read and write, such as 640", ctx, param)


def mode_option(command: _Command) -> _Command:
    """Add `--mode`."""
    option = click.option(
        "--mode",
        type=_Mode(),
        default="600",
        metavar="MODE",
        help="Who may read what is written, in octal: 640 is the group too. [default: 600]",
    )
    return option(command)


@contextmanager
def private_files(mode: int = PRIVATE) -> Iterator[None]:
    """Give this mode to files created in the context. Folders may be entered by those who may read the files."""
    before = os.umask(0o777 & ~(mode | (mode >> 2 & 0o111)))
    try:
        yield
    finally:
        os.umask(before)
