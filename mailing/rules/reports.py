"""What a message says that came to a return path, or to owners: that somebody cannot be reached, or complains.

Only its begin is read: what stands behind is the message that came back. What a complaint asks for counts by the
address for one click that the copy in it carries; a return path proves nobody, since all who got a message know its
token.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from email import message_from_bytes, policy
from email.message import Message

from mailing.rules.clicks import PATH, clicked_wish
from mailing.rules.spooled import Wish

READ_BYTES = 200_000
PARTS_LIMIT = 50
"""Parts within parts; a report has three."""
LINES_OF_OTHERS = 1_000
"""Of reports in another format: their words are looked for line by line."""
COMPLAINTS_LIMIT = 10
"""People of one report."""

UNKNOWN_FORMAT = "a report without a status"
Detector = Callable[[Message], bool]
"""Whether a report in a format that is no standard says that somebody cannot be reached for good."""

_CONTAINER = re.compile(rb"multipart/|message/", re.I)
_CLICK = re.compile(rf"<https?://[^<>\s]*{re.escape(PATH)}([A-Za-z0-9_-]+)>")


def lasting_failure(data: bytes, detects: Detector = lambda _: False) -> str | None:
    """What a report says of why somebody cannot be reached; None: it says no such thing.

    That is the status of one that is a standard (RFC 3464); `detects` is asked about others.
    """
    report = _read(data)
    if report is None or _is_complaint(report):
        return None
    statuses = [part for part in report.walk() if part.get_content_type() == "message/delivery-status"]
    for part in statuses:
        for about in part.walk():
            action, status = (_field(about, name) for name in ("Action", "Status"))
            if action.lower() == "failed" and status.startswith("5."):
                return status[:20]
    if statuses:
        return None
    begin = _read(b"".join(data[:READ_BYTES].splitlines(keepends=True)[:LINES_OF_OTHERS]))
    return UNKNOWN_FORMAT if begin is not None and detects(begin) else None


def is_complaint(data: bytes) -> bool:
    """Whether it says that somebody takes a message for abuse (RFC 5965)."""
    report = _read(data)
    return report is not None and _is_complaint(report)


def complaints(data: bytes, secret: bytes, date: int) -> list[Wish]:
    """Who wants no more mail of which list, of a complaint; `date`: in seconds since 1970."""
    report = _read(data)
    if report is None or not _is_complaint(report):
        return []
    found: dict[Wish, None] = {}
    for header in _returned(report):
        for token in _CLICK.findall(_field(header, "List-Unsubscribe"))[:COMPLAINTS_LIMIT]:
            wish = clicked_wish(secret, token, date)
            if wish is not None:
                found[wish] = None
    return list(found)[:COMPLAINTS_LIMIT]


def _read(data: bytes) -> Message | None:
    begin = data[:READ_BYTES]
    if sum(1 for _ in _CONTAINER.finditer(begin)) > PARTS_LIMIT:
        return None
    return message_from_bytes(begin, policy=policy.compat32)


def _field(message: Message, name: str) -> str:
    return "".join(str(message[name] or "").split())


def _is_complaint(report: Message) -> bool:
    return any(
        _field(about, "Feedback-Type").lower() == "abuse"
        for part in report.walk()
        if part.get_content_type() == "message/feedback-report"
        for about in part.walk()
    )


def _returned(report: Message) -> Iterator[Message]:
    """The headers of the messages that a report is about."""
    for part in report.walk():
        payload = part.get_payload()
        if part.get_content_type() == "text/rfc822-headers":
            text = part.get_payload(decode=True)
            yield message_from_bytes(text if isinstance(text, bytes) else b"", policy=policy.compat32)
        elif part.get_content_type() == "message/rfc822" and isinstance(payload, list):
            yield from (each for each in payload if isinstance(each, Message))
