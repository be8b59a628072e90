"""The `Dockerfile` makes an image that runs a name server: its steps, carried out here without Docker.

The wheel is built by the very command of the Dockerfile from nothing but what that copies, and installed into an empty
environment, which borrows only the dependencies of this one.
"""

import json
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

from tests.integration.nameserver.server_process import PATIENCE_SECONDS
from tests.project.container_files import (
    DOCKERFILE,
    ROOT,
    arguments_of,
    environment_of,
    health_command_of,
    read_dockerfile,
)

BUILD, IMAGE = read_dockerfile()
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
PACKAGES = sorted(pattern.removesuffix("*") for pattern in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"])


def copied_paths():
    """Return the paths that the build stage copies out of the project, as (source, destination)."""
    for arguments in arguments_of(BUILD, "COPY"):
        *sources, target = arguments.split()
        for source in sources:
            yield source, f"{target}{source}" if target.endswith("/") else target


def tracked_files(*paths):
    listed = subprocess.run(["git", "ls-files", "--", *paths], capture_output=True, text=True, check=True, cwd=ROOT)
    return listed.stdout.splitlines()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel with the Dockerfile's command, from the files that it copies."""
    folder = tmp_path_factory.mktemp("build")
    for source, target in copied_paths():
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, folder / target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / source, folder / target)
    (command,) = (line for line in arguments_of(BUILD, "RUN") if line.startswith("pip wheel "))
    tools = Path(sys.executable).parent
    built = subprocess.run(
        command,
        shell=True,
        cwd=folder,
        env=clean_environment() | {"PATH": f"{tools}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    (found,) = (folder / "wheels").glob("*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Return the folder of programs of an environment that has the wheel."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin/python"
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--no-deps", "--no-index", wheel],
        check=True,
        env=clean_environment(),
    )
    # Only the folder is added, not what its own .pth files add: an editable install of the project stays out.
    site = sysconfig.get_path("purelib", vars={"base": str(folder)})
    (Path(site) / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder / "bin"


def clean_environment():
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PIP_", "SHADOWTREE_"))}


def test_everything_that_is_copied_is_there_and_kept_in_git():
    for source, _ in copied_paths():
        assert tracked_files(source), f"{source} is not part of the project"


def test_nothing_that_is_copied_is_kept_from_the_builder():
    lines = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and not line.startswith("#")]
    assert not {source for source, _ in copied_paths()} & set(lines)
    assert {".env", ".git"} <= set(lines)


def test_the_wheel_has_every_file_of_every_package(wheel):
    expected = tracked_files(*PACKAGES)
    assert {Path(name).parts[0] for name in expected} == set(PACKAGES)
    with zipfile.ZipFile(wheel) as archive:
        assert sorted(set(expected) - set(archive.namelist())) == []


def test_the_wheel_carries_the_readme_and_the_licence(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = {Path(name).name: name for name in archive.namelist() if ".dist-info/" in name}
        assert archive.read(names["METADATA"]).decode().endswith((ROOT / "README.md").read_text())
        assert archive.read(names["LICENSE"]) == (ROOT / "LICENSE").read_bytes()


def test_the_installed_command_says_its_version(installed):
    said = subprocess.run(
        [installed / "shadowtree", "--version"], capture_output=True, text=True, check=True, env=clean_environment()
    )
    assert said.stdout == f"shadowtree {PROJECT['project']['version']}\n"


def test_the_image_serves_and_its_health_check_sees_it(installed, tmp_path):
    """What the image starts, as it starts it; the database, the port and the subnet are all that is told."""
    environment = environment_of(IMAGE) | {
        "PATH": str(installed),
        "SHADOWTREE_LISTEN": "127.0.0.1:0",
        "SHADOWTREE_DATABASE": f"sqlite:///{tmp_path}/names.db",
        "SHADOWTREE_SUBNETS": "b.c",
    }
    program, *arguments = [
        word for name in ("ENTRYPOINT", "CMD") for text in arguments_of(IMAGE, name) for word in json.loads(text)
    ]
    server = subprocess.Popen(
        [installed / program, *arguments], env=environment, cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    try:
        serving = re.fullmatch(r"serving b\.c on (\S+)\n", server.stdout.readline())
        assert serving
        environment["SHADOWTREE_SERVER"] = serving[1]
        assert health_status(installed, environment) == 0
        server.terminate()
        assert server.wait(PATIENCE_SECONDS) == 0
    finally:
        server.kill()
        server.communicate()
    assert health_status(installed, environment) != 0


def health_status(installed, environment):
    program, *arguments = health_command_of(IMAGE)
    return subprocess.run(
        [installed / program, *arguments], env=environment, capture_output=True, check=False
    ).returncode


def test_the_image_has_the_driver_of_postgresql_in_the_version_that_was_tested():
    (command,) = (line for line in arguments_of(BUILD, "RUN") if "wheels/*.whl" in line)
    assert '"$(echo wheels/*.whl)[mail,metrics,postgres,traces]"' in command
    assert "--constraint constraints.txt" in command


def test_both_stages_begin_with_one_pinned_python_that_the_project_runs_on():
    (build, _, _), image = arguments_of(BUILD, "FROM")[0].split(), arguments_of(IMAGE, "FROM")[0]
    assert image == build
    pinned = re.fullmatch(r"python:(\d+)\.(\d+)\.\d+-slim-\w+", image)
    assert pinned
    assert (int(pinned[1]), int(pinned[2])) >= (3, 11)


def test_the_image_runs_as_a_user_that_it_made():
    last = [instruction for instruction in IMAGE if instruction.name in {"USER", "RUN", "COPY"}][-1]
    assert last.name == "USER"
    assert last.arguments not in {"root", "0"}
    assert any(
        line.startswith("useradd ") and line.endswith(f" {last.arguments}") for line in arguments_of(IMAGE, "RUN")
    )


def test_the_image_takes_from_the_build_only_what_was_installed():
    (copied,) = arguments_of(IMAGE, "COPY")
    assert copied == "--from=build /opt/shadowtree /opt/shadowtree"
    assert environment_of(IMAGE)["PATH"].split(":")[0] == "/opt/shadowtree/bin"


def test_no_secret_is_in_the_image():
    assert not re.search(r"password|secret|token", DOCKERFILE.read_text(), re.I)
