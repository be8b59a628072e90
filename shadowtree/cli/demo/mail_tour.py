"""The tour of mailing lists: its letters, their order and its explanations. Figures come from the inboxes."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from email import message_from_bytes
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import click

from shadowtree.cli.demo.inbox import GONE, TakenMessage
from shadowtree.cli.demo.letters import AUTHOR, MAIL_SERVER, How, letter, post
from shadowtree.cli.demo.mail_gateway import DOMAIN, LONGEST_WAIT_S, ORGANISATIONS, PAUSE_S, MailGateways, QueuedMail
from shadowtree.cli.demo.screen import Screen
from shadowtree.cli.demo.servers import DemoServers, command_of
from shadowtree.updates import Arc
from shadowtree.vocabulary import GroupId, MemberId

if TYPE_CHECKING:
    from shadowtree.client.synchronous.client import Client

ALL: Final[GroupId] = "all@ubc.example"
LAB: Final[GroupId] = "lab@sfu.example"
CHOIR: Final[GroupId] = "choir@uvic.example"
NEWS: Final[GroupId] = "news@ubc.example"
OWNERS: Final[GroupId] = "all+owners@ubc.example"
SUBNETS: Final = tuple(f"{name}.example" for name in ORGANISATIONS)

OWNER: Final[MemberId] = "chair@people.example"
NOBODY: Final[MemberId] = f"pat@{GONE}"
LOOP: Final = (ALL, LAB, CHOIR, ALL)
PEOPLE: Final = {ALL: ("staff", 500), LAB: ("student", 400), CHOIR: ("singer", 300), NEWS: ("reader", 200)}
"""For each list, the name and the number of its own people."""

IN_LOOP: Final = 1_200
READERS: Final = 1_400
SOME: Final = 400
"""Number of people who have the letter when the gateway is killed."""
AWAY: Final = 2
"""Index of the organisation that is away for a while."""


class MailTour:
    """Tour of mailing lists on running name servers."""

    def __init__(self, screen: Screen, names: Client, servers: DemoServers, gateways: MailGateways) -> None:
        self._screen = screen
        self._names = names
        self._servers = servers
        self._gateways = gateways
        self._gateway = gateways.first
        self._port = self._gateway.lmtp_port
        self._how: How = "lmtp"

    def goes_through_postfix(self, port: int) -> None:
        """Send the letters to a Postfix at this port."""
        self._port, self._how = port, "smtp"

    def fill(self) -> None:
        """Create the groups."""
        screen = self._screen
        screen.heading("Lists in lists, over three servers, in a loop")
        screen.say(
            "Every group is a mailing list. Its members are people and other groups, those of other organisations too. "
            "Here the last group of a chain has the first one as a member, so all reach the same people:"
        )
        nested = [*pairwise(LOOP), (NEWS, LAB)]
        for parent, child in nested:
            screen.command(f"join {parent} {child}")
        self._names.import_arcs([*(Arc(parent, child, "group") for parent, child in nested), *_people()])
        for group in (ALL, NEWS):
            screen.command(f"resolve {group}")
            screen.answer(f"{len(self._names.resolve(group).processes):,} people")

    def run(self) -> None:
        """Send letters, and show the copies that arrive."""
        self._until_all_listen()
        self._to_two_lists()
        self._somebody_is_gone()
        self._one_is_away()
        self._forged()
        self._killed()

    def _to_two_lists(self) -> None:
        screen, subject = self._screen, "Lunch on Friday"
        screen.heading("One letter to two lists")
        screen.say("Ann, who is in the first list, writes to both; everybody in the loop is in both of them.")
        self._send(subject, ALL, NEWS)
        copies = self._gateways.wait_for(subject, READERS - 1)
        self._count(copies)
        screen.say(
            "The letter went once to each organisation, whose own gateway handed it to its own people: no name of "
            "anybody was told to the others."
        )
        screen.answer(*(self._handed_by(subject)))
        copy = next(each for each in copies if any(person.startswith("reader") for person in each.people))
        screen.say("In front of a copy stands what list it is of, and the rest is as Ann wrote it. That of a reader:")
        screen.answer(*_fields(copy, "List-Id", "List-Post", "Precedence", "From", "Subject"))
        screen.say("Who cannot be reached is reported to a return path that names letter and person:")
        screen.answer(f"MAIL FROM:<{copy.sender}>")

    def _somebody_is_gone(self) -> None:
        screen = self._screen
        screen.heading("What the gateway knows of it")
        screen.say(
            f"It has written down who got the letter. {NOBODY} is not there any more, which a mail server has said for "
            "good: that is counted, and nobody is written to."
        )
        id_ = _id_of(self._gateway.copies("Lunch on Friday")[0])
        screen.command(f"mail queue {id_} --config ubc/mail.toml")
        self._show(self._until_bounced(id_))

    def _one_is_away(self) -> None:
        screen, server, subject = self._screen, self._servers.all[AWAY], "The choir sings tonight"
        screen.heading("An organisation is away")
        screen.literal(f"kill -9 {server.process.pid}")
        server.process.kill()
        there = IN_LOOP - PEOPLE[CHOIR][1]
        self._send(subject, ALL)
        copies = self._gateways.wait_for(subject, there)
        self._count(copies)
        screen.command(f"mail queue {_id_of(copies[0])} --config ubc/mail.toml")
        self._show(self._until_named(_id_of(copies[0]), server.name))
        screen.say("Its name server is started again, and its people get what waited for them:")
        screen.command(command_of(server.name))
        self._servers.start_again(server)
        self._count(self._gateways.wait_for(subject, IN_LOOP))

    def _until_named(self, id_: str, name: str) -> QueuedMail:
        """Return the state of a letter once the gateway knows that the share of a server waits."""
        deadline = time.monotonic() + LONGEST_WAIT_S
        while True:
            (told,) = self._gateway.tell("queue", id_)
            if any(share.server.startswith(name) and share.state == "waiting" for share in told.shares):
                return told
            if time.monotonic() > deadline:
                raise click.ClickException(f"no share of {name} waits: {told}")
            time.sleep(PAUSE_S)

    def _until_all_listen(self) -> None:
        """Wait until every gateway listens. From then on each gateway is sent its share."""
        deadline = time.monotonic() + LONGEST_WAIT_S
        while not all(self._listens(subnet) for subnet in SUBNETS):
            if time.monotonic() > deadline:
                raise click.ClickException(f"not all gateways listen within {LONGEST_WAIT_S} s")
            time.sleep(PAUSE_S)

    def _listens(self, subnet: str) -> bool:
        return any(each.is_listening for mailbox in self._names.mailboxes(subnet) for each in mailbox)

    def _handed_by(self, subject: str) -> Iterator[str]:
        for gateway in self._gateways.all:
            yield f"{len(_people_of(gateway.copies(subject))):>5,} by {gateway.domain}"

    def _forged(self) -> None:
        screen, subject = self._screen, "I have a new address"
        screen.heading("A letter that Ann did not write")
        screen.say(
            f"From says Ann, and a field says that a mail server has confirmed it; but not {MAIL_SERVER}, which is "
            "the one that counts here. Members alone may post to the first list, so the letter is held, and nobody but "
            "the owner of the list is told:"
        )
        forged = "mx.elsewhere.example; dmarc=pass header.from=people.example"
        self._send(subject, ALL, results=forged)
        (note,) = self._gateways.wait_for(f"{ALL}: 1 held", 1)
        text = bytes(message_from_bytes(note.data.encode()).get_payload(decode=True)).decode()
        screen.answer(f"to {', '.join(note.people)}:", *text.splitlines()[:3])
        screen.command("mail held --config ubc/mail.toml")
        (held,) = self._gateway.tell("held")
        self._show(held)
        screen.say("Nobody has it. Suppose that it was Ann after all, and the owner knows:")
        screen.command(f"mail approve {held.id} --config ubc/mail.toml")
        self._gateway.tell("approve", held.id)
        self._count(self._gateways.wait_for(subject, IN_LOOP))

    def _killed(self) -> None:
        screen, gateway, subject = self._screen, self._gateway, "The results are there"
        screen.heading("A gateway is killed in the middle")
        self._send(subject, NEWS)
        self._gateways.wait_for(subject, SOME)
        screen.literal(f"kill -9 {gateway.pid}")
        gateway.kill()
        screen.answer(f"{len(_people_of(self._gateways.copies(subject))):,} people have it")
        screen.say("It is started again, and goes on where it was:")
        screen.command(f"mail serve --config {gateway.name}/mail.toml")
        screen.answer(gateway.start())
        copies = self._gateways.wait_for(subject, READERS - 1)
        told = gateway.wait_until_done(_id_of(copies[0]))
        self._count(self._gateways.copies(subject))
        self._show(told)
        screen.say(
            "Nobody is left out. Who has it twice was in a transaction whose reply the gateway did not live to write "
            "down: at most four of 200 people, for SMTP has no way to ask."
        )

    def _send(self, subject: str, *groups: GroupId, **more: str) -> None:
        lists = [f"{group.partition('@')[0]}@{DOMAIN}" for group in groups]
        with self._screen.timed() as watch:
            post(self._how, self._port, letter(*lists, subject=subject, **more), AUTHOR, *lists)
        self._screen.answer(
            f"From: Ann <{AUTHOR}>",
            f"To: {', '.join(lists)}",
            f"Subject: {subject}",
            f"... it is safe on disk, after {watch}",
        )

    def _until_bounced(self, id_: str) -> QueuedMail:
        deadline = time.monotonic() + LONGEST_WAIT_S
        while not (told := self._gateway.wait_until_done(id_)).bounced:
            if time.monotonic() > deadline:
                raise click.ClickException(f"no report about {NOBODY} came back within {LONGEST_WAIT_S} s")
            time.sleep(PAUSE_S)
        return told

    def _show(self, told: QueuedMail) -> None:
        line = f"{told.state}: {told.done:,} of {told.people:,} people, {told.bounced} bounced"
        lines = [f"{line}: {told.why}" if told.why and len(told.shares) == 1 else line]
        for share in told.shares if len(told.shares) > 1 else ():
            why = f": {share.why}" if share.why else ""
            lines.append(f"  {share.server:<18} {share.state}: {share.done:,} of {share.people:,}{why}")
        self._screen.answer(*lines)

    def _count(self, copies: Sequence[TakenMessage]) -> None:
        times = Counter(_people_of(copies).values())
        told = [f"{times[1]:,} people got it once"]
        told += [f"{count:,} got it {number} times" for number, count in sorted(times.items()) if number > 1]
        self._screen.answer(f"{', '.join(told)}, in {len(copies):,} transactions")


def _people() -> Iterator[Arc]:
    for group, (name, count) in PEOPLE.items():
        # The first person of each list is one whom the tour names.
        for number in range(2, count + 1):
            yield Arc(group, f"{name}-{number}@{group.partition('@')[2]}", "process")
    yield Arc(ALL, AUTHOR, "process")
    yield Arc(LAB, "student-1@sfu.example", "process")
    yield Arc(CHOIR, "singer-1@uvic.example", "process")
    yield Arc(NEWS, NOBODY, "process")
    yield Arc(OWNERS, OWNER, "process")


def _people_of(copies: Sequence[TakenMessage]) -> Counter[str]:
    """Return the number of copies that each person got."""
    return Counter(person for copy in copies for person in copy.people)


def _fields(copy: TakenMessage, *names: str) -> list[str]:
    lines = copy.data.partition("\r\n\r\n")[0].splitlines()
    return [line for name in names for line in lines if line.startswith(f"{name}: ")]


def _id_of(copy: TakenMessage) -> str:
    """Return the gateway's id of the letter, from its trace field."""
    (trace,) = _fields(copy, "Shadowtree-Trace")
    return trace.split()[1].rstrip(";")
