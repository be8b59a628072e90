"""Ask for the name server at an address: before the table of peers has it, and before calls go there."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError

from namegraph import ServerId, Subnet
from nameserver.transport.first_bytes import is_another_kind_of_server
from shadowtree.v1 import peer_pb2 as messages

IDENTIFY_METHOD = "/shadowtree.v1.PeerService/Identify"

IDENTIFY_SECONDS = 3.0
"""Timeout of the answer. An operator waits for it, too."""

_NOBODY_THERE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity that a name server reports.

    `server` is None if the answering program is no name server of this version.
    """

    server: ServerId | None
    subnets: tuple[Subnet, ...] = ()
    start: int | None = None
    """Number of the server's start, different for each start. None if the server does not tell one."""


async def identify(address: str) -> Identity | None:
    """Ask for the server at an address. None if no server answers yet."""
    async with grpc.aio.insecure_channel(address) as channel:
        found = await identify_over(channel, seconds=IDENTIFY_SECONDS)
    if found is None and await is_another_kind_of_server(address):
        return Identity(None)
    return found


async def identify_over(channel: grpc.aio.Channel, *, seconds: float) -> Identity | None:
    """Ask for the server at the other end of a channel. None if no server answers in time."""
    call = channel.unary_unary(IDENTIFY_METHOD, None, None)
    try:
        answer = messages.IdentifyResponse.FromString(
            await call(messages.IdentifyRequest().SerializeToString(), timeout=seconds)
        )
    except grpc.aio.AioRpcError as error:
        return None if error.code() in _NOBODY_THERE else Identity(None)
    except DecodeError:
        return Identity(None)
    if not answer.server:
        return Identity(None)
    return Identity(ServerId(answer.server), tuple(map(Subnet, answer.subnets)), answer.start or None)
