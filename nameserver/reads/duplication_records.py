"""DescribeGroup's duplication-control records: the home of a node computes the blocked originators of each arc into it.

    the group's home --DescribeArcs: its arcs into b's nodes--> b
                     <--of each arc, the minimal blocked nodes--

All servers concerned are asked in parallel, each for at most a thousand arcs at a time. Their answers are not trusted:
the resolver only takes nodes that it knows to be above the arc's parent.

Source: docs/protocol-updates.md, "Every duplicate is blocked in advance".
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from namegraph import ArcId, CoreQueries, NodeId, ServerId
from nameserver.calls.read_your_writes import PEER_SERVICE
from nameserver.routing.fan_out import ask_part
from nameserver.routing.forwarding import Forwarder
from resolver.membership import MembershipResolver
from shadowtree.v1 import peer_pb2 as messages

METHOD = f"/{PEER_SERVICE}/DescribeArcs"

DESCRIBED_ARCS_LIMIT = 1_000
"""Most arcs of one request. The asked server computes their records from one state, and restarts when it changes."""

ROUNDS = 3
"""Most rounds of questions for arcs that came while other arcs were asked for."""


@dataclass(slots=True)
class ToldRecords:
    """Answers of the asked servers: the minimal blocked nodes of each arc, and the silent servers."""

    sources: dict[ArcId, Sequence[NodeId]] = field(default_factory=dict)
    revisions: list[str] = field(default_factory=list)
    unreachable: set[ServerId] = field(default_factory=set)


class ArcRecords:
    """Collector of the records of a group's arcs from other servers."""

    def __init__(self, *, core: CoreQueries, resolver: MembershipResolver, forwarder: Forwarder) -> None:
        self._core = core
        self._resolver = resolver
        self._forwarder = forwarder

    async def told(self, group: NodeId, *, at_least_revision: str, seconds: Callable[[], float]) -> ToldRecords:
        """Return the answers for all arcs that other servers judge at the instant of the return.

        `seconds` returns the time to wait for one answer. Arcs may come while others are asked for. The servers that
        judge the arcs that came last count as unreachable. Raises `RefusedError` if there is no such group.
        """
        told = ToldRecords()
        for _ in range(ROUNDS):
            whom = self._open(group, told)
            if not whom:
                return told
            await asyncio.gather(
                *(self._ask(server, arcs, at_least_revision, seconds, told) for server, arcs in whom.items())
            )
        told.unreachable.update(self._open(group, told))
        return told

    def _open(self, group: NodeId, told: ToldRecords) -> dict[ServerId, list[ArcId]]:
        """Return the arcs that were not asked for yet, without those of silent servers."""
        judged = self._resolver.arcs_judged_elsewhere(group)
        found = {
            server: [arc for arc in arcs if arc not in told.sources]
            for server, arcs in judged.items()
            if server not in told.unreachable
        }
        return {server: arcs for server, arcs in found.items() if arcs}

    async def _ask(
        self,
        server: ServerId,
        arcs: Sequence[ArcId],
        at_least_revision: str,
        seconds: Callable[[], float],
        told: ToldRecords,
    ) -> None:
        for start in range(0, len(arcs), DESCRIBED_ARCS_LIMIT):
            some = arcs[start : start + DESCRIBED_ARCS_LIMIT]
            request = messages.DescribeArcsRequest(
                parents=[arc.parent for arc in some],
                children=[arc.child for arc in some],
                at_least_revision=at_least_revision,
            )
            part = await ask_part(
                self._forwarder, server, METHOD, request, messages.DescribeArcsResponse, seconds=seconds()
            )
            # Two servers in different views may have an arc in different states, because one has not heard yet of the
            # other view.
            if part is None or part.view != self._core.view or len(part.records) > len(some):
                told.unreachable.add(server)
                return
            told.revisions.append(part.revision)
            told.sources.update(dict.fromkeys(some, ()))
            told.sources.update(
                (arc, [NodeId(name) for name in record.names]) for arc, record in zip(some, part.records, strict=False)
            )
