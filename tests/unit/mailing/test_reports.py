"""Bounces and complaints as they come, and what is none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailing.rules.clicks import PATH, click_token
from mailing.rules.reports import UNKNOWN_FORMAT, complaints, is_complaint, lasting_failure
from mailing.rules.spooled import Wish
from mailing.shell.other_bounces import detector

SECRET, DATE, ALL, ANN = b"s" * 32, 1_800_000_000, "all@ubc.example", "ann@x.example"
DETECTS = detector()

QMAIL = b"""\
From: MAILER-DAEMON@x.example
Subject: failure notice

Hi. This is the qmail-send program at x.example.
I'm afraid I wasn't able to deliver your message to the following addresses.
This is a permanent error; I've given up. Sorry it didn't work out.

<bob@x.example>:
Sorry, no mailbox here by that name. (#5.1.1)
""".replace(b"\n", b"\r\n")


def status_report(action, status):
    return (
        'Content-Type: multipart/report; boundary="b"\r\n\r\n--b\r\nContent-Type: message/delivery-status\r\n\r\n'
        f"Reporting-MTA: dns; x.example\r\n\r\nAction: {action}\r\nStatus: {status}\r\n--b\r\n"
        "Content-Type: text/plain\r\n\r\nThis is the qmail-send program: a permanent error.\r\n--b--\r\n"
    ).encode()


def complaint(token, kind="abuse", returned="message/rfc822"):
    return (
        'Content-Type: multipart/report; report-type=feedback-report; boundary="b"\r\n\r\n'
        "--b\r\nContent-Type: text/plain\r\n\r\nSomebody complains.\r\n"
        f"--b\r\nContent-Type: message/feedback-report\r\n\r\nFeedback-Type: {kind}\r\nVersion: 1\r\n\r\n"
        f"--b\r\nContent-Type: {returned}\r\n\r\nList-Id: <all.ubc.example>\r\n"
        f"List-Unsubscribe: <mailto:all-leave@l.example>,\r\n <https://l.example{PATH}{token}>\r\n\r\nHello.\r\n--b--\r\n"
    ).encode()


def test_a_report_of_another_format_counts_where_it_says_that_it_is_for_good():
    assert lasting_failure(QMAIL, DETECTS) == UNKNOWN_FORMAT
    assert lasting_failure(QMAIL) is None, "the library is not installed"
    assert lasting_failure(b"Subject: out of office\r\n\r\nI am away until Monday.\r\n", DETECTS) is None


@pytest.mark.parametrize(
    ("action", "status", "expected"),
    [("failed", "5.1.1", "5.1.1"), ("delayed", "4.4.1", None), ("failed", "4.4.7", None), ("relayed", "5.0.0", None)],
)
def test_a_standard_report_is_taken_at_its_word(action, status, expected):
    assert lasting_failure(status_report(action, status), DETECTS) == expected


@pytest.mark.parametrize("returned", ["message/rfc822", "text/rfc822-headers"])
def test_a_complaint_is_of_whom_the_copy_in_it_was_for(returned):
    token = click_token(SECRET, ALL, ANN, DATE)
    data = complaint(token, returned=returned)
    assert is_complaint(data)
    assert complaints(data, SECRET, DATE) == [Wish(False, ALL, ANN)]
    assert lasting_failure(data, DETECTS) is None


def test_a_complaint_proves_nobody_by_another_token_or_of_another_kind():
    token = click_token(SECRET, ALL, ANN, DATE)
    assert complaints(complaint(token[:-4] + "AAAA"), SECRET, DATE) == []
    assert complaints(complaint(token), b"t" * 32, DATE) == []
    assert complaints(complaint(token, kind="not-spam"), SECRET, DATE) == []
    assert not is_complaint(complaint(token, kind="not-spam"))
    assert complaints(complaint(token), SECRET, DATE + 500 * 86_400) == []


@pytest.mark.parametrize("container", [b"multipart/mixed; boundary=b%d", b"message/rfc822"])
def test_parts_within_parts_without_end_are_no_report(container):
    levels = [
        b"Content-Type: " + (container % number if b"%d" in container else container) + b"\r\n\r\n"
        for number in range(5_000)
    ]
    data = b"".join(levels)
    assert lasting_failure(data, DETECTS) is None
    assert not is_complaint(data)


PIECES = (
    b"Content-Type: multipart/report; boundary=b\r\n",
    b"Content-Type: message/feedback-report\r\n",
    b"Content-Type: message/delivery-status\r\n",
    b"Content-Type: text/plain; charset=nonsense\r\nContent-Transfer-Encoding: base64\r\n",
    b"--b\r\n",
    b"--b--\r\n",
    b"\r\n",
    b"Feedback-Type: abuse\r\n",
    b"Action: failed\r\n",
    b"Your message could not be delivered to the following recipients:\r\n",
    b"<a@b.example>\r\n",
    b"Final-Recipient: rfc822\r\n",
    b"Microsoft Exchange\r\nInternet Mail Connector\r\n",
    b"X-Failed-Recipients: \xff\xfe\r\n",
    b"message status - undeliverable\r\ndelivery time: delivery attempts: 1\r\n",
)


@given(st.lists(st.sampled_from(PIECES) | st.binary(max_size=20), max_size=30).map(b"".join))
def test_whatever_comes_is_read(data):
    lasting_failure(data, DETECTS)
    complaints(data, SECRET, DATE)
