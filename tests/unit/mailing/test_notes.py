"""Notes to owners about held and dropped messages: their frequency and wording."""

from dataclasses import replace
from email import message_from_bytes, policy

from hypothesis import assume, given
from hypothesis import strategies as st

from mailing.rules.address_kinds import Word
from mailing.rules.addresses import is_deliverable, quoted
from mailing.rules.commands import Command
from mailing.rules.deciding import decision_token, how_to_decide
from mailing.rules.distribution import Distribution
from mailing.rules.events import MessageTaken, Now, Resolve, Save, Ticked
from mailing.rules.joining import request_of
from mailing.rules.notes import PAUSE_S, TOLD_LIMIT, Noted, note_about, without_note
from mailing.rules.spooled import Destination, MailMessage, Standing

ALL = "all@ubc.example"
OWNERS = "all-owner@lists.ubc.example"
SECRET = b"s" * 32


def held(standing=Standing.HELD, why="forged"):
    return Destination(ALL, "all@l.example", True, standing, why, owners=OWNERS, is_to_note=True)


def noted(number, subject="hello", **more):
    return Noted(
        MailMessage(f"{number:032}", "eve@x.example", 1, (held(),), author="Ann@x.example", subject=subject),
        held(**more),
    )


def read(content):
    return message_from_bytes(content, policy=policy.default)


def test_a_note_says_what_is_held_why_and_how_to_decide():
    message, content = note_about(
        [noted(1, "größe"), noted(2, standing=Standing.DROPPED, why="no member")], 1_000, SECRET
    )
    note = read(content)
    assert (note["To"], note["From"], note["Auto-Submitted"]) == (OWNERS, OWNERS, "auto-generated")
    assert note["Subject"] == "all@ubc.example: 1 held and 1 dropped"
    text = note.get_content()
    token = decision_token(SECRET, f"{1:032}", ALL)
    assert f"to let it go: write to all-approve+{token}@l.example" in text
    assert f"to drop it: write to all-reject+{token}@l.example" in text
    assert decision_token(SECRET, f"{2:032}", ALL) not in text
    words = (f"held: {1:032}", f"dropped: {2:032}", "größe", "because no member", "<eve@x.example>", "mail approve")
    assert [word for word in words if word not in text] == []
    assert (message.sender, message.destinations) == ("", (Destination(ALL, OWNERS, False),))
    assert content.replace(b"\r\n", b"").count(b"\n") == 0


def test_a_request_to_join_is_told_with_how_to_accept_it():
    command = Command(ALL, Word.JOIN, "", "all@l.example", "all-join@l.example")
    request = request_of(command, "ann@x.example", OWNERS, 900)
    _, content = note_about([Noted(request, request.destinations[0])], 1_000, SECRET)
    note = read(content)
    assert note["Subject"] == "all@ubc.example: 1 to join"
    text, token = note.get_content().replace("\r\n", "\n"), decision_token(SECRET, request.id, ALL)
    assert f"to join: {request.id}\n  ann@x.example asks to join\n" in text
    assert f"to accept: write to all-approve+{token}@l.example" in text
    assert f"to reject: write to all-reject+{token}@l.example" in text


def test_where_the_name_of_a_list_is_too_long_an_owner_decides_by_a_subject():
    long = replace(held(), address="a" * 50 + "@l.example")
    way = how_to_decide(long, "abcdefgh234567ab", Word.REJECT)
    assert way == f"write to {'a' * 50}-request@l.example, with the subject 'reject abcdefgh234567ab'"


def test_once_owners_were_asked_that_is_known():
    message = replace(noted(1).message, destinations=(held(), held(Standing.DROPPED), replace(held(), group="b@x")))
    first, second, other = without_note(message, ALL, 7).destinations
    assert [(each.is_to_note, each.asked) for each in (first, second, other)] == [(False, 7), (False, 0), (True, 0)]


def test_what_is_dropped_leaves_nothing_to_decide():
    _, content = note_about([noted(1, standing=Standing.DROPPED)], 1_000, SECRET)
    assert "approve" not in read(content).get_content()


@given(st.text(max_size=50), st.text(st.characters(max_codepoint=126), min_size=1, max_size=40), st.text(max_size=99))
def test_a_note_is_one_message_whatever_is_in_it(subject, name, group):
    assume(is_deliverable(f"{name}-owner@l.example"))
    destination = Destination(group, "all@l", True, Standing.HELD, owners=quoted(f"{name}-owner@l.example"))
    message = MailMessage("a" * 32, "", 1, (destination,), author=subject, subject=subject)
    _, content = note_about([Noted(message, destination)], 1_000, SECRET)
    assert content.isascii()
    head = content.partition(b"\r\n\r\n")[0]
    assert [line.partition(b":")[0] for line in head.split(b"\r\n") if line[:1].strip()] == [
        b"Message-ID",
        b"Date",
        b"From",
        b"To",
        b"Subject",
        b"Auto-Submitted",
        b"Content-Type",
        b"Content-Transfer-Encoding",
        b"MIME-Version",
    ]


def test_a_flood_is_one_note_and_then_one_in_ten_minutes():
    course, notes = Distribution((), (), secret=SECRET), []

    def step(event, ticks):
        for effect in course.step(event, Now(ticks, 1_000 + int(ticks))):
            if isinstance(effect, Save) and effect.content not in (None, b"content"):
                notes.append(read(effect.content))
            elif isinstance(effect, Resolve):
                assert [each.address for each in effect.destinations.values()] == [OWNERS]

    for number in range(200):
        if number == 1:
            step(Ticked(), 0)
        step(MessageTaken(f"m{number}", "eve@x.example", (held(),), b"content", (), number), 0)
    step(Ticked(), 0)
    step(Ticked(), PAUSE_S - 1)
    assert [note["Subject"] for note in notes] == ["all@ubc.example: 1 held"]
    step(Ticked(), PAUSE_S)
    step(Ticked(), 10 * PAUSE_S)
    assert [note["Subject"] for note in notes[1:]] == ["all@ubc.example: 199 held"]
    assert f"and {199 - TOLD_LIMIT} more" in notes[1].get_content()
