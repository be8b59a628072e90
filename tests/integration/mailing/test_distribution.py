"""Messages through a gateway in this process: in by LMTP, out to a mail server of the tests' own."""

import asyncio
import dataclasses
import sqlite3
from contextlib import asynccontextmanager

import pytest
import pytest_asyncio

from mailing.config.settings import DistributionSettings
from mailing.rules.lists import Lists, ListSettings
from mailing.shell.control import ControlError, Request, ask
from mailing.shell.distributing import GatewayStartError
from mailing.spool.store import Spool
from shadowtree.updates import Join
from tests.fakes.name_servers import NameServers
from tests.integration.mailing.passing import running_gateway
from tests.integration.mailing.sink import PATIENCE_SECONDS, Sink, lmtp
from tests.postgres import running_postgresql

ALL, LAB, NEWS, OWN, HELD, LARGE = (
    "all@ubc.example",
    "lab@sfu.example",
    "news@ubc.example",
    "own@ubc.example",
    "held@ubc.example",
    "large@ubc.example",
)
SETTINGS = {
    NEWS: ListSettings(post="anyone", excluding=("guests@sfu.example",)),
    OWN: ListSettings(post="anyone", skips_addressed=True, bytes_limit=2_000),
    HELD: ListSettings(post="nobody", holds_others=True),
    LARGE: ListSettings(post="anyone", owners="all+owners@ubc.example", people_limit=1),
}
BODY = b"\r\nHello, \xff.\r\n..dots\r\n.\r\n"
CONFIRMED = "Authentication-Results: mx.ubc.example; dkim=pass header.d=x.example; dmarc=pass header.from=x.example"
FORGED = CONFIRMED.replace("mx.ubc", "mx.elsewhere")


DEEP = 1_000
"""Depth of nested parts."""


def message(name, *fields, body=BODY, results=CONFIRMED):
    """Return a message as on the wire, without its end. Dots at the begin of lines are doubled."""
    lines = (f"Message-ID: <{name}@x.example>", "From: ann@x.example", "Date: Wed, 25 Nov 2026 12:00:00 +0000")
    lines = (results, *lines, *fields)
    return "".join(f"{line}\r\n" for line in lines).encode() + body.replace(b"\r\n.", b"\r\n..")


pytestmark = pytest.mark.asyncio(loop_scope="module")


@asynccontextmanager
async def name_servers():
    async with NameServers("ubc.example", "sfu.example") as servers:
        names = servers["ubc.example"].client
        for group in (
            ALL,
            LAB,
            NEWS,
            OWN,
            HELD,
            LARGE,
            "all+owners@ubc.example",
            "guests@sfu.example",
        ):
            await names.create_group(group)
        joins = [(ALL, LAB, "group"), (LAB, ALL, "group"), (NEWS, LAB, "group")]
        joins += [(ALL, "ann@x.example", "process"), (LAB, "bob@sfu.example", "process")]
        joins += [("guests@sfu.example", "ann@x.example", "process"), (OWN, "dan@x.example", "process")]
        joins += [(OWN, "a,b@x.example", "process"), (OWN, "jürgen@x.example", "process")]
        joins += [(LARGE, "dan@x.example", "process"), (LARGE, "eve@x.example", "process")]
        joins += [(HELD, "eve@x.example", "process"), ("all+owners@ubc.example", "chair@x.example", "process")]
        await names.apply([Join(*each) for each in joins])
        yield servers


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def servers():
    async with name_servers() as servers:
        yield servers


@pytest_asyncio.fixture(loop_scope="module")
async def sink():
    sink = await Sink("XVERP", "SMTPUTF8").start()
    yield sink
    sink.close()


@pytest.fixture
def settings(tmp_path, sink):
    url = f"sqlite:///{tmp_path / 'mail.db'}"
    return DistributionSettings("127.0.0.1:0", url, f"127.0.0.1:{sink.port}", tmp_path / "mail.sock", "mx.ubc.example")


