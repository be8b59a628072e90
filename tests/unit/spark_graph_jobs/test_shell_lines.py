"""Commands that a report suggests are pasted into a shell, which reads every name in them as a word."""

import ast
import re
import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import spark_graph_jobs
from spark_graph_jobs.audits import agreement, ancestry
from spark_graph_jobs.finding import rejoin, shell_line

HOSTILE = [
    "x'$(touch PWNED)'y@a.example",
    "$(touch PWNED)@a.example",
    "`touch PWNED`@a.example",
    "a;touch PWNED@a.example",
    "a|b&&c@a.example",
    "a'b@a.example",
    "--force@a.example",
    "-rf@a.example",
    "*?[a]{b,c}~@a.example",
    "!!@a.example",
    "#a@a.example",
    "a b@a.example",
    "a\nb@a.example",
    "=cmd@a.example",
]


def words_of(line):
    """Return the words of a command as a shell reads them, without running it."""
    subprocess.run(["bash", "-n"], input=line, text=True, check=True, timeout=20)
    printed = subprocess.run(
        ["bash", "-c", f"shadowtree() {{ printf '%s\\0' shadowtree \"$@\" AND; }}; {line}"],
        capture_output=True,
        text=True,
        check=True,
        timeout=20,
    ).stdout
    return printed.split("\0")[:-1]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_shell_reads_each_name_as_one_word(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    option = ["--"] if name.startswith("-") else []
    assert words_of(shell_line("group", "delete", "--force", names=(name,))) == [
        *("shadowtree", "group", "delete", "--force", *option, name, "AND")
    ]
    leave, join = ([*("shadowtree", verb, *option, name, "b@b.example", "AND")] for verb in ("leave", "join"))
    assert words_of(rejoin(name, "b@b.example")) == leave + join
    assert words_of(ancestry.fix(name)) == ["shadowtree", "describe", *option, name, "AND"]
    assert words_of(agreement.fix(name)) == ["shadowtree", "peers", "AND"]
    assert list(tmp_path.iterdir()) == []


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1))
def test_any_name_is_one_word(name):
    assert shlex.split(shell_line("resolve", names=(name,)))[-1] == name


def test_no_command_is_put_together_in_another_way():
    """A name in a text that begins like a command would be read by a shell as what it holds."""
    for file in Path(spark_graph_jobs.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                texts = [part.value for part in node.values if isinstance(part, ast.Constant)]
                assert not any(re.search(r"\bshadowtree [a-z]", text) for text in texts), f"{file}:{node.lineno}"
