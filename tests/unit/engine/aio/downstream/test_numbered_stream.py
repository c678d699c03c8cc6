"""A stream whose events have ids."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Iterable
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dragoman.aio import EventLog, NumberedStream, StreamTimers, Timeouts, numbered_ping_of
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.wire.sse import Frame, FrameBatch
from dragoman.wire.sse_parser import Parser
from support.verdicts import golden, goldens

NAMES = tuple(name for dialect in CLIENT_DIALECTS for name in goldens(dialect))


class Reader:
    """It reads at once."""

    def must_wait(self, _: int) -> bool:
        return False

    async def wait(self, _: int) -> None:
        raise AssertionError


async def logged(frames: Iterable[FrameBatch], prefix: bytes = b"req_1.") -> EventLog:
    """The log of a stream that arrives in these batches."""
    log, timers = EventLog(10_000_000), StreamTimers(Timeouts())
    stream = NumberedStream(log, timers, prefix, Reader())

    async def batches() -> AsyncGenerator[FrameBatch, None]:
        for batch in frames:
            yield batch

    assert await stream.open() is stream.direct is True
    await stream.send_body(batches(), None)  # type: ignore[arg-type]
    timers.stop()
    return log


@given(st.sampled_from(NAMES), st.lists(st.floats(0, 1), max_size=8), st.booleans())
@example("chat_from_responses/comments", [0.5], True)
@example("chat_from_responses/comments", [0.5], False)
async def test_each_event_of_a_recorded_stream_has_its_number_however_it_is_batched(
    name: str, shares: list[float], parsed: bool
) -> None:
    data = golden(name)
    sent: list[Frame | bytes] = [frame + b"\n\n" for frame in data[:-2].split(b"\n\n")]
    if parsed:
        sent = [*Parser().parse(data)]
    cuts = [0, *sorted(int(share * len(sent)) for share in shares), len(sent)]
    log = await logged(sent[start:end] for start, end in pairwise(cuts))
    whole = log.read(0)
    # Comments are dropped: the heartbeats of a kept stream are its own.
    assert re.sub(rb"id: req_1\.\d+\n", b"", whole) == re.sub(rb"(?m)^:.*\n\n", b"", data)
    frames = [frame for frame in Parser().parse(whole) if frame.data is not None]
    assert [frame.id for frame in frames] == [f"req_1.{number}" for number in range(log.end)]
    # At each position, what a client has and what it gets then are the whole.
    ends = [match.end() for match in re.finditer(rb"id: req_1\.\d+\n\n", whole)]
    assert len(ends) == log.end
    for number, end in enumerate([0, *ends]):
        assert whole[:end] + log.read(number) == whole


async def test_what_upstreams_send_besides_events() -> None:
    """Comments and ids of the upstream are dropped, lines of data stay, and a last blank line is added."""
    log = await logged(
        [b"\xef\xbb\xbf: hi\n\nid: 7\nretry: 5\nevent: a\r\ndata: 1\r\ndata: 2\r\n\r", b"\n\ndata: [DONE]\r\r"]
    )
    assert log.read(0) == b"event: a\ndata: 1\ndata: 2\nid: req_1.0\n\ndata: [DONE]\nid: req_1.1\n\n"
    log, timers = EventLog(1000), StreamTimers(Timeouts())
    await NumberedStream(log, timers, b"req_1.", Reader()).end(b"data: 1\n\ndata: 2\n\n")
    timers.stop()
    assert log.read(0) == b"data: 1\nid: req_1.0\n\ndata: 2\nid: req_1.1\n\n"


async def test_a_stream_that_is_not_kept_has_no_ids() -> None:
    assert (await logged([b"data: 1\n\n"], b"")).read(0) == b"data: 1\n\n"


@pytest.mark.parametrize("client", CLIENT_DIALECTS)
def test_a_heartbeat_is_no_event_that_the_sdks_see(client: Dialect) -> None:
    from openai._streaming import SSEDecoder

    ping = numbered_ping_of(client)
    stream = b"data: 1\nid: req_1.0\n\n" + ping + ping + b"data: 2\nid: req_1.1\n\n"
    events = [each for each in SSEDecoder().iter_bytes(iter([stream])) if each.event != "ping"]
    assert [each.data for each in events] == ["1", "2"]
    assert [frame.data for frame in Parser().parse(stream) if frame.data and frame.event != "ping"] == [b"1", b"2"]
