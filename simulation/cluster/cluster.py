"""A cluster of real server cores in one process, on simulated disks and over a simulated network.

A crash loses every step that the disk has not written, and all output of the step in which the server crashes. By
default a crashed server restarts at once and its peers meet it again at once. With `connections` set, the server stays
away for a while, and peers may notice.

Runs are deterministic: two runs over equal networks with equal random generators exchange the same messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from random import Random
from typing import Protocol

from delivery.model.events import Answer, DatagramCame, DeliveryEvent
from delivery.server import Server, ServerEffects
from delivery.volatile.datagrams import PeerDatagram, Shown
from delivery.volatile.output import RingGrew, UnkeptAnswer
from namegraph import (
    PROTOCOL_VERSION,
    AddPeer,
    ChangeRecord,
    Command,
    Event,
    Lane,
    LogRecord,
    Outcome,
    PeerLetter,
    PeerMessage,
    PeerMet,
    PeerPosts,
    PeerReceived,
    PeerRestored,
    Priority,
    ReadCommand,
    Restored,
    ServerId,
    ServerPolicy,
    Subnet,
    Tick,
    UpdateCommand,
    UpdateId,
)
from namegraph.events import Reply
from namegraph.state.wait_limits import WaitLimits
from namegraph.wire.codec import Message, decode
from resolver.reach import GraphReach
from simulation.cluster.disk import Disk, HeldAnswer, Inflow, StepQueue, TakenStep
from simulation.cluster.fingerprint import Fingerprint
from simulation.cluster.message_text import update_of
from simulation.cluster.networks import Arrival, Errand, Network, PostedLetter, SentMessage
from simulation.cluster.no_faults_check import require_no_fault

STEPS_LIMIT = 200_000
"""Limit on the steps of one burst. A burst with more steps is taken to be endless."""

RESTARTS_LIMIT = 20
"""Limit on the restarts of one burst. Each restart sends letters again, so unlimited restarts would breed restarts."""

LOST_STEPS_SHARE = 0.5
"""Share of crashes that happen before the records of the step are durable."""

DATAGRAMS_LOST_SHARE = 0.1
"""Share of datagrams lost between two connected servers."""

NOTHING_DURABLE = -1.0
"""Crash point of a step: before its records are durable."""

GONE_SHARE = 0.2
"""Share of clients that do not ask again after their server has crashed and stays away."""

WORLD = ServerId("")
"""Pseudo-server of events that are no server's doing, such as the start of a crashed server."""


NO_TICKET = -1
"""Ticket of a command whose answer no client waits for."""


class NeverEndsError(AssertionError):
    """The servers send messages without end."""


@dataclass(frozen=True, slots=True)
class Restart:
    """History entry: a server crashed and restarted."""

    server: ServerId


@dataclass(frozen=True, slots=True)
class Undone:
    """Mark in the list of decisions: all steps of a server from step `since` on were lost in a crash.

    `since` counts the steps of all servers.
    """

    server: ServerId
    since: int


class ClusterLinks(Protocol):
    """Connections between servers. A connection can be missing."""

    def is_open(self, one: ServerId, other: ServerId) -> bool:
        """True if letters can leave `one` for `other`, whether or not they arrive."""

    def carries(self, sender: ServerId, receiver: ServerId) -> bool:
        """True if a message from `sender` reaches `receiver`."""

    def crashed(self, server: ServerId) -> None:
        """Note that a server has crashed."""

    def started(self, server: ServerId) -> None:
        """Note that a server has started again."""


class Watcher:
    """Observer of messages to groups. This base class ignores every notice."""

    def starts(self, core: Server) -> None:
        """Note that a server is about to take its first step."""

    def answered(self, server: ServerId, answers: list[Answer]) -> None:
        """Note the answers of the delivery half to its clients."""

    def let_out(self, server: ServerId, unkept: Shown | RingGrew | UnkeptAnswer, instant: int) -> None:
        """Note output that a server sends out and does not store, except for datagrams under way to other servers."""

    def written(self, server: ServerId, effects: ServerEffects, instant: int) -> None:
        """Note that the effects of step `instant` became durable at a server."""

    def stepped(self) -> None:
        """Note that a server has taken a step, or has crashed in one."""


