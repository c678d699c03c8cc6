"""Empty parts of a reply change nothing: frames without data, and members that are null, "", [] or {}.

Servers fill in all members of their types and send frames to keep a connection open. All readers, streamed and whole,
are strict about what clients act on (calls, ends, their order) and tolerate the rest.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman import Dialect, Direction
from oracles.grammar import sse
from support import responses_samples
from support.directions import ALL, CROSS, PASSTHROUGH, ask, judge, stream_through, translated
from support.replies import compared, held_by_client
from support.samples import dump, messages_frame, reply, text_stream, tool_stream

CHAT, MESSAGES, RESPONSES = Dialect.CHAT, Dialect.MESSAGES, Dialect.RESPONSES
EMPTY: list[Any] = [None, "", [], {}]
BLANK_FRAMES = [
    b"data: null\n\n",
    b"data:\n\n",
    b"data\n\n",
    b"data: \n\n",
    b"data: {}\n\n",
    b"data: []\n\n",
    b'data: ""\n\n',
    b"event: keep-alive\ndata: null\n\n",
    b"event: ping\ndata:\n\n",
    b"data:null\r\n\r\n",
]
# fmt: off
MEMBERS = {
    CHAT: [
        "content", "refusal", "function_call", "tool_calls", "audio", "annotations", "reasoning", "reasoning_content",
        "reasoning_details", "thinking_blocks", "custom", "logprobs", "usage", "error", "delta", "matched_stop",
    ],
    MESSAGES: ["citations", "signature", "caller", "container", "stop_details", "usage", "error", "diagnostics"],
    RESPONSES: ["annotations", "logprobs", "summary", "encrypted_content", "phase", "namespace", "caller", "error"],
    Dialect.GENERATE: [
        "content", "role", "parts", "text", "thought", "thoughtSignature", "functionCall", "functionResponse", "args",
        "partialArgs", "willContinue", "inlineData", "fileData", "executableCode", "codeExecutionResult", "toolCall",
        "toolResponse", "finishReason", "finishMessage", "safetyRatings", "citationMetadata", "groundingMetadata",
        "urlContextMetadata", "logprobsResult", "continuationToken", "promptFeedback", "usageMetadata", "error",
    ],
}
# fmt: on
"""Members that replies of a dialect may have at some place."""
ROWS = pytest.mark.parametrize("row", ALL, ids=str)


def calls(upstream: Dialect) -> list[bytes]:
    """A whole stream of one call."""
    if upstream is not RESPONSES:
        return tool_stream(upstream)
    call = {"type": "function_call", "id": "fc_1", "call_id": "call_1", "name": "look", "arguments": ""}
    done = {**call, "arguments": '{"city": "Köln"}', "status": "completed"}
    pieces = [{"output_index": 0, "item_id": "fc_1", "delta": piece} for piece in ('{"city": ', '"Köln"}')]
    return responses_samples.numbered(
        {"type": "response.created", "response": responses_samples.response("in_progress")},
        {"type": "response.output_item.added", "output_index": 0, "item": {**call, "status": "in_progress"}},
        *({"type": "response.function_call_arguments.delta", **piece} for piece in pieces),
        {"type": "response.output_item.done", "output_index": 0, "item": done},
        {"type": "response.completed", "response": responses_samples.response("completed", [done])},
    )


STREAMS = pytest.mark.parametrize("make", [text_stream, calls], ids=["text", "calls"])


def streamed(row: Direction, frames: list[bytes], **fields: Any) -> dict[str, Any]:
    translation = translated(row, **fields)
    written = stream_through(translation, frames)
    assert translation.failure is None
    for item in sse.written(written):
        assert item.data is None or item.data.strip() not in (b"", b"null", b"{}", b"[]", b'""')
    return {} if row.passthrough else compared(judge(row.client.dialect, written))


def objects(value: Any) -> Iterator[dict[str, Any]]:
    """All objects of a frame but the arguments of calls, which are the model's."""
    if isinstance(value, dict):
        yield value
        for key, inner in value.items():
            if key not in ("input", "arguments", "args", "usage", "usageMetadata", "metadata", "error"):
                yield from objects(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from objects(inner)


def with_members(data: bytes, value: Any, keys: list[str]) -> bytes:
    payload = json.loads(data)
    for found in list(objects(payload)):
        for key in keys:
            if key not in found:
                found[key] = value
    return dump(payload)


def frames_with(frames: list[bytes], value: Any, keys: list[str]) -> list[bytes]:
    changed = []
    for frame in frames:
        head, _, data = frame.rpartition(b"data: ")
        if data.strip() != b"[DONE]":
            frame = head + b"data: " + with_members(data, value, keys) + b"\n\n"
        changed.append(frame)
    return changed


@pytest.mark.parametrize("blank", BLANK_FRAMES)
@STREAMS
@ROWS
def test_a_frame_without_data_changes_nothing(row: Direction, make: Any, blank: bytes) -> None:
    """T-24."""
    frames = make(row.upstream.dialect)
    plain = streamed(row, frames)
    among = [piece for frame in frames[:-1] for piece in (blank, frame)]
    assert streamed(row, [*among, blank, frames[-1]]) == plain
    assert streamed(row, [b"".join([*among, blank, frames[-1]])]) == plain


def sets_of_members(upstream: Dialect) -> Iterator[tuple[list[str], Any]]:
    """Each member with each empty value, and all of them at once."""
    for value in EMPTY:
        yield MEMBERS[upstream], value
        for key in MEMBERS[upstream]:
            yield [key], value


@pytest.mark.few
@STREAMS
@ROWS
def test_empty_members_of_a_stream_change_nothing(row: Direction, make: Any) -> None:
    frames = make(row.upstream.dialect)
    plain = streamed(row, frames)
    for keys, value in sets_of_members(row.upstream.dialect):
        assert streamed(row, frames_with(frames, value, keys)) == plain, (keys, value)


@pytest.mark.parametrize("row", CROSS, ids=str)
def test_empty_members_of_a_complete_reply_change_nothing(row: Direction) -> None:
    body = dump(reply(row.upstream.dialect))
    plain = compared(held_by_client(row.client.dialect, json.loads(translated(row).reply(body))))
    for keys, value in sets_of_members(row.upstream.dialect):
        odd = translated(row).reply(with_members(body, value, keys))
        assert compared(held_by_client(row.client.dialect, json.loads(odd))) == plain, (keys, value)


def chat(choice: dict[str, Any] | None, **more: Any) -> bytes:
    choices = [] if choice is None else [choice]
    return b"data: " + dump({"id": "c", "object": "chat.completion.chunk", "choices": choices, **more}) + b"\n\n"


FROM_CHAT = pytest.mark.parametrize("row", [row for row in CROSS if row.upstream.dialect is CHAT], ids=str)
FROM_MESSAGES = pytest.mark.parametrize("row", [row for row in CROSS if row.upstream.dialect is MESSAGES], ids=str)
FROM_RESPONSES = pytest.mark.parametrize("row", [row for row in CROSS if row.upstream.dialect is RESPONSES], ids=str)
TEXT = chat({"index": 0, "delta": {"role": "assistant", "content": "Hi"}})
END = chat({"index": 0, "delta": {}, "finish_reason": "stop"})
DONE = b"data: [DONE]\n\n"


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": None},
        {"choices": [None]},
        {"choices": [{}]},
        {"choices": [{"index": None, "delta": None}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [None]}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{}]}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": None, "function": {"name": None}}]}}]},
        {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "", "function": {"arguments": ""}}]}}]},
        {"choices": [{"index": 0, "delta": {"function_call": {"name": "", "arguments": ""}}}]},
        {"choices": [{"index": 0, "delta": {"function_call": {"name": None, "arguments": None}}}]},
        {"choices": [{"index": 0, "delta": {"content": [None, {}]}}]},
        {"choices": [{"index": 0, "delta": {"content": "", "role": None}, "logprobs": {"content": None}}]},
        {"choices": [{"index": 0, "delta": {}, "logprobs": {"content": [{"token": "a", "logprob": -1.0}]}}]},
        {"choices": [{"index": 0, "delta": {}, "logprobs": "none"}]},
    ],
    ids=json.dumps,
)
@FROM_CHAT
def test_an_odd_chunk_of_chat_changes_nothing(row: Direction, odd: dict[str, Any]) -> None:
    frame = chat(None, **odd)
    plain = streamed(row, [TEXT, END, DONE])
    assert streamed(row, [TEXT, frame, frame, END, DONE]) == plain
    assert streamed(row, [frame, TEXT, END, DONE]) == plain


