"""Details of groups: what is valid, what a search finds, and that every place derives them from one definition."""

import sys
import unicodedata
from dataclasses import fields

import pytest

from namegraph.model.group_details import (
    DETAIL_LIMITS,
    NO_DETAILS,
    SEARCH_LIMIT,
    DetailSearch,
    GroupDetails,
    InvalidDetailError,
    changed,
    checked_details,
    checked_text,
)
from namegraph.model.names import parse_name
from namegraph.state.durable_maps import packed
from shadowtree.printable_text import printable
from shadowtree.results import GroupDescription
from shadowtree.v1.names_pb2 import GroupDetails as WireDetails

LAB = parse_name("Lab-Übung@ubc.example")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "Everybody at the site",
        "quotes \" ' \\ <angles> @ and tabs' friends: %s {x} ; --",
        "日本語の説明 🌳",
        "می‌خواهم",
        "👩\N{ZERO WIDTH JOINER}💻",
        "e\N{COMBINING ACUTE ACCENT}",
        "x" * 1_000,
        "🌳" * 1_000,
    ],
)
def test_a_line_of_text_is_kept_as_it_is(text):
    assert checked_details({"description": text}) == {"description": text}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("two\nlines", "character 4 (U+000A) is a control character"),
        ("\t", "character 1 (U+0009) is a control character"),
        ("bell\x07", "character 5 (U+0007) is a control character"),
        ("null\0", "character 5 (U+0000) is a control character"),
        ("c1\x9b", "character 3 (U+009B) is a control character"),
        ("a\N{LINE SEPARATOR}b", "character 2 (U+2028) is a line separator"),
        ("a\N{PARAGRAPH SEPARATOR}b", "character 2 (U+2029) is a paragraph separator"),
        ("a\N{RIGHT-TO-LEFT OVERRIDE}b", "character 2 (U+202E) is an invisible format character"),
        ("a\ue000", "character 2 (U+E000) is a character for private use"),
        ("caf\udce9", "character 4 (U+DCE9) is no Unicode character (the text is not UTF-8)"),
        ("x" * 1_001, "it has 1,001 characters; shorten it to at most 1,000"),
        (b"bytes", "a text is wanted, not b'bytes' (bytes)"),
        (7, "a text is wanted, not 7 (int)"),
    ],
)
def test_anything_else_is_refused_by_the_name_of_the_field_and_the_place_of_the_fault(text, why):
    with pytest.raises(InvalidDetailError) as caught:
        checked_details({"description": text})
    assert caught.value.field == "description"
    assert str(caught.value).startswith(f"invalid description: {why}")


def test_a_detail_that_there_is_not_is_refused_and_one_that_is_none_is_left_out():
    assert checked_details({"description": None}) == {}
    with pytest.raises(InvalidDetailError, match="invalid colour: a group has no such detail; there are: description"):
        checked_details({"colour": "blue"})


def test_clients_show_every_valid_character_as_it_is_and_no_other():
    """What a client would replace, because it acts on a terminal, must not be kept: it would not read back the same."""
    differing = []
    for character in map(chr, range(sys.maxunicode + 1)):
        if unicodedata.category(character) == "Cn":
            continue
        try:
            is_valid = bool(checked_text("description", character, 1))
        except InvalidDetailError:
            is_valid = False
        if is_valid != (printable(character) == character):
            differing.append(f"U+{ord(character):04X}")
    assert differing == []


@pytest.mark.parametrize(
    ("text", "is_found"),
    [
        ("robot", True),
        ("ROBOT", True),
        ("lab-ü", True),
        ("LAB-Ü", True),
        ("lab-u\N{COMBINING DIAERESIS}BUNG", True),
        ("@ubc", True),
        ("strasse", True),
        ("STRASSE", True),
        ("straße", True),
        ("robots and", True),
        ("robots  and", False),
        ("rabot", False),
        ("lab-u", False),
    ],
)
def test_a_text_is_found_in_name_and_description_in_any_letter_case(text, is_found):
    details = GroupDetails("Robots and people of the Hafenstraße")
    assert DetailSearch(text).finds(LAB, details) is is_found


def test_a_group_without_details_is_found_by_its_name_alone():
    assert DetailSearch("lab").finds(LAB, NO_DETAILS)
    assert not DetailSearch("robot").finds(LAB, NO_DETAILS)


def test_a_search_does_not_join_the_end_of_the_name_and_the_beginning_of_a_detail():
    assert not DetailSearch("examplerobot").finds(LAB, GroupDetails("robots"))


def test_rows_of_before_a_field_are_read_and_a_row_keeps_what_was_written():
    form = packed(GroupDetails)
    assert form.read(b"\x90") == NO_DETAILS
    details = changed(NO_DETAILS, {"description": "日本語 🌳"})
    assert form.read(form.write(details)) == details == GroupDetails("日本語 🌳")
    assert changed(details, {"description": ""}) == NO_DETAILS


def test_the_wire_and_the_client_have_the_details_that_are_defined():
    defined = list(GroupDetails.__struct_fields__)
    assert list(DETAIL_LIMITS) == defined
    assert max(DETAIL_LIMITS.values()) == SEARCH_LIMIT
    assert [field.name for field in WireDetails.DESCRIPTOR.fields] == defined
    assert {field.name for field in fields(GroupDescription)} >= set(defined)
    assert all(each.type == each.TYPE_STRING and each.has_presence for each in WireDetails.DESCRIPTOR.fields)
