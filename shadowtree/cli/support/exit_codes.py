"""The exit statuses of every command."""

from __future__ import annotations

from typing import Final

DONE: Final = 0
"""Done, or the answer is yes."""

NO: Final = 1
"""The answer is no."""

WRONG_USAGE: Final = 2

UNCERTAIN: Final = 3
"""The answer is incomplete, or it is unknown whether a write was done."""

FAILED: Final = 4
"""Refused or failed; a write was not done."""

INTERRUPTED: Final = 130
"""Ended by Ctrl-C: 128 plus SIGINT, as in shells."""

BROKEN_PIPE: Final = 141
"""The reader of the output has gone: 128 plus SIGPIPE, as in shells."""
