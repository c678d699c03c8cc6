"""Law: a key that a reader does not know, at any level of a reply, arrives at the client or is a row, once.

The key is added to each object of a reply that has every construct, whole and in each frame of its stream. Not looked
into is what is free in form: arguments, and blocks that are passed on or dropped as a whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from dragoman import Direction, Knobs, LossCode, Translation, builtin_profile
from dragoman.dialects import Dialect
from support.directions import CROSS

Json = dict[str, Any]
Where = tuple[str | int, ...]
KEY, MARK = "zz_unknown", "stated by nobody"
FREE = {"input", "arguments", "error"}

TOKEN = {"token": "Hi", "logprob": -0.1, "bytes": [72], "top_logprobs": [{"token": "H", "logprob": -1.0, "bytes": []}]}
URL = {"url": "https://a.test", "title": "A", "start_index": 0, "end_index": 2}
CHAT_USAGE = {
    "prompt_tokens": 5,
    "completion_tokens": 3,
    "total_tokens": 8,
    "prompt_tokens_details": {"cached_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 1},
}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
LOGPROBS = {"content": [TOKEN], "refusal": None}
PAGE = {"type": "url_citation", "url_citation": URL}
HEAD = {"id": "chatcmpl-1", "created": 1, "model": "up", "service_tier": "default"}
CHAT = {
    **HEAD,
    "object": "chat.completion",
    "x_groq": {"id": "req_1"},
    "search_results": [{"url": "https://b.test", "title": "B"}],
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "Hi",
                "reasoning_content": "Hm",
                "annotations": [PAGE],
                "images": [IMAGE],
                "tool_calls": [CALL],
            },
            "logprobs": LOGPROBS,
            "finish_reason": "tool_calls",
        }
    ],
    "usage": CHAT_USAGE,
}


def chunk(delta: Json, finish: str | None = None, **more: Any) -> Json:
    choice = {"index": 0, "delta": delta, "finish_reason": finish, **more}
    return {**HEAD, "object": "chat.completion.chunk", "choices": [choice]}


CHAT_STREAM = [
    {**chunk({"role": "assistant", "content": ""}), "search_results": CHAT["search_results"]},
    chunk({"reasoning_content": "Hm"}),
    chunk({"content": "Hi"}, logprobs=LOGPROBS),
    chunk({"annotations": [PAGE]}),
    chunk({"images": [IMAGE]}),
    chunk({"tool_calls": [{"index": 0, **CALL}]}),
    chunk({}, "tool_calls"),
    {**HEAD, "object": "chat.completion.chunk", "choices": [], "usage": CHAT_USAGE},
]

CITATION = {"type": "web_search_result_location", "cited_text": "", "url": "https://a.test", "title": "A"}
CITATION["encrypted_index"] = "E"
COUNTS = {
    "input_tokens": 5,
    "output_tokens": 3,
    "cache_creation_input_tokens": 2,
    "cache_creation": {"ephemeral_1h_input_tokens": 1, "ephemeral_5m_input_tokens": 1},
    "output_tokens_details": {"thinking_tokens": 1},
    "server_tool_use": {"web_search_requests": 1},
}
THINKING = {"type": "thinking", "thinking": "Hm", "signature": "S"}
TOOL_USE = {"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}
MESSAGE = {"id": "msg_1", "type": "message", "role": "assistant", "model": "up", "stop_sequence": None}
MESSAGES = {
    **MESSAGE,
    "content": [THINKING, {"type": "text", "text": "Hi", "citations": [CITATION]}, TOOL_USE],
    "stop_reason": "tool_use",
    "usage": COUNTS,
}


def block(index: int, start: Json, *deltas: Json) -> list[Json]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


MESSAGES_STREAM = [
    {"type": "message_start", "message": {**MESSAGE, "content": [], "stop_reason": None, "usage": COUNTS}},
    *block(
        0,
        {"type": "thinking", "thinking": "", "signature": ""},
        {"type": "thinking_delta", "thinking": "Hm"},
        {"type": "signature_delta", "signature": "S"},
    ),
    *block(
        1,
        {"type": "text", "text": "", "citations": [CITATION]},
        {"type": "text_delta", "text": "Hi"},
        {"type": "citations_delta", "citation": CITATION},
    ),
    *block(2, TOOL_USE, {"type": "input_json_delta", "partial_json": "{}"}),
    {
        "type": "message_delta",
        "delta": {"stop_reason": "tool_use", "stop_sequence": None},
        "usage": {**COUNTS, "output_tokens": 3},
    },
    {"type": "message_stop"},
]

TEXT_PART = {"type": "output_text", "text": "Hi", "annotations": [{"type": "url_citation", **URL}], "logprobs": [TOKEN]}
ITEM = {"type": "message", "id": "msg_1", "status": "completed", "role": "assistant", "content": [TEXT_PART]}
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Hm"}],
    "encrypted_content": "E",
}
FUNCTION = {"type": "function_call", "id": "fc_1", "status": "completed", "call_id": "c1", "name": "f"}
FUNCTION["arguments"] = "{}"
RESPONSE = {"id": "resp_1", "object": "response", "created_at": 1, "model": "up", "error": None}
RESPONSES = {
    **RESPONSE,
    "status": "completed",
    "output": [REASONING, ITEM, FUNCTION],
    "usage": {
        "input_tokens": 5,
        "input_tokens_details": {"cached_tokens": 1, "cache_write_tokens": 0},
        "output_tokens": 3,
        "output_tokens_details": {"reasoning_tokens": 1},
        "total_tokens": 8,
    },
}
RESPONSES_STREAM: list[Json] = [
    {"type": "response.created", "response": {**RESPONSE, "status": "in_progress", "output": []}},
    {"type": "response.output_item.added", "output_index": 0, "item": {**REASONING, "summary": []}},
    {
        "type": "response.reasoning_summary_text.delta",
        "output_index": 0,
        "item_id": "rs_1",
        "summary_index": 0,
        "delta": "Hm",
    },
    {"type": "response.output_item.done", "output_index": 0, "item": REASONING},
    {
        "type": "response.output_item.added",
        "output_index": 1,
        "item": {**ITEM, "status": "in_progress", "content": []},
    },
    {
        "type": "response.content_part.added",
        "output_index": 1,
        "item_id": "msg_1",
        "content_index": 0,
        "part": {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    },
    {
        "type": "response.output_text.delta",
        "output_index": 1,
        "item_id": "msg_1",
        "content_index": 0,
        "delta": "Hi",
        "logprobs": [TOKEN],
    },
    {
        "type": "response.output_text.annotation.added",
        "output_index": 1,
        "item_id": "msg_1",
        "content_index": 0,
        "annotation_index": 0,
        "annotation": {"type": "url_citation", **URL},
    },
    {
        "type": "response.output_text.done",
        "output_index": 1,
        "item_id": "msg_1",
        "content_index": 0,
        "text": "Hi",
        "logprobs": [],
    },
    {
        "type": "response.content_part.done",
        "output_index": 1,
        "item_id": "msg_1",
        "content_index": 0,
        "part": TEXT_PART,
    },
    {"type": "response.output_item.done", "output_index": 1, "item": ITEM},
    {
        "type": "response.output_item.added",
        "output_index": 2,
        "item": {**FUNCTION, "arguments": "", "status": "in_progress"},
    },
    {
        "type": "response.function_call_arguments.delta",
        "output_index": 2,
        "item_id": "fc_1",
        "delta": "{}",
    },
    {
        "type": "response.function_call_arguments.done",
        "output_index": 2,
        "item_id": "fc_1",
        "arguments": "{}",
    },
    {"type": "response.output_item.done", "output_index": 2, "item": FUNCTION},
    {"type": "response.completed", "response": RESPONSES},
]
for number, event in enumerate(RESPONSES_STREAM):
    event["sequence_number"] = number

WHOLE: dict[Dialect, Json] = {Dialect.CHAT: CHAT, Dialect.MESSAGES: MESSAGES, Dialect.RESPONSES: RESPONSES}
STREAMS = {Dialect.CHAT: CHAT_STREAM, Dialect.MESSAGES: MESSAGES_STREAM, Dialect.RESPONSES: RESPONSES_STREAM}


def objects(value: Any, at: Where = ()) -> Iterator[Where]:
    """The places of objects in `value` that are not free in form."""
    if type(value) is dict:
        yield at
        for key, inner in value.items():
            if key not in FREE:
                yield from objects(inner, (*at, key))
    elif type(value) is list:
        for index, inner in enumerate(value):
            yield from objects(inner, (*at, index))


def put(value: Any, at: Where, key: str = KEY, mark: Any = MARK) -> Any:
    """The value with a key in the object at `at`."""
    copy = json.loads(json.dumps(value))  # not `deepcopy`, which keeps objects shared
    inner = copy
    for step in at:
        inner = inner[step]
    inner[key] = mark
    return copy


def translation(row: Direction) -> Translation:
    return Translation.for_reply(row, "up", profile=builtin_profile(row.upstream.dialect), knobs=Knobs())


def stream_of(dialect: Dialect, frames: list[Json]) -> bytes:
    names = [f"event: {frame['type']}\n" if dialect is not Dialect.CHAT else "" for frame in frames]
    data = "".join(f"{name}data: {json.dumps(frame)}\n\n" for name, frame in zip(names, frames, strict=True))
    return (data + ("data: [DONE]\n\n" if dialect is Dialect.CHAT else "")).encode()


def rows_of(made: Translation) -> list[str]:
    return [loss.path for loss in made.losses.rows if loss.path.endswith(KEY)]


def played(row: Direction, frames: list[Json], size: int = 1 << 20) -> tuple[bytes, Translation]:
    made = translation(row)
    machine, data = made.stream_machine(), stream_of(row.upstream.dialect, frames)
    out = b"".join(machine.feed(data[at : at + size]) for at in range(0, len(data), size)) + machine.finish()
    assert made.failure is None, made.failure
    return out, made


@pytest.mark.parametrize("row", CROSS, ids=str)
def test_the_replies_have_no_unknown_key(row: Direction) -> None:
    made = translation(row)
    made.reply(json.dumps(WHOLE[row.upstream.dialect]).encode())
    assert LossCode.UNKNOWN_FIELD not in made.losses.counts
    _, made = played(row, STREAMS[row.upstream.dialect])
    assert LossCode.UNKNOWN_FIELD not in made.losses.counts


@pytest.mark.parametrize("row", CROSS, ids=str)
def test_no_unknown_key_of_a_whole_reply_is_lost_silently(row: Direction) -> None:
    body, silent = WHOLE[row.upstream.dialect], []
    for at in objects(body):
        made = translation(row)
        out = made.reply(json.dumps(put(body, at)).encode())
        if len(rows_of(made)) != 1 and MARK.encode() not in out:
            silent.append((at, rows_of(made)))
    assert silent == []


@pytest.mark.parametrize("row", CROSS, ids=str)
def test_no_unknown_key_of_a_stream_is_lost_silently(row: Direction) -> None:
    frames, silent = STREAMS[row.upstream.dialect], []
    for at in objects(frames):
        out, made = played(row, put(frames, at))
        if len(rows_of(made)) != 1 and MARK.encode() not in out:
            silent.append((at, rows_of(made)))
    assert silent == []


@pytest.mark.parametrize("row", CROSS, ids=str)
def test_a_key_in_every_frame_is_one_row_for_each_path_however_the_stream_is_split(row: Direction) -> None:
    frames = [{**frame, KEY: MARK} for frame in STREAMS[row.upstream.dialect]]
    (_, whole), (_, split) = played(row, frames), played(row, frames, 7)
    found = rows_of(whole)
    assert found
    assert len(found) == len(set(found))
    assert sorted(found) == sorted(rows_of(split))


@pytest.mark.parametrize("empty", [None, "", [], {}, 0, False])
@pytest.mark.parametrize("row", CROSS, ids=str)
def test_an_unknown_key_without_a_value_is_no_loss(row: Direction, empty: Any) -> None:
    body = WHOLE[row.upstream.dialect]
    for at in objects(body):
        made = translation(row)
        made.reply(json.dumps(put(body, at, mark=empty)).encode())
        assert rows_of(made) == []


@pytest.mark.parametrize("row", CROSS, ids=str)
def test_the_rows_are_bounded(row: Direction) -> None:
    body = {**WHOLE[row.upstream.dialect], **{f"zz_{number}": 1 for number in range(20_000)}}
    made = translation(row)
    made.reply(json.dumps(body).encode())
    assert len(made.losses.rows) <= made.losses.keep
    assert len(made.losses) <= made.losses.keep + 10
