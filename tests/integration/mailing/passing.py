"""A gateway in this process that messages pass through."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import asynccontextmanager

from mailing.rules.framing import NetstringReader
from mailing.rules.message import key_of, read_content
from mailing.shell.control import Request, ask
from mailing.shell.conversations import PortListener
from mailing.shell.distributing import Distributing
from mailing.shell.log import Repeated
from mailing.shell.lookup_counts import LookupCounts
from mailing.shell.lookups import Lookups
from mailing.shell.metrics import GatewayCollector
from mailing.shell.names import Names
from tests.integration.mailing.gateways import look_up, read_metrics
from tests.integration.mailing.sink import PATIENCE_SECONDS, lmtp


class Running:
    """A gateway that distributes."""

    def __init__(self, distributing, names, settings, port, clicks, maps_port):
        self._distributing = distributing
        self.names = names
        self.settings = settings
        self.port = port
        self.clicks = clicks
        """Address where members leave by one click."""
        self._maps_port = maps_port

    async def send(self, sender, *recipients, data, **more):
        """Send a message. Return the replies, without positive replies to RCPT."""
        places = [f"{each}@lists.ubc.example" if "@" not in each else each for each in recipients]
        return (await lmtp(self.port, sender, *places, data=data, **more))[len(recipients) :]

    async def rcpt(self, sender, recipient):
        """Return the reply to one RCPT."""
        found = await lmtp(self.port, sender, f"{recipient}@lists.ubc.example", data=b"Subject: rcpt\r\n\r\n")
        return found[0]

    async def lookup(self, name, key):
        """Ask a map beside it; the status and the text of the reply."""
        return (await look_up(self._maps_port, (name, key)))[0]

    async def ask(self, word, id_=None, server=""):
        """Return the messages that a command reports."""
        return (await ask(self.settings.control, Request(word, id_, server=server))).messages

    async def why(self, id_, address):
        """Return the report of `mail why` on a person."""
        return (await ask(self.settings.control, Request("why", id_, address))).reached

    async def suppressed(self):
        """Return the people to whom the gateway sends no mail."""
        return [*(await ask(self.settings.control, Request("suppressed"))).suppressed]

    async def clear(self, address):
        """Have a person sent to again."""
        return (await ask(self.settings.control, Request("clear", address=address))).suppressed

    async def stats(self):
        """Return the report of `mail stats`."""
        return (await ask(self.settings.control, Request("stats"))).stats

    def follow(self, lists, settings):
        """Go by other settings, as after SIGHUP."""
        self._distributing.follow(lists, settings)

    def collector(self):
        """Return the collector that Prometheus reads."""
        return GatewayCollector(LookupCounts(), self._distributing, self.names, lambda: int(time.time()))

    @property
    def is_taken_over(self):
        """True if another gateway takes the shares."""
        return self._distributing._sharing._is_taken_over

    async def count(self, name):
        """Return the value of a counter without labels, as Prometheus reads it."""
        return float(re.search(rf"^{name} (.*)$", await read_metrics(self.collector()), re.M)[1])

    @property
    def reports(self):
        """Return the outcomes of bounces, with their numbers."""
        return dict(self._distributing.reports)

    def id_of(self, data):
        """Return the id of a message that this gateway has taken."""
        return self._distributing._spooling.id_by_key(key_of(read_content(data)))

    async def until_done(self):
        async with asyncio.timeout(PATIENCE_SECONDS):
            while await self.ask("queue"):
                await asyncio.sleep(0.01)


@asynccontextmanager
async def running_gateway(client, settings, lists, *, gracefully=True):
    names = Names(client, lists.subnets.values())
    following = asyncio.create_task(names.follow())
    await names.tried(PATIENCE_SECONDS)
    distributing = Distributing(settings, names, lists, Repeated())
    lookups = Lookups(names, lists)
    lookups.suppression = distributing
    maps = PortListener("maps", NetstringReader, lookups.answer, Repeated())
    running = None
    try:
        port = await distributing.listen()
        running = asyncio.create_task(distributing.run())
        clicks = await distributing.listen_for_clicks()
        yield Running(distributing, names, settings, port, clicks, await maps.listen("127.0.0.1", 0))
    finally:
        tasks = [following] if running is None else [following, running]
        await maps.end(PATIENCE_SECONDS if gracefully else 0)
        if gracefully:
            await distributing.end(PATIENCE_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await distributing.close()
