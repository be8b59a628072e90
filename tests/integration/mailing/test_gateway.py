"""Lookups and policy over sockets, of name servers in this process: answers, and the effect of bad input."""

import asyncio
import resource
import time
from types import SimpleNamespace

import pytest

from mailing.rules.framing import netstring
from mailing.rules.lists import ListSettings
from mailing.shell import conversations, kept_answers, names
from mailing.shell.gateway import OPEN_FILES
from mailing.shell.metrics import GatewayCollector
from shadowtree.updates import Join
from tests.fakes.name_servers import NameServers
from tests.integration.mailing.gateways import PATIENCE_SECONDS, gateway, read_metrics, read_reply
from tests.integration.nameserver.server_process import LOOK_SECONDS

ALL, LAB, MUTED, OWNERS = "all@ubc.example", "lab@sfu.example", "all+muted@ubc.example", "all+owners@ubc.example"
ADDRESS = "all@lists.ubc.example"
GUESTS = "guests@sfu.example"
REFUSED = "550 5.7.1 <{}@lists.ubc.example>: {}"
SETTINGS = {
    "open@ubc.example": ListSettings(post="anyone"),
    "closed@ubc.example": ListSettings(post="nobody"),
    "asked@ubc.example": ListSettings(post="nobody", holds_others=True),
    "news@ubc.example": ListSettings(post=LAB, owners=LAB, excluding=(GUESTS,)),
    "lost@ubc.example": ListSettings(post="nowhere@sfu.example", excluding=("nowhere@sfu.example",)),
}


@pytest.fixture
async def servers():
    async with NameServers("ubc.example", "sfu.example") as servers:
        names = servers["ubc.example"].client
        for group in (ALL, LAB, OWNERS, GUESTS, *SETTINGS, "empty@ubc.example"):
            await names.create_group(group)
        for member in (LAB, "ann@x.example", "a,b@x.example", "jürgen@x.example"):
            await names.join(ALL, member, "group" if member == LAB else "process")
        for member in ("bob@sfu.example", "cat@x.example"):
            await names.join(LAB, member, "process")
        # A loop through both servers.
        await names.join(LAB, ALL, "group")
        await names.join(OWNERS, "chair@x.example", "process")
        await names.join("news@ubc.example", LAB, "group")
        await names.join(GUESTS, "cat@x.example", "process")
        await names.join("lost@ubc.example", LAB, "group")
        yield servers


@pytest.fixture
async def gate(servers):
    async with gateway(servers["ubc.example"].client, "ubc.example", settings=SETTINGS) as found:
        yield found


