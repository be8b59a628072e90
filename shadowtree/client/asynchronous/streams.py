"""Streams of messages of the asynchronous client. A sender has a task that reads; a listener has none."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Generator, Iterable, Mapping
from types import TracebackType
from typing import Any, Final

from shadowtree.client.asynchronous.transport import RpcError, Way
from shadowtree.client.failures import Failure, client_closed, failure_of_refusal
from shadowtree.client.messages.listening import Listening
from shadowtree.client.messages.reconnection import Reconnection
from shadowtree.client.messages.sending import NumberedMessages, message_request
from shadowtree.errors import ServerFault, ShadowtreeError
from shadowtree.messages import Message
from shadowtree.v1 import delivery_pb2 as wire
from shadowtree.vocabulary import GroupId, MemberId, Quality, Seconds, SenderId

CLOSE_S: Final = 5.0
"""Wait for the end of a stream, during which the server makes acknowledgements durable."""


class Sender:
    """Sender of numbered messages for one event loop. `send` does not wait for acceptance; `flush` does.

    Each message is accepted once, in order, whatever connection breaks meanwhile. After an error, which the next call
    raises, create another sender of the same id. Its `next_number` tells the message to continue with.
    """

    def __init__(self, sender: SenderId, way: Way) -> None:
        self._messages = NumberedMessages(sender)
        self._way = way
        self._changed = asyncio.Condition()
        self._failure: ShadowtreeError | None = None
        self._stream_number = 0
        """Number of the present stream. No request is written to earlier streams."""
        self._task: asyncio.Task[None] | None = None
        self._is_closing = False

    async def send(
        self,
        targets: MemberId | Iterable[MemberId],
        payload: bytes,
        *,
        excluding: Iterable[GroupId] = (),
        quality: Quality | None = None,
        deadline: Seconds | None = None,
        headers: Mapping[str, str] | None = None,
        as_: MemberId | None = None,
    ) -> None:
        """Send one message; wait only while 1,000 messages, or 4 MiB, are not accepted yet.

        Raises the error of an earlier message. No message after that one was accepted.
        """
        request = message_request(
            targets, payload, excluding=excluding, quality=quality, deadline=deadline, headers=headers, as_=as_
        )
        async with self._changed:
            await self._wait_until(lambda: self._messages.has_room)
            self._messages.add(request)
            self._say()

    async def next_number(self, target: MemberId) -> int:
        """Return the number of the next message to this first target.

        The number is 1 more than the number of messages that the target has received or will receive.
        """
        async with self._changed:
            self._raise_failure()
            self._messages.ask(target)
            self._say()
            await self._wait_until(lambda: self._messages.next_number(target) is not None)
            found = self._messages.next_number(target)
        assert found is not None
        return found

    async def flush(self) -> None:
        """Wait until all messages so far are accepted; raise the error of a message that is not."""
        async with self._changed:
            await self._wait_until(lambda: self._messages.unanswered == 0)

    async def close(self) -> None:
        """Flush, and end the stream."""
        try:
            await self.flush()
        finally:
            await self._end(at_once=False)

    async def __aenter__(self) -> Sender:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Flush and end; after an exception discard messages that are not accepted yet."""
        if kind is None:
            await self.close()
        else:
            await self._end(at_once=True)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_closing or (self._task is not None and self._task.done()):
            raise client_closed()

    async def _wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._raise_failure()
            await self._changed.wait()
        self._raise_failure()

    def _say(self) -> None:
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        self._changed.notify_all()

    async def _end(self, *, at_once: bool) -> None:
        async with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=0 if at_once else CLOSE_S)
            self._task.cancel()
            await asyncio.wait((self._task,))

    # -- in the task

    async def _run(self) -> None:
        reconnection = Reconnection(self._way.begin_attempts)
        try:
            while await self._has_work():
                failure = await self._converse(reconnection)
                if failure is not None:
                    pause = reconnection.pause_after(failure, time.monotonic())
                    if pause:
                        self._way.tell_wait(failure.error)
                    await asyncio.sleep(pause)
        except ShadowtreeError as error:
            self._failure = error
        finally:
            # Callers that wait must find the task done, so they are woken in another task.
            asyncio.get_running_loop().create_task(self._tell_end())

    async def _tell_end(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _has_work(self) -> bool:
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_closing or not self._messages.is_silent)
            return not self._is_closing

    async def _converse(self, reconnection: Reconnection) -> Failure | None:
        """Run one stream until it ends; return the failure if messages are left to send, else None."""
        connection = self._way.connections.current()
        self._messages.begin_stream()
        self._stream_number += 1
        requests = self._said(self._stream_number)
        stream = connection.call("Send", requests, reconnection.timeout(time.monotonic()))
        failure = Failure(
            ServerFault("the server ended the stream before it had answered"),
            is_answer=False,
            was_sent=True,
            may_pass=True,
        )
        try:
            async for response in stream:
                async with self._changed:
                    self._messages.read(response)
                    self._changed.notify_all()
                reconnection.has_worked()
        except RpcError as error:
            failure = self._way.failure(error, connection)
        except ShadowtreeError as error:
            failure = failure_of_refusal(error)
        except asyncio.CancelledError:
            self._way.connections.tell_if_closed()
            raise
        finally:
            self._stream_number += 1
            stream.cancel()
        return None if self._messages.is_silent or self._is_closing else failure

    async def _said(self, stream_number: int) -> AsyncGenerator[wire.SendRequest, None]:
        """Yield the requests of a stream, each with all messages that are due."""
        while True:
            async with self._changed:
                await self._changed.wait_for(
                    lambda: self._messages.is_due or self._is_closing or stream_number != self._stream_number
                )
                if stream_number != self._stream_number or not self._messages.is_due:
                    return
                request = self._messages.due()
            if request.messages:
                yield request


