"""SetDelivery, GetDelivery: the policy that the home of a group has for messages to it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from delivery.model.events import DeliveryRefused, PolicySet, SetDelivery
from delivery.model.policy import ANYONE, MEMBERS, DeliveryPolicy
from namegraph import NodeId, Reason, RefusedError, group_not_found, refuse
from nameserver.access.origins import origin_of
from nameserver.calls.adapters import Context
from nameserver.deliveries import message_wire
from nameserver.deliveries.delivery_rights import DeliveryRights
from nameserver.deliveries.machine import DeliveryMachine
from nameserver.routing.forwarding import Forwarder, part_seconds
from nameserver.routing.ownership import OwnerKind, Routing
from nameserver.wire import conversion
from nameserver.wire.conversion import KnownIds
from shadowtree.v1 import delivery_pb2 as wire

GET_PATH: Final = f"/{wire.DESCRIPTOR.services_by_name['DeliveryService'].full_name}/GetDelivery"


class PolicyCalls:
    """Servicer of the policies of this server's groups."""

    def __init__(
        self,
        *,
        machine: DeliveryMachine,
        known: KnownIds,
        is_group: Callable[[NodeId], bool],
        renamed_to: Callable[[NodeId], NodeId | None],
        routing: Routing,
        forwarder: Forwarder,
        rights: DeliveryRights,
    ) -> None:
        """`is_group`: returns True if a group of this name exists here."""
        self._machine = machine
        self._known = known
        self._is_group = is_group
        self._renamed_to = renamed_to
        self._routing = routing
        self._forwarder = forwarder
        self._rights = rights

    async def set_delivery(self, request: wire.SetDeliveryRequest, context: Context) -> wire.Delivery:
        """Set the given parts of a policy. A group of senders must exist, at any home."""
        group = conversion.read_id(request.group, "group", self._known)
        await self._rights.require_admin(group)
        quality = message_wire.read_quality(request.quality)
        senders = self._read_senders(request.senders)
        kept = message_wire.read_kept(request.kept)
        if quality is None and senders is None and kept is None:
            raise refuse(Reason.INVALID_REQUEST, f"nothing is said of what is to hold for {group}", field="senders")
        if senders not in (None, ANYONE, MEMBERS):
            await self._require_elsewhere(NodeId(senders), context)
        machine = self._machine
        origin = origin_of(server=self._routing.server)
        policy = SetDelivery(machine.new_ticket(), group, quality, senders, kept, origin)
        answer = await machine.carry_out_delivery(policy)
        if isinstance(answer, DeliveryRefused):
            raise RefusedError(answer.refusal)
        assert isinstance(answer, PolicySet)
        return _told(group, answer.policy)

    async def get_delivery(self, request: wire.GetDeliveryRequest, _context: Context) -> wire.Delivery:
        """Return the policy of a group from durable state."""
        group = conversion.read_id(request.group, "group", self._known)
        await self._rights.require_view(group)
        policy, is_group = self._machine.policy_of(group), self._is_group(group)
        await self._machine.until_durable()
        if not is_group:
            routing = self._routing
            is_owned = routing.owner_kind(group) is OwnerKind.OURS
            renamed_to = self._renamed_to(group)
            raise group_not_found(group, routing.server, known_subnet=is_owned, renamed_to=renamed_to)
        return _told(group, policy)

    def _read_senders(self, text: str) -> str | None:
        if not text:
            return None
        if text in (ANYONE, MEMBERS):
            return text
        if "@" not in text:
            said = f"senders are `{ANYONE}`, `{MEMBERS}` or the id of a group, not {text[:100]!r}"
            raise refuse(Reason.INVALID_REQUEST, said, field="senders")
        return conversion.read_id(text, "senders", self._known)

    async def _require_elsewhere(self, group: NodeId, context: Context) -> None:
        """Require that another server's group exists, by asking its home. Raises the home's refusal."""
        routing = self._routing
        owner_kind = routing.owner_kind(group)
        if owner_kind is OwnerKind.UNOWNED:
            routing.require_listed(group)
        if owner_kind is OwnerKind.ANOTHERS:
            request = wire.GetDeliveryRequest(group=group).SerializeToString()
            await self._forwarder.ask(await routing.home_of(group), GET_PATH, request, seconds=part_seconds(context))


def _told(group: NodeId, policy: DeliveryPolicy) -> wire.Delivery:
    quality, kept = message_wire.TOLD_QUALITIES[policy.quality], message_wire.WIRE_OF_KEPT[policy.kept]
    return wire.Delivery(group=group, quality=quality, senders=policy.senders, kept=kept)
