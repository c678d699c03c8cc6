"""Responses in the background, by the official SDK and by plain HTTP, before a simulated upstream of each dialect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import aiohttp
import openai
import pytest

from dragoman.aio import LogTail
from dragoman.dialects import Dialect
from dragoman_server.config.state_options import StateOptions
from support.named_keys import made
from support.stateful import MEMORY, Stateful, stateful
from support.texts import sent_texts

UPSTREAMS = pytest.mark.parametrize("upstream", list(Dialect))
CHAT = Dialect.CHAT


async def ended(sdk: Any, response_id: str) -> Any:
    """The response, once it has ended, as the API's guide polls it."""
    for _ in range(2000):
        reply = await sdk.responses.retrieve(response_id)
        if reply.status not in ("queued", "in_progress"):
            return reply
        await asyncio.sleep(0.01)
    raise TimeoutError(response_id)


async def until(condition: Callable[[], Any]) -> None:
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError


def background(state: Stateful) -> Any:
    assert state.gate.gateway.background is not None
    return state.gate.gateway.background


async def events(state: Stateful, path: str, **body: Any) -> list[bytes]:
    """The events of a stream, as they are sent."""
    if body:
        request = state.gate.session.post(state.gate.url + path, json=body)
    else:
        request = state.gate.session.get(state.gate.url + path)
    async with request as reply:
        assert reply.status == 200, await reply.text()
        assert reply.headers["content-type"].startswith("text/event-stream")
        data = await reply.read()
    return [frame + b"\n\n" for frame in data.split(b"\n\n") if frame]


def data_of(frame: bytes) -> Any:
    return json.loads(frame.partition(b"data: ")[2])


@UPSTREAMS
async def test_a_response_is_polled_and_continued(upstream: Dialect) -> None:
    async with stateful(upstream) as state:
        sdk = state.sdk
        first = await sdk.responses.create(model="sim-text", input="Hi", background=True)
        assert (first.status, first.background, first.output) == ("queued", True, [])
        reply = await ended(sdk, first.id)
        assert (reply.id, reply.status, reply.background, reply.store) == (first.id, "completed", True, True)
        assert "background" not in state.sent()
        second = await sdk.responses.create(model="sim-text", input="More", previous_response_id=first.id)
        assert sent_texts(state.sent()) == ["Hi", reply.output_text, "More"]
        assert second.background is False


@UPSTREAMS
@pytest.mark.parametrize("model", ["sim-agent", "sim-thinking", "sim-parallel", "sim-refusal", "sim-length"])
async def test_a_stream_goes_on_after_each_event(upstream: Dialect, model: str) -> None:
    async with stateful(upstream) as state:
        weather = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}
        body = {"model": model, "input": "Hi", "background": True, "stream": True, "tools": [weather]}
        whole = await events(state, "/v1/responses", **body)
        assert [data_of(frame)["sequence_number"] for frame in whole] == list(range(len(whole)))
        response_id = data_of(whole[0])["response"]["id"]
        assert data_of(whole[0])["response"]["background"] is True
        path = f"/v1/responses/{response_id}?stream=true"
        assert await events(state, path) == whole
        for number in range(len(whole)):
            rest = await events(state, f"{path}&starting_after={number}")
            assert rest == whole[number + 1 :]
        last = data_of(whole[-1])["response"]
        assert (await state.sdk.responses.retrieve(response_id)).model_dump()["status"] == last["status"]


