"""Law: a stream and a complete reply of the same odd content agree, also in their error, and so do all wrappings.

The oddities are those of real servers: members of all kinds filled in empty, both kinds of a call in one, a legacy call
next to a text, log probabilities that were not requested, a reply without a message or without a reason for its end.
"""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from dragoman import Dialect, Direction, DragomanError, LossCode
from support.directions import CROSS, judge, stream_through, translated
from support.replies import compared, held_by_client

Json = dict[str, Any]
CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
TOKEN = {"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": []}
EMPTY: st.SearchStrategy[Any] = st.sampled_from((None, "", [], {}))


def maybe(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """An object with some of the members."""
    return st.fixed_dictionaries({}, optional=members)


def frame(payload: Json, *, named: bool = False) -> bytes:
    head = f"event: {payload['type']}\n" if named else ""
    return head.encode() + b"data: " + json.dumps(payload).encode() + b"\n\n"


_FUNCTION = st.sampled_from(({"name": "f", "arguments": "{}"}, {"name": "f", "arguments": '{"a": 1}'}))
_CALL = st.builds(
    lambda function, odd: {"id": "call_1", "type": "function", "function": function} | odd,
    _FUNCTION,
    maybe(custom=EMPTY | st.just({"name": None, "input": ""}), type=st.sampled_from((None, "", "function"))),
)
_NO_CALL: st.SearchStrategy[Any] = st.sampled_from(
    (None, {}, {"id": None, "function": {"name": None, "arguments": ""}}, {"function": {}})
)
_MESSAGE = maybe(
    role=st.sampled_from(("assistant", None, "")),
    content=EMPTY | st.sampled_from(("Hi", [{"type": "text", "text": "Hi"}, None])),
    refusal=st.sampled_from((None, "", "No.")),
    tool_calls=EMPTY | st.lists(_CALL, max_size=1) | st.lists(_NO_CALL, max_size=2),
    function_call=EMPTY | st.sampled_from(({"name": "", "arguments": ""}, {"name": None, "arguments": None})),
    audio=EMPTY | st.just({"id": "a", "data": "x"}),
    annotations=EMPTY,
    reasoning_content=EMPTY | st.just("Hm"),
)
_CHOICE = maybe(
    logprobs=EMPTY | st.sampled_from(({"content": None}, {"content": [TOKEN]}, "none", {"content": [5]})),
    stop_reason=EMPTY,
)


@st.composite
def chat_replies(draw: st.DrawFn) -> tuple[bytes, bytes]:
    message, choice = draw(_MESSAGE), draw(_CHOICE)
    finish = draw(st.sampled_from(("stop", "tool_calls", "length", "content_filter", "", None)))
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    head: Json = {"id": "c", "created": 1, "model": "m"}
    body: Json = head | {
        "choices": [{"index": 0, "message": message, "finish_reason": finish} | choice],
        "usage": usage,
    }
    if draw(st.booleans()) and finish:
        message = {}
        del body["choices"][0]["message"]
    calls = [call and {"index": place, **call} for place, call in enumerate(message.get("tool_calls") or ())]
    delta = message | ({"tool_calls": calls} if calls else {})
    chunks: list[Json] = [
        {"choices": [{"index": 0, "delta": delta} | choice]},
        {"choices": [{"index": 0, "delta": {}, "finish_reason": finish}]},
        {"choices": draw(st.sampled_from(([], None, [None]))), "usage": usage},
    ]
    stream = b"".join(frame(head | {"object": "chat.completion.chunk"} | chunk) for chunk in chunks)
    return json.dumps(body).encode(), stream + b"data: [DONE]\n\n"


_ODD_BLOCKS: tuple[Json, ...] = (
    {"type": "text", "text": "Hi", "citations": None},
    {"type": "text", "text": None},
    {"type": "thinking", "thinking": "Hm", "signature": None},
    {"type": "tool_use", "id": "t", "name": "f", "input": None},
    {"type": "tool_use", "id": "t", "name": "f", "input": {"a": 1}, "caller": None},
    {"type": "odd"},
)
_BLOCKS = st.lists(st.sampled_from(_ODD_BLOCKS), max_size=2, unique_by=lambda block: str(block["type"]))


@st.composite
def messages_replies(draw: st.DrawFn) -> tuple[bytes, bytes]:
    blocks = draw(_BLOCKS)
    stop = draw(st.sampled_from(("end_turn", "tool_use", "refusal", "stop_sequence")))
    odd = draw(
        maybe(container=EMPTY, stop_details=EMPTY, stop_sequence=st.just(None), error=st.sampled_from((None, {})))
    )
    usage: Json = {"input_tokens": 1, "output_tokens": 2, "cache_creation": None}
    head: Json = {"id": "m", "type": "message", "role": "assistant", "model": "m"}
    body = head | {"content": blocks, "stop_reason": stop, "usage": usage} | odd
    events: list[Json] = [{"type": "message_start", "message": head | {"content": None, "usage": usage} | odd}]
    for index, block in enumerate(blocks):
        events.append({"type": "content_block_start", "index": index, "content_block": block})
        events.append({"type": "content_block_delta", "index": index, "delta": draw(EMPTY)})
        events.append({"type": "content_block_stop", "index": index})
    events.append({"type": "message_delta", "delta": {"stop_reason": stop} | odd, "usage": usage})
    events.append({"type": "message_stop"})
    return json.dumps(body).encode(), b"".join(frame(event, named=True) for event in events)


_PARTS = st.lists(
    st.sampled_from(
        (
            {"type": "output_text", "text": "Hi", "annotations": None, "logprobs": None},
            {"type": "output_text", "text": "Hi", "logprobs": [TOKEN]},
            {"type": "output_text", "text": None},
            {"type": "refusal", "refusal": "No."},
            None,
        )
    ),
    max_size=1,
)
_CALL_ITEM = {"type": "function_call", "id": "fc", "call_id": "c", "name": "f", "arguments": '{"a": 1}'}


@st.composite
def responses_replies(draw: st.DrawFn) -> tuple[bytes, bytes]:
    message: Json = {"type": "message", "id": "msg", "role": "assistant", "content": draw(_PARTS | st.just(None))}
    output: list[Json | None] = draw(
        st.sampled_from(([message], [message, _CALL_ITEM], [_CALL_ITEM], [message, None], []))
    )
    odd = draw(maybe(error=EMPTY, incomplete_details=st.sampled_from((None, {}, {"reason": None})), metadata=EMPTY))
    body: Json = {"id": "r", "object": "response", "model": "m", "created_at": 1, "status": "completed"} | odd
    body |= {"output": output, "usage": {"input_tokens": 1, "output_tokens": 2}}
    events: list[Json] = [{"type": "response.created", "response": body | {"status": "in_progress", "output": None}}]
    for index, item in enumerate(output):
        start: Json = {"content": []} if item is message else {"arguments": ""}
        added = None if item is None else item | start
        events.append({"type": "response.output_item.added", "output_index": index, "item": added})
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": "response.completed", "response": body})
    return json.dumps(body).encode(), b"".join(frame(event, named=True) for event in events)


_ODD_PARTS: tuple[Json | None, ...] = (
    {"text": "Hi", "functionCall": None, "thought": False},
    {"text": None, "thoughtSignature": ""},
    {"text": "Hm", "thought": True},
    {"text": "", "functionCall": {}},
    {"functionCall": {"id": "c", "name": "f", "args": {"a": 1}}, "text": ""},
    {"functionCall": {"id": "d", "name": "f", "args": None}},
    {"inlineData": {}, "executableCode": None},
    {"odd": 1},
    {},
    None,
)


@st.composite
def generate_replies(draw: st.DrawFn) -> tuple[bytes, bytes]:
    parts = draw(st.lists(st.sampled_from(_ODD_PARTS), max_size=3, unique_by=str))
    finish = draw(
        st.sampled_from(("STOP", "MAX_TOKENS", "SAFETY", "OTHER", "ODD", "MALFORMED_FUNCTION_CALL", "", None))
    )
    if finish == "SAFETY":  # calls before it are left out, but a stream has delivered them
        parts = [part for part in parts if not (part and part.get("functionCall"))]
    odd = draw(maybe(safetyRatings=EMPTY, groundingMetadata=EMPTY, citationMetadata=EMPTY, logprobsResult=EMPTY))
    head: Json = {"modelVersion": "m", "responseId": "r", "promptFeedback": draw(st.sampled_from((None, {})))}
    usage: Json = {"usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 2, "totalTokenCount": 3}}
    whole: Json = {"content": {"parts": parts, "role": "model"}, "finishReason": finish, "index": 0} | odd
    chunks: list[Json] = [{"candidates": [{"content": {"parts": [part], "role": "model"}} | odd]} for part in parts]
    chunks.append({"candidates": [{"finishReason": finish} | odd]})
    if draw(st.booleans()):
        chunks.append({"candidates": draw(st.sampled_from(([], None))), **usage})
    else:
        chunks[-1] |= usage
    return json.dumps(head | {"candidates": [whole]} | usage).encode(), b"".join(frame(head | each) for each in chunks)


_NAMES = (
    *("candidates", "finishReason", "usageMetadata", "promptTokenCount", "candidatesTokenCount", "promptFeedback"),
    *("functionCall", "thoughtSignature", "inlineData", "modelVersion", "responseId", "executableCode"),
)


def snake_cased(value: Any, kept: set[str], name: str = "") -> Any:
    """A reply of Gemini with the keys of its protocol buffers, but for those that are kept; those of arguments are the
    tool's."""
    if type(value) is list:
        return [snake_cased(each, kept) for each in value]
    if type(value) is not dict or name == "args":
        return value
    return {
        key if key in kept else re.sub("(?=[A-Z])", "_", key).lower(): snake_cased(member, kept, key)
        for key, member in value.items()
    }


REPLIES = {
    CHAT: chat_replies(),
    MESSAGES: messages_replies(),
    RESPONSES: responses_replies(),
    Dialect.GENERATE: generate_replies(),
}


def outcome(row: Direction, body: bytes, *, streamed: bool) -> Any:
    """Return what the client holds, or the status of the error."""
    translation = translated(row)
    if streamed:
        written = stream_through(translation, [body])
        if translation.failure is not None:
            return translation.failure.status
        held = compared(judge(row.client.dialect, written))
    else:
        try:
            written = translation.reply(body)
        except DragomanError as error:
            return error.failure.status
        held = compared(held_by_client(row.client.dialect, json.loads(written)))
    note(written.decode())
    if LossCode.REFUSAL_EXPLANATION in translation.losses.counts or held["text"] or held["calls"]:
        held["refusal"] = ""
    return held


@pytest.mark.parametrize("row", CROSS, ids=str)
@given(data=st.data())
def test_a_stream_and_a_complete_reply_of_odd_content_agree(row: Direction, data: st.DataObject) -> None:
    body, stream = data.draw(REPLIES[row.upstream.dialect])
    note(f"{body!r}\n{stream!r}")
    expected = outcome(row, body, streamed=False)
    assert outcome(row, stream, streamed=False) == expected
    assert outcome(row, stream, streamed=True) == expected
    assert outcome(row, body, streamed=True) == expected


@pytest.mark.parametrize("row", [row for row in CROSS if row.upstream.dialect is Dialect.GENERATE], ids=str)
@given(data=st.data())
def test_keys_in_snake_case_mean_the_same(row: Direction, data: st.DataObject) -> None:
    body, stream = data.draw(generate_replies())
    kept = data.draw(st.sets(st.sampled_from(_NAMES)))
    renamed = json.dumps(snake_cased(json.loads(body), kept)).encode()
    chunks = [json.loads(line[6:]) for line in stream.split(b"\n\n") if line]
    renamed_stream = b"".join(frame(snake_cased(each, kept)) for each in chunks)
    expected = outcome(row, body, streamed=False)
    assert outcome(row, renamed, streamed=False) == expected
    assert outcome(row, renamed_stream, streamed=True) == expected
