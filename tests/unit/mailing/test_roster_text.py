"""Rosters in files: in any form in which Mailman's answers were saved, each object and each fault has its line."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailing.rules.roster_text import read_rosters
from mailing.rules.rosters import RosterError

LIST = {"fqdn_listname": "all@x.example", "list_id": "all.x.example"}
ANN = {"list_id": "all.x.example", "email": "ann@y.example", "role": "member"}
BOB = ANN | {"email": "bob@y.example"}


def answer(*entries):
    return {"start": 0, "total_size": len(entries), "entries": list(entries), "http_etag": '"0"'}


def lines_of(text):
    found = read_rosters(text)
    return [(each.address, each.line) for each in (*found.lists, *found.members)]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("\n".join(map(json.dumps, (LIST, ANN, BOB))), (1, 2, 3)),
        (json.dumps(answer(LIST)) + json.dumps(answer(ANN, BOB)), (1, 1, 1)),
        (json.dumps(answer(LIST), indent=2) + "\r\n" + json.dumps(answer(ANN, BOB), indent=2), (5, 16, 21)),
        (json.dumps([LIST, ANN, BOB], indent=1), (2, 6, 11)),
        (json.dumps([answer(LIST), answer(), answer(ANN, BOB)]), (1, 1, 1)),
        ("\n\n" + json.dumps(answer()) + "\n" + ",\n".join(map(json.dumps, (LIST, ANN, BOB))), (4, 5, 6)),
    ],
    ids=[
        "objects",
        "answers in one line",
        "answers laid out",
        "an array",
        "an array of answers",
        "an answer without entries",
    ],
)
def test_objects_answers_and_arrays_are_the_same(text, lines):
    assert lines_of(text) == [
        ("all@x.example", lines[0]),
        ("ann@y.example", lines[1]),
        ("bob@y.example", lines[2]),
    ]


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ('{"a": 1}\n', 1, "it is no list (with fqdn_listname) and no member of one (with email, role and list_id)"),
        (json.dumps(LIST) + "\nall@x.example\n", 2, "this is no JSON: an object is wanted, { or [ begins one"),
        (json.dumps(LIST) + '\n{"a": nix}\n', 2, "this is no JSON: Expecting value"),
        (json.dumps(answer(LIST, ANN), indent=1)[:-40], 12, "this is no JSON: it ends too early (cut off?)"),
        (f'{{"entries": [{json.dumps(LIST)}\n{{}}]}}', 2, "this is no JSON: Expecting ',' delimiter"),
        ('{"entries": []\n', 2, "this is no JSON: it ends too early (cut off?)"),
        ('{"entries": []\n"start": 0}', 2, "this is no JSON: Expecting ',' delimiter"),
        (f"[{json.dumps(LIST)}\n{json.dumps(ANN)}]", 2, "this is no JSON: a comma is wanted"),
        (f"[{json.dumps(LIST)}\n", 2, "this is no JSON: it ends too early (cut off?)"),
        ('[1,\n"x"]', 1, "an object is wanted, not a number"),
        ("[" * 100_000, 1, "this is no JSON of Mailman: too deep, or a number too long"),
        ('{"n": ' + "9" * 5_000 + "}", 1, "this is no JSON of Mailman: too deep, or a number too long"),
        ('\n{"list_id": "all.x.example", "role": "member"}', 2, "email: a text is wanted, not nothing"),
        ('{"list_id": 7, "email": "a@b", "role": "member"}', 1, "list_id: a text is wanted, not a number"),
        ('{"list_id": "", "email": "a@b", "role": "member"}', 1, "list_id: it is empty"),
        ('{"fqdn_listname": "all"}', 1, "fqdn_listname: 'all' is no address"),
    ],
)
def test_a_fault_is_told_with_its_line(text, line, why):
    with pytest.raises(RosterError) as caught:
        read_rosters(text)
    assert (caught.value.line, str(caught.value)) == (line, why)


@given(st.text(alphabet='{}[],:"\n aentriesoml@.1\\', max_size=60))
def test_no_text_ends_otherwise_than_read_or_refused(text):
    fault = None
    try:
        read_rosters(text)
    except RosterError as error:
        fault = error
    assert fault is None or 1 <= fault.line <= text.count("\n") + 1
