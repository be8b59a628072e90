"""A cluster of real cores in one process, on disks and over a network that are simulated.

Two runs over networks that behave alike, with the same chances, are the same, message for message.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from random import Random

from namegraph.events import (
    Effects,
    Event,
    Outcome,
    PeerLetter,
    PeerMessage,
    PeerMet,
    PeerReceived,
    Reply,
    Tick,
    UpdateCommand,
)
from namegraph.messages import Message, UpdateId, decode
from namegraph.names import ServerId, Subnet
from namegraph.priorities import Priority
from namegraph.server_core import ServerCore
from simulation.conversation import update_of
from simulation.disk import Disk
from simulation.networks import Arrival, Errand, Network, Sent

STEPS_LIMIT = 200_000
"""A burst that takes more steps than this never ends."""

RESTARTS_LIMIT = 20
"""Of one burst: each restart sends letters again, so that with many of them restarts would breed restarts."""

LOST_STEPS_SHARE = 0.5
"""Of crashes, those before the step's records are durable."""


class NeverEndsError(AssertionError):
    """The servers go on sending messages."""


@dataclass(frozen=True, slots=True)
class Restart:
    """A server crashed and started again."""

    server: ServerId


class Cluster:
    """Servers, their disks, and what is under way between them."""

    def __init__(
        self,
        subnets: Sequence[Subnet],
        network: Network,
        *,
        crashes: Random | None = None,
        restart_share: float = 0.0,
    ) -> None:
        """One server for each subnet, named after it.

        `restart_share`: of all steps, those at which the server crashes and starts again, before or after what the
        step changes is durable, as `crashes` has it.
        """
        self.subnets = tuple(subnets)
        self.network = network
        self.servers: dict[ServerId, ServerCore] = {}
        self.answers: dict[int, Outcome] = {}
        self.places: dict[int, Priority] = {}
        """Where in the order of updates each answer was decided."""
        self.decided: dict[Priority, None] = {}
        """The places of all durable answers, in the order of time; a crash may have kept one from its caller."""
        self.sent: list[Sent] = []
        self.history: list[Arrival | Restart] = []
        """All that was taken, in order, and which server crashed when."""
        self.restarts = 0
        self._restarts_left = 0
        self._disks: dict[ServerId, Disk] = {}
        self._crashes = crashes
        self._restart_share = restart_share
        self._armed: dict[ServerId, float] = {}
        self._asking: dict[int, tuple[ServerId, UpdateCommand]] = {}
        """Commands that were taken and not answered, by ticket."""
        self._tickets: dict[UpdateId, int] = {}
        for subnet in subnets:
            server = ServerId(subnet)
            self._disks[server] = Disk(server)
            self._start(server)

    @property
    def now(self) -> float:
        """The time of the last step."""
        return self.network.now

    def submit(self, server: ServerId, command: UpdateCommand, *, delay: float = 0.0) -> None:
        """Let a client ask a server, some time from now."""
        self.network.put(server, command, delay=delay)

    def send_errand(self, server: ServerId, errand: Errand, *, delay: float) -> None:
        """Let something happen at a server, some time from now."""
        self.network.put(server, errand, delay=delay)

    def run(self, after_step: Callable[[], None] | None = None) -> None:
        """Go on until nothing is under way; raises `NeverEndsError`."""
        steps = 0
        self._restarts_left = RESTARTS_LIMIT if self._restart_share else 0
        while (arrival := self.network.next()) is not None:
            steps += 1
            if steps > STEPS_LIMIT:
                raise NeverEndsError(f"the servers go on after {steps} steps")
            self.take(arrival)
            if after_step is not None and not isinstance(arrival.event, Errand):
                after_step()

    def restart_all(self) -> None:
        """Let every server start again from its disk."""
        for server in self.servers:
            self.restart(server)

    def take(self, arrival: Arrival) -> None:
        """Let a server take what arrived."""
        server, event = arrival.server, arrival.event
        if isinstance(event, Errand):
            event.run()
            return
        if isinstance(event, UpdateCommand):
            self._asking[event.ticket] = (server, event)
        crashes = self._restarts_left > 0 and self._chance_of(self._restart_share)
        if crashes and self._chance_of(LOST_STEPS_SHARE):
            # The step is taken, but nothing of it becomes durable.
            replies = self.servers[server].step(event, self.now).replies
            self._answer([reply for reply in replies if reply.is_confirmed])
            self.restart(server)
            return
        self.history.append(arrival)
        effects = self.servers[server].step(event, self.now)
        self._disks[server].write(effects.records)
        self._note_places(effects.replies)
        self._name_updates(server, event)
        if crashes:
            self.restart(server)
            return
        self._let_out(server, effects)
        if isinstance(event, PeerMessage):
            receipt = PeerReceived(server, self.servers[server].channels.handled_through(event.sender))
            self.network.put(event.sender, receipt, delay=self._some_time())

    def ticket_of(self, message: Message) -> int | None:
        """The ticket of the command that a message carries out."""
        update_id = update_of(message)
        return None if update_id is None else self._tickets.get(update_id)

    def restart(self, server: ServerId) -> None:
        """Crash, start again, and connect again: what was not received is sent again, and clients ask again."""
        self.history.append(Restart(server))
        self.restarts += 1
        self._restarts_left -= 1
        self._start(server)
        core = self.servers[server]
        others = [other for other in self.servers if other != server]
        for other in others:
            self.network.lose(server, other)
        effects = core.step(Tick(), self.now)
        self._disks[server].write(effects.records)
        for reply in effects.replies:
            assert reply.ticket not in self._asking, "nobody waits at a server that starts"
        for other in others:
            for sender, receiver in ((server, other), (other, server)):
                through = self.servers[receiver].channels.handled_through(sender)
                self._disks[sender].write(self.servers[sender].step(PeerReceived(receiver, through), self.now).records)
                for letter in self.servers[sender].channels.kept(receiver):
                    self._send(sender, letter)
        for asked_at, command in list(self._asking.values()):
            if asked_at == server:
                del self._asking[command.ticket]
                self.network.put(server, command, delay=self._some_time())

    def _let_out(self, server: ServerId, effects: Effects) -> None:
        for letter in effects.messages:
            self._send(server, letter)
        self._answer(effects.replies)
        self._arm(server)

    def _note_places(self, replies: Iterable[Reply]) -> None:
        self.decided.update((reply.place, None) for reply in replies if reply.place is not None)

    def _answer(self, replies: Iterable[Reply]) -> None:
        self._note_places(replies)
        for reply in replies:
            assert reply.ticket not in self.answers, "a caller is answered once"
            self._asking.pop(reply.ticket, None)
            self.answers[reply.ticket] = reply.outcome
            if reply.place is not None:
                self.places[reply.ticket] = reply.place

    def _start(self, server: ServerId) -> None:
        own = Subnet(server)
        peers = {subnet: f"{subnet}:7400" for subnet in self.subnets if subnet != own}
        core = self.servers[server] = ServerCore.restore(self._disks[server].read(), subnets=[own], peers=peers)
        self._armed.pop(server, None)
        for subnet in peers:
            self._disks[server].write(core.step(PeerMet(ServerId(subnet), (subnet,)), self.now).records)

    def counts(self) -> Counter[str]:
        """How many messages of each type were sent."""
        return Counter(type(sent.message).__name__ for sent in self.sent)

    def _arm(self, server: ServerId) -> None:
        """Let a server know when its next deadline has come."""
        deadline = self.servers[server].next_deadline
        if deadline is not None and deadline != self._armed.get(server):
            self._armed[server] = deadline
            self.network.put(server, Tick(), delay=max(0.0, deadline - self.now) + 1e-6)

    def _send(self, sender: ServerId, letter: PeerLetter) -> None:
        sent = Sent(self.now, sender, letter.receiver, decode(letter.encoded))
        self.sent.append(sent)
        self.network.send(sent, PeerMessage(sender, letter.number, letter.encoded))

    def _name_updates(self, server: ServerId, event: Event) -> None:
        """Remember which update a command began; the coordinator of an update holds an entry of it from the start."""
        if isinstance(event, UpdateCommand):
            for update_id in self.servers[server].entries.by_update:
                if update_id.coordinator == server:
                    self._tickets.setdefault(update_id, event.ticket)

    def _chance_of(self, share: float) -> bool:
        return self._crashes is not None and self._crashes.random() < share

    def _some_time(self) -> float:
        return 0.0 if self._crashes is None else self._crashes.expovariate(1.0)
