"""Requests by mail: their reading, their certainty, their outcome, and the letters to the sender."""

from dataclasses import replace
from email import message_from_bytes, policy
from email.utils import formatdate

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from mailing.rules.address_kinds import Word
from mailing.rules.addresses import is_deliverable, quoted
from mailing.rules.authors import Author
from mailing.rules.commands import (
    MESSAGE_SECONDS,
    TOKEN_SECONDS,
    Command,
    CommandRequest,
    Deed,
    ListPath,
    ListStanding,
    Question,
    confirmed_wish,
    deed_for,
    ends_of,
    is_of_a_program,
    letter_id,
    question_of,
    speaks_for_author,
    token_for,
)
from mailing.rules.intake import NOT_ANSWERED, Recipient, reply_after_data
from mailing.rules.letters import (
    AN_HOUR,
    GROUPS_TOLD,
    LETTERS_TO_ALL,
    LETTERS_TO_ONE,
    WAYS_TOLD,
    LetterLimits,
    confirmation_of,
    help_about,
    letter_message,
    outcome_of,
    ways_of,
    written,
)
from mailing.rules.lists import JoinPolicy
from mailing.rules.message import read_content
from mailing.rules.spooled import Wish

ALL, ANN = "all@ubc.example", "ann@x.example"
NOW = 1_000_000
SECRET = b"s" * 32
TOKEN = "abcdefgh234567ab"
AUTHOR = Author(ANN, "Ann")
WISH = Wish(False, ALL, ANN)


def command(word=Word.LEAVE, token="", address="all@lists.ubc.example"):
    return Command(ALL, word, token, address, f"all-{word}@lists.ubc.example")


def content(*fields, body=""):
    return read_content("".join(f"{field}\r\n" for field in fields).encode() + b"\r\n" + body.encode())


@pytest.mark.parametrize(
    ("word", "subject", "body", "question"),
    [
        (Word.LEAVE, "join", "", Question(CommandRequest.LEAVE)),
        (Word.JOIN, "", "leave", Question(CommandRequest.JOIN)),
        (Word.CONFIRM, "", "", Question(CommandRequest.CONFIRM, TOKEN)),
        (Word.REQUEST, "", "", Question(CommandRequest.HELP)),
        (Word.REQUEST, "Why", "", Question(CommandRequest.WHY)),
        (Word.REQUEST, "Re: RE: why", "leave", Question(CommandRequest.WHY)),
        (Word.REQUEST, "please", "Hello,\r\n  LEAVE \r\nwhy", Question(CommandRequest.LEAVE)),
        (Word.REQUEST, "", "x\r\n" * 60 + "why", Question(CommandRequest.HELP)),
        (Word.REQUEST, "why not", "why is that so", Question(CommandRequest.HELP)),
        (Word.REQUEST, f"Re: confirm {TOKEN}", "", Question(CommandRequest.CONFIRM, TOKEN)),
        (Word.REQUEST, "confirm", "", Question(CommandRequest.HELP)),
        (Word.APPROVE, "reject", "", Question(CommandRequest.APPROVE, TOKEN)),
        (Word.REJECT, "", "approve", Question(CommandRequest.REJECT, TOKEN)),
        (Word.REQUEST, f"approve {TOKEN}", "", Question(CommandRequest.APPROVE, TOKEN)),
        (Word.REQUEST, "", f"> approve {TOKEN}\r\nReject {TOKEN}", Question(CommandRequest.REJECT, TOKEN)),
        (Word.REQUEST, "approve", "reject", Question(CommandRequest.HELP)),
        (Word.REQUEST, "request", "", Question(CommandRequest.HELP)),
        (Word.REQUEST, "=?utf-8?B?d2h5?=", "", Question(CommandRequest.WHY)),
        (Word.REQUEST, "AW: =?utf-8?Q?unsubscribe?=", "", Question(CommandRequest.LEAVE)),
        (Word.REQUEST, "Réf : subscribe", "", Question(CommandRequest.JOIN)),
        (Word.REQUEST, "Unsubscribe.", "", Question(CommandRequest.LEAVE)),
        (Word.REQUEST, "please remove me from this list", "", Question(CommandRequest.LEAVE)),
        (Word.REQUEST, "", "unsubscribe all", Question(CommandRequest.LEAVE)),
        (Word.REQUEST, "", "Unsubscribe ALL@lists.ubc.example", Question(CommandRequest.LEAVE)),
        (Word.REQUEST, "", "unsubscribe lab@lists.ubc.example", Question(CommandRequest.HELP)),
        (Word.REQUEST, "", "unsubscribe eve@x.example", Question(CommandRequest.HELP)),
        (Word.REQUEST, "[all] Re: unsubscribe", "", Question(CommandRequest.LEAVE)),
        (Word.REQUEST, "", "Please unsubscribe me from this list. Thanks, Ann", Question(CommandRequest.LEAVE)),
        (Word.REQUEST, "", "Remove me from all@lists.ubc.example, please.", Question(CommandRequest.LEAVE)),
        (Word.REQUEST, "", "I would like to opt out", Question(CommandRequest.LEAVE)),
        (Word.REQUEST, "", "take me off the mailing list!", Question(CommandRequest.LEAVE)),
        (Word.REQUEST, "take", "take care", Question(CommandRequest.HELP)),
        (Word.REQUEST, "", "remove me from lab@lists.ubc.example", Question(CommandRequest.HELP)),
        (Word.REQUEST, "", "I would like to leave early today", Question(CommandRequest.HELP)),
        (Word.REQUEST, "how do I stop this", "", Question(CommandRequest.HELP)),
        (Word.REQUEST, "", "> unsubscribe\r\n-- \r\nunsubscribe", Question(CommandRequest.HELP)),
    ],
)
def test_what_is_asked_for_is_told_by_the_address_or_else_by_the_words(word, subject, body, question):
    token = TOKEN if word in (Word.CONFIRM, Word.APPROVE, Word.REJECT) else ""
    assert question_of(command(word, token), content(f"Subject: {subject}", body=body)) == question


