"""`stream`: the client's bytes in every direction, failures before and after the first of them, and what it closes."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncGenerator, Sequence
from itertools import product
from typing import Any, cast

import pytest

from dragoman.aio import Http11Transport, StreamTimers, Timeouts, UpstreamRequest, stream, translated_stream
from dragoman.aio.upstream.interface import Transport
from dragoman.dialects import Dialect
from dragoman.dialects.directions import direction
from dragoman.errors import (
    DragomanError,
    StreamTruncated,
    UpstreamError,
    UpstreamStatusError,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from dragoman.gateway import CLIENT_DIALECTS, ReplyOptions
from dragoman.translate_request import Translation, translate
from support.manual_clock import ManualClock
from support.samples import dump, error_frame, judge, read_error, request, text_stream
from support.samples import reply as whole_reply
from support.sockets import Abort, ScriptedServer, Send, Stall, Step, Wait, answer, chunk, sse_head
from support.sockets import stream as streamed
from support.waiting import at_once, until

CHAT, MESSAGES, RESPONSES, *_ = Dialect
KEY = "secret-key-0123456789"
HEADERS = {"Authorization": f"Bearer {KEY}"}
DIRECTIONS = list(product(CLIENT_DIALECTS, Dialect))


def _translation(client: Dialect = MESSAGES, upstream: Dialect = CHAT, **fields: Any) -> Translation:
    body = dump(request(client, **({"stream": True} | fields)))
    return translate(direction(client, upstream), body, options=ReplyOptions(created=7, request_id="req_1"))


def _started(*more: Step) -> list[Step]:
    """The script of a Chat stream that has begun."""
    return [Send(sse_head()), Send(chunk(b"".join(text_stream(CHAT)[:2]))), *more]


async def _body(url: str, translation: Translation, **options: Any) -> bytes:
    async with stream(translation, url, HEADERS, **options) as got:
        return b"".join([data async for data in got])


@pytest.mark.parametrize(("client", "upstream"), DIRECTIONS)
async def test_the_client_s_stream_in_every_direction(client: Dialect, upstream: Dialect) -> None:
    machine = _translation(client, upstream).stream_machine()
    frames = text_stream(upstream, counted=client is not CHAT)
    expected = b"".join([machine.feed(frame) for frame in frames]) + machine.finish()
    async with ScriptedServer(streamed(frames)) as server:
        translation = _translation(client, upstream)
        async with stream(translation, server.url + "/v1/x", HEADERS) as got:
            assert got.headers["content-type"].startswith("text/event-stream")
            assert got.headers[client.request_id_header] == "req_1"
            body = b"".join([data async for data in got])
        await until(lambda: server.hangups == 1)
        (received,) = server.requests
    assert body == expected
    judge(client, body, own=client is not upstream)
    assert received.target == "/v1/x"
    assert received.body == translation.body
    assert received.headers["authorization"] == f"Bearer {KEY}"
    assert received.headers["content-type"] == "application/json"
    assert ("anthropic-version" in received.headers) == (upstream is MESSAGES)


@pytest.mark.parametrize(("client", "upstream"), DIRECTIONS)
async def test_a_whole_reply_is_one_piece(client: Dialect, upstream: Dialect) -> None:
    translation = _translation(client, upstream, stream=False)
    async with (
        ScriptedServer(answer(200, dump(whole_reply(upstream)))) as server,
        stream(translation, server.url, {}) as got,
    ):
        pieces = [data async for data in got]
        assert got.headers["content-type"] == "application/json"
    assert pieces == [_translation(client, upstream, stream=False).reply(dump(whole_reply(upstream)))]


@pytest.mark.parametrize(("client", "upstream"), DIRECTIONS)
async def test_json_in_place_of_a_stream_becomes_one(client: Dialect, upstream: Dialect) -> None:
    async with ScriptedServer(answer(200, dump(whole_reply(upstream)))) as server:
        assert judge(client, await _body(server.url, _translation(client, upstream))).text


async def test_a_given_transport_is_used_again_and_stays_open() -> None:
    async with Http11Transport() as transport, ScriptedServer(streamed(text_stream(CHAT))) as server:
        for _ in range(2):
            assert await _body(server.url, _translation(), transport=transport)
        assert (server.connections, len(server.requests), transport.busy) == (1, 2, 0)
    assert server.hangups == 1


# --- failures before the first byte ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("client", "upstream"), DIRECTIONS)
@pytest.mark.parametrize("streams", [True, False])
async def test_an_error_status_is_raised_with_the_client_s_response(
    client: Dialect, upstream: Dialect, streams: bool
) -> None:
    error: dict[str, Any] = {"message": f"no quota for {KEY}", "type": "rate_limit_error"}
    if upstream is MESSAGES:
        body = dump({"type": "error", "error": error})
    else:
        body = dump({"error": error | {"param": None, "code": None}})
    script = answer(429, body, headers=[("retry-after", "7")])
    translation = _translation(client, upstream, stream=streams)
    async with ScriptedServer(script) as server:
        with pytest.raises(UpstreamStatusError) as caught:
            await _body(server.url, translation)
    response = translation.error_of(caught.value.failure)
    assert (response.status, response.headers["retry-after"]) == (429, "7")
    assert read_error(client, response.body).message == "no quota for ***"
    assert KEY not in str(caught.value)
    if client is upstream:
        assert json.loads(response.body) == json.loads(body.replace(KEY.encode(), b"***"))
    assert translation.failure is caught.value.failure


@pytest.mark.parametrize(
    ("script", "error"),
    [
        (streamed([error_frame(CHAT)]), UpstreamStatusError),
        (streamed([]), UpstreamError),
        ([Send(sse_head()), Abort()], StreamTruncated),
        ([Abort()], UpstreamUnreachable),
        (answer(200, b"{"), UpstreamError),
    ],
    ids=["error event", "empty", "cut", "no response", "no JSON"],
)
async def test_a_failure_before_the_first_event_is_raised(script: Sequence[Step], error: type[DragomanError]) -> None:
    translation = _translation()
    async with ScriptedServer(script) as server, Http11Transport() as transport:
        with pytest.raises(error) as caught:
            await _body(server.url, translation, transport=transport)
        assert transport.busy == 0
    assert read_error(MESSAGES, translation.error_of(caught.value.failure).body).message


async def test_the_first_byte_has_a_timeout() -> None:
    async with ScriptedServer([Stall()]) as server:
        with pytest.raises(UpstreamTimeout, match="first_byte"):
            await _body(server.url, _translation(), timeouts=Timeouts(first_byte=0.05))
        await server.hung_up.wait()


# --- failures after it -----------------------------------------------------------------------------------------------


class _Clocked:
    """`StreamTimers` on a manual clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = ManualClock()
        monkeypatch.setattr(
            translated_stream,
            "StreamTimers",
            lambda timeouts, gone: StreamTimers(timeouts, gone, loop=cast("Any", self.clock)),
        )


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
async def test_a_cut_stream_ends_in_an_error_event(client: Dialect) -> None:
    translation = _translation(client)
    async with ScriptedServer(_started(Abort())) as server:
        body = await _body(server.url, translation)
    assert b"error" in body.split(b"\n\n")[-2]
    assert translation.failure is not None
    assert translation.failure.reason == "truncated"