@FROM_CHAT
def test_the_counts_of_a_chunk_without_choices_are_read(row: Direction) -> None:
    counts = {"usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}}
    plain = streamed(row, [TEXT, END, chat(None, **counts), DONE])
    odds: list[dict[str, Any]] = [{"choices": None}, {"choices": [None]}, {"choices": [{}]}]
    for odd in odds:
        assert streamed(row, [TEXT, END, chat(None, **counts, **odd), DONE]) == plain
    bare = b"data: " + dump(counts) + b"\n\n"
    assert streamed(row, [TEXT, END, bare, DONE]) == plain


@pytest.mark.parametrize(
    "odd",
    [
        messages_frame("content_block_delta", index=0, delta=None),
        messages_frame("content_block_delta", index=0, delta={}),
        messages_frame("content_block_delta", index=0, delta={"type": None}),
        messages_frame("content_block_delta", index=0, delta={"type": "text_delta", "text": None}),
        messages_frame("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": ""}),
        messages_frame("content_block_delta", index=0, delta={"type": "signature_delta", "signature": ""}),
        messages_frame("content_block_delta", index=0, delta={"type": "citations_delta", "citation": None}),
        messages_frame("content_block_delta", index=9, delta={"type": "text_delta", "text": ""}),
        messages_frame("message_delta", delta=None, usage=None),
        messages_frame("message_delta", delta={}, usage={}),
    ],
)
@FROM_MESSAGES
def test_an_odd_event_of_messages_changes_nothing(row: Direction, odd: bytes) -> None:
    frames = text_stream(MESSAGES)
    plain = streamed(row, frames)
    at = next(place for place, frame in enumerate(frames) if b"content_block_delta" in frame)
    assert streamed(row, [*frames[:at], odd, *frames[at:]]) == plain


