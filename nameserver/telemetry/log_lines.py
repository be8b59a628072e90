"""The format of log lines, and the thread that writes them to standard error.

    event of the server --> LOGGER --> queue --> thread --> standard error, as text or as JSON

The event loop never waits for a reader of the log. Lines that cannot be written in time are dropped.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from queue import Queue

from nameserver.config.settings import LogFormat, LogSettings
from shadowtree.printable_text import printable

LINES_WAITING_LIMIT = 10_000
"""Most lines that wait to be written. Further lines are dropped, because the reader of standard error is stuck."""

LOGGER = logging.getLogger("shadowtree.server")
OF_LIBRARIES = logging.getLogger("opentelemetry")
"""Logger that reports failures to send spans."""


def say(level: int, event: str, message: str, **fields: object) -> None:
    """Write a line. `event` names its kind for programs, `message` is for people, `fields` hold the facts."""
    if LOGGER.isEnabledFor(level):
        LOGGER.log(level, "%s", message, extra={"event": event, "fields": fields})


class Lines(logging.Formatter):
    """Formatter of lines. The format may be changed at any time."""

    def __init__(self, log_format: LogFormat) -> None:
        super().__init__()
        self.log_format = log_format
        self.server: str | None = None
        """Name of the server. None until the database is open."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line, without its end."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        event, fields = getattr(record, "event", ""), getattr(record, "fields", {})
        message = record.getMessage()
        if self.log_format is LogFormat.JSON:
            facts = {"time": when, "level": record.levelname.lower(), "server": self.server, "event": event}
            found = {**facts, "message": message, **fields}
            return json.dumps({key: _cleaned(value) for key, value in found.items()}, ensure_ascii=False, default=str)
        shown = [when, record.levelname, self.server or "-", event or "-", message]
        shown += [f"{key}={_quoted(value)}" for key, value in fields.items()]
        # A message of a library has several lines.
        return printable(" ".join(shown).replace("\n", " "))


class ProcessLog:
    """The log of this process, from `begin` to `end`."""

    def __init__(self, settings: LogSettings, loggers: tuple[logging.Logger, ...] = (LOGGER, OF_LIBRARIES)) -> None:
        """Write the records of `loggers`.

        The first logger is the server's own, and follows the level of the settings.
        """
        self._loggers = loggers
        self._lines = Lines(settings.format)
        writer = logging.StreamHandler(sys.stderr)
        writer.setFormatter(self._lines)
        queue: Queue[logging.LogRecord] = Queue(LINES_WAITING_LIMIT)
        self._handler = QueueHandler(queue)
        self._listener = QueueListener(queue, writer)
        self.set(settings)

    def begin(self) -> None:
        """Write lines from now on."""
        # Standard error may be a file on a full disk, or closed. Such a failure must not be reported on standard error.
        logging.raiseExceptions = False
        self._loggers[0].propagate = False
        for logger in self._loggers:
            logger.addHandler(self._handler)
        self._listener.start()

    def end(self) -> None:
        """Write the waiting lines, and take no more."""
        for logger in self._loggers:
            logger.removeHandler(self._handler)
        self._listener.stop()

    def set(self, settings: LogSettings) -> None:
        """Apply these settings from now on."""
        self._lines.log_format = settings.format
        self._loggers[0].setLevel(settings.level.upper())

    def name(self, server: str) -> None:
        """Set the name of the server, or mail gateway, that later lines carry."""
        self._lines.server = server


def _cleaned(value: object) -> object:
    """Return a value for JSON whose texts would not act on the terminal of a reader who decodes them."""
    match value:
        case None | bool() | int() | float():
            return value
        case dict():
            return {printable(str(key)): _cleaned(each) for key, each in value.items()}
        case list() | tuple() | set() | frozenset():
            return [_cleaned(each) for each in value]
        case _:
            return printable(str(value))


def _quoted(value: object) -> str:
    # Cleaned before json.dumps, which would write a control character as a sequence that decodes to it.
    text = printable(str(value))
    return json.dumps(text, ensure_ascii=False) if not text or any(character in ' "=' for character in text) else text
