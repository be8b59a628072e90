"""Datagrams: messages that nobody keeps, for those who listen at the moment. Nothing of this is durable.

    origin --Datagram--> each server that is known to be below --> endpoints that listen there
           <--Onward----  where that one knows of servers further below that the origin has not heard of
           --Datagram--> these, the newest one alone

Each server is sent one copy, and sends none on, so nobody gets a datagram twice. What is lost is not sent again. A copy
says what the origin knows of the servers below its receiver, and the receiver speaks up only where that is not so any
more: a report that is lost is made again at the next datagram.

A server that is found so gets the newest datagram of the target set, if that was not sent to it: so one alone reaches
everybody. There is no backlog of others.

Source: delivery.md sections 0, 4 and 6.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import structs
from pyroaring import BitMap

from delivery.model.events import Send
from delivery.model.reach import Reach
from delivery.model.words import DATAGRAM_BYTES_LIMIT, Message
from delivery.origin.servers_below import bounded_onward, onward, servers_below
from delivery.wire.posts import Datagram, Onward, encode
from namegraph import Reason, ServerId, TargetSet, refuse

KEPT_BYTES_LIMIT = 8 * 1024 * 1024
"""Of what is known of target sets in use, with the newest datagram of each; those used longest ago are forgotten."""

SET_OVERHEAD_BYTES = 1024


class PeerDatagram(NamedTuple):
    """What is to leave for another server, if it can leave at once."""

    receiver: ServerId
    encoded: bytes


class Shown(NamedTuple):
    """What is to be handed to endpoints that listen now, if they can take it."""

    mailboxes: BitMap
    """For which they listen."""
    datagram: Datagram


class Spread(NamedTuple):
    """Of a datagram that was sent."""

    datagram: Datagram
    sent_to: tuple[ServerId, ...]
    """Servers to which it leaves; sorted."""
    unknown: tuple[ServerId, ...]
    """Servers that others name as further below and that are not known here; sorted."""


@dataclass(slots=True)
class _Known:
    """What is known of a target set."""

    onward: dict[ServerId, tuple[ServerId, ...]] = field(default_factory=dict)
    """What each server has said last of who is further below."""
    newest: Datagram | None = None
    sent_to: set[ServerId] = field(default_factory=set)
    """To whom the newest one was sent."""
    ever_sent_to: set[ServerId] = field(default_factory=set)
    """To whom any was sent. What such a server says may come when it is not below any more."""

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        return SET_OVERHEAD_BYTES + (0 if self.newest is None else self.newest.message.size)


class Datagrams:
    """What one server sends as their origin, and answers as one that is below."""

    def __init__(self, server: ServerId) -> None:
        self._server = server
        self.start = 0
        """Another number whenever the server starts: datagrams are numbered from 1 each time."""
        self._serial = 0
        self._known: dict[TargetSet, _Known] = {}
        """Those used last come last."""
        self._size = 0
        self._leaving: list[PeerDatagram] = []

    def take_leaving(self) -> list[PeerDatagram]:
        """What is to leave with this step."""
        leaving, self._leaving = self._leaving, []
        return leaving

    # -- as the origin

    def send(self, targets: TargetSet, message: Message, reach: Reach) -> Spread:
        """Number a datagram, and send it to all servers that are known to be below."""
        self._serial += 1
        datagram = Datagram(self._serial, self.start, targets, message)
        known = self._known.pop(targets, None)
        if known is None:
            known = _Known()
        else:
            self._size -= known.size
        known.newest, known.sent_to = datagram, set()
        self._known[targets] = known
        self._size += known.size
        while self._size > KEPT_BYTES_LIMIT and len(self._known) > 1:
            self._size -= self._known.pop(next(iter(self._known))).size
        servers = servers_below(targets, known.onward, reach, here=self._server)
        self._send_newest(known, servers, reach)
        unknown = [server for server in servers if not reach.is_known(server)]
        return Spread(datagram, tuple(sorted(known.sent_to)), tuple(sorted(unknown)))

    def told(self, sender: ServerId, told: Onward, reach: Reach) -> bool:
        """A server says who is further below; whether that can be so."""
        known = self._known.get(told.targets)
        if known is None or told.start != self.start:
            # Forgotten, or of before this server started.
            return True
        if sender not in known.ever_sent_to:
            return False
        known.onward[sender] = bounded_onward(told.servers, reach)
        self._send_newest(known, servers_below(told.targets, known.onward, reach, here=self._server), reach)
        return True

    def _send_newest(self, known: _Known, servers: Iterable[ServerId], reach: Reach) -> None:
        assert known.newest is not None
        for server in servers:
            if server not in known.sent_to and reach.is_known(server):
                known.sent_to.add(server)
                known.ever_sent_to.add(server)
                copy = structs.replace(known.newest, onward=known.onward.get(server, ()))
                self._leaving.append(PeerDatagram(server, encode(copy)))

    # -- as a server below

    def came(self, sender: ServerId, datagram: Datagram, reach: Reach) -> None:
        """Tell the origin which servers are further below, where it does not know."""
        servers = tuple(server for server in sorted(onward(datagram.targets, reach)) if server != self._server)
        if servers != datagram.onward:
            self._leaving.append(PeerDatagram(sender, encode(Onward(datagram.start, datagram.targets, servers))))


def require_datagram(send: Send) -> None:
    """Raise `RefusedError` where a message asks for what no datagram has."""
    if len(send.message.payload) > DATAGRAM_BYTES_LIMIT:
        raise refuse(
            Reason.LIMIT_EXCEEDED,
            f"a datagram has at most {DATAGRAM_BYTES_LIMIT} bytes, not {len(send.message.payload)}",
            limit=str(DATAGRAM_BYTES_LIMIT),
            field="payload",
        )
    if send.number or send.request_id:
        raise refuse(
            Reason.INVALID_REQUEST,
            "a datagram has no number and no request id: nothing remembers whether it was sent before",
            field="number" if send.number else "request_id",
        )
    if send.wants_settled:
        raise refuse(
            Reason.INVALID_REQUEST,
            "a datagram is never settled, for nobody says that it came: wait until it is accepted",
            field="wait",
        )
