"""Statements of standard reports about each recipient, as mail servers really write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailing.rules.delivery_status import RECIPIENTS_LIMIT, recipients_in

BOB, JOSE = "bob@x.example", "jos\u00e9@x.example"


def only(text):
    (found,) = recipients_in(text)
    return found


@pytest.mark.parametrize("status", ["5.1.1", "4.4.7", "4.0.0", "2.0.0", ""])
def test_a_failed_recipient_has_failed_whatever_the_status(status):
    assert only(f"Final-Recipient: rfc822; {BOB}\nAction: failed\nStatus: {status}\n").has_failed


@pytest.mark.parametrize("action", ["delayed", "Delayed", "relayed", "expanded", "delivered", "delivered (to mailbox)"])
@pytest.mark.parametrize("status", ["5.1.1", "4.4.7", "2.0.0"])
def test_no_other_action_is_a_failure(action, status):
    assert not only(f"Final-Recipient: rfc822; {BOB}\nAction: {action}\nStatus: {status}\n").has_failed


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"FINAL-RECIPIENT: RFC822;{BOB}\nACTION: FAILED\nSTATUS: 5.1.1 (no such user)\n", "5.1.1"),
        (f"final-recipient : {BOB}\naction : failed\n", "failed"),
        (f"Final-Recipient: rfc822;\n {BOB}\nAction:\n failed\nStatus:\n 4.4.7\n", "4.4.7"),
        (f"Status: 4.4.1\nAction: failed\nOriginal-Recipient: rfc822; {BOB}\n", "4.4.1"),
        (f"Final-Recipient: rfc822; <{BOB}> (Bob)\n\nAction: failed\n\nStatus: 5.2.2\n", "5.2.2"),
        (f"Final-Recipient: rfc822; {BOB}\nDiagnostic-Code: smtp; 550 5.7.1 no\n", "5.7.1"),
        (f"Final-Recipient: rfc822; {BOB}\nDiagnostic-Code: smtp; 550\n no such user\n", "550"),
        (f"Final-Recipient: rfc822; {BOB}\nStatus: 5.1.1\n", "5.1.1"),
        (f"Final-Recipient: rfc822; {BOB}\nDiagnostic-Code: smtp; broken in\ntwo lines\nAction: failed\n", "failed"),
        (f"> Final-Recipient: rfc822; {BOB}\n> Action: failed\n", "failed"),
        (f"Final-Recipient: rfc822; {BOB}\nAction: expired\n", "failed"),
    ],
)
def test_a_report_is_read_however_it_is_laid_out(text, why):
    found = only(text)
    assert found.has_failed
    assert found.why == why
    assert found.is_about(BOB)


@pytest.mark.parametrize("text", ["", "Reporting-MTA: dns; x.example\n", f"Final-Recipient: rfc822; {BOB}\n"])
def test_a_recipient_without_a_fate_is_left_out(text):
    assert recipients_in(text) == []


def test_a_passing_status_without_an_action_is_no_failure():
    assert not only(f"Final-Recipient: rfc822; {BOB}\nStatus: 4.2.1\n").has_failed


@pytest.mark.parametrize(
    "recipient",
    [
        f"utf-8; {JOSE}",
        "utf-8; jos\\x{E9}@x.example",
        "UTF-8;jos\\x{00e9}@X.example",
        "utf-8; jose\u0301@x.example",
        "rfc822; jos\u00e9@x.example",
    ],
)
def test_a_name_beyond_ascii_is_known_in_each_of_its_encodings(recipient):
    assert only(f"Final-Recipient: {recipient}\nAction: failed\n").is_about(JOSE)


def test_a_domain_beyond_ascii_is_that_of_the_name_service():
    assert only("Final-Recipient: utf-8; bob@b\u00fccher.example\nAction: failed\n").is_about(
        "bob@xn--bcher-kva.example"
    )


def test_several_recipients_are_told_apart_with_and_without_empty_lines():
    about = [(f"p{number}@x.example", action) for number, action in enumerate(("failed", "delayed", "failed"))]
    for gap in ("\n", "", "\n\n"):
        text = gap.join(f"Final-Recipient: rfc822; {name}\nAction: {action}\nStatus: 4.1.1\n" for name, action in about)
        found = recipients_in(f"Reporting-MTA: dns; x.example\n\n{text}")
        assert [each.has_failed for each in found] == [True, False, True]
        assert [each.is_about(name) for each, (name, _) in zip(found, about, strict=True)] == [True] * 3


def test_the_original_recipient_counts_as_the_final_one_does():
    found = only(f"Original-Recipient: rfc822; {BOB}\nFinal-Recipient: rfc822; eve@y.example\nAction: failed\n")
    assert found.is_about(BOB)
    assert found.is_about("EVE@y.example")
    assert not found.is_about("ann@x.example")


def test_of_a_report_about_everybody_some_are_read():
    text = "".join(f"Final-Recipient: {number}@x.example\nAction: failed\n" for number in range(2 * RECIPIENTS_LIMIT))
    assert len(recipients_in(text)) == RECIPIENTS_LIMIT


LINES = st.sampled_from(
    [
        "Final-Recipient: utf-8; \\x{110000}@b",
        "Action: failed",
        "Status: 5.1.1",
        "",
        " folded",
        "Original-Recipient:;",
        "x",
    ]
)


@given(st.lists(LINES | st.text(max_size=20), max_size=30).map("\n".join))
def test_whatever_a_report_holds_it_is_read(text):
    for each in recipients_in(text):
        each.is_about(BOB)
