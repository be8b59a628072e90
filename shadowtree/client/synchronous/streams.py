"""Streams of messages of the synchronous client. A sender has a thread that reads; a listener has none."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from threading import Condition, Lock, Thread, Timer
from types import TracebackType
from typing import Any, Final

from shadowtree.client.failures import Failure, client_closed, failure_of_refusal
from shadowtree.client.messages.listening import Listening
from shadowtree.client.messages.reconnection import Reconnection
from shadowtree.client.messages.sending import GATHER_S, NumberedMessages, message_request
from shadowtree.client.synchronous.transport import RpcError, Way
from shadowtree.errors import ServerFault, ShadowtreeError
from shadowtree.messages import Message
from shadowtree.v1 import delivery_pb2 as wire
from shadowtree.vocabulary import GroupId, MemberId, Quality, Seconds, SenderId

CLOSE_S: Final = 5.0
"""Wait for the end of a stream, during which the server makes acknowledgements durable."""


class Sender:
    """Sender of numbered messages; threads may share it. `send` does not wait for acceptance; `flush` does.

    Each message is accepted once, in order, whatever connection breaks meanwhile. After an error, which the next call
    raises, create another sender of the same id. Its `next_number` tells the message to continue with.
    """

    def __init__(self, sender: SenderId, way: Way) -> None:
        self._messages = NumberedMessages(sender)
        self._way = way
        self._changed = Condition()
        self._failure: ShadowtreeError | None = None
        self._stream_number = 0
        """Number of the present stream. No request is written to earlier streams."""
        self._stream: Any = None
        self._thread: Thread | None = None
        self._is_closing = False
        self._is_over = False

    def send(
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
        with self._changed:
            if not self._messages.has_room or self._failure is not None or self._is_closing or self._is_over:
                self._wait_until(lambda: self._messages.has_room)
            was_due = self._messages.is_due
            self._messages.add(request)
            if not was_due or self._messages.is_enough:
                self._say()

    def next_number(self, target: MemberId) -> int:
        """Return the number of the next message to this first target.

        The number is 1 more than the number of messages that the target has received or will receive.
        """
        with self._changed:
            self._raise_failure()
            self._messages.ask(target)
            self._say()
            self._wait_until(lambda: self._messages.next_number(target) is not None)
            found = self._messages.next_number(target)
        assert found is not None
        return found

    def flush(self) -> None:
        """Wait until all messages so far are accepted; raise the error of a message that is not."""
        with self._changed:
            self._wait_until(lambda: self._messages.unanswered == 0)

    def close(self) -> None:
        """Flush, and end the stream."""
        try:
            self.flush()
        finally:
            self._end(at_once=False)

    def __enter__(self) -> Sender:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Flush and end; after an exception discard messages that are not accepted yet."""
        if kind is None:
            self.close()
        else:
            self._end(at_once=True)

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._is_closing or self._is_over:
            raise client_closed()

    def _wait_until(self, is_so: Callable[[], bool]) -> None:
        while not is_so():
            self._raise_failure()
            self._changed.wait()
        self._raise_failure()

    def _say(self) -> None:
        if self._thread is None:
            self._thread = Thread(target=self._run, name="shadowtree sender", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _end(self, *, at_once: bool) -> None:
        with self._changed:
            self._is_closing = True
            if at_once and self._stream is not None:
                self._stream.cancel()
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(CLOSE_S)
            if self._thread.is_alive() and self._stream is not None:
                self._stream.cancel()

    # -- in the thread

    def _run(self) -> None:
        reconnection = Reconnection(self._way.begin_attempts)
        try:
            while self._has_work():
                failure = self._converse(reconnection)
                if failure is not None:
                    self._pause(reconnection.pause_after(failure, time.monotonic()), failure)
        except ShadowtreeError as error:
            self._failure = error
        finally:
            with self._changed:
                self._is_over = True
                self._changed.notify_all()

    def _has_work(self) -> bool:
        with self._changed:
            self._changed.wait_for(lambda: self._is_closing or not self._messages.is_silent)
            return not self._is_closing

    def _pause(self, seconds: Seconds, failure: Failure) -> None:
        if seconds:
            self._way.tell_wait(failure.error)
        with self._changed:
            self._changed.wait_for(lambda: self._is_closing, seconds)

    def _converse(self, reconnection: Reconnection) -> Failure | None:
        """Run one stream until it ends; return the failure if messages are left to send, else None."""
        connection = self._way.connections.current()
        with self._changed:
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
        self._stream = stream
        try:
            for response in stream:
                with self._changed:
                    self._messages.read(response)
                    self._changed.notify_all()
                reconnection.has_worked()
        except RpcError as error:
            failure = self._way.failure(error, connection)
        except ShadowtreeError as error:
            failure = failure_of_refusal(error)
        finally:
            with self._changed:
                self._stream = None
                self._stream_number += 1
                self._changed.notify_all()
            stream.cancel()
        return None if self._messages.is_silent or self._is_closing else failure

    def _said(self, stream_number: int) -> Iterator[wire.SendRequest]:
        """Yield the requests of a stream, each with all messages that are due. gRPC iterates in a thread of its own."""
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._messages.is_due or self._is_closing or stream_number != self._stream_number
                )
                if not self._messages.is_enough:
                    self._changed.wait_for(
                        lambda: self._messages.is_enough or self._is_closing or stream_number != self._stream_number,
                        GATHER_S,
                    )
                if stream_number != self._stream_number or not self._messages.is_due:
                    return
                request = self._messages.due()
            if request.messages:
                yield request


