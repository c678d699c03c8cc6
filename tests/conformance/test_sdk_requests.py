"""The SDKs' requests as the upstream receives them: attachments, instructions, stops, output formats."""

from __future__ import annotations

from typing import Any

import anthropic
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic import BaseModel

from conformance.judges import HI, ask_claude, ask_gpt, shown
from conformance.served import Served, Upstream, model_at

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PDF = "JVBERi0xLjQKJcOkw7zDtsOfCg=="
URL = "https://example.com/cat.png"


class City(BaseModel):
    """A structured answer."""

    city: str
    population: int


# Attachments


async def test_claude_sends_images_and_a_pdf(claude: AsyncAnthropic, served: Served, upstream: Upstream) -> None:
    content: list[Any] = [
        {"type": "text", "text": "What is this?"},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}},
        {"type": "image", "source": {"type": "url", "url": URL}},
        {
            "type": "document",
            "title": "report.pdf",
            "source": {"type": "base64", "media_type": "application/pdf", "data": PDF},
        },
    ]
    asked: list[Any] = [{"role": "user", "content": content}]
    await ask_claude(claude, streamed=True, model=model_at(upstream, "sim-text"), messages=asked)
    [message] = served.received(upstream)["messages"]
    if upstream == "messages":
        assert message["content"] == content
        return
    text, inline, linked, document = message["content"]
    assert text == {"type": "text", "text": "What is this?"}
    assert inline == {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}
    assert linked == {"type": "image_url", "image_url": {"url": URL}}
    assert document == {
        "type": "file",
        "file": {"filename": "report.pdf", "file_data": f"data:application/pdf;base64,{PDF}"},
    }


async def test_gpt_sends_images_and_a_pdf(gpt: AsyncOpenAI, served: Served, upstream: Upstream) -> None:
    content: list[Any] = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
        {"type": "image_url", "image_url": {"url": URL}},
        {"type": "file", "file": {"filename": "report.pdf", "file_data": f"data:application/pdf;base64,{PDF}"}},
    ]
    asked: list[Any] = [{"role": "user", "content": content}]
    await ask_gpt(gpt, streamed=True, model=model_at(upstream, "sim-text"), messages=asked)
    [message] = served.received(upstream)["messages"]
    if upstream == "chat":
        assert message["content"] == content
        return
    text, inline, linked, document = message["content"]
    assert text == {"type": "text", "text": "What is this?"}
    assert inline == {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    assert linked == {"type": "image", "source": {"type": "url", "url": URL}}
    assert document["title"] == "report.pdf"
    assert document["source"] == {"type": "base64", "media_type": "application/pdf", "data": PDF}


async def test_an_image_in_a_tool_result(claude: AsyncAnthropic, served: Served, upstream: Upstream) -> None:
    """Chat's tool messages hold text only: the picture follows in a user message after them (mapping §6.4)."""
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
    asked: list[Any] = [
        *HI,
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": [image]}]},
    ]
    tools: list[Any] = [{"name": "look", "input_schema": {"type": "object", "properties": {}}}]
    await ask_claude(claude, streamed=True, model=model_at(upstream, "sim-text"), messages=asked, tools=tools)
    sent = served.received(upstream)["messages"]
    if upstream == "chat":
        assert [message["role"] for message in sent] == ["user", "assistant", "tool", "user"]
        assert {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}} in sent[3]["content"]
    else:
        assert sent == asked


async def test_what_cannot_be_carried_is_refused_by_name(
    claude: AsyncAnthropic, gpt: AsyncOpenAI, served: Served
) -> None:
    """A 400 that names the client's own field, and nothing sent upstream (mapping §0)."""
    linked = {"type": "document", "source": {"type": "url", "url": "https://example.com/a.pdf"}}
    with pytest.raises(anthropic.BadRequestError, match=r"messages\[0\]\.content\[0\]") as by_claude:
        await ask_claude(claude, streamed=True, model="chat/sim-text", messages=[{"role": "user", "content": [linked]}])
    assert by_claude.value.type == "invalid_request_error"
    sound = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
    with pytest.raises(openai.BadRequestError, match=r"messages\[0\]\.content\[0\]") as by_gpt:
        await ask_gpt(gpt, streamed=True, model="messages/sim-text", messages=[{"role": "user", "content": [sound]}])
    assert by_gpt.value.type == "invalid_request_error"
    assert by_gpt.value.param is not None
    assert by_gpt.value.param.startswith("messages[0].content[0]")
    with pytest.raises(openai.BadRequestError, match=r"\bn\b"):
        await ask_gpt(gpt, streamed=False, model="messages/sim-text", n=2)
    assert len(served.requests) == 0


