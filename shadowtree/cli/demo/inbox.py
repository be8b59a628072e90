"""The inboxes of all people in the mail demo: a mail server that accepts and records messages.

`python -m shadowtree.cli.demo.inbox FILE SECONDS` prints `inbox on HOST:PORT`. FILE receives the messages as JSON. Each
message takes about SECONDS, as if written to a slow disk. Recipients at `gone.example` are refused.
"""

from __future__ import annotations

import itertools
import json
import os
import socketserver
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

GONE: Final = "gone.example"
"""Mail domain whose recipients are all refused."""

WAITING_LIMIT: Final = 256
"""Maximum number of connections that wait to be accepted. Postfix opens twenty at once."""


@dataclass(frozen=True, slots=True)
class TakenMessage:
    """A message that was accepted for some people."""

    sender: str
    people: list[str]
    data: str


class InboxReader:
    """Reader of the messages that the inboxes have recorded."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = 0
        self._taken: list[TakenMessage] = []

    def taken(self) -> list[TakenMessage]:
        """Return all messages so far."""
        with self._file.open("rb") as lines:
            lines.seek(self._read)
            whole, end, _ = lines.read().rpartition(b"\n")
        self._read += len(whole) + len(end)
        self._taken += [TakenMessage(**json.loads(line)) for line in whole.splitlines()]
        return self._taken


class Inbox(socketserver.ThreadingTCPServer):
    """The server of all inboxes."""

    request_queue_size = WAITING_LIMIT
    daemon_threads = True

    def __init__(self, file: Path, seconds: float) -> None:
        super().__init__(("127.0.0.1", 0), _InboxSession)
        self._file = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._seconds = itertools.cycle(share * seconds for share in (0.5, 1.0, 1.5, 2.0))

    def take(self, message: TakenMessage) -> None:
        """Record a message."""
        time.sleep(next(self._seconds))
        os.write(self._file, json.dumps(asdict(message)).encode() + b"\n")


class _InboxSession(socketserver.StreamRequestHandler):
    """One connection."""

    server: Inbox

    def handle(self) -> None:
        # The demo kills the gateway, which breaks its connections.
        with suppress(ConnectionError):
            self._talk()

    def _talk(self) -> None:
        self._say("220 inbox")
        sender, people = "", list[str]()
        while line := self.rfile.readline().decode("utf-8", "replace"):
            verb, path = line.split(maxsplit=1)[0].upper(), line.partition("<")[2].rpartition(">")[0]
            match verb:
                case "EHLO":
                    self._say("250-inbox\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 XVERP")
                    continue
                case "MAIL":
                    sender, people = path, []
                case "RCPT" if path.endswith(f"@{GONE}"):
                    self._say("550 5.1.1 nobody is there any more")
                    continue
                case "RCPT":
                    people.append(path)
                case "DATA":
                    self._say("354 go on")
                    self.server.take(TakenMessage(sender, people, self._data()))
                case "QUIT":
                    self._say("221 bye")
                    return
            self._say("250 ok")

    def _data(self) -> str:
        lines = []
        while (line := self.rfile.readline()) not in (b".\r\n", b""):
            lines.append(line.removeprefix(b"."))
        if line == b"":
            raise ConnectionResetError("the message is not whole")
        return b"".join(lines).decode("utf-8", "replace")

    def _say(self, reply: str) -> None:
        self.wfile.write(f"{reply}\r\n".encode())


def main() -> None:
    """Accept messages until the process is killed."""
    inbox = Inbox(Path(sys.argv[1]), float(sys.argv[2]))
    host, port = inbox.server_address[:2]
    sys.stdout.write(f"inbox on {host!s}:{port}\n")
    sys.stdout.flush()
    inbox.serve_forever()


if __name__ == "__main__":
    main()
