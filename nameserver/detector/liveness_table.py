"""The states of all servers that were met, on the waking time of this process."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator

from namegraph import ServerId
from nameserver.detector.awake_clock import AwakeClock
from nameserver.detector.liveness import Life, Liveness
from nameserver.detector.phi import DetectorLimits

TICKS_PER_HEARTBEAT = 4
"""Looks in one heartbeat interval. Each look finds due heartbeats and servers that are silent for too long."""


class LivenessTable:
    """State of each server. The owner calls `look` every `tick_seconds`, which advances the clock."""

    def __init__(self, limits: DetectorLimits, clock: Callable[[], float]) -> None:
        """`clock` returns seconds and does not go back."""
        self.tick_seconds = limits.heartbeat_seconds / TICKS_PER_HEARTBEAT
        self._limits = limits
        self._clock = clock
        self._waking = AwakeClock(clock(), longest_step_seconds=2 * self.tick_seconds)
        self._watches: dict[ServerId, Liveness] = {}
        self._confirmed_at: dict[ServerId, float] = {}
        """Time of the newest frame of this server that each server has heard. By the clock, not by waking time."""
        self._view_of: dict[ServerId, str | None] = {}
        self._given_up_at: float | None = None
        """Time at which this server last announced that it cannot write, by the clock. None if it never did."""

    def __contains__(self, server: object) -> bool:
        return server in self._watches

    def now(self) -> float:
        """Return the waking seconds."""
        return self._waking.read(self._clock())

    def get(self, server: ServerId | None) -> Liveness | None:
        """Return the watch of a server. None if it is not watched."""
        return None if server is None else self._watches.get(server)

    def of(self, server: ServerId) -> Liveness:
        """Return the watch of a server. The watch begins now if there was none."""
        watch = self._watches.get(server)
        if watch is None:
            watch = self._watches[server] = Liveness(self._limits, self.now())
        return watch

    def life_of(self, server: ServerId) -> Life:
        """Return the state of a server."""
        watch = self._watches.get(server)
        return Life.NEVER_MET if watch is None else watch.life

    def heard(self, server: ServerId) -> None:
        """Note a frame of a server over the open session."""
        self.of(server).heard(self.now())

    def confirmed(self, server: ServerId, at: float, view: str | None) -> None:
        """Note a server's confirmation that it heard this server at time `at`, and the view that the server is in."""
        self._confirmed_at[server], self._view_of[server] = at, view

    def says_that_this_one_cannot_write(self) -> None:
        """Note that this server announces that it cannot write. Each peer that hears it has lost this server."""
        self._given_up_at = self._clock()

    def may_have_parted(self, server: ServerId, view: str) -> bool:
        """Return True if a server may have left this view, as far as this server knows.

        The server is still in the view if it heard this server less than the acceptable pause and one interval ago.
        Pauses of this server count. A frame sent before this server was paused, and read after the pause, proves
        nothing. A frame of a server that has not heard yet that this server can write again proves nothing either.
        """
        watch, confirmed_at = self._watches.get(server), self._confirmed_at.get(server)
        if watch is None or confirmed_at is None or watch.life not in (Life.UP, Life.RESTARTING):
            return True
        if self._given_up_at is not None and confirmed_at <= self._given_up_at:
            return True
        # In the first view no server names its view: the first view ends only when a server is lost.
        if self._view_of[server] != view and (view or self._view_of[server]):
            return True
        if watch.life is Life.RESTARTING:
            # The server was in this view when it said goodbye. After its start it loses no peer for as long as this
            # server waits for it (`restart_grace_seconds`).
            return False
        limits = self._limits
        return self._clock() - confirmed_at > limits.acceptable_pause_seconds + limits.heartbeat_seconds

    def look(self) -> Iterator[tuple[ServerId, Liveness]]:
        """Judge all servers anew. Yield the servers that were lost by this call."""
        now = self.now()
        for server, watch in list(self._watches.items()):
            if watch.look(now):
                yield server, watch

    def forget_all_but(self, servers: Collection[ServerId]) -> None:
        """Forget servers that are gone and not in `servers`."""
        for server in [server for server, watch in self._watches.items() if watch.is_gone]:
            if server not in servers:
                del self._watches[server]
