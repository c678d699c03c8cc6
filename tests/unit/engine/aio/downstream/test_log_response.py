"""The response to a client that reads a log, by a real connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import replace

import aiohttp
import pytest
from aiohttp import web

from dragoman.aio import EventLog, EventStream, LogTail, Timeouts, send_log
from dragoman.aio.batch_slices import WRITE_SLICE
from support.gateways import served
from support.waiting import until

PING = b": ping\n\n"


async def events(log: EventLog, tail: LogTail, fails: bool = False) -> AsyncGenerator[bytes, None]:
    with tail:
        while True:
            if tail.number < log.end:
                yield tail.read()
            elif fails and tail.number:
                raise ConnectionError("another client")
            elif log.closed:
                return
            else:
                await tail


def app(
    log: EventLog, timeouts: Timeouts, ended: list[str], *, plain: bool = False, fails: bool = False
) -> web.Application:
    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse() if plain else EventStream()
        tail = LogTail(log)
        try:
            await send_log(request, response, events(log, tail, fails), tail, timeouts, PING)
            ended.append("whole")
        except ConnectionError:
            ended.append("cut")
            assert request.transport is not None
            request.transport.abort()
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise
        return response

    made = web.Application()
    made.router.add_get("/", answer)
    return made


@pytest.mark.parametrize("plain", [False, True])
async def test_what_is_added_is_sent_until_the_end(plain: bool) -> None:
    log, ended = EventLog(10**6), list[str]()
    log.append(b"data: 0\n\n")
    async with served(app(log, Timeouts(), ended, plain=plain)) as (url, _), aiohttp.ClientSession() as session:
        async with session.get(url) as first, session.get(url) as second:
            for number in range(1, 50):
                for each in (first, second):
                    assert await each.content.readuntil(b"\n\n") == b"data: %d\n\n" % (number - 1)
                log.append(b"data: %d\n\n" % number)
            log.close()
            for each in (first, second):
                assert await each.read() == b"data: 49\n\n"
        await until(lambda: ended == ["whole", "whole"])
        assert not log._tails


async def test_each_event_is_sent_once_and_in_order_to_clients_of_any_speed() -> None:
    """One that reads gets an event by the call that adds it; one that does not gets it when it reads."""
    log, ended, size = EventLog(10**9), list[str](), 0
    # The first fill the buffers of the connection; one is longer than what is written in a turn.
    frames = [b"data: %d %b\n\n" % (number, b"x" * (100_000 if number < 80 else number)) for number in range(200)]
    frames[150] = b"data: 150 %b\n\n" % (b"y" * (WRITE_SLICE + 9))
    async with served(app(log, Timeouts(), ended)) as (url, _), aiohttp.ClientSession(read_bufsize=1024) as session:
        async with session.get(url) as quick, session.get(url) as slow:
            for frame in frames:
                log.append(frame)
                assert await quick.content.readexactly(len(frame)) == frame
            (first, second), written = log._tails, log.written
            assert {first.number, second.number} != {log.end}, "one was not written to"
            assert log.seen == written
            for frame in frames:
                assert await slow.content.readexactly(len(frame)) == frame
                size += len(frame)
            await until(lambda: first.waits and second.waits)
            log.append(b"data: last\n\n")
            assert first.number == second.number == log.end, "both were written to by the call"
            log.close()
            assert await quick.read() == await slow.read() == b"data: last\n\n"
        await until(lambda: ended == ["whole", "whole"])
    assert size == written


async def test_heartbeats_are_sent_in_pauses() -> None:
    log = EventLog(10**6)
    timeouts = replace(Timeouts(), heartbeat=0.05)
    async with (
        served(app(log, timeouts, [])) as (url, _),
        aiohttp.ClientSession() as session,
        session.get(url) as response,
    ):
        assert await response.content.readuntil(PING) == PING
        log.append(b"data: 0\n\n")
        log.close()
        assert (await response.read()).replace(PING, b"") == b"data: 0\n\n"


async def test_an_error_of_the_events_ends_the_response() -> None:
    log, ended = EventLog(10**6), list[str]()
    log.append(b"data: 0\n\n")
    async with served(app(log, Timeouts(), ended, fails=True)) as (url, _), aiohttp.ClientSession() as session:
        with pytest.raises(aiohttp.ClientError):
            async with session.get(url) as response:
                await response.read()
        await until(lambda: ended == ["cut"])


async def test_a_client_that_leaves_reads_no_longer() -> None:
    log, ended = EventLog(10**6), list[str]()
    log.append(b"data: 0\n\n")
    async with served(app(log, Timeouts(), ended)) as (url, _), aiohttp.ClientSession() as session:
        async with session.get(url) as response:
            await response.content.readuntil(b"\n\n")
            response.close()

        def is_over() -> bool:
            log.append(b"data: 1\n\n")
            return bool(ended)

        await until(is_over)
        assert not log._tails
