"""Failures after the first event: always an in-band error of the client's dialect, never a clean end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from oracles.grammar import Accumulated
from support.gateways import ALL, CHAT, CROSS, MESSAGES, Gate, config_for, gate, until, with_limits
from support.samples import error_frame, judge, sign_of_life, text_stream, tool_stream
from support.sockets import (
    LAST_CHUNK,
    Abort,
    Close,
    HalfClose,
    Pause,
    ScriptedServer,
    Send,
    Stall,
    Step,
    Wait,
    chunk,
    sse_head,
    stream,
)

BOTH_LOOPS = TAKEN = True
DIRECTIONS = pytest.mark.parametrize(("client", "upstream"), ALL)
CROSSING = pytest.mark.parametrize(("client", "upstream"), CROSS)
# The sample of a Chat upstream has counts that no Chat client asked for: the gateway leaves them out, bytes do not.
CALLING = pytest.mark.parametrize(("client", "upstream"), [pair for pair in ALL if pair != (CHAT, CHAT)])
LATE = {CHAT: "server_error", MESSAGES: "timeout_error"}
BROKEN = {CHAT: "server_error", MESSAGES: "api_error"}


def _begun(frames: Sequence[bytes], *then: Step) -> list[Step]:
    """A stream that states some frames, each on its own, and then something else."""
    stated: list[Step] = [Send(sse_head())]
    for frame in frames:
        stated += [Send(chunk(frame)), Pause(0.002)]
    return [*stated, *then]


async def failed(entrance: Gate, client: Dialect) -> Accumulated:
    """The stream as its client has it, which must have ended in an error."""
    result = judge(client, await entrance.stream(client))
    assert result.error is not None
    assert result.finish is None
    return result


ENDINGS: dict[str, list[Step]] = {
    "cut": [Close()],
    "reset": [Abort()],
    "clean end": [Send(LAST_CHUNK)],
    "half close": [HalfClose(), Stall()],
    "cut in a chunk": [Send(b"40\r\ndata: "), Close()],
    "cut in a frame": [Send(chunk(b'data: {"choices": [')), Send(LAST_CHUNK)],
    "no chunk at all": [Send(b"this is no chunk\r\n"), Stall()],
}


@DIRECTIONS
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("kind", ["text", "tool"])
async def test_T22_T23_an_end_without_the_terminal_event_is_an_error(
    client: Dialect, upstream: Dialect, ending: str, kind: str
) -> None:
    frames = (text_stream(upstream) if kind == "text" else tool_stream(upstream))[:4]
    async with ScriptedServer(_begun(frames, *ENDINGS[ending])) as server:
        async with gate(config_for(server.url, upstream, timeouts=Timeouts(heartbeat=0.2))) as entrance:
            result = await failed(entrance, client)
        await until(lambda: not server.open)
    assert result.error is not None
    assert result.error["type"] == BROKEN[client]
    if kind == "text":
        assert result.text.startswith("Gr")


@CROSSING
@pytest.mark.parametrize(
    "garbage",
    [b"data: garbage\n\n", b"data: [1]\n\n", b'data: {"choices": 5}\n\ndata: nonsense\n\n', b"data: \xff\xfe\n\n"],
)
async def test_a_garbage_frame_is_an_error(client: Dialect, upstream: Dialect, garbage: bytes) -> None:
    frames = text_stream(upstream)
    script = stream([*frames[:3], garbage, *frames[3:]])
    async with ScriptedServer(script) as server, gate(config_for(server.url, upstream)) as entrance:
        result = await failed(entrance, client)
    assert result.text.startswith("Gr")


@DIRECTIONS
async def test_an_in_band_error_of_the_upstream_is_reported_and_ends_the_body(
    client: Dialect, upstream: Dialect
) -> None:
    """The upstream keeps its connection open behind it."""
    script = _begun(text_stream(upstream)[:4], Send(chunk(error_frame(upstream))), Stall())
    async with ScriptedServer(script) as server, gate(config_for(server.url, upstream)) as entrance:
        async with asyncio.timeout(30):
            result = await failed(entrance, client)
    assert result.error is not None
    assert "too much" in result.error["message"]
    assert result.error["type"] == ("overloaded_error" if client is MESSAGES else "service_unavailable_error")


@DIRECTIONS
@pytest.mark.parametrize("limit", ["sse_line", "sse_frame"])
async def test_an_oversized_line_or_frame_is_an_error(client: Dialect, upstream: Dialect, limit: str) -> None:
    if limit == "sse_line":
        endless = [Send(chunk(b"data: " + b"x" * 5000)), *([Send(chunk(b"y" * 5000))] * 20)]
    else:
        endless = [Send(chunk(b"data: " + b"x" * 900 + b"\n"))] * 40
    script = _begun(text_stream(upstream)[:3], *endless, Stall())
    async with ScriptedServer(script) as server:
        config = with_limits(config_for(server.url, upstream), sse_line=4096, sse_frame=8192)
        async with gate(config) as entrance, asyncio.timeout(30):
            result = await failed(entrance, client)
        await until(lambda: not server.open)
    assert result.error is not None
    assert limit in result.error["message"]


# --- timers ----------------------------------------------------------------------------------------------------------


@DIRECTIONS
@pytest.mark.parametrize("kind", ["text", "tool"])
async def test_a_stalled_stream_fails_at_the_idle_timeout(client: Dialect, upstream: Dialect, kind: str) -> None:
    frames = (text_stream(upstream) if kind == "text" else tool_stream(upstream))[:3]
    async with ScriptedServer(_begun(frames, Stall())) as server:
        config = config_for(server.url, upstream, timeouts=Timeouts(idle=0.1))
        async with gate(config) as entrance:
            began = asyncio.get_running_loop().time()
            result = await failed(entrance, client)
            assert asyncio.get_running_loop().time() - began >= 0.1
        await asyncio.wait_for(server.hung_up.wait(), 30)
    assert result.error is not None
    assert result.error["type"] == LATE[client]
    assert "(idle)" in result.error["message"]


@DIRECTIONS
@pytest.mark.parametrize("noted", [2, 3], ids=["announced", "begun"])
async def test_a_tool_call_that_makes_no_progress_fails_though_the_upstream_pings(
    client: Dialect, upstream: Dialect, noted: int
) -> None:
    """Signs of life reset the idle timer but are no progress of a call (mapping §9.8)."""
    pings = [step for _ in range(300) for step in (Send(chunk(sign_of_life(upstream))), Pause(0.02))]
    async with ScriptedServer(_begun(tool_stream(upstream)[:noted], *pings)) as server:
        config = config_for(server.url, upstream, timeouts=Timeouts(tool_stall=0.2, idle=5, heartbeat=5))
        async with gate(config) as entrance, asyncio.timeout(30):
            result = await failed(entrance, client)
        await until(lambda: not server.open)
    assert result.error is not None
    assert result.error["type"] == LATE[client]
    assert "(tool_stall)" in result.error["message"]
    assert result.pings > 0


@pytest.mark.turns
@CALLING
async def test_a_slow_tool_call_that_makes_progress_is_no_stall(client: Dialect, upstream: Dialect) -> None:
    async with ScriptedServer(stream(tool_stream(upstream), pause=0.3)) as server:
        config = config_for(server.url, upstream, timeouts=Timeouts(tool_stall=1.0, heartbeat=5))
        async with gate(config) as entrance:
            result = judge(client, await entrance.stream(client))
    assert result.parsed_calls()[0][1:] == ("look", {"city": "Köln"})


@CALLING
async def test_a_finished_call_is_no_stall(client: Dialect, upstream: Dialect) -> None:
    """Behind the call's end only the ordinary idle timer counts."""
    frames = tool_stream(upstream)
    cut = len(frames) - 2
    script = _begun(
        [b"".join(frames[:cut])], Pause(0.3), *(Send(chunk(frame)) for frame in frames[cut:]), Send(LAST_CHUNK)
    )
    async with ScriptedServer(script) as server:
        config = config_for(server.url, upstream, timeouts=Timeouts(tool_stall=0.1, heartbeat=5))
        async with gate(config) as entrance:
            result = judge(client, await entrance.stream(client))
    assert result.error is None
    assert result.calls


