"""Files of steps and expectations: their syntax, and the report if the server acts otherwise."""

import os

import pytest

from shadowtree.cli.commands import validate as validate_of_cli
from shadowtree.cli.validation.steps_file import read_steps
from shadowtree.errors import BadFile

GOOD = """
steps:
  - {op: join, group: all@x.example, member: staff@x.example, note: "a group: it has members below"}
  - {op: join, group: staff@x.example, member: ann@z}
  - {op: join, group: staff@x.example, member: staff@x.example}
  - {op: join, group: all@x.example, member: empty@x.example, kind: group}
  - {op: expect_check, group: all@x.example, member: ann@z, want: true}
  - {op: expect_check, group: all@x.example, member: bob@z, want: false}
  - {op: expect_check, group: unknown@x.example, member: bob@z, want: false}
  - {op: expect_leaves, group: all@x.example, want: [ann@z]}
  - {op: expect_members, group: all@x.example, want: [ann@z]}
  - {op: expect_leaves, group: all@x.example, want: [], known_leaf_prefix: bob}
  - {op: expect_leaf_count, group: all@x.example, want: 1}
  - {op: expect_direct, group: all@x.example, want: [empty@x.example, staff@x.example]}
  - {op: expect_all_members, group: all@x.example, want: [ann@z, empty@x.example, staff@x.example]}
  - {op: expect_groups_of, member: ann@z, want: [all@x.example, staff@x.example]}
  - {op: expect_groups_of, member: ann@z, want: [staff@x.example], prefix: s, suffix: "@x.example"}
  - {op: expect_leaves, group: unknown@x.example, want: []}
  - op: leave
    group: staff@x.example
    member: ann@z
  - {op: expect_leaf_count, group: all@x.example, want: 0}
  - {op: join, group: staff@x.example, member: all@x.example}
  - {op: expect_all_members, group: all@x.example, self_in_cycle: true,
     want: [all@x.example, empty@x.example, staff@x.example]}
  - {op: expect_all_members, group: all@x.example, self_in_cycle: false, want: [empty@x.example, staff@x.example]}
  - {op: expect_direct, group: staff@x.example, want: [all@x.example], drop_self: true}
  - {op: leave, group: staff@x.example, member: all@x.example}
  - {op: delete_group, group: staff@x.example}
  - {op: expect_direct, group: all@x.example, want: [empty@x.example]}
  - {op: create_group, group: staff@x.example}
"""


def test_what_is_no_file_of_steps_is_refused_in_one_line(shadowtree, tmp_path, monkeypatch):
    os.mkfifo(tmp_path / "pipe")
    found = shadowtree("validate", tmp_path / "pipe")
    assert (found.status, found.err.count("\n")) == (4, 1)
    assert "it is no regular file; give - for what comes from a pipe" in found.err
    monkeypatch.setattr(validate_of_cli, "FILE_LIMIT_BYTES", 10)
    assert "there are more than 10 bytes" in shadowtree("validate", "-", stdin=b"steps: []  #").err


@pytest.fixture
def validate(shadowtree, tmp_path):
    def run(text, *options):
        file = tmp_path / "steps.yaml"
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        return shadowtree("validate", file, *options)

    return run


def test_what_is_as_expected_has_status_0_and_is_counted(validate):
    found = validate(GOOD)
    assert (found.out, found.status) == ("26 steps, 17 expectations: all as expected\n", 0)


def test_a_file_can_be_run_again(validate):
    first = GOOD.replace("  - {op: delete_group, group: staff@x.example}\n", "").replace(
        "want: [empty@x.example]}\n", "want: [empty@x.example, staff@x.example]}\n"
    )
    assert validate(first).status == 0
    assert validate(first).status == 0


FAILURES = [
    ("{op: expect_check, group: g@x.example, member: bob@z, want: true}", "expected yes, got no"),
    ("{op: expect_leaf_count, group: g@x.example, want: 7}", "expected 7, got 1"),
    ("{op: expect_leaves, group: g@x.example, want: [bob@z]}", "missing bob@z; not expected ann@z"),
    ("{op: expect_groups_of, member: ann@z, want: []}", "not expected g@x.example"),
    ("{op: leave, group: g@x.example, member: bob@z}", "bob@z is no immediate member of g@x.example"),
    (
        "{op: join, group: two@at@signs, member: bob@z}",
        "invalid name 'two@at@signs': it must hold exactly one '@', not 2 (field: group)",
    ),
    ("{op: delete_group, group: no@x.example}", "there is no group no@x.example (asked the server x.example)"),
]


