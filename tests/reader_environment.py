"""The environment of a page's reader: the packages of `make run`, and the extras that the page has named so far.

    environment = ReaderEnvironment(folder)        as after `pip install .`
    environment.install("metrics")                 as after `pip install '.[metrics]'`

It is a virtual environment of its own. Its packages are links to those of the developers' environment, so that it takes
a second and no network. A package that no named extra brings is missing.
"""

from __future__ import annotations

import re
import subprocess
import sys
import sysconfig
import venv
from collections import defaultdict
from functools import cache
from importlib.metadata import Distribution, PackageNotFoundError, distributions
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

PROJECT = "shadowtree"
SITE_PACKAGES = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
INSTALLED = re.compile(r"pip install '?(?:\.|DIR)\[([\w,]+)\]")
"""Form in which pages name extras."""


def extras_named(text: str) -> set[str]:
    """Return the extras that a text tells its reader to install."""
    return {extra for found in INSTALLED.findall(text) for extra in found.split(",")}


def installed(name: str) -> Distribution:
    """Return a package of the developers' environment; raises `PackageNotFoundError`.

    An editable installation leaves an `.egg-info` folder in the sources, which has no list of files.
    """
    for found in distributions(name=name, path=SITE_PACKAGES):
        return found
    raise PackageNotFoundError(name)


def needed_by(name: str, extras: frozenset[str] = frozenset()) -> dict[str, Distribution]:
    """Return the installed packages that a package needs with some extras, including itself, by canonical name."""
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, frozenset[str]]] = set()
    waiting = [(canonicalize_name(name), extras)]
    while waiting:
        current = waiting.pop()
        if current in seen:
            continue
        seen.add(current)
        package, wanted = current
        found[package] = installed(package)
        for line in found[package].requires or ():
            requirement = Requirement(line)
            marker = requirement.marker
            if marker is None or any(marker.evaluate({"extra": extra}) for extra in wanted or {""}):
                waiting.append((canonicalize_name(requirement.name), frozenset(requirement.extras)))
    return found


class ReaderEnvironment:
    """A virtual environment in a folder."""

    def __init__(self, folder: Path) -> None:
        venv.create(folder, symlinks=True)
        self.programs = folder / "bin"
        self._packages = folder / "lib" / f"python{sys.version_info.major}.{sys.version_info.minor}" / "site-packages"
        self._linked: set[str] = set()
        self._add(needed_by(PROJECT))
        program = self.programs / PROJECT
        source = (Path(sys.executable).parent / PROJECT).read_text(encoding="utf-8")
        _, _, rest = source.partition("\n")
        program.write_text(f"#!{self.python}\n{rest}", encoding="utf-8")
        program.chmod(0o755)

    @property
    def python(self) -> Path:
        return self.programs / "python"

    def install(self, *extras: str) -> None:
        """Add what some extras need."""
        self._add(needed_by(PROJECT, frozenset(extras)))

    def has(self, module: str) -> bool:
        """True if a module can be imported here."""
        command = [str(self.python), "-c", f"import {module}"]
        return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode == 0

    def _add(self, packages: dict[str, Distribution]) -> None:
        for name in packages.keys() - self._linked:
            for path in {_whole(file, name) for file in _files(packages[name])}:
                target = Path(str(packages[name].locate_file(path))).absolute()
                if target.exists():
                    link = self._packages / path
                    link.parent.mkdir(parents=True, exist_ok=True)
                    link.symlink_to(target)
            self._linked.add(name)


def _files(package: Distribution) -> list[str]:
    """Return the files of a package in `site-packages`, without programs and manual pages."""
    record = (package.read_text("RECORD") or "").splitlines()
    return [path for path in (line.rsplit(",", 2)[0].strip('"') for line in record) if not path.startswith(("..", "/"))]


def _folders(file: str) -> list[str]:
    """Return the folders of a file, the highest first."""
    return [file[:end] for end, character in enumerate(file) if character == "/"]


def _whole(file: str, owner: str) -> str:
    """Return the highest folder of a file in which no other package has files, or else the file."""
    return next((folder for folder in _folders(file) if _owners()[folder] == {owner}), file)


@cache
def _owners() -> dict[str, set[str]]:
    """Return the packages with files in each folder. Some folders, such as `google`, are shared."""
    owners: dict[str, set[str]] = defaultdict(set)
    for package in distributions(path=SITE_PACKAGES):
        name = canonicalize_name(package.name)
        for folder in {folder for file in _files(package) for folder in _folders(file)}:
            owners[folder].add(name)
    return owners