@pytest.mark.turns
@DIRECTIONS
async def test_T72_heartbeats_fill_the_silence_and_do_not_reset_idle(client: Dialect, upstream: Dialect) -> None:
    async with ScriptedServer(_begun(text_stream(upstream)[:4], Stall())) as server:
        config = config_for(server.url, upstream, timeouts=Timeouts(heartbeat=0.2, idle=1.0))
        async with gate(config) as entrance, asyncio.timeout(30):
            result = await failed(entrance, client)
    assert result.error is not None
    assert "(idle)" in result.error["message"]
    assert 1 <= result.pings <= 8


@DIRECTIONS
async def test_heartbeats_never_tear_a_frame(client: Dialect, upstream: Dialect) -> None:
    """The upstream falls silent in the middle of one."""
    frames = text_stream(upstream, counted=client is not upstream)
    half, resume = len(frames[4]) // 2, asyncio.Event()
    beat = b"event: ping" if client is MESSAGES else b": keep-alive"
    script: list[Step] = [
        Send(sse_head()),
        *(Send(chunk(frame)) for frame in frames[:4]),
        Send(chunk(frames[4][:half])),
        Wait(resume),
        Send(chunk(frames[4][half:])),
        *(Send(chunk(frame)) for frame in frames[5:]),
        Send(LAST_CHUNK),
    ]
    async with ScriptedServer(script) as server:
        config = config_for(server.url, upstream, timeouts=Timeouts(heartbeat=0.04))
        out = b""
        async with gate(config) as entrance, asyncio.timeout(30), entrance.post(client, stream=True) as response:
            async for data in response.content.iter_any():
                out += data
                if beat in out:
                    resume.set()
    result = judge(client, out)
    assert result.error is None
    assert result.text == "Grüße, 東京 👋🏽!"
    assert result.pings >= 1


@CROSSING
async def test_the_upstreams_own_signs_of_life_reach_the_client(client: Dialect, upstream: Dialect) -> None:
    frames = text_stream(upstream)
    frames[3:3] = [sign_of_life(upstream)] * 3
    async with (
        ScriptedServer(stream(frames, pause=0.003)) as server,
        gate(config_for(server.url, upstream)) as entrance,
    ):
        result = judge(client, await entrance.stream(client))
    assert result.error is None
    assert result.pings == 3
