"""An agent's turn as each vendor streams it: reasoning, text, and the arguments of two calls, in four blocks.

Deltas have marks as in `replies`. Between two blocks there are events that end one and begin the next.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any

from dragoman_bench.replies import (
    HOLE,
    Reply,
    chat_chunk,
    chat_delta,
    chunk,
    mark,
    message_start,
    response_object,
    sse_event,
)

SHARES = (0.2, 0.4, 0.2, 0.2)
"""Shares of the deltas: reasoning, text, the first call and the second."""
TOOLS = ("run_command", "read_file")
_CALLS = ("call_bench0000000000000001", "call_bench0000000000000002")
_ARGUMENTS = ('{"text":"', '"}')
"""The text before and after the marks in a call's arguments."""
_NUMBER = b'"@n@"'
_OPAQUE = "c2VhbGVkLXJlYXNvbmluZy1vZi1hLWJlbmNobWFyay0" * 8


@dataclass(frozen=True, slots=True)
class Block:
    """The events before a block's deltas, a delta's event, and the events after them. `HOLE` stands for the texts."""

    opening: Sequence[bytes]
    delta: bytes
    closing: Sequence[bytes]


class TurnReply(Reply):
    """A reply of several blocks, with `events` deltas in all. Numbered events have `_NUMBER` in place of the number."""

    needs_texts = True

    def __init__(
        self, events: int, opening: Sequence[bytes], blocks: Sequence[Block], closing: Sequence[bytes], size: int
    ) -> None:
        super().__init__((*opening, *blocks[0].opening), blocks[0].delta, (), {}, size)
        starts = [round(sum(SHARES[:at]) * events) for at in range(len(blocks))]
        self._starts = starts
        self.breaks = frozenset(starts[1:])
        self._blocks = blocks
        self._last = closing
        self._first = [len(opening) + len(blocks[0].opening)]
        """The number of each block's first delta, minus the number of deltas before it."""
        for before, block in pairwise(blocks):
            self._first.append(self._first[-1] + len(before.closing) + len(block.opening))
        self._parts = [
            (before, self._filler + after) for before, after in (block.delta.split(HOLE.encode()) for block in blocks)
        ]
        head = self.opening.partition(b"\r\n\r\n")[0] + b"\r\n\r\n"
        self.opening = head + _numbered((*opening, *blocks[0].opening), 0)

    def delta(self, serial: int, number: int, sent: int, *, last: bool) -> bytes:
        """Return delta `number`, without the events between blocks."""
        at = bisect_right(self._starts, number) - 1
        before, after = self._parts[at]
        numbered = before.replace(_NUMBER, b"%d" % (self._first[at] + number))
        return chunk(numbered + mark(serial, number, sent, last=last) + after)

    def between(self, number: int, texts: Sequence[bytes]) -> bytes:
        """Return the events before delta `number`, which begins a block."""
        at = self._starts.index(number)
        return _numbered([*self._ended(at - 1, texts), *self._blocks[at].opening], self._first[at - 1] + number)

    def closing(self, texts: Sequence[bytes]) -> bytes:
        """Return the events after the last delta."""
        at = len(self._blocks) - 1
        final = list(self._last)
        for number in range(len(self._blocks)):
            final = [data.replace(b"@%d@" % number, self._text(number, texts)) for data in final]
        return _numbered([*self._ended(at, texts), *final], self._first[at] + len(texts)) + b"0\r\n\r\n"

    def _ended(self, at: int, texts: Sequence[bytes]) -> list[bytes]:
        text = self._text(at, texts)
        return [data.replace(HOLE.encode(), text) for data in self._blocks[at].closing]

    def _text(self, at: int, texts: Sequence[bytes]) -> bytes:
        ends = [*self._starts[1:], len(texts)]
        return b"".join(texts[self._starts[at] : ends[at]])


def _numbered(events: Sequence[bytes], first: int) -> bytes:
    """Return the chunks of events, numbered from `first` in the dialects that number them."""
    return b"".join(chunk(data.replace(_NUMBER, b"%d" % (first + at))) for at, data in enumerate(events))


def _chat(events: int, size: int) -> TurnReply:
    def arguments(index: int, text: str) -> bytes:
        return chat_delta({"tool_calls": [{"index": index, "function": {"arguments": text}}]})

    def call(index: int) -> Block:
        function = {"name": TOOLS[index], "arguments": ""}
        opening = {"index": index, "id": _CALLS[index], "type": "function", "function": function}
        before, after = _ARGUMENTS
        return Block(
            [chat_delta({"tool_calls": [opening]}), arguments(index, before)],
            arguments(index, HOLE),
            [arguments(index, after)],
        )

    usage = {"prompt_tokens": 42000, "completion_tokens": 900, "total_tokens": 42900}
    return TurnReply(
        events,
        [chat_delta({"role": "assistant", "content": "", "refusal": None})],
        [
            Block([], chat_delta({"reasoning_content": HOLE}), []),
            Block([], chat_delta({"content": HOLE}), []),
            call(0),
            call(1),
        ],
        [chat_delta({}, "tool_calls"), chat_chunk([], usage), b"data: [DONE]\n\n"],
        size,
    )


