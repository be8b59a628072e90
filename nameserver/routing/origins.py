"""Origin of an update, as far as it is known here: the address of the caller, and the server that was asked.

The origin is not authenticated: any caller may say that another server forwarded the call.
"""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import unquote

import grpc

from namegraph import Origin, RequestId, ServerId
from nameserver.wire.metadata import CALLER_KEY, FORWARDED_KEY

Context = grpc.aio.ServicerContext[Any, Any]

LONGEST_CALLER = 100


def caller_of(context: Context) -> str:
    """Return the address HOST:PORT of the client, at the server that was asked. Empty if it is not known."""
    metadata = dict(context.invocation_metadata() or ())
    if FORWARDED_KEY in metadata:
        return _printable(str(metadata.get(CALLER_KEY, "")))
    _family, _, address = unquote(context.peer() or "").partition(":")
    return _printable(address)


def origin_of(context: Context, *, request_id: RequestId, server: ServerId) -> Origin:
    """Return the origin of an update of a call. `server`: the server that answers the call."""
    metadata = dict(context.invocation_metadata() or ())
    asked = ServerId(_printable(str(metadata.get(FORWARDED_KEY, server))))
    return Origin(request_id, now_ms(), caller_of(context), asked)


def now_ms() -> int:
    """Return the time of day for display, in milliseconds since 1970."""
    return int(time.time() * 1000)


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in text)[:LONGEST_CALLER]
