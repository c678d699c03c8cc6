"""Stop reasons and token usage of Chat Completions, in replies and streams (mapping §9.2 to §9.4)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Final

from dragoman.canonical.events import RefusalInfo, Stop, StopReason, Usage
from dragoman.canonical.request import Json
from dragoman.dialects.openai.refusals import is_model_refusal
from dragoman.dialects.openai.token_counts import inclusive_usage
from dragoman.dialects.shared.json_fields import count_of, read_count
from dragoman.dialects.shared.stop_words import check_shown, read_stop_word
from dragoman.errors import Path
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses

DIALECT = "chat"
ID_PREFIX = "chatcmpl-"
"""Prefix of a reply's id."""

# --- stop reasons (mapping §9.2) --------------------------------------------------------------------------------------

READ_FINISH = {
    "stop": StopReason.END,
    "length": StopReason.LENGTH,
    "tool_calls": StopReason.TOOL_CALLS,
    "function_call": StopReason.TOOL_CALLS,
    "content_filter": StopReason.FILTERED,
}
MATCHED_STOP_KEYS: Final = ("stop_reason", "matched_stop")
"""Fields in which vLLM (`ChatCompletionResponseChoice` in its code) and SGLang return the matched stop sequence."""
_END: Final = StopReason.END  # CPython 3.11 takes a thousand instructions to find a member in its class
_FINISH_REASONS = {
    StopReason.END: "stop",
    StopReason.STOP_SEQUENCE: "stop",
    StopReason.TOOL_CALLS: "tool_calls",
    StopReason.LENGTH: "length",
    StopReason.CONTEXT: "length",
    StopReason.REFUSAL: "stop",
    StopReason.FILTERED: "content_filter",
    # `tool_calls` would make agents wait for calls that do not exist, `stop` would claim completion.
    StopReason.PAUSED: "length",
    StopReason.POLICY_CUT: "length",
}


def read_finish_reason(native: str | None) -> StopReason | None:
    """Return the canonical reason of a `finish_reason`, or None if it is empty or unknown.

    Raises `UpstreamStatusError` for a value that reports an interrupted reply.
    """
    if not native:
        return None
    if (reason := READ_FINISH.get(native)) is not None:
        return reason
    reason = read_stop_word(native, "finish_reason")
    return StopReason.END if reason is StopReason.STOP_SEQUENCE else reason  # the word does not state which one


def finish_word(native: str, *, calls: bool) -> str:
    """Return the `finish_reason` of OpenAI's that a server's means, or the server's if it is unknown.

    `calls` is True if the reply has calls. Raises `UpstreamStatusError` as `read_finish_reason` does.
    """
    reason = read_finish_reason(native)
    if reason is None:
        return native
    if reason is StopReason.END or reason is StopReason.TOOL_CALLS:
        reason = StopReason.TOOL_CALLS if calls else StopReason.END
    return _FINISH_REASONS[reason]


def check_end(reply: Json) -> None:
    """Raise `UpstreamStatusError` if a `finish_reason` of a complete reply reports that it was interrupted."""
    choices = reply.get("choices")
    for choice in choices if type(choices) is list else ():
        if type(choice) is dict and type(native := choice.get("finish_reason")) is str:
            read_finish_reason(native)


def write_finish_reason(stop: Stop, info: RefusalInfo | None, knobs: Knobs, *, shown: bool = False) -> str:
    """Return the `finish_reason` of a stop.

    A refusal of the upstream is `stop` or `content_filter`, by the knob `refusal_terminal` (mapping §9.3). `shown` is
    True if the client received text or a call before it. It is `content_filter` then: `stop` would mark the reply as
    complete.
    """
    if is_model_refusal(stop, info) and knobs.refusal_terminal == "completed" and not shown:
        return "stop"
    return _FINISH_REASONS[stop.reason]


def matched_stop(choice: Json, sent: Collection[str]) -> str | None:
    """Return the stop sequence that ended a reply, if the server reports it and it is one of those sent.

    A number is the id of an end-of-text token.
    """
    for key in MATCHED_STOP_KEYS:
        if type(sequence := choice.get(key)) is str and sequence in sent:
            return sequence
    return None


