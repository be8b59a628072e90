"""A whole Postfix with the printed settings of distribution: messages in by LMTP, copies out by SMTP, bounces back."""

import json
import re
import time
from email import message_from_bytes

import pytest

from shadowtree.cli.support.free_ports import unused_ports
from shadowtree.updates import Join
from tests.integration.mailing.conftest import CONFIG, two_name_servers
from tests.integration.mailing.gateways import GatewayProcess
from tests.integration.mailing.postfix import PATIENCE_SECONDS
from tests.integration.nameserver.server_process import LOOK_SECONDS

MESSAGE = (
    b"Message-ID: <%b@x.example>\r\n"
    b"Demo-Results: mx.here.example; dkim=pass header.d=x.example; dmarc=pass header.from=x.example\r\n"
    b"Date: Wed, 25 Nov 2026 12:00:00 +0000\r\nFrom: Ann <ann@x.example>\r\n"
    b"Subject: caf\xc3\xa9\r\n\r\nHello.\r\n.dot\r\n"
)
REPEATED_BY_A_KILL = 4 * 200
PEOPLE = 250


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    with two_name_servers(tmp_path_factory.mktemp("servers")) as servers:
        yield servers


@pytest.fixture(scope="module")
def config(servers, tmp_path_factory):
    path = tmp_path_factory.mktemp("mail") / "mail.toml"
    maps, policy, lmtp, smtp = unused_ports(4)
    text = CONFIG.format(server=servers.address(0), maps=maps, policy=policy)
    path.write_text(
        f'authserv_id = "mx.here.example"\nlmtp_listen = "127.0.0.1:{lmtp}"\nsmtp = "127.0.0.1:{smtp}"\n'
        f'database = "sqlite:///{path.with_suffix(".db")}"\n{text}'
        '[lists."own@ubc.example"]\npost = "anyone"\nskip_addressed = true\n'
    )
    return path


@pytest.fixture
def sent(postfix):
    """A function that sends a message of a name, waits until its people have got it, and returns the inbox's
    transactions.
    """

    def send(name, count, sender, *recipients, message=MESSAGE):
        replies = postfix.send(sender, *recipients, data=message % name)
        assert [code for code, _ in replies] == [250] * len(recipients), replies
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            found = [each for each in tuple(postfix.inbox.messages) if b"Message-ID: <%b@" % name in each[2]]
            if sum(len(each[1]) for each in found) >= count:
                return found
            assert time.monotonic() < deadline, (found, postfix.log())
            time.sleep(LOOK_SECONDS)

    return send


@pytest.fixture
def queue(shadowtree, config):
    def ask(*arguments):
        told = shadowtree("mail", "queue", *arguments, "--config", config, "--format", "json")
        return json.loads(told.stdout)["messages"]

    return ask


def people_of(messages):
    return sorted(person for _, people, _ in messages for person in people)


def test_overlapping_lists_reach_each_person_once_with_a_return_path_of_their_own(sent):
    found = sent(b"one", 3, "bob@sfu.example", *(f"{name}@lists.ubc.example" for name in ("all", "news", "own")))
    assert people_of(found) == ["ann@x.example", "bob@sfu.example", "dan@x.example"]
    by_person = {people[0]: (sender, data) for sender, people, data in found}
    for person, name in (("ann@x.example", "all"), ("bob@sfu.example", "all"), ("dan@x.example", "own")):
        sender, data = by_person[person]
        assert sender.startswith(f"{name}-bounces-")
        assert sender.endswith(f"+{person.replace('@', '=')}@lists.ubc.example")
        assert f"List-Id: <{name}.ubc.example>\r\n".encode() in data
        assert data.endswith(MESSAGE.partition(b"\r\nDemo-Results")[2].partition(b"\r\n")[2])


@pytest.mark.parametrize(
    ("sender", "recipient", "says"),
    [
        ("ann@x.example", "nobody@lists.ubc.example", "5.1.1"),
        ("dan@x.example", "all@lists.ubc.example", "only members may post to all@ubc.example"),
        ("", "own@lists.ubc.example", "own@ubc.example distributes no bounces"),
    ],
)
def test_what_is_refused_is_refused_at_rcpt(postfix, sender, recipient, says):
    ((code, text),) = postfix.send(sender, recipient)
    assert (code, says in text) == (550, True), text


