"""The sender of an envelope: the person behind the forms that mail servers give it.

    prvs=4211fe3a7d=bob@people.example     BATV: a tag of the person's own server        bob@people.example
    btv1==0123456789a==bob@people.example  the same, of another maker                    bob@people.example
    SRS0=HHH=TT=people.example=bob@fwd.example   a forwarder, which names whom it forwards   bob@people.example

An envelope proves at most its own domain (SPF). A tag leaves the domain unchanged, so the untagged address is no easier
to forge. A forwarder names another domain. Its word counts only if the author is checked later, by From.
"""

from __future__ import annotations

import re

from mailing.rules.addresses import unquoted

LAYERS_LIMIT = 4
"""Most tags and forwarders that are removed from one address."""

_TAG = r"[0-9A-Fa-f]{8,12}"
_TAGGED = (
    re.compile(rf"(?:ms)?prvs1?={_TAG}=(?P<user>.+)", re.I | re.S),
    re.compile(rf"prvs=(?P<user>.+)[=/]{_TAG}", re.I | re.S),
    re.compile(r"(?:ms)?prvs1?=[0-9A-Za-z]{4,20}=(?P<user>.+)", re.I | re.S),
    re.compile(r"btv1==[0-9A-Za-z]{4,20}==(?P<user>.+)", re.I | re.S),
)
_FORWARDED = (
    re.compile(r"SRS0[=+-][^=]{1,64}=[^=]{1,8}=(?P<domain>[^=@]+)=(?P<user>.+)", re.I | re.S),
    re.compile(
        r"SRS1[=+-][^=]{1,64}=[^=@]+=[=+-][^=]{1,64}=[^=]{1,8}=(?P<domain>[^=@]+)=(?P<user>.+)",
        re.I | re.S,
    ),
    # Exchange Online puts the mailbox that forwards in front.
    re.compile(r".+\+SRS0?=[^=]{1,64}=[^=]{1,8}=(?P<domain>[^=@]+)=(?P<user>.+)", re.I | re.S),
)


def untagged(sender: str) -> str:
    """Return the address without the tags of its own mail server (BATV)."""
    return _unwrapped(sender, with_forwarders=False)


def forwarded_for(sender: str) -> str:
    """Return the address for which forwarders claim to pass a message on (SRS), or else the untagged address.

    Anybody can be such a forwarder. The address counts only if another proof confirms the author.
    """
    return _unwrapped(sender, with_forwarders=True)


def _unwrapped(sender: str, *, with_forwarders: bool) -> str:
    address = unquoted(sender)
    for _ in range(LAYERS_LIMIT):
        local, _, domain = address.rpartition("@")
        tagged = next((found for form in _TAGGED if (found := form.fullmatch(local))), None)
        if tagged is not None:
            address = f"{tagged['user']}@{domain}"
            continue
        forwarded = next((found for form in _FORWARDED if (found := form.fullmatch(local))), None)
        if forwarded is None or not with_forwarders:
            break
        address = f"{forwarded['user']}@{forwarded['domain']}"
    return address
