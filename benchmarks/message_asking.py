"""Sends single messages to a listener with the imported client, which may be that of an earlier build.

`message_costs.py` starts this file by its path. The file imports no module of the benchmarks, which would be those of
another build.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from shadowtree import Client

PAYLOAD = bytes(200)
PAUSE_SECONDS = 0.01
"""Pause at low load, before each message. The work that follows the message before is over by then."""


@contextmanager
def arriving(sender: Client, group: str, reader: Client, process: str) -> Iterator[Callable[[], object]]:
    """Yield a call that sends one message to a group, and returns once a listener of the process has it."""
    with reader.listen(process, subscription=group, from_="now") as messages:

        def arrive() -> None:
            sender.send(group, PAYLOAD)
            assert next(messages).payload == PAYLOAD

        yield arrive


def seconds_after_pause(call: Callable[[], object]) -> float:
    """Return the seconds that a call takes at low load."""
    time.sleep(PAUSE_SECONDS)
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def ask(sender_address: str, group: str, reader_address: str, process: str, count: str) -> None:
    """Send messages with the imported client, and print the median of their seconds."""
    with (
        Client(sender_address) as sender,
        Client(reader_address) as reader,
        arriving(sender, group, reader, process) as arrive,
    ):
        arrive()  # The first message waits for connections.
        print(json.dumps(statistics.median(seconds_after_pause(arrive) for _ in range(int(count)))))


if __name__ == "__main__":
    ask(*sys.argv[1:])
