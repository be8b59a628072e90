"""The record of changes: requests, responses and resumption of its streams, for either client.

A stream that a server ends is requested again, after the last update that was reported.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final

from shadowtree.client.calls import given, message_of
from shadowtree.client.foreign_text import cleaned
from shadowtree.client.retry import FIRST_PAUSE_S, LONGEST_PAUSE_S
from shadowtree.errors import InvalidRequest, ShadowtreeError
from shadowtree.results import RecordedChange, RecordedUpdate
from shadowtree.v1 import name_service_pb2 as messages
from shadowtree.v1 import names_pb2
from shadowtree.vocabulary import ChangeKind, GroupId, NodeKind, Revision, Seconds, SubnetName

_Message = messages.RecordedUpdate

_KINDS: Final[dict[int, ChangeKind]] = {
    _Message.CHANGE_KIND_CREATED: "created",
    _Message.CHANGE_KIND_DELETED: "deleted",
    _Message.CHANGE_KIND_JOINED: "joined",
    _Message.CHANGE_KIND_LEFT: "left",
}
_MEMBER_KINDS: Final[dict[int, NodeKind]] = {
    names_pb2.CHILD_KIND_GROUP: "group",
    names_pb2.CHILD_KIND_PROCESS: "process",
}
RESUME_S: Final = 60.0
"""Retry time in seconds for a server that ended a stream: longer than a start on a large database takes."""

_BEGIN: Final = datetime(1970, 1, 1, tzinfo=UTC)


def list_request(
    group: GroupId | None, subnet: SubnetName | None, since: datetime | None, after_revision: Revision | None
) -> messages.ListChangesRequest:
    """Ask for recorded changes; raise `InvalidRequest` for a time without a time zone, which is ambiguous."""
    return message_of(
        messages.ListChangesRequest,
        group=given(group, "group"),
        subnet=given(subnet, "subnet"),
        told_from_ms=milliseconds_of(since),
        after_revision=after_revision or "",
    )


def milliseconds_of(since: datetime | None) -> int:
    """Return a time in milliseconds since 1970. 0 for None. Raises `InvalidRequest` for a time without a time zone."""
    if since is not None and not isinstance(since, datetime):
        raise InvalidRequest(f"`since` is a datetime, not {since!r:.80}", {"field": "since"})
    if since is not None and since.tzinfo is None:
        raise InvalidRequest("`since` needs a time zone, such as datetime.UTC", {"field": "since"})
    return 0 if since is None else max((since - _BEGIN) // timedelta(milliseconds=1), 0)


def watch_request(
    group: GroupId | None, subnet: SubnetName | None, after_revision: Revision | None
) -> messages.WatchRequest:
    """Ask for changes from now on, or after a revision."""
    return message_of(
        messages.WatchRequest,
        group=given(group, "group"),
        subnet=given(subnet, "subnet"),
        after_revision=after_revision or "",
    )


def read_updates(chunk: messages.ChangesChunk) -> Iterator[RecordedUpdate]:
    """Return the updates of one message."""
    return map(_read_update, chunk.updates)


def _read_update(message: messages.RecordedUpdate) -> RecordedUpdate:
    told_at = _BEGIN + timedelta(milliseconds=message.told_at_ms)
    update = RecordedUpdate(
        revision=message.revision,
        told_at=f"{told_at:%Y-%m-%dT%H:%M:%S}.{told_at.microsecond // 1000:03}Z" if message.told_at_ms else "",
        caller=message.caller,
        server=message.server,
        request_id=message.request_id,
        changes=tuple(
            RecordedChange(
                kind=_KINDS[change.kind],
                group=change.group,
                member=change.member or None,
                member_kind=_MEMBER_KINDS.get(change.member_kind),
            )
            for change in message.changes
        ),
        is_listed=message.is_listed,
        created=message.created,
        deleted=message.deleted,
        joined=message.joined,
        left=message.left,
    )
    return cleaned(update)


class Resumption:
    """Decision when a stream that ended is requested again, on the clock of the caller."""

    def __init__(self) -> None:
        self._give_up: Seconds | None = None
        self._pause = FIRST_PAUSE_S

    def goes_on(self) -> None:
        """Take note that a response came."""
        self._give_up, self._pause = None, FIRST_PAUSE_S

    def pause_after(self, error: ShadowtreeError, now: Seconds) -> Seconds:
        """Return the pause before the next attempt; raise the error if the server has been away for too long."""
        self._give_up = now + RESUME_S if self._give_up is None else self._give_up
        if now >= self._give_up:
            raise error
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE_S)
        return pause
