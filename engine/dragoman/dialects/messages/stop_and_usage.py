"""The values of the Messages API and their canonical meaning: block types, stop reasons, usage, refusals, citations.

Shared by the codecs of requests, replies and streams, so that a stream and a whole reply cannot differ (mapping §9).
"""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.events import Citation, RefusalInfo, StopReason, Usage
from dragoman.canonical.request import Json
from dragoman.errors import Failure, FailureKind, Path, UpstreamProtocolError, UpstreamStatusError
from dragoman.losses import LossCode, Losses
from dragoman.wire.json_codec import loads

DIALECT: Final = "messages"

IMAGE_TYPES: Final = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Media types of images that the API accepts."""

NATIVE_BLOCKS: Final[dict[str, LossCode]] = {
    "server_tool_use": LossCode.HOSTED_HISTORY,
    "web_search_tool_result": LossCode.HOSTED_HISTORY,
    "web_fetch_tool_result": LossCode.HOSTED_HISTORY,
    "code_execution_tool_result": LossCode.HOSTED_HISTORY,
    "bash_code_execution_tool_result": LossCode.HOSTED_HISTORY,
    "text_editor_code_execution_tool_result": LossCode.HOSTED_HISTORY,
    "tool_search_tool_result": LossCode.HOSTED_HISTORY,
    "mcp_tool_use": LossCode.VENDOR_BLOCK,
    "mcp_tool_result": LossCode.VENDOR_BLOCK,
    "mcp_tool_listing": LossCode.VENDOR_BLOCK,
    "advisor_tool_result": LossCode.VENDOR_BLOCK,
    "fallback": LossCode.VENDOR_BLOCK,
}
"""Assistant blocks of requests that no other dialect has → the loss code if they are dropped (mapping §8.4)."""

OPAQUE_BLOCKS: Final[dict[str, LossCode]] = {
    **NATIVE_BLOCKS,
    "compaction": LossCode.VENDOR_BLOCK,
    "container_upload": LossCode.HOSTED_HISTORY,
}
"""Blocks of replies that no other dialect has → the loss code if they are dropped.

