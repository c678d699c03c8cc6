"""Status, stop reasons and token usage of Responses, in replies and streams (mapping §9.2 to §9.4)."""

from __future__ import annotations

from typing import Any, Final

from dragoman.canonical.events import CUTS, RefusalInfo, Stop, StopReason, Usage
from dragoman.canonical.request import Json
from dragoman.dialects.openai.refusals import DECLINED, is_model_refusal
from dragoman.dialects.openai.token_counts import inclusive_usage
from dragoman.dialects.shared.json_fields import count_of, read_count
from dragoman.dialects.shared.stop_words import check_shown, read_stop_word
from dragoman.errors import Path
from dragoman.knobs import Knobs
from dragoman.losses import LossCode, Losses

DIALECT: Final = "responses"

TOOL_SEARCH: Final = "tool_search"
"""Name of a client-run tool search in dialects whose calls have names. Its item here has no name."""


# --- reading: status, usage, annotations ------------------------------------------------------------------------------

_READ_REASON: Final[dict[str, StopReason]] = {
    "max_output_tokens": StopReason.LENGTH,
    "content_filter": StopReason.FILTERED,
}
"""Reasons of an incomplete response, without `max_messages` and `steered`: no other dialect has a word for a response
that stopped between two items, and after `length` clients raise the output cap."""
_REASON_PATH: Final[Path] = ("incomplete_details", "reason")

ENDED: Final = frozenset({"completed", "incomplete", "failed", "cancelled"})
"""Every `status` of a finished response."""


def resolve_stop_reason(
    response: Json, status: str | None, *, calls: bool, refusal: bool, shown: bool, losses: Losses
) -> Stop:
    """Return the stop of a finished response (mapping §9.2).

    `calls`, `refusal` and `shown` are True if the response contains a call, refusal wording, or anything else than
    reasoning. An incomplete response with a known reason, or without one, is cut, whatever it contains.

    Raises `UpstreamProtocolError` if nothing is shown and the reason is unknown, `UpstreamStatusError` for a
    reason that reports an interrupted reply.
    """
    native = status
    if status == "incomplete":
        details = response.get("incomplete_details")
        reason = details.get("reason") if type(details) is dict else None
        native = reason if type(reason) is str else None
        if native is None:
            losses.add(LossCode.STOP_UNKNOWN, _REASON_PATH, "taken as a cut: None")
            return Stop(StopReason.POLICY_CUT)
        known = _READ_REASON.get(native) or read_stop_word(native, "incomplete_details.reason")
        if known in CUTS:
            if native not in _READ_REASON:
                done = f"read {native!r} as {_WRITE_STATUS[known][1]}"
                losses.add_once(LossCode.REPLY_REPAIRED, _REASON_PATH, done)
            return Stop(known, native)
        check_shown(native, "reason of an incomplete response", shown=calls or refusal or shown)
        losses.add(LossCode.STOP_UNKNOWN, _REASON_PATH, f"taken as an end: {native!r}")
    elif status != "completed":
        check_shown(status, "status", shown=calls or refusal or shown)
        losses.add(LossCode.STOP_UNKNOWN, ("status",), f"taken as completed: {status!r}")
    if calls:
        return Stop(StopReason.TOOL_CALLS, native)
    return Stop(StopReason.REFUSAL if refusal else StopReason.END, native)


def read_usage(obj: Any) -> Usage | None:
    """Return the canonical counts, or None without any. Where a server counts cached tokens or reasoning apart from
    `input_tokens` and `output_tokens`, they are added (`token_counts`)."""
    if type(obj) is not dict:
        return None
    input_total, output_total = count_of(obj.get("input_tokens")), count_of(obj.get("output_tokens"))
    inside, outside = "input_tokens_details", "output_tokens_details"
    if input_total is None and output_total is None:  # the names of Chat, which some servers keep
        input_total, output_total = count_of(obj.get("prompt_tokens")), count_of(obj.get("completion_tokens"))
        inside, outside = "prompt_tokens_details", "completion_tokens_details"
    if input_total is None and output_total is None:
        return None
    read = written = None
    if type(details := obj.get(inside)) is dict:
        read, written = count_of(details.get("cached_tokens")), count_of(details.get("cache_write_tokens"))
    reasoning = read_count(obj.get(outside), "reasoning_tokens")
    if input_total is not None and output_total is not None:
        total = obj.get("total_tokens")
        if (
            (total is None or total == input_total + output_total)
            and (reasoning or 0) <= output_total
            and (read or 0) + (written or 0) <= input_total
        ):
            return Usage(input_total, read, written, output_total, reasoning)
    return inclusive_usage(input_total, read, written, output_total, reasoning, read_count(obj, "total_tokens"))


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


def write_status(stop: Stop, info: RefusalInfo | None, knobs: Knobs, *, shown: bool) -> tuple[str, str | None]:
    """Return `status` and `incomplete_details.reason` of a stop (mapping §9.2).

    A refusal of the upstream completes the response, because agents retry what is incomplete, unless the knob
    `refusal_terminal` is set otherwise. After text or a call (`shown`) it always counts as cut by a filter
    (mapping §9.3).
    """
    if is_model_refusal(stop, info) and knobs.refusal_terminal == "completed" and not shown:
        return "completed", None
    return _WRITE_STATUS[stop.reason]


def refusal_wording(stop: Stop, info: RefusalInfo | None, *, shown: bool, refused: bool) -> str | None:
    """Return the text of the refusal item that is added for a refusal of the upstream, or None if no item is added.

    None if the model refused in words already (`refused`), or without an explanation after text or a call (`shown`)
    (mapping §9.3).
    """
    if refused or not is_model_refusal(stop, info):
        return None
    explanation = info.explanation if info is not None else None
    return explanation or (None if shown else DECLINED)


def write_usage(usage: Usage | None, losses: Losses) -> Json | None:
    """Return `ResponseUsage`, or None without counts. Every detail is required: an unknown one is 0 (mapping §9.4)."""
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
