"""The nodes of one server as an array, so that arcs find their end nodes by lookup and not by a join.

Joining both ends to each arc of all servers would sort all arcs twice. A name server holds its whole graph in memory
with hundreds of bytes a node. The arrays take fifty bytes a node, so they fit wherever a task runs. The arrays are
files in the folder for intermediate tables. Tasks map the files, and tasks on one machine share the pages.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

NUMBERS_OF_SERVER: Final = 1 << 32
"""Size of the number range of a server. `local` is the place of the server times this size, plus the node's number."""

KINDS: Final = ("group", "process", "absent", "?")
"""Kinds of nodes. The array stores the index of the kind; the last kind stands for an invalid one."""

NO_LEVEL: Final = -(1 << 63)
"""Value for a missing level."""

Integers = NDArray[np.int64]

_NODE: Final = np.dtype(
    [
        ("number", np.int64),
        ("key", np.int64),
        ("derived", np.int64),
        ("level", np.int64),
        ("rank", np.int32),
        ("home_at", np.int32),
        ("kind", np.int8),
        ("owned", np.bool_),
        ("held", np.bool_),
    ]
)


@dataclass(frozen=True, slots=True)
class FoundNodes:
    """Result of a lookup, in the order of the request. Attributes of a node that was not found are null."""

    nodes: NDArray[Any]
    is_there: NDArray[np.bool_]

    def column(self, name: str) -> pa.Array:
        """Return one attribute of the nodes, null where no node was found."""
        values = self.nodes[name]
        missing = ~self.is_there
        if name == "kind":
            codes = pa.array(values.astype(np.int32), mask=missing)
            return pa.DictionaryArray.from_arrays(codes, pa.array(KINDS)).cast(pa.string())
        if name == "level":
            missing = missing | (values == NO_LEVEL)
        return pa.array(np.ascontiguousarray(values), mask=missing)


@dataclass(frozen=True, slots=True)
class NodeArray:
    """The nodes of one server, sorted by their numbers."""

    nodes: NDArray[Any]
    by_key: Integers
    """Indexes of all nodes in the order of their keys."""

    def of_numbers(self, numbers: Integers) -> FoundNodes:
        """Return the nodes with these numbers."""
        return _look(self.nodes, self.nodes["number"], numbers, None)

    def of_keys(self, keys: Integers) -> FoundNodes:
        """Return the nodes with these keys."""
        return _look(self.nodes, self.nodes["key"][self.by_key], keys, self.by_key)


def _look(nodes: NDArray[Any], values: Integers, wanted: Integers, order: Integers | None) -> FoundNodes:
    if not len(nodes):
        return FoundNodes(np.zeros(len(wanted), _NODE), np.zeros(len(wanted), np.bool_))
    places = np.minimum(np.searchsorted(values, wanted), len(nodes) - 1)
    is_there = values[places] == wanted
    return FoundNodes(nodes[places if order is None else order[places]], is_there)


def write_nodes(folder: Path, at: int, table: pa.Table) -> None:
    """Write the nodes of a server from a table with the columns of the array."""
    nodes = np.zeros(table.num_rows, _NODE)
    for name in ("number", "key", "derived", "rank", "home_at", "owned", "held"):
        nodes[name] = table[name].to_numpy()
    nodes["level"] = pc.fill_null(table["level"], NO_LEVEL).to_numpy()
    kinds = pc.index_in(table["kind"], pa.array(KINDS[:-1]))
    nodes["kind"] = pc.fill_null(kinds, len(KINDS) - 1).to_numpy()
    nodes = nodes[np.argsort(nodes["number"], kind="stable")]
    folder.mkdir(parents=True, exist_ok=True)
    np.save(folder / f"{at}.nodes.npy", nodes)
    np.save(folder / f"{at}.keys.npy", np.argsort(nodes["key"], kind="stable"))


def open_nodes(folder: Path) -> Callable[[int], NodeArray]:
    """Return a function from the place of a server to its nodes, mapped at the first call."""

    @cache
    def of_server(at: int) -> NodeArray:
        path = folder / f"{at}.nodes.npy"
        if not path.exists():  # a server without nodes
            return NodeArray(np.zeros(0, _NODE), np.zeros(0, np.int64))
        return NodeArray(np.load(path, mmap_mode="r"), np.load(folder / f"{at}.keys.npy", mmap_mode="r"))

    return of_server
