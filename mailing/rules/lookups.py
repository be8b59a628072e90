"""Questions to a socketmap, and the answers. The words are those of Postfix's socketmap_table(5)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from mailing.rules.addresses import UndeliverableError, mailbox_of, quoted
from shadowtree.errors import ShadowtreeError, Unavailable
from shadowtree.results import Check, Resolution
from shadowtree.vocabulary import GroupId, MemberId

REPLY_BYTES_LIMIT = 100_000
"""Most bytes that Postfix reads of a reply, under any configuration."""
NAMES_SHOWN = 10
TEXT_LIMIT = 1_000
"""Most characters of an explanation."""


class MapName(StrEnum):
    """Maps that can be asked."""

    MEMBERS = "members"
    LISTS = "lists"
    OWNERS = "owners"
    WHY = "why"


class Status(StrEnum):
    """Result of a lookup. Only `NOTFOUND` says that there is nothing. `TEMP` and `PERM` leave it open."""

    OK = "OK"
    NOTFOUND = "NOTFOUND"
    TEMP = "TEMP"
    PERM = "PERM"


@dataclass(frozen=True, slots=True)
class LookupReply:
    """Answer to a lookup: the value, or an explanation."""

    status: Status
    text: str = ""

    def encode(self) -> bytes:
        """Return the content of the netstring."""
        text = self.text if self.status is Status.OK else self.text[:TEXT_LIMIT]
        return f"{self.status} {text}".encode()


NOT_FOUND = LookupReply(Status.NOTFOUND)


def temporary(why: str) -> LookupReply:
    """Return the answer to a question that cannot be answered now."""
    return LookupReply(Status.TEMP, " ".join(why.split()))


@dataclass(frozen=True, slots=True)
class Lookup:
    """One question."""

    map: MapName
    key: str


def read_lookup(content: bytes) -> Lookup | LookupReply:
    """Return the question in a netstring, or the answer to a malformed question."""
    try:
        name, space, key = content.decode().partition(" ")
    except UnicodeDecodeError:
        return LookupReply(Status.PERM, "the request is not UTF-8")
    if not space or not key:
        return LookupReply(Status.PERM, "a request is the name of a map, a space and a key")
    try:
        return Lookup(MapName(name), key)
    except ValueError:
        return LookupReply(Status.PERM, f"there is no map {name[:80]!r}; the maps are {', '.join(MapName)}")


def split_why(key: str) -> tuple[str, str] | None:
    """Split a key into the address of a list and that of a person, at the first space behind an '@'.

    None if it has no such form.
    """
    at_sign = key.find("@")
    space = key.find(" ", at_sign) if at_sign >= 0 else -1
    return None if space < 0 or not key[space + 1 :] else (key[:space], key[space + 1 :])


def people_reply(what: GroupId, found: Resolution) -> LookupReply:
    """Return all people of a resolution as addresses with commas between. `what`: name of the group in explanations."""
    if (missing := missing_of(what, found)) is not None:
        return temporary(missing)
    addresses = ",".join(deliverable(found.processes))
    if not addresses:
        return NOT_FOUND
    reply = LookupReply(Status.OK, addresses)
    if len(reply.encode()) > REPLY_BYTES_LIMIT:
        return temporary(
            f"{len(found.processes):,} members of {what} do not fit a lookup, which ends at {REPLY_BYTES_LIMIT:,} "
            "bytes: write to the groups in it, or have the gateway distribute messages (lmtp_listen), without a limit"
        )
    return reply


def missing_of(what: GroupId, found: Resolution) -> str | None:
    """Return the reason why an answer is incomplete. None if it is complete."""
    if found.unreachable:
        return f"out of reach: {shown(found.unreachable)}"
    if found.in_transition:
        return f"an update of {what}, or of a group in it, is under way"
    if found.hidden:
        return f"members are hidden from this gateway: those of {shown([each.group for each in found.hidden])}"
    return None


def deliverable(people: Iterable[MemberId]) -> list[str]:
    """Return the addresses of the people to whom mail can be sent, one for each mailbox."""
    found: dict[str, str] = {}
    for person in people:
        try:
            found.setdefault(mailbox_of(person), quoted(person))
        except UndeliverableError:
            continue
    return list(found.values())


def why_reply(check: Check, left_out: Sequence[GroupId]) -> LookupReply:
    """Return a person's way into a list. `left_out`: exceptions of the list that the person is in."""
    if not check.is_member:
        return NOT_FOUND
    way = " -> ".join(check.pathname)
    return LookupReply(Status.OK, f"{way}; gets no mail of it, being in {shown(left_out)}" if left_out else way)


def failure_reply(error: ShadowtreeError) -> LookupReply:
    """Return the answer to a question that failed with an error."""
    return temporary(why_not(error))


def why_not(error: ShadowtreeError) -> str:
    """Return the reason of an error. Groups that are out of reach replace its message."""
    if isinstance(error, Unavailable) and error.unreachable:
        return f"out of reach: {shown(error.unreachable)}"
    return error.message


def shown(names: Sequence[str]) -> str:
    """Return names in one line: the first names, and the number of the rest."""
    rest = len(names) - NAMES_SHOWN
    return ", ".join(names[:NAMES_SHOWN]) + (f" and {rest:,} more" if rest > 0 else "")
