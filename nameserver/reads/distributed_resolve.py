"""Resolutions of groups and sets over several servers.

This server is the root, and asks itself too.

    Resolution says Ask        one ResolvePart call a server, all at once; answers as they come
                    WalkAgain  at once, or after the next step or a moment where updates are under way
                    Resolved   done; so it is, too, when the caller's time is nearly up

An ordered resolution is an update that changes nothing: the core carries it through the ordering of updates.

Source: docs/protocol-updates.md, "Questions over several servers" and "Reads in order".
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import NamedTuple

import grpc
from google.protobuf.message import DecodeError

from namegraph import (
    SETS_VERSION,
    CoreQueries,
    NodeId,
    NodeKind,
    ReadCommand,
    Reason,
    RefusedError,
    ServerId,
    TargetSet,
    is_plain,
    only,
    refuse,
)
from nameserver.calls.read_your_writes import PEER_SERVICE
from nameserver.calls.stable_listing import made
from nameserver.driver.run_loop import RunLoop
from nameserver.reads.confirmations import written_basis
from nameserver.reads.part_rules import require_own_nodes
from nameserver.routing.fan_out import newest
from nameserver.routing.forwarding import PART_SECONDS, Forwarder, is_out_of_reach
from nameserver.wire.resolve_part import NotAPartError, PartReader, read_part
from nameserver.wire.status_mapping import refusal_of
from nameserver.wire.target_sets import written_targets
from resolver.membership import MembershipResolver
from resolver.parts import InDoubt, PartAnswer, PartRequest, Parts
from resolver.resolution import Ask, DistributedResolution, ResolvedIds, Step, Uniting, WalkAgain
from resolver.walk_memory import Originator, WalkMemory
from shadowtree.v1 import peer_pb2 as messages

AGREEMENT_SECONDS = 20.0
"""Longest time of walks until two agree, if the caller set no deadline, or a later one."""

CHANGING_SECONDS = 5.0
"""Time after which a server that keeps walks from agreeing is left out, and named as unreachable.

Agreement takes milliseconds. One server that changes its part in every walk would delay each resolution for
`AGREEMENT_SECONDS`.
"""

AGREEMENT_WHILE_FAILING_SECONDS = 1.0
"""Longest time of walks while the database cannot be written.

The graph here does not change then, and other servers may have gone on without this one.
"""

AGREEMENT_SHARE = 0.8
"""Share of the caller's time that walks may use. The rest is for sending the answer."""

OUTCOME_SECONDS = 0.05
"""Longest time for which a server keeps a question about its part while an update that affects it is ready there.

The outcome usually comes sooner. A walk that is told of the update must ask all servers again.
"""

DOUBT_PAUSE_SECONDS = 0.005
LONGEST_DOUBT_PAUSE_SECONDS = 0.2
"""Pauses between walks while an update that affects them is under way at another server: it takes some milliseconds."""


NOBODY: Mapping[ServerId, RefusedError] = MappingProxyType({})


class ClosedBelowError(RefusedError):
    """Some server has a group below that is closed to the caller. It tells nothing of its part."""


class ResolveAnswer(NamedTuple):
    """Result of a resolution."""

    resolved: ResolvedIds
    revision: str
    """Revision that the result reflects."""
    why_failed: tuple[str, ...] = ()
    """Reason for each server that could not be asked, by server name."""
    basis: str = ""
    """Basis of the result, which holds as long as the basis does. Empty if it has none."""


class ServerPartAnswer(NamedTuple):
    """One server's part with its revision and basis."""

    answer: PartAnswer
    revision: str
    """Revision that the part reflects."""
    basis: str
    """Basis of that server at the same instant."""


