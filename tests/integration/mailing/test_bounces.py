"""People reached by a message, and the handling of unreachable people."""

import asyncio
import time
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
import pytest_asyncio

from mailing.config.settings import DistributionSettings
from mailing.rules.events import Now
from mailing.rules.failures import DAY_S, FAILURE_DAYS
from mailing.rules.lists import Lists, ListSettings
from mailing.shell import spooling
from mailing.shell.control import ControlError
from shadowtree.updates import Join
from tests.fakes.name_servers import NameServers
from tests.integration.mailing.gateways import read_metrics
from tests.integration.mailing.passing import running_gateway
from tests.integration.mailing.sink import PATIENCE_SECONDS, Sink

ALL, LAB, MUTED = "all@ubc.example", "lab@sfu.example", "all+muted@ubc.example"

pytestmark = pytest.mark.asyncio(loop_scope="module")


def message(name):
    return (
        f"Message-ID: <{name}@x.example>\r\nFrom: ann@x.example\r\n"
        "Date: Wed, 25 Nov 2026 12:00:00 +0000\r\n\r\nHello.\r\n"
    ).encode()


def id_of(gate, name):
    return gate.id_of(message(name))


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
    bob = await gate.why(id_of(gate, "why"), "BOB@sfu.example")
    assert (bob.address, bob.reached, bob.list, bob.bounces, bob.why) == ("bob@sfu.example", True, ALL, 0, "")
    assert bob.pathname == (ALL, LAB, "bob@sfu.example")
    assert bob.gateway == "lists.ubc.example"
    assert bob.revision
    ann = await gate.why(id_of(gate, "why"), "ann@x.example")
    assert (ann.reached, ann.pathname, ann.bounces, ann.why) == (False, (ALL, "ann@x.example"), 1, "550 5.1.1 no")
    cat = await gate.why(id_of(gate, "why"), "cat@sfu.example")
    assert (cat.reached, cat.list, cat.why) == (False, None, f"in {ALL}, and excepted by {MUTED}")
    assert (await gate.why(id_of(gate, "why"), "eve@x.example")).why == f"in none of its lists: {ALL}"
    await servers["ubc.example"].client.leave(LAB, "bob@sfu.example", "process")
    bob = await gate.why(id_of(gate, "why"), "bob@sfu.example")
    assert (bob.reached, bob.pathname) == (True, ())
    assert bob.why == f"the membership has changed since: bob@sfu.example is not in {ALL}"
    await servers.cut_off("sfu.example")
    assert (await gate.why(id_of(gate, "why"), "bob@sfu.example")).why.startswith("the way in cannot be told now: ")


def report_of(status="5.1.1", action="failed", about="", kind="message/delivery-status", more=()):
    recipient = f"Final-Recipient: {about}\r\n" if about else ""
    others = "".join(f"\r\nFinal-Recipient: rfc822; {each}\r\nAction: failed\r\nStatus: {of}\r\n" for each, of in more)
    return (
        "From: mailer-daemon@x.example\r\n"
        'Content-Type: multipart/report; report-type=delivery-status; boundary="b"\r\n\r\n'
        f"--b\r\nContent-Type: {kind}\r\n\r\n"
        f"Reporting-MTA: dns; mx.x.example\r\n\r\n{recipient}Action: {action}\r\nStatus: {status}\r\n{others}--b--\r\n"
    ).encode()


def return_path_of(taken, person):
    """Return the address for reports about a person. A server with XVERP adds the person."""
    local, _, domain = taken.sender.partition("@")
    return taken.sender if "+" in local else f"{local}+{person.replace('@', '=')}@{domain}"


def clock(monkeypatch, date):
    monkeypatch.setattr(spooling, "read_clocks", lambda: Now(time.monotonic(), date))


