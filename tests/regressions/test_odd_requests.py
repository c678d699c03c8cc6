"""Requests that have one meaning, in a form that a dialect does not have: histories with calls that a server left
unnamed, tools that are declared twice, members that are null or empty."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import DragomanError, LossCode
from regressions.wire import CHAT, MESSAGES, send
from support.directions import Json

RESPONSES = "responses"
USER = {"role": "user", "content": "Hi"}
upstreams = pytest.mark.parametrize("upstream", [MESSAGES, RESPONSES, "generate"])
SCHEMA = {"type": "object", "properties": {"f": {"type": "string"}}}
TOOL: dict[str, Json] = {
    CHAT: {"type": "function", "function": {"name": "read", "parameters": SCHEMA}},
    MESSAGES: {"name": "read", "input_schema": SCHEMA},
    RESPONSES: {"type": "function", "name": "read", "parameters": SCHEMA},
}


def _call(call_id: Any, name: Any, arguments: str = "{}") -> Json:
    call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
    return {key: value for key, value in call.items() if value is not None}


def _result(call_id: Any, content: str) -> Json:
    return {"role": "tool", "content": content} | ({} if call_id is None else {"tool_call_id": call_id})


def _turn(calls: list[Json], *results: Json) -> list[Json]:
    return [USER, {"role": "assistant", "content": None, "tool_calls": calls}, *results, USER]


def _pairs(upstream: str, body: Json) -> list[tuple[str, str]]:
    """Name and result of each call of a request, by the id that joins them."""
    if upstream == RESPONSES:
        names = {item["call_id"]: item["name"] for item in body["input"] if item["type"] == "function_call"}
        outputs = [item for item in body["input"] if item["type"] == "function_call_output"]
        return [(names[item["call_id"]], item["output"]) for item in outputs]
    if upstream == MESSAGES:
        blocks = [b for m in body["messages"] if type(m["content"]) is list for b in m["content"]]
        names = {block["id"]: block["name"] for block in blocks if block["type"] == "tool_use"}
        return [(names[b["tool_use_id"]], b["content"]) for b in blocks if b["type"] == "tool_result"]
    parts = [part for content in body["contents"] for part in content["parts"]]
    return [
        (part["functionResponse"]["name"], part["functionResponse"]["response"]["output"])
        for part in parts
        if "functionResponse" in part
    ]


@upstreams
@pytest.mark.parametrize("no_id", ["", None])
def test_T41_calls_of_the_history_without_ids(upstream: str, no_id: Any) -> None:
    """A call whose id got lost ends the session: each request is a 400 (pipecat-ai/pipecat#5023)."""
    messages = _turn(
        [_call(no_id, "read"), _call("call_b", "list"), _call(no_id, "write")],
        _result("call_b", "2"),
        _result(no_id, "1"),
        _result(no_id, "3"),
    )
    body, translation = send(CHAT, upstream, messages=messages)
    assert sorted(_pairs(upstream, body)) == [("list", "2"), ("read", "1"), ("write", "3")]
    assert LossCode.CALL_ID in {loss.code for loss in translation.losses.rows}


@upstreams
def test_T41_a_call_of_the_history_without_a_name(upstream: str) -> None:
    """Servers that repeat the name as "" made such calls; replaying them is a 400 for ever (huggingface/tau#715)."""
    messages = _turn([_call("call_a", "")], _result("call_a", "Tool not found"))
    body, _ = send(CHAT, upstream, messages=messages)
    assert _pairs(upstream, body) == [("unnamed_tool", "Tool not found")]


@upstreams
def test_T41_ids_of_such_calls_stay_the_same_as_the_history_grows(upstream: str) -> None:
    """Otherwise prompt caches would be lost with each turn (cortexkit/magic-context#178)."""
    short = _turn([_call("", "read")], _result("", "1"))
    one, _ = send(CHAT, upstream, messages=short)
    two, _ = send(CHAT, upstream, messages=[*short, *_turn([_call("", "list")], _result("", "2"))[1:]])
    assert _pairs(upstream, two) == [("read", "1"), ("list", "2")]
    key = {MESSAGES: "messages", RESPONSES: "input", "generate": "contents"}[upstream]
    assert two[key][:2] == one[key][:2]


@upstreams
@pytest.mark.parametrize("role", ["tool", "function"])
def test_T41_a_result_that_answers_no_call_is_an_orphan(upstream: str, role: str) -> None:
    """A model cannot use a result without a call, and the session goes on."""
    body, translation = send(CHAT, upstream, messages=[USER, {"role": role, "name": "read", "content": "1"}, USER])
    assert _pairs(upstream, body) == []
    assert {"call_id", "orphan_dropped"} <= {loss.code for loss in translation.losses.rows}


@upstreams
def test_T41_calls_of_the_former_functions_are_calls(upstream: str) -> None:
    """Clients keep old conversations, whose calls had no ids and whose results have a role of their own."""
    messages: list[Json] = []
    for name in ("read", "list"):
        called = {"role": "assistant", "content": None, "function_call": {"name": name, "arguments": "{}"}}
        messages += [USER, called, {"role": "function", "name": name, "content": f"of {name}"}]
    body, translation = send(CHAT, upstream, messages=[*messages, USER])
    assert _pairs(upstream, body) == [("read", "of read"), ("list", "of list")]
    assert "call_id" in {loss.code for loss in translation.losses.rows}
    messages[1]["tool_calls"] = [_call("call_a", "write")]
    _, translation = send(CHAT, upstream, messages=[*messages, USER])
    assert ("field_overridden", "messages[1].function_call") in [row[:2] for row in translation.losses.rows]


@pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
@pytest.mark.parametrize("upstream", [CHAT, MESSAGES, RESPONSES, "generate"])
def test_T42_the_same_tool_twice_is_sent_once(client: str, upstream: str) -> None:
    """A server of tools that was connected again declares its tools twice (anthropics/claude-code#14199)."""
    if client == upstream:
        return
    body, translation = send(client, upstream, tools=[TOOL[client], TOOL[client]])
    assert json.dumps(body).count('"read"') == 1
    assert [loss.code for loss in translation.losses.rows if loss.done == "the same tool again"]
    changed = json.loads(json.dumps(TOOL[client]).replace('"string"', '"integer"'))
    with pytest.raises(DragomanError, match="read"):
        send(client, upstream, tools=[TOOL[client], changed])


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
@pytest.mark.parametrize("kind", [["object", "null"], ["object"]])
def test_T43_a_schema_whose_root_may_be_null(client: str, kind: list[str]) -> None:
    """One such tool of a server made each request a 400 (HolmesGPT/holmesgpt#2450)."""
    tool = json.loads(json.dumps(TOOL[client]).replace('"type": "object"', f'"type": {json.dumps(kind)}', 1))
    body, translation = send(client, MESSAGES, tools=[tool])
    assert body["tools"][0]["input_schema"] == SCHEMA
    assert [loss.code for loss in translation.losses.rows].count(LossCode.SCHEMA_SANITISED) == 1


@upstreams
def test_T40_null_and_empty_members_of_a_chat_request(upstream: str) -> None:
    """Clients fill in all members of their types (HKUDS/nanobot#949)."""
    content = [{"type": "text", "text": None}, {"type": "text", "text": "Hi"}]
    body, _ = send(CHAT, upstream, messages=[{"role": "user", "content": content}], functions=[], tools=[])
    assert "Hi" in json.dumps(body)
    assert "tools" not in body


@pytest.mark.parametrize(("client", "upstream"), [(MESSAGES, CHAT), (MESSAGES, RESPONSES), (RESPONSES, MESSAGES)])
def test_T40_a_reply_of_the_history_without_content(client: str, upstream: str) -> None:
    """An empty reply stays in the history with `content: null`, and each request after it was a 400
    (anthropics/claude-code#6774)."""
    turns = [USER, {"role": "assistant", "content": None}, USER]
    history: dict[str, Any] = {"input" if client == RESPONSES else "messages": turns}
    body, _ = send(client, upstream, **history)
    assert "null" not in json.dumps(body.get("messages", body.get("input")))