def test_what_a_sender_says_that_this_mail_server_has_found_out_confirms_nobody(postfix, queue, shadowtree, config):
    """Nor does it where the milter says that it has found out nothing, or the opposite."""
    forged = b"Authentication-Results: mx.here.example; dkim=pass header.d=x.example; dmarc=pass header.from=x.example"
    begin, names = MESSAGE.partition(b"Demo-Results")[0], []
    rest = MESSAGE.partition(b"dmarc=pass header.from=x.example\r\n")[2]
    found = [b"", b"Demo-Results: mx.here.example; spf=none smtp.mailfrom=x.example\r\n"]
    for at, fields in enumerate(
        [
            forged,
            forged.replace(b"Results: ", b"Results:\r\n\t").replace(b"example;", b"example (c);"),
            b"Received: from ann by mx.here.example (Postfix) with ESMTP id 1; today\r\n" + forged,
        ]
    ):
        for said in found:
            name = b"forged-%d-%d" % (at, len(said))
            ((code, text),) = postfix.send(
                "ann@x.example",
                "all@lists.ubc.example",
                data=begin % name + said + fields + b"\r\n" + rest + b"%b\r\n" % name,
            )
            assert code == 250, text
            names.append(name)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(held := [each for each in queue() if each["state"] == "held"]) < len(names):
        assert time.monotonic() < deadline, (held, postfix.log())
        time.sleep(LOOK_SECONDS)
    assert not [each for each in postfix.inbox.messages if b"<forged-" in each[2]]
    for each in held:
        shadowtree("mail", "reject", each["id"], "--config", config)


@pytest.mark.parametrize("role", ["postmaster", "abuse"])
def test_mail_about_the_domain_itself_is_taken_and_is_no_mail_to_a_list(postfix, role):
    ((code, text),) = postfix.send("stranger@y.example", f"{role}@lists.ubc.example")
    assert code == 250, text


def test_who_is_addressed_is_left_out_and_from_is_rewritten_where_dmarc_rests_on_spf_alone(sent, servers):
    """Both as the lists say: one skips whoever is in To, and the others do not; all rewrite, as usual."""
    names, to = servers.clients[0], b"\r\nTo: Dan <DAN@x.example>, bob@sfu.example\r\nFrom: "
    names.join("own@ubc.example", "eve@x.example", "process")
    try:
        for name, signed in ((b"signed", b"dkim=pass header.d=x.example; "), (b"unsigned", b"")):
            data = MESSAGE.replace(b"dkim=pass header.d=x.example; ", signed).replace(b"\r\nFrom: ", to)
            lists = ("news@lists.ubc.example", "own@lists.ubc.example")
            found = sent(name, 2, "bob@sfu.example", *lists, message=data)
            assert people_of(found) == ["bob@sfu.example", "eve@x.example"]
            for _, (person,), copy in found:
                place = "news" if person == "bob@sfu.example" else "own"
                told = {"From": "Ann <ann@x.example>", "Reply-To": None}
                if not signed:
                    told = {"From": f"Ann via {place} <{place}@lists.ubc.example>", "Reply-To": "ann@x.example"}
                assert {field: message_from_bytes(copy)[field] for field in told} == told
    finally:
        names.leave("own@ubc.example", "eve@x.example")


def test_a_bounce_comes_back_and_is_counted(postfix, sent, queue):
    postfix.inbox.refused.add("bob@sfu.example")
    try:
        # Her copy may come before his is refused.
        found = sent(b"bounced", 1, "ann@x.example", "all@lists.ubc.example")
        id_ = next(line for line in found[0][2].splitlines() if line.startswith(b"Shadowtree-Trace: "))
        id_ = id_.decode().split()[1].rstrip(";")
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (told := queue(id_)[0])["bounced"]:
            assert time.monotonic() < deadline, postfix.log()
            time.sleep(LOOK_SECONDS)
    finally:
        postfix.inbox.refused.clear()
    assert (told["state"], told["people"], told["done"], told["bounced"]) == ("done", 2, 1, 1)


