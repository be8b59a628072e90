"""Who listens: one endpoint for each subscription. A newer one takes it over, and the older one is told."""

from __future__ import annotations

import asyncio
from typing import Final

from delivery.mailboxes import SubscriptionKey
from namegraph import NodeId, Reason, Refusal, RefusedError, refuse

ENDPOINTS_LIMIT: Final = 10_000
"""Each may take 1 MiB that is written and not read yet."""


class Endpoint:
    """One stream that listens."""

    def __init__(self, process: NodeId, key: SubscriptionKey, epoch: int) -> None:
        self.process = process
        self.key = key
        self.epoch = epoch
        self.refusal: Refusal | None = None
        """Why it is ended."""
        self.credit_messages = 0
        self.credit_bytes = 0
        self.is_leaving = False
        """Whether it will say nothing more."""
        self.changed = asyncio.Event()
        """Set with each change of the above."""

    @property
    def has_credit(self) -> bool:
        """Whether one more message may be sent to it."""
        return self.credit_messages > 0 and self.credit_bytes > 0

    def end(self, error: RefusedError) -> None:
        """Let it be told an error, and end."""
        self.refusal = error.refusal
        self.changed.set()


class Endpoints:
    """All that listen at this server."""

    def __init__(self) -> None:
        self._of: dict[SubscriptionKey, Endpoint] = {}

    def require_room(self) -> None:
        """Raise `RefusedError` where too many listen already."""
        if len(self._of) >= ENDPOINTS_LIMIT:
            raise refuse(
                Reason.LIMIT_EXCEEDED,
                f"{ENDPOINTS_LIMIT} endpoints listen here already; try again later",
                limit=str(ENDPOINTS_LIMIT),
            )

    def begin(self, endpoint: Endpoint) -> None:
        """One listens from now on; of two on one subscription that of the later epoch goes on."""
        other = self._of.get(endpoint.key)
        older = endpoint if other is not None and other.epoch > endpoint.epoch else other
        if older is not None:
            older.end(_taken_over(older))
        if older is not endpoint:
            self._of[endpoint.key] = endpoint

    def leave(self, endpoint: Endpoint) -> None:
        """One listens no more."""
        if self._of.get(endpoint.key) is endpoint:
            del self._of[endpoint.key]

    def close_mailbox(self, number: int, error: RefusedError) -> None:
        """End all that listen for a mailbox."""
        for key, endpoint in list(self._of.items()):
            if key[0] == number:
                endpoint.end(error)

    def is_listening(self, key: SubscriptionKey) -> bool:
        """Whether somebody listens on a subscription now."""
        return key in self._of


def _taken_over(endpoint: Endpoint) -> RefusedError:
    return refuse(
        Reason.TAKEN_OVER,
        f"another endpoint listens for {endpoint.process} on this subscription now",
        process=endpoint.process,
        subscription=endpoint.key[1],
    )
