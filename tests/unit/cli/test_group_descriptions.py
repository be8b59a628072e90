"""Descriptions of groups on the command line: created with, set, shown, searched, and refused by name."""

import json
import os

import pytest

from shadowtree import Client
from tests.fakes.call_relay import changing, unknown

A, B = "a@x.example", "b@y.example"


@pytest.fixture(autouse=True)
def groups(server):
    """Create two groups, one of which has a description."""
    server.fill(A, B)
    with Client(server.address) as names:
        names.set_group(B, description="Robots 🤖")


@pytest.fixture
def of_before(relay):
    """Change the answers of the server to those of a server that knows no details."""
    relay.set(unknown, "SetDetails")
    relay.set(changing(lambda change: change.ClearField("details_kept")), "CreateGroup")
    relay.set(changing(lambda page: page.ClearField("is_searched")), "ListGroups")


def descriptions(server):
    """Return the descriptions of all groups, as the server has them."""
    with Client(server.address) as names:
        return {group: names.describe(group).description for group in sorted(server.groups)}


def test_a_group_is_created_with_a_description(shadowtree, server):
    found = shadowtree("group", "create", "new@x.example", "--description", "Chemistry", "--format", "json")
    assert (found.status, found.json["effects"]) == (0, [])
    assert descriptions(server)["new@x.example"] == "Chemistry"


def test_a_description_is_set_and_removed(shadowtree, server):
    assert shadowtree("group", "set", A, "--description", "Chemistry").status == 0
    assert descriptions(server)[A] == "Chemistry"
    assert shadowtree("group", "set", A, "--description", "").status == 0
    assert descriptions(server)[A] == ""
    found = shadowtree("group", "set", B, "--description", "Physics", "--request-id", "mine", "--format", "json")
    assert found.json["revision"]


@pytest.mark.parametrize("command", [("describe",), ("group", "describe")])
@pytest.mark.parametrize("more", [(), ("--internal",)])
def test_a_description_is_a_line_of_describe_where_there_is_one(shadowtree, command, more):
    assert shadowtree(*command, B, *more).lines[:3] == [f"group\t{B}", "home\tx.example", "description\tRobots 🤖"]
    assert "description" not in shadowtree(*command, A, *more).out


def test_json_always_has_a_description(shadowtree):
    assert shadowtree("describe", B, "--format", "json").json["description"] == "Robots 🤖"
    assert shadowtree("describe", A, "--format", "json").json["description"] == ""


def test_groups_are_listed_by_a_text_in_name_or_description(shadowtree):
    assert shadowtree("group", "list", "--contains", "ROBOT").lines == [B]
    assert shadowtree("group", "list", "--contains", "example").lines == [A, B]
    assert shadowtree("group", "list", "--contains", "example", "--subnet", "x.example").lines == [A]
    none = shadowtree("group", "list", "--contains", "nothing", "--format", "json")
    assert (none.status, none.json) == (0, {"groups": []})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("two\nlines", "invalid description: character 4 (U+000A) is a control character"),
        ("x" * 1_001, "invalid description: it has 1,001 characters; shorten it to at most 1,000"),
        (os.fsdecode(b"caf\xe9"), "character 4 (U+DCE9) is no Unicode character (the text is not UTF-8)"),
    ],
)
def test_a_bad_description_is_wrong_usage_told_in_one_line(shadowtree, server, text, why):
    for arguments in (("create", "new@x.example"), ("set", A)):
        found = shadowtree("group", *arguments, "--description", text)
        assert (found.status, found.out) == (2, "")
        assert found.err.count("\n") == 1
        assert why in found.err
        as_json = shadowtree("group", *arguments, "--description", text, "--format", "json")
        error = json.loads(as_json.err)["error"]
        assert (error["reason"], error["facts"]["field"]) == ("INVALID_REQUEST", "description")
    assert descriptions(server) == {A: "", B: "Robots 🤖"}


def test_a_bad_text_to_search_for_is_wrong_usage(shadowtree):
    found = shadowtree("group", "list", "--contains", "a\x1bb")
    assert (found.status, found.out) == (2, "")
    assert "invalid contains: character 2 (U+001B) is a control character" in found.err


def test_nothing_to_set_is_wrong_usage(shadowtree):
    found = shadowtree("group", "set", A)
    assert found.status == 2
    assert "give --description TEXT" in found.err


def test_a_group_that_does_not_exist_is_named(shadowtree):
    found = shadowtree("group", "set", "nobody@x.example", "--description", "text")
    assert found.status == 4
    assert "nobody@x.example" in found.err


def test_a_server_of_before_is_named_as_older(shadowtree, server, of_before):
    created = shadowtree("group", "create", "new@x.example", "--description", "Chemistry")
    assert created.status == 4
    assert "created, but without its details" in created.err
    assert "new@x.example" in server.groups
    assert shadowtree("group", "create", "other@x.example").status == 0
    assert "does not know this call" in shadowtree("group", "set", A, "--description", "text").err
    searched = shadowtree("group", "list", "--contains", "text")
    assert (searched.status, searched.out) == (4, "")
    assert "the server does not search: the server is older than this client; upgrade it" in searched.err


def test_an_import_of_descriptions_to_a_server_of_before_says_what_is_missing(shadowtree, of_before, tmp_path):
    file = tmp_path / "graph.jsonl"
    row = {"parent": "new@x.example", "child": "", "kind": "group"}
    file.write_text(json.dumps(row) + "\n")
    assert shadowtree("import", file).status == 0
    file.write_text(json.dumps({**row, "description": "text"}) + "\n")
    found = shadowtree("import", file)
    assert found.status == 4
    assert "the graph was imported, but details of some groups were not" in found.err
