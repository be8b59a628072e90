"""Delay of a read until this server reflects the revision that the reader asks for.

    the core says REFLECTED  go on
                  NOT_YET    look again after the next step
                  ASK        ask the server that the revision names, once; then it counts as REFLECTED

Source: docs/protocol-updates.md, "Revisions".
"""

from __future__ import annotations

from typing import Any, Protocol

import grpc

from namegraph import Reason, RefusedError, ServerId, Wait, parse_revision, refuse
from nameserver.driver.run_loop import RunLoop
from nameserver.routing.forwarding import Forwarder
from shadowtree.v1 import peer_pb2 as messages

PEER_SERVICE: str = messages.DESCRIPTOR.services_by_name["PeerService"].full_name

REVISION_SECONDS = 5.0
"""Longest wait of a read, if its caller set no deadline, or a later one. An update takes far less."""

REVISION_SHARE = 0.8
"""Share of the caller's time for the wait. The rest is for the answer that it failed."""

Context = grpc.aio.ServicerContext[Any, Any]


class ReflectingCore(Protocol):
    """Part of the core that knows the reflected revisions."""

    @property
    def server(self) -> ServerId:
        """This server."""

    def waits_for(self, revision: str) -> Wait:
        """Return the wait that a read needs. Raises `RefusedError` if it would wait in vain."""


class Revisions:
    """Waits for revisions."""

    def __init__(self, *, core: ReflectingCore, run_loop: RunLoop, forwarder: Forwarder) -> None:
        self._core = core
        self._run_loop = run_loop
        self._forwarder = forwarder

    async def reflect(self, revision: str, context: Context) -> None:
        """Return once the state here reflects a revision. Raises `RefusedError` (UNAVAILABLE) when the time is up."""
        await self._wait(revision, context, may_ask=True)

    async def await_own(
        self, request: messages.AwaitRevisionRequest, context: Context
    ) -> messages.AwaitRevisionResponse:
        """Answer another server, once this one has finished an update that it coordinated."""
        await self._wait(request.revision, context, may_ask=False)
        return messages.AwaitRevisionResponse()

    async def _wait(self, revision: str, context: Context, *, may_ask: bool) -> None:
        run_loop = self._run_loop
        remaining: float | None = context.time_remaining()
        seconds = REVISION_SECONDS if remaining is None else min(REVISION_SECONDS, REVISION_SHARE * remaining)
        deadline = run_loop.now() + seconds
        was_asked = False
        while (wait := self._core.waits_for(revision)) is not Wait.REFLECTED:
            seconds_left = deadline - run_loop.now()
            if wait is Wait.ASK:
                if was_asked:
                    return
                if not may_ask:
                    raise self._not_reflected(revision, "only the server that it names could know of it")
                await self._ask(revision, seconds_left)
                was_asked = True
            elif seconds_left > 0:
                await run_loop.next_step(seconds_left)
            else:
                raise self._not_reflected(revision, "an update up to it is still under way, or being settled")

    async def _ask(self, revision: str, seconds: float) -> None:
        named = parse_revision(revision).server
        request = messages.AwaitRevisionRequest(revision=revision).SerializeToString()
        try:
            await self._forwarder.ask(named, f"/{PEER_SERVICE}/AwaitRevision", request, seconds=seconds)
        except RefusedError as error:
            raise self._not_reflected(revision, error.refusal.message) from None
        except grpc.aio.AioRpcError as error:
            why = error.details() or error.code().name
            raise self._not_reflected(revision, f"the server {named} says: {why}") from None

    def _not_reflected(self, revision: str, why: str) -> RefusedError:
        server = self._core.server
        return refuse(
            Reason.UNAVAILABLE,
            f"the server {server} does not reflect the update {revision}: {why}",
            revision=revision,
            server=server,
        )
