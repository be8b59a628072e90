"""Clients that send messages to groups, and endpoints that listen; what happens is recorded, to be judged.

    senders     number their messages, and send each again until it is accepted; others send datagrams
    operators   have what expired sent again, or drop it
    gateways    are endpoints too; whom they serve have a history each, as if each had a mailbox of its own
    endpoints   open mailboxes, are handed what is durable in the log, acknowledge, vanish, and come back
    watcher     writes down what becomes durable at each server, and who is below what there

Source: delivery.md sections 2 and 18.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import partial
from random import Random

import msgspec

from delivery import history
from delivery.audiences import processes_below
from delivery.datagrams import Shown
from delivery.events import (
    Accepted,
    Acknowledge,
    Answer,
    CloseMailbox,
    CloseParcels,
    DatagramSent,
    DeadLettersDropped,
    DeadLettersReplayed,
    DeliveryEvent,
    DeliveryRefused,
    DropDeadLetters,
    MailboxClosed,
    OpenMailbox,
    ReplayDeadLetters,
    Send,
    SetPolicy,
    Settled,
    Start,
    StopListening,
    Subscribe,
    Subscribed,
)
from delivery.history import History, SubscriptionId
from delivery.in_memory import POSITIONS_OF_START
from delivery.mailboxes import Cursor, Mailbox
from delivery.model import (
    EVERYBODY,
    EVERYTHING,
    Filter,
    Kept,
    Message,
    Position,
    Quality,
    is_pattern,
    serves,
    target_set,
)
from delivery.properties import check
from delivery.reading import Item, gap, read
from delivery.server import Server, ServerEffects
from delivery.unkept import RingGrew, UnkeptAnswer
from delivery.wire import decode_stored
from namegraph import NodeId, ServerId, TargetSet, subnet_of
from simulation.cluster.cluster import Cluster, Watcher
from simulation.cluster.networks import Errand
from simulation.oracle.serial_model import TrueGraph
from simulation.oracle.violation import InvariantViolatedError
from simulation.workload import known_members
from simulation.workload.clients import FOREIGN, Population, is_foreign
from simulation.workload.known_members import KnownMembers
from simulation.workload.offline_joins import nobody_of
from simulation.workload.policies import PolicySetting
from simulation.workload.queueing import Queueing

FIRST_TICKET = 10_000_000
"""Above all tickets of updates and reads."""

SPREADS = (0.0, 5.0, 30.0)
"""Within what time the messages of a burst are sent."""

SENT_AT_MOST = 12
"""In a burst."""

ASKED_AGAIN_AFTER = 40.0
"""Mean time until a client that has no answer asks again."""

TRIES_LIMIT = 40

SEVERAL_TARGETS_SHARE = 0.3
EXCEPTIONS_SHARE = 0.3

SETS_AT_MOST = 4
"""Of targets: few, so that sequences are long."""

VANISHES_SHARE = 0.1
"""Of times that an endpoint has read, those after which it is gone for a while."""

PEOPLE = 2
"""Of each server, beside the processes there are."""

DATAGRAMS_AT_MOST = 4
"""In a burst."""

SHORT_LIVED_SHARE = 0.3
"""Of runs, those in which messages are kept for a short time."""

KEPT_SECONDS = (20.0, 100.0, 400.0)

REPLAYED_SHARE = 0.6
DROPPED_SHARE = 0.1
"""Of servers at each burst, those whose dead letters are sent again, and dropped."""

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

HAS_QUEUES = True
"""The same of messages that are queued at servers which are not their origins."""

QUEUED_AT_MOST = 4
"""In a burst."""

FOREIGN_ARE_SERVED_ONCE = False
"""Whether it is judged that of several servers with a process that nobody owns below a target one alone logs a message
for it. They know nothing of one another, so it comes from each: one seed in ten fails the judgement."""

FOREIGN_JOIN_OFTEN = 3
"""How often each of these is among the processes that clients choose from."""

FOREIGN_LISTEN_SHARE = 0.4
"""Of servers in a burst, those where one of these listens."""

HAS_POLICIES = True
"""Whether groups may have policies. Without them, a seed runs as it did before there were any."""

HAS_GATEWAYS = True
"""Whether some servers have a gateway. Without them, a seed runs as it did before there were any."""

GATEWAY_SHARE = 0.3
"""Of servers in a burst, those where an endpoint of a gateway comes."""

RESTLESS_SHARE = 0.3
"""Of runs, those in which mailboxes are closed and opened all the time."""

RESTLESS_TIMES = 3
"""How often each in a burst."""


HAS_MEMORY = True
"""Whether some groups have messages that are kept in memory. A run without such runs as if there were none anywhere."""

MEMORY_RUNS_SHARE = 0.4
"""Of runs, those with such groups."""

MEMORY_SHARE = 0.6
"""Of sets of targets in such a run, those whose messages are kept in memory from then on, at each burst; the others are
durable from then on."""

SMALL_RINGS_SHARE = 0.3
SMALL_RING_BYTES = 1_000
"""In some of these runs what is in memory is overrun soon."""

NOTHING_IN_MEMORY = Position(0, -1)


@dataclass(slots=True)
class _Sender:
    """One client that numbers its messages: it sends the next one when the last one is accepted."""

    name: str
    targets: TargetSet
    left: int
    number: int = 0
    ticket: int = 0
    tries: int = 0


@dataclass(slots=True)
class _Endpoint:
    """One that listens for a process."""

    subscription: SubscriptionId
    mailbox: int = 0
    epoch: int = 0
    stream: int = 0
    handed: Position = field(default_factory=lambda: Position(0, -1))
    ticket: int = 0
    is_open: bool = False
    wanted: Filter = EVERYTHING
    is_ephemeral: bool = False
    """Its history is that of a mailbox of its own, which is open while it lasts."""
    in_memory: Position = NOTHING_IN_MEMORY
    """As `handed`, of what is kept in memory."""
    told_in_memory: Position = NOTHING_IN_MEMORY
    """Through where it has acknowledged of that."""
    known_in_memory: Position = NOTHING_IN_MEMORY
    """Through where the history says so."""


@dataclass(slots=True)
class _Memory:
    """What a run has to do with messages that are kept in memory."""

    chance: Random
    is_there: bool
    has_small_rings: bool
    ring_through: dict[ServerId, int] = field(default_factory=dict)
    """Through where what is in each server's memory may be handed out."""
    unsettled: dict[ServerId, dict[str, None]] = field(default_factory=dict)
    """Ids of what each server has accepted to be kept in memory, since it started."""
    started: set[ServerId] = field(default_factory=set)

    @classmethod
    def drawn(cls, chance: Random) -> _Memory:
        """Drawn apart, so that a run without memory is the same whether there are runs with it."""
        own = Random(repr(chance.getstate()[1][:4]))  # noqa: S311 - a seed must replay
        return cls(own, HAS_MEMORY and own.random() < MEMORY_RUNS_SHARE, own.random() < SMALL_RINGS_SHARE)


