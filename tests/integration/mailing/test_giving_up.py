"""Servers that stay away until the gateway gives up: its reports, by a gateway in this process."""

import asyncio
import itertools
from email import message_from_bytes, policy

import pytest
import pytest_asyncio

from mailing.config.settings import DistributionSettings
from mailing.rules import distribution
from mailing.rules.lists import Lists, ListSettings
from shadowtree.updates import Join
from tests.fakes.name_servers import NameServers
from tests.integration.mailing.passing import running_gateway
from tests.integration.mailing.sink import PATIENCE_SECONDS, Sink

ALL, LAB = "all@ubc.example", "lab@sfu.example"
CONFIRMED = "Authentication-Results: mx.ubc.example; dmarc=pass header.from=x.example"

pytestmark = pytest.mark.asyncio(loop_scope="module")
numbers = itertools.count()


@pytest_asyncio.fixture(loop_scope="module")
async def servers():
    async with NameServers("ubc.example", "sfu.example") as servers:
        names = servers["ubc.example"].client
        for group in (ALL, LAB):
            await names.create_group(group)
        await names.apply(
            [Join(ALL, LAB, "group"), Join(ALL, "ann@x.example", "process"), Join(LAB, "bob@sfu.example", "process")]
        )
        yield servers


@pytest_asyncio.fixture(loop_scope="module")
async def sink():
    sink = await Sink("XVERP").start()
    yield sink
    sink.close()


def mail(*fields):
    lines = (*fields, f"Message-ID: <{next(numbers)}@x.example>", "From: Ann@x.example", "Subject: lunch")
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\nHello.\r\n"


async def test_the_author_is_told_which_organisations_were_away_if_it_is_certain_who_that_is(
    servers, sink, tmp_path, monkeypatch
):
    monkeypatch.setattr(distribution, "TRIED_FOR_S", -1)
    url = f"sqlite:///{tmp_path / 'mail.db'}"
    settings = DistributionSettings("127.0.0.1:0", url, f"127.0.0.1:{sink.port}", tmp_path / "m.sock", "mx.ubc.example")
    lists = Lists({"lists.ubc.example": "ubc.example"}, ListSettings(post="anyone"))
    await servers.cut_off("sfu.example")
    async with running_gateway(servers["ubc.example"].client, settings, lists) as gate:
        for data in (mail(), mail(CONFIRMED)):
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not (await gate.send("ann@x.example", "all", data=data))[0].startswith("250"):
                    await asyncio.sleep(0.02)
            await gate.until_done()
    copies = [each for each in sink.taken if each.people == ["ann@x.example"]]
    (report,) = [each for each in sink.taken if each.people != ["ann@x.example"]]
    assert (len(copies), report.sender, report.people) == (2, "", ["Ann@x.example"])
    read = message_from_bytes(report.data, policy=policy.default)
    assert read["Subject"] == "Not delivered to everybody: lunch"
    _, status, returned = read.get_payload()
    assert status.get_payload()[1]["Diagnostic-Code"].endswith(": sfu.example")
    assert "Message-ID: <1@x.example>" in returned.get_content()
    assert b"bob" not in report.data
