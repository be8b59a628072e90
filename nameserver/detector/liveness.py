"""Judge whether another server is there, from its frames and the state of its connection.

                  session opened
    SUSPECTED -------------------------> UP --- silent for longer than it should be, or connection lost --> SUSPECTED
        |                                 ^                                                                     |
        |                                 +------------------------- heard, or session opened ------------------+
        +--> LOST: phi, with the acceptable pause, reaches the threshold; nothing answers at its address for
             RESTART_SECONDS; or it says that it does not hear this server (a link must carry both ways), or that it
             cannot write its database

                          goodbye with a grace                      not back in time
    UP or SUSPECTED ------------------------> RESTARTING ------------------------------> STOPPED

A lost connection is a hint. A new connection is tried at once, and if it opens in time, the server was not lost. A
server that announces its end is STOPPED at once, unless it asks its peers to wait. LOST and STOPPED last until a
session is opened. A server that cannot write keeps its session, and is LOST until it reports over any session that it
can write. This module reads no clock. Times are waking seconds (`awake_clock.py`).
"""

from __future__ import annotations

from enum import StrEnum

from nameserver.detector.phi import DetectorLimits, PhiAccrual

RESTART_SECONDS = 2.0
"""Longest silence of an address before its server is lost: enough for a process that is started again."""


SILENT = "no heartbeat for "
"""Beginning of the reason of a silence."""


class Life(StrEnum):
    """State of another server, as this server judges it."""

    NEVER_MET = "never met"
    UP = "up"
    ONE_WAY = "one way"
    """Up, and it dials this server, but no call reaches it. Only reports have this state."""
    SUSPECTED = "suspected"
    RESTARTING = "restarting"
    """The server announced its end and its return. Peers wait for it."""
    LOST = "lost"
    STOPPED = "stopped"
    """Lost after the server announced its end."""


class Liveness:
    """State of one server that was met, during this run or before it."""

    def __init__(self, limits: DetectorLimits, now: float) -> None:
        self.life = Life.SUSPECTED
        self.why = "it was not reached since this server started"
        """Reason of the state in one line. Empty while the server is up."""
        self.was_heard = False
        """True if the server was heard since this server started."""
        self.cannot_write = ""
        """Reason why the server cannot write its database, as it last reported. Empty while it can."""
        self._limits = limits
        self._arrivals = PhiAccrual(limits, now)
        self._is_met = False
        self.is_leaving = False
        """True if the server has announced its end and its return."""
        self._back_by = 0.0
        """End of the wait for a restarting server."""
        self._begun = now
        self._refused_since: float | None = None
        """Time since which no dial of the server's address was answered.

        None if the address has answered, or was not dialled.
        """

    def opened(self, now: float) -> bool:
        """Note an open session. Return True if the server is met: not while it reports that it cannot write."""
        self._arrivals.resume(now)
        self._refused_since = None
        self.is_leaving = False
        self._is_met = self.was_heard = True
        if self.cannot_write:
            self.life, self.why = Life.LOST, self.cannot_write
        else:
            self.life, self.why = Life.UP, ""
        return not self.cannot_write

    def says_of_writing(self, cannot_write: str) -> bool:
        """Note the server's report on its database.

        Return True if the report differs from the last one.

        `cannot_write`: reason why the server cannot write. Empty if it can.
        """
        if cannot_write == self.cannot_write:
            return False
        self.cannot_write = cannot_write
        if cannot_write:
            self.life, self.why = Life.LOST, cannot_write
        else:
            self.life, self.why = Life.UP, ""
        return True

    def heard(self, now: float) -> None:
        """Note a frame that came over the open session."""
        self._arrivals.arrived(now)

    def parted(self, why: str) -> None:
        """Note the end of the session."""
        self._is_met = self.is_leaving = False
        if not self.is_gone and self.life is not Life.RESTARTING:
            self.life, self.why = Life.SUSPECTED, why

    def refused(self, now: float, why: str) -> None:
        """Note that the dialled address did not answer, or that no server there would talk to this server."""
        if self._is_met:
            return
        if self._refused_since is None:
            self._refused_since = now
        if not self.is_gone and self.life is not Life.RESTARTING:
            self.why = why

    def unanswered(self) -> None:
        """Note that the dialled address may have a server, which has not answered yet."""
        self._refused_since = None

    @property
    def is_coming_back(self) -> bool:
        """True if peers wait for the server's announced return."""
        return self.is_leaving or self.life is Life.RESTARTING

    def leaves(self) -> None:
        """Note the server's announcement that it will end and come back."""
        self.is_leaving = not self.is_gone

    def restarts(self, now: float, grace_seconds: float, why: str) -> None:
        """Note that the server has ended, and asks its peers to wait `grace_seconds`."""
        self._is_met = self.is_leaving = False
        self._back_by = now + grace_seconds
        self.life, self.why = Life.RESTARTING, why

    @property
    def is_gone(self) -> bool:
        """True if the server has been given up. No update waits for it."""
        return self.life in (Life.LOST, Life.STOPPED)

    def stop(self, why: str) -> None:
        """Note that the server announced its end."""
        self._is_met = self.is_leaving = False
        self.life, self.why = Life.STOPPED, why

    def lose(self, why: str) -> None:
        """Set the server lost, whatever was heard of it."""
        self._is_met = self.is_leaving = False
        self.life, self.why = Life.LOST, why

    def silence(self, now: float) -> float:
        """Return the seconds since the server was heard."""
        return self._arrivals.silence(now)

    def phi(self, now: float) -> float:
        """Return the phi that is compared with the threshold."""
        return self._arrivals.phi(now, pause=self._limits.acceptable_pause_seconds)

    def is_worth_a_tunnel(self, now: float) -> bool:
        """Return True if half of the acceptable pause is over. A tunnel can then still be found in time."""
        half = self._limits.acceptable_pause_seconds / 2
        return self._is_met and self._arrivals.phi(now, pause=half) >= self._limits.threshold

    def look(self, now: float) -> bool:
        """Judge the server anew. Return True if it was lost by this call."""
        if self.is_gone and not self._is_met:
            return False
        if self.life is Life.RESTARTING:
            if now < self._back_by:
                return False
            self.stop(f"{self.why}, and is not back")
            return True
        if not self.was_heard and now - self._begun < self._limits.restart_grace_seconds:
            return False
        if self._refused_since is not None and now - self._refused_since >= RESTART_SECONDS:
            self.lose(self.why)
        elif self.phi(now) >= self._limits.threshold:
            silence = f"{SILENT}{self.silence(now):.1f} s"
            has_cause = self.why and not self._is_met and not self.why.startswith(SILENT)
            self.lose(f"{silence}: {self.why}" if has_cause else silence)
        elif self._is_met and not self.is_gone:
            is_late = self._arrivals.phi(now) >= self._limits.threshold
            self.life = Life.SUSPECTED if is_late else Life.UP
            self.why = f"{SILENT}{self.silence(now):.1f} s" if is_late else ""
        return self.life is Life.LOST and not self._is_met
