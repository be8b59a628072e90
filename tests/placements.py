"""Placements of nodes: the same plain names on one server, on several, or on one server each.

A full id begins with the plain name, on any server. So ids are in the same order in every placement, and so are arcs.
Answers, shadow trees and primaries are the same everywhere.
"""

from dataclasses import dataclass
from zlib import crc32

from namegraph.model.names import parse_name

FOREIGN = "people.example"
"""The domain of processes that no server owns."""


def subnet(number):
    return f"s{number}.example"


@dataclass(frozen=True)
class Placement:
    """A number of servers (None: one for each group). Names are dealt out in turn, or by their hash."""

    servers: int | None
    is_hashed: bool = False
    has_native_processes: bool = False

    def __str__(self):
        count = "one each" if self.servers is None else f"{self.servers} servers"
        return f"{count}{' by hash' * self.is_hashed}{', native processes' * self.has_native_processes}"

    def place(self, groups, processes=()):
        """Plain name -> full id. The names of groups, then those of processes, are dealt out in this order."""
        ids = {name: self._id(name, turn, len(groups)) for turn, name in enumerate(groups)}
        for turn, name in enumerate(processes, start=1):
            native = self._id(name, turn, len(groups))
            ids[name] = native if self.has_native_processes else parse_name(f"{_local(name)}@{FOREIGN}")
        return ids

    def subnets(self, groups):
        """Return the subnets of all servers, including servers without nodes."""
        return [subnet(number) for number in range(self.servers or len(groups))]

    def _id(self, name, turn, groups):
        number = crc32(name.encode()) if self.is_hashed else turn
        return parse_name(f"{_local(name)}@{subnet(number % (self.servers or groups))}")


PLACEMENTS = [*map(Placement, (1, 2, 3, 5, None)), *(Placement(servers, is_hashed=True) for servers in (2, 3))]

WITH_NATIVE_PROCESSES = [Placement(servers, has_native_processes=True) for servers in (1, 2, 3, None)]


def _local(name):
    """Return the plain name as the first part of an id, with `@` and other forbidden characters replaced."""
    return "".join("_" if character in '@"\\<>' else character for character in name)
