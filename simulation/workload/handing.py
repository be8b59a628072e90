"""Hands endpoints the messages of the log and of memory, and records all of them in the history.

    Subscribed --begin--> a stream --hand, hand_from_memory--> gaps, and items in order

An item for a gateway is recorded for each process that the gateway serves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from delivery.core import DeliveryCore
from delivery.mailboxes.subscription_read import Item, gap, read
from delivery.model.words import EVERYTHING, Filter, Kept, Position, is_pattern
from delivery.volatile.in_memory import POSITIONS_OF_START
from namegraph import ServerId
from simulation.cluster.cluster import Cluster
from simulation.history import recorded
from simulation.history.recorded import SubscriptionId
from simulation.oracle.violation import InvariantViolatedError
from simulation.workload.kept_in_memory import KeptInMemory
from simulation.workload.readers import Readers, served_by

NOTHING_HANDED = Position(0, -1)

ALL_ITEMS = 1_000_000
"""Number of items above any number that a mailbox holds."""


@dataclass(slots=True)
class SimulatedEndpoint:
    """An endpoint that listens for a process."""

    subscription: SubscriptionId
    mailbox: int = 0
    epoch: int = 0
    stream: int = 0
    handed: Position = NOTHING_HANDED
    ticket: int = 0
    is_open: bool = False
    wanted: Filter = EVERYTHING
    is_ephemeral: bool = False
    """True for an ephemeral endpoint. Its history is that of a mailbox of its own, open while the endpoint lasts."""
    in_memory: Position = NOTHING_HANDED
    """Last item handed from memory, as `handed` is for the log."""
    told_in_memory: Position = NOTHING_HANDED
    """Position in memory through which the endpoint has acknowledged."""
    known_in_memory: Position = NOTHING_HANDED
    """Position in memory through which the history knows of an acknowledgement."""


class Handing:
    """Hands the endpoints of one cluster their messages."""

    def __init__(
        self,
        cluster: Cluster,
        readers: Readers,
        memory: KeptInMemory,
        *,
        note: Callable[[recorded.Happening], None],
        tally: Counter[str],
    ) -> None:
        """Create the handing. `note`: adds an event to the history."""
        self._cluster, self._readers, self._memory = cluster, readers, memory
        self._note, self._tally = note, tally
        self._streams = 0
        self._position_of: dict[tuple[SubscriptionId, str], Position] = {}
        """Position at which a gateway was handed each message. A message is one item, unless part of it comes late."""

    def goes_back(self, server: ServerId) -> None:
        """Forget the positions of a server that starts on an older disk: it may give its items other positions."""
        for each in [each for each in self._position_of if each[0].server == server]:
            del self._position_of[each]

    def begin(
        self, endpoint: SimulatedEndpoint, mailbox: int, epoch: int, *, cursor: Position, in_memory: Position
    ) -> None:
        """Begin a stream behind a cursor in the log, and behind a cursor in memory."""
        self._streams += 1
        if endpoint.mailbox != mailbox:
            endpoint.known_in_memory = NOTHING_HANDED
        endpoint.mailbox, endpoint.epoch, endpoint.stream = mailbox, epoch, self._streams
        endpoint.handed, endpoint.is_open = cursor, True
        sought = cursor if endpoint.is_ephemeral else None
        for one in self._readers.read_by(endpoint.subscription):
            self._note(recorded.StreamBegan(self._at, one, endpoint.stream, sought, wanted=endpoint.wanted))
        self._begin_in_memory(endpoint, in_memory)

    def _begin_in_memory(self, endpoint: SimulatedEndpoint, cursor: Position) -> None:
        known, is_again = endpoint.known_in_memory, endpoint.known_in_memory > NOTHING_HANDED
        of_start, began = (place.entry // POSITIONS_OF_START for place in (known, cursor))
        if is_again and of_start == began and cursor > max(known, endpoint.told_in_memory):
            what = f"{endpoint.subscription} goes on behind {cursor} of what is in memory, which is not acknowledged"
            if self._cluster.servers[endpoint.subscription.server].delivery.in_memory.log.cut < cursor.entry - 1:
                raise InvariantViolatedError(f"messages: {what}")
        endpoint.in_memory = cursor
        if not is_again or of_start == began:
            endpoint.known_in_memory = cursor
        for one in self._readers.read_by(endpoint.subscription):
            of_memory = one._replace(kept=Kept.MEMORY)
            sought = cursor if endpoint.is_ephemeral else None
            if not endpoint.is_ephemeral and endpoint.known_in_memory == cursor:
                self._note(recorded.Acknowledged(self._at, of_memory, cursor))
            self._note(recorded.StreamBegan(self._at, of_memory, endpoint.stream, sought, wanted=endpoint.wanted))
        if is_again and of_start != began:
            endpoint.in_memory = known
            self._tell_gap_in_memory(endpoint, cursor)
            endpoint.known_in_memory = cursor
            # The endpoint knows of the gap, and the server has its cursor behind it: a later start tells of newer gaps
            # only.
            for one in () if endpoint.is_ephemeral else self._readers.read_by(endpoint.subscription):
                self._note(recorded.Acknowledged(self._at, one._replace(kept=Kept.MEMORY), cursor))

    def hand_all(self, endpoint: SimulatedEndpoint) -> None:
        """Hand out all items. Of memory, only the items that the server has released count."""
        self.hand(endpoint, at_most=ALL_ITEMS)
        self.hand_from_memory(endpoint, at_most=ALL_ITEMS)

    def hand(self, endpoint: SimulatedEndpoint, *, at_most: int) -> None:
        """Hand out up to `at_most` items that are durable in the log."""
        server = endpoint.subscription.server
        core, log = self._cluster.servers[server].delivery, self._cluster.log_of(server)
        through = gap(endpoint.handed, cut=core.log.cut)
        if through is not None:
            for one in self._readers.read_by(endpoint.subscription):
                self._note(recorded.GapTold(self._at, one, endpoint.stream, endpoint.handed, through))
            endpoint.handed = through
        records = [log[position] for position in sorted(log) if position >= endpoint.handed.entry]
        for end, items, _ in read(
            records, endpoint.mailbox, core.audiences, after=endpoint.handed, wanted=endpoint.wanted
        ):
            self._tell_hole(endpoint, core, before=end.entry - 1)
            for item in items:
                if not at_most:
                    return
                at_most -= 1
                self._note_handed(endpoint, item)
                endpoint.handed = item.position
            endpoint.handed = max(endpoint.handed, end)

    def _tell_hole(self, endpoint: SimulatedEndpoint, core: DeliveryCore, *, before: int) -> None:
        """Pass over entries missing from the middle of the log, if the endpoint stands before them."""
        first, through = endpoint.handed.entry, Position.before(before)
        if first < before:
            if core.log.lost(first, before - 1, lambda audience: core.audiences.is_for(audience, endpoint.mailbox)):
                for one in self._readers.read_by(endpoint.subscription):
                    self._note(recorded.GapTold(self._at, one, endpoint.stream, endpoint.handed, through))
            endpoint.handed = through

    def hand_from_memory(self, endpoint: SimulatedEndpoint, *, at_most: int) -> None:
        """Hand out up to `at_most` items that are kept in memory."""
        server = endpoint.subscription.server
        in_memory = self._cluster.servers[server].delivery.in_memory
        overrun = gap(endpoint.in_memory, cut=in_memory.log.cut)
        if overrun is not None:
            self._tell_gap_in_memory(endpoint, overrun)
        records = in_memory.entries(endpoint.in_memory.entry - 1, self._memory.ring_through[server])
        for end, items, lost in read(
            records, endpoint.mailbox, in_memory.audiences, after=endpoint.in_memory, wanted=endpoint.wanted
        ):
            for item in items:
                if not at_most:
                    return
                at_most -= 1
                self._note_handed(endpoint, item, kept=Kept.MEMORY)
                endpoint.in_memory = item.position
            if lost:
                self._tell_gap_in_memory(endpoint, end)
            endpoint.in_memory = max(endpoint.in_memory, end)

    def _tell_gap_in_memory(self, endpoint: SimulatedEndpoint, through: Position) -> None:
        self._tally["gaps told of what is in memory"] += 1
        for one in self._readers.read_by(endpoint.subscription):
            of_memory = one._replace(kept=Kept.MEMORY)
            self._note(recorded.GapTold(self._at, of_memory, endpoint.stream, endpoint.in_memory, through))
        endpoint.in_memory = through

    def _note_handed(self, endpoint: SimulatedEndpoint, item: Item, *, kept: Kept = Kept.DURABLE) -> None:
        subscription, message_id = endpoint.subscription._replace(kept=kept), item.message_id
        readers = [subscription]
        if is_pattern(subscription.process):
            readers = [subscription._replace(process=served_by(subscription.process, who)) for who in item.recipients]
            self._tally["handed to gateways"] += 1
            is_again = self._position_of.setdefault((subscription, message_id), item.position) != item.position
            if not readers or len(set(readers)) < len(readers) or (is_again and not item.is_late):
                raise InvariantViolatedError(f"messages: {subscription} is handed {message_id} for {item.recipients}")
        for one in readers:
            what = (item.position, message_id, item.message.payload, item.is_late)
            self._note(recorded.MessageHanded(self._at, one, endpoint.stream, *what))
            self._tally["handed"] += 1
            self._tally["handed from memory"] += kept is Kept.MEMORY

    @property
    def _at(self) -> int:
        return self._cluster.instant
