"""The requests of a Responses client as the upstream receives them, and the fields that its reply repeats."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from conformance.rounds import DIALECTS
from conformance.samples import PNG
from conformance.served import Served, model_at
from conformance.speaker_responses import RESPONSES_TOOLS

PDF = "JVBERi0xLjQKJcOkw7zDtsOfCg=="
PICTURE = f"data:image/png;base64,{PNG}"
over_each = pytest.mark.parametrize("upstream", DIALECTS, ids=lambda upstream: f"over-{upstream}")
across = pytest.mark.parametrize("upstream", ["chat", "messages"], ids=lambda upstream: f"over-{upstream}")


@over_each
async def test_instructions_and_a_pdf(gpt: AsyncOpenAI, served: Served, upstream: str) -> None:
    """`instructions` come first, then the leading developer items, each one for itself (mapping §3)."""
    data = f"data:application/pdf;base64,{PDF}"
    items: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "input_file", "filename": "report.pdf", "file_data": data}]},
    ]
    await gpt.responses.create(model=model_at(upstream, "sim-text"), instructions="Be kind.", input=items)
    sent = served.received()
    match upstream:
        case "chat":
            kind, brief, user = sent["messages"]
            assert (kind["role"], kind["content"]) == ("developer", "Be kind.")
            assert (brief["role"], brief["content"]) == ("developer", "Be brief.")
            assert user["content"] == [{"type": "file", "file": {"filename": "report.pdf", "file_data": data}}]
        case "messages":
            assert [block["text"] for block in sent["system"]] == ["Be kind.", "Be brief."]
            [document] = sent["messages"][0]["content"]
            assert document["title"] == "report.pdf"
            assert document["source"] == {"type": "base64", "media_type": "application/pdf", "data": PDF}
        case _:
            assert (sent["instructions"], sent["input"]) == ("Be kind.", items)


@over_each
async def test_an_image_in_a_tool_result(gpt: AsyncOpenAI, served: Served, upstream: str) -> None:
    """Chat's tool messages hold text only: the picture follows in a user message after them (mapping §6.4)."""
    output: list[Any] = [{"type": "input_image", "detail": "auto", "image_url": PICTURE}]
    items: list[Any] = [
        {"role": "user", "content": "Hi"},
        {"type": "function_call", "call_id": "call_1", "name": "get_time", "arguments": '{"tz":"CET"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": output},
    ]
    await gpt.responses.create(model=model_at(upstream, "sim-text"), input=items, tools=RESPONSES_TOOLS)
    sent = served.received()
    match upstream:
        case "chat":
            assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "tool", "user"]
            parts = sent["messages"][3]["content"]
            assert [part["image_url"]["url"] for part in parts if part["type"] == "image_url"] == [PICTURE]
        case "messages":
            [result] = sent["messages"][2]["content"]
            assert result["tool_use_id"] == "call_1"
            assert [part["source"]["data"] for part in result["content"]] == [PNG]
        case _:
            assert sent["input"] == items


@over_each
async def test_the_reply_repeats_the_request(gpt: AsyncOpenAI, served: Served, upstream: str, streamed: bool) -> None:
    """Fields that were not sent upstream are repeated too: `metadata` has no place in Messages (mapping §7.4, §9.1)."""
    asked: dict[str, Any] = {
        "model": model_at(upstream, "sim-text"),
        "input": "Hi",
        "instructions": "Be kind.",
        "metadata": {"run": "7"},
        "max_output_tokens": 99,
        "tools": RESPONSES_TOOLS,
        "tool_choice": "auto",
        "parallel_tool_calls": False,
        "store": False,
    }
    if streamed:
        async with gpt.responses.stream(**asked) as stream:
            reply: Any = await stream.get_final_response()
    else:
        reply = await gpt.responses.create(**asked)
    noted = reply.to_dict(warnings=False)
    assert {name: noted[name] for name in asked if name not in ("input", "tools")} == {
        name: value for name, value in asked.items() if name not in ("input", "tools")
    }
    assert [tool["name"] for tool in noted["tools"]] == [tool["name"] for tool in RESPONSES_TOOLS]
    assert noted["previous_response_id"] is None


@across
async def test_what_cannot_be_carried_is_refused_by_name(gpt: AsyncOpenAI, served: Served, upstream: str) -> None:
    """A 400 that names the client's own field, and nothing sent upstream (mapping §0)."""
    items: list[Any] = [{"role": "user", "content": "Hi"}, {"type": "item_reference", "id": "msg_1"}]
    with pytest.raises(openai.BadRequestError) as caught:
        await gpt.responses.create(model=model_at(upstream, "sim-text"), input=items)
    assert (caught.value.type, caught.value.param) == ("invalid_request_error", "input[1].id")
    with pytest.raises(openai.BadRequestError) as caught:
        await gpt.responses.create(model=model_at(upstream, "sim-text"), input="Hi", prompt={"id": "pmpt_1"})
    assert caught.value.param == "prompt"
    assert len(served.requests) == 0


@over_each
async def test_the_synchronous_client(served: Served, upstream: str) -> None:
    """Another transport, another decoder, the same gateway."""

    def run() -> Any:
        with (
            openai.OpenAI(base_url=f"{served.url}/v1", api_key="key", max_retries=0) as client,
            client.responses.stream(
                model=model_at(upstream, "sim-parallel"), input="Hi", tools=RESPONSES_TOOLS
            ) as stream,
        ):
            return stream.get_final_response()

    final = await asyncio.to_thread(run)
    assert final.output_text == "Looking up both."
    calls = [item for item in final.output if item.type == "function_call"]
    assert [call.arguments for call in calls] == ['{"city":"Oslo"}', '{"tz":"CET"}']
    assert (final.status, final.usage.input_tokens) == ("completed", 12)