@asynccontextmanager
async def running(servers, settings, *, gracefully=True):
    lists = Lists({"lists.ubc.example": "ubc.example"}, ListSettings(), SETTINGS)
    async with running_gateway(servers["ubc.example"].client, settings, lists, gracefully=gracefully) as found:
        yield found


@pytest_asyncio.fixture(loop_scope="module")
async def gate(servers, settings):
    async with running(servers, settings) as found:
        yield found


async def test_a_message_to_several_lists_reaches_each_person_once_and_stays_as_it_is(gate, sink):
    data = message("one", "Subject: hello", "List-Id: <foreign.example>", "Precedence: bulk")
    replies = await gate.send("ann@x.example", "all", "news", "own", data=data)
    assert replies == ["250 2.0.0 it is safe"] * 3
    await sink.until('"a,b"@x.example', "ann@x.example", "bob@sfu.example", "dan@x.example", "jürgen@x.example")
    by_person = {person: each for each in sink.taken for person in each.people}
    ann = by_person["ann@x.example"]
    assert ann.data.endswith(message("one", "Subject: hello", body=BODY).replace(b"\r\n..", b"\r\n."))
    assert b"foreign.example" not in ann.data
    head = ann.data.partition(b"\r\n\r\n")[0].decode().splitlines()
    assert head[1:7] == [
        "List-Id: <all.ubc.example>",
        "List-Post: <mailto:all@lists.ubc.example>",
        "List-Help: <mailto:all-request@lists.ubc.example?subject=help>",
        "List-Owner: <mailto:all-owner@lists.ubc.example>",
        "List-Unsubscribe: <mailto:all-leave@lists.ubc.example>",
        "Precedence: list",
    ]
    assert ann.people == ["ann@x.example", "bob@sfu.example"]
    assert ann.parameters == ["BODY=8BITMIME", "XVERP=+="]
    assert b"List-Id: <own.ubc.example>" in by_person["dan@x.example"].data
    assert "SMTPUTF8" in by_person["jürgen@x.example"].parameters


async def test_the_same_message_reaches_only_those_that_it_has_not_reached(gate, sink):
    for _ in range(2):
        assert await gate.send("ann@x.example", "news", data=message("two")) == ["250 2.0.0 it is safe"]
        await gate.until_done()
    assert sink.people == ["bob@sfu.example"]
    await gate.send("ann@x.example", "all", "news", data=message("two"))
    await gate.until_done()
    assert sink.people == ["ann@x.example", "bob@sfu.example"]
    await gate.send("ann@x.example", "news", data=message("another"))
    await gate.until_done()
    assert sink.people == ["ann@x.example", "bob@sfu.example", "bob@sfu.example"]


async def test_people_in_to_are_left_out_where_the_list_says_so(gate, sink):
    await gate.send("ann@x.example", "own", data=message("to", "To: Dan <DAN@x.example>, own@lists.ubc.example"))
    await gate.until_done()
    assert sink.people == ['"a,b"@x.example', "jürgen@x.example"]


async def test_owners_are_written_to_and_their_copy_is_no_lists(gate, sink):
    assert await gate.send("", "all-owner", data=message("owner")) == ["250 2.0.0 it is safe"]
    await sink.until("chair@x.example")
    assert sink.taken[0].sender == ""
    assert b"List-Id" not in sink.taken[0].data


