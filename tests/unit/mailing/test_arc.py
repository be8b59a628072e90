"""Seals (ARC): their content, the parts that they cover, and the cases without one."""

import asyncio
from collections import Counter
from dataclasses import replace

import dkim
import pytest
from dkim.canonicalization import Relaxed
from dkim.crypto import parse_pem_private_key
from hypothesis import given
from hypothesis import strategies as st

from mailing.rules.arc import SigningKey
from mailing.rules.list_headers import Copies, ListPlaces
from mailing.rules.message import read_content
from mailing.rules.spooled import Destination, ListOrigin, MailMessage
from mailing.shell import arc_seals
from mailing.shell.arc_seals import body_hash
from mailing.shell.sealing import BROKEN, FAILED, SEALED, SEALS, UNCHECKED, VERIFIED_BYTES_LIMIT, Sealing
from tests.fakes.signing_keys import Dns, SigningKeyFiles

MX = "mx.ubc.example"
RESULTS = f"Authentication-Results: {MX}; dmarc=pass (p=none) header.from=x.example"
FORGED = "Authentication-Results: mx.elsewhere; dmarc=fail header.from=x.example"
STATED = f"{RESULTS}; arc=pass"
LETTER = (
    "From: Ann <ann@x.example>",
    "To: all@lists.ubc.example",
    "Subject: tea",
    "Date: Wed, 25 Nov 2026 12:00:00 +0000",
    "Message-ID: <1@x.example>",
    "DKIM-Signature: v=1; d=x.example; h=from; b=x",
)
LIST = Destination("all@ubc.example", "all@lists.ubc.example", True)
LAB = Destination("lab@ubc.example", "lab@lists.ubc.example", True)
FOREIGN = replace(LIST, origin=ListOrigin("lists.sfu.example", "a", here="all@lists.ubc.example"))
PLACES = ListPlaces(owners="all-owner@lists.ubc.example", leave="all-leave@lists.ubc.example")
KEYS = {domain: SigningKeyFiles(domain) for domain in ("ubc.example", "sfu.example", "z.example")}


def key_of(domain, authserv_id=MX):
    return SigningKey(domain, "s2026", authserv_id, parse_pem_private_key(KEYS[domain].pem.encode()))


@pytest.fixture
def dns(monkeypatch):
    dns = Dns(KEYS)
    monkeypatch.setattr(arc_seals, "get_txt", dns)
    return dns


class Gateway:
    """A gateway that makes copies, and seals them."""

    def __init__(self, key):
        self.counts = Counter()
        self.sealing = Sealing(self.counts, key)
        self._loop = asyncio.new_event_loop()

    def copies(self, data, destination=LIST, **more):
        message = MailMessage("a" * 32, "ann@x.example", 1_790_000_000, (destination,), **more)
        read = read_content(data)
        copies = Copies(message, destination, read, secret=b"s", host="lists.ubc.example", places=PLACES)
        copies.seal = self._loop.run_until_complete(self.sealing.of_copies(message, copies, data, read))
        return copies

    def shared(self, data):
        message = MailMessage("a" * 32, "ann@x.example", 1_790_000_000, (LIST,))
        return self._loop.run_until_complete(self.sealing.of_share(message, data)) + data

    def close(self):
        self.sealing.close()
        self._loop.close()


@pytest.fixture
def gateway():
    gateway = Gateway(key_of("ubc.example"))
    yield gateway
    gateway.close()


@pytest.fixture
def other():
    gateway = Gateway(key_of("sfu.example", "mx.sfu.example"))
    yield gateway
    gateway.close()


def letter(*fields, body=b"Hello.\r\n"):
    return "".join(f"{field}\r\n" for field in (*fields, *LETTER)).encode() + b"\r\n" + body


def verdict(copy, dns):
    """Return the verdict of the next mail server on the seals."""
    return dkim.ARC(copy).verify(dnsfunc=dns)[0]


def assessed(copy):
    """Return the newest seal's statement about the message."""
    return read_content(copy).values("arc-authentication-results")[0]


def test_a_copy_is_sealed_with_what_the_own_mail_server_said_alone(gateway, dns):
    copy = gateway.copies(letter(RESULTS, FORGED)).of()
    assert verdict(copy, dns) == dkim.CV_Pass
    assert assessed(copy) == f"i=1; {MX}; dmarc=pass header.from=x.example"
    assert "cv=none" in read_content(copy).values("arc-seal")[0]
    assert gateway.counts == {SEALED: 1}


def test_one_seal_is_for_all_copies_of_a_list_wherever_one_click_leads(gateway, dns):
    copies = gateway.copies(letter(RESULTS))
    alike = [copies.of(), copies.of("https://h/u/1"), copies.of("https://h/u/2")]
    assert len(set(alike)) == 3
    assert {verdict(copy, dns) for copy in alike} == {dkim.CV_Pass}
    assert gateway.counts == {SEALED: 1}


