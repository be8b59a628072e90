"""Programs built from `proto/` alone, in Go and in Python, make ten calls of a real server.

`go.mod` and `go.sum` pin Go's modules. Without Go or its modules Python's calls are made all the same, and the closing
lines say that those of Go were not.
"""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import grpc_tools
import pytest
from grpc_tools import protoc

from tests.integration.nameserver.conftest import start  # noqa: F401 - a fixture

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PROTOS = sorted((ROOT / "proto/shadowtree/v1").glob("*.proto"))
GO_SECONDS = 500
"""Limit on the seconds of a first build, with all downloads."""

EXPECTED = [
    ["CreateGroup", True],
    ["Import", 2, 1],
    ["Join", True],
    ["Join again", True],
    ["Check", True, ["team@b.c", "lab@x.y", "Doe, Bob@e.f"]],
    ["Resolve", ["Doe, Bob@e.f", "ann@e.f"], ["lab@x.y"]],
    ["CheckBulk", 1, 2],
    ["ListMemberships", ["lab@x.y", "team@b.c"]],
    ["DeleteGroup", "FailedPrecondition", "shadowtree", "GROUP_IN_USE", ["Doe, Bob@e.f", "ann@e.f"]],
    ["GetStatus", 2, 3],
]


@pytest.fixture
def address(start):  # noqa: F811
    return start().address


def generate(*options):
    standard = Path(grpc_tools.__file__).parent / "_proto"
    assert protoc.main(["protoc", f"-I{ROOT / 'proto'}", f"-I{standard}", *options, *map(str, PROTOS)]) == 0


def what_it_says(*command):
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.splitlines()]


def test_ten_calls_of_python_stubs(address, tmp_path):
    generate(f"--python_out={tmp_path}", f"--grpc_python_out={tmp_path}")
    for package in (tmp_path / "shadowtree", tmp_path / "shadowtree/v1"):
        (package / "__init__.py").touch()
    assert what_it_says(sys.executable, "-I", HERE / "ten_calls.py", tmp_path, address) == EXPECTED


@pytest.fixture(scope="module")
def go_program(tmp_path_factory):
    """The program, built from generated code. Without Go the tests that need it are skipped, and named."""
    if shutil.which("go") is None:
        pytest.skip("there is no Go on this machine")
    folder = tmp_path_factory.mktemp("go")
    shutil.copytree(HERE / "go", folder, dirs_exist_ok=True)
    said = go(folder, "mod", "download")
    if said.returncode != 0:
        pytest.skip(f"Go cannot have what it needs: {said.stderr.strip().splitlines()[-1]}")
    plugins = folder / "plugins"
    build(folder, "-o", f"{plugins}/", "tool")
    generate(
        f"--plugin=protoc-gen-go={plugins / 'protoc-gen-go'}",
        f"--plugin=protoc-gen-go-grpc={plugins / 'protoc-gen-go-grpc'}",
        f"--go_out={folder}",
        f"--go-grpc_out={folder}",
        "--go_opt=paths=source_relative",
        "--go-grpc_opt=paths=source_relative",
    )
    build(folder, "-o", "tencalls", ".")
    return folder / "tencalls"


def go(folder, *arguments):
    return subprocess.run(
        ["go", *arguments], cwd=folder, capture_output=True, text=True, check=False, timeout=GO_SECONDS
    )


def build(folder, *arguments):
    built = go(folder, "build", *arguments)
    assert built.returncode == 0, built.stderr


def test_ten_calls_of_a_go_program(go_program, address):
    assert what_it_says(go_program, address) == EXPECTED


def test_the_page_has_the_go_program_s_words():
    """Its example is taken from the program, so that what it shows compiles."""
    page = (ROOT / "docs/grpc.md").read_text()
    (example,) = re.findall(r"^```go\n(.*?)^```", page, re.S | re.M)
    source = (HERE / "go/main.go").read_text()
    lines = [line.strip() for line in example.splitlines() if line.strip()]
    assert lines
    assert [line for line in lines if line not in source] == []
