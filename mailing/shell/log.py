"""What the gateway tells its operator: a line an event, on standard error, by a thread of its own."""

from __future__ import annotations

import logging
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import QueueHandler, QueueListener
from queue import Queue

LOGGER = logging.getLogger("shadowtree.mail")

LINES_WAITING_LIMIT = 10_000
"""Lines that wait to be written; further ones are dropped: what takes them is stuck."""


@contextmanager
def written_log() -> Iterator[None]:
    """Have lines written meanwhile."""
    logging.raiseExceptions = False
    lines: Queue[logging.LogRecord] = Queue(LINES_WAITING_LIMIT)
    handler, writer = QueueHandler(lines), logging.StreamHandler(sys.stderr)
    writer.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    listener = QueueListener(lines, writer)
    LOGGER.propagate = False
    LOGGER.setLevel(logging.INFO)
    LOGGER.addHandler(handler)
    listener.start()
    try:
        yield
    finally:
        LOGGER.removeHandler(handler)
        listener.stop()


class Repeated:
    """Events that others can cause as often as they like: the first of a kind is told at once, more by their number."""

    def __init__(self) -> None:
        self._untold: Counter[str] = Counter()

    def tell(self, event: str) -> None:
        """Take note of an event."""
        if event not in self._untold:
            LOGGER.warning("%s", event)
        self._untold[event] += 1

    def tell_numbers(self) -> None:
        """Tell how many there were since the last time, and begin anew."""
        for event, count in self._untold.items():
            if count > 1:
                LOGGER.warning("%s: %d times", event, count)
        self._untold.clear()
