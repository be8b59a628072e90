"""The servers of the demo: separate processes on free ports, each with its own database in one folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from shadowtree.cli.demo.processes import DemoProcess
from shadowtree.cli.support.free_ports import unused_ports

NAMES: Final = ("north", "south", "west")


@dataclass(frozen=True, slots=True)
class DemoServer:
    """A running server."""

    name: str
    process: DemoProcess
    address: str
    subnet_count: int


@dataclass(slots=True)
class DemoServers:
    """Servers that are peers of one another."""

    folder: Path
    all: list[DemoServer]

    @classmethod
    def start(cls, folder: Path, shares: Sequence[Sequence[str]]) -> DemoServers:
        """Start one server for each share of subnets; return once all take calls."""
        addresses = [f"127.0.0.1:{port}" for port in unused_ports(len(shares))]
        for name, subnets, address in zip(NAMES, shares, addresses, strict=True):
            (folder / f"{name}-subnets.txt").write_text("\n".join(subnets) + "\n", encoding="utf-8")
            peers = "\n".join(f"{subnet}={address}" for subnet in subnets)
            (folder / f"{name}-as-peer.txt").write_text(peers + "\n", encoding="utf-8")
        with ExitStack() as started:
            servers = []
            for name, subnets, address in zip(NAMES, shares, addresses, strict=True):
                process = _launch(folder, name, address)
                started.callback(process.stop)
                server = DemoServer(name, process, address, len(subnets))
                servers.append(server)
            for server in servers:
                server.process.first_line()
            started.pop_all()
        return cls(folder, servers)

    def start_again(self, server: DemoServer) -> None:
        """Restart a server that has ended, with its database; return once it takes calls."""
        again = replace(server, process=_launch(self.folder, server.name, server.address))
        self.all[self.all.index(server)] = again
        again.process.first_line()

    def stop(self) -> None:
        """End all servers and wait until they are gone."""
        for server in self.all:
            server.process.terminate()
        for server in self.all:
            server.process.stop()


def deal(weights: Mapping[str, int], shares: int) -> list[list[str]]:
    """Divide subnets into so many shares of about the same weight. Each share is sorted."""
    dealt: list[list[str]] = [[] for _ in range(shares)]
    loads = [0] * shares
    for subnet in sorted(weights, key=lambda subnet: (-weights[subnet], subnet)):
        lightest = loads.index(min(loads))
        dealt[lightest].append(subnet)
        loads[lightest] += weights[subnet]
    return [sorted(share) for share in dealt]


def command_of(name: str) -> str:
    """Return the command that starts one of the servers, as typed in its folder."""
    peers = " ".join(f"--peer @{other}-as-peer.txt" for other in NAMES if other != name)
    return f"serve --subnet @{name}-subnets.txt {peers} --database sqlite:///{name}.db"


def _launch(folder: Path, name: str, address: str) -> DemoProcess:
    arguments = ["shadowtree", "serve", "--listen", address]
    arguments += ["--subnet", f"@{folder / f'{name}-subnets.txt'}", "--database", f"sqlite:///{folder / f'{name}.db'}"]
    for other in NAMES:
        if other != name:
            arguments += ["--peer", f"@{folder / f'{other}-as-peer.txt'}"]
    # Without a local socket, which would lie outside of a folder with a long path.
    variables = {"SHADOWTREE_NAME": f"{name}.demo", "SHADOWTREE_LISTEN_LOCAL": "none"}
    return DemoProcess.launch(folder, name, arguments, variables)
