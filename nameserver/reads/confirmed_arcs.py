"""Confirmation of arcs by the homes of their parents, for answers that rest on the word of other organisations.

    pathname of a "yes" --arcs whose parents' homes are not believed--> ConfirmArcs, all homes at once
                                                                          '--there--> remembered for some seconds
                                                                          '--not there, or silent--> no proof

A home owns its groups, and so alone says which arcs begin there. Any other server knows such an arc by hearsay.

Source: docs/protocol-updates.md, "Answers of other organisations".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from namegraph import ArcId, NodeId, ServerId
from nameserver.calls.read_your_writes import PEER_SERVICE
from nameserver.routing.fan_out import ask_part
from nameserver.routing.forwarding import Forwarder
from shadowtree.v1 import peer_pb2 as messages

METHOD = f"/{PEER_SERVICE}/ConfirmArcs"

NOT_THERE, THERE, NOT_OWNED = 0, 1, 2
"""Answers to an arc, as ConfirmArcsResponse numbers them."""

CONFIRMED_ARCS_LIMIT = 100_000
"""Most arcs of one request, and most arcs that are remembered: some 20 MB."""

REMEMBERED_SECONDS = 5.0
"""Time for which a confirmed arc counts as there. A later answer asks its home again."""


class _Confirmed(NamedTuple):
    until: float
    revision: str


@dataclass(slots=True)
class Proof:
    """Result of a confirmation."""

    denied: dict[ServerId, list[ArcId]] = field(default_factory=dict)
    """Arcs that are not there, by the home that says so."""
    silent: set[ServerId] = field(default_factory=set)
    """Homes without an answer."""
    revisions: list[str] = field(default_factory=list)


class ConfirmedArcs:
    """Arcs that their homes have confirmed. The clock counts seconds."""

    def __init__(
        self,
        *,
        server: ServerId,
        forwarder: Forwarder,
        home_of: Callable[[NodeId], ServerId | None],
        is_there: Callable[[ArcId], bool],
        clock: Callable[[], float],
    ) -> None:
        """`home_of`: returns the home of a group. `is_there`: returns True if this server, the home of an arc's parent,
        has the arc.
        """
        self._server = server
        self._forwarder = forwarder
        self._home_of = home_of
        self._is_there = is_there
        self._clock = clock
        self._confirmed: dict[ArcId, _Confirmed] = {}
        """Arcs that are there, the arc that was confirmed first at the front."""

    async def prove(
        self, arcs: Iterable[ArcId], *, believed: Callable[[ServerId], bool], seconds: float, at_least_revision: str
    ) -> Proof:
        """Have the homes confirm arcs. `believed`: returns True for a home whose arcs need no confirmation."""
        proof, asked = Proof(), dict[ServerId, list[ArcId]]()
        now = self._clock()
        for arc in dict.fromkeys(arcs):
            home = self._home_of(arc.parent)
            if home == self._server:
                if not self._is_there(arc):
                    proof.denied.setdefault(home, []).append(arc)
                continue
            if home is None:
                proof.denied.setdefault(self._server, []).append(arc)
                continue
            if believed(home):
                continue
            known = None if at_least_revision else self._confirmed.get(arc)
            if known is not None and known.until > now:
                proof.revisions.append(known.revision)
            else:
                asked.setdefault(home, []).append(arc)
        found = await asyncio.gather(
            *(self._ask(home, arcs, seconds, at_least_revision) for home, arcs in asked.items())
        )
        for home, answers in zip(asked, found, strict=True):
            self._take(proof, home, answers)
        return proof

    async def _ask(
        self, home: ServerId, arcs: list[ArcId], seconds: float, at_least_revision: str
    ) -> tuple[Mapping[ArcId, int], str] | None:
        """Return the answers of one home, with its revision. None if it does not answer."""
        found, revision = dict[ArcId, int](), ""
        for begin in range(0, len(arcs), CONFIRMED_ARCS_LIMIT):
            some = arcs[begin : begin + CONFIRMED_ARCS_LIMIT]
            request = messages.ConfirmArcsRequest(
                parents=[arc.parent for arc in some],
                children=[arc.child for arc in some],
                at_least_revision=at_least_revision,
            )
            answer = await ask_part(
                self._forwarder, home, METHOD, request, messages.ConfirmArcsResponse, seconds=seconds
            )
            if answer is None or len(answer.answers) != len(some):
                return None
            found.update(zip(some, answer.answers, strict=True))
            revision = answer.revision
        return found, revision

    def _take(self, proof: Proof, home: ServerId, told: tuple[Mapping[ArcId, int], str] | None) -> None:
        if told is None:
            proof.silent.add(home)
            return
        answers, revision = told
        proof.revisions.append(revision)
        until = self._clock() + REMEMBERED_SECONDS
        for arc, answer in answers.items():
            self._confirmed.pop(arc, None)
            if answer == THERE:
                self._confirmed[arc] = _Confirmed(until, revision)
            else:
                proof.denied.setdefault(home, []).append(arc)
        while len(self._confirmed) > CONFIRMED_ARCS_LIMIT:
            del self._confirmed[next(iter(self._confirmed))]
