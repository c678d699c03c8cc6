"""Status, stop reasons and token usage of Responses, in replies and streams (mapping §9.2 to §9.4)."""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.events import RefusalInfo, Stop, StopReason, Usage
from dragoman.canonical.request import Json
from dragoman.dialects.openai.refusals import DECLINED, is_model_refusal
from dragoman.dialects.shared.json_fields import read_count
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses

DIALECT: Final = "responses"

TOOL_SEARCH: Final = "tool_search"
"""Name of a client-run tool search in dialects whose calls have names. Its item here has no name."""

# CPython 3.11 takes twenty times as long to find a member in its class.
_END, _TOOL_CALLS, _REFUSAL = StopReason.END, StopReason.TOOL_CALLS, StopReason.REFUSAL

# --- reading: status, usage, annotations ------------------------------------------------------------------------------

_READ_REASON: Final[dict[str, StopReason]] = {
    "max_output_tokens": StopReason.LENGTH,
    "content_filter": StopReason.FILTERED,
    "max_messages": StopReason.POLICY_CUT,
    "steered": StopReason.POLICY_CUT,
    # Some servers send the word of Chat or of Messages.
    "max_tokens": StopReason.LENGTH,
    "length": StopReason.LENGTH,
}
_OTHER_WORDS: Final = ("max_tokens", "length")

ENDED: Final = frozenset({"completed", "incomplete", "failed", "cancelled"})
"""Every `status` of a finished response."""


def resolve_stop_reason(response: Json, status: str | None, *, calls: bool, refusal: bool, losses: Losses) -> Stop:
    """Returns the stop of a finished response (mapping §9.2).

    `calls` and `refusal` are True if the response contains a call or refusal wording; an incomplete status takes
    precedence. An unknown reason of an incomplete response is read as a cut, because a normal end would hide it.
    """
    if status == "incomplete":
        details = response.get("incomplete_details")
        reason = details.get("reason") if type(details) is dict else None
        native = reason if type(reason) is str else None
        known = _READ_REASON.get(native or "")
        if known is None:
            losses.add(LossCode.STOP_UNKNOWN, ("incomplete_details", "reason"), f"taken as a cut: {native!r}")
            known = StopReason.POLICY_CUT
        elif native in _OTHER_WORDS:
            losses.add_once(
                LossCode.REPLY_REPAIRED, ("incomplete_details", "reason"), f"read {native!r} as max_output_tokens"
            )
        return Stop(known, native)
    if status != "completed":
        losses.add(LossCode.STOP_UNKNOWN, ("status",), f"taken as completed: {status!r}")
    if calls:
        return Stop(_TOOL_CALLS, status)
    return Stop(_REFUSAL if refusal else _END, status)


def read_usage(obj: Any) -> Usage | None:
    """Returns the canonical counts, or None without any. `input_tokens` already includes cached tokens."""
    if type(obj) is not dict:
        return None
    input_total, output_total = read_count(obj, "input_tokens"), read_count(obj, "output_tokens")
    if input_total is None and output_total is None:
        return None
    details = obj.get("input_tokens_details")
    read, written = read_count(details, "cached_tokens"), read_count(details, "cache_write_tokens")
    reasoning = read_count(obj.get("output_tokens_details"), "reasoning_tokens")
    return Usage(input_total, read, written, output_total, reasoning)


# --- writing: status, refusal, usage, annotations ---------------------------------------------------------------------

_MAX: Final = ("incomplete", "max_output_tokens")
_WRITE_STATUS: Final[dict[StopReason, tuple[str, str | None]]] = {
    StopReason.END: ("completed", None),
    StopReason.STOP_SEQUENCE: ("completed", None),
    StopReason.TOOL_CALLS: ("completed", None),
    StopReason.REFUSAL: ("completed", None),
    StopReason.LENGTH: _MAX,
    StopReason.CONTEXT: _MAX,
    # `completed` would mean that nothing is missing.
    StopReason.PAUSED: _MAX,
    StopReason.POLICY_CUT: _MAX,
    StopReason.FILTERED: ("incomplete", "content_filter"),
}


def write_status(stop: Stop, knobs: Knobs, *, shown: bool) -> tuple[str, str | None]:
    """Returns `status` and `incomplete_details.reason` of a stop (mapping §9.2).

    A Messages refusal completes the response, because agents retry what is incomplete, unless the knob
    `refusal_terminal` is set otherwise. After text or a call (`shown`) it always counts as cut by a filter
    (mapping §9.3).
    """
    if is_model_refusal(stop) and knobs.refusal_terminal == "completed" and not shown:
        return "completed", None
    return _WRITE_STATUS[stop.reason]


def refusal_wording(stop: Stop, info: RefusalInfo | None, *, shown: bool, refused: bool) -> str | None:
    """Returns the text of the refusal item that is added for a Messages refusal, or None if no item is added.

    None if the model refused in words already (`refused`), or without an explanation after text or a call (`shown`)
    (mapping §9.3).
    """
    if refused or not is_model_refusal(stop):
        return None
    explanation = info.explanation if info is not None else None
    return explanation or (None if shown else DECLINED)


def write_usage(usage: Usage | None, losses: Losses) -> Json | None:
    """Returns `ResponseUsage`, or None without counts. Every detail is required: an unknown one is 0 (mapping §9.4)."""
    if usage is None:
        losses.add(LossCode.USAGE_ESTIMATED, "usage", "null: the upstream gave no counts")
        return None
    if usage.input_total is None or usage.output_total is None:
        losses.add(LossCode.USAGE_ESTIMATED, "usage", "a count that the upstream did not give is 0")
    input_total, output_total = usage.input_total or 0, usage.output_total or 0
    return {
        "input_tokens": input_total,
        "input_tokens_details": {
            "cached_tokens": usage.cache_read or 0,
            "cache_write_tokens": usage.cache_write or 0,
        },
        "output_tokens": output_total,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": input_total + output_total,
    }