def event(kind: str, **fields: Any) -> bytes:
    return f"event: {kind}\ndata: ".encode() + dump({"type": kind, **fields}) + b"\n\n"


@pytest.mark.parametrize(
    "odd",
    [
        event("response.output_text.delta", output_index=0, content_index=0, delta=None),
        event("response.output_text.delta", output_index=0, content_index=0, delta="", logprobs=[{"token": "a"}]),
        event("response.output_item.added", output_index=5, item=None),
        event("response.output_item.done", output_index=5, item=None),
        event("response.content_part.added", output_index=0, content_index=3, part=None),
        event("response.content_part.done", output_index=0, content_index=3, part={}),
    ],
)
@FROM_RESPONSES
def test_an_odd_event_of_responses_changes_nothing(row: Direction, odd: bytes) -> None:
    frames = text_stream(RESPONSES)
    plain = streamed(row, frames)
    at = next(place for place, frame in enumerate(frames) if b"output_text.delta" in frame)
    assert streamed(row, [*frames[:at], odd, *frames[at:]]) == plain


@pytest.mark.parametrize("row", PASSTHROUGH, ids=str)
def test_only_frames_without_data_are_left_out_of_a_forwarded_stream(row: Direction) -> None:
    """T-24."""
    frames = text_stream(row.upstream.dialect)
    for blank in BLANK_FRAMES:
        among = b"".join([piece for frame in frames[:-1] for piece in (frame, blank)] + frames[-1:])
        written = stream_through(translated(row), [among])
        assert b"".join(line + b"\n\n" for line in written.split(b"\n\n") if line.strip()) == b"".join(frames)


@pytest.mark.parametrize("row", ALL, ids=str)
@pytest.mark.parametrize("bad", [b"data: [1]\n\n", b'data: "x"\n\n', b"data: 1\n\n", b"data: nul\n\n", b"data: {\n\n"])
def test_a_frame_with_data_that_is_no_object_is_an_error(row: Direction, bad: bytes) -> None:
    frames = text_stream(row.upstream.dialect)
    translation = translated(row)
    stream_through(translation, [*frames[:2], bad, *frames[2:]])
    assert translation.failure is not None


@FROM_CHAT
@pytest.mark.parametrize("fields", [{}, {"logprobs": True}])
def test_log_probabilities_end_no_turn(row: Direction, fields: dict[str, Any]) -> None:
    """Those that were not requested are dropped with a loss, streamed and whole."""
    if row.client.dialect is not CHAT:
        fields = {}
    translation, whole = translated(row, ask(row.client.dialect, **fields)), translated(row)
    token = {"content": [{"token": "Hi", "logprob": -0.5, "bytes": None, "top_logprobs": []}]}
    frame = chat({"index": 0, "delta": {"content": "Hi"}, "logprobs": token})
    stream_through(translation, [frame, END, DONE])
    assert translation.failure is None
    message = {
        "index": 0,
        "message": {"role": "assistant", "content": "Hi"},
        "finish_reason": "stop",
        "logprobs": token,
    }
    whole.reply(dump({"id": "c", "choices": [message]}))
    lost = [(code, done) for code, _, done in translation.losses.rows if "log prob" in done]
    assert lost == [(code, done) for code, _, done in whole.losses.rows if "log prob" in done] != []