class DistributedResolutions:
    """Resolutions of groups that this server owns, and of sets of groups of any servers."""

    def __init__(
        self, *, core: CoreQueries, resolver: MembershipResolver, parts: Parts, run_loop: RunLoop, forwarder: Forwarder
    ) -> None:
        self._core = core
        self._resolver = resolver
        self._parts = parts
        self._run_loop = run_loop
        self._forwarder = forwarder
        self._memory = WalkMemory()

    async def resolve(
        self, group: NodeId, deadline: float | None, *, with_walk: bool, at_least_revision: str
    ) -> ResolveAnswer:
        """Resolve a group of this server over all servers.

        Raises `RefusedError`.

        `deadline`: the caller's, on the clock of `now`. None if there is none.
        """
        originator = self._resolver.representative(group)
        resolution = DistributedResolution(
            only(group),
            root=self._core.server,
            homes={group: self._core.server},
            remembered=self._memory.recall(originator),
            with_steps=with_walk,
            unites_in_slices=True,
        )
        return await self._run(resolution, originator, deadline, at_least_revision, NOBODY)

    async def resolve_set(
        self,
        targets: TargetSet,
        homes: Mapping[NodeId, ServerId],
        deadline: float | None,
        *,
        at_least_revision: str,
        never_met: Mapping[ServerId, RefusedError],
        named_servers: Set[ServerId] | None = None,
    ) -> ResolveAnswer:
        """Resolve the names that some target reaches and none of its exceptions does.

        Raises `RefusedError`.

        `homes`: homes of all targets and exceptions. `never_met`: reasons why some of these homes cannot be asked.
        `named_servers`: servers whose processes are named, while those of other servers are counted. None to name all.
        """
        resolution = DistributedResolution(
            targets,
            root=self._core.server,
            homes=homes,
            remembered=self._memory.recall(targets) if named_servers is None else None,
            unites_in_slices=True,
            named_servers=named_servers,
        )
        originator = targets if named_servers is None else None
        return await self._run(resolution, originator, deadline, at_least_revision, never_met)

    async def _run(
        self,
        resolution: DistributedResolution,
        originator: Originator | None,
        deadline: float | None,
        at_least_revision: str,
        never_met: Mapping[ServerId, RefusedError],
    ) -> ResolveAnswer:
        driver = _Driver(self, resolution, self._until(deadline), at_least_revision, never_met)
        resolved = await driver.run()
        agreed = resolution.agreed()
        if agreed is not None and originator is not None:
            self._memory.keep(originator, agreed)
        why_failed = tuple(why for _, why in sorted(resolution.why_failed.items()))
        basis = "" if agreed is None or originator is None else written_basis(driver.bases, agreed.parts)
        return ResolveAnswer(resolved, newest([self._core.revision, *driver.revisions]), why_failed, basis)

    async def resolve_ordered(self, group: NodeId, deadline: float | None) -> tuple[ResolvedIds, str]:
        """Resolve the group at one point in the order of all updates.

        Return the result and its revision.

        Raises `RefusedError`.
        """
        run_loop = self._run_loop
        found = await run_loop.carry_out(ReadCommand(run_loop.new_ticket(), group, self._until(deadline)))
        kinds = dict(found.members)
        if not self._core.is_on_loop(group):
            kinds.pop(group, None)
        processes = tuple(sorted(node for node, kind in kinds.items() if kind is NodeKind.PROCESS))
        groups = tuple(sorted(node for node, kind in kinds.items() if kind is NodeKind.GROUP))
        return ResolvedIds(processes, groups, found.unreachable), found.revision

    async def ask(self, request: PartRequest, seconds: float, at_least_revision: str) -> ServerPartAnswer:
        """Return one server's part. Raises the errors of the forwarder, or `NotAPartError`."""
        if request.server == self._core.server:
            answer = await own_part(self._parts, request, self._run_loop)
            return ServerPartAnswer(answer, self._core.revision, self._parts.basis())
        message = messages.ResolvePartRequest(
            known_version=request.known_version or "",
            with_steps=request.with_steps,
            at_least_revision=at_least_revision,
            counts=request.counts,
        )
        targets = request.targets
        if is_plain(targets):
            message.originator = targets[0].name
        else:
            await self._require_sets(request.server)
            told, from_all = written_targets(targets)
            message.targets.extend(told)
            message.excluding.extend(from_all)
        part = PartReader()
        try:
            async with asyncio.timeout(PART_SECONDS):
                async for chunk in self._forwarder.stream(
                    request.server, f"/{PEER_SERVICE}/ResolvePart", message.SerializeToString(), seconds=seconds
                ):
                    part.take(chunk)
        except TimeoutError:
            raise NotAPartError(f"it was not whole after {PART_SECONDS:g} seconds") from None
        answer = await made(read_part(part.chunks, targets=0 if is_plain(targets) else len(targets)))
        if request.server in self._forwarder.unbelieved:
            await made(require_own_nodes(answer, request.server, self._core.owners_of_names))
        return ServerPartAnswer(answer, part.chunks[0].revision, part.chunks[0].basis)

    async def _require_sets(self, server: ServerId) -> None:
        """Raise `RefusedError` if a server is of a release that resolves single groups alone."""
        if self._core.speaks(server, SETS_VERSION):
            return
        await self._forwarder.require_reachable(server)
        raise refuse(
            Reason.UNAVAILABLE,
            f"the server {server} is of an older release, which resolves single groups alone: upgrade it",
            server=server,
            unreachable=server,
        )

    def now(self) -> float:
        """Return the time on the clock of deadlines."""
        return self._run_loop.now()

    async def pause(self, seconds: float) -> None:
        """Wait for the next step here, at most `seconds`."""
        await self._run_loop.next_step(seconds)

    def _until(self, deadline: float | None) -> float:
        """Return the end of walks for a caller with this deadline."""
        now, is_failing = self.now(), self._run_loop.storage_failure is not None
        own = now + (AGREEMENT_WHILE_FAILING_SECONDS if is_failing else AGREEMENT_SECONDS)
        return own if deadline is None else min(own, now + AGREEMENT_SHARE * (deadline - now))


