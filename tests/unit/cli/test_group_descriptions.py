"""Descriptions of groups on the command line: created with, set, shown, searched, and refused by name."""

import json
import os

import pytest

A, B = "a@x.example", "b@y.example"


@pytest.fixture
def graph(graph):
    graph.groups, graph.details = {A, B}, {B: {"description": "Robots 🤖"}}
    return graph


def test_a_group_is_created_with_a_description(shadowtree, graph):
    found = shadowtree("group", "create", "new@x.example", "--description", "Chemistry", "--format", "json")
    assert (found.status, found.json["effects"]) == (0, [])
    assert graph.details["new@x.example"] == {"description": "Chemistry"}


def test_a_description_is_set_and_removed(shadowtree, graph):
    assert shadowtree("group", "set", A, "--description", "Chemistry").status == 0
    assert graph.details[A] == {"description": "Chemistry"}
    assert shadowtree("group", "set", A, "--description", "").status == 0
    assert A not in graph.details
    found = shadowtree("group", "set", B, "--description", "Physics", "--request-id", "mine", "--format", "json")
    assert found.json["revision"]


@pytest.mark.parametrize("command", [("describe",), ("group", "describe")])
@pytest.mark.parametrize("more", [(), ("--internal",)])
def test_a_description_is_a_line_of_describe_where_there_is_one(shadowtree, graph, command, more):
    assert shadowtree(*command, B, *more).lines[:3] == [f"group\t{B}", "home\tfake", "description\tRobots 🤖"]
    assert "description" not in shadowtree(*command, A, *more).out


def test_json_always_has_a_description(shadowtree, graph):
    assert shadowtree("describe", B, "--format", "json").json["description"] == "Robots 🤖"
    assert shadowtree("describe", A, "--format", "json").json["description"] == ""


def test_groups_are_listed_by_a_text_in_name_or_description(shadowtree, graph):
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
def test_a_bad_description_is_wrong_usage_told_in_one_line(shadowtree, graph, text, why):
    for arguments in (("create", "new@x.example"), ("set", A)):
        found = shadowtree("group", *arguments, "--description", text)
        assert (found.status, found.out) == (2, "")
        assert found.err.count("\n") == 1
        assert why in found.err
        as_json = shadowtree("group", *arguments, "--description", text, "--format", "json")
        error = json.loads(as_json.err)["error"]
        assert (error["reason"], error["facts"]["field"]) == ("INVALID_REQUEST", "description")
    assert (graph.groups, graph.details) == ({A, B}, {B: {"description": "Robots 🤖"}})


def test_a_bad_text_to_search_for_is_wrong_usage(shadowtree):
    found = shadowtree("group", "list", "--contains", "a\x1bb")
    assert (found.status, found.out) == (2, "")
    assert "invalid contains: character 2 (U+001B) is a control character" in found.err


def test_nothing_to_set_is_wrong_usage(shadowtree, graph):
    found = shadowtree("group", "set", A)
    assert found.status == 2
    assert "give --description TEXT" in found.err


def test_a_group_that_does_not_exist_is_named(shadowtree, graph):
    found = shadowtree("group", "set", "nobody@x.example", "--description", "text")
    assert found.status == 4
    assert "nobody@x.example" in found.err


def test_a_server_of_before_is_named_as_older(shadowtree, graph):
    graph.is_of_before = True
    created = shadowtree("group", "create", "new@x.example", "--description", "Chemistry")
    assert created.status == 4
    assert "created, but without its details" in created.err
    assert "new@x.example" in graph.groups
    assert shadowtree("group", "create", "other@x.example").status == 0
    assert "does not know this call" in shadowtree("group", "set", A, "--description", "text").err
    searched = shadowtree("group", "list", "--contains", "text")
    assert (searched.status, searched.out) == (4, "")
    assert "the server does not search: the server is older than this client; upgrade it" in searched.err


def test_an_import_of_descriptions_to_a_server_of_before_says_what_is_missing(shadowtree, graph, tmp_path):
    graph.is_of_before = True
    file = tmp_path / "graph.jsonl"
    row = {"parent": "new@x.example", "child": "", "kind": "group"}
    file.write_text(json.dumps(row) + "\n")
    assert shadowtree("import", file).status == 0
    file.write_text(json.dumps({**row, "description": "text"}) + "\n")
    found = shadowtree("import", file)
    assert found.status == 4
    assert "the graph was imported, but details of some groups were not" in found.err
