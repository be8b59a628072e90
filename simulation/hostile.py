"""One of five servers lies, at random, in what it says to the others: the others keep all that must hold among them.

    letters of its core --> pass, change, withhold, repeat, delay, replace --> other servers
    forged letters, at random times ---------------------------------------/

The liar is a real core whose letters go through a `Liar`. It changes fields of legal letters, mixes them with fields of
other letters, says nothing where an answer is due, never decides, claims, and proposes and installs views. All other
servers reach one another all the time, and use limits of waits, in units of simulated time.

After some bursts of updates the liar is silent. The other servers then come to rest without it and must agree: on
groups, on arcs, and on the serial order of all updates that the liar had no part in. At no time may two of them part,
count a fault of one another, or keep an entry of the liar for longer than the limit.

Source: docs/protocol-updates.md, "What a wrong peer can do" and "Bounded waits"; docs/protocol-partitions.md, "Views".
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from random import Random
from typing import Any

from msgspec import Struct, structs

from delivery.model.events import DeliveryEvent
from namegraph import (
    Committed,
    CreateGroup,
    DeleteGroup,
    Event,
    JoinArc,
    Lane,
    LeaveArc,
    NodeId,
    PeerLetter,
    PeerLost,
    PeerMessage,
    PeerReceived,
    Priority,
    Reason,
    Refusal,
    ServerCore,
    ServerId,
    Subnet,
    UpdateCommand,
    subnet_of,
)
from namegraph.state.wait_limits import WaitLimits
from namegraph.update.locality import names_in
from namegraph.update.order_queue import EntryPhase
from namegraph.wire.arc_sets import each_arc
from namegraph.wire.codec import Message, NotAMessageError, decode_in_view, decode_outcome, encode, encode_outcome
from namegraph.wire.message_parts import Cover, ReconcileArc, SuspendArc, Update, UpdateId, ViewId
from namegraph.wire.update_messages import Abort, Commit, Final, Order, Ready, UpdateOutcome, Vote
from namegraph.wire.view_messages import (
    Accept,
    ArcDigest,
    Decline,
    DigestReply,
    ExcludedFromView,
    ForgetLeft,
    HintedOutcome,
    IncomingSuspended,
    Install,
    LeftForgotten,
    MemberReconciled,
    Open,
    Propose,
    Reach,
    SuspendIncoming,
    ViewReconciled,
)
from simulation.checks.cluster_invariants import check_arcs, check_groups, check_quiet
from simulation.cluster.cluster import WORLD, Cluster
from simulation.cluster.failures import FAULTS
from simulation.cluster.networks import Arrival, Channel, Errand, RandomNetwork, SentMessage
from simulation.oracle.serial_model import ArcName, TrueGraph, run_serially
from simulation.oracle.violation import InvariantViolatedError
from simulation.run import Tally, agree_on, create_groups
from simulation.workload.clients import Population, populate, submit_burst

SERVERS = 5

UNITS_PER_SECOND = 300.0
"""Units of simulated time in a second. A message takes one unit on average, and hundreds if it is very late."""

LIMITS = WaitLimits().in_units(UNITS_PER_SECOND)

LONGEST_LOCK_SECONDS = 40.0
"""Time within which an entry of the liar has ended, or its coordinator is given up and a view ends the entry."""

BURSTS_AT_MOST = 3
BURST_SECONDS = (5.0, 45.0, 120.0)
"""Durations of a burst, in which the liar lies."""

FORGED_AT_MOST = 60
"""Most letters of a burst that no core has written."""

CALM_UPDATES = 6
"""Updates of the others after the liar's end. None may be refused because of a server."""

LETTERS_KEPT = 200
"""Legal letters of which a liar remembers the fields."""

REST_SECONDS = 400.0
"""Time after the liar's end within which the others come to rest."""


class Lie(Enum):
    """Kinds of lies. A liar has some of them, and each has its share of its letters."""

    CHANGE = "change a field"
    WITHHOLD = "withhold"
    REPEAT = "repeat an earlier letter"
    ECHO = "send a letter of another server"
    NEVER_DECIDE = "never decide"
    NEVER_ANSWER = "never answer"
    VIEWS = "propose and install views"
    CLAIMS = "claim and offer"
    ORDERS = "order without end"


_ABOUT_VIEWS = (
    Reach,
    Propose,
    Decline,
    Accept,
    Install,
    ExcludedFromView,
    SuspendIncoming,
    IncomingSuspended,
    Open,
    MemberReconciled,
    ViewReconciled,
)

