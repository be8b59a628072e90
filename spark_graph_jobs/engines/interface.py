"""The interface of a graph engine, and the pattern language of its motifs.

A graph is two DataFrames: vertices with a column `id`, arcs with the columns `src` and `dst`, which are ids of
vertices. Ids are strings or integers. Arcs may occur twice, and may lead from a vertex to itself. Both engines return
equal answers. If an algorithm leaves a choice (the vertex that names a component, one of several shortest paths), the
smallest id is taken.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class EngineRefusedError(Exception):
    """The engine does not accept this graph. The message gives the reason and a remedy."""


class GraphEngine(Protocol):
    """Iterative graph algorithms over DataFrames."""

    @property
    def name(self) -> str:
        """Name of the engine in the report."""

    def connected_components(self, vertices: DataFrame, arcs: DataFrame) -> DataFrame:
        """Return rows `id`, `component`: the smallest id that can be reached when arcs are walked both ways."""

    def strongly_connected_components(self, vertices: DataFrame, arcs: DataFrame) -> DataFrame:
        """Return rows `id`, `component`: the smallest id that reaches this id and is reached from it."""

    def shortest_paths(self, vertices: DataFrame, arcs: DataFrame, targets: Sequence[str | int]) -> DataFrame:
        """Return rows `id`, `target`, `distance`, `next`, for each target and each id that reaches it.

        `distance` counts arcs. `next` is the smallest vertex after `id` on a shortest path, null at the target itself.
        """

    def diamonds(self, vertices: DataFrame, arcs: DataFrame) -> DataFrame:
        """Return rows `src`, `dst`, `between`: pairs with two or more vertices between them, and their number.

        A vertex between has an arc from `src` and one to `dst`; all three differ. Each two of such vertices, `b` and
        `c`, make the motif `(src)-[]->(b); (src)-[]->(c); (b)-[]->(dst); (c)-[]->(dst)`. Motifs are counted, not
        listed: a thousand vertices between are one row, and half a million diamonds.
        """

    def motifs(self, vertices: DataFrame, arcs: DataFrame, pattern: str) -> DataFrame:
        """Return every occurrence of a pattern of arcs, as `parse` reads it: distinct rows, a column for each name."""


@dataclass(frozen=True, slots=True)
class Term:
    """One arc of a pattern, which must be present or absent."""

    src: str
    dst: str
    present: bool


_TERM = re.compile(r"\s*(!?)\s*\((\w+)\)-\[\]->\((\w+)\)\s*")


def parse(pattern: str) -> tuple[Term, ...]:
    """Return the terms of a pattern such as `(a)-[]->(b); (b)-[]->(c); !(a)-[]->(c)`, the present ones first.

    Each name of an absent arc must occur in a present arc. Any other pattern raises a ValueError.
    """
    terms = []
    for text in pattern.split(";"):
        found = _TERM.fullmatch(text)
        if found is None:
            raise ValueError(f"no term of a motif: {text.strip()!r}")
        terms.append(Term(found[2], found[3], present=not found[1]))
    named = {name for term in terms if term.present for name in (term.src, term.dst)}
    unnamed = sorted({name for term in terms for name in (term.src, term.dst)} - named)
    if unnamed or not named:
        raise ValueError(f"no present arc of {pattern!r} names {', '.join(unnamed) or 'anything'}")
    return tuple(sorted(terms, key=lambda term: not term.present))
