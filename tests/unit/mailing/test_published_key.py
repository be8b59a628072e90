"""The postmaster's check that DNS has the key by which seals are verified."""

import asyncio
import threading
from collections import Counter

import dkim
import dns.exception
import pytest

from mailing.config.signing_key import read_private_key
from mailing.rules.arc import SigningKey
from mailing.shell import published_key, sealing
from mailing.shell.published_key import why_not_published
from mailing.shell.sealing import Sealing
from tests.fakes.signing_keys import Dns, SigningKeyFiles

DOMAIN = "ubc.example"
NAME = "s2026._domainkey.ubc.example"
PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def key():
    return SigningKeyFiles(1)


@pytest.fixture
def numbers(key, tmp_path):
    return read_private_key(key.write(tmp_path / "arc.pem"))


def told(numbers, ask):
    return why_not_published(DOMAIN, "s2026", numbers, seconds=2.0, ask=ask)


def records(record):
    """DNS that has this, and was asked for the right name in the time given."""

    def ask(name, timeout):
        assert (name, timeout) == (f"{NAME}.".encode(), 2.0)
        return record

    return ask


def test_the_key_of_the_private_one_is_good_however_it_is_written(key, numbers):
    assert told(numbers, Dns({DOMAIN: key})) is None
    start, _, published = key.record.partition(b"p=")
    assert told(numbers, records(b"%bp=%b; t=s;" % (start, published))) is None
    assert told(numbers, records(b"p=%b %b" % (published[:40], published[40:]))) is None


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (None, f"DNS has no key at {NAME}"),
        (SigningKeyFiles(2).record, f"the key that DNS has at {NAME} belongs to another private key"),
        (b"v=DKIM1; k=rsa; p=", f"the key at {NAME} is withdrawn"),
        (b"v=DKIM1; k=rsa", f"what DNS has at {NAME} is no RSA key"),
        (b"v=DKIM1; p=!!!!", f"what DNS has at {NAME} is no RSA key"),
        (b"v=DKIM1; p=AAAA", f"what DNS has at {NAME} is no RSA key"),
        (b"v=spf1 -all", f"what DNS has at {NAME} is no RSA key"),
        (b"", f"what DNS has at {NAME} is no RSA key"),
        (b"\xff\x00=;;=", f"what DNS has at {NAME} is no RSA key"),
    ],
)
def test_what_is_wrong_is_told_with_the_name(numbers, record, says):
    assert told(numbers, records(record)).startswith(says)


@pytest.mark.parametrize("error", [dkim.DnsTimeoutError("no answer"), dns.exception.DNSException("no answer")])
def test_that_dns_is_away_says_nothing_of_the_key(numbers, error):
    ask = Dns({})
    ask.error = error
    assert told(numbers, ask) == f"whether DNS has the key at {NAME} is not known: no answer"


async def test_a_gateway_asks_beside_its_event_loop_and_warns(numbers, monkeypatch, caplog):
    answers, asked_in = threading.Event(), []

    def slow(_name, timeout):
        asked_in.append((threading.current_thread(), timeout))
        answers.wait(PATIENCE_SECONDS)

    monkeypatch.setattr(published_key, "get_txt", slow)
    found = Sealing(Counter(), SigningKey(DOMAIN, "s2026", "mx.ubc.example", numbers))
    asking = asyncio.create_task(found.warn_unless_published())
    try:
        while not asked_in:
            await asyncio.sleep(0)
        assert not asking.done(), "the loop goes on meanwhile"
    finally:
        answers.set()
    await asking
    assert [each for each in caplog.messages if each.startswith(f"seals: DNS has no key at {NAME}")]
    assert asked_in[0][0] is not threading.main_thread()
    assert asked_in[0][1] == sealing.DNS_SECONDS
    found.close()


async def test_a_gateway_that_seals_nothing_asks_nothing(monkeypatch):
    monkeypatch.setattr(published_key, "get_txt", None)
    found = Sealing(Counter(), None)
    await found.warn_unless_published()
    found.close()
