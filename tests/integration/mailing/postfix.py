"""A Postfix of the tests' own, on loopback, with the settings that `shadowtree mail postfix` prints.

A whole Postfix needs root. Any user may run `postmap`, which asks maps as Postfix does. `.ci/programs` installs both.
"""

from __future__ import annotations

import smtplib
import socketserver
import subprocess
import threading
import time
from contextlib import contextmanager

from shadowtree.cli.demo.milter import Milter
from shadowtree.cli.demo.postfix import program, start_postfix, why_not
from shadowtree.cli.support.free_ports import unused_ports
from tests.integration.nameserver.server_process import LOOK_SECONDS

PATIENCE_SECONDS = 60


def why_not_whole():
    """Why no whole Postfix can be started here; None: it can."""
    why = why_not()
    return why and f"{why} (.ci/programs installs it on Debian): a whole Postfix with the printed settings"


class Inbox(socketserver.ThreadingTCPServer):
    """Takes all mail but for those in `refused`.

    `recipients` has those of each message that was taken, as they were written; `messages` the sender, the recipients
    and the bytes of each.
    """

    request_queue_size = 256
    """Postfix opens a connection for each of twenty people at once. A connection beyond the queue may hang for
    minutes.
    """

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port):
        self.recipients = []
        self.messages = []
        self.refused = set()
        super().__init__(("127.0.0.1", port), _Session)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def wait_for(self, count):
        """Wait until this number of people have been sent to. Return all of them, in no order."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.recipients) < count:
            assert time.monotonic() < deadline, f"{len(self.recipients)} of {count} came"
            time.sleep(LOOK_SECONDS)
        return list(self.recipients)


class _Session(socketserver.StreamRequestHandler):
    def handle(self):
        self._say(b"220 inbox")
        sender, recipients = "", []
        while line := self.rfile.readline():
            verb, reply = line.rstrip().upper(), b"250 ok"
            path = line.decode().partition("<")[2].rpartition(">")[0]
            if verb.startswith(b"MAIL"):
                sender, recipients = path, []
            elif verb.startswith(b"RCPT TO:<"):
                if path in self.server.refused:
                    reply = b"550 5.1.1 there is nobody of that name"
                else:
                    recipients.append(path)
            elif verb == b"DATA":
                self._say(b"354 go on")
                lines = []
                while (content := self.rfile.readline()).rstrip(b"\r\n") != b".":
                    lines.append(content.removeprefix(b"."))
                self.server.messages.append((sender, recipients, b"".join(lines)))
                self.server.recipients += recipients
            self._say(b"221 bye" if verb == b"QUIT" else reply)
            if verb == b"QUIT":
                return

    def _say(self, line):
        self.wfile.write(line + b"\r\n")


class Postfix:
    """A running Postfix. `inbox` gets all mail that it delivers."""

    def __init__(self, started, inbox):
        self.port = started.port
        self.log = started.log
        self.inbox = inbox

    def send(self, sender, *recipients, data=b"Subject: a test\r\n\r\nHello.\r\n"):
        """Send one message; the status and text of each recipient's reply."""
        with smtplib.SMTP("127.0.0.1", self.port, timeout=PATIENCE_SECONDS) as smtp:
            smtp.ehlo()
            smtp.mail(sender)
            replies = [smtp.docmd("RCPT", f"TO:<{recipient}>") for recipient in recipients]
            if any(code == 250 for code, _ in replies):
                assert smtp.data(data)[0] == 250, self.log()
        return [(code, text.decode()) for code, text in replies]


@contextmanager
def running_postfix(printed):
    """Start one whose `main.cf` ends with these lines, as they were printed, and `master.cf` with those for it.

    Its milter writes what a message asks for in `Demo-Results`.
    """
    (inbox_port,) = unused_ports(1)
    inbox, milter = Inbox(inbox_port), Milter()
    try:
        started = start_postfix(printed, inbox_port=inbox_port, host="mx.here.example", milter=milter.port)
        try:
            yield Postfix(started, inbox)
        finally:
            started.stop()
    finally:
        milter.close()
        inbox.shutdown()
        inbox.server_close()


def postmap(port, name, key):
    """Ask a map as Postfix does; the status, and what was found or said."""
    asked = subprocess.run(
        [program("postmap"), "-q", key, f"socketmap:inet:127.0.0.1:{port}:{name}"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    if asked.returncode == 0:
        return "OK", asked.stdout.rstrip("\n")
    if not asked.stderr:
        return "NOTFOUND", ""
    status = "TEMP" if "temporary error" in asked.stderr else "PERM"
    return status, asked.stderr
