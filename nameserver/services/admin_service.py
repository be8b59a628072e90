"""The AdminService: what operators ask."""

from __future__ import annotations

from collections.abc import Mapping

from namegraph.names import Subnet
from namegraph.server_core import ServerCore
from nameserver.run_loop import RunLoop
from nameserver.services.calls import Handler, read_call
from shadowtree.v1 import admin_pb2 as messages

ADMIN_SERVICE: str = messages.DESCRIPTOR.services_by_name["AdminService"].full_name

PEER_STATE = "not connected"
"""Servers do not talk to one another yet."""


class AdminCalls:
    """Answers GetStatus."""

    def __init__(self, *, core: ServerCore, peers: Mapping[Subnet, str]) -> None:
        self._core = core
        self._peers: dict[str, list[Subnet]] = {}
        for subnet, address in sorted(peers.items()):
            self._peers.setdefault(address, []).append(subnet)

    def get_status(self, request: messages.GetStatusRequest) -> messages.ServerStatus:
        """What this server is, holds and knows of its peers."""
        del request
        core = self._core
        graph = core.graph
        return messages.ServerStatus(
            server=core.server,
            subnets=core.subnets,
            groups=graph.group_count,
            processes=graph.process_count,
            arcs=graph.arc_count,
            virtual_nodes=graph.virtual_node_count,
            revision=core.revision,
            peers=[
                messages.ServerStatus.Peer(address=address, subnets=subnets, state=PEER_STATE)
                for address, subnets in sorted(self._peers.items())
            ],
        )


def admin_service_handlers(*, core: ServerCore, peers: Mapping[Subnet, str], run_loop: RunLoop) -> dict[str, Handler]:
    """The handler of each method, by its name."""
    admin = AdminCalls(core=core, peers=peers)
    return {"GetStatus": read_call(admin.get_status, messages.GetStatusRequest, run_loop)}
