"""Check that DNS has the public key by which mail servers verify the seals of the gateway."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

import dkim
import dns.exception
from dkim.crypto import UnparsableKeyError, parse_public_key
from dkim.dnsplug import get_txt
from dkim.util import InvalidTagValueList, parse_tag_value

from mailing.shell.arc_seals import Ask

SECONDS = 5.0
"""Time for DNS to answer, in seconds."""
PUBLIC = ("modulus", "publicExponent")


def why_not_published(
    domain: str, selector: str, numbers: Mapping[str, int], *, seconds: float, ask: Ask | None = None
) -> str | None:
    """Return the reason why no server could verify the seals of a key, or None.

    The call blocks while DNS is asked, for `seconds` at most. `numbers`: numbers of the private key, under their names
    in RFC 8017.
    """
    name = f"{selector}._domainkey.{domain}"
    try:
        record = (ask or get_txt)(f"{name}.".encode("ascii"), timeout=seconds)
    except (dkim.DnsTimeoutError, dns.exception.DNSException) as error:
        return f"whether DNS has the key at {name} is not known: {' '.join(str(error).split()) or 'it is silent'}"
    if record is None:
        return f"DNS has no key at {name}: whoever gets a message takes its seal for wrong"
    try:
        tags = parse_tag_value(record)
        key = base64.b64decode(b"".join(tags[b"p"].split()), validate=True)
        published = parse_public_key(key) if key else None
    except (InvalidTagValueList, UnparsableKeyError, binascii.Error, ArithmeticError, LookupError, TypeError):
        return f"what DNS has at {name} is no RSA key"
    if published is None:
        return f"the key at {name} is withdrawn: its p= is empty"
    if any(published[part] != numbers[part] for part in PUBLIC):
        return f"the key that DNS has at {name} belongs to another private key"
    return None
