"""All other servers that were met, and the state of each, on the waking time of this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from namegraph import ServerId
from nameserver.detector.awake_clock import AwakeClock
from nameserver.detector.liveness import Life, Liveness
from nameserver.detector.phi import DetectorLimits

TICKS_PER_HEARTBEAT = 4
"""Looks in one interval: is a heartbeat due, is a server silent for too long?"""


class LivenessTable:
    """The state of each server. The owner calls `look` every `tick_seconds`, which makes the clock go."""

    def __init__(self, limits: DetectorLimits, clock: Callable[[], float]) -> None:
        """`clock` gives seconds and does not go back."""
        self.tick_seconds = limits.heartbeat_seconds / TICKS_PER_HEARTBEAT
        self._limits = limits
        self._clock = clock
        self._waking = AwakeClock(clock(), longest_step_seconds=2 * self.tick_seconds)
        self._watches: dict[ServerId, Liveness] = {}
        self._confirmed_at: dict[ServerId, float] = {}
        """By the clock, not by waking time: when this server last said what each is known to have heard."""
        self._view_of: dict[ServerId, str | None] = {}
        self._given_up_at: float | None = None
        """By the clock: when this server last said that it cannot write; None: never."""

    def __contains__(self, server: object) -> bool:
        return server in self._watches

    def now(self) -> float:
        """Waking seconds."""
        return self._waking.read(self._clock())

    def get(self, server: ServerId | None) -> Liveness | None:
        """The watch of a server, if there is one."""
        return None if server is None else self._watches.get(server)

    def of(self, server: ServerId) -> Liveness:
        """The watch of a server; begins now if it was not watched."""
        watch = self._watches.get(server)
        if watch is None:
            watch = self._watches[server] = Liveness(self._limits, self.now())
        return watch

    def life_of(self, server: ServerId) -> Life:
        """The state of a server."""
        watch = self._watches.get(server)
        return Life.NEVER_MET if watch is None else watch.life

    def heard(self, server: ServerId) -> None:
        """A server sent something over the open session."""
        self.of(server).heard(self.now())

    def confirmed(self, server: ServerId, at: float, view: str | None) -> None:
        """A server has heard what this one said then, and said so over the open session, and in which view it is."""
        self._confirmed_at[server], self._view_of[server] = at, view

    def says_that_this_one_cannot_write(self) -> None:
        """This server says that it cannot write: each peer that hears it has lost this server."""
        self._given_up_at = self._clock()

    def may_have_parted(self, server: ServerId, view: str) -> bool:
        """Whether a server may not be in this view any more, as far as is known here; pauses of this server count.

        It has not as long as it heard this one less than the acceptable pause and an interval ago. What
        it sent before this server was paused, and is read after that, proves nothing. Nor does what it says until it
        has heard that this server can write again.
        """
        watch, confirmed_at = self._watches.get(server), self._confirmed_at.get(server)
        if watch is None or confirmed_at is None or watch.life not in (Life.UP, Life.RESTARTING):
            return True
        if self._given_up_at is not None and confirmed_at <= self._given_up_at:
            return True
        # In the first view nobody needs to say so: it ends only where somebody is lost.
        if self._view_of[server] != view and (view or self._view_of[server]):
            return True
        if watch.life is Life.RESTARTING:
            # It was in this view when it said goodbye, and after its start it loses nobody for as long as it is waited
            # for here (`restart_grace_seconds`).
            return False
        limits = self._limits
        return self._clock() - confirmed_at > limits.acceptable_pause_seconds + limits.heartbeat_seconds

    def look(self) -> Iterator[tuple[ServerId, Liveness]]:
        """Judge all anew; gives those that were lost just now."""
        now = self.now()
        for server, watch in list(self._watches.items()):
            if watch.look(now):
                yield server, watch

    def forget_all_but(self, servers: Collection[ServerId]) -> None:
        """Forget servers that are gone and not among these."""
        for server in [server for server, watch in self._watches.items() if watch.is_gone]:
            if server not in servers:
                del self._watches[server]