In a request, `compaction` becomes text and `container_upload` is rejected instead.
"""

WEB_SEARCH: Final = "web_search"
"""Name of the hosted web search tool, and the beginning of its versioned types."""
WEB_SEARCH_OPTIONS: Final = ("allowed_domains", "blocked_domains", "user_location", "max_uses")

_READ_STOP: Final[dict[str, StopReason]] = {
    "end_turn": StopReason.END,
    "stop_sequence": StopReason.STOP_SEQUENCE,
    "tool_use": StopReason.TOOL_CALLS,
    "max_tokens": StopReason.LENGTH,
    "model_context_window_exceeded": StopReason.CONTEXT,
    "refusal": StopReason.FILTERED,
    "pause_turn": StopReason.PAUSED,
    "compaction": StopReason.POLICY_CUT,
}

_READ_CHAT_STOP: Final[dict[str, StopReason]] = {
    "stop": StopReason.END,
    "tool_calls": StopReason.TOOL_CALLS,
    "length": StopReason.LENGTH,
    "content_filter": StopReason.FILTERED,
}
"""Stop reasons of Chat, which servers of both dialects mix up."""
_FAILURE_STOPS: Final = frozenset({"error", "abort", "cancelled"})
"""Stop reasons of other servers for a reply that failed. It must not look like a complete one."""

_WRITE_STOP: Final[dict[StopReason, str]] = {
    StopReason.END: "end_turn",
    StopReason.STOP_SEQUENCE: "stop_sequence",
    StopReason.TOOL_CALLS: "tool_use",
    StopReason.LENGTH: "max_tokens",
    StopReason.CONTEXT: "model_context_window_exceeded",
    StopReason.REFUSAL: "refusal",
    StopReason.FILTERED: "refusal",
    StopReason.PAUSED: "pause_turn",
    StopReason.POLICY_CUT: "max_tokens",
}


def read_stop(native: str | None) -> StopReason | None:
    """Return the canonical reason, or None if `native` is unknown or missing (mapping §9.2).

    Raises `UpstreamStatusError` if it reports that the reply failed.
    """
    if not native:
        return None
    reason = _READ_STOP.get(native) or _READ_CHAT_STOP.get(native)
    if reason is None and native in _FAILURE_STOPS:
        message = f"upstream broke the reply off with stop_reason {native!r}"
        raise UpstreamStatusError(Failure(FailureKind.API, message, 502))
    return reason


def resolve_stop_reason(native: str | None, *, calls: bool, content: bool, losses: Losses, at: Path) -> StopReason:
    """Return the stop reason of a complete reply. If the upstream's contradicts the content, the content decides.

    Raises `UpstreamProtocolError` if there is neither a reason nor content, `UpstreamStatusError` like `read_stop`.

    Args:
        native: the upstream's `stop_reason`, if any.
        calls: True if the reply has tool calls.
        content: True if the reply has any block.
        losses: where corrections are recorded.
        at: the place of the reason in the reply, for the records.
    """
    reason = read_stop(native)
    if reason is None:
        if not native and not content:
            raise UpstreamProtocolError("upstream ended the message without a stop_reason or any content")
        losses.add(LossCode.STOP_UNKNOWN, at, f"read {native!r} as end_turn")
        reason = StopReason.END
    elif native in _READ_CHAT_STOP:
        losses.add_once(LossCode.REPLY_REPAIRED, at, f"read {native!r} as {write_stop(reason)!r}")
    if reason is StopReason.END and calls:
        reason = StopReason.TOOL_CALLS
        if read_stop(native) is not None:
            losses.add(LossCode.FINISH_FIXED, at, f"{native} after a call became tool_use")
    elif reason is StopReason.TOOL_CALLS and not calls:
        losses.add(LossCode.FINISH_FIXED, at, "no call was made; read as end_turn")
        reason = StopReason.END
    return reason


def write_stop(reason: StopReason) -> str:
    """Return the `stop_reason` of a canonical reason (mapping §9.2)."""
    return _WRITE_STOP[reason]


def read_stop_details(obj: Any) -> RefusalInfo | None:
    """Return the canonical form of `stop_details` of a refusal, None for anything else."""
    if type(obj) is not dict or obj.get("type") != "refusal":
        return None
    explanation, category = obj.get("explanation"), obj.get("category")
    return RefusalInfo(
        explanation if isinstance(explanation, str) else None, category if isinstance(category, str) else None
    )


def write_stop_details(info: RefusalInfo | None, wording: str = "") -> Json:
    """Return `stop_details` for the reason `refusal`, with all fields; those that are unknown are null.

    The explanation is the upstream's; without one, it is `wording`, the text of the model's refusal.
    """
    known = info or RefusalInfo()
    return {"type": "refusal", "category": known.category, "explanation": known.explanation or wording or None}


def _count(obj: Json, key: str) -> int | None:
    value = obj.get(key)
    return value if type(value) is int and value >= 0 else None


def read_usage(obj: Any) -> Usage | None:
    """Return the canonical usage, None if `obj` is not an object.

    `input_total` includes cache reads and writes, which Messages counts separately (mapping §9.4).
    """
    if type(obj) is not dict:
        return None
    fresh, read, written = (
        _count(obj, "input_tokens"),
        _count(obj, "cache_read_input_tokens"),
        _count(obj, "cache_creation_input_tokens"),
    )
    total = None if fresh is None else fresh + (read or 0) + (written or 0)
    details = obj.get("output_tokens_details")
    thinking = _count(details, "thinking_tokens") if type(details) is dict else None
    return Usage(total, read, written, _count(obj, "output_tokens"), thinking)


def write_usage(usage: Usage) -> Json:
    """Return the usage of Messages: `input_tokens` excludes the cache and is never negative (mapping §9.4)."""
    fresh = (usage.input_total or 0) - (usage.cache_read or 0) - (usage.cache_write or 0)
    out: Json = {"input_tokens": max(0, fresh)}
    if usage.cache_write is not None:
        out["cache_creation_input_tokens"] = usage.cache_write
    if usage.cache_read is not None:
        out["cache_read_input_tokens"] = usage.cache_read
    out["output_tokens"] = usage.output_total or 0
    if usage.reasoning is not None:
        out["output_tokens_details"] = {"thinking_tokens": usage.reasoning}
    return out


def parse_arguments(text: str, empty: str = "{}") -> Json | None:
    """Return a call's arguments as an object, or None if they are not one. `empty` stands for an empty text."""
    try:
        value = loads(text or empty)
    except ValueError:
        return None
    return value if type(value) is dict else None


_WEB_SCHEMES = ("http://", "https://")


def read_citation(obj: Any) -> Citation:
    """Return the canonical form of a text citation.

    Its URL is that of a web search location, or the source of a search result if that is a URL. Offsets are not kept:
    they count in the source, canonical ones in the reply.
    """
    if type(obj) is not dict:
        return Citation(DIALECT, {})
    url, title = obj.get("url"), obj.get("title")
    if obj.get("type") == "search_result_location" and str(source := obj.get("source")).startswith(_WEB_SCHEMES):
        url = source
    return Citation(
        DIALECT, obj, url if isinstance(url, str) else None, title if isinstance(title, str) else None, None, None
    )


def write_citations(citations: list[Citation]) -> list[Json]:
    """Return the citations of a request that came from Messages.

    A Messages upstream accepts no others: it requires an encrypted index of its own, or a position in a document of the
    request (mapping §4.2).
    """
    return [citation.native for citation in citations if citation.origin == DIALECT and citation.native]
