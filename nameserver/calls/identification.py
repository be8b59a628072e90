"""Who is at an address: asked before the address is put into the table of peers."""

from __future__ import annotations

from dataclasses import dataclass

import grpc
from google.protobuf.message import DecodeError

from namegraph import ServerId, Subnet
from nameserver.calls.read_your_writes import PEER_SERVICE
from shadowtree.v1 import peer_pb2 as messages

IDENTIFY_SECONDS = 3.0
"""How long an answer is waited for: an operator waits for it, too."""

_NOBODY_THERE = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)


@dataclass(frozen=True, slots=True)
class Identity:
    """A name server, as it says of itself. `server` is None where what answers is no name server of this version."""

    server: ServerId | None
    subnets: tuple[Subnet, ...] = ()
    start: int | None = None
    """A number of its own each time that it is started; None where it does not tell one."""


async def identify(address: str) -> Identity | None:
    """Ask who is there; None where nobody answers."""
    async with grpc.aio.insecure_channel(address) as channel:
        call = channel.unary_unary(f"/{PEER_SERVICE}/Identify", None, None)
        try:
            answer = messages.IdentifyResponse.FromString(
                await call(messages.IdentifyRequest().SerializeToString(), timeout=IDENTIFY_SECONDS)
            )
        except grpc.aio.AioRpcError as error:
            return None if error.code() in _NOBODY_THERE else Identity(None)
        except DecodeError:
            return Identity(None)
    return Identity(ServerId(answer.server), tuple(map(Subnet, answer.subnets)), answer.start or None)
