"""Servers of the last release are upgraded one after the other; they and those of this one answer as one meanwhile."""

import os
import subprocess
import sys
from contextlib import ExitStack
from itertools import pairwise

import pytest

import shadowtree
from namegraph.update.forgetting import FORGOTTEN_FROM
from shadowtree.cli.support.free_ports import unused_ports
from tests.integration.nameserver.server_process import PATIENCE_SECONDS, wait_until
from tests.last_release import ROOT, unpack_last_release

SUBNETS = ("a.x", "b.x", "c.x")
GROUPS = [f"g@{subnet}" for subnet in SUBNETS]
TO_BE_LEFT = FORGOTTEN_FROM + 200
"""Number of members that leave, so large that a server of this release has tombstones to forget with each peer."""

REMEMBERED_LIMIT = 5 * FORGOTTEN_FROM
"""Limit on the tombstones of each of three servers: for itself, and for and with each of the others.

The arcs with an end at a server are six times `TO_BE_LEFT`.
"""


class Federation:
    """Three servers, each of which runs from the sources that it was started from last."""

    def __init__(self, ending, folder):
        self._ending, self._folder = ending, folder
        self._addresses = dict(zip(SUBNETS, (f"127.0.0.1:{port}" for port in unused_ports(3)), strict=True))
        self._processes = {}
        self.clients = {subnet: shadowtree.Client(address) for subnet, address in self._addresses.items()}
        for client in self.clients.values():
            ending.callback(client.close)

    def start(self, subnet, sources):
        peers = [f"--peer={other}={at}" for other, at in self._addresses.items() if other != subnet]
        settings = [f"--subnet={subnet}", f"--listen={self._addresses[subnet]}"]
        settings += [f"--database=sqlite:///{self._folder / subnet}.db", *peers]
        process = subprocess.Popen(
            [sys.executable, "-m", "shadowtree", "serve", *settings],
            cwd=sources,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={key: value for key, value in os.environ.items() if not key.startswith("SHADOWTREE_")},
        )
        self._ending.callback(process.communicate)
        self._ending.callback(process.kill)
        assert process.stdout.readline().startswith(b"serving ")
        self._processes[subnet] = process

    def upgrade(self, subnet):
        """Upgrade a server as an operator does: end it, and start it again from these sources."""
        self._processes[subnet].terminate()
        assert self._processes[subnet].wait(PATIENCE_SECONDS) == 0
        self.start(subnet, ROOT)

    def wait_until_whole(self):
        """Wait until all servers are connected, and know all updates made while one was away."""
        for subnet, client in self.clients.items():
            wait_until(lambda client=client: self._is_whole(client), f"all peers of {subnet}, and no arc suspended")

    @staticmethod
    def _is_whole(client):
        return all((peer.state, peer.life) == ("connected", "up") for peer in client.peers().peers) and (
            not client.status().suspended
        )


@pytest.fixture
def federation(tmp_path):
    release = tmp_path / "release"
    unpack_last_release(release)
    with ExitStack() as ending:
        federation = Federation(ending, tmp_path)
        for subnet in SUBNETS:
            federation.start(subnet, release)
        federation.wait_until_whole()
        yield federation


def members_of_all(number):
    return [(group, f"m{number}-{there}@{there}") for group in GROUPS for there in SUBNETS]


def use_all(clients, number):
    """Updates through each server that reach all others, of which nothing is left, and answers of all."""
    through = clients[SUBNETS[number % 3]]
    through.apply([shadowtree.Join(group, member, "process") for group, member in members_of_all(number)])
    # A loop through all three servers, closed by one and opened by another.
    for parent, child in pairwise([*GROUPS, GROUPS[0]]):
        through.join(parent, child)
    expected = {member for _, member in members_of_all(number)}
    for client in clients.values():
        found = client.resolve(GROUPS[1])
        assert (set(found.processes), found.unreachable) == (expected, ())
        assert client.check(GROUPS[2], f"m{number}-a.x@a.x").is_member
        assert client.check(GROUPS[0], "nobody@outside.example").is_member is False
    other = clients[SUBNETS[(number + 1) % 3]]
    for parent, child in pairwise([*GROUPS, GROUPS[0]]):
        other.leave(parent, child)
    other.apply([shadowtree.Leave(group, member) for group, member in members_of_all(number)])


