"""Rate limits of an origin, in messages a second: for all senders together, and for each named sender.

Each rate is a clock that each accepted message moves ahead of time, by at most one second or one message (GCRA, ITU-T
I.371). The messages of one second may come at once. After such a burst, messages are accepted one by one as time
passes. A refused message moves no clock. The clocks are in memory alone: after a start no sender has used its rate.

See docs/protocol-messages.md, "Limits of messages".
"""

from __future__ import annotations

from math import ceil
from typing import Final

from namegraph import Reason, RefusedError, refuse

DEFAULT_PER_SECOND: Final = 100_000
"""Default rate limit of a server. It exceeds the speed of one server on today's machines: operators may lower it."""

DEFAULT_OF_SENDER_PER_SECOND: Final = 50_000

BURST_SECONDS: Final = 1.0

SENDERS_LIMIT: Final = 10_000
"""Most senders with a clock ahead of time. Another sender counts only toward the limit of all."""


class Rates:
    """Rate limits of one origin."""

    def __init__(self) -> None:
        self.per_second: float = DEFAULT_PER_SECOND
        self.of_sender_per_second: float = DEFAULT_OF_SENDER_PER_SECOND
        self.refused = 0
        """Number of messages refused since the start of this server."""
        self._all = 0.0
        """Time until which accepted messages use up the rate: of all senders, and of each sender."""
        self._senders: dict[str, float] = {}

    def take(self, sender: str, now: float) -> RefusedError | None:
        """Count a message. Return the refusal if it exceeds a rate.

        `sender` is empty for a client without a sender name.
        """
        ahead, of_one = self._all, self._senders.get(sender, now)
        of_all = (ahead if ahead > now else now) + 1 / self.per_second
        of_sender = (of_one if of_one > now else now) + 1 / self.of_sender_per_second
        # Neither rate has a shorter burst than this.
        if max(of_all, of_sender) - now < BURST_SECONDS:
            self._all = of_all
            if sender:
                self._remember(sender, of_sender, now)
            return None
        all_wait = _wait(of_all, self.per_second, now)
        sender_wait = _wait(of_sender, self.of_sender_per_second, now) if sender else 0.0
        wait = max(all_wait, sender_wait)
        if wait > 0:
            self.refused += 1
            whose, rate = "at this server", self.per_second
            if sender_wait >= all_wait:
                whose, rate = f"of {sender}", self.of_sender_per_second
            retry_ms = ceil(wait * 1000)
            return refuse(
                Reason.RATE_EXCEEDED,
                f"more than {rate:g} messages a second {whose}; send it again in {retry_ms} ms",
                retry_after_ms=str(retry_ms),
                limit=f"{rate:g}",
                sender=sender,
            )
        self._all = of_all
        if sender:
            self._remember(sender, of_sender, now)
        return None

    def _remember(self, sender: str, until: float, now: float) -> None:
        if sender not in self._senders and len(self._senders) >= SENDERS_LIMIT:
            self._senders = {name: ahead for name, ahead in self._senders.items() if ahead > now}
            if len(self._senders) >= SENDERS_LIMIT:
                return
        self._senders[sender] = until


def _wait(until: float, rate: float, now: float) -> float:
    """Return the seconds by which a clock is too far ahead."""
    ahead = until - now - max(BURST_SECONDS, 1 / rate)
    # The difference of two times is inexact.
    return ahead if ahead > 1e-6 else 0.0
