"""Endpoints that listen: one for each subscription.

A newer endpoint takes the subscription over, and the older is told.

A datagram is offered to all endpoints of the mailboxes it is for. Each endpoint holds a few datagrams that it has not
been handed yet.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from pyroaring import BitMap

from delivery.mailboxes.gateways import NOBODY
from delivery.mailboxes.mailboxes import SubscriptionKey
from delivery.model.words import EVERYTHING, Filter
from namegraph import NodeId, Reason, Refusal, RefusedError, refuse

ENDPOINTS_LIMIT: Final = 10_000
"""Most endpoints. Each may have 1 MiB that is written and not read yet."""


DATAGRAMS_HELD_LIMIT: Final = 1_000
DATAGRAMS_HELD_BYTES_LIMIT: Final = 256 * 1024
"""Limits of the datagrams that wait for one endpoint. Later datagrams are dropped."""


class ShownDatagram(NamedTuple):
    """A datagram, as every listener gets it."""

    encoded: bytes
    """Encoded `SubscribeResponse`."""
    size: int
    """Bytes of payload and headers."""
    expires_at_ms: int
    """Milliseconds since 1970 after which it is not handed out. 0 for no end."""


class Endpoint:
    """One stream that listens."""

    def __init__(
        self,
        process: NodeId,
        key: SubscriptionKey,
        epoch: int,
        *,
        wanted: Filter = EVERYTHING,
        takes_more: bool = False,
    ) -> None:
        """`takes_more`: True if the endpoint reads several responses in one."""
        self.wanted = wanted
        self.takes_more = takes_more
        self.process = process
        self.recipients = NOBODY
        """Recipients that a gateway was told last."""
        self.key = key
        self.epoch = epoch
        self.on_handed: Callable[[], None] = lambda: None
        """Callback that is called whenever messages were handed out."""
        self.refusal: Refusal | None = None
        """Reason of the end of the endpoint. None while it goes on."""
        self.credit_messages = 0
        self.credit_bytes = 0
        self.is_leaving = False
        """True if the endpoint has ended its requests."""
        self.datagrams: deque[ShownDatagram] = deque()
        self._datagrams_bytes = 0
        self.changed = asyncio.Event()
        """Event that is set with each change of the fields above."""

    @property
    def has_credit(self) -> bool:
        """True if one more message may be sent to the endpoint."""
        return self.credit_messages > 0 and self.credit_bytes > 0

    def show(self, datagram: ShownDatagram) -> bool:
        """Offer a datagram. Return False if too many earlier datagrams are still waiting."""
        size = self._datagrams_bytes + datagram.size
        if len(self.datagrams) >= DATAGRAMS_HELD_LIMIT or size > DATAGRAMS_HELD_BYTES_LIMIT:
            return False
        self.datagrams.append(datagram)
        self._datagrams_bytes = size
        self.changed.set()
        return True

    def next_datagram(self) -> ShownDatagram:
        """Remove and return the oldest waiting datagram."""
        found = self.datagrams.popleft()
        self._datagrams_bytes -= found.size
        return found

    def end(self, error: RefusedError) -> None:
        """Let the endpoint be told an error, and end."""
        self.refusal = error.refusal
        self.changed.set()


class Endpoints:
    """All endpoints of this server."""

    def __init__(self) -> None:
        self._of: dict[SubscriptionKey, Endpoint] = {}
        self._listening: dict[int, dict[str, Endpoint]] = {}
        """Endpoints by mailbox and subscription."""

    def require_room(self) -> None:
        """Raise `RefusedError` if too many endpoints listen already."""
        if len(self._of) >= ENDPOINTS_LIMIT:
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"{ENDPOINTS_LIMIT} endpoints listen here already; try again later",
                limit=str(ENDPOINTS_LIMIT),
            )

    def begin(self, endpoint: Endpoint) -> None:
        """Begin an endpoint. The endpoint of the later epoch stays if there are two on one subscription."""
        other = self._of.get(endpoint.key)
        older = endpoint if other is not None and other.epoch > endpoint.epoch else other
        if older is not None:
            older.end(_taken_over(older))
        if older is not endpoint:
            self._of[endpoint.key] = endpoint
            mailbox, name = endpoint.key
            self._listening.setdefault(mailbox, {})[name] = endpoint

    def leave(self, endpoint: Endpoint) -> None:
        """Remove an endpoint."""
        if self._of.get(endpoint.key) is endpoint:
            del self._of[endpoint.key]
            mailbox, name = endpoint.key
            del self._listening[mailbox][name]
            if not self._listening[mailbox]:
                del self._listening[mailbox]

    def of(self, mailboxes: BitMap) -> Iterator[Endpoint]:
        """Return all endpoints that listen for some mailboxes."""
        if len(mailboxes) <= len(self._listening):
            found = [number for number in mailboxes if number in self._listening]
        else:
            found = [number for number in self._listening if number in mailboxes]
        return (endpoint for number in found for endpoint in self._listening[number].values())

    def close_mailbox(self, number: int, error: RefusedError) -> None:
        """End all endpoints of a mailbox."""
        for key, endpoint in list(self._of.items()):
            if key[0] == number:
                endpoint.end(error)

    def is_listening(self, key: SubscriptionKey) -> bool:
        """Return True if an endpoint listens on a subscription now."""
        return key in self._of


def _taken_over(endpoint: Endpoint) -> RefusedError:
    return refuse(
        Reason.TAKEN_OVER,
        f"another endpoint listens for {endpoint.process} on this subscription now",
        process=endpoint.process,
        subscription=endpoint.key[1],
    )
