"""Over sockets: one mailbox in several spellings, lists as senders, copies that come back, lists that are not ASCII."""

import asyncio
import time
from contextlib import asynccontextmanager
from email.utils import formatdate

import pytest

from mailing.config.settings import DistributionSettings
from mailing.rules.lists import Lists, ListSettings
from tests.fakes.name_servers import NameServers
from tests.integration.mailing.gateways import gateway
from tests.integration.mailing.passing import running_gateway
from tests.integration.mailing.sink import Sink

ALL, OPEN, LAB, MUTED, BUREAU = (
    "all@ubc.example",
    "open@ubc.example",
    "lab@sfu.example",
    "all+muted@ubc.example",
    "büro@ubc.example",
)
ADDRESS = "all@lists.ubc.example"
SETTINGS = {OPEN: ListSettings(post="anyone")}
CONFIRMED = "Authentication-Results: mx.ubc.example; dkim=pass header.d=x.example; dmarc=pass header.from=x.example"


def message(name, author, *fields, body="Hello.\r\n"):
    date = formatdate(time.time())
    lines = (CONFIRMED, f"Message-ID: <{name}@x.example>", f"From: {author}", f"Date: {date}", *fields)
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\n" + body.encode()


@pytest.fixture
async def servers():
    async with NameServers("ubc.example", "sfu.example") as servers:
        names = servers["ubc.example"].client
        for group in (ALL, OPEN, LAB, MUTED, BUREAU):
            await names.create_group(group)
        for parent, member in (
            (ALL, LAB),
            (OPEN, ALL),
            (ALL, "Ann.Lee@x.example"),
            (ALL, "uma@xn--bcher-kva.example"),
            (LAB, "Bob@x.example"),
            (LAB, "eve@x.example"),
            (MUTED, "EVE@x.example"),
            (BUREAU, "ann.lee@x.example"),
            (BUREAU, "jürgen@x.example"),
        ):
            await names.join(parent, member)
        yield servers


@pytest.fixture
async def policy(servers):
    async with gateway(servers["ubc.example"].client, "ubc.example", settings=SETTINGS) as found:
        yield found


@asynccontextmanager
async def running(servers, folder, *extensions):
    sink = await Sink("XVERP", *extensions).start()
    settings = DistributionSettings(
        "127.0.0.1:0",
        f"sqlite:///{folder / 'mail.db'}",
        f"127.0.0.1:{sink.port}",
        folder / "mail.sock",
        "mx.ubc.example",
    )
    lists = Lists({"lists.ubc.example": "ubc.example"}, ListSettings(), SETTINGS)
    try:
        async with running_gateway(servers["ubc.example"].client, settings, lists) as found:
            yield found, sink
    finally:
        sink.close()


@pytest.fixture
async def passing(servers, tmp_path):
    async with running(servers, tmp_path, "SMTPUTF8") as found:
        yield found


@pytest.mark.parametrize(
    "sender",
    [
        "ann.lee@x.example",
        "ANN.LEE@X.example",
        "bob@x.example",
        "prvs=4211fe3a7d=BOB@x.example",
        "btv1==0123456789a==bob@x.example",
        "uma@bücher.example",
        "UMA@xn--bcher-kva.example.",
    ],
)
async def test_a_member_may_post_however_the_address_is_written(policy, sender):
    assert await policy.action(sender, ADDRESS) == "DUNNO"


@pytest.mark.parametrize("sender", ["bob+x@x.example", "bob@y.example", "SRS0=HHH=TT=x.example=bob@fwd.example"])
async def test_others_may_not_post_and_a_forwarder_alone_proves_nobody(policy, sender):
    assert await policy.action(sender, ADDRESS) == f"550 5.7.1 <{ADDRESS}>: only members may post to {ALL}"


@pytest.mark.parametrize("place", ["all", "open"])
@pytest.mark.parametrize(
    "sender",
    [
        "lab@sfu.example",
        "LAB@sfu.example",
        "all@lists.ubc.example",
        "open@ubc.example",
        "prvs=4211fe3a7d=lab@sfu.example",
    ],
)
async def test_a_list_or_a_group_writes_nothing_whoever_may_post(policy, sender, place):
    action = await policy.action(sender, f"{place}@lists.ubc.example")
    assert action.startswith("550 5.7.1")
    assert "takes mail of people alone" in action


