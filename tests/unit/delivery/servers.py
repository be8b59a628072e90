"""Servers with both halves in one process, over lanes that deliver at once and in order; disks that can be read."""

from collections import deque

from delivery.model.events import (
    Accepted,
    CloseParcels,
    DatagramCame,
    DatagramSent,
    OpenMailbox,
    PeerStarted,
    Send,
    Settled,
    Subscribe,
)
from delivery.model.words import MessageContent, Quality, target_set
from delivery.server import Server
from delivery.volatile.datagrams import PeerDatagram, Shown
from delivery.volatile.in_memory import SHARE_SECONDS_LIMIT
from delivery.wire.posts import decode_stored
from namegraph import (
    AddPeer,
    CreateGroup,
    JoinArc,
    Lane,
    LeaveArc,
    NodeId,
    PeerLetter,
    PeerLost,
    PeerMessage,
    PeerMet,
    PeerReceived,
    RemovePeer,
    RequestId,
    RetirePeer,
    ServerId,
    Subnet,
    Tick,
    UpdateCommand,
)
from resolver.reach import GraphReach
from simulation.cluster.disk import Disk


class Servers:
    """Servers, one for each subnet."""

    def __init__(self, *subnets, is_configured=True):
        """Create servers. `is_configured`: True if servers know one another by their configuration, which operators
        cannot change at run time.
        """
        self._is_configured = is_configured
        self.disks = {ServerId(subnet): Disk(ServerId(subnet)) for subnet in subnets}
        self.servers = {}
        self.answers = {}
        self.shown = {}
        """The datagrams that endpoints of each process could be handed."""
        self.on_shown = {}
        """Functions that hand datagrams to endpoints, by server."""
        self.datagrams_sent = []
        """Sent datagrams as (sender, receiver), in order."""
        self.starts = 0
        self.under_way = deque()
        self.held = set()
        """Pairs (sender, receiver) whose lanes let nothing through: it waits."""
        self.held_posts = set()
        """Ways on which posts alone are held."""
        self.held_letters = set()
        """Ways on which letters alone are held."""
        self.gone = set()
        self.receipts_of = set(self.disks)
        """Servers that send receipts."""
        self.waiting = deque()
        self._ticket = 0
        self.now = 0.0
        for server in self.disks:
            self.start(server)
        for server in self.disks:
            for other in self.disks:
                if other != server and not is_configured:
                    self.step(server, AddPeer(self.ticket(), Subnet(other), f"{other}:7400"))
            self.meet(server)

    def start(self, server):
        """Start a server from its disk."""
        own = Subnet(server)
        peers = {Subnet(other): f"{other}:7400" for other in self.disks if other != server and self._is_configured}
        found = Server.restore(self.disks[server].read(), subnets=[own], peers=peers)
        stored = [self.disks[server].log[position] for position in found.delivery.needed()]
        self.starts += 1
        found.begin_delivery(GraphReach, stored, start=self.starts)
        self.servers[server] = found

    def meet(self, server):
        for other in self.disks:
            if other != server and other not in self.gone:
                self.step(server, PeerMet(other, (Subnet(other),)))

    def restart(self, server):
        """Lose what is in memory, and connect again."""
        self.under_way = deque(one for one in self.under_way if server not in one[:2])
        self.start(server)
        self._connect(server)

    def _connect(self, server):
        self.meet(server)
        for other in self.disks:
            if other == server or other in self.gone:
                continue
            for one, two in ((server, other), (other, server)):
                self.step(one, PeerStarted(two))
                for lane, there in (
                    (Lane.LETTERS, self.servers[two].channels),
                    (Lane.POST, self.servers[two].delivery.post),
                ):
                    self.step(one, PeerReceived(two, there.handled_through(one), lane))
                for channels in (self.servers[one].channels, self.servers[one].delivery.post):
                    for letter in channels.kept(two):
                        self.under_way.append((one, two, letter))

    def step(self, server, event):
        effects = self.servers[server].step(event, self.now)
        self.disks[server].write(effects.records)
        for letter in effects.messages:
            self.under_way.append((server, letter.receiver, letter))
        for answer in effects.answers:
            self.answers.setdefault(answer.ticket, []).append(answer)
        for each in effects.unkept:
            self._let_out(server, each)
        for reply in effects.replies:
            self.answers.setdefault(reply.ticket, []).append(reply.outcome)
        return effects

    def _let_out(self, server, unkept):
        match unkept:
            case PeerDatagram(receiver):
                self.datagrams_sent.append((server, receiver))
                self.under_way.append((server, receiver, unkept))
            case DatagramSent(ticket) | Accepted(ticket) | Settled(ticket):
                self.answers.setdefault(ticket, []).append(unkept)
            case Shown(mailboxes, datagram):
                if server in self.on_shown:
                    self.on_shown[server](unkept)
                numbers = self.servers[server].delivery.mailboxes.numbers
                for process in sorted(name for name, number in numbers.items() if number in mailboxes):
                    self.shown.setdefault(process, []).append(datagram)

    def run(self):
        """Let all that is under way arrive."""
        self.under_way.extend(self.waiting)
        self.waiting.clear()
        for server, core in self.servers.items():
            while server not in self.gone and core.delivery.has_more:
                self.step(server, Tick())
            if server not in self.gone and core.delivery.in_memory.origin.open:
                self.now += SHARE_SECONDS_LIMIT
                self.step(server, Tick())
        while self.under_way:
            sender, receiver, letter = self.under_way.popleft()
            is_post = isinstance(letter, PeerLetter) and letter.lane is Lane.POST
            held = self.held_posts if is_post else self.held_letters
            if (sender, receiver) in self.held or (sender, receiver) in held:
                self.waiting.append((sender, receiver, letter))
                continue
            if isinstance(letter, PeerDatagram):
                self.step(receiver, DatagramCame(sender, letter.encoded))
                continue
            self.step(receiver, PeerMessage(sender, letter.number, letter.encoded, letter.lane))
            if receiver in self.receipts_of:
                self.step(
                    sender,
                    PeerReceived(receiver, self.lane(receiver, letter.lane).handled_through(sender), letter.lane),
                )

    def lane_handled(self, receiver, sender):
        """Have a server send another one the receipt for its posts."""
        handled = self.lane(receiver, Lane.POST).handled_through(sender)
        self.step(sender, PeerReceived(receiver, handled, Lane.POST))
        self.run()

    def lane(self, server, lane):
        return self.servers[server].channels_of(lane)

    def ticket(self):
        self._ticket += 1
        return self._ticket

    def update_command(self, ticket, *operations):
        return UpdateCommand(ticket, RequestId(f"update {ticket}"), operations)

    def update(self, server, *operations):
        ticket = self.ticket()
        self.step(ServerId(server), self.update_command(ticket, *operations))
        self.run()
        return self.answers[ticket][-1]

    def create(self, *groups):
        for group in groups:
            self.update(group.partition("@")[2], CreateGroup(NodeId(group)))

    def join(self, parent, child):
        return self.update(parent.partition("@")[2], JoinArc(NodeId(parent), NodeId(child)))

    def leave(self, parent, child):
        return self.update(parent.partition("@")[2], LeaveArc(NodeId(parent), NodeId(child)))

    def new_send(self, *targets, payload=b"hello", excluding=(), sender="", **more):
        """Return a command to send a message to groups."""
        names, less = [NodeId(name) for name in targets], [NodeId(name) for name in excluding]
        message = MessageContent(payload, sender=sender)
        return Send(self.ticket(), target_set(names, less), message, **({"wants_settled": True} | more))

    def close_parcels(self, server):
        self.step(server, CloseParcels())
        self.run()

    def send(self, *targets, run=True, **more):
        """Send a message to groups; returns the answers."""
        server = ServerId(targets[0].partition("@")[2])
        send = self.new_send(*targets, **more)
        self.step(server, send)
        self.step(server, CloseParcels())
        if run:
            self.run()
        return self.answers.get(send.ticket, [])

    def send_datagram(self, *targets, **more):
        """Send one; returns the answers."""
        return self.send(*targets, quality=Quality.DATAGRAM, **({"wants_settled": False} | more))

    def listen(self, process, subscription="", *, at=None, **more):
        """Open a mailbox, and a subscription of it; at the home of the process, or at some server."""
        server = ServerId(at or process.partition("@")[2])
        ticket = self.ticket()
        self.step(server, Subscribe(ticket, NodeId(process), subscription, **more))
        return self.answers[ticket][-1]

    def open(self, name):
        """Open the mailbox of a process, or the archive of a group."""
        self.step(ServerId(name.partition("@")[2]), OpenMailbox(self.ticket(), NodeId(name)))

    def log_ends(self):
        """Return the last position of each server's log."""
        return {server: max(disk.log, default=0) for server, disk in self.disks.items()}

    def log_of(self, process, *, after=None):
        """Return the payloads that the log has for a mailbox, in order. `after`: only later ones, from a result of
        `log_ends`.
        """
        server = ServerId(process.partition("@")[2])
        core = self.servers[server].delivery
        number = core.mailboxes.numbers[NodeId(process)]
        log = self.disks[server].log
        first = 0 if after is None else after[server] + 1
        return [
            message.payload
            for position in sorted(log)
            if position >= first and number in core.audiences.bitmap(log[position].audience)
            for message in decode_stored(log[position].encoded).messages
        ]

    def lose(self, gone):
        """Kill a server. The others go on without it."""
        others = [server for server in self.disks if server != gone]
        self.held |= {pair for other in others for pair in ((gone, other), (other, gone))}
        self.gone.add(gone)
        for other in others:
            self.step(other, PeerLost(ServerId(gone), "it is gone"))
        self.run()

    def remove(self, server, gone):
        """Retire the server of a subnet for good; returns what `RemovePeer` is answered."""
        server, subnet = ServerId(server), Subnet(gone)
        for kind in (RetirePeer, RemovePeer):
            ticket = self.ticket()
            self.step(server, kind(ticket, subnet))
            self.run()
        return self.answers[ticket][-1]

    def bring_back(self, server):
        """Start a removed server again. Operators add it at the others."""
        self.gone.discard(server)
        others = [other for other in self.disks if other != server]
        self.held -= {pair for other in others for pair in ((server, other), (other, server))}
        self.waiting = deque(one for one in self.waiting if server not in one[:2])
        self.start(server)
        for other in others:
            if not self.servers[other].has_met(server):
                self.step(other, AddPeer(self.ticket(), Subnet(server), f"{server}:7400"))
            self.step(other, PeerMet(server, (Subnet(server),)))
        self._connect(server)
        self.run()

    def parcels_of(self, process):
        """Return the parcels that the log has for a mailbox, in order."""
        server = ServerId(process.partition("@")[2])
        core, log = self.servers[server].delivery, self.disks[server].log
        number = core.mailboxes.numbers[NodeId(process)]
        entries = [log[position] for position in sorted(log)]
        return [decode_stored(one.encoded) for one in entries if number in core.audiences.bitmap(one.audience)]
