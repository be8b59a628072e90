"""Cores of several servers in one process, without network or disk, and the processor time of each.

`large_updates` runs this file for each build that it measures, in a process with the packages of that build. So the
file imports nothing but the core, and finds the core's names wherever that build keeps them.

The first line of standard input has the subnets of each server, and the file of arcs to import. Each further line is an
update. For each update the program prints the seconds that each server needed.
"""

from __future__ import annotations

import gc
import gzip
import importlib
import json
import pkgutil
import sys
import time
from collections import Counter, deque
from typing import Any

import namegraph


def _core_names(*names: str) -> list[Any]:
    """Return the objects of the core with these names, from any of its modules."""
    found: dict[str, Any] = {}
    for module in pkgutil.walk_packages(namegraph.__path__, "namegraph."):
        loaded = importlib.import_module(module.name)
        found |= {name: getattr(loaded, name) for name in names if hasattr(loaded, name)}
    return [found[name] for name in names]


ServerCore, ImportCommand, UpdateCommand, JoinArc, LeaveArc, ChildKind, Committed = _core_names(
    "ServerCore", "ImportCommand", "UpdateCommand", "JoinArc", "LeaveArc", "ChildKind", "Committed"
)
PeerMessage, PeerMet, PeerReceived = _core_names("PeerMessage", "PeerMet", "PeerReceived")
KINDS = {"group": 1, "member": 2}


class FedCores:
    """Cores that know one another. Letters are handed over in the order in which they were written."""

    def __init__(self, shares: list[list[str]]) -> None:
        """Create a core for each share of subnets, named after the smallest of them."""
        self._home_of_subnet = {subnet: min(share) for share in shares for subnet in share}
        self._cores = {
            min(share): ServerCore(server=min(share), subnets=share, peers=self._home_of_subnet) for share in shares
        }
        self._letters: deque[tuple[str, str, Any]] = deque()
        """Letters under way, as (receiver, sender, letter), in order."""
        self.seconds: Counter[str] = Counter()
        """Processor seconds by server since the last clear."""
        self._tickets = iter(range(1_000_000_000))
        self._outcome: object = None
        for server in self._cores:
            for peer in self._cores:
                if peer != server:
                    self._step(server, PeerMet(peer, ()))

    def bring(self, file: str) -> None:
        """Import the arcs of a file."""
        numbers: dict[str, int] = {}
        columns: tuple[list[int], list[int]] = ([], [])
        kinds = bytearray()
        with gzip.open(file, "rt", encoding="utf-8") as lines:
            for line in lines:
                parent, child, kind = line.rstrip("\n").split("\t")
                if child:
                    columns[0].append(numbers.setdefault(parent, len(numbers)))
                    columns[1].append(numbers.setdefault(child, len(numbers)))
                    kinds.append(KINDS[kind])
        names = list(numbers)
        ticket = next(self._tickets)
        self._run(names[0], ImportCommand(ticket, f"r{ticket}", names, *columns, bytes(kinds), []))

    def change(self, verb: str, parent: str, child: str) -> None:
        """Join one group to another, or leave it."""
        ticket = next(self._tickets)
        operation = JoinArc(parent, child, ChildKind.GROUP) if verb == "join" else LeaveArc(parent, child)
        self._run(parent, UpdateCommand(ticket, f"r{ticket}", (operation,)))

    def _run(self, first: str, command: Any) -> None:
        self._outcome = None
        self._step(self._home_of_subnet[first.partition("@")[2]], command)
        while self._letters:
            receiver, sender, letter = self._letters.popleft()
            self._step(receiver, letter)
            self._step(sender, PeerReceived(receiver, letter.number))
        assert isinstance(self._outcome, Committed), self._outcome

    def _step(self, server: str, event: Any) -> None:
        begun = time.process_time()
        effects = self._cores[server].step(event, 0.0)
        self.seconds[server] += time.process_time() - begun
        for letter in effects.messages:
            self._letters.append((letter.receiver, server, PeerMessage(server, letter.number, letter.encoded)))
        for reply in effects.replies:
            self._outcome = reply.outcome


def _main() -> None:
    shares, file = json.loads(sys.stdin.readline())
    cores = FedCores(shares)
    gc.disable()  # Servers disable the collector too while they take an import.
    cores.bring(file)
    gc.freeze()
    gc.enable()
    print("ready", flush=True)
    for line in sys.stdin:
        cores.seconds.clear()
        cores.change(*json.loads(line))
        print(json.dumps(cores.seconds), flush=True)


if __name__ == "__main__":
    _main()
