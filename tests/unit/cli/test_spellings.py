"""Names that differ in letter case alone: told by the commands that write names, and refused with --strict."""

import json

import pytest

A, ANN = "staff@x.example", "ann@z"
OTHER_A, OTHER_ANN = "Staff@x.example", "Ann@z"


@pytest.fixture(autouse=True)
def ann_among_the_staff(server):
    server.fill(arcs={(A, ANN): "process"})


def warned(name, other):
    return f"shadowtree: {name} differs in letter case alone from {other}, which is another name\n"


def test_each_command_that_writes_names_warns_and_names_the_other(shadowtree, tmp_path):
    found = shadowtree("group", "create", OTHER_A)
    assert (found.status, found.err) == (0, warned(OTHER_A, A))
    found = shadowtree("join", OTHER_A, OTHER_ANN)
    assert (found.status, found.err) == (0, warned(OTHER_ANN, ANN) + warned(OTHER_A, A))
    found = shadowtree("apply", "-", stdin=f"+\t{A}\tANN@z\n".encode())
    assert found.status == 0
    assert "ANN@z differs in letter case alone from Ann@z, ann@z, which are other names\n" in found.err
    file = tmp_path / "lists.csv"
    file.write_text("list,address\nall@x.example,Lab@x.example\nlab@x.example,bob@z\n")
    found = shadowtree("import", file)
    assert found.status == 0
    assert warned("Lab@x.example", "lab@x.example") in found.err


def test_strict_refuses_before_anything_is_written(shadowtree, server, tmp_path):
    file = tmp_path / "lists.csv"
    file.write_text("list,address\nall@x.example,Lab@x.example\nlab@x.example,bob@z\n")
    before = (server.groups, server.arcs)
    for command in (
        ("group", "create", OTHER_A),
        ("join", A, OTHER_ANN),
        ("apply", "-"),
        ("import", file),
    ):
        found = shadowtree(*command, "--strict", "--format", "json", stdin=f"+\t{A}\t{OTHER_ANN}\n".encode())
        assert (found.status, found.out) == (4, "")
        error = json.loads(found.err)["error"]
        assert (error["reason"], error["message"].endswith("--strict refuses that")) == ("INVALID_REQUEST", True)
        assert error["facts"]["spellings"]
    assert (server.groups, server.arcs) == before
    assert shadowtree("join", A, "bob@z", "--strict").status == 0


def test_names_without_other_spellings_are_not_spoken_of(shadowtree):
    found = shadowtree("join", A, "bob@z")
    assert (found.status, found.err) == (0, "")


def test_of_many_spellings_the_first_ones_are_named_and_the_others_counted(shadowtree, tmp_path):
    file = tmp_path / "many.tsv"
    file.write_text("".join(f"{A}\t{letter}{n}@z\tmember\n" for n in range(30) for letter in "xX"))
    found = shadowtree("import", file)
    lines = found.err.splitlines()
    assert len(lines) == 21
    assert lines[-1] == "shadowtree: 40 more names differ from others in letter case alone"
