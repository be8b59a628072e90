"""No text in an answer of a server acts on a terminal or begins another line."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from namegraph import InvalidNameError, parse_name
from shadowtree import results
from shadowtree.client.answers import ExportedArcs, read_description, read_peers, read_status
from shadowtree.client.foreign_text import REPLACEMENT, are_printable, cleaned, printable
from shadowtree.errors import ServerFault
from shadowtree.v1 import admin_pb2, name_service_pb2, names_pb2

UNWANTED = {"Cc", "Cf", "Co", "Cs", "Zl", "Zp"}
JOINERS = "\N{ZERO WIDTH NON-JOINER}\N{ZERO WIDTH JOINER}"
"""Format characters that act on no terminal, and with which some scripts and emoji are written."""
ESCAPE = "\x1b]0;PWNED\x07\x1b[2J\nstaff@a.example"


def test_all_characters_that_act_are_replaced_and_no_other():
    for number in range(0x110000):
        character = chr(number)
        category = unicodedata.category(character)
        # What is not assigned yet may stand between characters that act.
        if category != "Cn":
            is_unwanted = category in UNWANTED and character not in JOINERS
            expected = REPLACEMENT if is_unwanted else character
            assert printable(character) == expected, f"U+{number:04X}"
            assert are_printable([character]) is not is_unwanted


@given(st.text(max_size=10))
def test_legal_names_come_through_as_they_are(text):
    try:
        name = parse_name(f"{text}@a.example")
    except InvalidNameError:
        return
    assert printable(name) == name


def test_results_lose_what_acts_wherever_it_stands():
    found = results.Resolution("g@a.x", ("a@a.x", ESCAPE), (), (), (ESCAPE,), False, "1@a.x")
    clean = cleaned(found)
    assert clean.processes == ("a@a.x", printable(ESCAPE))
    assert clean.unreachable == (printable(ESCAPE),)
    assert not any(character in repr(clean) for character in "\x1b\x07\n")
    assert cleaned(clean) is clean


@pytest.mark.parametrize(
    "found",
    [
        read_status(
            admin_pb2.ServerStatus(
                server=ESCAPE,
                database_failure=ESCAPE,
                in_doubt=[ESCAPE],
                suspended=[admin_pb2.ServerStatus.SuspendedArc(parent=ESCAPE, child=ESCAPE, reason=ESCAPE)],
                peers=[admin_pb2.ServerStatus.Peer(address=ESCAPE, subnets=[ESCAPE], state=ESCAPE)],
            )
        ),
        read_peers(
            admin_pb2.PeerList(
                peers=[
                    admin_pb2.PeerList.Peer(
                        address=ESCAPE,
                        state=ESCAPE,
                        why=ESCAPE,
                        via=ESCAPE,
                        faults=[admin_pb2.PeerList.Fault(kind=ESCAPE, count=1)],
                    )
                ],
                unknown=[admin_pb2.PeerList.Unknown(server=ESCAPE, subnets=[ESCAPE], known_to=[ESCAPE])],
            )
        ),
    ],
    ids=["status", "peers"],
)
def test_what_operators_are_shown_is_clean(found):
    assert "\\x1b" in repr(found)
    assert not any(escaped in repr(cleaned(found)) for escaped in ("\\x1b", "\\x07", "\\n"))


def test_a_name_that_would_forge_a_line_of_an_export_is_refused():
    chunk = name_service_pb2.ExportChunk(parents=["g@a.x"], children=["a@a.x\nstaff@a.x\tmallory@h.x"], kinds=b"\x02")
    with pytest.raises(ServerFault, match="a name that is none"):
        list(ExportedArcs().read(chunk))


def test_a_description_that_would_act_on_a_terminal_is_made_printable():
    details = names_pb2.GroupDetails(description="a\x1b]0;b\n\N{RIGHT-TO-LEFT OVERRIDE}c")
    assert read_description(name_service_pb2.GroupDescription(details=details)).description == "a�]0;b��c"
    row = {"parents": ["g@a.x"], "children": [""], "kinds": b"\x01"}
    chunk = name_service_pb2.ExportChunk(**row, details=[names_pb2.DetailedGroup(group="g@a.x", details=details)])
    (arc,) = ExportedArcs().read(chunk)
    assert arc.details == {"description": "a�]0;b��c"}


def test_the_details_of_a_group_come_with_its_first_arc_alone():
    details = [names_pb2.DetailedGroup(group="g@a.x", details=names_pb2.GroupDetails(description="text"))]
    rows = [(["g@a.x", "g@a.x"], ["a@a.x", "b@a.x"]), (["g@a.x", "h@a.x"], ["c@a.x", "c@a.x"])]
    reader = ExportedArcs()
    arcs = [
        arc
        for parents, children in rows
        for arc in reader.read(
            name_service_pb2.ExportChunk(parents=parents, children=children, kinds=b"\x02\x02", details=details)
        )
    ]
    assert [arc.details for arc in arcs] == [{"description": "text"}, None, None, None]
