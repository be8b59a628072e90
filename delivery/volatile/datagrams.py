"""Datagrams: messages for current listeners that no server keeps. No state of them is durable.

    origin --Datagram--> each server that is known to be below --> endpoints that listen there
           <--Onward----  where that one knows of servers further below that the origin has not heard of
           --Datagram--> these, the newest one alone

The origin sends each server one copy, and servers do not forward it, so a datagram comes at most once. A lost datagram
is not sent again. A copy lists the downstream servers of its receiver as the origin knows them. The receiver reports
only if the list is wrong: the next datagram repeats a report that was lost.

A server that is found by a report gets the newest datagram of the target set, if it did not get it. A single datagram
therefore reaches all listeners. Older datagrams have no backlog.

See docs/protocol-messages.md, "Datagrams".
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import structs
from pyroaring import BitMap

from delivery.model.events import Send
from delivery.model.reach import Reach
from delivery.model.words import DATAGRAM_BYTES_LIMIT, MessageContent
from delivery.origin.servers_below import bounded_onward, onward, servers_below
from delivery.wire.posts import Datagram, Onward, encode
from namegraph import Reason, ServerId, TargetSet, refuse

KEPT_BYTES_LIMIT = 8 * 1024 * 1024
"""Most bytes of state of target sets, including the newest datagram of each. The least recently used are forgotten."""

SET_OVERHEAD_BYTES = 1024


class PeerDatagram(NamedTuple):
    """Frame for another server, sent only if it can be sent at once."""

    receiver: ServerId
    encoded: bytes


class Shown(NamedTuple):
    """Datagram for endpoints that listen now, if they can take it."""

    mailboxes: BitMap
    """Mailboxes for which these endpoints listen."""
    datagram: Datagram


class Spread(NamedTuple):
    """Result of sending a datagram."""

    datagram: Datagram
    sent_to: tuple[ServerId, ...]
    """Servers to which the datagram is sent, sorted."""
    unknown: tuple[ServerId, ...]
    """Downstream servers that a peer named and that are not known here, sorted."""


@dataclass(slots=True)
class _Known:
    """State of a target set."""

    onward: dict[ServerId, tuple[ServerId, ...]] = field(default_factory=dict)
    """Downstream servers that each server named last."""
    newest: Datagram | None = None
    sent_to: set[ServerId] = field(default_factory=set)
    """Servers to which the newest datagram was sent."""
    ever_sent_to: set[ServerId] = field(default_factory=set)
    """Servers to which any datagram was sent. The report of such a server may come when it is not below any more."""

    @property
    def size(self) -> int:
        """Approximate size in bytes."""
        return SET_OVERHEAD_BYTES + (0 if self.newest is None else self.newest.message.size)


class Datagrams:
    """Datagrams of one server, as origin and as receiver."""

    def __init__(self, server: ServerId) -> None:
        self._server = server
        self.start = 0
        """Number of this start of the server. Each start numbers its datagrams from 1."""
        self._serial = 0
        self._known: dict[TargetSet, _Known] = {}
        """State by target set, the most recently used last."""
        self._size = 0
        self._leaving: list[PeerDatagram] = []

    def take_leaving(self) -> list[PeerDatagram]:
        """Return the frames to send with this step."""
        leaving, self._leaving = self._leaving, []
        return leaving

    # -- as the origin

    def send(self, targets: TargetSet, message: MessageContent, reach: Reach) -> Spread:
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
        """Handle the report of downstream servers. Return False if a correct server cannot send it."""
        known = self._known.get(told.targets)
        if known is None or told.start != self.start:
            # The target set is forgotten, or the report is from before this server started.
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
        """Report the downstream servers to the origin of a datagram, if its list is wrong."""
        servers = tuple(server for server in sorted(onward(datagram.targets, reach)) if server != self._server)
        if servers != datagram.onward:
            self._leaving.append(PeerDatagram(sender, encode(Onward(datagram.start, datagram.targets, servers))))


def require_datagram(send: Send) -> None:
    """Raise `RefusedError` if a message asks for a feature that datagrams lack."""
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
