"""Mailboxes of From, To and Cc, as mail programs write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mailing.rules.mailboxes import TEXT_LIMIT, MailAddress, mailboxes_in

ANN = "ann@people.example"


@pytest.mark.parametrize(
    ("text", "name"),
    [
        (ANN, ""),
        (f"<{ANN}>", ""),
        (f"< {ANN} >", ""),
        (f"{ANN} <{ANN}>", ANN),
        (f"'{ANN}' <{ANN}>", f"'{ANN}'"),
        (f'"{ANN}" <{ANN}>', ANN),
        (f"eve@evil.example <{ANN}>", "eve@evil.example"),
        (f"Ann.Lee <{ANN}>", "Ann.Lee"),
        (f"Dr. Ann Q. Lee <{ANN}>", "Dr. Ann Q. Lee"),
        (f"Lee, Ann <{ANN}>", "Lee, Ann"),
        (f"Lee, Ann (Sales) <{ANN}>", "Lee, Ann"),
        (f"Ann [Sales] <{ANN}>", "Ann [Sales]"),
        (f"Ann: the one <{ANN}>", "Ann: the one"),
        (f"Ann @ home <{ANN}>", "Ann @ home"),
        (f"Ann <work> <{ANN}>", "Ann work"),
        (f'"Ann \\"Q\\" Lee" <{ANN}>', 'Ann "Q" Lee'),
        (f'"Lee, Ann <bob@x.example>" <{ANN}>', "Lee, Ann <bob@x.example>"),
        (f'Ann "Lee <{ANN}>', 'Ann "Lee'),
        (f"Ann (Sales <{ANN}>", "Ann (Sales"),
        (f"Ann <{ANN}", "Ann"),
        (f"{ANN} (Ann (the one) Lee)", "Ann (the one) Lee"),
        (f"(Ann) {ANN}", "Ann"),
        (f"Ann Lee {ANN}", "Ann Lee"),
        (f"Team: {ANN};", ""),
        (f"Team: Ann <{ANN}>;", "Ann"),
        (f"{ANN},", ""),
        (f"Ann <{ANN}>;", "Ann"),
        (f"Ann <@a.example,@b.example:{ANN}>", "Ann"),
        ("Ann <ann @ people . example>", "Ann"),
        ("ann(x)@people.example", "x"),
        (f"Ann <{ANN}> <{ANN}>", "Ann"),
        (f"=?utf-8?q?M=C3=BCller=2C_Ann?= <{ANN}>", "=?utf-8?q?M=C3=BCller=2C_Ann?="),
        (f"Größe <{ANN}>", "Größe"),
    ],
)
def test_one_mailbox_is_found_however_its_name_is_written(text, name):
    assert mailboxes_in(text) == [MailAddress(name, ANN)]


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ('"ann lee"@people.example', '"ann lee"@people.example'),
        ('Ann <"ann lee"@people.example>', '"ann lee"@people.example'),
        ("büro@bücher.example", "büro@bücher.example"),
        ("ann@[192.0.2.1]", "ann@[192.0.2.1]"),
    ],
)
def test_unusual_addresses_are_found(text, address):
    assert [each.address for each in mailboxes_in(text)] == [address]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "<>",
        "Ann",
        "Ann <>",
        "(ann@people.example)",
        "Team:;",
        "undisclosed-recipients:;",
        "a@b@c.example",
        "@",
        "<@>",
    ],
)
def test_what_is_no_address_is_passed_over(text):
    assert mailboxes_in(text) == []


@pytest.mark.parametrize(
    "text",
    [
        f"eve@evil.example, Ann <{ANN}>",
        f"Eve <eve@evil.example>, {ANN}",
        f"Team: eve@evil.example, {ANN};",
        f"Team: eve@evil.example; {ANN}",
    ],
)
def test_several_mailboxes_are_several(text):
    assert [each.address for each in mailboxes_in(text)] == ["eve@evil.example", ANN]


def test_two_brackets_that_differ_are_nobody_for_sure():
    assert mailboxes_in(f"Ann <eve@evil.example> <{ANN}>") == []


@given(st.text(alphabet='ab@.,;:<>()"\\ \t', max_size=60))
def test_any_text_is_read_and_an_address_stands_in_it(text):
    for each in mailboxes_in(text):
        assert "@" in each.address
        assert set(each.address) <= set(text)


@pytest.mark.parametrize("begin", ["(", "<", '"', '\\"', ":;", '"a', "a@b ", "<a@b", "(<a>", '<"', " ", "."])
def test_a_hostile_text_is_read_in_as_many_steps_as_a_long_one(begin):
    """Without a limit in time: a quadratic reader takes minutes, and the test's own limit ends it."""
    mailboxes_in((begin * TEXT_LIMIT)[:TEXT_LIMIT])
