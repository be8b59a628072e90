"""An installation has what the documents say: little for `make run`, a wheel, and types that checkers see."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ENVIRONMENT = Path(sys.executable).parents[1]
FROM_AN_INDEX = re.compile(r"pip install (?:-\S+ )*['\"]?shadowtree(?![\w.-]*/)", re.I)

PROGRAM = """\
import shadowtree

names = shadowtree.Client("127.0.0.1:7400")
reveal_type(names.resolve("a@x").processes)
names.join("a@x", "b@x", kind="person")


async def ask() -> None:
    reveal_type(await shadowtree.aio.Client("127.0.0.1:7400").check("a@x", "b@x"))
"""


def clean_environment():
    """Return the environment of a shell outside of any project. No package is downloaded: builds use the packages of
    the tests.
    """
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PIP_", "MYPY"))}
    return kept | {"PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}


def run(*command, cwd):
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd=cwd, env=clean_environment())
    return found.returncode, found.stdout + found.stderr


@pytest.fixture
def sources(tmp_path):
    """Return a clone of the project, with uncommitted changes."""
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True, cwd=ROOT).stdout
    for name in listed.splitlines():
        if name.partition("/")[0] not in ("tests", "benchmarks", "docs") and (ROOT / name).exists():
            target = tmp_path / "sources" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, target)
    return tmp_path / "sources"


def test_the_types_of_an_editable_installation_are_seen(sources, tmp_path):
    """By default setuptools hides the packages behind a finder, which type checkers do not run."""
    venv.create(tmp_path / "venv", with_pip=False, symlinks=True)
    python = tmp_path / "venv/bin/python"
    site = Path(sysconfig.get_path("purelib", vars={"base": str(tmp_path / "venv")}))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    pip = (sys.executable, "-m", "pip", "--python", python)
    status, said = run(*pip, "install", "--no-deps", "--editable", sources, cwd=tmp_path)
    assert status == 0, said
    (tmp_path / "program.py").write_text(PROGRAM)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", python, "--cache-dir", os.devnull)
    _, said = run(*mypy, "program.py", cwd=tmp_path)
    assert 'program.py:4: note: Revealed type is "tuple[str, ...]"' in said
    assert 'program.py:5: error: Argument "kind"' in said
    assert 'program.py:9: note: Revealed type is "shadowtree.results.Check"' in said
    assert "Found 1 error" in said


def test_make_wheel_writes_one_wheel_with_what_programs_need(sources):
    runnable = ENVIRONMENT / ".runnable"
    status, said = run("make", "--old-file", runnable, "wheel", f"VENV={ENVIRONMENT}", cwd=sources)
    assert status == 0, said
    (wheel,) = (sources / "dist").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        files = set(archive.namelist())
    assert {"shadowtree/py.typed", "shadowtree/v1/names_pb2.pyi", "nameserver/server.py", "migrations/env.py"} <= files
    assert not [name for name in files if name.startswith(("tests/", "benchmarks/"))]


def test_make_run_installs_what_runs_and_no_spark():
    status, said = run("make", "--dry-run", "--always-make", "run", cwd=ROOT)
    assert status == 0, said
    assert "--editable '.'" in said
    assert "[" not in said.partition("--editable")[2].partition("\n")[0]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = {re.split(r"[\[<>=]", line)[0] for line in project["dependencies"]}
    assert needed.isdisjoint({"pyspark", "graphframes-py", "pandas", "pyarrow", "matplotlib", "scipy", "pytest"})


def test_nobody_is_told_to_install_a_name_from_an_index():
    """None is ours there."""
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True, check=True, cwd=ROOT).stdout.split()
    # Kept inputs of the fuzzing are bytes.
    listed = [name for name in listed if not name.startswith("tests/fuzzing/found/")]
    texts = [ROOT / name for name in listed if name.endswith((".md", ".py", ".toml", ".yml")) or "." not in name]
    found = [path for path in texts if path.exists() and FROM_AN_INDEX.search(path.read_text(encoding="utf-8"))]
    assert [path.name for path in found if path != Path(__file__)] == []
    assert FROM_AN_INDEX.search("pip install shadowtree")
    assert FROM_AN_INDEX.search("pip install 'shadowtree[audit]'")
    assert not FROM_AN_INDEX.search("pip install dist/shadowtree-0.1.0-py3-none-any.whl")
