"""Settings of trust: the certificate of this server, and what it demands of each peer.

peers."b.example" = {address = "names.b.example:7401", trust = "b-ca.pem", believes = false}
SHADOWTREE_PEERS="b.example=names.b.example:7401;trust=b-ca.pem"
tls = {certificate = "a.pem", key = "a.key", client_ca = "users-ca.pem"}
SHADOWTREE_TLS="certificate=a.pem,key=a.key,client_ca=users-ca.pem"
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from namegraph import Subnet
from nameserver.config.declared import (
    LineOfFile,
    Texts,
    WrongValueError,
    address_in,
    kind_of,
    shown,
    subnet_in,
    table_of,
    text_of,
)

_PEER_TEXTS: Final = Texts("a table of subnets and addresses")
_FINGERPRINT_TEXTS: Final = Texts("a list of fingerprints")
_FINGERPRINT: Final = re.compile(r"sha256:[0-9a-f]{64}")
_FORM: Final = "SUBNET=HOST:PORT"

_YES_OR_NO: Final[Mapping[object, bool]] = {True: True, False: False, "true": True, "false": False}

REVOKED_LIMIT = 10_000
"""Fingerprints that count as revoked. A certificate lasts a month, so older ones have expired."""


@dataclass(frozen=True, slots=True)
class ConfiguredPeer:
    """Server of another subnet, as the settings describe it."""

    address: str
    trust: Path | None = None
    """File with the authorities that may vouch for the server. None if no certificate is demanded."""
    is_believed: bool = False
    """True if the server is believed about groups of others, too, as one of the own organisation is."""

    def __str__(self) -> str:
        trust = "" if self.trust is None else f";trust={self.trust}"
        return f"{self.address}{trust}{';believes=true' if self.is_believed else ''}"


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """Files by which this server proves itself."""

    certificate: Path
    key: Path
    client_ca: Path | None = None
    """Authorities that may vouch for users of the subnets of this server. None if users have no certificates."""

    def __str__(self) -> str:
        of_users = "" if self.client_ca is None else f",client_ca={self.client_ca}"
        return f"certificate={self.certificate},key={self.key}{of_users}"


def peers_in(value: object) -> dict[Subnet, ConfiguredPeer]:
    """Return the peers that a table, a list or a text names. Raises `WrongValueError`."""
    peers: dict[Subnet, ConfiguredPeer] = {}
    for subnet_text, peer_value, culprit in _pairs(value):
        subnet = subnet_in(subnet_text)
        peer = _peer(subnet, peer_value, culprit)
        if peers.setdefault(subnet, peer).address != peer.address:
            raise WrongValueError(f"{subnet} has two addresses, {peers[subnet].address} and {peer.address}", culprit)
        if peers[subnet] != peer:
            raise WrongValueError(f"{subnet} has two authorities, {peers[subnet].trust} and {peer.trust}", culprit)
    _require_one_trust_each(peers)
    return peers


def _pairs(value: object) -> list[tuple[str, object, str]]:
    """Return the text of each subnet, the value of its peer, and the text to look for in a file."""
    if isinstance(value, Mapping):
        return [(str(subnet), peer, str(subnet)) for subnet, peer in value.items()]
    pairs: list[tuple[str, object, str]] = []
    for text in _PEER_TEXTS(value):
        subnet, equals, peer = text.partition("=")
        if not equals:
            raise WrongValueError(f"{shown(text)} is not {_FORM}", text)
        pairs.append((_part(subnet, text), _part(peer, text), text))
    return pairs


def _part(part: str, whole: str) -> str:
    return LineOfFile(part.strip(), whole.place) if isinstance(whole, LineOfFile) else part.strip()


def _peer(subnet: Subnet, value: object, culprit: str) -> ConfiguredPeer:
    if isinstance(value, Mapping):
        given = value
    elif isinstance(value, str):
        address, *options = (_part(each, value) for each in value.split(";"))
        given = {"address": address, **_options(options, f"the peer of {subnet}", culprit)}
    else:
        raise WrongValueError(f"the address of {subnet} is {kind_of(value)}, not a text or a table", culprit)
    believes = given.get("believes", False)
    if not isinstance(believes, bool | str) or believes not in _YES_OR_NO:
        raise WrongValueError(
            f"`believes` of the peer of {subnet} is {shown(str(believes))}, not true or false", culprit
        )
    given = {key: text for key, text in given.items() if key != "believes"}
    texts = _texts(given, ("address", "trust"), f"the peer of {subnet}", culprit)
    if "address" not in texts:
        raise WrongValueError(f"the peer of {subnet} has no `address`", culprit)
    try:
        address = address_in(texts["address"], lowest_port=1)
    except WrongValueError as error:
        raise WrongValueError(f"{subnet}: {error}", culprit) from None
    return ConfiguredPeer(address, _file(texts.get("trust")), _YES_OR_NO[believes])


def _require_one_trust_each(peers: Mapping[Subnet, ConfiguredPeer]) -> None:
    """Subnets of one address are those of one server, which has one authority."""
    by_address: dict[str, Subnet] = {}
    for subnet, peer in sorted(peers.items()):
        other = by_address.setdefault(peer.address, subnet)
        if peers[other].trust != peer.trust:
            raise WrongValueError(
                f"{other} and {subnet} are at one address, {peer.address}, so they are of one server: give them the "
                "same `trust`",
                subnet,
            )


def tls_in(value: object) -> TlsSettings:
    """Return the files that a table or a text names. Raises `WrongValueError`."""
    if isinstance(value, str):
        value = _options([part.strip() for part in value.split(",")], "tls", value)
    table = table_of(value, "a table with certificate and key")
    texts = _texts(table, ("certificate", "key", "client_ca"), "tls", None)
    for key in ("certificate", "key"):
        if key not in texts:
            raise WrongValueError(f"`{key}` is missing; tls = {{certificate = FILE, key = FILE, client_ca = FILE}}")
    return TlsSettings(Path(texts["certificate"]), Path(texts["key"]), _file(texts.get("client_ca")))


def fingerprints_in(value: object) -> frozenset[str]:
    """Return the fingerprints that a list or a text names. Raises `WrongValueError`."""
    found = frozenset(text.lower() for text in _FINGERPRINT_TEXTS(value))
    for text in sorted(found):
        if not _FINGERPRINT.fullmatch(text):
            raise WrongValueError(
                f"{shown(text)} is no fingerprint; `shadowtree certs show FILE` prints it: sha256: and 64 digits", text
            )
    if len(found) > REVOKED_LIMIT:
        raise WrongValueError(f"{len(found)} fingerprints are more than {REVOKED_LIMIT}")
    return found


def _options(parts: list[str], of_what: str, culprit: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in parts:
        key, equals, text = part.partition("=")
        if not equals or key.strip() in found:
            raise WrongValueError(f"{of_what}: {shown(part)} is not KEY=VALUE, or is given twice", culprit)
        found[key.strip()] = text.strip()
    return found


def _texts(table: Mapping[str, object], keys: tuple[str, ...], of_what: str, culprit: str | None) -> dict[str, str]:
    """Return the texts of a table that has no other keys."""
    for key, value in table.items():
        if key not in keys:
            raise WrongValueError(f"{of_what} has no key {shown(key)}; the keys are {', '.join(keys)}", culprit)
        if not isinstance(value, str) or not value.strip():
            raise WrongValueError(f"`{key}` of {of_what} is {kind_of(value)}, not a text with something in it", culprit)
    return {key: text_of(value).strip() if not isinstance(value, LineOfFile) else value for key, value in table.items()}


def _file(text: str | None) -> Path | None:
    return None if text is None else Path(text)
