"""DKIM signatures of a message (RFC 6376), and their validity for a list's copy.

A signature covers the fields that its `h=` names, and the absence of missing fields. A copy has fields of its list, so
a signature that covers one of their names is broken. Anybody can write a signature. So no signature keeps a field of
its author in a copy. A signature counts only if the local mail server calls it valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mailing.rules.message import Content

LIST_FIELDS = frozenset(
    ("list-id", "list-post", "list-help", "list-owner", "list-unsubscribe", "list-unsubscribe-post")
)
"""Fields that a copy has of its list, in place of existing fields. All names are in lower case, also below."""
TRACE = "shadowtree-trace"
REPLACED_FIELDS = LIST_FIELDS | {"precedence", "list-subscribe", "list-archive"}
"""Fields that a copy has of its list, or not at all."""
ADDED_FIELDS = LIST_FIELDS | {"precedence", TRACE}
"""Fields that the gateway writes. A signature that covers one of these names is broken."""
SIGNATURES_LIMIT = 50
"""Most signatures of one message that are read."""

_GAPS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature, by its own tags."""

    domain: str
    selector: str
    value: str
    """The signature proper, in base64."""
    holds_for_a_copy: bool
    """True if the signature covers nothing that differs between the message and its copy."""


def signatures_of(content: Content) -> list[Signature]:
    """Return the signatures of a message."""
    return list(_signatures_in(content))


def _signatures_in(content: Content) -> Iterator[Signature]:
    present = {field.name for field in content.fields}
    # The copy of a message without a Message-ID has a Message-ID.
    changed = ADDED_FIELDS | (REPLACED_FIELDS & present) | ({"message-id"} - present)
    for text in content.values("dkim-signature")[:SIGNATURES_LIMIT]:
        tags = {
            name.strip(): _GAPS.sub("", value) for name, _, value in (tag.partition("=") for tag in text.split(";"))
        }
        yield Signature(
            tags.get("d", "").lower(),
            tags.get("s", "").lower(),
            tags.get("b", ""),
            not changed & set(tags.get("h", "").lower().split(":")),
        )
