"""Content and coverage of a seal (ARC, RFC 8617): the findings of the local mail server about the author of a copy.

    fields of the local mail server, chain of earlier seals --> nothing to say, broken, or an assessment

A seal has three fields in front of a copy. It covers the same parts in all copies of a list, so one seal is enough. It
covers neither the one-click address nor the fields that mail servers write on the way.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import authres

from mailing.rules.message import Content

CHAIN_FIELDS = frozenset(("arc-seal", "arc-message-signature", "arc-authentication-results"))
INSTANCES_LIMIT = 50
"""Most seals of one message (RFC 8617, 4.2.1)."""
RESULT_CHARACTERS_LIMIT = 900
"""Most characters of one result. A longer line is broken on its way."""
RESULTS_LIMIT = 30

COVERED_OF_AUTHOR = (
    "from",
    "sender",
    "reply-to",
    "to",
    "cc",
    "subject",
    "date",
    "message-id",
    "in-reply-to",
    "references",
    "mime-version",
    "content-type",
    "content-transfer-encoding",
    "content-id",
    "content-description",
    "dkim-signature",
)
COVERED_OF_LIST = ("list-id", "list-post", "list-help", "list-owner")
FROZEN = "from"
"""Field that a seal covers once more than it occurs: a second From would break the seal."""


class Chain(StrEnum):
    """Status of the earlier seals of a message."""

    NONE = "none"
    PASS = "pass"  # noqa: S105
    BROKEN = "broken"
    UNKNOWN = "unknown"
    """The local mail server reports nothing about the earlier seals."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """Key and names with which seals are made."""

    domain: str
    selector: str
    """DNS selector at which the domain publishes the public key."""
    authserv_id: str
    """Name of the local mail server, which made the findings in a seal."""
    numbers: dict[str, int]
    """Numbers of the private RSA key, under their names in RFC 8017."""


def chain_of(content: Content, results: Iterable[authres.AuthenticationResult]) -> Chain:
    """Return the status of the earlier seals, according to `results` of the local mail server."""
    if all(field.name not in CHAIN_FIELDS for field in content.fields):
        return Chain.NONE
    said = {each.result.lower() for each in results if each.method == "arc"}
    if not said:
        return Chain.UNKNOWN
    return Chain.PASS if said == {"pass"} else Chain.BROKEN


def assessment(results: Iterable[authres.AuthenticationResult], chain: Chain) -> tuple[str, ...]:
    """Return the assessment in a seal: each result as it is written. Empty if there is nothing to say."""
    # A result with a property without a value is read by the parser, and cannot be written.
    whole = (each for each in results if all(str(said.value) for said in each.properties))
    texts = [str(each) for each in whole if each.method != "arc"]
    fit = [text for text in texts if len(text) <= RESULT_CHARACTERS_LIMIT]
    return (*fit[:RESULTS_LIMIT], *(("arc=pass",) if chain is Chain.PASS else ()))


def covered_names(fields: Sequence[str], *, is_copy: bool) -> tuple[str, ...]:
    """Return the lower-case names that a seal covers among the `fields` of a message, each as often as it occurs.

    `is_copy`: True for a list's copy. False for a message from which another gateway makes copies, with fields of its
    list.
    """
    covered = (*COVERED_OF_AUTHOR, *COVERED_OF_LIST) if is_copy else COVERED_OF_AUTHOR
    return (*(name for name in covered for _ in range(fields.count(name))), FROZEN)
