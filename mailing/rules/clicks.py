"""Leaving by one click (RFC 8058): the address in a copy for one person, and the page that a browser gets.

A GET of the address changes nothing, because mail servers follow all links that they see. A change takes a POST with
the one-click field.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from dataclasses import dataclass
from html import escape
from urllib.parse import parse_qs

import h11

from mailing.rules.framing import FramingError
from mailing.rules.spooled import Wish
from shadowtree.vocabulary import GroupId, MemberId

PATH = "/u/"
SAYS_SO = ("List-Unsubscribe", "One-Click")
VALID_DAYS = 400
"""Validity of an address: thirteen months, because people read messages late."""
DAY_SECONDS = 86_400
MAC_BYTES = 16
URL_LIMIT = 900
"""Most characters of the address: a line of a message has at most 998, and this line cannot be folded."""
HEAD_LIMIT = 16_384
BODY_LIMIT = 8_192

_PART = re.compile(
    r'Content-Disposition:[^\r\n]*;\s*name="?List-Unsubscribe"?\s*(?:;[^\r\n]*)?\r\n(?:[^\r\n]+\r\n)*\r\nOne-Click\r\n',
    re.I,
)


def click_token(secret: bytes, group: GroupId, person: MemberId, date: int) -> str:
    """Return the token that names a list and a person to this gateway alone. `date`: seconds since 1970."""
    told = f"{date // DAY_SECONDS}\n{group}\n{person}".encode()
    return _written(_mac(secret, told) + told)


def clicked_wish(secret: bytes, token: str, date: int) -> Wish | None:
    """Return the person who wants to leave, with the list. None if the token is forged or too old."""
    try:
        both = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
    except (ValueError, binascii.Error):
        return None
    mac, told = both[:MAC_BYTES], both[MAC_BYTES:]
    if _written(both) != token or not hmac.compare_digest(mac, _mac(secret, told)):
        return None
    day, group, person = told.decode().split("\n")
    return Wish(False, group, person) if 0 <= date // DAY_SECONDS - int(day) <= VALID_DAYS else None


def _written(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def _mac(secret: bytes, told: bytes) -> bytes:
    return hmac.new(secret, b"click " + told, hashlib.sha256).digest()[:MAC_BYTES]


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One HTTP request."""

    method: str
    path: str
    body: bytes

    @property
    def is_one_click(self) -> bool:
        """True if the request is a POST with the one-click field, in either encoding of a form."""
        if self.method != "POST":
            return False
        text = self.body.decode("utf-8", "replace")
        name, value = SAYS_SO
        return parse_qs(text.strip()).get(name) == [value] or _PART.search(text) is not None


class HttpReader:
    """Reader of HTTP/1.0 and 1.1 requests, by h11.

    Each answer states its length, so that another request may follow.
    """

    def __init__(self) -> None:
        self._connection = _connection()
        self._begun: h11.Request | None = None
        self._body = b""

    @property
    def is_within(self) -> bool:
        """True if a request has begun and is not complete."""
        return self._begun is not None or bool(self._connection.trailing_data[0])

    def feed(self, data: bytes) -> list[HttpRequest]:
        """Return the requests that these bytes complete, or raise `FramingError`."""
        found = list[HttpRequest]()
        try:
            self._connection.receive_data(data)
            while self._take(self._connection.next_event(), found):
                pass
        except h11.RemoteProtocolError as error:
            raise FramingError(f"no request of HTTP: {error}") from error
        return found

    def _take(self, event: object, found: list[HttpRequest]) -> bool:
        """Process an event of h11. True if another event may follow."""
        match event:
            case h11.Request():
                self._begun, self._body = event, b""
            case h11.Data(data=data):
                self._body += data
                if len(self._body) > BODY_LIMIT:
                    raise FramingError(f"a body of over {BODY_LIMIT} bytes")
            case h11.EndOfMessage() if self._begun is not None:
                found.append(HttpRequest(_text(self._begun.method), _text(self._begun.target), self._body))
                self._begin_next()
            case _:
                return False
        return True

    def _begin_next(self) -> None:
        after, _ = self._connection.trailing_data
        self._connection, self._begun = _connection(), None
        if after:
            self._connection.receive_data(after)


def _connection() -> h11.Connection:
    return h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_LIMIT)


def _text(part: bytes) -> str:
    return part.decode("latin-1")


def page(status: str, text: str, *, is_asking: bool = False) -> bytes:
    """Return the page for a browser. `is_asking`: True to add a button that sends the one-click POST."""
    name, value = SAYS_SO
    button = f'<form method="post"><button name="{name}" value="{value}">Yes</button></form>' if is_asking else ""
    body = f'<!doctype html><meta charset="utf-8"><title>Mailing list</title><p>{escape(text)}</p>{button}\n'.encode()
    fields = (
        f"HTTP/1.1 {status}",
        "Content-Type: text/html; charset=utf-8",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Content-Security-Policy: default-src 'none'; form-action 'self'; frame-ancestors 'none'",
        "Referrer-Policy: no-referrer",
    )
    return "".join(f"{field}\r\n" for field in fields).encode("ascii") + b"\r\n" + body
