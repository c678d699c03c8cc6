"""Group H: what must not grow: memory with requests and with long streams, work with what was stated before."""

from __future__ import annotations

import asyncio
import gc
import itertools
import logging
import sys
import threading
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from dragoman import Translation, direction
from dragoman.aio.timeouts import PoolOptions
from dragoman.dialects import Dialect
from dragoman_server.config.state_options import StateOptions
from regressions.dialect_bodies import begins, starts, writes
from regressions.live import CHAT, EVERY, GENERATE, MESSAGES, RESPONSES, ask, asked, every_direction, whole_stream
from support.directions import CROSS, translated
from support.gateways import Gate, config_for, gate, until
from support.samples import PATHS, TOOL, dump
from support.sockets import ScriptedServer, Send, Stall, Step, chunk, sse_head, stream

LONG = 900_000
cross_direction = pytest.mark.parametrize(("client", "upstream"), [pair for pair in EVERY if pair[0] is not pair[1]])


@pytest.fixture(autouse=True)
def only_new_objects() -> None:
    """The collector leaves out what earlier tests have made: millions of objects, which take seconds to look at."""
    gc.collect()
    gc.freeze()


def _counts() -> tuple[int, int, int]:
    gc.collect()
    return len(gc.get_objects()), threading.active_count(), len(asyncio.all_tasks())


@pytest.mark.whole
@every_direction
async def test_T76_nothing_is_left_of_requests_that_are_over(
    client: Dialect, upstream: Dialect, caplog: pytest.LogCaptureFixture
) -> None:
    """Memory grows until the pod dies: stored messages, a thread per chunk, routes registered again and again
    (BerriAI/litellm#12685, BerriAI/litellm#15128, BerriAI/litellm#13805). Seen in what the collector tracks, in
    threads and in tasks, twenty-five requests at a time."""
    frames = whole_stream(upstream, ("text", "x" * 50), ("call", "call_a", "look", "{}"))
    caplog.set_level(logging.WARNING, "dragoman")  # the test run keeps the records of lines
    async with ScriptedServer(stream(frames)) as server:
        config = config_for(server.url, upstream)
        config = replace(config, server=replace(config.server, receipts=8))
        async with gate(config) as entrance:
            routes = len(entrance.runner.app.router.resources())
            seen, kinds = [], []
            for _ in range(5):
                await _talk(entrance, server, client, 25)
                seen.append(_counts())
                kinds.append(Counter(type(each).__qualname__ for each in gc.get_objects()))
            assert len(entrance.runner.app.router.resources()) == routes
            assert server.connections <= 2, "connections are used again"
    grown = [after[0] - before[0] for before, after in itertools.pairwise(seen)]
    # What is imported and cached on the way comes once; a leak comes each time.
    assert min(grown) < 25, f"{grown} objects of 25 requests each: {(kinds[-1] - kinds[1]).most_common(9)}"
    assert {(threads, tasks) for _, threads, tasks in seen} == {seen[0][1:]}


async def _talk(entrance: Gate, server: ScriptedServer, client: Dialect, times: int) -> None:
    for _ in range(times):
        async with ask(entrance, client, tools=[TOOL[client]]) as response:
            assert response.status == 200
            await response.read()
        await until(lambda: not getattr(entrance.gateway.services.upstream._transport, "busy"))  # noqa: B009
        server.requests.clear()


@pytest.mark.whole
@every_direction
async def test_T76_an_open_stream_does_not_keep_its_request(client: Dialect, upstream: Dialect) -> None:
    """Messages are kept for as long as their reply takes (BerriAI/litellm#27954): a long history is needed for nothing
    once it was sent, unless the response is stored."""
    frames = whole_stream(upstream, ("text", "words"))
    begun: list[Step] = [Send(sse_head()), *(Send(chunk(frame)) for frame in frames[:-1]), Stall()]
    key = "input" if client is RESPONSES else "messages"
    state = StateOptions(kind="off")
    async with (
        ScriptedServer(begun) as server,
        gate(replace(config_for(server.url, upstream), state=state)) as entrance,
    ):
        # What the first stream imports and caches is kept for good.
        first = await _post(entrance, client, dump(asked(client)))
        with traced() as size:
            body = dump(asked(client, **{key: [{"role": "user", "content": "y" * LONG}]}))
            second = await _post(entrance, client, body)
            del body
            assert len(server.requests[-1].body) > LONG
            server.requests[-1].body = b""  # the server of this test is not the matter

            def is_freed() -> bool:
                gc.collect()
                return bool(size() < LONG / 4)

            await until(is_freed)  # the thread that translates long requests may still be returning
        first.close()
        second.close()