class Deliveries(Watcher):
    """The clients of one cluster that send and listen, and the history of what they did."""

    def __init__(self, cluster: Cluster, population: Population, chance: Random) -> None:
        self._cluster = cluster
        self._members_known = KnownMembers(cluster)
        self._served_by_pattern: dict[NodeId, list[NodeId]] = {}
        self._population = population
        self._chance = chance
        self._history: list[history.Happening] = []
        self._ticket = FIRST_TICKET
        self._senders: dict[int, _Sender] = {}
        """By ticket of what they wait for."""
        self._endpoints: dict[SubscriptionId, _Endpoint] = {}
        self._subscribing: dict[int, _Endpoint] = {}
        self._ephemeral: dict[int, tuple[NodeId, _Endpoint]] = {}
        """By ticket, with for whom they listen."""
        self._streams = 0
        self._position_of: dict[tuple[SubscriptionId, str], Position] = {}
        """Of what gateways were handed: each message is one item, but for what comes late."""
        self._sent = 0
        self._sets: list[TargetSet] = []
        self._known: dict[ServerId, dict[int, list[str]]] = {}
        """Of each server, the ids of the messages of its parcels that are not settled, by position."""
        self._sends: dict[int, Send] = {}
        self._accepted: dict[str, ServerId] = {}
        """By message, where it was."""
        self._noted: set[tuple[str, bytes]] = set()
        """Ids of messages, with what they say."""
        self._gone_back: dict[ServerId, int] = {}
        """Servers that have started on an older disk, with the incarnation that they took themselves for then."""
        self._settled: set[str] = set()
        self._dead: set[str] = set()
        self._members: dict[tuple[ServerId, NodeId, TargetSet], tuple[bool, bool]] = {}
        self._seen: object = None
        """The states of all graphs when it was looked last who is below what."""
        self._closing_parcels: set[ServerId] = set()
        self._numbers: dict[tuple[ServerId, NodeId], int] = {}
        """Of mailboxes, as far as they are durable."""
        self.tally: Counter[str] = Counter()
        self._queueing = Queueing(
            cluster, chance, send=self._pass_on, later=self._later, new_ticket=self._new_ticket, tally=self.tally
        )
        cluster.watcher = self
        self._memory = _Memory.drawn(chance)
        self._are_short_lived = chance.random() < SHORT_LIVED_SHARE
        self._backlog_seconds, self._log_seconds = chance.choice(KEPT_SECONDS), chance.choice(KEPT_SECONDS)
        for core in cluster.servers.values():
            self.starts(core)
        self._are_restless = HAS_OTHER_LISTENERS and chance.random() < RESTLESS_SHARE
        self._settle_people()
        self._policies = self._policy_setting() if HAS_POLICIES else None

    def _policy_setting(self) -> PolicySetting:
        return PolicySetting(
            self._cluster,
            self._chance,
            submit=self._submit,
            send=self._pass_on,
            new_ticket=self._new_ticket,
            tally=self.tally,
        )

    def starts(self, core: Server) -> None:
        """Messages may be kept for a short time. One that starts on an older disk has the mailboxes of then."""
        if core.server in self._cluster.on_old_disks and core.server not in self._gone_back:
            self._gone_back[core.server] = core.incarnations.own
            self._note_went_back(core)
            self._send_before_told(core.server)
        elif core.server in self._memory.started:
            self._note(history.Restarted(self._at, core.server))
        self._memory.started.add(core.server)
        self._memory.unsettled[core.server] = {}
        self._memory.ring_through[core.server] = core.delivery.in_memory.log.last
        core.delivery.in_memory.on_given_up = self._note_given_up
        if self._memory.has_small_rings:
            core.delivery.in_memory.ring_limit_bytes = SMALL_RING_BYTES
            core.delivery.in_memory.backlog_limit_bytes = SMALL_RING_BYTES
        if self._are_short_lived:
            core.delivery.giving_up.limit_seconds = self._backlog_seconds
            core.delivery.log.limit_seconds = self._log_seconds

    def _settle_people(self) -> None:
        """Let there be people enough who can listen, and let clients join them as they join all else."""
        chance, population = self._chance, self._population
        people = [NodeId(f"m{number}@{subnet}") for subnet in self._cluster.subnets for number in range(PEOPLE)]
        if population.wanted:
            for person in people:
                population.wanted += [(group, person) for group in chance.sample(population.groups, 1)]
        population.processes += people
        self._people = people
        self._foreign_people = [NodeId(f"e{number}@{FOREIGN}") for number in range(PEOPLE * FOREIGN_ARE_SERVED_ONCE)]
        population.processes += self._foreign_people * FOREIGN_JOIN_OFTEN

    # -- what clients do

    def submit_burst(self) -> None:
        """Let clients send and listen within a short time."""
        chance = self._chance
        self._choose_sets()
        spread = chance.choice(SPREADS)
        for targets in self._sets if self._memory.is_there else ():
            kept = Kept.MEMORY if self._memory.chance.random() < MEMORY_SHARE else Kept.DURABLE
            home, policy = (
                ServerId(subnet_of(targets[0].name)),
                SetPolicy(self._new_ticket(), targets[0].name, kept=kept),
            )
            self._cluster.network.put(home, policy, delay=self._memory.chance.random() * spread)
        for _ in range(chance.randint(0, QUEUED_AT_MOST) if HAS_QUEUES and self._sets else 0):
            self._later(partial(self._queueing.submit, chance.choice(self._sets)), spread)
        if self._policies is not None:
            self._later(partial(self._policies.submit_burst, self._sets), spread)
        for process in self._people:
            if chance.random() < 0.8:
                self._later(partial(self._subscribe, process, chance.choice(["", "desk"])), spread)
            if HAS_OTHER_LISTENERS and chance.random() < EPHEMERAL_SHARE:
                self._later(partial(self._listen, process), spread)
            if process in self._open_processes() and chance.random() < CLOSES_SHARE:
                self._later(partial(self._close, process), spread)
            for _ in range(RESTLESS_TIMES if self._are_restless else 0):
                self._later(partial(self._subscribe, process, ""), spread)
                self._later(partial(self._close, process), spread)
        for process in self._foreign_people:
            for server in self._cluster.servers:
                if chance.random() < FOREIGN_LISTEN_SHARE:
                    self._later(partial(self._subscribe, process, "", server), spread)
        for server in self._cluster.servers if HAS_GATEWAYS else ():
            self._open_gateway(server, spread)
        for targets in self._sets:
            if HAS_OTHER_LISTENERS and chance.random() < ARCHIVE_SHARE:
                self._later(partial(self._read_archive, targets[0].name), spread)
        for _ in range(chance.randint(0, 3)):
            self._later(partial(self._send_next, self._new_sender(chance.choice(self._sets))), spread)
        for _ in range(chance.randint(0, DATAGRAMS_AT_MOST) if self._sets else 0):
            self._later(partial(self._send_datagram, chance.choice(self._sets)), spread)
        for server in self._cluster.servers:
            for kind, share in ((ReplayDeadLetters, REPLAYED_SHARE), (DropDeadLetters, DROPPED_SHARE)):
                if chance.random() < share:
                    command = kind(self._new_ticket(), None)
                    delay = chance.random() * chance.choice(KEPT_SECONDS)
                    self._cluster.network.put(server, command, delay=delay)

    def _send_before_told(self, server: ServerId) -> None:
        """Let clients send to a server at once that does not know yet that it has gone back."""
        for targets in self._sets:
            if ServerId(subnet_of(targets[0].name)) == server:
                self._send_next(self._new_sender(targets))

    def _new_sender(self, targets: TargetSet) -> _Sender:
        self._sent += 1
        return _Sender(f"client{self._sent}", targets, self._chance.randint(1, SENT_AT_MOST))

    def _send_datagram(self, targets: TargetSet) -> None:
        send = Send(self._new_ticket(), targets, Message(f"datagram {self._ticket}".encode()), Quality.DATAGRAM)
        self._sends[send.ticket] = send
        self._submit(ServerId(subnet_of(targets[0].name)), send)

    def _choose_sets(self) -> None:
        chance, groups = self._chance, self._population.groups
        while groups and len(self._sets) < SETS_AT_MOST:
            count = chance.randint(2, 3) if chance.random() < SEVERAL_TARGETS_SHARE else 1
            names = chance.sample(groups, min(count, len(groups)))
            excluding = [chance.choice(groups)] if chance.random() < EXCEPTIONS_SHARE else []
            self._sets.append(target_set(names, excluding))

    def _send_next(self, sender: _Sender) -> None:
        if sender.left:
            sender.left -= 1
            sender.number += 1
            sender.tries = 0
            self._send(sender)

    def _send(self, sender: _Sender) -> None:
        sender.tries += 1
        if sender.tries > TRIES_LIMIT:
            self.tally["given up"] += 1
            return
        self._senders.pop(sender.ticket, None)
        sender.ticket = self._new_ticket()
        self._senders[sender.ticket] = sender
        payload = f"{sender.name} {sender.number}".encode()
        message = Message(payload, sender=sender.name)
        send = Send(sender.ticket, sender.targets, message, number=sender.number, wants_settled=True)
        origin = ServerId(subnet_of(sender.targets[0].name))
        self._sends[send.ticket] = send
        self._later(partial(self._reach_origin, origin, send), 1.0)
        self._later(partial(self._send_again, sender, sender.ticket), ASKED_AGAIN_AFTER)

    def _reach_origin(self, origin: ServerId, send: Send) -> None:
        """A message comes to its origin, even to one that nobody has told yet that it has gone back."""
        self._cluster.network.put(origin, send, delay=0.0)
        self._close_parcels_soon(origin)

    def _pass_on(self, origin: ServerId, send: Send) -> None:
        self._sends[send.ticket] = send
        self._reach_origin(origin, send)

    def _send_again(self, sender: _Sender, ticket: int) -> None:
        if sender.ticket == ticket and ticket in self._senders:
            self._send(sender)

    def _close_parcels_soon(self, server: ServerId) -> None:
        if server not in self._closing_parcels:
            self._closing_parcels.add(server)
            self._later(partial(self._close_parcels, server), self._chance.choice([0.0, 1.0, 5.0]))

    def _close_parcels(self, server: ServerId) -> None:
        self._closing_parcels.discard(server)
        self._submit(server, CloseParcels())

    def _subscribe(self, process: NodeId, name: str, server: ServerId | None = None) -> None:
        subscription = SubscriptionId(server or ServerId(subnet_of(process)), process, name)
        if subscription not in self._endpoints:
            self._endpoints[subscription] = _Endpoint(subscription, wanted=self._some_wanted())
        endpoint = self._endpoints[subscription]
        is_gone = subscription.server in self._cluster.gone
        if endpoint.is_open or endpoint.ticket in self._subscribing or is_gone:
            return
        endpoint.ticket = self._new_ticket()
        self._subscribing[endpoint.ticket] = endpoint
        start = self._chance.choice([Start.START, Start.NOW])
        self._submit(subscription.server, Subscribe(endpoint.ticket, process, name, start))
        self._later(partial(self._subscribe_again, endpoint, endpoint.ticket), ASKED_AGAIN_AFTER)

    def _some_wanted(self) -> Filter:
        chance = self._chance
        if not HAS_OTHER_LISTENERS or chance.random() >= FILTER_SHARE:
            return EVERYTHING
        groups = frozenset(targets[0].name for targets in chance.sample(self._sets, len(self._sets) // 2))
        senders = frozenset(f"client{number}" for number in range(1, self._sent + 4) if chance.random() < 0.5)
        return chance.choice([Filter(groups), Filter(senders=senders), Filter(groups, senders)])

    def _subscribe_again(self, endpoint: _Endpoint, ticket: int) -> None:
        if self._subscribing.pop(ticket, None) is not None:
            self._subscribe_to(endpoint.subscription)

    def _subscribe_to(self, subscription: SubscriptionId) -> None:
        self._subscribe(subscription.process, subscription.name, subscription.server)

    def _open_gateway(self, server: ServerId, spread: float) -> None:
        chance = self._chance
        if chance.random() < GATEWAY_SHARE:
            pattern = NodeId(chance.choice([EVERYBODY, f"*@{server}", f"*@{FOREIGN}"]))
            self._later(partial(self._subscribe, pattern, "mail", server), spread)
        for subscription in list(self._endpoints):
            is_one = subscription.server == server and is_pattern(subscription.process)
            if is_one and chance.random() < CLOSES_SHARE:
                self._later(partial(self._close, subscription.process, server), spread)

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
            endpoint = _Endpoint(subscription, ticket=ticket, wanted=self._some_wanted(), is_ephemeral=True)
            self._ephemeral[ticket] = process, endpoint
            self._subscribing[ticket] = endpoint
            self._submit(server, Subscribe(ticket, process, is_ephemeral=True))

    def _lasts(self, endpoint: _Endpoint) -> bool:
        """Whether the server has not begun again since an endpoint began, if that ends it."""
        core = self._cluster.servers[endpoint.subscription.server]
        return not endpoint.is_ephemeral or endpoint.ticket in core.delivery.listeners

    def _read(self, endpoint: _Endpoint, stream: int) -> None:
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
        self._hand(endpoint, at_most=at_most)
        self._hand_from_memory(endpoint, at_most=at_most)
        if self._chance.random() < 0.6:
            endpoint.told_in_memory = endpoint.in_memory
            name, epoch = endpoint.subscription.name, endpoint.epoch
            self._submit(
                server, Acknowledge(endpoint.mailbox, name, epoch, endpoint.handed, in_memory=endpoint.in_memory)
            )

    def _hand(self, endpoint: _Endpoint, *, at_most: int) -> None:
        server = endpoint.subscription.server
        core, log = self._cluster.servers[server].delivery, self._cluster.log_of(server)
        through = gap(endpoint.handed, cut=core.log.cut)
        if through is not None:
            for one in self._read_by(endpoint.subscription):
                self._note(history.GapTold(self._at, one, endpoint.stream, endpoint.handed, through))
            endpoint.handed = through
        records = [log[position] for position in sorted(log) if position >= endpoint.handed.entry]
        for end, items, _ in read(
            records, endpoint.mailbox, core.audiences, after=endpoint.handed, wanted=endpoint.wanted
        ):
            for item in items:
                if not at_most:
                    return
                at_most -= 1
                self._note_handed(endpoint, item)
                endpoint.handed = item.position
            endpoint.handed = max(endpoint.handed, end)

    def _hand_from_memory(self, endpoint: _Endpoint, *, at_most: int) -> None:
        """The same of what is kept in memory."""
        server = endpoint.subscription.server
        in_memory = self._cluster.servers[server].delivery.in_memory
        overrun = gap(endpoint.in_memory, cut=in_memory.log.cut)
        if overrun is not None:
            self._note_gap_in_memory(endpoint, overrun)
        records = in_memory.entries(endpoint.in_memory.entry - 1, self._memory.ring_through[server])
        for end, items, lost in read(
            records, endpoint.mailbox, in_memory.audiences, after=endpoint.in_memory, wanted=endpoint.wanted
        ):
            for item in items:
                if not at_most:
                    return
                at_most -= 1
                self._note_handed(endpoint, item, kept=Kept.MEMORY)
                endpoint.in_memory = item.position
            if lost:
                self._note_gap_in_memory(endpoint, end)
            endpoint.in_memory = max(endpoint.in_memory, end)

    def _note_gap_in_memory(self, endpoint: _Endpoint, through: Position) -> None:
        self.tally["gaps told of what is in memory"] += 1
        for one in self._read_by(endpoint.subscription):
            of_memory = one._replace(kept=Kept.MEMORY)
            self._note(history.GapTold(self._at, of_memory, endpoint.stream, endpoint.in_memory, through))
        endpoint.in_memory = through

    def _begin_in_memory(self, endpoint: _Endpoint, cursor: Position) -> None:
        """A stream begins to be handed what is kept in memory, behind a place."""
        known, is_again = endpoint.known_in_memory, endpoint.known_in_memory > NOTHING_IN_MEMORY
        of_start, began = (place.entry // POSITIONS_OF_START for place in (known, cursor))
        if is_again and of_start == began and cursor > max(known, endpoint.told_in_memory):
            what = f"{endpoint.subscription} goes on behind {cursor} of what is in memory, which is not acknowledged"
            if self._cluster.servers[endpoint.subscription.server].delivery.in_memory.log.cut < cursor.entry - 1:
                raise InvariantViolatedError(f"messages: {what}")
        endpoint.in_memory = cursor
        if not is_again or of_start == began:
            endpoint.known_in_memory = cursor
        for one in self._read_by(endpoint.subscription):
            of_memory = one._replace(kept=Kept.MEMORY)
            sought = cursor if endpoint.is_ephemeral else None
            if not endpoint.is_ephemeral and endpoint.known_in_memory == cursor:
                self._note(history.Acknowledged(self._at, of_memory, cursor))
            self._note(history.StreamBegan(self._at, of_memory, endpoint.stream, sought, wanted=endpoint.wanted))
        if is_again and of_start != began:
            endpoint.in_memory = known
            self._note_gap_in_memory(endpoint, cursor)
            endpoint.known_in_memory = cursor

    def _note_handed(self, endpoint: _Endpoint, item: Item, *, kept: Kept = Kept.DURABLE) -> None:
        subscription, message_id = endpoint.subscription._replace(kept=kept), item.message_id
        readers = [subscription]
        if is_pattern(subscription.process):
            readers = [subscription._replace(process=_served_by(subscription.process, who)) for who in item.recipients]
            self.tally["handed to gateways"] += 1
            is_again = self._position_of.setdefault((subscription, message_id), item.position) != item.position
            if not readers or len(set(readers)) < len(readers) or (is_again and not item.is_late):
                raise InvariantViolatedError(f"messages: {subscription} is handed {message_id} for {item.recipients}")
        for one in readers:
            what = (item.position, message_id, item.message.payload, item.is_late)
            self._note(history.Handed(self._at, one, endpoint.stream, *what))
            self.tally["handed"] += 1
            self.tally["handed from memory"] += kept is Kept.MEMORY

    def _end(self, endpoint: _Endpoint) -> None:
        if endpoint.is_open:
            endpoint.is_open = False
            for one in self._read_by(endpoint.subscription):
                self._note(history.StreamEnded(self._at, one, endpoint.stream))
                self._note(history.StreamEnded(self._at, one._replace(kept=Kept.MEMORY), endpoint.stream))
            if endpoint.is_ephemeral:
                self._submit(endpoint.subscription.server, StopListening(endpoint.ticket))

    def _close(self, process: NodeId, server: ServerId | None = None) -> None:
        self._submit(server or ServerId(subnet_of(process)), CloseMailbox(self._new_ticket(), process))

    def _open_processes(self) -> set[NodeId]:
        return {subscription.process for subscription in self._endpoints}

    # -- what servers answer

    def answered(self, server: ServerId, answers: list[Answer]) -> None:
        """What servers answer senders and endpoints."""
        for answer in answers:
            self._queueing.answered(answer)
            if self._policies is not None:
                self._policies.answered(server, answer)
            match answer:
                case Accepted(ticket):
                    sender = self._senders.pop(ticket, None)
                    if sender is not None:
                        self.tally["accepted"] += 1
                        self._later(partial(self._send_next, sender), self._chance.choice([0.0, 1.0, 20.0]))
                case Settled():
                    self.tally["settled"] += 1
                case DeliveryRefused(ticket, refusal):
                    self._senders.pop(ticket, None)
                    self._subscribing.pop(ticket, None)
                    self.tally[f"refused {refusal.reason.value}"] += 1
                case Subscribed(ticket, mailbox, cursor, epoch, in_memory):
                    endpoint = self._subscribing.pop(ticket, None)
                    if endpoint is None or server in self._cluster.down:
                        continue
                    self._streams += 1
                    if endpoint.mailbox != mailbox:
                        endpoint.known_in_memory = NOTHING_IN_MEMORY
                    endpoint.mailbox, endpoint.epoch, endpoint.stream = mailbox, epoch, self._streams
                    endpoint.handed, endpoint.is_open = cursor, True
                    sought = cursor if endpoint.is_ephemeral else None
                    for one in self._read_by(endpoint.subscription):
                        began = history.StreamBegan(self._at, one, endpoint.stream, sought, wanted=endpoint.wanted)
                        self._note(began)
                    self._begin_in_memory(endpoint, in_memory)
                    for _ in range(8):
                        self._later(partial(self._read, endpoint, endpoint.stream), 20.0)
                case DeadLettersReplayed(_, replayed):
                    self.tally["replayed"] += replayed
                case MailboxClosed() | DeadLettersDropped():
                    pass

    def let_out(self, server: ServerId, unkept: Shown | RingGrew | UnkeptAnswer, instant: int) -> None:
        """What is in memory may be handed out; datagrams are sent, and handed to those who listen at the moment."""
        if isinstance(unkept, RingGrew):
            self._memory.ring_through[server] = unkept.through
            return
        if isinstance(unkept, Accepted | Settled):
            if isinstance(unkept, Accepted):
                self._note_once(server, unkept, instant)
            self.answered(server, [unkept])
            return
        if isinstance(unkept, DatagramSent):
            send = self._sends[unkept.ticket]
            if self._policies is not None:
                self._policies.let_out(unkept)
            self.tally["datagrams sent"] += 1
            self._note(history.DatagramSent(instant, unkept.message_id, send.targets, send.message.payload))
            return
        datagram = unkept.datagram
        for endpoint in self._endpoints.values():
            is_here = endpoint.is_open and endpoint.subscription.server == server and server not in self._cluster.down
            if is_here and endpoint.mailbox in unkept.mailboxes:
                self.tally["datagrams handed"] += 1
                payload = datagram.message.payload
                self._note(history.DatagramHanded(self._at, endpoint.subscription, datagram.message_id, payload))

    # -- what is recorded

    @property
    def _at(self) -> int:
        return self._cluster.instant

    def _note(self, happening: history.Happening) -> None:
        self._history.append(happening)

    def watch(self) -> None:
        """Called after each step: who is below what, at the home of each mailbox."""
        if self._policies is not None:
            self._policies.watch()
        # Those that are down, too: others may end a membership meanwhile.
        cores = self._cluster.servers
        for server, ids in self._memory.unsettled.items():
            origin = cores[server].delivery.in_memory.origin
            settled = [message_id for message_id in ids if origin.is_settled(message_id)]
            self._note_settled(settled)
            for message_id in settled:
                del ids[message_id]
        state = [
            (
                core,
                core.graph.update_count,
                frozenset(core.graph.suspended),
                core.delivery.mailboxes.version,
                core.delivery.listeners.version,
                len(core.delivery.listeners),
                core.standing,
                core.is_steady,
            )
            for core in cores.values()
        ]
        if self._seen == (state, len(self._sets)):
            return
        self._seen = (state, len(self._sets))
        for targets in self._sets:
            known = self._members_known.below(targets)
            for server, core in cores.items():
                may_be_cut_off = core.is_parted or not core.is_steady
                for process, reader, is_below in self._readers(server, targets):
                    is_cut_off = not is_below and may_be_cut_off
                    # A process that was made a group keeps its mailbox, and gets nothing while it is one.
                    is_process = core.graph.group(process) is None
                    is_owed = is_below or (is_cut_off and is_process and known_members.CUT_OFF_IS_OWED)
                    found = (is_below or is_cut_off, is_owed and self._members_known.is_so_at(process, known, server))
                    if self._members.get((server, reader, targets)) != found:
                        self._members[server, reader, targets] = found
                        self._note(history.Membership(self._at, server, reader, targets, *found))

    def _readers(self, server: ServerId, targets: TargetSet) -> Iterator[tuple[NodeId, NodeId, bool]]:
        """Of a server's processes, who reads for each, and whether it is below a target set as that server says."""
        delivery = self._cluster.servers[server].delivery
        audience = delivery.audience(targets)
        yield from ((process, process, number in audience) for process, number in delivery.mailboxes.numbers.items())
        for ticket, (process, endpoint) in self._ephemeral.items():
            if endpoint.subscription.server == server and ticket in delivery.listeners:
                yield process, endpoint.subscription.process, delivery.listeners.numbers[process] in audience
        if not delivery.mailboxes.gateways:
            return
        assert delivery.reach is not None, "set before the first step"
        below = set[NodeId]()
        for target in targets:
            less = {one for name in target.excluding for one in processes_below(name, delivery.reach)}
            below |= set(processes_below(target.name, delivery.reach)) - less
        for pattern in delivery.mailboxes.gateways:
            yield from ((process, _served_by(pattern, process), process in below) for process in self._served(pattern))

    def _served(self, pattern: NodeId) -> list[NodeId]:
        """All whom a gateway may serve at some time."""
        if pattern not in self._served_by_pattern:
            population = self._population
            others = map(nobody_of, self._cluster.servers)
            names = dict.fromkeys((*population.processes, *population.groups, *population.spare_groups, *others))
            self._served_by_pattern[pattern] = [name for name in names if serves(pattern, name)]
        return self._served_by_pattern[pattern]

    def _read_by(self, subscription: SubscriptionId) -> list[SubscriptionId]:
        """Whose history a subscription is: of a gateway, that of each whom it may serve."""
        pattern = subscription.process
        if not is_pattern(pattern):
            return [subscription]
        return [subscription._replace(process=_served_by(pattern, process)) for process in self._served(pattern)]

    def written(self, server: ServerId, effects: ServerEffects, instant: int) -> None:
        """What a step changed became durable."""
        if not (effects.records.protocol or effects.records.log or effects.answers):
            return
        self._queueing.written(server, effects.records.protocol)
        known = self._known.setdefault(server, {})
        settled = [int(key) for part, key, value in effects.records.protocol if part == "parcel" and value is None]
        for record in effects.records.log:
            parcel = decode_stored(record.encoded)
            known[record.position] = [parcel.message_id(number) for number in range(len(parcel.messages))]
        accepted = [one for one in effects.answers if isinstance(one, Accepted) and not one.is_repeated]
        for answer in accepted:
            self._note_once(server, answer, instant)
        if FOREIGN_ARE_SERVED_ONCE:
            self._note_served(server, effects)
        ids = {message_id for position in settled for message_id in known.get(position, ())}
        posted = {message_id for record in effects.records.log for message_id in known[record.position]}
        ids |= {answer.message_id for answer in accepted} - posted
        # Settled is what callers were told: where an older parcel is not settled, its row stays.
        ids |= {answer.message_id for answer in effects.answers if isinstance(answer, Settled)}
        self._note_settled(ids)
        for begun in effects.answers:
            if isinstance(begun, Subscribed) and begun.ticket in self._ephemeral:
                reader = self._ephemeral[begun.ticket][1].subscription.process
                self._note(history.MailboxOpened(instant, server, reader, begun.mailbox))
        for part, key, value in effects.records.protocol:
            if part == "mailbox":
                self._note_mailbox(server, NodeId(key), value, instant)
            elif part == "dead letter" and value is not None:
                self._note_dead(server, int(key))
            elif part == "cursor" and value is not None:
                self._note_cursor(server, key, msgspec.msgpack.decode(value, type=Cursor))

    def _note_served(self, server: ServerId, effects: ServerEffects) -> None:
        """Which processes that nobody owns what became durable in the log is for."""
        core = self._cluster.servers[server].delivery
        for record in effects.records.log:
            audience = core.audiences.bitmap(record.audience)
            for process in filter(is_foreign, self._population.processes):
                numbers = (core.mailboxes.numbers.get(process), core.gateways.number_of(process))
                if any(number in audience for number in numbers if number is not None):
                    patterns = (EVERYBODY, f"*@{FOREIGN}")
                    readers = (process, *(_served_by(NodeId(pattern), process) for pattern in patterns))
                    for message_id in self._known[server][record.position]:
                        self._note(history.Logged(self._at, server, process, message_id, readers))

    def _note_once(self, server: ServerId, answer: Accepted, instant: int) -> None:
        # That a server gives an id twice is judged: it is no repetition of one message.
        found = (answer.message_id, self._sends[answer.ticket].message.payload)
        if found not in self._noted and not answer.is_repeated:
            self._noted.add(found)
            is_untold = self._gone_back.get(server) == self._cluster.servers[server].incarnations.own
            self.tally["accepted after a server had gone back"] += bool(self._gone_back)
            self.tally["accepted before a server was told that it had gone back"] += is_untold
            self.tally["accepted in memory"] += answer.kept is Kept.MEMORY
            self._note_accepted(server, answer, instant)

    def _note_settled(self, ids: Iterable[str]) -> None:
        for message_id in sorted(set(ids) & self._accepted.keys() - self._settled):
            self._settled.add(message_id)
            self._note(history.SettledAt(self._at, message_id, 0))

    def _note_went_back(self, core: Server) -> None:
        server = core.server
        for endpoint in self._endpoints.values():
            if endpoint.subscription.server == server:
                self._end(endpoint)
        self._note(history.WentBack(self._at, server))
        self._known.pop(server, None)
        for key in [key for key in self._numbers if key[0] == server]:
            del self._numbers[key]
        for each in [each for each in self._position_of if each[0].server == server]:
            del self._position_of[each]
        mailboxes = core.delivery.mailboxes
        for process, number in (*mailboxes.numbers.items(), *mailboxes.gateways.items()):
            self._numbers[server, process] = number
            for one in self._read_by(SubscriptionId(server, process, "")):
                self._note(history.MailboxOpened(self._at, server, one.process, number))

    def _note_given_up(self, ids: list[str]) -> None:
        for message_id in ids:
            self.tally["given up in memory"] += 1
            self._note(history.DeadLettered(self._at, message_id, "no room in memory"))

    def _note_dead(self, server: ServerId, position: int) -> None:
        for message_id in self._known[server].get(position, ()):
            if message_id not in self._dead:
                self._dead.add(message_id)
                self.tally["dead letters"] += 1
                self._note(history.DeadLettered(self._at, message_id, "given up"))

    def _note_mailbox(self, server: ServerId, process: NodeId, value: bytes | None, instant: int) -> None:
        kind: type[history.MailboxOpened | history.MailboxClosed]
        if value is None:
            kind, number = history.MailboxClosed, self._numbers.pop((server, process), 0)
        else:
            kind, number = history.MailboxOpened, msgspec.msgpack.decode(value, type=Mailbox).number
            self._numbers[server, process] = number
        for one in self._read_by(SubscriptionId(server, process, "")):
            self._note(kind(instant, server, one.process, number))

    def _note_cursor(self, server: ServerId, key: str, cursor: Cursor) -> None:
        number, _, name = key.partition(" ")
        for (home, process), mailbox in self._numbers.items():
            if home == server and mailbox == int(number):
                for one in self._read_by(SubscriptionId(server, process, name)):
                    self._note(history.Acknowledged(self._at, one, cursor.position))

    def _note_accepted(self, server: ServerId, accepted: Accepted, instant: int) -> None:
        send = self._sends[accepted.ticket]
        serial = int(accepted.message_id.partition("@")[0])
        self._accepted[accepted.message_id] = server
        is_in_memory = accepted.kept is Kept.MEMORY
        if is_in_memory:
            self._memory.unsettled[server][accepted.message_id] = None
        of_start = f" in memory since {accepted.message_id.rpartition('#')[2]}" if is_in_memory else ""
        self._note(
            history.Accepted(
                instant,
                accepted.message_id,
                server,
                f"{send.targets} of {server}{' gone back' if server in self._gone_back else ''}{of_start}",
                serial,
                send.targets,
                send.message.payload,
                send.message.sender,
                send.number,
                kept=accepted.kept,
            )
        )

    # -- what is judged

    def check(self, truth: TrueGraph) -> None:
        """All is at rest: endpoints read to the end, and the history is judged, and who is below what by the arcs."""
        for targets in self._sets:
            self._check_audiences(targets, truth)
        for endpoint in (*self._endpoints.values(), *(each for _, each in self._ephemeral.values())):
            if endpoint.subscription.server in self._cluster.gone or not self._lasts(endpoint):
                self._end(endpoint)
            elif endpoint.is_open and endpoint.subscription.server not in self._cluster.down:
                self._hand(endpoint, at_most=1_000_000)
                self._memory.ring_through[endpoint.subscription.server] = 2**63
                self._hand_from_memory(endpoint, at_most=1_000_000)
        for message_id, origin in self._accepted.items():
            if origin in self._cluster.gone and message_id not in self._settled:
                self._note(history.DeadLettered(self._at, message_id, "its origin is gone for good"))
        self._check_listeners()
        self._queueing.check()
        if self._policies is not None:
            self._policies.check()
        violations = check(History.gathered(self._history), is_at_rest=True)
        if violations:
            raise InvariantViolatedError(f"messages: {violations[0]}")
        for server, core in self._cluster.servers.items():
            for each in (core.delivery.origin, core.delivery.in_memory.origin):
                if server not in self._cluster.down and each.unsettled:
                    raise InvariantViolatedError(f"messages: {server} has parcels that are not settled")
            if server not in self._cluster.down and core.delivery.dead_letters.replayed_to():
                raise InvariantViolatedError(f"messages: {server} has dead letters under way")

    def _check_listeners(self) -> None:
        """Of ephemeral subscriptions nothing is left but of those that go on."""
        for server, core in self._cluster.servers.items():
            for ticket, (process, endpoint) in self._ephemeral.items():
                is_left = endpoint.subscription.server == server and ticket in core.delivery.listeners
                if is_left and not endpoint.is_open and server not in self._cluster.down:
                    raise InvariantViolatedError(f"messages: {server} keeps what listened for {process} and ended")

    def _check_audiences(self, targets: TargetSet, truth: TrueGraph) -> None:
        """Each server takes for below a target set those of its mailboxes that the arcs say are."""
        below = set[NodeId]()
        for target in targets:
            below |= truth.below([target.name]) - truth.below(target.excluding)
        for server, core in self._cluster.servers.items():
            if server in self._cluster.down:
                continue
            for process, reader, is_below in self._readers(server, targets):
                if core.graph.group(process) is not None:
                    is_addressed = any(each.name == process and process not in each.excluding for each in targets)
                    if is_below != is_addressed and process == reader:
                        raise InvariantViolatedError(f"audience: {server} is wrong of the archive of {process}")
                is_target = any(each.name == process for each in targets)
                # A process that nobody owns is judged by what its servers told all along: each knows a part of its
                # groups. One that was made a group keeps its mailbox, and gets nothing while it is one.
                is_owned = core.owner_of_name(process) == server and core.graph.group(process) is None
                if is_owned and not (is_target and process != reader) and is_below != (process in below):
                    takes = "takes" if is_below else "does not take"
                    raise InvariantViolatedError(f"audience: {server} {takes} {reader} for below {targets}")

    # --

    def _submit(self, server: ServerId, event: DeliveryEvent) -> None:
        self._cluster.network.put(server, event, delay=self._chance.expovariate(1.0))

    def _later(self, run: partial[None], mean: float) -> None:
        delay = self._chance.expovariate(1 / mean) if mean else 0.0
        self._cluster.network.put(ServerId(""), Errand(run), delay=delay)

    def _new_ticket(self) -> int:
        self._ticket += 1
        return self._ticket


def _served_by(pattern: NodeId, process: NodeId) -> NodeId:
    """The reader as which the history of one whom a gateway serves is kept."""
    return NodeId(f"{pattern} for {process}")
