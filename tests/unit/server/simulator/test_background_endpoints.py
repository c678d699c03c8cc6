"""Responses in the background of the simulated upstream, by OpenAI's SDK."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from aiohttp.test_utils import BaseTestServer, TestServer

from dragoman_server.simulator import make_simulator
from support.waiting import until_true


def sdk(server: BaseTestServer) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=str(server.make_url("/v1")), api_key="x", max_retries=0, timeout=30)


async def created(client: openai.AsyncOpenAI, **more: Any) -> Any:
    return await client.responses.create(model="sim-long-40", input="Hi", background=True, **more)


async def test_it_is_polled_until_its_end() -> None:
    async with TestServer(make_simulator()) as server, sdk(server) as client:
        found = await created(client)
        assert (found.status, found.background) == ("queued", True)

        async def ended() -> bool:
            nonlocal found
            found = await client.responses.retrieve(found.id)
            return found.status == "completed"

        await until_true(ended)
        assert found.output_text
        assert (await client.responses.cancel(found.id)).status == "completed"
        with pytest.raises(openai.BadRequestError):
            await client.responses.retrieve(found.id, stream=True)


async def test_its_events_are_followed_from_any_on() -> None:
    async with TestServer(make_simulator(pace=0.001)) as server, sdk(server) as client:
        stream = await created(client, stream=True)
        first = await anext(aiter(stream))
        await stream.close()  # it goes on
        whole = [each async for each in await client.responses.retrieve(first.response.id, stream=True)]
        assert [each.sequence_number for each in whole] == list(range(len(whole)))
        assert [each.type for each in whole[:3]] == ["response.created", "response.queued", "response.in_progress"]
        assert whole[-1].type == "response.completed"
        for after in (0, 3, len(whole) - 2):
            rest = await client.responses.retrieve(first.response.id, stream=True, starting_after=after)
            assert [each async for each in rest] == whole[after + 1 :]


async def test_it_is_cancelled() -> None:
    async with TestServer(make_simulator(pace=60)) as server, sdk(server) as client:
        found = await created(client, stream=True)
        first = await anext(aiter(found))
        await found.close()
        for _ in range(2):
            assert (await client.responses.cancel(first.response.id)).status == "cancelled"
        assert (await client.responses.retrieve(first.response.id)).status == "cancelled"


async def test_what_is_not_stored_does_not_run_in_the_background() -> None:
    async with TestServer(make_simulator()) as server, sdk(server) as client:
        with pytest.raises(openai.BadRequestError, match="store"):
            await created(client, store=False)
        with pytest.raises(openai.NotFoundError):
            await client.responses.retrieve("resp_unknown")
