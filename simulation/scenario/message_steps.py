"""What clients of a scenario do with messages, and what they are told: each message is named by its text.

A text is one word, and each is sent once. A mailbox is at the home of its process, and has one reader.
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
from delivery.model.words import Message, Position
from namegraph import NodeId, ServerId, subnet_of
from simulation.cluster.cluster import Cluster, Watcher
from simulation.scenario.schedule import (
    AcknowledgeAll,
    CloseBox,
    ExpectHanded,
    ExpectSent,
    HandedText,
    Listen,
    OpenBox,
    SendText,
)

FIRST_TICKET = 1_000_000
"""Above the numbers of updates."""


@dataclass(slots=True)
class _Reader:
    """Who listens for one process."""

    server: ServerId
    mailbox: int
    epoch: int
    position: Position
    """All through it was handed over."""
    handed: list[HandedText] = field(default_factory=list)


class MessageSteps(Watcher):
    """The senders and listeners of a scenario under way."""

    def __init__(
        self, cluster: Cluster, take: Callable[[ServerId, DeliveryEvent], None], tell: Callable[[str], None]
    ) -> None:
        """`take`: let a server take an event now."""
        self._cluster, self._take, self._tell = cluster, take, tell
        self._ticket = FIRST_TICKET
        self._texts: dict[int, str] = {}
        """By the ticket of what was sent."""
        self._told: dict[str, str] = {}
        """What the sender of a text was told last."""
        self._begun: dict[int, Subscribed] = {}
        self._readers: dict[NodeId, _Reader] = {}
        cluster.watcher = self

    def answered(self, server: ServerId, answers: list[Answer]) -> None:
        """Tell senders and listeners."""
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

    def do(self, step: SendText | OpenBox | CloseBox | Listen | AcknowledgeAll) -> None:
        """Let a client do something."""
        self._ticket += 1
        match step:
            case SendText(text, targets):
                origin = ServerId(subnet_of(targets[0].name))
                self._texts[self._ticket] = text
                self._take(origin, Send(self._ticket, targets, Message(text.encode()), wants_settled=True))
                self._take(origin, CloseParcels())
            case OpenBox(process):
                self._take(_home(process), OpenMailbox(self._ticket, process))
            case CloseBox(process):
                self._take(_home(process), CloseMailbox(self._ticket, process))
                self._readers.pop(process, None)
            case Listen(process):
                self._listen(process)
            case AcknowledgeAll(process):
                reader = self._readers.get(process)
                if reader is not None:
                    self._take(reader.server, Acknowledge(reader.mailbox, "", reader.epoch, reader.position))

    def _listen(self, process: NodeId) -> None:
        """Hand over all that is durable and was not handed over; one whose server has crashed begins again."""
        server, before = _home(process), self._readers.get(process)
        self._take(server, Subscribe(self._ticket, process))
        begun = self._begun.pop(self._ticket, None)
        if begun is None:
            return
        position = begun.cursor if before is None else max(begun.cursor, before.position)
        reader = _Reader(server, begun.mailbox, begun.epoch, position, [] if before is None else before.handed)
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
        """What is so, in the place of what is expected."""
        match expected:
            case ExpectSent(text):
                return ExpectSent(text, self._told.get(text, "waiting"))
            case ExpectHanded(process):
                reader = self._readers.get(process)
                return ExpectHanded(process, () if reader is None else tuple(reader.handed))

    def unsettled(self) -> list[ServerId]:
        """The servers that wait for others to have what was sent."""
        return [server for server, core in self._cluster.servers.items() if core.delivery.origin.unsettled]


def _home(process: NodeId) -> ServerId:
    return ServerId(subnet_of(process))
