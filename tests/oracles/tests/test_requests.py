"""The oracles of requests reject what the APIs reject."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from aiohttp.test_utils import TestServer

from conformance.served import serving
from dragoman_server.simulator import make_simulator
from oracles.simulator import strict_simulator
from support.paths import FIXTURES
from support.simulated import CHAT_TOOLS, MESSAGES_TOOLS, USER, VERSION, post


@pytest.fixture
async def server() -> AsyncIterator[TestServer]:
    server = TestServer(strict_simulator(slow=0.05, stall=5.0))
    async with server:
        yield server


@pytest.fixture
async def raw(server: TestServer) -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(base_url=server.make_url("/")) as session:
        yield session


PATHS: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"messages": USER}),
    ("/v1/messages", {"messages": USER, "max_tokens": 9}),
    ("/v1/responses", {"input": "Hi"}),
]


def call(name: str = "f", call_id: str = "call_1") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": "{}"}}


def answer(*calls: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(calls)}


def result(call_id: str = "call_1", content: Any = "ok") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content}


def function(**fields: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": "f", **fields}}


CHAT_REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("unknown key", {"top_k": 3}, "top_k"),
    ("leaked system", {"system": "x"}, "system"),
    ("orphan result", {"messages": [*USER, result()]}, "role 'tool'"),
    ("unknown id", {"messages": [answer(call()), result("call_2")]}, "call_2"),
    ("unanswered call", {"messages": [*USER, answer(call()), *USER]}, "call_1"),
    ("half answered", {"messages": [answer(call(), call("g", "call_2")), result(), *USER]}, "call_2"),
    ("no content", {"messages": [{"role": "user"}]}, "content"),
    ("empty parts", {"messages": [{"role": "user", "content": []}]}, "content"),
    ("empty tool_calls", {"messages": [{"role": "assistant", "content": "x", "tool_calls": []}, *USER]}, "tool_calls"),
    ("long call id", {"messages": [answer(call(call_id="c" * 41)), result("c" * 41)]}, "maximum length 40"),
    ("image in result", {"messages": [answer(call()), result(content=[{"type": "image_url"}])]}, "Supported values"),
    ("empty tools", {"tools": [], "tool_choice": "auto"}, "empty array"),
    ("choice without tools", {"tool_choice": "auto"}, "tool_choice"),
    ("dotted name", {"tools": [function(name="a.b")]}, "pattern"),
    ("long name", {"tools": [function(name="a" * 65)]}, "maximum length 64"),
    ("union root", {"tools": [function(parameters={"type": "object", "anyOf": []})]}, "top level"),
    ("open strict", {"tools": [function(strict=True, parameters={"type": "object"})]}, "additionalProperties"),
    ("foreign tool", {"tools": [{"name": "f", "input_schema": {}}]}, "type"),
    ("unknown choice", {"tools": CHAT_TOOLS, "tool_choice": {"type": "function", "function": {"name": "z"}}}, "'z'"),
    ("five stops", {"stop": ["a", "b", "c", "d", "e"]}, "maximum length 4"),
    ("both caps", {"max_tokens": 1, "max_completion_tokens": 1}, "max_completion_tokens"),
    ("options without stream", {"stream_options": {"include_usage": True}}, "stream_options"),
    ("hot", {"temperature": 2.5}, "temperature"),
    ("cache mark", {"messages": [{"role": "user", "content": [
        {"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]}]}, "cache_control"),
    ("flat format", {"response_format": {"type": "json_schema", "name": "x", "schema": {}}}, "json_schema"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "named"), [pytest.param(*case[1:], id=case[0]) for case in CHAT_REFUSED])
async def test_chat_refuses(raw: aiohttp.ClientSession, changed: dict[str, Any], named: str) -> None:
    status, body = await post(raw, "/v1/chat/completions", {"model": "sim-text", "messages": USER} | changed)
    assert status == 400
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert named in body["error"]["message"]


def use(call_id: str = "t1") -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "f", "input": {}}


def got(call_id: str = "t1") -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": "ok"}


def turns(*contents: Any) -> dict[str, Any]:
    """Messages that alternate, user first."""
    return {"messages": [{"role": ("user", "assistant")[n % 2], "content": c} for n, c in enumerate(contents)]}


TEXT = {"type": "text", "text": "x"}
MARKED = {**TEXT, "cache_control": {"type": "ephemeral"}}
REASONING = {"type": "thinking", "thinking": "hm"}
BUDGET = {"type": "enabled", "budget_tokens": 1024}
MESSAGES_REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("no cap", {"max_tokens": ...}, "max_tokens: Field required"),
    ("unknown key", {"frequency_penalty": 1}, "frequency_penalty: Extra inputs are not permitted"),
    ("beta field without its flag (T-44)", {"context_management": {}}, "context_management: Extra inputs"),
    ("unanswered call (T-41)", turns("x", [use()], "y"), "t1"),
    ("call at the end", turns("x", [use()]), "prefill"),
    ("late result", turns("x", [use()], [TEXT, got()]), "before other content"),
    ("orphan result", turns("x", "y", [got()]), "unexpected `tool_use_id`"),
    ("result twice", turns("x", [use()], [got(), got()]), "single result"),
    ("id twice", turns("x", [use()], [got()], [use()], [got()]), "unique"),
    ("empty text (T-40)", turns([{"type": "text", "text": ""}]), "non-empty"),
    ("blank text", turns([{"type": "text", "text": " \n"}]), "non-whitespace"),
    ("empty content", turns("x", "", "y"), "non-empty content"),
    ("empty system block", {"system": [{"type": "text", "text": ""}]}, "system: text content blocks"),
    ("unknown block", turns([{"type": "input_text", "text": "x"}]), "Input tag 'input_text'"),
    ("call by the user", turns([use()]), "Input tag 'tool_use'"),
    ("string input (T-06)", turns("x", [{**use(), "input": "{}"}], [got()]), "dictionary"),
    ("system first", {"messages": [{"role": "system", "content": "x"}, *USER]}, "must follow a user message"),
    ("system before user", {"messages": [*USER, {"role": "system", "content": "x"}, *USER]}, "system message"),
    ("five marks", turns([MARKED] * 5), "maximum of 4"),
    ("unsigned thought", turns("x", [REASONING], "y"), "signature: Field required"),
    ("empty signature", turns("x", [{**REASONING, "signature": ""}], "y"), "Invalid `signature`"),
    ("marked (T-45)", turns("x", [{**REASONING, "signature": "s", "cache_control": None}], "y"), "cache_control"),
    ("thoughtless calls", {**turns("x", [use()], [got()]), "thinking": BUDGET, "max_tokens": 2000}, "Expected"),
    ("dotted tool", {"tools": [{"name": "a.b", "input_schema": {"type": "object"}}]}, "pattern"),
    ("long tool", {"tools": [{"name": "a" * 129, "input_schema": {"type": "object"}}]}, "pattern"),
    ("nested tool", {"tools": CHAT_TOOLS}, "Input tag 'function'"),
    ("union root (T-43)", {"tools": [{"name": "a", "input_schema": {"type": "object", "anyOf": []}}]}, "top level"),
    ("twin tools", {"tools": MESSAGES_TOOLS * 2}, "unique"),
    ("choice without tools (T-21)", {"tool_choice": {"type": "auto"}}, "tool_choice"),
    ("choice as a word", {"tools": MESSAGES_TOOLS, "tool_choice": "auto"}, "tool_choice"),
    ("hot", {"temperature": 1.2}, "temperature"),
    ("large budget", {"thinking": BUDGET, "max_tokens": 1024}, "budget_tokens"),
    ("small budget", {"thinking": {**BUDGET, "budget_tokens": 100}, "max_tokens": 4000}, "1024"),
    ("forced while thinking", {"thinking": BUDGET, "max_tokens": 2000, "tools": MESSAGES_TOOLS,
                               "tool_choice": {"type": "any"}}, "tool_choice forces"),
    ("blank stop", {"stop_sequences": [" "]}, "non-whitespace"),
    ("foreign metadata", {"metadata": {"a": "b"}}, "metadata.a"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "named"), [pytest.param(*case[1:], id=case[0]) for case in MESSAGES_REFUSED])
async def test_messages_refuses(raw: aiohttp.ClientSession, changed: dict[str, Any], named: str) -> None:
    body = {"model": "sim-text", "max_tokens": 9, "messages": USER} | changed
    status, answer = await post(raw, "/v1/messages", {k: v for k, v in body.items() if v is not ...}, VERSION)
    assert status == 400
    assert answer["type"] == "error"
    assert answer["error"]["type"] == "invalid_request_error"
    assert named in answer["error"]["message"]


async def test_messages_versions(raw: aiohttp.ClientSession) -> None:
    body = {"model": "sim-text", "max_tokens": 9, "messages": USER}
    status, answer = await post(raw, "/v1/messages", body)
    assert (status, answer["error"]["message"]) == (400, "anthropic-version: header is required")
    newest = {"anthropic-version": "2026-10-21"}
    assert (await post(raw, "/v1/messages", body, newest))[0] == 200
    status, answer = await post(raw, "/v1/messages", {**body, "temperature": 1}, newest)
    assert (status, answer["error"]["message"]) == (400, "temperature: Extra inputs are not permitted")
    assert (await post(raw, "/v1/messages", {**body, "temperature": 1}, VERSION))[0] == 200
    flagged = VERSION | {"anthropic-beta": "context-management-2025-06-27"}
    assert (await post(raw, "/v1/messages", {**body, "context_management": {"edits": []}}, flagged))[0] == 200
    status, answer = await post(raw, "/v1/messages/count_tokens", body, VERSION)
    assert (status, answer["error"]["message"]) == (400, "max_tokens: Extra inputs are not permitted")


def item(kind: str = "function_call", **fields: Any) -> dict[str, Any]:
    return {"type": kind, "call_id": "call_1", **fields}


CALLED = item(name="f", arguments="{}")
ANSWERED = item("function_call_output", output="ok")
RESPONSES_REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("unknown key", {"stop": ["x"]}, "Unknown parameter: 'stop'"),
    ("chat's messages", {"messages": USER}, "Unknown parameter: 'messages'"),
    ("small cap", {"max_output_tokens": 5}, ">= 16"),
    ("usage option", {"stream": True, "stream_options": {"include_usage": True}}, "include_usage"),
    ("orphan output", {"input": [ANSWERED]}, "No tool call found"),
    ("unanswered call", {"input": [CALLED, *USER]}, "No tool output found"),
    ("output of another kind", {"input": [CALLED, {**ANSWERED, "type": "custom_tool_call_output"}]}, "No tool call"),
    ("foreign item id", {"input": [{**CALLED, "id": "toolu_1"}, ANSWERED]}, "begins with 'fc'"),
    ("chat's part", {"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]}, "Supported values"),
    ("user's part said", {"input": [{"role": "assistant", "content": [{"type": "input_text", "text": "x"}]}]},
     "Supported values"),
    ("reasoning without summary (T-17)", {"input": [{"type": "reasoning", "encrypted_content": "x"}]}, "summary"),
    ("plain reasoning (T-17)", {"input": [{"type": "reasoning", "summary": [], "content": [{}]}]}, "content"),
    ("twin ids (T-17)", {"input": [{"type": "reasoning", "id": "rs_1", "summary": []}] * 2}, "Duplicate item"),
    ("nested tool", {"tools": CHAT_TOOLS}, "tools[0].name"),
    ("long call id", {"input": [{**CALLED, "call_id": "c" * 65}, {**ANSWERED, "call_id": "c" * 65}]}, "64"),
    ("unknown previous", {"previous_response_id": "resp_0"}, "not found"),
    ("required nothing", {"tool_choice": "required"}, "tools"),
    ("nested format", {"text": {"format": {"type": "json_schema", "json_schema": {}}}}, "json_schema"),
    ("unknown include", {"include": ["thoughts"]}, "thoughts"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "named"), [pytest.param(*case[1:], id=case[0]) for case in RESPONSES_REFUSED])
async def test_responses_refuses(raw: aiohttp.ClientSession, changed: dict[str, Any], named: str) -> None:
    status, body = await post(raw, "/v1/responses", {"model": "sim-text", "input": "x"} | changed)
    assert status == 400
    assert named in body["error"]["message"]


async def test_a_body_that_is_no_object_is_refused(raw: aiohttp.ClientSession) -> None:
    for path, _ in PATHS:
        for sent in (b"{", b"[]", b""):
            async with raw.post(path, data=sent, headers=VERSION) as response:
                assert response.status == 400


def recorded_requests() -> list[Any]:
    cases = []
    for path in sorted(FIXTURES.glob("*.json")):
        fixture = json.loads(path.read_text())
        if fixture.get("request", {}).get("method") == "POST":
            cases.append(pytest.param(fixture["request"], id=path.stem))
    return cases


UNTAKEN = {
    # A history that ends on the assistant: the real API takes it for a prefill.
    "opencode-anthropic_midfail_3": "prefill",
}


async def test_what_real_clients_send_is_taken(raw: aiohttp.ClientSession) -> None:
    refused = {}
    for case in recorded_requests():
        request = case.values[0]
        headers = {k: v for k, v in request["headers"].items() if k.lower().startswith("anthropic-")}
        body = {**request["body"], "stream": False} if "count_tokens" not in request["path"] else request["body"]
        body.pop("stream_options", None)
        if body.get("previous_response_id"):
            continue  # Of a session that this simulator did not serve.
        status, answer = await post(raw, request["path"], body, headers)
        if status != 200:
            refused[str(case.id)] = answer["error"]["message"]
    assert set(refused) == set(UNTAKEN), refused
    assert all(word in refused[name] for name, word in UNTAKEN.items())


WRONG: list[Any] = [None, 1, "x", "", [], {}, [1], [{}], True, {"type": "x"}, {"type": ["a"]}]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Each member of a JSON value, as its holder and key."""
    keys: list[Any] = list(value) if isinstance(value, dict) else list(range(len(value)))
    found = [(value, key) for key in keys]
    for key in keys:
        if isinstance(value[key], (dict, list)):
            found += places(value[key])
    return found


