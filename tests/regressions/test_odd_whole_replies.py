"""Complete replies in a form of the server's own, for clients of its dialect: SDKs read the dialect's form only.

They are completed with what they mean; all other members stay as the server sent them.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import Message
from openai.types.chat import ChatCompletion
from openai.types.responses import Response

from dragoman import DragomanError, LossCode, direction
from regressions.repaired import CALL_ID, REPAIRED, replied, rows
from support.directions import translated

Json = dict[str, Any]
CHAT, MESSAGES, RESPONSES = "chat", "messages", "responses"
TYPES: dict[str, Any] = {CHAT: ChatCompletion, MESSAGES: Message, RESPONSES: Response}
OBJECT = '{"f":"a"}'


def _call(arguments: Any = OBJECT, **more: Any) -> Json:
    return {"id": "call_a", "type": "function", "function": {"name": "read", "arguments": arguments}} | more


def _chat(message: Json | None = None, finish: Any = "stop", **more: Any) -> Json:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"} | (message or {}), "finish_reason": finish}
    body = {"id": "chatcmpl-1", "object": "chat.completion", "created": 5, "model": "up", "choices": [choice]}
    return body | {"vendor": {"a": 1}} | more


def _called(*calls: Any) -> Json:
    return _chat({"content": None, "tool_calls": list(calls)}, "tool_calls")


def _use(given: Any, **more: Any) -> Json:
    return {"type": "tool_use", "id": "toolu_1", "name": "read", "input": given} | more


def _message(*blocks: Any, **more: Any) -> Json:
    body: Json = {"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "content": list(blocks)}
    usage = {"input_tokens": 1, "output_tokens": 2}
    stop = "tool_use" if any(block and block["type"] == "tool_use" for block in blocks) else "end_turn"
    return body | {"stop_reason": stop, "stop_sequence": None, "usage": usage, "vendor": {"a": 1}} | more


def _item(arguments: Any = OBJECT, **more: Any) -> Json:
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_a", "name": "read", "arguments": arguments}
    return call | {"status": "completed"} | more


def _text(**more: Any) -> Json:
    part = {"type": "output_text", "text": "Hi", "annotations": []}
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": [part]} | more


def _response(*items: Any, **more: Any) -> Json:
    body: Json = {"id": "resp_1", "object": "response", "created_at": 5, "model": "up", "status": "completed"}
    return body | {"output": list(items), "vendor": {"a": 1}} | more


def _without(value: Json, *keys: str) -> Json:
    return {key: member for key, member in value.items() if key not in keys}


TEXT: Json = {"type": "text", "text": "Hi"}
SEARCH: Json = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}}
TEXTS = {
    "content as parts": (CHAT, _chat({"content": [{"type": "text", "text": "H"}, {"type": "text", "text": "i"}]})),
    "text of a completion": (CHAT, _chat() | {"choices": [{"index": 0, "text": "Hi", "finish_reason": "stop"}]}),
    "choices as an object": (CHAT, _chat() | {"choices": _chat()["choices"][0]}),
    "no role, no index": (CHAT, _chat() | {"choices": [{"message": {"content": "Hi"}, "finish_reason": "stop"}]}),
    "nulls": (CHAT, _chat(id=None, object=None, created=None, model=None, usage=None)),
    "a time with a fraction": (CHAT, _chat(created=5.5)),
    "no finish_reason": (CHAT, _chat(finish=None)),
    "content as a string": (MESSAGES, _message(content="Hi")),
    "usage null": (MESSAGES, _message(TEXT, usage=None)),
    "one count": (MESSAGES, _message(TEXT, usage={"input_tokens": 1})),
    "no id, no type, no role": (MESSAGES, _without(_message(TEXT), "id", "type", "role", "model")),
    "no stop_reason": (MESSAGES, _message(TEXT, stop_reason=None)),
    "content of an item as a string": (RESPONSES, _response(_text(content="Hi"))),
    "a part without annotations": (RESPONSES, _response(_text(content=[{"type": "output_text", "text": "Hi"}]))),
    "an item without id and role": (RESPONSES, _response(_without(_text(), "id", "role"))),
    "a null item": (RESPONSES, _response(None, _text())),
    "output_text alone": (RESPONSES, _response(output_text="Hi")),
    "no id, no object, no time": (RESPONSES, _without(_response(_text()), "id", "object", "created_at", "model")),
    "no status": (RESPONSES, _without(_response(_text()), "status")),
}
CALLS = {
    "arguments as an object": (CHAT, _called(_call({"f": "a"}))),
    "arguments encoded twice": (CHAT, _called(_call(json.dumps(OBJECT)))),
    "arguments sent again": (CHAT, _called(_call(OBJECT + OBJECT))),
    "no id, no type": (CHAT, _called(_without(_call(), "id", "type"))),
    "a null call": (CHAT, _called(None, _call())),
    "calls as an object": (CHAT, _chat({"content": None, "tool_calls": _call()}, "tool_calls")),
    "name at the top level": (CHAT, _called({"id": "call_a", "type": "function", "name": "read", "arguments": OBJECT})),
    "input as text": (MESSAGES, _message(_use(OBJECT))),
    "a use without id": (MESSAGES, _message(_use({"f": "a"}, id=None))),
    "input as text behind thinking": (MESSAGES, _message({"type": "redacted_thinking", "data": "x"}, _use(OBJECT))),
    "item with an object": (RESPONSES, _response(_item({"f": "a"}))),
    "item with an object behind a search": (RESPONSES, _response(SEARCH, _item({"f": "a"}))),
    "item encoded twice": (RESPONSES, _response(_item(json.dumps(OBJECT)))),
    "item without call_id": (RESPONSES, _response(_without(_item(), "call_id"))),
    "item without id": (RESPONSES, _response(_without(_item(), "id"))),
}
CUSTOM: Json = {"id": "call_a", "type": "custom", "custom": {"name": "patch", "input": "x"}}
RIGHT = {
    "text": (CHAT, _chat()),
    "call": (CHAT, _called(_call())),
    "cut call": (CHAT, _chat({"tool_calls": [_call('{"f')]}, "length")),
    "free text": (CHAT, _called(CUSTOM)),
    "legacy": (CHAT, _chat({"content": None, "function_call": {"name": "f", "arguments": "{}"}}, "function_call")),
    "blocks": (MESSAGES, _message({"type": "thinking", "thinking": "Hm"}, TEXT, _use({}), {"type": "odd"})),
    "items": (RESPONSES, _response(SEARCH, _text(), _item(), {"type": "odd"})),
    "queued": (RESPONSES, _without(_response(status="queued"), "model")),
    "compaction": (RESPONSES, {"id": "resp_1", "object": "response.compaction", "output": [], "created_at": 5}),
}


def _typed(dialect: str, got: Json) -> Any:
    """The reply as the SDK's type, which requires every member."""
    return TYPES[dialect].model_validate({key: value for key, value in got.items() if key != "vendor"})


