"""The phases of a server's view, and the event that ends each.

                     all have suspended          all have reconciled
    FIRST    SUSPENDING ----------------> HEALING ----------------> HEALED
      \\         ^  INSTALLED, from every phase                        /
       +--------+-------------------------<--------------------------+

    event         FIRST         SUSPENDING    HEALING       HEALED
    INSTALLED     SUSPENDING    SUSPENDING    SUSPENDING    SUSPENDING
    OPENED        -             HEALING       -             -
    RECONCILED    -             -             HEALED        -            -: ignored

A server that accepts another view gives up its present view (`ServerContext.view_change_in_progress`). No update of
the abandoned view goes on; only the installation of a promised view ends that state. Reads go on as before, by the
unchanged phase.
"""

from __future__ import annotations

from enum import Enum, auto


class ViewEvent(Enum):
    """An event that leads from one phase of a view to another."""

    INSTALLED = auto()
    """The members of a promised view have accepted it."""
    OPENED = auto()
    """All origins have suspended the arcs between them."""
    RECONCILED = auto()
    """All members have settled the changes that were made while they were apart."""


class ViewPhase(Enum):
    """Progress of the servers of a view towards a common state."""

    FIRST = auto()
    """No server was ever lost: all servers that meet are in one view."""
    SUSPENDING = auto()
    """Arcs to servers that were in another view are being suspended. No update of a client begins."""
    HEALING = auto()
    """Updates begin. An arc may be known to one of its ends alone, because of changes while servers were apart."""
    HEALED = auto()
    """Both ends of every arc within the view know the same of it."""

    def after(self, event: ViewEvent) -> ViewPhase | None:
        """Return the phase to which an event leads. None if the event is ignored in this phase."""
        return _AFTER.get((self, event))


_AFTER = {
    **{(phase, ViewEvent.INSTALLED): ViewPhase.SUSPENDING for phase in ViewPhase},
    (ViewPhase.SUSPENDING, ViewEvent.OPENED): ViewPhase.HEALING,
    (ViewPhase.HEALING, ViewEvent.RECONCILED): ViewPhase.HEALED,
}
