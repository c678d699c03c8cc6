"""Client profiles through the gateway: replies, errors, receipts and explanations of known clients."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.dialects import Dialect
from support import samples
from support.gateways import Gate, config_for, gate
from support.sockets import ScriptedServer, answer, stream

CHAT, MESSAGES, RESPONSES, *_ = Dialect
CLAUDE_CODE = {"user-agent": "claude-cli/2.1.329 (external, cli)", "x-app": "cli"}
CODEX = {"user-agent": "codex_exec/0.169.0 (Debian 12.0.0; x86_64)", "originator": "codex_exec"}
TOO_LONG = samples.dump({"error": {"message": "prompt too long", "code": "context_length_exceeded", "type": "x"}})
OVERLOADED = b'data: {"error":{"message":"busy","type":"server_error","code":"server_is_overloaded"}}\n\n'
THINKING = [
    samples.chat_frame({"role": "assistant", "content": ""}),
    samples.chat_frame({"reasoning_content": "hm"}),
    samples.chat_frame({"content": "so"}),
    samples.chat_frame({}, "stop"),
    b"data: [DONE]\n\n",
]


async def noted(entrance: Gate, path: str, **asked: Any) -> dict[str, Any]:
    """The JSON of one of the gateway's own endpoints."""
    method = entrance.session.post if "data" in asked else entrance.session.get
    async with method(f"{entrance.url}/v1/dragoman/{path}", **asked) as response:
        facts: dict[str, Any] = await response.json()
        assert response.status == 200, facts
        return facts


@pytest.mark.parametrize(
    ("headers", "profile", "knobs", "server", "shown"),
    [
        (CODEX, "codex", {}, {}, "reasoning_summary_text"),
        ({"user-agent": "OpenAI/Python 3.52.0"}, None, {}, {}, "reasoning_text"),
        (CODEX, "codex", {"reasoning_surface": "reasoning_text"}, {}, "reasoning_text"),
        (CODEX, None, {}, {"client_profiles": False}, "reasoning_text"),
    ],
)
async def test_codex_is_shown_reasoning_as_a_summary(
    headers: dict[str, str], profile: str | None, knobs: Any, server: Any, shown: str
) -> None:
    """Codex displays summaries only (mapping §5.3); what the operator set for a route goes before that."""
    async with ScriptedServer(stream(THINKING)) as upstream:
        config = config_for(upstream.url, CHAT, knobs=knobs, **server)
        async with gate(config) as entrance:
            async with entrance.post(RESPONSES, stream=True, headers=headers) as response:
                stated = (await response.read()).decode()
                request_id = response.headers["x-dragoman-request-id"]
            receipt = await noted(entrance, f"receipts/{request_id}")
    assert f"event: response.{shown}.delta" in stated
    assert receipt["client_profile"] == profile


@pytest.mark.parametrize(
    ("headers", "server", "code"),
    [
        (CODEX, {}, "server_is_overloaded"),
        ({"user-agent": "OpenAI/Python 3.52.0"}, {}, "server_error"),
        (CODEX, {"client_profiles": False}, "server_error"),
    ],
)
async def test_only_codex_gets_codes_outside_of_the_schema(headers: dict[str, str], server: Any, code: str) -> None:
    """A strictly typed client fails to parse them; Codex retries on them (mapping §10.3)."""
    frames = [samples.chat_frame({"content": "so"}), OVERLOADED]
    async with (
        ScriptedServer(stream(frames)) as upstream,
        gate(config_for(upstream.url, CHAT, **server)) as entrance,
        entrance.post(RESPONSES, stream=True, headers=headers) as response,
    ):
        stated = await response.read()
    failed = json.loads(stated.rsplit(b"data: ", 1)[1])
    assert (failed["type"], failed["response"]["error"]["code"]) == ("response.failed", code)


async def test_claude_code_is_spared_nulls_and_shown_how_long_its_prompt_is() -> None:
    call = {"id": "c", "type": "function", "function": {"name": "look", "arguments": '{"a":null,"b":1}'}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    reply = {"id": "x", "model": "m", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": {"type": "integer"}}}
    tools = [{"name": "look", "input_schema": schema}]
    script = answer(200, samples.dump(reply))
    async with ScriptedServer(script) as upstream, gate(config_for(upstream.url, CHAT)) as entrance:
        async with entrance.post(MESSAGES, tools=tools, headers=CLAUDE_CODE) as response:
            (block,) = (await response.json())["content"]
        async with entrance.post(MESSAGES, tools=tools) as response:
            (plain,) = (await response.json())["content"]
    assert (block["input"], plain["input"]) == ({"b": 1}, {"a": None, "b": 1})
    async with ScriptedServer(answer(400, TOO_LONG)) as upstream, gate(config_for(upstream.url, CHAT)) as entrance:
        status, error, _ = await entrance.refusal(MESSAGES, headers=CLAUDE_CODE)
        _, plainly, _ = await entrance.refusal(MESSAGES)
    asked, _, rest = error.message.removeprefix("prompt is too long: ").partition(" tokens > ")
    assert (status, error.type) == (400, "invalid_request_error")
    assert int(rest.partition(" maximum")[0]) == int(asked) - max(int(asked) // 10, 1)
    assert "prompt too long" in error.message
    assert " tokens > " not in plainly.message


async def test_a_stream_that_begins_with_an_overflow_is_reported_alike() -> None:
    frame = b"data: " + TOO_LONG + b"\n\n"
    async with ScriptedServer(stream([frame])) as upstream, gate(config_for(upstream.url, CHAT)) as entrance:
        status, error, _ = await entrance.refusal(MESSAGES, stream=True, headers=CLAUDE_CODE)
    assert status == 400
    assert error.message.startswith("prompt is too long: ")
    assert " tokens > " in error.message


async def test_an_explanation_is_for_the_client_or_the_named_one() -> None:
    async with gate(config_for("http://127.0.0.1:9/v1", CHAT)) as entrance:
        body = samples.dump(samples.request(RESPONSES))
        asked = await noted(entrance, "explain", data=body, headers=CODEX)
        named = await noted(entrance, "explain?client=codex", data=body)
        no_one = await noted(entrance, "explain", data=body)
        in_general = await noted(entrance, "explain?client=codex&to=chat", data=body)
        async with entrance.session.post(f"{entrance.url}/v1/dragoman/explain?client=codec", data=body) as response:
            assert response.status == 400
            assert "claude-code, codex" in (await response.json())["error"]["message"]
    for facts in (asked, named, in_general):
        assert (facts["client_profile"], facts["knobs"]) == (
            "codex",
            {"reasoning_surface": "summary", "error_codes": "codex", "heartbeats": "event"},
        )
    assert (no_one["client_profile"], no_one["knobs"], no_one["profile"]) == (None, {}, "compatible")
