"""The calls about mailboxes as values, and how their answers are read. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from shadowtree.client.calls import PAGE_SIZE, UnaryCall, as_it_is, message_of
from shadowtree.client.foreign_text import cleaned
from shadowtree.messages import Mailbox, Subscription
from shadowtree.v1 import delivery_pb2 as wire
from shadowtree.vocabulary import MemberId, SubnetName

_BEGIN: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, the last that Python knows."""


def shown_time(milliseconds: int) -> str:
    """A time of the wire as text; empty where it is not known."""
    if not 0 < milliseconds <= _LATEST_MS:
        return ""
    time = _BEGIN + timedelta(milliseconds=milliseconds)
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03}Z"


def open_mailbox(process: MemberId) -> UnaryCall[Mailbox]:
    """Ask for messages to be kept for a process."""
    return UnaryCall("OpenMailbox", message_of(wire.OpenMailboxRequest, process=process), read_mailbox)


def close_mailbox(process: MemberId) -> UnaryCall[Mailbox]:
    """Ask for nothing to be kept any more."""
    return UnaryCall("CloseMailbox", message_of(wire.CloseMailboxRequest, process=process), read_mailbox)


def list_mailboxes(subnet: SubnetName | None, page_token: str) -> UnaryCall[wire.ListMailboxesResponse]:
    """Ask for a page of the mailboxes."""
    request = message_of(wire.ListMailboxesRequest, subnet=subnet or "", page_size=PAGE_SIZE, page_token=page_token)
    return UnaryCall("ListMailboxes", request, as_it_is)


def read_mailbox(told: wire.Mailbox) -> Mailbox:
    """Read what is kept for a process."""
    found = Mailbox(
        process=told.process,
        server=told.server,
        is_new=told.is_new,
        subscriptions=tuple(
            sorted(
                (Subscription(one.name, one.position, one.is_listening) for one in told.subscriptions),
                key=lambda one: one.name,
            )
        ),
    )
    return cleaned(found)
