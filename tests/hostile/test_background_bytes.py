"""Background responses hold a limited number of bytes over all clients, and nothing but the store has their states.

75 replies of 4.5 MB held 890 MB for five minutes: their events, their last states as objects, and their requests.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from dragoman_server.config.provider import Secret
from dragoman_server.config.state_options import SQLITE, StateOptions
from dragoman_server.proxy.background_run import BackgroundRun
from support.gateways import CHAT, Gate, config_for, gate
from support.samples import chat_frame
from support.sockets import ScriptedServer, Wait, stream
from support.stateful import with_state
from support.waiting import until, until_true

MIB = 1 << 20
PATH = "/v1/responses"
RUNS = 12
SIZE = MIB // 4
"""Bytes of a reply."""
FRAMES = [
    *[chat_frame({"role": "assistant", "content": "x" * 4096})] * (SIZE // 4096),
    chat_frame({}, "stop"),
    b"data: [DONE]\n\n",
]


@asynccontextmanager
async def gateway(tmp_path: Path, *script: Any, keys: tuple[Secret, ...] = (), **options: Any) -> AsyncIterator[Gate]:
    async with ScriptedServer(*(script or (stream(FRAMES),))) as server:
        state = StateOptions(kind=SQLITE, path=str(tmp_path / "responses.db"), **options)
        async with gate(with_state(config_for(server.url, CHAT, keys=keys), state)) as up:
            yield up


async def begin(up: Gate, *, streamed: bool, text: str = "Hi", key: str = "") -> str:
    """Begin a response in the background, and return its id."""
    body = BytesIO(json.dumps({"model": "m", "input": text, "background": True, "stream": streamed}).encode())
    headers = {"x-api-key": key} if key else {}
    async with up.session.post(up.url + PATH, data=body, headers=headers) as response:
        assert response.status == 200, await response.text()
        if streamed:
            frame = await response.content.readuntil(b"\n\n")
            return str(json.loads(frame.partition(b"data: ")[2])["response"]["id"])
        return str((await response.json())["id"])


async def state_of(up: Gate, response_id: str) -> Any:
    async with up.session.get(f"{up.url}{PATH}/{response_id}") as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def ended(up: Gate, response_id: str) -> None:
    async def has_ended() -> bool:
        return bool((await state_of(up, response_id))["status"] == "completed")

    await until_true(has_ended)


def runs(up: Gate) -> list[BackgroundRun]:
    assert up.gateway.background is not None
    return list(up.gateway.background._runs.values())


def held(up: Gate) -> int:
    """Return the bytes of events, states and requests that runs hold, counted from the objects themselves."""
    total = 0
    for run in runs(up):
        total += sum(map(len, run.log._frames)) + len(run.state)
        total += len(run.request.input) if run.request is not None else 0
    return total


@pytest.mark.parametrize("streamed", [False, True], ids=["polled", "streamed"])
async def test_what_has_ended_is_in_the_store_and_not_in_memory(streamed: bool, tmp_path: Path) -> None:
    async with gateway(tmp_path, background_bytes=64 * 1024) as up:
        ids = []
        for _ in range(RUNS):
            ids.append(await begin(up, streamed=streamed))
            await ended(up, ids[-1])
        await until(lambda: all(run.finished.done() for run in runs(up)))
        print(f"{RUNS} responses of {SIZE} bytes: {held(up) / RUNS:.0f} bytes held of each, by {len(runs(up))} runs")
        assert [run.state for run in runs(up)] == [b""] * (RUNS if streamed else 0)
        # The last event of a stream has the whole reply.
        assert held(up) < (RUNS * (SIZE + 1024) if streamed else 1)
        for response_id in ids:
            reply = await state_of(up, response_id)
            assert len(reply["output"][0]["content"][0]["text"]) == SIZE


async def test_all_clients_together_hold_a_limited_number_of_bytes(tmp_path: Path) -> None:
    limit, most = 4 * MIB, 0
    async with gateway(tmp_path, background_total_bytes=limit) as up:
        ids = []
        for _ in range(RUNS):
            ids.append(await begin(up, streamed=True))
            await ended(up, ids[-1])
            await until(lambda: all(run.finished.done() for run in runs(up)))
            most = max(most, held(up))
            assert up.gateway.background is not None
            assert held(up) == up.gateway.background._budget.used
        print(f"{RUNS} streams of {SIZE} bytes: at most {most} bytes held, of {limit}")
        assert limit // 3 < most <= limit
        assert sum(run.log._size > 0 for run in runs(up)) < RUNS
        async with up.session.get(f"{up.url}{PATH}/{ids[0]}?stream=true") as response:
            assert response.status == 400
            assert "no longer kept" in await response.text()
        async with up.session.get(f"{up.url}{PATH}/{ids[-1]}?stream=true") as response:
            assert response.status == 200
            assert b"event: response.completed" in await response.read()
        for response_id in ids:
            assert (await state_of(up, response_id))["status"] == "completed"


async def test_new_ones_are_rejected_while_those_that_run_hold_too_much(tmp_path: Path) -> None:
    go = asyncio.Event()
    head, *rest = stream(FRAMES)
    waiting = [head, Wait(go), *rest]
    async with gateway(tmp_path, waiting, background_total_bytes=MIB) as up:
        first = await begin(up, streamed=False, text="x" * 2 * MIB)
        body = {"model": "m", "input": "Hi", "background": True}
        async with up.session.post(up.url + PATH, json=body) as response:
            assert response.status == 429
            assert "state.background_total_bytes" in await response.text()
            assert response.headers["retry-after"] == "1"
        go.set()
        await ended(up, first)
        await until(lambda: not runs(up))
        assert up.gateway.background is not None
        assert up.gateway.background._budget.used == 0
        await ended(up, await begin(up, streamed=False))


async def test_one_client_cannot_take_all_of_it(tmp_path: Path) -> None:
    go = asyncio.Event()
    head, *rest = stream(FRAMES)
    waiting = [head, Wait(go), *rest]
    keys = (Secret("a"), Secret("b"))
    async with gateway(tmp_path, waiting, keys=keys, background_total_bytes=4 * MIB) as up:
        await begin(up, streamed=False, text="x" * (MIB + 1), key="a")
        body = {"model": "m", "input": "Hi", "background": True}
        async with up.session.post(up.url + PATH, json=body, headers={"x-api-key": "a"}) as response:
            assert response.status == 429
            assert "state.background_total_bytes" in await response.text()
        await begin(up, streamed=False, key="b")
        go.set()
        await until(lambda: not runs(up))


async def test_a_running_stream_drops_its_oldest_events_and_ends_whole(tmp_path: Path) -> None:
    async with gateway(tmp_path, background_total_bytes=MIB // 2) as up:
        response_id = await begin(up, streamed=True)
        await ended(up, response_id)
        assert len((await state_of(up, response_id))["output"][0]["content"][0]["text"]) == SIZE


async def test_what_the_store_did_not_take_is_kept_and_counted(tmp_path: Path) -> None:
    async with gateway(tmp_path, max_bytes_per_key=1000) as up:
        response_id = await begin(up, streamed=False)
        await ended(up, response_id)
        await until(lambda: all(run.finished.done() for run in runs(up)))
        assert up.gateway.background is not None
        assert held(up) == up.gateway.background._budget.used > SIZE
