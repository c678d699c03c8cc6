"""A violation of a dialect's grammar in a stream, recorded without any of the stream's texts."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from dragoman.short_repr import short_repr
from dragoman.wire.json_codec import loads

SHOWN_MAX: Final = 600
"""Longest masked frame, in characters."""
_DEPTH: Final = 6
_MEMBERS: Final = 24
_WORD_MAX: Final = 48
_WORDS: Final = frozenset(
    ("type", "object", "role", "status", "finish_reason", "stop_reason", "reason", "code", "execution", "phase")
)
"""Keys whose values are constants of the dialect."""
_PLACES: Final = frozenset(
    (
        *_WORDS,
        *("index", "output_index", "content_index", "summary_index", "annotation_index", "sequence_number"),
        *("id", "item_id", "call_id", "name", "model", "created", "created_at", "title", "url", "data"),
        *("choices", "delta", "tool_calls", "function", "custom", "usage", "message", "content_block", "item"),
        *("part", "response", "output", "content", "summary", "annotations", "annotation", "logprobs", "error"),
        *("refusal", "reasoning", "reasoning_content", "text", "thinking", "signature", "partial_json"),
        *("arguments", "input", "encrypted_content", "stop_sequence", "stop_details", "incomplete_details"),
        *("prompt_tokens", "completion_tokens", "total_tokens", "input_tokens", "output_tokens", "citation"),
    )
)
"""Keys that are shown. Any other may be private."""
_CLOSED: Final = frozenset(("input", "arguments", "data", "annotation", "citation"))
"""Keys whose objects may have any members, such as a tool's arguments."""


class Violation(NamedTuple):
    """The first violation in a stream. `rule` describes it; `event` is the frame's type, "" if it has none.

    `position` is the number of frames before it, apart from texts and keep-alives; `frame` is the frame with the
    lengths of its texts instead of the texts, "" at the end of the stream.
    """

    rule: str
    event: str = ""
    position: int = 0
    frame: str = ""

    def __repr__(self) -> str:
        return short_repr(self, self.rule)

    def __str__(self) -> str:
        where = f" ({self.event or 'frame'} at {self.position}: {self.frame})" if self.frame else ""
        return self.rule + where


def masked(data: bytes) -> str:
    """Return a frame's payload with each text replaced by its length and each unknown key by `?`."""
    try:
        value = loads(data)
    except (ValueError, RecursionError):
        return f"<{len(data)} bytes that are not JSON>"
    shown = _mask(value, "", 0)
    return shown if len(shown) <= SHOWN_MAX else shown[: SHOWN_MAX - 1] + "…"


def _mask(value: Any, key: str, depth: int) -> str:
    if type(value) is str:
        word = key in _WORDS and len(value) <= _WORD_MAX and value.replace("_", "").replace(".", "").isalnum()
        return f'"{value}"' if word and value.isascii() else f"<{len(value)}>"
    if type(value) is dict:
        if depth > _DEPTH or key in _CLOSED:
            return f"{{{len(value)}}}"
        shown = [
            f"{name if name in _PLACES else '?'}:{_mask(member, name, depth + 1)}"
            for name, member in list(value.items())[:_MEMBERS]
        ]
        return "{" + ",".join(shown) + ("" if len(value) <= _MEMBERS else ",…") + "}"
    if type(value) is list:
        if depth > _DEPTH or key in _CLOSED:
            return f"[{len(value)}]"
        some = [_mask(member, key, depth + 1) for member in value[:4]]
        return "[" + ",".join(some) + ("" if len(value) <= 4 else f",… {len(value)}") + "]"
    return {True: "true", False: "false", None: "null"}[value] if value is None or type(value) is bool else repr(value)
