"""Mail addresses: conversion from and to names of the name service, and equality of mailboxes.

A name may hold characters with a meaning in mail: commas, spaces, parentheses. This module alone quotes them, by RFC
5321. A name that cannot be sent to is refused: it must never become another address, or a second address.
"""

from __future__ import annotations

import re
from functools import lru_cache

import idna

from namegraph import InvalidNameError, NodeId, fold_name, parse_name
from shadowtree.vocabulary import MemberId

LOCAL_PART_OCTETS_LIMIT = 64
"""Limit of RFC 5321, 4.5.3.1.1. The quotes count."""
ADDRESS_OCTETS_LIMIT = 254
"""Limit of RFC 5321, 4.5.3.1.3: a path of 256 octets less its brackets."""

DOMAINS_REMEMBERED = 4_096
"""Domains whose check is remembered. Large lists have many people of few domains."""

_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
_DOT_STRING = re.compile(rf"{_ATOM}(?:\.{_ATOM})*")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})+")
_THIS_HOST = re.compile(r"(?:.*\.)?localhost(?:\.localdomain)?", re.I)
_INTERNATIONAL_ATOM = r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\U0010ffff-]+"
_INTERNATIONAL_DOT_STRING = re.compile(rf"{_INTERNATIONAL_ATOM}(?:\.{_INTERNATIONAL_ATOM})*")
_NOT_IN_QUOTES = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff<>@]")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"@([^@"]+)', re.S)


class UndeliverableError(ValueError):
    """A name that no mail can be sent to. The message gives the reason."""


def quoted(name: MemberId, *, with_smtputf8: bool = False) -> str:
    """Return the address of a name as SMTP writes it, or raise `UndeliverableError`.

    `with_smtputf8`: True if the address may hold more than ASCII (RFC 6531).
    """
    local, at_sign, domain = name.rpartition("@")
    if not at_sign or not local:
        raise UndeliverableError("it is not LOCAL@DOMAIN")
    if not is_mail_domain(domain):
        raise UndeliverableError(f"{domain!r} is no domain that mail is sent to")
    if not local.isascii() and not with_smtputf8:
        raise UndeliverableError("it is not ASCII, and what a lookup answers is sent without SMTPUTF8")
    if local.startswith("-"):
        # Postfix bounces such an address, quoted or not.
        raise UndeliverableError("it begins with '-', where programs expect options")
    if _NOT_IN_QUOTES.search(local):
        raise UndeliverableError("it holds a character that an address cannot hold")
    if not (_DOT_STRING if local.isascii() else _INTERNATIONAL_DOT_STRING).fullmatch(local):
        escaped = local.replace("\\", "\\\\").replace('"', '\\"')
        local = f'"{escaped}"'
    octets = len(local.encode())
    if octets > LOCAL_PART_OCTETS_LIMIT:
        raise UndeliverableError(f"more than {LOCAL_PART_OCTETS_LIMIT} octets stand before the '@'")
    if octets + 1 + len(domain) > ADDRESS_OCTETS_LIMIT:
        raise UndeliverableError(f"it has more than {ADDRESS_OCTETS_LIMIT} octets")
    return f"{local}@{domain}"


@lru_cache(maxsize=DOMAINS_REMEMBERED)
def is_mail_domain(domain: str) -> bool:
    """Return True if mail can be sent to a domain.

    A mail server completes a single label with another domain, and delivers mail for localhost itself.
    """
    return _DOMAIN.fullmatch(domain) is not None and _THIS_HOST.fullmatch(domain) is None


def is_deliverable(name: MemberId, *, with_smtputf8: bool = False) -> bool:
    """Return True if mail can be sent to a name."""
    try:
        quoted(name, with_smtputf8=with_smtputf8)
    except UndeliverableError:
        return False
    return True


def mailbox_of(address: str) -> str:
    """Return the key of a mailbox: the same text for all addresses and names of one person.

    The key ignores letter case, needless quotes, a dot behind the domain, and the form of an international domain
    (letters or A-labels). A sub-address (``ann+lists@``) is a separate person. An address that is no name is compared
    as text in lower case.
    """
    if address.isascii() and '"' not in address and address[-1:] != ".":
        return address.lower()
    name = name_of(address)
    return address.lower() if name is None else fold_name(NodeId(name))


def is_same_person(one: str, other: str) -> bool:
    """Return True if two addresses or names are one mailbox."""
    return bool(one and other) and mailbox_of(one) == mailbox_of(other)


def name_of(address: str) -> MemberId | None:
    """Return the name of an address in the name service, with its case kept. None if no name can be that address."""
    local, _, domain = unquoted(address).rpartition("@")
    try:
        return parse_name(f"{local}@{ascii_domain(domain)}")
    except InvalidNameError:
        return None


def ascii_domain(domain: str) -> str:
    """Return a domain in lower case and in its DNS form (A-labels). An invalid domain comes back as it is."""
    domain = domain.removesuffix(".")
    if domain.isascii():
        return domain.lower()
    try:
        return idna.encode(domain, uts46=True).decode("ascii")
    except idna.IDNAError:
        return domain


def unquoted(address: str) -> str:
    """Return the name that an address stands for: the address without the quotes of RFC 5321."""
    found = _QUOTED.fullmatch(address)
    if found is None:
        return address
    local = re.sub(r"\\(.)", r"\1", found[1], flags=re.S)
    return f"{local}@{found[2]}"
