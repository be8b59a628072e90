"""A field of a group is one definition: CONTRIBUTING.md lists the files that a further field touches.

A trial adds the field `contact` to a copy of the sources: in the definition, on the wire and in the answer of
`describe`. What follows from these, as the page says, is then used through real servers.
"""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import grpc_tools
import pytest
from grpc_tools import protoc

ROOT = Path(__file__).parents[2]
PACKAGES = ("namegraph", "resolver", "delivery", "storage", "migrations", "nameserver", "shadowtree", "proto")
FILES_LIMIT = 18
SECONDS = 120

DEFINITION, WIRE, ANSWER = (
    "namegraph/model/group_details.py",
    "proto/shadowtree/v1/names.proto",
    "shadowtree/results.py",
)


@pytest.fixture(scope="module")
def listed():
    """The files in the table of the page."""
    section = (ROOT / "CONTRIBUTING.md").read_text().partition("**Adding a field of a group.**")[2]
    table = section.partition("\n\n")[2].partition("\n\n")[0]
    return re.findall(r"^\| `([\w./]+)` \|", table, re.MULTILINE)


def test_few_files_are_listed_and_each_has_the_description(listed):
    assert {DEFINITION, WIRE, ANSWER} <= set(listed)
    assert len(listed) == len(set(listed)) <= FILES_LIMIT
    for path in listed:
        assert "description" in (ROOT / path).read_text(), path


def add(path, line, after):
    """Add a line of a field after that of the description."""
    text = path.read_text()
    assert text.count(after) == 1, (path, after)
    path.write_text(text.replace(after, f"{after}{line}"))


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """The sources with a further field of groups."""
    folder = tmp_path_factory.mktemp("sources")
    for package in PACKAGES:
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__", "examples"))
    description = '    description: Annotated[str, Meta(max_length=1_000, description="text for people")] = ""\n'
    contact = '    contact: Annotated[str, Meta(max_length=100, description="who answers for the group")] = ""\n'
    add(folder / DEFINITION, contact, description)
    add(folder / WIRE, "  // Who answers.\n  optional string contact = 2;\n", "  optional string description = 1;\n")
    add(folder / ANSWER, '    contact: str = ""\n', '    description: str = ""\n')
    arguments = [f"-I{folder / 'proto'}", f"-I{Path(grpc_tools.__file__).parent / '_proto'}", f"--python_out={folder}"]
    assert protoc.main(["protoc", *arguments, *map(str, (folder / "proto/shadowtree/v1").glob("*.proto"))]) == 0
    return folder


USE = """
import json, pathlib, subprocess, sys
import grpc, pyarrow.parquet
import shadowtree
from shadowtree.client import calls

folder, home = pathlib.Path(sys.argv[1]), sys.argv[2]
assert pathlib.Path(shadowtree.__file__).is_relative_to(home), shadowtree.__file__

def serve():
    arguments = ["--subnet", "x", "--listen", "127.0.0.1:0", "--database", f"sqlite:///{folder}/names.db"]
    command = [sys.executable, "-m", "shadowtree", "serve", *arguments]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return server, server.stdout.readline().split()[-1]

def details(names, group):
    found = names.describe(group)
    return [found.description, found.contact]

told = {}
server, address = serve()
with shadowtree.Client(address) as names:
    names._call(calls.create_group("g@x", effects=False, request_id=None, details={"contact": "ann"}), None)
    names._call(calls.set_details({"g@x": {"description": "text"}}, request_id=None), None)
    try:
        names._call(calls.set_details({"g@x": {"contact": "x" * 101}}, request_id=None), None)
    except shadowtree.InvalidRequest as error:
        told["refused"] = [error.message, error.facts]
server.kill()
server.wait()
server, address = serve()
with shadowtree.Client(address) as names:
    names.rename_group("g@x", "h@x")
    told["described"] = details(names, "h@x")
    told["found"] = list(names.groups(contains="ANN"))
    names.export_file(folder / "graph.jsonl")
    names.delete_group("h@x")
    names.import_file(folder / "graph.jsonl")
    told["imported"] = details(names, "h@x")
    told["file"] = json.loads((folder / "graph.jsonl").read_text())
    snapshot = names.snapshot(folder / "snapshot")
    told["snapshot"] = pyarrow.parquet.read_table(pathlib.Path(snapshot.folder) / "details.parquet").to_pylist()
server.terminate()
server.wait()
print(json.dumps(told))
"""


def test_a_further_field_is_kept_found_exported_and_imported_by_its_definition_alone(sources, tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", USE, tmp_path, sources],
        env={**os.environ, "PYTHONPATH": str(sources)},
        capture_output=True,
        cwd=tmp_path,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "refused": ["invalid contact: it has 101 characters; shorten it to at most 100", {"field": "contact"}],
        "described": ["text", "ann"],
        "found": ["h@x"],
        "imported": ["text", "ann"],
        "file": {"parent": "h@x", "child": "", "kind": "group", "description": "text", "contact": "ann"},
        "snapshot": [{"group": "h@x", "description": "text", "contact": "ann"}],
    }
