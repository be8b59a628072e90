"""A mail server that takes what a gateway hands over, says of each person what it is told to, and keeps all of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

PATIENCE_SECONDS = 60


@dataclass
class Taken:
    """One transaction that ended well."""

    sender: str
    parameters: list[str]
    people: list[str] = field(default_factory=list)
    data: bytes = b""


class Sink:
    """A mail server on `port`. `replies`: replies at RCPT in place of 250, by person."""

    def __init__(self, *extensions):
        self.extensions = extensions
        self.replies = {}
        self.taken = []
        self.is_gone = False
        self.pause = asyncio.Event()
        self.pause.set()
        """Cleared: ends of messages are not answered."""
        self.waiting = 0

    async def start(self):
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, limit=20_000_000)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    def close(self):
        self._server.close()

    @property
    def people(self):
        """Return all accepted recipients, sorted, as often as they were accepted."""
        return sorted(person for each in self.taken for person in each.people)

    async def until(self, *people):
        """Wait until exactly these were taken."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while self.people != sorted(people):
                await asyncio.sleep(0.005)

    async def _serve(self, reader, writer):
        def say(line):
            writer.write(line.encode() + b"\r\n")

        now = None
        say("421 closed" if self.is_gone else "220 sink")
        while not self.is_gone and (line := (await reader.readline()).decode().rstrip("\r\n")):
            verb = line.partition(" ")[0].upper()
            path = line.partition("<")[2].rpartition(">")[0]
            if verb == "EHLO":
                say("250-sink")
                for extension in self.extensions:
                    say(f"250-{extension}")
                say("250 8BITMIME")
            elif verb == "MAIL":
                now = Taken(path, line.rpartition(">")[2].split())
                say("250 ok")
            elif verb == "RCPT":
                reply = self.replies.get(path, "250 ok")
                if reply.startswith("250"):
                    now.people.append(path)
                say(reply)
            elif verb == "DATA":
                say("354 go on")
                data = (await reader.readuntil(b"\r\n.\r\n"))[:-3]
                now.data = data.replace(b"\r\n..", b"\r\n.")
                self.taken.append(now)
                self.waiting += 1
                await self.pause.wait()
                self.waiting -= 1
                say("250 ok")
            else:
                say("221 bye" if verb == "QUIT" else "250 ok")
                if verb == "QUIT":
                    break
        writer.close()


async def lmtp(port, sender, *recipients, data, parameters="", begin=b"LHLO test\r\n"):
    """Make one transaction. Return the reply to each RCPT, and then to each accepted recipient."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def reply():
        while (line := (await reader.readline()).decode())[3:4] == "-":
            pass
        return line.rstrip("\r\n")

    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await reply()
            writer.write(begin)
            await reply()
            writer.write(f"MAIL FROM:<{sender}>{parameters}\r\n".encode())
            assert (said := await reply()).startswith("250"), said
            found = []
            for recipient in recipients:
                writer.write(f"RCPT TO:<{recipient}>\r\n".encode())
                found.append(await reply())
            taken = [each for each in found if each.startswith("250")]
            writer.write(b"DATA\r\n")
            said = await reply()
            if not said.startswith("354"):
                return [*found, said]
            writer.write(data + b".\r\n")
            return [*found, *[await reply() for _ in taken]]
    finally:
        writer.close()
