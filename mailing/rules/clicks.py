"""Leaving by one click (RFC 8058): the address that a copy carries for one person, and what a browser is answered.

Whoever only looks at the address changes nothing: mail servers follow all links that they see. It takes a POST that
says that it is one click.
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

from mailing.rules.framing import FramingError
from mailing.rules.spooled import Wish
from shadowtree.vocabulary import GroupId, MemberId

PATH = "/u/"
SAYS_SO = ("List-Unsubscribe", "One-Click")
VALID_DAYS = 400
"""Thirteen months: messages are read late."""
DAY_SECONDS = 86_400
MAC_BYTES = 16
URL_LIMIT = 900
"""Characters: a line of a message has at most 998, and this one cannot be folded."""
HEAD_LIMIT = 16_384
BODY_LIMIT = 8_192

_LENGTH = re.compile(r"\d{1,6}")
_PART = re.compile(
    r'Content-Disposition:[^\r\n]*;\s*name="?List-Unsubscribe"?\s*(?:;[^\r\n]*)?\r\n(?:[^\r\n]+\r\n)*\r\nOne-Click\r\n',
    re.I,
)


def click_token(secret: bytes, group: GroupId, person: MemberId, date: int) -> str:
    """What names a list and a person in an address, to this gateway alone; `date`: in seconds since 1970."""
    told = f"{date // DAY_SECONDS}\n{group}\n{person}".encode()
    return _written(_mac(secret, told) + told)


def clicked_wish(secret: bytes, token: str, date: int) -> Wish | None:
    """Who wants to leave which list; None: the token is forged, or too old."""
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
    """One request."""

    method: str
    path: str
    body: bytes

    @property
    def is_one_click(self) -> bool:
        """Whether it is a POST that says that it is one click, in either form that a form is sent in."""
        if self.method != "POST":
            return False
        text = self.body.decode("utf-8", "replace")
        name, value = SAYS_SO
        return parse_qs(text.strip()).get(name) == [value] or _PART.search(text) is not None


class HttpReader:
    """Requests of HTTP/1.0 and 1.1 whose bodies have a length."""

    def __init__(self) -> None:
        self._held = b""

    @property
    def is_within(self) -> bool:
        """Whether a request has begun that is not whole."""
        return bool(self._held)

    def feed(self, data: bytes) -> list[HttpRequest]:
        """The requests that are whole with these bytes; raises `FramingError`."""
        self._held += data
        found = list[HttpRequest]()
        while (end := self._held.find(b"\r\n\r\n")) >= 0:
            method, path, length = _read_head(self._held[:end])
            whole = end + 4 + length
            if len(self._held) < whole:
                break
            found.append(HttpRequest(method, path, self._held[end + 4 : whole]))
            self._held = self._held[whole:]
        if end < 0 and len(self._held) > HEAD_LIMIT:
            raise FramingError(f"a request of over {HEAD_LIMIT} bytes")
        return found


def _read_head(head: bytes) -> tuple[str, str, int]:
    line, *fields = head.decode("latin-1").split("\r\n")
    words = line.split(" ")
    if len(head) > HEAD_LIMIT or len(words) != 3 or words[2] not in ("HTTP/1.0", "HTTP/1.1"):
        raise FramingError("no request of HTTP")
    lengths = list[str]()
    for field in fields:
        name, _, value = field.partition(":")
        if name.lower() == "transfer-encoding":
            raise FramingError("a body without a length")
        if name.lower() == "content-length":
            lengths.append(value.strip())
    if len(lengths) > 1 or (lengths and not (_LENGTH.fullmatch(lengths[0]) and int(lengths[0]) <= BODY_LIMIT)):
        raise FramingError(f"a body of over {BODY_LIMIT} bytes, or of no length")
    return words[0], words[1], int(lengths[0]) if lengths else 0


def page(status: str, text: str, *, is_asking: bool = False) -> bytes:
    """What a browser is answered; `is_asking`: with a button that says that it is one click."""
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
