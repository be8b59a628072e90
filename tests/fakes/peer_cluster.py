"""Several servers of `peer_server` in this process, with a network between them that a test breaks."""

from __future__ import annotations

from shadowtree.cli.support.free_ports import unused_ports
from tests.fakes.peer_core import FakeDisk, FakePeerCore
from tests.fakes.peer_server import FakeServer, until
from tests.fakes.tcp_proxy import Network


class PeerCluster:
    """Fake servers, each of which dials each other one on a way of the network."""

    def __init__(self, limits):
        self._limits = limits
        self.network = Network()
        self.servers = {}
        self._ports = {}

    async def start(self, *names, limits=None, older=()):
        """Start servers of these names; when it returns they have all met, and each pair has settled on one session.

        `older`: names of servers that know no tunnels.
        """
        self._ports = dict(zip(names, unused_ports(len(names)), strict=True))
        ways = {
            (one, other): await self.network.way(one, other, f"127.0.0.1:{self._ports[other]}")
            for one in names
            for other in names
            if one != other
        }
        for name in names:
            peers = {other: ways[name, other] for other in names if other != name}
            self.servers[name] = FakeServer(
                FakePeerCore(name, [name], peers),
                FakeDisk(),
                limits or self._limits,
                lacks=["Tunnel"] if name in older else [],
            )
            await self.servers[name].start(self._ports[name])
        servers = list(self.servers.values())
        await until(lambda: all(set(each.core.met) == set(names) - {each.core.server} for each in servers))
        await until(lambda: all(len(each.transport._conversations) == len(names) - 1 for each in servers))
        return servers

    async def close(self):
        await self.network.close()
        for server in self.servers.values():
            await server.kill()


def lost(server):
    """Return the peers that a server has lost, in order, one entry for each loss."""
    return [peer for peer, _ in server.core.lost]