async def test_a_misshapen_body_is_refused_or_answered_but_never_a_fault(raw: aiohttp.ClientSession) -> None:
    dice = random.Random(7)
    for case in recorded_requests():
        request = case.values[0]
        headers = {k: v for k, v in request["headers"].items() if k.lower().startswith("anthropic-")}
        for _ in range(4):
            body = {**copy.deepcopy(request["body"]), "stream": False}
            holder, key = dice.choice([*places(body["messages" if "messages" in body else "input"]), (body, "tools")])
            holder[key] = dice.choice(WRONG)
            status, _ = await post(raw, request["path"], body, headers)
            assert status in (200, 400), (case.id, key, holder[key])


MALFORMED: list[tuple[str, dict[str, Any]]] = [
    ("/v1/chat/completions", {"model": "m", "messages": USER, "no_such_field": 1}),
    ("/v1/messages", {"model": "m", "max_tokens": 9, "messages": [{"role": "tool", "content": "x"}]}),
    ("/v1/responses", {"model": "m", "input": "x", "tools": [{"type": "function"}]}),
    ("/v1/responses/input_tokens", {"input": "x", "no_such_field": 1}),
]


@pytest.mark.parametrize(("path", "body"), MALFORMED)
async def test_the_strict_simulator_rejects_malformed_requests(
    raw: aiohttp.ClientSession, path: str, body: dict[str, Any]
) -> None:
    assert (await post(raw, path, body, VERSION))[0] == 400


async def test_the_conformance_harness_rejects_malformed_requests() -> None:
    async with serving() as served, aiohttp.ClientSession(base_url=served.url) as session:
        body = {"model": "chat/sim-text", "messages": USER, "seed": "no number"}
        assert (await post(session, "/v1/chat/completions", body))[0] == 400
        assert served.received("chat")["seed"] == "no number"


async def test_without_a_check_what_can_be_read_is_accepted() -> None:
    async with (
        TestServer(make_simulator()) as server,
        aiohttp.ClientSession(base_url=server.make_url("/")) as raw,
    ):
        for path, body in ((path, body) for path, body in MALFORMED if path != "/v1/responses"):
            assert (await post(raw, path, body, VERSION))[0] == 200
        unreadable: list[Any] = [{"model": "m"}, {"model": "m", "messages": 1}, {"model": "m", "messages": [1]}, []]
        for wrong in unreadable:
            assert (await post(raw, "/v1/chat/completions", wrong))[0] == 400