async def own_part(parts: Parts, request: PartRequest, run_loop: RunLoop) -> PartAnswer:
    """Return this server's own part. While an update that affects it is ready here, wait for the outcome a moment."""
    waits_until: float | None = None
    while True:
        prepared = await made(parts.fill(request))
        answer = parts.answer(request, prepared)
        if not isinstance(answer, InDoubt) or answer.update is None:
            return answer
        if waits_until is None:
            waits_until = run_loop.now() + OUTCOME_SECONDS
        seconds_left = waits_until - run_loop.now()
        if seconds_left <= 0:
            return answer
        await run_loop.next_step(seconds_left)


class _Driver:
    """Driver of one resolution."""

    def __init__(
        self,
        resolutions: DistributedResolutions,
        resolution: DistributedResolution,
        deadline: float,
        at_least_revision: str,
        never_met: Mapping[ServerId, RefusedError],
    ) -> None:
        self._at_least_revision = at_least_revision
        self._never_met = never_met
        self._resolutions = resolutions
        self._resolution = resolution
        self._deadline = deadline
        self._leaves_out_at = resolutions.now() + CHANGING_SECONDS
        self._asked: dict[asyncio.Task[ServerPartAnswer], ServerId] = {}
        self._pause_seconds = DOUBT_PAUSE_SECONDS
        self.revisions: list[str] = []
        self.bases: dict[ServerId, str] = {}
        """Bases of the servers asked in the last walk."""

    async def run(self) -> ResolvedIds:
        """Ask and walk until the end. Raises `RefusedError` if this server itself refuses."""
        try:
            step: Step = self._resolution.begin()
            while not isinstance(step, ResolvedIds):
                step = await self._next(step)
            return step
        finally:
            for task in self._asked:
                task.cancel()

    async def _next(self, step: Ask | WalkAgain | Uniting) -> Step:
        if isinstance(step, Uniting):
            return await made(step.slices)
        seconds_left = self._deadline - self._resolutions.now()
        if seconds_left <= 0:
            return self._resolution.expire()
        if isinstance(step, WalkAgain):
            if self._resolutions.now() >= self._leaves_out_at:
                await made(self._resolution.leave_out_changing())
            if step.was_in_doubt:
                await self._resolutions.pause(min(self._pause_seconds, seconds_left))
                self._pause_seconds = min(2 * self._pause_seconds, LONGEST_DOUBT_PAUSE_SECONDS)
            return self._resolution.begin()
        for request in step.requests:
            task = asyncio.ensure_future(self._ask(request, seconds_left))
            self._asked[task] = request.server
        done, _ = await asyncio.wait(self._asked, timeout=seconds_left, return_when=asyncio.FIRST_COMPLETED)
        if not done:
            return self._resolution.expire()
        return self._take(deque(done))

    async def _ask(self, request: PartRequest, seconds: float) -> ServerPartAnswer:
        why = self._never_met.get(request.server)
        if why is not None:
            raise why
        return await self._resolutions.ask(request, seconds, self._at_least_revision)

    def _take(self, done: deque[asyncio.Task[ServerPartAnswer]]) -> Step:
        """Give all present answers to the resolution. The requests that follow are asked together."""
        requests: list[PartRequest] = []
        step: Step = Ask()
        while done:
            step = self._give_back(done.popleft())
            if isinstance(step, Ask):
                requests += step.requests
        return Ask(tuple(requests)) if isinstance(step, Ask) else step

    def _give_back(self, task: asyncio.Task[ServerPartAnswer]) -> Step:
        server = self._asked.pop(task)
        try:
            told = task.result()
        except (RefusedError, grpc.aio.AioRpcError) as error:
            if not is_out_of_reach(error):
                refusal = None if isinstance(error, RefusedError) else refusal_of(error)
                # The refusal of a target names the group.
                if refusal is not None and refusal.reason is Reason.PERMISSION_DENIED and "group" not in refusal.facts:
                    raise ClosedBelowError(refusal) from None
                raise
            return self._resolution.failed(server, _why(error))
        except (NotAPartError, DecodeError) as error:
            return self._resolution.failed(server, f"its answer cannot be used: {error}")
        self.revisions.append(told.revision)
        self.bases[server] = told.basis
        return self._resolution.answer(server, told.answer)


def _why(error: RefusedError | grpc.aio.AioRpcError) -> str:
    return str(error) if isinstance(error, RefusedError) else error.details() or error.code().name
