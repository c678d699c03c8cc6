"""The recorded streams of upstreams that the faults break."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path

from dragoman import Dialect

FOLDER = Path(__file__).parents[3] / "tests" / "golden" / "transcripts"
NAMES = {
    Dialect.CHAT: (
        "annotations call_on_finish_chunk comments content_after_tool content_on_finish_chunk late_refusal logprobs"
        " multiline_data nulls reasoning_details reasoning_twice refusal text thinking_text_tool token_cap two_tools"
        " unicode usage_on_finish_chunk vendor_extras whole_calls"
    ),
    Dialect.MESSAGES: (
        "comments_and_pings compaction empty_text_block fallback_block input_in_start_and_deltas late_refusal"
        " pause_turn redacted_thinking refusal server_tools several_message_delta stop_sequence text text_after_tool"
        " text_in_start thinking_text_tool thinking_twice token_cap two_tools unicode"
    ),
    Dialect.RESPONSES: (
        "annotations arguments_in_done call_only_in_output comments compaction hosted_calls reasoning_twice refusal"
        " text text_after_tool text_beside_tool thinking_text_tool token_cap two_messages two_parts two_tools unicode"
    ),
    Dialect.GENERATE: (
        "blocked_prompt cached_and_tool_tokens code_execution filtered_after_text grounding late_signature"
        " streamed_arguments text thinking_tool token_cap token_cap_in_thinking two_tools unix_lines usage_after_finish"
    ),
}
"""Streams of each dialect that are whole and correct; texts, reasoning, calls, refusals, and what vendors add."""
_TERMINAL = {
    Dialect.CHAT: (b'"finish_reason":"', b'"finish_reason": "'),
    Dialect.MESSAGES: (b'"message_stop"',),
    Dialect.RESPONSES: (b'"response.completed"', b'"response.incomplete"'),
    Dialect.GENERATE: (b'"finishReason":"', b'"blockReason":"'),
}
"""The content of the frame after which a stream is whole."""
_FRAME = re.compile(rb"\n*(.+?\r?\n\r?\n)", re.DOTALL)
_ID, _PLACE = b"resp_u", b"resp_000000"
_STOP_REASON = (b'"stop_reason":"', b'"stop_reason": "')
"""The content of the frame after which a Messages stream that ends as HTTP has it is read as whole."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A whole stream of an upstream.

    `ends` are the bytes after which its frames end. From `whole` bytes on it is whole, and from `noted` bytes on if its
    body ends as HTTP has it.
    """

    name: str
    data: bytes
    ends: tuple[int, ...]
    whole: int
    noted: int

    @classmethod
    def of(cls, dialect: Dialect, name: str, data: bytes) -> Recording:
        """Find the frames of a stream, and the one that ends it."""
        frames = _FRAME.findall(data)
        ends = tuple(accumulate(map(len, frames)))
        stops = [end for frame, end in zip(frames, ends, strict=True) if _has(frame, _TERMINAL[dialect])]
        whole = stops[0]
        noted = whole
        if dialect is Dialect.MESSAGES:
            noted = next(end for frame, end in zip(frames, ends, strict=True) if _has(frame, _STOP_REASON))
        return cls(name, b"".join(frames), ends, whole, noted)

    def with_place_of_number(self) -> Recording:
        """Return the stream with an id in which `numbered` writes a number; itself if its id is not the gateway's."""
        data = self.data.replace(_ID, _PLACE)
        return self if data == self.data else Recording.of(Dialect.RESPONSES, self.name, data)

    def numbered(self, number: int) -> Recording:
        """Return the stream with the number of a case in its id: ids of stored responses are different."""
        return replace(self, data=self.data.replace(_PLACE, b"resp_%06d" % number))


def recordings(dialect: Dialect) -> list[Recording]:
    """Return the recorded streams of a dialect."""
    folder = FOLDER / dialect
    return [Recording.of(dialect, name, (folder / f"{name}.sse").read_bytes()) for name in NAMES[dialect].split()]


def _has(frame: bytes, texts: tuple[bytes, ...]) -> bool:
    return any(text in frame for text in texts)
