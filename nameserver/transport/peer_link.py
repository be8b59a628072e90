"""Link to one address: its channel, the server there, and the state of the connection.

connecting --> connected --> silent (or stopped) since ... --> connected
    |              |
    +--------------+--> refused: ... (tried again, for somebody may have changed something)
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Protocol

import grpc

from namegraph import ServerId, Subnet
from nameserver.session.backoff import Backoff
from nameserver.session.frames import GoodbyeReason
from nameserver.session.session import Ending
from nameserver.trust.identities import NotAuthentic, PeerIdentity
from nameserver.trust.peer_trust import PeerTrust, unprotected
from nameserver.trust.seen_leaf import Unbelieved, speaks_tls

ANSWER_BYTES_LIMIT = 64 * 1024 * 1024
"""Bytes of one message: the limit of clients, too (`shadowtree/client/channel.py`)."""

CHANNEL_OPTIONS = (
    # Two servers in one process (in tests) must not share a connection.
    ("grpc.use_local_subchannel_pool", 1),
    # Name servers are addressed directly; a web proxy of the environment cannot serve them.
    ("grpc.enable_http_proxy", 0),
    # Answers to forwarded calls come over this channel too.
    ("grpc.max_receive_message_length", ANSWER_BYTES_LIMIT),
    ("grpc.max_send_message_length", -1),
    # This server sets the pauses between attempts. Those of gRPC only must not be longer.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # A server that has moved is found under its name after two seconds instead of thirty.
    ("grpc.dns_min_time_between_resolutions_ms", 2_000),
    # Also the timeout of an attempt: after an interruption a new attempt gets through sooner than an old one.
    ("grpc.min_reconnect_backoff_ms", 2_000),
    # A server that vanished without closing its connection is noticed after 15 seconds, with or without calls under
    # way. The first call after a long rest must not be the one that finds out.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.ping_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
)

CONNECTED = "connected"
"""Beginning of the state of an address with an open session."""

CONNECTING = "connecting"
"""State of an address at which no server was met yet, and none has refused."""

COMING_BACK_SECONDS = 2.0
"""Longest silence of a server that may just be starting, or be started again."""

OLD_CALLS_SECONDS = 60.0
"""Time that calls over an abandoned channel may still take. It is longer than finding out that they got lost takes."""


_CLOSED = "Socket closed"
"""Error of gRPC when the other end closes the connection during the greeting of HTTP/2."""

_SPEAKS_TLS = "the server there speaks TLS, so pin its authority (`trust`)"

_BELIEVES_NOT = "the server there proves itself, but may not believe the certificate of this server"


class Call(Protocol):
    """A call of the server."""

    def cancel(self) -> bool:
        """End the call at this end."""


class WayThrough(Protocol):
    """Way to the server through another one."""

    via: ServerId
    channel: grpc.aio.Channel

    @property
    def address(self) -> str:
        """Address to which the channel leads: ``unix:PATH``."""

    async def close(self, grace_seconds: float | None) -> None:
        """End the way. Calls under way may take `grace_seconds`."""


class Link:
    """Link to one address of the table."""

    def __init__(
        self,
        address: str,
        subnets: tuple[Subnet, ...],
        *,
        chance: Callable[[], float],
        clock: Callable[[], float],
        wall_clock: Callable[[], float],
        trust: PeerTrust | None = None,
    ) -> None:
        """Create a link.

        `subnets`: those expected at the address. `trust`: makes the channels. None for plain text. `wall_clock`:
        returns seconds since 1970, only for people.
        """
        self.address = address
        self.called_at = address
        """Address to which the channel leads: `address`, or an address that the server there announced."""
        self.announced: tuple[str, ...] = ()
        """Addresses of the server besides `address`, from its last session."""
        self.is_proven = False
        """True if the server at the other end of the channel is the server of the session."""
        self.leads_astray = False
        """True if another server answers there."""
        self.subnets = subnets
        self.server: ServerId | None = None
        """Server that was met there. None before."""
        self._not_owned: tuple[Subnet, ...] = ()
        """Subnets that are expected there and that the server does not own."""
        self.is_connected = False
        self.via: ServerId | None = None
        """Server through which the link is connected. None if it is direct, or not connected."""
        self.cannot_be_dialled = False
        """True if the link is connected, but calls over its channel do not arrive."""
        self.tunnel: WayThrough | None = None
        """Tunnel to the server, for a session and for calls while `channel` leads nowhere. None if there is none."""
        self.backoff = Backoff(chance)
        self._trust = unprotected() if trust is None else trust
        self.credential = self._trust.credential_for(subnets)
        """Facts on which the channel depends. None for plain text."""
        self.channel = self.open_channel(address)
        self._ways_changed = asyncio.Event()
        self._closing: set[asyncio.Task[None]] = set()
        """Channels and tunnels that are not used any more, while they end."""
        self._is_missed = False
        self._calls: set[Call] = set()
        self._is_stopped = False
        self._clock = clock
        self._wall_clock = wall_clock
        self._silent_from: float | None = None
        """Time of `_silent_since` on the clock that does not jump."""
        self._silent_since: float | None = None
        self._why = ""
        self._refusal: str | None = None

    @property
    def may_come_soon(self) -> bool:
        """True if a moment's wait is worth while: not connected, not refused, and not silent for long."""
        if self.is_connected or self._refusal is not None or self._is_missed:
            return False
        return self._silent_from is None or self._clock() - self._silent_from < COMING_BACK_SECONDS

    @property
    def state(self) -> str:
        """State of the address, for operators."""
        if self.is_connected and self.cannot_be_dialled and (self.is_direct or self.tunnel is None):
            how = "another server answers" if self.leads_astray else "cannot be dialled"
            return f"connected, but {how} at {self.called_at}; {self._detour}"
        if self.is_direct and self.called_at != self.address:
            return f"connected at {self.called_at}, not at {self.address}: correct the table of peers"
        if self.is_connected and self._not_owned:
            return f"connected, but {self.server} does not own {', '.join(self._not_owned)}: correct the table of peers"
        if self.is_connected:
            return CONNECTED
        if self._refusal is not None:
            return f"refused: {self._refusal}"
        if self._silent_since is not None:
            since = datetime.fromtimestamp(self._silent_since, UTC)
            how = "stopped" if self._is_stopped else "silent"
            return f"{how} since {since:%Y-%m-%dT%H:%M:%SZ}: {self._why}"
        return CONNECTING

    def stuck_state(self, seconds: float, backlog_bytes: int) -> str:
        """Return `state` of a link to a server that has confirmed no message for some seconds."""
        since, mebibytes = datetime.fromtimestamp(self._wall_clock() - seconds, UTC), backlog_bytes / 2**20
        stuck = f"stuck since {since:%Y-%m-%dT%H:%M:%SZ}: it confirms none of {mebibytes:.1f} MiB of messages"
        state = self.state
        return f"connected, but {stuck}" if state == CONNECTED else f"{state}; {stuck}"

    @property
    def is_direct(self) -> bool:
        """True if the link is connected, and not through another server."""
        return self.is_connected and self.via is None

    @property
    def _detour(self) -> str:
        via = self.calls_via
        return "no other server passes calls on to it" if via is None else f"calls go through {via}"

    @property
    def calls_via(self) -> ServerId | None:
        """Server through which calls go. None if they go directly, or nowhere."""
        return None if self.tunnel is None else self.tunnel.via

    def is_ready(self) -> bool:
        """Return True if calls over the channel arrive. If not, the channel tries to connect from now on."""
        return self.channel.get_state(try_to_connect=True) is grpc.ChannelConnectivity.READY

    async def channel_for_calls(self) -> grpc.aio.Channel | None:
        """Return the channel over which calls arrive, as soon as it is known. None if there is none.

        The channel to a peer that dialled this server may not know yet: its earlier attempts failed, so it pauses, and
        fails calls meanwhile. If the link takes another channel meanwhile, this waits for that channel.
        """
        while True:
            channel = self.channel
            # Read the state once. A wait for a change from an outdated state would return at once.
            state = channel.get_state(try_to_connect=True)
            # A channel that looks connected may carry one way only, if the session goes through another server.
            if state is grpc.ChannelConnectivity.READY and self.is_direct and not self.leads_astray:
                return channel
            if self.tunnel is not None:
                return self.tunnel.channel
            if self.cannot_be_dialled or state is grpc.ChannelConnectivity.SHUTDOWN:
                return None
            await self._until_way_changes(channel, state)

    async def _until_way_changes(self, channel: grpc.aio.Channel, state: grpc.ChannelConnectivity) -> None:
        """Wait until the state of the channel changes, or until the link takes another way."""
        changing = asyncio.ensure_future(channel.wait_for_state_change(state))
        taking = asyncio.ensure_future(self._ways_changed.wait())
        try:
            await asyncio.wait((changing, taking), return_when=asyncio.FIRST_COMPLETED)
        finally:
            changing.cancel()
            taking.cancel()
            # A channel that was closed meanwhile raises an error, and so has changed.
            await asyncio.gather(changing, taking, return_exceptions=True)

    def take_tunnel(self, tunnel: WayThrough | None) -> None:
        """Use a tunnel in place of the last one. None for no tunnel."""
        if tunnel is self.tunnel:
            return
        if self.tunnel is not None:
            self._let_end(self.tunnel.close(OLD_CALLS_SECONDS))
        self.tunnel = tunnel
        self._note_way()

    def take_undialled(self) -> None:
        """Note that the server cannot be dialled. Calls go through the tunnel, or are refused if there is none."""
        self.cannot_be_dialled = True
        self._note_way()

    def can_be_dialled(self) -> None:
        """Note that calls go directly, or are refused because the link is not connected."""
        self.cannot_be_dialled = False

    def _note_way(self) -> None:
        self._ways_changed.set()
        self._ways_changed = asyncio.Event()

    def prove(self) -> None:
        """Note that the channel leads to the server of the session."""
        self.is_proven = True
        self.leads_astray = False

    def follow(self, address: str, channel: grpc.aio.Channel) -> None:
        """Call the server at another address, over this channel, which was found to lead to it."""
        self._take_channel(address, channel)
        self.prove()

    def try_next_address(self) -> None:
        """Choose the address to dial next: the address of the table, then the addresses that the server
        announced last.
        """
        known = (self.address, *(each for each in self.announced if each != self.address))
        after = known.index(self.called_at) + 1 if self.called_at in known else 0
        if (following := known[after % len(known)]) != self.called_at:
            self._take_channel(following, self.open_channel(following))

    @property
    def is_silent(self) -> bool:
        """True if no connection was possible, or the last one broke, and no server refused."""
        return not self.is_connected and self._silent_since is not None

    def connected(self, server: ServerId, owned: Iterable[Subnet], via: ServerId | None = None) -> None:
        """Note an open session with the server there, which owns the subnets `owned`, whichever server dialled."""
        self.server = server
        self._not_owned = tuple(sorted(frozenset(self.subnets).difference(owned)))
        self.via = via
        self.is_connected = True
        self._is_missed = False
        self._silent_since = self._silent_from = self._refusal = None
        self._is_stopped = False
        if via is None:
            self.backoff.reset()

    def disconnected(self, ending: Ending) -> None:
        """Note the end of a session, or of the attempt to open one."""
        self.is_connected = False
        self.via = None
        self.is_proven = self.leads_astray = False
        self.can_be_dialled()
        if ending.reason is not None and ending.reason.is_refusal:
            self._refusal = ending.message
            self._silent_since = self._silent_from = None
            return
        self._refusal = None
        if self._is_stopped:
            return
        self._is_stopped = ending.reason is GoodbyeReason.LEAVING and ending.is_by_peer
        self._why = ending.message
        if self._silent_since is None:
            self._silent_since, self._silent_from = self._wall_clock(), self._clock()

    def missed(self) -> None:
        """Note that the server is lost. Callers need not wait for it, and calls under way are cancelled."""
        self._is_missed = True
        for call in list(self._calls):
            call.cancel()

    @contextmanager
    def under_way(self, call: Call) -> Iterator[None]:
        """Register a call of the server for a block. The call is cancelled if the server is lost."""
        self._calls.add(call)
        try:
            yield
        finally:
            self._calls.discard(call)

    def renew(self) -> None:
        """Take a new channel. The connection of the old one may be dead without knowing it."""
        self._take_channel(self.called_at, self.open_channel(self.called_at))

    def open_channel(self, address: str) -> grpc.aio.Channel:
        """Return a channel to an address, for calls between servers."""
        return self._trust.channel(address, self.subnets, CHANNEL_OPTIONS)

    def why_not_dialled(self) -> str | None:
        """Return the reason for which the server must not be dialled. None if it may be."""
        return self._trust.why_not_dialled(self.called_at, self.subnets)

    def follow_trust(self) -> None:
        """Take a new channel if the own certificate, or what is pinned for the server, has changed."""
        if self.credential != self._trust.credential_for(self.subnets):
            self.renew()

    async def explained(self, ending: Ending) -> Ending:
        """Return the end of an attempt to connect with what a handshake tells of its cause."""
        if self.credential is None:
            is_tls = _CLOSED in ending.message and await speaks_tls(self.called_at)
            return Ending(None, f"{ending.message}: {_SPEAKS_TLS}") if is_tls else ending
        seen = await self._trust.see(self.called_at, self.subnets)
        match seen:
            case Unbelieved() | NotAuthentic():
                return Ending(GoodbyeReason.NOT_AUTHENTIC, seen.why)
            case PeerIdentity():
                return Ending(None, f"{ending.message}: {_BELIEVES_NOT}")
        return ending

    def _take_channel(self, address: str, channel: grpc.aio.Channel) -> None:
        self._let_end(self.channel.close(OLD_CALLS_SECONDS))
        self.called_at, self.channel = address, channel
        self.credential = self._trust.credential_for(self.subnets)
        self.is_proven = self.leads_astray = False

    def _let_end(self, closing: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def renew_unless_ready(self) -> None:
        """Do as `renew`, if the channel is not ready. It may pause after attempts that failed long ago."""
        if self.channel.get_state() is not grpc.ChannelConnectivity.READY:
            self.renew()

    async def close(self) -> None:
        """Close all channels, and the tunnel."""
        for closing in list(self._closing):
            closing.cancel()
        await asyncio.gather(*self._closing, return_exceptions=True)
        await self.channel.close(None)
        if self.tunnel is not None:
            await self.tunnel.close(None)
