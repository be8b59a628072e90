"""The phases of the view that a server is in, and what ends each.

                     all have suspended          all have reconciled
    FIRST    SUSPENDING ----------------> HEALING ----------------> HEALED
      \\         ^  INSTALLED, from every phase                        /
       +--------+-------------------------<--------------------------+

    event         FIRST         SUSPENDING    HEALING       HEALED
    INSTALLED     SUSPENDING    SUSPENDING    SUSPENDING    SUSPENDING
    OPENED        -             HEALING       -             -
    RECONCILED    -             -             HEALED        -            -: ignored

A server that accepts another view gives up the one it is in (`ServerContext.view_change_in_progress`). No update of the
given up view goes on, and only the installation of a promised view ends that. Reads go on: to them the phase stays what
it was.
"""

from __future__ import annotations

from enum import Enum, auto


class ViewEvent(Enum):
    """What leads from one phase of a view to another."""

    INSTALLED = auto()
    """The members of a promised view have accepted it."""
    OPENED = auto()
    """All origins have suspended the arcs between them."""
    RECONCILED = auto()
    """All members have settled what was done while they were apart."""


class ViewPhase(Enum):
    """How far the servers of a view are with becoming one."""

    FIRST = auto()
    """No server was ever lost: all that meet are in one view."""
    SUSPENDING = auto()
    """Arcs to servers that were in another view are being suspended: no update of a client begins."""
    HEALING = auto()
    """Updates begin. An arc may be known to one of its ends alone, because of what was done while they were apart."""
    HEALED = auto()
    """Both ends of every arc within the view know the same of it."""

    def after(self, event: ViewEvent) -> ViewPhase | None:
        """The phase that an event leads to; None where the event has no meaning in this phase."""
        return _AFTER.get((self, event))


_AFTER = {
    **{(phase, ViewEvent.INSTALLED): ViewPhase.SUSPENDING for phase in ViewPhase},
    (ViewPhase.SUSPENDING, ViewEvent.OPENED): ViewPhase.HEALING,
    (ViewPhase.HEALING, ViewEvent.RECONCILED): ViewPhase.HEALED,
}