class Cluster:
    """A set of servers, their disks, and all messages under way between them."""

    fingerprint: Fingerprint | None = None
    """Hash over the effects of all steps since it was set. None if no hash is taken."""
    liars: frozenset[ServerId] = frozenset()
    """Servers that may count faults, and of which others may count faults."""
    speaks: dict[ServerId, int]
    """Newest version of the protocol that each server of an earlier release speaks. Counts from the next meeting."""
    _policies: dict[ServerId, ServerPolicy]
    """Policies of servers that judge their callers."""

    def __init__(
        self,
        subnets: Sequence[Subnet],
        network: Network,
        *,
        crashes: Random | None = None,
        restart_share: float = 0.0,
        own_parts_later: bool = False,
        forgets_at_once: bool = False,
        begun_limit: int | None = None,
        absence_limit: float | None = None,
        is_configured: bool = True,
        core_type: type[Server] = Server,
        wait_limits: WaitLimits | None = None,
    ) -> None:
        """Create one server for each subnet, named after the subnet.

        `begun_limit`: limit on client updates under way at one coordinator, which queues further updates. None: the
        default limit of a coordinator.
        `core_type`: the class of the core of each server.
        `wait_limits`: limits of the waits for connected servers, in units of simulated time. None: servers wait for
        ever.
        `is_configured`: True if the addresses of peers come from the configuration, False if an operator adds the
        peers.
        `forgets_at_once`: True if servers forget left arcs whenever they can, and do not wait until many have come
        together.
        `absence_limit`: the longest absence of a server for which peers keep tombstones. None: tombstones are kept for
        ever.
        `own_parts_later`: True if a coordinator applies its own part of an update after it has told the participants,
        as it does for large updates.
        `restart_share`: the share of steps in which the server crashes and restarts. `crashes` draws whether the crash
        comes before or after the step is durable.
        """
        self.connections: ClusterLinks | None = None
        """Connections between the servers. None: all running servers are connected."""
        self.crash_within: Callable[[ServerId], float | None] = lambda _server: None
        """Function asked at each step. Returns the crash point of the step (`Taken.crash_at`), or None for no crash.

        A server that crashes this way stays away for `down_for()`.
        """
        self.down_for: Callable[[], float] = lambda: 0.0
        """Function asked at such a crash. Returns how long the server stays away."""
        self.on_answer: Callable[[int, Outcome], None] = lambda _ticket, _outcome: None
        self.watcher = Watcher()
        self.queues: dict[ServerId, StepQueue] = {}
        self.down: dict[ServerId, None] = {}
        """Servers that have crashed and not started again."""
        self.unconfigured: set[Subnet] = set()
        """Subnets whose servers the configuration no longer names, from the next start of a server on."""
        self.gone: dict[ServerId, None] = {}
        """Servers in `down` that start only when `bring_back` is called."""
        self.on_old_disks: dict[ServerId, None] = {}
        """Servers that were started on a disk older than the one they had written last."""
        self.unknown: dict[int, UpdateCommand] = {}
        """Update commands whose client does not know the outcome, by ticket."""
        self.instant = 0
        """Number of steps that all servers have taken."""
        self.subnets, self._policies = tuple(subnets), {}
        self.network = network
        self.servers: dict[ServerId, Server] = {}
        self.touched: set[ServerId] = set()
        """Servers that have taken a step or started since the observer last emptied this set."""
        self.answers: dict[int, Outcome] = {}
        self.places: dict[int, Priority] = {}
        """Place in the order of updates at which each answer was decided, by ticket."""
        self.decided: list[tuple[ServerId, Priority] | Undone] = []
        """Places of all answers and the servers that gave them, oldest first. A crash may keep an answer from its
        caller, or undo it.
        """
        self.sent: list[SentMessage] = []
        """All letters sent. Each holds a decoded message."""
        self.posts_sent = 0
        self.history: list[Arrival | Restart | None] = []
        """All arrivals that servers took and all restarts, in order. None stands for a step that a crash has undone."""
        self.restarts = self._starts = self._restarts_left = 0
        self._disks: dict[ServerId, Disk] = {}
        self._crashes, self._restart_share = crashes, restart_share
        self._own_parts_later, self._begun_limit = own_parts_later, begun_limit
        self._forgets_at_once, self._absence_limit = forgets_at_once, absence_limit
        self._is_configured, self._core_type, self._wait_limits = is_configured, core_type, wait_limits
        self._after_step: Callable[[], None] | None = None
        self._armed: dict[ServerId, float] = {}
        self._asking: dict[int, tuple[ServerId, UpdateCommand | ReadCommand]] = {}
        """Commands that a server has taken and not answered, by ticket."""
        self._asked_at: dict[int, ServerId] = {}
        self._tickets: dict[UpdateId, int] = {}
        self._begin()

    def _begin(self) -> None:
        self.speaks = {}
        for server in map(ServerId, self.subnets):
            self._disks[server] = Disk(server)
            self.queues[server] = StepQueue()
            self._start(server)
            if not self._is_configured:
                self._add_peers(server)
            self._meet_all(server)

    def protect(self, server: ServerId, policy: ServerPolicy) -> None:
        """Let a server judge its callers, by this policy, also after restarts."""
        self._policies[server] = policy
        self.servers[server].protect(policy)

    @property
    def now(self) -> float:
        """Time of the last step."""
        return self.network.now

    def submit(self, server: ServerId, command: Command, *, delay: float = 0.0) -> None:
        """Let a client ask a server, `delay` from now."""
        self.network.put(server, command, delay=delay)

    def send_errand(self, server: ServerId, errand: Errand, *, delay: float) -> None:
        """Schedule an errand at a server, `delay` from now."""
        self.network.put(server, errand, delay=delay)

    def run(self, after_step: Callable[[], None] | None = None) -> None:
        """Take arrivals until none is under way. Raises `NeverEndsError`."""
        steps = 0
        self._after_step = after_step
        self._restarts_left = RESTARTS_LIMIT if self._restart_share or self.connections is not None else 0
        while (arrival := self.network.next()) is not None:
            steps += 1
            if steps > STEPS_LIMIT:
                raise NeverEndsError(f"the servers go on after {steps} steps")
            self.take(arrival)

    def restart_all(self) -> None:
        """Restart every server from its disk."""
        for server in self.servers:
            self.restart(server)

    def start_on(self, disks: Mapping[ServerId, Disk]) -> None:
        """Restart every server, those in `disks` from these disks instead of their own, and connect all servers."""
        self._disks.update(disks)
        for server in self.servers:
            self._start(server)
        self.restart_all()

    def take(self, arrival: Arrival) -> None:
        """Let a server take one arrival."""
        server, event = arrival.server, arrival.event
        if isinstance(event, Errand):
            event.run()
            return
        if isinstance(event, UpdateCommand | ReadCommand):
            self._asking[event.ticket] = (server, event)
            self._asked_at[event.ticket] = server
        if server in self.down or self._is_receipt_lost(server, event):
            return
        crash_at = self._draw_crash(server)
        if crash_at == NOTHING_DURABLE:
            # The step is taken, but none of its effects becomes durable.
            replies = self._stepped(server, event).replies
            self._answer([reply for reply in replies if reply.is_confirmed])
            self._crash(server)
        else:
            self._step(arrival, event, crash_at)
        self.watcher.stepped()
        if self._after_step is not None:
            self._after_step()

    def _stepped(self, server: ServerId, event: Event | DeliveryEvent) -> ServerEffects:
        self.touched.add(server)
        effects = self.servers[server].step(event, self.now)
        if self.fingerprint is not None:
            self.fingerprint.add(server, effects)
        return effects

    def _step(self, arrival: Arrival, event: Event | DeliveryEvent, crash_at: float | None) -> None:
        server = arrival.server
        self.instant += 1
        place = len(self.history)
        self.history.append(arrival)
        core = self.servers[server]
        if isinstance(event, Restored):
            self.queues[server].begin_again(self.servers.keys() - {server})
        elif isinstance(event, PeerRestored):
            self.queues[server].begin_again([event.peer])
        effects = self._stepped(server, event)
        if server not in self.liars:
            require_no_fault(server, core, but=self.liars)
        self._note_places(server, effects.replies)
        self._name_updates(server, event)
        handled_before = _drain_handled_changed(core)
        receipts = _receipts_after(event, core, handled_before)
        taken = TakenStep(event, effects, effects.replies, receipts, self.instant, place, crash_at, handled_before)
        queue = self.queues[server]
        if queue.is_quick:
            self._write(server, effects)
            self._let_out(server, taken)
            return
        taken.replies = [reply for reply in effects.replies if not reply.is_confirmed]
        self._answer([reply for reply in effects.replies if reply.is_confirmed])
        self._arm(server)
        queue.waiting.append(taken)
        if not queue.writing and not queue.failures:
            self._begin_write(server)

    def asked_at(self, ticket: int) -> ServerId:
        """Return the server that took the command with this ticket."""
        return self._asked_at[ticket]

    def when_durable(self, server: ServerId, answer: HeldAnswer) -> None:
        """Release an answer of a server as soon as every step that it may rest on is durable there."""
        steps = self.queues[server].steps()
        if steps:
            steps[-1].held.append(answer)
        else:
            answer.let_out()

    def begin_failing(self, server: ServerId) -> None:
        """Make the disk of a server fail: its steps wait unwritten."""
        self.queues[server].failures += 1

    def end_failing(self, server: ServerId) -> None:
        """End one failure of a disk. When no failure is left, the waiting steps are written."""
        queue = self.queues[server]
        queue.failures -= 1
        if not queue.failures and queue.waiting and not queue.writing:
            self._begin_write(server)

    def copy_of_disk(self, server: ServerId) -> Disk:
        """Return a backup of the disk of a server as it is now."""
        return self._disks[server].copy()

    def record_of_changes(self, server: ServerId) -> list[ChangeRecord]:
        """Return the durable record of changes of a server, oldest first."""
        changes = self._disks[server].changes
        return [changes[number] for number in sorted(changes)]

    def log_of(self, server: ServerId) -> Mapping[int, LogRecord]:
        """Return the durable part of the message log of a server, by position."""
        return self._disks[server].log

    def _write(self, server: ServerId, effects: ServerEffects, instant: int | None = None) -> None:
        self._disks[server].write(effects.records)
        self.watcher.written(server, effects, self.instant if instant is None else instant)

    def crash(self, server: ServerId, *, down_for: float, disk: Disk | None = None) -> None:
        """Crash a server, so that it loses all that is not durable, and let it stay away for `down_for`.

        `disk`: the disk from which the server starts instead of its own.
        """
        if server in self.down:
            return
        self.down[server] = None
        self._lose_memory(server)
        if disk is not None:
            self._disks[server] = disk.copy()
            self.on_old_disks[server] = None
            self._start(server)
        for asked_at, command in list(self._asking.values()):
            if asked_at == server and isinstance(command, UpdateCommand) and self._chance_of(GONE_SHARE):
                del self._asking[command.ticket]
                self.unknown[command.ticket] = command
        if self.connections is not None:
            self.connections.crashed(server)
        self.network.put(WORLD, Errand(partial(self.start, server)), delay=down_for)

    def crash_for_good(self, server: ServerId) -> None:
        """Crash a server and let it stay away until `bring_back`. A server that is already down stays down as well."""
        self.gone[server] = None
        self.crash(server, down_for=0.0)

    def bring_back(self, server: ServerId) -> None:
        """Start a server that had crashed for good."""
        del self.gone[server]
        self.start(server)

    def start(self, server: ServerId) -> None:
        """Start a crashed server. Its clients ask again, and peers connect to it after a while."""
        if server in self.gone or server not in self.down:
            return
        del self.down[server]
        self.take(Arrival(self.now, server, Tick(), None))
        if self.connections is not None and server not in self.down:
            self.connections.started(server)
        if server not in self.down:
            self._send_own_kept(server)
        self._ask_again(server)

    def learn_unknown(self) -> None:
        """Tell clients that know of no outcome what became of their request ids. An update that was not done is not
        done now.
        """
        for ticket, command in list(self.unknown.items()):
            if self._asked_at[ticket] not in self.gone:
                del self.unknown[ticket]
                self._answer([self.outcome_now(command)])

    def outcome_now(self, command: UpdateCommand) -> Reply:
        """Return the answer to a request that is repeated after its deadline."""
        server = self._asked_at[command.ticket]
        late = replace(command, deadline=self.now - 1.0)
        effects = self._stepped(server, late)
        assert effects.records.is_empty(), f"what comes too late changes {effects.records}"
        (reply,) = effects.replies
        return reply

    def ticket_of(self, message: Message | PostedLetter) -> int | None:
        """Return the ticket of the command whose update a message carries out. None if the message belongs to no known
        update.
        """
        update_id = None if message is None else update_of(message)
        return None if update_id is None else self._tickets.get(update_id)

    def restart(self, server: ServerId) -> None:
        """Crash a server, restart it, and connect it again. Unreceived letters are sent again, and clients ask
        again.
        """
        self._lose_memory(server)
        self._meet_all(server)
        others = [other for other in self.servers if other != server]
        for other in others:
            self.network.lose(server, other)
        effects = self._stepped(server, Tick())
        self._write(server, effects)
        self._arm(server)
        self._send_own_kept(server)
        for reply in effects.replies:
            assert reply.ticket not in self._asking, "nobody waits at a server that starts"
        for other in others:
            self._step_at(other, self.meeting(other, server))
            for sender, receiver in ((server, other), (other, server)):
                for receipt in self.receipts(receiver, sender):
                    self._step_at(sender, receipt)
                self.send_kept(sender, receiver)
        self._ask_again(server)

    def meeting(self, server: ServerId, peer: ServerId) -> PeerMet:
        """Return the event with which a server meets a peer, in the version that both speak."""
        newest = PROTOCOL_VERSION
        version = min(self.speaks.get(server, newest), self.speaks.get(peer, newest))
        return PeerMet(peer, (Subnet(peer),), version)

    def _step_at(self, server: ServerId, event: PeerMet | PeerReceived) -> None:
        """Let a server take an event with which a connection begins, without the delay of the network."""
        core = self.servers[server]
        effects = self._stepped(server, event)
        self._write(server, effects)
        for letter in effects.messages:
            if letter.receiver != event.peer:
                self._send(server, letter)
        self._answer(effects.replies)
        self._let_out_unkept(server, effects, self.instant)
        self._give_receipts(server, _receipts_after(event, core, _drain_handled_changed(core)))
        self._arm(server)

    def durable_through(self, receiver: ServerId, sender: ServerId, lane: Lane = Lane.LETTERS) -> int:
        """Return the number of the sender's last letter of which all effects are durable at the receiver."""
        through = self.queues[receiver].handled_before(sender, lane)
        return self.servers[receiver].channels_of(lane).handled_through(sender) if through is None else through

    def receipts(self, receiver: ServerId, sender: ServerId) -> list[PeerReceived]:
        """Return the receipts that a receiver sends when a connection begins. Posts have none where the sender keeps
        none.
        """
        posts = self.servers[sender].posts
        lanes = Lane if posts.sent_through(receiver) > posts.forgotten_through(receiver) else (Lane.LETTERS,)
        return [PeerReceived(receiver, self.durable_through(receiver, sender, lane), lane) for lane in lanes]

    def send_kept(self, sender: ServerId, receiver: ServerId) -> None:
        """Send again all letters that are not known to have been received."""
        for lane in Lane:
            through = self._may_leave_through(sender, receiver, lane)
            for letter in self.servers[sender].channels_of(lane).kept(receiver):
                if letter.number > through:
                    break
                self._send(sender, letter)

    def _send_own_kept(self, server: ServerId) -> None:
        """Send again the letters of a restarted server to itself that it has not handled."""
        for receipt in self.receipts(server, server):
            self._write(server, self._stepped(server, receipt))
        self.send_kept(server, server)

    def _ask_again(self, server: ServerId) -> None:
        for asked_at, command in list(self._asking.values()):
            if asked_at == server:
                del self._asking[command.ticket]
                self.network.put(server, command, delay=self._some_time())

    def _draw_crash(self, server: ServerId) -> float | None:
        if self._restarts_left <= 0:
            return None
        if self.connections is not None:
            return self.crash_within(server)
        if not self._chance_of(self._restart_share):
            return None
        return NOTHING_DURABLE if self._chance_of(LOST_STEPS_SHARE) else 0.0

    def _is_receipt_lost(self, server: ServerId, event: Event | DeliveryEvent) -> bool:
        connections = self.connections
        return (
            connections is not None and isinstance(event, PeerReceived) and not connections.carries(event.peer, server)
        )

    def _crash(self, server: ServerId) -> None:
        if self.connections is None:
            self.restart(server)
        else:
            self.crash(server, down_for=self.down_for())

    def _lose_memory(self, server: ServerId) -> None:
        """Reset a server to its durable state."""
        self.restarts += 1
        self._restarts_left -= 1
        written, lost = ([], []) if self._crashes is None else self.queues[server].lose(self._crashes)
        for taken in written:
            self._write(server, taken.effects, taken.instant)
        for taken in lost:
            self.history[taken.place] = None
        if lost:
            self.decided.append(Undone(server, lost[0].instant))
            tickets = {taken.event.ticket for taken in lost if isinstance(taken.event, UpdateCommand | ReadCommand)}
            self._tickets = {update_id: known for update_id, known in self._tickets.items() if known not in tickets}
        self.network.lose(server, server)
        self.history.append(Restart(server))
        self._start(server)
        for taken in [*written, *lost]:
            for held in taken.held:
                held.lose()

    def _begin_write(self, server: ServerId) -> None:
        queue = self.queues[server]
        queue.writing, queue.waiting = queue.waiting, []
        assert self._crashes is not None
        delay = self._crashes.expovariate(1.0) * queue.mean_delay if queue.mean_delay else 0.0
        self.network.put(server, Errand(partial(self._end_write, server, queue.writing)), delay=delay)

    def _end_write(self, server: ServerId, written: list[TakenStep]) -> None:
        queue = self.queues[server]
        if queue.writing is not written:
            return  # The server has crashed since this write began.
        if queue.failures:
            queue.put_back()
            return
        for taken in written:
            self._write(server, taken.effects, taken.instant)
        queue.writing = []
        for number, taken in enumerate(written):
            queue.leaving = written[number + 1 :]
            if server not in self.down:
                self._let_out(server, taken)
            for held in taken.held:
                if server in self.down:
                    held.lose()
                else:
                    held.let_out()
        if server in self.down:
            return
        if queue.waiting:
            self._begin_write(server)

    def _let_out(self, server: ServerId, taken: TakenStep) -> None:
        """Send letters, give answers and send receipts for a durable step, or crash halfway through."""
        met = taken.event.peer if isinstance(taken.event, PeerMet) else None
        # A peer that was just met gets its kept letters from `send_kept`, and these letters are among them.
        free = [letter for letter in taken.effects.messages if self._may_leave(server, letter)]
        letters = [letter for letter in free if letter.receiver != met]
        replies = taken.replies
        if taken.crash_at is not None:
            leave = int(taken.crash_at * (len(letters) + len(replies) + 1))
            for letter in letters[:leave]:
                self._send(server, letter)
            self._answer(replies[: max(0, leave - len(letters))])
            self._crash(server)
            return
        for letter in letters:
            self._send(server, letter)
        if met is not None:
            self.send_kept(server, met)
        self._answer(replies)
        self.watcher.answered(server, taken.effects.answers)
        self._let_out_unkept(server, taken.effects, taken.instant)
        self._arm(server)
        self._give_receipts(server, taken.receipts)

    def _let_out_unkept(self, server: ServerId, effects: ServerEffects, instant: int) -> None:
        """Send datagrams. A datagram is lost by chance, and where the receiver is not connected."""
        for each in effects.unkept:
            if not isinstance(each, PeerDatagram):
                self.watcher.let_out(server, each, instant)
                continue
            is_open = self.connections is None or self.connections.is_open(server, each.receiver)
            if is_open and not self._chance_of(DATAGRAMS_LOST_SHARE):
                sent = SentMessage(self.now, server, each.receiver, PostedLetter(0, each.encoded))
                self.network.send(sent, DatagramCame(server, each.encoded))

    def _give_receipts(self, server: ServerId, receipts: Mapping[Inflow, int]) -> None:
        for (sender, lane), through in receipts.items():
            self.network.put(sender, PeerReceived(server, through, lane), delay=self._some_time())

    def _may_leave_through(self, server: ServerId, receiver: ServerId, lane: Lane) -> int:
        """Return the number of the last letter to a met server whose records are durable."""
        through = self.servers[server].channels_of(lane).left_through(receiver)
        first_held = self.queues[server].first_letter_held(receiver, lane)
        return through if first_held is None else min(through, first_held - 1)

    def _may_leave(self, server: ServerId, letter: PeerLetter) -> bool:
        return letter.number <= self._may_leave_through(server, letter.receiver, letter.lane)

    def _note_places(self, server: ServerId, replies: Iterable[Reply]) -> None:
        self.decided += [(server, reply.place) for reply in replies if reply.place is not None]

    def _answer(self, replies: Iterable[Reply]) -> None:
        for reply in replies:
            assert reply.ticket not in self.answers, "a caller is answered once"
            self._asking.pop(reply.ticket, None)
            self.answers[reply.ticket] = reply.outcome
            if reply.place is not None:
                self.places[reply.ticket] = reply.place
            self.on_answer(reply.ticket, reply.outcome)

    def _start(self, server: ServerId) -> None:
        own = Subnet(server)
        peers = {
            subnet: _address(subnet)
            for subnet in self.subnets
            if subnet != own and self._is_configured and subnet not in self.unconfigured
        }
        disk = self._disks[server]
        core = self.servers[server] = self._core_type.restore(disk.read(), subnets=[own], peers=peers)
        stored = [disk.log[position] for position in core.delivery.needed()]
        self._starts += 1
        self.touched.add(server)
        core.begin_delivery(GraphReach, stored, start=self._starts)
        if self._own_parts_later:
            core.leave_own_parts_for_later()
        if self._begun_limit is not None:
            core.limit_begun(self._begun_limit)
        if self._forgets_at_once:
            core.forget_at_once()
        core.limit_absences(self._absence_limit)
        core.protect(self._policies.get(server))
        core.limit_waits(self._wait_limits)
        self.watcher.starts(core)
        self._armed.pop(server, None)

    def _add_peers(self, server: ServerId) -> None:
        for subnet in self.subnets:
            if subnet != Subnet(server):
                added = AddPeer(NO_TICKET, subnet, _address(subnet))
                self._write(server, self._stepped(server, added))

    def _meet_all(self, server: ServerId) -> None:
        for subnet in self.subnets:
            if subnet != Subnet(server):
                met = self.meeting(server, ServerId(subnet))
                self._write(server, self._stepped(server, met))

    def counts(self) -> Counter[str]:
        """Return the number of messages sent, by type."""
        return Counter(type(sent.message).__name__ for sent in self.sent)

    def _arm(self, server: ServerId) -> None:
        """Schedule a tick at the next deadline of a server."""
        deadline = self.servers[server].next_deadline
        if deadline is not None and deadline != self._armed.get(server):
            self._armed[server] = deadline
            self.network.put(server, Tick(), delay=max(0.0, deadline - self.now) + 1e-6)

    def _send(self, sender: ServerId, letter: PeerLetter) -> None:
        if self.connections is not None and not self.connections.is_open(sender, letter.receiver):
            return
        is_post = letter.lane is Lane.POST
        message = PostedLetter(letter.number, letter.encoded) if is_post else decode(letter.encoded)
        sent = SentMessage(self.now, sender, letter.receiver, message)
        self.sent.append(sent)
        self.network.send(sent, PeerMessage(sender, letter.number, letter.encoded, letter.lane))

    def _name_updates(self, server: ServerId, event: Event | DeliveryEvent) -> None:
        """Note which update a command began. A coordinator holds an entry of its update from the start."""
        if isinstance(event, UpdateCommand | ReadCommand):
            for update_id in self.servers[server].entries.by_update:
                if update_id.coordinator == server:
                    self._tickets.setdefault(update_id, event.ticket)

    def _chance_of(self, share: float) -> bool:
        return self._crashes is not None and self._crashes.random() < share

    def _some_time(self) -> float:
        return 0.0 if self._crashes is None else self._crashes.expovariate(1.0)


def _drain_handled_changed(core: Server) -> dict[Inflow, int]:
    changed = {lane: core.channels_of(lane).drain_handled_changed() for lane in Lane}
    return {Inflow(sender, lane): before for lane, senders in changed.items() for sender, before in senders.items()}


def _receipts_after(event: Event | DeliveryEvent, core: Server, handled_before: Iterable[Inflow]) -> dict[Inflow, int]:
    """Return the receipts that are due after a step, also for a letter passed over and for posts that had waited."""
    due = dict.fromkeys(handled_before)
    came = event.posts[0] if isinstance(event, PeerPosts) else event
    if isinstance(came, PeerMessage):
        due[Inflow(came.sender, came.lane)] = None
    return {inflow: core.channels_of(inflow.lane).handled_through(inflow.sender) for inflow in due}


def _address(subnet: Subnet) -> str:
    return f"{subnet}:7400"
