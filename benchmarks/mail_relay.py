"""A mail server that counts its deliveries, and passes messages for lists on by LMTP. So lists in a loop write on.

The server puts a Received field in front of each message, and refuses a message with too many of them, as Postfix does.
"""

from __future__ import annotations

import re
import smtplib
import socketserver
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

RECEIVED = b"Received: by relay\r\n"
PATIENCE_SECONDS = 60


class Relay(socketserver.ThreadingTCPServer):
    """A mail server on a port of its own.

    `lists`: the mail domain that goes to `lmtp_port`, once that is set.
    `hops`: the number of Received fields at which a message is refused.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, lists: str, hops: int) -> None:
        self.copies: Counter[str] = Counter()
        """Number of copies by person."""
        self.refused = 0
        """Number of messages with too many hops."""
        self.lmtp_port: int | None = None
        self._hops = hops
        self._lists = f"@{lists}"
        self._changes = threading.Lock()
        super().__init__(("127.0.0.1", 0), _Session)

    @property
    def port(self) -> int:
        """Port on which it listens."""
        return int(self.server_address[1])

    def take(self, sender: str, recipients: list[str], message: bytes) -> bool:
        """Deliver a message, and pass it on. Return False if the message has too many hops."""
        if hops_of(message) >= self._hops:
            with self._changes:
                self.refused += 1
            return False
        with self._changes:
            self.copies.update(each for each in recipients if not each.endswith(self._lists))
        for name in (each for each in recipients if each.endswith(self._lists)):
            assert self.lmtp_port is not None, name
            with smtplib.LMTP("127.0.0.1", self.lmtp_port, timeout=PATIENCE_SECONDS) as lmtp:
                lmtp.sendmail(sender, name, RECEIVED + message)
        return True


def hops_of(message: bytes) -> int:
    """Return the number of Received fields in the header of a message."""
    header, _, _ = message.partition(b"\r\n\r\n")
    return len(re.findall(rb"^received:", header, re.IGNORECASE | re.MULTILINE))


@contextmanager
def running_relay(lists: str, hops: int) -> Iterator[Relay]:
    """Run a relay until the context ends."""
    with Relay(lists, hops) as relay:
        thread = threading.Thread(target=relay.serve_forever, daemon=True)
        thread.start()
        yield relay
        relay.shutdown()
        thread.join()


class _Session(socketserver.StreamRequestHandler):
    server: Relay

    def handle(self) -> None:
        self._say(b"220 relay")
        sender, recipients = "", []
        while line := self.rfile.readline():
            path = line.decode().partition("<")[2].partition(">")[0]
            reply = b"250 ok"
            match line[:4].upper():
                case b"MAIL":
                    sender, recipients = path, []
                case b"RCPT":
                    recipients.append(path)
                case b"DATA":
                    self._say(b"354 go on")
                    is_taken = self.server.take(sender, recipients, self._message())
                    reply = b"250 ok" if is_taken else b"554 5.4.6 too many hops"
                case b"QUIT":
                    self._say(b"221 bye")
                    return
            self._say(reply)

    def _message(self) -> bytes:
        lines = []
        while (line := self.rfile.readline()).rstrip(b"\r\n") != b".":
            lines.append(line.removeprefix(b"."))
        return b"".join(lines)

    def _say(self, reply: bytes) -> None:
        self.wfile.write(reply + b"\r\n")