@pytest.mark.parametrize(
    "field",
    [
        "Auto-Submitted: auto-replied",
        "X-Autoreply: yes",
        "Subject: Automatic reply: why",
        "Precedence: Bulk",
        "Precedence: list",
        "List-Id: <x.y>",
        "Shadowtree-Trace: x",
    ],
)
def test_programs_and_lists_are_not_answered(field):
    assert is_of_a_program(content(field))
    assert reply_after_data(Recipient(command(), 1_000), content(field), 1, secret=SECRET) is NOT_ANSWERED
    assert not is_of_a_program(content("Precedence: first-class"))
    assert reply_after_data(Recipient(command(), 1_000), content(), 1, secret=SECRET) is None
    circling = reply_after_data(Recipient(command(), 1_000), content(*["Received: x"] * 51), 1, secret=SECRET)
    assert circling.code == "554 5.4.6"


TO, DATE = "To: All <ALL-leave@lists.ubc.example>, x@y", f"Date: {formatdate(NOW)}"


@pytest.mark.parametrize(
    ("fields", "author", "is_certain"),
    [
        ((TO, DATE), AUTHOR, True),
        ((TO, f"Date: {formatdate(NOW - MESSAGE_SECONDS)}"), AUTHOR, True),
        ((TO, DATE), Author(ANN, "", "forged"), False),
        ((TO, DATE, TO), AUTHOR, False),
        ((TO, DATE, DATE), AUTHOR, False),
        ((DATE,), AUTHOR, False),
        ((TO,), AUTHOR, False),
        (("To: all@lists.ubc.example", DATE), AUTHOR, False),
        (("To: x@y", "Cc: all-leave@lists.ubc.example", DATE), AUTHOR, False),
        ((TO, f"Date: {formatdate(NOW - MESSAGE_SECONDS - 1)}"), AUTHOR, False),
        ((TO, f"Date: {formatdate(NOW + MESSAGE_SECONDS + 1)}"), AUTHOR, False),
        ((TO, "Date: today"), AUTHOR, False),
    ],
)
def test_only_a_new_message_to_this_very_address_speaks_for_its_author(fields, author, is_certain):
    assert speaks_for_author(content(*fields), author, command(), NOW) is is_certain


@given(st.text(st.characters(exclude_characters="\r\n\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"), max_size=60))
def test_whatever_stands_for_a_date_or_a_recipient_is_read(text):
    speaks_for_author(content(TO, f"Date: {text}"), AUTHOR, command(), NOW)
    assert not speaks_for_author(content(f"To: x{text}", DATE), AUTHOR, replace(command(), name="none"), NOW)


@pytest.mark.parametrize(
    ("is_join", "rule", "membership", "deed"),
    [
        (False, JoinPolicy.OPEN, ListStanding(ANN, False), Deed.IS_NO_MEMBER),
        (False, JoinPolicy.ASK, ListStanding(ANN, True), Deed.MUTE),
        (False, JoinPolicy.OPEN, ListStanding(ANN, True, is_only_direct=True), Deed.LEAVE),
        (False, JoinPolicy.OPEN, ListStanding(ANN, True, is_muted=True), Deed.IS_MUTED),
        (True, JoinPolicy.CLOSED, ListStanding(ANN, False), Deed.IS_CLOSED),
        (True, JoinPolicy.CLOSED, ListStanding(ANN, True), Deed.IS_MEMBER),
        (True, JoinPolicy.CLOSED, ListStanding(ANN, True, is_muted=True), Deed.UNMUTE),
        (True, JoinPolicy.OPEN, ListStanding(ANN, False), Deed.JOIN),
        (True, JoinPolicy.OPEN, ListStanding(ANN, True, is_muted=True), Deed.JOIN),
        (True, JoinPolicy.ASK, ListStanding(ANN, False), Deed.ASK),
        (True, JoinPolicy.ASK, ListStanding(ANN, True), Deed.IS_MEMBER),
        (True, JoinPolicy.ASK, ListStanding(ANN, True, is_muted=True), Deed.UNMUTE),
    ],
)
def test_what_a_wish_comes_to(is_join, rule, membership, deed):
    assert deed_for(Wish(is_join, ALL, ANN), membership, rule) is deed