async def test_a_client_that_leaves_ends_nothing() -> None:
    """The SDK follows the stream, leaves after each of the first events, and goes on after it."""
    async with stateful(CHAT) as state:
        stream = await state.sdk.responses.create(model="sim-agent", input="Hi", background=True, stream=True)
        seen = [await anext(stream)]
        response_id = seen[0].response.id
        await stream.close()
        while seen[-1].type != "response.completed":
            stream = await state.sdk.responses.retrieve(
                response_id, stream=True, starting_after=seen[-1].sequence_number
            )
            seen.append(await anext(stream))
            await stream.close()
        assert [event.sequence_number for event in seen] == list(range(len(seen)))
        assert seen[-1].response.status == "completed"
        # A poll of the same response, and one upstream request for all of it.
        assert (await ended(state.sdk, response_id)).id == response_id
        receipt = await state.gate.session.get(f"{state.gate.url}/v1/dragoman/receipts/req_{response_id[5:]}")
        assert (await receipt.json())["ended"] == "completed"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_is_cancelled(stream: bool) -> None:
    async with stateful(CHAT) as state:
        sdk = state.sdk
        followed = None
        if stream:
            followed = await sdk.responses.create(model="sim-stall", input="Hi", background=True, stream=True)
            response_id = (await anext(followed)).response.id
        else:
            response_id = (await sdk.responses.create(model="sim-stall", input="Hi", background=True)).id
        run = background(state).get("", response_id)
        await until(lambda: run.log.end > 1)
        assert (await sdk.responses.retrieve(response_id)).status == "in_progress"
        for _ in range(2):
            assert (await sdk.responses.cancel(response_id)).status == "cancelled"
        if followed is not None:
            last = [event async for event in followed][-1]
            assert (last.type, last.response.status) == ("response.incomplete", "cancelled")
        assert (await sdk.responses.retrieve(response_id)).status == "cancelled"
        node = await state.store.get("", response_id)
        assert json.loads(node.reply)["status"] == "cancelled"
        receipt = await state.gate.session.get(f"{state.gate.url}/v1/dragoman/receipts/req_{response_id[5:]}")
        assert (await receipt.json())["ended"] == "abandoned"
        await until(lambda: state.gate.gateway.metrics.open_requests == 0)


async def test_a_failure_of_the_upstream_is_the_state_of_the_response(caplog: pytest.LogCaptureFixture) -> None:
    async with stateful(CHAT) as state:
        sdk = state.sdk
        for model in ("sim-error-500", "sim-error-mid", "sim-cut"):
            first = await sdk.responses.create(model=model, input="Hi", background=True)
            reply = await ended(sdk, first.id)
            assert (reply.status, reply.error.code, reply.store) == ("failed", "server_error", True)
            assert reply.error.message
        assert "broke its grammar" not in caplog.text
        # A client that waits for the stream gets the error at once.
        with pytest.raises(openai.InternalServerError):
            await sdk.responses.create(model="sim-error-500", input="Hi", background=True, stream=True)


async def test_requests_that_cannot_run_in_the_background() -> None:
    async with stateful(CHAT) as state:
        create = state.sdk.responses.create
        with pytest.raises(openai.BadRequestError, match="needs `store: true`") as caught:
            await create(model="sim-text", input="Hi", background=True, store=False)
        assert caught.value.param == "background"
        with pytest.raises(openai.BadRequestError, match="input"):
            await create(model="sim-text", input=[{"type": "nope"}], background=True)
        with pytest.raises(openai.NotFoundError):
            await create(model="sim-text", input="Hi", background=True, conversation="conv_1")
        done = await create(model="sim-text", input="Hi")
        with pytest.raises(openai.BadRequestError, match="can be cancelled"):
            await state.sdk.responses.cancel(done.id)
        for call in (state.sdk.responses.cancel("resp_1"), state.sdk.responses.retrieve("resp_1", stream=True)):
            with pytest.raises(openai.NotFoundError):
                await call
        with pytest.raises(openai.BadRequestError, match="leave out `stream`"):
            await state.sdk.responses.retrieve(done.id, stream=True)
        first = await create(model="sim-text", input="Hi", background=True)
        with pytest.raises(openai.BadRequestError, match="leave out `stream`"):
            await state.sdk.responses.retrieve(first.id, stream=True)
        await until(lambda: state.gate.gateway.metrics.open_requests == 0)
    async with stateful(CHAT, StateOptions(kind="memory", background=0)) as state:
        with pytest.raises(openai.BadRequestError, match="use `stream`"):
            await state.sdk.responses.create(model="sim-text", input="Hi", background=True)


async def test_another_key_sees_nothing_of_it() -> None:
    mine, first = made("first")
    others, second = made("second")
    async with stateful(CHAT, keys=(first, second)) as state:
        me, other = state.client(mine).responses, state.client(others).responses
        run = await me.create(model="sim-stall", input="Hi", background=True)
        for call in (other.retrieve(run.id), other.cancel(run.id), other.delete(run.id)):
            with pytest.raises(openai.NotFoundError):
                await call
        assert (await me.cancel(run.id)).status == "cancelled"


