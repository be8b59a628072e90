"""One server with both halves: the name graph, and messages to its groups. One event is one step and one transaction.

    event --> ServerCore.step --> the graph --> DeliveryCore.step --> records, letters, posts, answers of both

Source: delivery.md section 3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from delivery.core import DeliveryCore
from delivery.events import Answer, DeliveryEvent
from delivery.post import Post
from delivery.reach import Reach
from namegraph import (
    CoreQueries,
    Effects,
    Event,
    Lane,
    LogRecord,
    PeerMessage,
    PeerReceived,
    Records,
    ServerContext,
    ServerCore,
    Subnet,
)


@dataclass(frozen=True, slots=True)
class ServerEffects(Effects):
    """As of the name graph, with what callers of the delivery half are told: durable first, too."""

    answers: list[Answer] = field(default_factory=list)


class Server(ServerCore):
    """Both cores of one server."""

    delivery: DeliveryCore
    posts: Post

    def _start(self, context: ServerContext, *, configured: Mapping[Subnet, str]) -> None:
        super()._start(context, configured=configured)
        self.delivery = DeliveryCore(context.durable, context.server)
        self.posts = self.delivery.post

    def begin_delivery(self, reach: Callable[[CoreQueries], Reach], stored: Iterable[LogRecord] = ()) -> None:
        """To be called before the first step. `stored`: the entries of the log that `delivery.needed` names."""
        self.delivery.reach = reach(self)
        self.delivery.origin.incarnation = self.incarnations.own
        for record in stored:
            self.delivery.keep(record)

    def step(self, event: Event | DeliveryEvent, now: float) -> ServerEffects:
        """Take one event in; return what the shell must make durable and then let out."""
        if isinstance(event, DeliveryEvent) or _is_of_post(event):
            found = Effects(Records())
        else:
            found = super().step(event, now)
        letters, answers = self.delivery.step(event, found.records)
        found.messages.extend(letters)
        found.records.protocol += self.durable.take_rows()
        return ServerEffects(found.records, found.replies, found.messages, found.cuts, answers)


def _is_of_post(event: Event) -> bool:
    return isinstance(event, PeerMessage | PeerReceived) and event.lane is Lane.POST
