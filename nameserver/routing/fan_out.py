"""Parts of an answer from other servers.

Each server is asked alone, and a silent server leaves a gap, which is named.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

import grpc
from google.protobuf.message import DecodeError, Message

from namegraph import Priority, RefusedError, ServerId, parse_revision
from nameserver.routing.forwarding import PART_SECONDS, Forwarder, is_out_of_reach

ResponseT = TypeVar("ResponseT", bound=Message)


async def ask_part(
    forwarder: Forwarder,
    server: ServerId,
    method: str,
    request: Message,
    response_type: type[ResponseT],
    *,
    seconds: float,
) -> ResponseT | None:
    """Return one server's part of an answer.

    None if the server is unreachable. Its refusal refuses the whole answer.
    """
    try:
        answer = await forwarder.ask(server, method, request.SerializeToString(), seconds=seconds)
        return response_type.FromString(answer)
    except (RefusedError, grpc.aio.AioRpcError) as error:
        if not is_out_of_reach(error):
            raise
    except DecodeError:
        # The other server is no name server of this version.
        pass
    return None


async def stream_part(
    forwarder: Forwarder,
    server: ServerId,
    method: str,
    request: Message,
    response_type: type[ResponseT],
    *,
    seconds: float | None,
    on_silence: Callable[[ServerId], object],
) -> AsyncIterator[ResponseT]:
    """Yield one server's part of a streamed answer. `on_silence` is called if it ends too early."""
    messages = forwarder.stream(server, method, request.SerializeToString(), seconds=seconds)
    try:
        while True:
            async with asyncio.timeout(PART_SECONDS):
                message = await anext(messages, None)
            if message is None:
                return
            yield response_type.FromString(message)
    except (RefusedError, grpc.aio.AioRpcError) as error:
        if not is_out_of_reach(error):
            raise
        on_silence(server)
    except (DecodeError, TimeoutError):
        on_silence(server)
    finally:
        await messages.aclose()


def newest(revisions: Iterable[str]) -> str:
    """Return the revision that reflects all these. Texts that are no revision are skipped."""
    found: dict[Priority, str] = {}
    for revision in revisions:
        try:
            found[parse_revision(revision).final] = revision
        except ValueError:
            continue
    return found[max(found)] if found else ""