@pytest.mark.parametrize(("dialect", "body"), TEXTS.values(), ids=TEXTS)
def test_T06_a_text_that_clients_would_misread(dialect: str, body: Json) -> None:
    """The SDK failed on the reply, or its text was no text."""
    got, translation = replied(dialect, dialect, body)
    reply = _typed(dialect, got)
    if dialect == CHAT:
        assert reply.choices[0].message.content == "Hi"
    elif dialect == MESSAGES:
        assert [block.text for block in reply.content] == ["Hi"]
    else:
        assert reply.output_text == "Hi"
    assert got["vendor"] == {"a": 1}
    assert {loss.code for loss in translation.losses.rows} <= {REPAIRED, LossCode.STOP_UNKNOWN}
    assert rows(translation, REPAIRED)


@pytest.mark.parametrize(("dialect", "body"), CALLS.values(), ids=CALLS)
def test_T06_a_call_that_clients_would_misread(dialect: str, body: Json) -> None:
    """The client failed on the call, dropped it, or ran it without its arguments."""
    got, translation = replied(dialect, dialect, body)
    reply = _typed(dialect, got)
    if dialect == CHAT:
        [call] = reply.choices[0].message.tool_calls
        found = call.id, call.function.name, json.loads(call.function.arguments)
    elif dialect == MESSAGES:
        [call] = [block for block in reply.content if block.type == "tool_use"]
        found = call.id, call.name, call.input
    else:
        [call] = [item for item in reply.output if item.type == "function_call"]
        found = call.call_id, call.name, json.loads(call.arguments)
    assert found[0]
    assert found[1:] == ("read", {"f": "a"})
    assert got["vendor"] == {"a": 1}
    assert rows(translation, REPAIRED, CALL_ID)
    assert ("web_search_call" in json.dumps(body)) == ("web_search_call" in json.dumps(got))


@pytest.mark.parametrize(("dialect", "body"), RIGHT.values(), ids=RIGHT)
def test_a_right_reply_passes_byte_for_byte(dialect: str, body: Json) -> None:
    translation = translated(direction(dialect, dialect))
    sent = json.dumps(body, indent=1).encode()
    renamed = sent.replace(b'"up"', b'"m"')
    assert translation.reply(sent) in (sent, renamed)
    assert not translation.losses.rows


@pytest.mark.parametrize(
    ("dialect", "body"),
    [
        (CHAT, _called(_call('{"f":'))),
        (CHAT, _called(_call('{"f":1}{"f":2}'))),
        (CHAT, _chat(choices=[])),
        (MESSAGES, _message(_use('{"f":'))),
        (RESPONSES, _response(_item('{"f":'))),
    ],
)
def test_T06_broken_arguments_are_an_error(dialect: str, body: Json) -> None:
    """As in a stream: a client would run the call, or fail on it."""
    with pytest.raises(DragomanError) as raised:
        replied(dialect, dialect, body)
    assert raised.value.failure.status == 502


def test_T05_calls_of_one_id_get_ids_of_their_own() -> None:
    """A result would belong to both."""
    got, translation = replied(CHAT, CHAT, _called(_call(), _call('{"f":"b"}')))
    ids = [call["id"] for call in got["choices"][0]["message"]["tool_calls"]]
    assert len(set(ids)) == 2
    assert rows(translation, CALL_ID) == ["a call with the id of another"]


@pytest.mark.parametrize("n", [2, 3])
def test_several_choices_that_were_requested_pass(n: int) -> None:
    body = _chat(choices=[_chat()["choices"][0] | {"index": k} for k in range(n)])
    translation = translated(direction(CHAT, CHAT), n=n)
    assert len(json.loads(translation.reply(json.dumps(body).encode()))["choices"]) == n
