"""Which server owns which subnet, and so where every node is at home."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import cast

from namegraph.model.names import NodeId, ServerId, Subnet, subnet_of


class OwnershipTable:
    """The subnets that are known, each with the one server that owns it. Subnets are matched whole.

    Of a subnet that is only *expected*, an operator said where its server is reached; that server was never met, so
    nobody knows its name yet.
    """

    def __init__(self, owners: Mapping[Subnet, ServerId], *, expected: Iterable[Subnet] = ()) -> None:
        self._owners = dict(owners)
        self.subnets_by_server: dict[ServerId, dict[Subnet, None]] = {}
        """Of each server that owns any, those that it owns; to be read."""
        for subnet, owner in self._owners.items():
            self.subnets_by_server.setdefault(owner, {})[subnet] = None
        self._servers: tuple[ServerId, ...] | None = None
        """As `servers` gives it, where that was asked for since the table changed: questions do, again and again."""
        self.changes = 0
        """How often a subnet got an owner, or lost it: homes that were found before may be others now."""
        self._expected = dict.fromkeys(subnet for subnet in expected if subnet not in self._owners)

    @property
    def has_several_servers(self) -> bool:
        """Whether any subnet is known to be another server's."""
        return bool(self._expected) or len(self.subnets_by_server) > 1

    def home_of(self, node: NodeId) -> ServerId | None:
        """The server that owns the node's subnet; None where none is known (a process is then foreign)."""
        return self._owners.get(subnet_of(node))

    def homes_of(self, names: Iterable[NodeId]) -> list[ServerId | None]:
        """As `home_of`, for many names: in half the time each."""
        owner_of = cast("Mapping[str, ServerId]", self._owners).get
        return [owner_of(name.rpartition("@")[2]) for name in names]

    def owner_of(self, subnet: Subnet) -> ServerId | None:
        """The server that owns a subnet, where it was met."""
        return self._owners.get(subnet)

    def expected(self) -> tuple[Subnet, ...]:
        """The subnets whose servers are to be met, and never were; sorted."""
        return tuple(sorted(self._expected))

    def is_expected(self, node: NodeId) -> bool:
        """Whether a server that was never met owns the node's subnet."""
        return bool(self._expected) and subnet_of(node) in self._expected

    def owned_by(self, server: ServerId) -> tuple[Subnet, ...]:
        """All subnets of one server, sorted."""
        return tuple(sorted(self.subnets_by_server.get(server, ())))

    def servers(self) -> tuple[ServerId, ...]:
        """All servers that own a subnet, sorted."""
        if self._servers is None:
            self._servers = tuple(sorted(self.subnets_by_server))
        return self._servers

    def expect(self, subnet: Subnet) -> None:
        """Learn that a server owns a subnet, which will be met."""
        if subnet not in self._owners:
            self._expected[subnet] = None

    def learn(self, subnet: Subnet, owner: ServerId) -> None:
        """Learn which server owns a subnet."""
        self._set_owner(subnet, owner)

    def forget(self, subnet: Subnet) -> None:
        """Forget the owner of a subnet."""
        self._set_owner(subnet, None)

    def _set_owner(self, subnet: Subnet, owner: ServerId | None) -> None:
        self._expected.pop(subnet, None)
        before = self._owners.pop(subnet, None)
        if before is not None:
            del self.subnets_by_server[before][subnet]
            if not self.subnets_by_server[before]:
                del self.subnets_by_server[before]
        if owner is not None:
            self._owners[subnet] = owner
            self.subnets_by_server.setdefault(owner, {})[subnet] = None
        self._servers = None
        self.changes += 1
