"""Group H: what becomes of an upstream's bytes on a socket: compressed, cut inside a character, or held back."""

from __future__ import annotations

import asyncio
import json
import zlib

import pytest

from dragoman import direction
from dragoman.aio.timeouts import Timeouts
from dragoman.canonical.events import Error, Event, Ping
from dragoman.dialects import Dialect
from dragoman.errors import Failure, FailureKind
from dragoman.gateway import ReplyPipeline
from dragoman.wire.sse import encode_frames
from regressions.dialect_bodies import begins, starts
from regressions.live import (
    CHAT,
    GENERATE,
    MESSAGES,
    PARTS,
    REASONING,
    RESPONSES,
    WORDS,
    ask,
    every_direction,
    holds_all,
    received,
    whole_stream,
)
from support.directions import judge, stream_through, translated
from support.gateways import config_for, gate
from support.samples import messages_frame
from support.sockets import LAST_CHUNK, Drip, ScriptedServer, Send, Step, Wait, chunk, head, sse_head, stream

WRAPPED = [("text", WORDS)]


def _packers(coding: str) -> zlib._Compress:
    return zlib.compressobj(wbits=31 if coding == "gzip" else 15)


def _compressed(coding: str) -> Send:
    framing = [("content-type", "text/event-stream"), ("content-encoding", coding), ("transfer-encoding", "chunked")]
    return Send(head(200, framing))


@every_direction
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_T70_a_stream_that_comes_compressed_unasked_is_read(
    client: Dialect, upstream: Dialect, coding: str
) -> None:
    """The upstream's SSE comes gzip-ed: the parser sees nothing, or text decoding corrupts it
    (Wei-Shaw/claude-relay-service#1027, epam/ai-dial-core#1643). It is cut wherever the network cuts it."""
    frames = whole_stream(upstream, *PARTS)
    packer = _packers(coding)
    packed = packer.compress(b"".join(frames)) + packer.flush()
    script: list[Step] = [_compressed(coding), *(Send(chunk(packed[at : at + 7])) for at in range(0, len(packed), 7))]
    async with (
        ScriptedServer([*script, Send(LAST_CHUNK)]) as server,
        gate(config_for(server.url, upstream)) as entrance,
        ask(entrance, client, headers={"accept-encoding": "gzip, br"}) as response,
    ):
        assert response.status == 200
        assert "content-encoding" not in response.headers
        holds_all(client, upstream, await response.read(), frames)
    assert server.requests[0].headers["accept-encoding"] == "identity", "what the client takes is no wish of ours"


@every_direction
async def test_T70_a_compressed_event_is_passed_on_when_it_was_flushed(client: Dialect, upstream: Dialect) -> None:
    """A decoder that waits for the whole body makes a stream of nothing (vm0-ai/vm0#8903): the upstream states no more
    before the client has the words."""
    frames = whole_stream(upstream, *WRAPPED)
    packer = _packers("gzip")
    received_it = asyncio.Event()
    half = next(number for number, frame in enumerate(frames) if WORDS[-3:].encode() in frame or b"\\ud83d" in frame)
    script: list[Step] = [_compressed("gzip")]
    for number, frame in enumerate(frames):
        script.append(Send(chunk(packer.compress(frame) + packer.flush(zlib.Z_SYNC_FLUSH))))
        if number == half:
            script.append(Wait(received_it))
    script += [Send(chunk(packer.flush())), Send(LAST_CHUNK)]
    async with (
        ScriptedServer(script) as server,
        gate(config_for(server.url, upstream)) as entrance,
        asyncio.timeout(30),
        ask(entrance, client) as response,
    ):
        seen = b""
        while WORDS[-1:] + '"' not in seen.decode(errors="ignore"):
            seen += await response.content.readany()
        received_it.set()
        noted = received(client, upstream, seen + await response.read(), frames)
    assert noted is None or noted.text == WORDS


