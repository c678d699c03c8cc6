"""The relay drives the stages between reader and writer as the sync machine does."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from typing import Any

import pytest

from dragoman.aio.proxy_stream import STOPPING, open_proxy_stream
from dragoman.aio.stream_timers import StreamTimers
from dragoman.aio.timeouts import Timeouts
from dragoman.dialects.directions import direction
from dragoman.translate_request import Translation, translate
from dragoman.wire.sse import encode_frames


def _event(name: str, **fields: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps({'type': name, **fields})}\n\n".encode()


READS = [
    _event("response.created", response={"id": "resp_1", "model": "m", "created_at": 1}),
    _event("response.output_text.delta", output_index=0, content_index=0, item_id="msg_1", delta="one ST"),
    _event("response.output_text.delta", output_index=0, content_index=0, item_id="msg_1", delta="OP two"),
    _event("response.output_text.delta", output_index=0, content_index=0, item_id="msg_1", delta=" three"),
]


class _Answer:
    """An answer that counts the reads that were requested."""

    status = 200

    def __init__(self) -> None:
        self.headers: Mapping[str, str] = {}
        self.taken = 0

    async def read(self, limit: int) -> bytes:
        return b""

    async def batches(self) -> AsyncGenerator[bytes, None]:
        for data in READS:
            self.taken += 1
            yield data

    async def close(self) -> None:
        return


def _translation(*stops: str) -> Translation:
    asked = {"model": "m", "stream": True, "messages": [{"role": "user", "content": "hi"}], "stop": list(stops)}
    return translate(direction("chat", "responses"), json.dumps(asked).encode())


@pytest.mark.parametrize(("stops", "taken"), [(("STOP",), 3), (("never",), 4)])
async def test_a_stop_sequence_ends_the_stream_and_its_upstream(stops: tuple[str, ...], taken: int) -> None:
    machine = _translation(*stops).stream_machine()
    expected = b"".join([machine.feed(data) for data in READS]) + machine.finish()
    answer, watch = _Answer(), StreamTimers(Timeouts())
    stream = await open_proxy_stream(_translation(*stops), answer, watch)
    got = b"".join([data async for data in stream.batches])
    watch.stop()
    assert got == expected
    assert answer.taken == taken
    assert (b'"stop"' in got) == (stops == ("STOP",))


async def test_an_observer_gets_the_bytes_that_are_sent_and_those_of_the_error() -> None:
    seen: list[bytes] = []
    watch = StreamTimers(Timeouts())
    stream = await open_proxy_stream(_translation(), _Answer(), watch)
    stream.observe(seen.append)
    sent = [await anext(stream.batches), await anext(stream.batches)]
    await stream.batches.aclose()
    sent.append(stream.error_tail(STOPPING))
    watch.stop()
    assert seen == sent
    assert b"the gateway is shutting down" in sent[-1]
    assert stream.error_tail(STOPPING) == b""


async def test_a_stream_that_passes_through_ends_in_an_error_once() -> None:
    asked = {"model": "m", "stream": True, "input": "hi"}
    translation = translate(direction("responses", "responses"), json.dumps(asked).encode())
    watch = StreamTimers(Timeouts())
    stream = await open_proxy_stream(translation, _Answer(), watch)
    assert b'"type":"response.created","response":' in await anext(stream.batches)
    await stream.batches.aclose()
    tail = stream.error_tail(STOPPING)
    watch.stop()
    assert tail.startswith(b"event: response.failed\n")
    assert translation.failure is not None
    assert translation.failure.reason == "stopping"
    assert stream.driver.done
    assert stream.error_tail(STOPPING) == b""


async def test_frames_are_sent_as_the_writer_returned_them() -> None:
    watch = StreamTimers(Timeouts())
    stream = await open_proxy_stream(_translation(), _Answer(), watch)
    frames = [batch async for batch in stream.frames]
    watch.stop()
    assert not isinstance(frames[0], bytes)
    machine = _translation().stream_machine()
    expected = b"".join([machine.feed(data) for data in READS]) + machine.finish()
    assert b"".join(map(encode_frames, frames)) == expected
