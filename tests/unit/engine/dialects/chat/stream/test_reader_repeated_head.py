"""A chunk that begins as the first one is read without its first members, with the same result."""

from __future__ import annotations

import json
from typing import Any

import pytest

from dragoman.canonical.events import Event
from dragoman.dialects.chat.stream.reader import ChatReader, _head_of
from dragoman.losses import Loss
from dragoman.reply_context import ReplyContext
from support.chat_chunks import HEL, ROLE, call, chunk, piece

COUNTS = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
STREAMS: dict[str, list[Any]] = {
    "text": [HEL, HEL, piece({}, "stop"), chunk(usage=COUNTS)],
    "call": [call(0, "call_1", "f", "{"), call(0, "", "", "}"), piece({}, "tool_calls"), "[DONE]"],
    "half a surrogate pair": [
        '{"id":"chatcmpl-x","object":"chat.completion.chunk","choices":[{"delta":{"content":"\\ud83d"}}]}'
    ],
    "error beside the choices": [chunk(error={"message": "busy", "code": 503})],
    "null error": [piece({"content": "a"}) | {"error": None}, piece({}, "stop"), "[DONE]"],
    "error instead of choices": [
        {**{k: v for k, v in chunk().items() if k != "choices"}, "error": {"message": "busy"}}
    ],
    "choices that are null": [chunk() | {"choices": None}, piece({}, "stop"), "[DONE]"],
    "another identity": [HEL | {"id": "chatcmpl-y"}, piece({}, "stop"), "[DONE]"],
    "not JSON": ['{"id": "chatcmpl-x", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [}'],
    "no object": ['"text"'],
    "cut off": ["[DONE]"],
}


def encoded(frame: Any) -> str:
    return frame if isinstance(frame, str) else json.dumps(frame)


def read(frames: list[Any], *, repeated: bool) -> tuple[list[Event], list[Loss], str]:
    context = ReplyContext("client-model", 1, "req")
    reader = ChatReader(context)
    events = reader.feed(f"data: {encoded(ROLE)}\n\n".encode())
    assert reader._head
    for frame in frames:
        if not repeated:
            reader._head = b""
        events = [*events, *reader.feed(f"data: {encoded(frame)}\n\n".encode())]
    return [*events, *reader.finish()], context.losses.rows, repr(reader)


@pytest.mark.parametrize("frames", STREAMS.values(), ids=STREAMS)
def test_the_result_is_that_of_reading_each_chunk_completely(frames: list[Any]) -> None:
    assert read(frames, repeated=True) == read(frames, repeated=False)


@pytest.mark.parametrize(
    ("data", "head"),
    [
        (b'{"id":"a","choices":[]}', b'{"id":"a","choices":'),
        (b'{"choices":[],"id":"a"}', b'{"choices":'),
        (b'{"id": "a", "choices": [{"delta": {"choices": []}}]}', b'{"id": "a", "choices": '),
        (b' {"id":"a","choices":[]}', b""),
        (b'{"id":"a"}', b""),
        (b'{"id":[],"choices":[]}', b""),
        (b'{"id":"[","choices":[]}', b""),
        (b'{"id":{"choices":[1]},"choices":[]}', b""),
        (b'{"id":"{","choices":[]}', b""),
        (b'{"id":"\\"","choices":[]}', b""),
    ],
)
def test_the_head_ends_before_the_choices_and_has_only_plain_members(data: bytes, head: bytes) -> None:
    assert _head_of(data) == head


@pytest.mark.parametrize("extra", [{"usage": COUNTS}, {"error": None}])
def test_there_is_no_head_if_it_may_have_members_that_are_read(extra: dict[str, Any]) -> None:
    reader = ChatReader(ReplyContext("client-model", 1, "req"))
    reader.feed(f"data: {encoded({**extra, **ROLE})}\n\n".encode())
    assert not reader._head


def test_a_null_usage_before_the_choices_is_read_as_none() -> None:
    reader = ChatReader(ReplyContext("client-model", 1, "req"))
    last = [piece({}, "stop"), chunk(usage=COUNTS) | {"usage": COUNTS}]
    frames = [{"usage": None, **frame} for frame in (ROLE, HEL, last[0])] + [last[1]]
    events = reader.feed("".join(f"data: {encoded(frame)}\n\n" for frame in frames).encode())
    assert reader._head.startswith(b'{"usage": null')
    assert [type(event).__name__ for event in events[-2:]] == ["Finish", "End"]
