"""Subscribe: hand the log to endpoints, each as far as its credit goes, and take their acknowledgements.

    first request: begin --> Subscribe --> cursor --> entries behind it --> is the mailbox in the audience? --> stream
    later requests: credit, acknowledged ---------------------------------> as much as there is credit for

A gateway is told the recipients before an entry, unless they are those of the previous entry. Each response therefore
has one audience.

An endpoint that reads nothing delays no other endpoint: it has its credit, and the rest waits in the log. Datagrams
come between responses, even if entries of the log are still to be read. A few datagrams that the endpoint does not take
wait, and the rest is dropped. Acknowledgements become durable in groups (`acknowledging.py`).

Source: docs/messages.md, "Listening"; docs/protocol-messages.md, "Log, audiences, mailboxes", "Datagrams" and "Limits
of messages".
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from delivery.mailboxes.subscription_read import EndpointPosition
from delivery.model.events import DeliveryRefused, Start, StopListening, Subscribe, Subscribed
from delivery.model.words import Filter, Kept, Position, PositionToken
from delivery.volatile.datagrams import Shown
from namegraph import NodeId, Reason, RefusedError, refuse
from nameserver.access.origins import origin_of
from nameserver.calls.adapters import Context
from nameserver.calls.stream_places import StreamPlace
from nameserver.config.addresses import counted_as
from nameserver.deliveries import message_wire
from nameserver.deliveries.acknowledging import Acknowledgements, Acknowledging
from nameserver.deliveries.delivery_rights import DeliveryRights
from nameserver.deliveries.endpoints import Endpoint, Endpoints
from nameserver.deliveries.log_tail import LogEntry, LogTail
from nameserver.deliveries.machine import DeliveryMachine
from nameserver.deliveries.sources import LogSource, RingSource, Source, SourcePosition
from nameserver.wire.conversion import KnownIds
from shadowtree.v1 import delivery_pb2 as wire

RESPONSE_BYTES_LIMIT: Final = 2 * 1024 * 1024
"""Largest merged response, smaller than any client's limit. Larger output is sent in several responses."""

RESPONSE_BYTES: Final = 256 * 1024
"""Bytes put into one response, if there are as many."""

CREDIT_BYTES_LIMIT: Final = 1024 * 1024
"""Most bytes of credit of one endpoint. Further credit is ignored."""

CREDIT_MESSAGES_LIMIT: Final = 1_000_000


