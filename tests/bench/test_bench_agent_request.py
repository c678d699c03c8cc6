"""The long request: a conversation that any vendor would take, and the same one in every dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import direction, translate
from dragoman_bench.agent_request import MESSAGES, agent_request
from dragoman_bench.wire import DIALECTS

Reader = list[tuple[str, ...]]


def expected(dialect: str, body: bytes) -> Reader:
    """Return the texts, calls and results of a body: the conversation independent of its dialect."""
    request = json.loads(body)
    return list({"chat": _chat, "messages": _messages, "responses": _responses}[dialect](request))


def _call(call_id: str, name: str, arguments: Any) -> tuple[str, ...]:
    parsed = json.loads(arguments) if isinstance(arguments, str) else arguments
    return "call", call_id, name, json.dumps(parsed, sort_keys=True)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


def _chat(request: Any) -> Reader:
    out: Reader = []
    for message in request["messages"]:
        if message["role"] == "tool":
            out.append(("result", message["tool_call_id"], _text(message["content"])))
        else:
            role = "system" if message["role"] == "developer" else message["role"]  # the same thing to Chat
            out.append((role, _text(message["content"])))
            calls = message.get("tool_calls", ())
            out += [_call(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in calls]
    return out


def _messages(request: Any) -> Reader:
    out: Reader = [("system", _text(request["system"]))]
    for message in request["messages"]:
        content = message["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            if block["type"] == "text":
                out.append((message["role"], block["text"]))
            elif block["type"] == "tool_use":
                out.append(_call(block["id"], block["name"], block["input"]))
            else:
                out.append(("result", block["tool_use_id"], _text(block["content"])))
    return out


def _responses(request: Any) -> Reader:
    out: Reader = [("system", request["instructions"])]
    for item in request["input"]:
        if item["type"] == "message":
            out.append((item["role"], _text(item["content"])))
        elif item["type"] == "function_call":
            out.append(_call(item["call_id"], item["name"], item["arguments"]))
        else:
            out.append(("result", item["call_id"], item["output"]))
    return out


def test_it_is_the_same_conversation_in_every_dialect() -> None:
    chat, messages, responses = (expected(dialect, agent_request(dialect, "m")) for dialect in DIALECTS)
    assert chat == messages == responses


@pytest.mark.parametrize("dialect", DIALECTS)
def test_it_is_the_same_bytes_each_time(dialect: str) -> None:
    assert agent_request(dialect, "m") == agent_request(dialect, "m")
    assert 100_000 < len(agent_request(dialect, "m")) < 200_000


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_call_has_its_result_and_nothing_else_has(dialect: str) -> None:
    waiting: list[str] = []
    answered = set()
    for kind, *rest in expected(dialect, agent_request(dialect, "m")):
        if kind == "call":
            assert rest[0] not in answered
            waiting.append(rest[0])
        elif kind == "result":
            assert rest[0] == waiting.pop(0)
            answered.add(rest[0])
        else:
            assert not waiting
    assert not waiting
    assert len(answered) > MESSAGES // 2 - 2


def test_messages_alternate() -> None:
    messages = json.loads(agent_request("messages", "m"))["messages"]
    assert [message["role"] for message in messages] == [
        ("user", "assistant")[number % 2] for number in range(MESSAGES - 1)
    ]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_tools_have_schemas(dialect: str) -> None:
    tools = json.loads(agent_request(dialect, "m"))["tools"]
    flat = [tool["function"] if dialect == "chat" else tool for tool in tools]
    schemas = [tool["input_schema" if dialect == "messages" else "parameters"] for tool in flat]
    called = {rest[1] for kind, *rest in expected(dialect, agent_request(dialect, "m")) if kind == "call"}
    assert len({tool["name"] for tool in flat}) == len(tools) >= 15
    assert called < {tool["name"] for tool in flat}
    assert all(
        schema["type"] == "object" and set(schema["required"]) <= set(schema["properties"]) for schema in schemas
    )


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_it_is_translated_without_a_loss(client: str, upstream: str) -> None:
    body = agent_request(client, "m")
    translation = translate(direction(client, upstream), body)
    assert set(translation.losses.counts) <= {"cap_added"}  # agents of OpenAI's dialects send no limit
    assert expected(upstream, translation.body) == expected(client, body)


@pytest.mark.parametrize("client", DIALECTS)
@pytest.mark.parametrize("upstream", DIALECTS)
def test_a_rich_request_is_the_same_conversation_with_pictures_and_reasoning(client: str, upstream: str) -> None:
    body = agent_request(client, "m", rich=True)
    assert body == agent_request(client, "m", rich=True)
    assert body.count(b"iVBORw0KGg") == 4
    assert body.count(b"The rows are joined by hand") == 27
    translation = translate(direction(client, upstream), body)
    assert translation.body.count(b"iVBORw0KGg") == 4
    lost = {code.value for code in translation.losses.counts}
    assert lost <= {"cap_added", "reasoning_foreign", "reasoning_unsigned", "reasoning_mode", "result_media_moved"}


def test_size_and_stream_are_the_callers_choice() -> None:
    assert len(expected("chat", agent_request("chat", "m", 2))) == 2
    whole = json.loads(agent_request("chat", "gpt", 20, stream=False))
    assert (whole["model"], whole["stream"], "stream_options" in whole) == ("gpt", False, False)
    with pytest.raises(ValueError, match="2 messages or more"):
        agent_request("chat", "m", 1)
