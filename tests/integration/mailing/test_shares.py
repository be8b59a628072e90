"""Three organisations, each with a name server and a gateway: a message goes once to each, and names stay at home."""

import asyncio
from contextlib import AsyncExitStack, suppress
from dataclasses import replace

import dkim
import pytest
import pytest_asyncio
from dkim.crypto import parse_pem_private_key

from mailing.config.settings import ArcSettings, DistributionSettings
from mailing.rules.lists import Lists, ListSettings
from mailing.rules.message import key_of, read_content
from mailing.rules.shares import CONTENT_BYTES_LIMIT, FORMAT, HEADER, PATTERN, SUBSCRIPTION, Share, SharedList, encoded
from mailing.rules.spooled import ListOrigin, MailState
from mailing.shell import arc_seals
from mailing.shell.control import ControlError
from shadowtree.aio import Client
from shadowtree.updates import Join
from tests.fakes.signing_keys import Dns, SigningKeyFiles
from tests.integration.mailing.links import RecordedServers, Recorder
from tests.integration.mailing.passing import running_gateway
from tests.integration.mailing.sink import PATIENCE_SECONDS, Sink
from tests.integration.nameserver.conftest import started_servers

ORGANISATIONS = ("ubc", "sfu", "uvic")
ALL, LAB, CHOIR, NEWS = "all@ubc.example", "lab@sfu.example", "choir@uvic.example", "news@ubc.example"
FAR = "far@ubc.example"
"""List of people of two organisations, without a group between."""
DOMAINS = ("ubc", "sfu", "nowhere")
NATIVE = {
    "ubc": ("ann@ubc.example", "abe@ubc.example"),
    "sfu": ("bob@sfu.example", "bea@sfu.example"),
    "uvic": ("cy@uvic.example",),
}
QUIET, QUIET_MUTED = "quiet@ubc.example", "quiet+muted@ubc.example"
"""A list that people muted by another spelling than that by which they are in it."""
EVE = "eve@nowhere.example"
"""Foreign person in groups of two servers."""
EVERYBODY = sorted((*NATIVE["ubc"], *NATIVE["sfu"], *NATIVE["uvic"], EVE))
TAKEN_OVER = "another gateway takes the shares at this name server"
SHARES = ListSettings(post="anyone", goes_by_shares=True)
REFUSED = "shadowtree_mail_shares_refused_total"

pytestmark = pytest.mark.asyncio(loop_scope="module")


