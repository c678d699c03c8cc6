"""Replies with a member in a form, or under a name, of the server's own, of which only one meaning is possible.

Each was an error, an empty turn that looked complete, or a call that ran twice or without its arguments.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import direction
from regressions import wire
from regressions.repaired import REPAIRED, replied, restored, rows
from regressions.test_ends_whole import called
from regressions.test_odd_responses_streams import CALL, OBJECT, _ends, frames
from regressions.wire import CHAT, DONE, MESSAGES, ROLE, USAGE, calls, chunk, events_of, start_call
from support.directions import Json, stream_through, translated
from support.generate import sse

RESPONSES, GENERATE = "responses", "generate"
CLIENTS = [CHAT, MESSAGES, RESPONSES]
STOP, USED = chunk({}, "stop"), chunk(None, usage=USAGE)
HI = {"type": "text_delta", "text": "Hi"}


def _chat(*frames: bytes, end: bytes = STOP) -> list[bytes]:
    return [*frames, end, USED, DONE]


def _messages(block: Any, delta: Json, stop: str = "end_turn") -> list[bytes]:
    delta_event = {"type": "content_block_delta", "index": 0, "delta": delta}
    start = {"type": "content_block_start", "index": 0, "content_block": block}
    lines = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in (start, delta_event)]
    return [wire.begin(), *lines, wire.stop(0), wire.end(stop)]


def _candidate(content: Any, **more: Any) -> Json:
    return {"content": content, "finishReason": "STOP"} | more


def _gemini(candidates: Any) -> Json:
    return {"candidates": candidates, "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2}}


def _part(part: Json) -> Json:
    return _gemini([_candidate({"parts": [part]})])


TEXTS: dict[str, tuple[str, list[bytes]]] = {
    "the role model": (CHAT, _chat(chunk({"role": "model", "content": "Hi"}))),
    "the role Assistant": (CHAT, _chat(chunk({"role": "Assistant", "content": "Hi"}))),
    "content as one part": (CHAT, _chat(ROLE, chunk({"content": {"type": "text", "text": "Hi"}}))),
    "a delta without type": (MESSAGES, _messages({"type": "text", "text": ""}, {"text": "Hi"})),
    "a block without type": (MESSAGES, _messages({"text": ""}, HI)),
    "neither with a type": (MESSAGES, _messages({"text": ""}, {"text": "Hi"})),
    "the role assistant": (GENERATE, [sse([_gemini([_candidate({"role": "assistant", "parts": [{"text": "Hi"}]})])])]),
    "content as parts": (GENERATE, [sse([_gemini([_candidate([{"text": "Hi"}])])])]),
    "content as text": (GENERATE, [sse([_gemini([_candidate("Hi")])])]),
    "parts as one part": (GENERATE, [sse([_gemini([_candidate({"parts": {"text": "Hi"}})])])]),
    "a part as text": (GENERATE, [sse([_gemini([_candidate({"parts": ["Hi"]})])])]),
    "candidates as an object": (GENERATE, [sse([_gemini(_candidate({"parts": [{"text": "Hi"}]}))])]),
}
USE: Json = {"type": "tool_use", "id": "toolu_1", "name": "read"}
LEGACY: Json = {"name": "read", "arguments": "{}"}
CALLS: dict[str, tuple[str, list[bytes], Json]] = {
    "a call in both forms": (
        CHAT,
        _chat(
            ROLE,
            chunk({"tool_calls": [start_call(0, "call_a", "read", "{}")], "function_call": LEGACY}),
            end=chunk({}, "tool_calls"),
        ),
        {},
    ),
    "a legacy call behind it": (
        CHAT,
        _chat(
            ROLE,
            calls(start_call(0, "call_a", "read", "{}")),
            chunk({"function_call": LEGACY}),
            end=chunk({}, "tool_calls"),
        ),
        {},
    ),
    "arguments in place of input": (
        MESSAGES,
        _messages({**USE, "arguments": OBJECT}, {"type": "input_json_delta", "partial_json": ""}, "tool_use"),
        {"f": "a"},
    ),
    "arguments without type": (
        MESSAGES,
        _messages({**USE, "input": {}}, {"partial_json": OBJECT}, "tool_use"),
        {"f": "a"},
    ),
    "args as an empty array": (GENERATE, [sse([_part({"functionCall": {"name": "read", "args": []}})])], {}),
}


@pytest.mark.parametrize(
    ("client", "upstream", "stream"),
    [(client, *case) for case in TEXTS.values() for client in CLIENTS if client != case[0]],
)
def test_T14_a_text_in_another_form(client: str, upstream: str, stream: list[bytes]) -> None:
    """The turn was an error, or empty."""
    held, _, _ = restored(client, upstream, *stream)
    assert (held.error, held.text, held.calls) == (None, "Hi", [])


@pytest.mark.parametrize(
    ("client", "upstream", "stream", "meant"),
    [(client, *case) for case in CALLS.values() for client in CLIENTS if client != case[0]],
)
def test_T06_a_call_in_another_form(client: str, upstream: str, stream: list[bytes], meant: Json) -> None:
    """The call was an error, ran twice, or ran without its arguments."""
    held, _, _ = restored(client, upstream, *stream)
    assert held.error is None
    assert [(call.name, json.loads(call.arguments)) for call in held.calls] == [("read", meant)]


def _whole_chat(**message: Any) -> Json:
    return wire.chat_reply("tool_calls" if "tool_calls" in message else "stop", **message)


WHOLE: dict[str, tuple[str, Json]] = {
    "content as one part": (CHAT, _whole_chat(content={"type": "text", "text": "Hi"})),
    "the role model": (CHAT, _whole_chat(role="model", content="Hi")),
    "the role assistant": (GENERATE, _gemini([_candidate({"role": "assistant", "parts": [{"text": "Hi"}]})])),
    "content as text": (GENERATE, _gemini([_candidate("Hi")])),
}


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(("upstream", "body"), WHOLE.values(), ids=WHOLE)
def test_T14_a_text_of_a_whole_reply_in_another_form(client: str, upstream: str, body: Json) -> None:
    """As streamed (E.24)."""
    got, _ = replied(client, upstream, body)
    assert '"Hi"' in json.dumps(got)


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("upstream", "body"),
    [
        (CHAT, _whole_chat(tool_calls=[None, start_call(0, "call_a", "read", "{}")])),
        (GENERATE, _part({"functionCall": {"id": "call_a", "name": "read", "args": []}})),
    ],
)
def test_T06_a_call_without_arguments_of_a_whole_reply(client: str, upstream: str, body: Json) -> None:
    """PHP writes an empty object as an array; a null next to a call was an exception."""
    got, _ = replied(client, upstream, body)
    [(_, name)] = called(client, got)
    assert name == "read"


@pytest.mark.parametrize("client", [CHAT, RESPONSES])
def test_T06_arguments_in_place_of_the_input_of_a_whole_reply(client: str) -> None:
    """The call ran without them."""
    got, translation = replied(client, MESSAGES, wire.messages_reply("tool_use", {**USE, "arguments": OBJECT}))
    assert json.dumps(OBJECT) in json.dumps(got)
    assert rows(translation, REPAIRED)


@pytest.mark.parametrize("upstream", [CHAT, GENERATE])
@pytest.mark.parametrize("role", ["user", "system", "tool", 5])
def test_a_role_that_is_not_the_models_is_an_error(upstream: str, role: Any) -> None:
    """It would show the client's own words as an answer."""
    content = {"role": role, "parts": [{"text": "Hi"}]}
    stream = (
        _chat(chunk({"role": role, "content": "Hi"})) if upstream == CHAT else [sse([_gemini([_candidate(content)])])]
    )
    held, _, _ = restored(MESSAGES, upstream, *stream)
    assert held.error is not None


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("twice", ["added", "done"])
@pytest.mark.parametrize("numbered", [True, False])
def test_T05_an_item_that_comes_twice_is_one(client: str, twice: str, numbered: bool) -> None:
    """Codex ran the call of an item that was done twice two times; other clients got an error."""
    created, completed = _ends()
    item = {**CALL, "arguments": OBJECT}
    added: Json = {"type": "response.output_item.added", "output_index": 0, "item": {**CALL, "arguments": ""}}
    done: Json = {"type": "response.output_item.done", "output_index": 0, "item": item}
    place = {"item_id": "fc_1", "output_index": 0, "arguments": OBJECT}
    whole = {"type": "response.function_call_arguments.done", "name": "read", **place}
    last = {**completed, "response": {**completed["response"], "output": [item]}}
    events = [created, *[added] * (1 + (twice == "added")), whole, *[done] * (1 + (twice == "done")), last]
    stream = frames(*events)
    if not numbered:  # the copy has the number of the first
        at = 2 if twice == "added" else 4
        stream = [*frames(*events[:at]), frames(*events[:at])[-1], *frames(*events[:at], *events[at + 1 :])[at:]]
    translation = translated(direction(client, RESPONSES))
    out = stream_through(translation, stream)
    assert translation.failure is None
    assert rows(translation, REPAIRED)
    if client == RESPONSES:
        got = events_of(out)
        assert [event["type"] for event in got].count(f"response.output_item.{twice}") == 1
        assert [event["sequence_number"] for event in got] == list(range(len(got)))
    else:
        assert out.count(b'"read"') == 1
