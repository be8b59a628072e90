"""Recovery after this server, or a peer, was restored from an older copy of its database.

    session ends: numbers do not fit --> this server has gone back --> all sessions end; a fresh incarnation
    hello of another incarnation ------> channels to that server begin again; the next session goes on from there
    hello of another start ------------> what came before is taken no more; what was taken is durable before a session
                                         opens, and what was not is forgotten (`PeerStarted`)

Numbers are proof only while they stand still. A peer that has started again therefore gets a receipt for all of its
letters that were ever taken.

A mismatch may be visible to one end alone. A server that has lost only received letters opens its session, since no
number contradicts there. The peer then tells it of the mismatch. Such a goodbye counts until the peer has kept a
session open, because a peer that does so was told no number that does not fit.

Source: docs/protocol-partitions.md, "Older copies" and "Healing"; docs/decisions/0012-older-copies.md.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable

from delivery.model.events import DeliveryEvent, PeerStarted
from namegraph import GREATEST_LEAP, LEAST_LEAP, Channels, Event, Incarnations, PeerRestored, Restored, ServerId
from nameserver.session.frames import Goodbye, GoodbyeReason, Hello
from nameserver.transport.session_runner import SessionRunner


class StaleDatabase:
    """Part of one server in the recovery."""

    def __init__(
        self,
        *,
        server: ServerId,
        incarnations: Incarnations,
        channels: Channels,
        conversations: Iterable[SessionRunner],
        take: Callable[[Event | DeliveryEvent], None],
        is_known_start: Callable[[Hello], bool],
        is_writing_what_came_from: Callable[[ServerId], bool],
        begins_again_with: Callable[[ServerId], bool],
        say: Callable[[str], None],
    ) -> None:
        """Create the recovery of a server.

        `conversations`: all conversations, live. `take`: lets the core handle an event. `is_known_start`: returns True
        if a server was met since it last started. `is_writing_what_came_from`: returns True if its letters are handled,
        and not durable. `begins_again_with`: returns True if a taken event that renumbers its channels is still to be
        carried out.
        """
        self._server = server
        self._incarnations = incarnations
        self._channels = channels
        self._conversations = conversations
        self._take = take
        self._is_known_start = is_known_start
        self._is_writing_what_came_from = is_writing_what_came_from
        self._begins_again_with = begins_again_with
        self._say = say
        self._has_gone_back = False
        self._fitting: dict[ServerId, int] = {}
        """Beginning of the channels for which each server has kept a session open since this server started."""

    def judge(self, hello: Hello) -> Goodbye | None:
        """Begin the channels again with a server that begins a fresh incarnation.

        The next session is accepted.

        A session with a server that has started again opens once all that was taken of it is durable.
        """
        server, known = hello.server, self._incarnations
        if self._begins_again_with(server):
            return Goodbye(GoodbyeReason.BEGUN_AGAIN, "letters between the two servers are being numbered anew")
        if hello.incarnation == known.of(server):
            return None if self._is_known_start(hello) else self._end_earlier_start(hello)
        if known.is_over(server, hello.incarnation):
            why = f"{server} has begun a later incarnation once: its database is older than it should be"
            return Goodbye(GoodbyeReason.LETTERS_LOST, why)
        goodbye = Goodbye(GoodbyeReason.BEGUN_AGAIN, f"{server} begins a fresh incarnation")
        self._part(goodbye, lambda conversation: conversation.session.is_with(server))
        self._take(PeerRestored(server, hello.incarnation))
        return goodbye

    def _end_earlier_start(self, hello: Hello) -> Goodbye | None:
        goodbye = Goodbye(GoodbyeReason.REPLACED, f"{hello.server} has started again")

        def is_earlier(conversation: SessionRunner) -> bool:
            earlier = conversation.session.hello
            return earlier is not None and earlier.server == hello.server and earlier.start != hello.start

        self._part(goodbye, is_earlier)
        if self._is_writing_what_came_from(hello.server):
            return Goodbye(GoodbyeReason.BEGUN_AGAIN, "what was sent before the start is being written")
        self._take(PeerStarted(hello.server))
        return None

    def keeps_open(self, server: ServerId) -> None:
        """Note that another server has sent a frame that is sent on open sessions alone."""
        self._fitting[server] = self._channels.beginnings(server)

    def ended(self, conversation: SessionRunner) -> None:
        """Begin a fresh incarnation if the end of a conversation shows that this server has gone back. At most once."""
        session = conversation.session
        hello, ending = session.hello, session.ending
        if hello is None or ending is None or self._has_gone_back:
            return
        is_told = ending.is_by_peer and ending.reason is GoodbyeReason.LETTERS_LOST
        is_fitting = self._fitting.get(hello.server) == self._channels.beginnings(hello.server)
        if not (ending.has_gone_back or (is_told and not is_fitting)):
            return
        self._has_gone_back = True
        self._say(
            f"the database is an older copy of itself ({ending.message}): what was done here since is lost, all else "
            "is taken in from other servers"
        )
        self._part(Goodbye(GoodbyeReason.GONE_BACK, f"{self._server} begins a fresh incarnation"), lambda _: True)
        self._take(Restored(LEAST_LEAP + secrets.randbelow(GREATEST_LEAP - LEAST_LEAP)))

    def _part(self, goodbye: Goodbye, is_meant: Callable[[SessionRunner], bool]) -> None:
        for conversation in list(self._conversations):
            if is_meant(conversation):
                conversation.part(goodbye)
