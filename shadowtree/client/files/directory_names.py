"""Distinguished names of directories (RFC 4514) as names of the graph.

An entry with a mail address has that address as its name. Any other entry is named by the value of the first part of
its distinguished name and the domain of its ``dc`` parts: ``cn=Staff,ou=Groups,dc=ubc,dc=example`` is
``Staff@ubc.example``.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple, TypeAlias

from shadowtree.client.graph_columns import BadRowError

DnKey: TypeAlias = tuple[tuple[str, str], ...]
"""Comparison key of a distinguished name: types and values in lower case, first part first."""

_PART: Final = re.compile(r"((?:\\.|[^,\\])*+)(?:,|$)", re.S)
_ESCAPED: Final = re.compile(r"((?:\\[0-9a-fA-F]{2})+)|\\(.)", re.S)
_DOMAIN_PART: Final = "dc"


class Dn(NamedTuple):
    """One distinguished name."""

    parts: tuple[tuple[str, str], ...]
    """Type in lower case, and value, of each part."""

    @property
    def key(self) -> DnKey:
        """Key that all spellings of the name share."""
        return tuple((kind, " ".join(value.lower().split())) for kind, value in self.parts)

    @property
    def domain(self) -> str:
        """Domain of the ``dc`` parts. Empty if there are none."""
        return ".".join(value for kind, value in self.parts if kind == _DOMAIN_PART)

    @property
    def first(self) -> str:
        """Value of the first part."""
        return self.parts[0][1]


def read_dn(text: str) -> Dn:
    """Read a distinguished name; raise `BadRowError` if it is invalid."""
    parts = []
    for part in _PART.findall(text.strip()):
        kind, sign, value = part.partition("=")
        if sign:
            parts.append((kind.strip().lower(), _unescaped(value.strip())))
        elif part.strip():
            raise BadRowError(f"{text[:80]!r} is not a distinguished name, such as cn=staff,dc=ubc,dc=example")
    if not parts or not parts[0][1]:
        raise BadRowError(f"{text[:80]!r} is not a distinguished name, such as cn=staff,dc=ubc,dc=example")
    return Dn(tuple(parts))


def name_at(local: str, domain: str, dn: str) -> str:
    """Return a name from its part before the @ and the domain of a distinguished name; raises `BadRowError`."""
    if "@" in local:
        return local
    if not domain:
        raise BadRowError(f"{dn[:80]!r} has no domain: neither dc parts nor a mail address")
    return f"{local}@{domain}"


def _unescaped(value: str) -> str:
    def plain(found: re.Match[str]) -> str:
        if found[1]:
            return bytes.fromhex(found[1].replace("\\", "")).decode("utf-8", "replace")
        return found[2]

    return _ESCAPED.sub(plain, value)
