"""A step that is carried out in another thread, and what must not leave meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from delivery.model.events import DeliveryEvent
from namegraph import Effects, Event, Lane, PeerMessage, PeerPosts, PeerRestored, Restored, ServerId
from nameserver.driver.gc_tuning import keep_apart, paused_collector
from nameserver.driver.group_commit import Flow
from nameserver.driver.ports import Core, LongSteps

LARGE_LETTER_BYTES = 256 * 1024
"""A letter of this size makes tens of thousands of objects."""

MANY_ROWS = 20_000
"""A step that changes so many nodes and arcs has made as many objects that stay."""


@dataclass(frozen=True)
class Unfinished:
    """Such a step, while it goes on."""

    event: Event | DeliveryEvent
    """What it is about."""
    left_through: dict[Flow, int]
    """To others: the last letter that could leave before it; none where letters are numbered anew."""
    handled_through: dict[Flow, int]
    """From others: the last letter that was handled before it; none where letters are numbered anew."""

    def first_held(self, receiver: ServerId, lane: Lane) -> int:
        """The number of the first letter that may be of this step."""
        return self.left_through.get(Flow(receiver, lane), 0) + 1

    def comes_from(self, peer: ServerId) -> bool:
        """Whether letters of a server are handled in it."""
        posts = self.event.posts if isinstance(self.event, PeerPosts) else (self.event,)
        return any(isinstance(each, PeerMessage) and each.sender == peer for each in posts)


def about_to_begin(core: Core, event: Event | DeliveryEvent) -> Unfinished:
    """What is not to leave while a step goes on."""
    servers = [each for each in (*core.servers_met, core.server) if not numbers_anew(event, each)]
    channels = {lane: core.channels_of(lane) for lane in Lane}
    flows = [Flow(server, lane) for lane in Lane for server in servers]
    return Unfinished(
        event,
        {flow: channels[flow.lane].left_through(flow.server) for flow in flows},
        {flow: channels[flow.lane].handled_through(flow.server) for flow in flows},
    )


def may_take_long(long_steps: LongSteps, event: Event | DeliveryEvent) -> bool:
    """Parcels have limits, so what concerns messages alone takes milliseconds."""
    return not isinstance(event, DeliveryEvent) and long_steps.may_take_long(event)


def carry_out(core: Core, event: Event | DeliveryEvent, now: float) -> Effects:
    """Take the step, in whichever thread; what it makes is not looked through for garbage."""
    with paused_collector():
        effects = core.step(event, now)
        if _brings_much(event) or effects.records.graph_row_count() > MANY_ROWS:
            keep_apart()
        return effects


def numbers_anew(event: Event | DeliveryEvent, peer: ServerId) -> bool:
    """Whether a step numbers the letters to and from a server anew."""
    return isinstance(event, Restored) or (isinstance(event, PeerRestored) and event.peer == peer)


def _brings_much(event: Event | DeliveryEvent) -> bool:
    return isinstance(event, PeerMessage) and len(event.encoded) > LARGE_LETTER_BYTES
