"""Return path of a message, ``LIST-bounces-TOKEN+PERSON``, with a token that is known to this gateway alone.

PERSON is ``user=domain`` if the mail server writes it (XVERP), or else ``CHUNK.INDEX``.
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
"""Substitute for a list's name that is not ASCII. The token identifies the message."""
_BOUNCES = re.compile(r".+-bounces-([a-z2-7]{16})\+(.+)", re.S)
_INDEXED = re.compile(r"(\d{1,9})\.(\d{1,9})")


@dataclass(frozen=True, slots=True)
class BouncePlace:
    """Token and person in a return path, genuine or forged."""

    token: str
    person: str

    def find_in(self, people: People) -> tuple[int, int] | None:
        """Return the chunk and the index of the person. None if the message did not go to the person."""
        indexed = _INDEXED.fullmatch(self.person)
        if indexed is not None:
            at = int(indexed[1]), int(indexed[2])
            return at if people.has(*at) else None
        user, _, domain = self.person.rpartition("=")
        return people.find(f"{user}@{domain}")


def token_of(secret: bytes, message: str) -> str:
    """Return the token that names a message to this gateway alone: 80 bits."""
    mac = hmac.new(secret, f"bounces {message}".encode(), hashlib.sha256).digest()[:10]
    return base64.b32encode(mac).decode("ascii").lower()


def return_path(address: str, token: str, person: str = "") -> str:
    """Return the sender of a copy, for the quoted address of its list.

    Without `person` the mail server adds the person.

    It is ASCII for any name of a list: otherwise a copy would reach only people whose servers know SMTPUTF8.
    """
    local, _, domain = address.rpartition("@")
    if not local.isascii():
        local = NAMELESS
    bounces = f"-bounces-{token}" + (f"+{person}" if person else "")
    return f'{local[:-1]}{bounces}"@{domain}' if local.endswith('"') else f"{local}{bounces}@{domain}"


def fits_verp(address: str, token: str, person: MemberId) -> bool:
    """Return True if the return path fits a local part after the server has added the person."""
    local, _, domain = return_path(address, token).rpartition("@")
    return domain != "" and len(local) + 1 + len(person.encode()) <= LOCAL_PART_OCTETS_LIMIT and '"' not in local


def bounce_place(name: str) -> BouncePlace | None:
    """Return the return path in the name of an unquoted address. None if it is none."""
    found = _BOUNCES.fullmatch(name.rpartition("@")[0])
    return None if found is None else BouncePlace(found[1], found[2])
