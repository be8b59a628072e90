"""Addresses of mail, from and to names of the name service.

A name may hold what has a meaning in mail: commas, spaces, parentheses. It is quoted by RFC 5321 here, and nowhere
else. What cannot be sent to is refused: it must never become another address, or a second one.
"""

from __future__ import annotations

import re

from shadowtree.vocabulary import MemberId

LOCAL_PART_OCTETS_LIMIT = 64
"""RFC 5321, 4.5.3.1.1; the quotes count."""
ADDRESS_OCTETS_LIMIT = 254
"""RFC 5321, 4.5.3.1.3: a path of 256 octets less its brackets."""

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
    """No mail can be sent to a name; the message says why."""


def quoted(name: MemberId, *, with_smtputf8: bool = False) -> str:
    """The address of a name as it is written in SMTP; raises `UndeliverableError`.

    `with_smtputf8`: it may hold more than ASCII (RFC 6531).
    """
    local, at_sign, domain = name.rpartition("@")
    if not at_sign or not local:
        raise UndeliverableError("it is not LOCAL@DOMAIN")
    if not is_mail_domain(domain):
        raise UndeliverableError(f"{domain!r} is no domain that mail is sent to")
    if not local.isascii() and not with_smtputf8:
        raise UndeliverableError("it is not ASCII, and what a lookup answers is sent without SMTPUTF8")
    if local.startswith("-"):
        # Quoted or not, Postfix bounces it.
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


def is_mail_domain(domain: str) -> bool:
    """Return False for a domain to which no mail is sent: a mail server adds to a single label, and keeps localhost."""
    return _DOMAIN.fullmatch(domain) is not None and _THIS_HOST.fullmatch(domain) is None


def is_deliverable(name: MemberId, *, with_smtputf8: bool = False) -> bool:
    """Whether mail can be sent to a name."""
    try:
        quoted(name, with_smtputf8=with_smtputf8)
    except UndeliverableError:
        return False
    return True


def mailbox_of(name: MemberId) -> str:
    """What is the same for names that differ in case alone: they are taken for one mailbox, which gets one copy."""
    return name.lower()


def unquoted(address: str) -> str:
    """The name that an address stands for: without the quotes of RFC 5321, where it has some."""
    found = _QUOTED.fullmatch(address)
    if found is None:
        return address
    local = re.sub(r"\\(.)", r"\1", found[1], flags=re.S)
    return f"{local}@{found[2]}"
