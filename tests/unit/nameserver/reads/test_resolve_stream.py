"""Streamed answers are of one state of the graph, however many updates come while they are collected."""

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from namegraph.committed_state import CommittedState
from namegraph.core import ServerCore
from namegraph.events import ImportCommand, UpdateCommand
from namegraph.graph.name_graph import ArcState
from namegraph.model.operations import JoinArc, LeaveArc
from namegraph.model.rows import NodeKind
from nameserver.calls import stable_listing
from nameserver.driver.run_loop import RunLoop
from nameserver.reads import resolve_stream
from nameserver.reads.distributed_resolve import ResolveAnswer
from nameserver.reads.exports import ExportCalls
from nameserver.reads.memberships import MembershipCalls
from nameserver.reads.resolve_stream import StreamCalls
from nameserver.routing.forwarding import Forwarder
from nameserver.routing.ownership import Routing
from resolver import steps
from resolver.membership import MembershipResolver
from resolver.parts import Parts
from resolver.plans import PlanStep
from resolver.resolution import ResolvedIds
from shadowtree.v1 import name_service_pb2 as m
from tests.callers import unjudged
from tests.unit.nameserver.gated_store import GatedStore

GROUPS = [f"g{number:02}@b.c" for number in range(40)]


class NobodyElse:
    """A directory without servers."""

    def others(self):
        return []

    def unheard(self):
        return []

    def unknown_here(self):
        return []

    def heard_owners(self):
        return {}

    def owners_that_refuse(self):
        return {}


class Methods:
    """The methods that stream, of a server that is alone."""

    def __init__(self, core, run_loop):
        directory = NobodyElse()
        resolver = MembershipResolver(core)
        others = {
            "routing": Routing(known=core, directory=directory),
            "forwarder": Forwarder(server=core.server, directory=directory),
        }
        self._streams = StreamCalls(
            core=core,
            resolver=resolver,
            run_loop=run_loop,
            routing=others["routing"],
            resolutions=None,
            parts=Parts(core, resolver.plans, start="x"),
            judging=unjudged(),
        )
        self._exports = ExportCalls(core=core, resolver=resolver, judging=unjudged(), **others)
        self._memberships = MembershipCalls(core=core, resolver=resolver, judging=unjudged(), **others)

    def resolve(self, request):
        return self._streams.resolve(request, None)

    def export(self, request):
        return self._exports.export(request, None)

    def list_memberships(self, request):
        return self._memberships.list_memberships(request, None)


@pytest.fixture
async def server(monkeypatch):
    monkeypatch.setattr(stable_listing, "ROWS_OF_A_CHUNK", 3)
    monkeypatch.setattr(resolve_stream, "CHUNK_STEPS", 3)
    monkeypatch.setattr(stable_listing, "TURN_SECONDS", 0.0)
    monkeypatch.setattr(steps, "STEPS_OF_A_SLICE", 3)
    core = ServerCore(server="one", subnets=["b.c"])
    worker = ThreadPoolExecutor(1)
    reads = CommittedState(core)
    run_loop = RunLoop(core=core, store=GatedStore(), worker=worker, clock=lambda: 0.0, seen=reads)
    flushing = asyncio.ensure_future(run_loop.flush_forever())
    await run_loop.carry_out(
        ImportCommand(
            run_loop.new_ticket(),
            "r",
            ["all@b.c", *GROUPS, "mover@e.f"],
            [*[0] * 40, 1],
            [*range(1, 41), 41],
            b"\x01" * 40 + b"\x02",
            [],
        )
    )
    yield run_loop, Methods(reads, run_loop)
    run_loop.finish()
    await flushing
    worker.shutdown()


