"""Clauses of the update protocol that can be left out of the core, to see what each is for (protocol section 5)."""

from contextlib import contextmanager

import pytest
from namegraph.boundary import Boundary

from namegraph import decision
from namegraph.ancestry_records import AncestryRecords
from namegraph.coordinator import Coordinator
from namegraph.graph import NameGraph
from namegraph.ordering import Entries, Entry
from namegraph.participant import Participant


def _earliest_of_all(entries):
    due = [
        (entry.final, entry)
        for entry in entries.by_update.values()
        if entry.final is not None and entry.asked is not None and entry.covered != entry.asked
        if not entry.releases_due
    ]
    return min(due, key=lambda place: place[0])[1] if due else None


def _prune_always(participant):
    participant._records.prune()
    participant._boundary.changed(participant._records.change.follow())


def _compare_with_right_before(participant, commit):
    entry = participant._entries.by_update[commit.update_id]
    entry.controlled = participant._controlled(participant._owned(participant._entries.part(entry).nodes))
    _COMMIT(participant, commit)


_COMMIT = Participant.commit

CLAUSES = {
    "turns are awaited": (Entries, "next_turn", _earliest_of_all),
    "entries are handed on": (Participant, "_install_entries", lambda *_: None),
    "who holds a handed-on entry is told": (Coordinator, "holding", lambda *_: None),
    "votes count arcs of ready joins": (Entries, "_coming_arcs", lambda *_: {}),
    "participants release before they are ready": (Boundary, "to_release", lambda *_, **__: {}),
    "the coordinator releases before it decides": (decision, "_releases", lambda *_: {}),
    "a commit is about what was ready": (Entry, "narrow", lambda _: None),
    "a difference that does not fit is dropped": (AncestryRecords, "drop_unless_at", lambda *_, **__: None),
    "nothing is pruned while an update is ready": (Participant, "_prune_and_follow", _prune_always),
    "records of a broken loop travel in the commit": (decision, "_stored", lambda *_: ()),
    "answers that come before the last vote are kept": (Coordinator, "_keep_early", lambda *_: None),
    "ancestor sets follow what records say": (NameGraph, "recorded_children", lambda graph, node: graph.children[node]),
    "control is compared with what it was when ready": (Participant, "commit", _compare_with_right_before),
}
"""Each with where it is in the code, and what is there without it."""


@contextmanager
def without(clause):
    """A core that lacks a clause."""
    owner, name, replacement = CLAUSES[clause]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(owner, name, replacement)
        yield