SHARES = (0.05, 0.2, 0.6)
"""Shares of letters that a lie changes."""


class Liar:
    """The letters of one server, as it sends them to others."""

    def __init__(
        self,
        server: ServerId,
        servers: list[ServerId],
        chance: Random,
        nodes: list[NodeId],
        *,
        lies_about_views: bool,
    ) -> None:
        self.server = server
        self.is_lying = False
        self._chance = chance
        self._others = [other for other in servers if other != server]
        self._nodes = nodes
        self._lies_about_views = lies_about_views
        lies = [lie for lie in Lie if lies_about_views or lie is not Lie.VIEWS]
        self.lies = chance.sample(lies, chance.choice([1, 2, 3, len(lies)]))
        self._share = chance.choice(SHARES)
        self._seen: list[tuple[ViewId, Message]] = []
        """Legal letters of all servers."""
        self._fields: dict[str, list[Any]] = {}
        """Values that were seen, by type and field."""
        self._said: dict[ServerId, list[bytes]] = {}
        self._highest = 0
        self.told: Counter[str] = Counter()

    def hear(self, view: ViewId, message: Message) -> None:
        """Note a legal letter of any server."""
        if len(self._seen) < LETTERS_KEPT or self._chance.random() < 0.1:
            if len(self._seen) >= LETTERS_KEPT:
                self._seen.pop(self._chance.randrange(LETTERS_KEPT))
            self._seen.append((view, message))
            for name, value in structs.asdict(message).items():
                known = self._fields.setdefault(f"{type(message).__name__}.{name}", [])
                if len(known) < LETTERS_KEPT:
                    known.append(value)
        if isinstance(message, Propose | Install | Reach | Accept):
            self._highest = max(self._highest, message.view.number)

    def says(self, receiver: ServerId, encoded: bytes) -> list[bytes]:
        """Return the letters that leave in place of a letter of the core."""
        if not self.is_lying:
            return [encoded]
        chance = self._chance
        view, message = decode_in_view(encoded)
        if self._is_about_views(message):
            return [encoded]
        said = self._said.setdefault(receiver, [])
        said.append(encoded)
        if Lie.NEVER_DECIDE in self.lies and isinstance(message, Commit | Abort | Final) and chance.random() < 0.7:
            return self._count(Lie.NEVER_DECIDE, [])
        if Lie.NEVER_ANSWER in self.lies and isinstance(message, Vote | Ready | Accept) and chance.random() < 0.7:
            return self._count(Lie.NEVER_ANSWER, [])
        if chance.random() >= self._share:
            return [encoded]
        lie = chance.choice(self.lies)
        match lie:
            case Lie.CHANGE:
                return self._count(lie, [self._encoded(self._changed(message), view)])
            case Lie.WITHHOLD:
                return self._count(lie, [])
            case Lie.REPEAT:
                return self._count(lie, [encoded, chance.choice(said)])
            case Lie.ECHO if self._seen:
                other_view, other = chance.choice(self._seen)
                if self._is_about_views(other):
                    return [encoded]
                return self._count(lie, [encoded, self._encoded(other, other_view)])
        return [encoded]

    def _is_about_views(self, message: Message) -> bool:
        """Return True for a letter that this liar leaves as it is."""
        return not self._lies_about_views and isinstance(message, _ABOUT_VIEWS)

    def forged(self, view: ViewId) -> bytes | None:
        """Return a letter that no core has written. None if this liar writes none."""
        chance = self._chance
        kinds = [lie for lie in self.lies if lie in (Lie.VIEWS, Lie.CLAIMS, Lie.ORDERS, Lie.ECHO, Lie.CHANGE)]
        if not kinds:
            return None
        lie = chance.choice(kinds)
        match lie:
            case Lie.VIEWS:
                message = self._about_views(view)
            case Lie.ORDERS:
                message = self._order()
            case _:
                seen = [each for _, each in self._seen if not self._is_about_views(each)]
                if not seen:
                    return None
                message = chance.choice(seen)
                if lie is not Lie.ECHO:
                    message = self._changed(message)
        self.told[f"forged: {lie.value}"] += 1
        return self._encoded(message, view)

    def _about_views(self, view: ViewId) -> Message:
        chance = self._chance
        self._highest += chance.choice([0, 1, 1, 2])
        number, own = self._highest, ViewId(self._highest, self.server)
        some = tuple(sorted({self.server, *chance.sample(self._others, chance.randint(0, len(self._others)))}))
        origin = chance.choice(self._fields.get("Accept.origin", [None]))
        members = chance.choice(self._fields.get("Install.members", [()]))
        if members and chance.random() < 0.6:
            members = tuple(chance.sample(members, chance.randint(1, len(members))))
        elif origin is not None:
            members = tuple((server, origin) for server in some)
        kinds: list[Message] = [
            Propose(own),
            Propose(own),
            Install(own, tuple(sorted(members)), chance.randint(0, 2_000), ()),
            Reach(chance.choice([own, view, ViewId(number, chance.choice(self._others))]), some),
            Decline(ViewId(number, chance.choice(self._others)), own, chance.choice([self.server, *self._others])),
            ExcludedFromView(own, some),
        ]
        return chance.choice(kinds)

    def _order(self) -> Message:
        chance = self._chance
        self._highest += 1
        update_id = UpdateId(self.server, 10_000 + self._highest)
        nodes = frozenset(chance.sample(self._nodes, min(len(self._nodes), chance.randint(1, 4))))
        own = [node for node in self._nodes if subnet_of(node) == Subnet(self.server)]
        steps: tuple[tuple[int, JoinArc], ...] = ()
        if own and chance.random() < 0.5:
            steps = ((1, JoinArc(chance.choice(self._nodes), chance.choice(own))),)
        update = Update(update_id, steps, chance.choice([1, 1, 10**6]), (), None, is_of_client=True)
        final = Priority(chance.randint(1, 500), self.server) if chance.random() < 0.3 else None
        return Order(update, Priority(chance.randint(1, 500), self.server), Cover(nodes, nodes), final)

    def _changed(self, message: Message) -> Message:
        """Return a letter with some fields of other letters of its kind, or with other numbers and servers."""
        chance = self._chance
        if isinstance(message, Commit) and chance.random() < 0.7:
            try:
                outcome = decode_outcome(message.outcome)
            except NotAMessageError:
                return message
            return structs.replace(message, outcome=encode_outcome(self._mixed(outcome)))
        mixed: Message = self._mixed(message)
        return mixed

    def _mixed(self, message: Any) -> Any:
        chance = self._chance
        names = list(structs.asdict(message))
        if not names:
            return message
        chosen = chance.sample(names, min(len(names), chance.choice([1, 1, 2])))
        return structs.replace(message, **{name: self._other(message, name) for name in chosen})

    def _other(self, message: Struct, name: str) -> Any:
        chance, value = self._chance, getattr(message, name)
        known = self._fields.get(f"{type(message).__name__}.{name}", [])
        if known and chance.random() < 0.6:
            return chance.choice(known)
        match value:
            case bool():
                return not value
            case int():
                return max(0, value + chance.choice([-3, -1, 1, 3, 50]))
            case Priority(counter, _):
                return Priority(max(0, counter + chance.choice([-3, -1, 1, 3, 50])), chance.choice(self._others))
            case UpdateId():
                return UpdateId(chance.choice([self.server, *self._others]), value.number)
            case tuple() if value and not hasattr(value, "_fields"):
                return tuple(chance.sample(value, chance.randint(0, len(value))))
        return value

    def _encoded(self, message: Message, view: ViewId) -> bytes:
        try:
            return encode(message, view)
        except (TypeError, ValueError, OverflowError):
            return b"garbage"

    def _count(self, lie: Lie, letters: list[bytes]) -> list[bytes]:
        self.told[lie.value] += 1
        return letters


