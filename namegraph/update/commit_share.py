"""What of the outcome of an update concerns one server, taken from it by that server itself.

A coordinator sends all participants the same outcome, encoded once: cutting up an import for each of them would take it
seconds in which all others wait. All take their shares at the same time, the coordinator too.

Source: protocol.md sections 5 and 6.
"""

from __future__ import annotations

from msgspec import structs

from namegraph.state.context import ServerContext
from namegraph.wire.codec import NotAMessageError, decode_outcome
from namegraph.wire.columns import are_possible, concerning, fit_arcs, fit_records, nodes_in
from namegraph.wire.message_parts import UpdateId
from namegraph.wire.update_messages import UpdateOutcome
from namegraph.wire.value_limits import highest_legal


def read_share(encoded: bytes, context: ServerContext, *, update_id: UpdateId | None = None) -> UpdateOutcome:
    """This server's share of an encoded outcome; raises `NotAMessageError`. `update_id`: whose outcome it must be."""
    outcome = decode_outcome(encoded)
    if update_id not in (None, outcome.update_id):
        raise NotAMessageError("the outcome of another update")
    if not (fit_arcs(outcome.arcs) and fit_records(outcome.relay)):
        raise NotAMessageError("an outcome with columns that do not fit together")
    if not are_possible(outcome.arcs):
        raise NotAMessageError("an outcome with an impossible arc")
    if highest_legal(outcome, context.graph.index) is None or not outcome.origin.is_legal():
        raise NotAMessageError("an outcome with an invalid name or number")
    return share_of(outcome, context)


def share_of(outcome: UpdateOutcome, context: ServerContext) -> UpdateOutcome:
    """The outcome with the arcs alone that end at this server, or whose child it may hold a record of that stays."""
    relayed, names, home_of = nodes_in(outcome.relay), outcome.arcs.names, context.table.home_of
    return structs.replace(
        outcome,
        arcs=concerning(
            outcome.arcs,
            ends=[home_of(name) == context.server for name in names],
            group_children=[name not in relayed for name in names],
        ),
    )
