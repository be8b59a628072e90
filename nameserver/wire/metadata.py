"""Keys of the metadata of calls, and what a task passes on with the calls that it makes."""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Final, Protocol

Metadata = Sequence[tuple[str, str]]
"""Keys and values that go with a call."""

FORWARDED_KEY: Final = "shadowtree-forwarded-by"
"""Metadata key of a forwarded call between servers up to protocol 7. The value is the server that forwarded it."""

CALLER_KEY: Final = "shadowtree-caller"
"""Metadata key of a forwarded update between servers up to protocol 7: the address of the client."""

PRINCIPAL_KEY: Final = "shadowtree-principal"
"""Metadata key of a forwarded call: the caller of the forwarding server (`nameserver/access/marks.py`)."""

AUTHORIZATION_KEY: Final = "authorization"
"""Metadata key of a credential. The value is ``Bearer`` and an API key or a token."""

TO_KEY: Final = "shadowtree-to"
"""Metadata key of a tunnel. The value is the server to which it leads."""

TRACE_KEYS = ("traceparent", "tracestate")
"""Metadata keys of the trace that a call is a part of (W3C Trace Context)."""

TRACE_CONTEXT: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("trace context", default=())
"""Metadata of these keys for the calls that a task makes to carry out a call. Empty if the call is not traced."""


class AskedFor(Protocol):
    """Caller whose call a task carries out."""

    def mark(self) -> str:
        """Return the value of `PRINCIPAL_KEY` for the calls that the task makes."""

    @property
    def principal(self) -> str:
        """Principal of the caller."""

    @property
    def address(self) -> str:
        """Address of the client, for display. Empty if it is not known."""


def asking_principal() -> str:
    """Return the principal of the call that this task carries out. Empty in tasks that no call began."""
    caller = CALLER.get()
    return "" if caller is None else caller.principal


CALLER: ContextVar[AskedFor | None] = ContextVar("caller", default=None)
"""Caller of the call that a task carries out. None in tasks that no call began."""
