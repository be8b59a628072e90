"""Traces for OpenTelemetry: one for each call of a client but checks, with the calls that it causes at other servers.

    call --span-->  calls of other servers carry its context as metadata --spans there, in the same trace-->
      |
      +-- update --span--> its phases at its coordinator: order, ready, decided

The context is that of the W3C (`traceparent`), so a client's own trace continues here. Letters between servers, such as
votes, carry no context. Only the coordinator reports the phases of an update.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Protocol

import grpc
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from delivery.model.events import DeliveryEvent
from namegraph import Command, Effects, Event, ImportCommand, Outcome, Refusal, RequestId, ServerId, UpdateCommand
from nameserver.calls.adapters import Context
from nameserver.driver.observer import Observer
from nameserver.wire.metadata import TRACE_CONTEXT, TRACE_KEYS

EXPORT_SECONDS = 2
"""Timeout of an export to a collector. Spans that the collector does not take in time are dropped."""

UNTRACED = frozenset(("Converse", "Watch"))
"""Streams that last as long as a server does."""

PARTS_ALONE = frozenset(("Check", "CheckBulk", "CheckKnown", "CheckPart"))
"""Methods traced only as part of a trace that the caller or another server has begun.

A span would take a fifth of the time of a `Check`.
"""

_SPAN: ContextVar[Span | None] = ContextVar("span", default=None)
"""Span of the call that the current task carries out."""

_CARRIED = TraceContextTextMapPropagator()


class UpdatePhases(Protocol):
    """Part of the core that knows the phases of updates."""

    def coordinated_updates(self) -> Iterable[tuple[RequestId, str]]:
        """Return the request id and the phase of each update that this server coordinates."""


@dataclass(slots=True)
class _TracedUpdate:
    """One update under way."""

    span: Span
    phase: str = ""
    phase_span: Span | None = None

    def end_phase(self) -> None:
        """End the span of the phase, because the update enters another phase or is over."""
        if self.phase_span is not None:
            self.phase_span.end()
            self.phase_span = None


class Traces(Observer):
    """Spans of one server."""

    def __init__(self, *, server: ServerId, core: UpdatePhases, processor: SpanProcessor) -> None:
        """`processor` takes the ended spans."""
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": "shadowtree", "service.instance.id": server})
        )
        self._provider.add_span_processor(processor)
        self._tracer: Tracer = self._provider.get_tracer("shadowtree")
        self._core = core
        self._updates: dict[RequestId, _TracedUpdate] = {}

    def end(self) -> None:
        """Send the waiting spans."""
        self._provider.shutdown()

    def of_method(self, service: str, method: str, kind: str) -> MethodTraces:
        """Return the follower of one method's calls."""
        del kind
        return MethodTraces(self._tracer, service, method)

    def asked(self, command: Command) -> None:
        """Begin the span of an update."""
        if isinstance(command, UpdateCommand | ImportCommand):
            call = _SPAN.get()
            span = self._tracer.start_span(
                "update",
                context=None if call is None else set_span_in_context(call),
                attributes={"shadowtree.request_id": command.request_id},
            )
            self._updates[command.request_id] = _TracedUpdate(span)

    def stepped(self, event: Event | DeliveryEvent, effects: Effects, seconds: float, *, was_long: bool) -> None:
        """Begin a span for each update that has entered another phase."""
        del event, effects, seconds, was_long
        if not self._updates:
            return
        for request_id, phase in self._core.coordinated_updates():
            update = self._updates.get(request_id)
            if update is not None and update.phase != phase:
                update.end_phase()
                update.phase = phase
                update.phase_span = self._tracer.start_span(phase, context=set_span_in_context(update.span))

    def answered(self, command: Command, outcome: Outcome) -> None:
        """End the span of an update."""
        update = (
            self._updates.pop(command.request_id, None) if isinstance(command, UpdateCommand | ImportCommand) else None
        )
        if update is not None:
            update.end_phase()
            if isinstance(outcome, Refusal):
                update.span.set_status(Status(StatusCode.ERROR, outcome.message))
                update.span.set_attribute("shadowtree.reason", outcome.reason.value)
            update.span.end()


class MethodTraces:
    """Follower that makes a span of each call of one method."""

    def __init__(self, tracer: Tracer, service: str, method: str) -> None:
        self._tracer = tracer
        self._name = f"{service}/{method}"
        self._is_traced = method not in UNTRACED
        self._begins_traces = method not in PARTS_ALONE
        self._attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}

    def began(self, context: Context) -> None:
        """Begin the span, as a part of the caller's trace if there is one."""
        if not self._is_traced:
            return
        metadata = context.invocation_metadata() or ()
        carried = {key: str(value) for key, value in metadata if key in TRACE_KEYS}
        if not (carried or self._begins_traces):
            return
        span = self._tracer.start_span(
            self._name, context=_CARRIED.extract(carried), kind=SpanKind.SERVER, attributes=self._attributes
        )
        onward: dict[str, str] = {}
        _CARRIED.inject(onward, set_span_in_context(span))
        _SPAN.set(span)
        TRACE_CONTEXT.set(tuple(onward.items()))

    def ended(self, context: Context, code: grpc.StatusCode, seconds: float) -> None:
        """End the span of a call."""
        del context, seconds
        span = _SPAN.get()
        if self._is_traced and span is not None:
            number: int = code.value[0]
            span.set_attribute("rpc.grpc.status_code", number)
            if code is not grpc.StatusCode.OK:
                span.set_status(Status(StatusCode.ERROR, code.name))
            span.end()


def to_collector(endpoint: str) -> SpanProcessor:
    """Return a processor that sends spans to ``HOST:PORT`` in a thread of its own."""
    return BatchSpanProcessor(OTLPSpanExporter(endpoint=f"http://{endpoint}", insecure=True, timeout=EXPORT_SECONDS))
