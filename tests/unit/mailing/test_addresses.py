"""Names as addresses, and addresses as names."""

import pytest

from mailing.rules.addresses import (
    UndeliverableError,
    is_deliverable,
    is_same_person,
    mailbox_of,
    name_of,
    quoted,
    unquoted,
)


@pytest.mark.parametrize(
    ("name", "address"),
    [
        ("ann@x.example", "ann@x.example"),
        ("ann.lee+tag@x.example", "ann.lee+tag@x.example"),
        ("a,b@x.example", '"a,b"@x.example'),
        ("root x@x.example", '"root x"@x.example'),
        ("(comment)ann@x.example", '"(comment)ann"@x.example'),
        ("a;b:c@x.example", '"a;b:c"@x.example'),
        (".ann@x.example", '".ann"@x.example'),
        ("ann..lee@x.example", '"ann..lee"@x.example'),
        ("ann.@x.example", '"ann."@x.example'),
        ("[ann]@x.example", '"[ann]"@x.example'),
        ('say "hi"@x.example', '"say \\"hi\\""@x.example'),
        ("back\\slash@x.example", '"back\\\\slash"@x.example'),
        ("/file@x.example", "/file@x.example"),
    ],
)
def test_a_name_is_quoted_where_rfc_5321_wants_it_and_read_back_as_it_was(name, address):
    assert quoted(name) == address
    assert unquoted(address) == name


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("ann", "LOCAL@DOMAIN"),
        ("@x.example", "LOCAL@DOMAIN"),
        ("ann@", "domain"),
        ("root@localhost", "domain"),
        ("root@LOCALHOST.localdomain", "domain"),
        ("root@mail.localhost", "domain"),
        ("root@ubc", "domain"),
        ("root@[127.0.0.1]", "domain"),
        ("ann@x..example", "domain"),
        ("jürgen@x.example", "ASCII"),
        ("-oQ/tmp@x.example", "'-'"),
        ("a\nb@x.example", "character"),
        ("a\0b@x.example", "character"),
        ("a<b>@x.example", "character"),
        ("a@b@x.example", "character"),
        ("a" * 65 + "@x.example", "64 octets"),
        ("a " + "b" * 61 + "@x.example", "64 octets"),
        ("ann@" + ".".join(["a" * 60] * 4) + ".example", "254 octets"),
    ],
)
def test_what_cannot_be_sent_to_is_refused_and_says_why(name, why):
    with pytest.raises(UndeliverableError, match=why):
        quoted(name)
    assert not is_deliverable(name)


@pytest.mark.parametrize("length", [62, 64])
def test_the_longest_local_parts_go_with_their_quotes(length):
    plain, spaced = "a" * length + "@x.example", "a " + "b" * 60 + "@x.example"
    assert quoted(plain) == plain
    assert len(quoted(spaced).partition("@")[0]) == 64


@pytest.mark.parametrize("text", ["ann@x.example", '"ann@x.example', 'a"n"n@x.example', '""', "", '"a"@', '"a"@x"y'])
def test_what_is_not_a_quoted_address_is_left_as_it_is(text):
    assert unquoted(text) == text


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Ann.Lee@people.example", "ann.lee@PEOPLE.example"),
        ('"ann.lee"@people.example', "ann.lee@people.example"),
        ("ann@people.example.", "ann@people.example"),
        ("ann@bücher.example", "ann@xn--bcher-kva.example"),
        ("ann@BÜCHER.example", "Ann@XN--BCHER-KVA.example."),
        ("ann@bu\u0308cher.example", "ann@bücher.example"),
        ("JÜRGEN@people.example", "jürgen@people.example"),
        ("ju\u0308rgen@people.example", "jürgen@people.example"),
        ("ann@[192.0.2.1]", "ANN@[192.0.2.1]"),
    ],
)
def test_one_mailbox_is_one_person_however_it_is_written(one, other):
    assert is_same_person(one, other)
    assert mailbox_of(one) == mailbox_of(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("ann@people.example", "bob@people.example"),
        ("ann@people.example", "ann@people2.example"),
        ("ann+lists@people.example", "ann@people.example"),
        ("a.nn@people.example", "ann@people.example"),
        ("strasse@people.example", "straße@people.example"),
        ("ann@faß.example", "ann@fass.example"),
        ("", ""),
        ("", "ann@people.example"),
    ],
)
def test_two_mailboxes_are_two_people(one, other):
    assert not is_same_person(one, other)


def test_the_name_of_an_address_keeps_its_case_and_has_the_domain_as_dns_has_it():
    assert name_of('"Ann Lee"@Bücher.example.') == "Ann Lee@xn--bcher-kva.example"
    assert name_of("ann@a_b.example") is None
    assert name_of("ann") is None
