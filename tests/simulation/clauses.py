"""Clauses of the protocol that can be left out, to see what each is for (protocol sections 5 and 8; messages)."""

from collections import deque
from contextlib import contextmanager

import msgspec
import pytest

from delivery.arrival.arrivals import Arrivals
from delivery.origin.origin import MessageOrigin
from delivery.origin.parcel_posting import ParcelPosting
from delivery.origin.parcel_table import ParcelTable
from delivery.origin.senders import Senders
from delivery.origin.unsettled import ParcelState
from namegraph.graph.controlled_sinks import Sinks
from namegraph.graph.name_graph import NameGraph
from namegraph.replication.ancestry_store import AncestryStore
from namegraph.state.view_phase import ViewPhase
from namegraph.update import coordinator
from namegraph.update.coordinator import Coordinator
from namegraph.update.order_queue import Entries, Entry
from namegraph.update.participant import Participant
from resolver.reach import GraphReach
from simulation.checks import in_flight_walks


def _earliest_of_all(entries):
    return min(
        (entry for entry in entries.by_update.values() if entry.is_due), key=lambda entry: entry.place, default=None
    )


def _prune_always(participant):
    participant._records.prune()
    participant._records.change.follow()


def _compare_with_right_before(participant, commit):
    entry = participant._entries.by_update[commit.update_id]
    if entry.sinks is not None:
        nodes = participant._owned(participant._entries.part(entry).nodes)
        entry.sinks = Sinks(frozenset(nodes), frozenset(participant._controlled(nodes)))
    _COMMIT(participant, commit)


def _compare_all_affected(participant, commit):
    entry = participant._entries.by_update[commit.update_id]
    if entry.sinks is not None:
        nodes = participant._owned(participant._entries.part(entry).nodes)
        entry.sinks = entry.sinks._replace(compared=entry.sinks.compared.union(nodes))
    _COMMIT(participant, commit)


def _look_no_further_than_others(entries, entry, coming):
    graph, leaving = entries._context.graph, entries._records.leaving
    with pytest.MonkeyPatch.context() as patch:
        below = [{} if node in leaving else children for node, children in enumerate(graph.children)]
        patch.setattr(graph, "children", below)
        return _LOOK(entries, entry, coming)


def _lead_as_if_open(entries, *of_part):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entries._context, "phase", ViewPhase.HEALED)
        return _LEADS_FROM(entries, *of_part)


def _lead_to_children_alone(entries, *of_part):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(entries._context, "phase", ViewPhase.SUSPENDING)
        return _LEADS_FROM(entries, *of_part)


_COMMIT = Participant.commit
_LOOK = Entries._look
_LEADS_FROM = Entries._leads_from


def _newest_alone(posting, number, servers, reach):
    """Post only the newest parcel to a server found late, without the parcels under way before."""
    sequence = posting._table.states[number]
    all_unsettled, sequence.unsettled = sequence.unsettled, deque(list(sequence.unsettled)[-1:])
    try:
        return _FOUND(posting, number, servers, reach)
    finally:
        sequence.unsettled = all_unsettled


def _end_stubs_with_the_oldest(posting, server, sequence):
    """Post the oldest parcel to a server that has only stubs. Further parcels are posted when the server wants them."""
    sequence.stubs.discard(server)
    for position in sequence.unsettled:
        row = posting._table.rows[position]
        if row.posted.get(server) == ParcelState.STUB:
            row.posted[server] = ParcelState.UNCONFIRMED
            posting._table.rows.touch(position)
            return [posting.posted(server, position)]
    return []


def _nobody_here(arrivals, sender, stub, reach):
    """Confirm stubs without looking for members."""
    return arrivals._confirm(sender, stub, 0, reach, has_left_out=False)


def _nobody_named(origin, sender, confirm, reach):
    return _CONFIRM(origin, sender, msgspec.structs.replace(confirm, onward=()), reach)


def _settle_though_apart(parcels, position):
    parcels.rows[position].is_apart = False
    return False


_FOUND, _CONFIRM = ParcelPosting.found, MessageOrigin.confirm

CLAUSES = {
    "turns are awaited": (Entries, "next_turn", _earliest_of_all),
    "entries are handed on": (Participant, "_install_entries", lambda *_: None),
    "who holds a handed-on entry is told": (Coordinator, "holding", lambda *_: None),
    "votes count arcs of ready joins": (Entries, "_coming_arcs", lambda *_: {}),
    "a commit is about what was ready": (Entry, "narrow", lambda _: None),
    "a difference that does not fit is dropped": (AncestryStore, "drop_unless_at", lambda *_, **__: None),
    "nothing is pruned while an update is ready": (Participant, "_prune_and_follow", _prune_always),
    "answers that come before the last vote are kept": (Coordinator, "_keep_early", lambda *_: None),
    "ancestor sets follow what records say": (NameGraph, "recorded_children", lambda graph, node: graph.children[node]),
    "control is compared with what it was when ready": (Participant, "commit", _compare_with_right_before),
    "who is ready says that it is in doubt": (in_flight_walks, "_doubtful_nodes", lambda _: frozenset()),
    "only what was affected when ready is compared": (Participant, "commit", _compare_all_affected),
    "servers further below are named while the view is open alone": (Entries, "_leads_from", _lead_as_if_open),
    "servers further below are named": (Entries, "_leads_from", _lead_to_children_alone),
    "arcs are followed through the nodes of others": (Entries, "_look", _look_no_further_than_others),
    "votes say which entry nodes are covered": (Entries, "cover_entered", lambda *_: ()),
    "who is found late is posted all that is not settled": (ParcelPosting, "found", _newest_alone),
    "who confirms names the servers further below": (MessageOrigin, "confirm", _nobody_named),
    "who has somebody for a stub wants the parcel": (Arrivals, "answer_stub", _nobody_here),
    "what a server has stubs of comes before anything newer": (ParcelPosting, "end_stubs", _end_stubs_with_the_oldest),
    "what was apart is posted once more": (ParcelTable, "needs_round", _settle_though_apart),
    "senders number their messages": (Senders, "first_answer", lambda *_: None),
    "parcels wait until servers are healed": (GraphReach, "is_settled_with", lambda *_: True),
    "all are told the entry nodes of the whole update": (coordinator, "ROOTS_LIMIT", -1),
}
"""Each with where it is in the code, and what is there without it."""


@contextmanager
def without(clause):
    """Run cores without a clause."""
    owner, name, replacement = CLAUSES[clause]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, replacement)
        yield