@dataclass(slots=True)
class _Said:
    """The numbers of the letters from the liar to one server on one lane."""

    sent: int = 0
    numbers: list[int] = field(default_factory=list)
    """Numbers of these letters."""
    written: list[int] = field(default_factory=list)
    """Number of the last letter of the core that had left by then, for each of these letters."""


class LiarLinks:
    """Connections of a cluster in which only pairs with the liar part."""

    def __init__(self, cluster: HostileCluster, liar: ServerId) -> None:
        self._cluster, self._liar = cluster, liar
        self.parted: set[ServerId] = set()
        """Servers that are not connected with the liar."""

    def is_open(self, one: ServerId, other: ServerId) -> bool:
        """True if letters can leave `one` for `other`."""
        return self._liar not in (one, other) or not {one, other} & self.parted

    def carries(self, sender: ServerId, receiver: ServerId) -> bool:
        """True if a message from `sender` reaches `receiver`."""
        return self.is_open(sender, receiver)

    def crashed(self, server: ServerId) -> None:
        """Note that the liar has ended. No other server crashes."""
        assert server == self._liar
        for other in self._cluster.honest():
            self._cluster.part(other, "no connection")

    def started(self, server: ServerId) -> None:
        """Note that a server has started again."""


class HostileCluster(Cluster):
    """A cluster of which one server lies."""

    def __init__(self, subnets: list[Subnet], network: RandomNetwork, liar: Liar, chance: Random) -> None:
        self._liar = liar
        self._said: dict[tuple[ServerId, Lane], _Said] = {}
        self._network = network
        self._lock_since: dict[tuple[ServerId, UpdateId], float] = {}
        self._given_up: dict[ServerId, float] = {}
        self._noted: set[tuple[ServerId, str]] = set()
        self.longest_lock = 0.0
        self.liar_outcomes: list[Message] = []
        """Letters of the liar as they left."""
        super().__init__(subnets, network, crashes=chance, wait_limits=LIMITS)
        self.liars = frozenset([liar.server])
        self.links = LiarLinks(self, liar.server)
        self.connections = self.links
        for core in self.servers.values():
            core.let_be_slow(lambda server: server != liar.server)

    def honest(self) -> dict[ServerId, ServerCore]:
        """Return the servers that do not lie."""
        return {server: core for server, core in self.servers.items() if server != self._liar.server}

    def take(self, arrival: Arrival) -> None:
        """Let a server take one arrival. A liar that breaks its own core has ended."""
        if arrival.server != self._liar.server or isinstance(arrival.event, Errand):
            super().take(arrival)
            self._look(arrival.server)
            return
        event = self._as_written(arrival.event)
        if event is None:
            return
        try:
            super().take(Arrival(arrival.time, arrival.server, event, arrival.sent))
        except FAULTS:
            self._liar.told["broke its own core"] += 1
            self.end_liar()

    def end_liar(self) -> None:
        """Let the liar stay away for good."""
        if self._liar.server not in self.gone:
            self.crash_for_good(self._liar.server)

    def run_for(self, seconds: float, after_step: Callable[[], None]) -> None:
        """Take arrivals for some time."""
        end = self.now + seconds * UNITS_PER_SECOND
        is_over: list[bool] = []
        self.network.put(WORLD, Errand(partial(is_over.append, True)), delay=end - self.now)
        while not is_over and (arrival := self.network.next()) is not None:
            self.take(arrival)
            after_step()

    def part(self, server: ServerId, why: str) -> None:
        """Break the connection of a server with the liar."""
        liar = self._liar.server
        if server in self.links.parted:
            return
        self.links.parted.add(server)
        for channel in (Channel(server, liar), Channel(liar, server)):
            self._network.drop(channel)
        self.take(Arrival(self.now, server, PeerLost(liar, why), None))
        if liar not in self.down:
            self.take(Arrival(self.now, liar, PeerLost(server, why), None))

    def forge(self) -> None:
        """Send a letter that no core has written, to some server."""
        liar, chance = self._liar, self._crashes
        assert chance is not None
        receiver = chance.choice(sorted(self.honest()))
        if liar.server in self.down or not self.links.is_open(liar.server, receiver):
            return
        view = self.servers[chance.choice([liar.server, receiver])]._context.view
        encoded = liar.forged(view)
        if encoded is not None:
            self._emit(receiver, encoded, Lane.LETTERS, 0)

    def _meet_again(self, server: ServerId) -> None:
        liar = self._liar.server
        if liar in self.down or server not in self.links.parted:
            return
        self.links.parted.discard(server)
        for lane in Lane:
            said = self._said.get((server, lane))
            if said is not None:
                said.sent = self.servers[server].channels_of(lane).handled_through(liar)
        for one, other in ((server, liar), (liar, server)):
            self.take(Arrival(self.now, one, self.meeting(one, other), None))
        for receipt in self.receipts(liar, server):
            self.take(Arrival(self.now, server, receipt, None))
        self.send_kept(server, liar)

    def _look(self, server: ServerId) -> None:
        """Look at a server that does not lie: what it gave up, whom it left out, and how long entries of the liar
        stay."""
        if server == WORLD:
            return
        core, liar = self.servers[server], self._liar.server
        for given_up, how in core.given_up(self.now).items():
            if given_up != liar:
                raise InvariantViolatedError(f"parted: {server} gave up {given_up}, which {how.why}")
            if self._given_up.get(server) != how.until:
                self._given_up[server] = how.until
                self._liar.told[f"given up: {how.why.split(':')[0]}"] += 1
                self.part(server, how.why)
                delay = how.until - self.now
                self.network.put(WORLD, Errand(partial(self._meet_again, server)), delay=delay)
        for mistrusted in core.mistrusted(self.now):
            if mistrusted != liar:
                raise InvariantViolatedError(f"blame: {server} mistrusts {mistrusted}")
            if (server, "mistrusts") not in self._noted:
                self._noted.add((server, "mistrusts"))
                self._liar.told["mistrusted"] += 1
        if core.members:
            left_out = sorted(self.honest().keys() - set(core.members))
            gave_up, others = self.links.parted, self.honest().keys() - set(left_out)
            is_apart = (liar in core.members and gave_up.issuperset(left_out)) or gave_up.issuperset(others)
            if left_out and is_apart:
                # Nobody can tell which of two servers is to blame that do not reach each other.
                self._liar.told["views of servers that did not all give the liar up"] += 1
            elif left_out:
                raise InvariantViolatedError(f"parted: the view {core.view} of {server} leaves out {left_out}")
        seen = self._lock_since
        for update_id, entry in core.entries.by_update.items():
            if update_id.coordinator == liar and entry.phase is not EntryPhase.PLACED:
                seen.setdefault((server, update_id), self.now)
        for key in [key for key in seen if key[0] == server]:
            seconds = (self.now - seen[key]) / UNITS_PER_SECOND
            self.longest_lock = max(self.longest_lock, seconds)
            if key[1] not in core.entries.by_update:
                del seen[key]
            elif seconds > LONGEST_LOCK_SECONDS and liar not in core.given_up(self.now):
                raise InvariantViolatedError(f"lock: {server} keeps {key[1]} of the liar for {seconds:.1f} s")

    def _send(self, sender: ServerId, letter: PeerLetter) -> None:
        if letter.lane is Lane.LETTERS:
            view, message = decode_in_view(letter.encoded)
            self._liar.hear(view, message)
        if sender != self._liar.server or letter.receiver == sender:
            super()._send(sender, letter)
            return
        if not self.links.is_open(sender, letter.receiver):
            return
        encoded = [letter.encoded]
        if letter.lane is Lane.LETTERS:
            encoded = self._liar.says(letter.receiver, letter.encoded)
        for each in encoded:
            self._emit(letter.receiver, each, letter.lane, letter.number)

    def _emit(self, receiver: ServerId, encoded: bytes, lane: Lane, written: int) -> None:
        said = self._said.setdefault((receiver, lane), _Said())
        said.sent += 1
        said.numbers.append(said.sent)
        said.written.append(max(written, said.written[-1] if said.written else 0))
        if lane is Lane.LETTERS:
            try:
                self.liar_outcomes.append(decode_in_view(encoded)[1])
            except NotAMessageError:
                self._liar.told["unreadable"] += 1
        sent = SentMessage(self.now, self._liar.server, receiver, Abort(UpdateId(self._liar.server, 0)))
        self.network.send(sent, PeerMessage(self._liar.server, said.sent, encoded, lane))

    def _as_written(self, event: Event | DeliveryEvent) -> Event | DeliveryEvent | None:
        """Return a receipt as the liar's core expects it: by the numbers of the letters that it has written."""
        if not isinstance(event, PeerReceived) or event.peer == self._liar.server:
            return event
        said = self._said.get((event.peer, event.lane))
        if said is None:
            return None
        place = bisect_right(said.numbers, event.through)
        through = said.written[place - 1] if place else 0
        return PeerReceived(event.peer, through, event.lane) if through else None