def letter(name, size=0):
    lines = (f"Message-ID: <{name}@x.example>", "From: ann@x.example", "Date: Wed, 25 Nov 2026 12:00:00 +0000")
    return "".join(f"{line}\r\n" for line in lines).encode() + b"\r\nHello.\r\n" + b"xxxxxxxx\r\n" * (size // 10)


@pytest.fixture(scope="module")
def recorder():
    recorder = Recorder()
    yield recorder
    recorder.close()


@pytest.fixture(scope="module")
def servers(tmp_path_factory, recorder):
    """all@ubc -> lab@sfu -> choir@uvic -> all@ubc, and news@ubc -> lab@sfu."""
    folder = tmp_path_factory.mktemp("servers")
    with started_servers() as start:
        servers = RecordedServers(start, folder, [[f"{name}.example"] for name in ORGANISATIONS], recorder)
        names = servers.clients[0]
        for group in (ALL, LAB, CHOIR, NEWS, FAR, "news+muted@ubc.example", "own@sfu.example", QUIET, QUIET_MUTED):
            names.create_group(group)
        arcs = [(ALL, LAB), (LAB, CHOIR), (CHOIR, ALL), (NEWS, LAB)]
        people = [(ALL, "ubc"), (LAB, "sfu"), (CHOIR, "uvic")]
        joins = [Join(parent, child, "group") for parent, child in arcs]
        joins += [Join(group, person, "process") for group, name in people for person in NATIVE[name]]
        joins += [Join(group, EVE, "process") for group in (LAB, CHOIR)]
        joins += [
            Join(NEWS, "dan@ubc.example", "process"),
            Join("news+muted@ubc.example", "bea@sfu.example", "process"),
            *(Join(FAR, person, "process") for person in (*NATIVE["ubc"], *NATIVE["sfu"])),
            *(Join(QUIET, f"{name}@{domain}.example", "process") for name in ("Gus", "hal") for domain in DOMAINS),
            *(Join(QUIET_MUTED, f"gus@{domain}.example", "process") for domain in DOMAINS),
        ]
        names.apply(joins)
        yield servers
        servers.close()


class Organisation:
    """A gateway in this process, which may be stopped and started again, and the inboxes behind it."""

    def __init__(self, servers, name, folder):
        self.name = name
        self.address = servers.address(ORGANISATIONS.index(name))
        self._folder = folder
        self._stack = AsyncExitStack()

    async def start(self, settings=SHARES):
        self._folder.mkdir(exist_ok=True)
        self.sink = await Sink("XVERP", "SMTPUTF8").start()
        self._stack.callback(self.sink.close)
        url, control = f"sqlite:///{self._folder / 'mail.db'}", self._folder / "mail.sock"
        distribution = DistributionSettings("127.0.0.1:0", url, f"127.0.0.1:{self.sink.port}", control)
        self._lists = Lists({f"lists.{self.name}.example": f"{self.name}.example"}, settings)
        self.client = await self._stack.enter_async_context(Client(self.address))
        self.gate = await self._stack.enter_async_context(running_gateway(self.client, distribution, self._lists))
        if settings.goes_by_shares:
            await until_listening(self.client)
        return self

    async def stop(self):
        await self._stack.aclose()

    def use(self, settings):
        """Apply other settings to all lists."""
        self._lists = replace(self._lists, defaults=settings)
        self.gate.follow(self._lists, self.gate.settings)

    def follow(self, **settings):
        """Seal by these settings."""
        self.gate.follow(self._lists, replace(self.gate.settings, **settings))

    def id_of(self, data):
        """Return the id of a message that this gateway has taken."""
        return self.gate.id_of(data)

    async def told(self, id_=None):
        """Return the report of `mail queue`."""
        return await self.gate.ask("queue", id_)

    def copy_for(self, person, subject):
        """Return the transaction that brought a letter to a person."""
        (found,) = (each for each in self.sink.taken if person in each.people and f"<{subject}@".encode() in each.data)
        return found


async def until_listening(client):
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not [
            each
            async for mailbox in client.mailboxes()
            for each in mailbox
            if (mailbox.process, each.name, each.is_listening) == (PATTERN, SUBSCRIPTION, True)
        ]:
            await asyncio.sleep(0.01)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def three(servers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("gateways")
    found = {name: await Organisation(servers, name, folder / name).start() for name in ORGANISATIONS}
    yield found
    for each in found.values():
        await each.stop()


async def until_all_have(three, *expected, subject):
    """Wait until exactly these have a letter, and return who has it, by organisation."""

    async with asyncio.timeout(PATIENCE_SECONDS):
        while sorted(person for people in have(three, subject).values() for person in people) != sorted(expected):
            await asyncio.sleep(0.02)
    return have(three, subject)


async def until_some_have(three, *expected, subject):
    """Wait until some people have a copy. Other people may have one as well."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not {*expected} <= {person for people in have(three, subject).values() for person in people}:
            await asyncio.sleep(0.02)
    return have(three, subject)


def have(three, subject):
    pattern = f"Message-ID: <{subject}@".encode()
    return {
        name: sorted(person for each in one.sink.taken if pattern in each.data for person in each.people)
        for name, one in three.items()
    }


async def test_each_organisation_serves_its_own_people_and_their_names_stay_there(three, recorder):
    # Of a start, the first message to those whom nobody owns is posted twice.
    for name in ("first", "second"):
        recorder.forget()
        replies = await three["ubc"].gate.send("ann@x.example", "all", data=letter(name))
        assert replies == ["250 2.0.0 it is safe"]
        found = await until_all_have(three, *EVERYBODY, subject=name)
        await three["ubc"].gate.until_done()
    assert {name: [each for each in people if each != EVE] for name, people in found.items()} == {
        name: sorted(people) for name, people in NATIVE.items()
    }
    said = bytes(recorder.bytes)
    for person in (*NATIVE["ubc"], *NATIVE["sfu"], *NATIVE["uvic"]):
        assert person.encode() not in said, f"{person} was named on a link"
    assert said.count(b"Message-ID: <second@x.example>") == 2, "one copy a link"
    (bea, ann) = [
        await three["ubc"].gate.why(three["ubc"].id_of(letter("second")), NATIVE[name][0]) for name in ("sfu", "ubc")
    ]
    assert (bea.reached, bea.gateway) == (False, "sfu.example")
    assert bea.why == "the gateway at sfu.example serves its people, and knows"
    assert (ann.reached, ann.gateway) == (True, "lists.ubc.example")


async def test_a_copy_is_that_of_the_first_list_which_reaches_its_person_and_bounces_come_to_who_sent_it(three):
    data = letter("both")
    await three["ubc"].gate.send("ann@x.example", "news", "all", data=data)
    found = await until_all_have(three, *EVERYBODY, "dan@ubc.example", subject="both")
    assert sorted(NATIVE["sfu"]) == [each for each in found["sfu"] if each != EVE]
    lists = {
        person: [line for line in one.copy_for(person, "both").data.split(b"\r\n") if line.startswith(b"List-Id: ")]
        for one in three.values()
        for person in found[one.name]
    }
    muted = {"bea@sfu.example"}
    # She wants no mail of news, and is in the other list as well.
    assert lists == {
        person: [b"List-Id: <all.ubc.example>" if person in muted else b"List-Id: <news.ubc.example>"]
        for person in (*EVERYBODY, "dan@ubc.example")
    }
    copy = three["sfu"].copy_for("bob@sfu.example", "both")
    assert copy.sender.startswith("news-bounces-") and copy.sender.endswith("@lists.sfu.example")
    assert b"List-Post: <mailto:news@lists.ubc.example>\r\n" in copy.data
    assert b"List-Unsubscribe: <mailto:news-leave@lists.ubc.example>\r\n" in copy.data
    report = f"{copy.sender.partition('@')[0]}+bob=sfu.example@lists.sfu.example"
    assert await three["sfu"].gate.send("", report, data=b"Subject: bounce\r\n\r\n") == [
        "250 2.0.0 the report was looked at"
    ]
    (answer,) = await three["ubc"].gate.send("ann@x.example", "news", data=copy.data)
    assert answer.startswith("554 5.4.6"), "the gateway that took it knows its own trace"


async def test_who_muted_a_list_by_another_spelling_gets_no_copy_of_any_gateway(three):
    await three["ubc"].gate.send("ann@x.example", "quiet", data=letter("quiet"))
    await three["ubc"].gate.until_done()
    await until_all_have(three, *(f"hal@{domain}.example" for domain in DOMAINS), subject="quiet")


async def test_the_same_message_again_reaches_nobody_twice_and_to_another_list_only_the_others(three):
    await three["ubc"].gate.send("ann@x.example", "all", data=letter("again"))
    await until_all_have(three, *EVERYBODY, subject="again")
    await three["ubc"].gate.send("ann@x.example", "all", data=letter("again"))
    await three["ubc"].gate.send("ann@x.example", "news", data=letter("again"))
    await until_all_have(three, *EVERYBODY, "dan@ubc.example", subject="again")
    await three["ubc"].gate.until_done()
    # What comes behind it is served behind it.
    await three["ubc"].gate.send("ann@x.example", "all", data=letter("behind"))
    await until_all_have(three, *EVERYBODY, subject="behind")
    await until_all_have(three, *EVERYBODY, "dan@ubc.example", subject="again")


async def test_a_message_to_lists_of_two_organisations_reaches_those_whom_a_server_owns_once(three):
    await asyncio.gather(
        three["ubc"].gate.send("ann@x.example", "all", data=letter("two")),
        three["sfu"].gate.send("ann@x.example", "lab", data=letter("two")),
    )
    owned = sorted((*NATIVE["ubc"], *NATIVE["sfu"], *NATIVE["uvic"]))
    await until_some_have(three, *owned, subject="two")
    for name in ORGANISATIONS:
        await three[name].gate.until_done()
    found = [person for people in have(three, "two").values() for person in people if person != EVE]
    assert sorted(found) == owned


async def test_the_queue_has_a_share_for_each_server(three):
    data = letter("queue")
    await three["ubc"].gate.send("ann@x.example", "all", data=data)
    await until_all_have(three, *EVERYBODY, subject="queue")
    await three["ubc"].gate.until_done()
    (told,) = await three["ubc"].told(three["ubc"].id_of(data))
    assert (told.state, told.people, told.done) == (MailState.DONE, len(EVERYBODY), len(EVERYBODY))
    assert [(each.server, each.state) for each in told.shares] == [
        ("lists.ubc.example", MailState.DONE),
        ("sfu.example", MailState.DONE),
        ("uvic.example", MailState.DONE),
    ]
    assert sum(each.people for each in told.shares) == sum(each.done for each in told.shares) == len(EVERYBODY)


async def test_a_message_that_is_too_large_for_a_share_goes_from_the_gateway_that_took_it(three):
    await three["ubc"].gate.send("ann@x.example", "all", data=letter("large", CONTENT_BYTES_LIMIT))
    found = await until_all_have(three, *EVERYBODY, subject="large")
    assert found["ubc"] == EVERYBODY


async def test_each_gateway_with_a_key_seals_what_it_passes_on(three, monkeypatch):
    keys = {f"{name}.example": SigningKeyFiles(name) for name in ("ubc", "sfu")}
    dns = Dns(keys)
    monkeypatch.setattr(arc_seals, "get_txt", dns)
    for name in ("ubc", "sfu"):
        arc = ArcSettings(f"{name}.example", "s", None, parse_pem_private_key(keys[f"{name}.example"].pem.encode()))
        three[name].follow(authserv_id=f"mx.{name}.example", arc=arc)
    said = "dkim=pass header.d=x.example; dmarc=pass header.from=x.example"
    results = b"Authentication-Results: mx.%b.example; " + said.encode() + b"\r\n"
    await three["ubc"].gate.send("ann@x.example", "all", data=results % b"ubc" + results % b"sfu" + letter("sealed"))
    await until_all_have(three, *EVERYBODY, subject="sealed")
    found = {}
    for name in ORGANISATIONS:
        copy = three[name].copy_for(NATIVE[name][0], "sealed").data
        assert dkim.ARC(copy).verify(dnsfunc=dns)[0] == dkim.CV_Pass
        found[name] = read_content(copy).values("arc-authentication-results")
    first = f"i=1; mx.ubc.example; {said}"
    assert found == {"ubc": [first], "sfu": ["i=2; mx.sfu.example; arc=pass", first], "uvic": [first]}
    for name in ("ubc", "sfu"):
        three[name].follow()


async def test_what_is_no_share_or_one_of_an_own_list_that_was_not_sent_is_refused_and_nobody_is_reached(three):
    def share(group, subnets, data):
        origin = ListOrigin("lists.evil.example", "ab; cd")
        shared = SharedList(group, group.replace("@", "@lists."), (), False, False, origin)
        return encoded(Share(key_of(read_content(data)), "s@x.example", "", "", False, (), subnets, (shared,), data))

    forged, names = letter("forged"), three["sfu"].client
    before = {name: await three[name].gate.count(REFUSED) for name in ("ubc", "sfu")}
    for to, payload in (
        (LAB, share(ALL, ("ubc.example",), forged)),
        (LAB, b"\x00"),
        # A list of its own that it has taken no message for.
        ("own@sfu.example", share("own@sfu.example", ("sfu.example",), forged)),
    ):
        await names.send(to, payload, headers={HEADER: FORMAT}, wait="settled")
    await names.send(ALL, b"no mail at all", wait="settled")
    for name, refused in (("ubc", 1), ("sfu", 2)):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await three[name].gate.count(REFUSED) < before[name] + refused:
                await asyncio.sleep(0.02)
    await three["ubc"].gate.send("ann@x.example", "all", data=letter("good"))
    await until_all_have(three, *EVERYBODY, subject="good")
    await until_all_have(three, subject="forged")


async def test_no_share_that_another_client_sends_lets_a_held_message_go_or_tells_what_one_holds(three):
    """The sender of a message knows its key, each reader of a copy its id, and any client may send to a group."""
    ubc, data = three["ubc"], letter("held")
    ubc.use(ListSettings(goes_by_shares=True))
    try:
        await ubc.gate.send("ann@x.example", "all", data=data)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (held := (await ubc.told(ubc.id_of(data)))[0]).state is not MailState.HELD:
                await asyncio.sleep(0.02)
    finally:
        ubc.use(SHARES)
    await ubc.gate.send("ann@x.example", "news", data=letter("known"))
    await until_some_have(three, "dan@ubc.example", subject="known")
    known = ubc.id_of(letter("known"))
    assert known.encode() in ubc.copy_for("dan@ubc.example", "known").data

    def share(group, id_, data, **changes):
        origin = ListOrigin("lists.evil.example", "ab; cd")
        shared = SharedList(group, group.replace("@", "@lists."), (), False, False, origin)
        made = Share(id_, "s@x.example", "", "", False, (), (group.rpartition("@")[2],), (shared,), data)
        return encoded(replace(made, **changes))

    names, key = three["sfu"].client, key_of(read_content(data))
    for group, payload in (
        *((ALL, share(ALL, id_, data)) for id_ in (key, held.id, known)),
        *((ALL, share(ALL, id_, data, proof="a" * 16)) for id_ in (held.id, known)),
        *((LAB, share(LAB, id_, letter("forgery"))) for id_ in (key, held.id)),
    ):
        await names.send(group, payload, headers={HEADER: FORMAT}, wait="settled")
    # A forged share of another organisation's list is that letter, and no other.
    await until_some_have(three, *NATIVE["ubc"], *NATIVE["uvic"], subject="forgery")
    assert [each.state for each in await ubc.told(held.id)] == [MailState.HELD]
    await ubc.gate.ask("reject", held.id)
    assert not have(three, "held")["ubc"]


async def test_a_share_waits_for_its_gateway_and_one_that_is_kept_comes_once(three):
    await three["uvic"].stop()
    await three["ubc"].gate.send("ann@x.example", "all", data=letter("waits"))
    found = await until_some_have(three, *NATIVE["ubc"], *NATIVE["sfu"], subject="waits")
    assert not [person for people in found.values() for person in people if person in NATIVE["uvic"]]
    await three["uvic"].start()
    await until_all_have(three, *EVERYBODY, subject="waits")
    # Started again, it is handed nothing that it had.
    await three["uvic"].stop()
    await three["uvic"].start()
    await three["ubc"].gate.send("ann@x.example", "all", data=letter("next"))
    await until_all_have(three, *EVERYBODY, subject="next")
    assert not [each for each in three["uvic"].sink.taken if b"<waits@" in each.data]


async def test_a_server_that_is_away_gets_its_share_when_it_is_back_and_the_queue_names_it(three, servers):
    data = letter("away")
    id_ = three["ubc"].id_of(data)
    servers.kill(1)
    await three["ubc"].gate.send("ann@x.example", "all", data=data)
    await until_some_have(three, *NATIVE["ubc"], subject="away")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while [(each.server, each.state) for each in (await three["ubc"].told(id_))[0].shares if each.why] != [
            ("lists.ubc.example", MailState.WAITING),
            ("sfu.example", MailState.WAITING),
        ]:
            await asyncio.sleep(0.05)
    servers.start_again(1)
    await until_all_have(three, *EVERYBODY, subject="away")


async def test_a_server_that_is_dropped_is_waited_for_no_longer_and_still_gets_what_is_on_its_way(three, servers):
    data = letter("dropped")
    id_ = three["ubc"].id_of(data)
    servers.kill(1)
    await three["ubc"].gate.send("ann@x.example", "all", data=data)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while "sfu.example" not in {each.server for each in (await three["ubc"].told(id_))[0].shares if each.why}:
            await asyncio.sleep(0.05)
    # Its own server may not have told yet that it has the share.
    with pytest.raises(ControlError, match=r"waits for sfu\.example(, ubc\.example)?, not for nobody\.example"):
        await three["ubc"].gate.ask("drop", id_, "nobody.example")
    await three["ubc"].gate.ask("drop", id_, "sfu.example")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while id_ in {each.id for each in await three["ubc"].told()}:
            await asyncio.sleep(0.05)
    (ended,) = await three["ubc"].told(id_)
    states = {each.server: each.state for each in ended.shares}
    assert (ended.state, states["sfu.example"]) == (MailState.DONE, MailState.DROPPED)
    servers.start_again(1)
    await until_all_have(three, *EVERYBODY, subject="dropped")


async def test_people_whose_server_is_away_are_served_by_their_own_gateway_though_others_know_of_them(three, servers):
    data = letter("far")
    servers.kill(1)
    await three["ubc"].gate.send("ann@x.example", "far", data=data)
    id_ = three["ubc"].id_of(data)
    async with asyncio.timeout(PATIENCE_SECONDS):
        # The own share says so, unless the group was looked up before the loss was noticed: then the other one does.
        while not any(each.why for each in (await three["ubc"].told(id_))[0].shares):
            await asyncio.sleep(0.05)
    await until_all_have(three, *NATIVE["ubc"], subject="far")
    servers.start_again(1)
    await until_some_have(three, *NATIVE["ubc"], *NATIVE["sfu"], subject="far")
    async with asyncio.timeout(PATIENCE_SECONDS):
        while waiting := await three["ubc"].told():
            with suppress(ControlError):
                # It may be done by now.
                await three["ubc"].gate.ask("retry", waiting[0].id)
            await asyncio.sleep(0.05)
    await until_all_have(three, *NATIVE["ubc"], *NATIVE["sfu"], subject="far")


async def test_people_of_an_organisation_without_a_gateway_get_it_from_the_one_that_took_it(three, servers):
    # Whoever of nobody's the closed one served last, another one serves next.
    await three["ubc"].gate.send("ann@x.example", "all", data=letter("shared"))
    await until_all_have(three, *EVERYBODY, subject="shared")
    await three["ubc"].gate.until_done()
    await three["uvic"].stop()
    await three["ubc"].stop()
    servers.clients[2].close_mailbox("*", force=True)
    await three["ubc"].start()
    await three["ubc"].gate.send("ann@x.example", "all", data=letter("central"))
    found = await until_all_have(three, *EVERYBODY, subject="central")
    assert set(found["ubc"]) >= {*NATIVE["ubc"], *NATIVE["uvic"]}
    await three["ubc"].gate.until_done()


async def test_a_gateway_whose_shares_another_takes_sends_none_and_says_so(three, servers, tmp_path):
    data, other = letter("stale"), Organisation(servers, "ubc", tmp_path / "ubc")
    await other.start()
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            # The mailbox has a listener all the time: first the one, then the other.
            while not three["ubc"].gate.is_taken_over:
                await asyncio.sleep(0.02)
            await three["ubc"].gate.send("ann@x.example", "all", data=data)
            id_ = three["ubc"].id_of(data)
            while {each.why for each in (await three["ubc"].told(id_))[0].shares[1:]} != {TAKEN_OVER}:
                await asyncio.sleep(0.05)
        await other.gate.send("ann@x.example", "all", data=data)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not {*NATIVE["ubc"]} <= {*other.sink.people}:
                await asyncio.sleep(0.02)
    finally:
        await other.stop()
