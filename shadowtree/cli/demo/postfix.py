"""A private Postfix in a folder, on loopback, with the configuration lines of a gateway. Only root can start it."""

from __future__ import annotations

import os
import shutil
import smtplib
import subprocess
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from shadowtree.cli.support.free_ports import unused_ports

PATIENCE_S: Final = 60
SBIN: Final = ("/usr/sbin", "/sbin", "/usr/local/sbin")
"""Folders of Postfix's programs, which the PATH of users may lack."""

MAIN: Final = """\
compatibility_level = 3.6
queue_directory = {folder}/spool
data_directory = {folder}/data
command_directory = {sbin}
daemon_directory = {daemons}
mail_owner = postfix
setgid_group = postdrop
myhostname = {host}
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

MASTER: Final = """\
127.0.0.1:{port} inet n - n - - smtpd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
flush unix n - n 1000? 0 flush
showq unix n - n - - showq
proxymap unix - - n - - proxymap
smtp unix - - n - - smtp
lmtp unix - - n - - lmtp
error unix - - n - - error
retry unix - - n - - error
local unix - n n - - local
anvil unix - - n - 1 anvil
postlog unix-dgram n - n - 1 postlogd
"""


class PostfixError(Exception):
    """Postfix cannot be started. The message gives the reason."""


@dataclass(frozen=True, slots=True)
class Postfix:
    """A running Postfix."""

    folder: Path
    port: int

    @property
    def stop_command(self) -> str:
        """Shell command that stops it."""
        return f"{_program('postfix')} -c {self.folder / 'etc'} stop"

    def log(self) -> str:
        """Return the contents of its log."""
        log = self.folder / "log"
        return log.read_text(errors="replace") if log.exists() else ""

    def stop(self) -> None:
        """Stop it, and remove its folder."""
        command = [_program("postfix"), "-c", str(self.folder / "etc"), "stop"]
        subprocess.run(command, capture_output=True, check=True, timeout=PATIENCE_S)  # noqa: S603 - a program of the system
        shutil.rmtree(self.folder)


def program(name: str) -> str | None:
    """Return the path of one of Postfix's programs; None if it is not installed."""
    return shutil.which(name, path=os.pathsep.join((os.environ.get("PATH", ""), *SBIN)))


def why_not() -> str | None:
    """Return why Postfix cannot be started here; None if it can."""
    if program("postfix") is None:
        return "Postfix is not installed"
    if os.geteuid() != 0:
        return "only root starts Postfix"
    return None


def start_postfix(
    printed: str, *, inbox_port: int, host: str, port: int | None = None, milter: int | None = None
) -> Postfix:
    """Start a Postfix whose `main.cf` and `master.cf` end with the printed lines. Raises `PostfixError`.

    All mail except list mail goes to `inbox_port`. `host` is the name of the mail server. `port`: port to listen on;
    None for a free port. `milter`: port of a milter for each message; None for no milter.
    """
    import pwd

    if (why := why_not()) is not None:
        raise PostfixError(why)
    main, _, master = printed.partition("\n\n")
    # The folder must be one that the user postfix may enter.
    folder = Path(tempfile.mkdtemp(prefix="postfix-", dir="/tmp"))
    folder.chmod(0o755)
    port = port or unused_ports(1)[0]
    try:
        for name in ("etc", "spool", "data"):
            (folder / name).mkdir()
        os.chown(folder / "data", pwd.getpwnam("postfix").pw_uid, -1)
        asked = subprocess.run(  # noqa: S603 - a program of the system
            [_program("postconf"), "-h", "-d", "daemon_directory"], capture_output=True, text=True, check=True
        )
        values = {"folder": folder, "sbin": Path(_program("postfix")).parent, "daemons": asked.stdout.strip()}
        looked = "" if milter is None else f"smtpd_milters = inet:127.0.0.1:{milter}\n"
        (folder / "etc/main.cf").write_text(f"{MAIN.format(**values, host=host, inbox=inbox_port)}{looked}{main}\n")
        (folder / "etc/master.cf").write_text(MASTER.format(port=port) + master)
        command = [_program("postfix"), "-c", str(folder / "etc"), "start"]
        started = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - of the system
    except BaseException:
        shutil.rmtree(folder)
        raise
    if started.returncode:
        shutil.rmtree(folder)
        raise PostfixError(started.stderr)
    postfix = Postfix(folder, port)
    try:
        _wait_for_greeting(postfix)
    except BaseException:
        postfix.stop()
        raise
    return postfix


def _program(name: str) -> str:
    return program(name) or name


def _wait_for_greeting(postfix: Postfix) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while "fatal" not in postfix.log() and time.monotonic() < deadline:
        with suppress(OSError, smtplib.SMTPException), smtplib.SMTP("127.0.0.1", postfix.port, timeout=1):
            return
    raise PostfixError(f"Postfix took no connection: {postfix.log()}")
