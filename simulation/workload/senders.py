"""Clients that send messages and datagrams to groups.

    client --Send, numbered--> origin --Accepted--> the next one; without an answer, the same once more
    client --Send, a datagram--> origin; it is never sent again

Source: docs/protocol-messages.md, "Accepted, settled, sent again" and "Datagrams".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from delivery.model.events import Accepted, Answer, CloseParcels, DeliveryEvent, DeliveryRefused, Send, Settled
from delivery.model.words import MessageContent, Quality, target_set
from namegraph import ServerId, TargetSet, subnet_of
from simulation.cluster.cluster import Cluster
from simulation.workload.clients import Population

SENT_AT_MOST = 12
"""Limit on the messages of one client."""

CLIENTS_AT_MOST = 3
DATAGRAMS_AT_MOST = 4
"""Limits on the new clients and the datagrams of a burst."""

ASKED_AGAIN_AFTER = 40.0
"""Mean time until a client without an answer asks again."""

TRIES_LIMIT = 40

SEVERAL_TARGETS_SHARE = 0.3
EXCEPTIONS_SHARE = 0.3

SETS_AT_MOST = 4
"""Limit on the target sets of a run. It is low, so that sequences are long."""


@dataclass(slots=True)
class _Sender:
    """A client that numbers its messages. It sends the next message when the last one is accepted."""

    name: str
    targets: TargetSet
    left: int
    number: int = 0
    ticket: int = 0
    tries: int = 0


class SimulatedSenders:
    """All senders of a cluster, and the target sets they send to."""

    def __init__(
        self,
        cluster: Cluster,
        population: Population,
        chance: Random,
        *,
        submit: Callable[[ServerId, DeliveryEvent], None],
        later: Callable[[partial[None], float], None],
        new_ticket: Callable[[], int],
        tally: Counter[str],
    ) -> None:
        """Create the senders. `submit`: brings an event to a server. `later`: runs a call after a delay with the given
        mean.
        """
        self._cluster, self._population, self._chance, self._tally = cluster, population, chance, tally
        self._submit, self._later, self._new_ticket = submit, later, new_ticket
        self.sets: list[TargetSet] = []
        """Target sets of this run."""
        self.sends: dict[int, Send] = {}
        """All messages sent, by ticket."""
        self._waiting: dict[int, _Sender] = {}
        """Senders that wait for an answer, by ticket."""
        self._count = 0
        self._closing_parcels: set[ServerId] = set()

    def choose_sets(self) -> None:
        """Choose the target sets, as far as groups exist by now."""
        chance, groups = self._chance, self._population.groups
        while groups and len(self.sets) < SETS_AT_MOST:
            count = chance.randint(2, 3) if chance.random() < SEVERAL_TARGETS_SHARE else 1
            names = chance.sample(groups, min(count, len(groups)))
            excluding = [chance.choice(groups)] if chance.random() < EXCEPTIONS_SHARE else []
            self.sets.append(target_set(names, excluding))

    def names(self, *, more: int) -> list[str]:
        """Return the names of the present clients, and of `more` future ones."""
        return [_name_of(number) for number in range(1, self._count + 1 + more)]

    def submit_burst(self, spread: float) -> None:
        """Let clients begin to send, and send datagrams, within `spread`."""
        chance = self._chance
        for _ in range(chance.randint(0, CLIENTS_AT_MOST)):
            self._later(partial(self._send_next, self._new_sender(chance.choice(self.sets))), spread)
        for _ in range(chance.randint(0, DATAGRAMS_AT_MOST) if self.sets else 0):
            self._later(partial(self._send_datagram, chance.choice(self.sets)), spread)

    def send_before_told(self, server: ServerId) -> None:
        """Let clients send at once to a server that does not know yet that it has gone back."""
        for targets in self.sets:
            if ServerId(subnet_of(targets[0].name)) == server:
                self._send_next(self._new_sender(targets))

    def pass_on(self, origin: ServerId, send: Send) -> None:
        """Bring a message of another client to its origin."""
        self.sends[send.ticket] = send
        self._reach_origin(origin, send)

    def answered(self, answer: Answer) -> None:
        """Take the answer of an origin."""
        match answer:
            case Accepted(ticket):
                sender = self._waiting.pop(ticket, None)
                if sender is not None:
                    self._tally["accepted"] += 1
                    self._later(partial(self._send_next, sender), self._chance.choice([0.0, 1.0, 20.0]))
            case Settled():
                self._tally["settled"] += 1
            case DeliveryRefused(ticket):
                self._waiting.pop(ticket, None)
            case _:
                pass

    def _new_sender(self, targets: TargetSet) -> _Sender:
        self._count += 1
        return _Sender(_name_of(self._count), targets, self._chance.randint(1, SENT_AT_MOST))

    def _send_next(self, sender: _Sender) -> None:
        if sender.left:
            sender.left -= 1
            sender.number += 1
            sender.tries = 0
            self._send(sender)

    def _send(self, sender: _Sender) -> None:
        sender.tries += 1
        if sender.tries > TRIES_LIMIT:
            self._tally["given up"] += 1
            return
        self._waiting.pop(sender.ticket, None)
        sender.ticket = self._new_ticket()
        self._waiting[sender.ticket] = sender
        payload = f"{sender.name} {sender.number}".encode()
        message = MessageContent(payload, sender=sender.name)
        send = Send(sender.ticket, sender.targets, message, number=sender.number, wants_settled=True)
        origin = ServerId(subnet_of(sender.targets[0].name))
        self.sends[send.ticket] = send
        self._later(partial(self._reach_origin, origin, send), 1.0)
        self._later(partial(self._send_again, sender, sender.ticket), ASKED_AGAIN_AFTER)

    def _send_again(self, sender: _Sender, ticket: int) -> None:
        if sender.ticket == ticket and ticket in self._waiting:
            self._send(sender)

    def _reach_origin(self, origin: ServerId, send: Send) -> None:
        """Bring a message to its origin, even to one that has not been told yet that it has gone back."""
        self._cluster.network.put(origin, send, delay=0.0)
        self._close_parcels_soon(origin)

    def _close_parcels_soon(self, server: ServerId) -> None:
        if server not in self._closing_parcels:
            self._closing_parcels.add(server)
            self._later(partial(self._close_parcels, server), self._chance.choice([0.0, 1.0, 5.0]))

    def _close_parcels(self, server: ServerId) -> None:
        self._closing_parcels.discard(server)
        self._submit(server, CloseParcels())

    def _send_datagram(self, targets: TargetSet) -> None:
        ticket = self._new_ticket()
        send = Send(ticket, targets, MessageContent(f"datagram {ticket}".encode()), Quality.DATAGRAM)
        self.sends[ticket] = send
        self._submit(ServerId(subnet_of(targets[0].name)), send)


def _name_of(number: int) -> str:
    return f"client{number}"
