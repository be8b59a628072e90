"""Pins: the authorities that may vouch for the server, and the users, of each subnet.

    files of the settings (`trust`, `client_ca`) --+
                                                   +--> bundle of a subnet
    texts of `peers add --trust`, durable ---------+

The files win. A subnet without a bundle has no pin: nobody can prove to be its server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path

from namegraph import Subnet
from nameserver.trust.bundles import Bundle, BundleError, parse_bundle
from nameserver.trust.key_files import TrustFileError, read_pem
from nameserver.trust.leaves import Leaf

PARSED_LIMIT = 1_000
"""Texts of authorities whose bundles are remembered. A federation has some dozens of organisations."""


class Pins:
    """Authorities by subnet."""

    def __init__(self, own: tuple[Subnet, ...], of_users: Bundle | None, of_peers: Mapping[Subnet, Bundle]) -> None:
        """Create the pins.

        `own`: subnets of this server. `of_users`: authorities of the users of these subnets. `of_peers`: authorities
        from files.
        """
        self._own = frozenset(own)
        self._of_users = of_users
        self._of_peers = dict(of_peers)
        self.added: Callable[[], Mapping[Subnet, str]] = dict
        """Callback that returns the authorities that operators added while a server ran, as PEM texts."""

    def replace(self, of_users: Bundle | None, of_peers: Mapping[Subnet, Bundle]) -> None:
        """Take other authorities from files."""
        self._of_users, self._of_peers = of_users, dict(of_peers)

    def of(self, subnet: Subnet) -> Bundle | None:
        """Return the authorities that may vouch for the server of a subnet. None if none is pinned."""
        found = self._of_peers.get(subnet)
        if found is not None:
            return found
        text = self.added().get(subnet)
        return None if text is None else _parsed(text)

    def for_leaf(self, leaf: Leaf) -> Bundle | None:
        """Return the authorities that may vouch for a leaf. None if none is pinned."""
        if leaf.domain in self._own:
            # No other server speaks for the subnets of this one.
            return None if leaf.is_server else self._of_users
        return self.of(leaf.domain)

    def all(self) -> tuple[Bundle, ...]:
        """Return all bundles, each once, for the handshake at a port."""
        found = list(self._of_peers.values())
        if self._of_users is not None:
            found.append(self._of_users)
        found += filter(None, map(_parsed, self.added().values()))
        return tuple({bundle.pem: bundle for bundle in found}.values())


@lru_cache(maxsize=PARSED_LIMIT)
def _parsed(text: str) -> Bundle | None:
    """Return the bundle of a durable text. It was checked when it came; authorities that expired since fail later."""
    try:
        return parse_bundle(text.encode(), at=datetime.min.replace(tzinfo=UTC))
    except BundleError:
        return None


def load_bundle(file: Path, *, at: datetime) -> Bundle:
    """Return the bundle of a file. Raises `TrustFileError`."""
    try:
        return parse_bundle(read_pem(file), at=at)
    except BundleError as error:
        raise TrustFileError(f"{file} is of no use as the authority of an organisation: {error}") from None
