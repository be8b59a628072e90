"""Which nodes are sinks of duplication loops, and what became of that over several servers.

On one server an update compares its affected nodes before and after its commit. Over several servers each compares the
nodes that it owns: as they were when it became ready, after all updates that come before this one and affect them, and
as they are when it has applied its part. What is relayed with an independent update in between may bring news of this
one, and further nodes below it: neither counts. `Done` says what differs, and the coordinator unites it. A foreign
process is a node of each server where it was joined.

Source: NG 4.5; protocol.md sections 4 and 5, item 6.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from namegraph.model.names import NodeId, ServerId
from namegraph.model.outcomes import EffectKind, GraphEffect


class ControlReport(NamedTuple):
    """What one participant said with `Done`: sorted ids."""

    server: ServerId
    controlled: tuple[NodeId, ...]
    released: tuple[NodeId, ...]


def united_reports(told: Iterable[ControlReport]) -> tuple[GraphEffect, ...]:
    """What all participants said, as callers see it."""
    told = list(told)
    found = []
    for kind, said in (
        (EffectKind.CONTROLLED, {one.server: one.controlled for one in told}),
        (EffectKind.RELEASED, {one.server: one.released for one in told}),
    ):
        nodes = set().union(*said.values())
        if nodes:
            found.append(GraphEffect(kind, tuple(sorted(nodes)), tuple(sorted(s for s in said if said[s]))))
    return tuple(found)
