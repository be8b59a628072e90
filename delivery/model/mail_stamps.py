"""Mail stamps: a header by which the origin of a message says that the message carries mail of lists of its subnets.

    client --header--> origin: owns the subnets, and the client may carry their mail
                         '--parcel--> receiver: the origin owns the subnets --> listener, such as a mail gateway

A gateway takes mail only for lists of the stamped subnets. So no server can send mail to the lists of another server.

See docs/protocol-messages.md, "Mail stamps".
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from delivery.model.reach import Reach
from delivery.model.words import MessageContent
from namegraph import InvalidNameError, NodeId, Reason, ServerId, Subnet, parse_subnet, refuse

MAIL_STAMP: Final = "shadowtree-carries-mail"
"""Name of the header. Its value has the subnets of the lists, separated by commas."""

STAMPED_LIMIT: Final = 50
"""Most subnets of one stamp: a share of mail has at most as many lists (`mailing/rules/shares.py`)."""


def stamped_subnets(message: MessageContent) -> tuple[Subnet, ...]:
    """Return the subnets of the stamp of a message. Empty without a stamp. Raises `RefusedError` for a wrong stamp."""
    value = next((value for name, value in message.headers if name == MAIL_STAMP), None)
    if value is None:
        return ()
    parts = value.split(",")
    if len(parts) > STAMPED_LIMIT:
        raise refuse(
            Reason.LIMIT_EXCEEDED,
            f"the header {MAIL_STAMP} names at most {STAMPED_LIMIT} subnets, not {len(parts)}",
            limit=str(STAMPED_LIMIT),
            field="headers",
        )
    try:
        subnets = tuple(map(parse_subnet, parts))
    except InvalidNameError as error:
        raise refuse(Reason.INVALID_REQUEST, f"the header {MAIL_STAMP}: {error}", field="headers") from None
    if list(subnets) != parts:
        raise refuse(
            Reason.INVALID_REQUEST,
            f"the header {MAIL_STAMP} names subnets in lower case, with commas between them, not {value!r:.80}",
            field="headers",
        )
    return subnets


def require_own_mail(message: MessageContent, reach: Reach, server: ServerId) -> None:
    """Raise `RefusedError` if a message has a stamp, and `server`, its origin, does not own all stamped subnets."""
    if not message.headers:
        return
    for subnet in stamped_subnets(message):
        if not _owns(server, subnet, reach):
            raise refuse(
                Reason.PERMISSION_DENIED,
                f"the server {server} does not own {subnet}, and carries no mail of its lists; send the message by the "
                f"server of {subnet}",
            )


def are_vouched_for(messages: Iterable[MessageContent], origin: ServerId, reach: Reach) -> bool:
    """Return False if a stamp is wrong, or names a subnet that the origin of the messages does not own."""
    for message in messages:
        if not message.headers:
            continue
        for name, value in message.headers:
            if name == MAIL_STAMP:
                parts = value.split(",")
                if len(parts) > STAMPED_LIMIT or not all(_owns(origin, Subnet(part), reach) for part in parts):
                    return False
    return True


def _owns(server: ServerId, subnet: Subnet, reach: Reach) -> bool:
    return reach.home_of(NodeId(f"x@{subnet}")) == server
