"""Streams that can be resumed keep a limited number of bytes over all clients, of which one client has a fourth.

256 streams of 16 MiB each, 32 of one client, were kept whole.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from dragoman_server.config.provider import Secret
from dragoman_server.config.resume import ResumeOptions
from dragoman_server.proxy.resumable.streams import ResumableStreams
from support.gateways import CHAT, Gate, config_for, gate
from support.samples import chat_frame
from support.sockets import ScriptedServer, stream

KIB = 1024
TOTAL = 1024 * KIB
SHARE = TOTAL // 4
FRAMES = [*[chat_frame({"content": "x" * 4096})] * 48, chat_frame({}, "stop"), b"data: [DONE]\n\n"]
"""A stream of about 200 KiB."""
KEYS = tuple(Secret(f"k{number}") for number in range(8))
BEGIN = {"x-dragoman-resume": "true"}


@asynccontextmanager
async def gateway(frames: list[bytes] = FRAMES, **options: Any) -> AsyncIterator[Gate]:
    async with ScriptedServer(stream(frames)) as server:
        config = config_for(server.url, CHAT, keys=KEYS)
        resume = ResumeOptions(**{"seconds": 60, "total_bytes": TOTAL, **options})
        async with gate(replace(config, server=replace(config.server, resume=resume))) as up:
            yield up


async def read(up: Gate, headers: dict[str, str], key: int = 0) -> tuple[int, bytes, str]:
    """Status and body of a stream, and its id; empty if it cannot be resumed."""
    async with up.post(CHAT, stream=True, headers={"x-api-key": f"k{key}", **headers}) as response:
        return response.status, await response.read(), response.headers.get("x-dragoman-resume", "")


def streams(up: Gate) -> ResumableStreams:
    assert up.gateway.resumable is not None
    return up.gateway.resumable


def held(up: Gate) -> Counter[str]:
    """Return the bytes of events by owner, counted from the objects themselves."""
    found: Counter[str] = Counter()
    for (owner, _), each in streams(up)._streams.items():
        found[owner] += sum(map(len, each.log._frames))
    return found


async def test_the_streams_of_all_clients_hold_a_limited_number_of_bytes() -> None:
    async with gateway() as up:
        begun = [(key, await read(up, BEGIN, key)) for key in range(len(KEYS)) for _ in range(2)]
        total = sum(len(whole) for _, (_, whole, _) in begun)
        print(f"{total} bytes in {len(begun)} streams: {held(up).total()} are held")
        assert total > 2 * TOTAL
        assert TOTAL // 2 < held(up).total() == streams(up)._streams.whole.used <= TOTAL
        answers = [(whole, await read(up, {"last-event-id": name}, key)) for key, (_, whole, name) in begun]
    assert answers[-1][1][:2] == (200, answers[-1][0])
    assert answers[0][1][0] == 400
    assert b"no event is kept" in answers[0][1][1]


async def test_one_client_does_not_push_out_what_others_may_resume() -> None:
    async with gateway() as up:
        _, whole, name = await read(up, BEGIN, 1)
        for _ in range(40):
            status, _, mine = await read(up, BEGIN)
            assert status == 200
            assert mine
        print(held(up))
        assert max(held(up).values()) <= SHARE
        assert (await read(up, {"last-event-id": name}, 1))[:2] == (200, whole)


@pytest.mark.parametrize("least", [256 * KIB, TOTAL], ids=["less than a stream", "more"])
async def test_a_client_that_reads_gets_all_events(least: int) -> None:
    long = [*FRAMES[:-2] * 6, *FRAMES[-2:]]
    async with gateway(long, total_bytes=least) as up:
        plain = await read(up, {})
        _, whole, name = await read(up, BEGIN)
        print(f"{len(whole)} bytes read, {held(up).total()} held")
        assert name
        assert re.sub(rb"id: req_\w+\.\d+\n", b"", whole).count(b"data:") == plain[1].count(b"data:")
        assert held(up).total() <= least // 4
        last = whole.rpartition(b"id: ")[2].strip().decode()
        before = f"{name}.{int(last.rpartition('.')[2]) - 5}"
        status, rest, _ = await read(up, {"last-event-id": before})
        assert status == 200
        assert whole.endswith(rest)
        assert rest.count(b"data:") == 5


async def test_without_room_streams_are_sent_that_cannot_be_resumed() -> None:
    async with gateway() as up:
        streams(up)._streams.whole.spend(TOTAL)  # of streams that run
        status, whole, name = await read(up, BEGIN)
        assert (status, name) == (200, "")
        assert whole.count(b"data:") == len(FRAMES)
        assert b"\nid: " not in whole
        streams(up)._streams.whole.spend(-TOTAL)
        assert (await read(up, BEGIN))[2]


async def test_what_is_forgotten_counts_no_more() -> None:
    async with gateway(kept=0.001) as up:
        for _ in range(3):
            await read(up, BEGIN)
        while streams(up)._streams:
            await read(up, {})
        assert streams(up)._streams.whole.used == 0
    async with gateway(streams_per_client=2) as up:
        for _ in range(5):
            await read(up, BEGIN)
        assert streams(up)._streams.whole.used == held(up).total()