async def _post(entrance: Gate, client: Dialect, body: bytes) -> asyncio.StreamWriter:
    """A client that keeps nothing of what it sent, and has the beginning of its reply."""
    reader, writer = await asyncio.open_connection("127.0.0.1", entrance.port)
    writer.write(f"POST {PATHS[client]} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode())
    writer.write(body)
    del body
    async with asyncio.timeout(30):
        await writer.drain()
        assert b" 200 " in await reader.readline()
        await reader.readuntil(b"data: ")
    return writer


@contextmanager
def traced() -> Iterator[Any]:
    """Bytes that were taken since and are not free yet."""
    gc.collect()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        yield lambda: tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


@every_direction
async def test_T76_connections_are_bounded_where_the_operator_demands_it(client: Dialect, upstream: Dialect) -> None:
    """An unbounded connector (BerriAI/litellm#6404): six streams at once over two connections, each whole."""
    frames = whole_stream(upstream, ("text", "words"))
    async with ScriptedServer(stream(frames)) as server:
        config = config_for(server.url, upstream)
        few = replace(config, server=replace(config.server, connections=PoolOptions(limit=2)))
        async with gate(few) as entrance, asyncio.timeout(30):

            async def once() -> bytes:
                async with ask(entrance, client) as response:
                    assert response.status == 200
                    return bytes(await response.read())

            replies = await asyncio.gather(*(once() for _ in range(6)))
        assert all(b"words" in reply or b"wo" in reply for reply in replies)
        assert server.connections <= 2


# --- the work of one chunk --------------------------------------------------------------------------------------------


def _flow(upstream: Dialect, kind: str, texts: list[str]) -> tuple[list[bytes], list[bytes]]:
    """The frames that open a block, and one for each text."""
    part = ("call", "call_a", "look", "") if kind == "call" else (kind, "")
    parts = [part]
    opening = [*begins(upstream), *starts(upstream, 0, parts)]
    return opening, [frame for text in texts for frame in writes(upstream, 0, parts, text)]


def _calls(translation: Translation, opening: list[bytes], texts: list[bytes]) -> list[int]:
    """Return how many functions are called, of Python and of C, for each tenth of the texts."""
    machine = translation.stream_machine()
    for frame in opening:
        machine.feed(frame)
    tenth = len(texts) // 10
    counts = []
    for start in range(0, len(texts), tenth):
        seen = 0

        def count(frame: Any, event: str, argument: Any) -> None:
            nonlocal seen
            seen += event in ("call", "c_call")

        sys.setprofile(count)
        try:
            for text in texts[start : start + tenth]:
                machine.feed(text)
        finally:
            sys.setprofile(None)
        counts.append(seen)
    return counts


@pytest.mark.few
@every_direction
@pytest.mark.parametrize("kind", ["text", "reasoning", "call"])
def test_T77_a_late_chunk_is_no_more_work_than_an_early_one(client: Dialect, upstream: Dialect, kind: str) -> None:
    """75 % of a core with five streams a second: callbacks looked up and models copied for each chunk
    (BerriAI/litellm#13505, BerriAI/litellm#22346). Counted in calls of functions, which no machine makes slower."""
    if kind == "call" and upstream is Dialect.GENERATE:
        return  # its calls come whole
    texts = [f"w{number % 7} " for number in range(2000)]
    for validate, most in ((False, 60), (True, 250)):
        translation = translated(direction(client, upstream))
        translation.context.validate = validate
        counts = _calls(translation, *_flow(upstream, kind, texts))
        assert max(counts[1:]) <= min(counts[1:]) * 1.1, counts
        assert max(counts[1:]) / 200 < most, "calls for one chunk"


@pytest.mark.whole
@cross_direction
@pytest.mark.parametrize("kind", ["text", "reasoning", "call"])
def test_T77_no_chunk_joins_again_what_was_stated(client: Dialect, upstream: Dialect, kind: str) -> None:
    """The whole text is re-joined per chunk (BerriAI/litellm#22346): behind a megabyte of it a chunk of ten bytes takes
    no more memory than it did at first."""
    if kind == "call" and upstream is Dialect.GENERATE:
        return  # its calls come whole
    machine = translated(direction(client, upstream)).stream_machine()
    opening, texts = _flow(upstream, kind, ["z" * 10_000] * 100 + ["w " * 5] * 50)
    for frame in opening + texts[:100]:
        machine.feed(frame)
    peaks = []
    with traced():
        for text in texts[100:]:
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            machine.feed(text)
            peaks.append(tracemalloc.get_traced_memory()[1] - before)
    assert max(peaks) < 50_000, max(peaks)


def test_T77_every_cross_direction_is_played() -> None:
    """The failure of BerriAI/litellm#22346 could occur in each direction."""
    assert {(row.client.dialect, row.upstream.dialect) for row in CROSS} == {
        (CHAT, MESSAGES), (CHAT, RESPONSES), (MESSAGES, CHAT), (MESSAGES, RESPONSES), (RESPONSES, CHAT),
        (RESPONSES, MESSAGES), (CHAT, GENERATE), (MESSAGES, GENERATE), (RESPONSES, GENERATE),
    }  # fmt: skip
