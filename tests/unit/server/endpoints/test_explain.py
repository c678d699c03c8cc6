"""The explanation of a request, and the inference of a body's dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import builtin_profile, direction, translate
from dragoman.dialects import Dialect
from dragoman.errors import ClientRequestError
from dragoman.knobs import Knobs
from dragoman.translate_request import Translation
from dragoman.wire.json_codec import dumps
from dragoman_server.config.provider import Provider
from dragoman_server.endpoints.explain import as_text, explanation, guess_client
from dragoman_server.receipt import Receipt
from support.paths import ROOT

CHAT, MESSAGES, RESPONSES, *_ = Dialect
PROMPT = [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    ("body", "dialect"),
    [
        ({"input": "Hi"}, RESPONSES),
        ({"input": [], "max_output_tokens": 5, "tools": []}, RESPONSES),
        ({"messages": PROMPT}, CHAT),
        ({"messages": PROMPT, "max_completion_tokens": 9}, CHAT),
        ({"messages": PROMPT, "max_tokens": 9, "stream_options": {}}, CHAT),
        ({"messages": PROMPT, "max_tokens": 9, "tools": [{"type": "function", "function": {}}]}, CHAT),
        ({"messages": [{"role": "system", "content": "x"}, *PROMPT], "max_tokens": 9}, CHAT),
        ({"messages": [*PROMPT, {"role": "tool", "tool_call_id": "c", "content": "x"}], "max_tokens": 9}, CHAT),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}], "max_tokens": 9}, CHAT),
        ({"messages": PROMPT, "max_tokens": 9, "system": "x"}, MESSAGES),
        ({"messages": PROMPT, "max_tokens": 9, "tools": [{"name": "t", "input_schema": {}}]}, MESSAGES),
        ({"messages": [{"role": "user", "content": [{"type": "tool_result"}]}], "max_tokens": 9}, MESSAGES),
    ],
)
def test_the_dialect_is_inferred_from_the_body(body: dict[str, Any], dialect: Dialect) -> None:
    assert guess_client(body) is dialect


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"prompt": "Hi"},
        {"messages": PROMPT, "max_tokens": 9},
        {"messages": PROMPT, "max_tokens": 9, "top_k": 3, "thinking": {"type": "enabled"}},
        {"messages": PROMPT, "max_tokens": 9, "system": "x", "n": 1},
        {"messages": PROMPT, "input": "Hi"},
        {"messages": [7, {"role": [], "content": [None, {"type": {}}]}], "max_tokens": 9, "tools": "x"},
    ],
)
def test_an_ambiguous_body_is_rejected(body: dict[str, Any]) -> None:
    with pytest.raises(ClientRequestError, match="give from=chat or from=messages or from=responses"):
        guess_client(body)


def translated(client: Dialect, upstream: Dialect, body: dict[str, Any], **more: Any) -> Translation:
    return translate(direction(client, upstream), json.dumps(body).encode(), **more)


def test_an_explanation_holds_the_exact_body_and_all_that_was_done() -> None:
    body = {
        "model": "claude-x",
        "max_tokens": 9,
        "top_k": 3,
        "stream": True,
        "messages": PROMPT,
        "stop_sequences": ["a"],
    }
    profile = builtin_profile("chat", "compatible").replace({"stop_limit": 0})
    knobs = Knobs(block_order="sequential")
    sent = translated(MESSAGES, CHAT, body, upstream_model="qwen3", profile=profile, knobs=knobs)
    provider = Provider("local", CHAT, "http://127.0.0.1:9000/v1?key=secret&api-version=7", "hidden")  # type: ignore[arg-type]
    raw = dumps(explanation(sent, provider, "a guess"))
    assert sent.body in raw
    assert b"secret" not in raw
    assert b"hidden" not in raw
    explained = json.loads(raw)
    assert explained.pop("body") == json.loads(sent.body)
    assert explained == {
        "object": "dragoman.explanation",
        "direction": "messages→chat",
        "client": "messages",
        "upstream": "chat",
        "passthrough": False,
        "provider": "local",
        "profile": "compatible",
        "client_profile": None,
        "path": "chat/completions",
        "url": "http://127.0.0.1:9000/v1/chat/completions",
        "model": "claude-x",
        "upstream_model": "qwen3",
        "stream": True,
        "losses": [{"code": "top_k", "path": "top_k", "done": "dropped", "meaning": "top_k was not sent"}],
        "losses_total": 1,
        "renames": {},
        "tools": {},
        "stages": ["Parser", "ChatReader", "StopCutter", "MessagesWriter", "OutputValidator"],
        "stops": ["a"],
        "knobs": {"block_order": "sequential"},
        "reservation": None,
        "warning": "a guess",
    }


def test_an_explanation_is_always_the_same() -> None:
    body = {"model": "m", "input": "Hi", "tools": [{"type": "custom", "name": "patch", "description": "Patch"}]}
    texts = {dumps(explanation(translated(RESPONSES, CHAT, body))) for _ in range(3)}
    assert len(texts) == 1


def test_passthrough_explains_the_clients_own_bytes() -> None:
    raw = b'{ "model" : "m",  "input": "Hi" }'
    explained = explanation(translate(direction(RESPONSES, RESPONSES), raw))
    assert explained["passthrough"] is True
    assert explained["provider"] is None
    assert explained["url"] is None
    assert raw in dumps(explained)
    assert explained["stages"] == ["Passthrough"]


def test_the_text_has_the_same_facts() -> None:
    inner = [{"type": "function", "name": "add", "parameters": {"type": "object"}, "strict": False}]
    tools = [
        {"type": "namespace", "name": "notes", "description": "Notes", "tools": inner},
        {"type": "custom", "name": "patch", "description": "Patch"},
    ]
    body = {"model": "gpt-x", "input": "Grüße", "tools": tools, "stream": True}
    profile = builtin_profile("chat", "compatible")
    text = as_text(explanation(translated(RESPONSES, CHAT, body, upstream_model="qwen3", profile=profile)))
    lines = text.splitlines()
    assert lines[:2] == [
        "responses → chat: translated",
        "POST …/chat/completions, model qwen3 (asked for as gpt-x), streamed",
    ]
    assert '"content": "Grüße"' in text
    assert "tool notes.add is sent as notes__add" in lines
    assert "tool patch comes back to the client as a custom tool" in lines
    assert any(line.startswith("loss custom_wrapped at tools[1]: ") for line in lines)
    assert lines[-1].startswith("the reply: Parser → ChatReader → ToolRestorer → ")
    plain = as_text(explanation(translated(CHAT, CHAT, {"model": "m", "messages": PROMPT})))
    assert "bytes pass through" in plain
    assert "no losses" in plain.splitlines()


def test_half_a_surrogate_pair_can_be_explained() -> None:
    raw = b'{"model":"m","messages":[{"role":"user","content":"\\ud83d"}]}'
    explained = explanation(translate(direction(CHAT, MESSAGES), raw))
    assert json.loads(dumps(explained))["body"]["messages"][0]["content"] == "\ud83d"
    assert "\ud83d" in as_text(explained)


def test_the_reference_page_names_every_field() -> None:
    page = (ROOT / "docs/reference/http-api.md").read_text("utf-8")
    receipts, explains = page.partition("## Explain")[::2]
    explained = explanation(translated(CHAT, MESSAGES, {"model": "m", "messages": PROMPT}))
    assert [name for name in explained if f"`{name}`" not in explains] == []
    facts = json.loads(Receipt("req_1", CHAT, 0).json())
    assert [name for name in facts if f"`{name}`" not in receipts] == []
