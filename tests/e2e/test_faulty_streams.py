"""Whatever happens to an upstream's stream, and wherever, no client takes what it got for a whole reply.

A gateway on real sockets, in all nine directions; streams of text, thinking and parallel calls, recorded from the
simulated upstream; faults at every border of an event and at bytes chosen by a seeded generator. `DRAGOMAN_FAULTS` is
the number of the latter for each direction.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import aiohttp
import pytest

from dragoman.aio.timeouts import Timeouts
from dragoman.dialects import Dialect
from dragoman_server.config.state_options import StateOptions
from oracles.grammar import GrammarError
from oracles.simulator import strict_simulator
from support.gateways import Gate, config_for, gate, served
from support.samples import PATHS, dump, error_frame, judge, read_error, request
from support.sockets import LAST_CHUNK, chunk, sse_head
from support.wire_server import Peer, WireServer

COUNT = int(os.environ.get("DRAGOMAN_FAULTS", "40"))
AT_ONCE = 24
NINE = [(client, upstream) for client in Dialect for upstream in Dialect]
DIRECTIONS = pytest.mark.parametrize(("client", "upstream"), NINE, ids=[f"{c}-{u}" for c, u in NINE])
SCRIPTS = ("sim-text", "sim-thinking", "sim-parallel")
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOLS: dict[Dialect, list[Any]] = {
    Dialect.CHAT: [{"type": "function", "function": {"name": n, "parameters": SCHEMA}} for n in ("one", "two")],
    Dialect.MESSAGES: [{"name": n, "input_schema": SCHEMA} for n in ("one", "two")],
    Dialect.RESPONSES: [{"type": "function", "name": n, "parameters": SCHEMA, "strict": False} for n in ("one", "two")],
}
TERMINAL = {
    Dialect.CHAT: (b'"finish_reason":"stop"', b'"finish_reason":"tool_calls"'),
    Dialect.MESSAGES: (b"event: message_stop",),
    Dialect.RESPONSES: (b"event: response.completed",),
}
"""The content of the frame from which on a stream may end."""
FAILED = {
    Dialect.CHAT: (b'data: {"error":',),
    Dialect.MESSAGES: (b"event: error",),
    Dialect.RESPONSES: (b"event: error", b"event: response.failed"),
}
"""The content of a stream that failed."""


@dataclass(frozen=True)
class Recording:
    """A stream of an upstream: its frames, where each ends, from which byte on it is whole, and from which byte on a
    body that ends as HTTP has it is: servers of Messages that are known to leave `message_stop` out are read so."""

    frames: list[bytes]
    ends: list[int]
    whole: int
    noted: int

    @property
    def data(self) -> bytes:
        """All of it."""
        return b"".join(self.frames)


@dataclass(frozen=True)
class Case:
    """One reply: the stream up to the byte `at`, and then a fault."""

    script: str
    kind: str
    at: int
    seed: int


async def _record(upstream: Dialect, script: str) -> Recording:
    """Return what the simulated upstream streams."""
    async with served(strict_simulator()) as (url, _), aiohttp.ClientSession() as session:
        body = request(upstream, model=script, stream=True, tools=TOOLS[upstream])
        if upstream is Dialect.CHAT:
            body["stream_options"] = {"include_usage": False}
        async with session.post(url + PATHS[upstream], data=dump(body), headers=_HEADERS) as response:
            assert response.status == 200, await response.text()
            data = await response.read()
    frames = [frame + b"\n\n" for frame in data.split(b"\n\n")[:-1]]
    ends = list(accumulate(map(len, frames)))
    last = next(end for frame, end in zip(frames, ends, strict=True) if any(t in frame for t in TERMINAL[upstream]))
    noted = max(end for end in ends if end < last) if upstream is Dialect.MESSAGES else last
    return Recording(frames, ends, last, noted)


_HEADERS = {"content-type": "application/json", "anthropic-version": "2023-06-01", "authorization": "Bearer k"}

# --- faults -----------------------------------------------------------------------------------------------------------

Fault = Callable[[Peer, bytes, random.Random], Awaitable[None]]
"""The fault behind the first bytes: the rest as far as it is not the whole, and a generator for what is chosen."""


async def _cut(peer: Peer, rest: bytes, chance: random.Random) -> None:
    peer.close()


async def _reset(peer: Peer, rest: bytes, chance: random.Random) -> None:
    peer.reset()


async def _half_close(peer: Peer, rest: bytes, chance: random.Random) -> None:
    peer.half_close()
    await peer.gone.wait()


async def _stall(peer: Peer, rest: bytes, chance: random.Random) -> None:
    await peer.gone.wait()


async def _end(peer: Peer, rest: bytes, chance: random.Random) -> None:
    await peer.send(LAST_CHUNK)


async def _bad_chunk(peer: Peer, rest: bytes, chance: random.Random) -> None:
    await peer.send(chance.choice((b"zz\r\n", b"-5\r\n", b"\r\n\r\n", b"5\r\nabcdefgh\r\n", b"ffffffffffffffffff\r\n")))
    await peer.gone.wait()


async def _short_chunk(peer: Peer, rest: bytes, chance: random.Random) -> None:
    await peer.send(b"%x\r\n%s" % (len(rest) + 100, rest))
    peer.close()


FAULTS: dict[str, Fault] = {
    "cut": _cut,
    "reset": _reset,
    "half close": _half_close,
    "stall": _stall,
    "early end": _end,
    "bad chunk": _bad_chunk,
    "short chunk": _short_chunk,
}
SOON = Timeouts(first_byte=0.1, idle=0.1, tool_stall=0.1)


def _upstream(recordings: dict[str, Recording], cases: list[Case], upstream: Dialect) -> Callable[[Peer], Any]:
    """Serves the case that the request's prompt names."""

    async def handler(peer: Peer) -> None:
        while True:
            number = re.search(rb"case-(\d+)", (await peer.request()).body)
            assert number is not None
            case = cases[int(number[1])]
            data, chance = recordings[case.script].data, random.Random(case.seed)
            stated, rest = data[: case.at], data[case.at :]
            await peer.send(sse_head())
            if case.kind == "drip":
                await peer.drip(chunk(data) + LAST_CHUNK, chance.choice((7, 64, 333)))
                continue
            if case.kind == "doubled":
                data = stated + stated[-chance.randint(1, 60) :] + rest
                await peer.send(chunk(data) + LAST_CHUNK)
                continue
            for start in range(0, len(stated), size := chance.choice((50, 400, 10_000))):
                await peer.send(chunk(stated[start : start + size]))
            if case.kind == "error event":
                await peer.send(chunk(error_frame(upstream) + rest) + LAST_CHUNK)
                continue
            if case.kind != "none":
                await FAULTS[case.kind](peer, data[case.at : recordings[case.script].whole - 2], chance)
                return
            await peer.send(LAST_CHUNK)

    return handler


