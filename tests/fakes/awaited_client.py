"""Drives the asynchronous client as if it were the synchronous one, so that one suite can try both."""

import asyncio
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor

import shadowtree
from shadowtree.client.asynchronous.streams import Listener, Sender


class AwaitedClient:
    """Every verb of `shadowtree.aio.Client`, awaited in an event loop of its own."""

    def __init__(self, address, **options):
        self._loop = asyncio.new_event_loop()
        self._client = shadowtree.aio.Client(address, **options)

    def __getattr__(self, verb):
        method = getattr(self._client, verb)

        def call(*arguments, **options):
            result = method(*arguments, **options)
            if inspect.isasyncgen(result):
                return self._iterate(result)
            if isinstance(result, Listener):
                return AwaitedListener(self._loop, result)
            if isinstance(result, Sender):
                return AwaitedSender(self._loop, result)
            return self._loop.run_until_complete(result)

        return call

    def at_once(self, verb, several, options):
        """Await one call for each tuple of arguments, all at the same time."""

        async def call_all():
            calls = (getattr(self._client, verb)(*arguments, **options) for arguments in several)
            return await asyncio.gather(*calls, return_exceptions=True)

        return self._loop.run_until_complete(call_all())

    def _iterate(self, generator):
        try:
            while True:
                try:
                    yield self._loop.run_until_complete(anext(generator))
                except StopAsyncIteration:
                    return
        finally:
            self._loop.run_until_complete(generator.aclose())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._loop.run_until_complete(self._client.close())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


def at_once(names, verb, several, **options):
    """Make a call for each tuple of arguments, all at the same time. Return each result or exception, in order."""
    if isinstance(names, AwaitedClient):
        return names.at_once(verb, several, options)
    together = threading.Barrier(len(several))

    def call(arguments):
        together.wait()
        try:
            return getattr(names, verb)(*arguments, **options)
        except shadowtree.ShadowtreeError as error:
            return error

    with ThreadPoolExecutor(len(several)) as threads:
        return list(threads.map(call, several))


class AwaitedListener:
    """A listener of the asynchronous client, begun as the synchronous one is. Its stream ends when it is dropped."""

    def __init__(self, loop, listener):
        self._thread = threading.get_ident()
        self._loop, self._listener = loop, listener
        loop.run_until_complete(listener.open())

    def __iter__(self):
        return self

    def __next__(self):
        try:
            return self._loop.run_until_complete(anext(self._listener))
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self):
        self._loop.run_until_complete(self._listener.close())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        # A cycle may be collected in any thread, such as one of the fake server, but a loop belongs to one thread.
        if threading.get_ident() == self._thread and not self._loop.is_closed():
            self.close()


class AwaitedSender:
    """A sender of the asynchronous client."""

    def __init__(self, loop, sender):
        self._loop, self._sender = loop, sender

    def __getattr__(self, verb):
        return lambda *arguments, **options: self._loop.run_until_complete(
            getattr(self._sender, verb)(*arguments, **options)
        )

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        self._loop.run_until_complete(self._sender.__aexit__(*raised))