class SubscribeCalls:
    """Servicer of Subscribe for the processes of this server."""

    def __init__(
        self,
        *,
        machine: DeliveryMachine,
        known: KnownIds,
        endpoints: Endpoints,
        tail: LogTail,
        rights: DeliveryRights,
        now_ms: Callable[[], int],
    ) -> None:
        """`now_ms`: returns the time of day, in milliseconds since 1970."""
        self._machine = machine
        self._known = known
        self._endpoints = endpoints
        self._tail = tail
        self._rights = rights
        self._log, self._ring = LogSource(machine, tail), RingSource(machine)
        self._acknowledgements = Acknowledgements(machine)
        self._now_ms = now_ms
        machine.on_shown = self.show

    def show(self, shown: Shown) -> None:
        """Offer a datagram to its listeners. A listener that has not taken the earlier ones does not get it."""
        counts, datagram = self._machine.datagrams, None
        addressed, sender = shown.datagram.targets[0].name, shown.datagram.message.sender
        for endpoint in self._endpoints.of(shown.mailboxes):
            if not endpoint.wanted.passes(addressed, sender):
                continue
            datagram = datagram or message_wire.shown_datagram(shown.datagram)
            is_taken = endpoint.show(datagram)
            counts.handed += is_taken
            counts.dropped += not is_taken

    async def subscribe(
        self,
        first: wire.SubscribeRequest,
        requests: AsyncIterator[wire.SubscribeRequest],
        context: Context,
        place: StreamPlace,
    ) -> None:
        """Listen until the endpoint leaves or is taken over, or the server is about to end."""
        self._endpoints.require_room()
        ticket = self._machine.new_ticket()
        try:
            endpoint, readings = await self._begin(ticket, first.begin, context)
            place.end, endpoint.on_handed = endpoint.end, place.used
            await self._listen(endpoint, readings, first, requests, context)
        finally:
            if first.begin.ephemeral:
                self._machine.notice(StopListening(ticket))

    async def _listen(
        self,
        endpoint: Endpoint,
        readings: Sequence[SourcePosition],
        first: wire.SubscribeRequest,
        requests: AsyncIterator[wire.SubscribeRequest],
        context: Context,
    ) -> None:
        self._endpoints.begin(endpoint)
        machine, of_log = self._machine, readings[0].standing
        acknowledging = Acknowledging(
            self._acknowledgements, machine, endpoint, {each.source.kept: each.standing for each in readings}
        )
        reader = asyncio.create_task(self._read(first, requests, endpoint, acknowledging))
        try:
            with machine.told_of_end(endpoint.end), machine.told_of_more(endpoint.changed.set):
                token = PositionToken(self._machine.server, self._machine.incarnation, of_log.cursor)
                self._tail.wait(of_log.cursor.entry - 1)
                await context.write(wire.SubscribeResponse(position=str(token)).SerializeToString())
                await self._hand_out(endpoint, readings, acknowledging, context)
                await reader
                await acknowledging.finish()
        finally:
            reader.cancel()
            acknowledging.end()
            self._endpoints.leave(endpoint)

    async def _begin(
        self, ticket: int, begin: wire.SubscribeRequest.Begin, context: Context
    ) -> tuple[Endpoint, Sequence[SourcePosition]]:
        """Return the endpoint, and its progress in each source, the log first."""
        machine = self._machine
        process = message_wire.read_reader(begin.name, "name", self._known)
        await self._rights.require_reader(process)
        wanted = message_wire.read_filter(begin, self._known)
        start: Start | Position = Start.NOW if getattr(begin, "from") == wire.SubscribeRequest.FROM_NOW else Start.START
        handled = message_wire.read_positions(begin.position, "position", server=machine.server)
        if (token := handled.get(Kept.DURABLE)) is not None:
            if token.incarnation != machine.incarnation:
                raise refuse(
                    Reason.INVALID_REQUEST,
                    "the position is of a time before this server went back to an older copy of its database",
                    field="position",
                    server=machine.server,
                )
            start = token.position
        in_memory = self._place_in_memory(handled)
        subscribe = Subscribe(
            ticket,
            process,
            begin.subscription,
            start,
            is_ephemeral=begin.ephemeral,
            in_memory=in_memory,
            caller=counted_as(context.peer()),
            origin=origin_of(server=machine.server),
        )
        if begin.ephemeral and begin.handed_out:
            raise refuse(Reason.INVALID_REQUEST, "an ephemeral subscription ended with its stream", field="handed_out")
        answer = await machine.carry_out_delivery(subscribe)
        if isinstance(answer, DeliveryRefused):
            raise RefusedError(answer.refusal)
        assert isinstance(answer, Subscribed)
        handed_out: Position | None = None
        handed = message_wire.read_positions(begin.handed_out, "handed_out", server=machine.server)
        token = handed.get(Kept.DURABLE)
        if token and token.incarnation == machine.incarnation and token.position.entry <= machine.logged:
            handed_out = token.position
        of_log = EndpointPosition(answer.cursor, handed_out=handed_out, is_ephemeral=begin.ephemeral)
        of_ring = EndpointPosition(
            answer.in_memory, handed_out=self._place_in_memory(handed), is_ephemeral=begin.ephemeral
        )
        # A listener that was handed messages before this server started may have lost those behind them.
        was_before = any(
            token.kept is Kept.MEMORY and not machine.ring.is_of_this_start(token.position.entry)
            for token in (*handled.values(), *handed.values())
        )
        readings = (SourcePosition(self._log, of_log), SourcePosition(self._ring, of_ring, gap=int(was_before)))
        # No endpoint takes an ephemeral one over: each is named by its ticket.
        key = (answer.mailbox, str(ticket) if begin.ephemeral else begin.subscription)
        return Endpoint(process, key, answer.epoch, wanted=wanted, takes_more=begin.takes_more), readings

    def _place_in_memory(self, told: dict[Kept, PositionToken]) -> Position | None:
        """Return the place in memory that a caller names. None if it is not of this start, or too far ahead."""
        token, ring = told.get(Kept.MEMORY), self._machine.ring
        is_one = token is not None and ring.is_of_this_start(token.position.entry)
        return token.position if token is not None and is_one and token.position.entry <= ring.through else None

    async def _read(
        self,
        first: wire.SubscribeRequest,
        requests: AsyncIterator[wire.SubscribeRequest],
        endpoint: Endpoint,
        acknowledging: Acknowledging,
    ) -> None:
        """Take the requests of the endpoint until it sends no more."""
        try:
            self._take(first, endpoint, acknowledging)
            async for request in requests:
                if request.HasField("begin"):
                    raise refuse(Reason.INVALID_REQUEST, "only the first request begins", field="begin")
                self._take(request, endpoint, acknowledging)
        except RefusedError as error:
            endpoint.end(error)
        endpoint.is_leaving = True
        endpoint.changed.set()

    def _take(self, request: wire.SubscribeRequest, endpoint: Endpoint, acknowledging: Acknowledging) -> None:
        had_credit = endpoint.has_credit
        endpoint.credit_messages = min(endpoint.credit_messages + request.credit_messages, CREDIT_MESSAGES_LIMIT)
        endpoint.credit_bytes = min(endpoint.credit_bytes + request.credit_bytes, CREDIT_BYTES_LIMIT)
        if not had_credit:
            endpoint.changed.set()
        if request.acknowledged:
            machine = self._machine
            told = message_wire.read_positions(request.acknowledged, "acknowledged", server=machine.server)
            for kept, token in told.items():
                is_here = kept is Kept.DURABLE or machine.ring.is_of_this_start(token.position.entry)
                if token.incarnation == machine.incarnation and is_here:
                    acknowledging.take(kept, token.position)

    async def _hand_out(
        self, endpoint: Endpoint, readings: Sequence[SourcePosition], acknowledging: Acknowledging, context: Context
    ) -> None:
        """Send the messages of the mailbox. Return once the endpoint leaves. Raises the reason of its end."""
        while True:
            endpoint.changed.clear()
            if endpoint.refusal is not None:
                raise RefusedError(endpoint.refusal)
            if endpoint.is_leaving:
                return
            if not endpoint.has_credit:
                await endpoint.changed.wait()
                continue
            if endpoint.datagrams:
                await self._hand_out_datagrams(endpoint, context)
            has_some = False
            for reading in readings:
                if endpoint.has_credit and reading.is_behind:
                    has_some |= await self._hand_out_some(endpoint, reading, context)
                    acknowledging.pass_over(reading.source.kept)
            if not (has_some and any(reading.is_behind for reading in readings)):
                await endpoint.changed.wait()

    async def _hand_out_some(self, endpoint: Endpoint, reading: SourcePosition, context: Context) -> bool:
        """Send some entries of a source. Return True if there were any."""
        source, standing = reading.source, reading.standing
        entries = await source.read(standing.cursor.entry - 1)
        if standing.cursor.entry <= source.cut:
            # Entries read from this position on were not cut yet, so their audience is still known.
            reading.gap += source.lost_before(standing.cursor.entry)
            standing.pass_over(Position.before(source.cut + 1))
            return True
        handed_out = _HandedOut(endpoint, standing, reading.gap, self._now_ms())
        for entry in entries:
            handed_out.pass_hole(source, entry.position)
            if not (source.is_for(entry.audience, endpoint.key[0]) and _may_want(endpoint.wanted, entry)):
                handed_out.pass_over(entry)
            elif handed_out.names_recipients(entry, source, self._machine):
                handed_out.add(entry)
            else:
                break
            if handed_out.is_full:
                break
        reading.gap = handed_out.gap
        if handed_out.has_something:
            await handed_out.write(context)
            endpoint.on_handed()
        else:
            await asyncio.sleep(0)
        return bool(entries)

    async def _hand_out_datagrams(self, endpoint: Endpoint, context: Context) -> None:
        now_ms, chunks, size = self._now_ms(), list[bytes](), 0
        while endpoint.datagrams and endpoint.has_credit and size < RESPONSE_BYTES:
            datagram = endpoint.next_datagram()
            if not 0 < datagram.expires_at_ms < now_ms:
                chunks.append(datagram.encoded)
                size += len(datagram.encoded)
                endpoint.credit_messages -= 1
                endpoint.credit_bytes -= datagram.size
        if chunks:
            await context.write(b"".join(chunks))
            endpoint.on_handed()


