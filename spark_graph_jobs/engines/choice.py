"""Which engine an audit gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JError

from spark_graph_jobs.engines.interface import EngineRefusedError, GraphEngine
from spark_graph_jobs.engines.on_driver import DriverEngine
from spark_graph_jobs.engines.with_graphframes import GraphFramesEngine
from spark_graph_jobs.spark.jars import Jar, NoJar

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WISHES: Final = ("auto", "graphframes", "driver")
"""`auto` is GraphFrames wherever its jar can be had."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An engine, and the one line that tells why it is not the default one; empty where it is."""

    engine: GraphEngine
    notice: str


def jar_settings(jar: Jar | NoJar) -> dict[str, str]:
    """The settings with which a session must start so that GraphFrames can be used in it."""
    return {"spark.jars": str(jar.path)} if isinstance(jar, Jar) else {}


def choose(session: SparkSession, wish: str, jar: Jar | NoJar) -> Choice:
    """The engine for a session that was started with `jar_settings`, or by spark-submit with settings of its own.

    Where GraphFrames was wished for and cannot be had, `EngineRefusedError` says why.
    """
    assert wish in WISHES, f"no engine {wish}"
    if wish == "driver":
        return Choice(DriverEngine(), "")
    if _has_graphframes(session):
        return Choice(GraphFramesEngine(), "")
    reason = jar.reason if isinstance(jar, NoJar) else f"{jar.path} is not a jar of GraphFrames for this Spark"
    if wish == "graphframes":
        raise EngineRefusedError(reason)
    engine = DriverEngine()
    return Choice(engine, f"{reason}; going on with the engine {engine.name}")


def _has_graphframes(session: SparkSession) -> bool:
    """Whether the class is on the class path: the jar may have come by --jars or --packages of spark-submit."""
    try:
        loader = session.sparkContext._jvm.Thread.currentThread().getContextClassLoader()  # type: ignore[union-attr]
        loader.loadClass("org.graphframes.GraphFramePythonAPI")
    except Py4JError:
        return False
    return True
