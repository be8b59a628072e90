"""Clients that queue messages at servers other than their origins, and the forwarders of the queues.

    client --QueueMessage--> some server --the oldest, as a Send--> origin --Accepted, or refused--> QueuedEnded there

A message may be lost on its way to its origin, and so may the answer. A forwarder begins anew when its server restarts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from functools import partial
from random import Random
from typing import NamedTuple

import msgspec

from delivery.model.events import Accepted, Answer, DeliveryRefused, Queued, QueuedEnded, QueueMessage, Send
from delivery.model.words import MessageContent
from delivery.origin.dead_letters import QUEUED_FROM
from delivery.origin.queue import QueuedMessage
from delivery.server import Server
from namegraph import ProtocolRow, Refusal, ServerId, Subnet, TargetSet, subnet_of
from simulation.cluster.cluster import Cluster
from simulation.cluster.disk import HeldAnswer
from simulation.cluster.networks import Arrival
from simulation.oracle.violation import InvariantViolatedError

LOOKED_AFTER = 10.0
"""Mean time until a forwarder looks again for a message to pass on."""

TRIES_LIMIT = 60
"""Limit on the looks for one message."""

LOST_SHARE = 0.1
"""Share of messages lost on their way to their origins, and of answers lost."""


class _Passed(NamedTuple):
    """A queued message on its way to its origin."""

    server: ServerId
    core: Server
    number: int
    payload: bytes


class Queueing:
    """All queued messages of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        chance: Random,
        *,
        send: Callable[[ServerId, Send], None],
        later: Callable[[partial[None], float], None],
        new_ticket: Callable[[], int],
        tally: Counter[str],
    ) -> None:
        """Create the queues. `send`: brings a message to its origin."""
        self._cluster, self._chance, self._tally = cluster, chance, tally
        self._send, self._later, self._new_ticket = send, later, new_ticket
        self._targets: dict[bytes, TargetSet] = {}
        self._asked: dict[int, tuple[ServerId, bytes]] = {}
        self._passed: dict[int, _Passed] = {}
        self._told: list[tuple[ServerId, bytes]] = []
        """Messages that clients were told are queued."""
        self._payloads: dict[tuple[ServerId, int], bytes] = {}
        self._dead: set[bytes] = set()
        self._accepted: dict[bytes, set[str]] = defaultdict(set)
        self._last: dict[tuple[ServerId, Subnet], int] = {}
        """Highest accepted number among the messages that waited at a server for the home of a subnet."""

    def submit(self, targets: TargetSet) -> None:
        """Let a client queue a message at a server other than its origin."""
        subnet = subnet_of(targets[0].name)
        others = [
            server
            for server in self._cluster.servers
            if server != ServerId(subnet) and server not in self._cluster.gone
        ]
        if not others:
            return
        server, ticket = self._chance.choice(others), self._new_ticket()
        payload = f"queued {ticket}".encode()
        self._targets[payload] = targets
        self._asked[ticket] = server, payload
        event = QueueMessage(ticket, targets[0].name, payload, "", 0, payload.decode())
        self._cluster.network.put(server, event, delay=self._chance.expovariate(1.0))
        self._later(partial(self._pass_on, server, subnet, 0), LOOKED_AFTER)

    def _pass_on(self, server: ServerId, subnet: Subnet, tries: int) -> None:
        """Pass on the oldest message of a queue if both servers are up, and schedule the next look in any case."""
        if tries == TRIES_LIMIT or server in self._cluster.gone:
            return
        self._later(partial(self._pass_on, server, subnet, tries + 1), LOOKED_AFTER)
        core, home = self._cluster.servers[server], ServerId(subnet)
        if server in self._cluster.down or home in self._cluster.down or self._chance.random() < LOST_SHARE:
            return
        due = core.delivery.queue.due(subnet, at=core.delivery.running.seconds)
        if due is not None and home not in self._cluster.gone:
            passed = _Passed(server, core, due.number, due.encoded)
            # The end of every earlier message must be durable first.
            self._cluster.when_durable(server, HeldAnswer(partial(self._send_on, home, passed), lambda: None))

    def _send_on(self, home: ServerId, passed: _Passed) -> None:
        ticket = self._new_ticket()
        self._passed[ticket] = passed
        send = Send(
            ticket, self._targets[passed.payload], MessageContent(passed.payload), request_id=passed.payload.decode()
        )
        self._send(home, send)

    def answered(self, answer: Answer) -> None:
        """Take the answers of servers to clients and to forwarders."""
        match answer:
            case Queued(ticket):
                self._tally["queued"] += 1
                self._told.append(self._asked[ticket])
            case Accepted(ticket, message_id) if ticket in self._passed:
                passed = self._passed.pop(ticket)
                self._note_accepted(passed, message_id, is_repeated=answer.is_repeated)
                self._ended(passed, None)
            case DeliveryRefused(ticket, refusal) if ticket in self._passed:
                self._ended(self._passed.pop(ticket), refusal)
            case _:
                pass

    def _note_accepted(self, passed: _Passed, message_id: str, *, is_repeated: bool) -> None:
        payload = passed.payload
        self._tally["accepted of what was queued"] += not is_repeated
        # A message accepted into memory is accepted anew if both servers have restarted since.
        is_first = not self._accepted[payload]
        self._accepted[payload].add(message_id)
        key = passed.server, subnet_of(self._targets[payload][0].name)
        # A crash may lose a message that is not durable, and its number is then given again. A dead letter is not
        # waited for.
        is_waited_for = self._payloads.get((passed.server, passed.number)) == payload and payload not in self._dead
        if is_waited_for and is_first and not is_repeated and not self._cluster.on_old_disks:
            if passed.number < self._last.get(key, 0):
                raise InvariantViolatedError(f"queue: {payload!r} is accepted after what was queued behind it")
            self._last[key] = passed.number

    def _ended(self, passed: _Passed, refusal: Refusal | None) -> None:
        """Tell the server that passed on a message how it ended, unless that server has restarted since."""
        cluster = self._cluster
        if cluster.servers[passed.server] is passed.core and self._chance.random() >= LOST_SHARE:
            event = QueuedEnded(passed.number, refusal)
            cluster.take(Arrival(cluster.now, passed.server, event, None))

    def written(self, server: ServerId, rows: list[ProtocolRow]) -> None:
        """Note the queue rows that became durable."""
        for part, key, value in rows:
            if part == "queued message" and value is not None:
                self._payloads[server, int(key)] = msgspec.msgpack.decode(value, type=QueuedMessage).encoded
            elif part == "dead letter" and value is not None and int(key) > QUEUED_FROM:
                self._tally["dead letters of what was queued"] += 1
                self._dead.add(self._payloads[server, int(key) - QUEUED_FROM])

    def check(self) -> None:
        """Require that no message is lost after its client was told that it is queued, and that none is
        accepted twice.
        """
        cluster = self._cluster
        if cluster.on_old_disks:
            return
        waiting = {message.encoded for core in cluster.servers.values() for message in core.delivery.queue.messages()}
        for payload, ids in self._accepted.items():
            # After a restart the origin knows no message that it had accepted into memory.
            in_memory = {message_id for message_id in ids if "+~" in message_id}
            starts = {message_id.rpartition("#")[2] for message_id in ids}
            if len(ids) > len(starts) or len(ids - in_memory) > 1:
                raise InvariantViolatedError(f"queue: {payload!r} is accepted as {', '.join(sorted(ids))}")
        for server, payload in self._told:
            is_there = payload in self._accepted or payload in self._dead or payload in waiting
            if not is_there and server not in cluster.gone:
                raise InvariantViolatedError(f"queue: {server} has lost {payload!r}")
