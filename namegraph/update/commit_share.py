"""What of a whole outcome concerns one server, taken from it by that server itself.

A coordinator usually sends each participant its part. Of what an import brings it sends all to everybody instead, once
encoded, and all take their parts at the same time.

Source: protocol.md sections 5 and 6.
"""

from __future__ import annotations

from msgspec import structs

from namegraph.state.context import ServerContext
from namegraph.wire.codec import NotAMessageError, decode
from namegraph.wire.columns import concerning, fit_arcs, fit_records, nodes_in
from namegraph.wire.update_messages import Commit
from namegraph.wire.value_limits import are_legal


def own_part(commit: Commit, context: ServerContext) -> Commit:
    """This server's part of a commit that holds the whole outcome; raises `NotAMessageError` where it holds none."""
    if not commit.is_whole:
        return commit
    whole = part_of_everything(commit.everything, context)
    if whole.update_id != commit.update_id:
        raise NotAMessageError("the outcome of another update")
    return structs.replace(whole, handed_on=commit.handed_on, everything=commit.everything)


def part_of_everything(everything: bytes, context: ServerContext) -> Commit:
    """The part of this server of an encoded `Commit` of everything; raises `NotAMessageError`."""
    whole = decode(everything)
    if not (isinstance(whole, Commit) and not whole.is_whole and fit_arcs(whole.arcs) and fit_records(whole.relay)):
        raise NotAMessageError("a commit that lacks the whole outcome")
    if not are_legal(whole, context.table):
        raise NotAMessageError("an outcome with an invalid name or number")
    relayed, names, home_of = nodes_in(whole.relay), whole.arcs.names, context.table.home_of
    return structs.replace(
        whole,
        arcs=concerning(
            whole.arcs,
            ends=[home_of(name) == context.server for name in names],
            group_children=[name not in relayed for name in names],
        ),
    )
