"""The own mail server's statement about a message's author, and the fate of the message."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailing.rules.authors import author_of, shown, subject_of
from mailing.rules.intake import RecipientReply, judged
from mailing.rules.list_headers import Copies, ListPlaces
from mailing.rules.lists import ListSettings
from mailing.rules.message import read_content
from mailing.rules.posting import Permitted, Refused, Uncertain, UnconfirmedAuthor, poster_of
from mailing.rules.spooled import Destination, MailMessage, Standing

MX = "mx.ubc.example"
FROM = "From: Ann Lee <Ann@x.example>"
PASS = f"Authentication-Results: {MX}; dmarc=pass (p=reject) header.from=x.example"
SPF = f"Authentication-Results: {MX}; spf=pass smtp.mailfrom=x.example"
LOGIN = (
    "Received: from laptop (home [192.0.2.1])\r\n\t(using TLSv1.3 with cipher X (256/256 bits))\r\n"
    f"\t(Authenticated sender: ann@x.example)\r\n\tby {MX} (Postfix) with ESMTPSA id 4A\r\n\tfor <all@l>;"
    " Thu, 26 Nov 2026 04:55:13 +0000 (UTC)"
)
FROM_H = "Received: from h (h [192.0.2.1])"
CLAIM = f"Authenticated sender: ann@x.example) by {MX} (Postfix) with ESMTPSA id"
ALL = "all@ubc.example"
LIST = Destination(ALL, "all@lists.ubc.example", True, people_limit=5, owners="all-owner@lists.ubc.example")


def content(*fields):
    return read_content("".join(f"{field}\r\n" for field in fields).encode() + b"\r\nbody\r\n")


def author(*fields, own=MX):
    return author_of(content(*fields), own)


def test_an_author_counts_where_the_own_mail_server_says_that_dmarc_passed():
    found = author(PASS, FROM)
    assert (found.address, found.name, found.is_confirmed) == ("Ann@x.example", "Ann Lee", True)
    assert author(PASS.replace(MX, f"{MX.upper()} 1"), FROM).is_confirmed


@pytest.mark.parametrize(
    "received",
    [
        f"Received: from x.example (mail.x.example [192.0.2.1])\r\n\tby {MX} (Postfix) with ESMTPS id 1; today",
        f"Received: from x.example (unknown [IPv6:2001:db8::1])\r\n\tby {MX} (Postfix) with ESMTP id 1; today",
        f"Received: from [192.0.2.1] (helo=x ([192.0.2.1])) by {MX.upper()} with esmtps (TLS1.3) (Exim 4.96); today",
        LOGIN,
    ],
)
def test_results_count_around_what_the_own_mail_server_writes_of_what_it_received(received):
    eve = "From: eve@x.example"
    assert author("X-Filter: x", PASS, received, "X-Filter: x", eve).is_confirmed
    assert author(received, "X-Filter: x", PASS, "Received: from h", eve).is_confirmed
    assert author(received, PASS, "Received: from h", PASS.replace("dmarc=pass", "dmarc=fail"), eve).is_confirmed
    assert not author(received, "Received: from h", PASS, eve).is_confirmed
    assert not author(received, received, PASS, eve).is_confirmed
    elsewhere = received.replace(MX, "mx.x.example").replace(MX.upper(), "mx.x.example")
    assert not author(elsewhere, PASS, eve).is_confirmed


def test_an_author_counts_by_a_login_that_is_the_address():
    assert author(LOGIN, FROM).is_confirmed
    assert author(f"Authentication-Results: {MX}; auth=pass smtp.auth=ann@x.example", FROM).is_confirmed


@pytest.mark.parametrize(
    "fields",
    [
        (FROM,),
        (PASS.replace(MX, "mx.elsewhere.example"), FROM),
        (PASS.replace(MX, f"{MX}.elsewhere.example"), FROM),
        (PASS.replace("dmarc=pass", "dmarc=fail"), FROM),
        (PASS, PASS.replace("dmarc=pass", "dmarc=fail"), FROM),
        (PASS.replace("x.example", "y.example"), FROM),
        (PASS.replace(" header.from=x.example", ""), FROM),
        (PASS.replace("dmarc=pass", "spf=pass (dmarc=pass"), FROM),
        (f'Authentication-Results: {MX}; spf=pass smtp.mailfrom="a; dmarc=pass header.from=x.example"@y', FROM),
        (f"Authentication-Results: {MX} 2; dmarc=pass header.from=x.example", FROM),
        (f"{PASS} {'(' * 500}{')' * 500}", FROM),
        (f"{PASS}; x={'y' * 5_000}", FROM),
        (f"ARC-{PASS}", FROM),
        # Fields that stand below a Received came with the message.
        (LOGIN.replace("sender: ann", "sender: eve"), "Received: from h", PASS, FROM),
        (SPF, "Received: by filter.example", PASS, FROM),
        (f"Received: from evil by {MX} (Postfix) with ESMTP id 1; today", PASS, FROM),
        (f"Received: from evil by {MX}", f"Authentication-Results: {MX}; auth=pass smtp.auth=ann@x.example", FROM),
        (PASS, FROM, "From: eve@x.example"),
        (PASS, "From: ann@x.example, eve@x.example"),
        (PASS, "From: undisclosed:;"),
        (LOGIN.replace(MX, "mx.elsewhere.example"), FROM),
        (LOGIN.replace("sender: ann", "sender: eve"), FROM),
        (LOGIN.replace("ESMTPSA", "ESMTPS"), FROM),
        ("Received: by filter.example", LOGIN, FROM),
        # A client's certificate, and the one recipient, that name a login.
        (f'{FROM_H} (Client CN "h ({CLAIM} 1; today") by {MX} (Postfix) with ESMTPS id 4A; today', FROM),
        (f'{FROM_H} by {MX} (Postfix) with ESMTPS id 4A for <"({CLAIM} 1; x"@l>; today', FROM),
        (f"Authentication-Results: {MX}; auth=fail smtp.auth=ann@x.example", FROM),
        (f"Authentication-Results: {MX}; auth=pass smtp.auth=ann", FROM),
    ],
)
def test_what_does_not_confirm_an_author(fields):
    found = author(*fields)
    assert not found.is_confirmed
    assert found.doubt


def test_without_the_name_of_the_own_mail_server_nobody_is_confirmed():
    assert "authserv_id" in author(PASS, FROM, own=None).doubt


@pytest.mark.parametrize(
    ("signature", "is_aligned"),
    [
        ("dkim=pass header.d=x.example", True),
        ("dkim=pass header.i=@mail.x.example", True),
        ("dkim=pass header.d=y.example", False),
        ("dkim=pass header.d=example", False),
        ("dkim=fail header.d=x.example", False),
    ],
)
def test_a_message_is_unsigned_where_no_signature_is_of_the_domain_of_its_author(signature, is_aligned):
    assert author(PASS, SPF, f"Authentication-Results: {MX}; {signature}", FROM).rests_on_spf is not is_aligned


SIGNED = f"Authentication-Results: {MX}; dkim=pass header.d=x.example"
OVERSIGNED = "DKIM-Signature: v=1; d=X.example; s=one;\r\n h=from:to:List-Id:List-Unsubscribe; b=Ab1\r\n Cd2"
PLAIN = "DKIM-Signature: v=1; d=x.example; s=two; h=from:to; b=Ef3Gh4"


@pytest.mark.parametrize(
    ("signatures", "told", "is_left"),
    [
        ((), "", True),
        ((PLAIN,), "", True),
        ((OVERSIGNED,), "", False),
        ((PLAIN, OVERSIGNED), "", False),
        ((PLAIN, OVERSIGNED), " header.s=two", True),
        ((PLAIN, OVERSIGNED), " header.s=one", False),
        ((PLAIN, OVERSIGNED), " header.b=Ef3", True),
        ((PLAIN, OVERSIGNED), " header.b=Ab1C", False),
        ((OVERSIGNED.replace("X.example", "y.example"),), "", True),
    ],
)
def test_a_signature_that_covers_fields_of_lists_does_not_go_along_with_a_copy(signatures, told, is_left):
    assert author(PASS, f"{SIGNED}{told}", *signatures, FROM, "Message-ID: <1@x>").rests_on_spf is not is_left


@pytest.mark.parametrize(
    ("covered", "fields", "is_left"),
    [
        ("subject:to:message-id", (), True),
        ("precedence", (), False),
        ("shadowtree-trace", (), False),
        ("list-unsubscribe-post", (), False),
        ("list-archive:list-subscribe", (), True),
        ("list-archive", ("List-Archive: <https://x.example>",), False),
    ],
)
def test_a_signature_holds_where_a_copy_has_nothing_otherwise_than_it_says(covered, fields, is_left):
    signature = f"DKIM-Signature: v=1; d=x.example; s=one; h=from:{covered}; b=x"
    assert author(PASS, SIGNED, signature, FROM, "Message-ID: <1@x>", *fields).rests_on_spf is not is_left


def test_a_signature_that_says_that_there_is_no_message_id_does_not_go_along_with_a_copy():
    signature = "DKIM-Signature: v=1; d=x.example; s=one; h=from:message-id; b=x"
    assert author(PASS, SIGNED, signature, FROM).rests_on_spf


@pytest.mark.parametrize(
    "name", ["ann@x.example", "Lee, Ann (Sales)", "Ann [Sales]", '"Ann', "=?utf-8?q?M=C3=BCller?=", "eve@evil.example"]
)
def test_an_author_counts_whatever_name_stands_before_the_address(name):
    found = author(PASS, f"From: {name} <ann@x.example>")
    assert (found.address, found.is_confirmed) == ("ann@x.example", True)


def test_an_author_counts_by_the_domain_as_dns_has_it():
    results = f"Authentication-Results: {MX}; dmarc=pass header.from=xn--bcher-kva.example"
    assert author(results, "From: ann@bücher.example").is_confirmed
    assert author(results.replace("from=", "from=ann@"), "From: ann@xn--bcher-kva.example.").is_confirmed


def test_what_a_login_confirms_is_passed_on_as_it_is():
    assert not author(LOGIN, FROM).rests_on_spf


@given(st.text(max_size=100), st.text(max_size=60))
def test_no_field_breaks_what_reads_it(results, name):
    fields = (f"Authentication-Results: {MX} {results}", f"From: {name} <ann@x.example>", f"Subject: {name}")
    lines = "".join(" ".join(each.split()) + "\r\n" for each in fields)
    read = read_content(lines.encode("utf-8", "replace") + b"\r\n")
    author_of(read, MX)
    assert subject_of(read).isprintable()


@pytest.mark.parametrize("text", ["=?utf-8?q?a=0Abc?=", "=?x-unknown?q?abc?=", "=?utf-8?b?abc=?=", "=?utf-8?q?=ff?="])
def test_what_is_shown_is_one_line(text):
    assert shown(text).isprintable()
    assert len(shown(text * 100)) <= 100


@pytest.mark.parametrize("charset", ["utf-\u0663", "nix", "", "utf-8*\u00e9", "x" * 500])
def test_a_word_in_a_charset_that_nobody_knows_is_shown_as_it_came(charset):
    word = f"=?{charset}?q?Ann?="
    assert shown(word) in (word[:100], "Ann")
    assert author(f"From: {word} <ann@x.example>").address == "ann@x.example"


def destined(verdict, *fields, sender="ann@x.example", destination=LIST, **settings):
    return judged(destination, verdict, ListSettings(**settings), author(*fields), sender)


def test_what_an_author_may_send_goes():
    assert destined(Permitted(), PASS, FROM) == LIST


def test_what_nobody_confirms_is_held_and_told_to_owners_where_there_are_some():
    found = destined(UnconfirmedAuthor("forged"), FROM)
    assert (found.standing, found.why, found.is_to_note) == (Standing.HELD, "forged", True)
    assert not destined(UnconfirmedAuthor("forged"), FROM, destination=Destination(ALL, "all@l", True)).is_to_note


def test_who_may_not_post_is_refused_where_a_bounce_comes_to_the_author_alone():
    assert destined(Refused("no"), PASS, FROM, sender="ANN@x.example") == RecipientReply("550 5.7.1", "no")
    assert destined(Refused("no"), PASS, FROM, sender="bounces@x.example").standing is Standing.DROPPED
    assert destined(Refused("no"), PASS, FROM, sender="bounces@x.example").is_to_note
    assert destined(Refused("no"), FROM).standing is Standing.HELD
    assert destined(Refused("no"), PASS, FROM, holds_others=True).standing is Standing.HELD


def test_what_cannot_be_told_now_is_tried_again():
    assert destined(Uncertain("away"), PASS, FROM) == RecipientReply("451 4.3.0", "away")


@pytest.mark.parametrize("post", ["members", "staff@ubc.example"])
def test_members_are_known_by_a_confirmed_from(post):
    settings = ListSettings(post=post)
    assert poster_of(settings, author(PASS, FROM), "x@y.example") == "Ann@x.example"
    assert isinstance(poster_of(settings, author(FROM), "ann@x.example"), UnconfirmedAuthor)
    trusting = ListSettings(post=post, is_authenticated=False)
    assert poster_of(trusting, author(FROM), "ann@x.example") == "ann@x.example"


@pytest.mark.parametrize("post", ["anyone", "nobody"])
def test_where_it_does_not_matter_who_writes_nobody_has_to_be_confirmed(post):
    assert poster_of(ListSettings(post=post), author(FROM), "ann@x.example") == "ann@x.example"


def copied(*fields, address="all@lists.ubc.example"):
    destination = Destination(ALL, address, True, rewrites_from=True)
    read = content("Message-ID: <1@x>", *fields)
    message = MailMessage("a" * 32, "ann@x.example", 1_000, (destination,))
    copy = Copies(message, destination, read, secret=b"s", host="h", places=ListPlaces()).of()
    return read_content(copy)


def test_from_is_rewritten_to_the_list_and_answers_go_to_the_author():
    copy = copied(FROM)
    assert copy.values("from") == ["Ann Lee via all <all@lists.ubc.example>"]
    assert copy.values("reply-to") == ["Ann@x.example"]
    assert copied(FROM, "Reply-To: desk@x.example").values("reply-to") == ["desk@x.example"]
    assert copied("From: ann@x.example").values("from") == ['"ann@x.example via all" <all@lists.ubc.example>']
    assert copied(FROM, address="größe@l.example").values("from") == [FROM[6:]]


@given(st.text(max_size=150))
def test_a_name_in_from_adds_no_line_and_stays_a_name(name):
    name = " ".join(name.replace('"', "").replace("\\", "").split()).encode("utf-8", "replace").decode()
    copy = copied(f'From: "{name}" <ann@x.example>')
    assert len(copy.values("from")) == 1
    assert author_of(copy, None).address in ("all@lists.ubc.example", "ann@x.example", "")
    assert len(copy.fields) == 8
