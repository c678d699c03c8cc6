"""The two formats of the log, and the lines that are printed next to it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
from logging import LogRecord

import pytest

from dragoman_server.observability.logs import JsonFormatter, TextFormatter


def _record(message: object, *args: object, error: BaseException | None = None) -> LogRecord:
    info = None if error is None else (type(error), error, None)
    record = LogRecord("dragoman", logging.WARNING, "a.py", 1, message, args, info)
    record.created, record.msecs = 1_795_255_200.25, 250.0
    return record


def _program(form: str, *, level: str = "INFO", worker: str = "None") -> str:
    """The standard error of a process that logs with `form`."""
    code = f"""
import logging
from dragoman_server.observability.logs import configure, print_line
configure(logging.{level}, {form!r}, worker={worker})
print_line("  said")
for name in ("dragoman", "aiohttp.server"):
    for write in (logging.getLogger(name).debug, logging.getLogger(name).info):
        write("%s\\nof %s", write.__name__, name)
"""
    return subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60).stderr


def test_a_line_of_text() -> None:
    stamp = logging.Formatter("%(asctime)s").format(_record(""))
    assert TextFormatter().format(_record("%s is away", "up")) == f"{stamp} WARNING up is away"
    assert TextFormatter(2).format(_record("plain")) == f"{stamp} WARNING [2] plain"
    assert TextFormatter().format(_record("it broke", error=ValueError("why"))).endswith("it broke\nValueError: why")


def test_an_object_of_json() -> None:
    assert json.loads(JsonFormatter(2).format(_record("%s is\naway \u2028\udce9", "up", error=ValueError("why")))) == {
        "time": "2026-11-21T10:00:00.250Z",
        "level": "warning",
        "logger": "dragoman",
        "worker": 2,
        "message": "up is\naway \u2028\udce9",
        "exception": "ValueError: why",
    }


def test_every_record_of_json_is_one_line() -> None:
    lines = _program("json", level="DEBUG", worker="3").splitlines()
    fields = [json.loads(line) for line in lines]
    assert [(each["level"], each["message"], each["worker"]) for each in fields] == [
        ("info", "said", 3),
        ("debug", "debug\nof dragoman", 3),
        ("info", "info\nof dragoman", 3),
        ("info", "info\nof aiohttp.server", 3),  # but no debug line of a library: it could show what is sent
    ]


@pytest.mark.parametrize(("level", "count"), [("DEBUG", 3), ("INFO", 2), ("WARNING", 0)])
def test_the_level_bounds_the_lines_of_text(level: str, count: int) -> None:
    out = _program("text", level=level)
    assert out.startswith("  said\n")
    assert out.count("\nof ") == count
