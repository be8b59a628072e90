"""Checks of a message at its origin, whoever sends it: sizes, and targets that exist.

See docs/protocol-messages.md, "Limits of messages" and "Who may send".
"""

from __future__ import annotations

from collections.abc import Callable

from delivery.model.events import Send
from delivery.model.reach import Reach
from delivery.model.words import (
    HEADERS_BYTES_LIMIT,
    PAYLOAD_BYTES_LIMIT,
    TARGETS_LIMIT,
    MessageContent,
    target_not_found,
)
from delivery.origin.origin import MessageOrigin
from delivery.origin.servers_below import servers_below
from delivery.origin.unsettled import IDLE
from namegraph import NodeId, Reason, ServerId, TargetSet, refuse

NAMES_LIMIT = TARGETS_LIMIT * 2
"""Largest number of targets and exceptions of one message, together."""


def require_size(message: MessageContent) -> None:
    """Raise `RefusedError` if a message is too large."""
    if len(message.payload) > PAYLOAD_BYTES_LIMIT:
        raise refuse(Reason.LIMIT_EXCEEDED, f"a message has at most {PAYLOAD_BYTES_LIMIT} bytes")
    # The rest of a message without headers is the sender's id, which has a limit of its own.
    if message.headers and message.size - len(message.payload) > HEADERS_BYTES_LIMIT:
        raise refuse(Reason.LIMIT_EXCEEDED, f"headers have at most {HEADERS_BYTES_LIMIT} bytes")


def require_targets(targets: TargetSet, reach: Reach, server: ServerId, listens_for: Callable[[NodeId], bool]) -> None:
    """Raise `RefusedError` if `server` cannot send to some target.

    The shell has asked the homes of all other names: this server cannot say whether such a name exists.
    """
    if not 0 < len(targets) <= TARGETS_LIMIT or sum(1 + len(one.excluding) for one in targets) > NAMES_LIMIT:
        raise refuse(Reason.LIMIT_EXCEEDED, f"a message has 1 to {TARGETS_LIMIT} targets, and as many exceptions")
    addressed = targets[0].name
    if reach.home_of(addressed) not in (None, server):
        raise refuse(Reason.INVALID_REQUEST, f"{addressed} is not at home at the server {server}")
    for name in (target.name for target in targets):
        is_others = reach.home_of(name) not in (None, server)
        if not (is_others or reach.is_group(name) or reach.is_process(name) or listens_for(name)):
            raise target_not_found(name, server, reach.renamed_to(name))


def require_backlog(origin: MessageOrigin, targets: TargetSet, reach: Reach) -> None:
    """Raise `RefusedError` if a receiver below some targets leaves too much unconfirmed."""
    receiver = full_receiver(origin, targets, reach)
    if receiver is not None:
        raise refuse(
            Reason.BACKLOG_FULL,
            f"the server {receiver} has not confirmed {origin.backlogs.limit_bytes >> 20} MiB of earlier messages; "
            "messages that go there, or may, are refused until it does (see `shadowtree peers`)",
            server=receiver,
        )


def full_receiver(origin: MessageOrigin, targets: TargetSet, reach: Reach) -> ServerId | None:
    """Return a receiver below some targets whose backlog has reached its limit. None if there is none."""
    full = origin.backlogs.full
    if not full:
        return None
    told: dict[ServerId, tuple[ServerId, ...]] = {}
    alone = [origin.sequences.number_alone(target.name) for target in targets]
    own = origin.sequences.numbers_of(targets)
    for number in (*own, *alone):
        for server, onward in origin.parcels.states.get(number, IDLE).onward.items():
            told[server] = (*told.get(server, ()), *onward)
    below = servers_below(targets, told, reach, here=origin.server)
    found = next((server for server in below if server in full), None)
    if found is not None:
        return found
    singles = ((number, (target,)) for number, target in zip(alone, targets, strict=True))
    is_told = any(origin.is_told(number, targets, reach) for number in own)
    if is_told or all(origin.is_told(number, single, reach) for number, single in singles):
        return None
    beyond = origin.backlogs.untold.bytes_beyond(
        frozenset(full), lambda number: origin.parcels.states.get(number, IDLE).receivers
    )
    return origin.backlogs.overshot(beyond)


def goes_on(before: Send, send: Send) -> bool:
    """True if a message is the next of the same sender to the same targets, so that checks of the first hold for it."""
    return (
        0 < before.number == send.number - 1
        and send.targets is before.targets
        and send.quality is before.quality
        and send.message.sender == before.message.sender
        and not send.request_id
        and send.objection is None
    )
