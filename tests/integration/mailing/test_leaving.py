"""People who leave, join and ask by mail, at a gateway in this process: in by LMTP, letters out by SMTP."""

import asyncio
import itertools
import re
from email import message_from_bytes, policy
from email.utils import formatdate

import pytest
import pytest_asyncio

from mailing.config.settings import DistributionSettings
from mailing.rules.letters import LETTERS_TO_ONE
from mailing.rules.lists import JoinPolicy as JoinRule
from mailing.rules.lists import Lists, ListSettings
from shadowtree.errors import GroupNotFound
from shadowtree.updates import Join
from tests.fakes.name_servers import NameServers
from tests.integration.mailing.gateways import read_metrics
from tests.integration.mailing.passing import running_gateway
from tests.integration.mailing.sink import PATIENCE_SECONDS, Sink

ALL, LAB, OPEN, NEWS = "all@ubc.example", "lab@sfu.example", "open@ubc.example", "news@sfu.example"
CLICKED = "clicked@ubc.example"
MUTED = "all+muted@ubc.example"
CONFIRMED = "Authentication-Results: mx.ubc.example; dmarc=pass header.from=x.example"

pytestmark = pytest.mark.asyncio(loop_scope="module")
numbers = itertools.count()


def mail(person, to, *fields, results=CONFIRMED, body=""):
    lines = (
        results,
        f"Message-ID: <{next(numbers)}@x.example>",
        f"From: {person}",
        f"To: {to}@lists.ubc.example",
        f"Date: {formatdate()}",
        *fields,
    )
    return "".join(f"{line}\r\n" for line in lines).encode() + f"\r\n{body}\r\n".encode()


FORGED = CONFIRMED.replace("mx.ubc", "mx.elsewhere")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers():
    async with NameServers("ubc.example", "sfu.example") as servers:
        names = servers["ubc.example"].client
        for group in (ALL, LAB, OPEN, NEWS, CLICKED, "all+owners@ubc.example", "on-leave@ubc.example"):
            await names.create_group(group)
        joins = [(ALL, LAB, "group"), (LAB, ALL, "group"), (NEWS, LAB, "group")]
        joins += [(LAB, f"{name}@x.example", "process") for name in ("ann", "bob", "cat", "Eve")]
        joins += [(ALL, f"{name}@x.example", "process") for name in ("bob", "dan", "fay")]
        await names.apply([Join(*each) for each in joins])
        yield servers


@pytest.fixture
def names(servers):
    return servers["ubc.example"].client


@pytest_asyncio.fixture(loop_scope="module")
async def sink():
    sink = await Sink("XVERP", "SMTPUTF8").start()
    yield sink
    sink.close()


@pytest_asyncio.fixture(loop_scope="module")
async def gate(names, sink, tmp_path):
    url = f"sqlite:///{tmp_path / 'mail.db'}"
    settings = DistributionSettings("127.0.0.1:0", url, f"127.0.0.1:{sink.port}", tmp_path / "m.sock", "mx.ubc.example")
    lists = Lists({"lists.ubc.example": "ubc.example"}, ListSettings(), {OPEN: ListSettings(join=JoinRule.OPEN)})
    async with running_gateway(names, settings, lists) as found:
        yield found


async def asked(gate, sink, person, to, *fields, **more):
    """Write to the gateway. Return its letter of answer, which must have no sender and no other recipient."""
    before = len(sink.taken)
    assert (await gate.send(person, to, data=mail(person, to, *fields, **more)))[0] == "250 2.0.0 it is safe"
    await gate.until_done()
    (taken,) = sink.taken[before:]
    assert (taken.sender, taken.people) == ("", [person])
    return message_from_bytes(taken.data, policy=policy.default)


async def unanswered(gate, sink, person, to, *fields, sender=None, **more):
    """Write to the gateway, which does not answer."""
    before = len(sink.taken)
    (reply,) = await gate.send(sender or person, to, data=mail(person, to, *fields, **more))
    assert reply == "250 2.0.0 it was looked at, and is not answered"
    await gate.until_done()
    assert len(sink.taken) == before


def address_of(letter):
    return letter["Reply-To"].partition("@")[0]


async def muted(names):
    try:
        return (await names.resolve(MUTED)).processes
    except GroupNotFound:
        return ()