async def until(ask, wanted):
    """Ask now and then until this comes."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (found := await ask()) != wanted:
            assert found is not None
            await asyncio.sleep(LOOK_SECONDS)


async def test_a_list_is_answered_by_everybody_below_it_once_from_both_servers(gate):
    people = '"a,b"@x.example,ann@x.example,bob@sfu.example,cat@x.example'
    assert await gate.lookup("members", ADDRESS) == ("OK", people)
    assert await gate.lookup("members", "ALL@Lists.UBC.example") == ("OK", people)
    assert await gate.lookup("lists", ADDRESS) == ("OK", ALL)


async def test_lists_that_are_asked_for_again_are_confirmed_together_until_something_changes(gate, servers):
    names = servers["ubc.example"].client
    asked = [("members", ADDRESS), ("members", "news@lists.ubc.example"), ("owners", ADDRESS)]
    before = await gate.lookups(*asked)
    await asyncio.sleep(2 * kept_answers.FRESH_SECONDS)
    servers.calls()
    assert await gate.lookups(*asked) == before
    assert servers.calls()["sfu.example"] == ["TellBasis"], "once for both lists that have a group there"
    await servers["sfu.example"].client.join(LAB, "dan@x.example", "process")
    await asyncio.sleep(kept_answers.FRESH_SECONDS)
    assert "dan@x.example" in (await gate.lookup("members", ADDRESS))[1]
    await names.leave(LAB, "dan@x.example")
    await asyncio.sleep(kept_answers.FRESH_SECONDS)
    assert await gate.lookups(*asked) == before


async def test_lookups_are_counted_by_map_and_by_what_they_were_answered_with_how_long_they_took(gate, servers):
    await gate.lookups(("members", ADDRESS), ("members", ADDRESS), ("lists", "nobody@lists.ubc.example"), ("no", "map"))
    await servers.cut_off("sfu.example")
    await gate.lookup("members", "news@lists.ubc.example")
    told = await read_metrics(GatewayCollector(gate.lookups_of_maps.counts, None, gate.names, lambda: 0))
    for line in (
        'shadowtree_mail_lookups_total{map="members",result="OK"} 2.0',
        'shadowtree_mail_lookups_total{map="members",result="TEMP"} 1.0',
        'shadowtree_mail_lookups_total{map="lists",result="NOTFOUND"} 1.0',
        'shadowtree_mail_lookups_total{map="none",result="PERM"} 1.0',
        'shadowtree_mail_lookups_total{map="why",result="OK"} 0.0',
        'shadowtree_mail_lookup_seconds_bucket{le="+Inf",map="members"} 3.0',
        'shadowtree_mail_lookup_seconds_bucket{le="20.0",map="members"} 3.0',
        'shadowtree_mail_lookup_seconds_count{map="lists"} 1.0',
        "shadowtree_mail_event_loop_answers 1.0",
        "shadowtree_mail_companion_changes_total 0.0",
    ):
        assert line in told.splitlines()
    assert "shadowtree_mail_accepted_total" not in told


async def test_who_is_suppressed_meanwhile_is_named_no_more(gate):
    suppression = gate.lookups_of_maps.suppression = SimpleNamespace(
        suppression_changes=0, is_suppressed=lambda _: False
    )
    assert "ann@x.example" in (await gate.lookup("members", ADDRESS))[1]
    suppression.is_suppressed, suppression.suppression_changes = "ann@x.example".__eq__, 1
    assert "ann@x.example" not in (await gate.lookup("members", ADDRESS))[1]


@pytest.mark.parametrize(
    "key", ["nobody@lists.ubc.example", "all@ubc.example", "ann@x.example", "all", "@lists.ubc.example"]
)
@pytest.mark.parametrize("name", ["members", "lists", "owners"])
async def test_what_is_no_list_is_not_found(gate, name, key):
    assert await gate.lookup(name, key) == ("NOTFOUND", "")


async def test_a_list_of_nobody_is_a_list_that_mail_cannot_be_sent_to(gate):
    assert await gate.lookup("lists", "empty@lists.ubc.example") == ("OK", "empty@ubc.example")
    assert await gate.lookup("members", "empty@lists.ubc.example") == ("NOTFOUND", "")


async def test_owners_are_those_of_the_settings_or_of_the_group_named_after_the_list(gate):
    assert await gate.lookup("owners", ADDRESS) == ("OK", "chair@x.example")
    assert await gate.lookup("members", "all-owner@lists.ubc.example") == ("OK", "chair@x.example")
    assert (await gate.lookup("owners", "news@lists.ubc.example"))[1].count("@") == 4
    assert await gate.lookup("owners", "open@lists.ubc.example") == ("NOTFOUND", "")


async def test_who_muted_a_list_or_is_excepted_gets_no_mail_of_it_and_of_others_all_the_same(gate, servers):
    names = servers["ubc.example"].client
    found = (await gate.lookup("members", "news@lists.ubc.example"))[1].split(",")
    assert "cat@x.example" not in found
    assert "bob@sfu.example" in found
    await names.create_group(MUTED)
    await names.join(MUTED, "bob@sfu.example", "process")
    await until(lambda: gate.lookup("members", ADDRESS), ("OK", '"a,b"@x.example,ann@x.example,cat@x.example'))
    assert await gate.lookup("lists", "all+muted@lists.ubc.example") == ("NOTFOUND", "")
    assert "bob@sfu.example" in (await gate.lookup("members", "news@lists.ubc.example"))[1]


async def test_why_shows_the_way_in_and_what_keeps_mail_away(gate):
    assert await gate.lookup("why", f"{ADDRESS} bob@sfu.example") == ("OK", f"{ALL} -> {LAB} -> bob@sfu.example")
    assert await gate.lookup("why", f"{ADDRESS} a,b@x.example") == ("OK", f"{ALL} -> a,b@x.example")
    status, text = await gate.lookup("why", "news@lists.ubc.example cat@x.example")
    assert status == "OK"
    assert text.endswith(f"cat@x.example; gets no mail of it, being in {GUESTS}")
    assert await gate.lookup("why", f"{ADDRESS} dan@x.example") == ("NOTFOUND", "")
    assert await gate.lookup("why", ADDRESS) == ("NOTFOUND", "")


async def test_an_exception_that_does_not_exist_lets_nobody_be_sent_to(gate):
    status, text = await gate.lookup("members", "lost@lists.ubc.example")
    assert status == "TEMP"
    assert "nowhere@sfu.example" in text


async def test_a_group_is_a_list_as_soon_as_it_is_created_and_none_once_it_is_deleted(gate, servers):
    names = servers["ubc.example"].client
    await names.create_group("new@ubc.example")
    await until(lambda: gate.lookup("lists", "new@lists.ubc.example"), ("OK", "new@ubc.example"))
    await names.delete_group("new@ubc.example")
    await until(lambda: gate.lookup("lists", "new@lists.ubc.example"), ("NOTFOUND", ""))


async def test_a_server_out_of_reach_makes_a_list_wait_and_is_named(gate, servers):
    await servers.cut_off("sfu.example")
    status, text = await gate.lookup("members", "news@lists.ubc.example")
    assert status == "TEMP"
    assert "sfu.example" in text
    assert await gate.lookup("members", "nobody@lists.ubc.example") == ("NOTFOUND", "")
    assert await gate.lookup("members", "ann@x.example") == ("NOTFOUND", "")
    refused = await gate.action("dan@x.example", "news@lists.ubc.example")
    assert refused.startswith("451 4.3.0 <news@lists.ubc.example>: cannot tell whether dan@x.example may post")


async def test_nothing_is_said_not_to_be_there_while_the_name_server_is_away(servers):
    name_server = servers["ubc.example"]
    async with gateway(name_server.client, "ubc.example") as gate:
        assert await gate.lookup("members", "nobody@lists.ubc.example") == ("NOTFOUND", "")
        await name_server.fall_silent()
        for name in ("members", "lists", "owners"):
            for key in (ADDRESS, "nobody@lists.ubc.example"):
                status, _ = await gate.lookup(name, key)
                assert status == "TEMP", (name, key)
        assert await gate.lookup("members", "ann@x.example") == ("NOTFOUND", "")
        assert (await gate.action("ann@x.example", ADDRESS)).startswith("451 4.3.0 ")
        assert (await gate.action("ann@x.example", "nobody@lists.ubc.example")).startswith("451 4.3.0 ")
        assert await gate.action("ann@x.example", "nobody@x.example") == "DUNNO"


async def test_a_home_whose_answer_takes_longer_than_it_counts_is_believed_by_who_waited(gate, monkeypatch):
    monkeypatch.setattr(names, "CONFIRMED_SECONDS", 0.0)
    for _ in range(3):
        assert await gate.lookup("lists", ADDRESS) == ("OK", ALL)
        assert await gate.lookup("lists", "nobody@lists.ubc.example") == ("NOTFOUND", "")


async def test_a_list_that_is_too_large_for_a_reply_says_so(gate, servers):
    names = servers["ubc.example"].client
    await names.create_group("big@ubc.example")
    people = [Join("big@ubc.example", f"person-{number:06}@people.example", "process") for number in range(4_000)]
    await names.apply(people)
    await until(lambda: gate.lookup("lists", "big@lists.ubc.example"), ("OK", "big@ubc.example"))
    status, text = await gate.lookup("members", "big@lists.ubc.example")
    assert status == "TEMP"
    assert text.startswith("4,000 members of big@ubc.example do not fit a lookup")


@pytest.mark.parametrize(
    ("sender", "recipient", "action"),
    [
        ("ann@x.example", ADDRESS, "DUNNO"),
        ("Bob@SFU.example", ADDRESS, "DUNNO"),
        ("dan@x.example", ADDRESS, f"550 5.7.1 <{ADDRESS}>: only members may post to {ALL}"),
        ("not an address", ADDRESS, f"550 5.7.1 <{ADDRESS}>: only members may post to {ALL}"),
        ("", ADDRESS, f"550 5.7.1 <{ADDRESS}>: {ALL} distributes no bounces and no automatic mail"),
        ("dan@x.example", "open@lists.ubc.example", "DUNNO"),
        (
            "ann@x.example",
            "closed@lists.ubc.example",
            REFUSED.format("closed", "nobody may post to closed@ubc.example"),
        ),
        ("bob@sfu.example", "news@lists.ubc.example", "DUNNO"),
        (
            "dan@x.example",
            "news@lists.ubc.example",
            REFUSED.format("news", f"only members of {LAB} may post to news@ubc.example"),
        ),
        ("dan@x.example", "asked@lists.ubc.example", "DUNNO"),
        (
            "",
            "asked@lists.ubc.example",
            REFUSED.format("asked", "asked@ubc.example distributes no bounces and no automatic mail"),
        ),
        ("dan@x.example", "all-owner@lists.ubc.example", "DUNNO"),
        ("dan@x.example", "nobody@lists.ubc.example", "DUNNO"),
        ("dan@x.example", "ann@x.example", "DUNNO"),
    ],
)
async def test_the_policy_says_who_may_post(gate, sender, recipient, action):
    assert await gate.action(sender, recipient) == action


async def test_a_group_of_posters_that_does_not_exist_refuses_nobody_for_good(gate):
    found = await gate.action("ann@x.example", "lost@lists.ubc.example")
    assert found.startswith("451 4.3.0 ")
    assert "nowhere@sfu.example" in found


async def test_only_what_is_asked_at_rcpt_is_judged(gate):
    assert await gate.action("dan@x.example", ADDRESS, protocol_state="DATA") == "DUNNO"


async def test_requests_of_one_connection_are_answered_in_their_order(gate):
    asked = [("members", ADDRESS), ("members", "ann@x.example"), ("lists", ADDRESS), ("members", "x@lists.ubc.example")]
    found = await gate.lookups(*asked * 100)
    assert [status for status, _ in found] == ["OK", "NOTFOUND", "OK", "NOTFOUND"] * 100
    assert {text for _, text in found[2::4]} == {ALL}


@pytest.mark.parametrize("sent", [b"10001:" + b"x" * 100, b"999999", b"hello", b"3:abc;", b"\xff\xfe"])
async def test_what_is_no_netstring_ends_the_connection(gate, sent):
    reader, writer = await asyncio.open_connection("127.0.0.1", gate.maps_port)
    writer.write(sent)
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await read_reply(reader)
    writer.close()
    assert (await gate.lookup("lists", ADDRESS))[0] == "OK"


async def test_unknown_maps_and_malformed_requests_are_refused_for_good_and_the_connection_goes_on(gate):
    found = await gate.lookups(("aliases", ADDRESS), ("members", ""), ("lists", ADDRESS))
    assert [status for status, _ in found] == ["PERM", "PERM", "OK"]


async def test_half_a_request_is_hung_up_on_and_idle_connections_are_left(gate, monkeypatch):
    idle = await asyncio.open_connection("127.0.0.1", gate.maps_port)
    half = [await asyncio.open_connection("127.0.0.1", port) for port in (gate.maps_port, gate.policy_port)]
    half[0][1].write(b"20:members")
    half[1][1].write(b"request=smtpd_access_policy\nprotocol_state=RCPT\n")
    monkeypatch.setattr(conversations, "HALF_REQUEST_SECONDS", 0.0)
    async with asyncio.timeout(PATIENCE_SECONDS):
        for (reader, _), listener in zip(half, (gate.maps, gate.policy), strict=True):
            while not reader.at_eof() and reader.exception() is None:
                listener.sweep()
                await asyncio.sleep(0)
    idle[1].write(netstring(f"lists {ADDRESS}".encode()))
    assert await read_reply(idle[0]) == ("OK", ALL)
    for _, writer in (idle, *half):
        writer.close()


@pytest.fixture
def many_open_files():
    """Room for both ends of a thousand connections."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], min(OPEN_FILES, before[1])), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_a_thousand_idle_connections_slow_nobody_down(gate, many_open_files):
    idle = [
        await asyncio.open_connection("127.0.0.1", (gate.maps_port, gate.policy_port)[number % 2])
        for number in range(1_000)
    ]
    begin = time.monotonic()
    found = await gate.lookups(*[("members", "ann@x.example")] * 2_000)
    assert {status for status, _ in found} == {"NOTFOUND"}
    assert time.monotonic() - begin < 5
    for _, writer in idle:
        writer.transport.abort()