async def test_who_cannot_be_reached_for_days_is_probed_and_suppressed(servers, settings, sink, monkeypatch):
    """Each day is a gateway that was started again: what it knows, it has kept."""
    bob, names = "bob@sfu.example", servers["ubc.example"].client
    await names.create_group("all+owners@ubc.example")
    await names.join("all+owners@ubc.example", "chair@x.example", "process")
    begin = int(time.time()) // DAY_S * DAY_S
    for day in range(FAILURE_DAYS):
        clock(monkeypatch, begin + day * DAY_S)
        async with running(servers, settings) as gate:
            await gate.send("ann@x.example", "all", data=message(f"day{day}"))
            await gate.until_done()
            back = next(return_path_of(each, bob) for each in sink.taken if bob in each.people)
            sink.taken = [each for each in sink.taken if each.people == ["chair@x.example"]]
            for report in (report_of("4.2.2", "delayed"), report_of(), report_of()):
                assert await gate.send("", back, data=report) == ["250 2.0.0 the report was looked at"]
            if day < FAILURE_DAYS - 1:
                continue
            await gate.until_done()
            (probe,) = [each for each in sink.taken if each.people == [bob]]
            assert b"do you get its mail?" in probe.data
            assert await gate.suppressed() == []
            await gate.send("", return_path_of(probe, bob), data=report_of("5.1.1"))
    clock(monkeypatch, begin + FAILURE_DAYS * DAY_S)
    async with running(servers, settings) as gate:
        (told,) = await gate.suppressed()
        assert (told.address, told.list, told.why) == (bob, ALL, "5.1.1")
        await gate.send("ann@x.example", "all", data=message("suppressed"))
        await gate.until_done()
        assert (await gate.why(id_of(gate, "suppressed"), bob)).why == f"suppressed: mail to {bob} came back"
        reached = sorted(person for each in sink.taken for person in each.people if person != "chair@x.example")
        assert reached == ["ann@x.example", bob], "the probe, and nobody else"
        notes = [each.data for each in sink.taken if each.people == ["chair@x.example"]]
        assert len(notes) == FAILURE_DAYS
        assert all(b"     1  sfu.example" in note for note in notes)
        with pytest.raises(ControlError, match=r"ann@x\.example is not suppressed"):
            await gate.clear("ann@x.example")
        assert [each.address for each in await gate.clear(bob)] == [bob]
        await gate.send("ann@x.example", "all", data=message("cleared"))
        await gate.until_done()
        assert (await gate.why(id_of(gate, "cleared"), bob)).reached


async def test_a_queue_that_gave_up_and_a_name_beyond_ascii_count_and_owners_are_told(servers, settings, monkeypatch):
    names, jose = servers["ubc.example"].client, "jos\u00e9@x.example"
    sink = await Sink("XVERP", "SMTPUTF8").start()
    settings = replace(settings, smtp=f"127.0.0.1:{sink.port}")
    await names.create_group("all+owners@ubc.example")
    await names.apply([Join("all+owners@ubc.example", "chair@x.example", "process"), Join(ALL, jose, "process")])
    begin = int(time.time())
    clock(monkeypatch, begin)
    async with running(servers, settings) as gate:
        await gate.send("ann@x.example", "all", data=message("gave up"))
        await gate.until_done()
        back = {person: return_path_of(each, person) for each in sink.taken for person in each.people}
        late = report_of("4.4.7", about="rfc822; bob@sfu.example")
        beyond = report_of(about="utf-8; jos\u00e9@x.example", kind="message/global-delivery-status")
        for person, report in (("bob@sfu.example", late), (jose, beyond)):
            assert await gate.send("", back[person], data=report, parameters=" SMTPUTF8") == [
                "250 2.0.0 the report was looked at"
            ]
        bob, told = (
            await gate.why(id_of(gate, "gave up"), "bob@sfu.example"),
            await gate.why(id_of(gate, "gave up"), jose),
        )
        assert [(each.reached, each.bounces, each.why) for each in (bob, told)] == [
            (False, 1, "4.4.7"),
            (False, 1, "5.1.1"),
        ]
        assert (await gate.stats()).failing == 2
        clock(monkeypatch, begin + DAY_S)
        await sink.until("ann@x.example", "bob@sfu.example", jose, "chair@x.example")
        (note,) = [each.data.decode() for each in sink.taken if each.people == ["chair@x.example"]]
        assert "bob@sfu.example: 4.4.7" in note
        assert "jos=C3=A9@x.example: 5.1.1" in note
    sink.close()


