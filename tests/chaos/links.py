"""The ways between servers, which can be broken: through TCP proxies, or of network namespaces.

    runner (clients) --- bridge ---+--- a.x     each server has a namespace with one veth on the bridge
                                   +--- b.x     what a.x sends to b.x is lost while a.x has a wrong link address of b.x

Proxies need no rights, and can close connections; namespaces lose packets, as networks do, and need a user namespace
in which the runner may do as it likes: `run_inside_namespaces` starts it again there. Only `ip` and `unshare` are used.
"""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import ExitStack

from shadowtree.cli.support.free_ports import unused_ports
from tests.fakes.tcp_proxy import NetworkInThread, Passage

INSIDE = "SHADOWTREE_CHAOS_INSIDE"
"""Set in the environment of a runner that is in a user namespace of its own."""

PORT = 7400
NOBODY = "02:00:00:00:01:00"
"""A link address that no server has."""


class Proxies:
    """All servers are on this machine's own network, and dial each other through proxies in this process."""

    told = "links are broken by TCP proxies, not by network namespaces"

    def __init__(self, names):
        self._names = names
        self._ports = unused_ports(len(names))

    def __enter__(self):
        self._stack = ExitStack()
        self._network = self._stack.enter_context(NetworkInThread())
        return self

    def __exit__(self, *_):
        self._stack.close()

    def address(self, number):
        """Return the address on which a server listens, for clients too."""
        return f"127.0.0.1:{self._ports[number]}"

    def way(self, source, destination):
        """Return the address at which one server dials another. To be called once for each pair."""
        return self._network.way(self._names[source], self._names[destination], self.address(destination))

    def command(self, number):
        """Return the words before the command of a server."""
        del number
        return []

    def set(self, source, destination, passage):
        """Set the fate of all bytes from one server to another."""
        self._network.set(self._names[source], self._names[destination], passage)


class Namespaces:
    """A network namespace for each server. To be used within `run_inside_namespaces`."""

    told = "links are broken between network namespaces, by losing packets; not by TCP proxies"

    def __init__(self, names):
        self._names = names

    def __enter__(self):
        ip("link set lo up")
        ip("link add bridge0 type bridge")
        ip(f"addr add {_host(254)}/24 dev bridge0")
        ip("link set bridge0 up")
        for number, name in enumerate(self._names):
            ip(f"netns add {name}")
            ip(f"link add veth{number} type veth peer name eth0 netns {name} address {_link_address(number)}")
            ip(f"link set veth{number} master bridge0 up")
            ip(f"-n {name} link set lo up")
            ip(f"-n {name} addr add {_host(number + 1)}/24 dev eth0")
            ip(f"-n {name} link set eth0 up")
        return self

    def __exit__(self, *_):
        for name in self._names:
            ip(f"netns delete {name}")
        ip("link delete bridge0")

    def address(self, number):
        """Return an address, see `Proxies`."""
        return f"{_host(number + 1)}:{PORT}"

    def way(self, source, destination):
        """Return an address, see `Proxies`."""
        del source
        return self.address(destination)

    def command(self, number):
        """Return words, see `Proxies`."""
        return ["ip", "netns", "exec", self._names[number]]

    def set(self, source, destination, passage):
        """Set a passage, see `Proxies`. Blocked bytes are lost silently."""
        link_address = _link_address(destination) if passage is Passage.PASS else NOBODY
        host = _host(destination + 1)
        ip(f"-n {self._names[source]} neighbour replace {host} lladdr {link_address} nud permanent dev eth0")


def links(names):
    """Return the best links that this process may have."""
    return Namespaces(names) if INSIDE in os.environ else Proxies(names)


def run_inside_namespaces(arguments):
    """Run `python -m tests.chaos` with these arguments where it may make namespaces; its status, or None: nowhere."""
    # Namespaces have names in /run, which is to be this run's own.
    prepared = ["unshare", "--map-root-user", "--net", "--mount", "sh", "-ec"]
    private_run = "mount -t tmpfs none /run"
    try:
        probe = subprocess.run(
            [*prepared, f"{private_run}; ip netns add probe; ip link add veth0 type veth peer name eth0 netns probe"],
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        return None
    if probe.returncode != 0:
        return None
    command = [sys.executable, "-m", "tests.chaos", *arguments]
    return subprocess.run(
        [*prepared, f'{private_run}; exec "$@"', "sh", *command], env={**os.environ, INSIDE: "1"}, check=False
    ).returncode


def ip(command):
    """Carry out a command of `ip`."""
    subprocess.run(["ip", *command.split()], check=True)


def _host(number):
    return f"10.99.0.{number}"


def _link_address(number):
    return f"02:00:00:00:00:{number + 1:02x}"