async def test_who_leaves_gets_no_more_mail_of_the_list_and_stays_a_member(gate, sink, names):
    letter = await asked(gate, sink, "ann@x.example", "all-leave")
    assert "gets no more mail of all@lists.ubc.example, and is a member" in " ".join(letter.get_content().split())
    assert (await names.resolve(MUTED)).processes == ("ann@x.example",)
    assert await names.check(ALL, "ann@x.example")
    sink.taken.clear()
    assert (await gate.send("ann@x.example", "all", data=mail("ann@x.example", "all")))[0].startswith("250")
    await gate.until_done()
    assert sink.people == ["Eve@x.example", "bob@x.example", "cat@x.example", "dan@x.example", "fay@x.example"]
    assert "already" in (await asked(gate, sink, "ann@x.example", "all-leave")).get_content()
    assert "again" in (await asked(gate, sink, "ann@x.example", "all-join")).get_content()
    assert (await names.resolve(MUTED)).processes == ()


async def test_what_others_change_of_owners_and_of_who_muted_a_list_is_told_and_what_the_gateway_does_is_not(
    gate, sink, names, caplog
):
    def told():
        return [each for each in caplog.records if getattr(each, "event", "") == "companion_changed"]

    await names.create_group("tea@ubc.example")
    await names.join("tea@ubc.example", "bob@x.example", "process")
    await names.join("tea@ubc.example", LAB, "group")
    assert "no more mail" in (await asked(gate, sink, "bob@x.example", "tea-leave")).get_content()
    await names.create_group("tea+owners@ubc.example")
    await names.join("tea+owners@ubc.example", "eve@x.example", "process")
    await names.join("tea+muted@ubc.example", "cat@x.example", "process")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while len(told()) < 3:
            await asyncio.sleep(0.01)
    made, joined, muted = [each.getMessage() for each in told()]
    assert made.startswith("tea+owners@ubc.example was made: its members decide about mail of tea@ubc.example; by a ")
    assert joined.startswith("tea+owners@ubc.example was joined by eve@x.example: its members decide")
    assert muted.startswith("tea+muted@ubc.example was joined by cat@x.example: its members get no mail of tea@")
    assert muted.endswith(", not by this gateway")
    told_of = (await read_metrics(gate.collector())).splitlines()
    assert "shadowtree_mail_companion_changes_total 3.0" in told_of
    assert "shadowtree_mail_shares_refused_total 0.0" in told_of
    assert {each.fields["list"] for each in told()} == {"tea+owners@ubc.example", "tea+muted@ubc.example"}


async def test_where_the_only_way_is_an_arc_of_the_list_that_is_left_though_it_is_in_a_loop(gate, sink, names):
    assert "has left" in (await asked(gate, sink, "dan@x.example", "all-leave")).get_content()
    assert not await names.check(ALL, "dan@x.example")
    assert "no more mail" in (await asked(gate, sink, "bob@x.example", "all-leave")).get_content()
    assert await names.check(MUTED, "bob@x.example")


async def test_who_is_in_it_by_two_names_that_differ_in_case_gets_one_copy_and_leaves_with_both(gate, sink, names):
    await names.create_group("twice@ubc.example")
    joins = [("twice@ubc.example", name, "process") for name in ("Gil@x.example", "gil@x.example", "hal@x.example")]
    await names.apply([Join(*each) for each in joins])
    assert (await gate.send("hal@x.example", "twice", data=mail("hal@x.example", "twice")))[0].startswith("250")
    await gate.until_done()
    assert sink.people == ["Gil@x.example", "hal@x.example"]
    sink.taken.clear()
    assert "has left" in (await asked(gate, sink, "Gil@x.example", "twice-leave")).get_content()
    assert (await names.resolve("twice@ubc.example")).processes == ("hal@x.example",)
    await names.delete_group("twice@ubc.example", force=True)


async def test_a_forged_author_changes_nothing_until_the_person_answers(gate, sink, names):
    letter = await asked(gate, sink, "cat@x.example", "all-leave", results=FORGED)
    assert letter["Subject"].startswith("confirm ")
    assert letter["Auto-Submitted"] == "auto-replied"
    assert "cat@x.example" not in await muted(names)
    confirm = address_of(letter)
    for person, to in (("eve@x.example", confirm), ("cat@x.example", confirm.replace("all-", "open-"))):
        await unanswered(gate, sink, person, to, results=FORGED)
    await unanswered(gate, sink, "cat@x.example", confirm[:-1] + ("a" if confirm[-1] != "a" else "b"))
    await unanswered(gate, sink, "cat@x.example", confirm, "Auto-Submitted: auto-replied")
    assert "cat@x.example" not in await muted(names)
    subject = f"Subject: Re: {letter['Subject']}"
    assert "no more mail" in (await asked(gate, sink, "cat@x.example", "all-request", subject)).get_content()
    assert "cat@x.example" in await muted(names)
    await names.leave(MUTED, "cat@x.example")
    await unanswered(gate, sink, "cat@x.example", confirm)
    assert "cat@x.example" not in await muted(names)


