"""Endpoints: they subscribe, read, acknowledge, vanish, and come back.

    people       have mailboxes, closed now and then; other endpoints listen for them for a while, without a mailbox
    archives     are mailboxes of groups
    gateways     are endpoints too, each at some server
    foreigners   are processes that no server owns, with a mailbox at each server that they like, or gateways alone

Source: docs/protocol-messages.md, "What must hold of messages"; docs/testing.md, "The simulator".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial
from random import Random

from delivery.model.events import (
    Acknowledge,
    Answer,
    CloseMailbox,
    DeliveryEvent,
    DeliveryRefused,
    OpenMailbox,
    Start,
    StopListening,
    Subscribe,
    Subscribed,
)
from delivery.model.words import EVERYBODY, EVERYTHING, Filter, Kept, is_pattern
from delivery.volatile.datagrams import Shown
from namegraph import NodeId, ServerId, subnet_of
from simulation.cluster.cluster import Cluster
from simulation.history import recorded
from simulation.history.recorded import SubscriptionId
from simulation.oracle.violation import InvariantViolatedError
from simulation.workload.clients import FOREIGN, Population
from simulation.workload.handing import Handing, SimulatedEndpoint
from simulation.workload.readers import Readers, SimulatedListener
from simulation.workload.senders import ASKED_AGAIN_AFTER, SimulatedSenders

PEOPLE = 2
"""Number of people at each server, beside the processes of the population."""

SUBSCRIBES_SHARE = 0.8
"""Share of people in a burst for whom an endpoint subscribes."""

READS = 8
"""Number of reads of an endpoint on one stream."""

READ_WITHIN = 20.0
"""Mean time until each read."""

ACKNOWLEDGED_SHARE = 0.6
"""Share of reads after which the endpoint acknowledges."""

VANISHES_SHARE = 0.1
"""Share of reads after which the endpoint is gone for a while."""

HAS_OTHER_LISTENERS = True
"""True if some endpoints listen without a mailbox, read archives of groups, or filter by groups and senders.

