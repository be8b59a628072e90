"""Lookups a second that a mail gateway answers over one connection, asked by Postfix's `postmap` where it is installed.

Each series runs beside a server of the same protocol that answers every request at once: the bare round trip.
"""

from __future__ import annotations

import asyncio
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import cast

from benchmarks.report import Figure
from benchmarks.servers import ServerProcess, connected, running
from mailing.rules.framing import netstring
from shadowtree import Arc
from shadowtree.cli.demo.postfix import program

SUBNET = "ubc.example"
DOMAIN = f"lists.{SUBNET}"
PEOPLE = 150
LIST = f"all@{DOMAIN}"
CONFIG = f"""\
server = "{{server}}"
maps_listen = "127.0.0.1:0"

[domains]
"{DOMAIN}" = "{SUBNET}"
"""
NOTHING = netstring(b"NOTFOUND ")

Ask = Callable[[int, str, int], float]
"""Function that asks the map at a port for a key a number of times, and returns the answers a second."""


def measure(*, quick: bool) -> list[Figure]:
    """Measure one name server and one gateway."""
    lookups, rounds = (2_000, 3) if quick else (20_000, 7)
    ask, how = _by_postmap(program("postmap"))
    with (
        tempfile.TemporaryDirectory() as folder,
        connected(Path(folder), subnets=[SUBNET]) as (server, client),
        running([sys.executable, "-m", "benchmarks.mail_lookups"], r"bare on 127.0.0.1:(\d+)$") as bare,
    ):
        client.import_arcs(
            Arc(f"all@{SUBNET}", f"person-{number:03}@people.example", "process") for number in range(PEOPLE)
        )
        with running_maps(Path(folder), server) as gateway:
            figures = []
            for what, key, target in (
                ("another domain", "ann@people.example", 8_000),
                ("a person of the domain of lists", f"ann@{DOMAIN}", 8_000),
                (f"a list of {PEOPLE}", LIST, 2_000),
            ):
                rates: dict[str, list[float]] = {"gateway": [], "bare": []}
                for _ in range(rounds):
                    rates["bare"].append(ask(int(bare.address), key, lookups))
                    rates["gateway"].append(ask(int(gateway.address), key, lookups))
                found, yardstick = (statistics.median(rates[each]) for each in ("gateway", "bare"))
                note = f"{found / yardstick:.2f} of the bare round trip, {yardstick:,.0f}; asked by {how}"
                name = f"lookups of {what}, one connection"
                figures.append(Figure(name, found, target, "a second", lower_is_better=False, note=note))
    return figures


@contextmanager
def running_maps(folder: Path, server: ServerProcess) -> Iterator[ServerProcess]:
    """Run a gateway that answers lookups in the lists of `SUBNET`. Its address is the port of its maps."""
    config = folder / "mail.toml"
    config.write_text(CONFIG.format(server=server.address))
    command = [sys.executable, "-m", "shadowtree", "mail", "serve", "--config", str(config)]
    with running(command, r"maps 127.0.0.1:(\d+)$") as gateway:
        yield gateway


def members_map(port: int) -> str:
    """Return Postfix's name for the map of a gateway, or of a server that answers like one."""
    return f"socketmap:inet:127.0.0.1:{port}:members"


def rate_by_postmap(postmap: str, table: str, keys: Sequence[str]) -> float:
    """Return the keys a second that Postfix's `postmap` finds in a map."""
    started = time.perf_counter()
    asked = subprocess.run(
        [postmap, "-q", "-", table],
        input="".join(f"{key}\n" for key in keys),
        text=True,
        capture_output=True,
        check=False,
    )
    seconds = time.perf_counter() - started
    assert not asked.stderr, asked.stderr
    return len(keys) / seconds


def _by_postmap(postmap: str | None) -> tuple[Ask, str]:
    if postmap is None:
        return _ask, "a client in Python, since there is no postmap"
    return lambda port, key, lookups: rate_by_postmap(postmap, members_map(port), [key] * lookups), "postmap"


def _ask(port: int, key: str, lookups: int) -> float:
    request = netstring(f"members {key}".encode())
    with socket.create_connection(("127.0.0.1", port)) as connection:
        reader = connection.makefile("rb")
        started = time.perf_counter()
        for _ in range(lookups):
            connection.sendall(request)
            length = b""
            while not length.endswith(b":"):
                length += reader.read(1)
            reader.read(int(length[:-1]) + 1)
        return lookups / (time.perf_counter() - started)


class Bare(asyncio.Protocol):
    """Answers each request as soon as it comes, without parsing it. Requests arrive whole, one after the other."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        del data
        self._transport.write(NOTHING)


async def _answer_all() -> None:
    server = await asyncio.get_running_loop().create_server(Bare, "127.0.0.1", 0)
    print(f"bare on 127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    sys.exit(asyncio.run(_answer_all()))
