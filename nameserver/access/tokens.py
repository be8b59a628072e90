"""Tokens of issuers (JWT): judged against the public keys in a file, remembered until they end.

    token --known by its SHA-256--> principal
          '-> issuer --signature, audience, times, domain--> principal, known from now on
                     '-- anything wrong: CREDENTIALS_INVALID, CREDENTIALS_EXPIRED

The server fetches no keys: a timer and curl put the file in its place, and no token can make a server call an address.

Source: RFC 7519; RFC 8725 (algorithms by list, audience demanded); docs/security.md, "Tokens of an identity provider".
"""

from __future__ import annotations

import json
import time
import warnings
from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from joserfc import jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, KeySet, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from namegraph import InvalidPrincipalError, Principal, parse_principal, subnet_of_principal
from nameserver.access.credentials import BadTokenError
from nameserver.config.issuer_settings import IssuerSettings
from nameserver.config.regular_file import read_regular_file

TOKEN_LIMIT: Final = 8_192
"""Characters of a token. gRPC takes as many bytes of metadata."""

LIFE_SECONDS_LIMIT: Final = 3_600.0
"""Longest time that a token may still hold. A stolen token is of no use after that."""

LEEWAY_SECONDS: Final = 60.0
"""Time by which the clock of an issuer may be ahead."""

KNOWN_TOKENS_LIMIT: Final = 10_000
"""Tokens that are remembered. Each takes some 400 bytes."""

JWKS_BYTES_LIMIT: Final = 256 * 1024
KEYS_LIMIT: Final = 100
"""Keys of one issuer."""

RSA_BITS: Final = 2_048
"""Shortest RSA key (RFC 7518, section 3.3)."""

LOOK_SECONDS: Final = 5.0
"""Time between two looks at the files of keys. A key that an issuer withdraws holds no longer than that."""

NAME_CHARACTERS: Final = 16
"""Characters of the digest that names a token in logs."""

_EDDSA: Final = ("EdDSA", "Ed25519")
"""Two names of one algorithm: RFC 8037, and RFC 9864, which takes the place of it."""

# The name EdDSA is deprecated in favour of Ed25519, and nearly all issuers use it.
warnings.filterwarnings("ignore", category=SecurityWarning, module="joserfc")


class IssuerKeysError(Exception):
    """The file of keys cannot be used. The message is one line."""


@dataclass(frozen=True, slots=True)
class KnownToken:
    """A token that holds."""

    principal: Principal
    name: str
    until: float


class _Headers(JWSRegistry):
    # Issuers add fields to headers. The largest whole token is limited before.
    max_header_length = TOKEN_LIMIT
    max_payload_length = TOKEN_LIMIT


class _Issuer:
    """One issuer, and the keys of its file."""

    def __init__(self, settings: IssuerSettings) -> None:
        """Read the keys. Raises `IssuerKeysError`."""
        self.settings = settings
        named = [name for each in settings.algorithms for name in (_EDDSA if each == "EdDSA" else (each,))]
        self._registry = _Headers(algorithms=named, strict_check_header=False)
        self._seen = _signature(settings.jwks)
        self._keys = read_keys(settings.jwks)

    def look(self) -> bool:
        """Read the file again if it changed. Return True if it did. Raises `IssuerKeysError`; the last keys stay."""
        found = _signature(self.settings.jwks)
        if found == self._seen:
            return False
        self._seen = found
        self._keys = read_keys(self.settings.jwks)
        return True

    def claims(self, text: str) -> Mapping[str, Any]:
        """Return the claims of a token that the issuer has signed. Raises `BadTokenError`."""
        try:
            return jwt.decode(text, self._keys, registry=self._registry).claims
        except (JoseError, ValueError, TypeError, KeyError, RecursionError) as error:
            why = f"a token of {self.settings.issuer} that does not hold: {type(error).__name__} {str(error)[:100]}"
            raise BadTokenError(why) from None


class Tokens:
    """Judge of the tokens of all issuers of one server. Belongs to the thread of the event loop."""

    def __init__(
        self,
        issuers: Iterable[IssuerSettings],
        *,
        warn: Callable[[str], None] = lambda _line: None,
        clock: Callable[[], float] = time.monotonic,
        time_of_day: Callable[[], float],
    ) -> None:
        """Read the keys of the issuers. Raises `IssuerKeysError`.

        `warn`: takes a line about a file of keys that changed and cannot be used. `time_of_day`: seconds since 1970.
        """
        self._issuers = {each.issuer: _Issuer(each) for each in issuers}
        self._known: dict[bytes, KnownToken] = {}
        self._warn = warn
        self._clock, self._time_of_day = clock, time_of_day
        self._looked_at = clock()

    def judge(self, text: str) -> KnownToken:
        """Return what a token proves. Raises `BadTokenError`."""
        if len(text) > TOKEN_LIMIT:
            raise BadTokenError(f"a token of {len(text)} characters, more than {TOKEN_LIMIT}")
        self._look()
        digest = sha256(text.encode()).digest()
        known, now = self._known.get(digest), self._time_of_day()
        if known is None:
            known = self._judged(text, digest.hex()[:NAME_CHARACTERS], now)
            self._remember(digest, known, now)
        if now >= known.until:
            self._known.pop(digest, None)
            raise BadTokenError(f"a token of {known.principal}, which has expired", is_expired=True)
        return known

    def _look(self) -> None:
        """Look at the files of keys. What was proven with other keys is judged anew."""
        if self._clock() - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = self._clock()
        for issuer in self._issuers.values():
            try:
                if issuer.look():
                    self._known.clear()
            except IssuerKeysError as error:
                self._warn(f"the keys of {issuer.settings.issuer} stay as they were: {error}")

    def _remember(self, digest: bytes, token: KnownToken, now: float) -> None:
        if len(self._known) >= KNOWN_TOKENS_LIMIT:
            self._known = {key: each for key, each in self._known.items() if each.until > now}
        if len(self._known) >= KNOWN_TOKENS_LIMIT:
            self._known.clear()
        self._known[digest] = token

    def _judged(self, text: str, name: str, now: float) -> KnownToken:
        issuer = self._issuers.get(_issuer_in(text))
        if issuer is None:
            raise BadTokenError("a token of an issuer that the settings do not name, or no token at all")
        claims, settings = issuer.claims(text), issuer.settings
        if claims.get("iss") != settings.issuer:
            raise BadTokenError(f"a token with two issuers, one of them {settings.issuer}")
        audience = claims.get("aud")
        if settings.audience not in (audience if isinstance(audience, list) else [audience]):
            raise BadTokenError(f"a token of {settings.issuer} for another audience")
        until = _checked_times(claims, settings.issuer, now)
        return KnownToken(_principal(claims, settings), name, until)


