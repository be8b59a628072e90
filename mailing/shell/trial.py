"""Trial of a start: the steps of `mail serve` up to its first request, done and undone.

A configuration that passes starts: libraries are there, ports are free, the database opens and holds data that a
gateway has written, commands have a socket. The trial leaves no trace. A gateway that runs with these settings holds
its ports and its database. The check recognises it by its control socket, and says so.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from contextlib import ExitStack, suppress
from pathlib import Path

from mailing.config.settings import MailSettings
from mailing.shell.control import ControlError, Request, ask, listen_at
from mailing.shell.conversations import why_not_listening
from mailing.shell.distributing import GatewayStartError
from mailing.shell.gateway import NO_METRICS
from mailing.spool.store import SpoolError, SpoolInUseError, try_spool
from nameserver.config.port_check import listens
from shadowtree.aio import Client
from shadowtree.errors import ShadowtreeError, UnknownSubnet

NAME_SERVER_SECONDS = 3.0


def try_start(settings: MailSettings) -> list[str]:
    """Return warnings. Raise `GatewayStartError` if a gateway with these settings would not start."""
    through = settings.distribution
    if settings.metrics_listen is not None:
        try:
            import prometheus_client  # noqa: F401
        except ImportError:
            raise GatewayStartError(NO_METRICS) from None
    listeners = {
        "maps_listen": settings.maps_listen,
        "policy_listen": settings.policy_listen,
        "lmtp_listen": None if through is None else through.lmtp_listen,
        "click_listen": None if through is None else through.click_listen,
        "metrics_listen": settings.metrics_listen,
    }
    taken: dict[str, GatewayStartError] = {}
    with ExitStack() as held:
        for key, address in listeners.items():
            if address is not None:
                _bind(held, key, address, taken)
    running = None
    if through is not None:
        try:
            try_spool(through.database)
        except SpoolInUseError as error:
            running = _running(through.control, error)
        except SpoolError as error:
            raise GatewayStartError(str(error)) from None
    for address, refused in taken.items():
        if running is None or listens(running, int(address.rpartition(":")[2])) is False:
            raise refused
    if running is None:
        return asyncio.run(_try_in_loop(settings))
    note = f"a gateway with these settings runs (process {running}); they hold when it is started again"
    return [note, *asyncio.run(_warnings(settings))]


def _running(control: Path, error: SpoolInUseError) -> int:
    """Return the process of the gateway with these settings. Raise `GatewayStartError` if another program runs."""
    with suppress(ControlError):
        asyncio.run(ask(control, Request("stats")))
        if error.process is not None:
            return error.process
    raise GatewayStartError(str(error))


async def _try_in_loop(settings: MailSettings) -> list[str]:
    if settings.distribution is not None:
        await _try_control(settings.distribution.control)
    return await _warnings(settings)


async def _warnings(settings: MailSettings) -> list[str]:
    async with Client(settings.server, timeout=NAME_SERVER_SECONDS) as client:
        warnings = []
        for subnet in sorted(set(settings.lists.subnets.values())):
            try:
                await client.groups(subnet)
            except UnknownSubnet:
                warnings.append(f"domains: no name server that {settings.server} knows of owns {subnet}")
            except ShadowtreeError as error:
                return [*warnings, f"server: {settings.server} was not asked who owns {subnet}: {error.message}"]
    return warnings


async def _try_control(path: Path) -> None:
    """Take connections at a path for a moment."""
    try:
        server = await listen_at(path, lambda _reader, writer: writer.close())
    except OSError as error:
        raise GatewayStartError(f"cannot listen on {path}: {error.strerror or error}") from None
    server.close()
    path.unlink(missing_ok=True)


def _bind(held: ExitStack, key: str, address: str, taken: dict[str, GatewayStartError]) -> None:
    """Hold the port of a listener as the event loop would. Ports in use are added to `taken`."""
    host, _, port = address.rpartition(":")
    try:
        found = socket.getaddrinfo(
            host.removeprefix("[").removesuffix("]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        for family, kind, protocol, _, place in dict.fromkeys(found):
            one = held.enter_context(socket.socket(family, kind, protocol))
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(place)
            one.listen()
    except OSError as error:
        refused = GatewayStartError(f"cannot listen on {address}: {why_not_listening(error)} ({key})")
        if error.errno != errno.EADDRINUSE:
            raise refused from None
        taken[address] = refused
