"""The client: one method for each operation of the name service.

The synchronous client is generated from this file by `make client`. The parts that differ are in `transport`.
"""

from __future__ import annotations

import math
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from os import PathLike
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Literal, TypeVar

from shadowtree import results
from shadowtree.client import answers, calls, change_record, large_updates
from shadowtree.client.answer_limits import AnswerSize
from shadowtree.client.asynchronous.change_stream import ChangeStream
from shadowtree.client.asynchronous.streams import Listener, Sender
from shadowtree.client.asynchronous.transport import (
    Attempt,
    Connection,
    Connections,
    Pairs,
    Requests,
    RpcError,
    Way,
    batches_of,
    in_thread,
    once,
    pause,
)
from shadowtree.client.bulk_check import BulkCheck
from shadowtree.client.channel import DEFAULT_ADDRESS, Addresses
from shadowtree.client.checks_together import METHOD as CHECK_TOGETHER
from shadowtree.client.checks_together import can_travel
from shadowtree.client.credentials import FilePath, Token, checked_credentials
from shadowtree.client.failures import Failure, failure_of_refusal, is_unknown_call, read_failure
from shadowtree.client.foreign_text import cleaned
from shadowtree.client.large_answers import LargeAnswers
from shadowtree.client.messages import delivery_calls, sending
from shadowtree.client.messages.listening import Listening
from shadowtree.client.retry import DEFAULT_TIMEOUT_S, PATIENCE_S, Attempts, TimeLimit, checked_seconds
from shadowtree.client.target_sets import Asked
from shadowtree.errors import (
    AlreadyMember,
    GroupExists,
    GroupNotFound,
    NameInUse,
    NotAMember,
    ShadowtreeError,
    TakesDatagrams,
    WrongKind,
)
from shadowtree.messages import DeadLetter, DeadLetters, Delivery, Mailbox, Replayed, Sent
from shadowtree.updates import Arc, Join, Leave, Target
from shadowtree.v1 import admin_pb2, name_service_pb2
from shadowtree.vocabulary import (
    Address,
    ChildKind,
    Consistency,
    GroupId,
    Kept,
    MemberId,
    Position,
    Quality,
    RequestId,
    Revision,
    Seconds,
    SenderId,
    SubnetName,
    SubscriptionName,
    Wait,
)

if TYPE_CHECKING:
    from datetime import datetime

    from shadowtree.client.imports import ImportCall, ImportProgress

Answer = TypeVar("Answer")


