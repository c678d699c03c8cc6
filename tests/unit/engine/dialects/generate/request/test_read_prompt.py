"""The prompt of a request that was written, for estimates of its tokens."""

from __future__ import annotations

from typing import Any

from dragoman.canonical.parts import Document, Image, Part, Reasoning, Text, ToolCall, ToolResult
from dragoman.dialects import Dialect
from dragoman.dialects.count_tokens import TokenCounter
from dragoman.dialects.generate.request.read_prompt import read_prompt
from dragoman.wire.json_codec import dumps
from support.generate import send

PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TOOL = {"name": "look", "description": "Looks.", "input_schema": SCHEMA}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PNG}}
CALL = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {"city": "Oslo"}}


def test_everything_that_is_sent_is_read() -> None:
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": [{"type": "text", "text": "Rain."}, IMAGE]}
    link = {"type": "document", "source": {"type": "url", "url": "https://x.example/a.pdf"}}
    pdf = {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjc="}}
    messages = [
        {"role": "user", "content": [{"type": "text", "text": "Where?"}, IMAGE, link, pdf]},
        {"role": "assistant", "content": [{"type": "text", "text": "Here."}, CALL]},
        {"role": "user", "content": [result]},
    ]
    form = {"format": {"type": "json_schema", "schema": SCHEMA}}
    sent = send("messages", {"system": "Be exact.", "tools": [TOOL], "messages": messages, "output_config": form})
    prompt = read_prompt(sent.body)
    parts: list[Part] = [part for turn in prompt.turns for part in turn.parts]
    assert [turn.role for turn in prompt.turns] == ["instruction", "user", "assistant", "user"]
    assert [type(part) for part in parts] == [Text, Text, Image, Document, Document, Text, ToolCall, ToolResult]
    (tool,) = prompt.tools
    assert (tool.name, tool.description, tool.schema) == ("look", "Looks.", SCHEMA)
    assert prompt.format is not None
    assert prompt.format.schema == SCHEMA
    (call,) = (part for part in parts if type(part) is ToolCall)
    assert (call.name, call.arguments) == ("look", '{"city":"Oslo"}')
    (held,) = (part for part in parts if type(part) is ToolResult)
    assert [type(part) for part in held.content] == [Text, Image]


def test_a_signature_is_counted_and_what_stands_for_one_is_not() -> None:
    def parts(signature: str) -> list[Part]:
        part = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": signature}
        return read_prompt({"contents": [{"role": "model", "parts": [part]}]}).turns[1].parts

    assert [type(part) for part in parts("c2lnbmF0dXJl")] == [Reasoning, ToolCall]
    assert [type(part) for part in parts("skip_thought_signature_validator")] == [ToolCall]


def test_what_a_provider_s_settings_made_of_it_is_left_out() -> None:
    wrong: list[dict[str, Any]] = [
        {},
        {"contents": 1, "tools": {}, "generationConfig": [], "systemInstruction": 5},
        {"contents": [5, {"parts": 3}, {"parts": [7, {"inlineData": 1}, {"functionResponse": {"response": 2}}]}]},
    ]
    for body in wrong:
        assert TokenCounter().count(Dialect.GENERATE, dumps(body), "m").tokens > 0


def test_a_picture_costs_as_one_and_not_as_its_characters() -> None:
    part = {"inlineData": {"mimeType": "image/png", "data": PNG + "A" * 1_000_000}}
    body = {"contents": [{"role": "user", "parts": [part]}]}
    assert TokenCounter().count(Dialect.GENERATE, dumps(body), "m").tokens < 2_000
