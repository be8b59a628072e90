"""API keys: made for principals, told once, kept as keyed digests.

    create --> st_ID_SECRET, told once        row: principal, BLAKE2b of SECRET keyed with the server's secret, bounds
    call with st_ID_SECRET --judge--> Caller, within the bounds of the key      anything else: CREDENTIALS_INVALID

A secret has 256 random bits, so a fast digest is right: no dictionary finds it. The server's secret is in the database,
so a digest that is read elsewhere, as in a log, cannot be tried.

Source: docs/security.md, "How callers prove themselves".
"""

from __future__ import annotations

import asyncio
import hmac
import re
import secrets
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Final, NamedTuple

import msgspec

from namegraph import (
    AuditEntry,
    InvalidPrincipalError,
    KeepAccess,
    Origin,
    Principal,
    Privilege,
    Reason,
    SubnetPrivilege,
    parse_principal,
    refuse,
    subnet_of_principal,
)
from nameserver.config.addresses import ip_of
from nameserver.driver.time_of_day import now_ms

KEY_PREFIX: Final = "st_"
"""Beginning of every key. Scanners for secrets in files look for such beginnings."""

SECRET_BYTES: Final = 32
ID_BYTES: Final = 6

KEYS_LIMIT: Final = 10_000
"""Keys of one server. Each takes some 300 bytes of memory, and all are listed in one answer."""

KEYS_OF_PRINCIPAL_LIMIT: Final = 2
"""Keys of one principal: the one in use, and the next one, so that a program changes them without a pause."""

NETWORKS_LIMIT: Final = 20
"""Networks from which one key is taken."""

NOTE_LIMIT: Final = 100
"""Characters of the note of a key."""

DAY_MS: Final = 24 * 3600 * 1000
LIFE_MS_LIMIT: Final = 3_660 * DAY_MS
"""Longest life of a key that ends by itself: ten years."""

LAST_USE_SECONDS: Final = 60.0
"""Time between two writes of the last uses of keys: a write for each call would cost a flush of the disk."""

_SECRET_ROW: Final = "secret"  # noqa: S105
_KEY_ROW: Final = "key "
_KEY = re.compile(rf"{KEY_PREFIX}([0-9a-f]{{{2 * ID_BYTES}}})_([A-Za-z0-9_-]{{43}})")
_PRIVILEGES: Final = frozenset(str(each) for kind in (Privilege, SubnetPrivilege) for each in kind)

Network = IPv4Network | IPv6Network


class KeyRow(msgspec.Struct, frozen=True, array_like=True):
    """Stored part of one key. A new field comes last, with a default."""

    principal: str
    digest: bytes
    created_ms: int
    expires_ms: int | None = None
    privileges: tuple[str, ...] | None = None
    """None for all privileges of the principal."""
    networks: tuple[str, ...] = ()
    """Empty for all networks."""
    note: str = ""
    last_used_ms: int = 0
    """0 if the key was never used."""


class KeyBounds(NamedTuple):
    """Bounds of a new key."""

    expires_ms: int | None = None
    privileges: tuple[str, ...] | None = None
    networks: tuple[str, ...] = ()
    note: str = ""


class Judged(NamedTuple):
    """A key that holds."""

    id: str
    principal: Principal
    privileges: frozenset[str] | None
    until: float | None


class BadKeyError(Exception):
    """The key does not hold. The message is for operators of this server alone."""

    def __init__(self, why: str, *, is_expired: bool = False) -> None:
        super().__init__(why)
        self.is_expired = is_expired