def _messages(events: int, size: int) -> TurnReply:
    def block(index: int, content: dict[str, Any], kind: str, key: str, ends: Sequence[dict[str, Any]]) -> Block:
        def delta(change: dict[str, Any]) -> bytes:
            return sse_event({"type": "content_block_delta", "index": index, "delta": change})

        started = sse_event({"type": "content_block_start", "index": index, "content_block": content})
        before = [delta({"type": kind, key: _ARGUMENTS[0]})] if content["type"] == "tool_use" else []
        stopped = sse_event({"type": "content_block_stop", "index": index})
        return Block([started, *before], delta({"type": kind, key: HOLE}), [*map(delta, ends), stopped])

    def call(index: int) -> Block:
        content = {"type": "tool_use", "id": _CALLS[index], "name": TOOLS[index], "input": {}}
        end = {"type": "input_json_delta", "partial_json": _ARGUMENTS[1]}
        return block(2 + index, content, "input_json_delta", "partial_json", [end])

    thinking = {"type": "thinking", "thinking": "", "signature": ""}
    signature = {"type": "signature_delta", "signature": _OPAQUE}
    ended = {"stop_reason": "tool_use", "stop_sequence": None}
    return TurnReply(
        events,
        [message_start()],
        [
            block(0, thinking, "thinking_delta", "thinking", [signature]),
            block(1, {"type": "text", "text": ""}, "text_delta", "text", []),
            call(0),
            call(1),
        ],
        [
            sse_event({"type": "message_delta", "delta": ended, "usage": {"output_tokens": 900}}),
            sse_event({"type": "message_stop"}),
        ],
        size,
    )


def _responses(events: int, size: int) -> TurnReply:
    def numbered(kind: str, **rest: Any) -> bytes:
        return sse_event({"type": f"response.{kind}", "sequence_number": "@n@", **rest})

    def reasoning(text: str) -> dict[str, Any]:
        summary = [{"type": "summary_text", "text": text}]
        return {"id": "rs_0f3a9c5e7b1d4826", "type": "reasoning", "summary": summary, "encrypted_content": _OPAQUE}

    def message(text: str) -> dict[str, Any]:
        part = {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        item = {"id": "msg_0f3a9c5e7b1d4826", "type": "message", "status": "completed", "role": "assistant"}
        return {**item, "content": [part]}

    def function_call(index: int, text: str) -> dict[str, Any]:
        item = {"id": f"fc_0f3a9c5e7b1d482{index}", "type": "function_call", "status": "completed"}
        return {**item, "call_id": _CALLS[index], "name": TOOLS[index], "arguments": text}

    def call(index: int) -> Block:
        item = function_call(index, "")
        where = {"item_id": item["id"], "output_index": 2 + index}
        before, after = _ARGUMENTS
        kind, full = "function_call_arguments", before + HOLE + after
        return Block(
            [
                numbered("output_item.added", output_index=2 + index, item={**item, "status": "in_progress"}),
                numbered(f"{kind}.delta", **where, delta=before),
            ],
            numbered(f"{kind}.delta", **where, delta=HOLE),
            [
                numbered(f"{kind}.delta", **where, delta=after),
                numbered(f"{kind}.done", **where, name=item["name"], arguments=full),
                numbered("output_item.done", output_index=2 + index, item=function_call(index, full)),
            ],
        )

    begun = response_object("in_progress", [])
    summarised = {"item_id": reasoning("")["id"], "output_index": 0, "summary_index": 0}
    shown = {"item_id": message("")["id"], "output_index": 1, "content_index": 0}
    empty = {**message(""), "status": "in_progress", "content": []}
    arguments = [f"{_ARGUMENTS[0]}@{at}@{_ARGUMENTS[1]}" for at in (2, 3)]
    output = [reasoning("@0@"), message("@1@"), function_call(0, arguments[0]), function_call(1, arguments[1])]
    return TurnReply(
        events,
        [numbered("created", response=begun), numbered("in_progress", response=begun)],
        [
            Block(
                [
                    numbered("output_item.added", output_index=0, item={**reasoning(""), "summary": []}),
                    numbered("reasoning_summary_part.added", **summarised, part={"type": "summary_text", "text": ""}),
                ],
                numbered("reasoning_summary_text.delta", **summarised, delta=HOLE),
                [
                    numbered("reasoning_summary_text.done", **summarised, text=HOLE),
                    numbered("reasoning_summary_part.done", **summarised, part=reasoning(HOLE)["summary"][0]),
                    numbered("output_item.done", output_index=0, item=reasoning(HOLE)),
                ],
            ),
            Block(
                [
                    numbered("output_item.added", output_index=1, item=empty),
                    numbered("content_part.added", **shown, part=message("")["content"][0]),
                ],
                numbered("output_text.delta", **shown, delta=HOLE, logprobs=[]),
                [
                    numbered("output_text.done", **shown, text=HOLE, logprobs=[]),
                    numbered("content_part.done", **shown, part=message(HOLE)["content"][0]),
                    numbered("output_item.done", output_index=1, item=message(HOLE)),
                ],
            ),
            call(0),
            call(1),
        ],
        [numbered("completed", response=response_object("completed", output))],
        size,
    )


_TURNS = {"chat": _chat, "messages": _messages, "responses": _responses}


@lru_cache(maxsize=16)
def turn_reply(dialect: str, events: int, size: int) -> TurnReply:
    """Return the reply of a dialect with `events` deltas."""
    return _TURNS[dialect](events, size)
