"""All ancestor sets of one server in one file, so that a task finds any set without a join.

A join would copy each set to each arc that leaves its node, and sort the copies. Here the sets of a server lie one
after another in a file that tasks map, with an index of their starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from spark_graph_jobs.snapshot.node_arrays import NUMBERS_OF_SERVER

SETS_KEPT_LIMIT: Final = 50_000
BYTES_KEPT_LIMIT: Final = 64_000_000
"""Limits of a task's cache of sets, for sinks with the same tails: number of sets, and bytes on disk."""


class SetFile:
    """The ancestor sets of one server by the `derived` of their nodes."""

    def __init__(self, folder: Path, at: int) -> None:
        self._index, self._starts, self._ends = np.load(folder / f"{at}.index.npy", mmap_mode="r")
        path = folder / f"{at}.sets"
        self._content = np.memmap(path, np.uint8, "r") if path.stat().st_size else np.zeros(0, np.uint8)
        self._kept: dict[int, BitMap] = {}
        self._bytes_kept = 0

    def of(self, derived: int) -> BitMap | None:
        """Return the set of a derived node; None if there is none, any if there are several.

        The caller must not change the set.
        """
        found = self._kept.get(derived)
        if found is not None:
            return found
        place = int(self._index.searchsorted(derived))
        if place == len(self._index) or self._index[place] != derived:
            return None
        content = self._content[self._starts[place] : self._ends[place]].tobytes()
        if len(self._kept) >= SETS_KEPT_LIMIT or self._bytes_kept >= BYTES_KEPT_LIMIT:
            self._kept.clear()
            self._bytes_kept = 0
        found = self._kept[derived] = BitMap.deserialize(content)
        self._bytes_kept += len(content)
        return found


def write_sets(folder: Path, at: int, batches: Iterable[tuple[pa.Array, pa.Array]]) -> None:
    """Write the sets of a server. Batches: the `derived` of the nodes (null: left out), and the sets."""
    folder.mkdir(parents=True, exist_ok=True)
    nodes = [np.zeros(0, np.int64)]
    lengths = [np.zeros(0, np.int64)]
    with (folder / f"{at}.sets").open("wb") as file:
        for derived, sets in batches:
            known = derived.is_valid()
            for content in sets.filter(known).to_pylist():
                file.write(content)
            nodes.append(derived.filter(known).to_numpy(zero_copy_only=False))
            lengths.append(pc.binary_length(sets.filter(known)).to_numpy(zero_copy_only=False).astype(np.int64))
    index, ends = np.concatenate(nodes), np.cumsum(np.concatenate(lengths))
    order = np.argsort(index, kind="stable")
    np.save(folder / f"{at}.index.npy", np.stack([index, ends - np.concatenate(lengths), ends])[:, order])


def open_sets(folder: Path) -> Callable[[int], BitMap | None]:
    """Return a function from a derived node of any server to its set. A server's file is mapped when first needed."""
    files: dict[int, SetFile] = {}

    def of(derived: int) -> BitMap | None:
        at = derived // NUMBERS_OF_SERVER
        if at not in files:
            files[at] = SetFile(folder, at)
        return files[at].of(derived)

    return of
