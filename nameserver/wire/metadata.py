"""The keys of what calls between name servers carry beside their messages."""

from __future__ import annotations

from contextvars import ContextVar

FORWARDED_KEY = "shadowtree-forwarded-by"
"""Metadata of a forwarded call; its value is the server that forwarded it."""

CALLER_KEY = "shadowtree-caller"
"""Metadata of a forwarded update; its value is the address of who called the server that forwarded it."""

TRACE_KEYS = ("traceparent", "tracestate")
"""Metadata that says of which trace a call is a part (W3C Trace Context)."""

TRACE_CONTEXT: ContextVar[tuple[tuple[str, str], ...]] = ContextVar("trace context", default=())
"""Metadata of these keys for the calls that a task makes to carry out a call; empty where nothing is traced."""