async def test_a_stall_ends_in_an_error_event(monkeypatch: pytest.MonkeyPatch) -> None:
    timers = _Clocked(monkeypatch)
    async with ScriptedServer(_started(Stall())) as server, stream(_translation(), server.url, {}) as got:
        pieces = [await anext(got)]
        rest = asyncio.ensure_future(anext(got))
        await asyncio.sleep(0)
        timers.clock.advance(200.0)
        pieces.append(await rest)
        with pytest.raises(StopAsyncIteration):
            await anext(got)
    assert b"(idle)" in pieces[-1]


async def test_the_time_of_the_caller_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    timers, more = _Clocked(monkeypatch), asyncio.Event()
    rest = [Send(chunk(b"".join(text_stream(CHAT)[2:]))), Send(b"0\r\n\r\n")]
    async with ScriptedServer(_started(Wait(more), *rest)) as server, stream(_translation(), server.url, {}) as got:
        pieces = [await anext(got)]
        timers.clock.advance(1000.0)
        more.set()
        pieces += [data async for data in got]
    judge(MESSAGES, b"".join(pieces))


async def test_a_defect_ends_in_an_error_event(caplog: pytest.LogCaptureFixture) -> None:
    class Answer:
        status, headers = 200, {"content-type": "text/event-stream"}

        async def batches(self) -> AsyncGenerator[bytes, None]:
            yield text_stream(CHAT)[1]
            raise RuntimeError("a defect")

        async def close(self) -> None:
            closed.append(self)

    class Defective:
        async def open(self, request: UpstreamRequest, timers: StreamTimers) -> Answer:
            return Answer()

    closed: list[Answer] = []
    body = await _body("http://upstream.test", _translation(), transport=cast("Transport", Defective()))
    last = json.loads(body.split(b"data: ")[-1])
    assert (last["type"], last["error"]["message"]) == ("error", "internal error of the gateway")
    assert "a stream failed by a defect" in caplog.text
    assert len(closed) == 1


