"""A cut: one instant of all servers, at which each of them lets its state be read.

A cut is an update without operations that affects everything. Its turn comes at each server when all earlier
updates are done; no later update goes on meanwhile. Then, in the manner of Chandy and Lamport:

    turn --> all letters sent before it are received --> Ready        so every record that was sent is there
    all ready --> TakeCut --> the cut is now; TakeCut to all others before anything else

Nothing that comes after the cut at one server is therefore known before the cut at another server. The step that
takes a cut begins no turn, so that the step ends with the state of the cut.

Source: docs/protocol-updates.md, "Cuts"; Chandy and Lamport, Distributed Snapshots (1985).
"""

from __future__ import annotations

from collections.abc import Iterable

from namegraph.model.names import ServerId
from namegraph.state.reliable_channels import Channels
from namegraph.wire.message_parts import UpdateId


class MarkersPending:
    """Cuts whose turn has come at this server, with the letters that must be received before it is ready."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._through: dict[UpdateId, dict[ServerId, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._through)

    def add(self, cuts: Iterable[UpdateId], servers: Iterable[ServerId]) -> None:
        """Add cuts whose turn has come. All letters of the step are numbered by now."""
        for update_id in cuts:
            self._through[update_id] = {server: self._channels.sent_through(server) for server in servers}

    def take_ready(self) -> list[UpdateId]:
        """Remove and return the cuts for which all letters were received."""
        received = self._channels.forgotten_through
        found = [
            update_id
            for update_id, through in self._through.items()
            if all(received(server) >= number for server, number in through.items())
        ]
        for update_id in found:
            del self._through[update_id]
        return found
