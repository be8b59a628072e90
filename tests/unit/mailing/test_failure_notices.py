"""Failure notices that are no standard reports: failures, and what only looks like one."""

import pytest

from mailing.rules.failure_notices import UNKNOWN_REASON, Notice, why_given_up

DAEMON = "Mail Delivery System <MAILER-DAEMON@mx.x.example>"


def why(text, *, sender=DAEMON, subject="hello", is_automatic=False):
    return why_given_up(Notice(sender, subject, text, is_automatic))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("I'm afraid I wasn't able to deliver your message. <bob@x.example>:\nno mailbox (#5.1.1)", "5.1.1"),
        ("A message that you sent could not be delivered. This is a permanent error.", UNKNOWN_REASON),
        ("There was an error delivering your mail to <bob@x.example>.\nCould not deliver. Giving up.", UNKNOWN_REASON),
        ("----- Transcript of session follows -----\n554 <bob@x.example>... 550 Host unknown", "554"),
        ("bob@x.example: 550 5.1.1 see our page", "5.1.1"),
        ("bob@x.example: Envelope expired", UNKNOWN_REASON),
        ("Unable to deliver message.\nI'm not going to try again; it has been in the queue too long.", UNKNOWN_REASON),
        ("kijitora@x.example: 送信できませんでした", UNKNOWN_REASON),
    ],
)
def test_a_mail_server_that_gives_up_is_understood(text, reason):
    assert why(text) == reason


@pytest.mark.parametrize(
    "subject",
    ["Undeliverable: hello", "Returned mail: see transcript", "Mail delivery failed", "failure notice",
     "Delivery Status Notification (Failure)", "Unzustellbar: hallo", "Non remis : bonjour", "メールエラー通知"],
)  # fmt: skip
def test_the_subject_of_a_mail_server_is_enough(subject):
    assert why("bob@x.example", subject=subject) == UNKNOWN_REASON
    assert why("Shall we talk about it?", subject=f"Re: {subject}", sender="Ann <ann@x.example>") is None


@pytest.mark.parametrize(
    "text",
    [
        "THIS IS A WARNING MESSAGE ONLY.\nYOU DO NOT NEED TO RESEND YOUR MESSAGE.\n450 4.2.2 mailbox full",
        "Your message could not be delivered for more than 2 hour(s).\nIt will be retried until it is 4 day(s) old.",
        "A message that you sent has not yet been delivered to one or more of its recipients.",
        "This is only a temporary failure report. The message is kept in the queue for up to 7 days.",
    ],
)
def test_a_warning_is_no_failure(text):
    assert why(text) is None
    assert why(text, subject="Returned mail: warning") is None


@pytest.mark.parametrize(
    "subject", ["Delivery Status Notification (Delay)", "Mail delayed", "Warning: could not send message"]
)
def test_a_subject_that_warns_is_no_failure(subject):
    assert why("bob@x.example: 550 connection refused", subject=subject) is None


@pytest.mark.parametrize(
    ("sender", "subject", "is_automatic"),
    [
        ("Bob <bob@x.example>", "Automatic reply: hello", False),
        ("Bob <bob@x.example>", "I am away", True),
        ("Bob <bob@x.example>", "Re: hello", False),
        ("postmaster@x.example", "Out of office: hello", False),
        ("no-reply@x.example", "This address is no longer in use", True),
    ],
)
def test_what_a_person_or_a_holiday_says_is_no_failure(sender, subject, is_automatic):
    text = "I am not able to read mail; the old mailbox is full, and mail to it was rejected: 550 5.2.2."
    assert why(text, sender=sender, subject=subject, is_automatic=is_automatic) is None


@pytest.mark.parametrize(
    "begin",
    [
        "--- Below this line is a copy of the message.",
        "Received: from mx.x.example by y.example",
        "   ----- Unsent message follows -----",
        "-----Original Message-----",
        "Return-Path: <ann@x.example>",
    ],
)
def test_the_words_of_the_copy_do_not_count(begin):
    assert why(f"We have news for you.\n\n{begin}\nSubject: x\n\n550 5.1.1 user unknown, not delivered") is None


def test_a_sentence_that_no_person_writes_counts_from_whomever_it_comes():
    text = "Your mail could not be delivered to: <bob@x.example>\n As their mailbox is full."
    assert why(text, sender="no-reply@x.example", subject="Mail") == UNKNOWN_REASON
