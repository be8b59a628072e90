"""A principal that asks one server of `tests/fakes/name_servers.py`, and notes all that it is told.

An answer is a plain value, and so is a refusal: two answers are equal if the principal cannot tell them apart.
Revisions are left out.
"""

import grpc

from shadowtree.v1 import name_service_pb2 as messages
from tests.callers import TESTED_CALLER

REFUSED = "refused"


class Asker:
    """One principal at one server."""

    def __init__(self, server, principal):
        self._names = server.names
        self._short_ways = server.short_ways
        self.principal = principal
        self._metadata = ((TESTED_CALLER, principal),)

    async def check(self, group, member, *, explain=False):
        """Return True or False, with the pathname if it is asked for."""
        request = messages.CheckRequest(group=group, member=member, explain=explain)

        def read(found):
            return (found.is_member, *found.pathname) if explain else found.is_member

        return await self._unary(self._names.Check, request, read)

    async def check_bulk(self, *pairs):
        """Return the answers, and the refusal that ended them."""
        groups, members = zip(*pairs, strict=True)
        call = self._names.CheckBulk(metadata=self._metadata)
        await call.write(messages.CheckBulkRequest(groups=groups, members=members))
        await call.done_writing()
        return await _gathered(call, lambda found: [*found.answers, *found.unreachable])

    async def check_known(self, *pairs):
        """Return the codes of the answers."""
        groups, members = zip(*pairs, strict=True)
        request = messages.CheckKnownRequest(groups=groups, members=members)
        return await self._unary(self._names.CheckKnown, request, lambda found: list(found.answers))

    async def _unary(self, method, request, read):
        try:
            return read(await method(request, metadata=self._metadata))
        except grpc.aio.AioRpcError as error:
            return _refusal(error)

    async def _stream(self, method, request, read):
        return await _gathered(method(request, metadata=self._metadata), read)


async def _gathered(call, read):
    found = []
    try:
        async for message in call:
            found += read(message)
    except grpc.aio.AioRpcError as error:
        return [*found, _refusal(error)]
    return found


def _refusal(error):
    return REFUSED, error.code().name, error.details()
