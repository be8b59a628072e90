"""Servers with both halves in one process, each behind a real port: the calls about messages, without a run loop.

A step is durable at once, and posts arrive when the loop comes to them. Posts in `Servers.held` wait.
"""

import asyncio
from contextlib import asynccontextmanager, contextmanager, nullcontext

import grpc

from delivery.model.events import CloseParcels, SendAll, Settled
from namegraph import NodeId, Reason, ServerId, at_once, group_not_found, refuse
from nameserver.calls.places import Places, RequestBytes, guarded
from nameserver.calls.read_your_writes import PEER_SERVICE
from nameserver.deliveries.machine import DeliveryProgress, MailboxState
from nameserver.deliveries.ring_view import RingView
from nameserver.delivery_service import (
    DELIVERY_SERVICE,
    PATIENT_METHODS,
    delivery_question_handlers,
    delivery_service_handlers,
)
from nameserver.driver.letting_out import DatagramCounts
from resolver.membership import MembershipResolver
from shadowtree.v1.name_service_pb2 import CheckResponse
from tests.callers import identified
from tests.unit.delivery.servers import Servers


class CoreMachine:
    """The interface of the calls to a run loop, over a real core that is stepped on request."""

    def __init__(self, servers, server):
        self._servers, self.server = servers, ServerId(server)
        self._answers = {}
        self._settled = {}
        self._is_flushing = False
        self._told_through = 0
        self._told_of_more = {}
        self.on_logged = lambda _records: None
        self._told_of_end = []
        self.is_failing = False
        self.reads = []
        """Pieces of the log that were read."""
        self.sent_together = []
        """Number of messages that each step took."""
        self.flushes = 0
        self.datagrams = DatagramCounts()

    @property
    def on_shown(self):
        return self._servers.on_shown[self.server]

    @on_shown.setter
    def on_shown(self, hand):
        self._servers.on_shown[self.server] = hand

    @property
    def core(self):
        return self._servers.servers[self.server].delivery

    @property
    def incarnation(self):
        return self.core.incarnation

    @property
    def ring(self):
        view = RingView(self.core.in_memory)
        view.through = self.core.in_memory.log.last
        return view

    def new_ticket(self):
        return self._servers.ticket()

    def carry_out_delivery(self, event):
        return self._carry_out(event, [event])[0]

    def send_all(self, sends):
        for send in sends:
            if send.wants_settled:
                self._settled[send.ticket] = asyncio.get_running_loop().create_future()
        self.sent_together.append(len(sends))
        return asyncio.gather(*self._carry_out(SendAll(tuple(sends)), sends))

    def _carry_out(self, event, asked):
        if self.is_failing:
            raise refuse(Reason.UNAVAILABLE, "the database cannot be written")
        for each in asked:
            self._answers[each.ticket] = asyncio.get_running_loop().create_future()
        self._servers.step(self.server, event)
        self._flush_soon()
        return [self._answers[each.ticket] for each in asked]

    @contextmanager
    def told_of_end(self, tell):
        self._told_of_end.append(tell)
        try:
            yield
        finally:
            self._told_of_end.remove(tell)

    def end(self, error):
        for tell in list(self._told_of_end):
            tell(error)

    def settled(self, ticket):
        return self._settled[ticket]

    def progress(self, message_id):
        origin = self.core.origin
        for row in origin.parcels.rows.values():
            pending = tuple(sorted(server for server, count in row.posted.items() if count < 0))
            served = [count for count in (row.mailboxes, *row.posted.values()) if count > 0]
            if pending:
                return DeliveryProgress(sum(served), len(served), pending)
        return None

    def is_in_reach(self, server):
        return (self.server, server) not in self._servers.held

    def notice(self, event):
        self._servers.step(self.server, event)

    async def until_durable(self):
        self.flushes += 1
        await asyncio.sleep(0)

    async def next_number(self, sender, addressed):
        return self.core.next_number((sender, addressed))

    def policy_of(self, name):
        return self.core.policies.of(name)

    def rate_objection(self, sender):
        error = self.core.rates.take(sender, asyncio.get_running_loop().time())
        return None if error is None else error.refusal

    def mailbox_of(self, process):
        mailboxes = self.core.mailboxes
        number = mailboxes.number_of(process)
        return None if number is None else MailboxState(process, number, mailboxes.subscriptions(process))

    def listens_for(self, process):
        return self.core.listens_for(process)

    async def mailboxes_after(self, process, limit):
        names = [name for name in at_once(self.core.mailboxes.names()) if name > process]
        return [self.mailbox_of(name) for name in names[:limit]]

    def dead_letters_after(self, number, limit):
        return self.core.dead_letters.after(number, limit)

    @property
    def dead_messages_lost(self):
        return self.core.dead_letters.messages_lost

    @property
    def logged(self):
        return self.core.log.last

    @property
    def log_cut(self):
        return self.core.log.cut

    def lost_between(self, first, last, reader):
        return self.core.log.lost(first, last, lambda audience: self.is_for(audience, reader))

    @contextmanager
    def told_of_more(self, tell):
        ticket = self.new_ticket()
        self._told_of_more[ticket] = tell
        try:
            yield
        finally:
            del self._told_of_more[ticket]

    async def read_log(self, after, through, bytes_limit):
        self.reads.append((after, through))
        await asyncio.sleep(0)
        found, size = [], 0
        log = self._servers.disks[self.server].log
        for position in range(after + 1, through + 1):
            if position in log and size < bytes_limit:
                found.append(log[position])
                size += len(log[position].encoded)
        return found

    def is_for(self, audience, mailbox):
        return self.core.audiences.is_for(audience, mailbox)

    def recipients(self, audience, gateway):
        return self.core.audiences.recipients(audience, gateway)

    def names(self, recipients):
        return self.core.audiences.names(recipients)

    def _flush_soon(self):
        if not self._is_flushing:
            self._is_flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self):
        self._is_flushing = False
        self._servers.step(self.server, CloseParcels())
        self._servers.run()
        for machine in self._servers.machines:
            machine.tell()

    def tell(self):
        """Tell callers what was answered, and listeners of what was logged."""
        for ticket in [*self._answers, *self._settled]:
            for answer in self._servers.answers.pop(ticket, ()):
                waiting = self._settled if isinstance(answer, Settled) else self._answers
                waiting.pop(ticket).set_result(answer)
        if self.logged != self._told_through:
            log = self._servers.disks[self.server].log
            logged = [log[at] for at in range(self._told_through + 1, self.logged + 1) if at in log]
            if logged:
                self.on_logged(logged)
            self._told_through = self.logged
            for tell in self._told_of_more.values():
                tell()