@pytest.mark.few
@every_direction
@pytest.mark.parametrize("ascii_only", [True, False], ids=["escaped", "raw"])
def test_T71_a_character_may_be_cut_anywhere(client: Dialect, upstream: Dialect, ascii_only: bool) -> None:
    """UTF-8 cut at a chunk's edge becomes U+FFFD or kills the stream (musistudio/claude-code-router#1672,
    api7/aisix#111): every single cut, and byte by byte; escapes and surrogate pairs as well."""
    data = b"".join(whole_stream(upstream, *PARTS))
    if not ascii_only:
        data = _raw(data)
    whole = stream_through(translated(direction(client, upstream)), [data])
    holds_all(client, upstream, whole, [data])
    assert "\ufffd" not in whole.decode()
    inside = [at for at in range(1, len(data)) if data[at] & 0xC0 == 0x80 or data[at - 1 : at] == b"\\"]
    for at in inside:
        assert stream_through(translated(direction(client, upstream)), [data[:at], data[at:]]) == whole
    single = [data[at : at + 1] for at in range(len(data))]
    assert stream_through(translated(direction(client, upstream)), single) == whole


def _raw(data: bytes) -> bytes:
    """Return the same stream with its characters as they are."""
    lines = []
    for line in data.split(b"\n"):
        payload = line.startswith(b"data: {")
        lines.append(b"data: " + json.dumps(json.loads(line[6:]), ensure_ascii=False).encode() if payload else line)
    return b"\n".join(lines)


@pytest.mark.few
@every_direction
async def test_T71_no_answer_is_damaged_by_the_network(client: Dialect, upstream: Dialect) -> None:
    """Likewise over a socket, three bytes at a time: stored answers had U+FFFD in them (katanemo/plano#980,
    mrpulor-gh/nuphus#41)."""
    frames = [_raw(frame) for frame in whole_stream(upstream, *PARTS)]
    data = b"".join(frames)
    script: list[Step] = [Send(sse_head())]
    script += [Drip(chunk(data[at : at + 3]), 4096) for at in range(0, len(data), 3)]
    async with (
        ScriptedServer([*script, Send(LAST_CHUNK)]) as server,
        gate(config_for(server.url, upstream)) as entrance,
        asyncio.timeout(30),
        ask(entrance, client) as response,
    ):
        got = await response.read()
    assert "\ufffd" not in got.decode()
    holds_all(client, upstream, got, frames)


SIGNS = {
    CHAT: b": keep-alive\n\n",
    MESSAGES: messages_frame("ping"),
    RESPONSES: b'event: keepalive\ndata: {"type":"keepalive","sequence_number":1}\n\n',
    GENERATE: b": keep-alive\n\n",  # of a server between: Google sends none
}


@every_direction
async def test_T72_the_upstreams_signs_of_life_reach_the_client(client: Dialect, upstream: Dialect) -> None:
    """Pings are swallowed, and a balancer cuts the stream (LuthienResearch/luthien-proxy#804). The heartbeat of the
    gateway's own is far off here."""
    frames = whole_stream(upstream, *WRAPPED)
    frames[3:3] = [SIGNS[upstream]] * 3
    go_on = [asyncio.Event() for _ in frames]
    script: list[Step] = [Send(sse_head())]
    for frame, event in zip(frames, go_on, strict=True):
        script += [Send(chunk(frame)), Wait(event)] if frame == SIGNS[upstream] else [Send(chunk(frame))]
    marks = {CHAT: b"\n: ", MESSAGES: b"event: ping\n", RESPONSES: b"\n: "}
    mark = SIGNS[upstream].strip() if client is upstream else marks[client].strip(b"\n")
    async with (
        ScriptedServer([*script, Send(LAST_CHUNK)]) as server,
        gate(config_for(server.url, upstream)) as entrance,
        asyncio.timeout(30),
        ask(entrance, client) as response,
    ):
        seen = b""
        for count in (1, 2, 3):
            while seen.count(mark) < count:
                seen += await response.content.readany()
            go_on[2 + count].set()
        noted = received(client, upstream, seen + await response.read(), frames)
    assert noted is None or (noted.text, noted.pings, noted.error) == (WORDS, 3, None)