async def test_a_report_says_what_became_of_the_copy_of_the_return_path_and_of_nobody_else(gate, sink, servers):
    await servers["ubc.example"].client.join(ALL, "eve@x.example", "process")
    await gate.send("ann@x.example", "all", data=message("others"))
    await gate.until_done()
    back = next(return_path_of(each, "bob@sfu.example") for each in sink.taken if "bob@sfu.example" in each.people)
    delivered = report_of("2.0.0", "delivered", about="rfc822; bob@sfu.example", more=[("eve@x.example", "5.1.1")])
    await gate.send("", back, data=delivered)
    assert (await gate.why(id_of(gate, "others"), "bob@sfu.example")).reached
    many = report_of(
        about="rfc822; eve@x.example", more=[(f"p{number}@x.example", "5.1.1") for number in range(10_000)]
    )
    await gate.send("", back, data=many)
    assert not (await gate.why(id_of(gate, "others"), "bob@sfu.example")).reached
    assert (await gate.why(id_of(gate, "others"), "eve@x.example")).reached
    assert gate.reports == {"counted": 1}
    (told,) = await gate.ask("queue", id_of(gate, "others"))
    assert told.bounced == 1


async def test_many_reports_cost_little_and_only_what_is_new_and_ours_counts(gate, sink):
    await gate.send("ann@x.example", "all", data=message("many"))
    await gate.until_done()
    (taken,) = sink.taken
    token = taken.sender.partition("-bounces-")[2].partition("@")[0]
    own = f"all-bounces-{token}+bob=sfu.example@lists.ubc.example"
    foreign = own.replace(token, "a" * 16)
    stranger = own.replace("bob=", "eve=")
    for back in (own, own, foreign, stranger, f"all-bounces-{token}+0.9@lists.ubc.example"):
        replies = await gate.send("", *[back] * 50, data=report_of())
        assert replies == ["250 2.0.0 the report was looked at"] * 50
    assert gate.reports == {"counted": 1, "repeated": 99, "foreign": 50, "stranger": 100}
    (told,) = await gate.ask("queue", id_of(gate, "many"))
    assert (told.done, told.bounced) == (1, 1)


@pytest.mark.parametrize("place", ["bounces", "owner"])
async def test_who_complains_gets_no_more_mail_of_the_list_where_the_copy_proves_it(
    servers, settings, sink, place, monkeypatch
):
    names = servers["ubc.example"].client
    await names.create_group("all+owners@ubc.example")
    await names.join("all+owners@ubc.example", "chair@x.example", "process")
    await names.join(LAB, "ann@x.example", "process")
    with_clicks = replace(settings, click_listen="127.0.0.1:0", click_url="https://lists.ubc.example")
    async with running(servers, with_clicks) as gate:
        await gate.send("ann@x.example", "all", data=message(place))
        await gate.until_done()
        (copy,) = [each for each in sink.taken if each.people == ["ann@x.example"]]
        to = "all-owner" if place == "owner" else copy.sender
        forged = copy.data.replace(b"/u/", b"/u/AAAA")
        for data in (forged, copy.data.replace(b"List-Unsubscribe:", b"X-Other:")):
            assert (await gate.send("", to, data=complaint_about(data)))[0].startswith("250")
        assert not await names.check(MUTED, "ann@x.example")
        assert (await gate.send("", to, data=complaint_about(copy.data)))[0].startswith("250")
        assert await names.check(MUTED, "ann@x.example")
        assert gate.reports == {"unproven": 2, "complained": 1}
        await gate.until_done()
        written = [person for each in sink.taken for person in each.people]
        assert written.count("chair@x.example") == (3 if place == "owner" else 0)
        if place == "bounces":
            clock(monkeypatch, int(time.time()) + DAY_S)
            await sink.until(*written, "chair@x.example")
            note = sink.taken[-1].data.decode()
            assert "Subject: all@ubc.example: 1 complaint" in note
            assert "\r\n  ann@x.example\r\n" in note


def complaint_about(data):
    return (
        b'Content-Type: multipart/report; report-type=feedback-report; boundary="b"\r\n\r\n'
        b"--b\r\nContent-Type: message/feedback-report\r\n\r\nFeedback-Type: abuse\r\nVersion: 1\r\n\r\n"
        b"--b\r\nContent-Type: message/rfc822\r\n\r\n" + data + b"\r\n--b--\r\n"
    )


