"""Stop reasons in the words of other vendors, streamed and whole: a bad end never looks like a good one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman import DragomanError, LossCode, Translation, direction
from dragoman.canonical.events import StopReason
from oracles.grammar import Accumulated, Call, sse
from regressions.repaired import REPAIRED, replied, rows
from regressions.wire import (
    CHAT,
    DONE,
    MESSAGES,
    ROLE,
    USAGE,
    begin,
    block,
    calls,
    chat_reply,
    chunk,
    delta,
    end,
    messages_reply,
    start_call,
    stop,
    tool,
)
from support import responses_frames as emitted
from support.directions import Json, error_of, judge, stream_through, translated
from support.responses_samples import numbered

RESPONSES = "responses"
A = Call("call_a", "read", '{"f":"a"}')
CALL = emitted.call(A.id, A.name, A.arguments)
TEXT = emitted.message(emitted.text_part("Hi"))
UPSTREAMS = (CHAT, MESSAGES, RESPONSES)
CROSS = [(client, upstream) for upstream in UPSTREAMS for client in UPSTREAMS if client != upstream]
cross = pytest.mark.parametrize(("client", "upstream"), CROSS)
forms = pytest.mark.parametrize("form", ["streamed", "whole"])
FINISH: dict[str, dict[StopReason, str]] = {
    CHAT: {
        StopReason.END: "stop",
        StopReason.TOOL_CALLS: "tool_calls",
        StopReason.LENGTH: "length",
        StopReason.FILTERED: "content_filter",
    },
    MESSAGES: {
        StopReason.END: "end_turn",
        StopReason.TOOL_CALLS: "tool_use",
        StopReason.LENGTH: "max_tokens",
        StopReason.FILTERED: "refusal",
    },
    RESPONSES: {
        StopReason.END: "completed",
        StopReason.TOOL_CALLS: "completed",
        StopReason.LENGTH: "incomplete/max_output_tokens",
        StopReason.FILTERED: "incomplete/content_filter",
    },
}
LENGTH = ["MAX_TOKENS", "LENGTH", "Length", "maxTokens", "max-output-tokens", "token_limit", "FINISH_REASON_MAX_TOKENS"]
FILTERED = ["SAFETY", "Recitation", "PROHIBITED_CONTENT", "IMAGE_SAFETY", "guardrail_intervened", "content-filter"]
FAILED = ["MALFORMED_FUNCTION_CALL", "repetition", "canceled", "aborted", "Timeout", "failed", "server_error", "ERROR"]
UNKNOWN = ["OTHER", "FINISH_REASON_UNSPECIFIED", "novelty", "x" * 200]


def streamed(upstream: str, word: str, *, text: bool = False, call: bool = False) -> tuple[Any, ...]:
    """A stream that ends with `word`."""
    if upstream == CHAT:
        call_id = start_call(0, A.id, A.name, A.arguments)
        content = [chunk({"content": "Hi"})] * text + [calls(call_id)] * call
        return (ROLE, *content, chunk({}, word), chunk(None, usage=USAGE), DONE)
    if upstream == MESSAGES:
        content = [block(0, type="text", text=""), delta(0, "text", "Hi"), stop(0)] * text
        content += [tool(1, A.id, A.name), delta(1, "input_json", A.arguments), stop(1)] * call
        return (begin(), *content, end(word))
    stated = [*emitted.opens(0), *emitted.writes(0, "Hi"), emitted.done(0, **TEXT)] * text
    stated += [emitted.done(1, **CALL)] * call
    return tuple(numbered(emitted.created(), *stated, _ended(word, text=text, call=call)))


def whole(upstream: str, word: str, *, text: bool = False, call: bool = False) -> Json:
    """A complete reply that ends with `word`."""
    if upstream == CHAT:
        fields: Json = {"tool_calls": [start_call(0, A.id, A.name, A.arguments)]} if call else {}
        return chat_reply(word, content="Hi" if text else None, **fields)
    if upstream == MESSAGES:
        use = {"type": "tool_use", "id": A.id, "name": A.name, "input": json.loads(A.arguments)}
        return messages_reply(word, *[{"type": "text", "text": "Hi"}] * text, *[use] * call)
    response: Json = _ended(word, text=text, call=call)["response"]
    return response


def _ended(word: str, *, text: bool, call: bool) -> Json:
    items = [TEXT] * text + [CALL] * call
    response = emitted.response("incomplete", items, incomplete_details={"reason": word})
    return {"type": "response.incomplete", "response": response}


def finish_of(client: str, got: Json) -> str:
    """The stop reason of a complete reply, as `Accumulated.finish` has it."""
    if client == CHAT:
        return str(got["choices"][0]["finish_reason"])
    if client == MESSAGES:
        return str(got["stop_reason"])
    details = got["incomplete_details"]
    return f"{got['status']}/{details['reason']}" if details else str(got["status"])


def read_to_end(client: str, upstream: str, *frames: bytes) -> tuple[Accumulated, Translation]:
    """Return what a strict client accumulates of a stream, and the translation."""
    translation = translated(direction(client, upstream))
    return judge(client, stream_through(translation, frames)), translation


def ended(client: str, upstream: str, form: str, word: str, **content: bool) -> tuple[str, Translation]:
    """The client's stop reason, and the translation."""
    if form == "whole":
        got, translation = replied(client, upstream, whole(upstream, word, **content))
        return finish_of(client, got), translation
    held, translation = read_to_end(client, upstream, *streamed(upstream, word, **content))
    assert held.error is None
    return str(held.finish), translation