@pytest.mark.parametrize(
    ("sender", "recipient", "says"),
    [
        ("ann@x.example", "nobody", "550 5.1.1"),
        ("", "all", "550 5.7.1"),
        ("ann@x.example", "own-owner", "550 5.1.1"),
    ],
)
async def test_addresses_are_refused_at_rcpt(gate, sender, recipient, says):
    assert (await gate.rcpt(sender, recipient)).startswith(says)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (message("auto", "Auto-Submitted: auto-replied"), "550 5.7.1 news@ubc.example distributes no automatic mail"),
        (message("circle", *["Received: by x.example"] * 51), "554 5.4.6"),
        (message("bare", body=b"\r\nbare\nline\r\n"), "550 5.6.0"),
        (message("bare", body=b"\r\nbare\rline\r\n"), "550 5.6.0"),
        (b"no field\r\n" + message("nothing"), "550 5.6.0"),
        (message("lines", *["X: y"] * 50_001), "550 5.3.4"),
        (message("header", *["X: " + "y" * 900] * 9_999), "550 5.3.4"),
        (message("long", body=b"\r\n" + b"x" * 10_240_001 + b"\r\n"), "552 5.3.4"),
    ],
)
async def test_messages_are_refused_after_data(gate, data, says):
    (reply,) = await gate.send("ann@x.example", "news", data=data)
    assert reply.startswith(says)
    assert await gate.ask("queue") == ()


@pytest.mark.parametrize(
    ("level", "end"),
    [
        ("Content-Type: multipart/mixed; boundary=b{0}\r\n\r\n--b{0}\r\n", "--b{0}--\r\n"),
        ("Content-Type: multipart/mixed; boundary=b{0}\r\n\r\n--b{0}\r\n", ""),
        ("Content-Type: message/rfc822\r\n\r\n", ""),
    ],
    ids=["parts", "parts that have no end", "messages"],
)
async def test_parts_within_parts_go_through_as_one_message_and_as_they_are(gate, sink, level, end):
    levels = [level.format(number) for number in range(DEEP)]
    ends = [end.format(number) for number in reversed(range(DEEP))]
    top, _, inner = "".join([*levels, "Content-Type: text/plain\r\n\r\n.deep\r\n.\r\n", *ends]).partition("\r\n")
    data = message("deep", "MIME-Version: 1.0", top, body=inner.encode())
    assert await gate.send("ann@x.example", "news", "own-request", data=data) == ["250 2.0.0 it is safe"] * 2
    await gate.until_done()
    (copy,) = [each for each in sink.taken if each.people == ["bob@sfu.example"]]
    assert copy.data.endswith(data.partition(b"\r\n")[2].replace(b"\r\n..", b"\r\n."))
    assert sink.people == ["ann@x.example", "bob@sfu.example"], "the other one is an answer to the author"


@pytest.mark.parametrize("end", [b"\n.\n", b"\r.\r", b"\n.\r\n", b"\r\n.\n", b"\r\n.\r"])
async def test_wrong_ends_of_data_split_no_message(gate, end):
    smuggled = b"MAIL FROM:<x@x.example>\r\nRCPT TO:<own@lists.ubc.example>\r\nDATA\r\nX: y\r\n"
    data = message("smuggled", body=b"\r\nbegin") + end + smuggled
    assert [reply[:9] for reply in await gate.send("ann@x.example", "news", data=data)] == ["550 5.6.0"]
    assert await gate.ask("queue") == ()


async def test_each_recipient_has_a_reply_of_its_own(gate, sink):
    data = message("replies", "Auto-Submitted: auto-generated", body=b"\r\n" + b"x" * 3_000 + b"\r\n")
    replies = await gate.send("ann@x.example", "all", "all-owner", "own", data=data)
    assert [reply[:9] for reply in replies] == ["550 5.7.1", "250 2.0.0", "552 5.3.4"]
    await sink.until("chair@x.example")


async def test_a_transaction_has_at_most_fifty_lists(gate):
    replies = await lmtp(gate.port, "ann@x.example", *["news@lists.ubc.example"] * 51, data=message("many"))
    assert [reply[:3] for reply in replies] == ["250"] * 50 + ["452"] + ["250"] * 50


async def test_a_message_that_comes_back_with_other_words_ends(gate, sink):
    await gate.send("ann@x.example", "news", data=message("loop"))
    await sink.until("bob@sfu.example")
    trace = next(line for line in sink.taken[0].data.split(b"\r\n") if line.startswith(b"Shadowtree-Trace"))
    again = message("loop", trace.decode(), body=b"\r\nanother footer\r\n")
    assert (await gate.send("x@x.example", "news", data=again))[0].startswith("554 5.4.6")
    forged = message("forged", trace.decode()[:-1] + "!")
    assert (await gate.send("x@x.example", "news", data=forged))[0].startswith("250")


