"""Bounces and complaints as they come, and what is none."""

import base64
import quopri

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailing.rules.clicks import PATH, click_token
from mailing.rules.failure_notices import UNKNOWN_REASON
from mailing.rules.reports import READ_BYTES, complaints, failure_report, is_complaint
from mailing.rules.spooled import Wish
from mailing.shell.other_bounces import detector

SECRET, DATE, ALL, ANN = b"s" * 32, 1_800_000_000, "all@ubc.example", "ann@x.example"
JOSE = "jos\u00e9@x.example"
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


SINA = (
    b"From: MAILER-DAEMON@sina.com\r\nSubject: \xd3\xca\xbc\xfe\r\nContent-Type: multipart/mixed; boundary=b\r\n\r\n"
    b"--b\r\nContent-Type: text/plain\r\n\r\nsina.com.\r\n<bob@sina.com>:\r\n--b--\r\n"
)


def status_report(*recipients, kind="message/delivery-status", encoding="7bit", encode=lambda data: data, rest=""):
    """Return a report with an empty text part, and fields for each recipient."""
    about = "\r\n".join("".join(f"{line}\r\n" for line in each) for each in recipients)
    status = encode(f"Reporting-MTA: dns; x.example\r\n\r\n{about}".encode())
    return (
        b'Content-Type: multipart/report; boundary="b"\r\n\r\n--b\r\nContent-Type: text/plain\r\n\r\nHello.\r\n'
        b"--b\r\nContent-Type: %b\r\nContent-Transfer-Encoding: %b\r\n\r\n%b\r\n--b\r\n%b\r\n--b--\r\n"
        % (kind.encode(), encoding.encode(), status, rest.encode())
    )


def about(person, action="failed", status="5.1.1", kind="rfc822"):
    return f"Final-Recipient: {kind}; {person}", f"Action: {action}", f"Status: {status}"


def failure(data, person=ANN, detects=lambda _: False):
    report = failure_report(data, detects)
    return None if report is None else report.failure_of(person)


def complaint(token, kind="abuse", returned="message/rfc822"):
    return (
        'Content-Type: multipart/report; report-type=feedback-report; boundary="b"\r\n\r\n'
        "--b\r\nContent-Type: text/plain\r\n\r\nSomebody complains.\r\n"
        f"--b\r\nContent-Type: message/feedback-report\r\n\r\nFeedback-Type: {kind}\r\nVersion: 1\r\n\r\n"
        f"--b\r\nContent-Type: {returned}\r\n\r\nList-Id: <all.ubc.example>\r\n"
        f"List-Unsubscribe: <mailto:all-leave@l.example>,\r\n <https://l.example{PATH}{token}>\r\n\r\nHello.\r\n--b--\r\n"
    ).encode()


def test_a_report_of_another_format_counts_where_it_says_that_it_is_for_good():
    assert failure(QMAIL) == "5.1.1", "no library is needed for it"
    assert failure(SINA) is None
    assert failure(SINA, detects=DETECTS) == UNKNOWN_REASON, "the library knows it"
    assert failure(b"Subject: out of office\r\n\r\nI am away until Monday.\r\n", detects=DETECTS) is None


def test_the_library_is_not_asked_about_what_is_no_report():
    # It takes this for a report of some laboratory.
    data = b'From: no-reply@x.example\r\nSubject: AWS\r\n\r\n{"kind":"Delivery", "to": "a@x.example", "a": "b"}\r\n'
    assert failure(data, detects=lambda _: True) is None


@pytest.mark.parametrize(
    ("action", "status", "expected"),
    [
        ("failed", "5.1.1", "5.1.1"),
        ("failed", "4.4.7", "4.4.7"),
        ("delayed", "4.4.1", None),
        ("relayed", "5.0.0", None),
    ],
)
def test_a_standard_report_is_taken_at_its_word(action, status, expected):
    data = status_report(about(ANN, action, status), rest="Content-Type: text/plain\r\n\r\nA permanent error.")
    assert failure(data, detects=DETECTS) == expected


@pytest.mark.parametrize(
    ("encoding", "encode"), [("8bit", bytes), ("base64", base64.encodebytes), ("quoted-printable", quopri.encodestring)]
)
@pytest.mark.parametrize("kind", ["message/global-delivery-status", "Message/Delivery-Status; charset=utf-8"])
def test_a_report_counts_for_a_name_beyond_ascii_in_every_encoding(kind, encoding, encode):
    data = status_report(about(JOSE, kind="utf-8"), kind=kind, encoding=encoding, encode=encode)
    assert failure(data, JOSE) == "5.1.1"


