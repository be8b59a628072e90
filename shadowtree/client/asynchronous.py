"""The asynchronous client: the verbs of the synchronous one, awaited. It belongs to one event loop."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable
from contextlib import aclosing
from os import PathLike, fspath
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import grpc
import grpc.aio

from shadowtree import results
from shadowtree.client import answers, calls
from shadowtree.client.bulk_check import BulkCheck
from shadowtree.client.channel import DEFAULT_ADDRESS, OPTIONS, checked_address
from shadowtree.client.failures import read_failure
from shadowtree.client.retry import Attempts
from shadowtree.updates import Arc, Join, Leave
from shadowtree.v1 import admin_pb2, name_service_pb2
from shadowtree.v1.admin_pb2_grpc import AdminServiceStub
from shadowtree.v1.name_service_pb2_grpc import NameServiceStub
from shadowtree.vocabulary import (
    Address,
    ChildKind,
    Consistency,
    GroupId,
    MemberId,
    RequestId,
    Revision,
    Seconds,
    SubnetName,
)

if TYPE_CHECKING:
    from shadowtree.client.imports import ImportCall, ImportProgress

Answer = TypeVar("Answer")


class Client:
    """Asks one name server, which answers for all of them.

    Every call takes `timeout` in seconds (without one: that of the client, else none); writes take `request_id`, reads
    `at_least_revision`. What can be tried again is tried again while the time lasts. Errors are `ShadowtreeError`.
    """

    def __init__(self, address: Address = DEFAULT_ADDRESS, *, timeout: Seconds | None = None) -> None:
        self.address = checked_address(address)
        self._timeout = timeout
        self._channel = grpc.aio.insecure_channel(self.address, options=OPTIONS)
        self._names: Any = NameServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self._admin: Any = AdminServiceStub(self._channel)  # type: ignore[no-untyped-call]

    async def close(self) -> None:
        """End the connection; calls under way are cancelled."""
        await self._channel.close(None)

    async def __aenter__(self) -> Client:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # -- writes

    async def create_group(
        self,
        group: GroupId,
        *,
        effects: bool = False,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.Change:
        """Make a group without members.

        With `effects` also what became controlled or released: that costs a look at all that the update affects.
        """
        return await self._call(calls.create_group(group, effects=effects, request_id=request_id), timeout)

    async def delete_group(
        self,
        group: GroupId,
        force: bool = False,
        *,
        effects: bool = False,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.Change:
        """Remove a group; with `force` even one that has parents or children, which are left first.

        With `effects` also what became controlled or released: that costs a look at all that the update affects.
        """
        return await self._call(calls.delete_group(group, force=force, effects=effects, request_id=request_id), timeout)

    async def join(
        self,
        parent: GroupId,
        member: MemberId,
        kind: ChildKind = "auto",
        *,
        offline: bool = False,
        effects: bool = False,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.Change:
        """Make `member` an immediate member of `parent`; with `offline`, as soon as the servers of both are there.

        With `effects` also what became controlled or released: that costs a look at all that the update affects.
        """
        call = calls.join(parent, member, kind=kind, offline=offline, effects=effects, request_id=request_id)
        return await self._call(call, timeout)

    async def leave(
        self,
        parent: GroupId,
        member: MemberId,
        kind: ChildKind = "auto",
        *,
        effects: bool = False,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.Change:
        """Take `member` out of the immediate members of `parent`.

        With `effects` also what became controlled or released: that costs a look at all that the update affects.
        """
        return await self._call(calls.leave(parent, member, kind=kind, effects=effects, request_id=request_id), timeout)

    async def apply(
        self,
        operations: Iterable[Join | Leave],
        *,
        effects: bool = False,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.Change:
        """Carry out several joins and leaves as one atomic update.

        With `effects` also what became controlled or released: that costs a look at all that the update affects.
        """
        return await self._call(calls.apply(operations, effects=effects, request_id=request_id), timeout)

    async def import_file(
        self,
        path: str | PathLike[str],
        *,
        file_format: str | None = None,
        skip_bad: bool = False,
        subnet: SubnetName | None = None,
        progress: ImportProgress | None = None,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.ImportSummary:
        """Bring the graph of a file to the server as one atomic update, once the whole file was found good.

        The file is read in a thread, from which `progress` is called. Raises `BadFile` for the first bad line; with
        `skip_bad` bad lines are left out and listed in the summary.
        With `subnet` only arcs whose parent is there are taken.
        """
        from shadowtree.client.imports import import_of_file, known_subnets

        subnets = known_subnets(await self.status(timeout=timeout))
        call = await asyncio.to_thread(
            import_of_file,
            path,
            file_format=file_format,
            skip_bad=skip_bad,
            only_subnet=subnet,
            subnets=subnets,
            request_id=request_id,
            progress=progress,
        )
        return await self._import(call, timeout)

    async def import_arcs(
        self,
        arcs: Iterable[Arc],
        *,
        progress: ImportProgress | None = None,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.ImportSummary:
        """Bring a graph to the server as one atomic update; missing groups are created, arcs that exist skipped."""
        from shadowtree.client.imports import import_of_arcs, known_subnets

        subnets = known_subnets(await self.status(timeout=timeout))
        return await self._import(
            import_of_arcs(arcs, subnets=subnets, request_id=request_id, progress=progress), timeout
        )

    # -- reads

    async def resolve(
        self,
        group: GroupId,
        groups: bool = False,
        consistency: Consistency = "datagram",
        walk: bool = False,
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> results.Resolution:
        """Find everybody in a group, each once; with `groups` also the groups reached, with `walk` the way there."""
        call = calls.resolve(
            group, groups=groups, consistency=consistency, walk=walk, at_least_revision=at_least_revision
        )
        return await self._collect(call, timeout)

    async def check(
        self,
        group: GroupId,
        member: MemberId,
        explain: bool = False,
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> results.Check:
        """Find out whether a member is in a group; with `explain` also by which path.

        Raises `Unavailable` where a part of the graph out of reach could turn a "no" into a "yes".
        """
        call = calls.check(group, member, explain=explain, at_least_revision=at_least_revision)
        return await self._call(call, timeout)

    async def check_many(
        self,
        pairs: Iterable[tuple[GroupId, MemberId]],
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> AsyncIterator[results.Check]:
        """Check many pairs of (group, member) over one stream; yields the answers in order, as they come.

        An uncertain one has `is_member` None. A pair that cannot be asked ends the iteration with its error, after
        the answers before it.
        """
        bulk = BulkCheck(pairs, at_least_revision)
        requests: asyncio.Queue[name_service_pb2.CheckBulkRequest | None] = asyncio.Queue()
        stream = self._names.CheckBulk(_until_none(requests), timeout=self._time(timeout))
        responses = aiter(stream)
        try:
            while True:
                for request in bulk.next_requests():
                    requests.put_nowait(request)
                if bulk.is_sent:
                    requests.put_nowait(None)
                response = await anext(responses, None)
                if response is None:
                    break
                for check in bulk.read(response):
                    yield check
        except grpc.aio.AioRpcError as error:
            raise read_failure(error, self.address).error from None
        finally:
            stream.cancel()
        bulk.end_of_stream()

    async def memberships(
        self,
        member: MemberId,
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> results.Memberships:
        """Find every group that a group or process is in, directly or not."""
        return await self._collect(calls.memberships(member, at_least_revision), timeout)

    async def describe(
        self,
        group: GroupId,
        pathname_limit: int = 0,
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> results.GroupDescription:
        """Show one group: parents, children, its loop if it is in one, how it is reached."""
        call = calls.describe(group, pathname_limit=pathname_limit, at_least_revision=at_least_revision)
        return await self._call(call, timeout)

    async def groups(
        self,
        subnet: SubnetName | None = None,
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> results.GroupList:
        """List all groups, or those of one subnet."""
        pages, token = answers.Pages(), ""
        while True:
            call = calls.list_groups(subnet, page_token=token, at_least_revision=at_least_revision)
            token = pages.add(await self._call(call, timeout))
            if not token:
                return pages.finish()

    async def export(
        self,
        subnet: SubnetName | None = None,
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> AsyncIterator[Arc]:
        """Yield all arcs, sorted, and each group without members as an arc with an empty child.

        Raises `Unavailable` after the last one where servers were out of reach, whose groups are missing.
        """
        unreachable: tuple[str, ...] = ()
        async with aclosing(self._export(calls.export(subnet, at_least_revision), timeout)) as chunks:
            async for chunk in chunks:
                for arc in answers.read_export_chunk(chunk):
                    yield arc
                unreachable += tuple(chunk.unreachable)
        if unreachable:
            raise answers.incomplete_export(unreachable)

    async def export_file(
        self,
        path: str | PathLike[str],
        *,
        file_format: str | None = None,
        subnet: SubnetName | None = None,
        partial: bool = False,
        progress: Callable[[int], None] | None = None,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> results.ExportSummary:
        """Write all arcs to a file, which is there whole or not at all.

        Raises `Unavailable` where servers are out of reach, whose groups are missing. With `partial`, what is left is
        written to a file whose name ends with `.partial`, and the summary names them; so it does for standard output
        and pipes.
        """
        from shadowtree.client.files.formats import format_of
        from shadowtree.client.files.graph_writer import graph_writer, is_stream

        lines, file = 0, fspath(path)
        unreachable: tuple[str, ...] = ()
        with graph_writer(file, format_of(file, file_format), is_partial=lambda: bool(unreachable)) as write:
            async for chunk in self._export(calls.export(subnet, at_least_revision), timeout):
                for arc in answers.read_export_chunk(chunk):
                    write(arc)
                    lines += 1
                    if progress is not None and lines % 10_000 == 0:
                        progress(lines)
                unreachable += tuple(chunk.unreachable)
            if unreachable and not (partial or is_stream(file)):
                raise answers.incomplete_export(unreachable, file=file)
        return results.ExportSummary(lines, unreachable)

    async def status(self, *, timeout: Seconds | None = None) -> results.ServerStatus:
        """Ask the server how it is."""
        return await self._call(calls.status(), timeout)

    async def make_cut(self, name: str, *, timeout: Seconds | None = None) -> Revision:
        """Have all servers take a cut, one instant of all of them, for the snapshots that wait for it by this name."""
        return await self._call(calls.make_cut(name), timeout)

    async def snapshot(
        self,
        folder: str | PathLike[str],
        *,
        cut: str | None = None,
        on_caught_up: Callable[[], None] | None = None,
        progress: Callable[[int], None] | None = None,
        timeout: Seconds | None = None,
    ) -> results.Snapshot:
        """Write all that this one server holds, at one revision, to Parquet files in a folder inside `folder`.

        With `cut`, the revision is that of the cut of this name, which somebody must make (`make_cut`) once
        `on_caught_up` was called for every server. `progress` is told how many rows have come. Needs
        ``shadowtree[audit]``.
        """
        from shadowtree.client.snapshots.files import write_tables
        from shadowtree.client.snapshots.tables import SnapshotCollector

        collector = SnapshotCollector()
        async with aclosing(self._snapshot(cut, timeout)) as chunks:
            async for chunk in chunks:
                collector.add(chunk)
                if chunk.is_caught_up and on_caught_up is not None:
                    on_caught_up()
                if progress is not None:
                    progress(collector.rows)
        return await asyncio.to_thread(write_tables, collector.finish(), Path(folder))

    async def peers(self, *, timeout: Seconds | None = None) -> results.PeerList:
        """Ask the server which other servers it knows, and how the connections with them stand."""
        return await self._call(calls.peers(), timeout)

    async def add_peer(
        self, subnet: SubnetName, address: Address, *, timeout: Seconds | None = None
    ) -> results.PeerList:
        """Tell the server where that of another subnet is reached; holds at once, and after a restart."""
        return await self._call(calls.add_peer(subnet, address), timeout)

    async def remove_peer(
        self, subnet: SubnetName, force: bool = False, *, timeout: Seconds | None = None
    ) -> results.PeerList:
        """Tell the server that a subnet is nobody's any more.

        `force`: its server is out of reach, and gone for good; all memberships between the two end first, and
        `memberships_ended` of what is returned says how many there were.
        """
        return await self._call(calls.remove_peer(subnet, force=force), timeout)

    # -- how calls are carried out

    def _time(self, timeout: Seconds | None) -> Seconds | None:
        return self._timeout if timeout is None else timeout

    async def _call(self, call: calls.UnaryCall[Answer], timeout: Seconds | None) -> Answer:
        method = getattr(self._admin if call.method in calls.ADMIN_METHODS else self._names, call.method)
        message = await self._attempt(
            lambda remaining: method(call.request, timeout=remaining), timeout, call.request_id
        )
        return call.read(message)

    async def _collect(self, call: calls.StreamCall[Answer], timeout: Seconds | None) -> Answer:
        method = getattr(self._names, call.method)

        async def attempt(remaining: Seconds | None) -> Answer:
            collector = call.collect()
            async for message in method(call.request, timeout=remaining):
                collector.add(message)
            return collector.finish()

        return await self._attempt(attempt, timeout, None)

    async def _export(
        self, request: name_service_pb2.ExportRequest, timeout: Seconds | None
    ) -> AsyncGenerator[name_service_pb2.ExportChunk, None]:
        stream = self._names.Export(request, timeout=self._time(timeout))
        try:
            async for chunk in stream:
                yield chunk
        except grpc.aio.AioRpcError as error:
            raise read_failure(error, self.address).error from None
        finally:
            stream.cancel()

    async def _snapshot(
        self, cut: str | None, timeout: Seconds | None
    ) -> AsyncGenerator[admin_pb2.SnapshotChunk, None]:
        stream = self._admin.ExportSnapshot(calls.snapshot(cut or ""), timeout=self._time(timeout))
        try:
            async for chunk in stream:
                yield chunk
        except grpc.aio.AioRpcError as error:
            raise read_failure(error, self.address).error from None
        finally:
            stream.cancel()

    async def _import(self, call: ImportCall, timeout: Seconds | None) -> results.ImportSummary:
        message = await self._attempt(
            lambda remaining: self._names.Import(iter(call.messages()), timeout=remaining), timeout, call.request_id
        )
        return call.read(message)

    async def _attempt(
        self,
        attempt: Callable[[Seconds | None], Awaitable[Answer]],
        timeout: Seconds | None,
        request_id: RequestId | None,
    ) -> Answer:
        attempts = Attempts(now=time.monotonic(), timeout=self._time(timeout), request_id=request_id)
        while True:
            try:
                return await attempt(attempts.timeout(time.monotonic()))
            except grpc.aio.AioRpcError as error:
                failure = read_failure(error, self.address)
            await asyncio.sleep(attempts.pause_after(failure, time.monotonic()))


async def _until_none(
    requests: asyncio.Queue[name_service_pb2.CheckBulkRequest | None],
) -> AsyncIterator[name_service_pb2.CheckBulkRequest]:
    while (request := await requests.get()) is not None:
        yield request