async def test_a_list_writes_nothing_by_lmtp_either(passing):
    gate, _ = passing
    assert "takes mail of people alone" in await gate.rcpt("open@lists.ubc.example", "all")
    data = message("from a group", "lab@sfu.example").replace(b"x.example\r\nMessage", b"sfu.example\r\nMessage")
    (reply,) = await gate.send("lab@sfu.example", "all", data=data)
    assert reply.startswith("550 5.7.1 lab@sfu.example is a list or a group")


async def test_senders_who_never_end_their_messages_hold_up_nobody(passing):
    gate, _ = passing
    held = []
    for _ in range(20):
        _, writer = await asyncio.open_connection("127.0.0.1", gate.port)
        writer.write(f"LHLO x\r\nMAIL FROM:<ann.lee@x.example>\r\nRCPT TO:<{ADDRESS}>\r\nDATA\r\nX: y\r\n".encode())
        held.append(writer)
    data = message("honest", "ann.lee@x.example")
    assert await gate.send("ann.lee@x.example", "all", data=data) == ["250 2.0.0 it is safe"]
    for writer in held:
        writer.close()


async def test_lookups_find_people_and_leave_out_whom_an_exception_names_otherwise(policy):
    status, people = await policy.lookup("members", ADDRESS)
    assert (status, people) == ("OK", "Ann.Lee@x.example,Bob@x.example,uma@xn--bcher-kva.example")
    _, why = await policy.lookup("why", f"{ADDRESS} ANN.lee@x.example")
    assert why == f"{ALL} -> Ann.Lee@x.example"
    _, why = await policy.lookup("why", f"{ADDRESS} eve@x.example")
    assert why == f"{ALL} -> {LAB} -> eve@x.example; gets no mail of it, being in {MUTED}"


async def test_a_server_away_makes_a_stranger_uncertain_only_where_it_could_know_better(policy, servers):
    await servers.cut_off("sfu.example")
    assert await policy.action("ann.lee@x.example", ADDRESS) == "DUNNO"
    assert (await policy.action("zed@x.example", ADDRESS)).startswith("451")
    assert (await policy.action("zed@x.example", "büro@lists.ubc.example")).startswith("550 5.7.1")


async def test_who_is_in_a_list_by_another_spelling_posts_leaves_and_joins_again(passing, servers):
    gate, sink = passing
    names = servers["ubc.example"].client
    assert await gate.send("ann.lee@x.example", "all", data=message("one", "ann.lee@x.example")) == [
        "250 2.0.0 it is safe"
    ]
    await gate.until_done()
    assert sink.people == ["Ann.Lee@x.example", "Bob@x.example", "uma@xn--bcher-kva.example"]
    (id_,) = {each.data.partition(b"LMTP id ")[2][:32].decode() for each in sink.taken}
    assert (await gate.why(id_, "ANN.LEE@x.example")).address == "Ann.Lee@x.example"
    assert (await gate.why(id_, "eve@x.example")).why == f"in {ALL}, and excepted by {MUTED}"
    to = "To: all-leave@lists.ubc.example"
    await gate.send("bob@x.example", "all-leave", data=message("two", "bob@x.example", to))
    await gate.send("ann.lee@x.example", "all-leave", data=message("three", "ann.lee@x.example", to))
    assert (await names.resolve(MUTED)).processes == ("Bob@x.example", "EVE@x.example")
    assert not await names.check(ALL, "Ann.Lee@x.example")
    to = "To: all-join@lists.ubc.example"
    await gate.send("BOB@x.example", "all-join", data=message("four", "BOB@x.example", to))
    assert (await names.resolve(MUTED)).processes == ("EVE@x.example",)
    await gate.send("eve@x.example", "all-join", data=message("five", "eve@x.example", to))
    assert (await names.resolve(MUTED)).processes == ()


async def test_ways_by_all_spellings_of_a_person_are_told(passing, servers):
    gate, sink = passing
    await servers["ubc.example"].client.join(LAB, "ann.lee@x.example")
    await gate.send("ann.lee@x.example", "all-request", data=message("why", "ann.lee@x.example", "Subject: Re: Why?"))
    await sink.until("ann.lee@x.example")
    text = sink.taken[-1].data.decode()
    assert f"{ALL} -> Ann.Lee@x.example\r\n" in text
    assert f"{ALL} -> {LAB} -> ann.lee@x.example\r\n" in text
    assert "by 2 ways:" in text


