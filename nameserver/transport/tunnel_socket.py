"""Tunnels that this server dials: a Unix socket for each, so that channels over it are used like any other channel.

    channel --unix:PATH--> socket of this process --Tunnel(stream)--> server between --> other server
            <------------- HTTP/2 of the two ends, with TLS where it is spoken -------------->

Each connection to the socket is one call of `Tunnel` over the channel to the server between, as that channel is then.
The sockets lie in a folder that only the user of this process may open.
"""

from __future__ import annotations

import asyncio
import itertools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlencode

import grpc

from namegraph import ServerId
from nameserver.config.socket_paths import UNIX_PREFIX
from nameserver.transport.peer_link import Link
from nameserver.transport.peer_streams import DialledStream, StreamBrokenError
from nameserver.transport.tunnel_copy import copy_both_ways
from nameserver.wire.metadata import PRINCIPAL_KEY, TO_KEY
from nameserver.wire.tunnel_pieces import PIECE_BYTES_LIMIT

TUNNEL_METHOD = "/shadowtree.v1.PeerService/Tunnel"

OPENED_SECONDS = 2.0
"""Longest wait for the server between to open a tunnel. It dials the other server for a second at most."""

CONNECTIONS_LIMIT = 2
"""Connections to one socket: that of the channel, and one that is not closed yet when the channel connects again."""


class Tunnel:
    """Way to a server through another one."""

    def __init__(self, *, via: ServerId, dial: Callable[[], DialledStream | None], path: Path) -> None:
        """`dial`: begins a call of `Tunnel`. None if the server between is out of reach."""
        self.via = via
        self.channel: grpc.aio.Channel
        self._dial = dial
        self._path = path
        self._connections: set[asyncio.Task[None]] = set()
        self._socket: asyncio.Server | None = None

    async def open(self, channel_to: Callable[[str], grpc.aio.Channel]) -> None:
        """Listen, and set `channel`. `channel_to` returns a channel to an address. Raises `OSError`."""
        self._socket = await asyncio.start_unix_server(self._accept, self._path, limit=PIECE_BYTES_LIMIT)
        self.channel = channel_to(self.address)

    @property
    def address(self) -> str:
        """Address to which the channel leads."""
        return f"{UNIX_PREFIX}{self._path}"

    async def close(self, grace_seconds: float | None) -> None:
        """End the tunnel. Calls under way may take `grace_seconds`."""
        try:
            await self.channel.close(grace_seconds)
        finally:
            if self._socket is not None:
                self._socket.close()
            self._path.unlink(missing_ok=True)
            for connection in self._connections:
                connection.cancel()
            if self._connections:
                await asyncio.wait(self._connections)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= CONNECTIONS_LIMIT:
            writer.close()
            return
        connection = asyncio.ensure_future(self._carry(reader, writer))
        self._connections.add(connection)
        connection.add_done_callback(self._connections.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        stream = self._dial()
        try:
            if stream is not None and await is_opened(stream):
                await copy_both_ways(stream, reader, writer)
        finally:
            if stream is not None:
                stream.cancel()
            writer.close()


async def is_opened(stream: DialledStream) -> bool:
    """Wait for the first answer to a call of `Tunnel`. Return True if the tunnel is open."""
    try:
        async with asyncio.timeout(OPENED_SECONDS):
            return await stream.read() is not None
    except (StreamBrokenError, TimeoutError):
        return False


class TunnelSockets:
    """Sockets of all tunnels that this server dials, in a folder of its own."""

    def __init__(
        self, *, here: ServerId, link_of: Callable[[ServerId], Link | None], say: Callable[[str], None]
    ) -> None:
        """`say` writes a line for operators."""
        self._mark = (PRINCIPAL_KEY, urlencode({"server": here}))
        self._link_of = link_of
        self._say = say
        self._folder: Path | None = None
        self._numbers = itertools.count(1)
        self._has_complained = False

    async def is_carried(self, server: ServerId, *, via: ServerId) -> bool:
        """Return True if a server opens tunnels to another one."""
        stream = self._dial(server, via)
        if stream is None:
            return False
        try:
            return await is_opened(stream)
        finally:
            stream.cancel()

    async def open(self, server: ServerId, *, via: ServerId, link: Link) -> Tunnel | None:
        """Return a tunnel to the server of a link. None if this machine has no room for a socket."""
        try:
            if self._folder is None or not self._folder.is_dir():
                # Only the user of this process may open the folder (mode 0700). It may have been cleaned away.
                self._folder = Path(tempfile.mkdtemp(prefix="shadowtree-"))
            path = self._folder / str(next(self._numbers))
            tunnel = Tunnel(via=via, dial=lambda: self._dial(server, via), path=path)
            await tunnel.open(link.open_channel)
        except OSError as error:
            self._complain(error)
            return None
        return tunnel

    def close(self) -> None:
        """Remove the folder. No tunnel can be opened then."""
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _dial(self, server: ServerId, via: ServerId) -> DialledStream | None:
        link = self._link_of(via)
        if link is None or not link.is_direct or not link.is_ready():
            return None
        return DialledStream(link.channel, method=TUNNEL_METHOD, metadata=((TO_KEY, server), self._mark))

    def _complain(self, error: OSError) -> None:
        if not self._has_complained:
            self._has_complained = True
            self._say(
                f"no tunnel can be opened: no socket in the folder for temporary files ({error}); set TMPDIR to a "
                "folder that can be written and has a short name"
            )
