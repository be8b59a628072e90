"""Where a jar is that Spark does not bring, found before Spark starts.

Spark asked for a package that cannot be had fails to start, with a stack trace. So it is never asked: the jar is looked
for where it may be, a registry is asked by Ivy, which comes with Spark, in a process of its own, and what is found is
handed to Spark as a file.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

REGISTRY_SECONDS: Final = 60
"""How long a registry may take to answer; the audit then goes on without it."""

AskRegistry = Callable[[str, Path], Path | None]


@dataclass(frozen=True, slots=True)
class Jar:
    """A jar that was found, and where."""

    path: Path
    found: str


@dataclass(frozen=True, slots=True)
class NoJar:
    """There is no jar to be had; `reason` says in one line what was tried and what to do."""

    reason: str


def look_for(
    coordinates: str,
    *,
    among_spark: str,
    repositories: Sequence[Path] | None = None,
    spark_jars: Path | None = None,
    ask_registry: AskRegistry | None = None,
) -> Jar | None:
    """The jar of these coordinates (`group:artifact:version`), or any among Spark's own whose name has a pattern.

    Then a local Maven repository or Ivy cache is looked into, then a registry asked. `repositories`, `spark_jars` and
    `ask_registry` are what this machine has, unless stated.
    """
    jars = _jars_of_spark() if spark_jars is None else spark_jars
    for path in sorted(jars.glob(among_spark)):
        return Jar(path, "among the jars of Spark")
    group, artifact, number = coordinates.split(":")
    name = f"{artifact}-{number}.jar"
    for repository in _local_repositories() if repositories is None else repositories:
        for path in (
            repository.joinpath(*group.split("."), artifact, number, name),  # Maven
            repository / f"{group}_{name}",  # jars that Spark once retrieved with Ivy
        ):
            if path.is_file():
                return Jar(path, f"in {repository}")
    retrieved = (ask_registry or _ask_registry)(coordinates, jars)
    return None if retrieved is None else Jar(retrieved, "from Maven Central")


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
        command += ["-confs", "default", "-dependency", group, artifact, number]
        command += ["-retrieve", str(folder / "[organisation]_[artifact]-[revision].[ext]")]
        try:
            subprocess.run(command, capture_output=True, timeout=REGISTRY_SECONDS, check=False)  # noqa: S603  (fixed)
        except (subprocess.TimeoutExpired, FileNotFoundError):
            return None
        break
    return path if path.is_file() else None
