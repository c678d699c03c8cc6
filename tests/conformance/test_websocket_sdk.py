"""The WebSocket of the vendor's own SDK: each event has the type of its schema, and a conversation goes on."""

from __future__ import annotations

from typing import Any

import openai
import pytest
from openai.resources.responses.responses import AsyncResponsesConnection
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponsesServerEvent,
)
from openai.types.responses.function_tool_param import FunctionToolParam
from openai.types.responses.responses_server_event import ResponseWsCompleted, ResponseWsError, ResponseWsFailed
from pydantic import TypeAdapter

from conformance.served import Served

SCHEMA: TypeAdapter[Any] = TypeAdapter(ResponsesServerEvent)
WEATHER: FunctionToolParam = {
    "type": "function",
    "name": "get_weather",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    "strict": False,
}


@pytest.fixture(params=["chat", "messages", "responses"], ids=lambda dialect: f"over-{dialect}")
def upstream(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def rest(connection: AsyncResponsesConnection, lane: str | None = None) -> list[ResponsesServerEvent]:
    """The events of one response. Each is checked against its type."""
    events = []
    async for event in connection:
        SCHEMA.validate_python(event.to_dict())
        assert event.stream_id == lane
        events.append(event)
        if isinstance(event, (ResponseWsCompleted, ResponseWsFailed, ResponseWsError)):
            break
    return events


async def test_a_tool_loop(served: Served, gpt: openai.AsyncOpenAI, upstream: str) -> None:
    async with gpt.responses.connect() as connection:
        await connection.response.create(
            model=f"{upstream}/sim-text", input=[], tools=[WEATHER], generate=False, store=False
        )
        warm = (await rest(connection))[-1]
        assert isinstance(warm, ResponseWsCompleted)
        await connection.response.create(
            model=f"{upstream}/sim-tools",
            input="Weather in Oslo?",
            tools=[WEATHER],
            store=False,
            previous_response_id=warm.response.id,
            stream_id="main",
        )
        called = (await rest(connection, "main"))[-1]
        assert isinstance(called, ResponseWsCompleted)
        (call,) = [item for item in called.response.output if isinstance(item, ResponseFunctionToolCall)]
        await connection.response.create(
            model=f"{upstream}/sim-text",
            input=[{"type": "function_call_output", "call_id": call.call_id, "output": "rain"}],
            tools=[WEATHER],
            store=False,
            previous_response_id=called.response.id,
            stream_id="main",
        )
        done = (await rest(connection, "main"))[-1]
        assert isinstance(done, ResponseWsCompleted)
        assert [type(item) for item in done.response.output] == [ResponseOutputMessage]
        assert done.response.output_text
    assert len(served.requests) == 2


async def test_an_error(served: Served, gpt: openai.AsyncOpenAI, upstream: str) -> None:
    async with gpt.responses.connect() as connection:
        await connection.response.create(model=f"{upstream}/sim-error-429", input="Hi", stream_id="a")
        (error,) = await rest(connection, "a")
        assert isinstance(error, ResponseWsError)
        assert error.status == 429
        assert error.error.headers is not None
        assert error.error.headers["retry-after"] == "7"
