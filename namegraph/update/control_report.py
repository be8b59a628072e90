"""Nodes that became, or ceased to be, sinks of duplication loops in an update over several servers.

On one server an update compares its affected nodes before and after its commit. Over several servers each server
compares the nodes that it owns. The first state is that at which it became ready, after all earlier updates of
these nodes. The second is the state after it applied its part. Records relayed in between, with an independent
update, may bring effects of this one, and further nodes below it; neither counts. `Done` reports the difference,
and the coordinator unites the reports. A foreign process is a node of each server where it was joined.

Source: NG 4.5; docs/protocol-updates.md, "What became controlled or released".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from namegraph.model.names import NodeId, ServerId
from namegraph.model.outcomes import EffectKind, GraphEffect


class ControlReport(NamedTuple):
    """Report of one participant in its `Done`: sorted ids."""

    server: ServerId
    controlled: tuple[NodeId, ...]
    released: tuple[NodeId, ...]


def united_reports(told: Iterable[ControlReport]) -> tuple[GraphEffect, ...]:
    """Return the reports of all participants as effects for the caller."""
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
