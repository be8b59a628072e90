"""HTTP listener for Prometheus: one thread with an event loop of its own, few connections, and little time for each.

    main loop of the process            thread of the listener
      <-- asks (a collector) ------------ generate <-- whole request
      --- values -----------------------> answer   --> scraper

A thread of its own can still answer while the main loop stands still. Prometheus opens one connection at a time. Any
other connection must not cost a thread, or keep a place for longer than `CONNECTION_SECONDS`.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Callable
from typing import Final, cast
from urllib.parse import parse_qs, urlsplit

from prometheus_client import Counter, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import CollectorRegistry

CONNECTIONS_LIMIT: Final = 20
"""Open connections. One more ends the oldest connection, at first one without a whole request."""
CONNECTION_SECONDS: Final = 5.0
"""Time from the opening of a connection to the last byte of its answer."""
REQUEST_BYTES_LIMIT: Final = 16_384
"""Bytes of a request with its headers. Prometheus sends some hundred."""

_END_OF_REQUEST: Final = b"\r\n\r\n"


def serve_metrics(
    registry: CollectorRegistry, host: str, port: int, *, prefix: str = "shadowtree"
) -> tuple[int, Callable[[], None]]:
    """Answer Prometheus. Returns the port, and a function that ends the listener. Raises `OSError`.

    `prefix`: first part of the name of the metric that counts connections ended early.
    """
    listener = _MetricsListener(registry, prefix)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.create_server((host, port), family=family, backlog=CONNECTIONS_LIMIT)
    thread = threading.Thread(target=listener.run, args=(bound,), name="metrics", daemon=True)
    thread.start()

    def end() -> None:
        listener.end()
        thread.join()

    return int(bound.getsockname()[1]), end


class _MetricsListener:
    """All connections of the port. Every method but `end` runs in the thread of the listener."""

    def __init__(self, registry: CollectorRegistry, prefix: str) -> None:
        self.registry = registry
        disable_created_metrics()  # type: ignore[no-untyped-call]
        self.ended_early = Counter(
            f"{prefix}_metrics_connections_ended_early",
            "Connections to the metrics port that were ended before their answer was sent.",
            ("reason",),
            registry=registry,
        )
        for reason in ("late", "too_many", "no_request"):
            self.ended_early.labels(reason)
        self.open: dict[_MetricsConnection, None] = {}
        """Open connections, the oldest first."""
        self._loop = asyncio.new_event_loop()
        self._ended = asyncio.Event()

    def run(self, bound: socket.socket) -> None:
        """Answer until `end` is called."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve(bound))

    def end(self) -> None:
        """Ask the thread to end. Any thread may call."""
        self._loop.call_soon_threadsafe(self._ended.set)

    async def _serve(self, bound: socket.socket) -> None:
        server = await self._loop.create_server(lambda: _MetricsConnection(self), sock=bound)
        await self._ended.wait()
        server.close()
        for connection in tuple(self.open):
            connection.abort()

    def opened(self, connection: _MetricsConnection) -> None:
        """Make room for a connection."""
        if len(self.open) >= CONNECTIONS_LIMIT:
            oldest = min(self.open, key=lambda each: each.is_answered)
            oldest.end_early("too_many")
        self.open[connection] = None

    def answer(self, request: bytes) -> bytes:
        """Return the whole answer to a request, headers included. Raises `ValueError` if it is not HTTP."""
        head, *lines = request.decode("latin-1").split("\r\n")
        method, target, _ = head.split(" ")
        headers = dict(line.lower().split(":", 1) for line in lines if ":" in line)
        if method not in ("GET", "HEAD"):
            return _answer("405 Method Not Allowed", "text/plain", b"GET is wanted\n")
        encode, content_type = choose_encoder(headers.get("accept", ""))
        names = parse_qs(urlsplit(target).query).get("name[]")
        registry = self.registry if names is None else self.registry.restricted_registry(names)
        body = encode(cast(CollectorRegistry, registry))
        return _answer("200 OK", content_type, body, with_body=method == "GET")


class _MetricsConnection(asyncio.Protocol):
    """One connection: one request, one answer."""

    def __init__(self, listener: _MetricsListener) -> None:
        self._listener = listener
        self._request = bytearray()
        self.is_answered = False
        """True once the request is whole."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin."""
        self._transport = cast(asyncio.Transport, transport)
        self._listener.opened(self)
        loop = asyncio.get_running_loop()
        self._deadline = loop.call_later(CONNECTION_SECONDS, self.end_early, "late")

    def connection_lost(self, exc: Exception | None) -> None:
        """Free the place."""
        del exc
        self._deadline.cancel()
        self._listener.open.pop(self, None)

    def data_received(self, data: bytes) -> None:
        """Answer once the request is whole."""
        if self.is_answered:
            return
        self._request += data
        end = self._request.find(_END_OF_REQUEST)
        if end < 0:
            if len(self._request) > REQUEST_BYTES_LIMIT:
                self.end_early("no_request")
            return
        self.is_answered = True
        try:
            answer = self._listener.answer(bytes(self._request[:end]))
        except ValueError:
            self.end_early("no_request")
            return
        self._transport.write(answer)
        self._transport.close()

    def end_early(self, reason: str) -> None:
        """End the connection without the rest of its answer, and count the reason."""
        self._listener.ended_early.labels(reason).inc()
        self.abort()

    def abort(self) -> None:
        """End the connection and free its place at once."""
        self._listener.open.pop(self, None)
        self._transport.abort()


def _answer(status: str, content_type: str, body: bytes, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("latin-1") + (body if with_body else b"")