# Instructions


async def test_claude_sends_a_system_prompt(claude: AsyncAnthropic, served: Served, upstream: Upstream) -> None:
    await ask_claude(claude, streamed=True, model=model_at(upstream, "sim-text"), system="Be kind.")
    sent = served.received(upstream)
    if upstream == "chat":
        assert sent["messages"] == [{"role": "developer", "content": "Be kind."}, {"role": "user", "content": "Hi"}]
    else:
        assert (sent["system"], sent["messages"]) == ("Be kind.", HI)


async def test_T46_claude_sends_instructions_on_the_way(
    claude: AsyncAnthropic, served: Served, upstream: Upstream
) -> None:
    """T-46: `role: system` inside `messages` stays at its place."""
    blocks = [{"type": "text", "text": "Be kind."}, {"type": "text", "text": "Be brief."}]
    asked: list[Any] = [*HI, {"role": "system", "content": "The time is 9:30."}]
    reply = await ask_claude(claude, streamed=True, model=model_at(upstream, "sim-text"), system=blocks, messages=asked)
    assert shown(reply).startswith("You said: Hi")
    sent = served.received(upstream)
    if upstream == "chat":
        assert sent["messages"] == [
            {"role": "developer", "content": blocks},
            {"role": "user", "content": "Hi"},
            {"role": "developer", "content": "The time is 9:30."},
        ]
    else:
        assert (sent["system"], sent["messages"]) == (blocks, asked)


async def test_gpt_sends_instructions(gpt: AsyncOpenAI, served: Served, upstream: Upstream) -> None:
    """The leading ones are Messages' `system`, one block each; a later one stands where it stood (mapping §3)."""
    asked: list[Any] = [
        {"role": "system", "content": "Be kind."},
        {"role": "developer", "content": "Be brief."},
        *HI,
        {"role": "assistant", "content": "Hello."},
        {"role": "user", "content": "What now?"},
        {"role": "developer", "content": "The time is 9:30."},
    ]
    reply = await ask_gpt(gpt, streamed=True, model=model_at(upstream, "sim-text"), messages=asked)
    assert (reply.choices[0].message.content or "").startswith("You said: What now?")
    sent = served.received(upstream)
    if upstream == "chat":
        assert sent["messages"] == asked
        return
    # The model is not one that takes instructions in mid-conversation.
    texts = ("Be kind.", "Be brief.", "The time is 9:30.")
    assert sent["system"] == [{"type": "text", "text": text} for text in texts]
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user"]


# Stops


async def test_claude_stops_at_a_sequence(
    claude: AsyncAnthropic, served: Served, upstream: Upstream, streamed: bool
) -> None:
    """OpenAI never reports which stop matched, nor that one did (mapping §7.2)."""
    reply = await ask_claude(
        claude, streamed=streamed, model=model_at(upstream, "sim-stop"), stop_sequences=["###", "never"]
    )
    assert shown(reply) == "one, two, three"
    if upstream == "chat":
        assert served.received()["stop"] == ["###", "never"]
        assert (reply.stop_reason, reply.stop_sequence) == ("end_turn", None)
    else:
        assert (reply.stop_reason, reply.stop_sequence) == ("stop_sequence", "###")


async def test_claude_has_more_stops_than_chat_takes(claude: AsyncAnthropic, served: Served, streamed: bool) -> None:
    """Chat takes 4: the fifth is matched by the gateway, which then knows which it was."""
    stops = ["#1", "#2", "#3", "#4", "two"]
    reply = await ask_claude(claude, streamed=streamed, model="chat/sim-stop", stop_sequences=stops)
    assert served.received("chat")["stop"] == stops[:4]
    assert shown(reply) == "one, "
    assert (reply.stop_reason, reply.stop_sequence) == ("stop_sequence", "two")