# --- leaving early ---------------------------------------------------------------------------------------------------


async def test_leaving_early_cuts_the_upstream() -> None:
    async with ScriptedServer(_started(Stall())) as server, Http11Transport() as transport:
        async with stream(_translation(), server.url, {}, transport=transport) as got:
            async for _ in got:
                break
        await at_once(server.hung_up)
        assert transport.busy == 0


async def test_an_exception_of_the_caller_cuts_the_upstream() -> None:
    async def fail(url: str) -> None:
        async with stream(_translation(), url, {}, transport=transport) as got:
            await anext(got)
            raise KeyError

    async with ScriptedServer(_started(Stall())) as server, Http11Transport() as transport:
        with pytest.raises(KeyError):
            await fail(server.url)
        await at_once(server.hung_up)
        assert transport.busy == 0


@pytest.mark.parametrize("script", [[Stall()], _started(Stall())], ids=["opening", "streaming"])
async def test_a_cancelled_task_cuts_the_upstream(script: list[Step]) -> None:
    async with ScriptedServer(script) as server, Http11Transport() as transport:
        task = asyncio.ensure_future(_body(server.url, _translation(), transport=transport))
        await server.arrived.wait()
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await at_once(server.hung_up)
        assert transport.busy == 0


async def test_an_iterator_that_is_dropped_cuts_the_upstream() -> None:
    async with ScriptedServer(_started(Stall())) as server, Http11Transport() as transport:
        gc.disable()  # the end of the last reference is enough
        try:
            async for _ in stream(_translation(), server.url, {}, transport=transport):
                break
            await at_once(server.hung_up)
            assert transport.busy == 0
        finally:
            gc.enable()


async def test_without_a_context_the_end_of_the_iteration_closes() -> None:
    async with ScriptedServer(streamed(text_stream(CHAT))) as server:
        body = b"".join([data async for data in stream(_translation(), server.url, {})])
        await server.hung_up.wait()
    judge(MESSAGES, body)


async def test_a_reply_may_be_opened_before_it_is_read() -> None:
    async with ScriptedServer(streamed(text_stream(CHAT))) as server:
        reply = await stream(_translation(), server.url, {}).open()
        assert reply.headers["content-type"].startswith("text/event-stream")
        async with reply:
            body = b"".join([data async for data in reply])
        assert len(server.requests) == 1
    judge(MESSAGES, body)
