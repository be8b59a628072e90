"""The caller of a call: found once, when the call begins, and held for the task that carries the call out.

    listener, credential, mark of a peer --identify--> Caller --ContextVar--> handlers, updates, forwarded calls

Source: docs/operators.md, "Security".
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final
from urllib.parse import urlencode

from namegraph import Principal, ServerId
from nameserver.config.addresses import host_and_port_of, is_loopback
from nameserver.wire.metadata import CALLER

CREDENTIAL_LIMIT: Final = 100
"""Characters of the name of a credential, which logs repeat."""


MARKS_KEPT: Final = 1_000
"""Marks that are kept by caller. A caller whose calls are forwarded calls often."""


class How(Enum):
    """Proof by which a caller is known."""

    LOOPBACK = "loopback"
    """Plaintext connection to an unprotected server. It proves nothing."""
    NONE = "none"
    """Encrypted connection without a credential."""
    LOCAL = "local"
    """Local socket, which operators of this machine alone can open."""
    KEY = "key"
    """API key."""
    TOKEN = "token"  # noqa: S105
    """Token of an issuer."""
    CERTIFICATE = "certificate"
    """Certificate of a user."""
    PEER = "peer"
    """Other server, by its certificate, or by its word where connections prove nothing."""


@dataclass(frozen=True, slots=True)
class Caller:
    """One caller, as far as it is proven."""

    principal: Principal
    how: How
    peer: str = ""
    """Other end of the connection, as gRPC names it."""
    credential: str = ""
    """Name of the credential, never its secret: the id of a key, a digest of a token, a fingerprint. Empty for none."""
    until: float | None = None
    """Time of day at which the credential ends, in seconds since 1970. None if it does not end."""
    via: ServerId | None = None
    """Server that forwarded the call. None if the caller called this server."""
    told_address: str = ""
    """Address of the client, as the forwarding server gives it."""
    privileges: frozenset[str] | None = None
    """Privileges that the credential is good for. None for all that the principal has."""

    @property
    def is_forwarded(self) -> bool:
        """True if another server forwarded the call."""
        return self.via is not None

    @property
    def has_credential(self) -> bool:
        """True if the caller sent a credential of its own, whose end ends its streams."""
        return self.how in (How.KEY, How.TOKEN, How.CERTIFICATE)

    @property
    def is_operator_here(self) -> bool:
        """True if the caller opened the local socket, or is on the machine of a server without protection."""
        if self.how is How.LOOPBACK:
            return is_loopback(self.peer)
        return self.how is How.LOCAL

    def may(self, privilege: str) -> bool:
        """Return True if the credential is good for a privilege, as far as the principal has it."""
        return self.privileges is None or privilege in self.privileges

    @property
    def address(self) -> str:
        """Address HOST:PORT of the client, for display. Empty if it is not known."""
        if self.how is How.LOCAL:
            return "local socket"
        return self.told_address if self.is_forwarded else printable(host_and_port_of(self.peer))

    def mark(self) -> str:
        """Return the mark with which this server forwards a call of this caller (`marks.py`)."""
        return _mark(self)


@lru_cache(maxsize=MARKS_KEPT)
def _mark(caller: Caller) -> str:
    fields = {"principal": caller.principal, "address": caller.address, "how": caller.how.value}
    if caller.privileges is not None:
        fields["privileges"] = ",".join(sorted(caller.privileges))
    return urlencode(fields)


def current_caller() -> Caller:
    """Return the caller of the call that this task carries out. It is an error to ask outside of a call."""
    caller = CALLER.get()
    assert isinstance(caller, Caller), "this task carries out no call that passed `identify`"
    return caller


def printable(text: str) -> str:
    """Return a text of others for logs and answers: without control characters, and not too long."""
    return "".join(character if character.isprintable() else "?" for character in text)[:CREDENTIAL_LIMIT]
