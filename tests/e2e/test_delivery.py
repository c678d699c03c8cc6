"""Streams arrive whole, as they are made, and end with their terminal event."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json
import zlib
from collections.abc import Callable
from dataclasses import replace

import pytest

from dragoman.dialects import Dialect
from dragoman_server.app import make_app
from dragoman_server.config.load import simulated_config
from dragoman_server.config.provider import Provider
from dragoman_server.config.schema import Server
from dragoman_server.simulator import STREAMS
from oracles.simulator import strict_simulator
from support.gateways import ALL, CHAT, CROSS, MESSAGES, Gate, config_for, gate, raw_exchange, served, until
from support.packing import packed_br, packed_zstd
from support.samples import PATHS, TEXT, TOOL, dump, judge, read_error, reply, request, text_stream, tool_stream
from support.sockets import (
    LAST_CHUNK,
    Drip,
    ScriptedServer,
    Send,
    Stall,
    Step,
    Wait,
    answer,
    chunk,
    head,
    sse_head,
    stream,
)

BOTH_LOOPS = TAKEN = True
DIRECTIONS = pytest.mark.parametrize(("client", "upstream"), ALL)
CROSSING = pytest.mark.parametrize(("client", "upstream"), CROSS)


def _frames(client: Dialect, upstream: Dialect) -> list[bytes]:
    return text_stream(upstream, counted=client is not upstream)


@DIRECTIONS
@pytest.mark.parametrize("kind", ["text", "tool"])
async def test_T26_the_body_ends_with_the_terminal_event(client: Dialect, upstream: Dialect, kind: str) -> None:
    """The upstream neither ends its body nor closes its connection."""
    frames = _frames(client, upstream) if kind == "text" else tool_stream(upstream)
    script: list[Step] = [Send(sse_head()), *(Send(chunk(frame)) for frame in frames), Stall()]
    async with ScriptedServer(script) as server, gate(config_for(server.url, upstream)) as entrance:
        whole = await entrance.stream(client)
        if client is upstream:
            assert whole == b"".join(frames)
        else:
            assert judge(client, whole).finish is not None
        await asyncio.wait_for(server.hung_up.wait(), 30)  # a connection in an unknown state is not used again


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": packed_br,
    "zstd": packed_zstd,
}


@DIRECTIONS
async def test_T74_the_connection_of_a_whole_stream_is_used_again(client: Dialect, upstream: Dialect) -> None:
    """Also when the last chunk comes a moment after the terminal event."""
    late = asyncio.Event()
    frames = _frames(client, upstream)
    script: list[Step] = [Send(sse_head()), *(Send(chunk(frame)) for frame in frames), Wait(late), Send(LAST_CHUNK)]
    async with ScriptedServer(script) as server, gate(config_for(server.url, upstream)) as entrance:
        for _ in range(3):
            late.clear()
            asyncio.get_running_loop().call_later(0.01, late.set)
            assert judge(client, await entrance.stream(client)).text == TEXT
            await asyncio.wait_for(late.wait(), 30)
            await until(lambda: not getattr(entrance.gateway.services.upstream._transport, "busy"))  # noqa: B009
        assert server.connections == 1


@DIRECTIONS
async def test_T73_each_event_arrives_as_it_is_made(client: Dialect, upstream: Dialect) -> None:
    """The next frame is sent only when the client has the one before."""
    words = ["alpha", "beta", "gamma"]
    gates = [asyncio.Event() for _ in words]
    frames = text_stream(upstream, words, counted=client is not upstream)
    first = 1 if upstream is CHAT else 2
    script: list[Step] = [Send(sse_head()), *(Send(chunk(frame)) for frame in frames[:first])]
    for number, frame in enumerate(frames[first : first + 3]):
        script += [Send(chunk(frame)), Wait(gates[number])]
    script += [*(Send(chunk(frame)) for frame in frames[first + 3 :]), Send(LAST_CHUNK)]
    async with (
        ScriptedServer(script) as server,
        gate(config_for(server.url, upstream)) as entrance,
        asyncio.timeout(30),
        entrance.post(client, stream=True) as response,
    ):
        seen = b""
        for word, event in zip(words, gates, strict=True):
            while word.encode() not in seen:
                seen += await response.content.readany()
            event.set()
        seen += await response.read()
    assert judge(client, seen).text == "".join(words)


@DIRECTIONS
@pytest.mark.parametrize("coding", PACKERS)
@pytest.mark.parametrize("streamed", [True, False], ids=["stream", "whole"])
async def test_T70_a_compressed_reply_is_understood(
    client: Dialect, upstream: Dialect, coding: str, streamed: bool
) -> None:
    """From an upstream that ignores `accept-encoding: identity`."""
    data = b"".join(_frames(client, upstream)) if streamed else dump(reply(upstream))
    packed = PACKERS[coding](data)
    kind = "text/event-stream" if streamed else "application/json"
    script: list[Step] = [
        Send(head(200, [("content-type", kind), ("content-encoding", coding), ("transfer-encoding", "chunked")])),
        *(Send(chunk(packed[at : at + 11])) for at in range(0, len(packed), 11)),
        Send(LAST_CHUNK),
    ]
    async with (
        ScriptedServer(script) as server,
        gate(config_for(server.url, upstream)) as entrance,
        entrance.post(client, stream=streamed, headers={"accept-encoding": "identity"}) as response,
    ):
        assert response.status == 200
        assert "content-encoding" not in response.headers
        body = await response.read()
    if streamed:
        assert server.requests[0].headers["accept-encoding"] == "identity"
        assert judge(client, body).text == TEXT
    else:
        assert TEXT in json.dumps(json.loads(body), ensure_ascii=False)


@DIRECTIONS
@pytest.mark.parametrize("size", [1, 2, 3, 5])
async def test_T71_characters_cut_at_chunk_borders_stay_whole(client: Dialect, upstream: Dialect, size: int) -> None:
    data = b"".join(_frames(client, upstream))
    script: list[Step] = [
        Send(sse_head()),
        *(Drip(chunk(data[at : at + size]), 4096) for at in range(0, len(data), size)),
        Send(LAST_CHUNK),
    ]
    async with ScriptedServer(script) as server, gate(config_for(server.url, upstream)) as entrance:
        whole = await entrance.stream(client)
    assert judge(client, whole).text == TEXT
    assert "\ufffd" not in whole.decode()


@DIRECTIONS
async def test_a_stream_ended_by_the_connection_alone(client: Dialect, upstream: Dialect) -> None:
    """HTTP/1.0 style: no chunks."""
    script: list[Step] = [Send(sse_head(chunked=False)), *(Send(frame) for frame in _frames(client, upstream))]
    async with ScriptedServer(script) as server, gate(config_for(server.url, upstream)) as entrance:
        assert judge(client, await entrance.stream(client)).text == TEXT


@CROSSING
async def test_a_whole_reply_to_a_stream_request_is_streamed(client: Dialect, upstream: Dialect) -> None:
    async with (
        ScriptedServer(answer(200, dump(reply(upstream)))) as server,
        gate(config_for(server.url, upstream)) as entrance,
    ):
        assert judge(client, await entrance.stream(client)).text == TEXT


@pytest.mark.turns
async def test_300_concurrent_streams_stay_apart() -> None:
    simulator = strict_simulator(pace=0.001)
    async with served(simulator) as (url, _):
        config = replace(simulated_config().with_simulator(url), simulated=False)
        async with gate(config) as entrance:

            async def one(number: int) -> None:
                client = (CHAT, MESSAGES)[number % 2]
                model = ("", "chat/", "messages/")[number % 3] + ("sim-text", "sim-tools")[number // 6 % 2]
                asked = [{"role": "user", "content": f"Number {number} is mine"}]
                fields = {"stream_options": {"include_usage": True}} if client is CHAT else {}
                tools = None if "text" in model else [TOOL[client]]
                data = await entrance.stream(client, model=model, messages=asked, tools=tools, **fields)
                same = model.startswith(client.value)
                if same:
                    assert b"[DONE]" in data or b"message_stop" in data
                    text = data.decode()
                    assert tools or f"Number {number} is mine" in text
                    assert f"Number {number + 1} " not in text
                    return
                result = judge(client, data, include_usage=True)
                assert result.error is None
                if tools:
                    assert len(result.calls) == 1
                else:
                    assert f"Number {number} is mine" in result.text

            async with asyncio.timeout(30):
                await asyncio.gather(*(one(number) for number in range(300)))
            streams = simulator[STREAMS]
            await until(lambda: streams.open == 0)
            assert streams.started == streams.ended == 300


def _looped(entrance: Gate, dialect: Dialect) -> None:
    """Point the gateway at itself, as a base URL inherited from the environment would."""
    provider = Provider("up", dialect, entrance.url)
    entrance.gateway.reconfigure(replace(entrance.gateway.config, providers={"up": provider}))


@DIRECTIONS
async def test_a_gateway_as_its_own_upstream_answers_an_error(client: Dialect, upstream: Dialect) -> None:
    ids = itertools.count()
    config = config_for("http://127.0.0.1:1", upstream)
    async with gate(config, new_id=lambda: f"req_{next(ids)}") as entrance:
        _looped(entrance, upstream)
        async with asyncio.timeout(30):
            status, noted, _ = await entrance.refusal(client, stream=True)
    assert status == 502
    assert "its own upstream" in noted.message


async def test_two_gateways_in_a_row_are_no_loop() -> None:
    async with ScriptedServer(stream(text_stream(MESSAGES))) as server:
        inner = make_app(config_for(server.url, MESSAGES))
        async with served(inner) as (url, _), gate(config_for(url, CHAT)) as entrance:
            assert judge(MESSAGES, await entrance.stream(MESSAGES)).text == TEXT


async def test_pipelined_requests_are_answered_in_order() -> None:
    """One client connection, two requests sent at once: the first streamed, the second refused."""
    async with (
        ScriptedServer(stream(text_stream(MESSAGES))) as server,
        gate(replace(config_for(server.url, MESSAGES), server=Server())) as entrance,
    ):
        both = b""
        for body in (dump(request(CHAT, stream=True)), b"[]"):
            head_ = f"POST {PATHS[CHAT]} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
            close = "connection: close\r\n" if body == b"[]" else ""
            both += f"{head_}{close}\r\n".encode() + body
        answered = await raw_exchange(entrance.port, both)
    first, _, second = answered.partition(b"HTTP/1.1 400")
    assert b"[DONE]" in first
    assert "JSON" in read_error(CHAT, second.partition(b"\r\n\r\n")[2]).message
