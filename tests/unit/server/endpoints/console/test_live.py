"""The stream of the live table."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from dragoman import DragomanError, Failure
from dragoman.errors import FailureKind
from dragoman.wire import SSEParser
from dragoman_server.config.schema import Config
from dragoman_server.endpoints.console.live import VIEWERS_MAX, LiveTable
from dragoman_server.endpoints.console.recorder import Recorder
from dragoman_server.endpoints.console.row_notes import RowNotes
from dragoman_server.endpoints.console.rows import RowFilter
from dragoman_server.proxy.gateway import Gateway
from support.gateways import CHAT, MESSAGES, config_for, gate, served, until
from support.samples import text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Step, Wait, chunk, sse_head


def with_ui(url: str = "http://127.0.0.1:9/v1") -> Config:
    config = config_for(url, CHAT)
    return replace(config, server=replace(config.server, ui=True))


def notes_of(gateway: Gateway) -> RowNotes:
    return RowNotes(gateway, Recorder(gateway.services.instruments))


async def snapshots(response: aiohttp.ClientResponse) -> AsyncIterator[Any]:
    parser = SSEParser()
    async for data in response.content.iter_any():
        for frame in parser.parse(data):
            if frame.event == "rows" and frame.data is not None:
                yield json.loads(frame.data)


async def test_an_open_stream_is_in_the_table_until_it_has_ended() -> None:
    resume = asyncio.Event()
    frames = [Send(chunk(frame)) for frame in text_stream(CHAT)]
    script: list[Step] = [Send(sse_head()), *frames[:3], Wait(resume), *frames[3:], Send(LAST_CHUNK)]
    async with ScriptedServer(script) as server, gate(with_ui(server.url)) as up:
        reply = await up.post(MESSAGES, stream=True, top_k=4)
        async with asyncio.timeout(60), up.session.get(f"{up.url}/ui/api/live") as response:
            assert response.content_type == "text/event-stream"
            async for snapshot in snapshots(response):
                (row,) = snapshot["rows"]
                assert row["losses"] == 1
                if row["stage"] in ("waiting", "begun"):
                    assert snapshot["open"] == 1
                    resume.set()
                else:
                    assert row["state"] == "completed"
                    assert row["seconds"] > 0
                    break
            await reply.read()
        reply.close()


async def test_a_filter_is_applied() -> None:
    async with gate(with_ui()) as up:
        await up.refusal(CHAT, b"{}")
        async with asyncio.timeout(60), up.session.get(f"{up.url}/ui/api/live?state=open") as response:
            assert [snapshot["rows"] async for snapshot in first(snapshots(response))] == [[]]
        async with asyncio.timeout(60), up.session.get(f"{up.url}/ui/api/live?state=rejected") as response:
            assert [len(snapshot["rows"]) async for snapshot in first(snapshots(response))] == [1]


async def first(source: AsyncIterator[Any]) -> AsyncIterator[Any]:
    async for each in source:
        yield each
        return


async def test_viewers_are_bounded_and_leave() -> None:
    async with gate(with_ui()) as up:
        open_pages = [await up.session.get(f"{up.url}/ui/api/live") for _ in range(VIEWERS_MAX)]
        async with up.session.get(f"{up.url}/ui/api/live") as response:
            assert response.status == 429
            assert "close one" in (await response.json())["error"]["message"]
        for page in open_pages:
            page.close()

        async def free() -> bool:
            async with up.session.get(f"{up.url}/ui/api/live") as response:
                return response.status == 200

        async with asyncio.timeout(60):
            while not await free():
                pass


async def test_a_stream_ends_after_its_life_and_when_the_gateway_leaves() -> None:
    gateway = Gateway(with_ui())
    table = LiveTable(gateway, notes_of(gateway), interval=0.01, life=0.05)

    async def stream(request: web.Request) -> web.StreamResponse:
        return await table.stream(request)

    app = web.Application()
    app.router.add_get("/", stream)
    async with served(app) as (url, _), aiohttp.ClientSession() as session, asyncio.timeout(60):
        async with session.get(url) as response:
            assert (await response.read()).endswith(b"event: end\ndata: {}\n\n")
        table = LiveTable(gateway, notes_of(gateway), interval=0.01, life=1000)
        async with session.get(url) as response:
            await until(lambda: table.viewers == 1)
            gateway.leave()
            await response.read()
        table = LiveTable(gateway, notes_of(gateway), interval=1000, life=1000)
        gateway.leaving = False
        async with session.get(url) as response:
            await until(lambda: table.viewers == 1)
            table.close()
            await response.read()
        await until(lambda: table.viewers == 0)


class Siblings:
    """Other workers: one that answers, or none that does."""

    def __init__(self, *answers: Any) -> None:
        self.answers = answers

    async def console(self, question: Any) -> Any:
        assert question["kind"] == "rows"
        if not self.answers:
            raise DragomanError(Failure(FailureKind.OVERLOADED, "no answer", 503))
        return list(self.answers)


@pytest.mark.parametrize(
    "answers", [(), ({"open": 2, "recording": 4, "rows": [{"id": "other", "time": 1, "stage": "waiting"}]}, {})]
)
async def test_rows_of_other_workers_are_included(answers: Any) -> None:
    siblings: Any = Siblings(*answers)
    gateway = Gateway(with_ui(), siblings=siblings)
    table = LiveTable(gateway, notes_of(gateway))
    snapshot = await table.snapshot(RowFilter())
    assert snapshot["open"] == (2 if answers else 0)
    assert snapshot["recording"] == (4 if answers else 0)
    assert [row["id"] for row in snapshot["rows"]] == (["other"] if answers else [])
