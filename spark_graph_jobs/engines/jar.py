"""Where the jar of GraphFrames is, found before Spark starts.

Spark asked for a package that cannot be had fails to start, with a stack trace. So it is never asked: the jar is looked
for where it may be, a registry is asked by Ivy, which comes with Spark, in a process of its own, and what is found is
handed to Spark as a file.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import pyspark

REGISTRY_SECONDS: Final = 60
"""How long a registry may take to answer; the audit then goes on without it."""

SUPPLIED: Final = "graphframes"
"""How the name of a jar begins that is already among those of Spark."""


@dataclass(frozen=True, slots=True)
class Jar:
    """A jar that was found, and where."""

    path: Path
    found: str


@dataclass(frozen=True, slots=True)
class NoJar:
    """There is no jar to be had; `reason` says in one line what was tried and what to do."""

    reason: str


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
    ask_registry: Callable[[str, Path], Path | None] | None = None,
) -> Jar | NoJar:
    """The jar that was given, that is among Spark's own, in a local Maven repository or Ivy cache, or in a registry.

    `repositories`, `spark_jars` and `ask_registry` are what this machine has, unless stated.
    """
    wanted = coordinates()
    if wanted is None:
        return NoJar("graphframes-py is not installed: pip install 'shadowtree[audit]'")
    if given is not None:
        return Jar(given, "given") if given.is_file() else NoJar(f"there is no jar at {given}")
    jars = _jars_of_spark() if spark_jars is None else spark_jars
    for path in sorted(jars.glob(f"{SUPPLIED}-spark*.jar")):
        return Jar(path, "among the jars of Spark")
    group, artifact, number = wanted.split(":")
    name = f"{artifact}-{number}.jar"
    for repository in _local_repositories() if repositories is None else repositories:
        for path in (
            repository.joinpath(*group.split("."), artifact, number, name),  # Maven
            repository / f"{group}_{name}",  # jars that Spark once retrieved with Ivy
        ):
            if path.is_file():
                return Jar(path, f"in {repository}")
    retrieved = (ask_registry or _ask_registry)(wanted, jars)
    if retrieved is not None:
        return Jar(retrieved, "from Maven Central")
    return NoJar(
        f"no jar of GraphFrames: {wanted} is neither in a local Maven repository nor in Maven Central;"
        " give it with --graphframes-jar FILE (docs/audit.md)"
    )


def _local_repositories() -> list[Path]:
    home = Path.home()
    return [home / ".m2" / "repository", *sorted(home.glob(".ivy2*/jars"))]


def _jars_of_spark() -> Path:
    return Path(pyspark.__file__).parent / "jars"


def _java() -> str:
    """The Java that Spark will run on."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


def _ask_registry(wanted: str, jars: Path) -> Path | None:
    """The jar in Ivy's cache after asking its registries, or None."""
    group, artifact, number = wanted.split(":")
    folder = Path.home() / ".ivy2" / "jars"
    path = folder / f"{group}_{artifact}-{number}.jar"
    for ivy in sorted(jars.glob("ivy-*.jar")):
        command = [_java(), "-jar", str(ivy), "-m2compatible", "-error", "-notransitive"]
        command += ["-dependency", group, artifact, number]
        command += ["-retrieve", str(folder / "[organisation]_[artifact]-[revision].[ext]")]
        try:
            subprocess.run(command, capture_output=True, timeout=REGISTRY_SECONDS, check=False)  # noqa: S603  (fixed)
        except (subprocess.TimeoutExpired, FileNotFoundError):
            return None
        break
    return path if path.is_file() else None