async def test_who_may_not_post_is_held_until_somebody_decides(gate, sink):
    assert await gate.send("ann@x.example", "held", "news", data=message("held")) == ["250 2.0.0 it is safe"] * 2
    await sink.until("bob@sfu.example")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (held := await gate.ask("held"))[0].state != "held":
            await asyncio.sleep(0.01)
    assert held[0].shares[0].why == "nobody may post to held@ubc.example"
    (told,) = await gate.ask("approve", held[0].id)
    assert told.people >= 1
    await sink.until("bob@sfu.example", "eve@x.example")
    await gate.until_done()
    with pytest.raises(ControlError, match="is done: nothing of it is held"):
        await gate.ask("approve", held[0].id)
    await gate.send("ann@x.example", "held", data=message("rejected"))
    (held,) = await gate.ask("held")
    (told,) = await gate.ask("reject", held.id)
    assert (told.state, told.people) == ("dropped", 0)


async def test_what_nobody_confirms_is_held_and_its_owners_are_told(gate, sink):
    """The other list has it meanwhile; once an owner lets it go, those have it who have not."""
    assert (
        await gate.send("ann@x.example", "all", "news", data=message("forged", results=FORGED))
        == ["250 2.0.0 it is safe"] * 2
    )
    await sink.until("bob@sfu.example", "chair@x.example")
    (held,) = await gate.ask("held")
    assert held.shares[0].why == "neither a login nor DMARC confirms that ann@x.example is the author"
    (note,) = [each for each in sink.taken if each.people == ["chair@x.example"]]
    assert (note.sender, held.id.encode() in note.data) == ("", True)
    await gate.ask("approve", held.id)
    await sink.until("ann@x.example", "bob@sfu.example", "chair@x.example")
    await gate.until_done()


async def test_what_is_for_many_waits_for_an_owner_unless_one_wrote_it(gate, sink):
    await gate.send("ann@x.example", "large", "news", data=message("large"))
    await sink.until("bob@sfu.example", "chair@x.example")
    (held,) = await gate.ask("held")
    assert held.shares[0].why == "it would reach 2 people, and more than 1 takes an owner's word"
    await gate.ask("reject", held.id)
    by_owner = message("owner").replace(b"From: ann@", b"From: chair@")
    assert await gate.send("bounces@x.example", "large", data=by_owner) == ["250 2.0.0 it is safe"]
    await gate.until_done()
    assert sink.people == ["bob@sfu.example", "chair@x.example", "dan@x.example", "eve@x.example"]


