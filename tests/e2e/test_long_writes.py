"""Long data for a client or an upstream is written in slices, one per turn of the loop: others are served between."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, cast

import pytest

from dragoman import translate
from dragoman.aio.batch_slices import WRITE_SLICE
from dragoman.aio.downstream.hijack import HijackableConnection
from dragoman.aio.timeouts import Timeouts
from dragoman.aio.upstream.http11.connection import Connection
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.gateway import parse_body
from support import samples
from support.gateways import config_for, gate
from support.sockets import ScriptedServer, Send, Step, Wait, chunk, head, sse_head

LONG = 3_000_000
TEXT = "word " * (LONG // 5)
DIRECTIONS = [(client, upstream) for client in CLIENT_DIALECTS for upstream in Dialect]
OTHER = 4096
"""Bytes of heads, framing and the frames around, in the same turn."""


class Counted:
    """A transport whose writes are counted by turn of the loop."""

    def __init__(self, transport: asyncio.BaseTransport, by_turn: Counter[tuple[int, int]], turn: list[int]) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._by_turn = by_turn
        self._turn = turn

    def write(self, data: bytes) -> None:
        """Count and write."""
        self._by_turn[id(self), self._turn[0]] += len(data)
        self._transport.write(data)

    def writelines(self, pieces: list[bytes]) -> None:
        """Count and write."""
        self._by_turn[id(self), self._turn[0]] += sum(map(len, pieces))
        self._transport.writelines(pieces)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


@contextmanager
def counted_writes(patch: pytest.MonkeyPatch) -> Iterator[Counter[tuple[int, int]]]:
    """Yield the number of bytes written, by connection of the gateway and turn of the loop."""
    by_turn: Counter[tuple[int, int]] = Counter()
    turn, loop = [0], asyncio.get_running_loop()
    for protocol in (HijackableConnection, Connection):
        made = protocol.connection_made

        def connection_made(self: Any, transport: Any, made: Any = made) -> None:
            made(self, Counted(transport, by_turn, turn))

        patch.setattr(protocol, "connection_made", connection_made)

    def tick() -> None:
        turn[0] += 1
        handles[:] = [loop.call_soon(tick)]

    handles = [loop.call_soon(tick)]
    try:
        yield by_turn
    finally:
        handles[0].cancel()


def whole(upstream: Dialect) -> bytes:
    """A whole reply with a long text."""
    body = samples.dump(samples.reply(upstream)).replace(samples.dump(samples.TEXT), samples.dump(TEXT))
    assert len(body) > LONG
    return head(200, [("content-type", "application/json"), ("content-length", str(len(body)))]) + body


def streamed(upstream: Dialect, text: str) -> bytes:
    """A stream of three events of text."""
    frames = samples.text_stream(upstream, ["a ", text, " z"])
    return sse_head() + b"".join(map(chunk, frames)) + b"0\r\n\r\n"


@pytest.mark.parametrize("transport", ["raw", "aiohttp"])
@pytest.mark.parametrize("kind", ["stream", "reply", "reply to a stream", "reply to an early stream"])
@pytest.mark.parametrize(("client", "upstream"), DIRECTIONS)
async def test_a_client_gets_a_slice_per_turn(
    client: Dialect, upstream: Dialect, kind: str, transport: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()
    script: list[Step] = [Send(streamed(upstream, TEXT) if kind == "stream" else whole(upstream))]
    timeouts = Timeouts(early_reply=0.02 if "early" in kind else 0.0)
    if "early" in kind:
        script.insert(0, Wait(begun))
    async with (
        asyncio.timeout(30),
        ScriptedServer(script) as server,
        gate(config_for(server.url, upstream, transport=transport, timeouts=timeouts)) as made,
    ):
        with counted_writes(monkeypatch) as by_turn:
            async with made.post(client, stream=kind != "reply") as response:
                assert response.status == 200
                begun.set()
                body = await response.read()
        assert TEXT.encode() in body
        assert b'"error":{' not in body
    assert sum(by_turn.values()) > LONG
    assert max(by_turn.values()) <= WRITE_SLICE + OTHER


@pytest.mark.parametrize(("client", "upstream"), DIRECTIONS)
async def test_an_upstream_gets_a_slice_per_turn(
    client: Dialect, upstream: Dialect, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with (
        asyncio.timeout(30),
        ScriptedServer([Send(streamed(upstream, "word"))]) as server,
        gate(config_for(server.url, upstream)) as made,
    ):
        text = TEXT[:900_000]  # the client of these tests warns of more
        field = "input" if client is Dialect.RESPONSES else "messages"
        with counted_writes(monkeypatch) as by_turn:
            body = await made.stream(client, **{field: [{"role": "user", "content": text}]})
        assert b"word" in body
        assert text.encode() in server.requests[0].body
    assert sum(by_turn.values()) > 900_000
    assert max(by_turn.values()) <= WRITE_SLICE + OTHER


@pytest.mark.parametrize("length", [1000, 500_000])
async def test_a_long_request_is_parsed_and_translated_in_turns_of_its_own(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    turn, loop, steps = [0], asyncio.get_running_loop(), list[int]()

    def tick() -> None:
        turn[0] += 1
        handles[:] = [loop.call_soon(tick)]

    def noted(step: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arguments: Any, **options: Any) -> Any:
            steps.append(turn[0])
            return step(*arguments, **options)

        return run

    monkeypatch.setattr("dragoman_server.steps.read.parse_body", noted(parse_body))
    monkeypatch.setattr("dragoman_server.steps.translate.translate", noted(translate))
    script = [Send(streamed(Dialect.CHAT, "word"))]
    async with (
        asyncio.timeout(30),
        ScriptedServer(script) as server,
        gate(config_for(server.url, Dialect.CHAT)) as made,
    ):
        handles = [loop.call_soon(tick)]
        await made.stream(Dialect.MESSAGES, messages=[{"role": "user", "content": "x" * length}])
        handles[0].cancel()
    parsed, translated = steps
    assert (parsed < translated) is (length == 500_000)
