"""Mail servers of organisations, in a thread of their own: they can vanish, stall and cut connections, and are back."""

from __future__ import annotations

import asyncio
import random
import re

from shadowtree.cli.support.free_ports import unused_ports
from tests.fakes.loop_in_thread import LoopInThread
from tests.mail_chaos.history import Taken

TRANSACTION_SECONDS = 0.02
"""Seconds from receiving a message to replying, so that transactions are under way when something breaks."""
LINE_LIMIT = 1_000_000

_NAME = re.compile(rb"^Message-ID: <([^@>]+)@", re.M)


class Inbox:
    """The inbox of one organisation. It records what it takes in a history. Its port stays."""

    def __init__(self, organisation, history, *, seed=0, deferred=0.0):
        """Create an inbox. `deferred`: share of people that it refuses for now, by chance."""
        (self.port,) = unused_ports(1)
        self._organisation = organisation
        self._history = history
        self._chance = random.Random(f"{seed} {organisation}")
        self._deferred = deferred
        self._loop = LoopInThread(f"inbox of {organisation}")
        self._server = None
        self._connections = set()
        self.under_way = 0
        """Messages that it has, and has not said so."""

    def __enter__(self):
        self._loop.run(self._begin())
        self.start()
        return self

    def __exit__(self, *_):
        self.vanish()
        self._loop.close()

    def start(self):
        """Take connections."""
        self._loop.run(self._listen())

    def vanish(self):
        """Act as if killed: connections break in the middle, and new ones are refused."""
        self._loop.run(self._close())

    def cut(self):
        """Break all connections; new ones are taken."""
        self._loop.run(self._abort())

    def stall(self):
        """Answer nothing."""
        self._loop.run(self._set(self._goes_on.clear))

    def go_on(self):
        """Answer again."""
        self._loop.run(self._set(self._goes_on.set))

    def hold(self):
        """Say of no message that it was taken."""
        self._loop.run(self._set(self._says_so.clear))

    def let_go(self):
        """Say it."""
        self._loop.run(self._set(self._says_so.set))

    def defer_nobody(self):
        """Refuse no person from now on."""
        self._deferred = 0.0

    async def _begin(self):
        self._goes_on, self._says_so = asyncio.Event(), asyncio.Event()
        self._goes_on.set()
        self._says_so.set()

    async def _set(self, change):
        change()

    async def _listen(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=LINE_LIMIT)

    async def _abort(self):
        for writer in tuple(self._connections):
            writer.transport.abort()

    async def _close(self):
        if self._server is not None:
            self._server.close()
            self._server = None
        await self._abort()
        self._goes_on.set()

    async def _serve(self, reader, writer):
        self._connections.add(writer)
        try:
            await self._converse(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass  # The gateway is gone, or the run has cut the connection.
        finally:
            self._connections.discard(writer)
            writer.close()

    async def _converse(self, reader, writer):
        async def say(text):
            await self._goes_on.wait()
            writer.write(text.encode() + b"\r\n")
            await writer.drain()

        people, last = [], None
        await say("220 inbox")
        while line := (await reader.readline()).decode():
            verb, path = line[:4].upper().rstrip(), line.partition("<")[2].rpartition(">")[0]
            if last is not None:
                # The gateway writes down what became of a transaction before it begins another one.
                last.is_known = last.is_known or verb in ("MAIL", "QUIT")
            if verb == "EHLO":
                await say("250-inbox\r\n250-8BITMIME\r\n250 XVERP")
            elif verb == "MAIL":
                people = []
                await say("250 ok")
            elif verb == "RCPT":
                is_deferred = self._chance.random() < self._deferred
                if not is_deferred:
                    people.append(path)
                await say("451 not now" if is_deferred else "250 ok")
            elif verb == "DATA":
                await say("354 go on")
                data = await reader.readuntil(b"\r\n.\r\n")
                last = Taken(self._organisation, _NAME.search(data)[1].decode(), tuple(people))
                self._history.taken.append(last)
                self.under_way += 1
                try:
                    await asyncio.sleep(TRANSACTION_SECONDS)
                    await self._says_so.wait()
                    await say("250 ok")
                finally:
                    self.under_way -= 1
            elif verb == "QUIT":
                await say("221 bye")
                return
            else:
                await say("250 ok")