def read_keys(path: Path) -> KeySet:
    """Return the keys of a file. Raises `IssuerKeysError`."""
    try:
        value = json.loads(read_regular_file(path, limit_bytes=JWKS_BYTES_LIMIT))
        listed = value["keys"]
        if not isinstance(listed, list) or not 0 < len(listed) <= KEYS_LIMIT:
            raise IssuerKeysError(f"{path} holds no 1 to {KEYS_LIMIT} keys")
        keys = [_key(each, path) for each in listed if _is_for_signatures(each)]
    except OSError as error:
        raise IssuerKeysError(f"{path} cannot be read: {error.strerror or error}") from None
    except (JoseError, ValueError, TypeError, KeyError, RecursionError):
        raise IssuerKeysError(f'{path} is no file of public keys, {{"keys": [...]}} (RFC 7517)') from None
    if not keys:
        raise IssuerKeysError(f"{path} holds no key for signatures")
    return KeySet(keys)


def _is_for_signatures(value: object) -> bool:
    if not isinstance(value, dict):
        raise TypeError(value)
    return bool(value.get("use", "sig") == "sig")


def _key(value: Mapping[str, Any], path: Path) -> Any:
    kind = value.get("kty")
    if kind == "oct":
        raise IssuerKeysError(f"{path} holds a secret key: whoever knows it could make tokens; give public keys alone")
    if "d" in value:
        raise IssuerKeysError(f"{path} holds a private key, which only its issuer may have; give public keys alone")
    if kind == "RSA":
        key = RSAKey.import_key(dict(value))
        if key.raw_value.key_size < RSA_BITS:
            raise IssuerKeysError(f"{path} holds an RSA key of fewer than {RSA_BITS:,} bits")
        return key
    if kind == "EC":
        return ECKey.import_key(dict(value))
    if kind == "OKP":
        return OKPKey.import_key(dict(value))
    raise IssuerKeysError(f"{path} holds a key of the kind {str(kind)[:20]!r}, which is none of EC, OKP, RSA")


def _issuer_in(text: str) -> str:
    """Return the issuer that a token names, before its signature is judged. Empty if it names none."""
    _, _, rest = text.partition(".")
    payload, _, _ = rest.partition(".")
    try:
        claims = json.loads(urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (ValueError, RecursionError):
        return ""
    issuer = claims.get("iss", "") if isinstance(claims, dict) else ""
    return issuer if isinstance(issuer, str) else ""


def _checked_times(claims: Mapping[str, Any], issuer: str, now: float) -> float:
    """Return the end of a token. Raises `BadTokenError` for one that holds for too long, or not yet."""
    until = _time_in(claims, "exp", issuer)
    if until is None:
        raise BadTokenError(f"a token of {issuer} without an end (exp)")
    if now >= until:
        raise BadTokenError(f"a token of {issuer}, which has expired", is_expired=True)
    if until - now > LIFE_SECONDS_LIMIT + LEEWAY_SECONDS:
        raise BadTokenError(f"a token of {issuer} that holds for more than {LIFE_SECONDS_LIMIT:g} seconds")
    issued, begins = _time_in(claims, "iat", issuer), _time_in(claims, "nbf", issuer)
    if issued is not None and until - issued > LIFE_SECONDS_LIMIT:
        raise BadTokenError(f"a token of {issuer} that was made for more than {LIFE_SECONDS_LIMIT:g} seconds")
    if max(issued or now, begins or now) > now + LEEWAY_SECONDS:
        raise BadTokenError(f"a token of {issuer} that does not hold yet: compare the clocks")
    return until


def _time_in(claims: Mapping[str, Any], claim: str, issuer: str) -> float | None:
    value = claims.get(claim)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise BadTokenError(f"a token of {issuer} with a time that is none ({claim})")
    return float(value)


def _principal(claims: Mapping[str, Any], settings: IssuerSettings) -> Principal:
    value = claims.get(settings.principal)
    if not isinstance(value, str):
        raise BadTokenError(f"a token of {settings.issuer} without the claim {settings.principal}")
    if settings.principal == "email" and claims.get("email_verified") is False:
        raise BadTokenError(f"a token of {settings.issuer} with an address that it has not verified")
    try:
        principal = parse_principal(value)
    except InvalidPrincipalError as error:
        raise BadTokenError(f"a token of {settings.issuer}: {str(error)[:150]}") from None
    if subnet_of_principal(principal) not in settings.domains:
        raise BadTokenError(f"a token of {settings.issuer} for {principal}, of whose domain it may not speak")
    return principal


def _signature(path: Path) -> tuple[int, int, int] | None:
    """Return what changes when a file does. None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
