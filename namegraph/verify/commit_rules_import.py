"""Checks of the arcs that a `Commit` of an import brings, on whole columns. `commit_rules` checks other updates.

An import only joins: each arc at cost 0, and to a child of a kind that the import names.
"""

from __future__ import annotations

import numpy as np

from namegraph.update.prepare import Findings
from namegraph.verify.commit_columns import CommitColumns, arc_keys, places_among
from namegraph.wire.arc_sets import arcs_in_columns
from namegraph.wire.columns import Numbers, number_array, place_array, state_array
from namegraph.wire.message_parts import OperationColumns


def follow_from_import(said: CommitColumns, brought: OperationColumns, found: Findings | None) -> bool:
    """Return True if the outcome has exactly the arcs with an end here that the import asks for and this server
    found."""
    arcs = said.arcs
    owns_parent = said.is_ours[place_array(arcs.parents)]
    is_told = owns_parent | said.is_ours[place_array(arcs.children)]
    if not (said.joined[is_told].all() and not number_array(arcs.costs)[is_told].any()):
        return False
    places = places_among(said.numbers, brought.names)
    asked = arc_keys(places[place_array(brought.parents)], places[place_array(brought.children)])
    if not _are_among(
        (said.keys[is_told], state_array(arcs.kinds)[is_told]), among=(asked, state_array(brought.kinds))
    ):
        return False
    if found is None:
        return True
    found_arcs = arcs_in_columns(found.arcs)
    places = places_among(said.numbers, found_arcs.names)
    ours = arc_keys(places[place_array(found_arcs.parents)], places[place_array(found_arcs.children)])
    keys, versions = said.keys[owns_parent], number_array(arcs.versions)[owns_parent]
    order, own_order = np.argsort(keys), np.argsort(ours)
    if not np.array_equal(keys[order], ours[own_order]):
        return False
    versions, versions_found = versions[order], number_array(found_arcs.versions)[own_order]
    # The home of the child may have told a higher version.
    may_rise = said.is_theirs[place_array(arcs.children)[owns_parent]][order]
    is_risen = may_rise & (versions > versions_found) & (versions <= said.share.final.counter)
    return bool((is_risen | (versions == versions_found)).all())


def _are_among(told: tuple[Numbers, Numbers], *, among: tuple[Numbers, Numbers]) -> bool:
    """Return True if all arcs are asked for, each with its kind. An arc that is asked for twice has one kind."""
    keys, kinds = told
    if not len(keys):
        return True
    if not len(among[0]):
        return False
    order = np.argsort(among[0])
    asked = among[0][order]
    own_order = np.argsort(keys)
    keys, kinds = keys[own_order], kinds[own_order]
    if np.array_equal(keys, asked):  # This is the common case: no arc existed before.
        places = order
    else:
        found = np.minimum(np.searchsorted(asked, keys), len(asked) - 1)
        if not np.array_equal(asked[found], keys):
            return False
        places = order[found]
    return np.array_equal(among[1][places], kinds)
