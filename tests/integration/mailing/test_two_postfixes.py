"""Two organisations, each with a name server, a gateway and a Postfix with the printed settings: mail between them."""

import asyncio
import re
import smtplib
from contextlib import ExitStack

import pytest

from mailing.config.settings import load_settings
from mailing.shell.control import Request, ask
from shadowtree.cli.demo.postfix import start_postfix
from shadowtree.cli.support.free_ports import unused_ports
from shadowtree.updates import Join
from tests.integration.mailing.gateways import GatewayProcess
from tests.integration.mailing.postfix import PATIENCE_SECONDS, Inbox, why_not_whole
from tests.integration.nameserver.conftest import started_servers
from tests.integration.nameserver.server_process import wait_until
from tests.integration.nameserver.several_servers import SeveralServers

CONFIG = """\
server = "{server}"
maps_listen = "127.0.0.1:{maps}"
policy_listen = "127.0.0.1:{policy}"
lmtp_listen = "127.0.0.1:{lmtp}"
smtp = "127.0.0.1:{smtp}"
database = "sqlite:///{folder}/{name}.db"

[domains]
"lists.{name}.example" = "{name}.example"

[defaults]
post = "anyone"
fanout = "shares"
"""
CENTRAL = """
[lists."all@ubc.example"]
post = "anyone"
"""
ROUTES = """\
virtual_mailbox_domains = {name}.example, lists.{name}.example
virtual_transport = smtp:[127.0.0.1]:{port}
"""
"""Where mail to the other organisation goes. No setting is written twice: each of Postfix's programs would log that."""

ALL, LAB = "all@ubc.example", "lab@sfu.example"
ANN, BOB, BEA = "ann@ubc.example", "bob@sfu.example", "bea@sfu.example"


class Organisation:
    """A gateway and a Postfix beside a name server, and the inbox of its people."""

    def __init__(self, name, folder, server, port):
        maps, policy, lmtp, smtp, inbox = unused_ports(5)
        self.name, self.port = name, port
        self.config = folder / f"{name}.toml"
        text = CONFIG.format(server=server, maps=maps, policy=policy, lmtp=lmtp, smtp=smtp, folder=folder, name=name)
        self.config.write_text(text + (CENTRAL if name == "ubc" else ""))
        self._control = load_settings(self.config).distribution.control
        self.inbox = Inbox(inbox)

    def start(self, stack, shadowtree, environment, other):
        """`other`: the organisation that mail to its people and lists is passed on to."""
        stack.callback(self.inbox.server_close)
        stack.callback(self.inbox.shutdown)
        main, _, master = shadowtree("mail", "postfix", "--config", self.config).stdout.partition("\n\n")
        routes = ROUTES.format(name=other.name, port=other.port)
        printed, host = f"{main}\n{routes}\n{master}", f"mx.{self.name}.example"
        self.postfix = start_postfix(printed, inbox_port=self.inbox.server_address[1], host=host, port=self.port)
        stack.callback(self.postfix.stop)
        stack.callback(GatewayProcess(self.config, environment).close)

    def copies(self, name):
        """Whom a message came to, here."""
        found = [people for _, people, data in tuple(self.inbox.messages) if f"Message-ID: <{name}@".encode() in data]
        return sorted(person for people in found for person in people)

    def asked(self, word, id_=None):
        return asyncio.run(ask(self._control, Request(word, id_))).messages


@pytest.fixture(scope="module")
def two(tmp_path_factory, shadowtree, clean_environment):
    if (why := why_not_whole()) is not None:
        pytest.skip(f"{why}, two as two organisations")
    folder = tmp_path_factory.mktemp("two")
    with started_servers() as start, ExitStack() as stack:
        servers = SeveralServers(start, folder, unused_ports(2), [["ubc.example"], ["sfu.example"]])
        stack.callback(servers.close)
        names = servers.clients[0]
        for group in (ALL, LAB):
            names.create_group(group)
        arcs = [(ALL, LAB, "group"), (LAB, ALL, "group")]
        arcs += [(ALL, ANN, "process"), (LAB, BOB, "process"), (LAB, BEA, "process")]
        names.apply([Join(*arc) for arc in arcs])
        ports = unused_ports(2)
        ubc, sfu = (
            Organisation(name, folder, servers.address(at), ports[at]) for at, name in enumerate(("ubc", "sfu"))
        )
        ubc.start(stack, shadowtree, clean_environment, sfu)
        sfu.start(stack, shadowtree, clean_environment, ubc)
        wait_until(lambda: all(has_gateway(client) for client in servers.clients), "that gateways take shares")
        yield ubc, sfu


def has_gateway(client):
    return any(each.is_listening for mailbox in client.mailboxes() for each in mailbox)


def send(organisation, name, *lists):
    """Hand its Postfix a message."""
    data = f"Message-ID: <{name}@x.example>\r\nFrom: {ANN}\r\nDate: Wed, 25 Nov 2026 12:00:00 +0000\r\n\r\nHello.\r\n"
    places = [group.replace("@", "@lists.") for group in lists]
    with smtplib.SMTP("127.0.0.1", organisation.port, timeout=PATIENCE_SECONDS) as smtp:
        refused = smtp.sendmail(ANN, places, data)
    assert not refused, refused


def test_a_message_to_a_list_of_the_other_organisation_comes_to_everybody_from_their_own(two):
    ubc, sfu = two
    send(ubc, "across", LAB)
    wait_until(lambda: (ubc.copies("across"), sfu.copies("across")) == ([ANN], [BEA, BOB]), "a copy for each")
    senders = {sender.partition("@")[2] for sender, _, data in sfu.inbox.messages if b"<across@" in data}
    assert senders == {"lists.sfu.example"}


def test_a_bounce_of_the_other_organisation_comes_back_and_is_counted(two):
    ubc, sfu = two
    sfu.inbox.refused.add(BOB)
    send(ubc, "bounced", ALL)
    wait_until(lambda: (ubc.copies("bounced"), sfu.copies("bounced")) == ([ANN], [BEA]), "a copy for the others")
    (data,) = (data for _, _, data in ubc.inbox.messages if b"<bounced@" in data)
    id_ = re.search(rb"Shadowtree-Trace: (\w+);", data)[1].decode()

    def told():
        (found,) = ubc.asked("queue", id_)
        return found.state, found.people, found.done, found.bounced

    wait_until(lambda: told() == ("done", 3, 2, 1), "that the bounce is counted")
    sfu.inbox.refused.clear()
