"""Lines that hold no event cost next to nothing, however many come."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest

from dragoman.aio.batch_slices import SLICE, SMALL
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.dialects.directions import DIRECTIONS
from dragoman.stages.base import ReplyPipeline
from dragoman.stages.passthrough import Passthrough
from dragoman.translate_request import translate
from dragoman.wire.sse import Frame, encode_frames
from dragoman.wire.sse_parser import Parser
from support.gateways import ALL, config_for, gate
from support.samples import TEXT, dump, judge, request, text_stream
from support.sockets import LAST_CHUNK, ScriptedServer, Send, Step, chunk, sse_head
from support.waiting import turns

FLOODS = [b"\n", b":\n\n", b"x\n\n", b"event: x\n\n", b"\r\n\n", b": c\r\n\r\n", b"retry: z\n\n"]


def stated(frames: list[Frame]) -> list[tuple[str, bytes | None]]:
    return [(frame.event, frame.data) for frame in frames]


@pytest.mark.parametrize("flood", FLOODS)
@pytest.mark.parametrize("client", CLIENT_DIALECTS)
@pytest.mark.parametrize("upstream", Dialect)
def test_a_flood_makes_no_parsers(
    client: Dialect, upstream: Dialect, flood: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    frames = text_stream(upstream, counted=client is not upstream)
    stages = translate(DIRECTIONS[client, upstream], dump(request(client, stream=True))).stages()

    def feed(data: bytes) -> bytes:
        return encode_frames(stages.feed(data))

    feed(b"".join(frames[:3]))
    made = 0
    begin = Parser.__init__

    def counted(self: Parser, *arguments: Any, **named: Any) -> None:
        nonlocal made
        made += 1
        begin(self, *arguments, **named)

    monkeypatch.setattr(Parser, "__init__", counted)
    for _ in range(4):
        feed(flood * 500)
    assert made <= 1
    assert not (stages.parser.done if isinstance(stages, ReplyPipeline) else stages.done)


@pytest.mark.turns
@pytest.mark.parametrize("place", ["before", "between"])
@pytest.mark.parametrize("flood", [b"\n", b":\n\n"])
@pytest.mark.parametrize(("client", "upstream"), ALL)
async def test_the_gateway_takes_a_slice_a_turn_of_a_flood(
    client: Dialect, upstream: Dialect, flood: bytes, place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither `/health` nor a timer waits for more than that; and the reply is whole."""
    frames = text_stream(upstream, counted=client is not upstream)
    many = chunk(flood * ((1 << 17) // len(flood)))
    at = 0 if place == "before" else 3
    script: list[Step] = [
        Send(sse_head() + b"".join(map(chunk, frames[:at])) + many),
        Send(b"".join(map(chunk, frames[at:])) + LAST_CHUNK),
    ]
    by_turn: list[int] = [0]
    first: type[Any] = Passthrough if client is upstream else Parser
    feed = first.feed

    def counted(self: Any, data: bytes, /) -> Any:
        by_turn[-1] += len(data)
        return feed(self, data)

    async def turn() -> None:
        while True:
            await turns(1)
            by_turn.append(0)

    async with asyncio.timeout(60), ScriptedServer(script) as server, gate(config_for(server.url, upstream)) as made:
        monkeypatch.setattr(first, "feed", counted)
        turning = asyncio.create_task(turn())
        body = await made.stream(client)
        turning.cancel()
    # The same dialect on both sides: what came is passed on as it is.
    assert judge(client, re.sub(rb"\n{3,}", b"\n\n", body.lstrip(b"\n"))).text == TEXT
    assert sum(by_turn) >= 1 << 17
    assert max(by_turn) <= 2 * SMALL + SLICE
