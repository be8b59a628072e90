"""Notice for a person at a terminal that the server cannot be reached and is retried."""

from __future__ import annotations

import time
from typing import Final

import click

from shadowtree.cli.support.standard_streams import is_watched

TOLD_AFTER_S: Final = 1.0
"""Delay of the notice. A server that was just started mostly takes less."""


class WaitNotice:
    """Callback of the client's retries. Prints the reason once, on standard error."""

    def __init__(self) -> None:
        self._begun = time.monotonic()
        self._is_told = False

    def __call__(self, error: Exception) -> None:
        """Take note of a failure, whose text is one line, before the next attempt."""
        if self._is_told or time.monotonic() < self._begun + TOLD_AFTER_S or not is_watched():
            return
        self._is_told = True
        click.echo(f"shadowtree: {error}; trying again ...", err=True)
