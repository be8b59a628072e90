"""Domains that can add members to a given group: domains with a group nested in it, each with the shortest path."""

from __future__ import annotations

from typing import Final

from pyspark.sql import functions as sql

from spark_graph_jobs.engines.interface import GraphEngine
from spark_graph_jobs.finding import counted
from spark_graph_jobs.questions.answer import ROWS_SHOWN_LIMIT, QuestionAnswer, info, see_path
from spark_graph_jobs.questions.whole import Whole

QUESTION: Final = "who can add members to my group"


def ask(whole: Whole, engine: GraphEngine, group: str) -> QuestionAnswer:
    """Ask an engine for the paths from one group to all nodes below; show the nearest group of each domain."""
    found = whole.nodes.filter((sql.col("id") == group) & (sql.col("kind") == "group")).select("key", "domain").head()
    if found is None:
        return QuestionAnswer(QUESTION, f"There is no group {group} in the snapshots.")
    top, own = found["key"], found["domain"]
    backwards = whole.arcs.select(sql.col("dst").alias("src"), sql.col("src").alias("dst"))
    below = (
        engine.shortest_paths(whole.vertices(), backwards, [top])
        .join(whole.nodes.select(sql.col("key").alias("id"), sql.col("id").alias("name"), "domain", "kind"), "id")
        .filter("distance > 0")
        .select("id", "name", "domain", "kind", "distance", "next")
        .toArrow()
        .to_pylist()
    )
    over = {row["id"]: (row["next"], row["name"]) for row in below}
    nearest: dict[str, dict[str, object]] = {}
    counts: dict[str, int] = {}
    for row in sorted(below, key=lambda row: (row["distance"], row["name"])):
        if row["kind"] == "group" and row["domain"] != own:
            nearest.setdefault(row["domain"], row)
            counts[row["domain"]] = counts.get(row["domain"], 0) + 1

    def path(node: int) -> list[str]:
        names = []
        while node != top:
            node, name = over[node]
            names.append(name)
        return [group, *reversed(names)]

    order = sorted(nearest, key=lambda domain: (-counts[domain], domain))[:ROWS_SHOWN_LIMIT]
    paths = {domain: path(nearest[domain]["id"]) for domain in order}  # type: ignore[arg-type]
    return QuestionAnswer(
        QUESTION,
        f"{group}: {counted(len(nearest), 'other domain')} {'owns' if len(nearest) == 1 else 'own'} groups nested in it"
        f" and so {'decides' if len(nearest) == 1 else 'decide'} who is in it.",
        ("domain", "groups of it below", "nearest group", "arcs to it"),
        tuple((domain, counts[domain], paths[domain][-1], len(paths[domain]) - 1) for domain in order),
        tuple(
            info(
                QUESTION,
                domain,
                f"it can add members to {group} over {counted(len(paths[domain]) - 1, 'arc')}",
                paths[domain],
                see=see_path(paths[domain]),
            )
            for domain in order
        ),
    )
