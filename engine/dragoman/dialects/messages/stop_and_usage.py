"""Stop reasons, refusal details and token usage of Messages, and their canonical meaning (mapping §9.2 to §9.4).

Shared by the codecs of requests, replies and streams, so that a stream and a whole reply cannot differ.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from dragoman.canonical.events import CUTS, RefusalInfo, StopReason, Usage
from dragoman.canonical.request import Json
from dragoman.canonical.service_report import ServiceReport
from dragoman.dialects.shared.json_fields import count_of, read_count, read_counts
from dragoman.dialects.shared.service_report import ONLY_IN_RECEIPT
from dragoman.dialects.shared.stop_words import check_shown, read_stop_word
from dragoman.errors import Path, UpstreamStatusError
from dragoman.losses import LossCode, Losses

DIALECT: Final = "messages"


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

_TOOL_CALLS: Final = StopReason.TOOL_CALLS  # CPython 3.11 takes long to find a member in its class


def read_stop(native: str | None) -> StopReason | None:
    """Return the canonical reason, or None if `native` is unknown or missing (mapping §9.2).

    Raises `UpstreamStatusError` if it reports that the reply failed.
    """
    if not native:
        return None
    return _READ_STOP.get(native) or read_stop_word(native, "stop_reason")


def stop_word(native: str, *, calls: bool) -> str:
    """Return the `stop_reason` of Anthropic's that a server's means, or the server's if it is unknown.

    `calls` is True if the reply has calls. Raises `UpstreamStatusError` as `read_stop` does.
    """
    reason = read_stop(native)
    if reason is StopReason.END or reason is StopReason.TOOL_CALLS:
        return write_stop(StopReason.TOOL_CALLS if calls else StopReason.END)
    return native if reason is None or native in _READ_STOP else write_stop(reason)


def is_cut(native: Any) -> bool:
    """True for a `stop_reason` that leaves the last block unfinished."""
    try:
        return type(native) is str and read_stop(native) in CUTS
    except UpstreamStatusError:
        return False


def check_end(reply: Json) -> None:
    """Raise `UpstreamStatusError` if the `stop_reason` of a complete reply reports that it failed."""
    if type(native := reply.get("stop_reason")) is str:
        read_stop(native)


def resolve_stop_reason(native: str | None, *, calls: bool, shown: bool, losses: Losses, at: Path) -> StopReason:
    """Return the stop reason of a complete reply. If the upstream's contradicts the content, the content decides.

    Raises `UpstreamProtocolError` if nothing is shown and the reason is missing or unknown, `UpstreamStatusError` like
    `read_stop`.

    Args:
        native: the upstream's `stop_reason`, if any.
        calls: True if the reply has tool calls.
        shown: True if the reply has any block but reasoning.
        losses: where corrections are recorded.
        at: the place of the reason in the reply, for the records.
    """
    reason = read_stop(native)
    if reason is None:
        check_shown(native, "stop_reason", shown=shown)
        losses.add(LossCode.STOP_UNKNOWN, at, f"read {native!r} as end_turn")
        reason = StopReason.END
    elif native not in _READ_STOP:
        losses.add_once(LossCode.REPLY_REPAIRED, at, f"read {native!r} as {write_stop(reason)!r}")
    if calls and reason is StopReason.END:
        reason = StopReason.TOOL_CALLS
        if read_stop(native) is not None:
            losses.add(LossCode.FINISH_FIXED, at, f"{native} after a call became tool_use")
    elif not calls and reason is _TOOL_CALLS:
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


_CACHED: Final = ("cache_read_input_tokens", "cache_creation_input_tokens")
_COUNTS: Final = ("input_tokens", "output_tokens", *_CACHED)
_ITERATIONS_MAX: Final = 1000
"""Most iterations that are read of one reply."""


def read_usage(obj: Any) -> Usage | None:
    """Return the canonical usage, None if `obj` is not an object.

    `input_total` includes cache reads and writes, which Messages counts separately (mapping §9.4), and what
    `iterations` count in addition.
    """
    if type(obj) is not dict:
        return None
    usage = _read_counts(obj)
    iterations = obj.get("iterations")
    return _add_iterations(usage, iterations) if iterations else usage


METRICS: Final = "amazon-bedrock-invocationMetrics"
"""The key of the counts that Bedrock adds to the last event of a stream."""
_METRICS: Final = {
    "inputTokenCount": "input_tokens",
    "outputTokenCount": "output_tokens",
    "cacheReadInputTokenCount": "cache_read_input_tokens",
    "cacheWriteInputTokenCount": "cache_creation_input_tokens",
}


def stated_usage(body: Json) -> Any:
    """Return the usage of a reply or an event: its own, that of its message, or the counts of Bedrock."""
    usage, message, metrics = body.get("usage"), body.get("message"), body.get(METRICS)
    if not usage and type(message) is dict:
        usage = message.get("usage")
    if not usage and type(metrics) is dict:
        return {name: metrics[key] for key, name in _METRICS.items() if key in metrics}
    return usage


def merge_counts(counts: Json, usage: Json) -> bool:
    """Replace the counts of a stream by those of a later event; nulls change nothing.

    Servers of Qwen count the whole prompt at the start, and how much of it was cached at the end only. If they do not
    count the rest there, it is what the cache leaves, and True is returned.
    """
    cached = 0
    if usage.get("input_tokens") is None and not any(map(counts.get, _CACHED)):
        for key in _CACHED:
            if key in usage:
                cached += count_of(usage[key]) or 0
    for key, value in usage.items():
        if value is not None:
            counts[key] = value
    if not cached or (whole := count_of(counts.get("input_tokens"))) is None:
        return False
    counts["input_tokens"] = max(0, whole - cached)
    return True


def _read_counts(obj: Json) -> Usage:
    """Return the counts at the top of a usage, or of one of its iterations."""
    fresh, output, read, written = read_counts(obj, _COUNTS)
    if fresh is None and output is None and ("prompt_tokens" in obj or "completion_tokens" in obj):
        prompt, output = read_counts(obj, ("prompt_tokens", "completion_tokens"))  # the names of other dialects
        return Usage(prompt, read_count(obj.get("prompt_tokens_details"), "cached_tokens"), None, output)
    total = None if fresh is None else fresh + (read or 0) + (written or 0)
    thinking = read_count(obj.get("output_tokens_details"), "thinking_tokens")
    if thinking and output is not None and thinking > output:  # then the output does not include it
        output = count_of(output + thinking)
    hour = read_count(obj.get("cache_creation"), "ephemeral_1h_input_tokens") if written else None
    return Usage(total, read, written, output, thinking, hour)


def _add_iterations(usage: Usage, iterations: Any) -> Usage:
    """Return the usage with the iterations that its counts leave out: compactions, and what an advisor used.

    Other iterations are in the counts already, or were declined, which is not charged. The counts of a reply that a
    fallback model made are that model's (`BetaUsage.iterations` of Anthropic's SDK). A compaction is a request of its
    own, so its length is not that of the reply's.
    """
    served: tuple[tuple[str, Usage], ...] = ()
    apart: list[tuple[str, Usage]] = []
    main = usage
    for entry in iterations[:_ITERATIONS_MAX] if type(iterations) is list else ():
        if type(entry) is not dict:
            continue
        kind, model = entry.get("type"), entry.get("model")
        if kind == "fallback_message" and type(model) is str:
            served = ((model, replace(main)),)
        elif kind == "compaction" or kind == "advisor_message":
            counts = _read_counts(entry)
            usage = _sum(usage, counts)
            if kind == "advisor_message" and type(model) is str:
                apart.append((model, counts))
            elif kind == "compaction" and counts.input_total is not None:
                apart.append(("", counts))
    usage.other_models = (*served, *apart)
    return usage


def _sum(first: Usage, second: Usage) -> Usage:
    """Return the sum of two usages. A count that is unknown in the first one stays unknown if it is a total."""
    return Usage(
        _added(first.input_total, second.input_total) if first.input_total is not None else None,
        _added(first.cache_read, second.cache_read),
        _added(first.cache_write, second.cache_write),
        _added(first.output_total, second.output_total) if first.output_total is not None else None,
        _added(first.reasoning, second.reasoning),
        _added(first.cache_write_1h, second.cache_write_1h),
    )


def _added(first: int | None, second: int | None) -> int | None:
    return second if first is None else first if second is None else count_of(first + second)


def write_usage(usage: Usage, service: ServiceReport | None = None) -> Json:
    """Return the usage of `message_delta`: `input_tokens` excludes the cache and is never negative (mapping §9.4).

    Every key of the API's schema is there. `service` is what the upstream stated about its service, if anything.
    """
    fresh = (usage.input_total or 0) - (usage.cache_read or 0) - (usage.cache_write or 0)
    return {
        "input_tokens": max(0, fresh),
        "cache_creation_input_tokens": usage.cache_write or 0,
        "cache_read_input_tokens": usage.cache_read or 0,
        "output_tokens": usage.output_total or 0,
        "output_tokens_details": None if usage.reasoning is None else {"thinking_tokens": usage.reasoning},
        "server_tool_use": None if service is None else _write_tool_use(service),
    }


def _write_tool_use(service: ServiceReport) -> Json | None:
    fetches = (service.calls or {}).get("web_fetch", 0)
    if service.searches is None and not fetches:
        return None
    return {"web_fetch_requests": fetches, "web_search_requests": service.searches or 0}


def write_full_usage(usage: Usage, service: ServiceReport | None) -> Json:
    """Return the usage of a message. `service` is what the upstream stated about its service, if anything."""
    written = write_usage(usage, service)
    hour = usage.cache_write_1h
    if hour is None:
        written["cache_creation"] = None
    else:
        short = max(0, (usage.cache_write or 0) - hour)
        written["cache_creation"] = {"ephemeral_1h_input_tokens": hour, "ephemeral_5m_input_tokens": short}
    written["inference_geo"] = None
    written["service_tier"] = None if service is None else write_tier(service.tier)
    return written


_WRITE_TIER: Final = {"default": "standard", "priority": "priority", "batch": "batch"}


def write_tier(tier: str | None) -> str | None:
    """Return the `service_tier` for a canonical tier, None if Messages has no such one."""
    return _WRITE_TIER.get(tier or "")


def record_hidden_tier(service: ServiceReport | None, written: str | None, losses: Losses) -> None:
    """Record a tier other than the `written` one: Messages has no word for it, or it came after a stream's start."""
    tier = None if service is None else service.tier
    if tier is not None and (written is None or written != write_tier(tier)):
        losses.add_unknown(("service_tier",), ONLY_IN_RECEIPT)
