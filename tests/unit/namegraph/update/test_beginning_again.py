"""A deletion begins again if a member joined its group meanwhile. For a client the attempts are limited."""

from collections import deque
from itertools import count

import pytest

from namegraph.core import ServerCore
from namegraph.events import PeerMessage, PeerMet, UpdateCommand
from namegraph.model.names import ServerId, Subnet, parse_name
from namegraph.model.operations import ChildKind, CreateGroup, DeleteGroup, JoinArc
from namegraph.model.outcomes import Committed
from namegraph.model.refusals import Reason
from namegraph.model.rows import RequestId
from namegraph.update.coordinator import ATTEMPTS_LIMIT
from namegraph.update.transaction import Plan
from namegraph.wire.codec import decode
from namegraph.wire.update_messages import Order

HOME, OTHER = ServerId("a.x"), ServerId("b.x")
GROUP, PARENT = parse_name("group@a.x"), parse_name("parent@b.x")
OFTEN = ATTEMPTS_LIMIT + 5
UPDATES_BETWEEN = 10
"""Updates of the other server in between. They raise its counter above this one's, and so its vote."""


class Servers:
    """The home of a group that is deleted, and that of its parent, which gives the deletion a late place in the order.

    Before it does, one more process joins the group: at its home alone, so at once, and before the deletion.
    """

    def __init__(self, *, joins):
        """Create a scene. `joins`: the number of attempts in which a member joins."""
        subnets = {Subnet(server): server for server in (HOME, OTHER)}
        self.cores = {server: ServerCore(server=server, subnets=[Subnet(server)], peers=subnets) for server in subnets}
        self.letters = deque()
        self.outcomes = {}
        self.tickets = count()
        self.joins = 0
        for server, other in ((HOME, OTHER), (OTHER, HOME)):
            self.step(server, PeerMet(other, (Subnet(other),)))
        self.ask(HOME, CreateGroup(GROUP))
        self.ask(OTHER, CreateGroup(PARENT))
        self.ask(OTHER, JoinArc(PARENT, GROUP, ChildKind.GROUP))
        self.deliver()
        self.joins = joins

    def ask(self, server, operation):
        ticket = next(self.tickets)
        self.step(server, UpdateCommand(ticket, RequestId(f"r{ticket}"), (operation,)))
        return ticket

    def step(self, server, event):
        effects = self.cores[server].step(event, 0.0)
        self.letters.extend((server, letter) for letter in effects.messages)
        self.outcomes |= {reply.ticket: reply.outcome for reply in effects.replies}

    def deliver(self):
        while self.letters:
            sender, letter = self.letters.popleft()
            if self.joins and isinstance(decode(letter.encoded), Order):
                self.joins -= 1
                self.ask(HOME, JoinArc(GROUP, parse_name(f"process{self.joins}@a.x"), ChildKind.PROCESS))
                for number in range(UPDATES_BETWEEN):
                    self.ask(OTHER, CreateGroup(parse_name(f"group{self.joins}-{number}@b.x")))
            self.step(letter.receiver, PeerMessage(sender, letter.number, letter.encoded))

    def has_group(self):
        return self.cores[HOME].graph.group(GROUP) is not None


@pytest.mark.parametrize("joins", [0, 1, ATTEMPTS_LIMIT - 2])
def test_a_deletion_begins_again_where_somebody_joined_the_group_meanwhile(joins):
    servers = Servers(joins=joins)
    deletion = servers.ask(HOME, DeleteGroup(GROUP, force=True))
    servers.deliver()
    assert isinstance(servers.outcomes[deletion], Committed)
    assert not servers.has_group()


def test_a_client_is_refused_once_that_happened_very_often():
    servers = Servers(joins=OFTEN)
    deletion = servers.ask(HOME, DeleteGroup(GROUP, force=True))
    servers.deliver()
    refusal = servers.outcomes[deletion]
    assert refusal.reason is Reason.UNAVAILABLE
    assert "others kept changing the arcs" in refusal.message
    assert servers.has_group()


def test_what_a_server_does_by_itself_begins_again_as_often_as_it_takes():
    servers = Servers(joins=OFTEN)
    plan = Plan(((1, DeleteGroup(GROUP, force=True)),), 1, is_own=True)
    servers.cores[HOME]._coordinator.start(plan, request_id=RequestId(""), deadline=None)
    servers.ask(HOME, CreateGroup(parse_name("other@a.x")))
    servers.deliver()
    assert not servers.has_group()