class Client:
    """Client of one name server, which answers for all servers. Threads, or event loops, may share it.

    Every method takes `timeout`: the seconds it may take, including retries; for an iterator, from its first step to
    its last. Without `timeout` the timeout of the client applies. If that is None too, a call may take 60 seconds.
    Calls that move whole graphs or any number of pairs (`import_*`, `export*`, `check_many`, `snapshot`) then have no
    limit. Writes take `request_id`, reads `at_least_revision`. Errors are `ShadowtreeError`.
    """

    def __init__(
        self,
        address: Address | Iterable[Address] = DEFAULT_ADDRESS,
        *,
        timeout: Seconds | None = None,
        patience: Seconds = PATIENCE_S,
        on_wait: Callable[[ShadowtreeError], None] | None = None,
        ca: FilePath | None = None,
        certificate: FilePath | None = None,
        key: FilePath | None = None,
        token: Token | None = None,
        server_name: SubnetName | None = None,
    ) -> None:
        """Accept one address, or several (a list, or one text with commas).

        If one cannot be reached, the next is asked.

        `patience`: seconds for which servers that cannot be reached are retried without a timeout; with a timeout,
        retries last as long as it. `on_wait` is called with the error before each pause.

        `ca`: file with the authority of the server's organisation; the connection is then encrypted, and the server
        proves itself. Without it, no credential leaves this machine. `server_name`: subnet that the server owns, if it
        is not the one that the authority is named after. `certificate`, `key`: files by which the client proves
        itself. `token`: an API key or a token, or a function that returns the one to send now.
        """
        self._addresses = Addresses(address)
        credentials = checked_credentials(ca=ca, certificate=certificate, key=key, token=token, server_name=server_name)
        for each in self._addresses.all:
            credentials.require_for(each)
        self._timeout = None if timeout is None else checked_seconds(timeout, "timeout")
        self._patience = checked_seconds(patience, "patience")
        self._on_wait = on_wait
        self._connections = Connections(self._addresses, credentials)
        self._large_answers = LargeAnswers()

    @property
    def address(self) -> Address:
        """Address that the next call tries first."""
        return self._addresses.current

    async def close(self) -> None:
        """End all connections. Calls under way, and later ones, raise `ClientClosed`."""
        await self._connections.close()

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
        description: str = "",
        if_missing: bool = False,
        take_over: bool = False,
        effects: bool = False,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.Change:
        """Create a group without members. `if_missing`: an existing group is no error, and stays unchanged.

        `description`: a text for people, one line of at most 1,000 characters.

        `take_over`: a process of this id that is in groups becomes the group, and stays in them.

        `effects`: also report groups that became controlled or released, at the cost of examining all nodes that the
        update affects.
        """
        call = calls.create_group(
            group,
            effects=effects,
            request_id=request_id,
            if_missing=if_missing,
            take_over=take_over,
            details={"description": description},
        )
        try:
            return await self._call(call, timeout)
        except GroupExists:
            if if_missing:
                return calls.UNCHANGED
            raise

    async def set_group(
        self,
        group: GroupId,
        *,
        description: str | None = None,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.Change:
        """Change what the home of a group keeps about it. None leaves a value as it is.

        `description`: a text for people, one line of at most 1,000 characters. An empty text removes it.
        """
        return await self._call(
            calls.set_details({group: {"description": description}}, request_id=request_id), timeout
        )

    async def policy(self, group: GroupId, *, timeout: Seconds | None = None) -> results.GroupPolicy:
        """Return who has which privilege of a group."""
        return await self._call(calls.get_policy(group), timeout)

    async def set_policy(
        self,
        group: GroupId,
        preset: str | None = None,
        *,
        privileges: Mapping[str, Sequence[str]] | None = None,
        without_admin: bool = False,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.Change:
        """Replace the policy of a group, which says who has which privilege.

        `preset`: open, public, organisation, hidden or secret. None: the policy that the group has is changed.
        `privileges`: subjects of some privileges, in place of those of the preset: people and groups, `members`,
        `owners`, `subnet:SUBNET`, `authenticated`, `anyone`, or `nobody`. `without_admin`: the policy may leave the
        group without an admin.
        """
        call = calls.set_policy(
            group,
            preset=preset,
            privileges=privileges or {},
            without_admin=without_admin,
            request_id=request_id,
        )
        return await self._call(call, timeout)

    async def adopt_policy(
        self,
        preset: str,
        *,
        privileges: Mapping[str, Sequence[str]] | None = None,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.AdoptedPolicy:
        """Give a policy to all groups of the server that is asked and that have none, in one update. For operators.

        `privileges`: as in `set_policy`. `admin` must be given, unless the preset is open.
        """
        call = calls.adopt_policy(preset=preset, privileges=privileges or {}, request_id=request_id)
        return await self._call(call, timeout)

    async def delete_group(
        self,
        group: GroupId,
        force: bool = False,
        *,
        if_there: bool = False,
        effects: bool = False,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.Change:
        """Delete a group. `force`: even one with parents or children, which are left first.

        `if_there`: a group that does not exist is no error.

        `effects`: also report groups that became controlled or released, at the cost of examining all nodes that the
        update affects.
        """
        call = calls.delete_group(group, force=force, effects=effects, request_id=request_id, if_there=if_there)
        try:
            return await self._call(call, timeout)
        except GroupNotFound as error:
            if if_there and error.facts.get("group") == calls.as_kept(group):
                return calls.UNCHANGED
            raise

    async def join(
        self,
        parent: GroupId,
        member: MemberId,
        kind: ChildKind = "auto",
        *,
        offline: bool = False,
        if_missing: bool = False,
        effects: bool = False,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.Change:
        """Make `member` an immediate member of `parent`. `offline`: as soon as the servers of both are in reach.

        `if_missing`: an existing membership is no error, and `unchanged` of the answer reports it.

        `effects`: also report groups that became controlled or released, at the cost of examining all nodes that the
        update affects.
        """
        call = calls.join(
            parent, member, kind=kind, offline=offline, effects=effects, request_id=request_id, if_missing=if_missing
        )
        try:
            return await self._call(call, timeout)
        except AlreadyMember:
            if if_missing:
                return calls.UNCHANGED
            raise

    async def leave(
        self,
        parent: GroupId,
        member: MemberId,
        kind: ChildKind = "auto",
        *,
        if_there: bool = False,
        effects: bool = False,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.Change:
        """Remove `member` from the immediate members of `parent`.

        `if_there`: a membership that does not exist is no error, and `unchanged` of the answer reports it.

        `effects`: also report groups that became controlled or released, at the cost of examining all nodes that the
        update affects.
        """
        call = calls.leave(parent, member, kind=kind, effects=effects, request_id=request_id, if_there=if_there)
        try:
            return await self._call(call, timeout)
        except NotAMember:
            if if_there:
                return calls.UNCHANGED
            raise

    async def leave_everywhere(
        self,
        member: MemberId,
        subnet: SubnetName | None = None,
        *,
        effects: bool = False,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.LeftGroups:
        """Remove `member` from all groups that have it as an immediate member, in one atomic update.

        `subnet`: only from groups of that subnet. Raises `Unavailable` if a server is out of reach that may know more
        groups. Nothing is done then.
        """
        call = calls.leave_everywhere(member, subnet=subnet, effects=effects, request_id=request_id)
        return await self._call(call, timeout)

    async def rename_group(
        self,
        old: GroupId,
        new: GroupId,
        *,
        effects: bool = False,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.Change:
        """Give a group another name in its subnet, in one atomic update.

        Parents, members, companions (`+owners`, `+muted`), policy and archive keep belonging to the group. For 30 days
        `GroupNotFound` for the old name has the new name in its facts, as `renamed_to`.
        """
        return await self._call(calls.rename_group(old, new, effects=effects, request_id=request_id), timeout)

    async def apply(
        self,
        operations: Iterable[Join | Leave],
        *,
        effects: bool = False,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.Change:
        """Apply several joins and leaves as one atomic update.

        `effects`: also report groups that became controlled or released, at the cost of examining all nodes that the
        update affects.
        """
        call = calls.apply(operations, effects=effects, request_id=request_id)
        return await self._apply(call, self._limit(timeout))

    async def import_file(
        self,
        path: str | PathLike[str],
        *,
        file_format: str | None = None,
        skip_bad: bool = False,
        subnet: SubnetName | None = None,
        progress: ImportProgress | None = None,
        on_names: Callable[[tuple[str, ...]], None] | None = None,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
        domain: str | None = None,
    ) -> results.ImportSummary:
        """Import the graph of a file as one atomic update, after the whole file was checked.

        Raises `BadFile` for the first bad line; with `skip_bad` bad lines are left out and listed in the summary. An
        asynchronous client reads the file in a thread, from which `progress` is called.

        `subnet`: import only arcs whose parent is in this subnet. `on_names` is called with all names before anything
        is sent; an exception from it cancels the import. `domain` completes the names of an alias table that have none.
        """
        from shadowtree.client.imports import at_its_line, import_of_file, known_subnets

        limit, status_limit = self._limit(timeout, otherwise=math.inf), self._limit(timeout)
        subnets = known_subnets(await self._call_within(calls.status(), status_limit))
        call = await in_thread(
            import_of_file,
            path,
            file_format=file_format,
            skip_bad=skip_bad,
            only_subnet=subnet,
            subnets=subnets,
            request_id=request_id,
            progress=progress,
            on_names=on_names,
            domain=domain,
        )
        try:
            return await self._import(call, limit)
        except (NameInUse, WrongKind) as error:
            raise await in_thread(at_its_line, path, file_format, domain, error) from None

    async def import_arcs(
        self,
        arcs: Iterable[Arc],
        *,
        progress: ImportProgress | None = None,
        request_id: RequestId | None = None,
        timeout: Seconds | None = None,
    ) -> results.ImportSummary:
        """Import a graph as one atomic update. Missing groups are created, existing arcs skipped."""
        from shadowtree.client.imports import import_of_arcs, known_subnets

        limit, status_limit = self._limit(timeout, otherwise=math.inf), self._limit(timeout)
        subnets = known_subnets(await self._call_within(calls.status(), status_limit))
        call = import_of_arcs(arcs, subnets=subnets, request_id=request_id, progress=progress)
        return await self._import(call, limit)

    # -- reads

    async def resolve(
        self,
        group: Asked,
        groups: bool = False,
        consistency: Consistency = "datagram",
        walk: bool = False,
        *,
        excluding: Iterable[GroupId] = (),
        named_servers: Iterable[str] | None = None,
        direct: bool = False,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> results.Resolution:
        """Return all members of a group, each once.

        `groups`: also return the groups reached. `walk`: also return the steps of the walk.

        `direct`: only immediate members, of one group, as its home knows them.

        For several groups, which may be `Target`s: members of at least one group that are in none of its exceptions.
        `excluding`: exceptions of all groups. `named_servers`: only processes of these servers are named, and `counts`
        has the number of the others. Other servers then do not reveal the names of their processes.
        """
        call = calls.resolve(
            group,
            excluding=excluding,
            groups=groups,
            consistency=consistency,
            walk=walk,
            at_least_revision=at_least_revision,
            named_servers=named_servers,
            direct=direct,
        )
        return await self._collect(call, timeout)

    async def processes(
        self,
        group: GroupId,
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> AsyncIterator[MemberId]:
        """Yield all members of a group, each once, sorted, as they arrive: for groups too large to hold in memory.

        Raises `Unavailable` after the last member if a part of the graph was out of reach, whose members are missing.
        """
        unreachable, in_transition = answers.Unreachable(), False
        stream = self._stream(*calls.processes(group, at_least_revision), self._limit(timeout))
        async with aclosing(stream) as chunks:
            async for chunk in chunks:
                for process in answers.read_processes(chunk):
                    yield process
                unreachable.add(chunk)
                in_transition = in_transition or chunk.in_transition
        if unreachable or in_transition:
            raise answers.incomplete_resolution(group, unreachable.names)

    async def confirm(self, basis: str, *, timeout: Seconds | None = None) -> bool:
        """Return True if a `Resolution` with this `basis` is still valid, and with it all others of the same `basis`.

        One question therefore serves many stored answers. False means unknown: resolve again.
        """
        return bool(basis) and await self._call(calls.confirm(basis), timeout)

    async def check(
        self,
        group: GroupId,
        member: MemberId,
        explain: bool = False,
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> results.Check:
        """Check whether a member is in a group. `explain`: also return a path.

        Raises `Unavailable` if a part of the graph out of reach could turn a "no" into a "yes".
        """
        limit = self._limit(timeout)
        connection = self._connections.current()
        if explain or CHECK_TOGETHER in connection.unknown_calls or not can_travel(group, member, at_least_revision):
            call = calls.check(group, member, explain=explain, at_least_revision=at_least_revision)
            return await self._call_within(call, limit)
        checks = connection.checks
        travels = checks.begin(member)
        try:
            if travels:
                seconds = limit.remaining(time.monotonic())
                known = await checks.answer(group, member, at_least_revision or "", seconds)
                if known is not None:
                    return answers.read_check(known, group=calls.as_kept(group), member=calls.as_kept(member))
                limit.require_time(time.monotonic(), connection.address)
            call = calls.check(group, member, explain=False, at_least_revision=at_least_revision)
            return await self._call_within(call, limit)
        finally:
            checks.end()

    async def check_many(
        self,
        pairs: Pairs,
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> AsyncIterator[results.Check]:
        """Check many pairs of (group, member) over one stream; yield the answers in order, as they arrive.

        Pairs are sent 3,000 at a time; the rest are sent after the last pair. An uncertain answer has `is_member` None.
        A pair that cannot be asked ends the iteration with its error, after the answers before it.
        """
        bulk, limit = BulkCheck(at_least_revision), self._limit(timeout, otherwise=math.inf)
        attempts = self._attempts(limit)
        async with aclosing(batches_of(pairs)) as coming:
            while True:
                connection, requests = self._connections.current(), Requests()
                stream = connection.call("CheckBulk", requests.stream(), attempts.timeout(time.monotonic()))
                responses = aiter(stream)
                try:
                    with self._connections.telling_if_closed():
                        for request in bulk.begin_stream():
                            requests.put(request)
                        while True:
                            while bulk.has_room:
                                for request in bulk.ask(await anext(coming)):
                                    requests.put(request)
                            if bulk.is_sent:
                                requests.end()
                            response = await anext(responses, None)
                            if response is None:
                                bulk.end_of_stream()
                                return
                            attempts = self._attempts(limit)
                            for check in bulk.read(response):
                                yield check
                except RpcError as error:
                    failure = self._failure(error, connection)
                finally:
                    stream.cancel()
                    requests.end()
                await self._wait(attempts, failure)

    async def memberships(
        self,
        member: MemberId,
        *,
        direct: bool = False,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> results.Memberships:
        """Return the groups of a group or process, direct or not.

        `direct`: only groups with it as an immediate member.
        """
        call = calls.memberships(member, direct=direct, at_least_revision=at_least_revision)
        return await self._collect(call, timeout)

    async def spellings(
        self,
        names: Iterable[MemberId],
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> results.Spellings:
        """Return the names in use that equal given names, at most 10,000, but for letter case."""
        return await self._call(calls.spellings(names, at_least_revision), timeout)

    async def describe(
        self,
        group: GroupId,
        pathname_limit: int = 0,
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> results.GroupDescription:
        """Describe one group: its parents, children, loop if it is in one, and pathnames."""
        call = calls.describe(group, pathname_limit=pathname_limit, at_least_revision=at_least_revision)
        return await self._call(call, timeout)

    async def groups(
        self,
        subnet: SubnetName | None = None,
        *,
        contains: str | None = None,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> results.GroupList:
        """List all groups, or those of one subnet.

        `contains`: only groups with this text in their id or description, in any letter case.
        """
        pages, token, limit = answers.Pages(), "", self._limit(timeout)
        while True:
            call = calls.list_groups(subnet, page_token=token, at_least_revision=at_least_revision, contains=contains)
            token = pages.add(await self._call_within(call, limit))
            if not token:
                return cleaned(pages.finish())

    async def changes(
        self,
        group: GroupId | None = None,
        *,
        subnet: SubnetName | None = None,
        since: datetime | None = None,
        after_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> AsyncIterator[results.RecordedUpdate]:
        """Yield recorded changes of updates, oldest first, as far as they are kept.

        The changes are those of one group, or of all groups of the server that owns `subnet`, or else of the server
        asked. Raises `HistoryForgotten` if changes after `after_revision` are no longer kept.
        """
        request = change_record.list_request(group, subnet, since, after_revision)
        limit = self._limit(timeout, otherwise=math.inf)
        async with aclosing(self._stream("ListChanges", request, limit)) as chunks:
            async for chunk in chunks:
                for update in change_record.read_updates(chunk):
                    yield update

    async def watch(
        self,
        group: GroupId | None = None,
        *,
        subnet: SubnetName | None = None,
        after_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> ChangeStream:
        """Follow changes of updates, from now on or after a revision: an iterator that waits for the next update.

        Every update committed after the return is reported. To resume an ended iterator, pass its `revision` as
        `after_revision`. Arguments are otherwise as for `changes`.
        """
        limit = self._limit(timeout, otherwise=math.inf)
        stream = ChangeStream(
            lambda after: self._stream("Watch", change_record.watch_request(group, subnet, after), limit),
            after_revision,
        )
        await stream.open()
        return stream

    async def export(
        self,
        subnet: SubnetName | None = None,
        *,
        at_least_revision: Revision | None = None,
        timeout: Seconds | None = None,
    ) -> AsyncIterator[Arc]:
        """Yield all arcs, sorted, and each group without members as an arc with an empty child.

        The first arc of a group has the details of the group.

        Raises `Unavailable` after the last arc if servers were out of reach, whose groups are missing.
        """
        unreachable, arcs = answers.Unreachable(), answers.ExportedArcs()
        async with aclosing(self._export(subnet, at_least_revision, timeout)) as chunks:
            async for chunk in chunks:
                for arc in arcs.read(chunk):
                    yield arc
                unreachable.add(chunk)
        if unreachable:
            raise answers.incomplete_export(unreachable.names)

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
        """Write all arcs to a file, which exists whole or not at all. JSON lines have the details of groups, too.

        Raises `Unavailable` if servers are out of reach, whose groups are missing. With `partial`, the remaining groups
        are written to a file whose name ends with `.partial`, and the summary names the servers. Standard output and
        pipes are always treated like this.
        """
        from shadowtree.client.files.formats import checked_path, format_of
        from shadowtree.client.files.graph_writer import graph_writer, is_stream

        lines, file = 0, checked_path(path)
        unreachable, arcs = answers.Unreachable(), answers.ExportedArcs()
        with graph_writer(file, format_of(file, file_format), is_partial=lambda: bool(unreachable)) as write:
            async for chunk in self._export(subnet, at_least_revision, timeout):
                before = lines
                for arc in arcs.read(chunk):
                    lines += write(arc)
                if progress is not None and lines // 10_000 > before // 10_000:
                    progress(lines)
                unreachable.add(chunk)
            if unreachable and not (partial or is_stream(file)):
                raise answers.incomplete_export(unreachable.names, file=file)
        return results.ExportSummary(lines, unreachable.names)

    async def audit_log(
        self, *, after: int = 0, since: datetime | None = None, timeout: Seconds | None = None
    ) -> AsyncIterator[results.AuditRow]:
        """Yield rows of the audit log of the server, oldest first: those after a number, from a time on."""
        from shadowtree.client.audit_log import cleaned_row, rows_of

        async with aclosing(self._audit_log(after, since, timeout)) as chunks:
            async for chunk in chunks:
                for row in rows_of(chunk):
                    yield cleaned_row(row)

    async def export_audit_log(
        self,
        file: str | PathLike[str],
        *,
        after: int = 0,
        since: datetime | None = None,
        timeout: Seconds | None = None,
    ) -> results.AuditExport:
        """Write rows of the audit log of the server to a file of JSON lines; "-" is standard output.

        The file is there whole or not at all. `shadowtree audit-log verify` says later if it was changed.
        """
        from shadowtree.client.files.formats import checked_path
        from shadowtree.client.files.graph_writer import whole_file

        with whole_file(checked_path(file)) as stream:
            return await self._write_audit_log(stream, self._audit_log(after, since, timeout))

    async def _write_audit_log(
        self, stream: IO[bytes], answered: AsyncGenerator[admin_pb2.AuditLogChunk, None]
    ) -> results.AuditExport:
        from shadowtree.client.audit_log import header_line, line_of, rows_of

        server, rows, first, last = "", 0, 0, 0
        async with aclosing(answered) as chunks:
            async for chunk in chunks:
                if not server:
                    server = chunk.server
                    stream.write(f"{header_line(server)}\n".encode())
                for row in rows_of(chunk):
                    stream.write(f"{line_of(row)}\n".encode())
                    first, last, rows = first or row.number, row.number, rows + 1
        return cleaned(results.AuditExport(server, rows, first, last))

    def _audit_log(
        self, after: int, since: datetime | None, timeout: Seconds | None
    ) -> AsyncGenerator[admin_pb2.AuditLogChunk, None]:
        limit = self._limit(timeout, otherwise=math.inf)
        return self._stream("ExportAuditLog", calls.audit_log(after, change_record.milliseconds_of(since)), limit)

    async def checkpoints(
        self, server: str | None = None, *, timeout: Seconds | None = None
    ) -> tuple[results.AuditCheckpoint, ...]:
        """Return the checkpoints of audit logs that the server keeps: of one server, or its own and all others."""
        return await self._call(calls.checkpoints(server), timeout)

    async def status(self, *, timeout: Seconds | None = None) -> results.ServerStatus:
        """Return the status of the server."""
        return await self._call(calls.status(), timeout)

    async def make_cut(self, name: str, *, timeout: Seconds | None = None) -> Revision:
        """Let all servers take a cut, one instant of all of them, for the snapshots that wait for it by this name."""
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
        """Write all data of this one server, at one revision, to Parquet files in a folder inside `folder`.

        `cut`: use the revision of the cut of this name. The caller must make the cut (`make_cut`) once `on_caught_up`
        was called for every server. `progress` is called with the number of rows so far. Needs the extra ``audit``.
        """
        from shadowtree.client.files.formats import checked_path
        from shadowtree.client.snapshots.files import SnapshotSource, write_tables
        from shadowtree.client.snapshots.tables import SnapshotCollector

        place = Path(checked_path(folder))
        origin = SnapshotSource(self.address, {"cut": cut is not None, "timeout": timeout})
        collector = SnapshotCollector()
        async with aclosing(self._snapshot(cut, timeout)) as chunks:
            async for chunk in chunks:
                collector.add(chunk)
                if chunk.is_caught_up and on_caught_up is not None:
                    on_caught_up()
                if progress is not None:
                    progress(collector.rows)
        return await in_thread(write_tables, collector.finish(), place, origin)

    async def peers(self, *, timeout: Seconds | None = None) -> results.PeerList:
        """Return the other servers that the server knows, and the state of the connections with them."""
        return await self._call(calls.peers(), timeout)

    async def add_peer(
        self, subnet: SubnetName, address: Address, *, trust: str = "", timeout: Seconds | None = None
    ) -> results.PeerList:
        """Tell the server the address of another subnet's server, effective at once and after a restart.

        `trust`: authorities that may vouch for that server, as PEM certificates. Empty to keep those given before.
        """
        return await self._call(calls.add_peer(subnet, address, trust=trust), timeout)

    async def remove_peer(
        self, subnet: SubnetName, force: bool = False, *, timeout: Seconds | None = None
    ) -> results.PeerList:
        """Tell the server that no server owns a subnet any more.

        `force`: the server of the subnet is out of reach, and gone for good. All memberships between the two servers
        end first; `memberships_ended` of the result is their number.
        """
        return await self._call(calls.remove_peer(subnet, force=force), timeout)

    async def create_key(
        self,
        principal: MemberId,
        *,
        life: Seconds | None = None,
        privileges: Iterable[str] = (),
        networks: Iterable[str] = (),
        note: str = "",
        timeout: Seconds | None = None,
    ) -> results.NewApiKey:
        """Make an API key for a principal. Its `secret` is told once.

        `life`: seconds until it expires; None: never. `privileges` bounds what it is good for; none given: all that the
        principal has. `networks`, such as 192.0.2.0/24, are those it is taken from; none given: all.
        """
        life_ms = 0 if life is None else round(1e3 * checked_seconds(life, "life"))
        call = calls.create_key(principal, life_ms=life_ms, privileges=privileges, networks=networks, note=note)
        return await self._call(call, timeout)

    async def keys(self, *, timeout: Seconds | None = None) -> tuple[results.ApiKey, ...]:
        """List the API keys of the server, without their secrets."""
        return await self._call(calls.list_keys(), timeout)

    async def revoke_key(self, id: str, *, timeout: Seconds | None = None) -> results.ApiKey:
        """End an API key at once, and the streams of its user. Return what it was."""
        return await self._call(calls.revoke_key(id), timeout)

    async def drain(self, *, restart_grace: Seconds | None = None, timeout: Seconds | None = None) -> bool:
        """End the server as planned; return True if all updates under way were finished.

        `restart_grace`: seconds for which other servers wait for its return; 0: no wait; None: as configured.
        """
        return await self._call(calls.drain(restart_grace=restart_grace), timeout)

    # -- messages

    async def send(
        self,
        targets: MemberId | Target | Iterable[MemberId | Target],
        payload: bytes,
        *,
        excluding: Iterable[GroupId] = (),
        quality: Quality | None = None,
        wait: Wait = "accepted",
        deadline: Seconds | None = None,
        headers: Mapping[str, str] | None = None,
        as_: MemberId | None = None,
        request_id: RequestId | None = None,
        queue: bool = False,
        timeout: Seconds | None = None,
    ) -> Sent:
        """Send a message to all members below a group, or several groups, except those below a group of `excluding`.

        A `Target` has exceptions of its own, which apply to that target alone.

        The call returns once the message is durable (`accepted`), or once every server below has it too (`settled`). If
        that takes longer than the timeout, or servers are away, the result has the state reached. `deadline`: seconds
        after which the message is no longer handed to anyone. `as_`: the process that sends, for groups that restrict
        their senders. It is believed, because callers are not authenticated.

        A message of `quality` ``datagram`` reaches only processes that are listening. It is never settled, and raises
        `OutcomeUnknown` if it may have left. Without a `quality` the message has that of the group of its first target,
        as the result reports. `TakesDatagrams` is raised if more is asked for. `queue`: while the home of the first
        target is away, the server that is asked keeps the message (`queued`), and sends it when the home is back.
        """
        message = sending.message_request(
            targets, payload, excluding=excluding, quality=quality, deadline=deadline, headers=headers, as_=as_
        )
        single = sending.SingleMessage.of(message, wait=wait, request_id=request_id, queue=queue)
        limit = self._limit(timeout)
        try:
            return await self._send(single, limit)
        except TakesDatagrams:
            if not single.is_plain:
                raise
        return await self._send(single.as_datagram(), limit)

    async def _send(self, single: sending.SingleMessage, limit: TimeLimit) -> Sent:
        answer = sending.SingleAnswer(single)

        async def attempt(connection: Connection, remaining: Seconds | None) -> Sent:
            tries_one = single.is_answered_once and "SendOne" not in connection.unknown_calls
            try:
                if tries_one:
                    answer.add(await connection.call("SendOne", single.request, remaining))
                else:
                    async for response in connection.call("Send", once(single.request), remaining):
                        answer.add(response)
            except RpcError as error:
                if tries_one and is_unknown_call(error):
                    connection.unknown_calls.add("SendOne")
                    return await attempt(connection, remaining)
                if single.is_datagram:
                    sending.require_unsent(self._failure(error, connection))
                raise
            return answer.finish()

        try:
            return await self._attempt(attempt, limit, single.request_id)
        except ShadowtreeError:
            if answer.sent is None:
                raise
            return answer.sent

    def sender(self, sender: SenderId, *, timeout: Seconds | None = None) -> Sender:
        """Return a sender of many numbered messages, without a wait for each. Each message is accepted once.

        Use the sender in a `with`, at whose end all messages are accepted. The id `sender` must be your own, and
        belongs to one sender at a time.
        """
        return Sender(sender, self._way(timeout))

    def listen(
        self,
        process: MemberId,
        *,
        subscription: SubscriptionName | None = None,
        from_: Position = "start",
        ephemeral: bool = False,
        groups: Iterable[GroupId] = (),
        senders: Iterable[SenderId] = (),
        timeout: Seconds | None = None,
    ) -> Listener:
        """Listen for a process, or to the archive of a group: an iterator of messages that waits for the next one.

        A `subscription` has its own position, and continues behind the messages that it acknowledged. `from_` is the
        beginning of a subscription that does not exist yet: ``start``, the oldest message that is kept for the process,
        or ``now``. A position means that all messages through it are handled, wherever the position was stored.

        An `ephemeral` subscription begins now and ends with the stream. Nothing of it is stored, and it needs no
        mailbox. If the stream breaks, the error is raised, and messages until the next `listen` are missed.

        A pattern in place of a process is a *gateway*: ``*``, for all processes that the server asked delivers to, or
        ``*@debian.org``, for those of one subnet. A gateway gets each message once, and ``message.recipients`` has its
        recipients. Messages are kept for the gateway from its first `listen` on.

        With `groups` or `senders` only messages addressed to one of these groups (as first target), or sent by one of
        these senders, are handed out. All others count as handed out: they do not come later, either.
        """
        listening = Listening(
            process, subscription=subscription, from_=from_, ephemeral=ephemeral, groups=groups, senders=senders
        )
        return Listener(listening, self._way(timeout))

    async def set_delivery(
        self,
        group: GroupId,
        *,
        senders: str | None = None,
        quality: Quality | None = None,
        kept: Kept | None = None,
        timeout: Seconds | None = None,
    ) -> Delivery:
        """Set the delivery options of a group. An option that is not given stays unchanged.

        `senders`: permitted senders: ``anyone``, ``members`` (all below the group), or the id of a group, of any
        server. `quality`: the highest quality of a message to the group, and the default. `kept`: ``durable``, on disk
        at each server; or ``memory``: no call waits for a disk, and a restart of a server loses the messages that it
        had not handed over yet.
        """
        return await self._call(
            delivery_calls.set_delivery(group, quality=quality, senders=senders, kept=kept), timeout
        )

    async def delivery(self, group: GroupId, *, timeout: Seconds | None = None) -> Delivery:
        """Return the delivery options of a group."""
        return await self._call(delivery_calls.get_delivery(group), timeout)

    async def open_mailbox(self, process: MemberId, *, timeout: Seconds | None = None) -> Mailbox:
        """Keep messages for a process from now on, whether it listens or not; or messages sent to a group itself.

        The archive of a group is kept in spite of acknowledgements, until the log of its server is full.
        """
        return await self._call(delivery_calls.open_mailbox(process), timeout)

    async def close_mailbox(self, process: MemberId, *, force: bool = False, timeout: Seconds | None = None) -> Mailbox:
        """Stop keeping messages for a process. Its kept messages and its subscriptions are deleted.

        `force`: close the mailbox of a gateway (``*`` or ``*@SUBNET``). Such a mailbox is closed only with `force`, and
        only on the machine of its server.
        """
        return await self._call(delivery_calls.close_mailbox(process, force=force), timeout)

    async def mailboxes(
        self, subnet: SubnetName | None = None, *, timeout: Seconds | None = None
    ) -> AsyncIterator[Mailbox]:
        """Yield the mailboxes of the server that owns `subnet`, or else of the server asked; sorted by process."""
        token, limit = "", self._limit(timeout, otherwise=math.inf)
        while True:
            page = await self._call_within(delivery_calls.list_mailboxes(subnet, token), limit)
            for mailbox in page.mailboxes:
                yield delivery_calls.read_mailbox(mailbox)
            token = page.next_page_token
            if not token:
                return

    async def dead_letters(self, subnet: SubnetName | None = None, *, timeout: Seconds | None = None) -> DeadLetters:
        """Return the dead letters of the server that owns `subnet`, or else of the server asked; the oldest first."""
        token, limit = "", self._limit(timeout, otherwise=math.inf)
        found: list[DeadLetter] = []
        size = AnswerSize()
        while True:
            page = await self._call_within(delivery_calls.list_dead_letters(subnet, token), limit)
            size.add(page, len(page.dead_letters))
            found += map(delivery_calls.read_dead_letter, page.dead_letters)
            token = page.next_page_token
            if not token:
                return DeadLetters(page.server, tuple(found), page.messages_lost)

    async def replay(
        self,
        numbers: Iterable[int] | Literal["all"],
        *,
        subnet: SubnetName | None = None,
        timeout: Seconds | None = None,
    ) -> Replayed:
        """Send dead letters by their numbers to the servers that lack them. A repetition sends none twice."""
        return await self._call(delivery_calls.replay(numbers, subnet), timeout)

    async def drop(
        self,
        numbers: Iterable[int] | Literal["all"],
        *,
        subnet: SubnetName | None = None,
        timeout: Seconds | None = None,
    ) -> int:
        """Delete dead letters by their numbers; return their number."""
        return await self._call(delivery_calls.drop(numbers, subnet), timeout)

    # -- implementation of calls

    def _way(self, timeout: Seconds | None) -> Way:
        limit = self._limit(timeout, otherwise=math.inf)
        return Way(
            connections=self._connections,
            failure=self._failure,
            begin_attempts=lambda: self._attempts(limit),
            tell_wait=self._tell_wait,
        )

    def _limit(self, timeout: Seconds | None, *, otherwise: Seconds = DEFAULT_TIMEOUT_S) -> TimeLimit:
        given = self._timeout if timeout is None else timeout
        return TimeLimit.of(now=time.monotonic(), timeout=given, otherwise=otherwise, patience=self._patience)

    def _attempts(self, limit: TimeLimit, request_id: RequestId | None = None) -> Attempts:
        servers = len(self._addresses.all)
        return Attempts(limit=limit, servers=servers, request_id=request_id)

    async def _call(self, call: calls.UnaryCall[Answer], timeout: Seconds | None) -> Answer:
        return await self._call_within(call, self._limit(timeout))

    async def _call_within(self, call: calls.UnaryCall[Answer], limit: TimeLimit) -> Answer:
        message = await self._attempt(
            lambda connection, remaining: connection.call(call.method, call.request, remaining), limit, call.request_id
        )
        return cleaned(call.read(message))

    async def _collect(self, call: calls.StreamCall[Answer], timeout: Seconds | None) -> Answer:
        """Return the answer in one message if it is small enough, else by a stream."""
        limit = self._limit(timeout)
        if not self._large_answers.has(call):
            answer = await self._collect_at_once(call, limit)
            if answer is not None:
                return answer

        async def attempt(connection: Connection, remaining: Seconds | None) -> Answer:
            collector, stream = call.collect(), connection.call(call.method, call.request, remaining)
            try:
                async for message in stream:
                    collector.add(message)
            finally:
                # A server whose answer is refused may send for ever.
                stream.cancel()
            return cleaned(collector.finish())

        return await self._attempt(attempt, limit, None)

    async def _collect_at_once(self, call: calls.StreamCall[Answer], limit: TimeLimit) -> Answer | None:
        """Return the answer; None if it is too large, or the server does not know the call."""

        async def attempt(connection: Connection, remaining: Seconds | None) -> Answer | None:
            if call.at_once in connection.unknown_calls:
                return None
            try:
                message = await connection.call(call.at_once, call.request, remaining)
            except RpcError as error:
                if not is_unknown_call(error):
                    raise
                connection.unknown_calls.add(call.at_once)
                return None
            if message.too_large:
                self._large_answers.add(call)
                return None
            collector = call.collect()
            collector.add(message)
            return cleaned(collector.finish())

        return await self._attempt(attempt, limit, None)

    def _export(
        self, subnet: SubnetName | None, at_least_revision: Revision | None, timeout: Seconds | None
    ) -> AsyncGenerator[name_service_pb2.ExportChunk, None]:
        limit = self._limit(timeout, otherwise=math.inf)
        return self._stream("Export", calls.export(subnet, at_least_revision), limit)

    def _snapshot(self, cut: str | None, timeout: Seconds | None) -> AsyncGenerator[admin_pb2.SnapshotChunk, None]:
        limit = self._limit(timeout, otherwise=math.inf)
        return self._stream("ExportSnapshot", calls.snapshot(cut or ""), limit)

    async def _apply(self, call: calls.UnaryCall[results.Change], limit: TimeLimit) -> results.Change:
        """Apply an update, in chunks if it is larger than one message."""
        chunks = large_updates.chunks_of(call.request)
        if not chunks:
            return await self._call_within(call, limit)

        async def attempt(connection: Connection, remaining: Seconds | None) -> Any:
            try:
                return await connection.call(large_updates.METHOD, iter(chunks), remaining)
            except RpcError as error:
                if not is_unknown_call(error):
                    raise
            # An older server takes larger messages. The next attempt may reach another server.
            return await connection.call(call.method, call.request, remaining)

        return cleaned(call.read(await self._attempt(attempt, limit, call.request_id)))

    async def _import(self, call: ImportCall, limit: TimeLimit) -> results.ImportSummary:
        message = await self._attempt(
            lambda connection, remaining: connection.call("Import", iter(call.messages()), remaining),
            limit,
            call.request_id,
        )
        summary = cleaned(call.read(message))
        try:
            for setting in call.details():
                await self._call_within(setting, limit)
        except ShadowtreeError as error:
            told = f"the graph was imported, but details of some groups were not; import it again: {error.message}"
            raise type(error)(told, error.facts) from None
        return summary

    async def _stream(self, method: str, request: Any, limit: TimeLimit) -> AsyncGenerator[Any, None]:
        """Yield the messages of a stream, with retries until the first of them has come."""
        attempts = self._attempts(limit)
        while True:
            connection, has_begun = self._connections.current(), False
            stream = connection.call(method, request, attempts.timeout(time.monotonic()))
            try:
                with self._connections.telling_if_closed():
                    async for message in stream:
                        has_begun = True
                        yield message
            except RpcError as error:
                failure = self._failure(error, connection)
                if has_begun:
                    raise failure.error from None
            else:
                return
            finally:
                stream.cancel()
            await self._wait(attempts, failure)

    async def _attempt(
        self,
        attempt: Attempt[Answer],
        limit: TimeLimit,
        request_id: RequestId | None,
    ) -> Answer:
        attempts = self._attempts(limit, request_id)
        while True:
            connection = self._connections.current()
            with self._connections.telling_if_closed(request_id):
                try:
                    return await attempt(connection, attempts.timeout(time.monotonic()))
                except RpcError as error:
                    failure = self._failure(error, connection)
                except ShadowtreeError as error:
                    failure = failure_of_refusal(error)
            await self._wait(attempts, failure)

    def _failure(self, error: RpcError, connection: Connection) -> Failure:
        failure = read_failure(error, connection.address)
        if failure.may_pass:
            self._addresses.leave(connection.address)
        return failure

    async def _wait(self, attempts: Attempts, failure: Failure) -> None:
        seconds = attempts.pause_after(failure, time.monotonic())
        if seconds:
            self._tell_wait(failure.error)
        await pause(seconds)

    def _tell_wait(self, error: ShadowtreeError) -> None:
        if self._on_wait is not None:
            self._on_wait(error)
