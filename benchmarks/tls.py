"""Calls over TLS, and updates of two servers over mutual TLS, against the same in plain text, in turns in one run.

Two pairs of servers: one in plain text, one with certificates. At both everybody may do everything. Calls are compared
between servers that both judge their callers: one takes them over TLS, one in plain text.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc

from benchmarks.report import Figure
from benchmarks.servers import SERVING, SHADOWTREE, ServerProcess, running
from nameserver.trust.authority_folder import AuthorityFolder
from shadowtree import Client
from shadowtree.cli.support.free_ports import unused_ports
from shadowtree.v1 import name_service_pb2 as messages

HERE, THERE = "a.x", "b.x"
GROUP, MEMBER = "list@a.x", "ann@a.x"
CHECK = "/shadowtree.v1.NameService/Check"

CALLERS = 16
ROUNDS = 5
CONNECTION_PATIENCE_SECONDS = 30


def measure(*, quick: bool) -> list[Figure]:
    """Measure calls a second, the time of one call, the time of a connection, and the time of a join."""
    calls, connections, joins = (200, 10, 40) if quick else (3_000, 60, 400)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        plain = stack.enter_context(_pair(folder / "plain", None))
        authority = AuthorityFolder.begin(folder / "ca", HERE, at=datetime.now(UTC))
        secured = stack.enter_context(_pair(folder / "tls", authority))
        ca = folder / "ca" / "ca.pem"
        also = AuthorityFolder.begin(folder / "also-ca", HERE, at=datetime.now(UTC))
        judging = stack.enter_context(_pair(folder / "judging", also, is_plain_for_clients=True))
        clients = [stack.enter_context(Client(plain.address)), stack.enter_context(Client(secured.address, ca=ca))]
        for client in (*clients, stack.enter_context(Client(judging.address))):
            client.create_group(GROUP)
            client.join(GROUP, MEMBER, kind="process")
        figures = asyncio.run(_measure_calls(judging.address, secured.address, ca.read_bytes(), calls, connections))
        return [*figures, _measure_joins(clients, joins)]


@contextmanager
def _pair(
    folder: Path, authority: AuthorityFolder | None, *, is_plain_for_clients: bool = False
) -> Iterator[ServerProcess]:
    """Run two servers that are peers. Yield the first."""
    folder.mkdir()
    names = (HERE, THERE)
    listen = dict(zip(names, unused_ports(2), strict=True))
    mutual = dict(zip(names, unused_ports(2), strict=True))
    with ExitStack() as stack:
        servers = []
        for name, other in ((HERE, THERE), (THERE, HERE)):
            settings: dict[str, Any] = {
                "database": f"sqlite:///{folder / name}.db",
                "listen": f"127.0.0.1:{listen[name]}",
                "listen_local": "none",
                "subnets": [name],
                "peers": {other: {"address": f"127.0.0.1:{listen[other]}"}},
            }
            if authority is not None:
                issued = authority.issue_server(name, [name], at=datetime.now(UTC))
                trust = str(authority.folder / "ca.pem")
                settings |= {
                    "tls": {"certificate": str(issued.certificate), "key": str(issued.key)},
                    "listen_mutual": f"127.0.0.1:{mutual[name]}",
                    "peers": {other: {"address": f"127.0.0.1:{mutual[other]}", "trust": trust}},
                    "policy": {"operators": ["anyone"], "default_preset": "open", "people": "open"},
                    "insecure_listen_on_a_public_address": is_plain_for_clients,
                }
            file = folder / f"{name}.toml"
            file.write_text("".join(f"{key} = {_toml(value)}\n" for key, value in settings.items()))
            servers.append(stack.enter_context(running([*SHADOWTREE, "serve", "--config", str(file)], SERVING)))
        ca = None if authority is None or is_plain_for_clients else authority.folder / "ca.pem"
        with Client(servers[0].address, ca=ca) as client:
            deadline = time.monotonic() + CONNECTION_PATIENCE_SECONDS
            while not all(peer.state == "connected" for peer in client.status().peers):
                if time.monotonic() > deadline:
                    raise RuntimeError(f"no connection: {client.status().peers}")
                time.sleep(0.05)
        yield servers[0]


def _toml(value: object) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{json.dumps(key)} = {_toml(each)}" for key, each in value.items()) + "}"
    return json.dumps(value)


class Way:
    """Way of calls: in plain text, or over TLS."""

    def __init__(self, address: str, ca: bytes | None) -> None:
        self._address = address
        self._ca = ca

    def channel(self) -> grpc.aio.Channel:
        """Return a new channel, with a connection of its own."""
        own: tuple[tuple[str, Any], ...] = (("grpc.use_local_subchannel_pool", 1),)
        if self._ca is None:
            return grpc.aio.insecure_channel(self._address, options=own)
        options = (*own, ("grpc.ssl_target_name_override", f"shadowtree.{HERE}"))
        return grpc.aio.secure_channel(self._address, grpc.ssl_channel_credentials(self._ca), options=options)


async def _measure_calls(plain: str, secured: str, ca: bytes, calls: int, connections: int) -> list[Figure]:
    ways = (Way(plain, None), Way(secured, ca))
    channels = [way.channel() for way in ways]
    for channel in channels:
        await _rate(channel, calls // 10)
    rates = [[await _rate(channel, calls) for channel in channels] for _ in range(ROUNDS)]
    times = [[await _median(channel, calls // 5) for channel in channels] for _ in range(ROUNDS)]
    begun = [[await _first_call(way) for way in ways] for _ in range(connections)]
    for channel in channels:
        await channel.close()
    plain_rate, tls_rate = (statistics.median(column) for column in zip(*rates, strict=True))
    plain_time, tls_time = (statistics.median(column) for column in zip(*times, strict=True))
    plain_first, tls_first = (statistics.median(column) for column in zip(*begun, strict=True))
    return [
        Figure(
            f"calls a second over TLS, {CALLERS} at once, to those in plain text",
            tls_rate / plain_rate,
            0.85,
            "x",
            lower_is_better=False,
            note=f"{tls_rate:,.0f} a second against {plain_rate:,.0f}",
        ),
        Figure(
            "  one check over TLS, p50",
            tls_time / plain_time,
            1.15,
            "x",
            note=f"{tls_time * 1e6:,.0f} us against {plain_time * 1e6:,.0f} us",
        ),
        Figure(
            "  connection and first call over TLS",
            tls_first * 1e3,
            8,
            "ms",
            note=f"{plain_first * 1e3:.1f} ms in plain text",
        ),
    ]


def _measure_joins(clients: list[Client], joins: int) -> Figure:
    times: list[list[float]] = [[], []]
    for client in clients:
        for group in (f"{kind}{number}" for number in range(joins) for kind in ("p", "c")):
            client.create_group(f"{group}@{HERE if group[0] == 'p' else THERE}")
    for number in range(joins):
        for of_client, client in zip(times, clients, strict=True):
            started = time.perf_counter()
            client.join(f"p{number}@{HERE}", f"c{number}@{THERE}", kind="group")
            of_client.append(time.perf_counter() - started)
    plain, tls = map(statistics.median, times)
    return Figure(
        "  join over two servers over mutual TLS, p50",
        tls / plain,
        1.15,
        "x",
        note=f"{tls * 1e3:.1f} ms against {plain * 1e3:.1f} ms",
    )


def _asked(channel: grpc.aio.Channel) -> tuple[Any, bytes]:
    return channel.unary_unary(CHECK), messages.CheckRequest(group=GROUP, member=MEMBER).SerializeToString()


async def _rate(channel: grpc.aio.Channel, calls: int) -> float:
    ask, request = _asked(channel)

    async def one_caller() -> None:
        for _ in range(calls // CALLERS):
            assert messages.CheckResponse.FromString(await ask(request)).is_member

    started = time.perf_counter()
    await asyncio.gather(*(one_caller() for _ in range(CALLERS)))
    return calls // CALLERS * CALLERS / (time.perf_counter() - started)


async def _median(channel: grpc.aio.Channel, calls: int) -> float:
    ask, request = _asked(channel)
    times = []
    for _ in range(calls):
        started = time.perf_counter()
        await ask(request)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


async def _first_call(way: Way) -> float:
    started = time.perf_counter()
    channel = way.channel()
    ask, request = _asked(channel)
    await ask(request)
    took = time.perf_counter() - started
    await channel.close()
    return took
