"""The calls about mailboxes, policies and dead letters as values, and how their answers are read. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from shadowtree.client.calls import PAGE_SIZE, UnaryCall, as_it_is, choice, message_of
from shadowtree.client.foreign_text import cleaned
from shadowtree.errors import InvalidRequest, ServerFault
from shadowtree.messages import DeadLetter, DeliveryPolicy, Mailbox, Subscription
from shadowtree.v1 import delivery_pb2 as wire
from shadowtree.vocabulary import DeadLetterCause, GroupId, Kept, MemberId, Quality, SubnetName

QUALITIES: Final[dict[str, wire.Quality]] = {"datagram": wire.QUALITY_DATAGRAM, "fifo": wire.QUALITY_FIFO}
_QUALITIES_READ: Final[dict[int, Quality]] = {wire.QUALITY_DATAGRAM: "datagram", wire.QUALITY_FIFO: "fifo"}
_KEPT: Final[dict[str, wire.Kept]] = {"disk": wire.KEPT_DISK, "memory": wire.KEPT_MEMORY}
_KEPT_READ: Final[dict[int, Kept]] = {wire.KEPT_DISK: "disk", wire.KEPT_MEMORY: "memory"}
_CAUSES: Final[dict[int, DeadLetterCause]] = {
    wire.DeadLetter.WHY_OVERRUN: "overrun",
    wire.DeadLetter.WHY_EXPIRED: "expired",
    wire.DeadLetter.WHY_SERVER_RETIRED: "server retired",
    wire.DeadLetter.WHY_REFUSED: "refused",
}
_BEGIN: Final = datetime(1970, 1, 1, tzinfo=UTC)
_LATEST_MS: Final = 253_402_300_799_999
"""The end of the year 9999, the last that Python knows."""


def quality(chosen: Quality | None) -> wire.Quality:
    """On the wire; None: the one that holds otherwise."""
    return wire.QUALITY_UNSPECIFIED if chosen is None else choice(QUALITIES, chosen, "quality")


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


def set_delivery(
    group: GroupId, *, quality_chosen: Quality | None, kept: Kept | None, senders: str | None
) -> UnaryCall[DeliveryPolicy]:
    """Say how messages to a group are handled."""
    request = message_of(
        wire.SetDeliveryRequest,
        group=group,
        quality=quality(quality_chosen),
        kept=wire.KEPT_UNSPECIFIED if kept is None else choice(_KEPT, kept, "kept"),
        senders="" if senders is None else senders,
    )
    return UnaryCall("SetDelivery", request, read_policy)


def get_delivery(group: GroupId) -> UnaryCall[DeliveryPolicy]:
    """Ask how messages to a group are handled."""
    return UnaryCall("GetDelivery", message_of(wire.GetDeliveryRequest, group=group), read_policy)


def list_dead_letters(subnet: SubnetName | None, page_token: str) -> UnaryCall[wire.ListDeadLettersResponse]:
    """Ask for a page of the dead letters."""
    request = message_of(wire.ListDeadLettersRequest, subnet=subnet or "", page_size=PAGE_SIZE, page_token=page_token)
    return UnaryCall("ListDeadLetters", request, as_it_is)


def replay(ids: Iterable[str] | None, subnet: SubnetName | None) -> UnaryCall[int]:
    """Ask for dead letters to be delivered again."""
    return UnaryCall("ReplayDeadLetters", _chosen(ids, subnet), lambda answer: answer.count)


def drop(ids: Iterable[str] | None, subnet: SubnetName | None) -> UnaryCall[int]:
    """Ask for dead letters to be forgotten."""
    return UnaryCall("DropDeadLetters", _chosen(ids, subnet), lambda answer: answer.count)


def _chosen(ids: Iterable[str] | None, subnet: SubnetName | None) -> Any:
    if isinstance(ids, str) or not (ids is None or isinstance(ids, Iterable)):
        raise InvalidRequest(f"a list of ids is wanted, not {ids!r:.80}")
    listed = [] if ids is None else list(ids)
    return message_of(wire.DeadLettersRequest, subnet=subnet or "", ids=listed, all=ids is None)


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


def read_policy(told: wire.DeliveryPolicy) -> DeliveryPolicy:
    """Read how messages to a group are handled."""
    if told.quality not in _QUALITIES_READ or told.kept not in _KEPT_READ:
        raise ServerFault("the server sent a value that this client does not know; it may be of a newer version")
    return DeliveryPolicy(told.group, _QUALITIES_READ[told.quality], _KEPT_READ[told.kept], told.senders)


def read_dead_letter(told: wire.DeadLetter) -> DeadLetter:
    """Read one dead letter."""
    if told.why not in _CAUSES:
        raise ServerFault("the server sent a value that this client does not know; it may be of a newer version")
    found = DeadLetter(
        id=told.id,
        cause=_CAUSES[told.why],
        messages=told.messages,
        group=told.group,
        message_id=told.message_id,
        process=told.process,
        server=told.server,
        can_be_replayed=told.can_be_replayed,
        since=shown_time(told.since_ms),
    )
    return cleaned(found)
