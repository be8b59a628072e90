"""How many messages a second an origin takes: of all together, and of each sender that gives its name.

Each rate is a clock that runs ahead of time by what was taken, and may be a second ahead, or one message (GCRA, ITU-T
I.371): so what a second allows may come at once, and after that one message whenever there is room for one. What is
refused takes nothing. In memory alone: at a start nobody has sent anything.

Source: delivery.md sections 11, 12.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from namegraph import Reason, RefusedError, refuse

DEFAULT_PER_SECOND: Final = 100_000
"""More than one server takes on today's machines: it is there to be lowered."""

DEFAULT_OF_SENDER_PER_SECOND: Final = 50_000

BURST_SECONDS: Final = 1.0

SENDERS_LIMIT: Final = 10_000
"""Those who are ahead of time, at most: another one counts for the whole alone."""


class Rates:
    """Of one origin."""

    def __init__(self) -> None:
        self.per_second: float = DEFAULT_PER_SECOND
        self.of_sender_per_second: float = DEFAULT_OF_SENDER_PER_SECOND
        self.refused = 0
        """Messages, since the start of this server."""
        self._all = 0.0
        """Until when what was taken together is used up; likewise of each sender."""
        self._senders: dict[str, float] = {}

    def take(self, sender: str, now: float) -> RefusedError | None:
        """Count a message; returns why it is refused, where it is too much. `sender`: empty for who gives no name."""
        ahead, of_one = self._all, self._senders.get(sender, now)
        of_all = (ahead if ahead > now else now) + 1 / self.per_second
        of_sender = (of_one if of_one > now else now) + 1 / self.of_sender_per_second
        # Both rates have this burst at least.
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
    """For how long a clock is too far ahead."""
    ahead = until - now - max(BURST_SECONDS, 1 / rate)
    # A difference of times is not exact.
    return ahead if ahead > 1e-6 else 0.0
