"""Search for the jars of GraphFrames: see `spark_graph_jobs.spark.jars`."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from spark_graph_jobs.spark.jars import AskRegistry, Jars, NoJar, Package, look_for, no_jar_at


def package() -> Package | None:
    """Return the package whose jars fit the Python package; None if the Python package is not installed.

    The core of GraphFrames keeps its copy of GraphX in a jar of its own.
    """
    try:
        built_for = f"spark{version('pyspark').split('.', maxsplit=1)[0]}_2.13"
        number = version("graphframes-py")
    except PackageNotFoundError:
        return None
    return Package(f"io.graphframes:graphframes-{built_for}:{number}", (f"graphframes-graphx-{built_for}",))


def find_jars(
    given: Sequence[Path],
    *,
    repositories: Sequence[Path] | None = None,
    spark_jars: Path | None = None,
    ask_registry: AskRegistry | None = None,
) -> Jars | NoJar:
    """Return the given jars, or else the jars that `look_for` finds."""
    wanted = package()
    if wanted is None:
        return NoJar("graphframes-py is not installed; in the sources: pip install '.[audit]'")
    if given:
        wrong = no_jar_at(given)
        return NoJar(wrong) if wrong else Jars(tuple(given), "given")
    found = look_for(wanted, repositories=repositories, spark_jars=spark_jars, ask_registry=ask_registry)
    if found is None:
        names = " and ".join(f"{wanted.group}:{artifact}:{wanted.version}" for artifact in wanted.artifacts)
        return NoJar(
            f"no jars of GraphFrames: {names} are neither in a local Maven repository nor in Maven Central;"
            " give both with --graphframes-jar FILE (docs/audit.md)"
        )
    wrong = no_jar_at(found.paths)
    return NoJar(f"{wrong}; it was found {found.found}") if wrong else found
