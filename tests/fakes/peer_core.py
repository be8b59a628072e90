"""A core that only exchanges letters: it counts the letters it gets, and sends the letters that a test asks for.

The channels are real, with no protocol above them. Committed state can be restored, as after a crash.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from delivery.model.events import PeerStarted
from namegraph.events import (
    AddPeer,
    Effects,
    Lane,
    PeerLeaving,
    PeerLost,
    PeerMessage,
    PeerMet,
    PeerPosts,
    PeerReceived,
    PeerRestored,
    RemovePeer,
    Reply,
    Restored,
    Tick,
)
from namegraph.model.outcomes import Committed
from namegraph.model.rows import Records
from namegraph.state.durable_maps import DurableState
from namegraph.state.incarnations import Incarnations
from namegraph.state.reliable_channels import Channels
from storage.errors import DatabaseFullError


@dataclass(frozen=True, slots=True)
class SendLetter:
    """An event of this core alone: send a letter."""

    receiver: str
    encoded: bytes
    lane: Lane = Lane.LETTERS


@dataclass
class FakeDisk:
    """Committed state, which outlives the cores."""

    rows: dict[tuple[str, str], object] = field(default_factory=dict)
    is_full: bool = False

    def probe(self):
        if self.is_full:
            raise DatabaseFullError(database="fake", problem="the disk is full", remedy="make room")

    def commit(self, records):
        self.probe()
        for row in records.protocol:
            if row.value is None:
                self.rows.pop((row.part, row.key), None)
            else:
                self.rows[row.part, row.key] = row


class FakePeerCore:
    def __init__(self, server, subnets, peers, disk=None):
        self.server = server
        self.subnets = tuple(subnets)
        self.view, self.members = "", ()
        self.peer_addresses = dict(peers)
        self.durable = DurableState(disk.rows.values() if disk else ())
        self.channels, self.incarnations = Channels(self.durable), Incarnations(self.durable)
        self.posts = Channels(self.durable, Lane.POST)
        self.takes_posts = True
        """True if posts are handled when they come. Other posts wait in memory for the next step."""
        self.posts_held = []
        self.posts_handled = []
        """Posts handled, like `handled` for letters."""
        self.lanes_handled = []
        """Lanes of all handled letters and posts, in order."""
        self.next_deadline = None
        self.revision = ""
        self.owners = {}
        self.handled = []
        """The letters that were handled since this core started: (sender, letter), in order."""
        self.met, self.leaving, self.lost, self.ticks = [], [], [], 0
        self.restored = 0
        self.not_taken_back = {}
        """Servers that the core has given up: `GivenUp` by server."""
        self.undecided = {}
        """Coordinators that the core mistrusts: `GivenUp` by server."""

    def given_up(self, now):
        return {server: one for server, one in self.not_taken_back.items() if one.until > now}

    def mistrusted(self, now):
        return {server: one for server, one in self.undecided.items() if one.until > now}

    @property
    def servers_met(self):
        return sorted(set(self.owners.values()))

    def owner_of(self, subnet):
        return self.server if subnet in self.subnets else self.owners.get(subnet)

    def channels_of(self, lane):
        return self.channels if lane is Lane.LETTERS else self.posts

    def _hold(self, post):
        came = [held for held in self.posts_held if held.sender == post.sender]
        if post.number > self.posts.handled_through(post.sender) + len(came):
            self.posts_held.append(post)

    def step(self, event, now):
        effects = Effects(Records())
        match event:
            case SendLetter(receiver, encoded, lane):
                effects.messages.append(self.channels_of(lane).send(receiver, encoded))
            case PeerMessage(lane=Lane.POST):
                self._hold(event)
            case PeerPosts(posts):
                for post in posts:
                    self._hold(post)
            case PeerMessage(sender, number, encoded, received=received):
                if received:
                    self.channels.received(sender, received)
                if self.channels.take(sender, number):
                    self.handled.append((sender, encoded))
                    self.lanes_handled.append(Lane.LETTERS)
                    if encoded.startswith(b"echo "):
                        effects.messages.append(self.channels.send(sender, encoded.removeprefix(b"echo ")))
            case PeerReceived(peer, through, lane):
                self.channels_of(lane).received(peer, through)
            case Restored(incarnation):
                self.restored += 1
                self.incarnations.begin(incarnation, counter=0)
                for server in self.peer_addresses:  # a server with one subnet only is named after it
                    self._begin_again_with(server)
            case PeerRestored(peer, incarnation):
                self.incarnations.heard_of(peer, incarnation)
                self._begin_again_with(peer)
            case PeerStarted(peer):
                self.posts_held = [post for post in self.posts_held if post.sender != peer]
            case PeerMet(peer, subnets):
                self.channels.met(peer)
                self.posts.met(peer)
                self.met.append(peer)
                self.owners.update({subnet: peer for subnet in subnets if subnet in self.peer_addresses})
            case PeerLeaving(peer, _):
                self.leaving.append(peer)
            case PeerLost(peer, why):
                self.lost.append((peer, why))
            case AddPeer(ticket, subnet, address):
                self.peer_addresses[subnet] = address
                effects.replies.append(Reply(ticket, Committed("")))
            case RemovePeer(ticket, subnet):
                del self.peer_addresses[subnet]
                self.owners.pop(subnet, None)
                effects.replies.append(Reply(ticket, Committed("")))
            case Tick():
                self.ticks += 1
                self.next_deadline = None
            case _:
                raise AssertionError(event)
        if self.takes_posts:
            for post in self.posts_held:
                if self.posts.take(post.sender, post.number):
                    self.posts_handled.append((post.sender, post.encoded))
                    self.lanes_handled.append(Lane.POST)
            self.posts_held.clear()
        effects.records.protocol += self.durable.take_rows()
        return effects

    def _begin_again_with(self, server):
        self.channels.begin_again(server)
        self.posts.begin_again(server)
        self.posts_held = [post for post in self.posts_held if post.sender != server]