def test_who_wants_no_more_mail_is_asked_and_then_gets_none(postfix, servers):
    """Nobody confirms who wrote, so the answer to the letter does."""
    to, before = "own-leave@lists.ubc.example", len(postfix.inbox.messages)
    for number in range(2):
        data = b"Message-ID: <leave-%d@x.example>\r\nFrom: dan@x.example\r\n\r\n" % number
        ((code, text),) = postfix.send("dan@x.example", to, data=data)
        assert code == 250, text
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(postfix.inbox.messages) == before + number:
            assert time.monotonic() < deadline, postfix.log()
            time.sleep(LOOK_SECONDS)
        sender, people, letter = postfix.inbox.messages[-1]
        assert (sender, people) == ("", ["dan@x.example"])
        assert bool(servers.clients[0].check("own@ubc.example", "dan@x.example")) is (number == 0)
        to = str(message_from_bytes(letter)["Reply-To"])
    ((code, text),) = postfix.send("", "own-leave@lists.ubc.example")
    assert (code, "are not answered" in text) == (550, True), text


def test_an_owner_lets_a_message_go_by_an_address_of_the_note(postfix, servers, gateway):
    """Nobody confirms who wrote it, nor who the owner is."""
    names, owners = servers.clients[0], "all+owners@ubc.example"
    names.create_group(owners)
    names.join(owners, "chair@x.example", "process")
    deadline = time.monotonic() + PATIENCE_SECONDS

    def until(find):
        while not (found := find()):
            assert time.monotonic() < deadline, postfix.log()
            time.sleep(LOOK_SECONDS)
        return found

    def got(text):
        return [people for _, people, data in tuple(postfix.inbox.messages) if text in data]

    try:
        until(lambda: gateway.lookup("owners", "all@lists.ubc.example")[1] == "chair@x.example")
        data = b"Message-ID: <asks@x.example>\r\nFrom: ann@x.example\r\n\r\nMay I?\r\n"
        assert [code for code, _ in postfix.send("ann@x.example", "all@lists.ubc.example", data=data)] == [250]
        until(lambda: got(b"Subject: all@ubc.example: 1 held"))
        (note,) = [data for _, _, data in tuple(postfix.inbox.messages) if b"1 held" in data]
        address = re.search(r"all-approve\+\S+", message_from_bytes(note).get_payload(decode=True).decode())[0]
        data = b"Message-ID: <yes@x.example>\r\nFrom: chair@x.example\r\n\r\n"
        assert [code for code, _ in postfix.send("chair@x.example", address, data=data)] == [250]
        members = {"ann@x.example", "bob@sfu.example"}
        until(lambda: {person for people in got(b"May I?") for person in people} == members)
        until(lambda: got(b"Subject: all@ubc.example: approved") == [["chair@x.example"]])
    finally:
        names.delete_group(owners, force=True)


def test_two_lists_of_the_same_people_lose_nobody_to_a_kill(
    postfix, gateway, config, clean_environment, queue, servers
):
    """Runs last: another gateway is there afterwards."""
    names, people = servers.clients[0], {f"person-{number:03}@x.example" for number in range(PEOPLE)}
    for group in ("third", "fourth"):
        names.create_group(f"{group}@ubc.example")
        names.apply([Join(f"{group}@ubc.example", person, "process") for person in people])
    before = len(postfix.inbox.recipients)
    lists = ("third@lists.ubc.example", "fourth@lists.ubc.example")
    assert [code for code, _ in postfix.send("ann@x.example", *lists, data=MESSAGE % b"killed")] == [250, 250]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(postfix.inbox.recipients) == before:
        assert time.monotonic() < deadline, postfix.log()
        time.sleep(LOOK_SECONDS)
    gateway.process.kill()
    gateway.process.wait(PATIENCE_SECONDS)
    again = GatewayProcess(config, clean_environment)
    try:
        while set(postfix.inbox.recipients[before:]) < people or queue():
            assert time.monotonic() < deadline, postfix.log()
        found = postfix.inbox.recipients[before:]
        assert set(found) == people
        assert len(found) <= PEOPLE + REPEATED_BY_A_KILL
    finally:
        again.close()