async def test_limits_of_runs_and_of_events() -> None:
    async with stateful(CHAT, StateOptions(kind="memory", background=2, background_bytes=6000)) as state:
        sdk = state.sdk
        runs = [await sdk.responses.create(model="sim-stall", input="Hi", background=True) for _ in range(2)]
        with pytest.raises(openai.RateLimitError, match="run in the background") as caught:
            await sdk.responses.create(model="sim-stall", input="Hi", background=True)
        assert caught.value.response.headers["retry-after"] == "1"
        await sdk.responses.cancel(runs[0].id)
        body = {"model": "sim-agent", "input": "Hi", "background": True, "stream": True}
        async with state.gate.session.post(f"{state.gate.url}/v1/responses", json=body) as reply:
            response_id = f"resp_{reply.headers['x-request-id'][4:]}"
        await background(state).get("", response_id).finished
        with pytest.raises(openai.BadRequestError, match="no longer kept") as late:
            await sdk.responses.retrieve(response_id, stream=True, starting_after=0)
        assert late.value.param == "starting_after"
        assert (await ended(sdk, response_id)).status == "completed"


async def test_a_client_that_reads_too_slowly_gets_an_error() -> None:
    async with stateful(CHAT, StateOptions(kind="memory", background_bytes=6000)) as state:
        stream = await state.sdk.responses.create(model="sim-stall", input="Hi", background=True, stream=True)
        run = background(state).get("", (await anext(stream)).response.id)
        reader = run.follow(LogTail(run.log))
        assert b"response.created" in await anext(reader)
        for _ in range(30):
            run.log.append(b"x" * 300)
        last = [data async for data in reader][-1]
        assert data_of(last)["type"] == "error"
        await background(state).cancel(run)


async def test_only_the_last_runs_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dragoman_server.proxy.background._KEPT", 2)
    async with stateful(CHAT) as state:
        ids = []
        for _ in range(4):
            stream = await state.sdk.responses.create(model="sim-text", input="Hi", background=True, stream=True)
            ids.append((await anext(stream)).response.id)
            await ended(state.sdk, ids[-1])
            await background(state).get("", ids[-1]).finished
        assert [background(state).get("", each) is not None for each in ids] == [False, True, True, True]
        assert (await state.sdk.responses.retrieve(ids[0])).status == "completed"


async def test_a_run_is_forgotten_and_its_response_stays() -> None:
    async with stateful(CHAT, StateOptions(kind="memory", background_events=0.01)) as state:
        first = await state.sdk.responses.create(model="sim-text", input="Hi", background=True)
        await until(lambda: background(state).get("", first.id) is None)
        assert (await state.sdk.responses.retrieve(first.id)).status == "completed"


async def test_a_gateway_that_stops_ends_its_runs() -> None:
    options = MEMORY
    async with stateful(CHAT, options) as state:
        first = await state.sdk.responses.create(model="sim-stall", input="Hi", background=True)
        run = background(state).get("", first.id)
        await until(lambda: run.log.end > 1)
        await state.gate.gateway.stop(0.0)
        await run.finished
        assert run.state == b"", "only the store has it"
        node = await state.store.get("", first.id)
        assert json.loads(node.reply)["status"] == "failed"
        assert json.loads(node.reply)["error"]["message"]


async def test_a_client_that_leaves_before_the_answer_ends_nothing() -> None:
    async with stateful(CHAT) as state, aiohttp.ClientSession() as session:
        body = {"model": "sim-stall", "input": "Hi", "background": True, "stream": True}
        async with session.post(f"{state.gate.url}/v1/responses", json=body) as reply:
            frame = await reply.content.readuntil(b"\n\n")
            reply.close()
        run = background(state).get("", data_of(frame)["response"]["id"])
        end = run.log.end
        await asyncio.sleep(0.05)
        assert not run.ended
        assert run.log.end >= end
        await background(state).cancel(run)
