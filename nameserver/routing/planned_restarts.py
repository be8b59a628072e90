"""Retry over planned restarts: a call that needs a restarting server is repeated when that server is back.

    attempt --refused: a server that is coming back is needed--> wait until it is back --> attempt again
                                                                       | not back in time, or no time left
                                                                       +--> the refusal, as it is; that it is unknown
                                                                            what was done, where one attempt said so

A server that refuses a call as UNAVAILABLE has done nothing of it, so trying again is safe for updates too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import grpc

from namegraph import Reason, RefusedError, ServerId
from nameserver.wire.status_mapping import refusal_of

RESTARTS_LIMIT = 5
"""Restarts that one call waits for. An update may need several servers, each of which may be restarted."""

COMES_BACK = "comes_back"
"""Fact in the refusal of a server that ends and is coming back."""

T = TypeVar("T")


class Restarting(Protocol):
    """Knowledge of the servers that restart."""

    @property
    def comebacks(self) -> int:
        """Number of returns of servers that were waited for."""

    def is_coming_back(self, server: ServerId) -> bool:
        """Return True if a server has announced its end and its return, and is waited for."""

    def heard_that_it_leaves(self, server: ServerId) -> None:
        """Note a server's answer to a call that it ends and comes back."""

    async def until_back(self, server: ServerId) -> None:
        """Wait until a restarting server is back, or is not waited for any more."""


async def outlast_restarts(
    attempt: Callable[[], Awaitable[T]], restarting: Restarting, *, seconds: float | None, may_be_done: bool = False
) -> T:
    """Return the result of an attempt, once no server that it needs restarts.

    `seconds`: longest wait.

    `may_be_done`: True if an attempt with an unknown outcome can be repeated, for instance by its request id.
    """
    event_loop = asyncio.get_running_loop()
    deadline = None if seconds is None else event_loop.time() + seconds
    in_doubt: RefusedError | grpc.aio.AioRpcError | None = None
    attempts_left = RESTARTS_LIMIT
    while True:
        comebacks = restarting.comebacks
        try:
            return await attempt()
        except (RefusedError, grpc.aio.AioRpcError) as error:
            reason = _reason_of(error)
            if reason is Reason.OUTCOME_UNKNOWN:
                in_doubt = error
            if attempts_left and await is_outlasted(
                error, restarting, comebacks, deadline=deadline, may_be_done=may_be_done
            ):
                attempts_left -= 1
                continue
            if in_doubt is not None and reason in (Reason.UNAVAILABLE, Reason.DEADLINE_EXCEEDED):
                # This attempt has done nothing. The outcome of an attempt before it is unknown.
                raise in_doubt from error
            raise


async def is_outlasted(
    error: RefusedError | grpc.aio.AioRpcError,
    restarting: Restarting,
    comebacks: int,
    *,
    deadline: float | None,
    may_be_done: bool = False,
) -> bool:
    """Wait for the server that made an attempt fail, if it is coming back.

    Return True to try again.

    `comebacks`: their number when the attempt began. The server may have come back since it was missed. `deadline`: end
    of the wait, on the clock of the event loop.
    """
    named = _named(error, restarting, may_be_done=may_be_done)
    server = next(filter(restarting.is_coming_back, named), None)
    if server is None:
        return bool(named) and restarting.comebacks != comebacks
    try:
        async with asyncio.timeout_at(deadline):
            await restarting.until_back(server)
    except TimeoutError:
        return False
    return True


def _reason_of(error: RefusedError | grpc.aio.AioRpcError) -> Reason | None:
    refusal = error.refusal if isinstance(error, RefusedError) else refusal_of(error)
    return None if refusal is None else refusal.reason


def _named(error: RefusedError | grpc.aio.AioRpcError, restarting: Restarting, *, may_be_done: bool) -> list[ServerId]:
    """Return the servers that may have made an attempt fail. Empty if it failed for another reason."""
    refusal = error.refusal if isinstance(error, RefusedError) else refusal_of(error)
    reasons = (Reason.UNAVAILABLE, Reason.OUTCOME_UNKNOWN) if may_be_done else (Reason.UNAVAILABLE,)
    if refusal is None or refusal.reason not in reasons:
        return []
    facts = refusal.facts
    if COMES_BACK in facts:
        # The answer of the server overtakes its announcement over the stream of letters.
        restarting.heard_that_it_leaves(ServerId(facts[COMES_BACK]))
    return [ServerId(facts[key]) for key in (COMES_BACK, "server", "unreachable") if facts.get(key)]