def failed(client: str, upstream: str, form: str, word: str, **content: bool) -> str:
    """The message of the error in which the reply ends."""
    if form == "whole":
        with pytest.raises(DragomanError) as caught:
            replied(client, upstream, whole(upstream, word, **content))
        return caught.value.failure.message
    held, _ = read_to_end(client, upstream, *streamed(upstream, word, **content))
    assert held.error is not None
    return str(held.error["message"])


@cross
@forms
@pytest.mark.parametrize(
    ("word", "reason"),
    [(word, StopReason.LENGTH) for word in LENGTH] + [(word, StopReason.FILTERED) for word in FILTERED],
)
def test_a_cut_is_a_cut_in_any_vendors_word(
    client: str, upstream: str, form: str, word: str, reason: StopReason
) -> None:
    finish, translation = ended(client, upstream, form, word, text=True)
    assert finish == FINISH[client][reason]
    assert any(word in row for row in rows(translation, REPAIRED))


@cross
@forms
def test_a_call_of_a_cut_reply_is_not_run(client: str, upstream: str, form: str) -> None:
    finish, _ = ended(client, upstream, form, "MAX_TOKENS", text=True, call=True)
    assert finish == FINISH[client][StopReason.LENGTH]


@pytest.mark.parametrize(("client", "upstream"), [row for row in CROSS if row[1] != RESPONSES])
@forms
@pytest.mark.parametrize("word", ["COMPLETE", "eos_token", "STOP", "END_TURN"])
def test_an_end_is_an_end_in_any_vendors_word(client: str, upstream: str, form: str, word: str) -> None:
    finish, translation = ended(client, upstream, form, word, text=True)
    assert finish == FINISH[client][StopReason.END]
    assert rows(translation, LossCode.STOP_UNKNOWN) == []
    assert ended(client, upstream, form, word, call=True)[0] == FINISH[client][StopReason.TOOL_CALLS]


@cross
@forms
@pytest.mark.parametrize("word", FAILED)
@pytest.mark.parametrize("content", [{}, {"text": True}, {"call": True}], ids=["empty", "text", "call"])
def test_T22_a_broken_reply_is_an_error_that_names_the_word(
    client: str, upstream: str, form: str, word: str, content: dict[str, bool]
) -> None:
    """Errors that end as a success (BerriAI/litellm#20347), and empty turns that agents repeat for ever."""
    assert word in failed(client, upstream, form, word, **content)


@pytest.mark.parametrize("dialect", [CHAT, MESSAGES])
@pytest.mark.parametrize("word", FAILED)
def test_T22_a_broken_reply_that_is_forwarded_is_an_error_too(dialect: str, word: str) -> None:
    """Errors that end as a success (BerriAI/litellm#20347)."""
    translation = translated(direction(dialect, dialect))
    errors = [error_of(dialect, item) for item in sse.split(stream_through(translation, streamed(dialect, word)))]
    assert word in next(error for error in errors if error)["message"]
    assert translation.failure is not None
    assert word in failed(dialect, dialect, "whole", word, text=True)


@cross
@forms
@pytest.mark.parametrize("word", UNKNOWN)
def test_an_unknown_word_is_an_end_after_content_and_else_an_error(
    client: str, upstream: str, form: str, word: str
) -> None:
    finish, translation = ended(client, upstream, form, word, text=True)
    assert finish == FINISH[client][StopReason.END]
    assert len(rows(translation, LossCode.STOP_UNKNOWN)) == 1
    message = failed(client, upstream, form, word)
    assert word in message or f"<{len(word)} characters>" in message


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
@forms
@pytest.mark.parametrize("word", ["max_messages", "steered"])
def test_a_response_that_stopped_between_items_is_not_cut_by_its_cap(client: str, form: str, word: str) -> None:
    """A client that reads `length` raises its cap and asks again."""
    finish, translation = ended(client, RESPONSES, form, word, text=True)
    assert finish == FINISH[client][StopReason.END]
    assert rows(translation, LossCode.STOP_UNKNOWN) == [f"taken as an end: {word!r}"]
    assert ended(client, RESPONSES, form, word, call=True)[0] == FINISH[client][StopReason.TOOL_CALLS]
    assert "incomplete response" in failed(client, RESPONSES, form, word)


@pytest.mark.parametrize("client", [CHAT, MESSAGES])
def test_the_status_of_a_response_is_read_in_any_case(client: str) -> None:
    got, translation = replied(client, RESPONSES, emitted.response("Completed", [TEXT]))
    assert finish_of(client, got) == FINISH[client][StopReason.END]
    assert rows(translation, LossCode.STOP_UNKNOWN) == []
