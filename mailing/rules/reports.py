"""Reader of messages to a return path, or to owners: a person cannot be reached, or complains.

Only the start of a message is read. The returned copy is never searched for a failure, because its words are those of
its author. A complaint counts by the one-click address in the returned copy. A return path proves no person, since all
recipients of a message know its token.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from email import message_from_bytes, policy
from email.message import Message

from mailing.rules.authors import shown
from mailing.rules.clicks import PATH, clicked_wish
from mailing.rules.delivery_status import RecipientStatus, recipients_in
from mailing.rules.failure_notices import LINES_LIMIT, UNKNOWN_REASON, Notice, may_be_failure, why_given_up
from mailing.rules.spooled import Wish
from shadowtree.vocabulary import MemberId

READ_BYTES = 200_000
PARTS_LIMIT = 50
"""Most parts within parts. A report has three."""
COMPLAINTS_LIMIT = 10
"""Most people of one report."""

Detector = Callable[[Message], bool]
"""Function that returns True if a report in a non-standard format says that a person cannot be reached for good."""

_COMPLAINTS = frozenset({"abuse", "fraud", "opt-out", "opt-out-list", "miscategorized"})
"""Feedback types that mean "send me no more of this". The types not-spam, auth-failure, virus and other do not."""

_MULTIPART = re.compile(rb"multipart/", re.I)
_MESSAGE_TYPE = re.compile(rb"(?im)^(content-type:[ \t]*(?:\r?\n[ \t]+)?\"?)message/")
_COPY = re.compile(rb"(?im)^content-type:[ \t]*(?:\r?\n[ \t]+)?\"?x-message/(?:rfc822|global)\b")
_LEAF = "x-message/"
"""Type in place of `message/`: Python's parser reads `message/...` as messages, without their encoding.

The parser takes parts of this type for bytes.
"""
_STATUS_TYPES = frozenset({f"{_LEAF}delivery-status", f"{_LEAF}global-delivery-status"})
_FEEDBACK_TYPE = f"{_LEAF}feedback-report"
_RETURNED_TYPES = frozenset(
    {f"{_LEAF}rfc822", f"{_LEAF}global", f"{_LEAF}global-headers", "text/rfc822-headers", f"{_LEAF}rfc822-headers"}
)
_MICROSOFT_COMPLAINT = "x-hmxmroriginalrecipient"
"""Field of the copy in Microsoft's complaints (JMRP), which have no feedback report."""

_CLICK = re.compile(rf"<https?://[^<>\s]*{re.escape(PATH)}([A-Za-z0-9_-]+)>")
_TAG = re.compile(r"<[^<>]{0,2000}>")
_LINE_TAG = re.compile(r"<(?:br|p|div|tr|h\d)\b[^<>]{0,2000}>", re.I)


@dataclass(frozen=True, slots=True)
class FailureReport:
    """A report of a failed delivery to at least one recipient."""

    recipients: tuple[RecipientStatus, ...] = ()
    """Recipients that the report names. Empty if it is no standard report."""
    why: str = UNKNOWN_REASON
    """Reason of a report that is no standard."""

    def failure_of(self, person: MemberId) -> str | None:
        """Return the reason why the person of the return path was not reached. None if only other people failed.

        Mail may be forwarded, so the report may name another address than that of the person. A report that names the
        person tells the fate of that copy. A report that does not is about the address to which the copy went.
        """
        if not self.recipients:
            return self.why
        about = [each for each in self.recipients if each.is_about(person)] or self.recipients
        return next((each.why for each in about if each.has_failed), None)


def failure_report(data: bytes, detects: Detector = lambda _: False) -> FailureReport | None:
    """Return the failed delivery that a report tells. None if it tells no such thing.

    Standard reports (RFC 3464, RFC 6533) are taken at their word. The words of a mail server count for other reports.
    `detects` is asked about reports that are still not understood.
    """
    report = _read(data)
    if report is None or _is_complaint(report):
        return None
    notice = _notice(report)
    statuses = [_text(part) for part in report.walk() if part.get_content_type() in _STATUS_TYPES]
    recipients = tuple(each for text in statuses or [notice.text] for each in recipients_in(text))
    if recipients:
        return FailureReport(recipients) if any(each.has_failed for each in recipients) else None
    why = why_given_up(notice)
    if why is not None:
        return FailureReport(why=why)
    if not may_be_failure(notice):
        return None
    begin = _read(b"".join(data[:READ_BYTES].splitlines(keepends=True)[:LINES_LIMIT]))
    return FailureReport() if begin is not None and detects(begin) else None


def is_complaint(data: bytes) -> bool:
    """Return True if a person takes a message for abuse (RFC 5965), or wants no more of it."""
    report = _read(data)
    return report is not None and _is_complaint(report)


def complaints(data: bytes, secret: bytes, date: int) -> list[Wish]:
    """Return the people who want no more mail, and their lists, in a complaint. `date`: seconds since 1970."""
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
    """Parse the start of a message, without the inside of the messages in it. None if it nests without end."""
    begin = _MESSAGE_TYPE.sub(rb"\1x-message/", data[:READ_BYTES])
    if len(_MULTIPART.findall(begin)) > PARTS_LIMIT:
        # Parts of the copy do not count.
        copy = _COPY.search(begin)
        begin = begin if copy is None else begin[: copy.end()]
        if len(_MULTIPART.findall(begin)) > PARTS_LIMIT:
            return None
    return message_from_bytes(begin, policy=policy.compat32)


def _field(message: Message, name: str) -> str:
    return "".join(str(message[name] or "").split())


def _text(part: Message) -> str:
    """Decode a part that is no multipart."""
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    try:
        return data.decode(part.get_content_charset("utf-8"), "replace")
    except (LookupError, UnicodeError):
        return data.decode("utf-8", "replace")


def _notice(report: Message) -> Notice:
    """Return the words of a report: its text in front of the parts that it carries."""
    plain, marked = list[str](), list[str]()
    for part in report.walk():
        kind = part.get_content_type()
        if kind in _RETURNED_TYPES:
            break
        if kind == "text/html":
            marked.append(html.unescape(_TAG.sub(" ", _LINE_TAG.sub("\n", _text(part)))))
        elif not part.is_multipart() and part.get_content_maintype() in ("text", "multipart"):
            # A multipart without parts has a boundary that does not occur, so the text is its own.
            plain.append(_text(part))
    words = plain if any(text.strip() for text in plain) else marked
    is_automatic = _field(report, "Auto-Submitted").lower().startswith("auto-replied")
    return Notice(
        shown(str(report["From"] or "")),
        shown(str(report["Subject"] or "")),
        "\n".join(words),
        is_automatic or any(report[name] for name in ("X-Autoreply", "X-Autorespond", "X-Autoresponder")),
    )


def _is_complaint(report: Message) -> bool:
    parts = [part for part in report.walk() if part.get_content_type() == _FEEDBACK_TYPE]
    if parts:
        return any(_field(_header(part), "Feedback-Type").lower() in _COMPLAINTS for part in parts)
    return any(_MICROSOFT_COMPLAINT in map(str.lower, header.keys()) for header in _returned(report))


def _returned(report: Message) -> Iterator[Message]:
    """Yield the headers of the messages that a report is about."""
    for part in report.walk():
        if part.get_content_type() in _RETURNED_TYPES:
            yield _header(part)


def _header(part: Message) -> Message:
    """Parse the fields that a part holds."""
    payload = part.get_payload(decode=True)
    data = payload if isinstance(payload, bytes) else b""
    return message_from_bytes(data.lstrip().partition(b"\r\n\r\n")[0], policy=policy.compat32)
