"""Header fields that a list puts in front of a message. The rest of the message stays as it is, byte for byte.

The fields are those of the addressed list, never of a group in it. Fields of the same names are taken out, even if a
DKIM signature covers them or their absence: members filter and leave by these fields. The copy breaks such a signature,
which then counts as none (`mailing.rules.signatures`).
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from email.header import Header
from email.utils import formataddr, formatdate
from urllib.parse import quote

from mailing.rules.authors import Author, author_of
from mailing.rules.message import Content
from mailing.rules.signatures import REPLACED_FIELDS, TRACE
from mailing.rules.spooled import Destination, MailMessage
from shadowtree.vocabulary import GroupId

LINE_END = "\r\n"
TRACE_DIGITS = 32
_LABEL_UNSAFE = re.compile(rb"[^A-Za-z0-9!#$%&'*+/?^_`{|}~.-]")


@dataclass(frozen=True, slots=True)
class ListPlaces:
    """Quoted addresses that a list tells people to write to. Empty for no address."""

    owners: str = ""
    request: str = ""
    """Address of the gateway for requests about the list."""
    leave: str = ""
    """Address of the gateway for leaving the list."""
    is_closed: bool = False
    """True if nobody may post."""
    trace: str = ""
    """Trace as written by the gateway that took the message. Empty if this gateway took it."""


class Copies:
    """Copies of a message for the people that one of its destinations reaches first.

    Only the one-click address differs.
    """

    def __init__(
        self,
        message: MailMessage,
        destination: Destination,
        content: Content,
        *,
        secret: bytes,
        host: str,
        places: ListPlaces,
    ) -> None:
        received = f"by {host} (Shadowtree) with LMTP id {message.id}; {formatdate(message.accepted)}"
        before, after = [_field("Received", received)], list[bytes]()
        replaced: set[str] = set()
        if destination.is_list:
            before += [_field(*each) for each in _places_of(destination, places)]
            replaced = {*REPLACED_FIELDS}
            after.append(_field("Precedence", "list"))
            after.append(_field("Shadowtree-Trace", places.trace or trace_of(secret, message.id, destination.group)))
        author = author_of(content, None)
        # Text beyond ASCII cannot be written without SMTPUTF8.
        if destination.rewrites_from and (message.needs_smtputf8 or f"{author.address}{destination.address}".isascii()):
            after += _from_the_list(author, destination, content)
            replaced = {*replaced, "from"}
        if not content.values("message-id"):
            # The copies of all gateways need the same id: it is that of the gateway that took the message.
            named, id_ = host, message.id
            if destination.origin is not None:
                named, id_ = destination.origin.host, destination.origin.trace.partition(";")[0]
            after.append(_field("Message-ID", f"<{id_}@{named}>"))
        kept = (field.raw for field in content.fields if field.name not in replaced)
        self._leave = _mailto(places.leave) if destination.is_list and places.leave else ""
        self._before, header = b"".join(before), b"".join((*after, *kept))
        self.header = self._before + header
        """Header of all copies, without the fields that tell how to leave."""
        self._after = header + content.rest
        self.seal = b""
        """Seal in front of each copy (`mailing.rules.arc`)."""

    def of(self, click: str = "") -> bytes:
        """Return the copy of one person, who leaves at `click` by one click (RFC 8058).

        Without it, the copy of all others.
        """
        ways = (_field(*each) for each in self._ways_to_leave(click))
        return b"".join((self.seal, self._before, *ways, self._after))

    def _ways_to_leave(self, click: str) -> Iterable[tuple[str, str]]:
        ways = [way for way in (click, self._leave) if way]
        if ways:
            yield "List-Unsubscribe", ", ".join(f"<{way}>" for way in ways)
        if click:
            yield "List-Unsubscribe-Post", "List-Unsubscribe=One-Click"


def _places_of(destination: Destination, places: ListPlaces) -> Iterable[tuple[str, str]]:
    yield "List-Id", f"<{list_id(destination.group)}>"
    yield "List-Post", "NO" if places.is_closed else f"<{_mailto(destination.address)}>"
    if places.request:
        yield "List-Help", f"<{_mailto(places.request)}?subject=help>"
    if places.owners:
        yield "List-Owner", f"<{_mailto(places.owners)}>"


def trace_of(secret: bytes, id_: str, group: GroupId) -> str:
    """Return the trace by which this gateway recognises a message that it has distributed to a list."""
    return f"{id_}; {_trace_mac(secret, id_, group)}"


def _from_the_list(author: Author, destination: Destination, content: Content) -> Iterable[bytes]:
    """Yield From in the name of a list, for a message that its author did not sign, and Reply-To of the author."""
    text = f"{author.name or author.address} via {destination.group.rpartition('@')[0]}"
    if f"{text}{destination.address}".isascii():
        yield _field("From", formataddr((text, destination.address)))
    else:
        yield _field("From", f"{Header(text, 'utf-8').encode(linesep=LINE_END)} <{destination.address}>")
    if not content.values("reply-to"):
        yield _field("Reply-To", author.address)


def list_id(group: GroupId) -> str:
    """Return the identifier of a list (RFC 2919), for the id of its group."""
    name, _, subnet = group.rpartition("@")
    label = _LABEL_UNSAFE.sub(lambda found: b"=%02X" % found[0][0], name.encode())
    return f"{label.decode('ascii')}.{subnet}"


def traced(content: Content, group: GroupId, secret: bytes) -> bool:
    """Return True if a message went through a list of this gateway before. Forged traces do not count."""
    for value in content.values(TRACE):
        id_, _, mac = value.partition("; ")
        if hmac.compare_digest(mac.encode("utf-8", "replace"), _trace_mac(secret, id_, group).encode()):
            return True
    return False


def _trace_mac(secret: bytes, id_: str, group: GroupId) -> str:
    return hmac.new(secret, f"trace {id_} {group}".encode(), hashlib.sha256).hexdigest()[:TRACE_DIGITS]


def _mailto(address: str) -> str:
    return "mailto:" + quote(address, safe="@!$'*+-._~")


def _field(name: str, value: str) -> bytes:
    return f"{name}: {value}\r\n".encode()
