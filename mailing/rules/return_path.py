"""Where bounces of a message come back to: ``LIST-bounces-TOKEN+PERSON``, the token known to this gateway alone.

PERSON is ``user=domain`` where the mail server writes it (XVERP), or else ``CHUNK.INDEX``.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from dataclasses import dataclass

from mailing.rules.addresses import LOCAL_PART_OCTETS_LIMIT
from mailing.rules.spooled import People
from shadowtree.vocabulary import MemberId

XVERP_DELIMITERS = "+="
NAMELESS = "list"
"""The stand-in for a list's name that is not ASCII; the token says which message it is."""
_BOUNCES = re.compile(r".+-bounces-([a-z2-7]{16})\+(.+)", re.S)
_INDEXED = re.compile(r"(\d{1,9})\.(\d{1,9})")


@dataclass(frozen=True, slots=True)
class BouncePlace:
    """What a return path names, whether it is one of ours or not."""

    token: str
    person: str

    def find_in(self, people: People) -> tuple[int, int] | None:
        """The chunk and the index of the person; None: it is nobody whom the message went to."""
        indexed = _INDEXED.fullmatch(self.person)
        if indexed is not None:
            at = int(indexed[1]), int(indexed[2])
            return at if people.has(*at) else None
        user, _, domain = self.person.rpartition("=")
        return people.find(f"{user}@{domain}")


def token_of(secret: bytes, message: str) -> str:
    """80 bits that name a message to this gateway, and to nobody else."""
    mac = hmac.new(secret, f"bounces {message}".encode(), hashlib.sha256).digest()[:10]
    return base64.b32encode(mac).decode("ascii").lower()


def return_path(address: str, token: str, person: str = "") -> str:
    """The sender of a copy, of the quoted address of its list; without a person: for a server that adds it.

    It is ASCII, whatever the list is called: else a copy would reach only whose servers know SMTPUTF8.
    """
    local, _, domain = address.rpartition("@")
    if not local.isascii():
        local = NAMELESS
    bounces = f"-bounces-{token}" + (f"+{person}" if person else "")
    return f'{local[:-1]}{bounces}"@{domain}' if local.endswith('"') else f"{local}{bounces}@{domain}"


def fits_verp(address: str, token: str, person: MemberId) -> bool:
    """Whether the return path stays within what a local part may have, once the server adds the person."""
    local, _, domain = return_path(address, token).rpartition("@")
    return domain != "" and len(local) + 1 + len(person.encode()) <= LOCAL_PART_OCTETS_LIMIT and '"' not in local


def bounce_place(name: str) -> BouncePlace | None:
    """What the name of an unquoted address stands for, as a return path; None: it is none."""
    found = _BOUNCES.fullmatch(name.rpartition("@")[0])
    return None if found is None else BouncePlace(found[1], found[2])
