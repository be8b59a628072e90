"""The mail gateways of the demo and their inboxes, each in its own process, with a folder for each gateway."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import click

from shadowtree.cli.demo.inbox import InboxReader, TakenMessage
from shadowtree.cli.demo.letters import MAIL_SERVER
from shadowtree.cli.demo.processes import DemoProcess
from shadowtree.cli.support.free_ports import unused_ports

ORGANISATIONS: Final = ("ubc", "sfu", "uvic")
"""Organisations. Each has the subnet `NAME.example` and the mail domain `lists.NAME.example`."""
DOMAIN: Final = "lists.ubc.example"

LONGEST_WAIT_S: Final = 60
"""Maximum wait in seconds, so that a tour always ends. A longer delay is an error."""

PAUSE_S: Final = 0.05

SECONDS_OF_A_TRANSACTION: Final = 0.1
"""Duration of an SMTP transaction. It leaves time to kill a gateway before the gateway is done."""

SETTINGS: Final = """\
server = "{server}"
maps_listen = "127.0.0.1:{maps}"
policy_listen = "127.0.0.1:{policy}"
lmtp_listen = "127.0.0.1:{lmtp}"
smtp = "127.0.0.1:{smtp}"
database = "sqlite:///{folder}/mail.db"
authserv_id = "{mail_server}"

[domains]
"{domain}" = "{subnet}"

[defaults]
fanout = "shares"
"""


@dataclass(frozen=True, slots=True)
class OrganisationPart:
    """State of the share of one organisation, as the gateway reports it."""

    server: str
    state: str
    people: int
    done: int
    why: str


@dataclass(frozen=True, slots=True)
class QueuedMail:
    """State of a message, as the gateway reports it."""

    id: str
    state: str
    people: int
    done: int
    bounced: int
    why: str
    shares: tuple[OrganisationPart, ...] = ()


class MailGateway:
    """One gateway, and the inboxes that receive its copies."""

    def __init__(self, name: str, folder: Path, server: str, *, smtp_port: int | None) -> None:
        """Write the settings, and start the inboxes.

        `smtp_port`: port of a mail server in between; None if there is none.
        """
        self.name = name
        self.subnet, self.domain = f"{name}.example", f"lists.{name}.example"
        folder.mkdir()
        self.folder = folder
        letters = folder / "inbox.jsonl"
        self._letters = InboxReader(letters)
        seconds = SECONDS_OF_A_TRANSACTION if smtp_port is None else 0.0
        self.inbox = DemoProcess.launch(folder, "inbox", ["shadowtree.cli.demo.inbox", str(letters), f"{seconds}"])
        self.inbox_port = int(self.inbox.first_line().rpartition(":")[2])
        self.settings = folder / "mail.toml"
        maps, policy, self.lmtp_port = unused_ports(3)
        self.settings.write_text(
            SETTINGS.format(
                server=server,
                maps=maps,
                policy=policy,
                lmtp=self.lmtp_port,
                smtp=smtp_port or self.inbox_port,
                folder=folder,
                mail_server=MAIL_SERVER,
                domain=self.domain,
                subnet=self.subnet,
            ),
            encoding="utf-8",
        )
        self._gateway: DemoProcess | None = None
        self._milter: DemoProcess | None = None

    @property
    def pid(self) -> int:
        """Process id of the gateway."""
        return self._running.pid

    @property
    def pids(self) -> list[int]:
        """Process ids of the gateway, of the inboxes and of the milter."""
        return [self.pid, self.inbox.pid, *([] if self._milter is None else [self._milter.pid])]

    @property
    def _running(self) -> DemoProcess:
        if self._gateway is None:
            raise click.ClickException("the gateway does not run")
        return self._gateway

    def start(self) -> str:
        """Start the gateway with its existing database, if any; return its first line of output."""
        arguments = ["shadowtree", "mail", "serve", "--config", str(self.settings)]
        self._gateway = DemoProcess.launch(self.folder, "gateway", arguments)
        return self._gateway.first_line()

    def start_milter(self) -> int:
        """Start the milter that confirms to a Postfix the author of a letter; return its port."""
        self._milter = DemoProcess.launch(self.folder, "milter", ["shadowtree.cli.demo.milter"])
        return int(self._milter.first_line().rpartition(":")[2])

    def kill(self) -> None:
        """Kill the gateway, like a crash."""
        self._running.kill()

    def stop(self) -> None:
        """End the gateway, the inboxes and the milter."""
        for process in (self._gateway, self.inbox, self._milter):
            if process is not None:
                process.stop()

    def printed(self) -> str:
        """Return the output of `mail postfix`."""
        return self._run("postfix")

    def tell(self, *arguments: str) -> list[QueuedMail]:
        """Return the answer of the running gateway to one of its commands."""
        told: list[dict[str, Any]] = json.loads(self._run(*arguments, "--format", "json"))["messages"]
        return [
            QueuedMail(
                each["id"],
                each["state"],
                each["people"],
                each["done"],
                each["bounced"],
                next((share["why"] for share in each["shares"] if share["why"]), ""),
                tuple(
                    OrganisationPart(*(share[key] for key in ("server", "state", "people", "done", "why")))
                    for share in each["shares"]
                ),
            )
            for each in told
        ]

    def _run(self, *arguments: str) -> str:
        command = [sys.executable, "-m", "shadowtree", "mail", *arguments, "--config", str(self.settings)]
        found = subprocess.run(  # noqa: S603 - our own program
            command, capture_output=True, text=True, check=False, cwd=self.folder
        )
        if found.returncode:
            raise click.ClickException(found.stderr.strip().removeprefix("shadowtree: "))
        return found.stdout

    def copies(self, subject: str) -> list[TakenMessage]:
        """Return the copies in the inboxes of letters with a subject."""
        pattern = re.compile(rf"^Subject: .*{re.escape(subject)}\r?$", re.M)
        return [each for each in self._letters.taken() if pattern.search(each.data.partition("\r\n\r\n")[0])]

    def wait_until_done(self, id_: str) -> QueuedMail:
        """Return the state of a message once the gateway has finished it."""
        deadline = time.monotonic() + LONGEST_WAIT_S
        while (told := self.tell("queue", id_)[0]).state not in ("done", "dropped"):
            if time.monotonic() > deadline:
                raise click.ClickException(f"the message {id_} is not done within {LONGEST_WAIT_S} s: {told.why}")
            time.sleep(PAUSE_S)
        return told


class MailGateways:
    """The gateways of all organisations. The first one takes the letters of the tour."""

    def __init__(self, every: Sequence[MailGateway]) -> None:
        self.all = tuple(every)

    @property
    def first(self) -> MailGateway:
        """Gateway of the organisation whose lists get the letters."""
        return self.all[0]

    def copies(self, subject: str) -> list[TakenMessage]:
        """Return the copies in all inboxes of letters with a subject."""
        return [copy for gateway in self.all for copy in gateway.copies(subject)]

    def wait_for(self, subject: str, count: int) -> list[TakenMessage]:
        """Return the copies of a letter once `count` people have one."""
        deadline = time.monotonic() + LONGEST_WAIT_S
        while True:
            copies = self.copies(subject)
            if len({person for each in copies for person in each.people}) >= count:
                return copies
            if time.monotonic() > deadline:
                raise click.ClickException(f"not all of {count:,} people got {subject!r} within {LONGEST_WAIT_S} s")
            time.sleep(PAUSE_S)
