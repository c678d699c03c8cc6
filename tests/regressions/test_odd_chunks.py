"""Chat chunks and replies whose members have a form, or a place, of the server's own: what they mean is certain, so
they are read, and clients of the same dialect get them in the usual form.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import DragomanError, direction
from oracles.grammar import Call
from regressions.repaired import REPAIRED, replied, restored, rows
from regressions.test_ends_whole import called
from regressions.wire import (
    CHAT,
    DONE,
    MESSAGES,
    ROLE,
    USAGE,
    calls,
    chat_reply,
    chunk,
    events_of,
    more_call,
    start_call,
)
from support.directions import Json, stream_through, translated

RESPONSES = "responses"
every = pytest.mark.parametrize("client", [CHAT, MESSAGES, RESPONSES])
STOP, CALLS, USED = chunk({}, "stop"), chunk({}, "tool_calls"), chunk(None, usage=USAGE)
TEXT = [ROLE, chunk({"content": "Hi"}), chunk({"content": " you"}), STOP]
CALLED = start_call(0, "call_a", "read", '{"f":"a"}')
FLAT = {"index": 0, "id": "call_a", "type": "function", "name": "read", "arguments": '{"f":"a"}'}
ONE_CALL = [Call("call_a", "read", '{"f":"a"}')]
CHOICES = "choices were an object instead of an array"
TOOL_CALLS = "tool_calls were an object instead of an array"
TOP_LEVEL = "a call had its name and arguments at its top level"
FINISH = "a finish_reason was inside the message"


def remade(frame: bytes, change: Any) -> bytes:
    """A frame whose JSON is changed."""
    payload = json.loads(frame[6:])
    return b"data: " + json.dumps(change(payload)).encode() + b"\n\n"


def as_object(payload: Json) -> Json:
    choices = payload["choices"]
    return {**payload, "choices": choices[0] if choices else choices}


@every
@pytest.mark.parametrize("usual", [0, 2])
def test_choices_as_an_object(client: str, usual: int) -> None:
    """The client got nothing, or half of the text, as a clean end."""
    frames = [*TEXT[:usual], *(remade(frame, as_object) for frame in TEXT[usual:])]
    held, done, _ = restored(client, CHAT, *frames, USED, DONE)
    assert held.error is None
    assert held.text == "Hi you"
    assert done == [CHOICES]


@every
def test_choices_as_an_object_in_a_whole_reply(client: str) -> None:
    got, translation = replied(client, CHAT, as_object(chat_reply("tool_calls", tool_calls=[CALLED])))
    assert called(client, got) == [("call_a", "read")]
    assert CHOICES in rows(translation, REPAIRED)


@every
@pytest.mark.parametrize("envelope", ["data", "response", "result"])
def test_chunks_in_an_envelope(client: str, envelope: str) -> None:
    """Whole replies in one are read, so that chunks must be: all of them were dropped."""
    frames = [remade(frame, lambda payload: {envelope: payload, "code": 0}) for frame in (*TEXT, USED)]
    held, done, _ = restored(client, CHAT, *frames, DONE)
    assert held.error is None
    assert held.text == "Hi you"
    assert done == ["a chunk came in an envelope"]


@every
def test_tool_calls_as_an_object(client: str) -> None:
    pieces = [
        chunk({"tool_calls": start_call(0, "call_a", "read", '{"f"')}),
        chunk({"tool_calls": more_call(0, ':"a"}')}),
    ]
    held, done, _ = restored(client, CHAT, ROLE, *pieces, CALLS, USED, DONE)
    assert held.calls == ONE_CALL
    assert done == [TOOL_CALLS]


@every
def test_an_object_that_is_no_call_is_an_error(client: str) -> None:
    held, _, _ = restored(client, CHAT, ROLE, chunk({"tool_calls": {"0": CALLED}}), CALLS, USED, DONE)
    assert held.error is not None
    assert client == CHAT or _fails(client, chat_reply("tool_calls", tool_calls={"0": CALLED}))


def _fails(client: str, body: Json) -> bool:
    with pytest.raises(DragomanError):
        replied(client, CHAT, body)
    return True


@every
@pytest.mark.parametrize("role", [True, False])
@pytest.mark.parametrize("size", [1, 4, 100])
def test_a_call_with_its_name_and_arguments_at_its_top_level(client: str, role: bool, size: int) -> None:
    """The name was dropped, and the turn ended in an error."""
    text = '{"f":"a"}'
    pieces = [{"index": 0, "arguments": text[at : at + size]} for at in range(0, len(text), size)]
    pieces[0] = {**FLAT, **pieces[0]}
    held, done, out = restored(client, CHAT, *[ROLE] * role, *map(calls, pieces), CALLS, USED, DONE)
    assert held.calls == ONE_CALL
    assert done == [TOP_LEVEL]
    assert client != CHAT or events_of(out)[0]["choices"][0]["delta"]["role"] == "assistant"


@every
def test_only_the_later_fragments_have_them_there(client: str) -> None:
    pieces = [start_call(0, "call_a", "read", '{"f"'), {"index": 0, "arguments": ':"a"}'}]
    held, _, _ = restored(client, CHAT, ROLE, *map(calls, pieces), CALLS, USED, DONE)
    assert held.calls == ONE_CALL


@every
@pytest.mark.parametrize(("sent", "repair"), [([FLAT], TOP_LEVEL), (CALLED, TOOL_CALLS), (FLAT, TOP_LEVEL)])
def test_calls_of_a_whole_reply_in_another_form(client: str, sent: Any, repair: str) -> None:
    got, translation = replied(client, CHAT, chat_reply("tool_calls", tool_calls=sent))
    assert called(client, got) == [("call_a", "read")]
    assert repair in rows(translation, REPAIRED)


def test_a_forwarded_reply_in_the_usual_form() -> None:
    got, _ = replied(CHAT, CHAT, chat_reply("tool_calls", tool_calls=[FLAT], content="Hi") | {"n": 1e2})
    [call] = got["choices"][0]["message"]["tool_calls"]
    assert call["function"] == {"name": "read", "arguments": '{"f":"a"}'}
    assert (call["id"], call["type"], got["n"]) == ("call_a", "function", 1e2)
    body = json.dumps(chat_reply("tool_calls", tool_calls=[CALLED])).encode()
    assert translated(direction(CHAT, CHAT)).reply(body) == body


@every
@pytest.mark.parametrize("index", [1, "0", 3])
def test_the_only_choice_is_not_counted_from_0(client: str, index: Any) -> None:
    """It was an error, as a choice that was not requested."""

    def moved(payload: Json) -> Json:
        return {**payload, "choices": [{**choice, "index": index} for choice in payload["choices"]]}

    held, done, _ = restored(client, CHAT, *(remade(frame, moved) for frame in TEXT), USED, DONE)
    assert held.error is None
    assert held.text == "Hi you"
    assert done == ["the index of the only choice was not 0"]


@every
def test_a_second_choice_is_an_error(client: str) -> None:
    second = remade(TEXT[1], lambda payload: {**payload, "choices": [{**payload["choices"][0], "index": 1}]})
    for frames in ([*TEXT[:2], second], [second, TEXT[1]]):
        held, _, _ = restored(client, CHAT, *frames, STOP, USED, DONE)
        assert held.error is not None


@every
@pytest.mark.parametrize("text", ["", " you"])
def test_a_finish_reason_inside_the_delta(client: str, text: str) -> None:
    """A cut reply ended as a complete one, which agents go on from."""
    end = chunk({"content": text, "finish_reason": "length"} if text else {"finish_reason": "length"})
    held, done, _ = restored(client, CHAT, *TEXT[:2], end, USED, DONE)
    assert held.text == "Hi" + text
    assert held.finish == {CHAT: "length", MESSAGES: "max_tokens", RESPONSES: "incomplete/max_output_tokens"}[client]
    assert done == [FINISH]


@every
def test_a_finish_reason_inside_the_message(client: str) -> None:
    body = chat_reply(content="Hi", finish_reason="length")
    body["choices"][0]["finish_reason"] = None
    got, translation = replied(client, CHAT, body)
    ends = {CHAT: ("choices", 0, "finish_reason"), MESSAGES: ("stop_reason",), RESPONSES: ("status",)}
    value: Any = got
    for key in ends[client]:
        value = value[key]
    assert value == {CHAT: "length", MESSAGES: "max_tokens", RESPONSES: "incomplete"}[client]
    assert rows(translation, REPAIRED) == [FINISH]


def test_T28_content_as_parts_is_text_for_chat_clients() -> None:
    """The SDKs join texts: content that is an array raised an error in them."""
    frames = [
        ROLE,
        *(chunk({"content": [{"type": "text", "text": text}]}) for text in ("Hi", " you")),
        STOP,
        USED,
        DONE,
    ]
    held, done, _ = restored(CHAT, CHAT, *frames)
    assert held.text == "Hi you"
    assert done == ["content was an array of parts"]


def test_parts_of_a_server_whose_clients_read_them_pass() -> None:
    frames = [ROLE, chunk({"content": [{"type": "text", "text": "Hi"}]}), STOP, USED, DONE]
    assert stream_through(translated(direction(CHAT, CHAT), profile="mistral"), frames) == b"".join(frames)
