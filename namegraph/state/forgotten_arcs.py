"""What is kept of arcs that were left and forgotten: two numbers for each server to which they led.

Both homes of an arc forget it in agreement (`ForgetLeft`), when all servers are in one healed view; an arc of which
both ends live here leads to this server itself. What leads to a server that is overdue (`Absences`), this one forgets
alone, and takes that server for one that has gone back. From then on an
arc that an update joins anew has a version above all that were forgotten, so that it wins over whatever an older copy
of a database still has of it. And what a server that went back to such a copy says of arcs as old as those, while
nothing is known of them here, was left.

Source: protocol.md, *Forgetting*.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from namegraph.model.names import ServerId
from namegraph.state.durable_maps import SERVERS, DurableMap, DurableState, packed
from namegraph.wire.message_parts import LeftArc

FORGOTTEN = "forgotten arcs"
"""Rows: what is kept of the arcs shared with another server, by that."""


class _Forgotten(NamedTuple):
    """Above all that was forgotten, or equal to it."""

    version: int = 0
    writer: int = 0
    has_gone_back: bool = False
    """Whether the other server has gone back to an older copy, or counts as such, and has not healed since."""


class ForgottenArcs:
    """The arcs between this server and others that were left and forgotten."""

    def __init__(self, durable: DurableState) -> None:
        self._of = DurableMap(durable, FORGOTTEN, SERVERS, packed(_Forgotten))

    def __bool__(self) -> bool:
        """Whether any was forgotten."""
        return bool(self._of)

    def note(self, server: ServerId, arcs: Iterable[LeftArc], *, floor: int) -> None:
        """Arcs shared with a server, or with none but this one, are forgotten.

        `floor`: the highest version that the other one has forgotten.
        """
        known = self._of.get(server, _Forgotten())
        arcs = list(arcs)
        version = max([known.version, floor, *(left.version for left in arcs)])
        self._of[server] = _Forgotten(version, max([known.writer, *(left.writer for left in arcs)]))

    def floor(self, server: ServerId) -> int:
        """The highest version of an arc shared with a server that was forgotten; 0 where none was."""
        return self._of[server].version if server in self._of else 0

    def gone_back(self, server: ServerId) -> None:
        """A server goes on from an older copy of its database."""
        if server in self._of:
            self._of[server] = self._of[server]._replace(has_gone_back=True)

    def went_back(self, counter: int) -> None:
        """This server goes on from an older copy, which knew of no update above a counter.

        What was forgotten since tells what was left of the arcs that the copy knew. What the copy lost is newer.
        """
        for server, known in list(self._of.items()):
            self._of[server] = known._replace(writer=min(known.writer, counter))

    def healed(self, server: ServerId) -> None:
        """A server knows of every arc what is known here, but of those that are rejected."""
        if server in self._of and self._of[server].has_gone_back:
            self._of[server] = self._of[server]._replace(has_gone_back=False)

    def note_overdue(self, server: ServerId, *, writer: int) -> None:
        """Something is forgotten that matters to a server which is away for too long, and is not asked.

        When it is there again, it speaks as from an older copy: of what is older than this counter, and unknown here.
        """
        known = self._of.get(server, _Forgotten())
        self._of[server] = known._replace(writer=max(known.writer, writer), has_gone_back=True)

    def is_as_old(self, server: ServerId, writer: int) -> bool:
        """Whether an arc that was written by an update of this counter may be one of those that were forgotten."""
        return server in self._of and writer <= self._of[server].writer

    def was_left(self, server: ServerId, writer: int) -> bool:
        """Whether an arc that only a server knows, which wrote it then, was left in what it has lost."""
        return self.is_as_old(server, writer) and self._of[server].has_gone_back
