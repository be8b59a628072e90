"""The names that `import namegraph` provides, and the modules that it does not load."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import namegraph

ROOT = Path(namegraph.__file__).parents[1]


def imports_of_the_core(source):
    for node in ast.walk(ast.parse(source.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "namegraph":
            for alias in node.names:
                yield node.module, alias.name


@pytest.mark.parametrize("name", sorted(namegraph._HOME))
def test_every_public_name_is_there(name):
    assert getattr(namegraph, name) is not None


def test_type_checkers_are_told_of_the_same_names():
    said = {name: module for module, name in imports_of_the_core(Path(namegraph.__file__))}
    assert said == namegraph._HOME


def test_a_name_that_is_not_there_is_an_attribute_error():
    with pytest.raises(AttributeError):
        namegraph.nothing  # noqa: B018


def test_the_rules_for_names_load_nothing_else_of_the_core():
    program = "import sys\nfrom namegraph import parse_name\nprint(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name for name in found.stdout.split() if name.split(".")[0] in {"namegraph", "msgspec", "rustworkx"}}
    assert loaded == {"namegraph", "namegraph.model", "namegraph.model.names"}


def test_the_rules_for_details_load_nothing_of_the_core_but_those_for_names():
    program = "import sys\nfrom namegraph import checked_details\nprint(*sys.modules)"
    found = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = {name for name in found.stdout.split() if name.split(".")[0] in {"namegraph", "rustworkx"}}
    rules = {"namegraph.model.group_details", "namegraph.model.names"}
    assert loaded == {"namegraph", "namegraph.model", *rules}


def test_the_client_shares_the_rules_for_names_details_and_audit_logs_alone():
    shared = {
        namegraph._HOME[name]
        for source in (ROOT / "shadowtree").rglob("*.py")
        for _, name in imports_of_the_core(source)
    }
    assert shared == {"namegraph.model.audit_chain", "namegraph.model.group_details", "namegraph.model.names"}
