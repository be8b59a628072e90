"""What the audit asks of a graph engine, and the words in which it is asked.

A graph is two DataFrames: vertices with a column `id`, arcs with the columns `src` and `dst`, which are ids of
vertices. Ids are strings or integers. Arcs may come twice, and may lead from a vertex to itself. Both engines give
equal answers: where an algorithm leaves a choice (which vertex names a component, which of several shortest paths), the
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
    """The engine does not take this graph; the message says why and what to do."""


class GraphEngine(Protocol):
    """Iterative graph algorithms over DataFrames."""

    @property
    def name(self) -> str:
        """How the report names the engine."""

    def connected_components(self, vertices: DataFrame, arcs: DataFrame) -> DataFrame:
        """Rows `id`, `component`: the smallest id that can be reached when arcs are walked both ways."""

    def strongly_connected_components(self, vertices: DataFrame, arcs: DataFrame) -> DataFrame:
        """Rows `id`, `component`: the smallest id that reaches this one and is reached from it."""

    def shortest_paths(self, vertices: DataFrame, arcs: DataFrame, targets: Sequence[str | int]) -> DataFrame:
        """Rows `id`, `target`, `distance`, `next`, for each target and each id that reaches it.

        `distance` counts arcs; `next` is the smallest vertex after `id` on a shortest path, null at the target itself.
        """

    def diamonds(self, vertices: DataFrame, arcs: DataFrame) -> DataFrame:
        """Rows `src`, `dst`, `between`: the pairs that two or more vertices lie between, and how many.

        A vertex between has an arc from `src` and one to `dst`; all three differ. Each two of such vertices, `b` and
        `c`, make the motif `(src)-[]->(b); (src)-[]->(c); (b)-[]->(dst); (c)-[]->(dst)`. They are counted, not listed:
        a thousand vertices between are one row, and half a million diamonds.
        """

    def motifs(self, vertices: DataFrame, arcs: DataFrame, pattern: str) -> DataFrame:
        """Every way in which a pattern of arcs, as `parse` reads it, occurs: distinct rows, a column for each name."""


@dataclass(frozen=True, slots=True)
class Term:
    """One arc of a pattern: that it is there, or that it is not."""

    src: str
    dst: str
    present: bool


_TERM = re.compile(r"\s*(!?)\s*\((\w+)\)-\[\]->\((\w+)\)\s*")


def parse(pattern: str) -> tuple[Term, ...]:
    """The terms of a pattern such as `(a)-[]->(b); (b)-[]->(c); !(a)-[]->(c)`, the present ones first.

    Each name of an absent arc must be in one that is present. Anything else is a ValueError.
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
