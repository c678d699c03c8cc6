"""The two formats of the log, and the lines that are printed next to it."""

from __future__ import annotations

import json
import logging
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from io import StringIO
from logging import LogRecord
from typing import NamedTuple

import pytest

from dragoman_server.observability import logs
from dragoman_server.observability.logs import JsonFormatter, TextFormatter, configure, log_request
from support.waiting import until


def _record(message: object, *args: object, error: BaseException | None = None) -> LogRecord:
    info = None if error is None else (type(error), error, None)
    record = LogRecord("dragoman", logging.WARNING, "a.py", 1, message, args, info)
    record.created, record.msecs = 1_795_255_200.25, 250.0
    return record


def _program(form: str, *, level: str = "INFO", worker: str = "None", stamped: bool = False) -> str:
    """The standard error of a process that logs with `form`."""
    code = f"""
import logging
from dragoman_server.observability.logs import configure, print_line
configure(logging.{level}, {form!r}, worker={worker}, stamped={stamped})
print_line("  said")
for name in ("dragoman", "aiohttp.server"):
    for write in (logging.getLogger(name).debug, logging.getLogger(name).info):
        write("%s\\nof %s", write.__name__, name)
for name in ("botocore.credentials", "azure.identity._internal", "google.auth.transport", "msal"):
    logging.getLogger(name).error("a response of a token endpoint")
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


def test_json_names_its_host() -> None:
    code = """
import logging
from dragoman_server.observability.logs import configure, name_host
for form in ("json", "text"):
    configure(logging.INFO, form)
    name_host("gw-1")
    logging.getLogger("dragoman").info("up")
    logging.getLogger().handlers.clear()
"""
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60)
    as_json, as_text = done.stderr.splitlines()
    assert json.loads(as_json)["host"] == "gw-1"
    assert as_text.endswith("INFO up")


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


class Facts(NamedTuple):
    """A line of a request: text, and fields for JSON."""

    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def fields(self) -> dict[str, str]:
        return {"event": "request", "message": self.text}


@pytest.fixture
def logged(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], StringIO]]:
    """Configures the log of this process, with its own handler, for one test."""
    root, log = logging.getLogger(), logging.getLogger("dragoman")
    before = root.handlers[:], root.level, log.level, log.filters[:], logging._srcfile
    switches = logging.logThreads, logging.logProcesses, logging.logMultiprocessing

    def start(form: str) -> StringIO:
        stream = StringIO()
        monkeypatch.setattr(sys, "stderr", stream)
        root.handlers[:] = []
        configure(logging.INFO, form)
        return stream

    yield start
    root.handlers[:], log.filters[:], logging._srcfile = before[0], before[3], before[4]
    root.setLevel(before[1])
    log.setLevel(before[2])
    logging.logThreads, logging.logProcesses, logging.logMultiprocessing = switches


@pytest.mark.parametrize("form", ["text", "json"])
async def test_the_line_of_a_request_is_what_a_record_would_be(
    form: str, logged: Callable[[str], StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_795_255_200.5)
    monkeypatch.setattr(time, "time_ns", lambda: 1_795_255_200_500_000_000)  # of records since Python 3.13
    stream = logged(form)
    log_request(logging.WARNING, Facts("one"))
    logging.getLogger("dragoman").warning(Facts("one"))
    first, second = stream.getvalue().splitlines()
    assert first == second
    assert "one" in first


async def test_lines_of_requests_are_written_together_and_in_order(
    logged: Callable[[str], StringIO], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "BATCH_SECONDS", 0)
    stream = logged("text")
    log = logging.getLogger("dragoman")
    log_request(logging.INFO, Facts("one"))
    log_request(logging.INFO, Facts("two"))
    assert stream.getvalue() == ""
    log.info("three")
    log_request(logging.INFO, Facts("four"))
    await until(lambda: "four" in stream.getvalue())
    assert [line.rpartition(" ")[2] for line in stream.getvalue().splitlines()] == ["one", "two", "three", "four"]


async def test_a_long_batch_does_not_wait(logged: Callable[[str], StringIO]) -> None:
    stream = logged("text")
    for number in range(256):
        log_request(logging.INFO, Facts(str(number)))
    assert len(stream.getvalue().splitlines()) == 256


async def test_a_batch_is_written_at_the_end_of_the_process(logged: Callable[[str], StringIO]) -> None:
    stream = logged("text")
    log_request(logging.INFO, Facts("last"))
    logging.getLogger().handlers[0].flush()
    assert stream.getvalue().endswith(" INFO last\n")


class Collector(logging.Handler):
    """Keeps records, as a handler or as a filter."""

    def __init__(self, records: list[LogRecord]) -> None:
        super().__init__()
        self.records = records

    def emit(self, record: LogRecord) -> None:
        self.records.append(record)

    def keep(self, record: LogRecord) -> bool:
        self.records.append(record)
        return True


@pytest.mark.parametrize("place", ["root", "logger", "filter"])
async def test_handlers_and_filters_of_others_get_a_record(place: str, logged: Callable[[str], StringIO]) -> None:
    logged("text")
    records: list[LogRecord] = []
    root, log = logging.getLogger(), logging.getLogger("dragoman")
    other = Collector(records)
    if place == "filter":
        log.addFilter(lambda record: True)
        log.addFilter(other.keep)
    else:
        (root if place == "root" else log).addHandler(other)
    try:
        log_request(logging.INFO, Facts("one"))
    finally:
        root.removeHandler(other)
        log.removeHandler(other)
    assert [str(record.msg) for record in records] == ["one"]


def test_messages_of_the_command_line_may_be_lines_of_the_log() -> None:
    """They are written whatever the lowest level is."""
    (line,) = _program("text", level="WARNING", stamped=True).splitlines()
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO   said", line)
    for stamped in (True, False):
        (line,) = _program("json", level="WARNING", stamped=stamped).splitlines()
        assert json.loads(line)["message"] == "said"