def _may_want(wanted: Filter, entry: LogEntry) -> bool:
    """Return True if an endpoint may want a message of an entry. The senders are looked at message by message."""
    return not wanted.groups or entry.addressed in wanted.groups


class _HandedOut:
    """Output for an endpoint, while it is put together: a response for each audience."""

    def __init__(self, endpoint: Endpoint, standing: EndpointPosition, gap: int, now_ms: int) -> None:
        self.gap = gap
        """Entries that were lost before the next message, and not told yet."""
        self._chunks: list[bytes] = []
        """Parts of the newest response."""
        self._before: list[bytes] = []
        """Whole responses that come before the newest."""
        self._endpoint = endpoint
        self._standing = standing
        self._now_ms = now_ms
        self._size = 0
        self._names: Sequence[NodeId] = ()
        """Recipients to be told to a gateway before these messages."""

    @property
    def has_something(self) -> bool:
        """True if there is output to write."""
        return bool(self._before or self._chunks or self._names)

    async def write(self, context: Context) -> None:
        """Send the output, in one response if the endpoint takes that."""
        self._end_response()
        if self._endpoint.takes_more and self._size < RESPONSE_BYTES_LIMIT:
            await context.write(message_wire.in_one(self._before))
            return
        for response in self._before:
            await context.write(response)

    def _end_response(self) -> None:
        """Finish the newest response. A gateway is told many names in several responses."""
        *before, last = message_wire.tell_recipients(self._names) if self._names else (b"",)
        self._before += [*before, b"".join((last, *self._chunks))]
        self._names, self._chunks = (), []

    def names_recipients(self, entry: LogEntry, source: Source, machine: DeliveryMachine) -> bool:
        """Add the recipients of an entry for a gateway.

        Return False if the entry must wait for the previous output to leave.
        """
        recipients = source.recipients(entry.audience, self._endpoint.key[0])
        if recipients != self._endpoint.recipients:
            if self.has_something:
                if not self._endpoint.takes_more:
                    return False
                self._end_response()
            self._endpoint.recipients = recipients
            # The names are looked up at once. While they are sent, the log may be cut, and their numbers given to other
            # names.
            self._names = machine.names(recipients)
            self._size += sum(map(len, self._names))
        return True

    @property
    def is_full(self) -> bool:
        """True if no more is to be added now."""
        return self._size >= RESPONSE_BYTES or not self._endpoint.has_credit

    def pass_hole(self, source: Source, before: int) -> None:
        """Pass over the entries that are gone before an entry."""
        first = self._standing.cursor.entry
        if first < before:
            self.gap += source.lost_between(first, before - 1, self._endpoint.key[0])
            self._standing.pass_over(Position.before(before))

    def pass_over(self, entry: LogEntry) -> None:
        """Pass over an entry that is not for the mailbox."""
        self._standing.pass_over(Position.before(entry.position + 1), size=entry.size)

    def add(self, entry: LogEntry) -> None:
        """Add the messages of an entry, as far as there is credit for them."""
        self.gap += entry.lost
        endpoint, standing, messages = self._endpoint, self._standing, entry.messages
        is_begun = standing.cursor.entry == entry.position and standing.cursor.item >= 0
        fits = len(messages) <= endpoint.credit_messages and entry.bytes_told <= endpoint.credit_bytes
        if fits and not (is_begun or self.gap or entry.can_expire or endpoint.wanted.senders):
            self._add_encoded(entry.encoded)
            endpoint.credit_messages -= len(messages)
            endpoint.credit_bytes -= entry.bytes_told
            standing.hand_out(Position(entry.position, len(messages) - 1))
            self.pass_over(entry)
            return
        last = standing.cursor.item if is_begun else -1
        chosen: list[int] = []
        for item in range(last + 1, len(messages)):
            if not endpoint.has_credit:
                break
            last, message = item, messages[item]
            is_wanted = not endpoint.wanted.senders or message.sender in endpoint.wanted.senders
            if is_wanted and not 0 < message.expires_at_ms < self._now_ms:
                chosen.append(item)
                endpoint.credit_messages -= 1
                endpoint.credit_bytes -= entry.sizes[item]
        if chosen:
            self._add_encoded(entry.encode(chosen, gap=self.gap))
            self.gap = 0
            standing.hand_out(Position(entry.position, chosen[-1]))
        if last + 1 < len(messages):
            standing.pass_over(Position(entry.position, last))
        else:
            self.pass_over(entry)

    def _add_encoded(self, encoded: bytes) -> None:
        self._chunks.append(encoded)
        self._size += len(encoded)
