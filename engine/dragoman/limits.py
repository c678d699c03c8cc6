"""Size limits of requests and replies, each with a default.

A limit on bytes bounds memory: exceeding it raises `errors.LimitExceeded`. A limit on the number of items in a request
bounds its translation time, during which other requests wait: exceeding it raises `errors.TooMany`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits. Each is in bytes unless its documentation (field metadata `doc`) names another unit."""

    request_body: int = field(default=32 * MIB, metadata={"doc": "request body (Anthropic's own limit is 32 MB)"})
    reply_body: int = field(
        default=64 * MIB,
        metadata={
            "doc": "whole (non-streamed) reply body; also what block_order may hold back of a stream (characters)"
        },
    )
    sse_line: int = field(default=8 * MIB, metadata={"doc": "one line of an event stream"})
    sse_frame: int = field(default=16 * MIB, metadata={"doc": "one frame (all its lines) of an event stream"})
    blocks: int = field(default=4096, metadata={"doc": "blocks in one streamed reply (a count)"})
    tool_arguments: int = field(
        default=16 * MIB, metadata={"doc": "arguments of all tool calls of one streamed reply (characters)"}
    )
    messages: int = field(default=100_000, metadata={"doc": "messages in one request (a count, Anthropic's own limit)"})
    parts: int = field(
        default=100_000,
        metadata={"doc": "content parts and tool calls in one translated request, those in tool results too (a count)"},
    )
    calls: int = field(
        default=50_000, metadata={"doc": "tool calls in the history of one translated request (a count)"}
    )
    tools: int = field(default=10_000, metadata={"doc": "tools declared in one translated request (a count)"})
    stops: int = field(
        default=4096, metadata={"doc": "stop sequences of one translated request (characters, and one for each)"}
    )
    losses: int = field(default=256, metadata={"doc": "losses listed per request (a count; more are only counted)"})


DEFAULT_LIMITS = Limits()
