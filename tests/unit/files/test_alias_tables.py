"""Alias tables of Postfix: lists become groups, and whatever is not a list or an address is told with its line."""

import pytest

from shadowtree.client.files.formats import FileFormat
from shadowtree.client.files.graph_writer import graph_writer
from shadowtree.errors import BadFile, InvalidRequest
from shadowtree.updates import Arc
from tests.unit.files.test_graph_files import read_text

ALL, LAB, ANN = "all@x.example", "lab@x.example", "ann@x.example"
NESTED = [Arc(ALL, LAB, "group"), Arc(ALL, ANN, "process"), Arc(LAB, "bob@z.example", "process")]


def read(tmp_path, file_format, text, **options):
    return read_text(
        tmp_path, text, name="table", file_format=file_format, **{"domain": "x.example", "skip_bad": False, **options}
    )


@pytest.mark.parametrize(
    ("file_format", "text"),
    [
        ("aliases", "all: lab, ann\nlab: bob@z.example\n"),
        ("aliases", "# lists\n\nall :lab,\n# two\n\n\tann\nlab:\n  bob@z.example"),
        ("aliases", '"all": Lab , "ann"\nlab@x.example: "bob"@z.example\n'),
        ("aliases", "all: lab@X.example, \\ann\r\nlab: bob@z.example,\r\n"),
        ("virtual", "all@x.example lab@x.example, ann@x.example\nlab@x.example\tbob@z.example\n"),
        ("virtual", "all@x.example lab@x.example\n  # one\n  ann@x.example\nlab bob@z.example\n"),
        ("virtual", "all\n  LAB ann\nlab@x.example bob@z.example\n"),
    ],
)
def test_a_target_that_is_a_list_of_the_table_is_nested_and_others_are_members(tmp_path, file_format, text):
    assert read(tmp_path, file_format, text) == (NESTED, set(), [])


def test_quotes_hold_what_has_a_meaning_outside(tmp_path):
    arcs, _, _ = read(tmp_path, "aliases", r'all: "lee, \ann: x"@z.example' + "\n")
    assert arcs == [Arc(ALL, "lee, ann: x@z.example", "process")]


@pytest.mark.parametrize(
    ("file_format", "text", "line", "why"),
    [
        (
            "aliases",
            "all: ann,\n  :include:/lists/all\n",
            2,
            "':include:/lists/all': the addresses are in another file",
        ),
        ("aliases", 'all: ann,\n\n "|run me"\n', 3, "'|run me': this is a command"),
        ("aliases", "all: ann\nnull: /dev/null\n", 2, "'/dev/null': this is a file"),
        ("aliases", 'all: ann,\n "bob\n', 2, "a quote is not closed"),
        ("aliases", "all: ann\n bob\n", 2, "there is no comma before 'bob'"),
        ("aliases", "all ann\n", 1, "there is no name with ':' after it"),
        ("aliases", "all:\n", 1, f"{ALL} has no targets"),
        ("aliases", "  ann\nall: ann\n", 1, "the line begins with white space"),
        ("aliases", "all: all\n", 1, f"'{ALL}' cannot be a member of itself"),
        ("aliases", "all: ann, \\all\n", 1, f"'\\\\all' is a mailbox with the name of the list {ALL}"),
        ("aliases", "all: ann\nAll: bob\n", 2, "line 1 has All@x.example already"),
        ("aliases", "all: ann@z.example@z\n", 1, "invalid name"),
        ("virtual", "@x.example ann@x.example\n", 1, "'@x.example' takes all mail of a domain"),
        ("virtual", "x.example anything\n", 1, "'x.example' is a domain without a name"),
        ("virtual", "all@x.example\n", 1, f"{ALL} has no targets"),
        ("virtual", "all@x.example ann@x.example, all@X.example\n", 1, f"'{ALL}' cannot be a member of itself"),
    ],
)
def test_a_bad_line_is_told_with_its_number_and_can_be_left_out(tmp_path, file_format, text, line, why):
    with pytest.raises(BadFile) as caught:
        read(tmp_path, file_format, text)
    assert caught.value.message.startswith(f"{tmp_path}/table:{line}: {why}")
    good = "ok ann\n" if file_format == "virtual" else "ok: ann\n"
    arcs, _, skipped = read(tmp_path, file_format, text + good, skip_bad=True)
    assert Arc("ok@x.example", ANN, "process") in arcs
    assert [number for number, _ in skipped] == [line]


def test_lines_that_continue_a_line_that_was_left_out_do_not_go_to_the_list_before(tmp_path):
    arcs, _, skipped = read(tmp_path, "aliases", b"all: ann\nsecret\xff: bob,\n  eve\nlab: ann\n", skip_bad=True)
    assert arcs == [Arc(ALL, ANN, "process"), Arc(LAB, ANN, "process")]
    assert [line for line, _ in skipped] == [2, 3]


@pytest.mark.parametrize("text", ["all@x.example: ann@x.example,\n ann\n", "# lists\nall: ann@x.example\n"])
@pytest.mark.parametrize("skip_bad", [False, True])
def test_a_name_without_a_domain_needs_one_and_is_not_left_out(tmp_path, text, skip_bad):
    with pytest.raises(BadFile, match=r"table:2: '(all|ann)' has no domain") as caught:
        read(tmp_path, "aliases", text, domain=None, skip_bad=skip_bad)
    assert caught.value.facts["field"] == "domain"


def test_alias_tables_are_not_written(tmp_path):
    file = tmp_path / "table"
    with pytest.raises(InvalidRequest, match="not written"), graph_writer(str(file), FileFormat.ALIASES):
        pass
    assert not file.exists()
