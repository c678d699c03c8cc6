"""Hundreds of exchanges of all sorts leave nothing behind: no connection, no task, no receipt beyond their bound."""

from __future__ import annotations

import asyncio
import os
import random
from typing import Any

import aiohttp
import pytest

from dragoman.aio.timeouts import PoolOptions
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from oracles.simulator import strict_simulator
from support.gateways import config_for, gate, served
from support.samples import PATHS, dump, request
from support.transports import open_sockets
from support.waiting import turns, until

COUNT = int(os.environ.get("DRAGOMAN_SOAK", "300"))
AT_ONCE = 16
KEPT = 20
IDLE = 4
SCRIPTS = (
    "sim-text",
    "sim-thinking",
    "sim-parallel",
    "sim-error-429",
    "sim-error-mid",
    "sim-cut",
    "sim-cut-reset",
    "sim-missing",
    "sim-refusal",
)


@pytest.mark.turns
@pytest.mark.parametrize("upstream", list(Dialect))
async def test_nothing_is_left_behind(upstream: Dialect) -> None:
    """Replies, errors, cut streams, bad requests, clients that leave before, in and behind a reply."""
    chance = random.Random(str(upstream))
    async with served(strict_simulator()) as (url, _):
        config = config_for(url, upstream, receipts=KEPT, connections=PoolOptions(idle=IDLE))
        async with gate(config) as entrance:
            gateway = entrance.gateway
            before = len(asyncio.all_tasks()), open_sockets()

            async def exchange(session: aiohttp.ClientSession) -> None:
                client = chance.choice(CLIENT_DIALECTS)
                body: Any = request(client, model=chance.choice(SCRIPTS), stream=chance.random() < 0.7)
                way = chance.randrange(6)
                data = chance.choice((b"{", b"[]", dump({"model": "m"}))) if way == 0 else dump(body)
                if way > 1:
                    headers = {"content-type": "application/json"}
                    async with session.post(entrance.url + PATHS[client], data=data, headers=headers) as response:
                        await response.read()
                    return
                head = f"POST {PATHS[client]} HTTP/1.1\r\nhost: x\r\ncontent-length: {len(data)}\r\n\r\n".encode()
                reader, writer = await asyncio.open_connection("127.0.0.1", entrance.port)
                writer.write((head + data)[: chance.choice((10, len(head) + 5, 10**6))])
                if chance.random() < 0.5:
                    reading = asyncio.create_task(reader.read(chance.choice((1, 400))))
                    await turns(chance.randrange(40))
                    reading.cancel()
                writer.transport.abort()

            async def one(session: aiohttp.ClientSession, busy: asyncio.Semaphore) -> None:
                async with busy:
                    await exchange(session)

            for count in (COUNT // 3, COUNT - COUNT // 3):
                busy = asyncio.Semaphore(AT_ONCE)
                async with (
                    asyncio.timeout(120),
                    aiohttp.ClientSession() as session,
                    asyncio.TaskGroup() as tasks,
                ):
                    for _ in range(count):
                        tasks.create_task(one(session, busy))
                await until(lambda: not gateway.services.open_requests)
                # Of each connection that is kept for later, both ends are here, and the simulator has a task for it.
                # One task expires stored responses.
                await until(lambda: len(asyncio.all_tasks()) <= before[0] + IDLE + 1)
                await until(lambda: open_sockets() <= before[1] + 2 * IDLE)
                assert len(gateway.receipts) == KEPT
