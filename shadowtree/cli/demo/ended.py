"""The end of a demo, also by a signal: no process keeps running."""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click


def how_to_find_the_command() -> str:
    """Return the hint to activate the environment, if the shell would not find `shadowtree`; else an empty text.

    The command is not found, for example, after `make run` in a fresh clone.
    """
    activate = Path(sys.executable).with_name("activate")
    if shutil.which("shadowtree") is not None or not activate.is_file():
        return ""
    return f" (first `. {os.path.relpath(activate)}`, so that the shell finds the command)"


class _Ended(BaseException):
    """A signal came.

    Not a `KeyboardInterrupt`, which makes CPython end by SIGINT when it is raised while text is executed.
    """


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Let Ctrl-C, SIGTERM and SIGHUP end the demo alike, so that the servers do not outlive it."""

    def end(*_: object) -> None:
        raise _Ended

    signals = [signal.SIGINT, signal.SIGTERM] + ([signal.SIGHUP] if os.name == "posix" else [])
    before = {number: signal.signal(number, end) for number in signals}
    try:
        yield
    except _Ended as ended:
        raise click.Abort from ended
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        sys.stdout.flush()