def ask_for_sets(clients, upgraded):
    """Resolve several groups at a server of this release together with upgraded peers. It must name the other peers."""
    for subnet in upgraded:
        found = clients[subnet].resolve(GROUPS)
        older = sorted(set(SUBNETS) - set(upgraded))
        assert found.unreachable == tuple(f"g@{other}" for other in older)
        assert [why.split(" is ")[0] for why in found.why_unreachable] == [f"the server {other}" for other in older]
        assert all("of an older release" in why for why in found.why_unreachable)


def describe_groups(clients, upgraded):
    """Set descriptions through upgraded servers. Those that keep none say so, and their groups are found by names."""
    for group, home in zip(GROUPS, SUBNETS, strict=True):
        for through in upgraded:
            names = clients[through]
            if home in upgraded:
                names.set_group(group, description=f"Set by {through}")
                told = [clients[subnet].describe(group).description for subnet in SUBNETS]
                assert told == [f"Set by {through}"] * 3
            else:
                with pytest.raises(shadowtree.ServerFault, match="does not know this call"):
                    names.set_group(group, description="text")
                with pytest.raises(shadowtree.ServerFault, match="created, but without its details"):
                    names.create_group(f"new@{home}", description="text")
                names.delete_group(f"new@{home}")
    for through in upgraded:
        assert clients[through].groups(contains="G@").groups == tuple(GROUPS)
        described = tuple(group for group in GROUPS if group.removeprefix("g@") in upgraded)
        assert clients[through].groups(contains="set BY").groups == described
        assert {arc.parent for arc in clients[through].export() if arc.details} == set(described)
    for older in set(SUBNETS) - set(upgraded):
        with pytest.raises(shadowtree.ServerFault, match="the server does not search"):
            clients[older].groups(contains="text")


def let_many_come_and_go(client):
    """Members of other servers, so that what is left of them is forgotten in agreement."""
    for group in GROUPS:
        crowd = [(group, f"p{number}@{there}") for number in range(TO_BE_LEFT) for there in SUBNETS]
        client.apply([shadowtree.Join(parent, child, "process") for parent, child in crowd])
        client.apply([shadowtree.Leave(parent, child) for parent, child in crowd])


def apply_large(through, group, subnet):
    """Make an update that exceeds one message of a client. An older server gets it in one message all the same."""
    names = [f"{'m' * 240}{number}@{subnet}" for number in range(3)]
    several = [
        (shadowtree.Join, shadowtree.Leave)[number % 2](group, names[number // 2 % 3]) for number in range(9_000)
    ]
    through.apply([*several, shadowtree.Join(group, names[0], "process")])
    assert through.check(group, names[0])
    through.leave(group, names[0])


def forgets(clients):
    """True if servers remember few left arcs, after one more change at each of them."""
    for group, client in zip(GROUPS, clients.values(), strict=True):
        client.join(group, "passing@outside.example")
        client.leave(group, "passing@outside.example")
    return all(client.status().tombstones < REMEMBERED_LIMIT for client in clients.values())


def test_a_federation_is_upgraded_from_the_last_release_one_server_at_a_time(federation):
    clients = federation.clients
    for group in GROUPS:
        clients["a.x"].create_group(group)
    use_all(clients, 0)
    for number, subnet in enumerate(SUBNETS, start=1):
        federation.upgrade(subnet)
        federation.wait_until_whole()
        use_all(clients, number)
        ask_for_sets(clients, SUBNETS[:number])
        describe_groups(clients, SUBNETS[:number])
        if number == 1:
            apply_large(clients["a.x"], GROUPS[1], "b.x")
            apply_large(clients["b.x"], GROUPS[0], "a.x")
        let_many_come_and_go(clients[subnet])
        use_all(clients, number)
        for client in clients.values():
            assert not any(peer.faults for peer in client.peers().peers)
    wait_until(lambda: forgets(clients), "what was left is forgotten once all understand that")
