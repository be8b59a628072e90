"""What this server knows of other servers: which subnets are whose, where they are reached, who is out of reach.

    expected (an operator gave an address) --> met (it introduced itself) <--> lost (no connection)

Addresses that operators give while the server runs, and names of servers that were met, are durable. Source:
protocol.md section 1 (home); interfaces.md, `peers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from namegraph.names import NodeId, ServerId, Subnet, subnet_of
from namegraph.records import NodeKind, ProtocolRow
from namegraph.refusals import Reason, refuse
from namegraph.site import Site

ADDRESS = "peer address"
OWNER = "subnet owner"


class Peers:
    """The table of other servers."""

    def __init__(self, site: Site, *, configured: Mapping[Subnet, str], rows: Iterable[ProtocolRow] = ()) -> None:
        """`configured` addresses win over those that are durable."""
        self._site = site
        self._added: dict[Subnet, str] = {}
        self._configured = dict(configured)
        for row in rows:
            assert row.value is not None
            if row.part == ADDRESS:
                self._added[Subnet(row.key)] = row.value.decode()
            elif row.part == OWNER and site.table.owner_of(Subnet(row.key)) != site.server:
                site.table.learn(Subnet(row.key), ServerId(row.value.decode()))
        for subnet in self.addresses:
            site.table.expect(subnet)
        self.refused: Counter[tuple[ServerId, Subnet]] = Counter()
        """How often a server claimed a subnet that another one owns."""

    @property
    def addresses(self) -> dict[Subnet, str]:
        """Where the servers of other subnets are reached, by subnet."""
        return {**self._added, **self._configured}

    def add(self, subnet: Subnet, address: str) -> None:
        """An operator says where the server of a subnet is; raises `RefusedError`."""
        site = self._site
        if site.table.owner_of(subnet) == site.server:
            raise refuse(
                Reason.INVALID_REQUEST, f"{subnet} is one of this server's own subnets", subnet=subnet, field="subnet"
            )
        if subnet in self._configured and self._configured[subnet] != address:
            raise refuse(
                Reason.INVALID_REQUEST,
                f"the configuration says that the server of {subnet} is at {self._configured[subnet]}; change it there",
                subnet=subnet,
                field="subnet",
            )
        if site.table.owner_of(subnet) is None:
            self._require_unused(subnet)
        self._added[subnet] = address
        site.table.expect(subnet)
        site.rows.append(ProtocolRow(ADDRESS, subnet, address.encode()))

    def remove(self, subnet: Subnet) -> None:
        """An operator says that a subnet is nobody's any more; raises `RefusedError`."""
        if subnet in self._configured:
            raise refuse(
                Reason.INVALID_REQUEST,
                f"the peer of {subnet} is in the configuration; take it out there",
                subnet=subnet,
                field="subnet",
            )
        if subnet not in self._added:
            raise refuse(
                Reason.INVALID_REQUEST, f"there is no peer of the subnet {subnet}", subnet=subnet, field="subnet"
            )
        self._require_unused(subnet)
        del self._added[subnet]
        server = self._site.table.owner_of(subnet)
        self._site.table.forget(subnet)
        if server is not None and server not in self._site.table.servers():
            # Whatever it has done, nobody learns it any more.
            self._site.doubts.healed((server,))
        self._site.rows += [ProtocolRow(ADDRESS, subnet, None), ProtocolRow(OWNER, subnet, None)]

    def met(self, server: ServerId, subnets: Iterable[Subnet]) -> None:
        """A server introduced itself. What another server owns it does not get."""
        site = self._site
        site.lost.pop(server, None)
        for subnet in subnets:
            owner = site.table.owner_of(subnet)
            if owner is not None and owner != server:
                self.refused[server, subnet] += 1
            elif owner is None and subnet in self.addresses:
                site.table.learn(subnet, server)
                site.rows.append(ProtocolRow(OWNER, subnet, server.encode()))

    def require_all_met(self) -> None:
        """Raise `RefusedError` where a server of whose address is known was never met."""
        for subnet, address in sorted(self.addresses.items()):
            if self._site.table.owner_of(subnet) is None:
                raise refuse(
                    Reason.UNAVAILABLE,
                    f"the server of {subnet} at {address} was never met; nothing was done",
                    unreachable=subnet,
                )

    def require_met(self, name: NodeId) -> None:
        """Raise `RefusedError` where a node's server was never met, or is out of reach."""
        if self._site.table.is_expected(name):
            address = self.addresses.get(subnet_of(name), "an unknown address")
            raise refuse(
                Reason.UNAVAILABLE,
                f"{name} is at home at {address}, where no server has answered yet",
                unreachable=name,
            )

    def _require_unused(self, subnet: Subnet) -> None:
        """Nodes of the subnet that are here are at home where they are; that cannot change under them."""
        graph = self._site.graph
        for node, name in enumerate(graph.ids):
            if graph.kinds[node] != NodeKind.ABSENT and subnet_of(name) == subnet:
                raise refuse(
                    Reason.NAME_IN_USE,
                    f"{name} of the subnet {subnet} is in use here; take it out of its groups first",
                    name=name,
                    subnet=subnet,
                )