@pytest.mark.parametrize(
    "change",
    [(b"Hello.", b"Hello!"), (b"Subject: tea", b"Subject: sea"), (b"<all.ubc.example>", b"<lab.ubc.example>")],
)
def test_a_seal_covers_the_author_the_list_and_the_body(gateway, dns, change):
    copy = gateway.copies(letter(RESULTS)).of()
    assert copy.count(change[0]) == 1
    assert verdict(copy.replace(*change), dns) == dkim.CV_Fail


def test_a_second_from_breaks_a_seal(gateway, dns):
    copy = gateway.copies(letter(RESULTS)).of()
    assert verdict(copy.replace(b"\r\nSubject", b"\r\nFrom: eve@y.example\r\nSubject"), dns) == dkim.CV_Fail


def test_a_rewritten_from_is_what_is_sealed(gateway, dns):
    copy = gateway.copies(letter(RESULTS), replace(LIST, rewrites_from=True)).of()
    assert b"From: Ann via all <all@lists.ubc.example>" in copy
    assert verdict(copy, dns) == dkim.CV_Pass


def test_what_is_tried_again_is_not_sealed_again_and_another_list_is(gateway):
    first = gateway.copies(letter(RESULTS)).seal
    assert gateway.copies(letter(RESULTS)).seal == first
    assert gateway.counts == {SEALED: 1}
    assert gateway.copies(letter(RESULTS), LAB).seal not in (first, b"")
    assert gateway.counts == {SEALED: 2}


def test_another_key_is_used_at_once_and_without_one_nothing_is_sealed(gateway, dns):
    gateway.copies(letter(RESULTS))
    gateway.sealing.use(key_of("z.example"))
    copy = gateway.copies(letter(RESULTS)).of()
    assert "d=z.example" in read_content(copy).values("arc-seal")[0]
    assert verdict(copy, dns) == dkim.CV_Pass
    gateway.sealing.use(None)
    assert gateway.copies(letter(RESULTS)).seal == b""


@pytest.mark.parametrize("fields", [(), (FORGED,), (f"Authentication-Results: {MX}; none",)])
def test_where_the_own_mail_server_found_out_nothing_there_is_nothing_to_seal(gateway, fields):
    assert gateway.copies(letter(*fields)).seal == b""
    assert gateway.counts == {UNCHECKED: 1}


def test_letters_of_the_gateway_itself_are_no_copies(gateway):
    assert gateway.copies(letter(RESULTS), is_letter=True).seal == b""
    assert not gateway.counts


def test_results_that_are_too_long_for_a_line_are_left_out(gateway, dns):
    more = f"{RESULTS}; spf=pass smtp.mailfrom={'x' * 1_000}"
    copy = gateway.copies(letter(more)).of()
    assert assessed(copy) == f"i=1; {MX}; dmarc=pass header.from=x.example"
    assert verdict(copy, dns) == dkim.CV_Pass


@pytest.fixture
def sealed(other):
    """Return a letter that another organisation has passed on and sealed."""
    return other.shared(letter("Authentication-Results: mx.sfu.example; dmarc=pass header.from=x.example"))


def test_earlier_seals_are_followed_where_the_own_mail_server_says_that_they_are_right(gateway, dns, sealed):
    copy = gateway.copies(f"{STATED}\r\n".encode() + sealed).of()
    assert dns.asked == 0
    assert verdict(copy, dns) == dkim.CV_Pass
    assert assessed(copy) == f"i=2; {MX}; dmarc=pass header.from=x.example; arc=pass"
    assert "cv=pass" in read_content(copy).values("arc-seal")[0]


def test_earlier_seals_are_verified_here_where_it_says_nothing_of_them(gateway, dns, sealed):
    copy = gateway.copies(f"{RESULTS}\r\n".encode() + sealed).of()
    assert dns.asked == 2
    assert verdict(copy, dns) == dkim.CV_Pass
    assert assessed(copy).endswith("; arc=pass")


def test_three_gateways_seal_one_after_the_other(gateway, other, dns, sealed):
    second = gateway.copies(f"{RESULTS}\r\n".encode() + sealed).of()
    own = b"Authentication-Results: mx.sfu.example; "
    without = second.replace(own + b"dmarc=pass header.from=x.example\r\n", b"")
    third = other.copies(own + b"arc=pass\r\n" + without).of()
    assert verdict(third, dns) == dkim.CV_Pass
    assert assessed(third) == "i=3; mx.sfu.example; arc=pass"


