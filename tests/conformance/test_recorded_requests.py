"""Requests of real clients, posted verbatim: across and passed through, to a strict upstream, judged byte by byte.

Claude Code, Codex, opencode, Qwen Code, the Agents SDKs, LangChain, Pydantic AI, the AI SDK and others sent them.
Any model name leads to one script here, so the reply's model also shows that the client's own name comes back.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio

from conformance.rounds import DIALECTS, UPSTREAMS
from conformance.served import PATHS, Served, everything_to, path_at, serving
from oracles.grammar import Accumulated, chat, messages, responses

SCRIPT = "sim-tools"
PREFIX = {"chat": "chatcmpl-", "messages": "msg_", "responses": "resp_"}
_FORWARDED = ("anthropic-version", "anthropic-beta")

Tool = tuple[str, str | None, str]
"""Kind, namespace and name."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """One recorded request; `client` is the dialect it is in."""

    name: str
    client: str
    query: str
    headers: dict[str, str]
    body: Any


def _load() -> list[Recorded]:
    found = []
    for path in sorted((Path(__file__).parents[1] / "fixtures").glob("*.json")):
        recorded = json.loads(path.read_text("utf-8"))
        client = {"chat": "chat", "anthropic": "messages", "responses": "responses"}[recorded["dialect"]]
        request = recorded["request"]
        # Counted tokens have an endpoint of their own, and a WebSocket's frames are no bodies.
        if request["path"] != PATHS[client] or request["body"].get("type") == "response.create":
            continue
        headers = {name.lower(): value for name, value in request["headers"].items()}
        kept = {name: value for name, value in headers.items() if name in _FORWARDED or name.startswith("x-codex")}
        kept["user-agent"] = headers["user-agent"]
        found.append(Recorded(path.stem, client, request["query"], kept, request["body"]))
    return found


pytestmark = pytest.mark.asyncio(loop_scope="module")
ALL = _load()
RECORDED = [recorded for recorded in ALL if "previous_response_id" not in recorded.body]
by_name = pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded.name)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def live() -> AsyncIterator[dict[str, Served]]:
    """By dialect of its upstream: a gateway that leads any model name to the script."""
    async with AsyncExitStack() as stack:
        yield {
            upstream: await stack.enter_async_context(serving(everything_to(upstream, SCRIPT)))
            for upstream in UPSTREAMS
        }


async def post(served: Served, recorded: Recorded) -> tuple[int, str, bytes]:
    """Status, content type and body of the answer."""
    url = f"{served.url}{PATHS[recorded.client]}{'?' * bool(recorded.query)}{recorded.query}"
    headers = {"content-type": "application/json", **recorded.headers}
    body = json.dumps(recorded.body).encode()
    async with aiohttp.ClientSession() as http, http.post(url, data=body, headers=headers) as response:
        return response.status, response.content_type, await response.read()


async def play(served: Served, recorded: Recorded) -> Accumulated:
    """Post it and judge the stream that comes back."""
    served.requests.clear()
    status, content_type, answer = await post(served, recorded)
    assert status == 200, answer[:500]
    assert content_type == "text/event-stream"
    assert [request.status for request in served.requests] == [200]
    if recorded.client == "messages":
        return messages.check(answer)
    if recorded.client == "responses":
        return responses.check(answer)
    wants_usage = bool((recorded.body.get("stream_options") or {}).get("include_usage"))
    return chat.check(answer, include_usage=wants_usage, usage_known=wants_usage)


def _tools(listed: list[Any], namespace: str | None = None) -> set[Tool]:
    found: set[Tool] = set()
    for tool in listed:
        kind = tool.get("type") or "function"
        if kind == "namespace":
            found |= _tools(tool["tools"], tool["name"])
        elif kind == "custom" and "input_schema" not in tool:
            found.add(("custom", namespace, tool["name"]))
        elif kind in ("function", "custom"):
            found.add(("function", namespace, (tool.get("function") or tool)["name"]))
    return found


def offered(recorded: Recorded) -> set[Tool]:
    """The tools that the client can run; the script calls one of its own if the request has no tools."""
    tools = _tools(recorded.body.get("tools") or [])
    for item in history(recorded):
        tools |= _tools(item.get("tools") or [])
    return tools or {("function", None, "get_weather")}


def history(recorded: Recorded) -> list[Any]:
    """Messages or items."""
    found: list[Any] = recorded.body["input" if recorded.client == "responses" else "messages"]
    return found


def ends_on_assistant(recorded: Recorded) -> bool:
    """The client wants a broken answer continued, which Messages calls a prefill."""
    return bool(history(recorded)[-1].get("role") == "assistant")


def ends_on_more_than_text(recorded: Recorded) -> bool:
    """The last results hold images or tool references: some dialects get words in their place (mapping §6.4)."""
    last = history(recorded)[-1]
    if last.get("type") == "tool_search_output":
        return True
    blocks = last.get("output", last.get("content"))
    if last.get("type", "").endswith("_output"):
        blocks = [{"type": "tool_result", "content": blocks}]
    results = [b.get("content") for b in blocks if type(b) is dict and b["type"] == "tool_result"]
    return any(part["type"] not in _TEXT for result in results if type(result) is list for part in result)


_TEXT = ("text", "input_text")


async def test_the_recordings_are_there() -> None:
    """A glob that finds nothing would pass every test."""
    counts = {client: sum(recorded.client == client for recorded in RECORDED) for client in DIALECTS}
    assert counts == {"chat": 32, "messages": 46, "responses": 54}
    assert all(recorded.body["stream"] is True for recorded in RECORDED)


@pytest.mark.parametrize(
    ("recorded", "upstream"),
    [
        pytest.param(recorded, upstream, id=f"{recorded.name}-over-{upstream}")
        for recorded in RECORDED
        for upstream in UPSTREAMS
        # Passed through as it is, and the upstream takes no prefill: the next test.
        if not (recorded.client == upstream == "messages" and ends_on_assistant(recorded))
    ],
)
async def test_it_is_answered(live: dict[str, Served], recorded: Recorded, upstream: str) -> None:
    reply = await play(live[upstream], recorded)
    [arrived] = live[upstream].requests
    assert reply.error is None
    assert reply.model == recorded.body["model"]
    assert reply.id.startswith(PREFIX[recorded.client])
    assert reply.text
    assert {(call.kind, call.namespace, call.name) for call in reply.calls} <= offered(recorded)
    assert all(
        type(arguments) is (str if call.kind == "custom" else dict)
        for call, (_, _, arguments) in zip(reply.calls, reply.parsed_calls(), strict=True)
    )
    if recorded.client == "messages":
        assert reply.usage is not None
        assert (reply.usage["input_tokens"], reply.usage["cache_read_input_tokens"]) == (8, 4)
    elif recorded.client == "responses":
        assert reply.usage is not None, "Codex compacts by it"
        assert (reply.usage["input_tokens"], reply.usage["input_tokens_details"]["cached_tokens"]) == (12, 4)

    assert arrived.path == path_at(upstream, SCRIPT, streamed=True)
    assert arrived.body.get("model") == (None if upstream == "generate" else SCRIPT)
    if upstream == recorded.client:
        assert arrived.body == {**recorded.body, "model": SCRIPT}
        # T-44: a beta's fields without its header are refused, so both go on.
        for name in _FORWARDED:
            if name in recorded.headers:
                assert arrived.headers.getall(name) == [recorded.headers[name]]
        assert arrived.query == ({"beta": "true"} if recorded.query == "beta=true" else {})
    else:
        assert arrived.query == ({"alt": "sse"} if upstream == "generate" else {})
        assert "anthropic-beta" not in arrived.headers
        # Codex' own fields hold paths and ids of the user's machine.
        assert not [name for name in arrived.headers if name.lower().startswith("x-codex")]
        assert "client_metadata" not in arrived.body
        assert ("anthropic-version" in arrived.headers) is (upstream == "messages")


async def test_a_prefill_is_the_clients_own_affair(live: dict[str, Served]) -> None:
    """An upstream's refusal of a body that is passed through comes back in its own words, to the byte."""
    [recorded] = [r for r in RECORDED if r.client == "messages" and ends_on_assistant(r)]
    status, _, answer = await post(live["messages"], recorded)
    assert status == 400
    assert live["messages"].received("messages") == {**recorded.body, "model": SCRIPT}
    error = json.loads(answer)["error"]
    assert error["type"] == "invalid_request_error"
    assert "prefill" in error["message"]


