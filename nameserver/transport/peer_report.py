"""Reports on other servers for operators, and counts of the faults of other servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

from delivery.origin.backlogs import Unconfirmed
from namegraph import Channels, GivenUp, ServerId, Subnet
from nameserver.detector.liveness import Life, Liveness
from nameserver.session.frames import GoodbyeReason, Hello
from nameserver.transport.peer_link import Link


@dataclass(frozen=True, slots=True)
class PeerReport:
    """Report on one address of the table."""

    address: str
    subnets: tuple[Subnet, ...]
    server: ServerId | None
    """Server at the address. None if it was never met."""
    state: str
    letters_waiting: int
    faults: Mapping[str, int]
    """Number of faults by kind, sorted."""
    life: Life
    why: str
    """Reason why the server is suspected or lost. Empty otherwise."""
    phi: float
    last_heard_seconds: float | None
    """Seconds since the server was heard. None if it was not heard since this server started."""
    round_trip_seconds: float | None
    """Last round trip measured over the open session. None before the first."""
    via: ServerId | None
    """Server through which it is connected. None if the connection is direct, or there is none."""
    relayed: int
    """Pieces that the server sent through tunnels here to other servers since this server started."""
    release: str
    """Version of the server's program. Empty if unknown, or if it was not met since this server started."""
    protocol_version: int
    """Version of the protocol that both servers speak. 0 if it was not met since this server started."""
    called_at: str
    """Address to which calls go, if it is not `address`. Empty otherwise."""
    backlog_bytes: int
    """Memory here of messages that the server has not confirmed."""
    stuck_seconds: float | None
    """Time for which the server has been connected and confirmed no message. None if it is not stuck."""


@dataclass(frozen=True, slots=True)
class Met:
    """Facts that a server reported when it was last met."""

    start: int
    release: str
    protocol_version: int
    """Version that both servers speak."""

    @classmethod
    def of(cls, hello: Hello) -> Met:
        """Return the facts to keep of an accepted hello."""
        assert hello.agreed_version is not None
        return cls(hello.start, hello.release, hello.agreed_version)


class FaultCounts:
    """Numbers of faults of peers, by server."""

    def __init__(self) -> None:
        self._by_server: dict[ServerId, Counter[str]] = {}

    def count(self, server: ServerId, kind: str) -> None:
        """Count one fault."""
        self._by_server.setdefault(server, Counter())[kind] += 1

    def of(self, server: ServerId) -> Counter[str]:
        """Return the faults of one server."""
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
    mistrusted: GivenUp | None,
    step_now: float,
) -> PeerReport:
    """Return the report on one address.

    `server`: the server there. None if it was never met. `watch`: the watch of that server, and `now` the time on its
    clock. `unconfirmed`: messages for that server, on the clock of steps. `mistrusted`: reason for which this server
    takes no part in the updates of that one, on the same clock. `step_now`: the time on that clock.
    """
    waiting, counted = 0, Counter[str]()
    if server is not None:
        waiting = channels.sent_through(server) - channels.forgotten_through(server)
        counted = faults.of(server)
        for (culprit, kind), count in (*channels.faults.items(), *posts.faults.items()):
            if culprit == server:
                counted[kind] += count
    life = Life.NEVER_MET if watch is None else watch.life
    if life is Life.UP and link.is_connected and link.cannot_be_dialled and link.calls_via is None:
        life = Life.ONE_WAY
    is_stuck = unconfirmed is not None and link.is_connected and unconfirmed.is_stuck(step_now)
    stuck_seconds = step_now - unconfirmed.since if is_stuck and unconfirmed is not None else None
    backlog_bytes = 0 if unconfirmed is None else unconfirmed.size
    state = link.state if stuck_seconds is None else link.stuck_state(stuck_seconds, backlog_bytes)
    if mistrusted is not None and link.is_connected:
        seconds = ceil(mistrusted.until - step_now)
        state = f"{state}, but it {mistrusted.why}; its updates are refused for {seconds} s"
    return PeerReport(
        address=link.address,
        subnets=link.subnets,
        server=server,
        state=state,
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
    """Lines for operators about addresses of the table. Each line is written once while its cause lasts."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._said: dict[str, set[GoodbyeReason]] = {}

    def say_once(self, about: str, reason: GoodbyeReason, line: str) -> None:
        """Write a line, unless a line about the same address and reason was written."""
        said = self._said.setdefault(about, set())
        if reason not in said:
            said.add(reason)
            self._say(line)

    def settle(self, about: str) -> None:
        """Note that the cause of complaints is over. The next complaint is written again."""
        self._said.pop(about, None)
