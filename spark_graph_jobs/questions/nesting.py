"""The deepest nesting of groups, and the chain that reaches it.

The answer is the longest chain of the derived graph, in which each virtual node counts as one. Levels rise along every
normal arc. One pass over the arcs, in the order of their parents' levels, is therefore enough; it runs on the driver.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from spark_graph_jobs.finding import counted
from spark_graph_jobs.questions.answer import QuestionAnswer, info, not_asked, see_path
from spark_graph_jobs.questions.whole import Whole
from spark_graph_jobs.snapshot.node_arrays import NO_LEVEL

QUESTION: Final = "deepest nesting"

ARCS_LIMIT: Final = 20_000_000
"""Maximum number of arcs between groups that are processed together: 40 bytes each."""

_BETWEEN: Final = ("upper_level", "upper", "lower", "src", "dst")


def ask(whole: Whole) -> tuple[QuestionAnswer, dict[int, int]]:
    """Return the longest chain of groups, and the number of groups by the number of levels of groups above them."""
    groups = whole.rows_of_nodes().to_table(["key", "point", "level"], filter=pc.field("kind") == "group")
    count, table = _arcs_between(whole, groups.sort_by("key"))
    if count > ARCS_LIMIT:
        return not_asked(QUESTION, f"{count:,} arcs between groups are more than {ARCS_LIMIT:,}"), {}
    table = table.sort_by([(name, "ascending") for name in table.column_names])
    columns = [table[name].to_pylist() for name in ("upper", "lower", "src", "dst")]
    depth: dict[int, int] = {}
    over: dict[int, tuple[int, int, int]] = {}
    """For each point: the point above it on a longest chain, and the ends of the arc between."""
    for upper, lower, parent, child in zip(*columns, strict=True):
        deeper = depth.get(upper, 0) + 1
        if deeper > depth.get(lower, 0):
            depth[lower] = deeper
            over[lower] = (upper, parent, child)
    histogram = _histogram(groups, depth)
    if not depth:
        return QuestionAnswer(QUESTION, "No group is in another."), histogram
    deepest = max(depth, key=lambda point: (depth[point], -point))
    chain = [(over[deepest][2])]
    point = deepest
    while point in over and len(chain) <= 2 * len(over):  # wrong levels could make a cycle
        upper, parent, child = over[point]
        if chain[-1] != child:
            chain.append(child)  # the chain goes on inside a virtual node
        chain.append(parent)
        point = upper
    names = whole.named(chain)
    path = [names[key] for key in reversed(chain)]
    return (
        QuestionAnswer(
            QUESTION,
            "The longest chain of groups, each inside the one before. Where two neighbours share a loop, the chain"
            " passes through it.",
            ("step", "group"),
            tuple(enumerate(path)),
            (
                info(
                    QUESTION,
                    path[-1],
                    f"{counted(depth[deepest], 'level')} of groups {'is' if depth[deepest] == 1 else 'are'} above it",
                    path,
                    see=see_path(path),
                ),
            ),
        ),
        histogram,
    )


def _arcs_between(whole: Whole, groups: pa.Table) -> tuple[int, pa.Table]:
    """Return the number of normal arcs from group to group, and these arcs up to `ARCS_LIMIT`.

    `groups`: key, point, level, sorted by key. Arcs of an upper group without a level are left out.
    """
    keys, points = groups["key"].to_numpy(), groups["point"].to_numpy()
    levels = pc.fill_null(groups["level"], NO_LEVEL).to_numpy()
    count, parts = 0, [_table(*(np.zeros(0, np.int64) for _ in _BETWEEN))]
    for batch in whole.rows_of_arcs().to_batches(columns=["src", "dst"]):
        src, dst = batch["src"].to_numpy(), batch["dst"].to_numpy()
        above, below = (np.minimum(np.searchsorted(keys, ends), len(keys) - 1) for ends in (src, dst))
        are_groups = (keys[above] == src) & (keys[below] == dst)
        src, dst, above, below = (values[are_groups] for values in (src, dst, above, below))
        are_normal = (points[above] != points[below]) & (levels[above] != NO_LEVEL)
        count += int(are_normal.sum())
        if count <= ARCS_LIMIT:
            columns = (levels[above], points[above], points[below], src, dst)
            parts.append(_table(*(values[are_normal] for values in columns)))
    return count, pa.concat_tables(parts)


def _table(*columns: NDArray[np.int64]) -> pa.Table:
    return pa.table(dict(zip(_BETWEEN, columns, strict=True)))


def _histogram(groups: pa.Table, depth: dict[int, int]) -> dict[int, int]:
    """Return the number of groups at each depth. The groups of a virtual node have the same depth."""
    return dict(sorted(Counter(depth.get(point, 0) for point in groups["point"].to_pylist()).items()))
