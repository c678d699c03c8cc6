"""Streams that clients resume: recorded streams cut at every event, limits, keys, and gateways that stop."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anthropic
import openai
import pytest
from aiohttp import web

from dragoman.aio import Timeouts
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman_server.config.resume import ResumeOptions
from dragoman_server.config.schema import Config
from dragoman_server.config.state_options import StateOptions
from dragoman_server.proxy.gateway import Gateway
from dragoman_server.proxy.resumable.streams import ResumableStreams
from support.gateways import Gate, config_for, gate, served
from support.named_keys import made, spent, with_keys
from support.paths import TRANSCRIPTS
from support.samples import judge, read_error, reply, text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Stall, Step, Wait, answer, chunk, sse_head, stream
from support.stages import some, some_of
from support.waiting import turns, until

ON = ResumeOptions(seconds=60)
BEGIN = {"x-dragoman-resume": "true"}
CLIENTS = pytest.mark.parametrize("client", CLIENT_DIALECTS)
FEW = 12
"""Recorded streams of an upstream in the first stage."""
POSITIONS = 6
"""Events of a recorded stream after which it is resumed, spread evenly; `test_a_live_stream` takes each."""
ID = re.compile(rb"id: (req_\w+)\.(\d+)\n\n")


def with_resume(config: Config, options: ResumeOptions = ON) -> Config:
    return replace(config, server=replace(config.server, resume=options))


def streams(entrance: Gate) -> ResumableStreams:
    """The streams of a gateway that can be resumed."""
    assert entrance.gateway.resumable is not None
    return entrance.gateway.resumable


def without_ids(data: bytes) -> bytes:
    return re.sub(rb"id: req_\w+\.\d+\n", b"", data)


def resume_at(event_id: str | bytes) -> dict[str, str]:
    return {"last-event-id": event_id if isinstance(event_id, str) else event_id.decode()}


async def read(entrance: Gate, client: Dialect, headers: dict[str, str], **fields: Any) -> tuple[int, bytes, Any]:
    """Status, body and headers of a response."""
    async with (
        asyncio.timeout(30),
        entrance.post(client, stream=True, headers=headers, **fields) as response,
    ):
        return response.status, await response.read(), response.headers


async def cut_after(entrance: Gate, client: Dialect, headers: dict[str, str], events: int) -> tuple[bytes, str]:
    """The first events of a stream and its id; then the connection is closed."""
    async with asyncio.timeout(30), entrance.post(client, stream=True, headers=headers) as response:
        assert response.status == 200, await response.text()
        data = b""
        while len(ends := [found.end() for found in ID.finditer(data)]) < events:
            data += await response.content.readany()
        response.close()
    return data[: ends[events - 1]] if events else b"", response.headers["x-dragoman-resume"]


def gated(frames: list[bytes], events: list[asyncio.Event]) -> list[Step]:
    """The script of a stream of which each frame but the first waits for an event."""
    steps: list[Step] = [Send(sse_head()), Send(chunk(frames[0]))]
    for frame, event in zip(frames[1:], events, strict=True):
        steps += [Wait(event), Send(chunk(frame))]
    return [*steps, Send(LAST_CHUNK)]


def recorded() -> web.Application:
    """An upstream that answers with the recorded stream that the model names."""

    async def play(request: web.Request) -> web.StreamResponse:
        # Gemini's model is in the path.
        named = re.search(r"/models/(.+):", request.path)
        source = named[1] if named else (await request.json())["model"]
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write((TRANSCRIPTS / source).read_bytes())
        return response

    app = web.Application()
    app.router.add_post("/{path:.*}", play)
    return app


@pytest.mark.few
@pytest.mark.law
@pytest.mark.parametrize("upstream", list(Dialect))
@CLIENTS
async def test_recorded_streams_are_resumed_after_their_events(client: Dialect, upstream: Dialect) -> None:
    """The rest at a position is that of the uncut stream, whose events are those of a stream without ids."""
    resumed = 0
    paths = some(sorted((TRANSCRIPTS / upstream).glob("*.sse")), FEW)
    async with served(recorded()) as (url, _):
        # Nothing is stored: all requests have the same id.
        config = replace(with_resume(config_for(url, upstream, validate=False)), state=StateOptions(kind="off"))
        async with gate(config, new_id=lambda: "req_1", now=lambda: 7.0) as entrance:
            for path in paths:
                model = f"{upstream}/{path.name}"
                plain_status, plain, _ = await read(entrance, client, {}, model=model)
                status, whole, headers = await read(entrance, client, BEGIN, model=model)
                assert status == plain_status, model
                if status != 200:
                    assert "x-dragoman-resume" not in headers
                    continue
                assert headers["x-dragoman-resume"] == headers["x-dragoman-request-id"] == "req_1"
                ends = [found.end() for found in ID.finditer(whole)]
                assert ends[-1] == len(whole), model
                if client is not upstream:  # else the upstream's comments and line ends pass through
                    assert without_ids(whole) == plain.replace(b": keep-alive\n\n", b""), model
                assert (await read(entrance, client, {"x-dragoman-resume": "req_1"}))[1] == whole
                for number, end in some_of([*enumerate(ends)], POSITIONS):
                    again = await read(entrance, client, resume_at(f"req_1.{number}"))
                    assert whole[:end] + again[1] == whole, (model, number)
                    assert again[2]["content-type"] == headers["content-type"]
                    resumed += 1
    assert resumed > 2 * len(paths)


@pytest.mark.parametrize("upstream", list(Dialect))
@CLIENTS
async def test_a_live_stream_is_resumed_after_a_cut_at_each_event(client: Dialect, upstream: Dialect) -> None:
    """The client leaves after one more event each time, while the upstream has not sent the next one."""
    frames = text_stream(upstream, counted=False)
    gates = [asyncio.Event() for _ in frames[1:]]
    async with (
        ScriptedServer(gated(frames, gates)) as server,
        gate(with_resume(config_for(server.url, upstream))) as entrance,
    ):
        async with asyncio.timeout(30), entrance.post(client, stream=True, headers=BEGIN) as first:
            stream_id = first.headers["x-dragoman-resume"]
            first.close()
        (kept,) = streams(entrance)._streams.values()
        seen, headers = b"", {"x-dragoman-resume": stream_id}
        for event in [*gates, None]:
            while kept.log.end > len(ID.findall(seen)):  # one event for each connection
                data, _ = await cut_after(entrance, client, headers, 1)
                seen += data
                headers = resume_at(b".".join(ID.findall(seen)[-1]))
            if event is not None:
                event.set()
                await turns(30)
        await until(lambda: kept.log.closed)
        seen += (await read(entrance, client, headers))[1]
        whole = (await read(entrance, client, {"x-dragoman-resume": stream_id}))[1]
        assert seen == whole
        judge(client, without_ids(whole), include_usage=False, own=client is not upstream)
        assert len(server.requests) == 1
        receipt = entrance.gateway.receipts.of_any_client(stream_id)
        assert receipt is not None
        assert receipt.ended == "completed"


@CLIENTS
async def test_the_exchange_is_counted_once(client: Dialect) -> None:
    key, record = made(daily_tokens=1_000_000)
    authorized = {"authorization": f"Bearer {key}"}
    async with ScriptedServer(stream(text_stream(Dialect.MESSAGES))) as server:
        config = with_keys(with_resume(config_for(server.url, Dialect.MESSAGES)), record)
        async with gate(config) as entrance:
            _, whole, headers = await read(entrance, client, {**BEGIN, **authorized})
            once = await spent(entrance, record)
            assert any(once.values())
            for _ in range(3):
                position = resume_at(headers["x-dragoman-resume"] + ".0")
                _, rest, _ = await read(entrance, client, {**position, **authorized})
                assert whole.endswith(rest)
            assert await spent(entrance, record) == once
            assert len(server.requests) == 1
            assert entrance.gateway.metrics.open_requests == 0


@CLIENTS
async def test_other_keys_and_other_endpoints_do_not_find_a_stream(client: Dialect) -> None:
    mine, first = made("first")
    others, second = made("second")
    async with ScriptedServer(stream(text_stream(Dialect.CHAT))) as server:
        config = with_keys(with_resume(config_for(server.url, Dialect.CHAT)), first, second)
        async with gate(config) as entrance:
            _, whole, headers = await read(entrance, client, {**BEGIN, "authorization": f"Bearer {mine}"})
            position = resume_at(headers["x-dragoman-resume"] + ".0")
            status, body, _ = await read(entrance, client, {**position, "authorization": f"Bearer {others}"})
            assert status == 404
            assert "begun by another key" in read_error(client, body).message
            assert (await read(entrance, client, position))[0] == 401
            for other in CLIENT_DIALECTS:
                status, body, _ = await read(entrance, other, {**position, "authorization": f"Bearer {mine}"})
                assert status == (200 if other is client else 404)
                assert other is not client or whole.endswith(body)


@CLIENTS
async def test_positions_that_are_not_kept(client: Dialect) -> None:
    frames = text_stream(Dialect.CHAT, ["word"] * 400, counted=False)
    options = replace(ON, bytes=20_000)
    async with (
        ScriptedServer(stream(frames)) as server,
        gate(with_resume(config_for(server.url, Dialect.CHAT), options)) as entrance,
    ):
        _, whole, headers = await read(entrance, client, BEGIN)  # the client itself misses nothing
        judge(client, without_ids(whole))
        stream_id = headers["x-dragoman-resume"]
        for position in (f"{stream_id}.0", f"{stream_id}.9999", stream_id):
            status, body, _ = await read(entrance, client, {"x-dragoman-resume": position})
            assert status == 400
            assert re.search(r"events \d+ to \d+ are kept", read_error(client, body).message)
        last = ID.findall(whole)[-1][1].decode()
        assert (await read(entrance, client, resume_at(f"{stream_id}.{last}")))[1] == b""
        status, body, _ = await read(entrance, client, {"x-dragoman-resume": "yes"})
        assert status == 400
        assert "expected true" in read_error(client, body).message


@CLIENTS
async def test_requests_without_the_header_and_whole_replies_are_as_before(client: Dialect) -> None:
    async with (
        ScriptedServer(stream(text_stream(Dialect.CHAT))) as server,
        gate(with_resume(config_for(server.url, Dialect.CHAT))) as entrance,
    ):
        for headers in ({}, {"last-event-id": "7"}, {"x-dragoman-resume": "false"}):
            status, whole, got = await read(entrance, client, headers)
            assert status == 200
            assert b"\nid: " not in whole
            assert "x-dragoman-resume" not in got
        assert not len(streams(entrance))
    async with (
        ScriptedServer(answer(500, b"{}")) as server,
        gate(with_resume(config_for(server.url, Dialect.CHAT))) as entrance,
    ):
        status, _, got = await read(entrance, client, BEGIN)
        assert status >= 500
        assert "x-dragoman-resume" not in got
        async with entrance.post(client, b"{", headers=BEGIN) as response:
            assert response.status == 400
    # Without the option, nothing is read from the header.
    async with (
        ScriptedServer(stream(text_stream(Dialect.CHAT))) as server,
        gate(config_for(server.url, Dialect.CHAT)) as entrance,
    ):
        status, whole, got = await read(entrance, client, BEGIN)
        assert (status, "x-dragoman-resume" in got, b"\nid: " in whole) == (200, False, False)
        assert entrance.gateway.resumable is None


@CLIENTS
async def test_a_reply_that_is_not_streamed_is_unchanged(client: Dialect) -> None:
    async with (
        ScriptedServer(answer(200, json.dumps(reply(Dialect.CHAT)).encode())) as server,
        gate(with_resume(config_for(server.url, Dialect.CHAT))) as entrance,
    ):
        async with entrance.post(client, headers=BEGIN) as response:
            assert response.status == 200
            assert response.content_type == "application/json"
        # An upstream that answers a stream with JSON: it is converted, and can be resumed.
        status, whole, got = await read(entrance, client, BEGIN)
        assert status == 200
        judge(client, without_ids(whole))
        assert whole.endswith((await read(entrance, client, resume_at(got["x-dragoman-resume"] + ".0")))[1])


async def test_a_client_that_does_not_come_back_ends_the_exchange() -> None:
    client, options = Dialect.MESSAGES, replace(ON, seconds=0.01)
    steps: list[Step] = [Send(sse_head()), Send(chunk(text_stream(client)[0])), Stall()]
    async with (
        ScriptedServer(steps) as server,
        gate(with_resume(config_for(server.url, client), options)) as entrance,
    ):
        _, stream_id = await cut_after(entrance, client, BEGIN, 1)
        receipt = entrance.gateway.receipts.of_any_client(stream_id)
        assert receipt is not None
        await until(lambda: receipt.ended == "abandoned")
        status, _, _ = await read(entrance, client, {"x-dragoman-resume": stream_id})
        assert status == 404
        assert entrance.gateway.metrics.open_requests == 0
        await until(lambda: not streams(entrance)._tasks)


@pytest.mark.parametrize("cancels", [True, False])
async def test_a_client_that_leaves_before_the_response_ends_the_exchange(cancels: bool) -> None:
    async with ScriptedServer([Stall()]) as server:
        config = with_resume(config_for(server.url, Dialect.CHAT))
        async with gate(config, handler_cancellation=cancels) as entrance:
            asking = asyncio.ensure_future(read(entrance, Dialect.CHAT, BEGIN))
            await until(lambda: server.requests)
            asking.cancel()
            await until(lambda: not streams(entrance)._tasks)
            assert entrance.gateway.metrics.open_requests == 0


async def test_streams_beyond_the_limits_are_streamed_as_usual() -> None:
    client, options = Dialect.CHAT, replace(ON, streams=3, streams_per_client=2)
    waiting = [asyncio.Event() for _ in text_stream(client)[1:]]
    mine, first = made("first")
    others, second = made("second")
    async with ScriptedServer(gated(text_stream(client), waiting)) as server:
        config = with_keys(with_resume(config_for(server.url, client), options), first, second)
        async with gate(config) as entrance:

            async def begin(key: str) -> Any:
                headers = {**BEGIN, "authorization": f"Bearer {key}"}
                return await entrance.post(client, stream=True, headers=headers)

            replies = [await begin(key) for key in (mine, mine, mine, others, others)]
            assert ["x-dragoman-resume" in reply.headers for reply in replies] == [True, True, False, True, False]
            for event in waiting:
                event.set()
            wholes = [await reply.read() for reply in replies]
            assert [len(ID.findall(whole)) > 0 for whole in wholes] == [True, True, False, True, False]
            assert len({without_ids(whole) for whole in wholes}) == 1
            # Those that have ended make room.
            await until(lambda: not streams(entrance)._tasks)
            reply = await begin(mine)
            assert "x-dragoman-resume" in reply.headers
            await reply.read()
            assert len(streams(entrance)) == 3


async def test_a_stream_is_forgotten_a_while_after_its_end() -> None:
    client, options = Dialect.CHAT, replace(ON, kept=0.01)
    async with (
        ScriptedServer(stream(text_stream(client))) as server,
        gate(with_resume(config_for(server.url, client), options)) as entrance,
    ):
        _, _, headers = await read(entrance, client, BEGIN)
        await until(lambda: not len(streams(entrance)))
        status, _, _ = await read(entrance, client, resume_at(headers["x-dragoman-resume"] + ".0"))
        assert status == 404


@CLIENTS
async def test_a_gateway_that_stops_ends_streams_with_an_error(client: Dialect) -> None:
    """A client that reads gets the error; a stream without a client is not waited for."""
    steps: list[Step] = [Send(sse_head()), Send(chunk(text_stream(Dialect.CHAT)[0])), Stall()]
    async with ScriptedServer(steps) as server, gate(with_resume(config_for(server.url, Dialect.CHAT))) as entrance:
        _, left = await cut_after(entrance, client, BEGIN, 1)
        await until(lambda: not next(iter(streams(entrance)._streams.values())).is_read)
        async with asyncio.timeout(30), entrance.post(client, stream=True, headers=BEGIN) as response:
            streams(entrance).stop()
            receipt = entrance.gateway.receipts.of_any_client(left)
            assert receipt is not None
            await until(lambda: receipt.ended == "abandoned")
            await entrance.gateway.stop(0.0)
            data = without_ids(await response.read())
            assert b"shutting down" in data
            judge(client, data)


async def test_a_run_in_the_background_is_one() -> None:
    async with served(recorded()) as (url, _):
        config = replace(with_resume(config_for(url, Dialect.CHAT)), state=StateOptions(kind="memory"))
        async with gate(config) as entrance:
            fields: dict[str, Any] = {"model": "chat/text.sse", "background": True}
            _, whole, headers = await read(entrance, Dialect.RESPONSES, BEGIN, **fields)
            assert "x-dragoman-resume" not in headers
            assert b"response.completed" in whole
            async with entrance.post(Dialect.RESPONSES, headers=BEGIN, **fields) as response:
                assert (await response.json())["status"] == "queued"


async def test_the_sdks_read_a_resumed_stream_with_heartbeats() -> None:
    timeouts = Timeouts(heartbeat=0.02)
    for client in (Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES):
        frames = text_stream(client)
        waiting = [asyncio.Event() for _ in frames[1:]]
        async with (
            ScriptedServer(gated(frames, waiting)) as server,
            gate(with_resume(config_for(server.url, client, timeouts=timeouts))) as entrance,
        ):
            events = 0
            async for _ in sdk_events(entrance, client, BEGIN):
                events += 1
                if events < 3:
                    await asyncio.sleep(0.1)  # heartbeats arrive after events with ids
                    waiting[events - 1].set()
                else:
                    for event in waiting:
                        event.set()
            (kept,) = streams(entrance)._streams.values()
            again = [each async for each in sdk_events(entrance, client, {"x-dragoman-resume": kept.request_id})]
            assert len(again) == events


async def sdk_events(entrance: Gate, client: Dialect, headers: dict[str, str]) -> AsyncIterator[Any]:
    """The events of a stream, as the vendor's SDK reads them."""
    if client is Dialect.MESSAGES:
        async with anthropic.AsyncAnthropic(base_url=entrance.url, api_key="x", max_retries=0) as claude:
            made = await claude.messages.create(
                model="m",
                max_tokens=100,
                messages=[{"role": "user", "content": "Hi"}],
                stream=True,
                extra_headers=headers,
            )
            async for event in made:
                yield event
        return
    async with openai.AsyncOpenAI(base_url=f"{entrance.url}/v1", api_key="x", max_retries=0) as gpt:
        reply: Any
        if client is Dialect.CHAT:
            reply = await gpt.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "Hi"}], stream=True, extra_headers=headers
            )
        else:
            reply = await gpt.responses.create(model="m", input="Hi", stream=True, extra_headers=headers)
        async for event in reply:
            yield event


async def test_a_reload_does_not_change_the_options(caplog: pytest.LogCaptureFixture) -> None:
    gateway = Gateway(with_resume(config_for("http://127.0.0.1:1/v1", Dialect.CHAT)))
    gateway.reconfigure(config_for("http://127.0.0.1:1/v1", Dialect.CHAT))
    assert gateway.config.server.resume == ON
    assert "server.resume.seconds" in caplog.text
