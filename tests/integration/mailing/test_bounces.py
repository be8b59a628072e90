"""Who was reached by a message, and what becomes of those who cannot be."""

from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from mailing.config.settings import DistributionSettings
from mailing.rules.lists import Lists, ListSettings
from mailing.rules.message import key_of, read_content
from shadowtree.updates import Join
from tests.fakes.name_servers import NameServers
from tests.integration.mailing.passing import running_gateway
from tests.integration.mailing.sink import Sink

ALL, LAB, MUTED = "all@ubc.example", "lab@sfu.example", "all+muted@ubc.example"

pytestmark = pytest.mark.asyncio(loop_scope="module")


def message(name):
    return (
        f"Message-ID: <{name}@x.example>\r\nFrom: ann@x.example\r\n"
        "Date: Wed, 25 Nov 2026 12:00:00 +0000\r\n\r\nHello.\r\n"
    ).encode()


def id_of(name):
    return key_of(read_content(message(name)))


@pytest_asyncio.fixture(loop_scope="module")
async def servers():
    async with NameServers("ubc.example", "sfu.example") as servers:
        names = servers["ubc.example"].client
        for group in (ALL, LAB, MUTED):
            await names.create_group(group)
        joins = [(ALL, LAB, "group"), (LAB, ALL, "group"), (ALL, "ann@x.example", "process")]
        joins += [(LAB, "bob@sfu.example", "process"), (LAB, "cat@sfu.example", "process")]
        joins += [(MUTED, "cat@sfu.example", "process")]
        await names.apply([Join(*each) for each in joins])
        yield servers


@pytest_asyncio.fixture(loop_scope="module")
async def sink():
    sink = await Sink("XVERP").start()
    yield sink
    sink.close()


@pytest.fixture
def settings(tmp_path, sink):
    url = f"sqlite:///{tmp_path / 'mail.db'}"
    return DistributionSettings("127.0.0.1:0", url, f"127.0.0.1:{sink.port}", tmp_path / "mail.sock")


@asynccontextmanager
async def running(servers, settings):
    lists = Lists({"lists.ubc.example": "ubc.example"}, ListSettings(post="anyone"), {})
    async with running_gateway(servers["ubc.example"].client, settings, lists) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(servers, settings):
    async with running(servers, settings) as found:
        yield found


async def test_who_was_reached_is_told_with_the_way_in_and_who_was_not_with_the_reason(gate, sink, servers):
    sink.replies["ann@x.example"] = "550 5.1.1 no"
    await gate.send("ann@x.example", "all", data=message("why"))
    await gate.until_done()
    bob = await gate.why(id_of("why"), "BOB@sfu.example")
    assert (bob.address, bob.reached, bob.list, bob.bounces, bob.why) == ("bob@sfu.example", True, ALL, 0, "")
    assert bob.pathname == (ALL, LAB, "bob@sfu.example")
    assert bob.gateway == "lists.ubc.example"
    assert bob.revision
    ann = await gate.why(id_of("why"), "ann@x.example")
    assert (ann.reached, ann.pathname, ann.bounces, ann.why) == (False, (ALL, "ann@x.example"), 1, "550 5.1.1 no")
    cat = await gate.why(id_of("why"), "cat@sfu.example")
    assert (cat.reached, cat.list, cat.why) == (False, None, f"in {ALL}, and excepted by {MUTED}")
    assert (await gate.why(id_of("why"), "eve@x.example")).why == f"in none of its lists: {ALL}"
    await servers["ubc.example"].client.leave(LAB, "bob@sfu.example", "process")
    bob = await gate.why(id_of("why"), "bob@sfu.example")
    assert (bob.reached, bob.pathname) == (True, ())
    assert bob.why == f"the membership has changed since: bob@sfu.example is not in {ALL}"
    servers.cut_off("sfu.example")
    assert (await gate.why(id_of("why"), "bob@sfu.example")).why.startswith("the way in cannot be told now: ")