async def test_what_the_mail_server_says_of_each_person_is_kept_and_what_waits_is_tried_again(gate, sink):
    sink.replies |= {"dan@x.example": "450 4.2.0 later", '"a,b"@x.example': "550 5.1.1 no"}
    await gate.send("ann@x.example", "own", data=message("said"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (told := (await gate.ask("queue"))[0]).state != "waiting":
            await asyncio.sleep(0.01)
    assert (told.people, told.done, told.bounced, told.shares[0].why) == (3, 1, 1, "450 4.2.0 later")
    assert told.shares[0].attempts == 1
    sink.replies.clear()
    await gate.ask("retry", told.id)
    await gate.until_done()
    (told,) = await gate.ask("queue", told.id)
    assert (told.state, told.people, told.done, told.bounced) == ("done", 3, 2, 1)
    assert sink.people == ["dan@x.example", "jürgen@x.example"]


async def test_a_mail_server_that_is_away_is_waited_for_and_what_is_dropped_is_not_sent(gate, sink):
    sink.is_gone = True
    await gate.send("ann@x.example", "news", data=message("away"))
    await gate.send("ann@x.example", "own", data=message("dropped"))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while any(each.state != "waiting" for each in await gate.ask("queue")):
            await asyncio.sleep(0.01)
    sink.is_gone = False
    ids = {each.lists[0]: each.id for each in await gate.ask("queue")}
    (told,) = await gate.ask("drop", ids[OWN])
    assert (told.state, told.done, told.bounced) == ("dropped", 0, 3)
    await gate.ask("retry", ids[NEWS])
    await gate.until_done()
    assert sink.people == ["bob@sfu.example"]


async def test_while_a_part_is_out_of_reach_the_others_get_it_and_later_the_rest(settings, sink):
    async with name_servers() as servers, running(servers, settings) as gate:
        names = servers["ubc.example"].client
        await names.create_group("all+muted@ubc.example")
        await names.apply([Join(ALL, "eve@x.example", "process"), Join("all+muted@ubc.example", "eve@x.example")])
        await servers.cut_off("sfu.example")
        assert await gate.send("ann@x.example", "all", data=message("part")) == ["250 2.0.0 it is safe"]
        await gate.send("ann@x.example", "news", data=message("excepted"))
        await sink.until("ann@x.example")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while any(each.state != "waiting" for each in await gate.ask("queue")):
                await asyncio.sleep(0.01)
        told = {each.lists[0]: each for each in await gate.ask("queue")}
        assert told[ALL].shares[0].why == "out of reach: lab@sfu.example"
        # Who is excepted from it is there, too.
        assert told[NEWS].shares[0].why == "out of reach: sfu.example"
        assert told[NEWS].people == 0
        await servers.join_again("sfu.example")
        for each in told.values():
            await gate.ask("retry", each.id)
        await gate.until_done()
        # Through the loop all are in both lists; one is excepted from each.
        assert sink.people == ["ann@x.example", "bob@sfu.example", "bob@sfu.example", "eve@x.example"]


async def test_a_list_that_is_deleted_while_a_message_waits_is_told(settings, sink):
    async with name_servers() as servers, running(servers, settings) as gate:
        await gate.send("ann@x.example", "held", data=message("deleted"))
        (held,) = await gate.ask("held")
        await servers["ubc.example"].client.delete_group(HELD, force=True)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (await gate.rcpt("ann@x.example", "held")).startswith("550"):
                await asyncio.sleep(0.01)
        # Those that it is seen by are taken and held, until it is.
        for each in await gate.ask("held"):
            await gate.ask("approve", each.id)
        await gate.until_done()
        (told,) = await gate.ask("queue", held.id)
        assert (told.state, told.people, told.shares[0].why) == ("dropped", 0, "the list was deleted")


async def test_a_message_that_waits_while_its_list_is_renamed_goes_to_the_members_of_the_new_name(settings, sink):
    async with name_servers() as servers, running(servers, settings) as gate:
        names = servers["ubc.example"].client
        members = (await names.resolve(HELD)).processes
        await gate.send("ann@x.example", "held", data=message("renamed"))
        (held,) = await gate.ask("held")
        await names.rename_group(HELD, "renamed@ubc.example")
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not (await gate.rcpt("ann@x.example", "held")).startswith("550"):
                await asyncio.sleep(0.01)
        for each in await gate.ask("held"):
            await gate.ask("approve", each.id)
        await gate.until_done()
        (told,) = await gate.ask("queue", held.id)
        assert (told.state, told.people) == ("done", len(members))
        assert set(members) <= set(sink.people)


async def test_without_xverp_each_person_has_a_transaction_and_bounces_of_both_kinds_count(gate, sink):
    for extensions, name, expected in (((), "plain", "+0.0@"), (("XVERP",), "verp", "@")):
        sink.extensions = extensions
        await gate.send("ann@x.example", "news", data=message(name))
        await gate.until_done()
        sender = sink.taken[-1].sender
        assert sender.startswith("news-bounces-")
        assert expected in sender
        local, _, domain = sender.partition("@")
        back = sender if "+" in local else f"{local}+bob=sfu.example@{domain}"
        id_ = sink.taken[-1].data.partition(b"Shadowtree-Trace: ")[2][:32].decode()
        token = back.removeprefix("news-bounces-")[:16]
        foreign = back.replace(token, "a" * 16)
        stranger = f"news-bounces-{token}+eve=x.example@{domain}"
        for recipient, bounced in ((foreign, 0), (stranger, 0), (back, 1), (back, 1)):
            assert await gate.send("", recipient, data=REPORT) == ["250 2.0.0 the report was looked at"]
            (told,) = await gate.ask("queue", id_)
            assert told.bounced == bounced


REPORT = b"""\
From: mailer-daemon@x.example
MIME-Version: 1.0
Content-Type: multipart/report; report-type=delivery-status; boundary="b"

--b
Content-Type: text/plain

It could not be delivered.
--b
Content-Type: message/delivery-status

Reporting-MTA: dns; mx.x.example

Final-Recipient: rfc822; bob@sfu.example
Action: failed
Status: 5.1.1
--b--
""".replace(b"\n", b"\r\n")


async def test_a_gateway_that_ends_in_the_middle_goes_on_where_it_was(servers, settings, sink):
    """What was handed over and not written down, and that alone, is handed over again."""
    sink.pause.clear()
    async with running(servers, settings, gracefully=False) as gate:
        await gate.send("ann@x.example", "news", data=message("ended"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not sink.waiting:
                await asyncio.sleep(0.005)
    sink.pause.set()
    async with running(servers, settings) as gate:
        await gate.until_done()
        assert sink.people == ["bob@sfu.example"] * 2
    async with running(servers, settings) as gate:
        assert await gate.send("ann@x.example", "news", data=message("ended")) == ["250 2.0.0 it is safe"]
        assert await gate.ask("queue") == ()
    assert len(sink.people) == 2


async def test_a_gateway_that_is_told_to_end_finishes_what_is_under_way(servers, settings, sink):
    sink.pause.clear()
    async with running(servers, settings) as gate:
        await gate.send("ann@x.example", "news", data=message("ends"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not sink.waiting:
                await asyncio.sleep(0.005)
        asyncio.get_running_loop().call_later(0.1, sink.pause.set)
    async with running(servers, settings) as gate:
        assert await gate.ask("queue") == ()
    assert sink.people == ["bob@sfu.example"]


async def test_a_second_gateway_and_a_damaged_spool_are_refused(servers, settings, sink, tmp_path):
    sink.is_gone = True
    async with running(servers, settings) as gate:
        await gate.send("ann@x.example", "news", data=message("kept"))
        with pytest.raises(GatewayStartError, match="another mail gateway"):
            async with running(servers, settings):
                pass
    with sqlite3.connect(tmp_path / "mail.db") as connection:
        connection.execute("UPDATE mail_messages SET encoded = replace(encoded, 'ann', 'eve')")
    connection.close()
    with pytest.raises(
        GatewayStartError, match=r"in the table mail_messages, the row with id '[0-9a-f]{32}' is not what was"
    ):
        async with running(servers, settings):
            pass


async def test_a_full_disk_is_a_failure_for_now_while_lookups_go_on_and_passes(servers, settings, sink, monkeypatch):
    commit, full = Spool.commit, asyncio.Event()

    def commit_unless_full(spool, changes):
        pages = "1" if full.is_set() else "1000000"
        spool._engine.connection.exec_driver_sql(f"PRAGMA max_page_count = {pages}").fetchall()
        spool._engine.connection.rollback()
        commit(spool, changes)

    monkeypatch.setattr(Spool, "commit", commit_unless_full)
    async with running(servers, settings) as gate:
        full.set()
        large = message("full", body=b"\r\n" + b"x" * 100_000 + b"\r\n")
        assert (await gate.send("ann@x.example", "news", data=large))[0].startswith("452 4.3.1")
        await lookups_go_on(servers, gate, "full")
        full.clear()
        await sink.until("bob@sfu.example")
        assert await gate.send("ann@x.example", "news", data=large) == ["250 2.0.0 it is safe"]
        await gate.until_done()
    assert sink.people == ["bob@sfu.example"]


async def test_a_database_that_is_away_is_a_failure_for_now_while_lookups_go_on_and_passes(servers, settings, sink):
    with running_postgresql() as postgresql:
        away = dataclasses.replace(settings, database=postgresql.fresh_database())
        async with running(servers, away) as gate:
            await asyncio.to_thread(postgresql.stop)
            data = message("away")
            assert (await gate.send("ann@x.example", "news", data=data))[0].startswith("452 4.3.1")
            await lookups_go_on(servers, gate, "away")
            assert sink.people == []
            await asyncio.to_thread(postgresql.start)
            async with asyncio.timeout(PATIENCE_SECONDS):
                while (await gate.send("ann@x.example", "news", data=data)) != ["250 2.0.0 it is safe"]:
                    await asyncio.sleep(0.01)
            await gate.until_done()
    assert sink.people == ["bob@sfu.example"]


async def lookups_go_on(servers, gate, name):
    """Require that a list of this name, which was never asked for, is there for lookups once it is created."""
    names, group, place = servers["ubc.example"].client, f"{name}@ubc.example", f"{name}@lists.ubc.example"
    await names.create_group(group)
    await names.apply([Join(group, LAB, "group"), Join(group, "eve@x.example", "process")])
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await gate.lookup("lists", place) == ("NOTFOUND", ""):
                await asyncio.sleep(0.01)
        assert await gate.lookup("lists", place) == ("OK", group)
        assert await gate.lookup("members", place) == ("OK", "ann@x.example,bob@sfu.example,eve@x.example")
        assert await gate.lookup("lists", "ann@x.example") == ("NOTFOUND", "")
        assert (await gate.rcpt("ann@x.example", "news")).startswith("452 4.3.1")
    finally:
        await names.delete_group(group, force=True)


async def test_the_database_of_a_name_server_is_refused(servers, settings, tmp_path):
    with sqlite3.connect(tmp_path / "mail.db") as connection:
        connection.execute("CREATE TABLE nodes (node INTEGER)")
    connection.close()
    before = (tmp_path / "mail.db").read_bytes()
    with pytest.raises(GatewayStartError, match="it holds tables of another program"):
        async with running(servers, settings):
            pass
    assert (tmp_path / "mail.db").read_bytes() == before


async def test_commands_say_that_no_gateway_runs(settings):
    with pytest.raises(ControlError, match="No such file or directory; does it run"):
        await ask(settings.control, Request("queue"))


async def test_a_command_waits_for_a_gateway_that_is_starting(servers, settings):
    """The one that comes up is not there when it is looked for first, and then is."""
    waited = []

    def start(failure):
        waited.append(failure)
        waiting.set()

    waiting = asyncio.Event()
    asked = asyncio.create_task(ask(settings.control, Request("queue"), patience=PATIENCE_SECONDS, on_wait=start))
    await waiting.wait()
    async with running(servers, settings):
        assert (await asked).messages == ()
    assert str(waited[0]).endswith("No such file or directory; does it run?")


async def test_a_socket_whose_path_is_too_long_is_reached_from_its_folder(servers, settings, tmp_path, monkeypatch):
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    far = dataclasses.replace(settings, control=folder / "mail.sock")
    with pytest.raises(GatewayStartError, match="AF_UNIX path too long"):
        async with running(servers, far):
            pass
    with pytest.raises(ControlError, match="AF_UNIX path too long"):
        await ask(far.control, Request("queue"))
    monkeypatch.chdir(folder)
    async with running(servers, far):
        assert (await ask(far.control, Request("queue"))).messages == ()


async def test_commands_of_two_gateways_go_to_the_first_of_one_path(servers, settings, tmp_path):
    other = dataclasses.replace(settings, database=f"sqlite:///{tmp_path / 'other.db'}")
    async with running(servers, settings) as first:
        with pytest.raises(GatewayStartError, match="another mail gateway takes its commands there"):
            async with running(servers, other):
                pass
        assert await first.ask("queue") == ()
