"""Size limits of requests and replies, each with a default.

A limit on bytes bounds memory: exceeding it raises `errors.LimitExceeded`. A limit on the number of items in a request
bounds its translation time, during which other requests wait: exceeding it raises `errors.TooMany`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dragoman.short_repr import changed_fields

MIB = 1024 * 1024


def documented(default: Any, doc: str) -> Any:
    """Return a dataclass field whose metadata holds its documentation, from which the reference pages are generated."""
    return field(default=default, metadata={"doc": doc})


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits. Each is in bytes unless its documentation (field metadata `doc`) names another unit."""

    __repr__ = changed_fields

    request_body: int = documented(32 * MIB, "request body (Anthropic's own limit is 32 MB)")
    reply_body: int = documented(
        64 * MIB, "whole (non-streamed) reply body; also what block_order may hold back of a stream (characters)"
    )
    upload: int = documented(
        512 * MIB, "a form with files for an endpoint such as audio/transcriptions; it is not held in memory"
    )
    upload_held: int = documented(32 * MIB, "of such a form before its field model; this part is held in memory")
    sse_line: int = documented(8 * MIB, "one line of an event stream")
    sse_frame: int = documented(16 * MIB, "one frame (all its lines) of an event stream")
    blocks: int = documented(4096, "blocks in one streamed reply (a count)")
    tool_arguments: int = documented(16 * MIB, "arguments of all tool calls of one streamed reply (characters)")
    messages: int = documented(100_000, "messages in one request (a count, Anthropic's own limit)")
    parts: int = documented(
        100_000, "content parts and tool calls in one translated request, those in tool results too (a count)"
    )
    calls: int = documented(50_000, "tool calls in the history of one translated request (a count)")
    tools: int = documented(10_000, "tools declared in one translated request (a count)")
    stops: int = documented(4096, "stop sequences of one translated request (characters, and one for each)")
    validated: int = documented(
        MIB,
        "of a streamed reply that is validated: what is kept to check it, and its longest frame; not checked beyond",
    )
    losses: int = documented(256, "losses listed per request (a count; more are only counted)")


DEFAULT_LIMITS = Limits()
