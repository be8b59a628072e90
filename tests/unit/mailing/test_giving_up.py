"""The author's report on servers for which a message was given up, and its time."""

from dataclasses import replace
from email import message_from_bytes, policy

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mailing.rules.addresses import is_deliverable
from mailing.rules.authors import Author, shown
from mailing.rules.distribution import Distribution
from mailing.rules.events import Approved, MessageTaken, NotResolved, Now, Resolve, Resolved, Save, Ticked
from mailing.rules.giving_up import SERVERS_TOLD, report_to_author
from mailing.rules.message import message_id_of, read_content
from mailing.rules.retries import TRIED_FOR_S
from mailing.rules.spooled import Destination, MailMessage, Standing

ALL, ANN, OWNERS = "all@ubc.example", "ann@x.example", "all-owner@lists.ubc.example"
LISTS = [Destination(ALL, "all@lists.ubc.example", True), Destination("b@ubc.example", "b@lists.ubc.example", True)]
MESSAGE = MailMessage(
    "1" * 32,
    ANN,
    1_000_000,
    tuple(LISTS),
    author="Ann@x.example",
    subject="größe",
    answerable=ANN,
    message_id="<1@x.example>",
    given_up=("a.example", "sfu.example"),
)
DATE = 2_000_000


def read(content):
    return message_from_bytes(content, policy=policy.default)


def test_an_author_gets_a_standard_report_that_names_lists_and_servers():
    letter, content = report_to_author(MESSAGE, LISTS, DATE)
    report = read(content)
    assert report.get_content_type() == "multipart/report"
    assert report.get_param("report-type") == "delivery-status"
    assert (report["To"], report["From"]) == (ANN, "all-request@lists.ubc.example")
    assert (report["In-Reply-To"], report["Auto-Submitted"]) == ("<1@x.example>", "auto-replied")
    assert report["Subject"] == "Not delivered to everybody: größe"
    text, status, returned = report.get_payload()
    assert "\n  a.example\n  sfu.example\n" in text.get_content().replace("\r", "")
    about, *recipients = status.get_payload()
    assert about["Reporting-MTA"] == "dns; lists.ubc.example"
    assert [each["Final-Recipient"] for each in recipients] == [f"rfc822; {each.address}" for each in LISTS]
    assert {(each["Action"], each["Status"]) for each in recipients} == {("failed", "4.4.7")}
    assert recipients[0]["Diagnostic-Code"].endswith(": a.example, sfu.example")
    assert returned.get_content_type() == "text/rfc822-headers"
    assert "Message-ID: <1@x.example>" in returned.get_content()
    assert (letter.sender, letter.is_letter, letter.answerable) == ("", True, "")
    assert report_to_author(MESSAGE, LISTS, DATE + 5)[0].id == letter.id, "the same would be told twice"
    assert report_to_author(replace(MESSAGE, given_up=("a.example",)), LISTS, DATE)[0].id != letter.id


def test_of_many_servers_some_are_named():
    many = replace(MESSAGE, given_up=tuple(f"s{number}.example" for number in range(2 * SERVERS_TOLD)))
    assert f"and {SERVERS_TOLD} more" in read(report_to_author(many, LISTS, DATE)[1]).get_payload()[0].get_content()


@given(
    st.text(max_size=40),
    st.text(max_size=60),
    st.text(min_size=1, max_size=20),
    st.text(st.characters(min_codepoint=33, max_codepoint=126, exclude_characters="<>"), min_size=1, max_size=20),
)
def test_a_report_is_one_message_whatever_is_in_it(person, subject, server, named):
    assume(is_deliverable(f"{person}@x.example", with_smtputf8=True))
    message = replace(
        MESSAGE,
        answerable=f"{person}@x.example",
        subject=shown(subject),
        given_up=(server,),
        message_id=message_id_of(read_content(f"Message-ID: <{named}>\r\n\r\n".encode())),
    )
    _, content = report_to_author(message, LISTS, DATE)
    assert content.isascii() or not person.isascii()
    read_content(content)
    assert [part.get_content_type() for part in read(content).iter_parts()] == [
        "text/plain",
        "message/delivery-status",
        "text/rfc822-headers",
    ]


def test_only_an_author_who_is_certain_is_written_to():
    assert Author("Ann@x.example", "Ann").answerable == "Ann@x.example"
    assert Author("Ann@x.example", "Ann", "forged").answerable == ""
    assert Author("root@localhost", "").answerable == ""
    assert message_id_of(read_content(b"Message-ID: <1@x>\r\n\r\n")) == "<1@x>"
    assert message_id_of(read_content(b"Message-ID: <1@x>\r\nMessage-ID: <2@x>\r\n\r\n")) == ""
    assert message_id_of(read_content(b"Message-ID: <1@x> <2@x>\r\n\r\n")) == ""


class Course:
    """A message to one list, and the letters that come of it."""

    def __init__(self, place, answerable=ANN):
        self.core, self.letters = Distribution((), (), secret=b""), []
        self.effects = self.tell(MessageTaken("m", ANN, (place,), b"content", (), 1, answerable=answerable), 0)

    def tell(self, event, date):
        effects = self.core.step(event, Now(0.0, date))
        self.letters += [each.message for each in effects if isinstance(each, Save) and each.message.is_letter]
        return effects


PLACE = Destination(ALL, "all@lists.ubc.example", True)
AWAY = Resolved("m", (0,), (), "r", "out of reach", away=("sfu.example",))


@pytest.mark.parametrize(
    ("answer", "answerable", "count"),
    [
        (AWAY, ANN, 1),
        (AWAY, "", 0),
        (replace(AWAY, missing="hidden", is_lasting=True), ANN, 0),
        (replace(AWAY, missing=""), ANN, 0),
        (NotResolved("m", "away"), ANN, 1),
    ],
)
def test_an_author_is_told_once_nothing_more_is_tried(answer, answerable, count):
    course = Course(PLACE, answerable)
    course.tell(answer, TRIED_FOR_S)
    course.tell(Ticked(), TRIED_FOR_S)
    assert course.letters == []
    course.core.step(Ticked(), Now(10_000.0, TRIED_FOR_S))
    course.tell(answer, TRIED_FOR_S + 1)
    course.tell(Ticked(), TRIED_FOR_S + 1)
    assert len({letter.id for letter in course.letters}) == count
    course.tell(Ticked(), TRIED_FOR_S + 2)
    assert len({letter.id for letter in course.letters}) == count


def test_what_was_held_for_long_is_tried_for_as_long_as_all_else():
    course = Course(replace(PLACE, standing=Standing.HELD))
    assert isinstance(course.tell(Approved("m"), 2 * TRIED_FOR_S)[-1], Resolve)
    course.tell(AWAY, 2 * TRIED_FOR_S)
    course.core.step(Ticked(), Now(10_000.0, 3 * TRIED_FOR_S))
    course.tell(AWAY, 3 * TRIED_FOR_S)
    course.tell(Ticked(), 3 * TRIED_FOR_S)
    assert course.letters == []
