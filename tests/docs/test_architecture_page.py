"""docs/explanation/architecture.md: its files exist, and its four traces are those of a running gateway."""

from __future__ import annotations

import contextlib
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any

from aiohttp import ClientSession
from aiohttp.test_utils import TestServer

from dragoman_server import make_app, parse_config
from oracles.simulator import strict_simulator
from support.paths import ROOT

PAGE = ROOT / "docs/explanation/architecture.md"
PACKAGES = (ROOT / "engine/dragoman", ROOT / "server/dragoman_server")
_FILE = re.compile(r"`([a-z_0-9/]+(?:\.py|/))`")

PASSED_ON = (
    *("draft.py", "observability/metrics.py", "observability/receipts.py", "services.py"),
    *("proxy/error_response.py", "proxy/exchange.py", "proxy/loaded_config.py", "proxy/upstream_calls.py"),
)
"""Files of the server that hold what a request reads or makes on its way, and that its table does not name."""
Call = tuple[str, str]
"""A file below its package, and the function's name."""


def _rows(heading: str, table: int = 0) -> list[list[str]]:
    """The files in each numbered row of a section's table."""
    section = PAGE.read_text("utf-8").partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    tables = [list(lines) for is_row, lines in itertools.groupby(section.splitlines(), _is_row) if is_row]
    cells = [line.split("|") for line in tables[table]]
    return [files for _, number, file, *_ in cells if number.strip().isdigit() and (files := _FILE.findall(file))]


def _is_row(line: str) -> bool:
    return line.startswith("|")


def test_its_files_exist() -> None:
    files = set(_FILE.findall(PAGE.read_text("utf-8")))
    assert len(files) > 40
    assert [file for file in sorted(files) if not any(_found(package, file) for package in PACKAGES)] == []


def _found(package: Path, file: str) -> bool:
    """True if the path leads from the package, or from one of its folders."""
    return (package / file).exists() or any(package.rglob(file))


@contextlib.contextmanager
def _recorded() -> Iterator[list[list[Call]]]:
    """The calls of the project's functions: all of them first, then those of each callback of a socket."""
    everything: list[Call] = []
    traces = [everything]
    inside: list[tuple[FrameType, list[Call]]] = []

    def note(frame: FrameType, event: str, _: Any) -> None:
        if event == "return" and inside and inside[-1][0] is frame:
            traces.append(inside.pop()[1])
            return
        if event != "call" or (file := _own(frame.f_code.co_filename)) is None:
            return
        call = file, frame.f_code.co_name
        if "/http11/" in call[0] and call[1] in ("data_received", "eof_received"):
            inside.append((frame, []))
        for calls in (everything, *(each for _, each in inside)):
            calls.append(call)

    sys.setprofile(note)
    try:
        yield traces
    finally:
        sys.setprofile(None)


def _own(filename: str) -> str | None:
    for package in ("dragoman", "dragoman_server"):
        _, found, file = filename.rpartition(f"/{package}/")
        if found and not file.startswith("simulator/"):
            return file
    return None


async def _traced(model: str, *, stream: bool) -> list[list[Call]]:
    """The traces of one request of a Messages client for a Chat upstream, on a gateway that had one before."""
    body = {
        "model": model,
        "max_tokens": 500,
        "stream": stream,
        "tools": [{"name": "get_weather", "input_schema": {"type": "object"}}],
        "messages": [{"role": "user", "content": "Hi " * 300}],
    }
    async with TestServer(strict_simulator(pace=0.002)) as upstream:
        provider = {"dialect": "chat", "base_url": str(upstream.make_url("/v1"))}
        routes = [{"model": "*", "provider": "local"}]
        config = {"server": {"validate": False}, "providers": {"local": provider}, "routes": routes}
        async with TestServer(make_app(parse_config(config, {}))) as gateway, ClientSession() as session:
            url = str(gateway.make_url("/v1/messages"))
            await _ask(session, url, body)
            with _recorded() as traces:
                await _ask(session, url, body)
    return traces


async def _ask(session: ClientSession, url: str, body: dict[str, Any]) -> None:
    async with session.post(url, json=body) as response:
        await response.read()


def _in_order(rows: list[list[str]], trace: list[Call]) -> None:
    """Assert that each row's files are called, and after one of the row before."""
    at = 0
    for row in rows:
        for file in row:
            assert any(_is_file(file, call) for call, _ in trace), f"{file} is not called"
        at = next((i for i in range(at, len(trace)) if any(_is_file(file, trace[i][0]) for file in row)), -1)
        assert at >= 0, f"{row} is not called in its place"


def _is_file(file: str, called: str) -> bool:
    if file.endswith("/"):
        return called.startswith(file)
    return called == file or called.endswith(f"/{file}")


async def test_a_delta_passes_the_files_of_the_page_and_no_others() -> None:
    page = list(itertools.chain(*_rows("A delta")))
    traces = await _traced("sim-long-100", stream=True)
    callbacks = [[file for file, _ in itertools.groupby(file for file, _ in trace)] for trace in traces[1:]]
    assert any(callback[: len(page)] == page and set(callback) == set(page) for callback in callbacks)


async def test_a_request_and_its_reply_pass_the_files_of_the_page() -> None:
    everything = (await _traced("sim-text", stream=False))[0]
    _in_order([*_rows("A request"), *_rows("A whole reply")], everything)


def _of_server(file: str) -> bool:
    return (PACKAGES[1] / file).is_file()


async def test_a_request_passes_the_servers_files_of_the_page_and_no_others() -> None:
    """Up to its sending. Parts that are off, or that only pass a call on, are not in the table."""
    section = PAGE.read_text("utf-8").partition("\n## A request\n")[2].partition("Each step gets")[0]
    page = {file for file in _FILE.findall(section) if _of_server(file)}
    everything = [file for file, _ in (await _traced("sim-text", stream=False))[0]]
    sent = next(i for i, file in enumerate(everything) if _is_file("aio/upstream/http11/transport.py", file))
    begun = everything.index("proxy/request_handler.py")
    called = {file for file in everything[begun:sent] if _of_server(file)}
    assert sorted(called - page) == sorted(PASSED_ON)
    assert sorted(page - called) == []


async def test_an_error_status_passes_the_files_of_the_page() -> None:
    _in_order(_rows("An error"), (await _traced("sim-error-429", stream=False))[0])


async def test_a_cut_stream_passes_the_files_of_the_page_in_one_callback() -> None:
    traces = await _traced("sim-cut", stream=True)
    _in_order(_rows("An error", table=1), traces[-1])
