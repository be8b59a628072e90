"""What operators are told of other servers, and what other servers did wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from namegraph import Channels, ServerId, Subnet
from nameserver.detector.liveness import Life, Liveness
from nameserver.session.frames import GoodbyeReason
from nameserver.transport.peer_link import Link

COMPLAINTS_LIMIT = 1_000
"""Bound on those whom `Complaints` remembers: names of strangers come from untrusted hellos."""


@dataclass(frozen=True, slots=True)
class PeerReport:
    """One address of the table."""

    address: str
    subnets: tuple[Subnet, ...]
    server: ServerId | None
    """None: never met."""
    state: str
    letters_waiting: int
    faults: Mapping[str, int]
    """By kind, sorted."""
    life: Life
    why: str
    """Why it is suspected or lost; empty otherwise."""
    phi: float
    last_heard_seconds: float | None
    """How long ago; None: not since this server started."""
    round_trip_seconds: float | None
    """As it was last measured over the session that is open; None: not yet."""
    via: ServerId | None
    """Through which other server it is connected; None: directly, or not."""
    relayed: int
    """Frames that it sent, through this server, to others since this server started."""


class FaultCounts:
    """Counts what other servers did wrong: by server for those that are known, together for strangers."""

    def __init__(self) -> None:
        self._by_server: dict[ServerId, Counter[str]] = {}
        self.of_strangers: Counter[str] = Counter()

    def count(self, server: ServerId | None, kind: str) -> None:
        """Count one fault; None: of a stranger, which is no peer."""
        faults = self.of_strangers if server is None else self._by_server.setdefault(server, Counter())
        faults[kind] += 1

    def of(self, server: ServerId) -> Counter[str]:
        """The faults of one server."""
        return Counter(self._by_server.get(server, {}))


def report_on(
    link: Link,
    *,
    channels: Channels,
    posts: Channels,
    faults: FaultCounts,
    watch: Liveness | None,
    now: float,
    round_trip_seconds: float | None,
    relayed: int,
) -> PeerReport:
    """What is to be said of one address; `watch`: of the server there, on whose clock it is `now`."""
    waiting, counted = 0, Counter[str]()
    if link.server is not None:
        waiting = channels.sent_through(link.server) - channels.forgotten_through(link.server)
        counted = faults.of(link.server)
        for (server, kind), count in (*channels.faults.items(), *posts.faults.items()):
            if server == link.server:
                counted[kind] += count
    return PeerReport(
        address=link.address,
        subnets=link.subnets,
        server=link.server,
        state=link.state,
        letters_waiting=waiting,
        faults=dict(sorted(counted.items())),
        life=Life.NEVER_MET if watch is None else watch.life,
        why="" if watch is None else watch.why,
        phi=0.0 if watch is None else watch.phi(now),
        last_heard_seconds=watch.silence(now) if watch is not None and watch.was_heard else None,
        round_trip_seconds=round_trip_seconds,
        via=link.via,
        relayed=relayed,
    )


class Complaints:
    """Says what an operator should know on standard error, each thing once while it lasts."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: dict[str, set[GoodbyeReason]] = {}

    def say_once(self, about: str, reason: GoodbyeReason, line: str) -> None:
        """Say a line, unless one was said about the same for the same reason."""
        if len(self._said) == COMPLAINTS_LIMIT and about not in self._said:
            return
        said = self._said.setdefault(about, set())
        if reason not in said:
            said.add(reason)
            self._say(line)

    def settle(self, about: str) -> None:
        """Learn that there is nothing to complain of any more: the next complaint is said again."""
        self._said.pop(about, None)