@pytest.mark.few
@pytest.mark.parametrize(
    "recorded", [r for r in RECORDED if not ends_on_assistant(r)], ids=lambda recorded: recorded.name
)
async def test_all_ways_state_the_same(live: dict[str, Served], recorded: Recorded) -> None:
    """One script behind each dialect gives equal texts and calls: the client cannot know which upstream answers."""
    first, *others = [await play(live[upstream], recorded) for upstream in UPSTREAMS]
    for other in others:
        if not ends_on_more_than_text(recorded):
            # The texts of a result are one text for Gemini, with line breaks between them.
            assert other.text.split() == first.text.split()
        assert [call[1:] for call in other.calls] == [call[1:] for call in first.calls]
        assert other.finish == first.finish
        # Gemini's signature has a reasoning block of its own.
        assert [kind for kind in other.order if kind != "reasoning"] == first.order


@pytest.mark.few
@by_name
async def test_translating_again_makes_the_same_bytes(live: dict[str, Served], recorded: Recorded) -> None:
    """T-81: upstream caches live on equal prefixes, so nothing random or timed may get into a request."""
    for cross in UPSTREAMS:
        if cross != recorded.client:
            bodies = []
            for _ in range(2):
                await play(live[cross], recorded)
                bodies.append(json.dumps(live[cross].received()))
            assert bodies[0] == bodies[1]


@pytest.mark.parametrize("upstream", ["chat", "messages"])
@pytest.mark.parametrize("recorded", [r for r in ALL if r not in RECORDED], ids=lambda recorded: recorded.name)
async def test_T51_a_stored_response_cannot_be_continued_elsewhere(
    live: dict[str, Served], recorded: Recorded, upstream: str
) -> None:
    """Half a conversation would be answered as if it were the whole one: a 400 names the field, nothing is sent."""
    live[upstream].requests.clear()
    status, _, answer = await post(live[upstream], recorded)
    assert (status, len(live[upstream].requests)) == (400, 0)
    error = json.loads(answer)["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", "previous_response_id")