OFF = StateOptions(kind="off")
"""Each response has the same id here, and no second one could be stored."""


@asynccontextmanager
async def _gateway(
    upstream: Dialect, recordings: dict[str, Recording], cases: list[Case], timeouts: Timeouts
) -> AsyncIterator[Gate]:
    """A gateway before such an upstream. Ids and times are always the same."""
    made: dict[str, Any] = {"now": lambda: 1_700_000_000.0, "new_id": lambda: "req_1"}
    async with (
        WireServer(_upstream(recordings, cases, upstream)) as server,
        gate(replace(config_for(server.url, upstream, timeouts=timeouts), state=OFF), **made) as entrance,
    ):
        yield entrance


async def _replies(entrance: Gate, client: Dialect, numbers: list[int]) -> dict[int, tuple[int, bytes]]:
    """The status and body of each case, several at once. Every reply must end as HTTP has it."""
    busy = asyncio.Semaphore(AT_ONCE)
    found: dict[int, tuple[int, bytes]] = {}

    async def ask(number: int) -> None:
        prompt: Any = f"case-{number:05}"  # of one length, as its tokens are estimated
        stated = (
            {"input": prompt} if client is Dialect.RESPONSES else {"messages": [{"role": "user", "content": prompt}]}
        )
        async with busy, entrance.post(client, stream=True, tools=TOOLS[client], **stated) as response:
            found[number] = response.status, await response.read()

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for number in numbers:
            tasks.create_task(ask(number))
    return found


