"""One server with both halves: the name graph, and messages to its groups. An event is one step and one transaction.

    event --> ServerCore.step --> the graph --> DeliveryCore.step --> records, letters, posts, answers of both

See docs/protocol-messages.md, "The way of a message".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from delivery.core import DeliveryCore
from delivery.model.agenda import Agenda
from delivery.model.events import Answer, DeliveryEvent
from delivery.model.reach import Reach
from delivery.snapshot import MessageSnapshot
from delivery.volatile.output import VolatileOutput
from delivery.wire.post_lanes import Post
from namegraph import (
    Channels,
    CoreQueries,
    DurableState,
    Effects,
    Event,
    LogRecord,
    PeerMessage,
    Records,
    ServerContext,
    ServerCore,
    Subnet,
)


@dataclass(frozen=True, slots=True)
class ServerEffects(Effects):
    """Effects of the name graph, with the answers of the delivery half, which also wait until the step is durable."""

    answers: list[Answer] = field(default_factory=list)
    unkept: list[VolatileOutput] = field(default_factory=list)
    """Volatile output. It leaves once the graph on which it depends is durable, and may be lost."""


class Server(ServerCore):
    """Both cores of one server."""

    delivery: DeliveryCore

    def _start(self, context: ServerContext, *, configured: Mapping[Subnet, str]) -> None:
        super()._start(context, configured=configured)
        self._stepped_at = 0.0
        assert isinstance(self.posts, Post)
        self.delivery = DeliveryCore(context.durable, context.server, self.posts, self._agenda)
        self.delivery.note_event = self.note_event

    def _make_posts(self, durable: DurableState) -> Channels:
        self._agenda = Agenda()
        return Post(durable, self._agenda)

    def _take_post(self, post: PeerMessage) -> None:
        """Keep a post for the delivery half, which handles it when its turn comes."""
        self.delivery.arrivals.keep(post)

    def begin_delivery(
        self, reach: Callable[[CoreQueries], Reach], stored: Iterable[LogRecord] = (), *, start: int = 0
    ) -> None:
        """Begin the delivery half. The caller must call it before the first step.

        `stored`: the entries of the log that `delivery.needed` names. `start`: a number that no other start of this
        server has, including starts that its database does not know. It rises from one start to the next, as far as the
        shell can tell.
        """
        core = self.delivery
        core.reach = reach(self)
        core.incarnation = self.incarnations.own
        core.datagrams.start = core.origin.begin_start(start)
        core.arrivals.foreign.start = core.origin.start
        core.in_memory.begin_start(core.origin.start)
        core.lost_ways.note(core.reach.servers_met())
        for record in stored:
            core.keep(record)

    def message_snapshot(self) -> MessageSnapshot:
        """Begin a snapshot of the message state. The caller must pass it the records of every step from now on."""
        core = self.delivery
        return MessageSnapshot(self.durable, log=core.log, mailboxes=core.mailboxes, reached=core.reached)

    def forget_at_once(self) -> None:
        """Forget old state and unneeded parcels as early as possible, for simulations.

        Audiences are computed over as many steps as possible.
        """
        super().forget_at_once()
        self.delivery.writer.items_of_a_step = 1
        self.delivery.log.cut_at_least = 1
        self.delivery.giving_up.slice_parcels = 1

    @property
    def next_deadline(self) -> float | None:
        """Time at which a `Tick` is needed, on the clock of `step`'s `now`: at once if a step left work."""
        if self.delivery.has_more:
            # No work was due before the step, or the step did it.
            return self._stepped_at
        deadlines = (super().next_deadline, self.delivery.next_deadline)
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def step(self, event: Event | DeliveryEvent, now: float) -> ServerEffects:
        """Handle one event. Return the effects that the shell must make durable and then let out."""
        effects = ServerEffects(Records())
        if not isinstance(event, DeliveryEvent):
            self._process(event, effects, now)
        self._stepped_at = now
        letters, answers = self.delivery.step(event, effects.records, now, self._context.renames.take_noted())
        effects.messages.extend(letters)
        effects.answers.extend(answers)
        effects.unkept.extend(self.delivery.take_unkept())
        self._context.change_log.take_rows(effects.records)
        effects.records.protocol += self.durable.take_rows()
        return effects
