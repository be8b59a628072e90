"""A step in another thread, and the letters and receipts that must not leave meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from delivery.model.events import DeliveryEvent
from namegraph import Effects, Event, Lane, PeerMessage, PeerPosts, PeerRestored, Restored, ServerId
from nameserver.driver.gc_tuning import keep_apart, paused_collector
from nameserver.driver.group_commit import Flow
from nameserver.driver.ports import Core, SeenState

LARGE_LETTER_BYTES = 256 * 1024
"""Size of a large letter. Such a letter makes tens of thousands of objects."""

MANY_ROWS = 20_000
"""Changed nodes and arcs of a large step. Such a step has made as many lasting objects."""


@dataclass(frozen=True)
class Unfinished:
    """A step in another thread, while it runs."""

    event: Event | DeliveryEvent
    """Event of the step."""
    left_through: dict[Flow, int]
    """Last letter to each server that could leave before the step. No entry if letters are numbered anew."""
    handled_through: dict[Flow, int]
    """Last letter of each server that was handled before the step. No entry if letters are numbered anew."""

    def first_held(self, receiver: ServerId, lane: Lane) -> int:
        """Return the number of the first letter that the step may have written."""
        return self.left_through.get(Flow(receiver, lane), 0) + 1

    def comes_from(self, peer: ServerId) -> bool:
        """Return True if the step handles letters of a server."""
        posts = self.event.posts if isinstance(self.event, PeerPosts) else (self.event,)
        return any(isinstance(each, PeerMessage) and each.sender == peer for each in posts)


def about_to_begin(core: Core, event: Event | DeliveryEvent) -> Unfinished:
    """Return the numbers that hold back letters and receipts while a step runs."""
    servers = [each for each in (*core.servers_met, core.server) if not numbers_anew(event, each)]
    channels = {lane: core.channels_of(lane) for lane in Lane}
    flows = [Flow(server, lane) for lane in Lane for server in servers]
    return Unfinished(
        event,
        {flow: channels[flow.lane].left_through(flow.server) for flow in flows},
        {flow: channels[flow.lane].handled_through(flow.server) for flow in flows},
    )


def may_take_long(seen: SeenState, event: Event | DeliveryEvent) -> bool:
    """Return True if an event's step may take long. Parcels have limits, so events of messages take milliseconds."""
    return not isinstance(event, DeliveryEvent) and seen.may_take_long(event)


def changes(seen: SeenState, event: Event | DeliveryEvent) -> bool:
    """Return False if an event's step changes nothing that readers see."""
    return not isinstance(event, DeliveryEvent) and seen.changes(event)


def carry_out(core: Core, event: Event | DeliveryEvent, now: float) -> Effects:
    """Take the step in the calling thread. The collector is off meanwhile."""
    with paused_collector():
        effects = core.step(event, now)
        if _brings_much(event) or effects.records.graph_row_count() > MANY_ROWS:
            keep_apart()
        return effects


def numbers_anew(event: Event | DeliveryEvent, peer: ServerId) -> bool:
    """Return True if a step numbers the letters to and from a server anew."""
    return isinstance(event, Restored) or (isinstance(event, PeerRestored) and event.peer == peer)


def _brings_much(event: Event | DeliveryEvent) -> bool:
    return isinstance(event, PeerMessage) and len(event.encoded) > LARGE_LETTER_BYTES
