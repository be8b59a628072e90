"""Find jars that Spark does not include, before Spark starts.

If Spark is asked for an unavailable package, it fails to start with a stack trace. Therefore Spark is given files only.
The jars are searched in the usual local places. Then Ivy, which comes with Spark, asks a registry in a process of its
own.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final
from zipfile import is_zipfile

import pyspark

REGISTRY_SECONDS: Final = 60
"""Time in seconds for a registry to answer. Afterwards the audit continues without it."""

LEFT_OUT: Final = ("org.apache.spark", "org.scala-lang", "org.slf4j", "org.checkerframework")
"""Groups of artifacts that Ivy leaves out.

Versions other than Spark's own would break Spark; the last group is never used.
"""


@dataclass(frozen=True, slots=True)
class Package:
    """A package of Spark: the main artifact, and further artifacts that it needs."""

    coordinates: str
    """`group:artifact:version`."""
    needs: tuple[str, ...] = ()
    """Names of further artifacts, in the same group and version."""

    @property
    def group(self) -> str:
        """Group of all artifacts."""
        return self.coordinates.split(":")[0]

    @property
    def version(self) -> str:
        """Version of all artifacts."""
        return self.coordinates.split(":")[2]

    @property
    def artifacts(self) -> tuple[str, ...]:
        """Names of all artifacts, the main artifact first."""
        return (self.coordinates.split(":")[1], *self.needs)


@dataclass(frozen=True, slots=True)
class Jars:
    """The jars of a package, and the place where they were found."""

    paths: tuple[Path, ...]
    found: str

    def __str__(self) -> str:
        return ", ".join(map(str, self.paths))


@dataclass(frozen=True, slots=True)
class NoJar:
    """No jar is available. `reason` says in one line what was tried and what to do."""

    reason: str


AskRegistry = Callable[[Package, Path], Sequence[Path]]
"""Function from a package and the folder of Spark's own jars to the package's jars, none if it is unavailable."""


def jar_settings(*found: Jars | NoJar) -> dict[str, str]:
    """Return the settings with which a session must start to use these jars."""
    paths = [str(path) for jars in found if isinstance(jars, Jars) for path in jars.paths]
    return {"spark.jars": ",".join(paths)} if paths else {}


def no_jar_at(paths: Iterable[Path]) -> str | None:
    """Return the reason why one of these files is no jar, or None if all are jars."""
    for path in paths:
        if not path.is_file():
            return f"there is no jar at {path}"
        if not is_zipfile(path):
            return f"{path} is no jar, or was cut off"
        if "," in str(path):
            return f"Spark takes no jar with a comma in its name: {path}"
    return None


def look_for(
    package: Package,
    *,
    repositories: Sequence[Path] | None = None,
    spark_jars: Path | None = None,
    ask_registry: AskRegistry | None = None,
) -> Jars | None:
    """Return all jars of a package. Jars among Spark's own may have another version.

    Each artifact is searched among the jars of Spark, then in local Maven repositories and Ivy caches. If one is
    missing, a registry is asked for the whole package. `repositories`, `spark_jars` and `ask_registry` default to those
    of this machine.
    """
    jars = _jars_of_spark() if spark_jars is None else spark_jars
    folders = _local_repositories() if repositories is None else repositories
    paths, places = [], []
    for artifact in package.artifacts:
        found = _find_here(package, artifact, jars, folders)
        if found is None:
            retrieved = tuple((ask_registry or _ask_registry)(package, jars))
            return Jars(retrieved, "from Maven Central") if retrieved else None
        path, place = found
        paths.append(path)
        places.append(place)
    return Jars(tuple(paths), ", ".join(dict.fromkeys(places)))


def _find_here(package: Package, artifact: str, jars: Path, folders: Iterable[Path]) -> tuple[Path, str] | None:
    for path in sorted(jars.glob(f"{artifact}-[0-9]*.jar")):
        return path, "among the jars of Spark"
    name = f"{artifact}-{package.version}.jar"
    for folder in folders:
        for path in (
            folder.joinpath(*package.group.split("."), artifact, package.version, name),  # Maven
            folder / f"{package.group}_{name}",  # jars that Spark once retrieved with Ivy
        ):
            if path.is_file():
                return path, f"in {folder}"
    return None


def _local_repositories() -> list[Path]:
    home = Path.home()
    return [home / ".m2" / "repository", *sorted(home.glob(".ivy2*/jars"))]


def _jars_of_spark() -> Path:
    return Path(pyspark.__file__).parent / "jars"


def _java() -> str:
    """Return the Java that Spark will run on."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home, "bin", "java")) if home else "java"


_IVY_MODULE: Final = """<ivy-module version="2.0">
  <info organisation="shadowtree" module="audit"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="{group}" name="{artifact}" rev="{version}" conf="default->default"/>
{excluded}
  </dependencies>
</ivy-module>
"""


def _ask_registry(package: Package, jars: Path) -> Sequence[Path]:
    """Retrieve a package and all its dependencies beside Spark with Ivy; return the jars, kept in Ivy's folder."""
    ivy = next(iter(sorted(jars.glob("ivy-*.jar"))), None)
    if ivy is None:
        return ()
    kept = Path.home() / ".ivy2" / "jars"
    with TemporaryDirectory(prefix="shadowtree-") as name:
        retrieved = Path(name, "jars")
        module = Path(name, "ivy.xml")
        excluded = "\n".join(f'    <exclude org="{group}"/>' for group in LEFT_OUT)
        module.write_text(
            _IVY_MODULE.format(
                group=package.group, artifact=package.artifacts[0], version=package.version, excluded=excluded
            ),
            encoding="utf-8",
        )
        command = [_java(), "-jar", str(ivy), "-m2compatible", "-error", "-ivy", str(module), "-confs", "default"]
        command += ["-types", "jar", "bundle"]
        command += ["-retrieve", str(retrieved / "[organisation]_[artifact]-[revision].[ext]")]
        try:
            done = subprocess.run(command, capture_output=True, timeout=REGISTRY_SECONDS, check=False)  # noqa: S603  (fixed)
        except (subprocess.TimeoutExpired, FileNotFoundError):
            return ()
        found = sorted(retrieved.glob("*.jar")) if done.returncode == 0 else []
        wanted = {f"{package.group}_{artifact}-{package.version}.jar" for artifact in package.artifacts}
        if not wanted <= {path.name for path in found}:
            return ()
        kept.mkdir(parents=True, exist_ok=True)
        return [Path(shutil.copy(path, kept)) for path in found]
