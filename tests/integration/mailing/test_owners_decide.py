"""Owners who decide by mail about what their list holds and about who asks to join, at a gateway in this process."""

import asyncio
import itertools
import re
from email import message_from_bytes, policy
from email.utils import formatdate

import pytest
import pytest_asyncio

from mailing.config.settings import DistributionSettings
from mailing.rules.lists import JoinPolicy as JoinRule
from mailing.rules.lists import Lists, ListSettings
from shadowtree.updates import Join
from tests.fakes.name_servers import NameServers
from tests.integration.mailing.passing import running_gateway
from tests.integration.mailing.sink import PATIENCE_SECONDS, Sink

ALL, NEWS, CLUB = "all@ubc.example", "news@ubc.example", "club@ubc.example"
CHAIR = "chair@x.example"
LISTS = Lists({"lists.ubc.example": "ubc.example"}, ListSettings(), {CLUB: ListSettings(join=JoinRule.ASK)})
SAFE, NOT_ANSWERED = "250 2.0.0 it is safe", "250 2.0.0 it was looked at, and is not answered"

pytestmark = pytest.mark.asyncio(loop_scope="module")
numbers = itertools.count()


def mail(person, to, *fields):
    """Return a message whose author is unconfirmed."""
    lines = (
        f"Message-ID: <{next(numbers)}@x.example>",
        f"From: {person}",
        f"To: {to}@lists.ubc.example",
        f"Date: {formatdate()}",
        *fields,
    )
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\nHello.\r\n"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def names():
    async with NameServers("ubc.example", "sfu.example") as servers:
        names = servers["ubc.example"].client
        for group in (ALL, NEWS, CLUB, *(f"{name}+owners@ubc.example" for name in ("all", "news", "club"))):
            await names.create_group(group)
        joins = [(ALL, "ann@x.example"), (NEWS, "bob@x.example")]
        joins += [(f"{name}+owners@ubc.example", CHAIR) for name in ("all", "news", "club")]
        await names.apply([Join(*each, "process") for each in joins])
        yield names


@pytest_asyncio.fixture(loop_scope="module")
async def sink():
    sink = await Sink("XVERP", "SMTPUTF8").start()
    yield sink
    sink.close()


@pytest.fixture
def start(names, sink, tmp_path):
    url = f"sqlite:///{tmp_path / 'mail.db'}"
    settings = DistributionSettings("127.0.0.1:0", url, f"127.0.0.1:{sink.port}", tmp_path / "m.sock", "mx.ubc.example")
    return lambda: running_gateway(names, settings, LISTS)


async def letter_to(sink, person, text):
    """Return the text of the first message to a person that contains `text`."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            for taken in sink.taken:
                read = message_from_bytes(taken.data, policy=policy.default)
                said = " ".join(f"{read['Subject']} {read.get_content()}".split())
                if taken.people == [person] and text in said:
                    return said
            await asyncio.sleep(0.01)


async def decide(gate, sink, address, says, person=CHAIR):
    """Write to an address, and read the answer."""
    sink.taken.clear()
    assert await gate.send(person, address, data=mail(person, address)) == [SAFE]
    return await letter_to(sink, person, says)


def addresses_in(note, list_):
    return re.search(rf"({list_}-approve\+\w+)@.*({list_}-reject\+\w+)@", note).groups()


async def test_an_owner_decides_by_the_token_of_a_note_and_nobody_else_does(start, sink):
    async with start() as gate:
        assert await gate.send("ann@x.example", "all", "news", data=mail("ann@x.example", "all")) == [SAFE, SAFE]
        (held,) = await gate.ask("held")
        approve, reject = addresses_in(await letter_to(sink, CHAIR, "all@ubc.example: 1 held"), "all")
        await letter_to(sink, CHAIR, "news@ubc.example: 1 held")
        sink.taken.clear()
        others = [approve[:-1] + ("a" if approve[-1] != "a" else "b"), approve.replace("all-", "news-")]
        for address in others:
            assert await gate.send(CHAIR, address, data=mail(CHAIR, address)) == [NOT_ANSWERED]
        programs = [mail(CHAIR, reject, field) for field in ("Auto-Submitted: auto-replied", "Precedence: bulk")]
        for data in programs:
            assert await gate.send(CHAIR, reject, data=data) == [NOT_ANSWERED]
        assert (await gate.rcpt("", reject)).startswith("550 5.7.1")
        assert await gate.ask("held") == (held,)
        await decide(gate, sink, approve, f"all@ubc.example: approved The message {held.id} goes to all@")
        await letter_to(sink, "ann@x.example", "Hello.")
        await decide(
            gate, sink, reject, f"Nothing was done, since somebody decided before. The message {held.id} goes to"
        )
        assert [each.state for each in await gate.ask("held")] == ["held"], "news decides for itself"
        await gate.ask("reject", held.id)
    async with start() as gate:
        await decide(gate, sink, approve, "Nothing was done", person="dean@x.example")
        await gate.until_done()
        assert sink.people == ["dean@x.example"], "nobody got it again"


async def test_who_asks_to_join_is_let_in_by_an_owner(start, sink, names):
    async with start() as gate:
        for person in ("eve@x.example", "fay@x.example"):
            assert await gate.send(person, "club-join", data=mail(person, "club-join")) == [SAFE]
            confirm = re.search(r"confirm (\w+)", await letter_to(sink, person, "Somebody, you or another"))[1]
            assert person not in {each.author for each in await gate.ask("held")}, "it may be forged"
            await decide(gate, sink, f"club-confirm+{confirm}", f"is asked whether {person} may join", person)
            if person == "eve@x.example":
                note = await letter_to(sink, CHAIR, "club@ubc.example: 1 to join")
        assert {(each.author, each.lists, each.shares[0].why) for each in await gate.ask("held")} == {
            (person, (CLUB,), f"{person} asks to join") for person in ("eve@x.example", "fay@x.example")
        }
        assert not await names.check(CLUB, "eve@x.example")
        approve, reject = addresses_in(note, "club")
    async with start() as gate:
        await decide(gate, sink, approve, "club@ubc.example: approved eve@x.example joins club@lists.ubc.example")
        await letter_to(sink, "eve@x.example", "eve@x.example is a member of club@lists.ubc.example")
        assert await names.check(CLUB, "eve@x.example")
        await decide(gate, sink, reject, "Nothing was done")
        (held,) = await gate.ask("held")
        assert [each.id for each in await gate.ask("reject", held.id)] == [held.id]
        await letter_to(sink, "fay@x.example", "did not accept fay@x.example. Its owners are club-owner@")
        assert not await names.check(CLUB, "fay@x.example")
        assert await names.check(CLUB, "eve@x.example")
