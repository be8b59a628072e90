"""Messages as bytes: their reading, their key, the fields that a list adds, and the return address of bounces."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailing.rules.addresses import quoted
from mailing.rules.automatic import is_automatic
from mailing.rules.list_headers import Copies, ListPlaces, list_id, traced
from mailing.rules.lmtp import LmtpError, LmtpReader, Path, read_path, reply_line
from mailing.rules.message import (
    MalformedError,
    addressed_people,
    key_of,
    read_content,
)
from mailing.rules.reports import failure_report
from mailing.rules.return_path import BouncePlace, bounce_place, fits_verp, return_path, token_of
from mailing.rules.spooled import Chunk, Destination, MailMessage, People

SECRET = b"s" * 32
DESTINATION = Destination("all@ubc.example", "all@lists.ubc.example", True)


def content(*fields, body=b"\r\nbody\r\n"):
    return read_content("".join(f"{field}\r\n" for field in fields).encode() + body)


def copied(read, destination=DESTINATION, click="", **places):
    message = MailMessage("a" * 32, "ann@x.example", 1_000, (destination,))
    places = ListPlaces(**places)
    return Copies(message, destination, read, secret=SECRET, host="h.example", places=places).of(click)


@given(st.binary(max_size=200).map(lambda data: data.replace(b"\r", b"").replace(b"\n", b"\r\n")))
def test_what_is_read_is_put_together_again_byte_for_byte(body):
    data = b"From: a\r\n b\r\nX-1:\r\n\r\n" + body
    read = read_content(data)
    assert b"".join(field.raw for field in read.fields) + read.rest == data
    assert copied(read).endswith(data)


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"From: a\n\r\n", "5.6.0"),
        (b"From: a\r\n\r\nx\ry\r\n", "5.6.0"),
        (b"From a\r\n\r\n", "5.6.0"),
        (b" begins with a fold\r\n\r\n", "5.6.0"),
        (b": no name\r\n\r\n", "5.6.0"),
        (b"X: " + b"x" * 1_000_000 + b"\r\n\r\n", "5.3.4"),
        (b"X: y\r\n" * 10_001 + b"\r\n", "5.3.4"),
    ],
)
def test_what_no_message_may_hold_is_refused(data, code):
    with pytest.raises(MalformedError) as told:
        read_content(data)
    assert told.value.code == code


def test_a_message_without_a_body_or_a_header_is_one():
    assert copied(read_content(b"From: a\r\n")).endswith(b"From: a\r\n\r\n")
    assert read_content(b"\r\nbody\r\n").fields == ()


def test_a_key_rests_on_who_wrote_what_and_when_and_not_on_the_way_it_came():
    whole = ("Message-ID: <1@x>", "From: ann", "Date: today")
    key = key_of(content(*whole))
    assert key_of(content("Received: by x", *whole, "Subject: [other] words")) == key
    assert key_of(content("Message-ID: <1@x>", "From:\r\n ann", "Date: today")) == key
    changed = [("Message-ID: <2@x>", *whole[1:]), (whole[0], "From: eve", whole[2]), (*whole[:2], "Date: tomorrow")]
    keys = {key_of(content(*fields)) for fields in changed} | {key_of(content(*whole, body=b"\r\nother\r\n"))}
    assert len({key, *keys}) == 5
    without = [key_of(content("From: ann", f"Subject: {word}")) for word in "ab"]
    assert without[0] != without[1]


@pytest.mark.parametrize(
    ("field", "is_one"),
    [("Auto-Submitted: no", False), ("Auto-Submitted: No; x=y", False), ("Auto-Submitted: auto-replied", True)],
)
def test_automatic_messages_say_so(field, is_one):
    assert is_automatic(content(field)) is is_one
    assert not is_automatic(content())


def test_people_in_to_and_cc_are_found_by_their_mailboxes():
    read = content("To: Ann <Ann@X.example>, undisclosed:;", 'Cc: "b, c" <bob@x.example>, cy@x.example <cy@x.example>')
    assert addressed_people(read) == ("ann@x.example", "bob@x.example", "cy@x.example")


def test_a_copy_has_the_fields_of_its_list_whatever_a_signature_covers():
    read = content(
        "List-Id: <theirs>", "List-Unsubscribe: <theirs>", "DKIM-Signature: v=1; h=from:List-Id:list-post\r\n ; b=x"
    )
    copy = copied(read, owners="all-owner@lists.ubc.example", leave="all-leave@lists.ubc.example")
    for field in (
        b"List-Id: <all.ubc.example>",
        b"List-Post: <mailto:all@lists.ubc.example>",
        b"List-Owner: <mailto:all-owner@lists.ubc.example>",
        b"List-Unsubscribe: <mailto:all-leave@lists.ubc.example>",
    ):
        assert copy.count(field + b"\r\n") == 1
    assert b"theirs" not in copy


def test_no_signature_keeps_a_field_of_its_author_in_a_copy():
    """Nobody may have verified it."""
    theirs = [
        "List-Id: <payroll.bank.example>",
        "List-Unsubscribe: <https://evil.example/u>",
        "List-Unsubscribe-Post: List-Unsubscribe=One-Click",
        "List-Subscribe: <https://evil.example/s>",
        "List-Archive: <https://evil.example/a>",
        "Precedence: evil.example",
    ]
    covered = ":".join(field.partition(":")[0] for field in theirs)
    signature = f"DKIM-Signature: v=1; d=evil.example; h=from:{covered}:shadowtree-trace; b=x"
    copy = copied(content(signature, *theirs, *reversed(theirs)), leave="all-leave@lists.ubc.example")
    assert b"payroll" not in copy and copy.count(b"evil.example") == 1
    for field in (b"List-Id: <all.ubc.example>", b"Precedence: list", b"Shadowtree-Trace: " + b"a" * 32):
        assert copy.count(field) == 1
    assert b"List-Unsubscribe: <mailto:all-leave@lists.ubc.example>\r\n" in copy


def test_a_list_of_nobody_to_post_or_to_ask_says_so():
    copy = copied(content("Message-ID: <1@x>"), is_closed=True)
    assert b"List-Post: NO\r\n" in copy
    assert b"List-Owner" not in copy
    assert b"List-Unsubscribe" not in copy
    click = copied(content("From: ann"), click="https://h/u/x", leave="a-leave@l")
    assert b"List-Unsubscribe: <https://h/u/x>, <mailto:a-leave@l>\r\nList-Unsubscribe-Post: List-Uns" in click
    told = copied(content("From: ann"), owners='"a b-owner"@l.example', leave="all-leave@l.example")
    assert b"List-Owner: <mailto:%22a%20b-owner%22@l.example>\r\nList-Unsubscribe: <mailto:all-leave@l.example>" in told
    assert copy.count(b"Message-ID") == 1
    assert b"Message-ID: <" + b"a" * 32 + b"@h.example>\r\n" in copied(content("From: ann"))


@given(st.text(max_size=30))
def test_names_of_groups_add_no_line(name):
    destination = Destination(f"{name}@ubc.example", "all@lists.ubc.example", True)
    lines = copied(content("From: ann", "Message-ID: <1@x>"), destination).split(b"\r\n")
    assert len(lines) == 10
    assert all(line.isascii() for line in lines)
    assert list_id(f"{name}@ubc.example").isascii()


def test_a_trace_is_of_one_list_and_of_this_gateway():
    copy = read_content(copied(content("From: ann")))
    assert traced(copy, "all@ubc.example", SECRET)
    assert not traced(copy, "other@ubc.example", SECRET)
    assert not traced(copy, "all@ubc.example", b"t" * 32)
    assert not traced(content("Shadowtree-Trace: \u00e9; \u00e9"), "all@ubc.example", SECRET)


TOKEN = token_of(SECRET, "a" * 32)


@pytest.mark.parametrize("address", ["all@l.example", '"big list"@l.example'])
def test_a_return_path_names_the_message_and_the_person(address):
    people = People([Chunk("a" * 32, 3, 0, ("ann@x.example", "Bob@x.example"), (0, 1))])
    local, _, domain = return_path(address, TOKEN, "3.1").replace('"', "").rpartition("@")
    place = bounce_place(f"{local}@{domain}")
    assert (place.token, place.find_in(people)) == (TOKEN, (3, 1))
    verp = bounce_place(f"all-bounces-{TOKEN}+bob=x.example@l.example")
    assert verp.find_in(people) == (3, 1)
    for person in ("3.2", "4.0", "eve=x.example", "x"):
        assert bounce_place(f"all-bounces-{TOKEN}+{person}@l.example").find_in(people) is None


def test_what_is_no_return_path_is_none():
    for name in ("all@l.example", "all-bounces@l.example", "all-bounces-abc+x=y@l.example", f"-bounces-{TOKEN}+x@l"):
        assert bounce_place(name) is None
    assert fits_verp("all@l.example", TOKEN, "ann@x.example")
    assert not fits_verp("all@l.example", TOKEN, "a" * 40 + "@x.example")
    assert not fits_verp('"big list"@l.example', TOKEN, "ann@x.example")


@given(st.binary(max_size=300))
def test_a_report_that_is_none_says_nothing(data):
    assert failure_report(b"Content-Type: multipart/report; boundary=b\r\n\r\n" + data) is None


@given(st.binary(max_size=400), st.lists(st.integers(1, 40), max_size=60))
def test_a_message_comes_out_as_it_went_in_however_it_is_cut(body, cuts):
    lines = body.replace(b"\r", b"").split(b"\n")
    message = b"".join(line + b"\r\n" for line in lines)
    stuffed = b"".join((b"." if line.startswith(b".") else b"") + line + b"\r\n" for line in lines)
    sent = stuffed + b".\r\nQUIT\r\n"
    reader, found = LmtpReader(), None
    reader.expect_message(1_000)
    at = 0
    for cut in [*cuts, len(sent)]:
        reader.feed(sent[at : at + cut])
        at += cut
        if found is None:
            found = reader.message()
    assert found == (message,)
    assert reader.command().verb == "QUIT"


def test_a_message_may_be_empty_and_one_that_is_too_large_is_read_to_its_end():
    reader = LmtpReader()
    reader.expect_message(10)
    reader.feed(b".\r\n")
    assert reader.message() == (b"",)
    reader.expect_message(10)
    for _ in range(100):
        reader.feed(b"x" * 100 + b"\r\n")
        assert reader.message() is None
    assert len(reader._held) < 1_000
    reader.feed(b".\r\nNOOP\r\n")
    assert reader.message() == (None,)
    assert reader.command().verb == "NOOP"


@pytest.mark.parametrize("line", [b"NOOP\n", b"NO\rOP\r\n", b"\xff\r\n", b"x" * 5_000 + b"\r\n", b"x" * 5_000])
def test_lines_that_are_no_command_are_refused(line):
    reader = LmtpReader()
    reader.feed(line)
    with pytest.raises(LmtpError):
        reader.command()


@pytest.mark.parametrize(
    ("rest", "path"),
    [
        ("FROM:<>", Path("")),
        ("from:<ann@x> SIZE=12 BODY=8BITMIME", Path("ann@x", 12)),
        ('FROM:<"a> b"@x> SMTPUTF8', Path('"a> b"@x', None, True)),
    ],
)
def test_paths_are_read(rest, path):
    assert read_path(rest, "FROM") == path


@pytest.mark.parametrize(
    "rest", ["FROM:ann@x", "FROM:<ann@x", "TO:<ann@x>", "FROM:<a b@x>", "FROM:<a@x> X=1", "FROM:<a@x>b"]
)
def test_what_is_no_path_is_refused(rest):
    with pytest.raises(LmtpError):
        read_path(rest, "FROM")


def test_a_reply_is_one_line():
    assert reply_line("550 5.1.1", "a\r\nb\u00e9" + "x" * 600).count(b"\r\n") == 1


@pytest.mark.parametrize(
    ("name", "address"),
    [("jürgen@x.example", "jürgen@x.example"), ("ü ber@x.example", '"ü ber"@x.example')],
)
def test_names_beyond_ascii_are_quoted_for_smtputf8_alone(name, address):
    assert quoted(name, with_smtputf8=True) == address


def test_the_return_path_of_a_list_that_is_not_ascii_is_ascii_and_still_comes_back_here():
    sender = return_path("büro@lists.ubc.example", TOKEN)
    assert sender.isascii()
    assert fits_verp("büro@lists.ubc.example", TOKEN, "ann@x.example")
    assert bounce_place(return_path("büro@lists.ubc.example", TOKEN, "1.2")) == BouncePlace(TOKEN, "1.2")
