"""Several name servers in one process: real cores, run loops and gRPC services; only the post between them is a fake.

Letters are handed over at once, in order, and a server can be put out of reach of calls.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext

import grpc

from namegraph.committed_state import CommittedState
from namegraph.core import ServerCore
from namegraph.events import PeerLost, PeerMessage, PeerMet, UpdateCommand
from namegraph.model.names import ServerId, Subnet, subnet_of
from namegraph.model.operations import SetPolicy
from namegraph.model.policies import Preset, Privilege
from namegraph.model.refusals import Reason, refuse
from namegraph.rights.callers import CallerFacts
from namegraph.rights.presets import changed_policy, preset_policy
from namegraph.rights.principals import OPERATOR
from namegraph.rights.server_policies import parse_server_policy
from nameserver.calls.home_dispatch import NAME_SERVICE
from nameserver.calls.read_your_writes import PEER_SERVICE
from nameserver.driver.ancestry_filling import AncestryFilling
from nameserver.driver.run_loop import RunLoop
from nameserver.name_service import name_service_handlers, short_ways
from nameserver.reads.peer_queries import peer_question_handlers
from nameserver.transport.peer_link import CHANNEL_OPTIONS
from resolver.membership import MembershipResolver
from resolver.parts import Parts
from shadowtree import aio
from shadowtree.v1.name_service_pb2_grpc import NameServiceStub
from storage.memory import MemoryDatabase, MemoryStore
from tests.callers import NamedCallers, identified


class FakeDirectory:
    """Reaches the servers that were met, but those that are put out of reach."""

    def __init__(self, name_server, all_servers):
        self._name_server = name_server
        self._all = all_servers

    def others(self):
        return list(self._name_server.core.servers_met)

    def unheard(self):
        core = self._name_server.core
        return sorted(server for server in self._name_server.out_of_reach if server in (core.members or [server]))

    def unknown_here(self):
        return []

    @property
    def unbelieved(self):
        return self._name_server.unbelieved

    def note_contradicted(self, server):
        self._name_server.contradicted.append(server)

    def heard_owners(self):
        return {}

    def owners_that_refuse(self):
        return {}

    comebacks = 0

    def is_coming_back(self, server):
        return False

    are_all_met = True

    async def until_all_met(self):
        """Wait until all reachable servers have met."""

    async def channel_to(self, server):
        if server in self._name_server.out_of_reach:
            raise refuse(Reason.UNAVAILABLE, f"the server {server} is out of reach", unreachable=server, server=server)
        return self._all[server].channel

    def under_way(self, server, call):
        return nullcontext()

    async def home_of_subnet(self, subnet):
        owner = self._name_server.core.owner_of(subnet)
        if owner is None:
            raise refuse(Reason.UNAVAILABLE, f"the server of {subnet} was never met", unreachable=subnet)
        return owner


class PostedCore:
    """A core whose letters are noted as soon as its step is over, in their order."""

    def __init__(self, core):
        self.letters = asyncio.Queue()
        self._core = core
        self._loop = asyncio.get_running_loop()

    def __getattr__(self, name):
        return getattr(self._core, name)

    def step(self, event, now):
        effects = self._core.step(event, now)
        for letter in effects.messages:
            self._loop.call_soon_threadsafe(self.letters.put_nowait, letter)
        return effects


class NameServer:
    """One of the servers. `calls`: the calls that other servers made here, by method."""

    def __init__(self, subnet, *, peers, all_servers):
        store = MemoryStore(MemoryDatabase(), server=ServerId(subnet))
        self.core = ServerCore.restore(
            store.load(),
            subnets=[Subnet(subnet)],
            peers={Subnet(peer): "127.0.0.1:1" for peer in peers if peer != subnet},
        )
        self.out_of_reach = set()
        self.unbelieved = frozenset()
        """Servers of other organisations."""
        self.contradicted = []
        """Servers whose word the homes of groups have denied."""
        self.calls = []
        self._worker = ThreadPoolExecutor(1)
        self.reads = CommittedState(self.core)
        self._posted = PostedCore(self.core)
        self.run_loop = RunLoop(
            core=self._posted,
            store=store,
            worker=self._worker,
            clock=asyncio.get_running_loop().time,
            seen=self.reads,
        )
        self._all = all_servers

    async def start(self):
        self._flushing = asyncio.ensure_future(self.run_loop.flush_forever())
        self._posting = asyncio.ensure_future(self._post_forever())
        self._server = grpc.aio.server(interceptors=[CallLog(self.calls)])
        directory = FakeDirectory(self, self._all)
        resolver = MembershipResolver(self.reads, unheard=directory.unheard)
        built = {
            "core": self.reads,
            "resolver": resolver,
            "parts": Parts(self.reads, resolver.plans, start=self.core.server),
            "run_loop": self.run_loop,
            "filling": AncestryFilling(core=self.core, reads=self.reads, run_loop=self.run_loop),
            "directory": directory,
        }
        self._server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(
                    NAME_SERVICE, identified(name_service_handlers(**built), by=NamedCallers)
                ),
                grpc.method_handlers_generic_handler(
                    PEER_SERVICE, identified(peer_question_handlers(**built), by=NamedCallers)
                ),
            )
        )
        self.short_ways = short_ways(core=self.reads, resolver=resolver, directory=directory)
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        self.channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CHANNEL_OPTIONS)
        self.names = NameServiceStub(self.channel)
        self.client = aio.Client(f"127.0.0.1:{port}")

    async def _post_forever(self):
        """Hand over each letter once its step is durable, as servers do."""
        while True:
            letter = await self._posted.letters.get()
            await self.run_loop.until_durable()
            receiver = self._all.get(letter.receiver)
            if receiver is not None:
                receiver.take(PeerMessage(self.core.server, letter.number, letter.encoded))

    def meet(self, other):
        """Learn who owns another's subnets."""
        self.take(PeerMet(other.core.server, other.core.subnets))

    def take(self, event):
        """Step the core as if a peer had said so."""
        self.run_loop.take(event)

    async def set_policy(self, group, preset=Preset.OPEN, **subjects):
        """Give a group of this server a policy: a preset, with the subjects of some privileges replaced."""
        policy = preset_policy(preset, subnet=subnet_of(group))
        policy = changed_policy(policy, {Privilege(name): texts for name, texts in subjects.items()})
        ticket = self.run_loop.new_ticket()
        caller = None if self.core.server_policy is None else CallerFacts(OPERATOR)
        operations = (SetPolicy(group, policy, without_admin=True),)
        await self.run_loop.carry_out(UpdateCommand(ticket, f"policy {ticket}", operations, None, caller=caller))

    def protect(self, **settings):
        """Judge all callers from now on."""
        self.core.protect(parse_server_policy(settings))

    async def fall_silent(self):
        """Take no more calls, and end those under way, as when the process is killed."""
        await self._server.stop(grace=None)

    async def stop(self):
        await self.client.close()
        await self.channel.close()
        await self._server.stop(grace=None)
        self._posting.cancel()
        self.run_loop.finish()
        await self._flushing
        self._worker.shutdown()


