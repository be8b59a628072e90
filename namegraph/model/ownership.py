"""Ownership of subnets by servers, which determines the home of every node."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from namegraph.model.moments import shallow
from namegraph.model.names import NodeId, ServerId, Subnet, subnet_of

HOMES_REMEMBERED = 10_000
"""Names whose home is remembered: those of hundreds of updates under way, in a few megabytes."""


class RememberedHomes(dict[NodeId, ServerId | None]):
    """The home of each name, found at the first look. Beyond `HOMES_REMEMBERED` names, it begins anew.

    One update looks for the homes of its few names dozens of times. The homes hold until a subnet gets or loses its
    owner; the table then makes another object, because readers in other threads may still add homes to this one.
    """

    def __init__(self, owners: Mapping[Subnet, ServerId]) -> None:
        super().__init__()
        self._owners = owners

    def __missing__(self, name: NodeId) -> ServerId | None:
        """Find the home of a name."""
        home = self._owners.get(subnet_of(name))
        if len(self) >= HOMES_REMEMBERED:
            self.clear()
        self[name] = home
        return home


class OwnershipTable:
    """The known subnets, each with the one server that owns it. Subnets are matched whole.

    A subnet is *expected* if an operator gave the address of its server, but that server was never met. The name of
    the server is not known yet.
    """

    def __init__(self, owners: Mapping[Subnet, ServerId], *, expected: Iterable[Subnet] = ()) -> None:
        self._owners = dict(owners)
        self.homes = RememberedHomes(self._owners)
        """The home of each name, like `home_of`. Read only."""
        self.subnets_by_server: dict[ServerId, dict[Subnet, None]] = {}
        """Subnets of each server that owns any. Read only."""
        for subnet, owner in self._owners.items():
            self.subnets_by_server.setdefault(owner, {})[subnet] = None
        self._servers: tuple[ServerId, ...] | None = None
        """Cached result of `servers`, since the table last changed. Questions ask for it again and again."""
        self.changes = 0
        """Number of times that a subnet got or lost an owner. Homes that were found before may have changed."""
        self._expected = dict.fromkeys(subnet for subnet in expected if subnet not in self._owners)
        self._is_shared = False
        """True if readers have the same dictionaries. They are copied before the next change then."""

    def hold(self) -> OwnershipTable:
        """Return the present table, for readers. It stays as it is."""
        self._is_shared = True
        return shallow(self)

    @property
    def has_several_servers(self) -> bool:
        """True if any subnet is known to belong to another server."""
        return bool(self._expected) or len(self.subnets_by_server) > 1

    def home_of(self, node: NodeId) -> ServerId | None:
        """Return the server that owns the node's subnet. None if no owner is known; a process is then foreign."""
        return self.homes[node]

    def homes_of(self, names: Iterable[NodeId]) -> list[ServerId | None]:
        """Return `home_of` for many names, in half the time each."""
        owner_of = cast("Mapping[str, ServerId]", self._owners).get
        return [owner_of(name.rpartition("@")[2]) for name in names]

    def owner_of(self, subnet: Subnet) -> ServerId | None:
        """Return the server that owns a subnet. None if it was not met."""
        return self._owners.get(subnet)

    def expected(self) -> tuple[Subnet, ...]:
        """Return the subnets whose servers are expected and were never met, sorted."""
        return tuple(sorted(self._expected))

    def is_expected(self, node: NodeId) -> bool:
        """Return True if a server that was never met owns the node's subnet."""
        return bool(self._expected) and subnet_of(node) in self._expected

    def owned_by(self, server: ServerId) -> tuple[Subnet, ...]:
        """Return all subnets of one server, sorted."""
        return tuple(sorted(self.subnets_by_server.get(server, ())))

    def servers(self) -> tuple[ServerId, ...]:
        """Return all servers that own a subnet, sorted."""
        if self._servers is None:
            self._servers = tuple(sorted(self.subnets_by_server))
        return self._servers

    def expect(self, subnet: Subnet) -> None:
        """Record that a server which is still to be met owns a subnet."""
        if subnet not in self._owners:
            self._keep_for_readers()
            self._expected[subnet] = None

    def learn(self, subnet: Subnet, owner: ServerId) -> None:
        """Record the server that owns a subnet."""
        self._set_owner(subnet, owner)

    def forget(self, subnet: Subnet) -> None:
        """Forget the owner of a subnet."""
        self._set_owner(subnet, None)

    def _keep_for_readers(self) -> None:
        if self._is_shared:
            self._owners, self._expected = self._owners.copy(), self._expected.copy()
            self.subnets_by_server = {server: subnets.copy() for server, subnets in self.subnets_by_server.items()}
            self._is_shared = False

    def _set_owner(self, subnet: Subnet, owner: ServerId | None) -> None:
        self._keep_for_readers()
        self._expected.pop(subnet, None)
        before = self._owners.pop(subnet, None)
        if before is not None:
            del self.subnets_by_server[before][subnet]
            if not self.subnets_by_server[before]:
                del self.subnets_by_server[before]
        if owner is not None:
            self._owners[subnet] = owner
            self.subnets_by_server.setdefault(owner, {})[subnet] = None
        self.homes = RememberedHomes(self._owners)
        self._servers = None
        self.changes += 1
