"""Priorities order updates. Their counters name versions, virtual nodes and revisions."""

from __future__ import annotations

from typing import NamedTuple

from namegraph.model.names import ServerId

NUMBER_LIMIT = 2**62
"""Upper bound of counters, versions and other numbers. No correct server reaches it: it would take millions of leaps
of incarnations.

Stores and messages hold numbers nearly twice as large, so counting can go on from this bound.
"""


class Priority(NamedTuple):
    """A point in the order of updates: compared by counter, then by the server that chose it."""

    counter: int
    server: ServerId


class Revision(NamedTuple):
    """Name of an update for clients: its counter in the order of all updates, its coordinator, and the highest
    voter."""

    counter: int
    server: ServerId
    voter: ServerId

    @property
    def final(self) -> Priority:
        """Final priority of the update."""
        return Priority(self.counter, self.voter)

    def as_text(self) -> str:
        """Return the text that clients hold and treat as opaque."""
        voter = "" if self.voter == self.server else f"/{self.voter}"
        return f"{self.counter}@{self.server}{voter}"


def revision_of(final: Priority, *, coordinator: ServerId) -> str:
    """Return, as text, the revision of the update that has this final priority."""
    return Revision(final.counter, coordinator, final.server).as_text()


REVISION_LENGTH_LIMIT = 600
_COUNTER_DIGITS_LIMIT = 19


def parse_revision(text: str) -> Revision:
    """Read the output of `Revision.as_text`, or raise `ValueError`."""
    digits, at_sign, servers = text[:REVISION_LENGTH_LIMIT].partition("@")
    server, slash, voter = servers.partition("/")
    is_number = digits.isascii() and digits.isdigit() and len(digits) <= _COUNTER_DIGITS_LIMIT
    if not (at_sign and server and is_number) or (slash and not voter):
        raise ValueError(f"{text[:40]!r} is no revision; give one back as a write or a read returned it")
    return Revision(int(digits), ServerId(server), ServerId(voter or server))
