"""Processor time of each step of an import over five servers, without network, disk or waiting.

`python -m benchmarks.import_steps` runs five cores in one process and hands over their letters. It prints every step
that takes a fifth of a second or more. All other servers wait for the steps of the coordinator.
"""

from __future__ import annotations

import gc
import gzip
import time
from array import array
from collections import deque

from benchmarks.servers import EXAMPLE, example_weights
from namegraph import (
    Event,
    ImportCommand,
    NodeId,
    PeerLetter,
    PeerMessage,
    PeerMet,
    RequestId,
    ServerCore,
    ServerId,
    Subnet,
)
from resolver.census import Census
from shadowtree.cli.demo.servers import deal

SERVERS = 5
SHOWN_FROM_SECONDS = 0.2


class Servers:
    """The cores, and the letters under way between them."""

    def __init__(self) -> None:
        shares = {ServerId(min(share)): tuple(map(Subnet, share)) for share in deal(example_weights(), SERVERS)}
        self.owners = {subnet: server for server, subnets in shares.items() for subnet in subnets}
        self._cores = {
            server: ServerCore(server=server, subnets=subnets, peers=self.owners) for server, subnets in shares.items()
        }
        self._under_way: deque[tuple[ServerId, PeerLetter]] = deque()
        for server in shares:
            for peer, subnets in shares.items():
                if peer != server:
                    self.feed(server, PeerMet(peer, subnets))

    def feed(self, server: ServerId, event: Event) -> None:
        """Let one core take a step, and print its cost."""
        started = time.process_time()
        effects = self._cores[server].step(event, 0.0)
        seconds = time.process_time() - started
        if seconds >= SHOWN_FROM_SECONDS:
            size = f"{len(event.encoded):,} bytes" if isinstance(event, PeerMessage) else ""
            print(f"{seconds:6.2f} s  {server:<45} {type(event).__name__} {size}", flush=True)
        self._under_way += [(server, letter) for letter in effects.messages]

    def run(self) -> int:
        """Hand over letters until none is left. Return the number of arcs that all servers know of their own groups."""
        while self._under_way:
            sender, letter = self._under_way.popleft()
            self.feed(letter.receiver, PeerMessage(sender, letter.number, letter.encoded))
        return sum(Census(core).counts().arcs for core in self._cores.values())


def main() -> None:
    """Import the example."""
    gc.disable()  # name servers disable the collector too during such steps
    names: dict[NodeId, int] = {}
    parents, children, kinds = array("I"), array("I"), bytearray()
    with gzip.open(EXAMPLE, "rt") as lines:
        for line in lines:
            parent, child, kind = line.rstrip("\n").split("\t")
            parents.append(names.setdefault(NodeId(parent), len(names)))
            children.append(names.setdefault(NodeId(child), len(names)))
            kinds.append(1 if kind == "group" else 2)
    servers = Servers()
    home = servers.owners[Subnet(next(iter(names)).partition("@")[2])]
    servers.feed(
        home,
        ImportCommand(
            ticket=1,
            request_id=RequestId("import"),
            names=list(names),
            parents=parents,
            children=children,
            kinds=bytes(kinds),
            groups=array("I"),
        ),
    )
    arcs = servers.run()
    assert arcs == len(parents), arcs


if __name__ == "__main__":
    main()
