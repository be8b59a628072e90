"""Traffic through third servers: this server's own streams, and frames that it passes on for other servers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import assert_never

from namegraph import ServerId
from nameserver.detector.liveness import Life
from nameserver.detector.liveness_table import LivenessTable
from nameserver.session.frames import Relay
from nameserver.session.relay_rules import Arrived, Back, RelayFault, RelayOnward, ended, way_of
from nameserver.transport.relayed_stream import NoSuchStreamError, RelayedStream, RelayedStreams, StreamKey
from nameserver.transport.session_runner import SessionRunner


class RelayHub:
    """Hub that chooses intermediate servers, and carries out the rules of `relay_rules` for each frame."""

    def __init__(
        self,
        *,
        here: ServerId,
        first_number: int,
        sessions: Mapping[ServerId, SessionRunner],
        watches: LivenessTable,
        count_fault: Callable[[ServerId, str], None],
        accept: Callable[[RelayedStream], None],
    ) -> None:
        """`sessions`: the open sessions, live. `accept`: takes streams that other servers have dialled."""
        self.passed_on: Counter[ServerId] = Counter()
        """Number of frames passed on for each server."""
        self._here = here
        self._sessions = sessions
        self._watches = watches
        self._count_fault = count_fault
        self._accept = accept
        self._streams = RelayedStreams(here=here, first_number=first_number, send=self._send)

    def reaches(self, server: ServerId) -> bool:
        """Return True if there is a direct session with a server."""
        conversation = self._sessions.get(server)
        return conversation is not None and conversation.via is None

    def between(self, server: ServerId) -> list[ServerId]:
        """Return the servers that may reach a server unreachable from here: all servers this one reaches, sorted."""
        return sorted(
            other
            for other in self._sessions
            if other != server and self.reaches(other) and self._watches.life_of(other) is Life.UP
        )

    def dial(self, server: ServerId, *, via: ServerId) -> RelayedStream:
        """Return a new stream to another server, through a server with an open session."""
        return self._streams.dial(server, via=via, session=self._sessions[via].session.number)

    def close(self, stream: RelayedStream) -> None:
        """Forget a stream that is no longer used."""
        self._streams.close(stream)

    def lose(self, conversation: SessionRunner) -> None:
        """Note the end of a session. Frames still to be passed on over it are lost."""
        if conversation.via is None:
            self._streams.lose(conversation.session.peer, conversation.session.number)

    def take(self, conversation: SessionRunner, relay: Relay) -> None:
        """Take a frame that is to be passed on, or that was passed on to this server."""
        sender = conversation.session.peer
        if conversation.via is not None:
            self._count_fault(sender, RelayFault.FOR_ANOTHER.value)
            return
        way = way_of(relay, sender=sender, here=self._here, is_reached=self.reaches, known=self._watches)
        match way:
            case Arrived():
                self._arrived(conversation, relay)
            case RelayOnward():
                if self._sessions[relay.destination].pass_on(relay):
                    self.passed_on[sender] += 1
                else:
                    conversation.pass_on(ended(relay, f"{self._here} has too much to pass on"))
            case Back(answer):
                if not relay.end:
                    conversation.pass_on(answer)
            case RelayFault():
                self._count_fault(sender, way.value)
            case _:
                assert_never(way)

    def _arrived(self, conversation: SessionRunner, relay: Relay) -> None:
        try:
            stream = self._streams.take(relay, via=conversation.session.peer)
        except NoSuchStreamError:
            conversation.pass_on(ended(relay, "there is no such stream"))
            return
        if stream is not None:
            self._accept(stream)

    def _send(self, key: StreamKey, relay: Relay) -> bool:
        conversation = self._sessions.get(key.via)
        if conversation is None or conversation.via is not None or conversation.session.number != key.session:
            return False
        return conversation.pass_on(relay)
