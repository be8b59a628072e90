"""Delivery status notifications (RFC 3464, RFC 6533): the fate of each recipient that a report names.

Mail servers write these fields in any case, order and layout, and leave some out. The action decides, regardless of the
status ("failed" with 4.4.7 is a queue that gave up; RFC 3464, 2.3.3). Without an action, the class of the status
decides, then the SMTP reply.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass

from mailing.rules.addresses import is_same_person, unquoted
from shadowtree.vocabulary import MemberId

RECIPIENTS_LIMIT = 10_000
"""Most recipients of one report that are read. The text is bounded as well."""
FAILED = "failed"
"""Reason of a recipient that has neither a status nor an SMTP reply."""

_FAILED_ACTIONS = frozenset({"failed", "failure", "fail", "expired", "bounced", "undeliverable"})
_OTHER_ACTIONS = frozenset({"delayed", "deferred", "delivered", "relayed", "expanded"})
_RECIPIENT_FIELDS = frozenset({"original-recipient", "final-recipient"})
_FIELD = re.compile(
    r"[ \t>]{0,20}(original-recipient|final-recipient|action|status|diagnostic-code)[ \t]{0,20}:(.*)", re.I | re.S
)
_OTHER_FIELD = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,60}[ \t]{0,20}:")
_STATUS = re.compile(r"(?<![\d.])([245])\.(\d{1,3})\.(\d{1,3})(?![\d.])")
_SMTP_REPLY = re.compile(r"(?<![\d.])([45])[0-5]\d(?![\d.])")
_COMMENT = re.compile(r"\([^()]*\)")
_ADDRESS_TYPE = re.compile(r"[ \t]*[A-Za-z0-9-]{1,40}[ \t]*;")
_ENCODED_CHARACTER = re.compile(r"\\x\{([0-9A-Fa-f]{1,6})\}")
_VALUE_LIMIT = 2_000


@dataclass(frozen=True, slots=True)
class RecipientStatus:
    """Fate of one recipient."""

    addresses: tuple[str, ...]
    """The recipient as the sender wrote it and as the reporting server has it, if the report says so."""
    has_failed: bool
    """True if nothing more is tried for this recipient."""
    why: str
    """Status code, or SMTP reply."""

    def is_about(self, person: MemberId) -> bool:
        """Return True if the report names this person."""
        return any(is_same_person(person, each) for each in self.addresses)


def recipients_in(text: str) -> list[RecipientStatus]:
    """Return the recipients of a report, in its order. Recipients without any fate are left out."""
    found = []
    for fields in _groups(text):
        recipient = _recipient(fields)
        if recipient is not None:
            found.append(recipient)
            if len(found) == RECIPIENTS_LIMIT:
                break
    return found


def status_in(text: str) -> str | None:
    """Return the first status code of a text about a failed delivery, or else its first SMTP reply.

    None if it has neither.
    """
    found = _STATUS.search(text) or _SMTP_REPLY.search(text)
    return None if found is None else found[0]


def _groups(text: str) -> Iterator[dict[str, str]]:
    """Yield the fields of each recipient.

    An empty line ends a recipient (RFC 3464, 2.1). Some servers put an empty line after each field, and some put none
    between two recipients. So a recipient ends where a field repeats, or where an empty line precedes another
    recipient.
    """
    fields: dict[str, str] = {}
    name, is_after_empty_line = "", True
    for line in text.splitlines():
        if not line.strip():
            name, is_after_empty_line = "", True
            continue
        found = _FIELD.fullmatch(line)
        if found is None:
            if name and (line[0] in " \t" or not _OTHER_FIELD.match(line)):
                # The line is folded, or broken by a server that does not fold.
                fields[name] = f"{fields[name]} {line.strip()}"[:_VALUE_LIMIT]
            else:
                name = ""
            continue
        name = found[1].lower()
        is_next = is_after_empty_line and name in _RECIPIENT_FIELDS and not fields.keys() <= _RECIPIENT_FIELDS
        if name in fields or is_next:
            yield fields
            fields = {}
        fields[name] = found[2].strip()[:_VALUE_LIMIT]
        is_after_empty_line = False
    if fields:
        yield fields


def _recipient(fields: dict[str, str]) -> RecipientStatus | None:
    action = _COMMENT.sub(" ", fields.get("action", "")).strip().lower().partition(" ")[0].rstrip(".;,")
    diagnostic = fields.get("diagnostic-code", "")
    why = status_in(fields.get("status", "")) or status_in(diagnostic)
    if action in _FAILED_ACTIONS:
        has_failed = True
    elif action in _OTHER_ACTIONS:
        has_failed = False
    elif why is not None:
        has_failed = why.startswith("5")
    else:
        return None
    addresses = (_address(fields[name]) for name in sorted(_RECIPIENT_FIELDS) if name in fields)
    return RecipientStatus(tuple(each for each in addresses if each), has_failed, why or FAILED)


def _address(value: str) -> str:
    """Return the name in a recipient field: type and comments go, RFC 6533 characters are decoded."""
    text = _ADDRESS_TYPE.sub("", value, count=1)
    text = _ENCODED_CHARACTER.sub(_decoded, text)
    text = text if text.lstrip().startswith('"') else _COMMENT.sub(" ", text)
    text = unicodedata.normalize("NFC", unquoted(text.strip().removeprefix("<").removesuffix(">").strip()))
    local, at_sign, domain = text.rpartition("@")
    if domain.isascii():
        return text
    try:
        # Names of the name service have their domain in ASCII.
        return f"{local}{at_sign}{domain.encode('idna').decode('ascii')}"
    except UnicodeError:
        return text


def _decoded(character: re.Match[str]) -> str:
    number = int(character[1], 16)
    return character[0] if number > 0x10FFFF or 0xD800 <= number <= 0xDFFF else chr(number)
