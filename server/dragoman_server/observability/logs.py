"""The log on standard error: its level, and its two formats, lines of text and JSON objects."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Mapping
from typing import Any

from dragoman import json_dumps

LEVELS = {"debug": logging.DEBUG, "info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
FORMATS = ("text", "json")


def configure(
    level: int, form: str = "text", *, worker: int | None = None, handler: logging.Handler | None = None
) -> None:
    """Log to standard error, or to `handler`. `form` is one of `FORMATS`; `worker` is a number that each line shows.

    Nothing happens in a process whose log is configured already.
    """
    root = logging.getLogger()
    log = logging.getLogger("dragoman")
    log.setLevel(level)
    if root.handlers:
        return
    # Debug lines are the gateway's only: those of a library could show what it sends.
    root.setLevel(max(level, logging.INFO))
    handler = handler or logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter(worker) if form == "json" else TextFormatter(worker))
    root.addHandler(handler)
    # No format shows the caller, the thread or the process. Looking for them costs a third of a line.
    logging._srcfile = None
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False


def print_line(text: str, level: int = logging.INFO) -> None:
    """Print a message of the command line to standard error, or log it if the log is JSON."""
    if any(isinstance(handler.formatter, JsonFormatter) for handler in logging.getLogger().handlers):
        logging.getLogger("dragoman").log(level, "%s", text.strip())
    else:
        print(text, file=sys.stderr)


class TextFormatter(logging.Formatter):
    """`2026-11-21 09:00:00,120 INFO message`, with `[N]` before the message of worker N."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._worker = "" if worker is None else f" [{worker}]"
        self._second = -1
        self._time = ""

    def format(self, record: logging.LogRecord) -> str:
        """The line, and the traceback below it if there is one."""
        second = int(record.created)
        if second != self._second:
            self._second = second
            self._time = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        line = f"{self._time},{int(record.msecs):03} {record.levelname}{self._worker} {record.getMessage()}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """One JSON object: `time` (UTC), `level`, `logger`, `message`, and the fields of a message that has any."""

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._worker = worker

    def format(self, record: logging.LogRecord) -> str:
        """The object, on one line."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        entry: dict[str, Any] = {
            "time": f"{stamp}.{int(record.msecs):03}Z",
            "level": record.levelname.lower(),
            "logger": record.name,
        }
        if self._worker is not None:
            entry["worker"] = self._worker
        fields: Mapping[str, Any] | None = getattr(record.msg, "fields", None)
        if fields is not None:
            entry.update(fields)
        else:
            entry["message"] = record.getMessage()
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        # Escaped, as some readers take a line separator of Unicode for the end of a line.
        return json_dumps(entry).decode("utf-8", "replace").replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
