"""The synchronous client. A `Client` may be shared by threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from os import PathLike, fspath
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

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
        self._channel = grpc.insecure_channel(self.address, options=OPTIONS)
        self._names: Any = NameServiceStub(self._channel)  # type: ignore[no-untyped-call]
        self._admin: Any = AdminServiceStub(self._channel)  # type: ignore[no-untyped-call]

    def close(self) -> None:
        """End the connection; calls under way are cancelled."""
        self._channel.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # -- writes

    def create_group(
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
        return self._call(calls.create_group(group, effects=effects, request_id=request_id), timeout)

    def delete_group(
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
        return self._call(calls.delete_group(group, force=force, effects=effects, request_id=request_id), timeout)

    def join(
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
        return self._call(call, timeout)

    def leave(
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
        return self._call(calls.leave(parent, member, kind=kind, effects=effects, request_id=request_id), timeout)

    def apply(
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
        return self._call(calls.apply(operations, effects=effects, request_id=request_id), timeout)

    def import_file(
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

        Raises `BadFile` for the first bad line; with `skip_bad` bad lines are left out and listed in the summary.
        With `subnet` only arcs whose parent is there are taken.
        """
        from shadowtree.client.imports import import_of_file, known_subnets

        call = import_of_file(
            path,
            file_format=file_format,
            skip_bad=skip_bad,
            only_subnet=subnet,
            subnets=known_subnets(self.status(timeout=timeout)),
            request_id=request_id,
            progress=progress,
        )
        return self._import(call, timeout)

    def import_arcs(
        self,
        arcs: Iterable[Arc],
        *,
        progress: ImportProgress | None = None,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.ImportSummary:
        """Bring a graph to the server as one atomic update; missing groups are created, arcs that exist skipped."""
        from shadowtree.client.imports import import_of_arcs, known_subnets

        subnets = known_subnets(self.status(timeout=timeout))
        return self._import(import_of_arcs(arcs, subnets=subnets, request_id=request_id, progress=progress), timeout)

    # -- reads

    def resolve(
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
        return self._collect(call, timeout)

    def check(
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
        return self._call(call, timeout)

    def check_many(
        self,
        pairs: Iterable[tuple[GroupId, MemberId]],
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> Iterator[results.Check]:
        """Check many pairs of (group, member) over one stream; yields the answers in order, as they come.

        An uncertain one has `is_member` None. A pair that cannot be asked ends the iteration with its error, after
        the answers before it.
        """
        bulk = BulkCheck(pairs, at_least_revision)
        requests: SimpleQueue[name_service_pb2.CheckBulkRequest | None] = SimpleQueue()
        stream = self._names.CheckBulk(iter(requests.get, None), timeout=self._time(timeout))
        try:
            while True:
                for request in bulk.next_requests():
                    requests.put(request)
                if bulk.is_sent:
                    requests.put(None)
                response = next(stream, None)
                if response is None:
                    break
                yield from bulk.read(response)
        except grpc.RpcError as error:
            raise read_failure(error, self.address).error from None
        finally:
            stream.cancel()
            requests.put(None)
        bulk.end_of_stream()

    def memberships(
        self,
        member: MemberId,
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> results.Memberships:
        """Find every group that a group or process is in, directly or not."""
        return self._collect(calls.memberships(member, at_least_revision), timeout)

    def describe(
        self,
        group: GroupId,
        pathname_limit: int = 0,
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> results.GroupDescription:
        """Show one group: parents, children, its loop if it is in one, how it is reached."""
        call = calls.describe(group, pathname_limit=pathname_limit, at_least_revision=at_least_revision)
        return self._call(call, timeout)

    def groups(
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
            token = pages.add(self._call(call, timeout))
            if not token:
                return pages.finish()

    def export(
        self,
        subnet: SubnetName | None = None,
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> Iterator[Arc]:
        """Yield all arcs, sorted, and each group without members as an arc with an empty child.

        Raises `Unavailable` after the last one where servers were out of reach, whose groups are missing.
        """
        unreachable: tuple[str, ...] = ()
        for chunk in self._export(calls.export(subnet, at_least_revision), timeout):
            yield from answers.read_export_chunk(chunk)
            unreachable += tuple(chunk.unreachable)
        if unreachable:
            raise answers.incomplete_export(unreachable)

    def export_file(
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
            for chunk in self._export(calls.export(subnet, at_least_revision), timeout):
                for arc in answers.read_export_chunk(chunk):
                    write(arc)
                    lines += 1
                    if progress is not None and lines % 10_000 == 0:
                        progress(lines)
                unreachable += tuple(chunk.unreachable)
            if unreachable and not (partial or is_stream(file)):
                raise answers.incomplete_export(unreachable, file=file)
        return results.ExportSummary(lines, unreachable)

    def status(self, *, timeout: Seconds | None = None) -> results.ServerStatus:
        """Ask the server how it is."""
        return self._call(calls.status(), timeout)

    def peers(self, *, timeout: Seconds | None = None) -> results.PeerList:
        """Ask the server which other servers it knows, and how the connections with them stand."""
        return self._call(calls.peers(), timeout)

    def add_peer(self, subnet: SubnetName, address: Address, *, timeout: Seconds | None = None) -> results.PeerList:
        """Tell the server where that of another subnet is reached; holds at once, and after a restart."""
        return self._call(calls.add_peer(subnet, address), timeout)

    def remove_peer(
        self, subnet: SubnetName, force: bool = False, *, timeout: Seconds | None = None
    ) -> results.PeerList:
        """Tell the server that a subnet is nobody's any more.

        `force`: its server is out of reach, and gone for good; all memberships between the two end first, and
        `memberships_ended` of what is returned says how many there were.
        """
        return self._call(calls.remove_peer(subnet, force=force), timeout)

    def make_cut(self, name: str, *, timeout: Seconds | None = None) -> Revision:
        """Have all servers take a cut, one instant of all of them, for the snapshots that wait for it by this name."""
        return self._call(calls.make_cut(name), timeout)

    def snapshot(
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
        from shadowtree.client.snapshots.files import write_snapshot

        chunks = self._snapshot(cut, timeout)
        return write_snapshot(chunks, Path(folder), on_caught_up=on_caught_up, progress=progress)

    # -- how calls are carried out

    def _time(self, timeout: Seconds | None) -> Seconds | None:
        return self._timeout if timeout is None else timeout

    def _call(self, call: calls.UnaryCall[Answer], timeout: Seconds | None) -> Answer:
        method = getattr(self._admin if call.method in calls.ADMIN_METHODS else self._names, call.method)
        message = self._attempt(lambda remaining: method(call.request, timeout=remaining), timeout, call.request_id)
        return call.read(message)

    def _collect(self, call: calls.StreamCall[Answer], timeout: Seconds | None) -> Answer:
        method = getattr(self._names, call.method)

        def attempt(remaining: Seconds | None) -> Answer:
            collector = call.collect()
            for message in method(call.request, timeout=remaining):
                collector.add(message)
            return collector.finish()

        return self._attempt(attempt, timeout, None)

    def _export(
        self, request: name_service_pb2.ExportRequest, timeout: Seconds | None
    ) -> Iterator[name_service_pb2.ExportChunk]:
        stream = self._names.Export(request, timeout=self._time(timeout))
        try:
            yield from stream
        except grpc.RpcError as error:
            raise read_failure(error, self.address).error from None
        finally:
            stream.cancel()

    def _snapshot(self, cut: str | None, timeout: Seconds | None) -> Iterator[admin_pb2.SnapshotChunk]:
        stream = self._admin.ExportSnapshot(calls.snapshot(cut or ""), timeout=self._time(timeout))
        try:
            yield from stream
        except grpc.RpcError as error:
            raise read_failure(error, self.address).error from None
        finally:
            stream.cancel()

    def _import(self, call: ImportCall, timeout: Seconds | None) -> results.ImportSummary:
        message = self._attempt(
            lambda remaining: self._names.Import(iter(call.messages()), timeout=remaining), timeout, call.request_id
        )
        return call.read(message)

    def _attempt(
        self,
        attempt: Callable[[Seconds | None], Answer],
        timeout: Seconds | None,
        request_id: RequestId | None,
    ) -> Answer:
        attempts = Attempts(now=time.monotonic(), timeout=self._time(timeout), request_id=request_id)
        while True:
            try:
                return attempt(attempts.timeout(time.monotonic()))
            except grpc.RpcError as error:
                failure = read_failure(error, self.address)
            time.sleep(attempts.pause_after(failure, time.monotonic()))