def _chosen(client: Dialect, upstream: Dialect, recordings: dict[str, Recording], kinds: list[str]) -> list[Case]:
    """A case for each border of an event, the kinds in turn, and cases at bytes anywhere."""
    chance = random.Random(f"{client} {upstream} {kinds}")
    cases: list[Case] = []
    for script, recording in recordings.items():
        turn = chance.randrange(len(kinds))
        for place, end in enumerate((0, *recording.ends)):
            if end < recording.whole:
                cases.append(Case(script, kinds[(place + turn) % len(kinds)], end, chance.randrange(2**32)))
    for _ in range(COUNT):
        script = chance.choice(SCRIPTS)
        # Of the last frame all but the line ends, without which a lenient reader may take it.
        at = chance.randrange(recordings[script].whole - 2)
        cases.append(Case(script, chance.choice(kinds), at, chance.randrange(2**32)))
    return cases


def _judge(client: Dialect, upstream: Dialect, status: int, body: bytes) -> tuple[str, str | None]:
    """Return how a reply ended, `failed` or `finished`, and its text. Raises GrammarError or AssertionError."""
    if status != 200:
        assert status >= 500, body
        assert read_error(client, body).message
        return "failed", ""
    if client is upstream:  # what passes through keeps the upstream's own grammar: only its end is ours
        return ("failed" if any(word in body for word in FAILED[client]) else "finished"), None
    result = judge(client, body)
    return ("finished" if result.error is None and result.finish not in (None, "failed") else "failed"), result.text


@DIRECTIONS
async def test_no_faulty_stream_looks_whole(client: Dialect, upstream: Dialect) -> None:
    recordings = {script: await _record(upstream, script) for script in SCRIPTS}
    cases = [Case(script, "none", len(recordings[script].data), 0) for script in SCRIPTS]
    cases += _chosen(client, upstream, recordings, [*FAULTS, "error event"])
    # An error event stands between events, wherever it was to be.
    cases = [
        Case(c.script, c.kind, max(e for e in (0, *recordings[c.script].ends) if e <= c.at), c.seed)
        if c.kind == "error event"
        else c
        for c in cases
    ]
    replies: dict[int, tuple[int, bytes]] = {}
    for stalled, timeouts in ((False, Timeouts()), (True, SOON)):  # no sound stream depends on a short timeout
        numbers = [number for number, case in enumerate(cases) if (case.kind == "stall") is stalled]
        async with _gateway(upstream, recordings, cases, timeouts) as entrance:
            replies |= await _replies(entrance, client, numbers)
    texts: dict[str, str | None] = {}
    wrong: list[Any] = []
    for number, (status, body) in sorted(replies.items()):
        case = cases[number]
        try:
            end, text = _judge(client, upstream, status, body)
        except (GrammarError, AssertionError) as error:
            wrong.append((case, error, body[-300:]))
            continue
        if case.kind == "none":
            assert end == "finished", body
            texts[case.script] = text
        elif case.kind == "early end" and case.at >= recordings[case.script].noted:
            continue
        elif end != "failed" or not (texts[case.script] or "").startswith(text or ""):
            wrong.append((case, end, body[-300:]))
    assert not wrong, (len(wrong), len(cases), wrong[:3])
    assert len(cases) > COUNT + 20


@DIRECTIONS
async def test_a_dripped_stream_is_the_same_and_a_doubled_one_is_legal(client: Dialect, upstream: Dialect) -> None:
    """Doubled bytes may be other words that no one can report from the model's, so such a stream may end well."""
    recordings = {script: await _record(upstream, script) for script in SCRIPTS}
    cases = [Case(script, "none", len(recordings[script].data), 0) for script in SCRIPTS]
    cases += [Case(script, "drip", 0, seed) for script in SCRIPTS for seed in range(3)]
    cases += _chosen(client, upstream, recordings, ["doubled"])
    async with _gateway(upstream, recordings, cases, Timeouts()) as entrance:
        replies = await _replies(entrance, client, list(range(len(cases))))
    plain = {cases[number].script: replies[number][1] for number in range(3)}
    for number, (status, body) in replies.items():
        case = cases[number]
        if case.kind == "drip":
            assert body == plain[case.script], case
        else:
            try:
                end, _ = _judge(client, upstream, status, body)
            except (GrammarError, AssertionError) as error:
                raise AssertionError(f"{case}: {body[-300:]!r}") from error
            assert end == "finished" or case.kind == "doubled"
