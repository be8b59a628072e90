"""Limits of one answer of a server in this process, because a faulty server could send without end."""

from __future__ import annotations

from typing import Any, Final

from shadowtree.errors import ServerFault

NAMES_LIMIT: Final = 5_000_000
"""Maximum number of names and other list items in one answer. One import or resolution of a server has no more."""
ANSWER_BYTES_LIMIT: Final = 512 * 1024 * 1024
"""Maximum size of the messages of one answer: 5,000,000 names of 100 characters."""


class AnswerSize:
    """Size of an answer that comes in several messages."""

    def __init__(self) -> None:
        self._names = 0
        self._bytes = 0

    def add(self, message: Any, names: int) -> None:
        """Count a message with some names. Raises `ServerFault` if the answer exceeds a limit."""
        self._names += names
        self._bytes += message.ByteSize()
        if self._names > NAMES_LIMIT:
            raise ServerFault(f"the server sent more than {NAMES_LIMIT:,} names in one answer")
        if self._bytes > ANSWER_BYTES_LIMIT:
            raise ServerFault(f"the server sent more than {ANSWER_BYTES_LIMIT // 1024**2} MiB in one answer")
