"""The choice of the graph engine of an audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from spark_graph_jobs.engines.interface import GraphEngine
from spark_graph_jobs.engines.on_driver import DriverEngine
from spark_graph_jobs.engines.refusing import RefusingEngine
from spark_graph_jobs.engines.with_graphframes import GraphFramesEngine
from spark_graph_jobs.spark.failures import SPARK_FAILURES, in_one_line
from spark_graph_jobs.spark.jars import Jars, NoJar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WISHES: Final = ("auto", "graphframes", "driver")
"""Values of --engine. `auto` is GraphFrames if its jars can be found and work."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An engine, and a one-line reason if it is not the default engine. The notice is empty for the default engine."""

    engine: GraphEngine
    notice: str


def choose(session: SparkSession, wish: str, jars: Jars | NoJar) -> Choice:
    """Return the engine for a session that was started with the settings of `jars`, or by spark-submit with its own.

    If `wish` is GraphFrames and it does not work, the engine refuses every question with the reason.
    """
    assert wish in WISHES, f"no engine {wish}"
    if wish == "driver":
        return Choice(DriverEngine(), "")
    failure = try_out(session)
    if failure is None:
        return Choice(GraphFramesEngine(), "")
    reason = (
        jars.reason
        if isinstance(jars, NoJar)
        else f"GraphFrames does not work with {jars} ({jars.found}): {failure};"
        " --graphframes-jar FILE, repeated, gives all its jars"
    )
    if wish == "graphframes":
        return Choice(RefusingEngine(reason), reason)
    engine = DriverEngine()
    return Choice(engine, f"{reason}; going on with the engine {engine.name}")


def try_out(session: SparkSession) -> str | None:
    """Build a graph of one arc and read it with GraphFrames; return the failure, or None.

    A class found in one jar proves nothing about the other jars. The jars may also come from --jars or --packages of
    spark-submit.
    """
    try:
        vertices = session.createDataFrame([(1,), (2,)], "id long")
        arcs = session.createDataFrame([(1, 2)], "src long, dst long")
        found = [tuple(row) for row in GraphFramesEngine().motifs(vertices, arcs, "(x)-[]->(y)").collect()]
    except (*SPARK_FAILURES, ImportError) as error:
        return in_one_line(error)
    return None if found == [(1, 2)] else f"of a graph of one arc it says {found}"