class TaintedArcs:
    """Arcs and groups in which the liar had a part. The serial run does not judge them."""

    def __init__(self, liar: ServerId) -> None:
        self._liar = liar
        self.arcs: set[ArcName] = set()
        self.groups: set[NodeId] = set()

    def note(self, letters: Iterable[Message]) -> None:
        """Note all arcs and groups that letters of the liar change."""
        for message in letters:
            match message:
                case Order(update):
                    for _, step in update.operations:
                        self._note_step(step)
                    self.arcs.update((arc.parent, arc.child) for arc in update.leaves)
                case Commit(_, encoded):
                    try:
                        outcome = decode_outcome(encoded)
                    except NotAMessageError:
                        continue
                    self._note_outcome(outcome)
                case Accept(decided=decided):
                    self._note_encoded(each for _, each in decided)
                case Install(commits=commits):
                    self._note_encoded(commits)
                case HintedOutcome(_, groups, arcs):
                    self.groups.update(change.group for change in groups)
                    self.arcs.update((known.arc.parent, known.arc.child) for known in arcs)
                case ArcDigest(arcs) | DigestReply(arcs):
                    self.arcs.update((known.arc.parent, known.arc.child) for known in arcs)
                case ForgetLeft(left) | LeftForgotten(left):
                    self.arcs.update((each.arc.parent, each.arc.child) for each in left)
                case Ready(groups=changes, arcs=arcs):
                    self.groups.update(change.group for change in changes)
                    self.arcs.update((known.arc.parent, known.arc.child) for known in each_arc(arcs))

    def _note_encoded(self, outcomes: Iterable[bytes]) -> None:
        for encoded in outcomes:
            try:
                self._note_outcome(decode_outcome(encoded))
            except NotAMessageError:
                continue

    def _note_outcome(self, outcome: UpdateOutcome) -> None:
        self.groups.update(change.group for change in outcome.groups)
        self.arcs.update((known.arc.parent, known.arc.child) for known in each_arc(outcome.arcs))

    def _note_step(self, step: object) -> None:
        match step:
            case CreateGroup(group) | DeleteGroup(group):
                self.groups.add(group)
            case JoinArc(parent, child) | LeaveArc(parent, child):
                self.arcs.add((parent, child))
            case SuspendArc(parent, child) | ReconcileArc(parent, child):
                self.arcs.add((parent, child))

    def touches(self, operations: Iterable[object]) -> bool:
        """True if the liar had a part in what an update depends on."""
        for operation in operations:
            match operation:
                case CreateGroup(group) | DeleteGroup(group):
                    if self._is_tainted(group) or any(group in arc for arc in self.arcs):
                        return True
                case JoinArc(parent, child) | LeaveArc(parent, child):
                    if (parent, child) in self.arcs or self._is_tainted(parent) or self._is_tainted(child):
                        return True
        return False

    def _is_tainted(self, node: NodeId) -> bool:
        return node in self.groups or subnet_of(node) == Subnet(self._liar)


