"""The form of a reply in Responses: counts, snapshots, errors, and blocks that share an item, without the engine."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dragoman.canonical.events import BlockEnd, BlockStart, Event, Start, StopReason, Usage
from dragoman.errors import Failure, FailureKind

Json = dict[str, Any]

INCOMPLETE = {
    StopReason.LENGTH: "max_output_tokens",
    StopReason.FILTERED: "content_filter",
}
_ERRORS = {
    FailureKind.RATE_LIMIT: "rate_limit_exceeded",
    FailureKind.CONTEXT_LENGTH: "context_length_exceeded",
    FailureKind.OVERLOADED: "server_is_overloaded",
    FailureKind.POLICY: "invalid_prompt",
}
_PREFIX = {"text": "msg", "refusal": "msg", "reasoning": "rs", "opaque": "ws"}
PROSE = ("text", "refusal")
"""The kinds of parts of a message."""


def responses_usage(usage: Usage) -> Json:
    """Responses' form of whole counts: every detail is there, 0 where it is not known."""
    assert usage.input_total is not None
    assert usage.output_total is not None
    return {
        "input_tokens": usage.input_total,
        "input_tokens_details": {"cached_tokens": usage.cache_read or 0, "cache_write_tokens": usage.cache_write or 0},
        "output_tokens": usage.output_total,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": usage.input_total + usage.output_total,
    }


def counted(usage: Usage) -> Usage:
    """Return what a reader makes of `responses_usage`."""
    return Usage(
        usage.input_total, usage.cache_read or 0, usage.cache_write or 0, usage.output_total, usage.reasoning or 0
    )


def response_object(start: Start, **more: Any) -> Json:
    """A snapshot with the keys that the schema requires (responses §7)."""
    return {
        "id": start.id,
        "object": "response",
        "created_at": start.created or 1_790_000_000,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": start.model,
        "output": [],
        "parallel_tool_calls": True,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "usage": None,
        **more,
    }


def failed_error(failure: Failure) -> Json:
    """The `error` of a failed response."""
    return {"code": _ERRORS.get(failure.kind, "server_error"), "message": failure.message}


def overlaps(events: Iterable[Event]) -> bool:
    """Return whether more than one block is open at a time."""
    running = 0
    for event in events:
        running += isinstance(event, BlockStart) - isinstance(event, BlockEnd)
        if running > 1:
            return True
    return False


class Item:
    """An output item: its blocks, and what has been stated of it."""

    def __init__(self, number: int, first: BlockStart) -> None:
        self.kind = first.kind
        self.first = first
        self.blocks = [first.index]
        self.waiting = {first.index}
        self.output_index = -1
        self.id = f"{_PREFIX.get(self.kind) or _call_prefix(first)}_{number}"
        self.parts: list[Json] = []
        """The parts of a message, or of a reasoning item."""
        self.value: Json = {}
        """The item itself, once it was added."""


def _call_prefix(start: BlockStart) -> str:
    return "tsc" if start.search else "ctc" if start.custom else "fc"


def items_of(events: list[Event], joined: list[bool]) -> dict[int, Item]:
    """The item of each block. Neighbours that are text or refusal are one message where `joined` states it."""
    found: dict[int, Item] = {}
    last: Item | None = None
    for event in events:
        if not isinstance(event, BlockStart):
            continue
        if last is not None and event.kind in PROSE and last.kind in PROSE and joined[event.index % len(joined)]:
            last.blocks.append(event.index)
            last.waiting.add(event.index)
        else:
            last = Item(len(found), event)
        found[event.index] = last
    return found
