"""Copies are sealed (ARC) on their way from LMTP to the mail server, and verified as the next one would."""

import asyncio
import dataclasses

import dkim
import pytest
import pytest_asyncio
from dkim.crypto import parse_pem_private_key

from mailing.config.settings import ArcSettings, DistributionSettings
from mailing.rules.lists import Lists, ListSettings, Unsubscribe
from mailing.rules.message import read_content
from mailing.shell import published_key
from tests.fakes.signing_keys import Dns, SigningKeyFiles
from tests.integration.mailing.passing import running_gateway
from tests.integration.mailing.sink import PATIENCE_SECONDS, Sink
from tests.integration.mailing.test_distribution import CONFIRMED, message, name_servers

KEYS = {domain: SigningKeyFiles(domain) for domain in ("ubc.example", "new.example")}
SUBNETS = {"lists.ubc.example": "ubc.example"}
PERSONAL = Lists(SUBNETS, ListSettings(post="anyone", unsubscribe=Unsubscribe.PERSONAL))
SPF = CONFIRMED.replace("dkim=pass header.d=x.example; ", "")

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers():
    async with name_servers() as servers:
        yield servers


@pytest_asyncio.fixture(loop_scope="module")
async def sink():
    sink = await Sink("XVERP", "SMTPUTF8").start()
    yield sink
    sink.close()


def sealing_with(domain):
    return ArcSettings(domain, "s2026", None, parse_pem_private_key(KEYS[domain].pem.encode()))


@pytest.fixture
def settings(tmp_path, sink):
    return DistributionSettings(
        "127.0.0.1:0",
        f"sqlite:///{tmp_path / 'mail.db'}",
        f"127.0.0.1:{sink.port}",
        tmp_path / "mail.sock",
        "mx.ubc.example",
        "127.0.0.1:0",
        "https://lists.ubc.example",
        sealing_with("ubc.example"),
    )


@pytest.fixture
def published(monkeypatch):
    """DNS, as the gateway asks for its own key."""
    found = Dns(KEYS)
    monkeypatch.setattr(published_key, "get_txt", found)
    return found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(servers, settings, published):
    async with running_gateway(servers["ubc.example"].client, settings, PERSONAL) as found:
        yield found


def verdict(copy):
    return dkim.ARC(copy).verify(dnsfunc=Dns(KEYS))[0]


def field(copy, name):
    return read_content(copy).values(name)[0]


async def test_every_copy_carries_a_seal_that_holds_and_one_is_made_for_each_list(gate, sink):
    """Each person has a copy of their own, with a place for one click."""
    await gate.send("ann@x.example", "all", "own", data=message("sealed"))
    await gate.until_done()
    assert len(sink.taken) == 5
    assert {verdict(each.data) for each in sink.taken} == {dkim.CV_Pass}
    assert len({field(each.data, "list-unsubscribe") for each in sink.taken}) == 5
    assert len({field(each.data, "arc-seal") for each in sink.taken}) == 2
    assert field(sink.taken[0].data, "arc-authentication-results") == (
        "i=1; mx.ubc.example; dkim=pass header.d=x.example; dmarc=pass header.from=x.example"
    )
    assert (await gate.stats()).seals == {"sealed": 2, "unchecked": 0, "broken": 0, "failed": 0}


async def test_what_is_tried_again_carries_the_same_seal(gate, sink):
    sink.replies["ann@x.example"] = "450 4.2.0 later"
    await gate.send("ann@x.example", "all", data=message("again"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not (queue := await gate.ask("queue")) or queue[0].state != "waiting":
            await asyncio.sleep(0.01)
    sink.replies.clear()
    await gate.ask("retry", queue[0].id)
    await gate.until_done()
    assert sink.people == ["ann@x.example", "bob@sfu.example"]
    assert len({field(each.data, "arc-seal") for each in sink.taken}) == 1
    assert {verdict(each.data) for each in sink.taken} == {dkim.CV_Pass}


async def test_a_rewritten_from_is_sealed_as_it_is_handed_over(gate, sink):
    await gate.send("ann@x.example", "large", data=message("munged", results=SPF))
    await gate.until_done()
    assert {field(each.data, "from") for each in sink.taken} == {'"ann@x.example via large" <large@lists.ubc.example>'}
    assert {verdict(each.data) for each in sink.taken} == {dkim.CV_Pass}


async def test_what_cannot_be_sealed_is_handed_over_all_the_same(gate, sink):
    await gate.send("ann@x.example", "news", data=message("unchecked", results="X-None: 1"))
    await gate.send("ann@x.example", "news", data=message("broken", "ARC-Seal: i=1; cv=none"))
    await gate.until_done()
    assert sink.people == ["ann@x.example"] * 2 + ["bob@sfu.example"] * 2
    assert not any(each.data.startswith(b"ARC-Seal") for each in sink.taken)
    assert (await gate.stats()).seals == {"sealed": 0, "unchecked": 1, "broken": 1, "failed": 0}


async def test_another_key_is_followed(gate, sink):
    gate.follow(PERSONAL, dataclasses.replace(gate.settings, arc=sealing_with("new.example")))
    await gate.send("ann@x.example", "news", data=message("rotated"))
    await gate.until_done()
    assert "d=new.example" in field(sink.taken[0].data, "arc-seal")
    assert verdict(sink.taken[0].data) == dkim.CV_Pass


async def test_that_dns_has_no_such_key_is_a_warning_at_the_start_and_when_the_key_is_another_one(
    servers, settings, published, caplog
):
    published.keys = {"new.example": KEYS["ubc.example"]}

    async def until_warned(warning):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not any(each.startswith(f"seals: {warning}") for each in caplog.messages):
                await asyncio.sleep(0.01)

    async with running_gateway(servers["ubc.example"].client, settings, PERSONAL) as gate:
        await until_warned("DNS has no key at s2026._domainkey.ubc.example")
        gate.follow(PERSONAL, dataclasses.replace(settings, arc=sealing_with("new.example")))
        await until_warned("the key that DNS has at s2026._domainkey.new.example belongs to another private key")