class _Done:
    """An awaitable that is already done."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield


class _Speech:
    """Requests of a listener on the present stream. Its messages refer to it and may outlive the listener."""

    def __init__(self, listening: Listening) -> None:
        self.listening = listening
        self._changed = asyncio.Event()
        self._stream_number = 0
        self.is_ended = False
        listening.acknowledge = self.acknowledge

    def acknowledge(self, message: Message) -> _Done:
        """Take note of a handled message."""
        self.listening.note_acknowledged(message)
        self._changed.set()
        return _Done()

    def take(self) -> Message | None:
        """Return the next message that has arrived; None if there is none."""
        found = self.listening.take()
        if self.listening.is_due:
            self._changed.set()
        return found

    def begin_stream(self) -> AsyncGenerator[wire.SubscribeRequest, None]:
        """Return the requests of a new stream."""
        self._stream_number += 1
        return self._requests(self.listening.begin_stream(), self._stream_number)

    def end_stream(self) -> None:
        """End the requests of the stream that was begun last."""
        self._stream_number += 1
        self._changed.set()

    def end(self) -> None:
        """Send the remaining acknowledgements, and nothing after them."""
        self.is_ended = True
        self._changed.set()

    async def _requests(
        self, first: wire.SubscribeRequest, stream_number: int
    ) -> AsyncGenerator[wire.SubscribeRequest, None]:
        request: wire.SubscribeRequest | None = first
        while request is not None:
            yield request
            while not (self.is_ended or self.listening.is_due or stream_number != self._stream_number):
                self._changed.clear()
                await self._changed.wait()
            request = self.listening.due() if stream_number == self._stream_number else None


class Listener(AsyncIterator[Message]):
    """Messages as they come, for ever; ended by `close`, or by leaving the loop.

    The stream begins with the first message that is asked for, or with `open`. If the server cannot be reached, the
    listener retries, and continues after the last message that was handed out. An ephemeral subscription instead ends
    with its stream.
    """

    def __init__(self, listening: Listening, way: Way) -> None:
        """`listening` belongs to this listener alone."""
        self._speech = _Speech(listening)
        # The generator has no reference to this object, so dropping the listener ends the stream.
        self._messages = _messages(self._speech, way)
        self._is_begun = False
        self._is_reading = False

    async def open(self) -> None:
        """Begin the stream: every message after the return is handed out."""
        if not self._is_begun:
            self._is_begun = True
            await self._next()

    async def __anext__(self) -> Message:
        """Return the next message, once there is one; raise errors that end it for good, such as `TakenOver`."""
        await self.open()
        found = await self._next()
        if found is None:
            raise StopAsyncIteration
        return found

    async def close(self) -> None:
        """End the stream. Acknowledgements are durable on return, unless the server cannot be reached."""
        self._speech.end()
        if not self._is_reading:
            await self._messages.aclose()

    async def aclose(self) -> None:
        """Alias of `close`."""
        await self.close()

    async def __aenter__(self) -> Listener:
        await self.open()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _next(self) -> Message | None:
        self._is_reading = True
        try:
            return await anext(self._messages, None)
        finally:
            self._is_reading = False


async def _messages(speech: _Speech, way: Way) -> AsyncGenerator[Message | None, None]:
    """Yield None once the stream has begun, then messages, until `speech` has ended."""
    reconnection = Reconnection(way.begin_attempts, ends_when_broken=speech.listening.is_ephemeral)
    has_begun = False
    while not speech.is_ended:
        connection = way.connections.current()
        stream = connection.call("Subscribe", speech.begin_stream(), reconnection.timeout(time.monotonic()))
        try:
            async for response in stream:
                reconnection.has_worked()
                speech.listening.read(response)
                if not has_begun:
                    has_begun = True
                    yield None
                while not speech.is_ended and (found := speech.take()) is not None:
                    yield found
            if speech.is_ended:
                return
            raise ServerFault("the server ended the stream of messages")
        except RpcError as error:
            if speech.is_ended:
                return
            failure = way.failure(error, connection)
        except asyncio.CancelledError:
            way.connections.tell_if_closed()
            raise
        except GeneratorExit:
            speech.end()
            await _drain(stream)
            raise
        finally:
            speech.end_stream()
            stream.cancel()
        pause = reconnection.pause_after(failure, time.monotonic())
        if pause:
            way.tell_wait(failure.error)
        await asyncio.sleep(pause)


async def _drain(stream: Any) -> None:
    """Read a stream to its end after the client's side has ended."""
    try:
        async with asyncio.timeout(CLOSE_S):
            async for _ in stream:
                pass
    except (RpcError, TimeoutError):
        # Messages whose acknowledgements were lost come again.
        pass
