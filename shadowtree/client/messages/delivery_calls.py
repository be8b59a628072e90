"""The calls about delivery options, mailboxes and dead letters as values, with their readers. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, Literal

from shadowtree.client.calls import PAGE_SIZE, UnaryCall, as_it_is, choice, given, message_of
from shadowtree.client.foreign_text import cleaned
from shadowtree.errors import InvalidRequest, ServerFault
from shadowtree.messages import DeadLetter, Delivery, Mailbox, Replayed, Subscription
from shadowtree.v1 import delivery_pb2 as wire
from shadowtree.vocabulary import GroupId, Kept, MemberId, Quality, SubnetName

_BEGIN: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS: Final = 253_402_300_799_999
"""End of the year 9999, the last year that Python knows, in milliseconds since 1970."""


def shown_time(milliseconds: int) -> str:
    """Return a time of the wire as text; empty if it is not known."""
    if not 0 < milliseconds <= _LATEST_MS:
        return ""
    seconds, rest = divmod(milliseconds, 1000)
    return f"{_shown_seconds(seconds)}.{rest:03}Z"


@lru_cache(maxsize=16)
def _shown_seconds(seconds: int) -> str:
    """Format whole seconds. Cached, because messages that come together were accepted in the same few seconds."""
    return f"{_BEGIN + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}"


QUALITIES: Final = {"fifo": wire.QUALITY_FIFO, "datagram": wire.QUALITY_DATAGRAM}
_QUALITY_NAMES: Final[dict[int, Quality]] = {wire.QUALITY_FIFO: "fifo", wire.QUALITY_DATAGRAM: "datagram"}

KEPT: Final = {"durable": wire.KEPT_DURABLE, "memory": wire.KEPT_MEMORY}
KEPT_NAMES: Final[dict[int, Kept]] = {
    wire.KEPT_UNSPECIFIED: "durable",
    wire.KEPT_DURABLE: "durable",
    wire.KEPT_MEMORY: "memory",
}
"""Names of values on the wire. A server that does not know the option keeps every message durably."""


def set_delivery(
    group: GroupId, *, quality: Quality | None, senders: str | None, kept: Kept | None
) -> UnaryCall[Delivery]:
    """Set the delivery options of a group. An option that is None stays unchanged."""
    if quality is None and senders is None and kept is None:
        raise InvalidRequest("nothing is said of what is to hold: quality, senders, or kept", {"field": "senders"})
    request = message_of(
        wire.SetDeliveryRequest,
        group=group,
        quality=wire.QUALITY_UNSPECIFIED if quality is None else choice(QUALITIES, quality, "quality"),
        senders=given(senders, "senders"),
        kept=wire.KEPT_UNSPECIFIED if kept is None else choice(KEPT, kept, "kept"),
    )
    return UnaryCall("SetDelivery", request, _read_delivery)


def get_delivery(group: GroupId) -> UnaryCall[Delivery]:
    """Ask for the delivery options of a group."""
    return UnaryCall("GetDelivery", message_of(wire.GetDeliveryRequest, group=group), _read_delivery)


def _read_delivery(told: wire.Delivery) -> Delivery:
    if told.quality not in _QUALITY_NAMES or told.kept not in KEPT_NAMES:
        raise ServerFault("the server sent a value that this client does not know; it may be newer")
    return cleaned(Delivery(told.group, _QUALITY_NAMES[told.quality], told.senders, KEPT_NAMES[told.kept]))


def open_mailbox(process: MemberId) -> UnaryCall[Mailbox]:
    """Ask a server to keep messages for a process."""
    return UnaryCall("OpenMailbox", message_of(wire.OpenMailboxRequest, process=process), read_mailbox)


def close_mailbox(process: MemberId, *, force: bool) -> UnaryCall[Mailbox]:
    """Ask a server to keep no messages for a process any more."""
    request = message_of(wire.CloseMailboxRequest, process=process, force=force)
    return UnaryCall("CloseMailbox", request, read_mailbox)


def list_mailboxes(subnet: SubnetName | None, page_token: str) -> UnaryCall[wire.ListMailboxesResponse]:
    """Ask for a page of the mailboxes."""
    request = message_of(wire.ListMailboxesRequest, subnet=subnet or "", page_size=PAGE_SIZE, page_token=page_token)
    return UnaryCall("ListMailboxes", request, as_it_is)


def read_mailbox(told: wire.Mailbox) -> Mailbox:
    """Read the mailbox of a process."""
    found = Mailbox(
        process=told.process,
        server=told.server,
        is_new=told.is_new,
        messages_lost=told.messages_lost,
        subscriptions=tuple(
            sorted(
                (Subscription(one.name, one.position, one.is_listening) for one in told.subscriptions),
                key=lambda one: one.name,
            )
        ),
    )
    return cleaned(found)


_REASONS: Final[dict[int, str]] = {
    wire.DeadLetter.REASON_SERVER_REMOVED: "server removed",
    wire.DeadLetter.REASON_EXPIRED: "expired",
    wire.DeadLetter.REASON_REFUSED: "refused",
}


def list_dead_letters(subnet: SubnetName | None, page_token: str) -> UnaryCall[wire.ListDeadLettersResponse]:
    """Ask for a page of the dead letters."""
    request = message_of(wire.ListDeadLettersRequest, subnet=subnet or "", page_size=PAGE_SIZE, page_token=page_token)
    return UnaryCall("ListDeadLetters", request, as_it_is)


def replay(numbers: Iterable[int] | Literal["all"], subnet: SubnetName | None) -> UnaryCall[Replayed]:
    """Ask for dead letters to be sent again."""
    request = message_of(
        wire.ReplayDeadLettersRequest,
        subnet=subnet or "",
        numbers=() if numbers == "all" else numbers,
        all=numbers == "all",
    )
    return UnaryCall("ReplayDeadLetters", request, lambda told: Replayed(told.replayed, told.left))


def drop(numbers: Iterable[int] | Literal["all"], subnet: SubnetName | None) -> UnaryCall[int]:
    """Ask for dead letters to be dropped."""
    request = message_of(
        wire.DropDeadLettersRequest,
        subnet=subnet or "",
        numbers=() if numbers == "all" else numbers,
        all=numbers == "all",
    )
    return UnaryCall("DropDeadLetters", request, _dropped)


def _dropped(told: wire.DropDeadLettersResponse) -> int:
    return told.dropped


def read_dead_letter(told: wire.DeadLetter) -> DeadLetter:
    """Read a dead letter."""
    found = DeadLetter(
        number=told.number,
        id=told.id,
        messages=told.messages,
        bytes=told.bytes,
        group=told.group,
        reason=_REASONS.get(told.reason, ""),
        servers=tuple(sorted(told.servers)),
        replayed_to=tuple(sorted(told.replayed_to)),
        sent_at=shown_time(told.sent_at_ms),
        why=told.why,
    )
    return cleaned(found)