def test_a_report_that_names_the_person_says_what_became_of_that_copy():
    data = status_report(about(ANN, "delivered", "2.0.0"), about("eve@x.example", status="5.2.2"))
    assert failure(data, ANN) is None
    assert failure(data, "Eve@x.example") == "5.2.2"


def test_a_report_of_where_the_mail_was_forwarded_is_about_the_person_of_the_return_path():
    data = status_report(about("elsewhere@y.example", status="5.2.2"))
    assert failure(data, ANN) == "5.2.2"


def test_a_report_that_names_ten_thousand_people_is_about_one():
    data = status_report(*(about(f"p{number}@x.example") for number in range(10_000)))
    assert len(data) > READ_BYTES
    assert failure(data, ANN) == "5.1.1"
    assert len(failure_report(data).recipients) < 10_000


@pytest.mark.parametrize("returned", ["message/rfc822", "message/global", "text/plain; x=y"])
def test_a_report_in_the_copy_that_came_back_is_none(returned):
    inner = status_report(about(ANN)).decode().replace("--b", "--c").replace('"b"', '"c"')
    data = status_report(about(ANN, "delivered", "2.0.0"), rest=f"Content-Type: {returned}\r\n\r\n{inner}")
    assert failure(data) is None


def test_fields_in_the_text_count_where_no_part_has_them():
    fields = "\r\n".join(about(ANN, status="4.4.7"))
    data = f"From: MAILER-DAEMON@x.example\r\n\r\nTechnical report:\r\n\r\n{fields}\r\n".encode()
    assert failure(data) == "4.4.7"


def test_a_copy_of_many_parts_hides_no_report():
    copy = "Content-Type: message/rfc822\r\n\r\n" + "Content-Type: multipart/mixed\r\n" * 100
    assert failure(status_report(about(ANN), rest=copy)) == "5.1.1"


def test_a_notice_in_html_alone_is_read():
    data = (
        b"From: postmaster@x.example\r\nContent-Type: text/html\r\n\r\n<html><style>p{}</style>"
        b"<p>Delivery has <b>failed</b> to these recipients:<br>ann@x.example<p>550 5.1.10 not found</html>\r\n"
    )
    assert failure(data) == "5.1.10"


@pytest.mark.parametrize("returned", ["message/rfc822", "text/rfc822-headers"])
def test_a_complaint_is_of_whom_the_copy_in_it_was_for(returned):
    token = click_token(SECRET, ALL, ANN, DATE)
    data = complaint(token, returned=returned)
    assert is_complaint(data)
    assert complaints(data, SECRET, DATE) == [Wish(False, ALL, ANN)]
    assert failure(data, detects=DETECTS) is None


def test_a_complaint_proves_nobody_by_another_token_or_of_another_kind():
    token = click_token(SECRET, ALL, ANN, DATE)
    assert complaints(complaint(token[:-4] + "AAAA"), SECRET, DATE) == []
    assert complaints(complaint(token), b"t" * 32, DATE) == []
    assert complaints(complaint(token, kind="not-spam"), SECRET, DATE) == []
    assert not is_complaint(complaint(token, kind="not-spam"))
    assert complaints(complaint(token), SECRET, DATE + 500 * 86_400) == []


@pytest.mark.parametrize("kind", ["fraud", "opt-out", "Abuse"])
def test_other_words_of_a_complaint_mean_the_same(kind):
    assert is_complaint(complaint("x", kind=kind))


@pytest.mark.parametrize("kind", ["auth-failure", "virus", "other", ""])
def test_other_feedback_is_no_complaint(kind):
    assert not is_complaint(complaint("x", kind=kind))


def test_a_complaint_without_a_feedback_report_is_known_by_the_field_of_the_provider():
    token = click_token(SECRET, ALL, ANN, DATE)
    data = (
        "From: staff@hotmail.example\r\nSubject: complaint about message from 192.0.2.1\r\n"
        'Content-Type: multipart/mixed; boundary="b"\r\n\r\n--b\r\nContent-Type: message/rfc822\r\n\r\n'
        f"X-HmXmrOriginalRecipient: {ANN}\r\nList-Unsubscribe: <https://l.example{PATH}{token}>\r\n\r\nHello.\r\n--b--\r\n"
    ).encode()
    assert is_complaint(data)
    assert complaints(data, SECRET, DATE) == [Wish(False, ALL, ANN)]


@pytest.mark.parametrize("container", [b"multipart/mixed; boundary=b%d", b"message/rfc822"])
def test_parts_within_parts_without_end_are_no_report(container):
    levels = [
        b"Content-Type: " + (container % number if b"%d" in container else container) + b"\r\n\r\n"
        for number in range(5_000)
    ]
    data = b"".join(levels)
    assert failure_report(data, DETECTS) is None
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
    failure(data, detects=DETECTS)
    complaints(data, SECRET, DATE)