class CallLog(grpc.aio.ServerInterceptor):
    """Notes the calls that came from other servers."""

    def __init__(self, calls):
        self._calls = calls

    async def intercept_service(self, continuation, details):
        if any(key == "shadowtree-forwarded-by" for key, _ in details.invocation_metadata):
            self._calls.append(details.method.rpartition("/")[2])
        return await continuation(details)


class NameServers:
    """Servers by subnet. Servers in `unmet` are expected by all others, and reachable for none."""

    def __init__(self, *subnets, unmet=()):
        self.by_subnet = {}
        self._cut_off = set()
        for subnet in subnets:
            self.by_subnet[subnet] = NameServer(subnet, peers=[*subnets, *unmet], all_servers=self.by_subnet)

    def __getitem__(self, subnet):
        return self.by_subnet[subnet]

    def __iter__(self):
        return iter(self.by_subnet.values())

    async def __aenter__(self):
        for server in self:
            await server.start()
        for server in self:
            for other in self:
                if other is not server:
                    server.meet(other)
        return self

    async def __aexit__(self, *_):
        for server in self:
            await server.stop()

    async def cut_off(self, subnet):
        """Put a server out of reach of all others, and let them agree on it."""
        for server in self:
            if server is not self[subnet]:
                server.out_of_reach.add(subnet)
                server.take(PeerLost(ServerId(subnet), "cut off"))
        self._cut_off.add(subnet)
        await self._until_agreed()

    async def join_again(self, subnet):
        """Put a server that was cut off within reach again."""
        for server in self:
            if server is not self[subnet]:
                server.out_of_reach.discard(subnet)
                server.meet(self[subnet])
                self[subnet].meet(server)
        self._cut_off.discard(subnet)
        await self._until_agreed()

    async def _until_agreed(self):
        """Wait until readers of the servers that reach one another see that they are in one view, and healed."""
        there = [server for subnet, server in self.by_subnet.items() if subnet not in self._cut_off]
        members = {server.core.server for server in there}
        async with asyncio.timeout(60):
            for server in there:
                while not (server.reads.is_steady and set(server.reads.members) == members):
                    await server.run_loop.next_step(60)

    def calls(self):
        """Return the calls from server to server since the last time, by server."""
        found = {subnet: sorted(server.calls) for subnet, server in self.by_subnet.items() if server.calls}
        for server in self:
            server.calls.clear()
        return found