class _Speech:
    """Requests of a listener on the present stream. Its messages refer to it and may outlive the listener."""

    def __init__(self, listening: Listening) -> None:
        self.listening = listening
        self.changed = Condition()
        """Lock of `listening`."""
        self._stream_number = 0
        self._is_ended = False
        listening.acknowledge = self.acknowledge

    def acknowledge(self, message: Message) -> None:
        """Take note of a handled message."""
        with self.changed:
            self.listening.note_acknowledged(message)
            self.changed.notify_all()

    def begin_stream(self) -> Iterator[wire.SubscribeRequest]:
        """Return the requests of a new stream. gRPC iterates over them in a thread of its own."""
        with self.changed:
            self._stream_number += 1
            return self._requests(self.listening.begin_stream(), self._stream_number)

    def end_stream(self) -> None:
        """End the requests of the stream that was begun last."""
        with self.changed:
            self._stream_number += 1
            self.changed.notify_all()

    def end(self) -> None:
        """Send the remaining acknowledgements, and nothing after them."""
        with self.changed:
            self._is_ended = True
            self.changed.notify_all()

    def _requests(self, first: wire.SubscribeRequest, stream_number: int) -> Iterator[wire.SubscribeRequest]:
        request: wire.SubscribeRequest | None = first
        while request is not None:
            yield request
            with self.changed:
                self.changed.wait_for(
                    lambda: self._is_ended or self.listening.is_due or stream_number != self._stream_number
                )
                request = self.listening.due() if stream_number == self._stream_number else None


class Listener(Iterator[Message]):
    """Messages as they come, for ever; ended by `close`, or by leaving the loop.

    If the server cannot be reached, the listener retries, and continues after the last message that was handed out. An
    ephemeral subscription instead ends with its stream.
    """

    def __init__(self, listening: Listening, way: Way) -> None:
        """Begin: every message after the return is handed out. `listening` belongs to this listener alone."""
        self._is_closed = False
        self._way = way
        self._reconnection = Reconnection(way.begin_attempts, ends_when_broken=listening.is_ephemeral)
        self._speech = _Speech(listening)
        self._reading = Lock()
        self._stream: Any = None
        self._connection: Any = None
        self._open()

    def __next__(self) -> Message:
        """Return the next message, once there is one; raise errors that end it for good, such as `TakenOver`."""
        speech = self._speech
        with self._reading:
            while not self._is_closed:
                with speech.changed:
                    found = speech.listening.take()
                    if found is not None:
                        if speech.listening.is_due:
                            speech.changed.notify_all()
                        return found
                self._read_more()
            raise StopIteration

    def close(self) -> None:
        """End the stream. Acknowledgements are durable on return, unless the server cannot be reached.

        Any thread may call it.
        """
        self._is_closed = True
        self._speech.end()
        timer = Timer(CLOSE_S, self._cancel)
        timer.daemon = True
        timer.start()
        try:
            with self._reading:
                self._drain()
        finally:
            timer.cancel()

    def __enter__(self) -> Listener:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        # A loop that is left without `close` ends the stream here.
        if not self._is_closed and self._stream is not None:
            self.close()

    def _open(self) -> None:
        """Begin a stream, with retries while there is patience; return once its first response has come."""
        while not self._is_closed:
            self._connection = self._way.connections.current()
            timeout = self._reconnection.timeout(time.monotonic())
            self._stream = self._connection.call("Subscribe", self._speech.begin_stream(), timeout)
            try:
                self._take_response()
            except RpcError as error:
                self._pause_after(error)
            else:
                return

    def _read_more(self) -> None:
        try:
            self._take_response()
        except RpcError as error:
            if not self._is_closed:
                self._pause_after(error)
                self._open()

    def _take_response(self) -> None:
        response = next(self._stream, None)
        if response is None:
            if self._is_closed:
                return
            raise ServerFault("the server ended the stream of messages")
        self._reconnection.has_worked()
        with self._speech.changed:
            self._speech.listening.read(response)

    def _pause_after(self, error: RpcError) -> None:
        """Wait before the next stream; raise the error if there is none."""
        self._stream = None
        self._speech.end_stream()
        failure = self._way.failure(error, self._connection)
        pause = self._reconnection.pause_after(failure, time.monotonic())
        if pause:
            self._way.tell_wait(failure.error)
        time.sleep(pause)

    def _drain(self) -> None:
        stream, self._stream = self._stream, None
        if stream is None:
            return
        try:
            for _ in stream:
                pass
        except RpcError:
            # Messages whose acknowledgements were lost come again.
            pass
        finally:
            self._speech.end_stream()
            stream.cancel()

    def _cancel(self) -> None:
        stream = self._stream
        if stream is not None:
            stream.cancel()
