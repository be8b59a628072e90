"""Where the jar of GraphFrames is: see `spark_graph_jobs.spark.jars`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

from spark_graph_jobs.spark.jars import AskRegistry, Jar, NoJar, look_for

SUPPLIED: Final = "graphframes-spark*.jar"
"""The name of a jar that is already among those of Spark."""


def coordinates() -> str | None:
    """`group:artifact:version` of the jar that fits the Python package, or None where that is not installed."""
    try:
        major = version("pyspark").split(".", maxsplit=1)[0]
        return f"io.graphframes:graphframes-spark{major}_2.13:{version('graphframes-py')}"
    except PackageNotFoundError:
        return None


def find_jar(
    given: Path | None,
    *,
    repositories: Sequence[Path] | None = None,
    spark_jars: Path | None = None,
    ask_registry: AskRegistry | None = None,
) -> Jar | NoJar:
    """The jar that was given, or is found where `look_for` looks."""
    wanted = coordinates()
    if wanted is None:
        return NoJar("graphframes-py is not installed; in the sources: pip install '.[audit]'")
    if given is not None:
        return Jar(given, "given") if given.is_file() else NoJar(f"there is no jar at {given}")
    found = look_for(
        wanted, among_spark=SUPPLIED, repositories=repositories, spark_jars=spark_jars, ask_registry=ask_registry
    )
    return found or NoJar(
        f"no jar of GraphFrames: {wanted} is neither in a local Maven repository nor in Maven Central;"
        " give it with --graphframes-jar FILE (docs/audit.md)"
    )
