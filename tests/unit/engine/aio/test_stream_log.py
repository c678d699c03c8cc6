"""The debug log of a stream: sizes and event types of each batch, no texts, and nothing at all while it is off."""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from dragoman.aio import stream_log
from dragoman.aio.proxy_stream import open_proxy_stream
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import Timeouts
from dragoman.dialects.directions import direction
from dragoman.gateway import ReplyOptions
from dragoman.translate_request import translate

KEY = "sk-secret-key"


def _chunk(**delta: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": None}
    return b"data: %b\n\n" % json.dumps({"id": "c1", "model": "m", "choices": [choice]}).encode()


READS = [
    _chunk(role="assistant", content="private words"),
    _chunk(content="more private words") + _chunk(content=f"and {KEY}"),
    b'data: {"id":"c1","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n',
]


class _Response:
    """A response with these reads."""

    status = 200

    def __init__(self) -> None:
        self.headers: Mapping[str, str] = {}

    async def read(self, limit: int) -> bytes:
        return b""

    async def batches(self) -> AsyncGenerator[bytes, None]:
        for data in READS:
            yield data

    async def close(self) -> None:
        return


async def _stream(client: str) -> bytes:
    """The client's bytes of a stream from a Chat upstream."""
    prompt = [{"role": "user", "content": "hi"}]
    body: dict[str, Any] = {"model": "m", "stream": True, "messages": prompt, "max_tokens": 9}
    if client == "responses":
        body = {"model": "m", "stream": True, "input": prompt}
    translation = translate(
        direction(client, "chat"), json.dumps(body).encode(), options=ReplyOptions(request_id="req_1")
    )
    timers = StreamTimers(Timeouts())
    stream = await open_proxy_stream(translation, _Response(), timers)
    sent = b"".join([data async for data in stream.batches])
    timers.stop()
    return sent


async def test_each_batch_is_logged_as_frames_events_and_frames(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "dragoman.stream"):
        await _stream("messages")
    lines = [record.getMessage() for record in caplog.records]
    size = len(READS[0])
    assert lines[:2] == [
        f"req_1 parser: {size} bytes -> {size} bytes",
        f"req_1 reader: {size} bytes -> 1 Start, 1 BlockStart, 1 Delta",
    ]
    assert lines[2].startswith("req_1 writer: 1 Start, 1 BlockStart, 1 Delta -> 3 Frame")
    assert lines[-1].startswith("req_1 writer: ")
    assert not [line for line in lines if "private" in line or KEY in line]


async def test_bytes_that_pass_through_are_logged_as_sizes(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "dragoman.stream"):
        sent = await _stream("chat")
    lines = [record.getMessage() for record in caplog.records]
    assert lines[0] == f"req_1 received: {len(READS[0])} bytes"
    assert [line for line in lines if line.startswith("req_1 sent: ")]
    assert sum(int(line.split()[2]) for line in lines if line.startswith("req_1 sent: ")) == len(sent)
    assert not [line for line in lines if "private" in line or KEY in line]


@pytest.mark.parametrize("client", ["messages", "chat", "responses"])
async def test_a_logged_stream_has_the_same_bytes(client: str, caplog: pytest.LogCaptureFixture) -> None:
    plain = await _stream(client)
    with caplog.at_level(logging.DEBUG, "dragoman.stream"):
        assert await _stream(client) == plain
    assert caplog.records


@pytest.mark.parametrize("client", ["messages", "chat"])
async def test_a_stream_that_is_not_logged_does_not_pass_through_the_log(
    client: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("LoggedStage", "logged_batches"):
        monkeypatch.setattr(f"dragoman.aio.proxy_stream.{name}", lambda *_: pytest.fail("it is off"))
    with caplog.at_level(logging.INFO, "dragoman.stream"):
        await _stream(client)
    assert not caplog.records


def test_what_is_described() -> None:
    assert stream_log.describe(b"12345") == "5 bytes"
    assert stream_log.describe([]) == stream_log.describe(b"") == "nothing"
    assert stream_log.describe([1, 2, "x", 3]) == "2 int, 1 str, 1 int"