async def test_a_bounce_that_is_no_standard_report_counts(gate, sink):
    await gate.send("ann@x.example", "all", data=message("qmail"))
    await gate.until_done()
    (taken,) = sink.taken
    report = (
        b"From: MAILER-DAEMON@sfu.example\r\nSubject: failure notice\r\n\r\n"
        b"Hi. This is the qmail-send program at sfu.example.\r\n"
        b"I'm afraid I wasn't able to deliver your message to the following addresses.\r\n"
        b"This is a permanent error; I've given up. Sorry it didn't work out.\r\n\r\n"
        b"<bob@sfu.example>:\r\nSorry, no mailbox here by that name. (#5.1.1)\r\n"
    )
    await gate.send("", return_path_of(taken, "bob@sfu.example"), data=report)
    assert gate.reports == {"counted": 1}
    assert (await gate.why(id_of(gate, "qmail"), "bob@sfu.example")).why == "5.1.1"


async def test_a_list_without_owners_does_not_hold_mail_in_silence(servers, settings, sink, caplog):
    caplog.set_level("INFO", "shadowtree.mail")
    lists = Lists({"lists.ubc.example": "ubc.example"}, ListSettings(), {})
    async with running_gateway(servers["ubc.example"].client, settings, lists) as gate:
        for _ in range(2):
            await gate.send("ann@x.example", "all", data=message("unseen"))
        said = [each for each in caplog.records if getattr(each, "event", "") == "held_without_owners"]
        assert [each.fields for each in said] == [{"id": id_of(gate, "unseen"), "lists": ALL}]
        stats = await gate.stats()
        assert (stats.held_without_owners, stats.messages["held"]) == (1, 1)
        assert stats.authors == {"confirmed": 0, "unconfirmed": 2}
        told = (await read_metrics(gate.collector())).splitlines()
        assert "shadowtree_mail_held_without_owners 1.0" in told
        assert 'shadowtree_mail_authors_total{outcome="unconfirmed"} 2.0' in told
        await gate.ask("approve", id_of(gate, "unseen"))
        await gate.until_done()
        assert (await gate.stats()).held_without_owners == 0
        with pytest.raises(ControlError, match="no message nosuch is held; `shadowtree mail held` lists"):
            await gate.ask("approve", "nosuch")
        with pytest.raises(ControlError, match=f"the message {id_of(gate, 'unseen')} is done: nothing of it is held"):
            await gate.ask("reject", id_of(gate, "unseen"))
        with pytest.raises(ControlError, match="there is no message nosuch; `shadowtree mail queue` lists"):
            await gate.ask("drop", "nosuch")


async def test_numbers_say_how_it_is_and_what_there_was(servers, settings, sink, caplog):
    caplog.set_level("INFO", "shadowtree.mail")
    sink.replies["bob@sfu.example"] = "450 4.2.0 later"
    async with running(servers, settings) as gate:
        await gate.send("ann@x.example", "all", data=message("numbers"))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (stats := await gate.stats()).messages["waiting"] != 1:
                await asyncio.sleep(0.01)
        await gate.send("", f"all-bounces-{'a' * 16}+bob=sfu.example@lists.ubc.example", data=report_of())
        stats = await gate.stats()
        assert stats.copies == {"taken": 1, "refused": 0, "deferred": 1}
        assert (stats.accepted, stats.people_waiting, stats.kept, stats.suppressed) == (1, 1, 0, 0)
        assert stats.reports["foreign"] == 1
        assert 0 < stats.oldest <= time.time()
        told = await read_metrics(gate.collector())
        for line in (
            'shadowtree_mail_messages{state="waiting"} 1.0',
            "shadowtree_mail_accepted_total 1.0",
            'shadowtree_mail_copies_total{outcome="deferred"} 1.0',
            'shadowtree_mail_reports_total{outcome="foreign"} 1.0',
            "shadowtree_mail_event_loop_answers 1.0",
            "shadowtree_mail_people_waiting 1.0",
        ):
            assert line in told.splitlines()
        sink.replies.clear()
        await gate.ask("retry", id_of(gate, "numbers"))
        await gate.until_done()
    for line in (
        f"{id_of(gate, 'numbers')}: from <ann@x.example>, ",
        f"{id_of(gate, 'numbers')}: 1 of {ALL} taken, 0 refused, 1 wait",
        f"{id_of(gate, 'numbers')}: retry by command, for {ALL}",
        f"{id_of(gate, 'numbers')}: done, for {ALL}: 2 people, 0 bounced",
    ):
        assert sum(each.startswith(line) for each in caplog.messages) == 1, line
