"""The table of other servers: their subnets, their addresses, and which of them are out of reach.

    expected (an operator gave an address) --> met (it introduced itself) <--> lost (no connection)

Addresses that operators give while the server runs, and names of servers that were met, are durable. Source:
docs/glossary.md, "Names and who owns them"; docs/cli.md, `peers`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from namegraph.model.names import NodeId, ServerId, Subnet, subnet_of
from namegraph.model.refusals import Reason, RefusedError, refuse
from namegraph.model.rows import NodeIndex, NodeKind
from namegraph.state.context import ServerContext
from namegraph.state.durable_maps import SERVER, SUBNETS, TEXT, DurableMap

ADDRESS = "peer address"
OWNER = "subnet owner"
TRUST = "peer trust"

SIGHUP = "SIGHUP (`systemctl reload shadowtree`), which reads it again"
CHANGE_IT_THERE = f"change it there, and send the server {SIGHUP}"


class PeerTable:
    """The table of other servers."""

    def __init__(self, context: ServerContext, *, configured: Mapping[Subnet, str]) -> None:
        """`configured` addresses take precedence over durable ones."""
        self._context = context
        self._added = DurableMap(context.durable, ADDRESS, SUBNETS, TEXT)
        self._trusts = DurableMap(context.durable, TRUST, SUBNETS, TEXT)
        self._owners = DurableMap(context.durable, OWNER, SUBNETS, SERVER)
        self._configured = dict(configured)
        for subnet, owner in self._owners.items():
            if context.table.owner_of(subnet) != context.server:
                context.table.learn(subnet, owner)
        for subnet in self.addresses:
            context.table.expect(subnet)
        self.refused: Counter[tuple[ServerId, Subnet]] = Counter()
        """Number of times that a server claimed a subnet of another server."""

    @property
    def configured(self) -> Mapping[Subnet, str]:
        """Addresses of the configuration, as it was last read."""
        return self._configured

    @property
    def addresses(self) -> dict[Subnet, str]:
        """Addresses of the servers of other subnets, by subnet."""
        return {**self._added, **self._configured}

    @property
    def trusts(self) -> Mapping[Subnet, str]:
        """Authorities of servers, as operators gave them while this server ran, by subnet."""
        return self._trusts

    def add(self, subnet: Subnet, address: str, trust: str = "") -> None:
        """Add the address of a subnet's server, as an operator says. Raises `RefusedError`.

        `trust`: authorities of the server. Empty to keep those that were given before.
        """
        context = self._context
        self._require_not_own(subnet)
        if subnet in self._configured and self._configured[subnet] != address:
            configured = self._configured[subnet]
            raise refuse(
                Reason.INVALID_REQUEST,
                f"the configuration says that the server of {subnet} is at {configured}; {CHANGE_IT_THERE}",
                subnet=subnet,
                field="subnet",
            )
        if context.table.owner_of(subnet) is None:
            self._require_unused(subnet)
        self._added[subnet] = address
        if trust:
            self._trusts[subnet] = trust
        context.table.expect(subnet)

    def configure(self, subnet: Subnet, address: str) -> None:
        """Set a subnet's address from the configuration that was read again. Raises `RefusedError`."""
        self._require_not_own(subnet)
        if self._context.table.owner_of(subnet) is None:
            self._require_unused(subnet)
        self._configured[subnet] = address
        self._context.table.expect(subnet)

    def configure_no_longer(self, subnet: Subnet) -> None:
        """Remove a subnet that the configuration, read again, no longer names.

        Raises `RefusedError` if the subnet stays: an operator added it too, or a node of it is in use here. The
        subnet then counts as added by an operator.
        """
        address = self._configured.pop(subnet, None)
        if address is None:
            return
        if subnet in self._added:
            raise refuse(
                Reason.INVALID_REQUEST,
                f"{subnet} stays in the table at {self._added[subnet]}, where `shadowtree peers add` had put it; "
                f"`shadowtree peers remove {subnet}` takes it out",
                subnet=subnet,
                field="subnet",
            )
        self._added[subnet] = address
        try:
            self.remove(subnet)
        except RefusedError as error:
            raise refuse(
                error.refusal.reason,
                f"{subnet} stays in the table at {address}: {error.refusal.message}",
                subnet=subnet,
            ) from None

    def remove(self, subnet: Subnet) -> None:
        """Remove a subnet from the table, as an operator says. Raises `RefusedError`."""
        self._require_added(subnet)
        self._require_unused(subnet)
        self._added.pop(subnet, None)
        self._trusts.pop(subnet, None)
        self._owners.pop(subnet, None)
        server = self._context.table.owner_of(subnet)
        self._context.table.forget(subnet)
        if server is not None:
            self._context.removed[subnet] = None
        if server is not None and server not in self._context.table.subnets_by_server:
            # The outcomes of its updates cannot be learnt any more.
            self._context.doubts.told_by((server,))
            self._context.absences.is_over(server)
            self._context.retired.pop(server, None)

    def is_anothers(self, subnet: Subnet) -> bool:
        """Return True if a server that was met owns a subnet, and it is not this one."""
        return self._context.table.owner_of(subnet) not in (None, self._context.server)

    def retire(self, subnet: Subnet) -> ServerId | None:
        """Record that the server of a subnet is gone for good, as an operator says. This server may then leave all
        shared arcs.

        Return that server. None if it was never met. Raises `RefusedError` if it is not out of reach.
        """
        context = self._context
        self._require_added(subnet)
        server = context.table.owner_of(subnet)
        if server is None:
            return None
        if context.is_in_view(server):
            raise refuse(
                Reason.INVALID_REQUEST,
                f"the server {server} of {subnet} is in one view with this one, so it is not gone for good: leave what "
                "is between the two as always, or stop it, and wait until `shadowtree status` shows a view without it",
                subnet=subnet,
                server=server,
                field="subnet",
            )
        if context.view_change_in_progress or not context.view_active:
            raise refuse(
                Reason.UNAVAILABLE,
                "the servers are just agreeing on who is there; nothing was done, try again in a moment",
                server=context.server,
            )
        context.retired[server] = None
        return server

    def met(self, server: ServerId, subnets: Iterable[Subnet]) -> None:
        """Record that a server introduced itself as the owner of subnets, except those that another server owns."""
        context = self._context
        context.lost.pop(server, None)
        context.retired.pop(server, None)
        for subnet in subnets:
            owner = context.table.owner_of(subnet)
            if owner is not None and owner != server:
                self.refused[server, subnet] += 1
            elif owner is None and (subnet in self._added or subnet in self._configured):
                context.table.learn(subnet, server)
                context.removed.pop(subnet, None)
                self._owners[subnet] = server

    def require_all_met(self) -> None:
        """Raise `RefusedError` if a server with a known address was never met."""
        for subnet, address in sorted(self.addresses.items()):
            if self._context.table.owner_of(subnet) is None:
                raise refuse(
                    Reason.UNAVAILABLE,
                    f"the server of {subnet} at {address} was never met; nothing was done",
                    unreachable=subnet,
                )

    def require_met(self, name: NodeId) -> None:
        """Raise `RefusedError` if a node's server was never met."""
        if self._context.table.is_expected(name):
            address = self.addresses.get(subnet_of(name), "an unknown address")
            raise refuse(
                Reason.UNAVAILABLE,
                f"{name} is at home at {address}, where no server has answered yet",
                unreachable=name,
            )

    def require_configured_unused(self) -> None:
        """Raise `RefusedError`, as in `add`, if the configuration names a subnet that was in use before."""
        for subnet in self._configured:
            if self._context.table.owner_of(subnet) is None:
                self._require_unused(subnet)

    def _require_not_own(self, subnet: Subnet) -> None:
        if self._context.table.owner_of(subnet) == self._context.server:
            raise refuse(
                Reason.INVALID_REQUEST, f"{subnet} is one of this server's own subnets", subnet=subnet, field="subnet"
            )

    def _require_added(self, subnet: Subnet) -> None:
        """Raise `RefusedError` if a subnet is not another server's, or if the configuration names it.

        A subnet that was removed from the configuration has no address any more, but its server is known.
        """
        if subnet in self._configured:
            raise refuse(
                Reason.INVALID_REQUEST,
                f"the peer of {subnet} is in the configuration; take it out there, and send the server {SIGHUP}",
                subnet=subnet,
                field="subnet",
            )
        if subnet not in self._added and not self.is_anothers(subnet):
            raise refuse(
                Reason.INVALID_REQUEST, f"there is no peer of the subnet {subnet}", subnet=subnet, field="subnet"
            )

    def _require_unused(self, subnet: Subnet) -> None:
        """Raise `RefusedError` if a node of the subnet is in use here. Its home must not change while it is in use."""
        graph, context = self._context.graph, self._context
        for number, name in enumerate(graph.ids):
            node = NodeIndex(number)
            # A node above other servers' groups may be known by its suspended arcs alone.
            is_apart = node in graph.suspended_into or node in graph.suspended_from
            if not (is_apart or graph.kinds[node] != NodeKind.ABSENT) or subnet_of(name) != subnet:
                continue
            ends = {*graph.parents[node], *graph.children[node]}
            ends.update(graph.suspended_into.get(node, ()), graph.suspended_from.get(node, ()))
            homes = {context.home_of(graph.ids[end]) for end in ends} - {context.server, context.table.owner_of(subnet)}
            if context.table.owner_of(subnet) in context.retired and homes:
                what = (
                    f"it is still a member or a parent of what the server {min(homes)} owns; end that there first, by "
                    f"`shadowtree peers remove {subnet} --force`, then repeat this"
                )
            elif subnet in self._added or self.is_anothers(subnet):
                what = (
                    "take it out of its groups first; where its server is gone for good, `shadowtree peers remove "
                    f"{subnet} --force` ends its memberships"
                )
            else:
                what = "take it out of its groups first, by `shadowtree leave`, then repeat this"
            raise refuse(
                Reason.NAME_IN_USE,
                f"{name} of the subnet {subnet} is in use here; {what}",
                name=name,
                subnet=subnet,
            )
