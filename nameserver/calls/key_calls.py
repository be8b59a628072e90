"""CreateKey, ListKeys and RevokeKey of the AdminService."""

from __future__ import annotations

from collections.abc import Callable

from namegraph import Principal, Reason, Subnet, refuse, subnet_of_principal
from nameserver.access.caller import How
from nameserver.access.keys import ApiKeys, KeyRow, read_bounds, read_principal
from nameserver.access.origins import origin_of
from nameserver.calls.adapters import Context
from nameserver.driver.run_loop import RunLoop
from nameserver.driver.time_of_day import now_ms
from nameserver.routing.ownership import OwnerKind, Routing
from shadowtree.v1 import admin_pb2 as messages


class KeyCalls:
    """Servicer of the calls about API keys. Its callers are operators."""

    def __init__(
        self, *, keys: ApiKeys, run_loop: RunLoop, routing: Routing, end_streams: Callable[[How, str], None]
    ) -> None:
        """`end_streams`: ends the streams of a credential."""
        self._keys = keys
        self._run_loop = run_loop
        self._routing = routing
        self._end_streams = end_streams

    async def create_key(self, request: messages.CreateKeyRequest, _context: Context) -> messages.CreatedKey:
        """Make a key. Its secret leaves once the key is durable."""
        principal = read_principal(request.principal)
        self._require_ours(principal)
        bounds = read_bounds(
            life_ms=request.life_ms,
            privileges=request.privileges,
            networks=request.networks,
            note=request.note,
            now=now_ms(),
        )
        self._run_loop.require_accepting()
        secret = self._keys.create(principal, bounds, origin_of(server=self._routing.server))
        await self._run_loop.until_durable()
        (key,) = (_told(id_, row) for id_, row in self._keys.listed() if secret.split("_")[1] == id_)
        return messages.CreatedKey(secret=secret, key=key)

    def _require_ours(self, principal: Principal) -> None:
        subnet = subnet_of_principal(principal)
        if subnet is not None and self._routing.owner_kind(subnet) is OwnerKind.ANOTHERS:
            raise refuse(
                Reason.INVALID_REQUEST,
                f"{principal} belongs to the subnet {subnet} of another server, which makes its keys",
                field="principal",
                subnet=Subnet(subnet),
            )

    async def list_keys(self, _request: messages.ListKeysRequest, _context: Context) -> messages.KeyList:
        """Return all keys."""
        return messages.KeyList(keys=[_told(id_, row) for id_, row in self._keys.listed()])

    async def revoke_key(self, request: messages.RevokeKeyRequest, _context: Context) -> messages.ApiKey:
        """End a key at once, whether the database can be written or not."""
        row = self._keys.revoke(request.id, origin_of(server=self._routing.server))
        self._end_streams(How.KEY, request.id)
        await self._run_loop.until_durable()
        return _told(request.id, row)


def _told(id_: str, row: KeyRow) -> messages.ApiKey:
    return messages.ApiKey(
        id=id_,
        principal=row.principal,
        created_ms=row.created_ms,
        expires_ms=row.expires_ms or 0,
        privileges=row.privileges or (),
        networks=row.networks,
        note=row.note,
        last_used_ms=row.last_used_ms,
    )