async def moved_to_and_fro(run_loop, answering, moves):
    """Move the mover from the first group to the last and back, at each breath that the answering takes."""
    answer = asyncio.ensure_future(answering)
    here, there = GROUPS[0], GROUPS[-1]
    updates = []
    await asyncio.sleep(0)
    while moves and not answer.done():
        ticket = run_loop.new_ticket()
        operations = (LeaveArc(here, "mover@e.f"), JoinArc(there, "mover@e.f"))
        updates.append(asyncio.ensure_future(run_loop.carry_out(UpdateCommand(ticket, f"r{ticket}", operations))))
        here, there = there, here
        moves -= 1
        await asyncio.sleep(0)
    await asyncio.gather(*updates)
    assert not moves or answer.done()
    return updates, await answer


@pytest.mark.parametrize("moves", [0, 1, 2, 3, 1000])
async def test_an_export_is_of_one_state(server, moves):
    run_loop, streams = server
    updates, chunks = await moved_to_and_fro(run_loop, streams.export(m.ExportRequest()), moves)
    assert bool(updates) == bool(moves)
    exported = [m.ExportChunk.FromString(chunk) for chunk in chunks]
    children = [child for chunk in exported for child in chunk.children]
    assert children.count("mover@e.f") == 1
    assert len(exported) > 20


@pytest.mark.parametrize("moves", [0, 1, 2, 3, 1000])
async def test_a_resolution_its_walk_and_its_revision_are_of_one_state(server, moves):
    run_loop, streams = server
    request = m.ResolveRequest(group="all@b.c", walk=True, groups=True)
    _, chunks = await moved_to_and_fro(run_loop, streams.resolve(request), moves)
    resolved = [m.ResolveChunk.FromString(chunk) for chunk in chunks]
    steps = {step.to: getattr(step, "from") for chunk in resolved for step in chunk.walk}
    assert sum(len(chunk.walk) for chunk in resolved) == len(steps) == 41
    assert max(len(chunk.walk) for chunk in resolved) == 3, "a message is made in one turn"
    # The import is update 1; every move after it changes the place.
    counter = int(resolved[0].revision.partition("@")[0])
    assert steps["mover@e.f"] == (GROUPS[0] if counter % 2 else GROUPS[-1])
    assert [process for chunk in resolved for process in chunk.processes] == ["mover@e.f"]
    assert [group for chunk in resolved for group in chunk.groups] == GROUPS


class OverServers:
    """Resolutions over several servers that come to a long walk."""

    is_alone = False

    async def resolve(self, group, *_, **__):
        steps = [PlanStep(group, name, NodeKind.GROUP, ArcState.NORMAL) for name in GROUPS]
        return ResolveAnswer(ResolvedIds((), (), walk=tuple(steps)), "1@one")


async def test_a_walk_over_several_servers_is_written_a_few_steps_at_a_time(server, monkeypatch):
    run_loop, _ = server
    core, others = ServerCore(server="one", subnets=["b.c"]), OverServers()
    monkeypatch.setattr(resolve_stream, "deadline_of", lambda *_: None)
    calls = StreamCalls(
        core=core, resolver=None, run_loop=run_loop, routing=others, resolutions=others, parts=None, judging=unjudged()
    )
    chunks = await calls.resolve(m.ResolveRequest(group="all@b.c", walk=True), None)
    walks = [m.ResolveChunk.FromString(chunk).walk for chunk in chunks]
    assert max(map(len, walks)) == 3
    assert [step.to for walk in walks for step in walk] == GROUPS


async def test_what_is_being_sent_does_not_change_with_the_graph(server):
    run_loop, streams = server
    chunks = iter(await streams.resolve(m.ResolveRequest(group="all@b.c", groups=True)))
    await run_loop.carry_out(UpdateCommand(run_loop.new_ticket(), "r2", (LeaveArc(GROUPS[0], "mover@e.f"),)))
    rest = [m.ResolveChunk.FromString(chunk) for chunk in chunks]
    assert [process for chunk in rest for process in chunk.processes] == ["mover@e.f"]


async def test_an_empty_answer_still_carries_the_revision(server):
    _, streams = server
    chunks = list(await streams.list_memberships(m.ListMembershipsRequest(member="nobody@e.f")))
    assert [m.ListMembershipsChunk.FromString(chunk).revision for chunk in chunks] == ["1@one"]
