"""Search for the Java that Spark runs on: 17 or 21."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

VERSIONS: Final = (17, 21)
"""Versions of Java with which Spark 4 is tested."""

ANSWER_SECONDS: Final = 20

USUAL_FOLDERS: Final = (
    "/usr/lib/jvm/*",
    "/usr/java/*",
    "/opt/java*",
    "/opt/*jdk*",
    "/Library/Java/JavaVirtualMachines/*/Contents/Home",
    "/opt/homebrew/opt/openjdk@*",
    "/usr/local/opt/openjdk@*",
    "~/.sdkman/candidates/java/*",
    "~/.jdks/*",
)

INSTALLERS: Final = (
    ("apt-get", "sudo apt-get install openjdk-17-jre-headless"),
    ("dnf", "sudo dnf install java-21-openjdk-headless"),
    ("apk", "sudo apk add openjdk17-jre-headless"),
    ("brew", "brew install openjdk@17"),
)


def find_java(environment: Mapping[str, str] = os.environ) -> Path | None:
    """Return the home of a suitable Java: that of JAVA_HOME, the one on the PATH, or one in the usual folders."""
    return next((home for home in _homes(environment) if version_of(home) in VERSIONS), None)


def version_of(home: Path) -> int | None:
    """Return the major version of the Java in a folder; None if no Java answers."""
    try:
        told = subprocess.run(  # noqa: S603 - a usual place of Java, or the user's choice
            [home / "bin/java", "-version"], capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r'version "(\d+)', told.stderr + told.stdout)
    return int(found[1]) if found is not None else None


def how_to_install() -> str:
    """Return the command that installs a Java on this machine."""
    return next((command for tool, command in INSTALLERS if shutil.which(tool)), "see https://adoptium.net")


def _homes(environment: Mapping[str, str]) -> Iterator[Path]:
    if environment.get("JAVA_HOME"):
        yield Path(environment["JAVA_HOME"])
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path is not None:
        yield Path(on_path).resolve().parent.parent
    for pattern in USUAL_FOLDERS:
        folder = Path(pattern).expanduser()
        root = Path(folder.anchor)
        yield from sorted(root.glob(str(folder.relative_to(root))))
