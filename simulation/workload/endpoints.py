"""Endpoints that listen: they subscribe, read, acknowledge, vanish, and come back.

    people       have mailboxes, which are closed now and then; others listen for them for a while, without a mailbox
    archives     are mailboxes of groups
    gateways     are endpoints too, each at some server
    foreigners   are processes that no server owns, with a mailbox at each server that they like, or gateways alone

Source: delivery.md sections 2 and 18.
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
from simulation.workload.handing import Endpoint, Handing
from simulation.workload.readers import Listener, Readers
from simulation.workload.senders import ASKED_AGAIN_AFTER, Senders

PEOPLE = 2
"""Of each server, beside the processes there are."""

SUBSCRIBES_SHARE = 0.8
"""Of people in a burst, those for whom somebody subscribes."""

READS = 8
"""How often an endpoint reads on one stream."""

READ_WITHIN = 20.0
"""Mean time until each of these."""

ACKNOWLEDGED_SHARE = 0.6
"""Of times that an endpoint has read."""

VANISHES_SHARE = 0.1
"""Of times that an endpoint has read, those after which it is gone for a while."""

HAS_OTHER_LISTENERS = True
"""Whether some listen without a mailbox, to archives of groups, or for some groups and senders alone. Without these, a
seed runs as it did before there were any."""

FILTER_SHARE = 0.3
"""Of subscriptions, those whose endpoints want some groups or senders alone."""

ARCHIVE_SHARE = 0.2
"""Of groups that messages are addressed to, those whose archive somebody reads in a burst."""

EPHEMERAL_SHARE = 0.3
"""Of people in a burst, those for whom somebody listens for a while, mailbox or not."""

CLOSES_SHARE = 0.05
"""Of mailboxes in a burst, those that are closed."""

FOREIGNERS = PEOPLE
"""How many processes that no server owns can have mailboxes, at each server."""

FOREIGN_SHARE = 0.4
"""Of runs, those in which clients are after processes that nobody owns, in groups of all servers, one below another."""

FOREIGN_JOIN_OFTEN = 3
"""How often each such membership is among those that they choose from."""

FOREIGN_LISTEN_SHARE = 0.6
"""Of servers in a burst, those where one of these listens."""

GATEWAYS_ALONE_SHARE = 0.5
"""Of these runs, those in which gateways alone serve them, and are closed and opened all the time."""

HAS_GATEWAYS = True
"""Whether some servers have a gateway. Without them, a seed runs as it did before there were any."""

GATEWAY_SHARE = 0.3
"""Of servers in a burst, those where an endpoint of a gateway comes."""

RESTLESS_SHARE = 0.3
"""Of runs, those in which mailboxes are closed and opened all the time."""

STREAMS_END_WITH_MAILBOXES = True
"""Whether a stream ends when its mailbox is closed, as at a real server. Without that, a seed runs as it did before."""

RESTLESS_TIMES = 3
"""How often each in a burst."""


class Endpoints:
    """All that listen in a cluster."""

    def __init__(
        self,
        cluster: Cluster,
        population: Population,
        chance: Random,
        *,
        senders: Senders,
        readers: Readers,
        handing: Handing,
        submit: Callable[[ServerId, DeliveryEvent], None],
        later: Callable[[partial[None], float], None],
        new_ticket: Callable[[], int],
        note: Callable[[recorded.Happening], None],
        tally: Counter[str],
    ) -> None:
        """`submit`, `later`: as of `Senders`. `note`: puts something into the history."""
        self._cluster, self._population, self._chance, self._tally = cluster, population, chance, tally
        self._senders, self._readers, self._handing = senders, readers, handing
        self._submit, self._later, self._new_ticket, self._note = submit, later, new_ticket, note
        self._with_mailbox: dict[SubscriptionId, Endpoint] = {}
        self._ephemeral: dict[int, Endpoint] = {}
        """By ticket."""
        self._subscribing: dict[int, Endpoint] = {}
        """By ticket."""
        self._are_restless = HAS_OTHER_LISTENERS and chance.random() < RESTLESS_SHARE
        self._have_gateways_alone = False
        self._settle_people()

    def _settle_people(self) -> None:
        """Let there be people enough who can listen, and let clients join them as they join all else."""
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
        """Let clients join all processes that nobody owns to a group of each server, and these to one of them."""
        # Drawn apart, so that the other runs are as if there were none of these.
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
        """Let endpoints come, and mailboxes be closed, within so much time."""
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
        """Those for whom somebody has subscribed."""
        return {subscription.process for subscription in self._with_mailbox}

    # -- how they begin

    def _subscribe(self, process: NodeId, name: str, server: ServerId | None = None) -> None:
        subscription = SubscriptionId(server or ServerId(subnet_of(process)), process, name)
        if subscription not in self._with_mailbox:
            self._with_mailbox[subscription] = Endpoint(subscription, wanted=self._some_wanted())
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

    def _subscribe_again(self, endpoint: Endpoint, ticket: int) -> None:
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
        """It stops, and its mailbox is closed."""
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
        """An ephemeral one begins; it is never asked for again."""
        server, ticket = ServerId(subnet_of(process)), self._new_ticket()
        if server not in self._cluster.gone:
            subscription = SubscriptionId(server, NodeId(f"{ticket}/{process}"), "")
            endpoint = Endpoint(subscription, ticket=ticket, wanted=self._some_wanted(), is_ephemeral=True)
            self._ephemeral[ticket] = endpoint
            self._readers.ephemeral[ticket] = Listener(process, subscription)
            self._subscribing[ticket] = endpoint
            self._submit(server, Subscribe(ticket, process, is_ephemeral=True))

    def answered(self, server: ServerId, answer: Answer) -> None:
        """What servers answer: a stream begins, or none does."""
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

    def _read(self, endpoint: Endpoint, stream: int) -> None:
        """An endpoint is handed what is durable, as much as it likes."""
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
        """A datagram is handed to those who listen at the moment."""
        for endpoint in self._with_mailbox.values():
            is_here = endpoint.is_open and endpoint.subscription.server == server and server not in self._cluster.down
            if is_here and endpoint.mailbox in datagram.mailboxes:
                self._tally["datagrams handed"] += 1
                message_id, payload = datagram.datagram.message_id, datagram.datagram.message.payload
                self._note(recorded.DatagramHanded(self._cluster.instant, endpoint.subscription, message_id, payload))

    # -- how they end

    def goes_back(self, server: ServerId) -> None:
        """A server starts on an older disk: streams there end, but for ephemeral ones, which end as they read."""
        for endpoint in self._with_mailbox.values():
            if endpoint.subscription.server == server:
                self._end(endpoint)

    def read_to_the_end(self) -> None:
        """All is at rest: those who still listen are handed all there is."""
        for endpoint in (*self._with_mailbox.values(), *self._ephemeral.values()):
            if endpoint.subscription.server in self._cluster.gone or not self._lasts(endpoint):
                self._end(endpoint)
            elif endpoint.is_open and endpoint.subscription.server not in self._cluster.down:
                self._handing.hand_all(endpoint)

    def check(self) -> None:
        """Of ephemeral subscriptions nothing is left but of those that go on."""
        for server, core in self._cluster.servers.items():
            for ticket, endpoint in self._ephemeral.items():
                is_left = endpoint.subscription.server == server and ticket in core.delivery.listeners
                if is_left and not endpoint.is_open and server not in self._cluster.down:
                    process = self._readers.ephemeral[ticket].process
                    raise InvariantViolatedError(f"messages: {server} keeps what listened for {process} and ended")

    def _lasts(self, endpoint: Endpoint) -> bool:
        """Whether its server has what an endpoint reads: its mailbox, or that it listens without one."""
        core, process = self._cluster.servers[endpoint.subscription.server].delivery, endpoint.subscription.process
        if endpoint.is_ephemeral:
            return endpoint.ticket in core.listeners
        return not STREAMS_END_WITH_MAILBOXES or core.mailboxes.number_of(process) == endpoint.mailbox

    def _end(self, endpoint: Endpoint) -> None:
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
