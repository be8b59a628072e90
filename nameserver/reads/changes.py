"""ListChanges and Watch: changes of the groups of one server, in the order in which it committed their updates.

Both read the record of changes in the database, some hundred updates at a time. A slow reader therefore holds no memory
here, and no reader hears of a change that a crash could undo. The place after a revision:

    the record holds the update of that revision -> after it
    else -> from the first update of a higher priority: some may be told twice, none is left out
    that one is the oldest that is kept, and not the first of all -> HISTORY_FORGOTTEN
    the server never saw the update, or lost it with its database -> HISTORY_FORGOTTEN
    only the coordinator of the update knows of it -> as for a read that must reflect the revision

A server that judges its callers tells the changes of groups that exist and that the caller may read when a piece of the
answer is made. Operators are told all. Of an update whose changes are not listed, other readers learn that it happened.

Source: docs/cli.md, "Changes"; docs/decisions/0018-record-of-changes.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence

from namegraph import (
    CallerFacts,
    ChangeKind,
    ChangeRecord,
    ChangeSet,
    CoreQueries,
    NodeId,
    Privilege,
    Reason,
    RecordedChange,
    RefusedError,
    Revision,
    Wait,
    decode_changes,
    parse_revision,
    refuse,
    subnet_of,
)
from nameserver.calls.adapters import Chunks, Context
from nameserver.calls.judging import Judging
from nameserver.calls.read_your_writes import Revisions
from nameserver.driver.run_loop import RunLoop
from nameserver.routing.ownership import Routing
from nameserver.wire import conversion
from shadowtree.v1 import name_service_pb2 as messages
from shadowtree.v1 import names_pb2 as values
from storage.store import ChangesWanted

UPDATES_PER_READ = 200

_Told = messages.RecordedUpdate
_KINDS = {
    ChangeKind.CREATED: _Told.CHANGE_KIND_CREATED,
    ChangeKind.DELETED: _Told.CHANGE_KIND_DELETED,
    ChangeKind.JOINED: _Told.CHANGE_KIND_JOINED,
    ChangeKind.LEFT: _Told.CHANGE_KIND_LEFT,
}


class ChangeCalls:
    """Servicer of ListChanges and Watch about this server's groups."""

    def __init__(
        self, *, core: CoreQueries, run_loop: RunLoop, routing: Routing, revisions: Revisions, judging: Judging
    ) -> None:
        self._judging = judging
        self._core = core
        self._revisions = revisions
        self._routing = routing
        self._run_loop = run_loop

    async def list_changes(self, request: messages.ListChangesRequest, context: Context) -> Chunks:
        """Return the recorded changes, the oldest first."""
        group = self._group_of(request)
        facts = await self._facts(group)
        after = await self._place_after(request.after_revision, context) if request.after_revision else 0
        return self._recorded(group, after, facts, told_from=request.told_from_ms)

    async def watch(self, request: messages.WatchRequest, context: Context) -> Chunks:
        """Return the changes recorded after a revision, or from now on, until the caller ends the stream."""
        group = self._group_of(request)
        facts = await self._facts(group)
        if request.after_revision:
            after = await self._place_after(request.after_revision, context)
        else:
            after = await self._run_loop.newest_change()
        return self._followed(group, after, facts)

    async def _facts(self, group: NodeId | None) -> CallerFacts | None:
        """Return the facts on the caller. None if it is told all.

        Raises `RefusedError` if it may not read the group.
        """
        facts = await self._judging.all_facts()
        if facts is None or self._core.rights_of(facts).is_operator:
            return None
        if group is not None:
            await self._judging.require(Privilege.READ, group)
        return facts

    def _readable(self, facts: CallerFacts | None) -> Callable[[NodeId], bool] | None:
        """Return a function that tells if the caller may read a group at present. None if it may read all groups."""
        if facts is None:
            return None
        core, rights = self._core, self._core.rights_of(facts)
        return lambda group: core.graph.group(group) is not None and rights.has(Privilege.READ, group)

    def _group_of(self, request: messages.ListChangesRequest | messages.WatchRequest) -> NodeId | None:
        """Return the requested group.

        None for all groups.

        Raises `RefusedError` if no server is known to own the group's or the requested subnet.
        """
        if not request.group:
            self._routing.require_owned(conversion.read_subnet(request.subnet))
            return None
        group = conversion.read_id(request.group, "group", self._core.graph.index)
        self._routing.require_owned(subnet_of(group))
        return group

    async def _recorded(
        self, group: NodeId | None, after: int, facts: CallerFacts | None, *, told_from: int
    ) -> AsyncGenerator[bytes, None]:
        yield _opening(self._core.revision)
        while True:
            wanted = ChangesWanted(UPDATES_PER_READ, after=after, told_from=told_from)
            records = (await self._run_loop.read_changes(wanted)).records
            if records:
                yield _chunk(records, group, self._readable(facts))
            if len(records) < UPDATES_PER_READ:
                return
            after = records[-1].number

    async def _followed(
        self, group: NodeId | None, after: int, facts: CallerFacts | None
    ) -> AsyncGenerator[bytes, None]:
        yield _opening(self._core.revision)
        while True:
            written = self._run_loop.next_changes()
            found = await self._run_loop.read_changes(ChangesWanted(UPDATES_PER_READ, after=after))
            if found.oldest is not None and found.oldest > after + 1:
                raise _forgotten("the reader was too slow", found.records)
            if found.records:
                chunk = _chunk(found.records, group, self._readable(facts))
                after = found.records[-1].number
                yield chunk
            if len(found.records) < UPDATES_PER_READ:
                # Rows of other kinds are passed over here, and must not count as missed once they are forgotten.
                after = found.newest or after
                await written

    async def _place_after(self, text: str, context: Context) -> int:
        """Return the number of the last record that a caller with this revision knows."""
        revision = _read_revision(text)
        read = self._run_loop.read_changes
        exact = (await read(ChangesWanted(1, revision=text))).records
        if exact:
            return exact[0].number
        await self._require_seen(text, context)
        after = 0
        while True:
            found = await read(ChangesWanted(UPDATES_PER_READ, after=after, counter_from=revision.counter))
            later = next((one for one in found.records if parse_revision(one.revision).final > revision.final), None)
            if later is not None:
                kept = await read(ChangesWanted(1))
                if kept.records[0].number == later.number and (kept.oldest or 0) > 1:
                    raise _forgotten(f"nothing is known any more of {text}", found.records)
                return later.number - 1
            if len(found.records) < UPDATES_PER_READ:
                return await self._run_loop.newest_change()
            after = found.records[-1].number

    async def _require_seen(self, text: str, context: Context) -> None:
        """Raise `RefusedError` if this server cannot have seen the update: none of its records would come after the
        update.
        """
        try:
            wait = self._core.waits_for(text)
        except RefusedError as error:
            if "unreachable" in error.refusal.facts:
                # This server may lack the update. The record begins before it, so some changes may be given twice.
                return
            raise _never_seen(error.refusal.message, self._core.revision) from None
        if wait is Wait.ASK:
            await self._revisions.reflect(text, context)