def resolve_stop_reason(
    native: str | None,
    *,
    calls: bool,
    refusal: bool,
    shown: bool,
    losses: Losses,
    at: Path = ("finish_reason",),
    matched: str | None = None,
) -> Stop:
    """Return the stop of a complete reply. If `finish_reason` and content disagree, the content decides.

    `native` is the `finish_reason`; `length` and `content_filter` are never changed. `calls`, `refusal` and `shown`
    are True if the reply has calls, a refusal, or anything else than reasoning. `matched` is the stop sequence that
    ended it.

    Raises `UpstreamProtocolError` if nothing is shown and the `finish_reason` is missing or unknown,
    `UpstreamStatusError` for a value that reports an interrupted reply.
    """
    reason = read_finish_reason(native)
    if reason is None:
        check_shown(native, "finish_reason", shown=calls or refusal or shown)
        losses.add(LossCode.STOP_UNKNOWN, at, f"taken as an end: {native!r}")
        reason = StopReason.END
    elif native not in READ_FINISH:
        losses.add_once(LossCode.REPLY_REPAIRED, at, f"read {native!r} as {_FINISH_REASONS[reason]!r}")
    if reason is _END:
        if calls:  # several compatible servers send `stop` after calls
            reason = StopReason.TOOL_CALLS
            if native == "stop":
                losses.add(LossCode.FINISH_FIXED, at, "stop after a call became tool_calls")
        elif refusal:
            reason = StopReason.REFUSAL
        elif matched is not None:
            return Stop(StopReason.STOP_SEQUENCE, native, matched)
    elif reason is StopReason.TOOL_CALLS and not calls:
        losses.add(LossCode.FINISH_FIXED, at, f"{native} without a call became stop")
        reason = StopReason.REFUSAL if refusal else StopReason.END
    return Stop(reason, native)


# --- usage (mapping §9.4) ---------------------------------------------------------------------------------------------


_CACHE_READ = ("prompt_cache_hit_tokens", "cached_tokens", "cache_read_input_tokens")
"""Cached tokens, as DeepSeek (api-docs.deepseek.com, context caching), Kimi (platform.kimi.ai, chat) and LiteLLM's
proxy count them."""


def read_usage(obj: Any) -> Usage | None:
    """Return the token counts, or None without any. Where a server counts cached tokens or reasoning apart from
    `prompt_tokens` and `completion_tokens`, they are added (`token_counts`).

    LiteLLM's proxy states which of the tokens written to a cache are kept for an hour, and named those tokens otherwise
    before (docs.litellm.ai, prompt caching)."""
    if type(obj) is not dict:
        return None
    given, made = count_of(obj.get("prompt_tokens")), count_of(obj.get("completion_tokens"))
    if given is None and made is None:
        return _read_messages_usage(obj)
    read = written = reasoning = hour = None
    if type(details := obj.get("prompt_tokens_details")) is dict:
        read = count_of(details.get("cached_tokens"))
        if (stated := details.get("cache_write_tokens")) is None:
            stated = details.get("cache_creation_tokens")
        written = count_of(stated)
        if written:
            hour = read_count(details.get("cache_creation_token_details"), "ephemeral_1h_input_tokens")
    if read is None:
        read = _cache_read(obj)
    if written is None and "cache_creation_input_tokens" in obj:
        written = count_of(obj.get("cache_creation_input_tokens"))
    if type(details := obj.get("completion_tokens_details")) is dict:
        reasoning = count_of(details.get("reasoning_tokens"))
    if given is not None and made is not None:
        total = obj.get("total_tokens")
        cached = (read or 0) + (written or 0)
        if (total is None or total == given + made) and (reasoning or 0) <= made and cached <= given:
            return Usage(given, read, written, made, reasoning, hour)
    usage = inclusive_usage(given, read, written, made, reasoning, count_of(obj.get("total_tokens")))
    usage.cache_write_1h = hour
    return usage


def _read_messages_usage(obj: Json) -> Usage | None:
    """Return the counts of a server that keeps Claude's names for them, where the input is without the cache."""
    given, made = count_of(obj.get("input_tokens")), count_of(obj.get("output_tokens"))
    if given is None and made is None:
        return None
    read, written = count_of(obj.get("cache_read_input_tokens")), count_of(obj.get("cache_creation_input_tokens"))
    total = None if given is None else given + (read or 0) + (written or 0)
    return Usage(total, read, written, made)


def _cache_read(obj: Json) -> int | None:
    """Return the cached tokens as some compatible servers count them."""
    for key in _CACHE_READ:
        if (count := count_of(obj.get(key))) is not None:
            return count
    return None


def record_missing_usage(usage: Usage | None, losses: Losses) -> None:
    """Record a loss for counts that the upstream did not send."""
    if usage is None:
        losses.add(LossCode.USAGE_ESTIMATED, "usage", "absent: the upstream gave no counts")
    elif usage.input_total is None or usage.output_total is None:
        losses.add(LossCode.USAGE_ESTIMATED, "usage", "a count that the upstream did not give is 0")


def write_usage(usage: Usage) -> Json:
    """Return a `CompletionUsage`. Its totals are required, so unknown ones are 0; unknown details are omitted."""
    prompt, completion = usage.input_total or 0, usage.output_total or 0
    written: Json = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
    details: Json = {}
    if usage.cache_read is not None:
        details["cached_tokens"] = usage.cache_read
    if usage.cache_write is not None:
        details["cache_write_tokens"] = usage.cache_write
    if details:
        written["prompt_tokens_details"] = details
    if usage.reasoning is not None:
        written["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning}
    return written
