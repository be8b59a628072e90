"""Principals: the text form of callers, and the special principals.

| principal | caller |
|---|---|
| `ann@b.example` | a caller that its own server identified |
| `operator@local` | an operator, by a way that only operators have |
| `guest@b.example` | a caller that another server did not identify, or may not identify |
| `anonymous` | a caller without a credential |
"""

from __future__ import annotations

from typing import Final

from namegraph.model.names import InvalidNameError, NodeId, ServerId, Subnet, parse_name, subnet_of
from namegraph.model.policies import Principal

ANONYMOUS: Final = Principal("anonymous")
OPERATOR: Final = Principal("operator@local")
LOCAL_SUBNET: Final = Subnet("local")
"""Subnet of principals that exist on one machine. No server owns it."""

_GUEST: Final = "guest@"


class InvalidPrincipalError(ValueError):
    """An invalid principal. The message says what is wrong."""


def parse_principal(text: str) -> Principal:
    """Return the canonical form of a principal, special ones included. Raises `InvalidPrincipalError`."""
    if text == ANONYMOUS:
        return ANONYMOUS
    try:
        return Principal(parse_name(text))
    except InvalidNameError as error:
        raise InvalidPrincipalError(f"{text!r:.80} is no principal: {error.why}; write LOCAL@SUBNET") from None


def is_principal(text: str) -> bool:
    """Return True if this is a principal in its canonical form."""
    try:
        return parse_principal(text) == text
    except InvalidPrincipalError:
        return False


def guest_of(server: ServerId) -> Principal:
    """Return the principal of callers for whom a server may not speak."""
    return Principal(f"{_GUEST}{server}")


def is_guest(principal: Principal) -> bool:
    """Return True for the guest of any server."""
    return principal.startswith(_GUEST)


def is_identified(principal: Principal) -> bool:
    """Return True if a server identified the caller."""
    return principal != ANONYMOUS and not is_guest(principal)


def name_of(principal: Principal) -> NodeId | None:
    """Return the name under which groups may have a principal as a member. None for a special principal."""
    if not is_identified(principal) or principal == OPERATOR:
        return None
    return NodeId(principal)


def subnet_of_principal(principal: Principal) -> Subnet | None:
    """Return the subnet of a principal. None for a special principal."""
    name = name_of(principal)
    return None if name is None else subnet_of(name)