@pytest.mark.parametrize("result", ["fail", "none", "temperror", "pass; arc=fail"])
def test_seals_that_the_own_mail_server_does_not_find_right_are_not_followed(gateway, sealed, result):
    assert gateway.copies(f"{RESULTS}; arc={result}\r\n".encode() + sealed).seal == b""
    assert gateway.counts == {BROKEN: 1}


def broken_chains(sealed):
    yield sealed.replace(b"Hello", b"Hollo")
    yield sealed.replace(b"cv=none", b"cv=fail")
    yield sealed.replace(b"i=1", b"i=2")
    yield b"ARC-Seal: i=1; cv=none\r\n" + sealed
    yield b"ARC-Seal: i=" + b"9" * 5_000 + b"\r\n" + sealed
    yield b"ARC-Message-Signature: i=1; a=; b=\xff; bh=!; d=\xff; h=:; s=; c=x\r\n" + sealed
    yield b"ARC-Seal: \r\n" + sealed.partition(b"\r\nFrom")[2].join((b"From", b""))


def test_seals_that_are_found_wrong_here_are_not_followed(gateway, dns, sealed):
    chains = [*broken_chains(sealed)]
    for number, chain in enumerate(chains, start=1):
        assert chain != sealed
        assert gateway.copies(f"X-Number: {number}\r\n{RESULTS}\r\n".encode() + chain).seal == b""
        assert gateway.counts == {BROKEN: number}


def test_while_dns_does_not_answer_earlier_seals_are_not_followed_and_nobody_waits_again(gateway, dns, sealed):
    dns.error = dkim.DnsTimeoutError("silence")
    for number in (1, 2):
        assert gateway.copies(f"X-Number: {number}\r\n{RESULTS}\r\n".encode() + sealed).seal == b""
    assert dns.asked == 1 + 1, "for both signatures of the first message"
    assert gateway.counts == {BROKEN: 2}
    assert gateway.copies(letter(RESULTS)).seal, "no question is asked for it"


def test_dns_is_asked_for_a_bounded_time(dns, sealed, monkeypatch):
    ticks = iter([0.0, 0.0, 9.0])
    monkeypatch.setattr(arc_seals.time, "monotonic", lambda: next(ticks))
    with pytest.raises(arc_seals.DnsSilentError):
        arc_seals.is_chain_whole(sealed, seconds=5.0)
    assert dns.asked == 1


def test_a_large_message_with_earlier_seals_is_the_mail_servers_to_verify(gateway, dns, other):
    results = "Authentication-Results: mx.sfu.example; dmarc=pass header.from=x.example"
    large = other.shared(letter(results, body=b"x" * 70 + b"\r\n" + b"x" * VERIFIED_BYTES_LIMIT + b"\r\n"))
    assert gateway.copies(f"{RESULTS}\r\n".encode() + large).seal == b""
    assert dns.asked == 0
    assert verdict(gateway.copies(f"{STATED}\r\n".encode() + large).of(), dns) == dkim.CV_Pass


def test_results_that_came_with_a_share_are_not_those_of_the_own_mail_server(gateway, other, dns, sealed):
    assert gateway.copies(letter(RESULTS), FOREIGN).seal == b""
    copy = gateway.copies(f"{RESULTS}\r\n".encode() + sealed, FOREIGN).of()
    assert assessed(copy) == f"i=2; {MX}; arc=pass"
    assert verdict(copy, dns) == dkim.CV_Pass


def test_the_seal_of_a_share_holds_for_copies_that_its_gateway_does_not_seal(other, dns, sealed):
    without = Gateway(None)
    assert verdict(without.copies(sealed, FOREIGN).of(), dns) == dkim.CV_Pass
    without.close()


def test_what_cannot_be_sealed_goes_without(gateway):
    assert gateway.copies(letter(RESULTS, "X-Odd : blank before the colon")).seal == b""
    names = ("Seal", "Message-Signature", "Authentication-Results")
    many = [f"ARC-{name}: i={number}" for number in range(1, 51) for name in names]
    assert gateway.copies(letter(STATED, *many)).seal == b""
    assert gateway.copies(letter(STATED, *many[:-1])).seal == b""
    assert gateway.counts == {FAILED: 3}


def test_what_became_of_seals_has_a_word_each():
    assert set(SEALS) == {SEALED, UNCHECKED, BROKEN, FAILED}


bodies = st.lists(st.sampled_from([b"\r\n", b" ", b"\t", b"a", b"bc"]), max_size=30).map(b"".join)


@given(bodies, st.integers(1, 7))
def test_a_body_is_hashed_slice_by_slice_as_rfc_6376_has_it(body, size):
    body += b"\r\n"
    expected = arc_seals.hashlib.sha256(Relaxed.canonicalize_body(body)).digest()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arc_seals, "SLICE_BYTES", size)
        assert body_hash(body) == expected
