"""Proofs of the other end of a session: may this hello come over this connection?

    plain text          the hello claims no subnet for which an authority is pinned here
    mutual TLS, dialled there    the certificate of the call is that of the hello's server, and names its subnets
    mutual TLS, dialled here     the server at the address has shown such a certificate in a handshake of its own

A proof is asked before anything is told, and again while the session lasts: certificates expire, and pins are removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from namegraph import MUTUAL_TLS_VERSION, OLDEST_PROTOCOL_VERSION, PLAIN_TEXT_VERSION, PROTOCOL_VERSION, Subnet
from nameserver.session.frames import Goodbye, GoodbyeReason, Hello
from nameserver.transport.peer_link import Link
from nameserver.transport.peer_streams import StreamBrokenError
from nameserver.trust.identities import Identity, NotAuthentic, PeerIdentity
from nameserver.trust.peer_trust import Credential, PeerTrust
from nameserver.trust.seen_leaf import NoAnswer, Unbelieved

SEEN_AGAIN_SECONDS = 60.0
"""Time after which a server that was dialled shows its certificate again: a revoked one counts so much longer."""


NOT_SEEN = "the server has not shown its certificate yet"


class SessionProof(Protocol):
    """Proof of the other end of one session."""

    @property
    def oldest_version(self) -> int:
        """Oldest version of the protocol for this connection."""

    @property
    def newest_version(self) -> int:
        """Newest version of the protocol for this connection."""

    async def gather(self, hello: Hello) -> None:
        """Gather what is to be known before the hello is judged."""

    def fault(self, hello: Hello) -> str | None:
        """Return the reason for which the hello is not believed. None if it is."""


def judge_proof(proof: SessionProof, hello: Hello) -> Goodbye | None:
    """Return the goodbye for a hello that is not believed. None if it is believed."""
    agreed = hello.agreed_version
    if agreed is None:
        # The rest of a hello of another version cannot be judged. It is refused for its version.
        return None
    if not proof.oldest_version <= agreed <= proof.newest_version:
        how = "mutual TLS" if proof.oldest_version == MUTUAL_TLS_VERSION else "plain text"
        why = f"version {agreed} of the protocol is not spoken in {how}"
        return Goodbye(GoodbyeReason.OTHER_VERSION, why)
    why_not = proof.fault(hello)
    return None if why_not is None else Goodbye(GoodbyeReason.NOT_AUTHENTIC, why_not)


class PlainProof:
    """Proof of a session in plain text: there is none."""

    oldest_version = OLDEST_PROTOCOL_VERSION
    newest_version = PLAIN_TEXT_VERSION

    def __init__(self, trust: PeerTrust, *, is_dialled_here: bool) -> None:
        self._trust = trust
        self._is_dialled_here = is_dialled_here

    async def gather(self, hello: Hello) -> None:
        """Gather nothing."""

    def fault(self, hello: Hello) -> str | None:
        """Return a reason as `SessionProof` defines."""
        for subnet in (Subnet(hello.server), *hello.subnets):
            if self._trust.pin_of(subnet) is not None:
                return (
                    f"{hello.server} comes in plain text, and must prove by a certificate that it owns {subnet}: its "
                    "authority is pinned here; dial the address of `listen_mutual`"
                )
        if not self._is_dialled_here and not self._trust.takes_plain_text:
            return f"{hello.server} shows no certificate: dial the address of `listen_mutual`, with a certificate"
        return None


class AcceptedProof:
    """Proof of a session that the other server dialled over mutual TLS."""

    oldest_version = MUTUAL_TLS_VERSION
    newest_version = PROTOCOL_VERSION

    def __init__(self, trust: PeerTrust, auth_context: Mapping[str, Iterable[bytes]]) -> None:
        """`auth_context`: that of the call, from gRPC."""
        self._trust = trust
        self._auth_context = {key: tuple(values) for key, values in auth_context.items()}

    @property
    def identity(self) -> Identity | NotAuthentic | None:
        """Identity of the caller, judged a minute ago at most."""
        return self._trust.identify(self._auth_context)

    async def gather(self, hello: Hello) -> None:
        """Gather nothing: the certificate has come with the call."""

    def fault(self, hello: Hello) -> str | None:
        """Return a reason as `SessionProof` defines."""
        identity = self.identity
        match identity:
            case PeerIdentity():
                return _claim_fault(self._trust, hello, identity.name, identity.subnets)
            case NotAuthentic():
                return identity.why
            case None:
                return f"{hello.server} shows no certificate"
            case _:
                return (
                    f"the certificate is that of the user {identity.principal}, not that of the server {hello.server}"
                )


class DialledProof:
    """Proof of a session that this server dialled over mutual TLS.

    gRPC has checked that the server owns the subnet for which it was dialled. The certificate tells the rest.
    """

    oldest_version = MUTUAL_TLS_VERSION
    newest_version = PROTOCOL_VERSION

    def __init__(self, trust: PeerTrust, address: str, link: Link, clock: Callable[[], float] = time.monotonic) -> None:
        """`address`: where the channel leads: that of the server, or of the socket of a tunnel to it."""
        self._trust = trust
        self._address, self._subnets = address, link.subnets
        self.credential = link.credential
        """Facts on which the channel of the session depends."""
        self._seen_with: Credential | None = None
        self._clock = clock
        self._why_not: str | None = NOT_SEEN
        self._seen_at = float("-inf")

    @property
    def is_due(self) -> bool:
        """True if the server is to show its certificate again."""
        now_pinned, seen_with = self._trust.credential_for(self._subnets), self._seen_with
        is_other = now_pinned is not None and seen_with is not None and now_pinned.bundle != seen_with.bundle
        return is_other or self._clock() - self._seen_at >= SEEN_AGAIN_SECONDS

    async def gather(self, hello: Hello) -> None:
        """Let the server show its certificate. A server that is out of reach later is believed as before.

        Raises `StreamBrokenError` if it is out of reach the first time.
        """
        self._seen_at, self._seen_with = self._clock(), self._trust.credential_for(self._subnets)
        seen = await self._trust.see(self._address, self._subnets)
        match seen:
            case PeerIdentity():
                self._why_not = _claim_fault(self._trust, hello, seen.name, seen.subnets)
            case NotAuthentic():
                self._why_not = seen.why
            case Unbelieved():
                self._why_not = seen.why
            case NoAnswer():
                if self._why_not == NOT_SEEN:
                    raise StreamBrokenError(f"the server at {self._address} did not show its certificate: {seen.why}")

    def fault(self, hello: Hello) -> str | None:
        """Return a reason as `SessionProof` defines."""
        del hello
        if self._trust.credential_for(self._subnets) is None:
            return f"no authority is pinned any more for {', '.join(self._subnets[:3])}"
        return self._why_not


def _claim_fault(trust: PeerTrust, hello: Hello, name: str, subnets: tuple[Subnet, ...]) -> str | None:
    """Return the reason for which a proven server may not say this hello. None if it may."""
    if hello.server != name:
        return f"the certificate is that of the server {name}, not that of {hello.server}"
    missing = sorted(frozenset(hello.subnets).difference(subnets))
    if missing:
        return f"the certificate of {name} does not name {', '.join(missing[:3])}, which the server claims"
    own = trust.pin_of(Subnet(name))
    if own is None:
        return f"no authority is pinned for {name}"
    for subnet in hello.subnets:
        pinned = trust.pin_of(subnet)
        if pinned is not None and pinned != own:
            return f"another authority is pinned for {subnet} than for {name}, which claims it"
    return None
