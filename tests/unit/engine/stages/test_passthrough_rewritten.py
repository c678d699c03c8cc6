"""An upstream that refuses what it does not know gets requests of its own dialect written again (flag `rewrite`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from dragoman import LossCode, direction, translate
from dragoman.dialects import CLIENT_DIALECTS, Dialect
from dragoman.knobs import Knobs
from dragoman.profiles.profile import builtin_profile
from dragoman.translate_request import Translation
from dragoman_server.config.provider import Provider
from dragoman_server.config.route import Route
from dragoman_server.config.schema import Config, Models
from dragoman_server.endpoints.explain import as_text, explanation
from support import samples
from support.gateways import gate
from support.paths import FIXTURES
from support.sockets import ScriptedServer, answer, stream

CHAT, MESSAGES, RESPONSES, *_ = Dialect
KIMI = builtin_profile("messages", "kimi")
CLAUDE_CODE = {
    "user-agent": "claude-cli/2.1.329 (external, cli)",
    "anthropic-version": "2023-06-01",
    "anthropic-beta": "claude-code-20250219,context-management-2025-06-27",
}


def rewritten(dialect: Dialect = MESSAGES, knobs: Knobs | None = None, **fields: Any) -> tuple[Translation, Any]:
    profile = KIMI if dialect is MESSAGES else builtin_profile(dialect, "compatible").replace({"rewrite": True})
    body = samples.dump(samples.request(dialect, **fields))
    translation = translate(direction(dialect, dialect), body, profile=profile, knobs=knobs or Knobs())
    return translation, json.loads(translation.body)


def test_T44_fields_that_go_with_a_beta_are_left_out() -> None:
    """`context_management: Extra inputs are not permitted`; the same with `defer_loading`, `eager_input_streaming`."""
    known: dict[str, Any] = samples.TOOL[MESSAGES]  # type: ignore[assignment]  # its values are of several kinds
    look = {**known, "defer_loading": True, "eager_input_streaming": True}
    edits = {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]}
    translation, body = rewritten(context_management=edits, tools=[look], safeguards=[{"type": "x"}])
    assert body["tools"] == [{"name": "look", "input_schema": {"type": "object"}}]
    assert not {"context_management", "safeguards"} & body.keys()
    assert translation.losses.counts == {
        LossCode.CONTEXT_MANAGEMENT: 1,
        LossCode.VENDOR_OPTION: 1,
        LossCode.TOOL_SEARCH: 1,
        LossCode.TOOL_OPTION: 1,
    }


def test_blocks_that_it_does_not_know_are_reported_in_words_or_left_out() -> None:
    history = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {}}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "c",
                    "content": [{"type": "tool_reference", "tool_name": "look"}],
                }
            ],
        },
    ]
    translation, body = rewritten(messages=history, tools=[samples.TOOL[MESSAGES]])
    (result,) = body["messages"][2]["content"]
    assert result["content"] == [{"type": "text", "text": "Tool loaded: look"}]
    assert translation.losses.counts == {LossCode.RESULT_SHAPE: 1}
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    translation, body = rewritten(tools=[samples.TOOL[MESSAGES], search])
    assert [tool["name"] for tool in body["tools"]] == ["look"]
    assert translation.losses.counts == {LossCode.HOSTED_TOOL: 1}


def test_late_instructions_move_and_ids_of_a_device_are_not_shown() -> None:
    stated = [{"role": "user", "content": "Hi"}, {"role": "system", "content": "be brief"}]
    translation, body = rewritten(messages=stated, metadata={"user_id": '{"device_id":"d"}'})
    assert body["system"] == "be brief"
    assert [message["role"] for message in body["messages"]] == ["user"]
    assert "device" not in body["metadata"]["user_id"]
    assert translation.losses.counts == {LossCode.SYSTEM_MOVED: 1}


def test_its_own_thinking_comes_back_to_it() -> None:
    """Unsigned and own-signed thinking must come back (messages §12)."""
    reasonings = [
        {"type": "thinking", "thinking": "a", "signature": ""},
        {"type": "thinking", "thinking": "b", "signature": "sig"},
        {"type": "text", "text": "so"},
    ]
    history = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": reasonings}] * 1
    _, body = rewritten(messages=[*history, {"role": "user", "content": "and"}])
    assert body["messages"][1]["content"] == reasonings


def test_what_passes_is_as_before() -> None:
    body = samples.dump(samples.request(MESSAGES, context_management={"edits": []}))
    passed = translate(direction("messages", "messages"), body, profile=builtin_profile("messages", "glm"))
    assert (passed.body, passed.passthrough, passed.rewritten) == (body, True, False)


@pytest.mark.parametrize("dialect", CLIENT_DIALECTS)
def test_the_reply_passes_unless_something_is_to_be_undone_in_it(dialect: Dialect) -> None:
    translation, _ = rewritten(dialect)
    assert translation.passthrough
    whole = samples.dump(samples.reply(dialect))
    assert translation.reply(whole) == whole
    translation, _ = rewritten(dialect, stream=True)
    # A Chat client that did not ask for the usage chunk must not be sent it.
    assert translation.passthrough is (dialect is not CHAT)


def test_a_renamed_tool_is_restored() -> None:
    name = "a.b"
    translation, body = rewritten(tools=[{"name": name, "input_schema": {"type": "object"}}], stream=True)
    sent = body["tools"][0]["name"]
    assert sent != name
    assert not translation.passthrough
    reply = samples.reply(MESSAGES)
    reply["content"] = [{"type": "tool_use", "id": "c", "name": sent, "input": {}}]
    assert json.loads(translation.reply(samples.dump(reply)))["content"][0]["name"] == name
    out = translation.stream_machine().feed(
        b"".join(samples.tool_stream(MESSAGES)).replace(b'"look"', b'"%b"' % sent.encode())
    )
    (call,) = samples.judge(MESSAGES, out).calls
    assert call.name == name


@pytest.mark.parametrize("path", sorted(FIXTURES.glob("claude-code_*.json")), ids=lambda path: path.stem)
def test_rewriting_again_changes_nothing_more(path: Path) -> None:
    recorded = json.loads(path.read_bytes())["request"]
    if recorded["path"] != "/v1/messages":
        pytest.skip("no conversation")
    way = direction("messages", "messages")
    once = translate(way, json.dumps(recorded["body"]).encode(), profile=KIMI)
    again = translate(way, once.body, profile=KIMI)
    assert again.body == once.body
    assert again.losses.counts == {}


@pytest.mark.parametrize("streamed", [True, False])
async def test_through_the_gateway_no_beta_goes_along(streamed: bool) -> None:
    script = stream(samples.text_stream(MESSAGES)) if streamed else answer(200, samples.dump(samples.reply(MESSAGES)))
    async with ScriptedServer(script) as server:
        provider = Provider("kimi", MESSAGES, server.url, profile=KIMI, profile_name="kimi")
        config = Config({"kimi": provider}, [Route("*", "kimi")], Models(unknown="pass"))
        async with gate(config) as entrance:
            fields = {"stream": streamed, "context_management": {"edits": []}}
            async with entrance.post(MESSAGES, headers=CLAUDE_CODE, query="?beta=true", **fields) as response:
                assert response.status == 200
                assert response.headers["x-dragoman-loss"] == "context_management=1"
                noted = await response.read()
    (received,) = server.requests
    assert received.head.startswith(b"POST /v1/messages HTTP/1.1")
    assert "anthropic-beta" not in received.headers
    assert b"context_management" not in received.body
    assert noted == (b"".join(samples.text_stream(MESSAGES)) if streamed else samples.dump(samples.reply(MESSAGES)))


def test_an_explanation_is_reported() -> None:
    translation, _ = rewritten(context_management={"edits": []})
    noted = explanation(translation, Provider("k", MESSAGES, "https://api.kimi.com/coding"))
    assert noted["passthrough"] is False
    assert "messages → messages: rewritten" in as_text(noted)