async def test_an_answer_still_counts_after_the_gateway_was_started_again(names, sink, tmp_path):
    settings = DistributionSettings(
        "127.0.0.1:0",
        f"sqlite:///{tmp_path / 'mail.db'}",
        f"127.0.0.1:{sink.port}",
        tmp_path / "m.sock",
        "mx.ubc.example",
    )
    lists = Lists({"lists.ubc.example": "ubc.example"}, ListSettings(join=JoinRule.OPEN))
    async with running_gateway(names, settings, lists) as gate:
        letter = await asked(gate, sink, "gus@x.example", "open-join", results=FORGED)
    assert not await names.check(OPEN, "gus@x.example")
    async with running_gateway(names, settings, lists) as gate:
        await asked(gate, sink, "gus@x.example", address_of(letter), results=FORGED)
    assert await names.check(OPEN, "gus@x.example")
    await names.leave(OPEN, "gus@x.example")
    async with running_gateway(names, settings, lists) as gate:
        await unanswered(gate, sink, "gus@x.example", address_of(letter), results=FORGED)
    assert not await names.check(OPEN, "gus@x.example")


async def test_who_joins_is_an_immediate_member_where_the_list_allows_it(gate, sink, names):
    assert "is a member" in (await asked(gate, sink, "new@x.example", "open-join")).get_content()
    children = (await names.describe(OPEN)).children
    assert ("new@x.example", "process") in [(child.id, child.kind) for child in children]
    assert "cannot be joined" in (await asked(gate, sink, "new@x.example", "all-join")).get_content()
    assert not await names.check(ALL, "new@x.example")
    assert "in all@lists.ubc.example already" in (await asked(gate, sink, "fay@x.example", "all-join")).get_content()


async def test_the_ways_in_are_told_and_what_leaving_each_would_end(gate, sink):
    letter = await asked(gate, sink, "Eve@x.example", "all-request", "Subject: why", results=FORGED)
    text = letter.get_content()
    assert "all@ubc.example -> lab@sfu.example -> Eve@x.example" in text
    assert "leaving lab@sfu.example would also end: all@ubc.example, news@sfu.example" in text
    assert "is not in" in (await asked(gate, sink, "nobody@x.example", "all-request", body="why")).get_content()
    assert "what can be asked for" in (await asked(gate, sink, "Eve@x.example", "all-request"))["Subject"]


async def test_what_is_signed_for_somebody_else_is_not_taken_for_a_wish(gate, sink, names):
    """Whoever has a message of a member, with its signature, sends it to where people leave."""
    data = mail("fay@x.example", "all")
    assert (await gate.send("eve@x.example", "all-leave", data=data))[0] == "250 2.0.0 it is safe"
    await gate.until_done()
    assert b"Subject: confirm" in sink.taken[-1].data
    assert await names.check(ALL, "fay@x.example")


async def click(gate, method, url, body=b""):
    host, _, port = gate.clicks.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    path = url.partition("lists.ubc.example")[2]
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    async with asyncio.timeout(PATIENCE_SECONDS):
        head = await reader.readuntil(b"\r\n\r\n")
        page = await reader.readexactly(int(re.search(rb"Content-Length: (\d+)", head)[1])) if method != "HEAD" else b""
    writer.close()
    return int(head.split()[1]), page.decode()


ONE_CLICK = b"List-Unsubscribe=One-Click"


