"""A mail gateway beside its name servers, and what a mail server would ask of it."""

from __future__ import annotations

import asyncio
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from contextlib import asynccontextmanager

from mailing.rules.framing import NetstringReader, PolicyReader, netstring
from mailing.rules.lists import Lists, ListSettings
from mailing.shell.conversations import PortListener
from mailing.shell.log import Repeated
from mailing.shell.lookups import Lookups
from mailing.shell.metrics import serve_metrics
from mailing.shell.names import Names
from mailing.shell.posting import Posting

PATIENCE_SECONDS = 60


class Gateway:
    """A gateway in this process, with the parts of `shadowtree mail serve`."""

    def __init__(self, client, subnets, settings):
        lists = Lists({f"lists.{subnet}": subnet for subnet in subnets}, ListSettings(), settings)
        repeated = Repeated()
        self.names = Names(client, subnets)
        self.lookups_of_maps = Lookups(self.names, lists)
        self.maps = PortListener("maps", NetstringReader, self.lookups_of_maps.answer, repeated)
        self.policy = PortListener("policy", PolicyReader, Posting(self.names, lists).answer, repeated)

    async def lookup(self, name, key):
        """Ask over a connection of its own; the status and the text of the reply."""
        return (await self.lookups((name, key)))[0]

    async def lookups(self, *asked):
        """Ask all at once over one connection."""
        return await look_up(self.maps_port, *asked)

    async def action(self, sender, recipient, **attributes):
        """Return the policy's answer at RCPT."""
        told = {"request": "smtpd_access_policy", "protocol_state": "RCPT", "sender": sender, "recipient": recipient}
        reader, writer = await asyncio.open_connection("127.0.0.1", self.policy_port)
        writer.write("".join(f"{key}={value}\n" for key, value in (told | attributes).items()).encode() + b"\n")
        found = await reader.readuntil(b"\n\n")
        writer.close()
        return found.decode().removeprefix("action=").rstrip("\n")


async def look_up(port, *asked):
    """Ask all maps and keys at once over one connection; the status and the text of each reply."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"".join(netstring(f"{name} {key}".encode()) for name, key in asked))
    found = [await read_reply(reader) for _ in asked]
    writer.close()
    return found


async def read_reply(reader):
    """Return the status and the text of one reply."""
    length = await reader.readuntil(b":")
    content = await reader.readexactly(int(length[:-1]))
    assert await reader.readexactly(1) == b","
    status, _, text = content.decode().partition(" ")
    return status, text


async def read_metrics(collector):
    """Return the samples for Prometheus."""
    port, end = serve_metrics(collector, "127.0.0.1", 0)
    url = f"http://127.0.0.1:{port}/metrics"
    try:
        return await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=PATIENCE_SECONDS).read().decode())
    finally:
        await asyncio.to_thread(end)


@asynccontextmanager
async def gateway(client, *subnets, settings=None):
    """Run a gateway that answers."""
    found = Gateway(client, subnets, settings or {})
    following = asyncio.create_task(found.names.follow())
    try:
        found.maps_port = await found.maps.listen("127.0.0.1", 0)
        found.policy_port = await found.policy.listen("127.0.0.1", 0)
        await found.names.tried(PATIENCE_SECONDS)
        yield found
    finally:
        await asyncio.gather(found.maps.end(1), found.policy.end(1))
        following.cancel()
        await asyncio.wait([following])


class GatewayProcess:
    """`shadowtree mail serve`, as a postmaster starts it."""

    def __init__(self, config, environment=None):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "shadowtree", "mail", "serve", "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.serving_line = self.process.stdout.readline().rstrip("\n")
        if not self.serving_line:
            raise RuntimeError(self.process.communicate(timeout=PATIENCE_SECONDS)[1])
        ports = dict(re.findall(r"(\w+) 127\.0\.0\.1:(\d+)", self.serving_line))
        self.maps_port, self.policy_port = int(ports["maps"]), int(ports["policy"])
        self.lmtp_port = int(ports.get("lmtp", 0))

    def lookup(self, name, key):
        """Ask over a connection of its own; the status and the text of the reply."""
        with socket.create_connection(("127.0.0.1", self.maps_port), timeout=PATIENCE_SECONDS) as connection:
            connection.sendall(netstring(f"{name} {key}".encode()))
            reply = connection.makefile("rb")
            digits = b""
            while (byte := reply.read(1)) != b":":
                digits += byte
            status, _, text = reply.read(int(digits)).decode().partition(" ")
        return status, text

    def terminate(self):
        """Send SIGTERM. Return the exit status, and the text on standard error."""
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=PATIENCE_SECONDS)
        return self.process.returncode, errors

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate(timeout=PATIENCE_SECONDS)