def test_a_token_is_of_one_message_one_person_one_list_and_one_gateway():
    wishes = [WISH, Wish(True, ALL, ANN), Wish(False, "b@ubc.example", ANN), Wish(False, ALL, "bob@x.example")]
    tokens = {token_for(SECRET, "key", wish) for wish in wishes}
    tokens |= {token_for(SECRET, "other", WISH), token_for(b"t" * 32, "key", WISH)}
    assert len(tokens) == 6
    token = token_for(SECRET, "key", WISH)
    assert question_of(command(Word.REQUEST), content(f"Subject: confirm {token}")).token == token
    assert token not in letter_id(token)


def letter_of(wish=WISH, accepted=NOW):
    return letter_message(confirmation_of(command(), wish, TOKEN), command(), ANN, "1" * 32, accepted)


@pytest.mark.parametrize(
    ("letter", "group", "author", "date"),
    [
        (letter_of(), "other@ubc.example", ANN, NOW),
        (letter_of(), ALL, "eve@x.example", NOW),
        (letter_of(), ALL, "", NOW),
        (letter_of(), ALL, ANN, NOW + TOKEN_SECONDS + 1),
        (letter_of(accepted=NOW + 10), ALL, ANN, NOW),
        (replace(letter_of(), wish=None), ALL, ANN, NOW),
    ],
)
def test_a_token_of_another_list_of_somebody_else_old_or_used_confirms_nothing(letter, group, author, date):
    assert confirmed_wish(letter, replace(command(), group=group), Author(author, ""), date) is None


def test_a_token_confirms_what_it_was_mailed_for():
    assert confirmed_wish(letter_of(), command(), Author("Ann@x.example", "", "forged"), NOW + TOKEN_SECONDS) == WISH


def test_what_leaving_a_group_ends_is_what_no_other_one_leads_to():
    parents = {
        "lab@sfu": frozenset({ALL, "announce@sfu", "lab@sfu"}),
        "own@ubc": frozenset({"top@ubc"}),
        "b@ubc": frozenset({ALL}),
    }
    assert ends_of(parents, "lab@sfu") == ("announce@sfu",)
    assert ends_of(parents, "own@ubc") == ("top@ubc",)
    assert ends_of(parents, "b@ubc") == ()


def test_letters_to_one_person_and_to_all_are_limited_by_the_hour():
    limits = LetterLimits()
    assert [limits.takes(person, 0) for person in (ANN, "ANN@x.example") * 3] == [True] * LETTERS_TO_ONE + [False]
    assert limits.takes("bob@x.example", 0)
    limits.give_back("Ann@x.example")
    assert limits.takes(ANN, 1)
    assert not limits.takes(ANN, AN_HOUR - 1)
    assert limits.takes(ANN, AN_HOUR)
    limits = LetterLimits()
    assert sum(limits.takes(f"p{number}@x.example", 0) for number in range(3 * LETTERS_TO_ALL)) == LETTERS_TO_ALL


def read(letter, *fields, person=ANN, about=None):
    return message_from_bytes(
        written(letter, about or command(), person, content(*fields), "1" * 32, NOW), policy=policy.default
    )


def test_a_letter_is_no_answer_to_answer_and_quotes_nothing():
    letter = read(confirmation_of(command(), WISH, TOKEN), "Message-ID: <1@x>", "Subject: buy this", "From: ann")
    assert (letter["From"], letter["To"]) == ("all-request@lists.ubc.example", ANN)
    assert letter["Reply-To"] == f"all-confirm+{TOKEN}@lists.ubc.example"
    assert (letter["Subject"], letter["In-Reply-To"], letter["References"]) == (f"confirm {TOKEN}", "<1@x>", "<1@x>")
    assert is_of_a_program(read_content(letter.as_bytes(policy=policy.SMTP)))
    assert "buy this" not in letter.as_string()
    message = letter_message(confirmation_of(command(), WISH, TOKEN), command(), ANN, "1" * 32, NOW)
    assert (message.sender, message.is_letter, message.wish) == ("", True, WISH)


