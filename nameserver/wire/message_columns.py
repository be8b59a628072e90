"""Rows of messages as chunks of a snapshot.

Source: docs/snapshots.md.
"""

from __future__ import annotations

from delivery.snapshot import AudienceRow, CursorRow, EntryRow, LogEnds, MailboxRow, MessagePiece, UnsettledRow
from shadowtree.v1 import admin_pb2 as messages

_Chunk = messages.SnapshotChunk


def encode_messages(piece: MessagePiece) -> bytes:
    """Return one chunk."""
    return _Chunk(
        log=map(_entry, piece.entries),
        audiences=map(_audience, piece.audiences),
        mailboxes=map(_mailbox, piece.mailboxes),
        cursors=map(_cursor, piece.cursors),
        unsettled=map(_unsettled, piece.unsettled),
        reached=(_Chunk.Reached(targets=row.targets, mailboxes=row.mailboxes) for row in piece.reached),
    ).SerializeToString()


def encode_messages_end(ends: LogEnds) -> bytes:
    """Return the chunk after all of these."""
    end = _Chunk.MessagesEnd(
        log_last=ends.last, log_cut=ends.cut, mailboxes_numbered=ends.mailboxes_numbered, log_gone=ends.gone
    )
    return _Chunk(messages_end=end).SerializeToString()


def _entry(row: EntryRow) -> _Chunk.LogEntry:
    return _Chunk.LogEntry(**row._asdict())


def _audience(row: AudienceRow) -> _Chunk.Audience:
    return _Chunk.Audience(number=row.number, mailboxes=row.mailboxes or b"", is_gone=row.mailboxes is None)


def _mailbox(row: MailboxRow) -> _Chunk.Mailbox:
    if row.mailbox is None:
        return _Chunk.Mailbox(process=row.process, is_gone=True)
    return _Chunk.Mailbox(process=row.process, number=row.mailbox.number, opened_at=row.mailbox.opened_at)


def _cursor(row: CursorRow) -> _Chunk.Cursor:
    if row.cursor is None:
        return _Chunk.Cursor(mailbox=row.mailbox, subscription=row.subscription, is_gone=True)
    entry, item = row.cursor
    return _Chunk.Cursor(mailbox=row.mailbox, subscription=row.subscription, entry=entry, item=item)


def _unsettled(row: UnsettledRow) -> _Chunk.Unsettled:
    if row.parcel is None:
        return _Chunk.Unsettled(position=row.position, is_gone=True)
    return _Chunk.Unsettled(position=row.position, **row.parcel._asdict())