async def test_a_copy_that_comes_back_changed_reaches_nobody_again(passing):
    gate, sink = passing
    data = message("sent", "ann.lee@x.example")
    await gate.send("ann.lee@x.example", "all", data=data)
    await gate.until_done()
    people, copy, sender = [*sink.people], sink.taken[0].data, sink.taken[0].sender

    def without(*names):
        lines = copy.partition(b"\r\n\r\n")[0].split(b"\r\n")
        return b"\r\n".join(
            line for line in lines if not line.lower().startswith(tuple(name.encode() for name in names))
        )

    footer, new = b"\r\n\r\nHello.\r\n-- \r\nforwarded\r\n", (b"<sent@", b"<new@")
    returning = {
        "the fields of the list are left": without("shadowtree-trace"),
        "one field is left": without("shadowtree-trace", "list-id", "list-post", "list-help", "received").replace(*new),
        "the line of this gateway is left": without("shadowtree-trace", "list-").replace(*new),
        "the Message-ID is left": without("shadowtree-trace", "list-", "received", "precedence"),
    }
    for what, header in returning.items():
        reply = await gate.send("forwarder@y.example", "all", data=header + footer + what.encode() + b"\r\n")
        assert reply == ["250 2.0.0 it is safe"], what
    bare = without("shadowtree-trace", "list-", "received", "precedence").replace(*new)
    await gate.send(sender.replace("@", "+ann.lee=x.example@"), "all", data=bare + footer)
    await gate.until_done()
    assert sink.people == people
    assert await gate.send("ann.lee@x.example", "all", data=message("sent again", "ann.lee@x.example")) == [
        "250 2.0.0 it is safe"
    ]
    await gate.until_done()
    assert sink.people == sorted(2 * people)


async def test_automatic_answers_that_do_not_say_so_are_returned_to_their_authors_or_held(passing):
    gate, sink = passing
    data = message("away", "ann.lee@x.example", "Subject: Automatic reply: Lunch")
    (reply,) = await gate.send("ann.lee@x.example", "all", data=data)
    assert reply.startswith("550 5.7.1 its subject is that of an automatic answer")
    assert await gate.send("other@x.example", "all", data=data) == ["250 2.0.0 it is safe"]
    (held,) = await gate.ask("held")
    assert held.shares[0].why == "its subject is that of an automatic answer"
    (reply,) = await gate.send("ann.lee@x.example", "all", data=message("r", "ann.lee@x.example", "X-Autoreply: yes"))
    assert reply == f"550 5.7.1 {ALL} distributes no automatic mail"
    assert sink.people == []


async def test_a_list_that_is_not_ascii_is_found_and_distributed_as_any_other(passing):
    gate, sink = passing
    to = "büro@lists.ubc.example"
    for spelling in (to, "BÜRO@lists.ubc.example", "bu\u0308ro@lists.ubc.example"):
        assert await gate.lookup("lists", spelling) == ("OK", BUREAU)
    assert await gate.lookup("members", to) == ("OK", "ann.lee@x.example")
    data = message("büro", "ann.lee@x.example", f"To: {to}")
    assert await gate.send("ann.lee@x.example", to, data=data, parameters=" SMTPUTF8") == ["250 2.0.0 it is safe"]
    await gate.until_done()
    assert sink.people == ["ann.lee@x.example", "jürgen@x.example"]
    for each in sink.taken:
        assert each.sender.isascii()
        assert "SMTPUTF8" in each.parameters
        assert b"List-Id: <b=C3=BCro.ubc.example>\r\nList-Post: <mailto:b%C3%BCro@lists.ubc.example>\r\n" in each.data
    leave = message("leave", "jürgen@x.example", "To: büro-leave@lists.ubc.example")
    await gate.send("jürgen@x.example", "büro-leave@lists.ubc.example", data=leave, parameters=" SMTPUTF8")
    await sink.until("ann.lee@x.example", "jürgen@x.example", "jürgen@x.example")
    assert sink.taken[-1].data.endswith("jürgen@x.example has left büro@lists.ubc.example.\r\n".encode())


async def test_members_without_smtputf8_get_what_is_ascii_but_for_the_name_of_the_list(servers, tmp_path):
    await servers["ubc.example"].client.leave(BUREAU, "jürgen@x.example")
    async with running(servers, tmp_path) as (gate, sink):
        data = message("ascii", "ann.lee@x.example")
        await gate.send("ann.lee@x.example", "büro@lists.ubc.example", data=data, parameters=" SMTPUTF8")
        await gate.until_done()
        assert sink.people == ["ann.lee@x.example"]