class Directory:
    """The other servers, by the ports that they have here."""

    def __init__(self, servers, server):
        self._servers, self._server = servers, server
        self.lost = set()
        self.comebacks = 0

    def others(self):
        return sorted(set(self._servers.disks) - {self._server})

    def heard_owners(self):
        return {}

    def owners_that_refuse(self):
        return {}

    def is_coming_back(self, server):
        return False

    def heard_that_it_leaves(self, server):
        raise AssertionError(server)

    def under_way(self, server, call):
        return nullcontext()

    async def home_of_subnet(self, subnet):
        return ServerId(subnet)

    async def channel_to(self, server):
        if server in self.lost:
            raise refuse(Reason.UNAVAILABLE, f"the server {server} is out of reach", unreachable=server, server=server)
        return self._servers.channels[server]


def checking(servers, directory, asked):
    """Answers Check: the home of the member is asked, unless it is out of reach. Notes what was `asked`."""

    async def check(request, _context):
        asked.append(request)
        group, member = NodeId(request.group), NodeId(request.member)
        homes = [ServerId(name.partition("@")[2]) for name in (group, member)]
        for home in homes:
            if home in directory.lost:
                raise refuse(Reason.UNAVAILABLE, f"cannot tell: out of reach: {home}", unreachable=home)
        of_group, of_member = (servers.servers[home] for home in homes)
        if of_group.graph.group(group) is None:
            raise group_not_found(group, homes[0], known_subnet=True)
        is_known = group in of_member.graph.index
        return CheckResponse(is_member=is_known and MembershipResolver(of_member).check(group, member))

    return check


class Place:
    """One server of the scene."""

    def __init__(self, machine, directory, address, checks_asked):
        self.machine, self.directory, self.address = machine, directory, address
        self.checks_asked = checks_asked
        """Questions about members that this server has asked."""


@asynccontextmanager
async def places(*subnets):
    """Servers of these subnets, all met. Yields `Servers` and a `Place` for each."""
    servers = Servers(*subnets)
    servers.machines = [CoreMachine(servers, subnet) for subnet in subnets]
    servers.channels = {}
    found, running = [], []
    for machine in servers.machines:
        directory = Directory(servers, machine.server)
        core = servers.servers[machine.server]
        asked = []
        parts = {"core": core, "machine": machine, "directory": directory}
        handlers = delivery_service_handlers(**parts, check=checking(servers, directory, asked))
        questions = delivery_question_handlers(**parts, check=checking(servers, directory, asked))
        server = grpc.aio.server()
        kept = guarded(handlers, places=Places(100), request_bytes=RequestBytes(), patient=PATIENT_METHODS)
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(DELIVERY_SERVICE, identified(kept)),))
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(PEER_SERVICE, identified(questions)),))
        address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        await server.start()
        running.append(server)
        servers.channels[machine.server] = grpc.aio.insecure_channel(address)
        found.append(Place(machine, directory, address, asked))
    try:
        yield servers, found
    finally:
        for channel in servers.channels.values():
            await channel.close()
        for server in running:
            await server.stop(None)
