"""Shares: parts of a message for the gateways of other organisations and for the own gateway, sent as one message.

The gateway that takes a message sends its shares to the set of groups that the message was addressed to. Each server
tells its own gateway the people that the share reaches there. A share has the lists that it is for, and the text of a
copy about each. It has no list that is to be expanded.

Any client of any name server can send a share. So a share of an own list carries a proof that this gateway made it. A
share of another gateway's list is a message of its own: it never meets a message that this gateway has taken.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

import msgspec

from mailing.rules.addresses import UndeliverableError, quoted, unquoted
from mailing.rules.message import ID_DIGITS, MalformedError, read_content
from mailing.rules.spooled import Destination, ListOrigin, OtherShare, PostState
from mailing.rules.tokens import mac_of
from namegraph import UNDECODABLE, InvalidNameError, parse_name
from shadowtree.vocabulary import GroupId, MemberId, SubnetName

PATTERN = "*"
"""Pattern of a gateway's mailbox: all people to whom its name server delivers."""
SUBSCRIPTION = "mail"
"""Subscription of a gateway. A server that has it belongs to an organisation with a mail gateway."""
HEADER, FORMAT = "shadowtree-mail", "share 1"
"""Header, and its value, of the message that carries a share."""
MAIL_STAMP = "shadowtree-carries-mail"
"""Header with the subnets of the lists, for which the name server that owns them vouches
(`delivery/model/mail_stamps.py`).
"""
PAYLOAD_BYTES = 1_048_576
"""Most bytes of a payload that servers take."""
AROUND_BYTES = 65_536
"""Bytes of a share for everything but the message."""
CONTENT_BYTES_LIMIT = PAYLOAD_BYTES - AROUND_BYTES
"""Most bytes of a message that goes by shares."""
LISTS_LIMIT = 50
GROUPS_LIMIT = 1_000
TEXT_LIMIT = 2_000

_ID = re.compile(rf"[0-9a-f]{{{ID_DIGITS}}}")
_TRACE = re.compile(r"[0-9a-f; ]{1,200}")


class NotAShareError(ValueError):
    """Data that are no share for this gateway."""


@dataclass(frozen=True, slots=True)
class SharedList:
    """A list that the message was addressed to."""

    group: GroupId
    address: str
    excluding: tuple[GroupId, ...]
    skips_addressed: bool
    rewrites_from: bool
    origin: ListOrigin

    def destination(self, host: str) -> Destination:
        """Return the destination for a gateway that did not take the message.

        `host`: own mail domain of that gateway.
        """
        local = self.address.rpartition("@")[0]
        return Destination(
            self.group,
            self.address,
            True,
            skips_addressed=self.skips_addressed,
            rewrites_from=self.rewrites_from,
            origin=replace(self.origin, here=f"{local}@{host}"),
        )


@dataclass(frozen=True, slots=True)
class Share:
    """A message on its way from the gateway that took it."""

    id: str
    sender: str
    """Sender of the envelope."""
    author: str
    subject: str
    needs_smtputf8: bool
    addressed: tuple[MemberId, ...]
    subnets: tuple[SubnetName, ...]
    """Subnets of the lists, which gateways of an earlier version ask for. They prove nothing, and are not read."""
    lists: tuple[SharedList, ...]
    content: bytes
    proof: str = ""
    """Proof of the gateway that made the share (`proof_of`). Empty if a gateway of an earlier version sent it."""

    def is_proven(self, secret: bytes) -> bool:
        """Return True if the gateway with this secret made the share."""
        return hmac.compare_digest(self.proof.encode(), proof_of(secret, self).encode())

    def id_here(self, secret: bytes) -> str:
        """Return the id under which a gateway that did not take the message keeps it.

        The id rests on the home of the list, the id there, and the body. So no share reaches a message of another home,
        or a message with content that the sender of the share did not know.
        """
        home = self.lists[0].group.rpartition("@")[2]
        body = hashlib.sha256(read_content(self.content).rest).hexdigest()
        parts = "".join(f"{len(part)}:{part}" for part in (home, self.id, body))
        return hmac.new(secret, f"share {parts}".encode(), hashlib.sha256).hexdigest()[:ID_DIGITS]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Share)


def encoded(share: Share) -> bytes:
    """Return a share in its form for transport."""
    return _ENCODER.encode(share)


def proof_of(secret: bytes, share: Share) -> str:
    """Return the proof that the gateway with a secret made a share, for its content, its addressed people and its
    lists.
    """
    groups = (each.group for each in share.lists)
    content = hashlib.sha256(share.content).hexdigest()
    return mac_of(secret, "share", share.id, content, str(len(share.addressed)), *share.addressed, *groups)


