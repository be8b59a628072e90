"""Two organisations, each with a name server, a gateway and a Postfix with the printed settings: mail between them."""

import asyncio
import re
import smtplib
import subprocess
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import psutil
import pytest

from mailing.config.settings import load_settings
from mailing.shell.control import ControlError, Request, ask
from shadowtree.cli.demo.postfix import program, start_postfix
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
transport_retry_time = 1s
service_throttle_time = 1s
"""
"""Settings for mail to the other organisation, with retries within a minute.

No setting is written twice, since each of Postfix's programs would log that.
"""

ALL, TOWN, LAB = "all@ubc.example", "town@ubc.example", "lab@sfu.example"
ANN, BOB, BEA = "ann@ubc.example", "bob@sfu.example", "bea@sfu.example"
MESSAGES = 12
CONNECTIONS = 4


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
        """Start Postfix and gateway. `other`: the organisation to whose people and lists mail is passed on."""
        stack.callback(self.inbox.server_close)
        stack.callback(self.inbox.shutdown)
        main, _, master = shadowtree("mail", "postfix", "--config", self.config).stdout.partition("\n\n")
        routes = ROUTES.format(name=other.name, port=other.port)
        printed, host = f"{main}\n{routes}\n{master}", f"mx.{self.name}.example"
        self.postfix = start_postfix(printed, inbox_port=self.inbox.server_address[1], host=host, port=self.port)
        stack.callback(self.postfix.stop)
        stack.callback(GatewayProcess(self.config, environment).close)

    def copies(self, name):
        """Return the people here who got a message."""
        found = [people for _, people, data in tuple(self.inbox.messages) if f"Message-ID: <{name}@".encode() in data]
        return sorted(person for people in found for person in people)

    def asked(self, word, id_=None):
        return asyncio.run(ask(self._control, Request(word, id_))).messages

    def flush(self):
        """Have Postfix and the gateway retry waiting messages. Return True if none waits."""
        in_postfix = self.run("postqueue", "-j")
        if in_postfix:
            self.run("postqueue", "-f")
        in_gateway = self.asked("queue")
        for each in in_gateway:
            with suppress(ControlError):
                # It may be done by now.
                self.asked("retry", each.id)
        return not (in_postfix or in_gateway)

    def run(self, name, *arguments):
        """Run one of Postfix's own programs. Return its output."""
        command = [program(name), "-c", str(self.postfix.folder / "etc"), *arguments]
        return subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_SECONDS).stdout

    def kill_postfix(self):
        """kill -9 all its processes. Return the number that may have been handing a message over to another server."""
        master = psutil.Process(int((self.postfix.folder / "spool/pid/master.pid").read_text()))
        # So that it starts nothing meanwhile.
        master.suspend()
        processes = [master, *master.children(recursive=True)]
        sending = sum(each.name() == "smtp" for each in processes)
        for each in processes:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        psutil.wait_procs(processes, PATIENCE_SECONDS)
        return sending

    def start_postfix_again(self):
        """Start Postfix without a log. A log of its own hangs for ever if its programs log much before it is open."""
        self.run("postconf", "-X", "maillog_file")
        self.run("postfix", "start")


@pytest.fixture(scope="module")
def two(tmp_path_factory, shadowtree, clean_environment):
    if (why := why_not_whole()) is not None:
        pytest.skip(f"{why}, two as two organisations")
    folder = tmp_path_factory.mktemp("two")
    with started_servers() as start, ExitStack() as stack:
        servers = SeveralServers(start, folder, unused_ports(2), [["ubc.example"], ["sfu.example"]])
        stack.callback(servers.close)
        names = servers.clients[0]
        for group in (ALL, TOWN, LAB):
            names.create_group(group)
        arcs = [(ALL, LAB, "group"), (LAB, ALL, "group"), (TOWN, LAB, "group")]
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
    """Hand its Postfix a message, as often as it takes until that has it."""
    data = f"Message-ID: <{name}@x.example>\r\nFrom: {ANN}\r\nDate: Wed, 25 Nov 2026 12:00:00 +0000\r\n\r\nHello.\r\n"
    places = [group.replace("@", "@lists.") for group in lists]

    def is_taken():
        with (
            suppress(OSError, smtplib.SMTPException),
            smtplib.SMTP("127.0.0.1", organisation.port, timeout=PATIENCE_SECONDS) as smtp,
        ):
            return not smtp.sendmail(ANN, places, data)
        return False

    wait_until(is_taken, f"that {name} is taken")


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


def test_a_postfix_is_killed_in_the_middle_of_a_stream(two):
    ubc, sfu = two
    lists = ((ALL,), (TOWN,), (ALL, TOWN))
    names = [f"stream-{number}" for number in range(MESSAGES)]

    def stream():
        for number, name in enumerate(names):
            send(ubc, name, *lists[number % len(lists)])

    with ThreadPoolExecutor(1) as threads:
        sending = threads.submit(stream)
        wait_until(lambda: ubc.copies(names[1]), "that messages come")
        under_way = ubc.kill_postfix()
        ubc.start_postfix_again()
        sending.result()
    everything = {(name, person) for name in names for person in (ANN, BOB, BEA)}

    def copies():
        return Counter((name, person) for name in names for each in two for person in each.copies(name))

    wait_until(lambda: ubc.flush() & sfu.flush() and everything <= copies().keys(), "that everybody has everything")
    assert copies().keys() == everything
    assert copies().total() - len(everything) <= under_way + CONNECTIONS * 3, "more than what was under way came twice"