class ApiKeys:
    """All keys of one server, as far as they are durable. Belongs to the thread of the event loop."""

    def __init__(
        self,
        rows: Mapping[str, bytes],
        *,
        keep: Callable[[KeepAccess], None],
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        """Take up stored keys.

        `rows`: the durable rows. `keep`: hands changes of them to the core. `clock_ms`: the time of day.
        """
        self._keep = keep
        self._clock_ms = clock_ms
        self._secret = rows.get(_SECRET_ROW)
        self._rows = {
            key.removeprefix(_KEY_ROW): _read(value) for key, value in rows.items() if key.startswith(_KEY_ROW)
        }
        self._networks = {id_: tuple(map(ip_network, row.networks)) for id_, row in self._rows.items()}
        self._used: dict[str, int] = {}
        """Last uses that are not written, by key."""
        self._timer: asyncio.TimerHandle | None = None

    def judge(self, text: str, peer: str) -> Judged:
        """Return what a key proves for a caller at `peer`, as gRPC names it. Raises `BadKeyError`."""
        found = _KEY.fullmatch(text)
        if found is None:
            raise BadKeyError("a text that is no key of the form st_ID_SECRET")
        id_, secret = found.groups()
        row = self._rows.get(id_)
        digest = self._digest(secret)
        if row is None:
            raise BadKeyError("a key that was never made here, or was revoked")
        if not hmac.compare_digest(digest, row.digest):
            raise BadKeyError(f"a forged secret for the key {id_}")
        now = self._clock_ms()
        if row.expires_ms is not None and now >= row.expires_ms:
            raise BadKeyError(f"the key {id_} of {row.principal}, which has expired", is_expired=True)
        networks = self._networks[id_]
        if networks and not _is_in(peer, networks):
            raise BadKeyError(f"the key {id_} of {row.principal}, which is for other networks")
        self._note_use(id_, now)
        privileges = None if row.privileges is None else frozenset(row.privileges)
        until = None if row.expires_ms is None else row.expires_ms / 1000
        return Judged(id_, Principal(row.principal), privileges, until)

    def create(self, principal: Principal, bounds: KeyBounds, origin: Origin) -> str:
        """Return a new key, which its caller may use once this step is durable. Raises `RefusedError`."""
        mine = [id_ for id_, row in self._rows.items() if row.principal == principal]
        if len(mine) >= KEYS_OF_PRINCIPAL_LIMIT:
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"{principal} has {len(mine)} keys already, {' and '.join(sorted(mine))}: revoke one of them first",
                limit=str(KEYS_OF_PRINCIPAL_LIMIT),
            )
        if len(self._rows) >= KEYS_LIMIT:
            raise refuse(
                Reason.LIMIT_EXCEEDED, f"this server has {KEYS_LIMIT} keys: revoke some first", limit=str(KEYS_LIMIT)
            )
        changed: dict[str, bytes | None] = {}
        if self._secret is None:
            self._secret = secrets.token_bytes(SECRET_BYTES)
            changed[_SECRET_ROW] = self._secret
        id_, secret = self._new_id(), secrets.token_urlsafe(SECRET_BYTES)
        row = KeyRow(principal, self._digest(secret), self._clock_ms(), *bounds)
        self._set(id_, row)
        changed[_KEY_ROW + id_] = _ENCODER.encode(row)
        facts = {
            "key": id_,
            "for": principal,
            "privileges": ",".join(row.privileges or ()),
            "expires_ms": row.expires_ms,
        }
        self._keep(KeepAccess(changed, AuditEntry("key_created", facts, origin)))
        return f"{KEY_PREFIX}{id_}_{secret}"

    def revoke(self, id_: str, origin: Origin) -> KeyRow:
        """Remove a key. Return what it was. Raises `RefusedError` if there is none."""
        row = self._rows.get(id_)
        if row is None:
            raise refuse(Reason.INVALID_REQUEST, f"there is no key {id_[:40]!r}; `key list` shows all", field="id")
        del self._rows[id_], self._networks[id_]
        self._used.pop(id_, None)
        entry = AuditEntry("key_revoked", {"key": id_, "for": row.principal}, origin)
        self._keep(KeepAccess({_KEY_ROW + id_: None}, entry))
        return row

    def listed(self) -> list[tuple[str, KeyRow]]:
        """Return all keys with their ids, sorted by principal and age."""
        newest = {
            id_: msgspec.structs.replace(row, last_used_ms=self._used.get(id_, row.last_used_ms))
            for id_, row in self._rows.items()
        }
        return sorted(newest.items(), key=lambda each: (each[1].principal, each[1].created_ms, each[0]))

    def write_last_uses(self) -> None:
        """Have the last uses written that are not yet."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        changed: dict[str, bytes | None] = {}
        for id_, used_ms in self._used.items():
            row = msgspec.structs.replace(self._rows[id_], last_used_ms=used_ms)
            self._rows[id_] = row
            changed[_KEY_ROW + id_] = _ENCODER.encode(row)
        self._used.clear()
        if changed:
            self._keep(KeepAccess(changed))

    def _note_use(self, id_: str, now: int) -> None:
        self._used[id_] = now
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LAST_USE_SECONDS, self._write_later)

    def _write_later(self) -> None:
        self._timer = None
        self.write_last_uses()

    def _set(self, id_: str, row: KeyRow) -> None:
        self._rows[id_], self._networks[id_] = row, tuple(map(ip_network, row.networks))

    def _new_id(self) -> str:
        while (id_ := secrets.token_hex(ID_BYTES)) in self._rows:
            pass
        return id_

    def _digest(self, secret: str) -> bytes:
        return blake2b(secret.encode(), key=self._secret or bytes(SECRET_BYTES), digest_size=SECRET_BYTES).digest()


def read_bounds(*, life_ms: int, privileges: Iterable[str], networks: Iterable[str], note: str, now: int) -> KeyBounds:
    """Return the bounds that an operator gives to a new key. Raises `RefusedError`."""
    if not 0 <= life_ms <= LIFE_MS_LIMIT:
        why = f"a key lasts {LIFE_MS_LIMIT // DAY_MS:,} days at most, or until it is revoked"
        raise refuse(Reason.INVALID_REQUEST, why, field="life_ms")
    named = tuple(sorted(set(privileges)))
    for privilege in named:
        if privilege not in _PRIVILEGES:
            known = ", ".join(sorted(_PRIVILEGES))
            raise refuse(
                Reason.INVALID_REQUEST,
                f"there is no privilege {privilege[:40]!r}; they are {known}",
                field="privileges",
            )
    texts = list(networks)
    if len(texts) > NETWORKS_LIMIT:
        raise refuse(Reason.LIMIT_EXCEEDED, f"a key has at most {NETWORKS_LIMIT} networks", limit=str(NETWORKS_LIMIT))
    found = tuple(sorted({str(_network(text)) for text in texts}))
    if len(note) > NOTE_LIMIT or not note.isprintable():
        raise refuse(Reason.INVALID_REQUEST, f"a note has at most {NOTE_LIMIT} printable characters", field="note")
    return KeyBounds(now + life_ms if life_ms else None, named or None, found, note)


def read_principal(text: str) -> Principal:
    """Return the principal that a credential may be for, in its canonical form. Raises `RefusedError`."""
    try:
        principal = parse_principal(text)
    except InvalidPrincipalError as error:
        raise refuse(Reason.INVALID_NAME, f"{error} (field: principal)", field="principal") from None
    if subnet_of_principal(principal) is None:
        raise refuse(
            Reason.INVALID_NAME,
            f"no credential is for {principal}, which stands for callers without one (field: principal)",
            field="principal",
        )
    return principal


def _network(text: str) -> Network:
    try:
        return ip_network(text)
    except ValueError as error:
        why = str(error)
        raise refuse(
            Reason.INVALID_REQUEST, f"{text[:60]!r} is no network such as 192.0.2.0/24: {why[:200]}", field="networks"
        ) from None


def _is_in(peer: str, networks: Iterable[Network]) -> bool:
    address = ip_of(peer)
    return address is not None and any(address in network for network in networks)


_ENCODER: Final = msgspec.msgpack.Encoder()
_read = msgspec.msgpack.Decoder(KeyRow).decode