def read_share(payload: bytes) -> Share:
    """Decode a share, or raise `NotAShareError` for values that could do harm in a copy."""
    try:
        share = _DECODER.decode(payload)
        read_content(share.content)
        for group in {name for each in share.lists for name in (each.group, *each.excluding)}:
            parse_name(group)
        for each in share.lists:
            _require_addresses(each)
    except (*UNDECODABLE, MalformedError, InvalidNameError, UndeliverableError) as error:
        raise NotAShareError(str(error)) from None
    texts = (share.author, share.subject, share.sender)
    is_good = (
        _ID.fullmatch(share.id) is not None
        and 0 < len(share.lists) <= LISTS_LIMIT
        and all(len(text) <= TEXT_LIMIT and text.isprintable() for text in texts)
        and all(_TRACE.fullmatch(each.origin.trace) and len(each.excluding) <= GROUPS_LIMIT for each in share.lists)
    )
    if not is_good:
        raise NotAShareError("a value of it is none that a gateway writes")
    return share


def _require_addresses(each: SharedList) -> None:
    origin = each.origin
    for address in (each.address, origin.owners, origin.request, origin.leave, f"x@{origin.host}"):
        if address and (quoted(unquoted(address)) != address or not address.isascii()):
            raise NotAShareError(f"{address!r:.80} is not written as an address is")


def stamp_of(groups: Iterable[GroupId], served: Collection[SubnetName]) -> str:
    """Return the stamp of a share for the lists of some groups.

    Empty if the name server does not own all subnets of the lists: no server could vouch for the share. `served`:
    subnets of the name server that is asked to send it.
    """
    subnets = {group.rpartition("@")[2] for group in groups}
    return ",".join(sorted(subnets)) if subnets.issubset(served) else ""


def why_refused(share: Share, addressed: GroupId, own: frozenset[SubnetName], *, stamp: str) -> str:
    """Return the reason why a share is refused. Empty if it is served.

    `addressed`: group to which its message was sent. `own`: subnets of this gateway. `stamp`: subnets whose home
    vouches for the share. Empty if none does.
    """
    if share.lists[0].group != addressed:
        return f"it was sent to {addressed}, and says {share.lists[0].group}"
    subnets = {each.group.rpartition("@")[2] for each in share.lists}
    if stamp and not subnets.issubset(stamp.split(",")):
        return f"its server vouches for mail of {stamp}, and its lists are of {', '.join(sorted(subnets))}"
    return "" if subnets <= own or subnets.isdisjoint(own) else "some of its lists are of this gateway, others not"


def shares_of(shares: tuple[OtherShare, ...], post: PostState) -> list[OtherShare]:
    """Return the shares of other servers, as far as they are known.

    Servers that were away and not counted are included.
    """
    known = {each.server for each in shares}
    return [*shares, *(OtherShare(server, -1, 0) for server in (*post.away, *post.lost) if server not in known)]


People = tuple[tuple[MemberId, int], ...]
"""People, each with the position of the first destination that reaches the person."""


@dataclass(frozen=True, slots=True)
class Named:
    """People whom the gateway that takes a message is told by name."""

    certain: People = ()
    """People that no other gateway serves."""
    unsure: People = ()
    """People that another gateway may serve, once its server is back."""
    away: tuple[MemberId, ...] = ()
    """People in `unsure` whose homes are away. The homes of groups that they are in have named them."""


def sort_out(
    people: Iterable[tuple[MemberId, int]],
    *,
    owned: Collection[SubnetName],
    without_gateway: Collection[SubnetName],
    is_whole: bool,
) -> Named:
    """Sort out the people to serve here, among the people that are named.

    `owned`: all subnets of servers. `without_gateway`: subnets of servers without a gateway. `is_whole`: True if no
    server is out of reach. Otherwise a server that is out of reach may have a gateway for foreign people.
    """
    certain, unsure, away = list[tuple[MemberId, int]](), list[tuple[MemberId, int]](), list[MemberId]()
    for person, at in people:
        subnet = person.rpartition("@")[2]
        is_away = subnet in owned and subnet not in without_gateway
        is_certain = subnet in without_gateway or (is_whole and not is_away)
        (certain if is_certain else unsure).append((person, at))
        if is_away:
            away.append(person)
    return Named(tuple(certain), tuple(unsure), tuple(away))
