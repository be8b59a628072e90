"""Judges whether another server is there: what is heard of it, and what its connection tells.

                  session opened
    SUSPECTED -------------------------> UP --- silent for longer than it should be, or connection lost --> SUSPECTED
        |                                 ^                                                                     |
        |                                 +------------------------- heard, or session opened ------------------+
        +--> LOST: phi, with the acceptable pause, reaches the threshold; nothing answers at its address for
             RESTART_SECONDS; or it says that it does not hear this server (a link must carry both ways), or that it
             cannot write its database

                          goodbye with a grace                      not back in time
    UP or SUSPECTED ------------------------> RESTARTING ------------------------------> STOPPED

A lost connection is a hint: a new one is tried at once, and if that works in time, nothing was lost. A server that says
that it ends is STOPPED at once, unless it asks to be waited for. LOST and STOPPED last until a session is opened. A
server that cannot write keeps its session, and is LOST until it says, over this session or another one, that it can.
Nothing here reads a clock; times are waking seconds (`waking`).
"""

from __future__ import annotations

from enum import StrEnum

from nameserver.detector.phi import DetectorLimits, PhiAccrual

RESTART_SECONDS = 2.0
"""How long the address of a server may stay silent: enough for a process that is started again."""


SILENT = "no heartbeat for "
"""Begins the reason of a silence."""


class Life(StrEnum):
    """The state of a server, as this one judges it."""

    NEVER_MET = "never met"
    UP = "up"
    ONE_WAY = "one way"
    """Up, and it dials this server, but no call reaches it. Only reports say so."""
    SUSPECTED = "suspected"
    RESTARTING = "restarting"
    """It was told to end, said so, and that it comes back: it is waited for."""
    LOST = "lost"
    STOPPED = "stopped"
    """Lost, because it was told to end, and said so."""


class Liveness:
    """One server that was met, now or before this one started."""

    def __init__(self, limits: DetectorLimits, now: float) -> None:
        self.life = Life.SUSPECTED
        self.why = "it was not reached since this server started"
        """In one line; empty while it is up."""
        self.was_heard = False
        """Whether it was heard of since this server started."""
        self.cannot_write = ""
        """Why it cannot write its database, as it last said; empty while it can."""
        self._limits = limits
        self._arrivals = PhiAccrual(limits, now)
        self._is_met = False
        self.is_leaving = False
        """Whether it has said that it will end, and come back."""
        self._back_by = 0.0
        """Until when it is waited for, while it restarts."""
        self._begun = now
        self._refused_since: float | None = None
        """From when until when it said that it might be silent."""

    def opened(self, now: float) -> bool:
        """A session with it is open; returns whether it is met: not while it cannot write, as it last said."""
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
        """It says why it cannot write its database, or that it can (an empty text); returns whether that is news."""
        if cannot_write == self.cannot_write:
            return False
        self.cannot_write = cannot_write
        if cannot_write:
            self.life, self.why = Life.LOST, cannot_write
        else:
            self.life, self.why = Life.UP, ""
        return True

    def heard(self, now: float) -> None:
        """It sent something over the open session."""
        self._arrivals.arrived(now)

    def parted(self, why: str) -> None:
        """The session has ended."""
        self._is_met = self.is_leaving = False
        if not self.is_gone and self.life is not Life.RESTARTING:
            self.life, self.why = Life.SUSPECTED, why

    def refused(self, now: float, why: str) -> None:
        """The address was dialled: nothing answered, or nothing that would talk to this server."""
        if self._is_met:
            return
        if self._refused_since is None:
            self._refused_since = now
        if not self.is_gone and self.life is not Life.RESTARTING:
            self.why = why

    def unanswered(self) -> None:
        """The address was dialled; a server may be there, and has not answered yet."""
        self._refused_since = None

    @property
    def is_coming_back(self) -> bool:
        """Whether it has said that it ends and comes back, and is waited for."""
        return self.is_leaving or self.life is Life.RESTARTING

    def leaves(self) -> None:
        """It says that it will end, and come back."""
        self.is_leaving = not self.is_gone

    def restarts(self, now: float, grace_seconds: float, why: str) -> None:
        """It has ended, and asks to be waited for."""
        self._is_met = self.is_leaving = False
        self._back_by = now + grace_seconds
        self.life, self.why = Life.RESTARTING, why

    @property
    def is_gone(self) -> bool:
        """Whether it has been given up: no update waits for it."""
        return self.life in (Life.LOST, Life.STOPPED)

    def stop(self, why: str) -> None:
        """It was told to end, and said so."""
        self._is_met = self.is_leaving = False
        self.life, self.why = Life.STOPPED, why

    def lose(self, why: str) -> None:
        """It is lost, whatever was heard."""
        self._is_met = self.is_leaving = False
        self.life, self.why = Life.LOST, why

    def silence(self, now: float) -> float:
        """For how many seconds nothing was heard of it."""
        return self._arrivals.silence(now)

    def phi(self, now: float) -> float:
        """What is compared with the threshold."""
        return self._arrivals.phi(now, pause=self._limits.acceptable_pause_seconds)

    def is_worth_a_detour(self, now: float) -> bool:
        """Whether half of the pause is over: if there is another way, it can still be found in time."""
        half = self._limits.acceptable_pause_seconds / 2
        return self._is_met and self._arrivals.phi(now, pause=half) >= self._limits.threshold

    def look(self, now: float) -> bool:
        """Judge anew; returns whether it was lost just now."""
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
