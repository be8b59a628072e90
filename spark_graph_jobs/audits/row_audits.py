"""Checks of single rows: the conditions of several audits on arcs and nodes, in one pass over each table."""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from spark_graph_jobs.audits import acyclic, agreement, ancestry, virtual_nodes
from spark_graph_jobs.compare.side_by_side import unlike_nodes
from spark_graph_jobs.compare.violations import rows_in_trouble
from spark_graph_jobs.snapshot.tables import Tables

UNLIKE: Final = (acyclic.UNLIKE, virtual_nodes.UNLIKE, agreement.UNLIKE, ancestry.UNLIKE)


def look(tables: Tables, nodes: DataFrame, arcs: DataFrame) -> DataFrame:
    """Return troubles, each with its audit. `nodes`, `arcs`: results of `side_by_side`."""
    ends = {"parent": sql.col("parent"), "child": sql.col("child")}
    of_arcs = [*acyclic.of_arcs(), *virtual_nodes.of_arcs(), *agreement.of_arcs(), *ancestry.of_arcs()]
    of_said_arcs = [*agreement.of_said_arcs(tables), *ancestry.of_said_arcs(tables)]
    node = sql.col("local")
    found = [
        rows_in_trouble(tables.arcs, of_arcs, **ends),
        rows_in_trouble(arcs, of_said_arcs, **ends),
        rows_in_trouble(agreement.with_owners(tables), [*acyclic.of_nodes(), *agreement.of_nodes()], node=node),
        rows_in_trouble(nodes, agreement.of_said_nodes(tables), node=node),
        *unlike_nodes(tables, nodes, UNLIKE),
    ]
    return reduce(DataFrame.unionByName, found)
