"""Messages of one `Send` stream whose home is another server: a stream to that home, and its answers.

    say --> [ what is there ] --one request--> home
    future of each, in order <----------------- answers;   settled, later: told by a callback

If the lane breaks, each message without an answer may be accepted or not: OUTCOME_UNKNOWN. Its number, or its request
id, makes it safe to send again.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Final, NamedTuple

import grpc
from google.protobuf.message import DecodeError

from namegraph import Reason, Refusal, RefusedError, ServerId
from nameserver.deliveries import message_wire
from nameserver.routing.forwarding import Forwarder
from nameserver.wire.status_mapping import refusal_of
from shadowtree.v1 import delivery_pb2 as wire

SEND_PATH: Final = f"/{wire.DESCRIPTOR.services_by_name['DeliveryService'].full_name}/Send"
REQUEST_BYTES: Final = 1024 * 1024
"""Bytes of the messages of one request. A larger message goes alone."""

REQUEST_MESSAGES: Final = 1_000


class _Said(NamedTuple):
    """A message that the lane has taken."""

    answer: asyncio.Future[wire.SendResponse.Answer]
    on_settled: Callable[[wire.SendResponse.Answer], None]
    on_unsettled: Callable[[], None]
    waits: bool


class HomeLane:
    """A stream to one home."""

    def __init__(self, forwarder: Forwarder, home: ServerId, *, seconds: float | None) -> None:
        self._home = home
        self._to_say: deque[wire.SendRequest.Message] = deque()
        self._under_way: deque[_Said] = deque()
        self._settling: dict[int, _Said] = {}
        """Accepted messages that wait to be settled, by their number in the lane."""
        self._answered = 0
        self._changed = asyncio.Event()
        self._is_ended = False
        self.is_over = False
        """True if no more messages can be passed on by this lane."""
        self._task = asyncio.create_task(self._run(forwarder, seconds))

    def say(
        self,
        message: wire.SendRequest.Message,
        *,
        on_settled: Callable[[wire.SendResponse.Answer], None],
        on_unsettled: Callable[[], None],
    ) -> asyncio.Future[wire.SendResponse.Answer]:
        """Pass a message on.

        Return the future of its answer.

        If the caller waits until the message is settled, exactly one of the two callbacks is called, once.
        """
        answer: asyncio.Future[wire.SendResponse.Answer] = asyncio.get_running_loop().create_future()
        waits = message.wait == wire.SendRequest.WAIT_SETTLED
        self._to_say.append(message)
        self._under_way.append(_Said(answer, on_settled, on_unsettled, waits))
        self._changed.set()
        return answer

    def end(self) -> None:
        """End the requests: no more messages come."""
        self._is_ended = True
        self._changed.set()

    def cancel(self) -> None:
        """Give the lane up."""
        self._task.cancel()

    async def _run(self, forwarder: Forwarder, seconds: float | None) -> None:
        refusal = Refusal(Reason.OUTCOME_UNKNOWN, f"the server {self._home} ended the stream", {"server": self._home})
        try:
            answers = forwarder.converse(self._home, SEND_PATH, self._requests(), seconds=seconds)
            async with aclosing(answers):
                async for encoded in answers:
                    for answer in wire.SendResponse.FromString(encoded).answers:
                        self._take(answer)
        except RefusedError as error:
            refusal = error.refusal
        except grpc.aio.AioRpcError as error:
            refusal = refusal_of(error) or refusal
        except DecodeError:
            # The other server is no name server of this version.
            pass
        finally:
            self.is_over = True
            # The generator of requests ends with the stream, and not when it is garbage collected.
            self._to_say.clear()
            self.end()
            self._give_up(refusal)

    async def _requests(self) -> AsyncIterator[bytes]:
        while True:
            self._changed.clear()
            request, size = wire.SendRequest(), 0
            while self._to_say and len(request.messages) < REQUEST_MESSAGES:
                size += self._to_say[0].ByteSize()
                if request.messages and size > REQUEST_BYTES:
                    break
                request.messages.append(self._to_say.popleft())
            if request.messages:
                yield request.SerializeToString()
            elif self._is_ended:
                return
            else:
                await self._changed.wait()

    def _take(self, answer: wire.SendResponse.Answer) -> None:
        later = self._settling.pop(answer.message, None)
        if later is not None:
            later.on_settled(answer)
            return
        if not self._under_way or answer.message != self._answered + 1:
            raise DecodeError
        self._answered += 1
        said = self._under_way.popleft()
        if said.waits:
            if answer.HasField("refused"):
                said.on_unsettled()
            else:
                self._settling[answer.message] = said
        if not said.answer.cancelled():
            said.answer.set_result(answer)

    def _give_up(self, refusal: Refusal) -> None:
        """Tell all waiting callers that no more answers come."""
        for said in self._settling.values():
            said.on_unsettled()
        self._settling.clear()
        while self._under_way:
            said = self._under_way.popleft()
            if said.waits:
                said.on_unsettled()
            if not said.answer.cancelled():
                said.answer.set_result(message_wire.refused(0, refusal))