async def test_gpt_stops_at_a_sequence(gpt: AsyncOpenAI, served: Served, upstream: Upstream, streamed: bool) -> None:
    reply = await ask_gpt(gpt, streamed=streamed, model=model_at(upstream, "sim-stop"), stop="###")
    assert (reply.choices[0].message.content, reply.choices[0].finish_reason) == ("one, two, three", "stop")
    sent = served.received(upstream)
    assert sent["stop" if upstream == "chat" else "stop_sequences"] == ("###" if upstream == "chat" else ["###"])


# Structured output


async def test_claude_asks_for_a_schema(
    claude: AsyncAnthropic, served: Served, upstream: Upstream, streamed: bool
) -> None:
    model = model_at(upstream, "sim-json")
    parsed: City | None
    if streamed:
        async with claude.messages.stream(model=model, max_tokens=256, messages=HI, output_format=City) as stream:
            parsed = (await stream.get_final_message()).parsed_output
    else:
        reply = await claude.messages.parse(model=model, max_tokens=256, messages=HI, output_format=City)
        parsed = reply.parsed_output
    assert parsed is not None
    assert (parsed.city, parsed.population) == ("Oslo", 1)
    sent = served.received(upstream)
    if upstream == "chat":
        asked = sent["response_format"]
        assert (asked["type"], asked["json_schema"]["strict"]) == ("json_schema", True)
        assert asked["json_schema"]["name"]
        assert set(asked["json_schema"]["schema"]["properties"]) == {"city", "population"}
    else:
        assert sent["output_config"]["format"]["type"] == "json_schema"


async def test_gpt_asks_for_a_schema(gpt: AsyncOpenAI, served: Served, upstream: Upstream, streamed: bool) -> None:
    model = model_at(upstream, "sim-json")
    if streamed:
        async with gpt.chat.completions.stream(model=model, messages=HI, response_format=City) as stream:
            parsed = (await stream.get_final_completion()).choices[0].message.parsed
    else:
        reply = await gpt.chat.completions.parse(model=model, messages=HI, response_format=City)
        parsed = reply.choices[0].message.parsed
    assert parsed is not None
    assert (parsed.city, parsed.population) == ("Oslo", 1)
    sent = served.received(upstream)
    if upstream == "messages":
        asked = sent["output_config"]["format"]
        assert set(asked) == {"type", "schema"}
        assert asked["type"] == "json_schema"
        assert set(asked["schema"]["properties"]) == {"city", "population"}
    else:
        assert sent["response_format"]["json_schema"]["name"] == "City"


async def test_losses_are_reported_in_a_header(claude: AsyncAnthropic, gpt: AsyncOpenAI) -> None:
    """A field without a place upstream is a row and not a secret (design: losses are data)."""
    of_claude = await claude.messages.with_raw_response.create(
        model="chat/sim-text", max_tokens=64, messages=HI, extra_body={"top_k": 5}
    )
    assert of_claude.headers["x-dragoman-loss"] == "top_k=1"
    of_gpt = await gpt.chat.completions.with_raw_response.create(
        model="messages/sim-json",
        messages=HI,
        response_format={"type": "json_object"},
        seed=7,
        max_completion_tokens=1000,
    )
    assert of_gpt.headers["x-dragoman-loss"] == "json_mode=1, sampling_unsupported=1"
    same = await gpt.chat.completions.with_raw_response.create(
        model="chat/sim-json", messages=HI, response_format={"type": "json_object"}, seed=7
    )
    assert "x-dragoman-loss" not in same.headers


async def test_request_ids_are_the_upstreams(claude: AsyncAnthropic, gpt: AsyncOpenAI, upstream: Upstream) -> None:
    """Both SDKs show the id under which the upstream can be asked about the request (mapping §10)."""
    message = await ask_claude(claude, streamed=False, model=model_at(upstream, "sim-text"))
    assert (message._request_id or "").startswith("req_sim")
    completion = await ask_gpt(gpt, streamed=False, model=model_at(upstream, "sim-text"))
    assert (completion._request_id or "").startswith("req_sim")
