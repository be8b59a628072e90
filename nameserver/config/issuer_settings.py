"""Settings of issuers of tokens (OpenID Connect): what each one may say of whom."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from namegraph import Subnet
from nameserver.config.declared import Texts, WrongValueError, kind_of, shown, subnet_in, table_of, text_of

ISSUERS_LIMIT: Final = 20
"""Issuers of one server."""

DOMAINS_LIMIT: Final = 1_000
"""Domains of one issuer."""

TEXT_LIMIT: Final = 500
"""Characters of the name of an issuer, an audience, or a claim."""

DEFAULT_CLAIM: Final = "email"

ALGORITHMS: Final = ("ES256", "EdDSA", "RS256")
"""Signatures that a server can be told to take. Each is asymmetric: a secret that both sides know could be forged."""

_DOMAIN_TEXTS: Final = Texts("a list of domains")
_ALGORITHM_TEXTS: Final = Texts("a list of algorithms")
_KEYS: Final = ("issuer", "audience", "jwks", "principal", "domains", "algorithms")
_REQUIRED: Final = ("issuer", "audience", "jwks", "domains")


@dataclass(frozen=True, slots=True)
class IssuerSettings:
    """One issuer of tokens."""

    issuer: str
    """Value of the claim `iss`."""
    audience: str
    """Value that the claim `aud` must have, or be among."""
    jwks: Path
    """File with the public keys of the issuer (RFC 7517, section 5)."""
    domains: tuple[Subnet, ...]
    """Domains of whose principals the issuer may speak."""
    principal: str = DEFAULT_CLAIM
    """Claim that names the principal."""
    algorithms: tuple[str, ...] = ALGORITHMS


def read_issuers(value: object) -> tuple[IssuerSettings, ...]:
    """Read the setting `issuers`. Raises `WrongValueError`."""
    if not isinstance(value, list | tuple):
        raise WrongValueError(f"a list of tables [[issuers]] is wanted, not {kind_of(value)}")
    if len(value) > ISSUERS_LIMIT:
        raise WrongValueError(f"{len(value)} issuers are more than a server takes, which is {ISSUERS_LIMIT}")
    found = tuple(map(_issuer, value))
    names = [each.issuer for each in found]
    for name in names:
        if names.count(name) > 1:
            raise WrongValueError(f"the issuer {shown(name)} is there twice: give it all of its domains at once", name)
    return found


def _issuer(value: object) -> IssuerSettings:
    table = table_of(value, "a table for each issuer")
    for key in table:
        if key not in _KEYS:
            raise WrongValueError(f"an issuer has no key {shown(str(key))}; the keys are {', '.join(_KEYS)}", str(key))
    for key in _REQUIRED:
        if key not in table:
            raise WrongValueError(f"an issuer lacks `{key}`; it needs {', '.join(_REQUIRED)}")
    return IssuerSettings(
        issuer=_text(table, "issuer"),
        audience=_text(table, "audience"),
        jwks=Path(_text(table, "jwks")),
        domains=_domains(table["domains"]),
        principal=_text(table, "principal") if "principal" in table else DEFAULT_CLAIM,
        algorithms=_algorithms(table["algorithms"]) if "algorithms" in table else ALGORITHMS,
    )


def _text(table: Mapping[str, object], key: str) -> str:
    text = text_of(table[key])
    if not 0 < len(text) <= TEXT_LIMIT or not text.isprintable():
        raise WrongValueError(f"{key}: a text of 1 to {TEXT_LIMIT} printable characters is wanted", text)
    return text


def _domains(value: object) -> tuple[Subnet, ...]:
    domains = tuple(sorted({subnet_in(text) for text in _DOMAIN_TEXTS(value)}))
    if not 0 < len(domains) <= DOMAINS_LIMIT:
        raise WrongValueError(f"domains: an issuer speaks for 1 to {DOMAINS_LIMIT:,} domains, not {len(domains):,}")
    return domains


def _algorithms(value: object) -> tuple[str, ...]:
    names = tuple(dict.fromkeys(_ALGORITHM_TEXTS(value)))
    for name in names:
        if name not in ALGORITHMS:
            raise WrongValueError(f"algorithms: {shown(name)} is none of {', '.join(ALGORITHMS)}", name)
    if not names:
        raise WrongValueError(f"algorithms: name at least one of {', '.join(ALGORITHMS)}")
    return names
