"""A message as bytes: its relevant header fields, and its key. No part of it is written anew."""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mailing.rules.addresses import mailbox_of, name_of
from mailing.rules.mailboxes import mailboxes_in

HEADER_BYTES_LIMIT = 1_000_000
HEADER_LINES_LIMIT = 10_000
RECEIVED_LIMIT = 50
"""Most `Received` fields, as in Postfix's `hopcount_limit`. A message with more fields goes in circles."""
ADDRESSED_LIMIT = 1_000
"""Most people in To and Cc that are looked at."""
ID_DIGITS = 32

_MESSAGE_ID = re.compile(r"<[!-;=?-~]{1,200}>")
_FIELD = re.compile(rb"([!-9;-~]+)[ \t]*:")


class MalformedError(ValueError):
    """Content that no message may hold. `code`: its enhanced status code."""

    def __init__(self, code: str, why: str) -> None:
        super().__init__(why)
        self.code = code


@dataclass(frozen=True, slots=True)
class HeaderField:
    """One field. `raw`: all of its lines, each with its end."""

    name: str
    """Name in lower case."""
    raw: bytes

    @property
    def value(self) -> str:
        """Text behind the colon, on one line."""
        text = self.raw.partition(b":")[2].decode("utf-8", "replace")
        return " ".join(text.split())


@dataclass(frozen=True, slots=True)
class Content:
    """A message with valid content."""

    fields: tuple[HeaderField, ...]
    rest: bytes
    """Bytes from the empty line on."""

    def values(self, name: str) -> list[str]:
        """Return the values of all fields of a name."""
        return [field.value for field in self.fields if field.name == name]


def read_content(data: bytes) -> Content:
    """Split a message whose lines end with CR LF, or raise `MalformedError`."""
    # Each CR and each LF belongs to a pair if all three counts are equal.
    if not data.count(b"\r\n") == data.count(b"\r") == data.count(b"\n"):
        raise MalformedError("5.6.0", "a line of the message does not end with CR LF")
    empty_line = data.find(b"\r\n\r\n")
    header = b"" if data.startswith(b"\r\n") else data if empty_line < 0 else data[: empty_line + 2]
    if len(header) > HEADER_BYTES_LIMIT or header.count(b"\n") > HEADER_LINES_LIMIT:
        raise MalformedError(
            "5.3.4", f"the header has more than {HEADER_BYTES_LIMIT:,} bytes or {HEADER_LINES_LIMIT:,} lines"
        )
    return Content(tuple(_fields(header)), data[len(header) :] or b"\r\n")


def _fields(header: bytes) -> Iterator[HeaderField]:
    name, lines = "", list[bytes]()
    for line in header.splitlines(keepends=True):
        if line[:1] in (b" ", b"\t") and lines:
            lines.append(line)
            continue
        if lines:
            yield HeaderField(name, b"".join(lines))
        found = _FIELD.match(line)
        if found is None:
            raise MalformedError("5.6.0", "a line of the header is no field")
        name, lines = found[1].decode("ascii").lower(), [line]
    if lines:
        yield HeaderField(name, b"".join(lines))


def key_of(content: Content) -> str:
    """Return the key of a message: ID_DIGITS hexadecimal digits, the same however often the message comes.

    The key rests on Message-ID, From, Date and body. Without a Message-ID it rests on the whole message.
    """
    named = content.values("message-id")
    parts = (
        [named[0], *content.values("from"), *content.values("date")]
        if named
        else [field.raw.decode("latin-1") for field in content.fields]
    )
    digest = hashlib.sha256()
    for part in (*(part.encode() for part in parts), content.rest):
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.hexdigest()[:ID_DIGITS]


def id_of(secret: bytes, key: str) -> str:
    """Return the id of a message that this gateway takes, by its key.

    Copies carry the id. Only the gateway can compute it, so that no sender can name a message by its content.
    """
    return hmac.new(secret, f"id {key}".encode(), hashlib.sha256).hexdigest()[:ID_DIGITS]


def message_id_of(content: Content) -> str:
    """Return the Message-ID to name in an answer. Empty if the message has none, several, or an invalid Message-ID."""
    found = content.values("message-id")
    return found[0] if len(found) == 1 and _MESSAGE_ID.fullmatch(found[0]) else ""


def addressed_people(content: Content) -> tuple[str, ...]:
    """Return the mailboxes of the people in To and Cc, sorted."""
    text = ", ".join((*content.values("to"), *content.values("cc")))
    names = (name_of(each.address) for each in mailboxes_in(text)[:ADDRESSED_LIMIT])
    return tuple(sorted({mailbox_of(name) for name in names if name is not None}))
