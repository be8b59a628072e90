"""Which server owns which subnet, and so where every node is at home."""

from __future__ import annotations

from collections.abc import Mapping

from namegraph.names import NodeId, ServerId, Subnet, subnet_of


class SubnetTable:
    """The subnets that are known, each with the one server that owns it. Subnets are matched whole."""

    def __init__(self, owners: Mapping[Subnet, ServerId]) -> None:
        self._owners = dict(owners)
        self.has_several_servers = len(set(self._owners.values())) > 1

    def home_of(self, node: NodeId) -> ServerId | None:
        """The server that owns the node's subnet; None where nobody does (a process is then foreign)."""
        return self._owners.get(subnet_of(node))

    def owned_by(self, server: ServerId) -> tuple[Subnet, ...]:
        """All subnets of one server, sorted."""
        return tuple(sorted(subnet for subnet, owner in self._owners.items() if owner == server))
