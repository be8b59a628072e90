"""What readers see of a core: its state between steps, also while a long step is under way in another thread.

    loop's thread     hold --> reads, of the state before --> let_go
    another thread        \\--- step, which changes the core ---/

What is held shares all that the step does not change (`NameGraph.hold`), so that holding takes a few milliseconds and
little memory, however large the graph is. Between steps readers see the core itself.
"""

from __future__ import annotations

from copy import copy

from namegraph.core_reads import CoreReads
from namegraph.events import (
    Event,
    ImportCommand,
    PeerLost,
    PeerMessage,
    PeerMet,
    PeerReceived,
    PeerRestored,
    Restored,
    RetirePeer,
    Tick,
)
from namegraph.server_core import ServerCore

LONG_FROM_BYTES = 64 * 1024
"""A letter of this size makes thousands of objects."""

LONG_FROM_ARCS = 2_000
"""So many arcs between servers take more than some milliseconds when a view ends, or heals."""


class Committed(CoreReads):
    """A core as its readers see it."""

    def __init__(self, core: ServerCore) -> None:
        self._core = core
        self._held_revision: str | None = None
        self._show_core()

    def may_take_long(self, event: Event) -> bool:
        """Whether the step of an event may take more than some milliseconds: then it is to leave the loop's thread."""
        core = self._core
        if isinstance(event, PeerReceived | Tick):
            return False
        if isinstance(event, ImportCommand) or core.has_large_updates:
            return True
        if isinstance(event, PeerMessage) and len(event.encoded) > LONG_FROM_BYTES:
            return True
        ends_view = isinstance(event, PeerLost | PeerMet | PeerRestored | Restored | RetirePeer)
        arcs_between_servers = len(core.records.leaving) + len(core.graph.suspended)
        return (ends_view or not core.is_steady) and arcs_between_servers > LONG_FROM_ARCS

    def hold(self) -> None:
        """Show the state as it is now until `let_go`."""
        core = self._core
        site = copy(core._site)
        site.__dict__.update({name: copy(value) for name, value in vars(site).items() if isinstance(value, dict)})
        self.graph = site.graph = core.graph.hold()
        site.ancestors = core.ancestors.hold(self.graph)
        self._site = site
        self.records = core.records.hold(site)
        self.entries = core.entries.hold(site, self.records)
        self._held_revision = core.revision

    def let_go(self) -> None:
        """Show the core itself again: its step is over."""
        self._core.graph.let_go()
        self._held_revision = None
        self._show_core()

    @property
    def revision(self) -> str:
        """Names the newest update that was committed here, or what is to be told instead."""
        return self._core.told_revision or self._held_revision or self._core.revision

    def _show_core(self) -> None:
        self.__dict__.update({name: value for name, value in vars(self._core).items() if name in _READ})


_READ = CoreReads.__annotations__.keys()
"""What reads rest on."""
