"""Records a random run as a scenario that replays it: the changes of clients, and the arrival of each message.

A scenario has no slow disks and no repeated letters. Instead a letter waits until it is delivered, which is the same to
its receiver.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from namegraph import NodeId, PeerLost, PeerMet, ServerId, Tick, UpdateCommand
from simulation.cluster.cluster import Cluster, Restart
from simulation.cluster.networks import Arrival, PostedLetter, SentMessage
from simulation.scenario.schedule import (
    ClientAsks,
    Crash,
    Deliver,
    Expire,
    Lose,
    Meet,
    Quiet,
    Scenario,
    Selection,
    Step,
)


def record(
    cluster: Cluster, groups: Sequence[NodeId], bursts: Iterable[Sequence[Arrival | Restart | None]]
) -> Scenario:
    """Return the scenario of some bursts with a quiet point between them. `groups`: created before."""
    steps: list[Step] = []
    deadlines: dict[int, tuple[ServerId, float]] = {}
    for burst in bursts:
        for happened in burst:
            if happened is not None:
                steps += _steps(cluster, happened, deadlines)
        steps.append(Quiet())
    return Scenario(cluster.subnets, tuple(groups), (), tuple(steps))


def _steps(
    cluster: Cluster, happened: Arrival | Restart, deadlines: dict[int, tuple[ServerId, float]]
) -> Iterable[Step]:
    match happened:
        case Restart(server):
            yield Crash(server)
        case Arrival(_, _, _, SentMessage(message=PostedLetter())):
            return  # The post arrives with the next letter behind it, or at the next quiet point.
        case Arrival(_, _, _, SentMessage() as sent):
            ticket = cluster.ticket_of(sent.message)
            if ticket is None or ticket in deadlines:  # Reads are not recorded.
                yield Deliver(Selection(sent.channel, type(sent.message).__name__, ticket))
        case Arrival(_, server, UpdateCommand() as command) if command.ticket not in deadlines:
            deadlines[command.ticket] = (server, math.inf if command.deadline is None else command.deadline)
            yield ClientAsks(command.ticket, server, command.operations)
        case Arrival(_, server, PeerLost(peer)):
            yield Lose(server, peer)
        case Arrival(_, server, PeerMet(peer)):
            yield Meet(server, peer)
        case Arrival(time, server, Tick()):
            for ticket, (asked, deadline) in list(deadlines.items()):
                if asked == server and deadline < time:
                    deadlines[ticket] = (asked, math.inf)
                    yield Expire(ticket)
