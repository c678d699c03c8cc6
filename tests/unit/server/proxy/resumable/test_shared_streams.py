"""Streams of two gateways in one process, which share a store."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dragoman import Dialect
from dragoman.gateway import CLIENT_DIALECTS
from dragoman_server.config.resume import ResumeOptions
from dragoman_server.config.state_options import StateOptions
from dragoman_server.proxy.resumable.shared_streams import SharedStreams
from dragoman_server.proxy.runs.interface import NewRun, RunId
from support.gateways import Gate, config_for, gate
from support.named_keys import made
from support.samples import text_stream
from support.sockets import ScriptedServer, Send, Stall, Step, chunk, sse_head, stream
from support.waiting import until

BEGIN = {"x-dragoman-resume": "true"}
ON = ResumeOptions(seconds=60)


@asynccontextmanager
async def gates(
    server: ScriptedServer, folder: Path, options: ResumeOptions = ON, **fields: Any
) -> AsyncIterator[tuple[Gate, Gate]]:
    config = config_for(server.url, Dialect.CHAT)
    state = StateOptions(kind="sqlite", path=str(folder / "responses.db"), timeout=30.0)
    config = replace(config, server=replace(config.server, resume=options), state=state, **fields)
    async with gate(config) as one, gate(config) as two:
        yield one, two


async def read(entrance: Gate, client: Dialect, headers: dict[str, str]) -> tuple[int, bytes]:
    async with asyncio.timeout(30), entrance.post(client, stream=True, headers=headers) as response:
        return response.status, await response.read()


def streams(entrance: Gate) -> Any:
    assert entrance.gateway.resumable is not None
    return entrance.gateway.resumable


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
async def test_each_dialect_is_resumed_with_its_own_headers(client: Dialect, tmp_path: Path) -> None:
    async with ScriptedServer(stream(text_stream(Dialect.CHAT))) as server, gates(server, tmp_path) as (one, two):
        async with one.post(client, stream=True, headers=BEGIN) as first:
            whole = await first.read()
        position = {"last-event-id": first.headers["x-dragoman-resume"] + ".0"}
        async with two.post(client, stream=True, headers=position) as again:
            assert whole.endswith(await again.read())
            for name in ("content-type", "x-dragoman-resume", "x-dragoman-request-id"):
                assert again.headers[name] == first.headers[name]
        for other in CLIENT_DIALECTS:
            assert (await read(two, other, position))[0] == (200 if other is client else 404)


async def test_another_key_does_not_find_it_elsewhere(tmp_path: Path) -> None:
    mine, first = made("first")
    others, second = made("second")
    async with (
        ScriptedServer(stream(text_stream(Dialect.CHAT))) as server,
        gates(server, tmp_path, keys={"first": first, "second": second}) as (one, two),
    ):
        async with one.post(Dialect.CHAT, stream=True, headers={**BEGIN, "authorization": f"Bearer {mine}"}) as begun:
            await begun.read()
        position = {"x-dragoman-resume": begun.headers["x-dragoman-resume"]}
        for key, status in ((mine, 200), (others, 404)):
            assert (await read(two, Dialect.CHAT, {**position, "authorization": f"Bearer {key}"}))[0] == status


async def test_a_client_that_leaves_elsewhere_ends_the_exchange_after_a_while(tmp_path: Path) -> None:
    options = replace(ON, seconds=0.3)
    steps: list[Step] = [Send(sse_head()), Send(chunk(text_stream(Dialect.CHAT)[0])), Stall()]
    async with ScriptedServer(steps) as server, gates(server, tmp_path, options) as (one, two):
        first = await one.post(Dialect.CHAT, stream=True, headers=BEGIN)
        stream_id = first.headers["x-dragoman-resume"]
        (kept,) = streams(one)._streams.values()
        second = await two.post(Dialect.CHAT, stream=True, headers={"x-dragoman-resume": stream_id})
        await second.content.readuntil(b"\n\n")
        await until(lambda: kept.elsewhere)
        first.close()
        assert kept.leaving is None
        receipt = one.gateway.receipts.of_any_client(stream_id)
        assert receipt is not None
        assert receipt.ended == "open"
        second.close()
        await until(lambda: receipt.ended == "abandoned")
        runs = one.gateway.services.responses.runs
        assert runs is not None
        await until(lambda: not runs._removed)
        assert (await read(two, Dialect.CHAT, {"x-dragoman-resume": stream_id}))[0] == 404


async def test_without_the_store_a_stream_is_resumed_in_its_own_process(tmp_path: Path) -> None:
    async with ScriptedServer(stream(text_stream(Dialect.CHAT))) as server, gates(server, tmp_path) as (one, two):
        runs = one.gateway.services.responses.runs
        assert runs is not None
        await runs._store.close()
        async with one.post(Dialect.CHAT, stream=True, headers=BEGIN) as first:
            whole = await first.read()
        position = {"x-dragoman-resume": first.headers["x-dragoman-resume"]}
        assert await read(one, Dialect.CHAT, position) == (200, whole)
        assert (await read(two, Dialect.CHAT, position))[0] == 404
        unknown = {"x-dragoman-resume": "req_1"}
        assert (await read(one, Dialect.CHAT, unknown))[0] == 503


async def test_a_response_in_the_background_is_no_stream(tmp_path: Path) -> None:
    async with ScriptedServer(stream(text_stream(Dialect.CHAT))) as server, gates(server, tmp_path) as (one, _):
        runs = one.gateway.services.responses.runs
        assert runs is not None
        await runs._store.begin(NewRun(RunId("", "req_1"), "x", b'{"kind":"background"}', b"", b"", None, 60.0))
        assert await SharedStreams(runs, 60.0).find("", "req_1", 0) is None
