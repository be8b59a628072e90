"""Drives the asynchronous client as if it were the synchronous one, so that one suite can try both."""

import asyncio
import inspect

import shadowtree


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
            return self._loop.run_until_complete(result)

        return call

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
