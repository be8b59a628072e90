"""A graph as CSV: files from spreadsheets are read, and every bad line is reported with its place."""

import pytest

from mailing.rules.lists import MUTED, OWNERS
from shadowtree.client.files.csv_rows import csv_line
from shadowtree.errors import BadFile
from shadowtree.updates import Arc
from tests.unit.files.test_graph_files import read_text

ALL, LAB, ANN = "all@x.example", "lab@x.example", "ann@z.example"


def read(tmp_path, text, **options):
    return read_text(tmp_path, text, name="graph.csv", **options)


def refusal(tmp_path, text):
    with pytest.raises(BadFile) as caught:
        read(tmp_path, text)
    return caught.value.message.removeprefix(f"{tmp_path}/graph.csv:")


def test_a_list_and_an_address_are_enough(tmp_path):
    arcs, groups, skipped = read(tmp_path, f"list,address\n{ALL},{ANN}\nempty@x.example,\n")
    assert arcs == [Arc(ALL, ANN, "process")]
    assert (groups, skipped) == ({"empty@x.example"}, [])


def test_a_member_that_is_a_list_of_the_file_is_a_nested_group_wherever_it_stands(tmp_path):
    text = f"list,address,role\n{ALL},lab@X.example,member\n{LAB},{ALL},\n{LAB},{ANN},Member\n"
    arcs, _, _ = read(tmp_path, text)
    assert arcs == [Arc(ALL, LAB, "group"), Arc(LAB, ALL, "group"), Arc(LAB, ANN, "process")]


def test_owners_and_those_who_muted_a_list_are_in_groups_beside_it(tmp_path):
    arcs, _, _ = read(tmp_path, f"list,address,role\n{ALL},{ANN},owner\n{ALL},bob@z.example,muted\n")
    assert arcs == [
        Arc(f"all{OWNERS}@x.example", ANN, "process"),
        Arc(f"all{MUTED}@x.example", "bob@z.example", "process"),
        Arc(ALL, "bob@z.example", "process"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        f'\ufefflist,address,role\r\n{ALL},"a,b@z.example",member\r\n',
        f"LIST;Role;Address\r\n{ALL};member;a,b@z.example\r\n;;\r\n",
        f'"role","list","address"\n"","{ALL}","a,b@z.example"\n\n',
    ],
    ids=["byte order mark and CRLF", "semicolons, another order, empty rows", "all quoted, an empty line"],
)
def test_what_spreadsheets_write_is_read(tmp_path, text):
    assert read(tmp_path, text) == ([Arc(ALL, "a,b@z.example", "process")], set(), [])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            f"{ALL},{ANN}\n",
            " line 1 must name the columns, such as list,address,role; it has 'all@x.example', 'ann@z.example'; "
            "an export of a directory has GroupDN,GroupName,MemberDN,MemberName",
        ),
        ("list,address,mail\n", " line 1: there is no column 'mail'; there are list, address, role"),
        ("list,address,list\n", " line 1 names a column twice"),
        (f"list,address\n{ALL},{ANN}\n{ALL}\n", "3: 1 column instead of the 2 that the first line names"),
        (f'list,address\n{ALL},"{ANN}\n{ALL},{ANN}\n', "2: this is no CSV: a quote is not closed"),
        (f'list,address\n{ALL},"a"b@z\n', "2: this is no CSV: ',' expected after '\"'"),
        (
            f"list,address,role\n{ALL},{ANN},boss\n",
            "2: the role is 'boss' instead of member, group, owner, muted, or nothing",
        ),
        (f"list,address\n\n{ALL},nobody\n", "3: invalid name 'nobody': it must hold exactly one '@', not 0"),
        (f"list,address\n{ALL},{ALL}\n", f"2: '{ALL}' cannot be a member of itself"),
    ],
)
def test_a_bad_line_is_told_with_its_place(tmp_path, text, why):
    assert refusal(tmp_path, text) == why


def test_bad_lines_can_be_left_out(tmp_path):
    text = f'list,address\n{ALL},"\n{ALL},{ANN}\n{ALL}\n'
    arcs, _, skipped = read(tmp_path, text, skip_bad=True)
    assert arcs == [Arc(ALL, ANN, "process")]
    assert [line for line, _ in skipped] == [2, 4]


def test_an_empty_file_is_an_empty_graph(tmp_path):
    assert read(tmp_path, "") == ([], set(), [])


def test_what_has_a_meaning_in_csv_is_quoted():
    assert csv_line("a,b@x", 'q"@x', "plain") == '"a,b@x","q""@x",plain\n'