@pytest.mark.parametrize(("step", "why"), FAILURES)
def test_what_is_not_as_expected_has_status_1_and_is_listed_with_its_place(validate, step, why, tmp_path):
    found = validate(
        f"steps:\n- {{op: join, group: g@x.example, member: ann@z}}\n- {step}\n"
        "- {op: expect_leaf_count, group: g@x.example, want: 1}\n"
    )
    assert found.status == 1
    op = step.split()[1].rstrip(",")
    assert found.lines[0] == f"{tmp_path}/steps.yaml:3: step 2 ({op}): {why}"
    assert found.lines[1].endswith("expectations: 1 failed")


def test_failures_are_listed_in_json(validate):
    found = validate("steps:\n- {op: expect_leaf_count, group: g@x.example, want: 7}\n", "--format", "json")
    assert found.status == 1
    assert found.json == {
        "steps": 1,
        "expectations": 1,
        "failed": [{"line": 2, "step": 1, "op": "expect_leaf_count", "reason": "expected 7, got 0"}],
    }


def test_an_uncertain_answer_ends_the_run_with_its_own_status(validate, beside_one_away):
    for step in (
        "{op: expect_check, group: a@x.example, member: bob@z, want: false}",
        "{op: expect_leaf_count, group: a@x.example, want: 0}",
        "{op: expect_groups_of, member: bob@z, want: []}",
    ):
        found = validate(f"steps:\n- {step}\n")
        assert (found.status, found.out) == (3, "")
        assert "y.example" in found.err


def test_a_server_out_of_reach_ends_the_run(validate):
    assert validate(GOOD, "--server", "127.0.0.1:1", "--timeout", "0.3").status == 4


BAD_FILES = {
    b"": r"the file must be a mapping",
    b"[]": r"the file must be a mapping",
    b"steps: 3": r"the file must be a mapping",
    b"stages: []": r":1: unknown key 'stages'",
    b"steps: [": r":1: this is no YAML: ",
    b"steps:\n\t- x": r":2: this is no YAML: ",
    b"steps: []\nsteps: \xff": r":2: byte 0xFF is no UTF-8",
    b"steps: [\x00]": r"this is no YAML: ",
    b"steps:\n- !!python/object/apply:os.system [ls]": r":2: this is no YAML: could not determine a constructor",
    b"steps:\n- join": r":2: step 1: it must be a mapping",
    b"steps:\n- {op: dance}": r":2: step 1: unknown operation 'dance'",
    b"steps:\n- {op: [join]}": r":2: step 1: unknown operation",
    b"steps:\n- {op: join, group: a@x}": r":2: step 1: join needs 'member'",
    b"steps:\n- {op: join, group: a@x, member: b@x, want: 1}": r":2: step 1: join has no 'want'",
    b"steps:\n- {op: join, group: 3, member: b@x}": r":2: step 1: 'group' must be a text, not 3",
    b"steps:\n- {op: join, group: a@x, member: b@x, kind: person}": r":2: step 1: 'kind' must be one of",
    b"steps:\n- {op: expect_check, group: a@x, member: b@x}": r":2: step 1: expect_check needs 'want'",
    b"steps:\n- {op: expect_check, group: a@x, member: b@x, want: 1}": r":2: step 1: 'want' must be true or false",
    b"steps:\n- {op: expect_leaf_count, group: a@x, want: true}": r":2: step 1: 'want' must be a number",
    b"steps:\n- {op: expect_leaves, group: a@x, want: ann@x}": r":2: step 1: 'want' must be a list",
    b"steps:\n- {op: expect_leaves, group: a@x, want: [1]}": r":2: step 1: 'want' must be a list of texts",
    b"steps:\n- {op: expect_leaves, group: a@x, want: [], exclude: []}": r":2: step 1: 'exclude' concerns",
    b"steps: " + b"[" * 5_000: r"this is no YAML",
    # Each list has ten times the values of the one before. Copies of them, or their text, would fill any memory.
    b"steps:\n- {op: expect_leaves, group: a@x, want: &a0 [x@x]}\n"
    + b"".join(
        b"- {op: expect_leaves, group: a@x, want: &a%d [%s]}\n" % (at, b"*a%d," % (at - 1) * 10) for at in range(1, 30)
    ): r":3: step 2: 'want' must be a list of texts",
}


@pytest.mark.parametrize("content", BAD_FILES, ids=range(len(BAD_FILES)))
def test_a_bad_file_is_refused_before_anything_is_run(content):
    with pytest.raises(
        BadFile, match=f"^f{BAD_FILES[content] if BAD_FILES[content][0] == ':' else ': ' + BAD_FILES[content]}"
    ):
        read_steps("f", content)


def test_a_bad_file_has_status_4_and_one_line(validate):
    found = validate("steps: [\n")
    assert (found.status, found.out, found.err.count("\n")) == (4, "", 1)
