"""Log of the gateway: one line for each event, on standard error, in the form of the name server's log.

`say` writes the kind of an event for programs, a text for people, and the facts as fields.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from mailing.rules.plurals import counted
from nameserver.config.settings import LogSettings
from nameserver.telemetry.log_lines import ProcessLog

LOGGER = logging.getLogger("shadowtree.mail")


@contextmanager
def written_log(settings: LogSettings, name: str) -> Iterator[ProcessLog]:
    """Write log lines while the context is open. `name`: name of the gateway."""
    log = ProcessLog(settings, (LOGGER,))
    log.name(name)
    log.begin()
    try:
        yield log
    finally:
        log.end()


def say(level: int, event: str, message: str, **fields: object) -> None:
    """Write a line. `event`: kind for programs. `message`: text for people. `fields`: the facts."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, "%s", message, extra={"event": event, "fields": fields})


KINDS_LIMIT = 1_000
"""Most different lines between two counts of `Repeated`. Further lines are counted together, by their event."""


class Repeated:
    """Events that other parties can cause without limit.

    The first of a kind is told at once, more of them by number.
    """

    def __init__(self) -> None:
        self._untold: Counter[tuple[str, str]] = Counter()

    def tell(self, event: str, message: str) -> None:
        """Record an event."""
        if (event, message) not in self._untold and len(self._untold) >= KINDS_LIMIT:
            message = "more of these, not written one by one"
        if (event, message) not in self._untold:
            say(logging.WARNING, event, message)
        self._untold[event, message] += 1

    def tell_numbers(self) -> None:
        """Tell the numbers since the last time, and begin anew."""
        for (event, message), count in self._untold.items():
            if count > 1:
                say(logging.WARNING, event, f"{message}: {counted(count, 'time')}", count=count)
        self._untold.clear()
