"""Forgotten tombstones: two numbers for each server to which the arcs led.

Both homes of an arc forget it in agreement (`ForgetLeft`), when all servers are in one healed view. An arc with
both ends here leads to this server itself. Arcs that lead to an overdue server (`Absences`) are forgotten by this
server alone. The overdue server then counts as one that has gone back.

An update that later joins a forgotten arc gives it a version above all that were forgotten. The new version wins
over the state of the arc in an older copy of a database. If a server went back to such a copy, an arc that it
reports was left if two things hold: it is as old as the forgotten arcs, and it is unknown here.

Source: docs/protocol-updates.md, "Forgetting".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from namegraph.model.names import ServerId
from namegraph.state.durable_maps import SERVERS, DurableMap, DurableState, packed
from namegraph.wire.message_parts import LeftArc

FORGOTTEN = "forgotten arcs"
"""Rows: the numbers for the arcs shared with another server, by server."""


class _Forgotten(NamedTuple):
    """Upper bounds of the versions and writers of all forgotten arcs."""

    version: int = 0
    writer: int = 0
    has_gone_back: bool = False
    """True if the other server has gone back to an older copy, or counts as such, and has not healed since."""


class ForgottenArcs:
    """The forgotten tombstones of arcs between this server and others."""

    def __init__(self, durable: DurableState) -> None:
        self._of = DurableMap(durable, FORGOTTEN, SERVERS, packed(_Forgotten))

    def __bool__(self) -> bool:
        """Return True if any tombstone was forgotten."""
        return bool(self._of)

    def note(self, server: ServerId, arcs: Iterable[LeftArc], *, floor: int) -> None:
        """Note that arcs shared with a server, or arcs of this server alone, are forgotten.

        `floor`: the highest version that the other server has forgotten.
        """
        known = self._of.get(server, _Forgotten())
        arcs = list(arcs)
        version = max([known.version, floor, *(left.version for left in arcs)])
        self._of[server] = _Forgotten(version, max([known.writer, *(left.writer for left in arcs)]))

    def floor(self, server: ServerId) -> int:
        """Return the highest forgotten version of an arc shared with a server. 0 if none was forgotten."""
        return self._of[server].version if server in self._of else 0

    def gone_back(self, server: ServerId) -> None:
        """Record that a server goes on from an older copy of its database."""
        if server in self._of:
            self._of[server] = self._of[server]._replace(has_gone_back=True)

    def went_back(self, counter: int) -> None:
        """Record that this server goes on from an older copy, which knew of no update above `counter`.

        Leaves that were forgotten since then only tell which arcs of the copy were left. State that the copy lost
        is newer.
        """
        for server, known in list(self._of.items()):
            self._of[server] = known._replace(writer=min(known.writer, counter))

    def healed(self, server: ServerId) -> None:
        """Record that a server and this one know the same of every arc, except for rejected arcs."""
        if server in self._of and self._of[server].has_gone_back:
            self._of[server] = self._of[server]._replace(has_gone_back=False)

    def note_overdue(self, server: ServerId, *, writer: int) -> None:
        """Note that a tombstone is forgotten without asking a server that is overdue.

        When that server is back, it counts as one on an older copy, for arcs that are older than `writer` and
        unknown here.
        """
        known = self._of.get(server, _Forgotten())
        self._of[server] = known._replace(writer=max(known.writer, writer), has_gone_back=True)

    def is_as_old(self, server: ServerId, writer: int) -> bool:
        """Return True if an arc that an update of this counter wrote may be among the forgotten arcs."""
        return server in self._of and writer <= self._of[server].writer

    def was_left(self, server: ServerId, writer: int) -> bool:
        """Return True if an arc that only `server` knows, written at counter `writer`, was left in the state that
        `server` lost."""
        return self.is_as_old(server, writer) and self._of[server].has_gone_back
