"""A tool's output in a request that continues a response: its call must be there, as at the vendor."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest

from conformance.served import serving
from dragoman.dialects import Dialect
from support.stateful import stateful
from support.websockets import speaking

UPSTREAMS = pytest.mark.parametrize("upstream", list(Dialect))
STREAMED = pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
LABELS = {"function_call_output": "function call", "custom_tool_call_output": "custom tool call"}
KINDS = pytest.mark.parametrize("kind", LABELS)
TOOL: Any = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}


def output(call_id: str, kind: str = "function_call_output") -> Any:
    return {"type": kind, "call_id": call_id, "output": "rain"}


def refused(error: Any, kind: str = "function_call_output") -> None:
    """It is the vendor's error."""
    assert error["message"] == f"No tool call found for {LABELS[kind]} output with call_id call_lost."
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", "input", None)


@UPSTREAMS
@STREAMED
@KINDS
async def test_an_output_of_an_unknown_call_is_refused(upstream: Dialect, stream: bool, kind: str) -> None:
    async with stateful(upstream) as state:
        responses = state.sdk.responses
        first = await responses.create(model="sim-tools", input="Weather?", tools=[TOOL])
        asked = len(state.simulator_requests())
        conversation = (await state.sdk.conversations.create(items=[])).id
        (call,) = [item for item in first.output if item.type == "function_call"]
        for continued in ({"previous_response_id": first.id}, {"conversation": conversation}):
            more = {**continued, "store": stream, "stream": stream}
            with pytest.raises(openai.BadRequestError) as caught:
                await responses.create(model="sim-text", input=[output("call_lost", kind)], **more)
            refused(caught.value.body, kind)
        assert len(state.simulator_requests()) == asked
        # The response can still be continued, and a tool of it answered.
        second = await responses.create(
            model="sim-text", input=[output(call.call_id)], tools=[TOOL], previous_response_id=first.id
        )
        third = await responses.create(model="sim-text", input="And now?", previous_response_id=second.id)
        with pytest.raises(openai.BadRequestError, match="No tool call found"):
            await responses.create(model="sim-text", input=[output("call_lost")], previous_response_id=third.id)


@UPSTREAMS
async def test_a_client_that_sends_everything_is_repaired(upstream: Dialect) -> None:
    """It may have cut the call out, with its oldest items."""
    async with stateful(upstream) as state:
        given = [output("call_lost"), {"role": "user", "content": "And now?"}]
        reply = await state.sdk.responses.create(model="sim-text", input=given)
        assert reply.status == "completed"


@pytest.mark.parametrize("upstream", ["chat", "messages", "responses"])
@pytest.mark.parametrize("store", [False, True])
@KINDS
async def test_over_a_websocket(upstream: str, store: bool, kind: str) -> None:
    """With the history of the connection, and with that of the store."""
    async with serving() as served, speaking(served.url) as client:
        tools, text = f"{upstream}/sim-tools", f"{upstream}/sim-text"
        first = (await client.turn(model=tools, input="Weather?", tools=[TOOL], store=store))[-1]["response"]
        (call,) = [item for item in first["output"] if item["type"] == "function_call"]
        await client.create(
            model=text, input=[output(call["call_id"])], tools=[TOOL], previous_response_id=first["id"], store=store
        )
        second = (await client.rest())[-1]["response"]
        assert second["status"] == "completed"
        sent = len(served.requests)
        (error,) = await client.turn(
            model=text, input=[output("call_lost", kind)], previous_response_id=second["id"], store=store
        )
        assert (error["type"], error["status"]) == ("error", 400)
        refused(error["error"], kind)
        assert len(served.requests) == sent


async def test_a_reference_to_the_call_is_one() -> None:
    async with stateful(Dialect.CHAT) as state:
        responses = state.sdk.responses
        first = await responses.create(model="sim-tools", input="Weather?", tools=[TOOL])
        (call,) = [item for item in first.output if item.type == "function_call"]
        given: Any = [{"type": "item_reference", "id": call.id}, output(call.call_id)]
        other = await responses.create(model="sim-text", input="Hello")
        await responses.create(model="sim-text", input=given, previous_response_id=other.id, tools=[TOOL])
        assert "rain" in json.dumps(state.sent())


async def test_tokens_and_explanations_of_it_are_refused_too() -> None:
    async with stateful(Dialect.CHAT) as state:
        first = await state.sdk.responses.create(model="sim-text", input="Hello")
        body = {"model": "sim-text", "input": [output("call_lost")], "previous_response_id": first.id}
        for path in ("responses/input_tokens", "dragoman/explain?from=responses"):
            async with state.gate.session.post(f"{state.gate.url}/v1/{path}", json=body) as reply:
                assert reply.status == 400
                refused((await reply.json())["error"])