@pytest.mark.parametrize("asked", ["<1@x>\tX: y", "<1@x> <2@x>", "<é@x>", "<" + "x" * 300 + ">", "1@x"])
def test_only_what_looks_like_a_message_id_is_named_in_an_answer(asked):
    assert read(confirmation_of(command(), WISH, TOKEN), f"Message-ID: {asked}")["In-Reply-To"] is None


def test_where_the_address_to_confirm_would_be_too_long_the_subject_is_enough():
    about = command(address="a" * 50 + "@lists.ubc.example")
    letter = read(confirmation_of(about, WISH, TOKEN), about=about)
    assert letter["Reply-To"] is None
    subject = content(f"Subject: Re: {letter['Subject']}")
    assert question_of(command(Word.REQUEST), subject) == Question(CommandRequest.CONFIRM, TOKEN)


def test_every_outcome_is_told():
    told = [outcome_of(command(), ANN, deed, has_owners=True).lines[0] for deed in Deed]
    assert len(set(told)) == len(Deed)
    assert all(ANN in text or "cannot be joined" in text for text in told)
    closed = outcome_of(command(), ANN, Deed.IS_CLOSED, has_owners=True)
    assert "all-owner@lists.ubc.example" in closed.lines[0]


def test_help_says_where_to_write():
    text = "\n".join(help_about(command(), JoinPolicy.OPEN, has_owners=True).lines)
    for ending in ("leave", "join", "request", "owner"):
        assert f"all-{ending}@lists.ubc.example" in text
    assert "to join it" in text
    assert "to ask its owners whether" in "\n".join(help_about(command(), JoinPolicy.ASK, has_owners=True).lines)
    text = "\n".join(help_about(command(), JoinPolicy.CLOSED, has_owners=False).lines)
    assert "to join it" not in text
    assert "-owner@" not in text


def test_the_ways_are_told_with_what_leaving_each_would_end():
    ways = [ListPath((ALL, "lab@sfu.example", ANN), ("announce@sfu.example", ALL)), ListPath((ALL, ANN), ())]
    lines = ways_of(command(), ANN, ways, is_muted=False).lines
    assert lines[0] == f"{ANN} is in all@lists.ubc.example by 2 ways:"
    assert "all@ubc.example -> lab@sfu.example -> ann@x.example" in lines
    assert "  leaving lab@sfu.example would also end: announce@sfu.example, all@ubc.example" in lines
    assert "  leaving all@ubc.example would end nothing else" in lines
    assert lines[-1].endswith("all-leave@lists.ubc.example")
    assert "all the same" in ways_of(command(), ANN, ways, is_muted=True).lines[-1]
    assert ways_of(command(), ANN, (), is_muted=False).lines == [f"{ANN} is not in all@lists.ubc.example."]
    many = [ListPath((ALL, f"g{at}@x", ANN), tuple(f"h{at}@x" for at in range(GROUPS_TOLD + 5))) for at in range(99)]
    text = "\n".join(ways_of(command(), ANN, many, is_muted=False).lines)
    assert f"and {99 - WAYS_TOLD} more" in text
    assert "and 5 more" in text
    unknown = ways_of(command(), ANN, [ListPath((ALL, ANN), (), is_told=False)], is_muted=False)
    assert "is not told" in unknown.lines[3]


@given(
    st.text(min_size=1, max_size=30),
    st.text(min_size=1, max_size=30),
    st.text(max_size=60),
    st.sampled_from([*Deed, None]),
)
def test_a_letter_is_one_message_whatever_is_in_it(name, person, group, deed):
    assume(is_deliverable(f"{name}-request@l.example", with_smtputf8=True))
    assume(is_deliverable(f"{person}@x.example", with_smtputf8=True))
    about = Command(group, Word.LEAVE, "", quoted(f"{name}@l.example", with_smtputf8=True), "x")
    wish = Wish(False, group, f"{person}@x.example")
    letter = (
        confirmation_of(about, wish, TOKEN) if deed is None else outcome_of(about, wish.person, deed, has_owners=True)
    )
    data = written(letter, about, wish.person, content(), "1" * 32, NOW)
    assert data.isascii() or not f"{name}{person}".isascii()
    head = data.partition(b"\r\n\r\n")[0]
    names = [line.partition(b":")[0] for line in head.split(b"\r\n") if line[:1].strip()]
    expected = [b"Message-ID", b"Date", b"From", b"To", b"Reply-To", b"Subject", b"Auto-Submitted", b"Precedence"]
    expected += [b"Content-Type", b"Content-Transfer-Encoding", b"MIME-Version"]
    assert [each for each in names if each != b"Reply-To"] == [each for each in expected if each != b"Reply-To"]
    read_content(data)
