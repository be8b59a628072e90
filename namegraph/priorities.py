"""Priorities order updates; their counters name versions, virtual nodes and revisions."""

from __future__ import annotations

from typing import NamedTuple

from namegraph.names import ServerId


class Priority(NamedTuple):
    """A point in the order of updates: compared by counter, then by the server that chose it."""

    counter: int
    server: ServerId

    def as_revision(self) -> str:
        """The text that names the update of this final priority to clients, who treat it as opaque."""
        return f"{self.counter}@{self.server}"


REVISION_LENGTH_LIMIT = 300
_COUNTER_DIGITS_LIMIT = 19


def parse_revision(text: str) -> Priority:
    """Read what `Priority.as_revision` wrote, or raise `ValueError`."""
    digits, at_sign, server = text[:REVISION_LENGTH_LIMIT].partition("@")
    if not (at_sign and server and digits.isascii() and digits.isdigit() and len(digits) <= _COUNTER_DIGITS_LIMIT):
        raise ValueError(f"{text[:40]!r} is no revision; give one back as a write or a read returned it")
    return Priority(int(digits), ServerId(server))
