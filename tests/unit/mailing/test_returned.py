"""Copies that come back to their list, changed on their way."""

from dataclasses import replace

import pytest

from mailing.rules.message import read_content
from mailing.rules.returned import (
    ADDRESSES_LIMIT,
    Distributed,
    addresses_of_lists,
    ids_of_copies,
    likeness_of,
    lists_that_took,
    names_list,
)
from mailing.rules.spooled import Destination, MailMessage, Standing

ALL, LAB, ID = "all@ubc.example", "lab@ubc.example", "a" * 32
PLACE = Destination(ALL, "all@lists.ubc.example", True)
SAME = ("Message-ID: <one@x.example>", "Date: Mon, 01 Jun 2026 10:00:00 +0000")


def content(*fields, body="At noon."):
    return read_content("".join(f"{field}\r\n" for field in fields).encode() + f"\r\n{body}\r\n".encode())


def message(id_=ID, **changes):
    return replace(MailMessage(id_, "ann@x.example", 1, (PLACE,), likeness=likeness_of(content(*SAME))), **changes)


@pytest.mark.parametrize("value", ["<all.ubc.example>", "All of us <All.UBC.example>", "all.ubc.example"])
def test_the_identifier_names_its_list(value):
    assert names_list(content(f"List-Id: {value}"), ALL)
    assert not names_list(content(f"List-Id: {value}"), LAB)
    assert not names_list(content(f"X-List-Id: {value}"), ALL)


def test_addresses_in_fields_of_lists_are_read_as_they_were_written():
    fields = (
        "List-Post: <mailto:b%C3%BCro@l.example?subject=x>",
        "List-Unsubscribe: <https://x>, <MAILTO:all-leave@l.example>",
    )
    assert addresses_of_lists(content(*fields)) == ["büro@l.example", "all-leave@l.example"]
    assert len(addresses_of_lists(content(*["List-Post: <mailto:a@b>"] * 2 * ADDRESSES_LIMIT))) == ADDRESSES_LIMIT


def test_a_copy_is_known_by_the_line_that_this_gateway_wrote_into_it():
    line = f"Received: by lists.ubc.example (Shadowtree) with LMTP id {ID}; Mon, 01 Jun 2026 10:00:00 -0000"
    assert ids_of_copies(content("Received: by x", line), "Lists.ubc.example") == [ID]
    assert ids_of_copies(content(line), "lists.sfu.example") == []


def test_a_changed_copy_is_like_what_was_distributed():
    assert likeness_of(content(*SAME)) == likeness_of(
        content("Subject: other", *SAME, body="At noon.\r\n-- \r\nfooter")
    )
    assert likeness_of(content(*SAME)) != likeness_of(content(SAME[0], "Date: Tue, 02 Jun 2026 10:00:00 +0000"))
    assert likeness_of(content(SAME[1])) == likeness_of(content(SAME[0])) == ""


def test_only_what_a_list_has_let_go_counts_and_as_long_as_it_is_remembered():
    likeness, distributed = message().likeness, Distributed()
    held = message(destinations=(replace(PLACE, standing=Standing.HELD),))
    assert lists_that_took(held) == frozenset()
    distributed.follow(held)
    assert distributed.ids_like(likeness, ALL) == frozenset()
    distributed.follow(message())
    distributed.follow(message("b" * 32))
    assert distributed.ids_like(likeness, ALL) == {ID, "b" * 32}
    assert distributed.ids_like(likeness, LAB) == distributed.ids_like("", ALL) == frozenset()
    distributed.follow(held)
    distributed.forget("b" * 32)
    assert distributed.ids_like(likeness, ALL) == frozenset()
    distributed.forget(ID)
    distributed.forget(ID)


def test_messages_of_before_are_known_after_a_restart_and_those_without_likeness_are_none():
    assert Distributed([message(), message("b" * 32, likeness="")]).ids_like(message().likeness, ALL) == {ID}
