"""Confirm: tell if a kept answer still holds, by one question to each server that it rests on.

An answer rests on the parts of some servers, which all held at one instant (`resolver.parts`). Its *basis* is the basis
of each of these servers, told with its part. If each server later reports the same basis, no part has changed since,
and no update is under way. All parts therefore held at the instant at which these questions began. The answer is that
of a resolution begun at that instant. Any update at one of these servers changes its basis, whatever the update is
about.

    basis of an answer    SERVER/BASIS, with spaces between, sorted

Source: docs/protocol-updates.md, "Questions over several servers" (an answer that is kept).
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping

import grpc
from google.protobuf.message import DecodeError

from namegraph import CoreQueries, Reason, RefusedError, ServerId, refuse
from nameserver.calls.adapters import Context
from nameserver.calls.read_your_writes import PEER_SERVICE
from nameserver.routing.forwarding import Forwarder, part_seconds
from resolver.parts import Parts
from shadowtree.v1 import name_service_pb2 as messages
from shadowtree.v1 import peer_pb2 as peer_messages

SERVERS_LIMIT = 16
"""Most servers of an answer that has a basis. Confirming an answer over more servers would cost all of them much."""

BASIS_LENGTH_LIMIT = 20_000

_PATH = f"/{PEER_SERVICE}/TellBasis"
_REQUEST = peer_messages.TellBasisRequest().SerializeToString()


def written_basis(bases: Mapping[ServerId, str], servers: Iterable[ServerId]) -> str:
    """Return the basis of an answer that rests on these servers. Empty if a server has none, or there are too many."""
    names = sorted(servers)
    told = [basis_of(server, bases.get(server, "")) for server in names]
    return " ".join(told) if len(told) <= SERVERS_LIMIT and all(told) else ""


def basis_of(server: ServerId, basis: str) -> str:
    """Return the basis of an answer that rests on one server. Empty if that server has none."""
    return f"{server}/{basis}" if basis else ""


def _read_basis(text: str) -> dict[ServerId, str]:
    """Return the bases by server, as `written_basis` got them. Any other text yields bases that do not hold."""
    pairs = (each.partition("/") for each in text.split(" ")[: SERVERS_LIMIT + 1])
    return {ServerId(server): basis for server, _, basis in pairs}


class Confirmations:
    """Servicer of Confirm."""

    def __init__(self, *, core: CoreQueries, parts: Parts, forwarder: Forwarder) -> None:
        self._core = core
        self._parts = parts
        self._forwarder = forwarder

    async def confirm(self, request: messages.ConfirmRequest, context: Context) -> messages.ConfirmResponse:
        """Answer True if a basis holds at an instant after the request came."""
        if len(request.basis) > BASIS_LENGTH_LIMIT:
            raise refuse(
                Reason.INVALID_REQUEST, f"a basis has at most {BASIS_LENGTH_LIMIT:,} characters", field="basis"
            )
        basis, seconds = _read_basis(request.basis), part_seconds(context)
        if len(basis) > SERVERS_LIMIT:
            return messages.ConfirmResponse()
        told = await asyncio.gather(*(self._holds(server, text, seconds) for server, text in basis.items()))
        return messages.ConfirmResponse(holds=all(told))

    async def _holds(self, server: ServerId, basis: str, seconds: float) -> bool:
        """Return True if the present basis of one server is `basis`."""
        if server == self._core.server:
            return bool(basis) and self._parts.basis() == basis
        if not self._core.has_met(server):
            return False
        try:
            answer = await self._forwarder.ask(server, _PATH, _REQUEST, seconds=seconds)
            return bool(basis) and peer_messages.TellBasisResponse.FromString(answer).basis == basis
        except (RefusedError, grpc.aio.AioRpcError, DecodeError):
            # The server is unreachable, or of an older release.
            return False
