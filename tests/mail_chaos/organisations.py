"""A name server, a gateway and an inbox of each organisation, which can be killed, stopped, cut off, and are back."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import threading
from contextlib import ExitStack, contextmanager

import shadowtree
from mailing.config.settings import load_settings
from mailing.shell.control import ControlError, Request, ask
from mailing.shell.expansion import expand
from shadowtree.aio import Client
from shadowtree.cli.support.free_ports import unused_ports
from tests.fakes.tcp_proxy import NetworkInThread, Passage
from tests.integration.nameserver.conftest import started_servers
from tests.integration.nameserver.server_process import wait_until
from tests.integration.nameserver.several_servers import SeveralServers
from tests.integration.nameserver.warm_process import WarmProcess
from tests.mail_chaos.inboxes import Inbox
from tests.mail_chaos.scene import CENTRAL, EVERY_LIST, ORGANISATIONS

CONFIG = """\
server = "{server}"
lmtp_listen = "127.0.0.1:{lmtp}"
database = "sqlite:///{folder}/{name}.mail.db"
smtp = "127.0.0.1:{inbox}"

[domains]
"lists.{name}.example" = "{name}.example"

[defaults]
post = "anyone"
unsubscribe = "shared"
fanout = "shares"
"""
CENTRAL_LIST = """
[lists."{group}"]
post = "anyone"
unsubscribe = "shared"
"""

PROGRAM = """
import os, sys
from pathlib import Path
from mailing.config.settings import load_settings
from mailing.shell.gateway import run
# Of a pipe that nobody reads it would wait.
os.dup2(os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
def settings():
    return load_settings(Path(sys.argv[1]))
sys.exit(run(settings(), settings))
"""
END_SECONDS = 60
CALL_SECONDS = 5


class LinkedServers(SeveralServers):
    """Name servers that reach one another over ways of a network, which may be broken."""

    def __init__(self, start, folder, names, network):
        ports = unused_ports(len(names))
        self._ways = {
            (one, other): network.way(names[one], names[other], f"127.0.0.1:{ports[other]}")
            for one in range(len(names))
            for other in range(len(names))
            if one != other
        }
        shares = [[f"{name}.example"] for name in names]
        super().__init__(start, folder, ports, shares, announced_address="none")

    def peers(self, number):
        return [f"{self.shares[to][0]}={way}" for (source, to), way in self._ways.items() if source == number]


class Gateway:
    """`shadowtree mail serve`, of one organisation."""

    def __init__(self, folder, name, server, inbox):
        (self.port,) = unused_ports(1)
        self.config, self._log = folder / f"{name}.toml", folder / f"{name}.log"
        text = CONFIG.format(server=server, lmtp=self.port, folder=folder, name=name, inbox=inbox)
        own = [group for group in sorted(CENTRAL) if group.endswith(f"@{name}.example")]
        self.config.write_text(text + "".join(CENTRAL_LIST.format(group=group) for group in own))
        self.settings = load_settings(self.config)
        self.start()

    def start(self):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SHADOWTREE_")}
        self.process = WarmProcess(PROGRAM, [str(self.config), str(self._log)], environment)

    def wait_until_serving(self):
        line = self.process.stdout.readline().decode()
        assert line.startswith("serving mail"), f"{line}{self._log.read_text()}"

    def waiting(self):
        """Return the messages that are not final. None if the gateway does not answer."""
        try:
            answer = asyncio.run(ask(self.settings.distribution.control, Request("queue")))
        except ControlError:
            return None
        return answer.messages

    def retry(self):
        """Have the gateway retry waiting messages now. Return True if there were none."""
        waiting = self.waiting()
        try:
            for each in waiting or ():
                asyncio.run(ask(self.settings.distribution.control, Request("retry", each.id)))
        except ControlError:
            pass  # It is gone, or has done the message meanwhile.
        return waiting == ()

    def expand(self, group):
        """Return the people whom `mail expand` names as recipients."""

        async def told():
            async with Client(self.settings.server, timeout=END_SECONDS) as client:
                return await expand(client, self.settings.lists, [group], None)

        found = asyncio.run(told())
        assert not found.unreachable, found
        return {person.address for person in found.people}


class Organisations:
    """All run when the context is entered, with groups and people in them; afterwards all are gone."""

    def __init__(self, folder, history, scene, *, seed=0, deferred=0.0):
        """`folder` takes databases, settings and logs; `deferred`: the part of people that inboxes refuse for now."""
        self._folder = folder
        self._history = history
        self._scene = scene
        self.inboxes = {name: Inbox(name, history, seed=seed, deferred=deferred) for name in ORGANISATIONS}
        self._locks = {name: threading.Lock() for name in ORGANISATIONS}

    def __enter__(self):
        with ExitStack() as stack:
            self._network = stack.enter_context(NetworkInThread())
            for inbox in self.inboxes.values():
                stack.enter_context(inbox)
            start = stack.enter_context(started_servers())
            self.servers = LinkedServers(start, self._folder, ORGANISATIONS, self._network)
            stack.callback(self.servers.close)
            for group in EVERY_LIST:
                self.servers.clients[0].create_group(group)
            self.servers.clients[0].apply(self._scene.updates())
            self.gateways = {}
            for number, name in enumerate(ORGANISATIONS):
                address, inbox = self.servers.address(number), self.inboxes[name].port
                self.gateways[name] = Gateway(self._folder, name, address, inbox)
                stack.callback(self._end, name)
            for gateway in self.gateways.values():
                gateway.wait_until_serving()
            for client in self.servers.clients:
                wait_until(
                    lambda client=client: any(each.is_listening for mailbox in client.mailboxes() for each in mailbox),
                    "that a gateway takes shares",
                )
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _end(self, name):
        process = self.gateways[name].process
        process.kill()
        process.communicate(END_SECONDS)

    def client(self, name):
        """Return a new client of the name server of an organisation."""
        return shadowtree.Client(self.servers.address(ORGANISATIONS.index(name)), timeout=CALL_SECONDS)

    def retry_all(self):
        """Have all gateways retry. Return True if no message waits anywhere."""
        are_done = [gateway.retry() for gateway in self.gateways.values()]
        return all(are_done)

    def defer_nobody(self):
        """Let inboxes take mail for every person from now on."""
        for inbox in self.inboxes.values():
            inbox.defer_nobody()

    # What breaks, until the context is left

    @contextmanager
    def killed_gateway(self, name):
        """kill -9, and another start on the same database."""
        gateway = self.gateways[name]
        gateway.process.kill()
        gateway.process.communicate(END_SECONDS)
        try:
            yield
        finally:
            gateway.start()
            gateway.wait_until_serving()

    @contextmanager
    def ended_gateway(self, name):
        """SIGTERM, and another start."""
        gateway = self.gateways[name]
        gateway.process.terminate()
        try:
            yield
        finally:
            try:
                gateway.process.communicate(END_SECONDS)
            except subprocess.TimeoutExpired:
                self._history.unexpected.append(f"the gateway of {name} does not end")
                gateway.process.kill()
            if gateway.process.returncode != 0:
                self._history.unexpected.append(f"the gateway of {name} ended with {gateway.process.returncode}")
            gateway.start()
            gateway.wait_until_serving()

    @contextmanager
    def stopped_gateway(self, name):
        """SIGSTOP, and SIGCONT."""
        process = self.gateways[name].process
        process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.send_signal(signal.SIGCONT)

    @contextmanager
    def killed_server(self, name):
        """kill -9 of a name server, and another start."""
        number = ORGANISATIONS.index(name)
        self.servers.kill(number)
        try:
            yield
        finally:
            self.servers.start_again(number)

    @contextmanager
    def stopped_server(self, name):
        """Stop a name server, so that it neither hears nor says anything."""
        with self.servers.stopped(ORGANISATIONS.index(name)):
            yield

    @contextmanager
    def parted(self, one, other):
        """Two name servers that do not hear one another."""
        self._network.part(one, other, Passage.CUT)
        try:
            yield
        finally:
            self._network.part(one, other, Passage.PASS)

    @contextmanager
    def no_inbox(self, name):
        """Kill a mail server."""
        self.inboxes[name].vanish()
        try:
            yield
        finally:
            self.inboxes[name].start()

    @contextmanager
    def stalled_inbox(self, name):
        """Stall a mail server, so that it answers nothing."""
        self.inboxes[name].stall()
        try:
            yield
        finally:
            self.inboxes[name].go_on()

    @contextmanager
    def in_the_middle(self, name):
        """Hold a transaction of a mail server that has a message and has not replied."""
        inbox = self.inboxes[name]
        inbox.hold()
        try:
            wait_until(lambda: inbox.under_way, "a message on its way to a mail server")
            yield
        finally:
            inbox.let_go()

    @contextmanager
    def cut_connections(self, name):
        """Cut the connections to a mail server that stays up."""
        self.inboxes[name].cut()
        yield
