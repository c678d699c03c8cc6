"""Size limits of requests and replies, each with a default.

A limit on bytes bounds memory: exceeding it raises `errors.LimitExceeded`. A limit on the number of items in a request
bounds its translation time, during which other requests wait: exceeding it raises `errors.TooMany`.
"""

from __future__ import annotations

from dataclasses import dataclass

from dragoman.short_repr import changed_fields

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits. Each is in bytes unless its docstring names another unit."""

    __repr__ = changed_fields

    request_body: int = 32 * MIB
    """Request body (Anthropic's own limit is 32 MB)."""
    reply_body: int = 64 * MIB
    """Whole (non-streamed) reply body; also what block_order may hold back of a stream (characters)."""
    upload: int = 512 * MIB
    """A form with files for an endpoint such as audio/transcriptions; it is not held in memory."""
    upload_held: int = 32 * MIB
    """Of such a form before its field model; this part is held in memory."""
    sse_line: int = 8 * MIB
    """One line of an event stream."""
    sse_frame: int = 16 * MIB
    """One frame (all its lines) of an event stream."""
    blocks: int = 4096
    """Blocks in one streamed reply (a count)."""
    tool_arguments: int = 16 * MIB
    """Arguments of all tool calls of one streamed reply (characters)."""
    messages: int = 100_000
    """Messages in one request (a count, Anthropic's own limit)."""
    parts: int = 100_000
    """Content parts and tool calls in one translated request, those in tool results too (a count)."""
    calls: int = 50_000
    """Tool calls in the history of one translated request (a count)."""
    tools: int = 10_000
    """Tools declared in one translated request (a count)."""
    stops: int = 4096
    """Stop sequences of one translated request (characters, and one for each)."""
    validated: int = MIB
    """Of a streamed reply that is validated: what is kept to check it, and its longest frame; not checked beyond."""
    losses: int = 256
    """Losses listed per request (a count; more are only counted)."""


DEFAULT_LIMITS = Limits()
