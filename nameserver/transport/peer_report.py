"""What operators are told of other servers, and what other servers did wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from delivery.origin.backlogs import Unconfirmed
from namegraph import Channels, ServerId, Subnet
from nameserver.detector.liveness import Life, Liveness
from nameserver.session.frames import GoodbyeReason, Hello
from nameserver.transport.peer_link import Link


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
    release: str
    """The version of its program; empty if it did not say, or was not met since this server started."""
    protocol_version: int
    """The version of the protocol that the two speak; 0 if it was not met since this server started."""
    called_at: str
    """Address to which calls go, if it is not `address`; else empty."""
    backlog_bytes: int
    """Memory here of messages that the server has not confirmed."""
    stuck_seconds: float | None
    """Time for which the server has been connected and confirmed no message; None if it is not stuck."""


@dataclass(frozen=True, slots=True)
class Met:
    """Facts that a server told of itself when it was last met."""

    start: int
    release: str
    protocol_version: int
    """Version that the two speak."""

    @classmethod
    def of(cls, hello: Hello) -> Met:
        """Keep what is worth keeping of a hello that was found good."""
        assert hello.agreed_version is not None
        return cls(hello.start, hello.release, hello.agreed_version)


class FaultCounts:
    """Counts what peers did wrong, by server."""

    def __init__(self) -> None:
        self._by_server: dict[ServerId, Counter[str]] = {}

    def count(self, server: ServerId, kind: str) -> None:
        """Count one fault."""
        self._by_server.setdefault(server, Counter())[kind] += 1

    def of(self, server: ServerId) -> Counter[str]:
        """The faults of one server."""
        return Counter(self._by_server.get(server, {}))


def report_on(
    link: Link,
    server: ServerId | None,
    *,
    channels: Channels,
    posts: Channels,
    faults: FaultCounts,
    watch: Liveness | None,
    now: float,
    met: Met | None,
    round_trip_seconds: float | None,
    relayed: int,
    unconfirmed: Unconfirmed | None,
    step_now: float,
) -> PeerReport:
    """Report on one address. `server`: the one there, None if it was never met.

    `watch` is of that server, on whose clock it is `now`. `unconfirmed`: messages for that server, on the clock of
    steps, where it is `step_now`.
    """
    waiting, counted = 0, Counter[str]()
    if server is not None:
        waiting = channels.sent_through(server) - channels.forgotten_through(server)
        counted = faults.of(server)
        for (culprit, kind), count in (*channels.faults.items(), *posts.faults.items()):
            if culprit == server:
                counted[kind] += count
    life = Life.NEVER_MET if watch is None else watch.life
    if life is Life.UP and link.is_direct and link.cannot_be_dialled and link.calls_via is None:
        life = Life.ONE_WAY
    is_stuck = unconfirmed is not None and link.is_connected and unconfirmed.is_stuck(step_now)
    stuck_seconds = step_now - unconfirmed.since if is_stuck and unconfirmed is not None else None
    backlog_bytes = 0 if unconfirmed is None else unconfirmed.size
    return PeerReport(
        address=link.address,
        subnets=link.subnets,
        server=server,
        state=link.state if stuck_seconds is None else link.stuck_state(stuck_seconds, backlog_bytes),
        letters_waiting=waiting,
        faults=dict(sorted(counted.items())),
        life=life,
        why="" if watch is None else watch.why,
        phi=0.0 if watch is None else watch.phi(now),
        last_heard_seconds=watch.silence(now) if watch is not None and watch.was_heard else None,
        round_trip_seconds=round_trip_seconds,
        via=link.via,
        relayed=relayed,
        release="" if met is None else met.release,
        protocol_version=0 if met is None else met.protocol_version,
        called_at=link.called_at if link.is_direct and link.called_at != link.address else "",
        backlog_bytes=backlog_bytes,
        stuck_seconds=stuck_seconds,
    )


class Complaints:
    """Writes what an operator should know about addresses of the table, each thing once while it lasts."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: dict[str, set[GoodbyeReason]] = {}

    def say_once(self, about: str, reason: GoodbyeReason, line: str) -> None:
        """Say a line, unless one was said about the same for the same reason."""
        said = self._said.setdefault(about, set())
        if reason not in said:
            said.add(reason)
            self._say(line)

    def settle(self, about: str) -> None:
        """Learn that there is nothing to complain of any more: the next complaint is said again."""
        self._said.pop(about, None)