@every_direction
async def test_T72_silence_is_filled_in_the_clients_own_form(client: Dialect, upstream: Dialect) -> None:
    """No pings at all while the upstream thinks, and balancers cut at 60 s (maximhq/bifrost#5010). What fills the
    silence leaves the stream whole."""
    assert Timeouts().heartbeat <= 30, "half of what common balancers wait"
    frames = whole_stream(upstream, *WRAPPED)
    woken = asyncio.Event()
    script: list[Step] = [Send(sse_head()), *(Send(chunk(frame)) for frame in frames[:3]), Wait(woken)]
    script += [*(Send(chunk(frame)) for frame in frames[3:]), Send(LAST_CHUNK)]
    mark = b"event: ping\n" if client is MESSAGES else b"\n\n: "
    async with (
        ScriptedServer(script) as server,
        gate(config_for(server.url, upstream, timeouts=Timeouts(heartbeat=0.02))) as entrance,
        asyncio.timeout(30),
        ask(entrance, client) as response,
    ):
        seen = b""
        while seen.count(mark) < 2:
            seen += await response.content.readany()
        woken.set()
        seen += await response.read()
    if client is not upstream:
        noted = judge(client, seen)
        assert (noted.text, noted.error) == (WORDS, None)
    else:
        assert all(frame in seen for frame in frames)


@every_direction
def test_T72_signs_of_life_and_an_error_may_come_before_the_first_event(client: Dialect, upstream: Dialect) -> None:
    """The events that must precede a ping before an upstream's first event are legal in every dialect: the SDK's
    grammar takes pings ahead of the beginning, and an error that has no beginning (maximhq/bifrost#5010)."""
    if client is upstream:
        pytest.skip("nothing is written there")
    busy: list[Event] = [Error(Failure(FailureKind.OVERLOADED, "busy", 503))]
    for failed in (True, False):
        translation = translated(direction(client, upstream))
        stages = translation.stages()
        assert isinstance(stages, ReplyPipeline)
        whole = stages.parser.feed(b"".join(whole_stream(upstream, *WRAPPED)))
        noted = busy if failed else [*stages.reader.feed(whole), *stages.reader.finish()]
        out = b"".join(encode_frames(stages.write([*events])) for events in ([Ping()], [Ping()], noted))
        assert translation.context.violation is None
        accumulated = judge(client, out)
        assert accumulated.pings == 2
        assert (accumulated.text, accumulated.error is not None) == ("" if failed else WORDS, failed)


@every_direction
async def test_T73_nothing_is_held_back(client: Dialect, upstream: Dialect) -> None:
    """The stream arrives all at once, or `message_start` is held until the thinking ends (BerriAI/litellm#26102,
    BerriAI/litellm#39431): here the upstream is silent more before the client has what there is."""
    frames = whole_stream(upstream, *PARTS)
    opening = len(begins(upstream)) + len(starts(upstream, 0, PARTS))
    reasoned = opening + 1
    stations = [(opening - 1, b""), (reasoned - 1, json.dumps(REASONING[:2]).encode().strip(b'"'))]
    events = {at: asyncio.Event() for at, _ in stations}
    script: list[Step] = [Send(sse_head())]
    for number, frame in enumerate(frames):
        script.append(Send(chunk(frame)))
        if number in events:
            script.append(Wait(events[number]))
    first = {CHAT: b'"role":', MESSAGES: b"message_start", RESPONSES: b"response.created"}[client]
    async with (
        ScriptedServer([*script, Send(LAST_CHUNK)]) as server,
        gate(config_for(server.url, upstream)) as entrance,
        asyncio.timeout(30),
        ask(entrance, client) as response,
    ):
        seen = b""
        for at, word in stations:
            while first not in seen or (word not in seen and REASONING[:2].encode() not in seen):
                seen += await response.content.readany()
            events[at].set()
        holds_all(client, upstream, seen + await response.read(), frames)


@every_direction
async def test_T73_a_burst_is_one_stream_and_not_one_event(client: Dialect, upstream: Dialect) -> None:
    """The reverse (BerriAI/litellm#26102): an upstream that sends everything in one packet loses nothing."""
    frames = whole_stream(upstream, *PARTS)
    async with (
        ScriptedServer(stream([b"".join(frames)])) as server,
        gate(config_for(server.url, upstream)) as entrance,
        ask(entrance, client) as response,
    ):
        holds_all(client, upstream, await response.read(), frames)
