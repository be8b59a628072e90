"""Shares: what the gateway that takes a message sends to those of other organisations, and to itself, as one message.

It goes to the set of groups that the message was addressed to. Whom it reaches at a server, that server tells its own
gateway. A share says for which lists it is, and what a copy says of each; it has no list that is to be expanded.

Any client of any name server can send a share. So a share of an own list carries a proof that this gateway made it, and
a share of another gateway's list is a message of its own: it never meets a message that this gateway has taken.
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
from mailing.rules.spooled import Destination, Origin, OtherShare, PostState
from mailing.rules.tokens import mac_of
from namegraph import InvalidNameError, parse_name
from shadowtree.vocabulary import GroupId, MemberId, SubnetName

PATTERN = "*"
"""For whom a gateway listens: all whom its name server delivers to."""
SUBSCRIPTION = "mail"
"""By which: where a server has it, its organisation has a mail gateway."""
HEADER, FORMAT = "shadowtree-mail", "share 1"
"""Of the message that carries a share."""
PAYLOAD_BYTES = 1_048_576
"""As servers take it."""
AROUND_BYTES = 65_536
"""What a share holds besides the message."""
CONTENT_BYTES_LIMIT = PAYLOAD_BYTES - AROUND_BYTES
"""The longest message that goes by shares."""
LISTS_LIMIT = 50
GROUPS_LIMIT = 1_000
TEXT_LIMIT = 2_000

_ID = re.compile(rf"[0-9a-f]{{{ID_DIGITS}}}")
_TRACE = re.compile(r"[0-9a-f; ]{1,200}")


class NotAShareError(ValueError):
    """What came is no share that this gateway serves."""


@dataclass(frozen=True, slots=True)
class SharedList:
    """A list that the message was addressed to."""

    group: GroupId
    address: str
    excluding: tuple[GroupId, ...]
    skips_addressed: bool
    rewrites_from: bool
    origin: Origin

    def destination(self, host: str) -> Destination:
        """As a gateway keeps it that did not take the message; `host`: its own mail domain."""
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
    """Of the envelope."""
    author: str
    subject: str
    needs_smtputf8: bool
    addressed: tuple[MemberId, ...]
    subnets: tuple[SubnetName, ...]
    """Subnets of the lists, which gateways of an earlier version ask for. They prove nothing, and are not read."""
    lists: tuple[SharedList, ...]
    content: bytes
    proof: str = ""
    """The gateway's own word for it (`proof_of`); empty: a gateway of an earlier version sent it."""

    def is_proven(self, secret: bytes) -> bool:
        """Return True if the gateway with this secret made the share."""
        return hmac.compare_digest(self.proof.encode(), proof_of(secret, self).encode())

    def id_here(self, secret: bytes) -> str:
        """Return the id by which a gateway that did not take the message keeps it.

        It rests on the home of the list, the id there, and the body: no share reaches a message of another home, and
        none that holds what the sender of the share did not know.
        """
        home = self.lists[0].group.rpartition("@")[2]
        body = hashlib.sha256(read_content(self.content).rest).hexdigest()
        parts = "".join(f"{len(part)}:{part}" for part in (home, self.id, body))
        return hmac.new(secret, f"share {parts}".encode(), hashlib.sha256).hexdigest()[:ID_DIGITS]


_ENCODER = msgspec.msgpack.Encoder()
_DECODER = msgspec.msgpack.Decoder(Share)


def encoded(share: Share) -> bytes:
    """As it travels."""
    return _ENCODER.encode(share)


def proof_of(secret: bytes, share: Share) -> str:
    """Return the word of the gateway with a secret that a share is its own: for whom, and what."""
    groups = (each.group for each in share.lists)
    content = hashlib.sha256(share.content).hexdigest()
    return mac_of(secret, "share", share.id, content, str(len(share.addressed)), *share.addressed, *groups)


def read_share(payload: bytes) -> Share:
    """What `encoded` wrote; raises `NotAShareError` for what could do harm in a copy."""
    try:
        share = _DECODER.decode(payload)
        read_content(share.content)
        for group in {name for each in share.lists for name in (each.group, *each.excluding)}:
            parse_name(group)
        for each in share.lists:
            _require_addresses(each)
    except (msgspec.MsgspecError, MalformedError, InvalidNameError, UndeliverableError) as error:
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


def why_refused(share: Share, addressed: GroupId, own: frozenset[SubnetName]) -> str:
    """Why a share is not served; empty: it is. `addressed`: where its message was sent to; `own`: subnets of here."""
    if share.lists[0].group != addressed:
        return f"it was sent to {addressed}, and says {share.lists[0].group}"
    subnets = {each.group.rpartition("@")[2] for each in share.lists}
    return "" if subnets <= own or subnets.isdisjoint(own) else "some of its lists are of this gateway, others not"


def shares_of(shares: tuple[OtherShare, ...], post: PostState) -> list[OtherShare]:
    """The shares of other servers, as far as they are known: those too that are away and were not counted."""
    known = {each.server for each in shares}
    return [*shares, *(OtherShare(server, -1, 0) for server in (*post.away, *post.lost) if server not in known)]


People = tuple[tuple[MemberId, int], ...]
"""Each with the position of the first destination that reaches them."""


@dataclass(frozen=True, slots=True)
class Named:
    """People whom the gateway that takes a message is told by name."""

    certain: People = ()
    """No other gateway serves these."""
    unsure: People = ()
    """Another one may, once its server is back."""
    away: tuple[MemberId, ...] = ()
    """Those among them whose homes are away: the homes of groups that they are in have told of them."""


def sort_out(
    people: Iterable[tuple[MemberId, int]],
    *,
    owned: Collection[SubnetName],
    without_gateway: Collection[SubnetName],
    is_whole: bool,
) -> Named:
    """Who is served here, of the people that are named.

    `owned`: all subnets of servers; `without_gateway`: those of servers that have none. `is_whole`: nothing is out of
    reach; else a server that is may have a gateway for those whom nobody owns.
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
