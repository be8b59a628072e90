"""Name servers as processes that know one another, each with a client; any of them may be killed and started again."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager

import shadowtree
from tests.integration.nameserver.server_process import full_disk_of, wait_until

CALL_SECONDS = 30
"""A call of a test that is not about time: long for a machine with many other things to do."""


class SeveralServers:
    """One server for each share of subnets. All are running and connected when the constructor returns."""

    def __init__(self, start, folder, ports, shares, environments=None, **settings):
        """`environments`: variables that one process each has."""
        self._start = start
        self._environments = environments or [{} for _ in shares]
        self._settings = settings
        self._folder = folder
        self._ports = ports
        self.shares = [list(share) for share in shares]
        self.processes = [self._process(number) for number in range(len(shares))]
        self.clients = [self.new_client(number) for number in range(len(shares))]
        self.wait_for_connections()

    def address(self, number):
        return f"127.0.0.1:{self._ports[number]}"

    def peer_address(self, number):
        """Return the address at which other servers reach a server."""
        return self.address(number)

    def peers(self, number):
        """Return the subnets of the peers of a server, with their addresses."""
        return [
            f"{subnet}={self.peer_address(other)}"
            for other, share in enumerate(self.shares)
            if other != number
            for subnet in share
        ]

    def new_client(self, number):
        """Another client of one server."""
        return shadowtree.Client(self.address(number), timeout=CALL_SECONDS)

    def kill(self, number):
        """End one as a crash would."""
        self.processes[number].kill()

    @contextmanager
    def stopped(self, number):
        """Stop one server, so that it hears and says nothing. Its connections stay."""
        os.kill(self.processes[number].process.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            self.processes[number].process.send_signal(signal.SIGCONT)

    @contextmanager
    def full_disk(self, number):
        """Give one server a full disk: it can write next to nothing. All else of it goes on."""
        with full_disk_of(self.processes[number].process.pid):
            yield

    def start_again(self, number):
        """Start one on the database that it had."""
        self.processes[number] = self._process(number)

    def wait_for_connections(self):
        for client in self.clients:
            wait_until(
                lambda client=client: {peer.state for peer in client.status().peers} <= {"connected"},
                "a connection with every peer",
            )

    def close(self):
        for client in self.clients:
            client.close()

    def _process(self, number):
        return self._start(
            self._folder / f"{number}.db",
            subnets=self.shares[number],
            listen=self.address(number),
            environment=self._environments[number],
            peers=self.peers(number),
            **self._settings,
        )


def answered(ask, *, not_yet=shadowtree.Unavailable, is_whole=lambda _: True):
    """Return an answer once it is whole, asking again until then. `not_yet`: errors on which it is asked again."""
    found = []

    def is_answered():
        try:
            found.append(ask())
        except not_yet:
            return False
        return is_whole(found[-1])

    wait_until(is_answered, "an answer")
    return found[-1]
