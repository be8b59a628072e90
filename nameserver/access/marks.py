"""The mark of a forwarded call: the caller of the forwarding server, in one line of metadata.

    principal=ann%40b.example&server=b.example&address=192.0.2.7%3A40000&how=key

Servers up to protocol 7 say less, in two lines: the server, and the address of the client.

A mark is the word of the server that sends it. `identify` says how much of it is believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl

from namegraph import ANONYMOUS, InvalidPrincipalError, Principal, ServerId, parse_principal
from nameserver.access.caller import printable
from nameserver.wire.metadata import CALLER_KEY, FORWARDED_KEY, PRINCIPAL_KEY

MARK_LIMIT: Final = 4_096
"""Characters of a mark: a name of 509 characters of four bytes, each byte written with three, and room for the rest."""

_FIELDS_LIMIT: Final = 16
"""Fields of a mark. Later versions may add some."""


class InvalidMarkError(ValueError):
    """The mark is none. The message is one line."""


@dataclass(frozen=True, slots=True)
class Mark:
    """A mark as its sender wrote it."""

    principal: Principal
    """Principal that the sender names. `ANONYMOUS` if it names none."""
    server: ServerId | None
    """Server that the sender says it is. None if it does not say so."""
    address: str
    """Address of the client, for display."""
    privileges: frozenset[str] | None = None
    """Privileges that the credential is good for. None for all that the principal has."""


def read_mark(metadata: Mapping[str, str]) -> Mark | None:
    """Return the mark of a call. None if the call is not marked. Raises `InvalidMarkError`."""
    text = metadata.get(PRINCIPAL_KEY)
    server = metadata.get(FORWARDED_KEY)
    if text is None:
        if server is None:
            return None
        return Mark(ANONYMOUS, ServerId(printable(server)), printable(metadata.get(CALLER_KEY, "")))
    if len(text) > MARK_LIMIT:
        raise InvalidMarkError(f"the mark of a forwarded call has {len(text)} characters, more than {MARK_LIMIT}")
    try:
        fields = dict(
            parse_qsl(text, keep_blank_values=True, strict_parsing=True, max_num_fields=_FIELDS_LIMIT, errors="strict")
        )
    except ValueError:
        raise InvalidMarkError(f"{printable(text)!r} is not the mark of a forwarded call") from None
    server = fields.get("server", server)
    return Mark(
        _principal(fields.get("principal", ANONYMOUS)),
        None if server is None else ServerId(printable(server)),
        printable(fields.get("address", "")),
        # An empty list is told, too: a credential that is good for nothing.
        frozenset(filter(None, fields["privileges"].split(","))) if "privileges" in fields else None,
    )


def _principal(text: str) -> Principal:
    try:
        return parse_principal(text)
    except InvalidPrincipalError as error:
        raise InvalidMarkError(f"the mark of a forwarded call names no principal: {error}") from None
