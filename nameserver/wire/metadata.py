"""Keys of the metadata of calls between name servers."""

from __future__ import annotations

from contextvars import ContextVar

FORWARDED_KEY = "shadowtree-forwarded-by"
"""Metadata key of a forwarded call. The value is the server that forwarded it."""

CALLER_KEY = "shadowtree-caller"
"""Metadata key of a forwarded update. The value is the address of the client that called the forwarding server."""

TRACE_KEYS = ("traceparent", "tracestate")
"""Metadata keys of the trace that a call is a part of (W3C Trace Context)."""

TRACE_CONTEXT: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("trace context", default=())
"""Metadata of these keys for the calls that a task makes to carry out a call. Empty if the call is not traced."""
