"""The log on standard error: its level, and its two formats, lines of text and JSON objects."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, TextIO

from dragoman.wire import json_dumps

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
FORMATS = ("text", "json")
_LEVEL_NAMES = {level: logging.getLevelName(level) for level in LEVELS.values()}
BATCH_SECONDS = 0.1
"""Seconds for which lines of requests are collected: each write costs as much as the rest of a line, and a killed
process loses at most the lines of this time."""
_MOST_PENDING = 256
"""Most lines of requests that wait to be written."""
_ROOT, _LOG = logging.getLogger(), logging.getLogger("dragoman")
_CREDENTIAL_LIBRARIES = ("azure", "botocore", "google", "msal")


def configure(
    level: int,
    form: str = "text",
    *,
    worker: int | None = None,
    handler: logging.Handler | None = None,
    stamped: bool = False,
) -> None:
    """Log to standard error, or to `handler`. `form` is one of `FORMATS`; `worker` is a number that each line shows.

    With `stamped`, messages of the command line are lines of the log too (`print_line`). In a process whose log is
    configured already, only the level changes.
    """
    _LOG.setLevel(level)
    if _ROOT.handlers:
        return
    # Debug lines are the gateway's only: those of a library could show what it sends.
    _ROOT.setLevel(max(level, logging.INFO))
    # Their warnings quote the responses of token endpoints. The gateway logs that a credential could not be fetched.
    for name in _CREDENTIAL_LIBRARIES:
        logging.getLogger(name).setLevel(logging.CRITICAL)
    formatter = JsonFormatter(worker) if form == "json" else TextFormatter(worker)
    handler = handler or LineHandler(formatter, stamped=stamped)
    handler.setFormatter(formatter)
    _ROOT.addHandler(handler)
    # No format shows the caller, the thread or the process. Looking for them costs a third of a line.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def name_host(host: str) -> None:
    """Show the name of the host in each line, if the lines are JSON."""
    for handler in _ROOT.handlers:
        if isinstance(handler.formatter, JsonFormatter):
            handler.formatter.host = host


def print_line(text: str, level: int = logging.INFO) -> None:
    """Print a message of the command line to standard error, whatever the lowest level of the log is.

    It is a line of the log if that is JSON or has the command's messages (`configure`).
    """
    handlers = _ROOT.handlers
    if any(isinstance(handler.formatter, JsonFormatter) for handler in handlers):
        text = text.strip()
    elif not any(isinstance(handler, LineHandler) and handler.stamped for handler in handlers):
        for handler in handlers:
            handler.flush()  # lines of requests that came before
        print(text, file=sys.stderr)
        return
    _LOG.handle(_LOG.makeRecord(_LOG.name, level, "", 0, text, (), None))


def log_request(level: int, line: object) -> None:
    """Log the line of a request, whose level is enabled.

    The handler of `configure` writes it without a log record, which costs three times as much as the rest of the line.
    Handlers and filters of others get a record.
    """
    handlers = _ROOT.handlers
    # One filter is `known_secrets.mask_logs`, which changes no line of a request.
    if len(handlers) == 1 and type(own := handlers[0]) is LineHandler and not _LOG.handlers and len(_LOG.filters) < 2:
        own.write(level, line)
    else:
        _LOG.log(level, line)


class LineHandler(logging.StreamHandler[TextIO]):
    """Writes the log to standard error; the lines of requests in batches, each `BATCH_SECONDS` after its first line."""

    def __init__(self, formatter: TextFormatter | JsonFormatter, *, stamped: bool = False) -> None:
        super().__init__(sys.stderr)
        self.stamped = stamped
        self._line = formatter.line
        self._pending: deque[str] = deque()
        """Lines that wait. Only their removal is locked: other threads write them before lines of their own."""
        self._lock = threading.Lock()

    def write(self, level: int, line: object) -> None:
        """Add the line of a request to the batch. Must be called in the event loop."""
        pending = self._pending
        pending.append(self._line(time.time(), level, _LOG.name, line))
        count = len(pending)
        if count == 1:
            asyncio.get_running_loop().call_later(BATCH_SECONDS, self._write_batch)
        elif count >= _MOST_PENDING:
            self._write_batch()

    def _write_batch(self) -> None:
        pending = self._pending
        if not pending:
            return
        with self._lock:
            lines = [pending.popleft() for _ in range(len(pending))]
        if lines:
            try:
                self.stream.write("\n".join(lines) + "\n")  # standard error flushes at a line's end
            except Exception:
                self.handleError(_LOG.makeRecord(_LOG.name, logging.ERROR, "", 0, lines[0], (), None))

    def flush(self) -> None:
        """Write the batch, and flush the stream."""
        self._write_batch()
        super().flush()

    def emit(self, record: logging.LogRecord) -> None:
        """Write a record, after the lines that came before it."""
        self._write_batch()
        super().emit(record)


class TextFormatter(logging.Formatter):
    """`2026-11-21 09:00:00,120 INFO message`, with `[N]` before the message of worker N."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._worker = "" if worker is None else f" [{worker}]"
        self._second = -1
        self._time = ""
        self._milliseconds = [f"{number:03}" for number in range(1000)]
        """As texts: to format one would take as long as the rest of the line."""

    def line(self, created: float, level: int, logger: str, message: object) -> str:
        """Return the line for a message."""
        second = int(created)
        if second != self._second:
            self._second = second
            self._time = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        name = _LEVEL_NAMES.get(level) or logging.getLevelName(level)
        return f"{self._time},{self._milliseconds[int((created - second) * 1000)]} {name}{self._worker} {message!s}"

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, and the traceback below it if there is one."""
        line = self.line(record.created, record.levelno, record.name, record.getMessage())
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object: `time` (UTC), `level`, `logger`, `message`, and the fields of a message that has any."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._worker = worker
        self.host = ""
        """The name of the host, once it is known."""

    def line(self, created: float, level: int, logger: str, message: object, exception: str = "") -> str:
        """Return the object for a message, which may have fields."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created))
        entry: dict[str, Any] = {
            "time": f"{stamp}.{int(created % 1 * 1000):03}Z",
            "level": (_LEVEL_NAMES.get(level) or logging.getLevelName(level)).lower(),
            "logger": logger,
        }
        if self.host:
            entry["host"] = self.host
        if self._worker is not None:
            entry["worker"] = self._worker
        fields: Mapping[str, Any] | None = getattr(message, "fields", None)
        entry |= {"message": str(message)} if fields is None else fields
        if exception:
            entry["exception"] = exception
        # Escaped, as some readers take a line separator of Unicode for the end of a line.
        return json_dumps(entry).decode("utf-8", "replace").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")

    def format(self, record: logging.LogRecord) -> str:
        """Return the object, on one line."""
        message = record.getMessage() if record.args or isinstance(record.msg, str) else record.msg
        exception = self.formatException(record.exc_info) if record.exc_info else ""
        return self.line(record.created, record.levelno, record.name, message, exception)
