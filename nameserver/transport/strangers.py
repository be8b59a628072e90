"""Connections that are refused from servers that are not peers: counted by kind, and reported without a flood.

    refused --> count --> first of this name and address in an hour? --> one line for operators

While an organisation is being added, its server dials every second or two, until the other side has it in the table.
Any caller can invent names and addresses, so each table here has a limit.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from namegraph import ServerId

QUIET_SECONDS = 3600.0
"""Time in which one name at one address is reported once."""

ADDRESSES_LIMIT = 1_000
"""Most addresses that are remembered for that time. Beyond them, refusals are only counted."""

NAMES_LIMIT = 10
"""Most names of one address that are reported in that time. A hostile server invents names."""


@dataclass(frozen=True, slots=True)
class RefusedStranger:
    """A refused connection, as it is reported."""

    server: ServerId | None
    """The name that the other end gave; None if it gave none."""
    address: str
    """Host of the other end without the port, which differs each time, or the server through which it came."""
    kind: str
    why: str
    """Reason of the refusal, for people."""

    @property
    def line(self) -> str:
        """One line for operators."""
        who = f"{self.server} ({self.address})" if self.server else self.address
        return f"refused connection from {who}: {self.why}"


@dataclass(slots=True)
class _Address:
    """Reports about one address."""

    since: float
    names: set[ServerId | None] = field(default_factory=set)


class Strangers:
    """Counts and reports refused connections."""

    def __init__(self, report: Callable[[RefusedStranger], None], clock: Callable[[], float]) -> None:
        self.counts: Counter[str] = Counter()
        """Refused connections since this server started, by kind."""
        self._report = report
        self._clock = clock
        self._addresses: dict[str, _Address] = {}
        """Reports by address, the oldest first."""

    def refuse(self, stranger: RefusedStranger, *, is_reported_elsewhere: bool = False) -> None:
        """Count a refused connection, and report the first of its name and address in an hour."""
        self.counts[stranger.kind] += 1
        if not is_reported_elsewhere and self._is_news(stranger):
            self._report(stranger)

    def _is_news(self, stranger: RefusedStranger) -> bool:
        now = self._clock()
        for address, found in list(self._addresses.items()):
            if now - found.since < QUIET_SECONDS:
                break
            del self._addresses[address]
        known = self._addresses.get(stranger.address)
        if known is None:
            if len(self._addresses) >= ADDRESSES_LIMIT:
                return False
            known = self._addresses[stranger.address] = _Address(now)
        if stranger.server in known.names or len(known.names) >= NAMES_LIMIT:
            return False
        known.names.add(stranger.server)
        return True
