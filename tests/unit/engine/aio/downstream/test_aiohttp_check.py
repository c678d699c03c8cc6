"""The check of the installed aiohttp, and a gateway before an aiohttp that does not work as it assumes."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest
from aiohttp import web, web_protocol
from aiohttp.http import StreamWriter

from dragoman.aio.downstream import aiohttp_check
from dragoman.aio.downstream import aiohttp_internals as internals
from dragoman.aio.downstream.hijack_runner import HijackRunner
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from support.gateways import config_for, gate
from support.samples import judge, text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, chunk, sse_head


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that has not checked aiohttp yet."""
    monkeypatch.setattr(aiohttp_check, "_checked", False)
    monkeypatch.setattr(internals, "_trusted", True)


def no_error_entries(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(web_protocol, "_ErrInfo")


def another_header(monkeypatch: pytest.MonkeyPatch) -> None:
    async def start(self: web.StreamResponse, request: web.BaseRequest) -> Any:
        self.headers["x-new"] = "1"
        return await original(self, request)

    original = web.StreamResponse._start
    monkeypatch.setattr(web.StreamResponse, "_start", start)


def another_chunk_form(monkeypatch: pytest.MonkeyPatch) -> None:
    async def write(self: StreamWriter, data: Any, **options: Any) -> None:
        await original(self, bytes(data) + b"\n", **options)

    original = StreamWriter.write
    monkeypatch.setattr(StreamWriter, "write", write)


def handlers_are_not_cancelled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the connection is not free for a reply that takes it over."""

    def connection_lost(self: web.RequestHandler, exc: BaseException | None) -> None:
        raise AttributeError("'RequestHandler' object has no attribute '_task_handler'")

    monkeypatch.setattr(web.RequestHandler, "connection_lost", connection_lost)


CHANGES = (no_error_entries, another_header, another_chunk_form, handlers_are_not_cancelled)


async def test_the_installed_version_works_as_assumed() -> None:
    assert await aiohttp_check.find_fault() is None


@pytest.mark.parametrize("change", CHANGES)
async def test_a_changed_version_is_found(
    change: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        change(patched)
        assert await aiohttp_check.find_fault()
    assert await aiohttp_check.find_fault() is None


@pytest.mark.usefixtures("unchecked")
async def test_it_is_checked_and_reported_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    another_header(monkeypatch)
    log = logging.getLogger("test")
    for _ in range(2):
        await aiohttp_check.check_once(log)
    assert not internals.is_trusted()
    (line,) = caplog.messages
    assert "does not work as expected (replies have other bytes)" in line


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("client", CLIENT_DIALECTS)
@pytest.mark.parametrize("upstream", Dialect)
async def test_a_gateway_serves_by_the_public_interface(
    client: Dialect, upstream: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    another_header(monkeypatch)
    stream = b"".join(text_stream(upstream, counted=False))
    script = (Send(sse_head() + chunk(stream) + LAST_CHUNK),)
    async with (
        ScriptedServer(script, script) as server,
        gate(config_for(server.url, upstream)) as entrance,
    ):
        assert not internals.is_trusted()
        runner = entrance.runner
        assert isinstance(runner, HijackRunner)
        async with entrance.post(client, stream=True) as response:
            assert (response.status, response.headers["x-new"]) == (200, "1")
            body = await response.read()
            assert body == stream if client is upstream else judge(client, body).error is None
            assert runner.connections is not None
            (connection,) = runner.connections.connections
            assert type(connection) is web.RequestHandler
        async with entrance.post(client, stream=False) as response:
            assert (response.status, response.content_type) == (200, "application/json")
            assert "error" not in {key for key, value in (await response.json()).items() if value}
        async with entrance.session.get(f"{entrance.url}/v1/nothing") as response:
            assert response.status == 404
