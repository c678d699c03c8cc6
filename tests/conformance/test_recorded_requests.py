"""What real clients sent, posted verbatim: across and passed through, to a strict upstream, judged byte by byte.

Claude Code, opencode, Qwen Code, the Agents SDKs, LangChain, Pydantic AI, the AI SDK and others recorded these bodies.
Any model name leads to one script here, so the reply's model also shows that the client's own name comes back.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from conformance.served import PATHS, UPSTREAMS, Served, everything_to, serving
from grammar import Accumulated, chat, messages

SCRIPT = "sim-tools"
_FORWARDED = ("anthropic-version", "anthropic-beta")


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
        client = {"chat": "chat", "anthropic": "messages"}.get(recorded["dialect"])
        request = recorded["request"]
        if client is None or request["path"] != PATHS[client]:
            continue
        headers = {name.lower(): value for name, value in request["headers"].items()}
        kept = {name: headers[name] for name in (*_FORWARDED, "user-agent") if name in headers}
        found.append(Recorded(path.stem, client, request["query"], kept, request["body"]))
    return found


RECORDED = _load()
by_name = pytest.mark.parametrize("recorded", RECORDED, ids=lambda recorded: recorded.name)


async def play(served: Served, recorded: Recorded) -> Accumulated:
    """Post it and judge the stream that comes back."""
    url = f"{served.url}{PATHS[recorded.client]}{'?' * bool(recorded.query)}{recorded.query}"
    headers = {"content-type": "application/json", **recorded.headers}
    body = json.dumps(recorded.body).encode()
    async with aiohttp.ClientSession() as http, http.post(url, data=body, headers=headers) as response:
        answer = await response.read()
        assert response.status == 200, answer[:500]
        assert response.content_type == "text/event-stream"
    assert [request.status for request in served.requests] == [200]
    if recorded.client == "messages":
        return messages.check(answer)
    wants_usage = bool((recorded.body.get("stream_options") or {}).get("include_usage"))
    return chat.check(answer, include_usage=wants_usage, usage_known=wants_usage)


def offered(recorded: Recorded) -> set[str]:
    """The names of the tools that the client can run; the script calls one of its own if there are none."""
    tools = recorded.body.get("tools") or []
    names = {(t.get("function") or t)["name"] for t in tools if t.get("type") in (None, "custom", "function")}
    return names or {"get_weather"}


def ends_on_assistant(recorded: Recorded) -> bool:
    """The client wants a broken answer continued, which Messages calls a prefill."""
    return bool(recorded.body["messages"][-1]["role"] == "assistant")


def ends_on_more_than_text(recorded: Recorded) -> bool:
    """The last results hold images or tool references: Chat gets words in their place (mapping §6.4)."""
    blocks = recorded.body["messages"][-1]["content"]
    results = [b.get("content") for b in blocks if type(b) is dict and b["type"] == "tool_result"]
    return any(part["type"] != "text" for result in results if type(result) is list for part in result)


def test_the_recordings_are_there() -> None:
    """A glob that finds nothing would pass every test."""
    assert {recorded.client for recorded in RECORDED} == set(UPSTREAMS)
    assert len(RECORDED) >= 75
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
async def test_it_is_answered(recorded: Recorded, upstream: str) -> None:
    async with serving(everything_to(upstream, SCRIPT)) as served:
        reply = await play(served, recorded)
        [arrived] = served.requests
    assert reply.error is None
    assert reply.model == recorded.body["model"]
    assert reply.id.startswith("msg_" if recorded.client == "messages" else "chatcmpl-")
    assert reply.text
    assert {call.name for call in reply.calls} <= offered(recorded)
    assert all(type(arguments) is dict for _, _, arguments in reply.parsed_calls())
    if recorded.client == "messages":
        assert reply.usage is not None
        assert (reply.usage["input_tokens"], reply.usage["cache_read_input_tokens"]) == (8, 4)

    assert arrived.path == PATHS[upstream]
    assert arrived.body["model"] == SCRIPT
    if upstream == recorded.client:
        assert arrived.body == {**recorded.body, "model": SCRIPT}
        # T-44: a beta's fields without its header are refused, so both go on.
        for name in _FORWARDED:
            if name in recorded.headers:
                assert arrived.headers.getall(name) == [recorded.headers[name]]
        assert arrived.query == ({"beta": "true"} if recorded.query == "beta=true" else {})
    else:
        assert arrived.query == {}
        assert "anthropic-beta" not in arrived.headers
        assert ("anthropic-version" in arrived.headers) is (upstream == "messages")


async def test_a_prefill_is_the_clients_own_affair() -> None:
    """What the upstream refuses of a body that is passed through comes back in its own words, to the byte."""
    [recorded] = [r for r in RECORDED if r.client == "messages" and ends_on_assistant(r)]
    async with serving(everything_to("messages", SCRIPT)) as served, aiohttp.ClientSession() as http:
        headers = {"content-type": "application/json", **recorded.headers}
        url = served.url + PATHS["messages"]
        async with http.post(url, data=json.dumps(recorded.body).encode(), headers=headers) as response:
            answer = await response.json()
            assert response.status == 400
        assert served.received("messages") == {**recorded.body, "model": SCRIPT}
    assert answer["error"]["type"] == "invalid_request_error"
    assert "prefill" in answer["error"]["message"]


@pytest.mark.parametrize(
    "recorded", [r for r in RECORDED if not ends_on_assistant(r)], ids=lambda recorded: recorded.name
)
async def test_both_ways_say_the_same(recorded: Recorded) -> None:
    """The same script behind either dialect: equal words and calls, for the client cannot tell what answers."""
    replies = []
    for upstream in UPSTREAMS:
        async with serving(everything_to(upstream, SCRIPT)) as served:
            replies.append(await play(served, recorded))
    chat_reply, messages_reply = replies
    if not ends_on_more_than_text(recorded):
        assert chat_reply.text == messages_reply.text
    assert [call[1:] for call in chat_reply.parsed_calls()] == [call[1:] for call in messages_reply.parsed_calls()]
    assert chat_reply.finish == messages_reply.finish
    assert chat_reply.order == messages_reply.order


@by_name
async def test_translating_again_gives_the_same_bytes(recorded: Recorded) -> None:
    """T-81: upstream caches live on equal prefixes, so nothing random or timed may get into a request."""
    cross = "chat" if recorded.client == "messages" else "messages"
    bodies = []
    for _ in range(2):
        async with serving(everything_to(cross, SCRIPT)) as served:
            await play(served, recorded)
            bodies.append(json.dumps(served.received(cross)))
    assert bodies[0] == bodies[1]