async def test_above_the_limit_of_connections_the_one_idle_longest_makes_room(gate, monkeypatch):
    monkeypatch.setattr(conversations, "CONNECTIONS_LIMIT", 3)
    first, second, third = [await asyncio.open_connection("127.0.0.1", gate.maps_port) for _ in range(3)]
    for reader, writer in (first, third, second):
        writer.write(netstring(f"lists {ADDRESS}".encode()))
        assert (await read_reply(reader))[0] == "OK"
    assert await gate.lookup("lists", ADDRESS) == ("OK", ALL)
    async with asyncio.timeout(PATIENCE_SECONDS):
        with pytest.raises((asyncio.IncompleteReadError, ConnectionResetError)):
            await read_reply(first[0])
    second[1].write(netstring(f"lists {ADDRESS}".encode()))
    assert (await read_reply(second[0]))[0] == "OK"
    for _, writer in (first, second, third):
        writer.close()


async def test_who_reads_no_answers_is_read_no_further(gate):
    _, writer = await asyncio.open_connection("127.0.0.1", gate.maps_port)
    asked = 200_000
    writer.write(netstring(f"members {ADDRESS}".encode()) * asked)
    assert (await gate.lookup("lists", ADDRESS))[0] == "OK"
    (conversation,) = [each for each in gate.maps._open if each.is_busy]
    assert len(conversation._answers) <= conversations.AT_ONCE_LIMIT
    writer.transport.abort()
    assert (await gate.lookup("lists", ADDRESS))[0] == "OK"
