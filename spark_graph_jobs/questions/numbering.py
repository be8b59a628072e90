"""Numbers of groups that are equal at all servers, so that ancestor sets of different servers can be combined.

An ancestor set holds the numbers of its server. One array for each server maps its numbers to the places of the groups
in one list. The arrays are sent to all workers once. Counting a set is then one operation of numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap

from spark_graph_jobs.snapshot.tables import Tables

if TYPE_CHECKING:
    from pyspark import Broadcast

ROWS_LIMIT: Final = 100_000_000
"""Maximum number of groups, counted at each server that knows them: 4 bytes each on every worker."""


class TooManyGroupsError(Exception):
    """More groups than can be numbered."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """The places of all groups."""

    keys: NDArray[np.int64]
    """Key of the group at each place."""
    places: dict[int, NDArray[np.int32]]
    """For each server: the place of each of its numbers, -1 if the number is no group."""

    def above(self, at: int, ancestors: bytes) -> NDArray[np.int32]:
        """Return the places of the groups in an ancestor set of a server."""
        places, numbers = self.places[at], numbers_of(ancestors)
        found = places[numbers[numbers < len(places)]]
        return found[found >= 0]


def number_groups(tables: Tables) -> Broadcast[Numbering]:
    """Number all groups that any server knows."""
    rows, are_groups = tables.work.rows("nodes"), pc.field("kind") == "group"
    count = rows.count_rows(filter=are_groups)
    if count > ROWS_LIMIT:
        raise TooManyGroupsError(
            f"{count:,} groups, counted at each server that knows them, are more than {ROWS_LIMIT:,}"
        )
    table = rows.to_table(["at", "number", "key"], filter=are_groups)
    keys = np.unique(table["key"].to_numpy())
    places: dict[int, NDArray[np.int32]] = {}
    for at in range(len(tables.servers)):
        here = table.filter(pc.equal(table["at"], at))
        numbers = here["number"].to_numpy()
        places[at] = np.full(int(numbers.max(initial=-1)) + 1, -1, np.int32)
        places[at][numbers] = np.searchsorted(keys, here["key"].to_numpy())
    return tables.nodes.sparkSession.sparkContext.broadcast(Numbering(keys, places))


def numbers_of(ancestors: bytes) -> NDArray[np.uint32]:
    """Return the node numbers of an ancestor set."""
    return np.frombuffer(BitMap.deserialize(ancestors).to_array(), np.uint32)