async def test_one_click_leaves_and_looking_at_it_does_not(names, sink, servers, tmp_path):
    settings = DistributionSettings(
        "127.0.0.1:0",
        f"sqlite:///{tmp_path / 'mail.db'}",
        f"127.0.0.1:{sink.port}",
        tmp_path / "m.sock",
        click_listen="127.0.0.1:0",
        click_url="https://lists.ubc.example",
    )
    for person in ("ida@x.example", "jon@cs.ubc.example", "kim@ubc.example"):
        await names.join(CLICKED, person, "process")
    lists = Lists({"lists.ubc.example": "ubc.example"}, ListSettings(post="anyone"))
    async with running_gateway(names, settings, lists) as gate:
        assert (await gate.send("ida@x.example", "clicked", data=mail("ida@x.example", "clicked")))[0].startswith("250")
        await gate.until_done()
        by_people = {tuple(each.people): message_from_bytes(each.data, policy=policy.default) for each in sink.taken}
        own = by_people[("jon@cs.ubc.example", "kim@ubc.example")]
        assert own["List-Unsubscribe"] == "<mailto:clicked-leave@lists.ubc.example>"
        assert own["List-Unsubscribe-Post"] is None
        ida = by_people[("ida@x.example",)]
        assert ida["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"
        url = re.match(r"<(https://lists.ubc.example/u/[^>]+)>, <mailto:clicked-leave@", ida["List-Unsubscribe"])[1]
        status, page = await click(gate, "GET", url)
        assert (status, "Shall ida@x.example get no more mail" in page) == (200, True)
        assert await click(gate, "HEAD", url) == (200, "")
        assert (await click(gate, "POST", url))[0] == 400
        assert (await click(gate, "PUT", url, ONE_CLICK))[0] == 400
        changed = url.replace("/u/", "/u/A")
        assert (await click(gate, "POST", changed, ONE_CLICK))[0] == 404
        assert await names.check(CLICKED, "ida@x.example")
        await servers.cut_off("sfu.example")
        assert (await click(gate, "POST", url, ONE_CLICK))[0] == 503
        await servers.join_again("sfu.example")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (await click(gate, "POST", url, ONE_CLICK))[0] != 200:
                await asyncio.sleep(0.02)
        assert not await names.check(CLICKED, "ida@x.example")
        assert (await click(gate, "POST", url, ONE_CLICK))[0] == 200
        await names.delete_group(CLICKED, force=True)
        assert (await click(gate, "POST", url, ONE_CLICK))[0] == 404


async def test_programs_nobody_and_our_own_addresses_are_not_answered(gate, sink):
    await unanswered(gate, sink, "fay@x.example", "all-leave", "Auto-Submitted: auto-generated")
    await unanswered(gate, sink, "fay@x.example", "all-request", "Precedence: bulk")
    for own in ("all", "all-owner", "all-request", "open-leave"):
        await unanswered(gate, sink, f"{own}@lists.ubc.example", "all-request", results=FORGED)
    await unanswered(gate, sink, "a@x.example, b@x.example", "all-leave", sender="a@x.example")
    assert (await gate.rcpt("", "all-leave")).startswith("550 5.7.1")
    assert (await gate.rcpt("fay@x.example", "on-leave")).startswith("250")
    assert (await gate.rcpt("fay@x.example", "nobody-leave")).startswith("550 5.1.1")


async def test_nobody_is_written_to_more_often_than_a_few_times_an_hour(gate, sink):
    for _ in range(LETTERS_TO_ONE):
        await asked(gate, sink, "fay@x.example", "all-request", results=FORGED)
    await unanswered(gate, sink, "FAY@x.example", "all-leave", results=FORGED)
    await asked(gate, sink, "bob@x.example", "all-request", results=FORGED)


async def test_the_same_message_is_answered_once(gate, sink):
    data = mail("bob@x.example", "all-leave", results=FORGED)
    for _ in range(2):
        await gate.send("bob@x.example", "all-leave", data=data)
        await gate.until_done()
    assert len(sink.taken) == 1


async def test_while_the_name_service_cannot_tell_a_wish_waits_at_the_mail_server(gate, sink, servers, names):
    await servers.cut_off("sfu.example")
    try:
        for _ in range(LETTERS_TO_ONE + 1):
            (reply,) = await gate.send("ann@x.example", "all-leave", data=mail("ann@x.example", "all-leave"))
            assert reply.startswith("451 4.3.0")
        assert sink.taken == []
    finally:
        await servers.join_again("sfu.example")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            (reply,) = await gate.send("ann@x.example", "all-leave", data=mail("ann@x.example", "all-leave"))
            if reply.startswith("250"):
                break
            await asyncio.sleep(0.02)
    await gate.until_done()
    assert await names.check(MUTED, "ann@x.example")
    assert re.search(rb"\nTo: ann@x.example\r\n", sink.taken[-1].data)
