"""Message steps of a scenario: the actions of clients, and the answers they get. The text of a message names it.

A text is one word, and each text is sent once. A mailbox is at the home of its process, and has one reader.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from delivery.mailboxes.subscription_read import gap, read
from delivery.model.events import (
    Accepted,
    Acknowledge,
    Answer,
    CloseMailbox,
    CloseParcels,
    DeliveryEvent,
    DeliveryRefused,
    OpenMailbox,
    Send,
    Settled,
    Subscribe,
    Subscribed,
)
from delivery.model.words import MessageContent, Position
from namegraph import NodeId, ServerId, subnet_of
from simulation.cluster.cluster import Cluster, Watcher
from simulation.scenario.schedule import (
    AcknowledgeEverything,
    CloseBox,
    ExpectHanded,
    ExpectSent,
    HandedText,
    Listen,
    OpenBox,
    SendText,
)

FIRST_TICKET = 1_000_000
"""Lowest ticket of message steps, above the numbers of updates."""


@dataclass(slots=True)
class _ProcessReader:
    """The listener of one process."""

    server: ServerId
    mailbox: int
    epoch: int
    position: Position
    """Position through which all messages were handed over."""
    handed: list[HandedText] = field(default_factory=list)


class MessageSteps(Watcher):
    """The senders and listeners of a scenario that runs."""

    def __init__(
        self, cluster: Cluster, take: Callable[[ServerId, DeliveryEvent], None], tell: Callable[[str], None]
    ) -> None:
        """Create the senders and listeners. `take`: lets a server take an event now."""
        self._cluster, self._take, self._tell = cluster, take, tell
        self._ticket = FIRST_TICKET
        self._texts: dict[int, str] = {}
        """Texts by the ticket of their message."""
        self._told: dict[str, str] = {}
        """Last answer to the sender of each text."""
        self._begun: dict[int, Subscribed] = {}
        self._readers: dict[NodeId, _ProcessReader] = {}
        cluster.watcher = self

    def answered(self, server: ServerId, answers: list[Answer]) -> None:
        """Pass answers to senders and listeners."""
        del server
        for answer in answers:
            match answer:
                case Accepted(ticket):
                    self._note(ticket, "accepted")
                case Settled(ticket, _, mailboxes):
                    self._note(ticket, f"settled {mailboxes}")
                case DeliveryRefused(ticket, refusal):
                    self._note(ticket, f"refused {refusal.reason}")
                case Subscribed(ticket):
                    self._begun[ticket] = answer
                case _:
                    pass

    def _note(self, ticket: int, told: str) -> None:
        text = self._texts.get(ticket)
        if text is not None:
            self._told[text] = told
            self._tell(f"    sender of {text}: {told}")

    def do(self, step: SendText | OpenBox | CloseBox | Listen | AcknowledgeEverything) -> None:
        """Let a client take a step."""
        self._ticket += 1
        match step:
            case SendText(text, targets):
                origin = ServerId(subnet_of(targets[0].name))
                self._texts[self._ticket] = text
                self._take(origin, Send(self._ticket, targets, MessageContent(text.encode()), wants_settled=True))
                self._take(origin, CloseParcels())
            case OpenBox(process):
                self._take(_home(process), OpenMailbox(self._ticket, process))
            case CloseBox(process):
                self._take(_home(process), CloseMailbox(self._ticket, process))
                self._readers.pop(process, None)
            case Listen(process):
                self._listen(process)
            case AcknowledgeEverything(process):
                reader = self._readers.get(process)
                if reader is not None:
                    self._take(reader.server, Acknowledge(reader.mailbox, "", reader.epoch, reader.position))

    def _listen(self, process: NodeId) -> None:
        """Hand over all durable messages not handed over yet. A listener whose server has crashed begins again."""
        server, before = _home(process), self._readers.get(process)
        self._take(server, Subscribe(self._ticket, process))
        begun = self._begun.pop(self._ticket, None)
        if begun is None:
            return
        position = begun.cursor if before is None else max(begun.cursor, before.position)
        reader = _ProcessReader(server, begun.mailbox, begun.epoch, position, [] if before is None else before.handed)
        self._readers[process] = reader
        core, log = self._cluster.servers[server].delivery, self._cluster.log_of(server)
        reader.position = gap(position, cut=core.log.cut) or position
        records = [log[entry] for entry in sorted(log)]
        for end, items, _ in read(records, reader.mailbox, core.audiences, after=reader.position):
            for item in items:
                handed = HandedText(item.message.payload.decode(), item.is_late)
                reader.handed.append(handed)
                self._tell(f"    {process} is handed {handed}")
            reader.position = max(reader.position, end)

    def shown(self, expected: ExpectSent | ExpectHanded) -> ExpectSent | ExpectHanded:
        """Return the actual state in the form of an expectation."""
        match expected:
            case ExpectSent(text):
                return ExpectSent(text, self._told.get(text, "waiting"))
            case ExpectHanded(process):
                reader = self._readers.get(process)
                return ExpectHanded(process, () if reader is None else tuple(reader.handed))

    def unsettled(self) -> list[ServerId]:
        """Return the servers with messages that are not settled."""
        return [server for server, core in self._cluster.servers.items() if core.delivery.origin.parcels.unsettled]


def _home(process: NodeId) -> ServerId:
    return ServerId(subnet_of(process))