class HostileRun:
    """A seed that runs with a liar."""

    def __init__(self, seed: int, *, updates: int | None = None, lies_about_views: bool = False) -> None:
        self._chance = chance = Random(f"hostile {seed}")  # noqa: S311 - a seed must replay
        subnets = [Subnet(f"s{number}.example") for number in range(SERVERS)]
        servers = [ServerId(subnet) for subnet in subnets]
        network = RandomNetwork(chance, is_wild=chance.random() < 0.7)
        self._population = populate(chance, subnets)
        nodes = [*self._population.groups, *self._population.processes, *self._population.spare_groups]
        lying = Random(f"liar {seed}")  # noqa: S311 - as above
        self._liar = Liar(chance.choice(servers), servers, lying, nodes, lies_about_views=lies_about_views)
        self._cluster = HostileCluster(subnets, network, self._liar, chance)
        self._updates = updates
        self._arcs: dict[ArcName, int] = {}
        self._tainted = TaintedArcs(self._liar.server)

    def run(self) -> Tally:
        """Run all bursts. Raises `AssertionError` if any check fails."""
        chance, cluster = self._chance, self._cluster
        create_groups(cluster, self._population)
        self._liar.is_lying = True
        for _ in range(chance.randint(1, BURSTS_AT_MOST)):
            seconds = chance.choice(BURST_SECONDS)
            size = chance.randint(2, 12) if self._updates is None else self._updates
            submit_burst(chance, cluster, self._population, self._arcs, updates=size)
            for _ in range(chance.randint(0, FORGED_AT_MOST)):
                delay = chance.random() * seconds * UNITS_PER_SECOND
                cluster.network.put(WORLD, Errand(cluster.forge), delay=delay)
            cluster.run_for(seconds, lambda: None)
        cluster.end_liar()
        began = cluster.now
        cluster.run()
        if cluster.now - began > REST_SECONDS * UNITS_PER_SECOND:
            raise InvariantViolatedError(f"stuck: it took {(cluster.now - began) / UNITS_PER_SECOND:.0f} s to rest")
        self._check()
        self._check_calm_updates()
        return self._tally()

    def _check_calm_updates(self) -> None:
        """Let clients of the other servers go on, and require that no update is refused because of a server."""
        cluster, population, answered = self._cluster, self._without_liar(), set(self._cluster.answers)
        if not population.groups or (self._population.wanted and not population.wanted):
            return
        submit_burst(self._chance, cluster, population, self._arcs, updates=CALM_UPDATES)
        cluster.run()
        for ticket in cluster.answers.keys() - answered:
            answer = cluster.answers[ticket]
            if not (isinstance(answer, Refusal) and answer.reason is Reason.UNAVAILABLE):
                continue
            in_doubt = set().union(*(core.in_doubt_about for core in cluster.honest().values()))
            if in_doubt.isdisjoint(names_in(self._population.commands[ticket].operations)):
                raise InvariantViolatedError(f"an update of the others was refused: {answer.message}")
        self._check()

    def _without_liar(self) -> Population:
        population = self._population
        wanted, loops = self._arcs_without(population.wanted), self._arcs_without(population.loops)
        return Population(
            [each for each in population.groups if not self._is_liars(each)],
            [each for each in population.processes if not self._is_liars(each)],
            [],
            wanted if loops else [],
            loops if wanted else [],
            population.alone_share,
            population.commands,
        )

    def _check(self) -> None:
        """Compare the other servers with one another, and with the serial run. Call this at rest."""
        cluster, population, tainted = self._cluster, self._population, self._tainted
        honest = cluster.honest()
        tainted.note(cluster.liar_outcomes)
        commands = {
            ticket: command
            for ticket, command in population.commands.items()
            if cluster.asked_at(ticket) != self._liar.server
        }
        check_quiet(honest, commands, cluster.answers)
        for server, core in honest.items():
            if set(core.members) - honest.keys() or not (core.is_healed or not core.members):
                raise InvariantViolatedError(
                    f"stuck: {server} is in a view of {core.members}, healed: {core.is_healed}"
                )
            waiting = [arc for arc, _ in core.suspended_arcs() if not any(map(self._is_liars, arc))]
            waiting = [arc for arc in waiting if (arc.parent, arc.child) not in tainted.arcs]
            if waiting:
                raise InvariantViolatedError(f"stuck: {server} has suspended {waiting}")
        state = run_serially(commands, cluster.answers, cluster.places, population.groups, None, tainted)
        groups = {group for group in state.groups if not self._is_liars(group) and group not in tainted.groups}
        for group in tainted.groups:
            home = honest.get(ServerId(subnet_of(group)))
            if home is not None and home.graph.group(group) is not None:
                groups.add(group)
        arcs = {arc: cost for arc, cost in state.arcs.items() if not any(map(self._is_liars, arc))}
        named = [arc for arc in self._named_arcs(commands.values()) if not tainted.groups.isdisjoint(arc)]
        agree_on(honest, arcs, self._arcs_without([*tainted.arcs, *named]))
        self._arcs = arcs
        check_groups(honest, groups)
        check_arcs(honest, TrueGraph(arcs))

    def _named_arcs(self, commands: Iterable[UpdateCommand]) -> set[ArcName]:
        """Return the arcs that clients have joined or left."""
        operations = [operation for command in commands for operation in command.operations]
        return {(each.parent, each.child) for each in operations if isinstance(each, JoinArc | LeaveArc)}

    def _arcs_without(self, arcs: Iterable[ArcName]) -> list[ArcName]:
        return sorted(arc for arc in arcs if not any(map(self._is_liars, arc)))

    def _is_liars(self, node: NodeId) -> bool:
        return subnet_of(node) == Subnet(self._liar.server)

    def _tally(self) -> Tally:
        cluster = self._cluster
        tally = Tally(messages=cluster.counts(), troubles=Counter(self._liar.told))
        for outcome in cluster.answers.values():
            tally.outcomes["committed" if isinstance(outcome, Committed) else outcome.reason.value] += 1
        for core in cluster.honest().values():
            for (_, fault), count in core.channels.faults.items():
                tally.troubles[f"fault: {fault}"] += count
        return tally


def run_hostile_seed(seed: int, *, updates: int | None = None) -> Tally:
    """Run one seed with a liar. Raises `AssertionError` if any check fails."""
    return HostileRun(seed, updates=updates).run()
