"""Trust between servers: how this one proves itself, and which proofs of others it takes.

    channel to a peer    roots: the authorities of that peer alone; name: shadowtree.SUBNET; proof: own certificate
    port for clients     proof: own certificate; asks for none
    port for peers       proof: own certificate; demands one, of any authority that is pinned here
    call at that port    the authorities of the one organisation that the certificate names decide (`verdicts.py`)

The transport asks here for channels and identities, and knows nothing of files, keys and authorities. A server without
a certificate is *unprotected*: all its channels and ports are in plain text, and nobody is identified.

The pool of authorities at the port is no proof: gRPC takes the name of one organisation under the authority of another.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc

from namegraph import ServerId, Subnet
from nameserver.config.addresses import is_on_this_machine
from nameserver.config.trust_settings import ConfiguredPeer, TlsSettings
from nameserver.trust.bundles import Bundle
from nameserver.trust.clock_jumps import ClockJumps
from nameserver.trust.identities import Identity, NotAuthentic, PeerIdentity, UserIdentity
from nameserver.trust.issuing import make_authority, new_key
from nameserver.trust.judgement import duration, judge_seen_leaf, time_fault
from nameserver.trust.key_files import TrustFileError
from nameserver.trust.leaves import Leaf, host_of
from nameserver.trust.loading import TrustSettings, load_trust_files
from nameserver.trust.own_certificate import OwnCertificate
from nameserver.trust.pins import Pins
from nameserver.trust.seen_leaf import NoAnswer, SeenLeaf, Unbelieved, leaf_at
from nameserver.trust.verdicts import CertificateVerdicts

ChannelOptions = Sequence[tuple[str, Any]]

_NOT_PINNED = "not pinned"
"""Organisation of all servers for which no authority is pinned."""

_NOBODY = Subnet("nobody.invalid")
"""Name of an authority whose key is thrown away: gRPC demands one, also while no authority is pinned."""


LOOK_SECONDS = 10.0
"""Interval at which the files are looked at."""

WARNED_SECONDS = 24 * 3600.0
"""Interval of warnings of one certificate that expires."""


@dataclass(frozen=True, slots=True)
class _KeptSettings:
    """Settings of trust in force. The defaults are those of a server that proves nothing and demands no proof."""

    tls: TlsSettings | None = None
    peers: Mapping[Subnet, ConfiguredPeer] = field(default_factory=dict)
    subnets: tuple[Subnet, ...] = ()
    revoked: frozenset[str] = frozenset()
    insecure_listen_on_a_public_address: bool = True
    listen_mutual: str | None = None
    refuses_unknown: bool = True


@dataclass(frozen=True, slots=True)
class _AtPorts:
    """Proofs at the ports of this server."""

    for_clients: grpc.ServerCertificateConfiguration
    mutual: grpc.ServerCertificateConfiguration


@dataclass(frozen=True, slots=True)
class Credential:
    """Facts on which a channel depends. A channel is made anew when they change."""

    subnet: Subnet
    """Subnet under whose name the server is called."""
    bundle: Bundle
    """Authorities that may vouch for the server."""
    own: str
    """Fingerprint of the certificate of this server."""


class PeerTrust:
    """Trust of one server."""

    def __init__(
        self,
        settings: TrustSettings,
        *,
        say: Callable[[int, str, str], None] = lambda _level, _kind, _line: None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        """Read all files. Raises `TrustFileError`.

        `say`: writes a line for operators, with level and kind. `wall_clock`: returns seconds since 1970.
        """
        self._settings = settings
        self._name: ServerId | None = None
        self.changes = 0
        """Number of changes of the pins since the start."""
        self._say = say
        self._wall_clock = wall_clock
        self._files = load_trust_files(settings, name=None, at=self._now())
        self._pins = Pins(settings.subnets, self._files.of_users, self._files.of_peers)
        self._revoked = settings.revoked
        self._jumps = ClockJumps(clock=clock, wall_clock=wall_clock)
        self._seen_files = self._signature()
        self._unusable = ""
        """Last complaint about files that are of no use. Empty while all are good."""
        self._warned_at = float("-inf")
        self._clock = clock
        self._verdicts = CertificateVerdicts(
            self._bundle_for, revoked=lambda: self._revoked, clock=clock, wall_clock=wall_clock
        )
        self._nobody = Bundle((make_authority(_NOBODY, new_key(), at=self._now()),))
        self._at_ports: _AtPorts | None = None
        """Proofs at the ports. None for a server without a certificate."""
        self._renew_ports()

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._wall_clock(), UTC)

    def _bundle_for(self, leaf: Leaf) -> Bundle | None:
        return self._pins.for_leaf(leaf)

    # -- this server

    @property
    def own(self) -> OwnCertificate | None:
        """Certificate of this server. None if the server is unprotected."""
        return self._files.own

    @property
    def is_protected(self) -> bool:
        """True if this server has a certificate."""
        return self._files.own is not None

    def require_name(self, name: ServerId) -> None:
        """Raise `TrustFileError` if the own certificate is that of another server."""
        self._name = name
        self._files = load_trust_files(self._settings, name=name, at=self._now())

    def own_fault(self, *, is_needed: bool = True) -> str | None:
        """Return the reason for which nobody believes the own certificate now. None if it is good, or not needed."""
        own = self._files.own
        fault = None if own is None or not is_needed else time_fault(own.leaf, self._now())
        return None if fault is None else f"this server cannot prove itself: {fault.why}"

    def client_port(self) -> grpc.ServerCredentials:
        """Return the credentials of a port at which clients prove themselves by other means."""
        return grpc.dynamic_ssl_server_credentials(self._ports.for_clients, lambda: self._ports.for_clients, False)

    def mutual_port(self) -> grpc.ServerCredentials:
        """Return the credentials of a port at which peers and users prove themselves by certificates."""
        return grpc.dynamic_ssl_server_credentials(self._ports.mutual, lambda: self._ports.mutual, True)

    @property
    def _ports(self) -> _AtPorts:
        assert self._at_ports is not None
        return self._at_ports

    def _renew_ports(self) -> None:
        """Compose what the ports use from the next connection on. A thread of gRPC takes it, for each connection."""
        if self._files.own is None:
            return
        pair, pool = self._own_pair(), b"".join(bundle.pem for bundle in (*self._pins.all(), self._nobody))
        self._at_ports = _AtPorts(
            grpc.ssl_server_certificate_configuration([pair]),
            grpc.ssl_server_certificate_configuration([pair], root_certificates=pool),
        )

    def _own_pair(self) -> tuple[bytes, bytes]:
        own = self._files.own
        assert own is not None
        return own.pair.key_pem, own.pair.chain_pem

    # -- changes while the server runs

    async def follow_files(self, changed: Callable[[], None]) -> None:
        """Look at the files again and again, and take what is good. `changed` is called with each change."""
        while True:
            self.warn_of_expiry()
            await asyncio.sleep(LOOK_SECONDS)
            signature = await asyncio.to_thread(self._signature)
            if signature == self._seen_files and not self._unusable:
                continue
            if self.take_files():
                changed()
            self._seen_files = signature

    def follow(self, settings: TrustSettings) -> None:
        """Take settings that were read again: peers and revoked certificates. Files of no use change nothing."""
        kept = self._settings
        self._settings = _KeptSettings(
            kept.tls,
            settings.peers,
            kept.subnets,
            settings.revoked,
            kept.insecure_listen_on_a_public_address,
            kept.listen_mutual,
            kept.refuses_unknown,
        )
        if not self.take_files():
            self._settings = kept

    def take_files(self) -> bool:
        """Read all files again. Return True if all are good, and hold from now on. The last good ones hold if not."""
        before = self._files
        try:
            self._files = load_trust_files(self._settings, name=self._name, at=self._now())
        except TrustFileError as error:
            if str(error) != self._unusable:
                line = f"files of trust are of no use, and what they held before goes on: {error}"
                self._say(logging.WARNING, "trust_files_refused", line)
            self._unusable = str(error)
            return False
        self._unusable = ""
        self._revoked = self._settings.revoked
        self._pins.replace(self._files.of_users, self._files.of_peers)
        self.pins_changed()
        own = self._files.own
        if own is not None and before.own is not None and own.leaf.fingerprint != before.own.leaf.fingerprint:
            until = f"valid until {own.leaf.expires:%Y-%m-%dT%H:%M:%SZ}"
            self._warned_at = float("-inf")
            self._say(logging.INFO, "certificate_taken", f"another certificate of this server is in force, {until}")
        return True

    def warn_of_expiry(self) -> None:
        """Warn operators, once a day, of an own certificate in the last third of its life."""
        own = self._files.own
        if own is None or self._clock() - self._warned_at < WARNED_SECONDS:
            return
        left, life = own.leaf.expires - self._now(), own.leaf.expires - own.leaf.begins
        if left > life / 3:
            return
        self._warned_at = self._clock()
        file = self._settings.tls.certificate if self._settings.tls is not None else ""
        renew = f"renew it, by `shadowtree certs renew {file}`"
        if left < timedelta(0):
            line = f"the certificate of this server expired {duration(-left)} ago, and nobody believes it: {renew}"
            self._say(logging.ERROR, "certificate_expired", line)
        else:
            line = f"the certificate of this server expires in {duration(left)}: {renew}"
            self._say(logging.WARNING, "certificate_expires", line)

    def _signature(self) -> tuple[tuple[int, int, int] | None, ...]:
        """Return what changes when one of the files does."""
        tls = self._settings.tls
        if tls is None:
            return ()
        files = [tls.certificate, tls.key, *filter(None, [tls.client_ca])]
        files += [peer.trust for _, peer in sorted(self._settings.peers.items()) if peer.trust is not None]
        return tuple(map(_signature_of, dict.fromkeys(files)))

    def look_at_clocks(self) -> None:
        """Find out whether the time of day has jumped."""
        jump = self._jumps.look()
        if jump is not None and self.is_protected:
            line = f"the clock has jumped by {jump:.0f} s: sessions stay for ten minutes, whatever certificates say"
            self._say(logging.WARNING, "clock_jumped", line)

    @property
    def is_clock_in_doubt(self) -> bool:
        """True for a while after the time of day has jumped."""
        return self._jumps.is_in_doubt

    # -- others

    def follow_added(self, added: Callable[[], Mapping[Subnet, str]]) -> None:
        """Take the authorities that operators add while the server runs, besides those of the settings."""
        self._pins.added = added
        self.pins_changed()

    def pins_changed(self) -> None:
        """Judge all certificates again, because operators have added or removed an authority."""
        self.changes += 1
        self._verdicts.forget()
        self._renew_ports()

    def pin_of(self, subnet: Subnet) -> Bundle | None:
        """Return the authorities pinned for the server of a subnet. None if there are none."""
        return self._pins.of(subnet)

    def identify(self, auth_context: Mapping[str, Iterable[bytes]]) -> Identity | NotAuthentic | None:
        """Return the peer or user that makes a call, as its certificate proves. None if it has sent no certificate."""
        return None if self._files.own is None else self._verdicts.on(auth_context)

    def why_not_dialled(self, address: str, subnets: Sequence[Subnet]) -> str | None:
        """Return the reason for which the server of these subnets must not be dialled. None if it may be."""
        if any(self._pins.of(subnet) is not None for subnet in subnets):
            if self._files.own is None:
                return "an authority is pinned for it, and this server has no certificate to show (`tls`)"
            return self.own_fault()
        if is_on_this_machine(address) or self._settings.insecure_listen_on_a_public_address:
            return None
        return (
            f"nothing would prove that the server at {address} is that of {subnets[0]}: pin its authority, by "
            f"`shadowtree peers add {subnets[0]}={address} --trust FILE`"
        )

    def believes(self, subnets: Collection[Subnet]) -> bool:
        """Return True if the word of the server of these subnets about groups of others needs no confirmation.

        The settings say so, or the authority of that server has also issued the certificate of this one.
        """
        own = self._files.own
        if own is None or any(peer.is_believed for each in subnets if (peer := self._settings.peers.get(each))):
            return True
        bundles = [self._pins.of(subnet) for subnet in subnets]
        certificate = own.pair.certificate
        return bool(bundles) and all(bundle is not None and bundle.has_issued(certificate) for bundle in bundles)

    @property
    def takes_plain_text(self) -> bool:
        """True if other servers may come in plain text."""
        return self._files.own is None or self._settings.insecure_listen_on_a_public_address

    @property
    def refuses_unknown(self) -> bool:
        """True if no update may name a subnet of a server that only other servers know."""
        return self._settings.refuses_unknown

    def organisation_of(self, server: ServerId) -> str | None:
        """Return what tells the organisation of a server apart. None for one that is believed like this server."""
        if self.believes((Subnet(server),)):
            return None
        bundle = self._pins.of(Subnet(server))
        return _NOT_PINNED if bundle is None else ",".join(bundle.fingerprints)

    def credential_for(self, subnets: Sequence[Subnet]) -> Credential | None:
        """Return what a channel to the server of some subnets depends on. None for plain text."""
        own, pinned = self._files.own, self._pinned(subnets)
        if own is None or pinned is None:
            return None
        return Credential(pinned[0], pinned[1], own.leaf.fingerprint)

    def _pinned(self, subnets: Sequence[Subnet]) -> tuple[Subnet, Bundle] | None:
        """Return the first of some subnets with a pin, and its authorities."""
        return next(((subnet, bundle) for subnet in subnets if (bundle := self._pins.of(subnet)) is not None), None)

    async def see(self, address: str, subnets: Sequence[Subnet]) -> PeerIdentity | NotAuthentic | Unbelieved | NoAnswer:
        """Let the server at an address show its certificate, under the name of the first of these subnets."""
        pinned = self._pinned(subnets)
        if pinned is None:
            return Unbelieved(f"no authority is pinned for {', '.join(subnets[:3])}")
        subnet, bundle = pinned
        return await self.see_with(bundle, address, subnet)

    async def see_with(
        self, bundle: Bundle, address: str, subnet: Subnet
    ) -> PeerIdentity | NotAuthentic | Unbelieved | NoAnswer:
        """Do as `see`, for the server of a subnet, with authorities that need not be pinned yet."""
        seen = await leaf_at(address, host_of(subnet), bundle)
        if not isinstance(seen, SeenLeaf):
            return seen
        # The handshake has validated the chain.
        found = judge_seen_leaf(seen.leaf, at=self._now(), revoked=self._revoked)
        if isinstance(found, UserIdentity):
            return Unbelieved(f"the server at {address} shows the certificate of the user {found.principal}")
        return found

    def channel(self, address: str, subnets: Sequence[Subnet], options: ChannelOptions) -> grpc.aio.Channel:
        """Return a channel to the server of some subnets, expected at an address. It connects when it is used."""
        credential = self.credential_for(subnets)
        if credential is None:
            return grpc.aio.insecure_channel(address, options=options)
        key, chain = self._own_pair()
        return grpc.aio.secure_channel(
            address,
            grpc.ssl_channel_credentials(credential.bundle.pem, key, chain),
            options=(*options, ("grpc.ssl_target_name_override", host_of(credential.subnet))),
        )


def _signature_of(file: Path) -> tuple[int, int, int] | None:
    """Return inode, size and time of a file. None if it is not there."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def unprotected() -> PeerTrust:
    """Return the trust of a server that proves nothing and demands no proof."""
    return PeerTrust(_KeptSettings())
