"""Client to upstream over a bad network: the same bytes, or an error within the stream."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest

from dragoman.dialects import Dialect
from support.fault_proxy import Fault, FaultProxy
from support.gateways import Gate, config_for, gate
from support.samples import TEXT, judge, text_stream, tool_stream
from support.sockets import LAST_CHUNK, chunk, sse_head
from support.transports import make
from support.waiting import turns
from support.wire_server import WireServer, replying

CHAT, MESSAGES, RESPONSES, *_ = Dialect
DIRECTIONS = pytest.mark.parametrize(
    ("asking", "upstream"),
    [(CHAT, MESSAGES), (MESSAGES, CHAT), (RESPONSES, CHAT), (MESSAGES, RESPONSES), (CHAT, CHAT)],
)
BREAKS: dict[str, Callable[[int], Fault]] = {
    "cut": lambda at: Fault(cut=at),
    "reset": lambda at: Fault(reset=at),
    "half-close": lambda at: Fault(half_close=at),
}
TRANSPORTS = pytest.mark.parametrize("transport", ["aiohttp", "raw"])


def frames(asking: Dialect, upstream: Dialect) -> list[bytes]:
    """An upstream's stream of text; without the usage that a chat client did not ask for."""
    return text_stream(upstream, counted=asking is not upstream)


@asynccontextmanager
async def path(
    upstream: Dialect, transport: str, sent: list[bytes], fault: Fault | Callable[[], Fault]
) -> AsyncIterator[tuple[Gate, FaultProxy]]:
    """A gateway whose only upstream sends `sent` through a proxy with this fault. Ids and times are always the same."""
    wire = [sse_head(), *map(chunk, sent), LAST_CHUNK]
    made: dict[str, Any] = {"now": lambda: 1_700_000_000.0, "new_id": lambda: "req_1"}
    async with (
        WireServer(replying(*wire)) as server,
        FaultProxy(server.port, to_client=fault) as proxy,
        gate(config_for(f"http://127.0.0.1:{proxy.port}", upstream), upstream=make(transport), **made) as entrance,
    ):
        yield entrance, proxy


async def _compare(asking: Dialect, upstream: Dialect, transport: str, sent: list[bytes]) -> None:
    async with path(upstream, transport, sent, Fault) as (entrance, _):
        plain = await entrance.stream(asking)
    assert judge(asking, plain).finish is not None
    for size in (1, 50):
        async with path(upstream, transport, sent, partial(Fault, drip=size)) as (entrance, _):
            assert await entrance.stream(asking) == plain


@pytest.mark.turns
@TRANSPORTS
@DIRECTIONS
async def test_a_dripped_stream_is_the_same_bytes(asking: Dialect, upstream: Dialect, transport: str) -> None:
    await _compare(asking, upstream, transport, frames(asking, upstream))


@TRANSPORTS
@pytest.mark.parametrize(("asking", "upstream"), [(CHAT, MESSAGES), (MESSAGES, CHAT)])
async def test_a_dripped_tool_call_is_the_same_bytes(asking: Dialect, upstream: Dialect, transport: str) -> None:
    await _compare(asking, upstream, transport, tool_stream(upstream))


@TRANSPORTS
@DIRECTIONS
async def test_a_stream_that_stalls_and_goes_on_is_the_same_bytes(
    asking: Dialect, upstream: Dialect, transport: str
) -> None:
    sent = frames(asking, upstream)
    async with path(upstream, transport, sent, Fault) as (entrance, proxy):
        plain = await entrance.stream(asking)
        size = proxy.links[0].passed["client"]
    for at in (len(sse_head()), size // 2, size - 20):
        fault = Fault(hold=at)
        async with path(upstream, transport, sent, fault) as (entrance, _):
            whole = asyncio.create_task(entrance.stream(asking))
            await fault.held.wait()
            await turns(20)
            fault.go.set()
            assert await whole == plain


@TRANSPORTS
@pytest.mark.parametrize(("asking", "upstream"), [(CHAT, MESSAGES), (RESPONSES, CHAT), (MESSAGES, MESSAGES)])
@pytest.mark.parametrize("broken", BREAKS.values(), ids=BREAKS)
async def test_a_stream_that_breaks_is_never_a_clean_end(
    asking: Dialect, upstream: Dialect, transport: str, broken: Callable[[int], Fault]
) -> None:
    """Wherever it breaks behind its first event and before its terminal one."""
    sent = frames(asking, upstream)
    first = len(sse_head()) + sum(len(chunk(frame)) for frame in sent[:3])
    terminal = 2 if upstream is CHAT else 1  # Chat's `[DONE]` ends nothing: its finish chunk was before
    last = len(sse_head()) + sum(len(chunk(frame)) for frame in sent[: len(sent) - terminal - 1])
    for at in (first, (first + last) // 2, last):
        async with path(upstream, transport, sent, broken(at)) as (entrance, _):
            result = judge(asking, await entrance.stream(asking))
            assert result.error is not None
            assert result.finish in (None, "failed")
            assert TEXT.startswith(result.text)
