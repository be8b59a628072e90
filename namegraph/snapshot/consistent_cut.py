"""A cut: one instant of all servers, at which each of them lets others read its state.

An update without operations that affects everything: its turn comes at each server when all before it are done, and
no later one goes on meanwhile. Then, in the manner of Chandy and Lamport:

    turn --> all letters sent before it are received --> Ready        so every record that was sent is there
    all ready --> TakeCut --> the cut is now; TakeCut to all others before anything else

so that nothing that comes after the cut at one server is known before it at another. The step that takes a cut begins
no turn, so that it ends with the state of the cut.

Source: protocol.md section 5; Chandy and Lamport, Distributed Snapshots (1985).
"""

from __future__ import annotations

from collections.abc import Iterable

from namegraph.model.names import ServerId
from namegraph.state.reliable_channels import Channels
from namegraph.wire.message_parts import UpdateId


class MarkersPending:
    """Cuts whose turn has come at this server, and what must be received before it is ready."""

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._through: dict[UpdateId, dict[ServerId, int]] = {}

    def __bool__(self) -> bool:
        return bool(self._through)

    def add(self, cuts: Iterable[UpdateId], servers: Iterable[ServerId]) -> None:
        """The turn of these has come; all letters of the step are numbered by now."""
        for update_id in cuts:
            self._through[update_id] = {server: self._channels.sent_through(server) for server in servers}

    def take_ready(self) -> list[UpdateId]:
        """Those for which everything was received; they wait no longer."""
        received = self._channels.forgotten_through
        found = [
            update_id
            for update_id, through in self._through.items()
            if all(received(server) >= number for server, number in through.items())
        ]
        for update_id in found:
            del self._through[update_id]
        return found
