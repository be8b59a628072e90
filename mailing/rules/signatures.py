"""DKIM signatures of a message (RFC 6376): which of them still hold for a list's copy.

A signature covers the fields that its `h=` names, and the absence of those that are not there. A copy has fields of the
list, so a signature that covers one of their names is broken by it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from mailing.rules.message import Content

LIST_FIELDS = frozenset(
    ("list-id", "list-post", "list-help", "list-owner", "list-unsubscribe", "list-unsubscribe-post")
)
"""Fields that a copy has of its list, whatever was there; in lower case."""
SIGNATURES_LIMIT = 50
"""Signatures of one message that are read."""

_GAPS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class Signature:
    """One signature, as it says of itself."""

    domain: str
    selector: str
    value: str
    """The signature proper, in base64."""
    names: frozenset[str]
    """Fields that it covers, in lower case."""

    @property
    def holds_for_a_copy(self) -> bool:
        """True if it covers none of the fields of a list."""
        return not self.names & LIST_FIELDS


def signatures_of(content: Content) -> list[Signature]:
    """Return the signatures of a message."""
    return list(_signatures_in(content))


def _signatures_in(content: Content) -> Iterator[Signature]:
    for text in content.values("dkim-signature")[:SIGNATURES_LIMIT]:
        tags = {
            name.strip(): _GAPS.sub("", value) for name, _, value in (tag.partition("=") for tag in text.split(";"))
        }
        yield Signature(
            tags.get("d", "").lower(),
            tags.get("s", "").lower(),
            tags.get("b", ""),
            frozenset(tags.get("h", "").lower().split(":")),
        )
