"""A Postfix of the tests' own, on loopback, with the settings that `shadowtree mail postfix` prints.

A whole one needs root. Anybody may run `postmap`, which asks maps as Postfix does. `.ci/postfix` installs both.
"""

from __future__ import annotations

import os
import pwd
import shutil
import smtplib
import socketserver
import subprocess
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from pathlib import Path

from shadowtree.cli.support.free_ports import unused_ports

PATIENCE_SECONDS = 60
SBIN = ("/usr/sbin", "/sbin", "/usr/local/sbin")
"""Where Postfix is, though the paths of users lack it."""


def tool(name):
    """The path of one of Postfix's programs; None: it is not installed."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), *SBIN)))


def why_not_whole():
    """Why no whole Postfix can be started here; None: it can."""
    if tool("postfix") is None:
        return "Postfix is not installed (.ci/postfix installs it on Debian): a whole Postfix with the printed settings"
    if os.geteuid() != 0:
        return "only root starts Postfix: a whole Postfix with the printed settings"
    return None


class Inbox(socketserver.ThreadingTCPServer):
    """Takes all mail but for those in `refused`.

    `recipients` has those of each message that was taken, as they were written; `messages` the sender, the recipients
    and the bytes of each.
    """

    request_queue_size = 256
    """Postfix opens a connection for each of twenty people at once: one that does not fit may hang for minutes."""

    allow_reuse_address = True
    daemon_threads = True

    def __init__(self, port):
        self.recipients = []
        self.messages = []
        self.refused = set()
        super().__init__(("127.0.0.1", port), _Session)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def wait_for(self, count):
        """Once so many people have been sent to, all of them, in no order."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while len(self.recipients) < count:
            assert time.monotonic() < deadline, f"{len(self.recipients)} of {count} came"
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


MAIN = """\
compatibility_level = 3.6
queue_directory = {folder}/spool
data_directory = {folder}/data
command_directory = {sbin}
daemon_directory = {daemons}
mail_owner = postfix
setgid_group = postdrop
myhostname = mx.here.example
mydestination = here.example
mynetworks = 127.0.0.0/8
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
alias_maps =
alias_database =
local_recipient_maps =
local_transport = smtp:[127.0.0.1]:{inbox}
default_transport = smtp:[127.0.0.1]:{inbox}
maillog_file = {folder}/log
maillog_file_prefixes = {folder}
"""

MASTER = """\
127.0.0.1:{port} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
lmtp unix - - n - - lmtp
error unix - - n - - error
retry unix - - n - - error
local unix - n n - - local
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
"""


class Postfix:
    """One that runs; `inbox` gets whatever it delivers."""

    def __init__(self, folder, port, inbox):
        self.folder = folder
        self.port = port
        self.inbox = inbox

    def log(self):
        """What it has written."""
        return (self.folder / "log").read_text(errors="replace")

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
    """Start one whose `main.cf` ends with these lines, as they were printed, and `master.cf` with those for it."""
    main, _, master = printed.partition("\n\n")
    # Not in the folder of the test, which other users may not enter.
    folder = Path(tempfile.mkdtemp(prefix="postfix-"))
    folder.chmod(0o755)
    port, inbox_port = unused_ports(2)
    inbox = Inbox(inbox_port)
    try:
        for name in ("etc", "spool", "data"):
            (folder / name).mkdir()
        os.chown(folder / "data", pwd.getpwnam("postfix").pw_uid, -1)
        asked = subprocess.run(
            [tool("postconf"), "-h", "-d", "daemon_directory"], capture_output=True, text=True, check=True
        )
        (folder / "etc/main.cf").write_text(
            MAIN.format(
                folder=folder, sbin=Path(tool("postfix")).parent, daemons=asked.stdout.strip(), inbox=inbox_port
            )
            + main
            + "\n"
        )
        (folder / "etc/master.cf").write_text(MASTER.format(port=port) + master)
        command = [tool("postfix"), "-c", str(folder / "etc")]
        started = subprocess.run([*command, "start"], capture_output=True, text=True, check=False)
        assert started.returncode == 0, started.stderr
        try:
            _wait_for_greeting(port, folder / "log")
            yield Postfix(folder, port, inbox)
        finally:
            subprocess.run([*command, "stop"], capture_output=True, check=True, timeout=PATIENCE_SECONDS)
    finally:
        inbox.shutdown()
        inbox.server_close()
        shutil.rmtree(folder)


def _wait_for_greeting(port, log):
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        assert "fatal" not in (log.read_text() if log.exists() else ""), log.read_text()
        with suppress(OSError, smtplib.SMTPException), smtplib.SMTP("127.0.0.1", port, timeout=1):
            return
    raise AssertionError(f"Postfix took no connection: {log.read_text()}")


def postmap(port, name, key):
    """Ask a map as Postfix does; the status, and what was found or said."""
    asked = subprocess.run(
        [tool("postmap"), "-q", key, f"socketmap:inet:127.0.0.1:{port}:{name}"],
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
