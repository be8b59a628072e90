"""Outlasts servers that end and come back as planned: what one of them could not answer is asked again when it is back.

    attempt --refused: a server that is coming back is needed--> wait until it is back --> attempt again
                                                                       | not back in time, or no time left
                                                                       +--> the refusal, as it is; that it is unknown
                                                                            what was done, where one attempt said so

Nothing was done where a server was refused as UNAVAILABLE, so trying again is safe for updates too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

import grpc

from namegraph import Reason, RefusedError, ServerId
from nameserver.wire.status_mapping import refusal_of

RESTARTS_LIMIT = 5
"""Restarts that one call waits for: an update may need several servers, each of which may be restarted."""

COMES_BACK = "comes_back"
"""A fact of the refusal of a server that ends and is coming back."""

T = TypeVar("T")


class Restarting(Protocol):
    """Who knows which servers restart."""

    @property
    def comebacks(self) -> int:
        """How often a server that was waited for came back."""

    def is_coming_back(self, server: ServerId) -> bool:
        """Whether a server has said that it ends and comes back, and is waited for."""

    def heard_that_it_leaves(self, server: ServerId) -> None:
        """A server has said, in answer to a call, that it ends and comes back."""

    async def until_back(self, server: ServerId) -> None:
        """Wait until a server that restarts is back, or is not waited for any more."""


async def outlast_restarts(
    attempt: Callable[[], Awaitable[T]], restarting: Restarting, *, seconds: float | None, may_be_done: bool = False
) -> T:
    """What an attempt returns, once no server that it needs restarts; `seconds`: how long to wait at most.

    `may_be_done`: an attempt whose outcome is unknown can be made again, as by its request id.
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
                # Nothing was done this time; of an attempt before it nobody knows.
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
    """Wait for the server because of which an attempt failed, where it is coming back; returns whether to try again.

    `comebacks`: how many there had been when the attempt began; it may have come back since it was missed. `deadline`:
    until when to wait, on the clock of the event loop.
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
    """The servers because of which an attempt may have failed; none where it failed for another reason."""
    refusal = error.refusal if isinstance(error, RefusedError) else refusal_of(error)
    reasons = (Reason.UNAVAILABLE, Reason.OUTCOME_UNKNOWN) if may_be_done else (Reason.UNAVAILABLE,)
    if refusal is None or refusal.reason not in reasons:
        return []
    facts = refusal.facts
    if COMES_BACK in facts:
        # Its word overtakes what it says over the stream of letters.
        restarting.heard_that_it_leaves(ServerId(facts[COMES_BACK]))
    return [ServerId(facts[key]) for key in (COMES_BACK, "server", "unreachable") if facts.get(key)]
