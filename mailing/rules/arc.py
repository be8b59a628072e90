"""What a seal says (ARC, RFC 8617), and what it covers: who a list's copy is from, as the own mail server found out.

    fields of the own mail server, chain of earlier seals --> nothing to say, broken, or what is said

A seal is told by three fields in front of a copy. What it covers is the same in all copies of a list, so one is enough:
where one click leads is not covered, nor what mail servers on the way write.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

import authres

from mailing.rules.message import Content

CHAIN_FIELDS = frozenset(("arc-seal", "arc-message-signature", "arc-authentication-results"))
INSTANCES_LIMIT = 50
"""Seals of one message, as RFC 8617 (4.2.1) has it."""
RESULT_CHARACTERS_LIMIT = 900
"""Of one result: a longer line is broken on its way."""
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
"""Covered once more than it is there: a second one would break the seal."""


class Chain(StrEnum):
    """How earlier seals of a message stand."""

    NONE = "none"
    PASS = "pass"  # noqa: S105
    BROKEN = "broken"
    UNKNOWN = "unknown"
    """The own mail server says nothing of them."""


@dataclass(frozen=True, slots=True)
class SigningKey:
    """What seals are made with."""

    domain: str
    selector: str
    """Under which the domain publishes the public key."""
    authserv_id: str
    """The own mail server, which found out what seals say."""
    numbers: dict[str, int]
    """Of the private RSA key, by their names in RFC 8017."""


def chain_of(content: Content, results: Iterable[authres.AuthenticationResult]) -> Chain:
    """How earlier seals stand, by `results` of the own mail server."""
    if all(field.name not in CHAIN_FIELDS for field in content.fields):
        return Chain.NONE
    said = {each.result.lower() for each in results if each.method == "arc"}
    if not said:
        return Chain.UNKNOWN
    return Chain.PASS if said == {"pass"} else Chain.BROKEN


def assessment(results: Iterable[authres.AuthenticationResult], chain: Chain) -> tuple[str, ...]:
    """What a seal says of a message: each result as it is written; empty: there is nothing to say."""
    texts = [str(each) for each in results if each.method != "arc"]
    fit = [text for text in texts if len(text) <= RESULT_CHARACTERS_LIMIT]
    return (*fit[:RESULTS_LIMIT], *(("arc=pass",) if chain is Chain.PASS else ()))


def covered_names(fields: Sequence[str], *, is_copy: bool) -> tuple[str, ...]:
    """The names that a seal covers of the `fields` of a message, in lower case, each as often as it is there.

    `is_copy`: it is a list's copy; else what another gateway makes copies of, with fields of a list of its own.
    """
    covered = (*COVERED_OF_AUTHOR, *COVERED_OF_LIST) if is_copy else COVERED_OF_AUTHOR
    return (*(name for name in covered for _ in range(fields.count(name))), FROZEN)
