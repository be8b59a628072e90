"""A server's share of an update's outcome, taken from the outcome by that server itself.

A coordinator sends all participants the same outcome, encoded once. Cutting up an import for each of them would
take seconds in which all participants wait. Instead all take their shares at the same time, the coordinator too.

Source: docs/protocol-updates.md, "The outcome".
"""

from __future__ import annotations

from msgspec import structs

from namegraph.model.rows import NodeKind
from namegraph.state.context import ServerContext
from namegraph.wire.arc_sets import are_possible, fit_arcs, fit_records, nodes_of
from namegraph.wire.codec import NotAMessageError, decode_outcome
from namegraph.wire.columns import concerning
from namegraph.wire.message_parts import ArcList, UpdateId
from namegraph.wire.update_messages import UpdateOutcome
from namegraph.wire.value_limits import highest_legal


def read_share(encoded: bytes, context: ServerContext, *, update_id: UpdateId | None = None) -> UpdateOutcome:
    """Return this server's share of an encoded outcome. Raises `NotAMessageError`.

    `update_id`: the update that the outcome must belong to. None: any.
    """
    outcome = decode_outcome(encoded)
    if update_id not in (None, outcome.update_id):
        raise NotAMessageError("the outcome of another update")
    if not (fit_arcs(outcome.arcs) and fit_records(outcome.relay)):
        raise NotAMessageError("an outcome with columns that do not fit together, or with a list that is too long")
    if not are_possible(outcome.arcs):
        raise NotAMessageError("an outcome with an impossible arc")
    if highest_legal(outcome, context.graph.index) is None or not outcome.origin.is_legal():
        raise NotAMessageError("an outcome with an invalid name or number")
    return share_of(outcome, context)


def share_of(outcome: UpdateOutcome, context: ServerContext) -> UpdateOutcome:
    """Return the outcome restricted to the arcs that concern this server.

    These are the arcs that end at this server, and those to a child whose record it may hold and keep.
    """
    arcs, relayed, homes, here = outcome.arcs, nodes_of(outcome.relay), context.table.homes, context.server
    if isinstance(arcs, ArcList):
        share = tuple(
            [
                known
                for known in arcs.arcs
                if homes[known.arc.parent] == here
                or homes[known.arc.child] == here
                or (known.kind is NodeKind.GROUP and known.arc.child not in relayed)
            ]
        )
        return outcome if len(share) == len(arcs.arcs) else structs.replace(outcome, arcs=ArcList(share))
    names = arcs.names
    return structs.replace(
        outcome,
        arcs=concerning(
            arcs,
            ends=[home == here for home in context.table.homes_of(names)],
            group_children=[name not in relayed for name in names],
        ),
    )