def _opening(revision: str) -> bytes:
    return messages.ChangesChunk(revision=revision).SerializeToString()


def _chunk(
    records: Sequence[ChangeRecord], group: NodeId | None, is_readable: Callable[[NodeId], bool] | None
) -> bytes:
    updates = (_told(record, decode_changes(record.changes), group, is_readable) for record in records)
    return messages.ChangesChunk(updates=[update for update in updates if update is not None]).SerializeToString()


def _readable_changes(changes: ChangeSet, is_readable: Callable[[NodeId], bool]) -> ChangeSet:
    """Return the listed changes of readable groups alone, and their numbers."""
    listed = tuple(change for change in changes.listed if is_readable(change.group))
    count = Counter(change.kind for change in listed)
    return ChangeSet(
        created=count[ChangeKind.CREATED],
        deleted=count[ChangeKind.DELETED],
        joined=count[ChangeKind.JOINED],
        left=count[ChangeKind.LEFT],
        listed=listed,
    )


def _told(
    record: ChangeRecord, changes: ChangeSet, group: NodeId | None, is_readable: Callable[[NodeId], bool] | None
) -> messages.RecordedUpdate | None:
    """Return the message for one record. None if the record changed nothing of the requested groups."""
    is_listed = changes.is_listed
    if is_readable is not None:
        changes = _readable_changes(changes, is_readable)
    listed = [change for change in changes.listed if group in (None, change.group)]
    if is_listed and not listed:
        return None
    return messages.RecordedUpdate(
        revision=record.revision,
        request_id=record.request_id,
        told_at_ms=record.told_at,
        caller=record.caller,
        server=record.server,
        created=changes.created,
        deleted=changes.deleted,
        joined=changes.joined,
        left=changes.left,
        is_listed=is_listed,
        changes=[
            messages.RecordedUpdate.Change(
                kind=_KINDS[change.kind],
                group=change.group,
                member=change.member or "",
                member_kind=_member_kind(change),
            )
            for change in listed
        ],
    )


def _member_kind(change: RecordedChange) -> values.ChildKind:
    if change.member is None:
        return values.CHILD_KIND_AUTO
    return values.CHILD_KIND_GROUP if change.is_group else values.CHILD_KIND_PROCESS


def _read_revision(text: str) -> Revision:
    try:
        return parse_revision(text)
    except ValueError as error:
        raise refuse(Reason.INVALID_REQUEST, str(error), field="after_revision") from None


def _forgotten(why: str, kept: Sequence[ChangeRecord]) -> RefusedError:
    oldest = kept[0].revision if kept else ""
    return refuse(
        Reason.HISTORY_FORGOTTEN,
        f"{why}: the oldest change that is kept is of {oldest}; read the groups anew, then follow from their revision",
        oldest_revision=oldest,
    )


def _never_seen(why: str, newest: str) -> RefusedError:
    return refuse(
        Reason.HISTORY_FORGOTTEN,
        f"{why}: the server went back to an older copy of its database, or the revision is of another server; "
        "read the groups anew, then follow from their revision",
        newest_revision=newest,
    )