False leaves older seeds as they were.
"""

FILTER_SHARE = 0.3
"""Share of subscriptions that want the messages of some groups or senders only."""

ARCHIVE_SHARE = 0.2
"""Share of addressed groups whose archive an endpoint reads in a burst."""

EPHEMERAL_SHARE = 0.3
"""Share of people in a burst for whom an endpoint listens for a while, with or without a mailbox."""

CLOSES_SHARE = 0.05
"""Share of mailboxes that are closed in a burst."""

FOREIGNERS = PEOPLE
"""Number of foreign processes that can have mailboxes, at each server."""

FOREIGN_SHARE = 0.4
"""Share of runs in which clients join foreign processes to groups of all servers, one group below another."""

FOREIGN_JOIN_OFTEN = 3
"""Number of times that each such membership is among the arcs that clients choose from."""

FOREIGN_LISTEN_SHARE = 0.6
"""Share of servers in a burst at which a foreign process listens."""

GATEWAYS_ALONE_SHARE = 0.5
"""Share of the runs with contended foreign processes in which only gateways serve these, and open and close all the
time.
"""

HAS_GATEWAYS = True
"""True if some servers have a gateway. False leaves older seeds as they were."""

GATEWAY_SHARE = 0.3
"""Share of servers in a burst at which a gateway endpoint appears."""

RESTLESS_SHARE = 0.3
"""Share of runs in which mailboxes are closed and opened all the time."""

STREAMS_END_WITH_MAILBOXES = True
"""True if a stream ends when its mailbox is closed, as at a real server. False leaves older seeds as they were."""

RESTLESS_TIMES = 3
"""Number of times that each such mailbox is opened and closed in a burst."""


class SimulatedEndpoints:
    """All endpoints of a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        population: Population,
        chance: Random,
        *,
        senders: SimulatedSenders,
        readers: Readers,
        handing: Handing,
        submit: Callable[[ServerId, DeliveryEvent], None],
        later: Callable[[partial[None], float], None],
        new_ticket: Callable[[], int],
        note: Callable[[recorded.Happening], None],
        tally: Counter[str],
    ) -> None:
        """Create the endpoints. `submit`, `later`: see `SimulatedSenders`. `note`: adds an event to the history."""
        self._cluster, self._population, self._chance, self._tally = cluster, population, chance, tally
        self._senders, self._readers, self._handing = senders, readers, handing
        self._submit, self._later, self._new_ticket, self._note = submit, later, new_ticket, note
        self._with_mailbox: dict[SubscriptionId, SimulatedEndpoint] = {}
        self._ephemeral: dict[int, SimulatedEndpoint] = {}
        """Ephemeral endpoints by ticket."""
        self._subscribing: dict[int, SimulatedEndpoint] = {}
        """Endpoints whose subscription is under way, by ticket."""
        self._are_restless = HAS_OTHER_LISTENERS and chance.random() < RESTLESS_SHARE
        self._have_gateways_alone = False
        self._settle_people()

    def _settle_people(self) -> None:
        """Add people who can listen to the population, so that clients join them like other processes."""
        chance, population = self._chance, self._population
        people = [NodeId(f"m{number}@{subnet}") for subnet in self._cluster.subnets for number in range(PEOPLE)]
        self._foreign_people = [NodeId(f"e{number}@{FOREIGN}") for number in range(FOREIGNERS)]
        if self._foreign_people and chance.random() < FOREIGN_SHARE:
            self._contend_for_foreigners()
        if population.wanted:
            for person in people:
                population.wanted += [(group, person) for group in chance.sample(population.groups, 1)]
        population.processes += people
        self._people = people
        population.processes += self._foreign_people

    def _contend_for_foreigners(self) -> None:
        """Let clients join all foreign processes to one group of each server, and those groups to one top group."""
        # A generator of its own leaves the runs without contended foreign processes as they were.
        own = Random(repr(self._chance.getstate()[1][:4]))  # noqa: S311 - a seed must replay
        self._have_gateways_alone = HAS_GATEWAYS and own.random() < GATEWAYS_ALONE_SHARE
        population, top = self._population, self._chance.choice(self._population.groups)
        one_of_each = {subnet_of(group): group for group in population.groups} | {subnet_of(top): top}
        below = [group for group in one_of_each.values() if group != top]
        population.wanted += [(top, group) for group in below]
        joins = [(group, process) for group in one_of_each.values() for process in self._foreign_people]
        population.wanted += joins * FOREIGN_JOIN_OFTEN
        population.loops += [(group, top) for group in below] or [(top, top)]

    def submit_burst(self, spread: float) -> None:
        """Let endpoints appear and mailboxes close within `spread`."""
        chance = self._chance
        for process in self._people:
            if chance.random() < SUBSCRIBES_SHARE:
                self._later(partial(self._subscribe, process, chance.choice(["", "desk"])), spread)
            if HAS_OTHER_LISTENERS and chance.random() < EPHEMERAL_SHARE:
                self._later(partial(self._listen, process), spread)
            if process in self._processes() and chance.random() < CLOSES_SHARE:
                self._later(partial(self._close, process), spread)
            for _ in range(RESTLESS_TIMES if self._are_restless else 0):
                self._later(partial(self._subscribe, process, ""), spread)
                self._later(partial(self._close, process), spread)
        for process in self._foreign_people if not self._have_gateways_alone else ():
            for server in self._cluster.servers:
                if chance.random() < FOREIGN_LISTEN_SHARE:
                    self._later(partial(self._subscribe, process, "", server), spread)
        for server in self._cluster.servers if HAS_GATEWAYS else ():
            if self._have_gateways_alone:
                self._open_and_close_gateways(server, spread)
            else:
                self._open_gateway(server, spread)
        for targets in self._senders.sets:
            if HAS_OTHER_LISTENERS and chance.random() < ARCHIVE_SHARE:
                self._later(partial(self._read_archive, targets[0].name), spread)

    def _processes(self) -> set[NodeId]:
        """Return the processes that have a subscription."""
        return {subscription.process for subscription in self._with_mailbox}

    # -- how they begin

    def _subscribe(self, process: NodeId, name: str, server: ServerId | None = None) -> None:
        subscription = SubscriptionId(server or ServerId(subnet_of(process)), process, name)
        if subscription not in self._with_mailbox:
            self._with_mailbox[subscription] = SimulatedEndpoint(subscription, wanted=self._some_wanted())
        endpoint = self._with_mailbox[subscription]
        is_gone = subscription.server in self._cluster.gone
        if endpoint.is_open or endpoint.ticket in self._subscribing or is_gone:
            return
        endpoint.ticket = self._new_ticket()
        self._subscribing[endpoint.ticket] = endpoint
        start = self._chance.choice([Start.START, Start.NOW])
        self._submit(subscription.server, Subscribe(endpoint.ticket, process, name, start))
        self._later(partial(self._subscribe_again, endpoint, endpoint.ticket), ASKED_AGAIN_AFTER)

    def _some_wanted(self) -> Filter:
        chance, sets = self._chance, self._senders.sets
        if not HAS_OTHER_LISTENERS or chance.random() >= FILTER_SHARE:
            return EVERYTHING
        groups = frozenset(targets[0].name for targets in chance.sample(sets, len(sets) // 2))
        senders = frozenset(name for name in self._senders.names(more=3) if chance.random() < 0.5)
        return chance.choice([Filter(groups), Filter(senders=senders), Filter(groups, senders)])

    def _subscribe_again(self, endpoint: SimulatedEndpoint, ticket: int) -> None:
        if self._subscribing.pop(ticket, None) is not None:
            self._subscribe_to(endpoint.subscription)

    def _subscribe_to(self, subscription: SubscriptionId) -> None:
        self._subscribe(subscription.process, subscription.name, subscription.server)

    def _open_gateway(self, server: ServerId, spread: float) -> None:
        chance = self._chance
        if chance.random() < GATEWAY_SHARE:
            pattern = NodeId(chance.choice([EVERYBODY, f"*@{server}", f"*@{FOREIGN}"]))
            self._later(partial(self._subscribe, pattern, "mail", server), spread)
        for subscription in list(self._with_mailbox):
            is_one = subscription.server == server and is_pattern(subscription.process)
            if is_one and chance.random() < CLOSES_SHARE:
                self._later(partial(self._close, subscription.process, server), spread)

    def _open_and_close_gateways(self, server: ServerId, spread: float) -> None:
        chance = self._chance
        for _ in range(RESTLESS_TIMES):
            pattern = NodeId(chance.choice([EVERYBODY, f"*@{FOREIGN}"]))
            self._later(partial(self._subscribe, pattern, "mail", server), spread)
            self._later(partial(self._close_gateway, pattern, server), spread)

    def _close_gateway(self, pattern: NodeId, server: ServerId) -> None:
        """End the stream of a gateway and close its mailbox."""
        endpoint = self._with_mailbox.get(SubscriptionId(server, pattern, "mail"))
        if endpoint is not None:
            self._end(endpoint)
            self._close(pattern, server)

    def _read_archive(self, group: NodeId) -> None:
        server = ServerId(subnet_of(group))
        if server not in self._cluster.gone:
            self._submit(server, OpenMailbox(self._new_ticket(), group))
            self._later(partial(self._subscribe, group, self._chance.choice(["one", "two"])), 5.0)

    def _listen(self, process: NodeId) -> None:
        """Start an ephemeral endpoint, whose subscription is never asked for again."""
        server, ticket = ServerId(subnet_of(process)), self._new_ticket()
        if server not in self._cluster.gone:
            subscription = SubscriptionId(server, NodeId(f"{ticket}/{process}"), "")
            endpoint = SimulatedEndpoint(subscription, ticket=ticket, wanted=self._some_wanted(), is_ephemeral=True)
            self._ephemeral[ticket] = endpoint
            self._readers.ephemeral[ticket] = SimulatedListener(process, subscription)
            self._subscribing[ticket] = endpoint
            self._submit(server, Subscribe(ticket, process, is_ephemeral=True))

    def answered(self, server: ServerId, answer: Answer) -> None:
        """Start a stream if a server has accepted a subscription."""
        match answer:
            case DeliveryRefused(ticket):
                self._subscribing.pop(ticket, None)
            case Subscribed(ticket, mailbox, cursor, epoch, in_memory):
                endpoint = self._subscribing.pop(ticket, None)
                if endpoint is None or server in self._cluster.down:
                    return
                self._handing.begin(endpoint, mailbox, epoch, cursor=cursor, in_memory=in_memory)
                for _ in range(READS):
                    self._later(partial(self._read, endpoint, endpoint.stream), READ_WITHIN)
            case _:
                pass

    # -- what they read

    def _read(self, endpoint: SimulatedEndpoint, stream: int) -> None:
        """Hand an endpoint the durable messages for it, up to a random limit."""
        if not endpoint.is_open or endpoint.stream != stream:
            return
        server = endpoint.subscription.server
        if server in self._cluster.down or not self._lasts(endpoint):
            self._end(endpoint)
            return
        if self._chance.random() < VANISHES_SHARE:
            self._end(endpoint)
            if not endpoint.is_ephemeral:
                self._later(partial(self._subscribe_to, endpoint.subscription), ASKED_AGAIN_AFTER)
            return
        at_most = self._chance.choice([1, 3, 1000])
        self._handing.hand(endpoint, at_most=at_most)
        self._handing.hand_from_memory(endpoint, at_most=at_most)
        if self._chance.random() < ACKNOWLEDGED_SHARE:
            endpoint.told_in_memory = endpoint.in_memory
            name, epoch = endpoint.subscription.name, endpoint.epoch
            self._submit(
                server, Acknowledge(endpoint.mailbox, name, epoch, endpoint.handed, in_memory=endpoint.in_memory)
            )

    def shown(self, server: ServerId, datagram: Shown) -> None:
        """Hand a datagram to the endpoints that listen now."""
        for endpoint in self._with_mailbox.values():
            is_here = endpoint.is_open and endpoint.subscription.server == server and server not in self._cluster.down
            if is_here and endpoint.mailbox in datagram.mailboxes:
                self._tally["datagrams handed"] += 1
                message_id, payload = datagram.datagram.message_id, datagram.datagram.message.payload
                self._note(recorded.DatagramHanded(self._cluster.instant, endpoint.subscription, message_id, payload))

    # -- how they end

    def goes_back(self, server: ServerId) -> None:
        """End the streams at a server that starts on an older disk. Ephemeral streams end at their next read."""
        for endpoint in self._with_mailbox.values():
            if endpoint.subscription.server == server:
                self._end(endpoint)

    def read_to_the_end(self) -> None:
        """Hand every open endpoint all its messages. Call this at rest."""
        for endpoint in (*self._with_mailbox.values(), *self._ephemeral.values()):
            if endpoint.subscription.server in self._cluster.gone or not self._lasts(endpoint):
                self._end(endpoint)
            elif endpoint.is_open and endpoint.subscription.server not in self._cluster.down:
                self._handing.hand_all(endpoint)

    def check(self) -> None:
        """Require that servers keep only the ephemeral subscriptions whose endpoints still listen."""
        for server, core in self._cluster.servers.items():
            for ticket, endpoint in self._ephemeral.items():
                is_left = endpoint.subscription.server == server and ticket in core.delivery.listeners
                if is_left and not endpoint.is_open and server not in self._cluster.down:
                    process = self._readers.ephemeral[ticket].process
                    raise InvariantViolatedError(f"messages: {server} keeps what listened for {process} and ended")

    def _lasts(self, endpoint: SimulatedEndpoint) -> bool:
        """True if the server still has what an endpoint reads: its mailbox, or its ephemeral subscription."""
        core, process = self._cluster.servers[endpoint.subscription.server].delivery, endpoint.subscription.process
        if endpoint.is_ephemeral:
            return endpoint.ticket in core.listeners
        return not STREAMS_END_WITH_MAILBOXES or core.mailboxes.number_of(process) == endpoint.mailbox

    def _end(self, endpoint: SimulatedEndpoint) -> None:
        if endpoint.is_open:
            endpoint.is_open = False
            at = self._cluster.instant
            for one in self._readers.read_by(endpoint.subscription):
                self._note(recorded.StreamEnded(at, one, endpoint.stream))
                self._note(recorded.StreamEnded(at, one._replace(kept=Kept.MEMORY), endpoint.stream))
            if endpoint.is_ephemeral:
                self._submit(endpoint.subscription.server, StopListening(endpoint.ticket))

    def _close(self, process: NodeId, server: ServerId | None = None) -> None:
        self._submit(server or ServerId(subnet_of(process)), CloseMailbox(self._new_ticket(), process))
